//! Checks whether two sides are comparable, and lists what differs between them.
//!
//! Model, machine, server, load and request settings are checked in this order. The first one that differs is the subject of
//! the comparison. Every other difference is a warning, or a note if it follows from the subject.

use serde::Serialize;
use serde_json::{Value, json};

use super::Group;
use super::settings::settings;
use ergometer_clients::Locality;
use ergometer_runs::Summary;
use ergometer_runs::config::{LimitedMetric, RunConfig, Schedule, Slo};
use ergometer_runs::saved::Run;
use ergometer_runs::sweep::label;
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
    ("load", &[("schedule", |facts| json!(facts.config().map(|config| schedule_text(config.schedule))))]),
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
    ("latency limits", |facts| facts.config().map_or(Value::Null, |config| limits_fact(&config.slo))),
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

/// Latency limits in the syntax of `--slo`, such as `ttft=200ms,e2e=5s`; null if there are none.
fn limits_fact(slo: &Slo) -> Value {
    let limit = |metric: LimitedMetric| {
        let (name, micros) = (metric.name(), (slo.limit(metric)? * 1e6).round());
        Some(if micros < 1e6 { format!("{name}={}ms", micros / 1e3) } else { format!("{name}={}s", micros / 1e6) })
    };
    let limits: Vec<String> = LimitedMetric::ALL.into_iter().filter_map(limit).collect();
    text_fact(&limits.join(","))
}

fn schedule_text(schedule: Schedule) -> String {
    match schedule {
        Schedule::Rate { arrivals, .. } => format!("{}, arrivals {arrivals}", label(&schedule)),
        Schedule::Replay { speed } => format!("replay speed {speed}"),
        Schedule::Concurrency { .. } => label(&schedule),
    }
}

impl Comparability {
    pub(super) fn between(baseline: &Group<'_>, candidate: &Group<'_>) -> Self {
        let (first, second) = (&baseline.runs[0], &candidate.runs[0]);
        let mut differences = differences(first, second);
        let conditions: Vec<Condition> = [baseline, candidate].into_iter().flat_map(conditions).collect();
        let differing = differences.iter().filter(|difference| difference.role == Role::Warning);
        let mut reasons: Vec<String> = differing.map(|difference| format!("different {}", difference.what)).collect();
        reasons.extend(conditions.iter().map(|condition| condition.short.clone()));
        reasons.dedup();
        let is_comparable = reasons.is_empty();
        let verdict = if is_comparable {
            let has_energy = first.energy.is_some() || second.energy.is_some();
            format!("{}: comparable", checked(&differences, has_energy))
        } else {
            format!("compare with caution: {}", reasons.join(", "))
        };
        differences.sort_by_key(|difference| difference.role != Role::Subject);
        let warnings = conditions.into_iter().map(|condition| condition.text).collect();
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
        format!("{}: {} → {}", self.what, self.baseline, self.candidate)
    }
}

/// A problem of one side.
struct Condition {
    /// The problem alone.
    short: String,
    /// The problem and its meaning.
    text: String,
}

/// Whether dataset, machine and energy source are the same.
fn checked(differences: &[Difference], has_energy: bool) -> String {
    let is_same = |what: &str| !differences.iter().any(|difference| difference.what.starts_with(what));
    let same_or_different =
        |what: &str, name: &str| format!("{} {name}", if is_same(what) { "same" } else { "different" });
    let energy = if has_energy { same_or_different("energy", "energy source") } else { String::from("no energy data") };
    [same_or_different("dataset", "dataset"), same_or_different("machine", "machine"), energy].join(", ")
}

fn differences(first: &Run, second: &Run) -> Vec<Difference> {
    let mut found = Vec::new();
    let (one, two) = (Facts::of_run(first), Facts::of_run(second));
    let mut subject = None;
    for (what, facts) in SUBJECTS {
        // The first property that differs describes the difference best.
        let Some((name, fact)) = facts.iter().find(|(_, fact)| fact(&one) != fact(&two)) else { continue };
        let is_subject = subject.is_none();
        subject = subject.or(Some(*what));
        let (baseline, candidate) = (text(&fact(&one)), text(&fact(&two)));
        let what = if *what == "request" { format!("{name} of requests") } else { (*what).to_owned() };
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
        // Another machine has other sensors, which is only a note; measured against modelled energy is always a
        // warning.
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
    // A run with a fixed duration completes as many queries as it can: the number is a result.
    let is_timed = |run: &Run| run.summary.profiler_config.known().is_some_and(|config| config.duration_s.is_some());
    let role = if is_timed(first) && is_timed(second) { Role::Note } else { Role::Warning };
    (count(first) != count(second)).then(|| Difference {
        what: String::from("number of queries"),
        baseline: count(first).to_string(),
        candidate: count(second).to_string(),
        role,
    })
}

/// The energy source of each device, such as `gpu:0 measured (counter)` or `cpu:0 modelled`.
fn energy(run: &Run) -> String {
    let Some(source) = run.energy else { return String::from("none") };
    let name = source.name();
    let devices = run.summary.energy.devices.iter().filter(|device| device.counts_for(source));
    let devices: Vec<String> = devices
        .map(|device| {
            let provenance = device.provenance.to_string();
            let sensor = if provenance == name { String::new() } else { format!(" ({provenance})") };
            format!("{} {name}{sensor}", device.device)
        })
        .collect();
    if devices.is_empty() { name.to_owned() } else { devices.join(" + ") }
}

/// Problems of one side: incomplete runs, client-limited runs, repeats that differ.
fn conditions(group: &Group<'_>) -> Vec<Condition> {
    let mut found = Vec::new();
    for run in group.runs {
        let name = if group.runs.len() == 1 { group.label.to_owned() } else { run.name() };
        if !run.summary.complete {
            let short = format!("{name} is incomplete");
            found.push(Condition { text: format!("{short}: it ended before all of its queries were done"), short });
        }
        if run.summary.load.as_ref().is_some_and(|load| load.client_limited) {
            let short = format!("{name} was limited by its client");
            found.push(Condition { text: format!("{short}, so its results may not reflect the server"), short });
        }
    }
    for run in group.runs.iter().skip(1) {
        let own = differences(&group.runs[0], run);
        for difference in own.iter().filter(|difference| difference.role != Role::Note) {
            let short = format!("the runs of {} differ", group.label);
            found.push(Condition { text: format!("{short} in {}", difference.text()), short });
        }
    }
    found
}

/// Formats a JSON value for people.
pub(super) fn text(value: &Value) -> String {
    let text = match value {
        Value::Null => String::from("none"),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.chars().count() <= 48 { text } else { text.chars().take(47).chain(['…']).collect() }
}

#[cfg(test)]
mod tests {
    use ergometer_runs::config::Arrivals;

    use super::*;

    #[test]
    fn schedules_are_named_with_their_parameters() {
        let schedules = [
            Schedule::Concurrency { concurrency: 4 },
            Schedule::Rate { rate: 2.5, arrivals: Arrivals::Gamma(0.5) },
            Schedule::Replay { speed: 2.0 },
        ];
        assert_eq!(schedules.map(schedule_text), ["concurrency 4", "rate 2.5, arrivals gamma:0.5", "replay speed 2"]);
    }
}
