//! Snapshots and checks of small charts.

use ergometer_charts::{Axis, Chart, Hue, Mark, Panel, Points, Scale, Side, Spans, Stroke, Theme, svg};
use resvg::usvg::{Options, Tree};

fn chart(x: Axis, y: Axis, marks: Vec<Mark>) -> Chart {
    Chart {
        id: "chart".into(),
        title: "What it shows".into(),
        subtitle: "of what, on what".into(),
        notes: vec!["How to read it.".into()],
        x,
        panels: vec![Panel { y, marks, share: 1.0 }],
    }
}

fn line(label: &str, x: Vec<f64>, y: Vec<f64>) -> Mark {
    Mark::Line { label: label.into(), hue: Hue::Series(0), stroke: Stroke::Solid, x, y }
}

fn texts(svg: &str) -> Vec<&str> {
    let text = |part: &'_ str| part.find('>').and_then(|start| part.find("</text>").map(|end| (start + 1, end)));
    svg.split("<text").skip(1).filter_map(|part| text(part).map(|(start, end)| &part[start..end])).collect()
}

#[test]
fn a_line_with_its_band_and_a_rule() {
    let x = vec![1.0, 2.0, 4.0, 8.0];
    let marks = vec![
        Mark::Band {
            hue: Hue::Series(0),
            x: x.clone(),
            low: vec![0.0018, 0.0021, 0.0028, 0.005],
            high: vec![0.0022, 0.0025, 0.0034, 0.006],
        },
        line("tiny", x, vec![0.002, 0.0023, 0.0031, 0.0055]),
        Mark::Rule { side: Side::Y, at: 0.005, label: "promised <5 ms>".into(), hue: Hue::Bad },
    ];
    let chart = chart(Axis::log("requests at once", ""), Axis::from_zero("time to first token", "s"), marks);
    insta::assert_snapshot!(svg(&chart, Theme::Light));
}

#[test]
fn bars_of_names() {
    let bars = Points {
        x: vec![79.7, 91.3],
        y: vec![0.0, 1.0],
        low: vec![76.5, 89.0],
        high: vec![82.9, 93.5],
        names: vec!["79.7 %".into(), "91.3 %".into()],
        ..Points::default()
    };
    let names = vec!["tiny".into(), "a model with a name that is far too long for the place it has".into()];
    let chart = chart(Axis::from_zero("right answers", "%"), Axis::names("", names), vec![Mark::Bars(bars)]);
    insta::assert_snapshot!(svg(&chart, Theme::Dark));
}

#[test]
fn spans_in_lanes_and_points_above() {
    let spans = Spans {
        label: "answered".into(),
        start: vec![0.0, 0.1, 0.5],
        turn: vec![0.1, 0.2, 0.5],
        end: vec![0.4, 0.9, 1.0],
        lane: vec![0, 1, 0],
        ..Spans::default()
    };
    let lanes = Axis { scale: Scale::Plain, ..Axis::linear("requests", "") };
    let points = Points {
        label: "power".into(),
        hue: Hue::Series(1),
        x: vec![0.0, 0.5, 1.0],
        y: vec![100.0, 300.0, 200.0],
        ..Points::default()
    };
    let mut chart = chart(Axis::linear("time", "s"), Axis::from_zero("power", "W"), vec![Mark::Points(points)]);
    chart.panels.push(Panel { y: lanes, marks: vec![Mark::Spans(spans)], share: 0.5 });
    insta::assert_snapshot!(svg(&chart, Theme::Light));
}

#[test]
fn an_empty_chart_says_no_data() {
    let empty = chart(Axis::linear("time", "s"), Axis::linear("power", "W"), vec![]);
    insta::assert_snapshot!(svg(&empty, Theme::Light));
    let nowhere = line("", vec![f64::NAN, 1.0, 2.0], vec![1.0, f64::INFINITY]);
    let chart = chart(Axis::linear("time", "s"), Axis::linear("power", "W"), vec![nowhere]);
    assert!(texts(&svg(&chart, Theme::Light)).contains(&"no data"));
}

#[test]
fn values_that_are_not_positive_are_not_drawn_on_a_logarithmic_axis() {
    let points = Points { x: vec![1.0, 2.0, 3.0, 4.0], y: vec![0.0, -5.0, 10.0, 100.0], ..Points::default() };
    let chart = chart(Axis::linear("", ""), Axis::log("", ""), vec![Mark::Points(points)]);
    assert_eq!(svg(&chart, Theme::Light).matches("<circle").count(), 2);
}

#[test]
fn values_outside_an_axis_are_not_drawn() {
    let points = Points { x: vec![1.0, 2.0, 30.0], y: vec![1.0, 20.0, 3.0], ..Points::default() };
    let axis = || Axis::linear("", "").within(0.0, 10.0);
    let chart = chart(axis(), axis(), vec![Mark::Points(points)]);
    assert_eq!(svg(&chart, Theme::Light).matches("<circle").count(), 1);
}

#[test]
fn a_picture_of_a_hundred_thousand_points_stays_small() {
    let x: Vec<f64> = (0..100_000u32).map(|n| f64::from(n.wrapping_mul(2_654_435_761) >> 12)).collect();
    let y: Vec<f64> = (0..100_000u32).map(|n| f64::from(n.wrapping_mul(2_246_822_519) >> 12)).collect();
    let (most, least) = (x.iter().copied().fold(0.0, f64::max), x.iter().copied().fold(f64::MAX, f64::min));
    assert!(most > least);
    let points = Mark::Points(Points { x: x.clone(), y: y.clone(), ..Points::default() });
    let spans = Mark::Spans(Spans {
        end: x.iter().map(|x| x + 500.0).collect(),
        start: x.clone(),
        lane: (0..100_000).map(|n| n % 500).collect(),
        ..Spans::default()
    });
    for mark in [points, spans, line("noise", x.clone(), y.clone())] {
        let svg = svg(&chart(Axis::linear("", ""), Axis::linear("", ""), vec![mark]), Theme::Light);
        assert!(svg.len() < 2_000_000, "{}", svg.len());
        assert!(Tree::from_str(&svg, &Options::default()).is_ok());
    }
}

#[test]
fn labels_of_lines_that_end_together_do_not_overlap() {
    let marks = (0..5).map(|n| line(&format!("line {n}"), vec![0.0, 1.0], vec![f64::from(n), 10.0])).collect();
    let svg = svg(&chart(Axis::linear("", ""), Axis::linear("", ""), marks), Theme::Light);
    let mut heights: Vec<f64> = svg
        .lines()
        .filter(|line| line.contains(">line "))
        .filter_map(|line| line.split(" y=\"").nth(1)?.split('"').next()?.parse().ok())
        .collect();
    heights.sort_unstable_by(f64::total_cmp);
    assert_eq!(heights.len(), 5);
    assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= 14.0), "{heights:?}");
}
