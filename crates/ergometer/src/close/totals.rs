//! Sums the energy of a run: by device, over all measured and all modelled devices, per query and per token.

use ergometer_runs::summary::{BalanceSummary, DeviceSummary, EnergySummary, EnergyTotals};
use ergometer_statistics::Estimate;
use ergometer_telemetry::Provenance;

use super::session::MeteredSession;
use super::tally::{EnergyTally, Tally};
use crate::attribution::{Balance, MeteredScope};

/// A device over the sessions so far.
struct DeviceTotals {
    summary: DeviceSummary,
    net: Option<Estimate>,
    balance: BalanceSummary,
    /// The sessions with requests.
    sessions: usize,
}

impl DeviceTotals {
    fn new(session: &MeteredSession, place: MeteredScope) -> Self {
        let summary = DeviceSummary {
            device: place.device,
            name: session.loaded.timeline.device_name(place.device).unwrap_or_default().to_owned(),
            scope: place.scope,
            provenance: place.provenance,
            summed: place.summed,
            gross_j: None,
            idle_w: Vec::new(),
            balance: None,
        };
        Self { summary, net: None, balance: BalanceSummary::default(), sessions: 0 }
    }

    /// Adds a session with requests.
    fn add_session(&mut self, gross: Option<Estimate>, net: Option<Estimate>, balance: BalanceSummary) {
        if self.sessions == 0 {
            (self.summary.gross_j, self.net) = (gross, net);
        } else {
            self.summary.gross_j = match (self.summary.gross_j, gross) {
                (Some(one), Some(other)) => Some(add(one, other)),
                // The energy of one of them is unknown, so the sum has no interval.
                (known, other) => known.or(other).map(|known| Estimate { value: known.value, low: None, high: None }),
            };
            self.net = self.net.zip(net).map(|(one, other)| add(one, other));
        }
        self.balance = self.balance + balance;
        self.sessions += 1;
    }
}

/// The energy of each device over all sessions, and the totals of measured and of modelled devices.
pub(super) fn energy(sessions: &[MeteredSession], tally: &Tally, duration_s: f64) -> EnergySummary {
    let devices = device_totals(sessions);
    let totals = |is_part: &dyn Fn(&DeviceSummary) -> bool, tally: EnergyTally| {
        let parts: Vec<&DeviceTotals> = devices.iter().filter(|device| is_part(&device.summary)).collect();
        let grosses: Option<Vec<Estimate>> = parts.iter().map(|part| part.summary.gross_j).collect();
        let gross = grosses?.into_iter().reduce(add)?;
        let nets: Option<Vec<Estimate>> = parts.iter().map(|part| part.net).collect();
        let net = nets.and_then(|nets| nets.into_iter().reduce(add));
        let mut balance = parts.iter().map(|part| part.balance).reduce(std::ops::Add::add)?;
        // Gaps of several devices overlap at best, so the longest is the unknown time.
        let unknown = parts.iter().map(|part| part.balance.unknown_s).fold(0.0, f64::max);
        balance.unknown_s = unknown;
        // Without a query that has energy, the energy per query is unknown.
        let is_known = gross.value > 0.0 && tally.queries > 0;
        is_known.then(|| energy_totals(gross, net, balance, tally, duration_s - unknown))
    };
    let mut measured = totals(&|device| device.summed, tally.measured);
    let mut modelled = totals(&|device| device.provenance == Provenance::Modelled, tally.modelled);
    // The attribution is of the measured devices, or of the modelled ones if none is measured.
    if let Some(totals) = measured.as_mut().or(modelled.as_mut()) {
        (totals.prefill_j_per_input_token, totals.decode_j_per_output_token) = tally.attribution.per_token();
    }
    let summaries = devices.into_iter().map(|DeviceTotals { summary, balance, .. }| {
        let balance = summary.gross_j.map(|_| balance);
        DeviceSummary { balance, ..summary }
    });
    EnergySummary {
        measured,
        modelled,
        devices: summaries.collect(),
        queries_without_energy: tally.without_energy,
        processor_s: tally.processor_time.map(ergometer_units::Seconds::get),
    }
}

/// Adds up the sessions of each device.
fn device_totals(sessions: &[MeteredSession]) -> Vec<DeviceTotals> {
    let mut devices: Vec<DeviceTotals> = Vec::new();
    for session in sessions {
        for (number, place) in session.sharing.scopes().enumerate() {
            let gross = session.gross(number);
            let balance = BalanceSummary {
                retried_j: session.unrecorded[number].retried,
                unrecorded_j: session.unrecorded[number].other,
                ..summarise_balance(session.sharing.balance(number))
            };
            let idle = session.idle[number].at(session.middle());
            let net = gross.zip(idle).map(|(gross, (power, margin))| {
                let seconds = session.seconds() - balance.unknown_s;
                subtract(gross, power.get() * seconds, margin.get() * seconds)
            });
            let idle_w = session.idle[number].powers().map(ergometer_units::Watts::get);
            let is_same =
                |known: &DeviceTotals| (known.summary.device, known.summary.scope) == (place.device, place.scope);
            let index = devices.iter().position(is_same).unwrap_or_else(|| {
                devices.push(DeviceTotals::new(session, place));
                devices.len() - 1
            });
            devices[index].summary.idle_w.extend(idle_w);
            if session.window.is_some() {
                devices[index].add_session(gross, net, balance);
            }
        }
    }
    devices
}

/// Estimates per query and per token cover only the queries that have energy. Their intervals have the same relative
/// width as the interval of the run.
fn energy_totals(
    gross: Estimate,
    net: Option<Estimate>,
    balance: BalanceSummary,
    tally: EnergyTally,
    seconds: f64,
) -> EnergyTotals {
    let queries = tally.queries.max(1) as f64;
    let net_of_queries = (tally.with_net == tally.queries && tally.queries > 0).then_some(tally.net);
    let per = |joules: f64, count: u64| (count > 0).then(|| joules / count as f64);
    let all_tokens = tally.input_tokens + tally.output_tokens;
    let share = tally.gross / gross.value;
    EnergyTotals {
        gross_j: gross,
        net_j: net,
        mean_power_w: gross.value / seconds,
        gross_j_per_query: gross.times(share / queries),
        net_j_per_query: net_of_queries.map(|joules| {
            let half = net.and_then(|net| Some((net.high? - net.low?) / 2.0 * share / queries));
            let value = joules / queries;
            Estimate { value, low: half.map(|half| value - half), high: half.map(|half| value + half) }
        }),
        gross_j_per_output_token: per(tally.gross_with_tokens, tally.output_tokens),
        net_j_per_output_token: net_of_queries.and_then(|_| per(tally.net_with_tokens, tally.output_tokens)),
        gross_j_per_token: per(tally.gross_with_tokens, all_tokens),
        net_j_per_token: net_of_queries.and_then(|_| per(tally.net_with_tokens, all_tokens)),
        prefill_j_per_input_token: None,
        decode_j_per_output_token: None,
        balance,
    }
}

fn summarise_balance(balance: Balance) -> BalanceSummary {
    BalanceSummary {
        requests_j: balance.requests.get(),
        idle_j: balance.idle.get(),
        unattributed_j: balance.unattributed.get(),
        meter_j: balance.meter().get(),
        unrecorded_j: 0.0,
        retried_j: 0.0,
        unknown_s: balance.unknown.get(),
    }
}

/// The sum of two estimates. The ends of the intervals add up, because sensors of the same make have correlated errors.
pub(super) fn add(one: Estimate, other: Estimate) -> Estimate {
    let both = |one: Option<f64>, other: Option<f64>| one.zip(other).map(|(one, other)| one + other);
    Estimate { value: one.value + other.value, low: both(one.low, other.low), high: both(one.high, other.high) }
}

/// An estimate minus a value with its own margin.
fn subtract(from: Estimate, other: f64, margin: f64) -> Estimate {
    let value = from.value - other;
    let half = |end: Option<f64>| end.map(|end| (end - from.value).hypot(margin));
    Estimate { value, low: half(from.low).map(|half| value - half), high: half(from.high).map(|half| value + half) }
}
