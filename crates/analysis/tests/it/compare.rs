//! Comparisons of saved and synthetic runs.

use std::path::{Path, PathBuf};

use ergometer_analysis::compare::{
    Comparison, Dominance, Front, Group, Method, Options, Role, Row, Verdict, Warning, compare, compare_groups, front,
    front_of,
};
use ergometer_analysis::compare::{from_records, value};
use ergometer_analysis::curve::Curve;
use ergometer_runs::saved::{Energy, Outcome, Query, Run, SavedSweep};
use ergometer_runs::{EnergySource, metrics, testing};
use ergometer_statistics::{Change, Drawing, Pairing, block_for, sums_effect};
use ergometer_units::Timestamp;
use serde_json::{Value, json};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs").join(name)
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(other.abs())
}

#[test]
fn values_from_the_summary_and_from_the_records_agree() {
    let mut seen = 0;
    for name in ["h200_one", "h200_four", "h200_sixteen", "h200_graded"] {
        let run = Run::open(&folder(name)).unwrap();
        for metric in metrics::in_comparisons() {
            let Some(told) = metric.summary_value(&run.summary) else {
                let is_proportional = ["mean_power_w", "intelligence_per_joule"].contains(&metric.name);
                assert!(!is_proportional || value(metric, &run).is_none(), "{name} {}", metric.name);
                continue;
            };
            seen += 1;
            assert!(close(value(metric, &run).unwrap(), told), "{name} {}", metric.name);
            // The energy of the run includes idle power between requests, which is in no record.
            if let Some(made) = from_records(metric, &run)
                && !["mean_power_w", "intelligence_per_joule", "intelligence_per_watt"].contains(&metric.name)
            {
                assert!(close(made, told), "{name} {}: {made} from the records, {told} in the summary", metric.name);
            }
        }
        let share = run.summary.failed() as f64 / run.summary.total_queries as f64;
        assert!(close(value(metrics::find("failed_share").unwrap(), &run).unwrap(), share));
        let tokens = run.summary.tokens.output.unwrap() as f64 / run.summary.tokens.requests as f64;
        assert!(close(value(metrics::find("output_tokens_per_query").unwrap(), &run).unwrap(), tokens));
    }
    assert!(seen > 35, "{seen}");
}

#[test]
fn a_run_does_not_differ_from_itself() {
    let runs = [Run::open(&folder("h200_graded")).unwrap(), Run::open(&folder("h200_graded")).unwrap()];
    let found = compare(&runs, &Options::default()).unwrap();
    let [candidate] = &found.candidates[..] else { panic!("one candidate") };
    assert_eq!(candidate.paired_queries, Some(120));
    for row in &candidate.rows {
        assert!(matches!(row.verdict, Verdict::Same | Verdict::CannotTell | Verdict::None), "{row:?}");
    }
    assert_eq!(candidate.row("joules_per_query").unwrap().verdict, Verdict::Same);
    assert!(candidate.comparability.is_comparable, "{:?}", candidate.comparability);
    assert_eq!(candidate.comparability.verdict, "same dataset, same machine, same energy source: comparable");
}

/// A run of the same 200 queries, whose joules and times are those of the dataset times `factor`, with some noise.
fn made_up(factor: f64, seed: u64, summary: Value) -> Run {
    let noise = |index: u64, salt: u64| {
        let mixed = (index + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15 ^ (seed * 977 + salt)).rotate_left(23);
        (mixed.wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 40) as f64 / f64::from(1 << 24)
    };
    #[expect(clippy::cast_possible_truncation, reason = "some seconds")]
    let at = |seconds: f64| Some(Timestamp::from_nanos_since_epoch((seconds * 1e9).round() as i64));
    let mut start = 1e9;
    let queries = (0..200).map(|index| {
        let size = 1.0 + ((index * 7919) % 100) as f64 / 10.0;
        let seconds = 0.01 * size * factor * (1.0 + 0.1 * noise(index, 1));
        let joules = size * factor * (1.0 + 0.1 * noise(index, 2));
        let sent = start;
        start += seconds;
        Query {
            request: index,
            index,
            outcome: Outcome::Completed,
            sent: at(sent),
            first_token: at(sent + seconds / 2.0),
            last_token: at(sent + seconds),
            end: at(sent + seconds),
            ttft_s: Some(seconds / 2.0),
            total_s: Some(seconds),
            input_tokens: Some(10),
            output_tokens: Some(20 + index % 5),
            energy: Some(Energy { gross: joules, low: joules, high: joules, net: None }),
            correct: Some(noise(index, 3) < 0.6),
            ..Query::default()
        }
    });
    Run {
        folder: PathBuf::from(format!("run_{factor}_{seed}")),
        queries: queries.collect(),
        summary: testing::summary(summary),
        subjects: Vec::new(),
        energy: Some(EnergySource::Measured),
        not_finite: 0,
    }
}

fn summary() -> Value {
    json!({
        "model": "m", "dataset_fingerprint": "f", "complete": true, "hardware_label": "H",
        "profiler_config": {"schedule": {"mode": "concurrency", "concurrency": 1}, "warmup": 1},
        "versions": {"ergometer": "0.1.0"},
    })
}

fn row<'a>(found: &'a Comparison, name: &str) -> &'a Row {
    found.candidates[0].row(name).unwrap()
}

#[test]
fn higher_cost_is_worse_and_pairing_narrows_the_interval() {
    let runs = [made_up(1.0, 1, summary()), made_up(1.05, 2, summary())];
    let found = compare(&runs, &Options::default()).unwrap();
    assert_eq!(found.candidates[0].paired_queries, Some(200));
    for name in ["joules_per_query", "joules_per_token", "e2e_p50", "requests_per_second", "output_tokens_per_second"] {
        let found = row(&found, name);
        // Rates are computed over time slices, which cannot be paired: a change of 5 % is lost in the variation between
        // queries.
        let expected = if name.ends_with("per_second") { Verdict::CannotTell } else { Verdict::Worse };
        assert_eq!(found.verdict, expected, "{found:?}");
        let change = found.change.unwrap();
        assert!(change.interval.unwrap().contains(change.value), "{found:?}");
    }
    let other = json!({"dataset_fingerprint": "another"});
    let apart = [made_up(1.0, 1, summary()), made_up(1.05, 2, other)];
    let apart = compare(&apart, &Options::default()).unwrap();
    assert_eq!(apart.candidates[0].paired_queries, None);
    let width = |found: &Comparison| row(found, "joules_per_query").change.unwrap().interval.unwrap().width();
    assert!(width(&found) < width(&apart) / 3.0, "{} and {}", width(&found), width(&apart));
    let lax = compare(&runs, &Options { least_effect: 0.2, ..Options::default() }).unwrap();
    assert_eq!(row(&lax, "joules_per_query").verdict, Verdict::Same);
    let again = compare(&runs, &Options::default()).unwrap();
    assert_eq!(serde_json::to_string(&found).unwrap(), serde_json::to_string(&again).unwrap());
}

#[test]
fn a_change_of_the_size_of_rounding_is_no_change() {
    let with = |per_watt: f64| {
        let mut told = summary();
        told["intelligence"] = json!({"per_joule": {"value": 0.5}, "per_watt": {"value": per_watt}});
        made_up(1.0, 1, told)
    };
    let sum = 0.1 + 0.2;
    assert!(sum > 0.3, "by rounding");
    for (first, second) in [(0.3, sum), (sum, 0.3)] {
        let found = compare(&[with(first), with(second)], &Options::default()).unwrap();
        let per_watt = row(&found, "intelligence_per_watt");
        assert_eq!((per_watt.verdict, per_watt.change.unwrap().value), (Verdict::Same, 1.0), "{per_watt:?}");
    }
    let found = compare(&[with(0.3), with(0.300_001)], &Options::default()).unwrap();
    assert_eq!(row(&found, "intelligence_per_watt").verdict, Verdict::Better, "a certain change of 3e-6");
}

#[test]
fn equal_shares_are_the_same_only_if_no_query_differs() {
    let failed = |second: Value| {
        let found = compare(&[made_up(1.0, 1, summary()), made_up(1.0, 2, second)], &Options::default()).unwrap();
        let row = row(&found, "failed_share");
        assert_eq!((row.change.unwrap().value, row.change.unwrap().method), (0.0, Some(Method::Proportions)));
        (row.verdict, row.reason.clone().unwrap())
    };
    assert_eq!(failed(summary()), (Verdict::Same, String::from("no query differs between the two runs")));
    let (verdict, reason) = failed(json!({"dataset_fingerprint": "another"}));
    assert_eq!(verdict, Verdict::CannotTell);
    assert!(reason.contains("each with an identical result"), "{reason}");
}

#[test]
fn modelled_energy_is_never_compared_with_measured_energy() {
    let mut runs = [made_up(1.0, 1, summary()), made_up(1.0, 2, summary())];
    runs[1].energy = Some(EnergySource::Modelled);
    let found = compare(&runs, &Options::default()).unwrap();
    let energies: Vec<&Row> = found.candidates[0].rows.iter().filter(|row| row.metric.needs_energy()).collect();
    assert!(energies.len() >= 3);
    for row in energies {
        assert!(row.change.is_none() && row.verdict == Verdict::None, "{row:?}");
        assert!(row.reason.as_ref().unwrap().contains("measured"), "{row:?}");
    }
    let differences = &found.candidates[0].comparability;
    assert!(!differences.is_comparable);
    assert_eq!(differences.verdict, "compare with caution: different energy source");
    assert!(front(&runs).aims.iter().all(|metric| !metric.needs_energy()));
}

#[test]
fn queries_of_one_run_only_are_left_out_of_the_change() {
    let (first, mut second) = (made_up(1.0, 1, summary()), made_up(1.0, 2, summary()));
    second.queries.truncate(100);
    let runs = [first, second];
    let found = compare(&runs, &Options::default()).unwrap();
    assert_eq!(found.candidates[0].paired_queries, Some(100));
    assert!(found.candidates[0].notes[0].contains("100 queries that both runs have"));
    let joules = row(&found, "joules_per_query");
    let common: f64 = runs[0].queries[..100].iter().map(|query| query.energy.unwrap().gross).sum();
    let other: f64 = runs[1].queries.iter().map(|query| query.energy.unwrap().gross).sum();
    assert!(close(joules.change.unwrap().value, other / common));
    assert!(found.candidates[0].comparability.all_warnings()[0].text().contains("number of queries"));
}

#[test]
fn intervals_of_repeats_reflect_the_variation_between_runs() {
    let group = |factor: f64, seeds: [u64; 3]| seeds.map(|seed| made_up(factor, seed, summary()));
    let (first, second) = (group(1.0, [1, 2, 3]), group(1.2, [4, 5, 6]));
    let groups = [Group { label: "a", runs: &first }, Group { label: "b", runs: &second }];
    let found = compare_groups(&groups, &Options::default()).unwrap();
    let joules = row(&found, "joules_per_query");
    assert_eq!(joules.verdict, Verdict::Worse);
    let values = |runs: &[Run]| runs.iter().map(|run| value(joules.metric, run).unwrap()).collect::<Vec<f64>>();
    let expected = ergometer_statistics::welch_ratio_interval(&values(&first), &values(&second)).unwrap();
    let change = joules.change.unwrap();
    assert_eq!((change.interval, change.method), (Some(expected), Some(Method::Fieller)));
    let median = row(&found, "e2e_p50");
    let values = |runs: &[Run]| runs.iter().map(|run| value(median.metric, run).unwrap()).collect::<Vec<f64>>();
    let expected = ergometer_statistics::welch_interval(&values(&first), &values(&second)).unwrap();
    let change = median.change.unwrap();
    assert_eq!((change.interval, change.method), (Some(expected), Some(Method::Welch)));
    assert!(found.candidates[0].notes[0].contains("3 and 3 runs"));
    let alone = [Group { label: "a", runs: &first[..1] }, Group { label: "b", runs: &second }];
    let alone = compare_groups(&alone, &Options::default()).unwrap();
    assert_eq!(row(&alone, "joules_per_query").verdict, Verdict::None, "one run on one side");
}

#[test]
fn cost_is_per_query() {
    let mut runs = [made_up(1.0, 1, summary()), made_up(1.0, 1, summary())];
    for (run, total) in runs.iter_mut().zip([0.4, 0.2]) {
        let mut told = summary();
        told["cost_usd"] = json!(total);
        run.summary = testing::summary(told);
        run.queries.iter_mut().for_each(|query| query.cost_usd = Some(0.002));
    }
    runs[1].queries.truncate(100);
    let found = compare(&runs, &Options::default()).unwrap();
    let cost = row(&found, "cost_usd_per_query");
    assert!(close(cost.baseline.unwrap(), 0.002) && close(cost.candidate.unwrap(), 0.002), "{cost:?}");
    assert!(!metrics::find("cost_usd").unwrap().in_comparisons());
}

#[test]
fn accuracy_per_watt_resamples_seconds_with_joules() {
    // At 80 W in every query, joules and seconds cancel, and only the answers vary.
    let at_80_watts = |seed: u64| {
        let mut told = summary();
        told["intelligence"] = json!({"per_joule": {"value": 0.5}, "per_watt": {"value": 0.004}});
        let mut run = made_up(1.0, seed, told);
        for query in &mut run.queries {
            let joules = 80.0 * query.total_s.unwrap();
            query.energy = Some(Energy { gross: joules, low: joules, high: joules, net: None });
        }
        run
    };
    let runs = [at_80_watts(1), at_80_watts(2)];
    let found = compare(&runs, &Options::default()).unwrap();
    let right = |run: &Run| run.queries.iter().filter(|query| query.correct == Some(true)).count() as f64;
    let made = from_records(row(&found, "intelligence_per_watt").metric, &runs[0]).unwrap();
    assert!(close(made, right(&runs[0]) / 200.0 / 80.0), "accuracy over mean power: {made}");
    let answers = |run: &Run| -> Vec<(f64, f64)> {
        run.queries.iter().map(|query| (f64::from(u8::from(query.correct == Some(true))), 1.0)).collect()
    };
    let pairing = Pairing::Paired { block: block_for(200, 1) };
    let drawing = Drawing { draws: Options::default().draws, seed: 0, pairing };
    let expected = sums_effect(&answers(&runs[0]), &answers(&runs[1]), Change::Ratio, drawing).unwrap();
    // Both summaries have the same value.
    let scale = right(&runs[0]) / right(&runs[1]);
    let found = row(&found, "intelligence_per_watt").change.unwrap().interval.unwrap();
    assert!(close(found.low, expected.low * scale) && close(found.high, expected.high * scale), "{found:?}");
}

#[test]
fn each_difference_is_the_subject_or_a_warning() {
    let mut other = summary();
    other["model"] = json!("n");
    let found = compare(&[made_up(1.0, 1, summary()), made_up(1.0, 2, other.clone())], &Options::default()).unwrap();
    let of = |found: &Comparison| found.candidates[0].comparability.clone();
    assert!(of(&found).is_comparable);
    assert_eq!(of(&found).subject().unwrap().text(), "model: m → n");
    other["profiler_config"]["schedule"]["concurrency"] = json!(4);
    other["profiler_config"]["warmup"] = json!(0);
    other["profiler_config"]["retries"] = json!({"most": 3, "backoff_s": 0.5});
    other["complete"] = json!(false);
    other["load"] = json!({"client_limited": true});
    let found = compare(&[made_up(1.0, 1, summary()), made_up(1.0, 2, other)], &Options::default()).unwrap();
    let warnings = of(&found).all_warnings();
    assert!(
        matches!(warnings[..], [Warning::Differs(_), Warning::Condition(_), Warning::Condition(_)]),
        "{warnings:?}"
    );
    let warnings = warnings.iter().map(Warning::text).collect::<Vec<_>>().join("\n");
    for part in [
        "the runs also differ",
        "load: concurrency 1 → concurrency 4",
        "warm-up",
        "number of retries: 0 → 3 (backoff 0.5 s)",
        "incomplete",
        "client",
    ] {
        assert!(warnings.contains(part), "{part}: {warnings}");
    }
    assert_eq!(of(&found).differences.iter().filter(|found| found.role == Role::Subject).count(), 1);
}

#[test]
fn too_few_runs_are_an_error() {
    assert!(compare(&[made_up(1.0, 1, summary())], &Options::default()).is_err());
    assert!(compare(&[], &Options::default()).is_err());
    let mut empty = made_up(1.0, 2, summary());
    empty.queries.clear();
    assert!(compare(&[made_up(1.0, 1, summary()), empty], &Options::default()).is_err());
}

#[test]
fn the_front_names_dominating_runs() {
    let runs = [made_up(1.0, 1, summary()), made_up(1.5, 1, summary()), made_up(2.0, 1, summary())];
    let found = front(&runs);
    assert_eq!(
        found.aims.iter().map(|metric| metric.name).collect::<Vec<_>>(),
        ["accuracy", "e2e_p50", "joules_per_query"]
    );
    let beaten: Vec<usize> = found.points.iter().map(|point| point.dominated_by.len()).collect();
    assert_eq!(beaten, [0, 1, 2]);
    assert_eq!(found.points[2].beaten_by, Some(Dominance { by: 0, is_certain: true }));
    assert_eq!((&found.points[0].beaten_by, &found.points[2].dominated_by[..]), (&None, &[0, 1][..]));
    assert_eq!(
        found.line().unwrap(),
        "Pareto-optimal by accuracy, E2E latency p50, J/query: 1.0".replace("1.0", &found.points[0].label)
    );
}

#[test]
fn the_front_reuses_the_rows_of_a_comparison() {
    let runs = [1.5, 1.0, 2.0, 3.0].map(|factor| made_up(factor, 1, summary()));
    let labels = ["a", "b", "c", "d"];
    let groups: Vec<Group<'_>> =
        runs.iter().zip(labels).map(|(run, label)| Group { label, runs: std::slice::from_ref(run) }).collect();
    let options = Options::default();
    let mut candidates = compare_groups(&groups, &options).unwrap().candidates;
    let beaten = |found: &Front| found.points.iter().map(|point| point.beaten_by).collect::<Vec<_>>();
    let (with, without) = (front_of(&groups, &options, &candidates), front_of(&groups, &options, &[]));
    let certain = |by: usize| Some(Dominance { by, is_certain: true });
    assert_eq!(beaten(&with), [certain(1), None, certain(0), certain(0)]);
    assert_eq!(beaten(&without), [certain(1), None, certain(1), certain(1)]);
    // The rows count, whatever resampling would give.
    for row in &mut candidates[0].rows {
        row.verdict = Verdict::CannotTell;
    }
    let doubtful = front_of(&groups, &options, &candidates);
    assert_eq!(doubtful.points[0].beaten_by, Some(Dominance { by: 1, is_certain: false }));
    let table = doubtful.table().unwrap();
    let shown: Vec<String> = table.rows.iter().map(|row| row.last().unwrap().shown()).collect();
    assert_eq!(shown, ["b (not significant)", "none", "a and 1 more", "a and 2 more"]);
}

#[test]
fn a_curve_of_a_real_sweep() {
    let sweep = SavedSweep::open(&folder("h200_sweep")).unwrap();
    let curve = Curve::from_sweep(&sweep.sweep);
    assert_eq!(curve.points.len(), 7);
    assert_eq!(curve.least_joules, Some(6), "64 in flight share the idle power");
    assert!(curve.knee.as_ref().unwrap_err().contains("highest load"), "{:?}", curve.knee);
    let findings = curve.findings();
    assert_eq!(findings.summary["least_joules_per_token_at"], 64.0);
    assert_eq!(findings.data["points"].as_array().unwrap().len(), 7);
    let points: Vec<Run> = sweep.runs().unwrap();
    let found = compare(&points, &Options::default()).unwrap();
    assert_eq!(found.candidates.len(), 6);
    assert!(found.candidates.iter().all(|candidate| candidate.comparability.subject().unwrap().what == "load"));
    assert_eq!(found.tables().len(), 6);
}

#[test]
fn every_table_has_a_cell_for_each_column() {
    let runs = [made_up(1.0, 1, summary()), made_up(1.05, 2, summary())];
    for table in compare(&runs, &Options::default()).unwrap().tables() {
        assert!(table.rows.len() > 8 && metrics::in_comparisons().count() >= table.rows.len());
        assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
    }
}
