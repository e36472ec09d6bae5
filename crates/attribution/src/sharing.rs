//! Divides every slice of time equally among the requests in flight.
//!
//! Each device and scope has a cumulative curve: the share by each edge of a request that is always in flight. The share of
//! a request is the difference of two values of the curve, so it takes two look-ups, independent of the number of slices.

use ergometer_telemetry::{DeviceId, EnergyMeter, Provenance, Scope, Slices};
use ergometer_units::{Joules, Seconds, Timestamp, Window};

/// The times of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// When it was sent.
    pub sent: Timestamp,
    /// When its first token arrived.
    pub first_token: Option<Timestamp>,
    /// When it ended.
    pub end: Timestamp,
}

impl Span {
    /// The windows before and after the first token.
    pub fn windows(self) -> impl Iterator<Item = Window> {
        let edges = [Some(self.sent), self.first_token, Some(self.end)];
        let edges: Vec<Timestamp> = edges.into_iter().flatten().collect();
        (1..edges.len()).filter_map(move |place| Window::new(edges[place - 1], edges[place]).ok())
    }
}

/// The shares of a session's requests.
#[derive(Debug)]
pub struct Sharing {
    edges: Vec<Timestamp>,
    /// Cumulative, at each edge: the share of time of a request that is always in flight.
    shared_seconds: Vec<f64>,
    scopes: Vec<ScopeShares>,
}

/// A device and scope with energy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeteredScope {
    /// The device.
    pub device: DeviceId,
    /// The part of the device.
    pub scope: Scope,
    /// How its energy is known.
    pub provenance: Provenance,
    /// Whether it is part of the sum over measured devices.
    pub summed: bool,
}

#[derive(Debug)]
struct ScopeShares {
    scope: MeteredScope,
    /// Cumulative, at each edge: the known joules.
    known: Vec<f64>,
    /// Cumulative, at each edge: the joules in gaps of the sensors.
    in_gaps: Vec<f64>,
    /// Cumulative, at each edge: the seconds with readings.
    covered: Vec<f64>,
    /// Cumulative, at each edge: the number of slices without data.
    unknown: Vec<u32>,
    balance: Balance,
}

/// How the energy of a device and scope divides up over a session, from the first request sent to the end of the last.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Balance {
    /// While requests were in flight.
    pub requests: Joules,
    /// While no request was in flight.
    pub idle: Joules,
    /// In gaps of the sensors.
    pub unattributed: Joules,
    /// The time without any data.
    pub unknown: Seconds,
}

impl Balance {
    /// The sum, which is the energy of the meter.
    #[must_use]
    pub fn meter(&self) -> Joules {
        self.requests + self.idle + self.unattributed
    }
}

/// The share of a request in the energy of a device and scope.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// The energy; `None` if there is no data for some of the time.
    pub joules: Option<Joules>,
    /// The known part of the energy.
    pub known: Joules,
    /// Its share of the time with readings.
    pub covered: Seconds,
    /// Additional energy that it may have used in gaps of the sensors.
    pub in_gaps: Joules,
}

impl Share {
    /// Whether it lies entirely in a gap of the sensors, so that its energy is unknown rather than zero.
    #[must_use]
    pub fn is_in_gap(&self) -> bool {
        self.joules == Some(Joules::ZERO) && self.in_gaps > Joules::ZERO
    }
}

impl Sharing {
    /// Divides the energy of the meter among the requests. `counts` selects the devices.
    #[must_use]
    pub fn new(meter: &EnergyMeter, spans: &[Span], counts: &dyn Fn(DeviceId) -> bool) -> Self {
        let mut edges: Vec<Timestamp> =
            spans.iter().flat_map(|span| [Some(span.sent), span.first_token, Some(span.end)]).flatten().collect();
        // A slice that reaches beyond the data is unknown, so slices also end where the data ends.
        if let (Some(&first), Some(&last)) = (edges.iter().min(), edges.iter().max()) {
            let ends = meter.data().flat_map(|data| [data.start(), data.end()]);
            edges.extend(ends.filter(|&end| first < end && end < last));
        }
        edges.sort_unstable();
        edges.dedup();
        let in_flight = in_flight(&edges, spans);
        let shared_seconds = accumulate(
            edges
                .windows(2)
                .zip(&in_flight)
                .map(|(pair, &count)| if count == 0 { 0.0 } else { (pair[1] - pair[0]).get() / f64::from(count) }),
        );
        let slices = meter.slices(&edges);
        let scopes = slices.iter().filter(|slices| counts(slices.device));
        let scopes = scopes.map(|slices| ScopeShares::new(slices, &edges, &in_flight)).collect();
        Self { edges, shared_seconds, scopes }
    }

    /// The devices and scopes with energy.
    #[must_use]
    pub fn scopes(&self) -> impl ExactSizeIterator<Item = MeteredScope> {
        self.scopes.iter().map(|shared| shared.scope)
    }

    /// The balance of the device and scope at this index.
    #[must_use]
    pub fn balance(&self, place: usize) -> Balance {
        self.scopes.get(place).map_or_else(Balance::default, |shared| shared.balance)
    }

    /// Whether the device and scope at this index has data for any part of the session.
    #[must_use]
    pub fn has_data(&self, place: usize) -> bool {
        let slices = self.edges.len().saturating_sub(1);
        let unknown = self.scopes.get(place).and_then(|shared| shared.unknown.last()).copied();
        unknown.is_some_and(|unknown| (unknown as usize) < slices)
    }

    /// The share of a request in flight between two of its edges, in the device and scope at this index.
    #[must_use]
    pub fn share(&self, place: usize, from: Timestamp, to: Timestamp) -> Share {
        let (from, to) = (self.edge(from), self.edge(to));
        let Some(shared) = self.scopes.get(place).filter(|_| to < self.edges.len()) else {
            return Share { joules: None, known: Joules::ZERO, covered: Seconds::ZERO, in_gaps: Joules::ZERO };
        };
        let is_known = shared.unknown[from] == shared.unknown[to];
        let known = Joules::new(shared.known[to] - shared.known[from]);
        Share {
            joules: is_known.then_some(known),
            known,
            covered: Seconds::new(shared.covered[to] - shared.covered[from]),
            in_gaps: Joules::new(shared.in_gaps[to] - shared.in_gaps[from]),
        }
    }

    /// The share of time of a request, divided like the energy.
    #[must_use]
    pub fn seconds(&self, from: Timestamp, to: Timestamp) -> Seconds {
        let (from, to) = (self.edge(from), self.edge(to));
        let at = |edge: usize| self.shared_seconds.get(edge).copied().unwrap_or(0.0);
        Seconds::new(at(to) - at(from))
    }

    fn edge(&self, at: Timestamp) -> usize {
        self.edges.partition_point(|&edge| edge < at)
    }
}

impl ScopeShares {
    fn new(slices: &Slices, edges: &[Timestamp], in_flight: &[u32]) -> Self {
        let mut balance = Balance::default();
        let edge_count = edges.len();
        let (mut known, mut in_gaps) = (Vec::with_capacity(edge_count), Vec::with_capacity(edge_count));
        let (mut covered, mut unknown) = (Vec::with_capacity(edge_count), Vec::with_capacity(edge_count));
        let (mut known_sum, mut gap_sum, mut covered_sum, mut unknown_sum) = (0.0, 0.0, 0.0, 0);
        known.push(known_sum);
        in_gaps.push(gap_sum);
        covered.push(covered_sum);
        unknown.push(unknown_sum);
        for ((slice, &count), pair) in slices.slices.iter().zip(in_flight).zip(edges.windows(2)) {
            let share = 1.0 / f64::from(count.max(1));
            let gap = slice.gap_joules;
            let attributed = slice.joules.map_or(Joules::ZERO, |joules| (joules - gap).max(Joules::ZERO));
            balance.unattributed += gap;
            if slice.joules.is_none() {
                balance.unknown += pair[1] - pair[0];
            }
            if count == 0 {
                balance.idle += attributed;
            } else {
                balance.requests += attributed;
            }
            known_sum += attributed.get() * share;
            gap_sum += gap.get() * share;
            if slice.joules.is_some() {
                covered_sum += (pair[1] - pair[0] - slice.gap_length).get() * share;
            }
            unknown_sum += u32::from(slice.joules.is_none());
            known.push(known_sum);
            in_gaps.push(gap_sum);
            covered.push(covered_sum);
            unknown.push(unknown_sum);
        }
        let scope = MeteredScope {
            device: slices.device,
            scope: slices.scope,
            provenance: slices.provenance,
            summed: slices.summed,
        };
        Self { scope, known, in_gaps, covered, unknown, balance }
    }
}

/// The number of requests in flight in each slice.
fn in_flight(edges: &[Timestamp], spans: &[Span]) -> Vec<u32> {
    let mut change = vec![0_i64; edges.len()];
    let place = |at: Timestamp| edges.partition_point(|&edge| edge < at);
    for span in spans {
        change[place(span.sent)] += 1;
        change[place(span.end)] -= 1;
    }
    let mut count = 0;
    let counts = change.iter().map(|change| {
        count += change;
        u32::try_from(count).unwrap_or(0)
    });
    counts.take(edges.len().saturating_sub(1)).collect()
}

/// Cumulative sums, starting with zero.
fn accumulate(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut sum = 0.0;
    std::iter::once(0.0)
        .chain(values.into_iter().map(move |value| {
            sum += value;
            sum
        }))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ergometer_telemetry::{Batch, Channel, Reading, SensorInfo, Signal, Timeline};
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: f64) -> Timestamp {
        Timestamp::from_nanos_since_epoch(1_000_000_000_000) + Seconds::new(seconds)
    }

    fn span(sent: f64, first: f64, end: f64) -> Span {
        Span { sent: at(sent), first_token: Some(at(first)), end: at(end) }
    }

    /// A device that draws 100 W, modelled every 100 ms, with the readings from `gap.0` to `gap.1` left out.
    fn hundred_watts(length: f64, gap: (f64, f64)) -> Timeline {
        let device = DeviceId::cpu(0);
        let (scope, signal, provenance) = (Scope::Package, Signal::PowerModelled, Provenance::Modelled);
        let channel = Channel { device, scope, signal, provenance, update_period: Some(Seconds::new(0.1)) };
        let info =
            SensorInfo { id: String::from("test"), name: String::new(), device, interval: Duration::from_millis(100) };
        let mut timeline = Timeline::default();
        let key = timeline.add_sensor(&info, &[channel]);
        let mut batch = Batch::default();
        for time in (0_i32..).map(|tick| f64::from(tick) / 10.0).take_while(|&time| time <= length) {
            if time <= gap.0 || time > gap.1 {
                batch.readings.push(Reading { channel: 0, after: at(time - 0.1), at: at(time), value: 100.0 });
            }
        }
        timeline.append(key, &batch);
        timeline
    }

    #[test]
    fn requests_in_flight_share_a_slice_equally() {
        let timeline = hundred_watts(10.0, (99.0, 99.0));
        let spans = [span(1.0, 1.5, 4.0), span(2.0, 2.5, 3.0), span(5.0, 5.5, 6.0)];
        let meter = EnergyMeter::new(&timeline, &[]);
        let sharing = Sharing::new(&meter, &spans, &|_| true);
        let joules = |span: Span| sharing.share(0, span.sent, span.end).joules.unwrap().get();
        assert!((joules(spans[0]) - 250.0).abs() < 1e-6, "alone for 2 s, with another for 1 s");
        assert!((joules(spans[1]) - 50.0).abs() < 1e-6);
        assert!((joules(spans[2]) - 100.0).abs() < 1e-6);
        assert!((sharing.seconds(spans[0].sent, spans[0].end).get() - 2.5).abs() < 1e-9);
        let prefill = sharing.share(0, spans[1].sent, at(2.5)).joules.unwrap().get();
        assert!((prefill - 25.0).abs() < 1e-6);
        let balance = sharing.balance(0);
        assert!((balance.idle.get() - 100.0).abs() < 1e-6 && balance.unattributed == Joules::ZERO);
        assert!((balance.meter().get() - 500.0).abs() < 1e-6);
        assert_eq!(Sharing::new(&meter, &spans, &|_| false).scopes().len(), 0, "no device counts");
        assert_eq!(Sharing::new(&meter, &[], &|_| true).scopes().len(), 0, "no requests");
    }

    #[test]
    fn energy_in_a_gap_of_the_sensors_is_unattributed() {
        let timeline = hundred_watts(10.0, (2.0, 5.0));
        let spans = [span(1.0, 1.5, 3.0), span(3.0, 3.5, 4.0)];
        let meter = EnergyMeter::new(&timeline, &[]);
        let sharing = Sharing::new(&meter, &spans, &|_| true);
        let first = sharing.share(0, spans[0].sent, spans[0].end);
        assert!((first.joules.unwrap().get() - 100.0).abs() < 1.0, "{first:?}");
        let balance = sharing.balance(0);
        assert!((balance.requests.get() - 100.0).abs() < 1.0, "{balance:?}");
        assert!((balance.unattributed.get() - 200.0).abs() < 1.0 && first.in_gaps.get() > 99.0, "{balance:?}");
        assert!((balance.meter() - balance.requests - balance.unattributed).abs() < Joules::new(1e-9));
    }

    #[test]
    fn a_request_that_ends_after_the_data_has_no_energy() {
        let timeline = hundred_watts(3.0, (99.0, 99.0));
        let spans = [span(1.0, 1.5, 2.0), span(2.0, 2.5, 9.0)];
        let meter = EnergyMeter::new(&timeline, &[]);
        let sharing = Sharing::new(&meter, &spans, &|_| true);
        assert!(sharing.share(0, spans[0].sent, spans[0].end).joules.is_some());
        let cut = sharing.share(0, spans[1].sent, spans[1].end);
        assert_eq!(cut.joules, None);
        assert!((cut.known.get() - 100.0).abs() < 1e-6 && (cut.covered.get() - 1.0).abs() < 1e-9, "{cut:?}");
        assert!((sharing.balance(0).unknown.get() - 6.0).abs() < 1e-9, "only the time after the data is unknown");
        assert!((sharing.balance(0).requests.get() - 200.0).abs() < 1e-6);
    }

    proptest! {
        #[test]
        fn shares_sum_to_the_meter(rows in prop::collection::vec((0.0_f64..9.0, 0.0_f64..1.0, 0.001_f64..3.0), 1..40)) {
            let timeline = hundred_watts(15.0, (99.0, 99.0));
            let spans: Vec<Span> =
                rows.iter().map(|&(sent, first, length)| span(sent, sent + first * length, sent + length)).collect();
            let windows: Vec<Window> = spans.iter().flat_map(|span| span.windows()).collect();
            let meter = EnergyMeter::new(&timeline, &windows);
            let sharing = Sharing::new(&meter, &spans, &|_| true);
            let (mut shares, mut phases) = (0.0, 0.0);
            for span in &spans {
                shares += sharing.share(0, span.sent, span.end).joules.unwrap().get();
                let first = span.first_token.unwrap();
                phases += sharing.share(0, span.sent, first).joules.unwrap().get();
                phases += sharing.share(0, first, span.end).joules.unwrap().get();
            }
            let balance = sharing.balance(0);
            let first = spans.iter().map(|span| span.sent).min().unwrap();
            let last = spans.iter().map(|span| span.end).max().unwrap();
            let whole = meter.energy(Window::new(first, last).unwrap()).modelled.unwrap().joules.get();
            prop_assert!((shares - balance.requests.get()).abs() < 1e-6, "{shares} {balance:?}");
            prop_assert!((phases - shares).abs() < 1e-6);
            prop_assert!((balance.meter().get() - whole).abs() < 1e-6 * (1.0 + whole), "{balance:?} {whole}");
        }
    }
}
