//! Prints a sweep: a table with a row per point, and the best points.

use std::io::ErrorKind;

use ergometer_runs::EnergySource;
use ergometer_runs::config::Axis;
use ergometer_runs::metrics::{self, Metric, named};
use ergometer_runs::sweep::{Point, SWEEP_FILE, Spread, Sweep, SweepRun, label};

use super::super::show::shell_word;
use super::SweepResult;
use crate::arguments::SummaryFormat;
use crate::csv;
use crate::exit::Failure;
use crate::figures::{digits, significant};
use crate::report::to_json;
use crate::screen::{self, Align, Screen, Table, Tone};

pub(super) fn print(result: &SweepResult, format: SummaryFormat, screen: Screen) -> Result<(), Failure> {
    let text = match format {
        SummaryFormat::Json => to_json(&result.sweep)?,
        SummaryFormat::Csv => rows(&result.sweep),
        SummaryFormat::Table => table(&result.sweep, screen),
    };
    // A closed pipe is not an error; another error is reported after the sweep folder is named.
    let unprinted = screen::print(&text).err().filter(|error| error.kind() != ErrorKind::BrokenPipe);
    for warning in result.warnings.messages(&result.sweep) {
        screen.warning(&warning);
    }
    let folder = result.folder.display();
    screen.note(&format!("saved    {folder}"));
    screen.note(&format!("next     ergo report {}", shell_word(&folder.to_string())));
    match unprinted {
        None => Ok(()),
        Some(error) => Err(Failure::failed(format!("the sweep cannot be printed: {error}"))
            .hint(format!("the sweep is in {}", result.folder.join(SWEEP_FILE).display()))),
    }
}

// Metrics that the table or the lines use apart from its columns.
const THROUGHPUT: &Metric = named("output_tokens_per_second");
const JOULES_PER_TOKEN: &Metric = named("joules_per_token");
const FAILED: &Metric = named("failed");

/// How a value is shown.
type Show = fn(f64) -> String;

/// A column of the table.
struct Column {
    heading: Heading,
    metric: &'static Metric,
    show: Show,
}

/// The heading of a column: of the metric, or shorter.
enum Heading {
    /// The label of the metric: `J/output token`.
    Label,
    /// The label and the unit of the values: `TTFT p50 ms`.
    LabelAndUnit,
    /// The unit of the values alone: `W`.
    Unit,
    /// A short form, to keep the table narrow.
    Short(&'static str),
}

impl Column {
    fn heading(&self) -> String {
        match self.heading {
            Heading::Label => self.metric.label.to_owned(),
            Heading::LabelAndUnit => format!("{} {}", self.metric.label, self.metric.key_unit()).replace(" /", "/"),
            Heading::Unit => self.metric.key_unit().to_owned(),
            Heading::Short(heading) => heading.to_owned(),
        }
    }
}

const fn column(heading: Heading, metric: &'static Metric, show: Show) -> Column {
    Column { heading, metric, show }
}

const COLUMNS: [Column; 12] = [
    column(Heading::Short("req/s"), named("requests_per_second"), digits),
    column(Heading::Unit, THROUGHPUT, digits),
    column(Heading::Short("steady tok/s"), named("steady_output_tokens_per_second"), digits),
    column(Heading::LabelAndUnit, named("ttft_p50"), digits),
    column(Heading::Short("p99"), named("ttft_p99"), digits),
    column(Heading::LabelAndUnit, named("itl_p50"), digits),
    column(Heading::Short("p99"), named("itl_p99"), digits),
    column(Heading::Label, JOULES_PER_TOKEN, significant),
    column(Heading::Label, named("joules_per_input_token"), significant),
    column(Heading::Label, named("decode_joules_per_output_token"), significant),
    column(Heading::Unit, named("mean_power_w"), digits),
    column(Heading::LabelAndUnit, named("goodput"), digits),
];

/// The figures in the line of a run that ended.
const LINE: [(&Metric, Show); 6] = [
    (named("requests_per_second"), |value| format!("{} req/s", digits(value))),
    (THROUGHPUT, |value| format!("{} {}", digits(value), THROUGHPUT.unit.name())),
    (named("ttft_p50"), |value| format!("TTFT {} ms", digits(value))),
    (JOULES_PER_TOKEN, |value| format!("{} {}", significant(value), JOULES_PER_TOKEN.label)),
    (named("mean_power_w"), |value| format!("{} W", digits(value))),
    (FAILED, |value| format!("{value:.0} failed")),
];

pub(super) fn table(sweep: &Sweep, screen: Screen) -> String {
    // Columns without values are left out.
    let has_values = |column: &&Column| sweep.points.iter().any(|point| point.figures.contains_key(column.metric.key));
    let columns: Vec<&Column> = COLUMNS.iter().filter(has_values).collect();
    let modelled = sweep.points.iter().any(|point| point.energy == Some(EnergySource::Modelled));
    let axis = match sweep.axis {
        Axis::Concurrency => "in flight",
        Axis::Rate => "rate /s",
        Axis::Replay => "replay ×",
    };
    let mut aligns = vec![Align::Right; columns.len() + 2];
    aligns.push(Align::Left);
    let mut table = Table::new(aligns);
    let heads = columns.iter().map(|column| {
        let is_modelled = modelled && column.metric.key == JOULES_PER_TOKEN.key;
        if is_modelled { format!("{}, modelled", column.heading()) } else { column.heading() }
    });
    let heads = [axis.to_owned()].into_iter().chain(heads).chain([String::from("failed")]);
    table.row(heads.map(|head| (Tone::Faint, head)).collect());
    for point in &sweep.points {
        let mut row = vec![(Tone::Strong, Axis::value(&point.schedule).to_string())];
        row.extend(columns.iter().map(|column| (Tone::Plain, cell(point.figures.get(column.metric.key), column.show))));
        let failed =
            point.figures.get(FAILED.key).map_or_else(|| String::from("-"), |failed| format!("{:.0}", failed.total()));
        let tone = if failed == "0" || failed == "-" { Tone::Plain } else { Tone::Warning };
        row.push((tone, failed));
        row.push((Tone::Faint, remark(point)));
        table.row(row);
    }
    format!("\n{}{}\n", table.render(screen), words(sweep))
}

/// `12.34 ± 0.56`, or `-` without a value.
fn cell(figure: Option<&Spread>, show: Show) -> String {
    let Some(figure) = figure else { return String::from("-") };
    match figure.half_width() {
        Some(half) => format!("{} ± {}", show(figure.mean), show(half)),
        None => show(figure.mean),
    }
}

/// Whether runs of a point are missing or limited by the client.
fn remark(point: &Point) -> String {
    let (whole, all) = (point.runs.iter().filter(|run| run.complete).count(), point.runs.len());
    let is_made = point.runs.iter().any(|run| run.figures.is_some());
    let runs = match (whole, is_made) {
        _ if whole == all => None,
        (0, false) => Some(String::from("not run")),
        (0, true) if all == 1 => Some(String::from("incomplete")),
        _ => Some(format!("{whole} of {all} runs")),
    };
    let limited = point.client_limited.filter(|&count| count > 0).map(|_| String::from("limited by the client"));
    [runs, limited].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// The text below the table: the best points, and the meaning of ±.
fn words(sweep: &Sweep) -> String {
    let of = |metric: &'static Metric| {
        let values = sweep.points.iter().filter_map(move |point| Some((point, point.figures.get(metric.key)?.mean)));
        values.collect::<Vec<(&Point, f64)>>()
    };
    let (speeds, joules) = (of(THROUGHPUT), of(JOULES_PER_TOKEN));
    let fastest = speeds.iter().max_by(|one, other| one.1.total_cmp(&other.1)).filter(|_| speeds.len() > 1);
    let thriftiest = joules.iter().min_by(|one, other| one.1.total_cmp(&other.1)).filter(|_| joules.len() > 1);
    let fastest = fastest.map(|(point, speed)| {
        format!("highest {} at {}: {}", THROUGHPUT.unit.name(), label(&point.schedule), digits(*speed))
    });
    let thriftiest = thriftiest.map(|(point, joules)| {
        format!("lowest {} at {}: {}", JOULES_PER_TOKEN.label, label(&point.schedule), significant(*joules))
    });
    let has_interval = sweep.points.iter().flat_map(|point| point.figures.values()).any(|figure| figure.low.is_some());
    let interval = has_interval.then(|| String::from("± is half of the 95 % interval of the mean over repeats"));
    let lines = [fastest, thriftiest, interval].into_iter().flatten();
    let lines: Vec<String> = lines.map(|line| format!("  {line}\n")).collect();
    if lines.is_empty() { String::new() } else { format!("\n{}", lines.concat()) }
}

/// One line for a run that ended.
pub(super) fn line(run: &SweepRun) -> String {
    let figure = |&(metric, show): &(&Metric, Show)| {
        let value = run.figures.as_ref()?.values.get(metric.key).copied();
        value.filter(|&value| metric.key != FAILED.key || value > 0.0).map(show)
    };
    let mut parts: Vec<String> = LINE.iter().filter_map(figure).collect();
    if !run.complete {
        parts.push(String::from("incomplete"));
    }
    format!("  {}", parts.join("   "))
}

/// CSV with a row per point: the mean of each figure, and with repeats the ends of its interval.
pub(super) fn rows(sweep: &Sweep) -> String {
    let fixed = ["axis", "value", "runs", "complete_runs", "energy"].map(String::from);
    let names = metrics::in_sweeps()
        .flat_map(|Metric { key, .. }| [String::from(*key), format!("{key}_low"), format!("{key}_high")]);
    let mut text = csv::line(fixed.into_iter().chain(names));
    for point in &sweep.points {
        let whole = point.runs.iter().filter(|run| run.complete).count();
        let fixed = [
            sweep.axis.to_string(),
            Axis::value(&point.schedule).to_string(),
            point.runs.len().to_string(),
            whole.to_string(),
            point.energy.map_or_else(String::new, |energy| energy.name().to_owned()),
        ];
        let figures = metrics::in_sweeps().flat_map(|metric| {
            let figure = point.figures.get(metric.key);
            let part = |part: fn(&Spread) -> Option<f64>| csv::number(figure.and_then(part));
            [part(|figure| Some(figure.mean)), part(|figure| figure.low), part(|figure| figure.high)]
        });
        text.push_str(&csv::line(fixed.into_iter().chain(figures)));
    }
    text
}

#[cfg(test)]
pub(super) mod tests {
    use ergometer::sweep::SweepSpec;
    use ergometer_runs::config::Schedule;
    use ergometer_runs::testing;
    use serde_json::{Value, json};

    use super::*;

    fn summary(tokens_per_second: f64, joules: f64) -> Value {
        json!({
            "complete": true, "closing": "finished", "outcomes": {"completed": 600, "failed": {}},
            "latency": {"ttft_ms": {"p50": 4000.0 / tokens_per_second, "p99": 9000.0 / tokens_per_second}},
            "tokens": {"requests_per_second": tokens_per_second / 40.0, "output_per_second": tokens_per_second},
            "energy": {"measured": {"gross_j_per_output_token": joules, "mean_power_w": joules * tokens_per_second}},
        })
    }

    fn empty(repeats: u32) -> Sweep {
        let schedules = [1, 4, 16].map(|concurrency| Schedule::Concurrency { concurrency }).to_vec();
        let config = testing::config(json!({}));
        SweepSpec { config, schedules, repeats, cooldown_s: 0.0 }.begin(testing::identity()).unwrap()
    }

    /// Three points with one run each.
    pub(in super::super) fn sweep() -> Sweep {
        let mut sweep = empty(1);
        sweep.take((0, 0), &testing::summary(summary(120.0, 2.5)));
        sweep.take((1, 0), &testing::summary(summary(430.0, 0.91)));
        let mut last = summary(1250.0, 0.0432);
        last["outcomes"]["failed"] = json!({"http_429": 3});
        last["load"] = json!({
            "itl_ms": {"p50": 8.1, "p99": 20.0}, "goodput": {"requests_per_second": 29.5}, "client_limited": true,
            "steady_state": {"output_tokens_per_second": 1310.0},
        });
        last["energy"]["measured"]["prefill_j_per_input_token"] = json!(0.0021);
        last["energy"]["measured"]["decode_j_per_output_token"] = json!(0.0312);
        sweep.take((2, 0), &testing::summary(last));
        sweep
    }

    #[test]
    fn every_shown_figure_is_a_metric_of_sweeps() {
        for metric in COLUMNS.iter().map(|column| column.metric).chain(LINE.iter().map(|line| line.0)) {
            assert!(metric.in_sweeps, "{}", metric.name);
        }
    }

    #[test]
    fn the_table_has_a_row_for_each_point() {
        insta::assert_snapshot!("sweep_table", table(&sweep(), Screen::PLAIN));
    }

    /// Three repeats of each point, of which only some are made.
    pub(in super::super) fn repeated_sweep() -> Sweep {
        let mut sweep = empty(3);
        for (repeat, speed) in [(0, 118.0), (1, 120.0), (2, 125.0)] {
            sweep.take((0, repeat), &testing::summary(summary(speed, 300.0 / speed)));
        }
        sweep.take((1, 0), &testing::summary(summary(430.0, 0.91)));
        sweep
    }

    #[test]
    fn repeats_have_intervals_and_missing_runs_are_marked() {
        insta::assert_snapshot!("sweep_table_repeats", table(&repeated_sweep(), Screen::PLAIN));
    }

    #[test]
    fn modelled_energy_is_marked() {
        let mut sweep = empty(1);
        let mut modelled = summary(120.0, 2.5);
        modelled["energy"] = json!({"measured": null, "modelled": modelled["energy"]["measured"]});
        sweep.take((0, 0), &testing::summary(modelled));
        assert!(table(&sweep, Screen::PLAIN).contains("J/output token, modelled"));
    }

    #[test]
    fn csv_rows_have_the_same_number_of_cells() {
        let text = rows(&sweep());
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!((lines.len(), lines[0].len()), (4, 5 + 3 * metrics::in_sweeps().count()));
        assert!(lines.iter().all(|line| line.len() == lines[0].len()));
        assert_eq!(lines[2][..7], ["concurrency", "4", "1", "1", "measured", "10.75", ""]);
    }

    #[test]
    fn a_finished_run_is_one_line() {
        let sweep = sweep();
        let expected = "  31.25 req/s   1250 tok/s   TTFT 3.200 ms   0.0432 J/output token   54.00 W   3 failed";
        assert_eq!(line(&sweep.points[2].runs[0]), expected);
    }
}
