//! `summary.json`: what ran, on what, with which versions, and what it came to.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use ergometer_telemetry::sensors::host::SystemInfo;
use ergometer_telemetry::{DeviceId, Provenance, Scope};
use serde::Serialize;

use super::intelligence::intelligence;
use super::session::Metered;
use super::tally::{EnergyTally, Tally};
use super::{CloseError, Warning};
use crate::analysis::{Distribution, proportion_interval};
use crate::attribution::Balance;
use crate::client::{ModelFacts, Place};
use crate::config::RunConfig;
use crate::journal::{Closing, Manifest};
use crate::record::GpuColumn;
use crate::store::write_json;

/// The version of `summary.json`.
const VERSION: u32 = 1;

/// What a run came to. The first fields are those that tools written for intelligence-per-watt read.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the fields are named by the layout")]
pub struct Summary {
    pub model: String,
    pub profiler_config: RunConfig,
    pub dataset: String,
    pub dataset_name: String,
    pub hardware_label: String,
    pub generated_at: f64,
    pub total_queries: u64,
    pub system_info: Option<SystemInfo>,
    pub gpu_info: Option<GpuColumn>,
    pub output_dir: String,
    pub versions: BTreeMap<&'static str, String>,
    pub format_version: u32,
    /// Whether every query that was asked for has its record.
    pub complete: bool,
    pub closing: Option<Closing>,
    pub sessions: usize,
    /// From the first request's start to the last one's end, in seconds, over the sessions.
    pub duration_s: f64,
    pub client: String,
    pub place: Place,
    pub model_facts: ModelFacts,
    pub dataset_fingerprint: String,
    pub outcomes: Outcomes,
    pub accuracy: Option<Accuracy>,
    pub latency: LatencySummary,
    pub tokens: TokenSummary,
    pub energy: EnergySummary,
    pub intelligence: Option<IntelligenceSummary>,
    pub cost_usd: Option<f64>,
    pub warnings: Vec<String>,
}

/// A value and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[expect(missing_docs, reason = "a value and the ends of its interval")]
pub struct Figure {
    pub value: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
}

/// How the requests ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "named by the outcomes")]
pub struct Outcomes {
    pub completed: u64,
    pub failed: BTreeMap<&'static str, u64>,
    pub cancelled: u64,
    pub lost: u64,
}

/// How many answers were right. The interval is Wilson's.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "counts, their ratio, and the same by subject")]
pub struct Accuracy {
    pub grader: String,
    pub correct: u64,
    pub graded: u64,
    pub rate: Figure,
    pub by_subject: BTreeMap<String, SubjectAccuracy>,
}

/// How many answers of one subject were right.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "counts and their ratio")]
pub struct SubjectAccuracy {
    pub correct: u64,
    pub graded: u64,
    pub rate: Figure,
}

/// Latencies of the requests that completed, in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "named in METRICS")]
pub struct LatencySummary {
    pub ttft_ms: Option<Distribution>,
    pub tpot_ms: Option<Distribution>,
    pub e2e_ms: Option<Distribution>,
    pub schedule_lag_ms: Option<Distribution>,
}

/// Tokens of all records.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "counts and rates")]
pub struct TokenSummary {
    pub input: u64,
    pub output: u64,
    /// Of how many requests they are known.
    pub requests: u64,
    pub source: Option<&'static str>,
    pub output_per_second: Option<f64>,
    pub requests_per_second: Option<f64>,
    /// Output tokens over the time that these requests themselves took.
    pub output_per_request_second: Option<f64>,
}

/// Energy of the run's duration. What was measured and what was modelled are never added.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "two totals and their parts")]
pub struct EnergySummary {
    pub measured: Option<EnergyTotals>,
    pub modelled: Option<EnergyTotals>,
    pub devices: Vec<DeviceSummary>,
    pub queries_without_energy: u64,
    /// The processor time of the threads that ran the embedded model.
    pub processor_s: Option<f64>,
}

/// The energy of several devices.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "units are in the names")]
pub struct EnergyTotals {
    pub gross_j: Figure,
    pub net_j: Option<Figure>,
    pub mean_power_w: f64,
    /// The mean over the queries that have energy.
    pub gross_j_per_query: Figure,
    pub net_j_per_query: Option<Figure>,
    pub gross_j_per_output_token: Option<f64>,
    pub net_j_per_output_token: Option<f64>,
    pub gross_j_per_token: Option<f64>,
    pub net_j_per_token: Option<f64>,
    pub balance: BalanceSummary,
}

/// The energy of one device and scope.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "units are in the names")]
pub struct DeviceSummary {
    pub device: DeviceId,
    pub name: String,
    pub scope: Scope,
    pub provenance: Provenance,
    pub summed: bool,
    pub gross_j: Figure,
    pub idle_w: Vec<f64>,
    pub balance: BalanceSummary,
}

/// Where the energy went: requests + idle + unattributed = meter.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[expect(missing_docs, reason = "units are in the names")]
pub struct BalanceSummary {
    pub requests_j: f64,
    pub idle_j: f64,
    pub unattributed_j: f64,
    pub meter_j: f64,
    /// What of the requests' energy is in no record: that of cancelled requests, of those lost with a kill, and of such as
    /// reach outside of the data.
    pub unrecorded_j: f64,
    /// How long there was no data.
    pub unknown_s: f64,
}

/// Right answers per joule and per watt.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "named in METRICS")]
pub struct IntelligenceSummary {
    pub per_joule: Figure,
    /// The same with the meter's own interval in it.
    pub per_joule_with_meter: Figure,
    pub per_watt: Figure,
    pub per_watt_with_meter: Figure,
    /// `measured` or `modelled`.
    pub energy: &'static str,
}

impl Summary {
    /// Writes `summary.json`.
    pub(super) fn write(&self, folder: &Path) -> Result<(), CloseError> {
        Ok(write_json(&folder.join("summary.json"), self)?)
    }
}

/// Puts everything together.
pub(super) fn summarise(
    folder: &Path,
    manifest: &Manifest,
    sessions: &[Metered],
    tally: &Tally,
) -> (Summary, Vec<Warning>) {
    let duration_s: f64 =
        sessions.iter().filter_map(|session| session.window).map(|window| window.length().get()).sum();
    let (devices, measured, modelled) = energy(sessions, tally, duration_s);
    let primary = measured.as_ref().map(|totals| (totals, false)).or(modelled.as_ref().map(|totals| (totals, true)));
    let intelligence = primary.and_then(|(totals, is_modelled)| {
        // What lay between the requests and in silences is charged to recorded and unrecorded ones alike.
        let balance = totals.balance;
        let share = if balance.requests_j > 0.0 { 1.0 - balance.unrecorded_j / balance.requests_j } else { 1.0 };
        let gross = totals.gross_j.times(share);
        let seconds = gross.value / totals.mean_power_w;
        intelligence(tally, gross, seconds, is_modelled, manifest.config.request.seed)
    });
    let closing = sessions.last().and_then(|session| session.loaded.events.closed);
    let wanted = match (manifest.dataset.size, manifest.config.max_queries) {
        (Some(size), Some(most)) => Some(size.min(most)),
        (size, most) => size.or(most),
    };
    let records = tally.records();
    let complete = closing == Some(Closing::Duration) || wanted.is_some_and(|wanted| records >= wanted);
    let per_second = |count: u64| (duration_s > 0.0).then(|| count as f64 / duration_s);
    let energy = EnergySummary {
        measured,
        modelled,
        devices,
        queries_without_energy: tally.without_energy,
        processor_s: tally.processor_time.map(ergometer_units::Seconds::get),
    };
    let warnings = warnings(folder, manifest, sessions, tally, &energy, (complete, closing));
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let place_is_here = super::is_ours(manifest);
    let summary = Summary {
        model: manifest.config.client.model.clone(),
        profiler_config: manifest.config.clone(),
        dataset: manifest.dataset.id.clone(),
        dataset_name: manifest.dataset.name.clone(),
        hardware_label: manifest.hardware_label.clone(),
        generated_at: since_epoch.as_secs_f64(),
        total_queries: records,
        system_info: place_is_here.then(|| manifest.system_info.clone()),
        gpu_info: super::records::counted_gpu(manifest),
        output_dir: folder.display().to_string(),
        versions: BTreeMap::from([
            ("ergometer", String::from(env!("CARGO_PKG_VERSION"))),
            ("ergometer_at_start", manifest.ergometer.clone()),
        ]),
        format_version: VERSION,
        complete,
        closing,
        sessions: sessions.len(),
        duration_s,
        client: manifest.config.client.id.clone(),
        place: manifest.place.clone(),
        model_facts: manifest.model.clone(),
        dataset_fingerprint: manifest.dataset.fingerprint.clone(),
        outcomes: Outcomes {
            completed: tally.completed,
            failed: tally.failed.clone(),
            cancelled: tally.cancelled,
            lost: sessions.iter().map(|session| session.loaded.events.lost.len() as u64).sum(),
        },
        accuracy: accuracy(manifest, tally),
        latency: LatencySummary {
            ttft_ms: Distribution::of(&tally.ttft_ms),
            tpot_ms: Distribution::of(&tally.tpot_ms),
            e2e_ms: Distribution::of(&tally.e2e_ms),
            schedule_lag_ms: Distribution::of(&tally.schedule_lag_ms),
        },
        tokens: TokenSummary {
            input: tally.input_tokens,
            output: tally.output_tokens,
            requests: tally.counted,
            source: tally.token_source,
            output_per_second: per_second(tally.output_tokens),
            requests_per_second: per_second(records),
            output_per_request_second: (tally.request_seconds > 0.0)
                .then(|| tally.output_tokens as f64 / tally.request_seconds),
        },
        energy,
        intelligence,
        cost_usd: tally.cost_usd,
        warnings: warnings.iter().map(ToString::to_string).collect(),
    };
    (summary, warnings)
}

fn accuracy(manifest: &Manifest, tally: &Tally) -> Option<Accuracy> {
    let rate = |correct: u64, graded: u64| {
        let interval = proportion_interval(correct, graded);
        Figure {
            value: correct as f64 / graded as f64,
            low: interval.map(|interval| interval.low),
            high: interval.map(|interval| interval.high),
        }
    };
    let by_subject = tally.subjects.iter().map(|(subject, &(correct, graded))| {
        (subject.clone(), SubjectAccuracy { correct, graded, rate: rate(correct, graded) })
    });
    (tally.graded > 0).then(|| Accuracy {
        grader: manifest.grader.clone(),
        correct: tally.correct,
        graded: tally.graded,
        rate: rate(tally.correct, tally.graded),
        by_subject: by_subject.collect(),
    })
}

type Energy = (Vec<DeviceSummary>, Option<EnergyTotals>, Option<EnergyTotals>);

/// The energy of each device over all sessions, and of all measured and all modelled ones.
fn energy(sessions: &[Metered], tally: &Tally, duration_s: f64) -> Energy {
    let mut devices: Vec<(DeviceSummary, Option<Figure>)> = Vec::new();
    for session in sessions {
        for (number, place) in session.sharing.places().enumerate() {
            let gross = session.gross(number);
            let balance = BalanceSummary {
                unrecorded_j: session.unrecorded[number],
                ..BalanceSummary::from(session.sharing.balance(number))
            };
            let net = session.idle[number].at(session.middle()).map(|(power, margin)| {
                let seconds = session.seconds() - balance.unknown_s;
                gross.less(power.get() * seconds, margin.get() * seconds)
            });
            let known =
                devices.iter_mut().find(|(known, _)| (known.device, known.scope) == (place.device, place.scope));
            let idle_w = session.idle[number].powers().map(ergometer_units::Watts::get);
            match known {
                Some((known, known_net)) => {
                    known.gross_j = known.gross_j.plus(gross);
                    known.balance = known.balance.plus(balance);
                    known.idle_w.extend(idle_w);
                    *known_net = known_net.zip(net).map(|(one, other)| one.plus(other));
                }
                None => devices.push((
                    DeviceSummary {
                        device: place.device,
                        name: session.loaded.timeline.device_name(place.device).unwrap_or_default().to_owned(),
                        scope: place.scope,
                        provenance: place.provenance,
                        summed: place.summed,
                        gross_j: gross,
                        idle_w: idle_w.collect(),
                        balance,
                    },
                    net,
                )),
            }
        }
    }
    let totals = |is_part: &dyn Fn(&DeviceSummary) -> bool, tally: EnergyTally| {
        let parts: Vec<_> = devices.iter().filter(|(device, _)| is_part(device)).collect();
        let gross = parts.iter().map(|(device, _)| device.gross_j).reduce(Figure::plus)?;
        let nets: Option<Vec<Figure>> = parts.iter().map(|(_, net)| *net).collect();
        let net = nets.and_then(|nets| nets.into_iter().reduce(Figure::plus));
        let mut balance = parts.iter().map(|(device, _)| device.balance).reduce(BalanceSummary::plus)?;
        // Devices are without data at the same time at best; the longest of them is what is not known.
        let unknown = parts.iter().map(|(device, _)| device.balance.unknown_s).fold(0.0, f64::max);
        balance.unknown_s = unknown;
        (gross.value > 0.0).then(|| EnergyTotals::new(gross, net, balance, tally, duration_s - unknown))
    };
    let measured = totals(&|device| device.summed, tally.measured);
    let modelled = totals(&|device| device.provenance == Provenance::Modelled, tally.modelled);
    (devices.into_iter().map(|(device, _)| device).collect(), measured, modelled)
}

impl EnergyTotals {
    /// Figures by query and by token are of the queries that have energy, and of nothing else; their intervals are as
    /// wide, relative to the energy, as the run's.
    fn new(gross: Figure, net: Option<Figure>, balance: BalanceSummary, tally: EnergyTally, seconds: f64) -> Self {
        let queries = tally.queries.max(1) as f64;
        let net_of_queries = (tally.with_net == tally.queries && tally.queries > 0).then_some(tally.net);
        let per = |joules: f64, count: u64| (count > 0).then(|| joules / count as f64);
        let all_tokens = tally.input_tokens + tally.output_tokens;
        let share = tally.gross / gross.value;
        Self {
            gross_j: gross,
            net_j: net,
            mean_power_w: gross.value / seconds,
            gross_j_per_query: gross.times(share / queries),
            net_j_per_query: net_of_queries.map(|joules| {
                let half = net.and_then(|net| Some((net.high? - net.low?) / 2.0 * share / queries));
                let value = joules / queries;
                Figure { value, low: half.map(|half| value - half), high: half.map(|half| value + half) }
            }),
            gross_j_per_output_token: per(tally.gross_with_tokens, tally.output_tokens),
            net_j_per_output_token: net_of_queries.and_then(|_| per(tally.net_with_tokens, tally.output_tokens)),
            gross_j_per_token: per(tally.gross_with_tokens, all_tokens),
            net_j_per_token: net_of_queries.and_then(|_| per(tally.net_with_tokens, all_tokens)),
            balance,
        }
    }
}

impl Figure {
    /// Intervals add end to end: sensors of one make err alike.
    fn plus(self, other: Self) -> Self {
        let both = |one: Option<f64>, other: Option<f64>| one.zip(other).map(|(one, other)| one + other);
        Self { value: self.value + other.value, low: both(self.low, other.low), high: both(self.high, other.high) }
    }

    /// Less something that is itself only known to a margin.
    fn less(self, other: f64, margin: f64) -> Self {
        let value = self.value - other;
        let half = |end: Option<f64>| end.map(|end| (end - self.value).hypot(margin));
        Self { value, low: half(self.low).map(|half| value - half), high: half(self.high).map(|half| value + half) }
    }

    fn times(self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            low: self.low.map(|low| low * factor),
            high: self.high.map(|high| high * factor),
        }
    }
}

impl From<Balance> for BalanceSummary {
    fn from(balance: Balance) -> Self {
        Self {
            requests_j: balance.requests.get(),
            idle_j: balance.idle.get(),
            unattributed_j: balance.unattributed.get(),
            meter_j: balance.meter().get(),
            unrecorded_j: 0.0,
            unknown_s: balance.unknown.get(),
        }
    }
}

impl BalanceSummary {
    fn plus(self, other: Self) -> Self {
        Self {
            requests_j: self.requests_j + other.requests_j,
            idle_j: self.idle_j + other.idle_j,
            unattributed_j: self.unattributed_j + other.unattributed_j,
            meter_j: self.meter_j + other.meter_j,
            unrecorded_j: self.unrecorded_j + other.unrecorded_j,
            unknown_s: self.unknown_s + other.unknown_s,
        }
    }
}

fn warnings(
    folder: &Path,
    manifest: &Manifest,
    sessions: &[Metered],
    tally: &Tally,
    energy: &EnergySummary,
    (complete, closing): (bool, Option<Closing>),
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (&failure, &count) in &tally.failed {
        let cause = tally.causes.get(failure).cloned().unwrap_or_default();
        warnings.push(Warning::Failures { failure: failure.to_owned(), count, cause });
    }
    if !complete {
        let why = match closing {
            Some(Closing::Interrupted) => "it was interrupted",
            Some(Closing::TooManyFailures) => "too many requests failed",
            Some(Closing::Unwritable) => "it could not be written any more",
            Some(Closing::Unreadable) => "the dataset could not be read any more",
            Some(Closing::Finished | Closing::Duration) | None => "it was cut off",
        };
        warnings.push(Warning::Unfinished { folder: folder.to_path_buf(), why });
    }
    match (&manifest.place, &energy.measured, &energy.modelled) {
        (Place::Elsewhere { host }, ..) => warnings.push(Warning::Elsewhere { host: host.clone() }),
        (_, None, None) => warnings.push(Warning::NoEnergy),
        (_, None, Some(_)) => warnings.push(Warning::Modelled),
        (_, Some(_), _) => {}
    }
    let totals = energy.measured.as_ref().or(energy.modelled.as_ref());
    if let Some(totals) = totals {
        if totals.net_j.is_none() {
            warnings.push(Warning::NoIdle);
        }
        let share = totals.balance.unattributed_j / totals.balance.meter_j;
        if share > 0.001 {
            warnings.push(Warning::Unattributed { share });
        }
        if tally.without_energy > 0 {
            warnings.push(Warning::WithoutEnergy { count: tally.without_energy });
        }
    }
    if tally.ungradable > 0 {
        warnings.push(Warning::Ungradable { count: tally.ungradable, grader: manifest.grader.clone() });
    }
    if tally.too_short > 0 {
        warnings.push(Warning::TooShort { count: tally.too_short, of: tally.records() });
    }
    let lines: u64 = sessions.iter().map(|session| session.loaded.events.damaged_lines).sum();
    if lines > 0 {
        warnings.push(Warning::Damaged { lines });
    }
    for session in sessions {
        if let Some(cause) = &session.loaded.unreadable {
            warnings.push(Warning::Readings { session: session.loaded.number, cause: cause.clone() });
        }
    }
    let mut told: Vec<String> = Vec::new();
    for event in sessions.iter().flat_map(|session| session.loaded.timeline.events()) {
        if !told.contains(&event.message) {
            told.push(event.message.clone());
        }
    }
    warnings.extend(told.into_iter().map(|message| Warning::Sensor { message }));
    warnings
}
