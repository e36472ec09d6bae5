//! Computes the energy of one request: its share of every device, gross and net, with intervals.

use ergometer_telemetry::{DeviceKind, Estimate, Provenance};
use ergometer_units::{Seconds, Timestamp, Window};

use super::session::MeteredSession;
use crate::attribution::MeteredScope;
use ergometer_runs::record::{DeviceShare, EnergyMethod, EnergyValue, GrossAndNet, PhaseMetrics, QueryEnergy};

/// The energy of a request that was in flight over a window.
pub(super) fn query_energy(session: &MeteredSession, window: Window) -> QueryEnergy {
    let estimates = session.meter.energy(window).devices;
    let shared = session.sharing.seconds(window.start(), window.end());
    // Rounding of the running sums is far below a nanosecond.
    let is_shared = (window.length() - shared).abs() > Seconds::new(1e-9);
    let middle = window.start() + Seconds::new(window.length().get() / 2.0);
    let (mut devices, mut missing) = (Vec::new(), MissingParts::default());
    for (number, place) in session.sharing.scopes().enumerate() {
        let found = estimates.iter().find(|energy| (energy.device, energy.scope) == (place.device, place.scope));
        let estimate = found.and_then(|energy| energy.estimate.as_ref().ok());
        let share = session.sharing.share(number, window.start(), window.end());
        let (Some(estimate), Some(joules)) = (estimate, share.joules) else {
            missing.note(place);
            continue;
        };
        if share.is_in_gap() {
            missing.note(place);
            continue;
        }
        let method = if is_shared { EnergyMethod::EqualShare } else { EnergyMethod::Window(estimate.method) };
        let gross = value(joules.get(), share.in_gaps.get(), estimate, method, place.provenance);
        let net = session.idle[number].at(middle).map(|(power, margin)| {
            // Energy in gaps of the sensors is not in the gross energy, so idle power is not subtracted there.
            let (rest, doubt) = ((power * share.covered).get(), (margin * share.covered).get());
            let joules = gross.joules - rest;
            EnergyValue {
                joules,
                low: joules - (gross.joules - gross.low).hypot(doubt),
                high: joules + (gross.high - gross.joules).hypot(doubt),
                ..gross
            }
        });
        devices.push((
            place,
            DeviceShare { device: place.device, scope: place.scope, energy: GrossAndNet { gross, net } },
        ));
    }
    let sum = |is_part: &dyn Fn(&MeteredScope) -> bool| {
        let parts = devices.iter().filter(|(place, _)| is_part(place)).map(|(_, share)| share.energy);
        parts.reduce(|one, other| GrossAndNet {
            gross: add(one.gross, other.gross),
            net: one.net.zip(other.net).map(|(one, other)| add(one, other)),
        })
    };
    let measured = if missing.measured { None } else { sum(&|place| place.summed) };
    let modelled = if missing.modelled { None } else { sum(&|place| place.provenance == Provenance::Modelled) };
    QueryEnergy { measured, modelled, devices: devices.into_iter().map(|(_, share)| share).collect() }
}

/// Whether the sums are missing a part.
#[derive(Default)]
struct MissingParts {
    measured: bool,
    modelled: bool,
}

impl MissingParts {
    fn note(&mut self, place: MeteredScope) {
        self.measured |= place.summed;
        self.modelled |= place.provenance == Provenance::Modelled;
    }
}

/// A share of the estimate of a window, with the same relative width of the interval. Energy in gaps of the sensors can
/// only raise the high end.
fn value(joules: f64, in_gaps: f64, estimate: &Estimate, method: EnergyMethod, provenance: Provenance) -> EnergyValue {
    let whole = estimate.joules.get();
    let (low, high) = if whole > 0.0 {
        (joules * estimate.low.get() / whole, joules * estimate.high.get() / whole)
    } else {
        (0.0, estimate.high.get())
    };
    EnergyValue { joules, low, high: high + in_gaps, method, provenance }
}

/// The sum of two values. The ends of the intervals add up, because sensors of the same make have correlated errors.
fn add(one: EnergyValue, other: EnergyValue) -> EnergyValue {
    let method = match (one.method, other.method) {
        (EnergyMethod::Window(one), EnergyMethod::Window(other)) => EnergyMethod::Window(one.max(other)),
        _ => EnergyMethod::EqualShare,
    };
    EnergyValue {
        joules: one.joules + other.joules,
        low: one.low + other.low,
        high: one.high + other.high,
        method,
        provenance: one.provenance.max(other.provenance),
    }
}

/// The gross energy of a kind of device: measured, or modelled if nothing of that kind is measured.
pub(super) fn energy_by_kind(session: &MeteredSession, energy: &QueryEnergy, kind: DeviceKind) -> Option<f64> {
    let is_summed = |share: &&DeviceShare| {
        let mut places = session.sharing.scopes();
        let place = places.find(|place| (place.device, place.scope) == (share.device, share.scope));
        place.is_some_and(|place| place.summed || place.provenance == Provenance::Modelled)
    };
    let wanted = session.sharing.scopes().filter(|place| place.device.kind == kind);
    let wanted = wanted.filter(|place| place.summed || place.provenance == Provenance::Modelled).count();
    let found: Vec<f64> = energy
        .devices
        .iter()
        .filter(|share| share.device.kind == kind)
        .filter(is_summed)
        .map(|share| share.energy.gross.joules)
        .collect();
    (wanted > 0 && found.len() == wanted).then(|| found.iter().sum())
}

/// Energy, time and power before the first token (prefill) and after it (decode).
pub(super) fn phases(
    session: &MeteredSession,
    span: (Timestamp, Option<Timestamp>, Timestamp),
    tokens: (Option<u64>, Option<u64>),
) -> PhaseMetrics {
    let (sent, Some(first), end) = span else { return PhaseMetrics::default() };
    let first = first.clamp(sent, end);
    let (prefill, decode) = ((first - sent).get(), (end - first).get());
    let (prefill_energy_j, decode_energy_j) = (total(session, sent, first), total(session, first, end));
    let per = |value: Option<f64>, divisor: f64| value.filter(|_| divisor > 0.0).map(|value| value / divisor);
    let count = |tokens: Option<u64>| tokens.map_or(0.0, |tokens| tokens as f64);
    PhaseMetrics {
        prefill_energy_j,
        decode_energy_j,
        prefill_duration_ms: Some(prefill * 1e3),
        decode_duration_ms: Some(decode * 1e3),
        prefill_power_avg_w: per(prefill_energy_j, prefill),
        decode_power_avg_w: per(decode_energy_j, decode),
        prefill_energy_per_input_token_j: per(prefill_energy_j, count(tokens.0)),
        decode_energy_per_output_token_j: per(decode_energy_j, count(tokens.1)),
    }
}

/// The gross share of a request over a period: of the measured devices, or of the modelled ones if none is measured.
fn total(session: &MeteredSession, from: Timestamp, to: Timestamp) -> Option<f64> {
    let has_measured = session.sharing.scopes().any(|place| place.summed);
    let is_part =
        |place: &MeteredScope| if has_measured { place.summed } else { place.provenance == Provenance::Modelled };
    let mut sum = None;
    for (number, place) in session.sharing.scopes().enumerate() {
        if is_part(&place) {
            let share = session.sharing.share(number, from, to);
            sum = Some(sum.unwrap_or(0.0) + share.joules.filter(|_| !share.is_in_gap())?.get());
        }
    }
    sum
}
