//! The energy of a run: of each device, of all that were measured, of all that were modelled; where it went, and what it
//! comes to for a query and for a token.

use ergometer_telemetry::{DeviceId, Provenance, Scope};
use serde::Serialize;

use super::session::Metered;
use super::tally::{EnergyTally, Tally};
use crate::attribution::Balance;

/// A value and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[expect(missing_docs, reason = "a value and the ends of its interval")]
pub struct Figure {
    pub value: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
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
    /// That of attempts that failed and were followed by another; in no record either.
    pub retried_j: f64,
    /// How long there was no data.
    pub unknown_s: f64,
}

/// The energy of each device over all sessions, and of all measured and all modelled ones.
pub(super) fn energy(sessions: &[Metered], tally: &Tally, duration_s: f64) -> EnergySummary {
    let mut devices: Vec<(DeviceSummary, Option<Figure>)> = Vec::new();
    for session in sessions {
        for (number, place) in session.sharing.places().enumerate() {
            let gross = session.gross(number);
            let balance = BalanceSummary {
                retried_j: session.unrecorded[number].retried,
                unrecorded_j: session.unrecorded[number].other,
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
    EnergySummary {
        measured,
        modelled,
        devices: devices.into_iter().map(|(device, _)| device).collect(),
        queries_without_energy: tally.without_energy,
        processor_s: tally.processor_time.map(ergometer_units::Seconds::get),
    }
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
    pub(super) fn plus(self, other: Self) -> Self {
        let both = |one: Option<f64>, other: Option<f64>| one.zip(other).map(|(one, other)| one + other);
        Self { value: self.value + other.value, low: both(self.low, other.low), high: both(self.high, other.high) }
    }

    /// Less something that is itself only known to a margin.
    fn less(self, other: f64, margin: f64) -> Self {
        let value = self.value - other;
        let half = |end: Option<f64>| end.map(|end| (end - self.value).hypot(margin));
        Self { value, low: half(self.low).map(|half| value - half), high: half(self.high).map(|half| value + half) }
    }

    pub(super) fn times(self, factor: f64) -> Self {
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
            retried_j: 0.0,
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
            retried_j: self.retried_j + other.retried_j,
            unknown_s: self.unknown_s + other.unknown_s,
        }
    }
}
