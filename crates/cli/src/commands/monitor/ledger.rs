//! Energy as it goes: a timeline goes in again and again; the joules of every channel since the start come out.
//!
//! Provisional: what the counters and the sums of power say so far, without an interval. Each reading is taken once, so a
//! day of watching costs no more than a minute, and what was taken may be forgotten by the timeline.

use std::collections::BTreeMap;

use ergometer_telemetry::{ChannelId, Counter, CounterLimits, DeviceId, Point, Provenance, Scope, Signal, Timeline};
use ergometer_units::{Joules, Seconds, Watts, Window};

/// The energy of each channel that has any.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    accounts: BTreeMap<ChannelId, Account>,
}

#[derive(Debug)]
struct Account {
    last: Option<Point>,
    counter: Option<Counter>,
    joules: Joules,
    /// What stood there when it was set to zero.
    base: Joules,
    steps: u64,
}

impl Ledger {
    /// Takes in what was read since it looked last.
    pub(super) fn update(&mut self, timeline: &Timeline) {
        for (id, channel) in timeline.channels().filter(|(_, channel)| channel.provenance != Provenance::Gauge) {
            let account = self.accounts.entry(id).or_insert_with(|| Account::new(channel.signal, channel.scope));
            let column = timeline.column(id);
            let Some(end) = column.last() else { continue };
            match account.last {
                None => column.readings().points().for_each(|point| account.take(point)),
                Some(last) if last.at < end.at => {
                    let Ok(window) = Window::new(last.at, end.at) else { continue };
                    let new = column.within(window).points().chain([end]).filter(|point| point.at > last.at);
                    new.for_each(|point| account.take(point));
                }
                Some(_) => {}
            }
        }
    }

    /// Counts from here.
    pub(super) fn reset(&mut self) {
        self.accounts.values_mut().for_each(|account| account.base = account.joules);
    }

    /// The energy of a device and scope, by the best of its channels that has any.
    pub(super) fn energy(&self, timeline: &Timeline, device: DeviceId, scope: Scope) -> Option<(Signal, Joules)> {
        let signals =
            [Signal::Energy, Signal::PowerRing, Signal::PowerInstant, Signal::PowerAverage, Signal::PowerModelled];
        signals.into_iter().find_map(|signal| {
            let account = self.accounts.get(&timeline.find(device, scope, signal)?)?;
            (account.steps > 0).then(|| (signal, account.joules - account.base))
        })
    }
}

impl Account {
    fn new(signal: Signal, scope: Scope) -> Self {
        let limits = CounterLimits {
            unit: Joules::from_micros(1.0),
            range: None,
            bound: scope.power_bound(),
            update_period: Seconds::ZERO,
        };
        let counter = (signal == Signal::Energy).then(|| Counter::new(limits));
        Self { last: None, counter, joules: Joules::ZERO, base: Joules::ZERO, steps: 0 }
    }

    /// A counter's step as the counter itself judges it; power holds from the reading before.
    fn take(&mut self, point: Point) {
        if let Some(counter) = &mut self.counter {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count saturates")]
            counter.update(point.at, (point.value * 1e6).round() as u64);
            self.joules = counter.total();
            // What it counted before anybody looked is not ours.
            if self.last.is_none() {
                self.base = self.joules;
            }
        } else if let Some(last) = self.last {
            self.joules += Watts::new(point.value) * (point.at - last.at);
        }
        self.steps += u64::from(self.last.is_some());
        self.last = Some(point);
    }
}
