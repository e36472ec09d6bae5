//! Drift: whether the machine or the server changed over the run: temperature, clocks and power of each device, latencies
//! and energy of queries; and whether clocks were held back.
//!
//! Each session is looked at by itself, in its steady state where it has one.

mod held;
mod series;
mod trend;

use ergometer_charts::{Cell, Table, Tone};
use ergometer_units::format;
use serde_json::{Value, json};

use super::cell;
use super::entries;
use super::{Analysis, Findings, Options};
use crate::AnalysisError;
use ergometer_runs::saved::{Run, Telemetry};
use held::{By, Held};
use series::{SIGNALS, Series, Stretch};
use trend::{Trend, Verdict};

/// Held back for a smaller part of the time is not worth a warning.
const WORTH_A_WARNING: f64 = 0.01;

/// See the module.
pub(super) struct Drift;

impl Analysis for Drift {
    fn id(&self) -> &'static str {
        "drift"
    }

    fn about(&self) -> &'static str {
        "whether temperature, clocks, power, latency and energy changed over the run, and what held clocks back"
    }

    fn run(&self, run: &Run, _: &Options) -> Result<Findings, AnalysisError> {
        let telemetry = Telemetry::read(&run.folder, &SIGNALS)?;
        Ok(findings(run, &telemetry))
    }
}

fn findings(run: &Run, telemetry: &Telemetry) -> Findings {
    let stretches = Stretch::all(run);
    let mut findings = Findings::default();
    let mut trends: Vec<(Series, Trend)> = Vec::new();
    let mut held: Vec<Held> = Vec::new();
    for stretch in &stretches {
        let series = series::of_readings(telemetry, stretch).into_iter().chain(series::of_queries(run, stretch));
        trends.extend(series.map(|series| {
            let trend = Trend::of(&series.points, series.question);
            (series, trend)
        }));
        held.extend(held::held(telemetry, stretch));
    }
    warn(&stretches, telemetry, &trends, &mut findings.warnings);
    let warned = held.iter().filter(|held| held.share().is_some_and(|share| share > WORTH_A_WARNING));
    findings.warnings.extend(warned.map(held_warning));

    let drifting: Vec<String> =
        trends.iter().filter(|(_, trend)| trend.verdict.is_drift()).map(|(series, _)| label(series)).collect();
    let most_held = held.iter().filter_map(Held::share).max_by(f64::total_cmp);
    findings.summary = entries::map(json!({
        "sessions": stretches.len(),
        "drifting": drifting,
        "held_back_share": entries::number(most_held),
        "held_back_told_by": held.first().map(|held| match held.by {
            By::Reasons(_) => "throttle_reasons",
            By::Clock { .. } => "clock_drops",
        }),
    }));
    let stretch_json = |stretch: &Stretch| {
        json!({"session": stretch.session, "start_ns": stretch.start.nanos_since_epoch(),
            "end_ns": stretch.end.nanos_since_epoch(), "seconds": stretch.seconds(),
            "is": if stretch.is_steady { "steady_state" } else { "session" }})
    };
    findings.data = entries::map(json!({
        "stretches": stretches.iter().map(stretch_json).collect::<Vec<_>>(),
        "trends": trends.iter().map(|(series, trend)| trend_json(series, trend)).collect::<Vec<_>>(),
        "held_back": held.iter().map(Held::json).collect::<Vec<_>>(),
    }));
    let has_sessions = stretches.len() > 1;
    if !trends.is_empty() {
        findings.tables.push(table(&trends, has_sessions));
    }
    if !held.is_empty() {
        findings.tables.push(held::table(&held, has_sessions));
    }
    findings
}

fn warn(stretches: &[Stretch], telemetry: &Telemetry, trends: &[(Series, Trend)], warnings: &mut Vec<String>) {
    if stretches.is_empty() {
        warnings.push(String::from("no query has the times of sending and ending, so there is no course over time"));
        return;
    }
    if telemetry.channels.is_empty() {
        warnings
            .push(String::from("there are no readings of power, temperature or clocks: only queries are looked at"));
    }
    if trends.iter().all(|(_, trend)| trend.verdict == Verdict::TooFew) {
        warnings
            .push(String::from("the run is too short to tell drift from chance: it takes some 24 readings or queries"));
    }
    let work = trends.iter().find(|(series, trend)| series.name.ends_with("put_tokens") && trend.verdict.is_drift());
    if let Some((series, trend)) = work {
        warnings.push(format!(
            "the queries themselves change over the run ({} {}), so latencies and energy may change for that reason. hint: \
             `--dataset-param shuffle=SEED` mixes them",
            series.head,
            match trend.verdict {
                Verdict::Rises => "rise",
                _ => "fall",
            }
        ));
    }
}

fn held_warning(held: &Held) -> String {
    let share = format::percent(held.share().unwrap_or(0.0));
    match held.by {
        By::Reasons(_) => format!("{} was held back for {share} of the time: {}", held.device, held.words()),
        By::Clock { .. } => {
            format!("{} had {} for {share} of the time; the driver told no reasons", held.device, held.words())
        }
    }
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
    let mut columns = vec![("what", "what"), ("of", "device")];
    columns.extend(has_sessions.then_some(("session", "session")));
    columns.extend([
        ("first tenth", "first_tenth"),
        ("last tenth", "last_tenth"),
        ("a minute", "per_minute"),
        ("over the run", "change"),
        ("verdict", "verdict"),
    ]);
    let mut table = Table::new("drift", "What changed over the run", &columns);
    for (series, trend) in trends {
        let show = |value: f64| match series.unit {
            "s" | "J" | "W" => format::quantity(value, series.unit),
            unit => format!("{} {unit}", format::digits(value)).trim_end().to_owned(),
        };
        let signed = |value: f64| if value > 0.0 { format!("+{}", show(value)) } else { show(value) };
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
        "A minute: the median of all slopes (Theil and Sen) between at most 30 blocks of time, with a 95 % interval that is \
         widened where blocks that follow each other are alike. Readings one by one would make it far too narrow.",
    ));
    table.notes.push(String::from(
        "It rises or falls where the interval excludes zero and the change is more than 1 % (1 °C of temperatures). By chance \
         alone, one interval in twenty excludes zero, and up to one in five where values remember for long (50 s of 5 minutes).",
    ));
    table
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;
    use ergometer_runs::saved::{Channel, Query};

    /// 20 s of queries, whose TPOT rises by half while answers stay as they are.
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
    fn what_rises_is_told_and_what_stays_is_not() {
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
        // Half of 8 ms over 20 s is 12 ms a minute.
        assert!((tpot["per_minute"].as_f64().unwrap() / 0.012 - 1.0).abs() < 0.05, "{tpot}");
        assert_eq!(found.summary["drifting"][0], "temperature_c gpu:0 session 0");
        assert!(found.warnings.is_empty(), "{:?}", found.warnings);
        assert_eq!(found.tables[0].columns.len(), found.tables[0].rows[0].len());
    }

    #[test]
    fn queries_that_grow_are_no_drift_of_the_machine() {
        let query = |number: u64| Query { output_tokens: Some(11 + number / 10), ..example::query(number) };
        let found = findings(&example::run((0..200).map(query).collect(), &[""]), &Telemetry::default());
        assert!(
            found.warnings.iter().any(|warning| warning.contains("queries themselves change")),
            "{:?}",
            found.warnings
        );
    }

    #[test]
    fn what_is_not_there_is_told() {
        let found = findings(&example::run(Vec::new(), &[]), &Telemetry::default());
        assert_eq!((found.warnings.len(), found.tables.len()), (1, 0));
        let found = findings(&example::run(vec![example::query(0)], &[""]), &Telemetry::default());
        assert_eq!(found.warnings.len(), 2, "no readings, and too short: {:?}", found.warnings);
        assert!(verdicts(&found).iter().all(|(_, verdict)| verdict == "too_few"));
    }

    #[test]
    fn sessions_are_told_apart_in_a_saved_run() {
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
