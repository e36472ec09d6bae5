//! Computes how long the clocks of a GPU were throttled, and why, from its throttle reasons. If the driver reports no
//! reasons, drops of the core clock are reported instead.
//!
//! Only time with requests in flight counts, within the steady state if there is one. Idle clocks and clocks set by a
//! user are not throttling.

use ergometer_charts::{Cell, Table};
use ergometer_units::format;
use serde_json::{Value, json};

use super::super::cell::{self, quantity_cell};
use super::super::entries;
use super::series::{SessionRange, device};
use ergometer_runs::saved::{Channel, Telemetry};

/// A clock below its maximum by more than this share counts as a drop.
const DROP: f64 = 0.03;

/// A reading is valid until the next one, but no longer than this many median gaps.
const LONGEST_HOLD: f64 = 4.0;

/// A bit of NVML's clocks event reasons (`nvmlClocksEventReason…` of nvml.h).
struct Reason {
    bit: u64,
    name: &'static str,
    words: &'static str,
    /// Whether it counts as throttling.
    holds_back: bool,
}

const fn reason(bit: u64, name: &'static str, words: &'static str, holds_back: bool) -> Reason {
    Reason { bit, name, words, holds_back }
}

const REASONS: [Reason; 9] = [
    reason(0x1, "gpu_idle", "idle", false),
    reason(0x2, "applications_clocks_setting", "clocks set by a user", false),
    reason(0x4, "sw_power_cap", "power cap", true),
    reason(0x8, "hw_slowdown", "hardware slowdown", true),
    reason(0x10, "sync_boost", "another GPU of its sync group", true),
    reason(0x20, "sw_thermal_slowdown", "thermal slowdown (driver)", true),
    reason(0x40, "hw_thermal_slowdown", "thermal slowdown (hardware)", true),
    reason(0x80, "hw_power_brake_slowdown", "power brake", true),
    reason(0x100, "display_clock_setting", "display clocks", false),
];

/// Throttling of a GPU in a session.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Throttling {
    pub(super) session: u32,
    pub(super) device: String,
    pub(super) by: ThrottlingSource,
    /// Seconds with requests in flight and known clocks.
    pub(super) seconds: f64,
    /// Seconds of these with throttling or a clock drop.
    pub(super) slow_seconds: f64,
}

/// The source of the throttling data.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ThrottlingSource {
    /// Throttle reasons of the driver, with seconds each.
    Reasons(Vec<(&'static str, &'static str, f64)>),
    /// Drops of the core clock below its maximum in MHz.
    Clock { highest: f64 },
}

impl Throttling {
    pub(super) fn share(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.slow_seconds / self.seconds)
    }

    /// A description for tables and warnings.
    pub(super) fn words(&self) -> String {
        match &self.by {
            ThrottlingSource::Reasons(reasons) if reasons.is_empty() => String::from("nothing"),
            ThrottlingSource::Reasons(reasons) => {
                let each = reasons.iter().map(|(_, words, seconds)| {
                    let share = format::percent(seconds / self.seconds.max(f64::MIN_POSITIVE));
                    format!("{words} ({share} of the time)")
                });
                each.collect::<Vec<String>>().join(", ")
            }
            ThrottlingSource::Clock { highest } if self.slow_seconds == 0.0 => {
                format!("no drop below {highest:.0} MHz")
            }
            ThrottlingSource::Clock { highest } => format!("core clock more than 3 % below {highest:.0} MHz"),
        }
    }

    pub(super) fn json(&self) -> Value {
        let reasons = match &self.by {
            ThrottlingSource::Reasons(reasons) => {
                Value::Object(reasons.iter().map(|(name, _, seconds)| ((*name).to_owned(), json!(seconds))).collect())
            }
            ThrottlingSource::Clock { .. } => Value::Null,
        };
        let (told_by, highest) = match &self.by {
            ThrottlingSource::Reasons(_) => ("throttle_reasons", None),
            ThrottlingSource::Clock { highest } => ("clock_drops", Some(*highest)),
        };
        json!({"session": self.session, "device": self.device, "told_by": told_by, "seconds": self.seconds,
            "held_seconds": self.slow_seconds, "share": entries::number(self.share()), "reason_seconds": reasons,
            "highest_clock_mhz": entries::number(highest)})
    }
}

/// Computes the throttling of every GPU in a time range.
pub(super) fn throttling(telemetry: &Telemetry, range: &SessionRange) -> Vec<Throttling> {
    let of = |signal| {
        let channels = telemetry.channels.iter().filter(move |channel| channel.signal == signal);
        channels.filter(|channel| channel.session == range.session && channel.device.starts_with("gpu:"))
    };
    let mut found: Vec<Throttling> = of("throttle_reasons").filter_map(|channel| by_reasons(channel, range)).collect();
    for channel in of("clock_core").filter(|channel| channel.scope == "device") {
        if !found.iter().any(|held| held.device == device(channel)) {
            found.extend(by_clock(channel, range));
        }
    }
    found
}

fn by_reasons(channel: &Channel, range: &SessionRange) -> Option<Throttling> {
    let readings = loaded(channel, range);
    let seconds = total(&readings, |_| true)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "bits reported by the driver; casts saturate"
    )]
    let bits = |value: f64| value as u64;
    let reasons = REASONS.iter().filter_map(|reason| {
        let seconds = total(&readings, |value| bits(value) & reason.bit != 0)?;
        (seconds > 0.0).then_some((reason.name, reason.words, seconds))
    });
    let back = REASONS.iter().filter(|reason| reason.holds_back).fold(0, |bits, reason| bits | reason.bit);
    Some(Throttling {
        session: range.session,
        device: device(channel),
        by: ThrottlingSource::Reasons(reasons.collect()),
        seconds,
        slow_seconds: total(&readings, |value| bits(value) & back != 0)?,
    })
}

fn by_clock(channel: &Channel, range: &SessionRange) -> Option<Throttling> {
    let readings = loaded(channel, range);
    let highest = readings.iter().map(|reading| reading.0).max_by(f64::total_cmp)?;
    Some(Throttling {
        session: range.session,
        device: device(channel),
        by: ThrottlingSource::Clock { highest },
        seconds: total(&readings, |_| true)?,
        slow_seconds: total(&readings, |value| value < highest * (1.0 - DROP))?,
    })
}

/// The seconds in which a condition on the value holds; `None` if there is no data.
fn total(readings: &[(f64, f64)], is_counted: impl Fn(f64) -> bool) -> Option<f64> {
    // A fold from 0.0, because the `sum` of no floats is -0, which people would see.
    let counted = readings.iter().filter(|reading| is_counted(reading.0));
    (!readings.is_empty()).then(|| counted.fold(0.0, |sum, reading| sum + reading.1))
}

/// Values in the time range, each with the seconds it was valid while requests were in flight.
fn loaded(channel: &Channel, range: &SessionRange) -> Vec<(f64, f64)> {
    let mut gaps: Vec<i64> = channel.at_ns.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
    gaps.sort_unstable();
    let usual = gaps.get(gaps.len() / 2).copied().unwrap_or(0);
    #[expect(clippy::cast_possible_truncation, reason = "nanoseconds of some seconds")]
    let longest = (usual as f64 * LONGEST_HOLD) as i64;
    let (start, end) = (range.start.nanos_since_epoch(), range.end.nanos_since_epoch());
    let each = channel.at_ns.iter().zip(&channel.values).enumerate().filter_map(|(place, (&at, &value))| {
        let next = channel.at_ns.get(place + 1).copied().unwrap_or(at.saturating_add(usual));
        let until = next.min(at.saturating_add(longest)).min(end);
        let busy = overlap(&range.busy, at.max(start), until);
        (busy > 0).then_some((value, busy as f64 / 1e9))
    });
    each.collect()
}

/// The overlap of a span with sorted, disjoint spans.
fn overlap(spans: &[(i64, i64)], from: i64, to: i64) -> i64 {
    let first = spans.partition_point(|span| span.1 <= from);
    let inside = spans[first..].iter().take_while(|span| span.0 < to);
    let each = inside.map(|span| span.1.min(to).saturating_sub(span.0.max(from)).max(0));
    each.fold(0, i64::saturating_add)
}

/// The table of throttled GPUs.
pub(super) fn table(found: &[Throttling], has_sessions: bool) -> Table {
    let mut columns = vec![("device", "device")];
    columns.extend(has_sessions.then_some(("session", "session")));
    columns.extend([
        ("throttled, share", "share"),
        ("throttled, time", "held_s"),
        ("observed time", "seconds"),
        ("reason", "by"),
    ]);
    let mut table = Table::new("held_back", "Clock throttling", &columns);
    for held in found {
        let mut row = vec![Cell::text(cell::outside(&held.device))];
        row.extend(has_sessions.then(|| Cell::text(held.session.to_string())));
        row.extend([
            Cell::number(held.share(), format::percent),
            quantity_cell(Some(held.slow_seconds), "s"),
            quantity_cell(Some(held.seconds), "s"),
            Cell::text(held.words()),
        ]);
        table.rows.push(row);
    }
    table.notes.push(String::from(
        "Observed time: the time with requests in flight in the steady state, or in the whole run if it has no steady \
         state. Idle clocks and clocks set by a user are not throttling.",
    ));
    if found.iter().any(|held| matches!(held.by, ThrottlingSource::Clock { .. })) {
        table.notes.push(String::from(
            "If the driver reports no throttle reasons, drops of the core clock are shown; a drop is not always throttling.",
        ));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::super::example;
    use super::*;

    /// Requests are in flight from 0 to 2 s and from 8 to 10 s, with a reading every quarter of a second.
    fn range() -> SessionRange {
        let query = |number: u64| (!(20..80).contains(&number)).then(|| example::query(number));
        SessionRange::all(&example::run((0..100).filter_map(query).collect(), &[""])).remove(0)
    }

    fn channel(signal: &str, value: impl Fn(f64) -> f64) -> Channel {
        let seconds = || (0..40).map(|quarter| f64::from(quarter) / 4.0);
        Channel {
            device: String::from("gpu:0"),
            scope: String::from("device"),
            signal: signal.to_owned(),
            at_ns: seconds().map(|second| example::at(second).nanos_since_epoch()).collect(),
            values: seconds().map(value).collect(),
            ..Channel::default()
        }
    }

    #[test]
    fn reasons_are_counted_while_requests_are_in_flight() {
        // Idle in between; half a second of power cap, half of which also has a hardware slowdown.
        let reasons = channel("throttle_reasons", |second| match second {
            0.5 => 4.0,
            0.75 => 12.0,
            2.0..8.0 => 1.0,
            9.0.. => 2.0,
            _ => 0.0,
        });
        let clock = channel("clock_core", |_| 1980.0);
        let found = throttling(&Telemetry { channels: vec![clock, reasons] }, &range());
        assert_eq!(found.len(), 1, "with throttle reasons, the clock is not used");
        assert!((found[0].seconds - 4.0).abs() < 1e-9 && (found[0].slow_seconds - 0.5).abs() < 1e-9, "{found:?}");
        assert_eq!(
            found[0].words(),
            "clocks set by a user (25.0 % of the time), power cap (12.5 % of the time), hardware slowdown (6.2 % of the time)"
        );
        assert_eq!(found[0].json()["reason_seconds"]["hw_slowdown"], 0.25);
    }

    #[test]
    fn without_reasons_a_lower_clock_is_a_drop() {
        let clock = channel("clock_core", |second| match second {
            0.5..1.0 => 1900.0,
            1.0..1.25 => 1950.0,
            2.0..8.0 => 300.0,
            _ => 1980.0,
        });
        let host = Channel { device: String::from("host:0"), ..clock.clone() };
        let found = throttling(&Telemetry { channels: vec![host, clock] }, &range());
        assert_eq!((found.len(), &found[0].by), (1, &ThrottlingSource::Clock { highest: 1980.0 }));
        assert!(
            (found[0].slow_seconds - 0.5).abs() < 1e-9,
            "1950 MHz is within 3 %, and idle time does not count: {found:?}"
        );
        assert!(table(&found, false).notes[1].contains("not always throttling"));
    }

    #[test]
    fn a_gap_in_readings_does_not_extend_the_last_value() {
        let mut reasons = channel("throttle_reasons", |_| 4.0);
        reasons.at_ns.drain(1..39);
        reasons.values.drain(1..39);
        reasons.at_ns.insert(1, reasons.at_ns[0] + 250_000_000);
        reasons.at_ns.insert(2, reasons.at_ns[0] + 500_000_000);
        reasons.values.extend([4.0, 4.0]);
        let found = throttling(&Telemetry { channels: vec![reasons] }, &range());
        assert!((found[0].seconds - 1.75).abs() < 1e-9, "0.5 s, 1 s after it, and the last: {found:?}");
        assert_eq!(
            throttling(&Telemetry { channels: vec![channel("throttle_reasons", |_| 0.0)] }, &range())[0].words(),
            "nothing"
        );
    }
}
