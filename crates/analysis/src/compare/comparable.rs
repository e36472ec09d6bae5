//! Checks whether two sides are comparable, and lists what differs between them.
//!
//! Model, machine, server, load and request settings are checked in this order. The first one that differs is the subject of
//! the comparison. Every other difference is a warning, or a note if it follows from the subject.

use serde::Serialize;
use serde_json::{Value, json};

use super::Group;
use ergometer_clients::Locality;
use ergometer_runs::Summary;
use ergometer_runs::config::RunConfig;
use ergometer_runs::saved::Run;
use ergometer_telemetry::SystemInfo;

/// The differences between two sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Comparability {
    /// A one-line verdict.
    pub verdict: String,
    /// Whether there are no warnings.
    pub is_comparable: bool,
    /// The differences.
    pub differences: Vec<Difference>,
    /// Problems of single runs.
    pub warnings: Vec<String>,
}

/// A difference between two sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The name of what differs.
    pub what: String,
    /// The value of the baseline.
    pub baseline: String,
    /// The value of the candidate.
    pub candidate: String,
    /// The role of the difference.
    pub role: Role,
}

/// The role of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The subject of the comparison.
    Subject,
    /// A possible cause of changes beside the subject.
    Warning,
    /// A consequence of the subject, or of little effect.
    Note,
}

/// A warning about a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// Differences beside the subject.
    Differs(String),
    /// A problem of one side, which the text names.
    Condition(String),
}

impl Warning {
    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Differs(text) | Self::Condition(text) => text,
        }
    }
}

/// A property of a run as JSON; null if unknown.
type Fact = fn(&Facts) -> Value;

/// Possible subjects of a comparison, most likely first, with the properties that identify each.
const SUBJECTS: &[(&str, &[(&str, Fact)])] = &[
    (
        "model",
        &[
            ("model", |facts| text_fact(&facts.summary.model)),
            ("fingerprint", |facts| json!(facts.summary.model_facts.fingerprint)),
        ],
    ),
    (
        "machine",
        &[
            ("hardware label", |facts| text_fact(&facts.summary.hardware_label)),
            ("cpu brand", |facts| json!(facts.system().and_then(|system| system.cpu_brand.as_ref()))),
            ("cpu count", |facts| json!(facts.system().and_then(|system| system.cpu_count))),
            ("gpu", |facts| json!(facts.summary.gpu_info.as_ref().map(|gpu| &gpu.name))),
        ],
    ),
    (
        "server",
        &[
            ("client", |facts| text_fact(&facts.summary.client)),
            ("software", |facts| json!(facts.summary.server.as_ref().map(|server| &server.software))),
            ("base url", |facts| json!(facts.config().and_then(|config| config.client.base_url.as_ref()))),
            ("place", |facts| json!(facts.summary.place.as_ref().map(locality_name))),
        ],
    ),
    ("load", &[("schedule", |facts| json!(facts.config().map(|config| config.schedule)))]),
    (
        "request",
        &[
            ("system prompt", |facts| json!(facts.config().map(|config| &config.request.system_prompt))),
            ("max tokens", |facts| json!(facts.config().map(|config| config.request.max_tokens))),
            ("parameters", |facts| json!(facts.config().map(|config| &config.request.parameters))),
            ("seed", |facts| json!(facts.config().map(|config| config.request.seed))),
            ("parameters", |facts| json!(facts.config().map(|config| &config.client.parameters))),
        ],
    ),
];

/// Other properties that should be equal.
const OTHERS: &[(&str, Fact)] = &[
    ("host", |facts| json!(facts.system().and_then(|system| system.host_name.as_ref()))),
    ("warm-up", |facts| json!(facts.config().map(|config| config.warmup))),
    ("grader", |facts| json!(facts.summary.accuracy.as_ref().map(|accuracy| &accuracy.grader))),
    ("judge", |facts| json!(facts.summary.judge.as_ref().map(|judge| &judge.model))),
    ("Ergometer version", |facts| json!(facts.summary.versions.get("ergometer"))),
    ("latency limits", |facts| json!(facts.config().map(|config| config.slo))),
    ("prices", |facts| json!(facts.config().map(|config| config.prices))),
];

/// The properties of a run.
struct Facts<'a> {
    summary: &'a Summary,
}

impl<'a> Facts<'a> {
    fn of_run(run: &'a Run) -> Self {
        Self { summary: &run.summary }
    }

    fn system(&self) -> Option<&'a SystemInfo> {
        self.summary.system_info.as_ref()
    }

    fn config(&self) -> Option<&'a RunConfig> {
        self.summary.profiler_config.known()
    }
}

/// Where the server runs, without the name of its host.
fn locality_name(locality: &Locality) -> &'static str {
    match locality {
        Locality::ThisProcess => "this_process",
        Locality::ThisMachine => "this_machine",
        Locality::Elsewhere { .. } => "elsewhere",
    }
}

/// A text; an empty one is absent.
fn text_fact(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { json!(text) }
}

/// Settings that are checked above or do not affect measurements.
const KNOWN_SETTINGS: &[&str] = &[
    "draw",
    "dataset",
    "client",
    "request",
    "grader",
    "judge",
    "max_queries",
    "duration_s",
    "schedule",
    "concurrency",
    "slo",
    "warmup",
    "devices",
    "prices",
    "name",
    "idle_s",
];

impl Comparability {
    pub(super) fn between(baseline: &Group<'_>, candidate: &Group<'_>) -> Self {
        let (first, second) = (&baseline.runs[0], &candidate.runs[0]);
        let mut differences = differences(first, second);
        let mut warnings = Vec::new();
        for group in [baseline, candidate] {
            warnings.extend(conditions(group));
        }
        let is_warned = differences.iter().any(|difference| difference.role == Role::Warning);
        let is_comparable = !is_warned && warnings.is_empty();
        let is_same = |what: &str| !differences.iter().any(|difference| difference.what.starts_with(what));
        let same_or_different =
            |what: &str, name: &str| format!("{} {name}", if is_same(what) { "same" } else { "different" });
        let energy = match (first.energy, second.energy) {
            (None, None) => String::from("no energy data"),
            _ => same_or_different("energy", "energy source"),
        };
        let parts =
            [same_or_different("dataset", "dataset"), same_or_different("machine", "machine"), energy].join(", ");
        let verdict = format!("{parts}: {}", if is_comparable { "comparable" } else { "compare with caution" });
        differences.sort_by_key(|difference| difference.role != Role::Subject);
        Self { verdict, is_comparable, differences, warnings }
    }

    /// The subject of the comparison, if something differs.
    #[must_use]
    pub fn subject(&self) -> Option<&Difference> {
        self.differences.iter().find(|difference| difference.role == Role::Subject)
    }

    /// All warnings.
    #[must_use]
    pub fn all_warnings(&self) -> Vec<Warning> {
        let differences = self.differences.iter().filter(|difference| difference.role == Role::Warning);
        let differing: Vec<String> = differences.map(Difference::text).collect();
        let also = if self.subject().is_some() { "the runs also differ in" } else { "the runs differ in" };
        let first = (!differing.is_empty())
            .then(|| format!("{also} the following, which may explain changes: {}", differing.join("; ")));
        let conditions = self.warnings.iter().cloned().map(Warning::Condition);
        first.map(Warning::Differs).into_iter().chain(conditions).collect()
    }
}

impl Difference {
    /// The text.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}: {}, {}", self.what, self.baseline, self.candidate)
    }
}

fn differences(first: &Run, second: &Run) -> Vec<Difference> {
    let mut found = Vec::new();
    let (one, two) = (Facts::of_run(first), Facts::of_run(second));
    let mut subject = None;
    for (what, facts) in SUBJECTS {
        // The first thing that differs tells the two apart best.
        let Some((name, fact)) = facts.iter().find(|(_, fact)| fact(&one) != fact(&two)) else { continue };
        let is_subject = subject.is_none();
        subject = subject.or(Some(*what));
        let (baseline, candidate) = (text(&fact(&one)), text(&fact(&two)));
        let what = if *what == "request" { format!("request's {name}") } else { (*what).to_owned() };
        found.push(Difference {
            what,
            baseline,
            candidate,
            role: if is_subject { Role::Subject } else { Role::Warning },
        });
    }
    let is_elsewhere = subject == Some("machine");
    found.extend(dataset(first, second));
    found.extend(queries(first, second));
    let (baseline, candidate) = (energy(first), energy(second));
    if baseline != candidate {
        // On another machine the sensors are other ones; but modelled joules are no measured ones anywhere.
        let role = if is_elsewhere && first.energy == second.energy { Role::Note } else { Role::Warning };
        found.push(Difference { what: String::from("energy source"), baseline, candidate, role });
    }
    for (what, fact) in OTHERS {
        let (one, two) = (fact(&one), fact(&two));
        let is_expected = is_elsewhere && *what == "host" || *what == "prices";
        if one != two {
            let role = if is_expected { Role::Note } else { Role::Warning };
            found.push(Difference { what: (*what).to_owned(), baseline: text(&one), candidate: text(&two), role });
        }
    }
    found.extend(settings(first, second));
    found
}

/// Whether the datasets differ. Synthetic datasets with the same settings count as equal, although their prompts differ.
fn dataset(first: &Run, second: &Run) -> Option<Difference> {
    let print = |run: &Run| Some(run.summary.dataset_fingerprint.clone()).filter(|print| !print.is_empty());
    let (one, two) = (print(first), print(second));
    if one == two && one.is_some() {
        return None;
    }
    let drawn = |run: &Run| {
        let mut spec = run.summary.profiler_config.known()?.dataset.clone();
        spec.parameters.remove("seed");
        (spec.id == "synthetic").then_some(spec)
    };
    if drawn(first).is_some() && drawn(first) == drawn(second) {
        let what = String::from("prompts");
        let other = String::from("different prompts of the same kind");
        return Some(Difference { what, baseline: String::from("synthetic"), candidate: other, role: Role::Note });
    }
    let name = |run: &Run, print: Option<String>| {
        let name = Some(run.summary.dataset_name.as_str()).filter(|name| !name.is_empty()).unwrap_or("unknown");
        let print: String = print.unwrap_or_default().chars().take(8).collect();
        format!("{name} {print}").trim_end().to_owned()
    };
    let (baseline, candidate) = (name(first, one), name(second, two));
    Some(Difference { what: String::from("dataset"), baseline, candidate, role: Role::Warning })
}

fn queries(first: &Run, second: &Run) -> Option<Difference> {
    let count = |run: &Run| run.queries.len();
    // A run by the clock has as many as it gets done: that is a result.
    let is_timed = |run: &Run| run.summary.profiler_config.known().is_some_and(|config| config.duration_s.is_some());
    let role = if is_timed(first) && is_timed(second) { Role::Note } else { Role::Warning };
    (count(first) != count(second)).then(|| Difference {
        what: String::from("number of queries"),
        baseline: count(first).to_string(),
        candidate: count(second).to_string(),
        role,
    })
}

/// The energy source with devices and sensors.
fn energy(run: &Run) -> String {
    let Some(source) = run.energy else { return String::from("none") };
    let devices = run.summary.energy.devices.iter().filter(|device| device.counts_for(source));
    let devices: Vec<String> = devices.map(|device| format!("{} by {}", device.device, device.provenance)).collect();
    format!("{} {}", source.name(), devices.join(", ")).trim_end().to_owned()
}

/// All other settings that differ.
fn settings(first: &Run, second: &Run) -> Vec<Difference> {
    let settings_of = |run: &Run| run.summary.profiler_config.settings();
    let (one, two) = (settings_of(first), settings_of(second));
    let mut names: Vec<&String> = one.keys().chain(two.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let differs = |name: &&String| {
        let known = KNOWN_SETTINGS.contains(&name.as_str());
        // What a version did not have yet is read as nothing.
        !known && one.get(*name).unwrap_or(&Value::Null) != two.get(*name).unwrap_or(&Value::Null)
    };
    let value =
        |settings: &serde_json::Map<String, Value>, name: &str| text(settings.get(name).unwrap_or(&Value::Null));
    let difference = |name: &String| Difference {
        what: format!("setting {name}"),
        baseline: value(&one, name),
        candidate: value(&two, name),
        role: Role::Warning,
    };
    names.into_iter().filter(differs).map(difference).collect()
}

/// Problems of one side: incomplete runs, client-limited runs, repeats that differ.
fn conditions(group: &Group<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for run in group.runs {
        let name = if group.runs.len() == 1 { group.label.to_owned() } else { run.name() };
        if !run.summary.complete {
            found.push(format!("{name} is incomplete: it ended before all of its queries were done"));
        }
        if run.summary.load.as_ref().is_some_and(|load| load.client_limited) {
            found.push(format!("{name} was limited by its client, so its results may not reflect the server"));
        }
    }
    for run in group.runs.iter().skip(1) {
        let own = differences(&group.runs[0], run);
        for difference in own.iter().filter(|difference| difference.role != Role::Note) {
            let Difference { what, baseline, candidate, .. } = difference;
            found.push(format!("the runs of {} differ: {what} {baseline}, {candidate}", group.label));
        }
    }
    found
}

/// Formats a JSON value for people.
fn text(value: &Value) -> String {
    let text = match value {
        Value::Null => String::from("none"),
        Value::String(text) => text.clone(),
        Value::Object(fields) if fields.contains_key("mode") => {
            let mode = fields["mode"].as_str().unwrap_or_default();
            let rest = fields.iter().filter(|(name, value)| *name != "mode" && !value.is_null());
            let rest =
                rest.map(|(name, value)| if name == mode { value.to_string() } else { format!("{name} {value}") });
            format!("{mode} {}", rest.collect::<Vec<_>>().join(", ")).trim_end().to_owned()
        }
        other => other.to_string(),
    };
    if text.chars().count() <= 48 { text } else { text.chars().take(47).chain(['…']).collect() }
}
