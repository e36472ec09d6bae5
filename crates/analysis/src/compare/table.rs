//! Formats a comparison as a table.

use ergometer_charts::{Cell, Table, Tone};
use ergometer_statistics::Change;

use super::row::{Effect, Row, Verdict};
use super::{Candidate, Side};
use ergometer_runs::metrics::{Metric, Unit};

/// An interval is formatted by its ends if its two sides differ by more than this share of half its width.
const ALIKE: f64 = 0.08;

/// The table of a candidate.
pub(super) fn table(baseline: &Side, candidate: &Candidate, place: usize) -> Table {
    let columns = [
        ("", "metric"),
        (baseline.label.as_str(), "baseline"),
        (candidate.side.label.as_str(), "candidate"),
        ("change", "change"),
        ("verdict", "verdict"),
    ];
    let title = format!("{} compared with {}", candidate.side.label, baseline.label);
    let mut table = Table::new(&format!("compare_{}", place + 1), &title, &columns);
    table.rows = candidate.rows.iter().map(row).collect();
    if let Some(subject) = candidate.comparability.subject() {
        table.notes.push(format!("the runs differ in {}", subject.text()));
    }
    table.notes.push(candidate.comparability.verdict.clone());
    table.notes.extend(candidate.notes.iter().cloned());
    table.notes.extend(reasons(candidate));
    table
}

/// The reasons for `-` cells and for verdicts on equal values, each once.
fn reasons(candidate: &Candidate) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in &candidate.rows {
        let Some(reason) = row.reason.as_deref() else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, labels)) => labels.push(row.metric.label),
            None => reasons.push((reason, vec![row.metric.label])),
        }
    }
    reasons.into_iter().map(|(reason, labels)| format!("{}: {reason}", labels.join(", "))).collect()
}

fn row(row: &Row) -> Vec<Cell> {
    let value = |value: Option<f64>| Cell::number(value, |value| row.unit.format(value));
    let changed = match row.change {
        None => Cell::Absent,
        Some(effect) => {
            let shown = format_change(row.metric, &effect);
            match effect.interval {
                Some(interval) => Cell::Estimate { value: effect.value, low: interval.low, high: interval.high, shown },
                None => Cell::Number { value: effect.value, shown },
            }
        }
    };
    let tone = match row.verdict {
        Verdict::Better => Tone::Good,
        Verdict::Worse => Tone::Bad,
        _ => Tone::Plain,
    };
    let verdict = match row.verdict {
        Verdict::None => Cell::Absent,
        verdict => Cell::Verdict { text: verdict.words().to_owned(), tone },
    };
    vec![Cell::text(row.metric.label), value(row.baseline), value(row.candidate), changed, verdict]
}

/// A change with its interval: `+11.7 points ±2.9`, `×3.52 ±0.21`, `+2.5 ms (1.9 to 4.0)`.
pub(super) fn format_change(metric: &Metric, effect: &Effect) -> String {
    let ends = effect.interval.map(|interval| (interval.low, interval.high));
    match effect.kind {
        Change::Ratio => written("×", "", effect.value, ends),
        Change::Difference => {
            let (factor, unit) = match metric.unit {
                Unit::Share => (0.01, " points"),
                _ => time_unit(ends.map_or(0.0, |(low, high)| high - low).max(effect.value.abs())),
            };
            let ends = ends.map(|(low, high)| (low / factor, high / factor));
            written("+", unit, effect.value / factor, ends)
        }
    }
}

fn time_unit(seconds: f64) -> (f64, &'static str) {
    let units = [(1.0, " s"), (1e-3, " ms"), (1e-6, " µs")];
    units.into_iter().find(|(factor, _)| seconds >= *factor).unwrap_or((1e-9, " ns"))
}

/// Whether `±half` represents the interval well: both sides are about equal, and it includes "no change" in both forms or in
/// neither.
fn is_even(value: f64, (low, high): (f64, f64), none: f64) -> bool {
    let half = (high - low) / 2.0;
    let is_alike = (high + low - 2.0 * value).abs() <= ALIKE * half * 2.0;
    is_alike && (value - half > none) == (low > none) && (value + half < none) == (high < none)
}

/// Formats a number with its interval, with two significant digits of the margin.
fn written(mark: &str, unit: &str, value: f64, ends: Option<(f64, f64)>) -> String {
    let half = ends.map_or(value.abs() / 30.0, |(low, high)| (high - low) / 2.0);
    let decimals =
        if half > 0.0 && half.is_finite() { (1.0 - (half.log10() + 1e-9).floor()).clamp(0.0, 6.0) } else { 2.0 };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 6")]
    let decimals = decimals as usize;
    let number = |value: f64| if mark == "+" { format!("{value:+.decimals$}") } else { format!("{value:.decimals$}") };
    let sign = if mark == "+" { "" } else { mark };
    let number_text = format!("{sign}{}{unit}", number(value));
    match ends {
        None => number_text,
        Some((low, high)) if is_even(value, (low, high), if mark == "+" { 0.0 } else { 1.0 }) => {
            format!("{number_text} ±{half:.decimals$}")
        }
        Some((low, high)) => format!("{number_text} ({} to {})", number(low), number(high)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ergometer_statistics::Interval;

    #[test]
    fn changes_are_formatted_with_their_intervals() {
        let of = |name: &str, value: f64, ends: Option<(f64, f64)>| {
            let metric = ergometer_runs::metrics::find(name).unwrap();
            let interval = ends.map(|(low, high)| Interval { low, high });
            format_change(
                metric,
                &Effect {
                    kind: super::super::metric::change(metric),
                    value,
                    interval,
                    method: None,
                    is_constant: false,
                },
            )
        };
        assert_eq!(of("accuracy", 0.117, Some((0.088, 0.146))), "+11.7 points ±2.9");
        assert_eq!(of("joules_per_query", 3.52, Some((3.32, 3.72))), "×3.52 ±0.20");
        assert_eq!(of("joules_per_query", 3.5, Some((3.4, 4.2))), "×3.50 (3.40 to 4.20)");
        assert_eq!(of("ttft_p50", 0.000_312, Some((0.000_012, 0.000_645))), "+312 µs (+12 to +645)");
        assert_eq!(of("ttft_p50", 0.0025, Some((0.0024, 0.0026))), "+2.50 ms ±0.10");
        assert_eq!(of("ttft_p99", -0.0025, Some((-0.004, 0.03))), "-2 ms (-4 to +30)");
        assert_eq!((of("duration", 4.714, None), of("itl_p50", 0.0, None)), ("×4.71".into(), "+0.00 ns".into()));
    }
}
