//! The energy of one request: its share of every device, with intervals, gross and net.

use ergometer_telemetry::{DeviceKind, Estimate, Provenance};
use ergometer_units::{Seconds, Timestamp, Window};

use super::session::Metered;
use crate::attribution::Place;
use ergometer_runs::record::{DeviceShare, EnergyMethod, EnergyValue, GrossAndNet, PhaseMetrics, QueryEnergy};

/// The energy of a request in flight over a window.
pub(super) fn query_energy(session: &Metered, window: Window) -> QueryEnergy {
    let estimates = session.meter.energy(window).devices;
    let shared = session.sharing.seconds(window.start(), window.end());
    // Rounding of the running sums is far below a nanosecond.
    let is_shared = (window.length() - shared).abs() > Seconds::new(1e-9);
    let middle = window.start() + Seconds::new(window.length().get() / 2.0);
    let (mut devices, mut lacking) = (Vec::new(), Lacking::default());
    for (number, place) in session.sharing.places().enumerate() {
        let found = estimates.iter().find(|energy| (energy.device, energy.scope) == (place.device, place.scope));
        let estimate = found.and_then(|energy| energy.estimate.as_ref().ok());
        let share = session.sharing.share(number, window.start(), window.end());
        let (Some(estimate), Some(joules)) = (estimate, share.joules) else {
            lacking.note(place);
            continue;
        };
        if share.is_silence() {
            lacking.note(place);
            continue;
        }
        let method = if is_shared { EnergyMethod::EqualShare } else { EnergyMethod::Window(estimate.method) };
        let gross = value(joules.get(), share.silent.get(), estimate, method, place.provenance);
        let net = session.idle[number].at(middle).map(|(power, margin)| {
            // What a silence took is not in the gross energy, so its rest is not taken off either.
            let (rest, doubt) = ((power * share.heard).get(), (margin * share.heard).get());
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
    let sum = |is_part: &dyn Fn(&Place) -> bool| {
        let parts = devices.iter().filter(|(place, _)| is_part(place)).map(|(_, share)| share.energy);
        parts.reduce(|one, other| GrossAndNet {
            gross: add(one.gross, other.gross),
            net: one.net.zip(other.net).map(|(one, other)| add(one, other)),
        })
    };
    let measured = if lacking.measured { None } else { sum(&|place| place.summed) };
    let modelled = if lacking.modelled { None } else { sum(&|place| place.provenance == Provenance::Modelled) };
    QueryEnergy { measured, modelled, devices: devices.into_iter().map(|(_, share)| share).collect() }
}

/// Whether the sums lack a part.
#[derive(Default)]
struct Lacking {
    measured: bool,
    modelled: bool,
}

impl Lacking {
    fn note(&mut self, place: Place) {
        self.measured |= place.summed;
        self.modelled |= place.provenance == Provenance::Modelled;
    }
}

/// A share of a window's estimate: its interval is as wide, relative to it. What may have been used in a silence can
/// only come on top.
fn value(joules: f64, silent: f64, estimate: &Estimate, method: EnergyMethod, provenance: Provenance) -> EnergyValue {
    let whole = estimate.joules.get();
    let (low, high) = if whole > 0.0 {
        (joules * estimate.low.get() / whole, joules * estimate.high.get() / whole)
    } else {
        (0.0, estimate.high.get())
    };
    EnergyValue { joules, low, high: high + silent, method, provenance }
}

/// Intervals add end to end: sensors of one make err alike.
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

/// The gross energy of a kind of device: measured, or where nothing of that kind is measured, modelled.
pub(super) fn of_kind(session: &Metered, energy: &QueryEnergy, kind: DeviceKind) -> Option<f64> {
    let is_summed = |share: &&DeviceShare| {
        let mut places = session.sharing.places();
        let place = places.find(|place| (place.device, place.scope) == (share.device, share.scope));
        place.is_some_and(|place| place.summed || place.provenance == Provenance::Modelled)
    };
    let wanted = session.sharing.places().filter(|place| place.device.kind == kind);
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

/// What falls before the first token and what after it.
pub(super) fn phases(
    session: &Metered,
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

/// The gross share of a stretch: over the measured places, or where there are none, over the modelled ones.
fn total(session: &Metered, from: Timestamp, to: Timestamp) -> Option<f64> {
    let has_measured = session.sharing.places().any(|place| place.summed);
    let is_part = |place: &Place| if has_measured { place.summed } else { place.provenance == Provenance::Modelled };
    let mut sum = None;
    for (number, place) in session.sharing.places().enumerate() {
        if is_part(&place) {
            let share = session.sharing.share(number, from, to);
            sum = Some(sum.unwrap_or(0.0) + share.joules.filter(|_| !share.is_silence())?.get());
        }
    }
    sum
}
