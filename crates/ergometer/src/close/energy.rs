//! Computes the energy of one request: its share of every device, gross and net, with intervals.

use ergometer_telemetry::{DeviceKind, EnergyEstimate, Provenance};
use ergometer_units::{Seconds, Timestamp, Window};

use super::attribution::Attributed;
use super::session::MeteredSession;
use crate::attribution::MeteredScope;
use ergometer_runs::Exchange;
use ergometer_runs::record::{
    DeviceShare, EnergyMethod, EnergyValue, GrossAndNet, PhaseMetrics, QueryEnergy, RequestAttribution,
};

/// A request: when it ran, and its index in the session.
#[derive(Debug, Clone, Copy)]
pub(super) struct MeteredRequest {
    pub(super) window: Window,
    pub(super) first_token: Option<Timestamp>,
    /// Its index among the requests of the session.
    pub(super) place: usize,
}

impl MeteredRequest {
    pub(super) fn new(exchange: &Exchange, place: usize) -> Self {
        let window = Window::between(exchange.sent, exchange.end);
        let first_token = exchange.transcript.first_token().map(|first| first.clamp(exchange.sent, exchange.end));
        Self { window, first_token, place }
    }
}

/// The energy of a request.
pub(super) fn query_energy(session: &MeteredSession, request: MeteredRequest) -> QueryEnergy {
    let window = request.window;
    let estimates = session.meter.energy(window).devices;
    let shared = session.sharing.seconds(window.start(), window.end());
    // Rounding of the running sums is far below a nanosecond.
    let is_shared = (window.length() - shared).abs() > Seconds::new(1e-9);
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
        let equal = value(joules.get(), share.in_gaps.get(), estimate, method, place.provenance);
        let attributed = session.attribution.get(number, request.place);
        let energy = if let Some(found) = attributed {
            from_attribution(found, share.in_gaps.get(), place.provenance)
        } else {
            let energy = GrossAndNet { gross: equal, net: net_of_window(session, number, window, equal) };
            widen_edges(energy, session.attribution.edge_range(number, request.place))
        };
        let attribution = energy.net.map(|net| request_attribution(session, (number, request), attributed, net));
        devices.push((place, DeviceShare { device: place.device, scope: place.scope, energy }, attribution));
    }
    let sum = |is_part: &dyn Fn(&MeteredScope) -> bool| {
        let parts = devices.iter().filter(|(place, ..)| is_part(place)).map(|(_, share, _)| share.energy);
        parts.reduce(|one, other| GrossAndNet {
            gross: add(one.gross, other.gross),
            net: one.net.zip(other.net).map(|(one, other)| add(one, other)),
        })
    };
    let measured = if missing.measured { None } else { sum(&|place| place.summed) };
    let modelled = if missing.modelled { None } else { sum(&|place| place.provenance == Provenance::Modelled) };
    // Where a device is measured, a modelled one never stands in for it: sums would mix both.
    let has_measured = session.sharing.scopes().any(|place| place.summed);
    let counts = |place: &MeteredScope| {
        if has_measured {
            measured.is_some() && place.summed
        } else {
            modelled.is_some() && place.provenance == Provenance::Modelled
        }
    };
    let parts: Option<Vec<RequestAttribution>> =
        devices.iter().filter(|(place, ..)| counts(place)).map(|(.., attribution)| *attribution).collect();
    let attribution = parts.and_then(|parts| parts.into_iter().reduce(add_attributions));
    QueryEnergy { measured, modelled, devices: devices.into_iter().map(|(_, share, _)| share).collect(), attribution }
}

/// The net energy of a request that was alone, or that has no attribution.
fn net_of_window(session: &MeteredSession, number: usize, window: Window, gross: EnergyValue) -> Option<EnergyValue> {
    let middle = window.start() + Seconds::new(window.length().get() / 2.0);
    let share = session.sharing.share(number, window.start(), window.end());
    session.idle[number].at(middle).map(|(power, margin)| {
        // Energy in gaps of the sensors is not in the gross energy, so idle power is not subtracted there.
        let (rest, doubt) = ((power * share.covered).get(), (margin * share.covered).get());
        let joules = gross.joules - rest;
        EnergyValue {
            joules,
            low: joules - (gross.joules - gross.low).hypot(doubt),
            high: joules + (gross.high - gross.joules).hypot(doubt),
            ..gross
        }
    })
}

/// Widens the interval of a window by what its edges leave open: `range` is that of its net energy.
fn widen_edges(energy: GrossAndNet, range: Option<(f64, f64)>) -> GrossAndNet {
    let Some((net, (low, high))) = energy.net.zip(range) else { return energy };
    let wider = |value: EnergyValue| EnergyValue {
        low: value.joules - (value.joules - value.low).hypot((net.joules - low).max(0.0)),
        high: value.joules + (value.high - value.joules).hypot((high - net.joules).max(0.0)),
        ..value
    };
    GrossAndNet { gross: wider(energy.gross), net: Some(wider(net)) }
}

/// Gross and net energy of a request that shared the server.
fn from_attribution(found: Attributed, in_gaps: f64, provenance: Provenance) -> GrossAndNet {
    let Attributed { idle, net, method } = found;
    let value = |idle: f64| EnergyValue {
        joules: idle + net.share,
        low: idle + net.low,
        high: idle + net.high + in_gaps,
        method,
        provenance,
    };
    GrossAndNet { gross: value(idle), net: Some(value(0.0)) }
}

/// The attribution of a request, of one device and scope.
fn request_attribution(
    session: &MeteredSession,
    (number, request): (usize, MeteredRequest),
    attributed: Option<Attributed>,
    net: EnergyValue,
) -> RequestAttribution {
    let (prefill_j, marginal, alone) = match attributed {
        Some(Attributed { net: found, method: EnergyMethod::CostModel(_), .. }) => {
            (Some(found.prefill), Some(found.marginal), Some(found.alone))
        }
        Some(_) => (None, None, None),
        None => {
            let prefill = request.first_token.and_then(|first| {
                let window = Window::between(request.window.start(), first);
                let share = session.sharing.share(number, window.start(), window.end());
                let idle = session.idle[number].at(window.start())?.0 * share.covered;
                Some((share.joules? - idle).get())
            });
            (prefill, Some(net.joules), Some(net.joules))
        }
    };
    RequestAttribution {
        share: net.joules,
        low: net.low,
        high: net.high,
        prefill_j,
        decode_j: prefill_j.map(|prefill| net.joules - prefill),
        marginal,
        alone,
        method: net.method,
    }
}

/// The attribution over two devices.
fn add_attributions(one: RequestAttribution, other: RequestAttribution) -> RequestAttribution {
    let both = |one: Option<f64>, other: Option<f64>| one.zip(other).map(|(one, other)| one + other);
    RequestAttribution {
        share: one.share + other.share,
        low: one.low + other.low,
        high: one.high + other.high,
        prefill_j: both(one.prefill_j, other.prefill_j),
        decode_j: both(one.decode_j, other.decode_j),
        marginal: both(one.marginal, other.marginal),
        alone: both(one.alone, other.alone),
        method: worse(one.method, other.method),
    }
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
fn value(
    joules: f64,
    in_gaps: f64,
    estimate: &EnergyEstimate,
    method: EnergyMethod,
    provenance: Provenance,
) -> EnergyValue {
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
    EnergyValue {
        joules: one.joules + other.joules,
        low: one.low + other.low,
        high: one.high + other.high,
        method: worse(one.method, other.method),
        provenance: one.provenance.max(other.provenance),
    }
}

/// The method of a sum: the worse of two.
fn worse(one: EnergyMethod, other: EnergyMethod) -> EnergyMethod {
    match (one, other) {
        (EnergyMethod::Window(one), EnergyMethod::Window(other)) => EnergyMethod::Window(one.max(other)),
        (EnergyMethod::CostModel(one), EnergyMethod::CostModel(other)) => EnergyMethod::CostModel(one.max(other)),
        _ => EnergyMethod::EqualShare,
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

/// Energy, time and power of the prompt (prefill) and of the output (decode).
pub(super) fn phases(
    session: &MeteredSession,
    request: MeteredRequest,
    tokens: (Option<u64>, Option<u64>),
) -> PhaseMetrics {
    let Some(first) = request.first_token else { return PhaseMetrics::default() };
    let (sent, end) = (request.window.start(), request.window.end());
    let (prefill, decode) = ((first - sent).get(), (end - first).get());
    let (prefill_energy_j, decode_energy_j) = phase_energy(session, request, first).unzip();
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

/// The gross energy of both phases: of the measured devices, or of the modelled ones if none is measured. A request that
/// shared the server has the prefill of its cost model, and idle power until its first token.
fn phase_energy(session: &MeteredSession, request: MeteredRequest, first: Timestamp) -> Option<(f64, f64)> {
    let (sent, end) = (request.window.start(), request.window.end());
    let has_measured = session.sharing.scopes().any(|place| place.summed);
    let is_part =
        |place: &MeteredScope| if has_measured { place.summed } else { place.provenance == Provenance::Modelled };
    let mut sum = None;
    for (number, place) in session.sharing.scopes().enumerate() {
        if !is_part(&place) {
            continue;
        }
        let known = |from: Timestamp, to: Timestamp| {
            let share = session.sharing.share(number, from, to);
            share.joules.filter(|_| !share.is_in_gap()).map(|joules| (joules.get(), share.covered))
        };
        let (before, after) = (known(sent, first)?, known(first, end)?);
        let (prefill, decode) = match session.attribution.get(number, request.place) {
            Some(Attributed { net, method: EnergyMethod::CostModel(_), idle }) => {
                let (power, _) = session.idle[number].at(sent)?;
                let idle_before = (power * before.1).get().min(idle);
                (net.prefill + idle_before, net.share - net.prefill + idle - idle_before)
            }
            _ => (before.0, after.0),
        };
        let (prefills, decodes) = sum.unwrap_or((0.0, 0.0));
        sum = Some((prefills + prefill, decodes + decode));
    }
    sum
}
