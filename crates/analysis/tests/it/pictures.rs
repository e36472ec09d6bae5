//! Plots and report pages of saved runs.

use std::path::{Path, PathBuf};

use ergometer_analysis::AnalysisError;
use ergometer_analysis::analyses::Options;
use ergometer_analysis::plots::{self, Detail, PlotInput};
use ergometer_analysis::report::report;
use ergometer_charts::{Block, Chart, Mark, Theme, svg};
use ergometer_runs::ReadError;
use ergometer_runs::saved::{Attribution, Run, Saved, SavedSweep};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs").join(name)
}

fn shown(names: &[&str], detail: Detail) -> PlotInput {
    let runs = names.iter().map(|name| Run::open(&fixture(name)).unwrap()).collect();
    PlotInput::new(runs, Vec::new(), detail)
}

fn swept() -> PlotInput {
    let sweep = SavedSweep::open(&fixture("h200_sweep")).unwrap();
    PlotInput::new(sweep.runs().unwrap(), vec![sweep], Detail::Still)
}

fn drawn(input: &PlotInput, plot: &str) -> Vec<Chart> {
    plots::find(plot).unwrap().draw(input).unwrap()
}

fn ids(charts: &[Chart]) -> Vec<&str> {
    charts.iter().map(|chart| chart.id.as_str()).collect()
}

#[test]
fn each_plot_draws_the_available_data() {
    let one = shown(&["h200_sixteen"], Detail::Still);
    assert_eq!(ids(&drawn(&one, "regression")), ["ttft", "latency", "energy", "power"]);
    assert_eq!(ids(&drawn(&one, "latency_cdf")), ["ttft_cdf", "tpot_cdf", "e2e_cdf"]);
    assert_eq!(ids(&drawn(&one, "output_kde")), ["completion_tokens_kde"]);
    assert_eq!(ids(&drawn(&one, "energy_per_token")), ["energy_per_token"]);
    assert!(drawn(&one, "pareto").is_empty() && drawn(&one, "sweep").is_empty());
    let two = shown(&["h200_one", "h200_sixteen"], Detail::Still);
    assert_eq!(ids(&drawn(&two, "power_timeline")), ["power_timeline_1", "power_timeline_2"]);
    assert!(plots::find("nothing").is_none());
}

#[test]
fn a_dot_has_the_values_of_its_query() {
    let one = shown(&["h200_sixteen"], Detail::Page);
    let charts = drawn(&one, "regression");
    let Mark::Points(dots) = &charts[1].panels[0].marks[0] else { panic!("dots come first") };
    let run = &one.runs[0];
    let expected: Vec<(u64, f64, f64)> =
        run.completed().filter_map(|query| Some((query.request, query.all_tokens()? as f64, query.total_s?))).collect();
    let found: Vec<(u64, f64, f64)> =
        dots.requests.iter().zip(&dots.x).zip(&dots.y).map(|((request, x), y)| (*request, *x, *y)).collect();
    assert_eq!(found, expected);
}

#[test]
fn all_requests_are_drawn_in_lanes_without_overlap() {
    let one = shown(&["h200_sixteen"], Detail::Page);
    let charts = drawn(&one, "power_timeline");
    let mut spans: Vec<(u32, f64, f64)> = Vec::new();
    for mark in &charts[0].panels[1].marks {
        let Mark::Spans(found) = mark else { panic!("spans") };
        spans.extend(
            found.lane.iter().zip(&found.start).zip(&found.end).map(|((lane, start), end)| (*lane, *start, *end)),
        );
    }
    assert_eq!(spans.len(), 300);
    spans.sort_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
    assert!(spans.windows(2).all(|pair| pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1 + 1e-9));
    assert_eq!(spans.iter().map(|span| span.0).max(), Some(15), "16 were in flight");
}

#[test]
fn a_distribution_is_50_percent_at_the_median_and_ends_at_100() {
    let one = shown(&["h200_graded"], Detail::Still);
    let charts = drawn(&one, "latency_cdf");
    let Mark::Step { x, y, .. } = &charts[0].panels[0].marks[0] else { panic!("a step") };
    assert_eq!(y.last(), Some(&100.0));
    let median = one.runs[0].summary.latency.ttft_ms.unwrap().p50 / 1e3;
    let place = y.iter().position(|share| *share >= 50.0).unwrap();
    assert!((x[place] / median - 1.0).abs() < 0.05, "{} beside {median}", x[place]);
}

#[test]
fn a_sweep_is_drawn_as_a_curve_with_its_loads() {
    let shown = swept();
    assert_eq!(shown.labels[2], "concurrency 4");
    let charts = drawn(&shown, "sweep");
    let Mark::Points(points) = &charts[0].panels[0].marks[1] else { panic!("points on the line") };
    assert_eq!(points.names, ["1", "2", "4", "8", "16", "32", "64"]);
    assert!(charts[0].notes.iter().any(|note| note.starts_with("No knee: ")), "{:?}", charts[0].notes);
    let page = report(&shown, &Options::default()).unwrap();
    assert_eq!(page.title, "random-1b over concurrency");
}

#[test]
fn every_plot_of_every_fixture_can_be_drawn() {
    for name in ["h200_one", "h200_four", "h200_sixteen", "h200_graded", "mock_limits"] {
        let shown = shown(&[name], Detail::Still);
        for plot in plots::ALL {
            for chart in plot.draw(&shown).unwrap() {
                assert!(svg(&chart, Theme::Light).starts_with("<svg"), "{name} {}", chart.id);
            }
        }
    }
}

#[test]
fn a_modelled_device_is_in_the_modelled_total() {
    let page = report(&shown(&["mock_limits"], Detail::Page), &Options::default()).unwrap();
    let blocks = page.sections.iter().flat_map(|section| &section.blocks);
    let mut tables = blocks.filter_map(|block| if let Block::Table(table) = block { Some(table) } else { None });
    let devices = tables.find(|table| table.id == "devices").unwrap();
    let row: Vec<String> = devices.rows[0].iter().map(ergometer_charts::Cell::shown).collect();
    assert_eq!((row[0].as_str(), row[3].as_str(), row[4].as_str()), ("cpu:0", "modelled", "yes"));
    assert!(page.html().contains(" per answer (modelled)"), "the throughput is not modelled");
}

#[test]
fn a_page_starts_with_the_verdict() {
    let page = report(&shown(&["h200_sixteen"], Detail::Page), &Options::default()).unwrap();
    let titles: Vec<&str> = page.sections.iter().map(|section| section.title.as_str()).collect();
    assert_eq!(titles[..2], ["Overview", "Warnings"]);
    let html = page.html();
    assert!(!html.contains("requests failed") && html.contains(" J per answer, "), "the verdict");
    let failing = report(&shown(&["mock_limits"], Detail::Page), &Options::default()).unwrap();
    assert!(failing.html().contains("3 of 120 requests failed"), "the verdict counts failures");
    let two = report(&shown(&["h200_one", "h200_sixteen"], Detail::Page), &Options::default()).unwrap();
    assert_eq!(two.title, "2 runs compared");
    let overview = &two.sections[0];
    assert!(overview.blocks.len() >= 3, "a verdict, the comparison, and the runs side by side");
}

#[test]
fn a_run_without_queries_has_no_page() {
    let Saved::Run(mut run) = Saved::open(&fixture("h200_one")).unwrap() else { panic!("a run") };
    run.queries.clear();
    let shown = PlotInput::new(vec![*run], Vec::new(), Detail::Page);
    assert!(matches!(report(&shown, &Options::default()), Err(AnalysisError::Read(ReadError::NoQueries { .. }))));
    for plot in plots::ALL {
        // Power can still be plotted.
        let charts = plot.draw(&shown).unwrap();
        assert!(charts.is_empty() || plot.id() == "power_timeline", "{}", plot.id());
    }
}

/// A copy of a fixture with a cost model, and its folder.
fn with_cost_model(name: &str) -> (tempfile::TempDir, PlotInput) {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(fixture(name)).unwrap().map(Result::unwrap) {
        if entry.path().is_file() {
            std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
    }
    ergometer_runs::testing::cost_models().write(folder.path()).unwrap();
    let run = Run::open(folder.path()).unwrap();
    (folder, PlotInput::new(vec![run], Vec::new(), Detail::Page))
}

/// The labels of the stacked areas, and the watts of the highest one over the first interval.
fn layers(chart: &Chart) -> (Vec<&str>, f64) {
    let mut labels = Vec::new();
    let mut highest = 0.0_f64;
    for mark in &chart.panels[0].marks {
        match mark {
            Mark::Step { label, .. } => labels.push(label.as_str()),
            Mark::Band { high, .. } => highest = highest.max(high[0]),
            other => panic!("{other:?}"),
        }
    }
    (labels, highest)
}

#[test]
fn power_is_split_into_idle_prefill_and_decode() {
    let (_folder, shown_with) = with_cost_model("h200_graded");
    let with = drawn(&shown_with, "power_phases");
    let without = drawn(&shown(&["h200_graded"], Detail::Page), "power_phases");
    assert_eq!((ids(&with), ids(&without)), (vec!["power_phases"], vec!["power_phases"]));
    let ((divided, total), (undivided, same)) = (layers(&with[0]), layers(&without[0]));
    assert_eq!(divided[..3], ["idle", "+ decode", "+ prefill"]);
    assert_eq!(undivided, ["idle", "+ above idle"]);
    assert!((total - same).abs() < 1e-9 && total > 125.0, "the sum is the measured power");
    assert!(without[0].notes.iter().any(|note| note.contains("no cost model")), "{:?}", without[0].notes);
    let modelled = shown(&["mock_limits"], Detail::Page);
    assert!(drawn(&modelled, "power_phases").is_empty(), "idle power is unknown");
}

#[test]
fn a_damaged_cost_model_is_a_note_in_the_chart_of_power() {
    let (folder, input) = with_cost_model("h200_sixteen");
    std::fs::write(folder.path().join("cost_model.json"), "{").unwrap();
    let charts = drawn(&input, "power_phases");
    assert_eq!(layers(&charts[0]).0, ["idle", "+ above idle"]);
    let notes = &charts[0].notes;
    assert!(notes.iter().any(|note| note.contains("cannot be read") && note.contains("is damaged")), "{notes:?}");
    assert!(report(&input, &Options::default()).unwrap().html().contains("The cost model cannot be read"));
}

#[test]
fn a_report_shows_the_cost_model_and_net_joules() {
    let section = |page: &ergometer_charts::Page, id: &str| page.sections.iter().position(|section| section.id == id);
    let columns = |page: &ergometer_charts::Page| -> Vec<String> {
        let tables = page.sections.iter().flat_map(|section| &section.blocks);
        let mut tables = tables.filter_map(|block| if let Block::Table(table) = block { Some(table) } else { None });
        let queries = tables.find(|table| table.id == "queries").unwrap();
        queries.columns.iter().map(|column| column.name.clone()).collect()
    };
    let plain = report(&shown(&["h200_graded"], Detail::Page), &Options::default()).unwrap();
    assert_eq!((section(&plain, "costs"), columns(&plain).last().unwrap().as_str()), (None, "gross_j"));
    let (_folder, mut input) = with_cost_model("h200_graded");
    let attribution = Attribution { share: 2.0, low: 1.5, high: 2.5, prefill_j: Some(0.5), decode_j: Some(1.5) };
    input.runs[0].queries[0].attribution = Some(attribution);
    let page = report(&input, &Options::default()).unwrap();
    assert!(section(&page, "costs").unwrap() > section(&page, "joules").unwrap());
    assert_eq!(columns(&page).last().unwrap(), "net_j");
    let html = page.html();
    assert!(html.contains("Cost model of the server") && html.contains("add requests with more varied prompt lengths"));
    assert!(html.contains("2.000 J (1.500 J to 2.500 J)"));
}
