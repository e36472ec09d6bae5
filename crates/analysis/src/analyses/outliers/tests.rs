//! Outliers of synthetic runs and of a saved run.

use ergometer_units::Seconds;

use super::super::example;
use super::*;
use ergometer_runs::saved::{Energy, Outcome};

/// A hundred queries, one after another, of 10 to 60 tokens at about 2 ms per token, each modified by `change`.
fn run(change: impl Fn(&mut Query)) -> Run {
    let query = |number: u64| {
        let tokens = 10 + number * 7 % 51;
        let (ttft, each) = (0.02 + 0.0001 * (number % 11) as f64, 0.002 + 0.00001 * (number % 7) as f64);
        let query = example::query(number);
        let first = query.sent.map(|sent| sent + Seconds::new(ttft));
        let joules = tokens as f64 * (1.0 + 0.01 * (number % 5) as f64);
        let mut query = Query {
            output_tokens: Some(tokens),
            ttft_s: Some(ttft),
            first_token: first,
            last_token: first.map(|first| first + Seconds::new(each * (tokens - 1) as f64)),
            energy: Some(Energy { gross: joules, low: joules, high: joules, net: None }),
            ..query
        };
        change(&mut query);
        query
    };
    example::run((0..100).map(query).collect(), &["a"])
}

fn listed(run: &Run) -> Vec<(String, u64, Vec<String>)> {
    let found = Outliers.run(run, &Options::default()).unwrap();
    let each = found.data["listed"].as_array().unwrap().iter().map(|one| {
        let reasons = one["reasons"].as_array().unwrap().iter().map(|reason| reason.as_str().unwrap().to_owned());
        (one["figure"].as_str().unwrap().to_owned(), one["request"].as_u64().unwrap(), reasons.collect())
    });
    each.collect()
}

#[test]
fn a_long_answer_is_no_outlier_and_a_slow_one_is() {
    assert_eq!(listed(&run(|_| ())), [], "only the lengths differ, by a factor of six");
    let slow = run(|query| {
        if query.request == 40 {
            query.last_token = query.last_token.map(|last| last + Seconds::new(0.04));
        }
    });
    let found = listed(&slow);
    let figures: Vec<(&str, u64)> = found.iter().map(|(figure, request, _)| (figure.as_str(), *request)).collect();
    assert_eq!(figures, [("e2e_s", 40), ("tpot_s", 40)]);
    let found = Outliers.run(&slow, &Options::default()).unwrap();
    assert_eq!((&found.summary["outlying_queries"], &found.summary["outliers"]), (&json!(1), &json!(2)));
    assert_eq!(found.tables[1].rows[0][0], Cell::Request { request: 40 });
    let line = &found.data["figures"][2]["relative_to_line"];
    assert!((line["s_per_output_token"].as_f64().unwrap() - 0.00203).abs() < 1e-4, "{line}");
}

#[test]
fn a_query_without_a_token_count_is_left_out() {
    let found = run(|query| match query.request {
        40 => query.last_token = query.last_token.map(|last| last + Seconds::new(0.04)),
        50 | 51 => query.output_tokens = None,
        _ => (),
    });
    let told = Outliers.run(&found, &Options::default()).unwrap();
    let e2e = &told.data["figures"][2];
    assert_eq!((&e2e["values"], &e2e["without_token_count"], &e2e["high"]), (&json!(98), &json!(2), &json!(1)));
    assert!(e2e["relative_to_line"].is_object(), "{e2e}");
    let warning = Message::new(
        "2 queries have no output token count: their E2E latency relative to answer length is not checked for outliers",
    );
    assert!(told.warnings.contains(&warning), "{:?}", told.warnings);
    // With few token counts there is no line, and E2E latencies are compared directly.
    let few = run(|query| query.output_tokens = query.output_tokens.filter(|_| query.request < 3));
    let told = Outliers.run(&few, &Options::default()).unwrap();
    let e2e = &told.data["figures"][2];
    assert_eq!((&e2e["values"], &e2e["without_token_count"]), (&json!(100), &json!(0)));
}

#[test]
fn reasons_come_from_the_data() {
    let odd = run(|query| match query.request {
        0 => query.ttft_s = Some(0.5),
        20 => (query.ttft_s, query.attempts) = (Some(0.4), 2),
        30 => (query.ttft_s, query.input_tokens) = (Some(0.3), Some(900)),
        50 => (query.ttft_s, query.scheduled) = (Some(0.2), query.sent.map(|sent| sent - Seconds::new(0.05))),
        60 => query.ttft_s = Some(0.1),
        70 => query.outcome = Outcome::Failed,
        _ => (),
    });
    let found = listed(&odd);
    let reasons: Vec<(u64, String)> =
        found.iter().map(|(_, request, reasons)| (*request, reasons.join("; "))).collect();
    let expected = [
        (0, "among the first requests after the start or a resume"),
        (20, "attempt 2"),
        (30, "long prompt: 900 tokens, usually 30"),
        (50, "sent 50.00 ms late"),
        (60, ""),
    ];
    assert_eq!(reasons, expected.map(|(request, reason)| (request, reason.to_owned())));
}

#[test]
fn a_stall_affects_concurrent_queries_and_short_answers_cost_more_per_token() {
    // Queries 40 to 44 wait together; no others run at that time.
    let stalled = run(|query| {
        if (40..45).contains(&query.request) {
            query.sent = Some(example::at(4.0 + 0.001 * query.request as f64));
            query.scheduled = query.sent.map(|sent| sent - Seconds::new(0.044));
            query.ttft_s = Some(1.0);
            query.end = Some(example::at(4.45));
        }
    });
    let last = listed(&stalled).into_iter().find(|(figure, request, _)| figure == "ttft_s" && *request == 44).unwrap();
    let expected = ["5 in flight, usually 1", "sent 44.00 ms late", "4 of 4 concurrent queries are outliers too"];
    assert_eq!(last.2, expected);
    let short = run(|query| {
        if query.request == 40 {
            query.output_tokens = Some(2);
        }
    });
    let found = listed(&short).into_iter().find(|(figure, ..)| figure == "j_per_output_token").unwrap();
    assert_eq!((found.1, &*found.2[0]), (40, "short answer: 2 tokens, usually 34"));
}

#[test]
fn fifty_are_listed_and_all_are_counted() {
    let query = |number: u64| {
        let ttft = if number < 60 { 5.0 + number as f64 } else { 0.02 + 0.0001 * (number % 11) as f64 };
        Query { ttft_s: Some(ttft), ..example::query(number) }
    };
    let found = Outliers.run(&example::run((0..400).map(query).collect(), &[""]), &Options::default()).unwrap();
    assert_eq!((&found.summary["outliers"], &found.data["not_listed"]), (&json!(60), &json!(10)));
    assert_eq!(found.tables[1].rows.len(), LISTED);
    assert!(found.tables[1].notes[0].starts_with("10 more"));
}

#[test]
fn missing_data_gives_warnings() {
    let same = example::run((0..40).map(example::query).collect(), &[""]);
    let found = Outliers.run(&same, &Options::default()).unwrap();
    assert!(found.warnings[0].text.contains("MAD is zero"), "{:?}", found.warnings);
    assert!(found.warnings.iter().any(|warning| warning.text == "no query has energy per output token"));
    assert_eq!((&found.summary["outliers"], found.tables.len()), (&json!(0), 1));
    for queries in [Vec::new(), vec![example::query(0)]] {
        let found = Outliers.run(&example::run(queries, &[""]), &Options::default()).unwrap();
        assert_eq!(found.warnings.len(), 4, "{:?}", found.warnings);
    }
}

#[test]
fn a_saved_run_has_its_slow_requests() {
    let found = Outliers.run(&example::saved("mock_limits"), &Options::default()).unwrap();
    let listed = found.data["listed"].as_array().unwrap();
    assert!(listed.iter().any(|one| one["figure"] == "tpot_s" && one["times_usual"].as_f64().unwrap() > 5.0));
    assert!(listed.iter().all(|one| one["score"].as_f64().unwrap().abs() > LIMIT));
}
