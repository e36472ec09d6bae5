//! Builds the table of autotuned functions, each compared with the fastest.

use ergometer_statistics::{Interval, RankedVariant, SampleSummary, median_interval_at};
use ergometer_trace::accounting::Filter;
use ergometer_trace::{FunctionId, FunctionOptions, FunctionTimes, Trace, compare, functions as find};
use ergometer_units::Picos;
use pyo3::PyResult;
use regex::Regex;

use crate::statistics::verdict;
use crate::table::{Columns, Table};

/// Seconds as picoseconds, rounded to a thousandth, which removes the rounding error of seconds.
fn picos(seconds: f64) -> f64 {
    (seconds * 1e15).round() / 1e3
}

/// The table, fastest function first.
pub(super) fn functions(trace: &Trace, name: Regex, filter: Filter, level: f64) -> PyResult<Table> {
    let found = find(trace, &FunctionOptions { pattern: name, filter, level });
    let ranking = compare(&found, level);
    let row = |times: &FunctionTimes| ranking.rows.iter().find(|row| row.id == times.id.to_string());
    let compared: Vec<Option<&RankedVariant>> = found.rows.iter().map(row).collect();
    let rows = &found.rows;
    let medians: Vec<Option<Interval>> =
        rows.iter().map(|row| median_interval_at(&sorted(&row.busy_times), level)).collect();
    let seconds = |value: fn(&SampleSummary) -> f64| rows.iter().map(move |row| picos(value(&row.busy)));
    let mean = rows.iter().map(|row| row.busy.mean_interval_s);
    let end = |interval: Option<f64>| interval.map(picos);
    ids(rows)
        .texts("modules", rows.iter().map(|row| row.modules.clone()))
        .count("n", rows.iter().map(|row| row.n as u64))
        .count("devices", rows.iter().map(|row| row.devices as u64))
        .number("busy_median_ps", seconds(|busy| busy.median_s))
        .number("busy_median_low_ps", medians.iter().map(|interval| interval.map(|interval| interval.low)))
        .number("busy_median_high_ps", medians.iter().map(|interval| interval.map(|interval| interval.high)))
        .number("busy_mad_ps", seconds(|busy| busy.mad_s))
        .number("busy_mean_ps", seconds(|busy| busy.mean_s))
        .number("busy_mean_low_ps", mean.clone().map(|interval| end(interval.map(|interval| interval.low))))
        .number("busy_mean_high_ps", mean.map(|interval| end(interval.map(|interval| interval.high))))
        .number("busy_std_ps", rows.iter().map(|row| end(row.busy.std_s)))
        .number("busy_min_ps", seconds(|busy| busy.min_s))
        .number("busy_max_ps", seconds(|busy| busy.max_s))
        .number("busy_trimmed_mean_ps", seconds(|busy| busy.trimmed.mean_s))
        .number("busy_trimmed_std_ps", seconds(|busy| busy.trimmed.std_s))
        .number("span_median_ps", rows.iter().map(|row| picos(row.span.median_s)))
        .number("ratio", compared.iter().map(|row| row.and_then(|row| row.ratio)))
        .number("ratio_low", compared.iter().map(|row| row.and_then(|row| row.ratio_interval).map(|ratio| ratio.low)))
        .number("ratio_high", compared.iter().map(|row| row.and_then(|row| row.ratio_interval).map(|ratio| ratio.high)))
        .number("p", compared.iter().map(|row| row.and_then(|row| row.p)))
        .number("corrected_p", compared.iter().map(|row| row.and_then(|row| row.corrected_p)))
        .text("verdict", compared.iter().map(|row| row.map(|row| verdict(row.verdict))))
        .integers("busy_times_ps", rows.iter().map(|row| whole(&row.busy_times)))
        .integers("span_times_ps", rows.iter().map(|row| whole(&row.span_times)))
        .finish()
}

/// The column of ids: integers if all ids are integers.
fn ids(rows: &[FunctionTimes]) -> Columns {
    let number = |row: &FunctionTimes| if let FunctionId::Number(id) = row.id { Some(id) } else { None };
    if rows.iter().all(|row| number(row).is_some()) {
        return Columns::default().integer("id", rows.iter().map(number));
    }
    Columns::default().text("id", rows.iter().map(|row| Some(row.id.to_string())))
}

fn whole(times: &[Picos]) -> Vec<i64> {
    times.iter().map(|time| time.get()).collect()
}

fn sorted(times: &[Picos]) -> Vec<f64> {
    let mut times = whole(times);
    times.sort_unstable();
    times.iter().map(|&time| time as f64).collect()
}
