//! The `drift` analysis: whether temperature, clocks and power of devices, or latency and energy of queries, changed during
//! the run, and whether clocks were throttled.
//!
//! Each session is analyzed separately, within its steady state if it has one.

mod series;
mod throttling;
mod trend;

use ergometer_charts::{Cell, Table, Tone};
use ergometer_diagnostics::{Message, hint, option};
use ergometer_units::format;
use serde_json::{Value, json};

use super::cell;
use super::entries;
use super::{Analysis, Findings, Options};
use crate::AnalysisError;
use ergometer_runs::saved::{Run, Telemetry};
use series::{SIGNALS, Series, SessionRange};
use throttling::{Throttling, ThrottlingSource};
use trend::{FEWEST_BLOCKS, Trend, VALUES_PER_BLOCK, Verdict};

/// A smaller throttled share of the time gives no warning.
const WORTH_A_WARNING: f64 = 0.01;

/// A smaller change is rounding, in any unit.
const LEAST_CHANGE: f64 = 1e-12;

/// The `drift` analysis.
pub(super) struct Drift;

impl Analysis for Drift {
    fn id(&self) -> &'static str {
        "drift"
    }

    fn about(&self) -> &'static str {
        "whether temperature, clocks, power, latency and energy changed during the run, and whether clocks were throttled"
    }

    fn run(&self, run: &Run, _: &Options) -> Result<Findings, AnalysisError> {
        let telemetry = Telemetry::read(&run.folder, &SIGNALS)?;
        Ok(findings(run, &telemetry))
    }
}

fn findings(run: &Run, telemetry: &Telemetry) -> Findings {
    let ranges = SessionRange::all(run);
    let mut findings = Findings::default();
    let mut trends: Vec<(Series, Trend)> = Vec::new();
    let mut held: Vec<Throttling> = Vec::new();
    for range in &ranges {
        let series = series::from_readings(telemetry, range).into_iter().chain(series::from_queries(run, range));
        trends.extend(series.map(|series| {
            let trend = Trend::fit(&series.points, series.options);
            (series, trend)
        }));
        held.extend(throttling::throttling(telemetry, range));
    }
    warn(&ranges, telemetry, &trends, &mut findings.warnings);
    let warned = held.iter().filter(|held| held.share().is_some_and(|share| share > WORTH_A_WARNING));
    findings.warnings.extend(warned.map(throttling_warning));

    let drifting: Vec<String> =
        trends.iter().filter(|(_, trend)| trend.verdict.is_drift()).map(|(series, _)| label(series)).collect();
    let most_held = held.iter().filter_map(Throttling::share).max_by(f64::total_cmp);
    findings.summary = entries::map(json!({
        "sessions": ranges.len(),
        "drifting": drifting,
        "held_back_share": entries::number(most_held),
        "held_back_told_by": held.first().map(|held| match held.by {
            ThrottlingSource::Reasons(_) => "throttle_reasons",
            ThrottlingSource::Clock { .. } => "clock_drops",
        }),
    }));
    let range_json = |range: &SessionRange| {
        json!({"session": range.session, "start_ns": range.start.nanos_since_epoch(),
            "end_ns": range.end.nanos_since_epoch(), "seconds": range.seconds(),
            "is": if range.is_steady { "steady_state" } else { "session" }})
    };
    findings.data = entries::map(json!({
        "stretches": ranges.iter().map(range_json).collect::<Vec<_>>(),
        "trends": trends.iter().map(|(series, trend)| trend_json(series, trend)).collect::<Vec<_>>(),
        "held_back": held.iter().map(Throttling::json).collect::<Vec<_>>(),
    }));
    let has_sessions = ranges.len() > 1;
    if !trends.is_empty() {
        findings.tables.push(table(&trends, has_sessions));
    }
    if !held.is_empty() {
        findings.tables.push(throttling::table(&held, has_sessions));
    }
    findings
}

fn warn(ranges: &[SessionRange], telemetry: &Telemetry, trends: &[(Series, Trend)], warnings: &mut Vec<Message>) {
    if ranges.is_empty() {
        warnings.push(Message::new("no query has start and end times, so drift cannot be computed"));
        return;
    }
    if telemetry.channels.is_empty() {
        warnings.push(Message::new("no readings of power, temperature or clocks: only queries are checked for drift"));
    }
    if trends.iter().all(|(_, trend)| trend.verdict == Verdict::TooFew) {
        warnings.push(too_few(trends));
    }
    let work = trends.iter().find(|(series, trend)| series.name.ends_with("put_tokens") && trend.verdict.is_drift());
    if let Some((series, trend)) = work {
        let message = Message::new(format!(
            "the queries change over the run ({} {}), which may explain changes of latency and energy",
            series.head,
            match trend.verdict {
                Verdict::Rises => "rise",
                _ => "fall",
            }
        ));
        warnings
            .push(message.with_hint(hint!("shuffle the dataset with ", option("dataset-param").value("shuffle=SEED"))));
    }
}

/// What is missing if no trend has a verdict: values, or values that are spread over time.
fn too_few(trends: &[(Series, Trend)]) -> Message {
    let most = |count: fn(&Trend) -> usize| trends.iter().map(|(_, trend)| count(trend)).max().unwrap_or(0);
    let (values, blocks) = (most(|trend| trend.values), most(|trend| trend.blocks));
    let needed = FEWEST_BLOCKS * VALUES_PER_BLOCK;
    Message::new(if values < needed {
        format!("too few values to detect drift: no metric has more than {values}, and at least {needed} are needed")
    } else {
        format!(
            "too few time blocks to detect drift: no metric has values in more than {blocks} of the time blocks, and at \
             least {FEWEST_BLOCKS} are needed"
        )
    })
}

fn throttling_warning(held: &Throttling) -> Message {
    let share = format::percent(held.share().unwrap_or(0.0));
    Message::new(match held.by {
        ThrottlingSource::Reasons(_) => {
            format!("{} was throttled for {share} of the time. Reasons: {}", held.device, held.words())
        }
        ThrottlingSource::Clock { .. } => {
            format!("{}: {} for {share} of the time; the driver reports no throttle reasons", held.device, held.words())
        }
    })
}

fn label(series: &Series) -> String {
    let device = series.device.as_ref().map_or(String::new(), |device| format!(" {device}"));
    format!("{}{device} session {}", series.name, series.session)
}

fn trend_json(series: &Series, trend: &Trend) -> Value {
    let mut found = entries::map(
        json!({"name": series.name, "unit": series.unit, "device": series.device, "session": series.session}),
    );
    found.extend(entries::map(serde_json::to_value(trend).unwrap_or_default()));
    Value::Object(found)
}

fn table(trends: &[(Series, Trend)], has_sessions: bool) -> Table {
    let mut columns = vec![("metric", "what"), ("device", "device")];
    columns.extend(has_sessions.then_some(("session", "session")));
    columns.extend([
        ("first tenth", "first_tenth"),
        ("last tenth", "last_tenth"),
        ("change per minute", "per_minute"),
        ("total change", "change"),
        ("verdict", "verdict"),
    ]);
    let mut table = Table::new("drift", "Drift", &columns);
    for (series, trend) in trends {
        let show = |value: f64| match series.unit {
            "s" | "J" | "W" => format::quantity(value, series.unit),
            unit => format!("{} {unit}", format::digits(value)).trim_end().to_owned(),
        };
        let signed = |value: f64| match value {
            _ if value.abs() < LEAST_CHANGE => show(0.0),
            _ if value > 0.0 => format!("+{}", show(value)),
            _ => show(value),
        };
        let slope = trend.per_minute.map(|value| entries::with(value, trend.per_minute_interval));
        let mut row = vec![
            Cell::text(series.head),
            series.device.as_deref().map_or(Cell::text("queries"), |device| Cell::text(cell::outside(device))),
        ];
        row.extend(has_sessions.then(|| Cell::text(series.session.to_string())));
        row.extend([
            Cell::number(trend.first_tenth, show),
            Cell::number(trend.last_tenth, show),
            cell::estimate_cell(slope, signed),
            Cell::number(trend.change, signed),
            Cell::Verdict {
                text: trend.verdict.words().to_owned(),
                tone: if trend.verdict.is_drift() { Tone::Warning } else { Tone::Plain },
            },
        ]);
        table.rows.push(row);
    }
    table.notes.push(String::from(
        "Change per minute: Theil-Sen slope over at most 30 time blocks, with a 95 % interval that is widened if neighboring \
         blocks are autocorrelated.",
    ));
    table.notes.push(String::from(
        "Verdict: rises or falls if the interval excludes zero and the change exceeds 1 % (1 °C for temperatures). \
         Without any drift, 1 in 20 intervals excludes zero. With autocorrelated values it can be 1 in 5, for \
         example with a correlation time of 50 s in a run of 5 minutes.",
    ));
    table
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;
    use ergometer_runs::saved::{Channel, Query};

    /// 20 s of queries whose TPOT increases by half while the answers keep their length.
    fn slower() -> Run {
        let query = |number: u64| {
            let each = 0.008 * (1.0 + 0.5 * number as f64 / 200.0) + 0.0001 * (number % 7) as f64;
            let query = example::query(number);
            Query {
                last_token: query.first_token.map(|first| first + ergometer_units::Seconds::new(10.0 * each)),
                ..query
            }
        };
        example::run((0..200).map(query).collect(), &[""])
    }

    fn verdicts(found: &Findings) -> Vec<(String, String)> {
        let trends = found.data["trends"].as_array().unwrap().iter();
        trends
            .map(|one| (one["name"].as_str().unwrap().to_owned(), one["verdict"].as_str().unwrap().to_owned()))
            .collect()
    }

    #[test]
    fn only_changing_series_are_reported() {
        let seconds = || (0..80).map(|quarter| f64::from(quarter) / 4.0);
        let temperature = Channel {
            device: String::from("gpu:0"),
            scope: String::from("device"),
            signal: String::from("temperature"),
            at_ns: seconds().map(|second| example::at(second).nanos_since_epoch()).collect(),
            values: seconds().map(|second| (60.0 - 15.0 * (-second / 8.0).exp()).floor()).collect(),
            ..Channel::default()
        };
        let found = findings(&slower(), &Telemetry { channels: vec![temperature] });
        let expected = [
            ("temperature_c", "rises"),
            ("ttft_s", "steady"),
            ("tpot_s", "rises"),
            ("e2e_s", "rises"),
            ("input_tokens", "steady"),
            ("output_tokens", "steady"),
        ];
        let found_verdicts = verdicts(&found);
        let as_text: Vec<(&str, &str)> =
            found_verdicts.iter().map(|(name, verdict)| (name.as_str(), verdict.as_str())).collect();
        assert_eq!(as_text, expected);
        let tpot = found.data["trends"].as_array().unwrap().iter().find(|one| one["name"] == "tpot_s").unwrap();
        // Half of 8 ms over 20 s is 12 ms per minute.
        assert!((tpot["per_minute"].as_f64().unwrap() / 0.012 - 1.0).abs() < 0.05, "{tpot}");
        assert_eq!(found.summary["drifting"][0], "temperature_c gpu:0 session 0");
        assert!(found.warnings.is_empty(), "{:?}", found.warnings);
        assert_eq!(found.tables[0].columns.len(), found.tables[0].rows[0].len());
    }

    #[test]
    fn growing_queries_give_a_warning() {
        let query = |number: u64| Query { output_tokens: Some(11 + number / 10), ..example::query(number) };
        let found = findings(&example::run((0..200).map(query).collect(), &[""]), &Telemetry::default());
        assert!(
            found.warnings.iter().any(|warning| warning.text.contains("the queries change over the run")),
            "{:?}",
            found.warnings
        );
    }

    #[test]
    fn missing_data_gives_warnings() {
        let found = findings(&example::run(Vec::new(), &[]), &Telemetry::default());
        assert_eq!((found.warnings.len(), found.tables.len()), (1, 0));
        let found = findings(&example::run(vec![example::query(0)], &[""]), &Telemetry::default());
        assert_eq!(found.warnings.len(), 2, "no readings, and too short: {:?}", found.warnings);
        assert!(verdicts(&found).iter().all(|(_, verdict)| verdict == "too_few"));
        let last = |found: &Findings| found.warnings.last().unwrap().text.clone();
        assert!(last(&found).contains("no metric has more than 1, and at least 24 are needed"), "{}", last(&found));
        // 40 queries, in the first two and in the last two of 100 seconds.
        let queries = (0..20).chain(990..1010).map(example::query);
        let found = findings(&example::run(queries.collect(), &[""]), &Telemetry::default());
        assert!(last(&found).contains("in more than 2 of the time blocks, and at least 8"), "{}", last(&found));
    }

    #[test]
    fn sessions_of_a_saved_run_are_analyzed_separately() {
        let run = example::saved("mock_limits");
        let found = Drift.run(&run, &Options::default()).unwrap();
        assert_eq!(
            (&found.summary["sessions"], &found.data["stretches"][0]["is"]),
            (&json!(1), &json!("steady_state"))
        );
        let mut two = slower();
        two.queries.iter_mut().skip(100).for_each(|query| query.session = 1);
        let found = findings(&two, &Telemetry::default());
        assert_eq!(found.summary["sessions"], 2);
        assert_eq!(found.tables[0].columns[2].name, "session");
    }
}
