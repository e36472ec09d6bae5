//! `ergo trace functions`: prints the times of each variant of an autotuned function, and the fastest.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::process::ExitCode;

use ergometer_statistics::{RankedVariant, Ranking, SampleSummary, Verdict};
use ergometer_trace::accounting::DeviceId;
use ergometer_trace::{FunctionOptions, FunctionTimes, Functions, functions};
use ergometer_units::Picos;

use super::cell::Cell;
use super::function_report::{Comparison, Figures, Report};
use super::listing::{Column, Listing, OfDevice, arrange, print_json};
use super::open::{Needs, open};
use crate::arguments::{Format, FunctionSort, FunctionsArguments};
use crate::exit::{Exit, Failure};
use crate::figures::{digits, margin, time_unit};
use crate::screen::Screen;

/// The columns of tables and CSV. JSON also has all statistics and every time.
const COLUMNS: [Column; 33] = [
    Column::figure("rank", "rank"),
    Column::name("id", "id"),
    Column::shared("modules", "module").rank(7),
    Column::data("program_ids"),
    Column::figure("n", "n"),
    Column::data("devices"),
    Column::figure("busy_median_ps", "median busy"),
    Column::figure("busy_mad_ps", "MAD").rank(3),
    Column::figure("", "mean").only_table().rank(2),
    Column::figure("busy_std_ps", "std").rank(6),
    Column::figure("", "trimmed").only_table().rank(5),
    Column::figure("span_median_ps", "median span").rank(4),
    Column::data("busy_mean_ps"),
    Column::data("busy_mean_low_ps"),
    Column::data("busy_mean_high_ps"),
    Column::data("busy_min_ps"),
    Column::data("busy_max_ps"),
    Column::data("busy_trimmed_mean_ps"),
    Column::data("busy_trimmed_std_ps"),
    Column::data("span_mad_ps"),
    Column::data("span_mean_ps"),
    Column::data("span_std_ps"),
    Column::data("busy_times_ps"),
    Column::data("span_times_ps"),
    Column::figure("", "to fastest").only_table(),
    Column::figure("", "interval").only_table().rank(1),
    Column::figure("", "p").only_table(),
    Column::name("verdict", "verdict"),
    Column::data("ratio"),
    Column::data("ratio_low"),
    Column::data("ratio_high"),
    Column::data("p"),
    Column::data("corrected_p"),
];

/// A variant with its comparison to the fastest.
pub(super) struct Variant<'a> {
    pub(super) times: &'a FunctionTimes,
    pub(super) busy: Figures,
    pub(super) span: Figures,
    pub(super) comparison: Option<Comparison>,
}

impl OfDevice for Variant<'_> {
    fn device(&self) -> Option<DeviceId> {
        None
    }
}

pub(super) fn run(arguments: &FunctionsArguments, screen: Screen) -> Result<ExitCode, Failure> {
    let opened = open(&arguments.files, Needs::Everything, screen)?;
    let filter = opened.filter(&arguments.filter)?;
    let options = FunctionOptions { pattern: arguments.pattern.clone(), filter, level: arguments.level };
    let found = functions(&opened.trace, &options);
    if found.rows.is_empty() {
        match no_variant_message(&found, arguments) {
            Some(message) => screen.note(&message),
            None => opened.explain_empty("modules", &arguments.filter, screen),
        }
    }
    let ranking = arguments.compare.then(|| ergometer_trace::compare(&found, arguments.level));
    let notes = notes(&found, ranking.as_ref());
    let mut comparisons = comparisons(ranking);
    let variant = |times| Variant {
        times,
        busy: Figures::new(&times.busy),
        span: Figures::new(&times.span),
        comparison: comparisons.remove(&times.id.to_string()),
    };
    let mut rows: Vec<Variant> = found.rows.iter().map(variant).collect();
    let more = arrange(&mut rows, &arguments.order, arguments.format, |key, left, right| {
        compare(key, left.times, right.times)
    });
    if arguments.format == Format::Json {
        print_json(&rows.iter().map(Report::new).collect::<Vec<_>>())?;
    } else {
        Listing { columns: &COLUMNS, rows, more, cells, notes }.print(arguments.format, screen)?;
    }
    Ok(Exit::Done.into())
}

fn comparisons(ranking: Option<Ranking>) -> HashMap<String, Comparison> {
    let rows = ranking.map(|ranking| ranking.rows).unwrap_or_default().into_iter().zip(1..);
    rows.map(|(row, rank)| {
        let RankedVariant { id, ratio, ratio_interval, p, corrected_p, verdict, .. } = row;
        (id, Comparison { rank, ratio, ratio_interval, p, corrected_p, verdict })
    })
    .collect()
}

/// The message that no module matches, with the modules of the trace.
fn no_variant_message(found: &Functions, arguments: &FunctionsArguments) -> Option<String> {
    let (some, rest) = found.other_modules.split_at(found.other_modules.len().min(5));
    let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
    (!some.is_empty()).then(|| {
        format!(
            "no module matches {}; the trace has {}{more}. --pattern '^jit_(.*)' matches every jitted function",
            arguments.pattern,
            some.join(", ")
        )
    })
}

/// Explains missing values, and the test.
fn notes(found: &Functions, ranking: Option<&Ranking>) -> Vec<String> {
    let mut notes = Vec::new();
    let once = found.rows.iter().filter(|row| row.n < 2).count();
    if once > 0 {
        let variants = match once {
            1 => String::from("1 variant ran only once and has"),
            _ => format!("{once} variants ran only once and have"),
        };
        notes.push(format!("{variants} no MAD, std or interval: run each variant several times"));
    }
    let Some(ranking) = ranking else { return notes };
    if ranking.rows.len() < 2 {
        if !ranking.rows.is_empty() {
            notes.push(String::from("only one variant, so there is nothing to compare"));
        }
        return notes;
    }
    if ranking.rows.iter().any(|row| row.verdict == Verdict::TooFewSamples) {
        let enough = needed(ranking.rows.len() - 1, ranking.level)
            .map_or(String::new(), |n| format!("; {n} executions of each variant are enough"));
        notes.push(format!("too few executions: at this confidence level no difference can be significant{enough}"));
    }
    notes.push(format!(
        "slower: significant in the rank sum test at {1} % confidence, corrected for {0}",
        match ranking.rows.len().saturating_sub(1) {
            1 => "1 comparison".to_owned(),
            count => format!("{count} comparisons"),
        },
        digits_of(ranking.level * 100.0)
    ));
    notes.push(String::from(
        "to fastest: median ratio over all pairs of executions (Hodges-Lehmann), not the ratio of the medians, which \
         decide the order",
    ));
    notes
}

fn digits_of(percent: f64) -> String {
    let text = format!("{percent:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The number of executions of each variant at which a difference can be significant: of all divisions of 2n times into
/// two halves, two are the most extreme.
fn needed(comparisons: usize, level: f64) -> Option<u32> {
    let divisions = |n: u32| (1..=n).fold(1.0, |product, place| product * f64::from(n + place) / f64::from(place));
    let alpha = (1.0 - level) * (1.0 + 1e-12);
    (2..500).find(|&n| comparisons as f64 * 2.0 / divisions(n) <= alpha)
}

/// The cells of a variant, one for each of [`COLUMNS`].
fn cells<'a>(row: &Variant<'a>) -> Vec<Cell<'a>> {
    let Variant { times, busy, span, comparison } = row;
    let maybe = |picos: Option<f64>| picos.map_or(Cell::Absent, Cell::Between);
    let listed = |texts: Vec<String>| Cell::owned(texts.join(" "));
    let each = |times: &[Picos]| listed(times.iter().map(|time| time.get().to_string()).collect());
    let interval = busy.mean_interval_ps;
    let trimmed = busy.trimmed;
    let mut cells = vec![
        comparison.as_ref().map_or(Cell::Absent, |comparison| Cell::Count(comparison.rank as u64)),
        Cell::owned(times.id.to_string()),
        listed(times.modules.clone()),
        listed(times.program_ids.iter().map(ToString::to_string).collect()),
        Cell::Count(times.n as u64),
        Cell::Count(times.devices as u64),
        Cell::Between(busy.median_ps),
        maybe(busy.mad_ps),
        Cell::owned(with_margin(busy.mean_ps, interval.map(|interval| (interval.high - interval.low) / 2.0))),
        maybe(busy.std_ps),
        trimmed.map_or(Cell::Absent, |trimmed| Cell::owned(with_margin(trimmed.mean_ps, Some(trimmed.std_ps)))),
        Cell::Between(span.median_ps),
        Cell::Between(busy.mean_ps),
        maybe(interval.map(|interval| interval.low)),
        maybe(interval.map(|interval| interval.high)),
        Cell::Between(busy.min_ps),
        Cell::Between(busy.max_ps),
        maybe(trimmed.map(|trimmed| trimmed.mean_ps)),
        maybe(trimmed.map(|trimmed| trimmed.std_ps)),
        maybe(span.mad_ps),
        Cell::Between(span.mean_ps),
        maybe(span.std_ps),
        each(&times.busy_times),
        each(&times.span_times),
    ];
    cells.extend(comparison.as_ref().map_or_else(|| vec![Cell::Absent; 9], beside));
    cells
}

/// The cells of a comparison.
fn beside<'a>(comparison: &Comparison) -> Vec<Cell<'a>> {
    let number = |value: Option<f64>| value.map_or(Cell::Absent, Cell::Share);
    let text = |text: Option<String>| text.map_or(Cell::Absent, Cell::owned);
    let interval = comparison.ratio_interval;
    vec![
        text(comparison.ratio.map(|ratio| format!("{ratio:.3}x"))),
        text(interval.map(|interval| format!("{:.3}..{:.3}", interval.low, interval.high))),
        text(comparison.corrected_p.map(|p| if p < 0.001 { "<0.001".to_owned() } else { format!("{p:.3}") })),
        Cell::text(Some(words(comparison.verdict))),
        number(comparison.ratio),
        number(interval.map(|interval| interval.low)),
        number(interval.map(|interval| interval.high)),
        number(comparison.p),
        number(comparison.corrected_p),
    ]
}

fn words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Fastest => "fastest",
        Verdict::Slower => "slower",
        Verdict::TooCloseToCall => "too close to call",
        Verdict::TooFewSamples => "too few executions",
    }
}

/// `13.04 us ±0.17`
fn with_margin(picos: f64, half: Option<f64>) -> String {
    let (factor, unit) = time_unit(picos);
    let value = picos / factor;
    let beside = half.map(|half| format!(" {}", margin(half / factor, value))).unwrap_or_default();
    format!("{} {unit}{beside}", digits(value))
}

/// The fastest first; counts in descending order.
fn compare(key: FunctionSort, left: &FunctionTimes, right: &FunctionTimes) -> Ordering {
    let by = |figure: fn(&SampleSummary) -> f64, one: &SampleSummary, other: &SampleSummary| {
        figure(one).total_cmp(&figure(other))
    };
    match key {
        FunctionSort::Busy | FunctionSort::Median => by(|summary| summary.median_s, &left.busy, &right.busy),
        FunctionSort::Span => by(|summary| summary.median_s, &left.span, &right.span),
        FunctionSort::Mean => by(|summary| summary.mean_s, &left.busy, &right.busy),
        FunctionSort::Min => by(|summary| summary.min_s, &left.busy, &right.busy),
        FunctionSort::Max => by(|summary| summary.max_s, &left.busy, &right.busy),
        FunctionSort::Mad => by(|summary| summary.mad_s, &left.busy, &right.busy),
        FunctionSort::Count => right.n.cmp(&left.n),
        FunctionSort::Id => left.id.cmp(&right.id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_executions_for_significance() {
        // 2 of 252 divisions of ten are as far apart: 0.0079, and 0.0238 of three comparisons.
        let found = [needed(1, 0.95), needed(3, 0.95), needed(1, 0.9), needed(7, 0.95), needed(1, 1.0)];
        assert_eq!(found, [Some(4), Some(5), Some(3), Some(6), None]);
    }

    #[test]
    fn a_margin_is_as_precise_as_its_mean() {
        assert_eq!(with_margin(13.0426e6, Some(0.1733e6)), "13.04 us ±0.17");
        assert_eq!(with_margin(354e6, None), "354.0 us");
        assert_eq!((digits_of(99.9), digits_of(95.0)), ("99.9".into(), "95".into()));
    }
}
