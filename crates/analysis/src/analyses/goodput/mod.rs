//! The `goodput` analysis: how many requests meet each latency limit and all limits, and the percentile at which each
//! limit lies.
//!
//! The limits come from the options, or else from the run; with the run's own limits, goodput equals `summary.json`. The
//! analysis also has the load of the whole run and of its steady state.

mod load;
mod timing;

use ergometer_charts::{Cell, Table};
use ergometer_diagnostics::{Message, hint, option};
use ergometer_statistics::{Interval, Resampling, proportion_interval, ratio_interval};
use ergometer_units::format;
use serde_json::{Map, Value, json};

use super::cell::{count_cell, quantity_cell, share_cell};
use super::entries;
use super::{Analysis, Findings, Options};
use crate::AnalysisError;
use ergometer_runs::config::{LimitedMetric, Slo};
use ergometer_runs::saved::Run;
use ergometer_statistics::Estimate;
use timing::{MeasuredTime, Timing};

/// The share of requests that must meet a proposed limit.
const PROPOSED: f64 = 0.99;

/// The `goodput` analysis.
pub(super) struct Goodput;

impl Analysis for Goodput {
    fn id(&self) -> &'static str {
        "goodput"
    }

    fn about(&self) -> &'static str {
        "requests within the latency limits; for each limit, the share of completed requests that meets it; and the \
         load of the whole run and of its steady state"
    }

    fn run(&self, run: &Run, options: &Options) -> Result<Findings, AnalysisError> {
        let timings = Timing::all(run)?;
        let mut findings = Findings::default();
        let proposed: Vec<(LimitedMetric, Option<f64>)> =
            LimitedMetric::ALL.into_iter().map(|what| (what, smallest_met_limit(what, &timings))).collect();
        let limits = options.limits.map(|limits| (limits, "asked")).or_else(|| Some((own_limits(run)?, "run")));
        let limits = limits.filter(|(limits, _)| !limits.is_none());
        if timings.is_empty() {
            findings.warnings.push(Message::new(
                "requests.parquet and the records have no request in common, so goodput is unknown",
            ));
        } else if let Some((limits, whose)) = limits {
            let resampling = Resampling { block: run.block(), seed: options.seed, ..Resampling::default() };
            let results = LimitResults::new(run, &timings, limits, resampling);
            results.fill(whose, &mut findings);
        } else {
            findings.warnings.push(Message::new("the run has no latency limits, so its goodput is unknown").with_hint(
                hint!(
                    "pass ",
                    option("slo").value("ttft=200ms,tpot=50ms,e2e=5s"),
                    "; itl and ttft_scheduled can be limited too"
                ),
            ));
        }
        if !timings.is_empty() {
            findings.tables.push(proposed_table(&proposed, &timings));
        }
        let smallest: Vec<(String, Value)> =
            proposed.iter().map(|(what, limit)| (format!("{}_s", what.name()), entries::number(*limit))).collect();
        findings.data.insert(String::from("kept_by_99_pct"), smallest.into_iter().collect());
        load::fill(run, &mut findings);
        Ok(findings)
    }
}

/// The latency limits in the configuration of the run.
fn own_limits(run: &Run) -> Option<Slo> {
    Some(run.summary.profiler_config.known()?.slo).filter(|limits| !limits.is_none())
}

/// The smallest limit that 99 % of completed requests meet; `None` if more than 1 % were not measured.
fn smallest_met_limit(what: LimitedMetric, timings: &[Timing]) -> Option<f64> {
    let completed = || timings.iter().filter(|timing| timing.is_completed);
    let took = completed().filter_map(|timing| match timing.took(what) {
        MeasuredTime::Seconds(seconds) => Some(seconds),
        MeasuredTime::Nothing => Some(0.0),
        MeasuredTime::Unknown => None,
    });
    let mut took: Vec<f64> = took.collect();
    took.sort_unstable_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "up to the number of requests")]
    let needed = (PROPOSED * completed().count() as f64).ceil() as usize;
    took.get(needed.checked_sub(1)?).copied().filter(|&limit| limit > 0.0)
}

/// The number of requests that meet a limit, out of all.
#[derive(Debug, Clone, Copy)]
struct LimitCount {
    kept: u64,
    all: u64,
    /// The interval of the share.
    interval: Option<Interval>,
}

impl LimitCount {
    /// Counts requests in sending order. Overlapping requests are correlated, so their interval is a block bootstrap;
    /// Wilson's interval would be too narrow.
    fn count<'a>(
        timings: impl Iterator<Item = &'a Timing>,
        resampling: Resampling,
        is_kept: impl Fn(&Timing) -> bool,
    ) -> Self {
        let pairs: Vec<(f64, f64)> = timings.map(|timing| (f64::from(u8::from(is_kept(timing))), 1.0)).collect();
        let (kept, all) = (pairs.iter().filter(|pair| pair.0 > 0.0).count() as u64, pairs.len() as u64);
        let interval = match resampling.block {
            0 | 1 => proportion_interval(kept, all),
            _ => ratio_interval(&pairs, resampling),
        };
        Self { kept, all, interval }
    }

    fn share(self) -> Option<Estimate> {
        (self.all > 0).then(|| entries::with(self.kept as f64 / self.all as f64, self.interval))
    }
}

/// The result for one limit.
struct LimitResult {
    what: LimitedMetric,
    limit: f64,
    kept: LimitCount,
    /// Completed requests that miss only this limit.
    only_this: u64,
    /// The percentile of the measured times at which the limit lies.
    percentile_of_limit: Option<f64>,
}

/// The results for all limits.
struct LimitResults {
    limits: Slo,
    each: Vec<LimitResult>,
    good: LimitCount,
    per_second: Option<f64>,
    /// Good requests sent in the steady state, and their rate per second.
    steady: Option<(LimitCount, f64)>,
    /// The block size of the bootstrap.
    block: usize,
}

impl LimitResults {
    fn new(run: &Run, timings: &[Timing], limits: Slo, resampling: Resampling) -> Self {
        let each = LimitedMetric::ALL.into_iter().filter_map(|what| {
            let limit = limits.limit(what)?;
            let others = |timing: &Timing| {
                LimitedMetric::ALL.into_iter().all(|other| other == what || timing.meets(other, &limits))
            };
            let breaks_only = |timing: &&Timing| timing.is_completed && !timing.meets(what, &limits) && others(timing);
            Some(LimitResult {
                what,
                limit,
                kept: LimitCount::count(timings.iter(), resampling, |timing| timing.meets(what, &limits)),
                only_this: timings.iter().filter(breaks_only).count() as u64,
                percentile_of_limit: percentile_of_limit(what, limit, timings),
            })
        });
        let good = LimitCount::count(timings.iter(), resampling, |timing| timing.is_good(&limits));
        let seconds = run.summary.load.as_ref().map_or(run.summary.duration_s, |load| load.whole.duration_s);
        let seconds = Some(seconds).filter(|&seconds| seconds > 0.0);
        Self {
            limits,
            each: each.collect(),
            good,
            per_second: seconds.map(|seconds| good.kept as f64 / seconds),
            steady: steady(run, timings, &limits, resampling),
            block: resampling.block,
        }
    }

    /// The limit that most requests miss.
    fn most_missed(&self) -> Option<&LimitResult> {
        let broken = |one: &&LimitResult| one.kept.all - one.kept.kept;
        self.each.iter().rev().max_by_key(broken).filter(|one| broken(one) > 0)
    }

    fn fill(&self, whose: &str, findings: &mut Findings) {
        let steady = self.steady.map(|(kept, per_second)| {
            json!({"good": kept.kept, "of": kept.all, "share": entries::estimate(kept.share()), "requests_per_second": per_second})
        });
        findings.summary = entries::map(json!({
            "good": self.good.kept, "of": self.good.all,
            "share": entries::estimate(self.good.share()),
            "requests_per_second": entries::number(self.per_second),
            "broken_most": self.most_missed().map(|one| one.what.name()),
        }));
        // With null for a metric without a limit, unlike `Slo` in summary.json.
        let limit = |what: LimitedMetric| (format!("{}_s", what.name()), entries::number(self.limits.limit(what)));
        let limits: Map<String, Value> = LimitedMetric::ALL.into_iter().map(limit).collect();
        findings.data = entries::map(json!({
            "limits": limits, "limits_of": whose,
            "goodput": {"good": self.good.kept, "of": self.good.all, "share": entries::estimate(self.good.share()),
                "requests_per_second": entries::number(self.per_second)},
            "steady_state_goodput": steady,
            "by_limit": self.each.iter().map(LimitResult::json).collect::<Vec<_>>(),
        }));
        findings.tables.push(self.table());
    }

    fn table(&self) -> Table {
        let columns = [
            ("limit", "limit"),
            ("value", "limit_s"),
            ("within limit", "share"),
            ("met", "kept"),
            ("requests", "of"),
            ("percentile of the limit", "stands_at_percentile"),
            ("missed only this limit", "broken_alone"),
        ];
        let mut table = Table::new("goodput", "Requests within the latency limits", &columns);
        for one in &self.each {
            table.rows.push(vec![
                Cell::text(one.what.label()),
                quantity_cell(Some(one.limit), "s"),
                share_cell(one.kept.share()),
                count_cell(one.kept.kept),
                count_cell(one.kept.all),
                Cell::number(one.percentile_of_limit, |percent| format!("p{percent:.1}")),
                count_cell(one.only_this),
            ]);
        }
        let mut all = vec![Cell::text("all limits"), Cell::Absent, share_cell(self.good.share())];
        all.extend([count_cell(self.good.kept), count_cell(self.good.all), Cell::Absent, Cell::Absent]);
        table.rows.push(all);
        if let Some(rate) = self.per_second {
            table.notes.push(format!("Goodput: {} requests per second.", format::digits(rate)));
        }
        if let Some(one) = self.most_missed() {
            let broken = one.kept.all - one.kept.kept;
            table.notes.push(format!("Limit missed most often: {} ({broken} requests).", one.what.label()));
        }
        table.notes.push(String::from(
            "A failed request meets no limit. Percentile of the limit: p90 means that 90 % of the completed requests \
             with a measured value are within the limit. Requests that missed only this limit are completed and meet \
             all other limits.",
        ));
        if self.block > 1 {
            table.notes.push(format!(
                "Requests overlap, so intervals come from a bootstrap over blocks of {} requests. An interval needs at least \
                 10 blocks, and is absent if all or no requests meet a limit.",
                self.block
            ));
        }
        table
    }
}

impl LimitResult {
    fn json(&self) -> Value {
        json!({"limit": self.what.name(), "limit_s": self.limit, "kept": self.kept.kept, "of": self.kept.all,
            "share": entries::estimate(self.kept.share()),
            "stands_at_percentile": entries::number(self.percentile_of_limit),
            "broken": self.kept.all - self.kept.kept, "broken_alone": self.only_this})
    }
}

fn count(timings: &[Timing], is_counted: impl Fn(&Timing) -> bool) -> u64 {
    timings.iter().filter(|timing| is_counted(timing)).count() as u64
}

/// The percentile at which a limit lies: 100 x the share of measured times within the limit.
fn percentile_of_limit(what: LimitedMetric, limit: f64, timings: &[Timing]) -> Option<f64> {
    let took = timings.iter().filter(|timing| timing.is_completed).map(|timing| timing.took(what));
    let measured: Vec<MeasuredTime> = took.filter(|took| matches!(took, MeasuredTime::Seconds(_))).collect();
    let within = measured.iter().filter(|took| took.meets(limit)).count();
    (!measured.is_empty()).then(|| 100.0 * within as f64 / measured.len() as f64)
}

/// Good requests sent in the steady state, and their rate: the rate of completed requests x the share of good ones.
fn steady(run: &Run, timings: &[Timing], limits: &Slo, resampling: Resampling) -> Option<(LimitCount, f64)> {
    let windows: Vec<(i64, i64)> = run.summary.steady_windows().collect();
    let is_inside = |timing: &&Timing| {
        let sent = timing.sent.map(ergometer_units::Timestamp::nanos_since_epoch);
        sent.is_some_and(|sent| windows.iter().any(|(start, end)| (*start..*end).contains(&sent)))
    };
    let inside: Vec<&Timing> = timings.iter().filter(is_inside).collect();
    let completed = inside.iter().filter(|timing| timing.is_completed).count();
    let rate = run.summary.load.as_ref()?.steady_state.as_ref()?.figures.requests_per_second?;
    let kept = LimitCount::count(inside.into_iter(), resampling, |timing| timing.is_good(limits));
    (kept.all > 0).then(|| (kept, kept.kept as f64 / completed.max(1) as f64 * rate))
}

fn proposed_table(proposed: &[(LimitedMetric, Option<f64>)], timings: &[Timing]) -> Table {
    let columns = [("limit", "limit"), ("99 % of requests within", "limit_s")];
    let mut table = Table::new("limits_kept", "Smallest limits that 99 % of requests meet", &columns);
    for (what, limit) in proposed {
        table.rows.push(vec![Cell::text(what.label()), quantity_cell(*limit, "s")]);
    }
    let completed = count(timings, |timing| timing.is_completed);
    table.notes.push(format!("Each limit on its own, over {completed} completed requests."));
    if completed < 100 {
        table.notes.push(format!("With {completed} requests, 99 % means all of them."));
    }
    let failed = timings.len() as u64 - completed;
    if failed > 0 {
        table.notes.push(format!("{failed} failed requests are not included."));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;
    use ergometer_diagnostics::{CommandLine, Diagnostic as _};

    fn timing(millis: u64, is_completed: bool) -> Timing {
        let seconds = millis as f64 / 1e3;
        let took = [
            MeasuredTime::Seconds(seconds),
            MeasuredTime::Seconds(seconds),
            MeasuredTime::Nothing,
            MeasuredTime::Nothing,
            MeasuredTime::Seconds(2.0 * seconds),
        ];
        Timing { sent: Some(example::at(seconds)), is_completed, took }
    }

    /// TTFT of 1 to 100 ms, with an E2E latency twice as long; the last two requests failed.
    fn hundred() -> Vec<Timing> {
        (1..=100).map(|number| timing(number, number <= 98)).collect()
    }

    #[test]
    fn each_limit_and_all_are_counted() {
        let limits = Slo { ttft_s: Some(0.08), e2e_s: Some(0.1), tpot_s: Some(1e-9), ..Slo::default() };
        let run = example::with_summary(Vec::new(), &[], json!({"duration_s": 10.0}));
        let found = LimitResults::new(&run, &hundred(), limits, Resampling::default());
        let kept: Vec<(&str, u64, u64)> =
            found.each.iter().map(|one| (one.what.name(), one.kept.kept, one.only_this)).collect();
        assert_eq!(kept, [("ttft", 80, 0), ("tpot", 98, 0), ("e2e", 50, 30)]);
        assert_eq!((found.good.kept, found.good.all, found.per_second), (50, 100, Some(5.0)));
        assert_eq!(found.most_missed().unwrap().what, LimitedMetric::E2e);
        assert_eq!(found.each[0].percentile_of_limit, Some(100.0 * 80.0 / 98.0));
        assert_eq!(found.each[1].percentile_of_limit, None, "no time between tokens was measured");
    }

    #[test]
    fn concurrent_requests_miss_limits_together() {
        // Of 400 requests, groups of twenty are fast and slow in turn.
        let timings: Vec<Timing> =
            (0..400).map(|place| timing(if place / 20 % 2 == 0 { 10 } else { 90 }, true)).collect();
        let width = |block| {
            let resampling = Resampling { block, ..Resampling::default() };
            let kept =
                LimitCount::count(timings.iter(), resampling, |timing| timing.took(LimitedMetric::Ttft).meets(0.05));
            assert_eq!((kept.kept, kept.all), (200, 400));
            kept.interval.map(Interval::width)
        };
        assert!(width(8).unwrap() > 2.0 * width(1).unwrap(), "{:?} and {:?}", width(8), width(1));
        assert_eq!(width(41), None, "nine blocks");
        let all = LimitCount::count(timings.iter(), Resampling { block: 8, ..Resampling::default() }, |_| true);
        assert_eq!((all.share().unwrap().value, all.interval), (1.0, None));
    }

    #[test]
    fn the_smallest_limit_is_met_by_99_percent() {
        assert_eq!(
            smallest_met_limit(LimitedMetric::Ttft, &hundred()),
            Some(0.098),
            "of the 98 that completed, 99 % are all"
        );
        let all: Vec<Timing> = (1..=200).map(|number| timing(number, true)).collect();
        let limit = smallest_met_limit(LimitedMetric::Ttft, &all).unwrap();
        assert_eq!(
            (limit, all.iter().filter(|timing| timing.took(LimitedMetric::Ttft).meets(limit)).count()),
            (0.198, 198)
        );
        assert_eq!(smallest_met_limit(LimitedMetric::Tpot, &all), None, "no TPOT was measured");
        assert_eq!(smallest_met_limit(LimitedMetric::E2e, &[]), None);
    }

    /// A run of 120 queries on a slow server that truncated answers, with every kind of limit, and a run of 300 on a
    /// GPU without failures.
    #[test]
    fn with_its_own_limits_a_run_has_the_goodput_of_its_summary() {
        is_that_of_the_summary("mock_limits");
        is_that_of_the_summary("h200_sixteen");
    }

    fn is_that_of_the_summary(name: &str) {
        let run = example::saved(name);
        let found = Goodput.run(&run, &Options::default()).unwrap();
        let load = run.summary.load.as_ref().unwrap();
        let of_summary = json!(load.whole.goodput.unwrap());
        for name in ["good", "requests_per_second"] {
            assert_eq!(found.summary[name], of_summary[name], "{name}");
        }
        assert_eq!(found.summary["share"]["value"], of_summary["share"]);
        let of_steady = json!(load.steady_state.as_ref().unwrap().figures.goodput.unwrap());
        let steady = &found.data["steady_state_goodput"];
        assert_eq!((&steady["good"], &steady["share"]["value"]), (&of_steady["good"], &of_steady["share"]));
        assert_eq!(steady["requests_per_second"], of_steady["requests_per_second"]);
        assert_eq!(found.data["limits_of"], "run");
    }

    #[test]
    fn limits_of_the_options_replace_those_of_the_run() {
        let run = example::saved("mock_limits");
        let limits = Some(Slo { e2e_s: Some(1e9), ..Slo::default() });
        let found = Goodput.run(&run, &Options { limits, ..Options::default() }).unwrap();
        assert_eq!(
            (&found.summary["good"], &found.summary["of"]),
            (&json!(117), &json!(120)),
            "all completed requests"
        );
        assert_eq!(found.data["by_limit"][0]["stands_at_percentile"], 100.0);
        assert_eq!((&found.data["limits_of"], &found.summary["broken_most"]), (&json!("asked"), &json!("e2e")));
    }

    #[test]
    fn limits_are_proposed_if_there_are_none_and_missing_requests_give_a_warning() {
        let limits = Some(Slo::default());
        let found = Goodput.run(&example::saved("mock_limits"), &Options { limits, ..Options::default() }).unwrap();
        assert!(found.warnings[0].one_line(&CommandLine).contains("--slo"), "{:?}", found.warnings);
        // Of 117 completed requests, 116 must meet the limit: the second longest time.
        let e2e = found.data["kept_by_99_pct"]["e2e_s"].as_f64().unwrap();
        assert!((0.38..0.5).contains(&e2e), "{e2e}");
        let found = Goodput.run(&example::run(vec![example::query(0)], &[""]), &Options::default()).unwrap();
        assert!(found.warnings[0].text.contains("requests.parquet"), "{:?}", found.warnings);
    }
}
