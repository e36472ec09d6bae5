//! Draws one chart of each kind, with made-up data, into a folder: `cargo run --example gallery -- FOLDER`.
//!
//! It writes each chart as SVG and PNG in both themes, and prints the size and the time of each.

use std::path::Path;
use std::time::Instant;

use ergometer_charts::{Axis, Chart, Hue, Mark, Panel, Points, Scale, Side, Spans, Stroke, Theme, png, svg};

/// Pseudo-random numbers, the same in every run (a linear congruential generator, Knuth's MMIX).
struct Random(u64);

impl Random {
    /// A uniform number between 0 and 1.
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A normal number with mean 0 and standard deviation 1 (the sum of twelve uniform numbers, Irwin and Hall).
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

fn chart(id: &str, title: &str, subtitle: &str, x: Axis, panels: Vec<Panel>) -> Chart {
    Chart { id: id.into(), title: title.into(), subtitle: subtitle.into(), notes: vec![], x, panels }
}

fn panel(y: Axis, marks: Vec<Mark>) -> Panel {
    Panel { y, marks, share: 1.0 }
}

fn line(label: &str, hue: u8, x: Vec<f64>, y: Vec<f64>) -> Mark {
    Mark::Line { label: label.into(), hue: Hue::Series(hue), stroke: Stroke::Solid, x, y }
}

fn rule(side: Side, at: f64, label: &str) -> Mark {
    Mark::Rule { side, at, label: label.into(), hue: Hue::Bad }
}

fn lines() -> Chart {
    let load: Vec<f64> = (0..=32).map(f64::from).collect();
    let curve = |base: f64, slope: f64| load.iter().map(|at| base + slope * at * at / 300.0).collect::<Vec<_>>();
    let band = |low: Vec<f64>, high: Vec<f64>| Mark::Band { hue: Hue::Series(0), x: load.clone(), low, high };
    let marks = vec![
        band(curve(0.0018, 0.0021), curve(0.0023, 0.0026)),
        line("tiny", 0, load.clone(), curve(0.002, 0.0023)),
        line("small, quantized to 8 bits", 1, load.clone(), curve(0.0035, 0.0025)),
        line("small", 2, load.clone(), curve(0.0038, 0.0024)),
        Mark::Line {
            label: "bound".into(),
            hue: Hue::Muted,
            stroke: Stroke::Dashed,
            x: load.clone(),
            y: curve(0.001, 0.0014),
        },
        rule(Side::Y, 0.01, "SLO: 10 ms"),
    ];
    let y = Axis::from_zero("time to first token, median", "s");
    let mut chart = chart(
        "lines",
        "TTFT rises above a concurrency of twenty",
        "three models on one H200, 600 problems each; the band is the 95 % interval",
        Axis::linear("concurrency", ""),
        vec![panel(y, marks)],
    );
    chart.notes = vec!["Failed requests are not included: 3 of 600 with tiny, none with small.".into()];
    chart
}

fn scatter(count: usize) -> Chart {
    let mut random = Random(7);
    let mut series = |label: &str, hue: u8, shift: f64, count: usize| {
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let size = (random.normal() * 0.6 + 5.0).exp();
            x.push(size);
            y.push((size * 0.002 + shift) * (random.normal() * 0.25).exp());
        }
        Mark::Points(Points { label: label.into(), hue: Hue::Series(hue), x, y, ..Points::default() })
    };
    let marks = vec![series("tiny", 0, 0.15, count / 2), series("small", 1, 0.8, count / 2)];
    chart(
        &format!("scatter_{count}"),
        "Long answers cost more, and the larger model costs more from the start",
        "energy and length of each answer",
        Axis::log("tokens in the answer", ""),
        vec![panel(Axis::log("energy", "J/query"), marks)],
    )
}

fn frontier() -> Chart {
    let names = ["tiny", "tiny-q8", "small", "small-q8", "medium", "medium-q4", "large", "large-fp8", "moe 8x7"];
    let x = vec![0.21, 0.17, 0.74, 0.55, 2.1, 1.1, 6.5, 4.4, 3.0];
    let y = vec![79.7, 78.1, 91.3, 90.8, 94.0, 92.7, 96.2, 96.0, 95.1];
    let low: Vec<f64> = y.iter().map(|y| y - 1.6).collect();
    let high: Vec<f64> = y.iter().map(|y| y + 1.6).collect();
    let points = Points { names: names.map(String::from).to_vec(), x, y, low, high, ..Points::default() };
    let hull = Mark::Line {
        label: "best for its energy".into(),
        hue: Hue::Muted,
        stroke: Stroke::Dotted,
        x: vec![0.17, 0.21, 0.55, 0.74, 1.1, 2.1, 3.0, 4.4, 6.5],
        y: vec![78.1, 79.7, 90.8, 91.3, 92.7, 94.0, 95.1, 96.0, 96.2],
    };
    chart(
        "frontier",
        "Energy and accuracy of nine models",
        "accuracy with its 95 % interval",
        Axis::log("energy for each query", "J"),
        vec![panel(Axis::linear("correct answers", "%"), vec![hull, Mark::Points(points)])],
    )
}

fn names() -> Vec<String> {
    [
        "counting",
        "addition",
        "subtraction",
        "multiplication of two-digit numbers without a calculator",
        "remainder",
        "multiple choice",
        "sorting",
    ]
    .map(String::from)
    .to_vec()
}

fn bars() -> Chart {
    let y: Vec<f64> = (0..7).map(f64::from).collect();
    let bars = |label: &str, hue: u8, x: Vec<f64>| {
        let low = x.iter().map(|x| (x - 4.0f64).max(0.0)).collect();
        let high = x.iter().map(|x| (x + 4.0f64).min(100.0)).collect();
        let names = x.iter().map(|x| format!("{x:.0} %")).collect();
        let hue = Hue::Series(hue);
        Mark::Bars(Points { label: label.into(), hue, x, y: y.clone(), low, high, names, ..Points::default() })
    };
    let marks = vec![
        bars("tiny", 0, vec![100.0, 96.0, 92.0, 14.0, 2.0, 31.0, 88.0]),
        bars("small", 1, vec![100.0, 99.0, 98.0, 71.0, 4.0, 83.0, 97.0]),
    ];
    chart(
        "bars",
        "Neither model can do remainders",
        "correct answers by subject, 50 problems each",
        Axis::from_zero("correct answers", "%"),
        vec![panel(Axis::names("", names()), marks)],
    )
}

fn forest() -> Chart {
    let x = vec![1.02, 0.94, 1.31, 1.12, 0.99, 1.2, 0.87];
    let low = x.iter().map(|x| x - 0.07).collect();
    let high = x.iter().map(|x| x + 0.07).collect();
    let y = (0..7).map(f64::from).collect();
    let points = Mark::Points(Points { x, y, low, high, ..Points::default() });
    chart(
        "forest",
        "Multiplication is a third slower",
        "time of the new build relative to the old one, with 95 % intervals",
        Axis::linear("ratio of times", ""),
        vec![panel(Axis::names("", names()), vec![rule(Side::X, 1.0, "no change"), points])],
    )
}

fn histogram() -> Chart {
    let mut random = Random(3);
    let mut counts = vec![0.0; 40];
    for _ in 0..4000 {
        let at = ((random.normal() * 0.35).exp() * 10.0).clamp(0.0, 39.0);
        let mut bin = 0;
        while f64::from(bin + 1) <= at {
            bin += 1;
        }
        if let Some(count) = usize::try_from(bin).ok().and_then(|bin| counts.get_mut(bin)) {
            *count += 1.0;
        }
    }
    let x = (0..40).map(|bin| (f64::from(bin) + 0.5) * 0.0004).collect();
    let marks = vec![
        Mark::Bars(Points { x, y: counts, ..Points::default() }),
        rule(Side::X, 0.004, "median 4.0 ms"),
        rule(Side::X, 0.0091, "99th 9.1 ms"),
    ];
    let y = Axis::from_zero("requests", "");
    chart("histogram", "Time to first token", "4,000 requests", Axis::linear("time", "s"), vec![panel(y, marks)])
}

fn timeline(count: u32) -> Chart {
    let mut random = Random(11);
    let lanes = (count / 12).clamp(4, 64);
    let mut spans = Spans { label: "answered".into(), ..Spans::default() };
    let mut failed = Spans { label: "failed".into(), hue: Hue::Bad, ..Spans::default() };
    let mut free = vec![0.0; lanes as usize];
    for number in 0..count {
        let lane = number % lanes;
        let start = free[lane as usize] + random.uniform() * 0.02;
        let wait = 0.01 + random.uniform() * 0.05;
        let end = start + wait + 0.05 + random.uniform() * 0.25;
        free[lane as usize] = end;
        let into = if random.uniform() < 0.03 { &mut failed } else { &mut spans };
        into.start.push(start);
        into.turn.push(start + wait);
        into.end.push(end);
        into.lane.push(lane);
    }
    let length = free.iter().copied().fold(0.0, f64::max);
    let x: Vec<f64> = (0..800).map(|at| f64::from(at) * length / 800.0).collect();
    let y: Vec<f64> = x.iter().map(|_| 310.0 + random.normal() * 25.0).collect();
    let low = vec![0.0; x.len()];
    let power = vec![
        Mark::Band { hue: Hue::Series(4), x: x.clone(), low, high: y.clone() },
        Mark::Step { label: "GPU".into(), hue: Hue::Series(4), x, y },
        rule(Side::Y, 120.0, "idle 120 W"),
    ];
    let lanes = Axis { scale: Scale::Plain, ..Axis::linear("requests, in lanes", "") };
    let mut chart = chart(
        &format!("timeline_{count}"),
        "Requests and GPU power",
        "pale until the first token",
        Axis::linear("time since the start", "s"),
        vec![
            Panel { y: lanes, marks: vec![Mark::Spans(spans), Mark::Spans(failed)], share: 2.0 },
            panel(Axis::from_zero("power", "W"), power),
        ],
    );
    chart.panels[1].share = 1.0;
    chart
}

fn distribution() -> Chart {
    let mut random = Random(5);
    let mut step = |label: &str, hue: u8, middle: f64| {
        let mut x: Vec<f64> = (0..500).map(|_| middle * (random.normal() * 0.5).exp()).collect();
        x.sort_unstable_by(f64::total_cmp);
        let y = (1..=500).map(|number| f64::from(number) / 5.0).collect();
        Mark::Step { label: label.into(), hue: Hue::Series(hue), x, y }
    };
    let marks = vec![step("tiny", 0, 0.002), step("small", 1, 0.0045), step("medium", 2, 0.02)];
    chart(
        "distribution",
        "90 % of first tokens arrive within 40 ms",
        "time to first token, 500 requests per model",
        Axis::log("time", "s"),
        vec![panel(Axis::from_zero("requests at least as fast", "%"), marks)],
    )
}

fn columns() -> Chart {
    let names = ["meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen2.5-7B", "mistralai/Mistral-7B-v0.3", "gemma", "phi"];
    let values = vec![2.4e9, 1.9e9, 3.1e9, 0.8e9, 0.4e9];
    let texts = values.iter().map(|value| format!("{:.1} GB", value / 1e9)).collect();
    let points = Points { x: (0..5).map(f64::from).collect(), y: values, names: texts, ..Points::default() };
    let x = Axis::names("", names.map(String::from).to_vec());
    chart("columns", "Memory", "", x, vec![panel(Axis::from_zero("peak memory", "B"), vec![Mark::Bars(points)])])
}

fn many_names() -> Chart {
    let names: Vec<String> = (0..60).map(|n| format!("fusion_{n}/gemm_{}_kernel", n * 7919 % 1000)).collect();
    let x: Vec<f64> = (0..60).map(|n| 0.003 / f64::from(n + 1)).collect();
    let points = Points { x, y: (0..60).map(f64::from).collect(), ..Points::default() };
    let y = Axis::names("", names);
    chart(
        "many_names",
        "Sixty kernels",
        "",
        Axis::from_zero("self time", "s"),
        vec![panel(y, vec![Mark::Bars(points)])],
    )
}

fn eight() -> Chart {
    let x: Vec<f64> = (0..60).map(|at| f64::from(at) / 60.0).collect();
    let marks = (0..8u8)
        .map(|number| {
            let wave = |at: &f64| (at * 6.0 + f64::from(number)).sin() * 1.5e6 - f64::from(number) * 2e5;
            line(&format!("GPU {number}"), number, x.clone(), x.iter().map(wave).collect())
        })
        .collect();
    let y = Axis::linear("difference of memory", "B");
    chart("eight", "Eight lines that cross zero", "", Axis::linear("time", "s"), vec![panel(y, marks)])
}

fn turned() -> Chart {
    let names: Vec<String> = (0..18).map(|n| format!("{n}: a subject of the dataset")).collect();
    let value = |n: i32| (f64::from(n) * 0.7).sin() * 0.3;
    let x: Vec<f64> = (0..18).map(f64::from).collect();
    let series = |label: &str, hue: u8, shift: f64| {
        let y: Vec<f64> = (0..18).map(|n| value(n) + shift).collect();
        let low = y.iter().map(|y| y - 0.1).collect();
        let high = y.iter().map(|y| y + 0.1).collect();
        let hue = Hue::Series(hue);
        Mark::Points(Points { label: label.into(), hue, x: x.clone(), y, low, high, ..Points::default() })
    };
    let marks = vec![series("tiny", 0, 0.0), series("small", 1, 0.12)];
    let y = Axis::linear("change", "J/query");
    chart("turned", "Names too long to be horizontal", "", Axis::names("", names), vec![panel(y, marks)])
}

fn single() -> Chart {
    let points = Points { x: vec![1.7e9], y: vec![0.004_2], names: vec!["模型 one".into()], ..Points::default() };
    let x = Axis::linear("time since the epoch", "s");
    chart("single", "One point", "", x, vec![panel(Axis::linear("time", "s"), vec![Mark::Points(points)])])
}

fn nothing() -> Chart {
    let y = Axis::linear("power", "W");
    chart("nothing", "Nothing was measured", "no sensor", Axis::linear("time", "s"), vec![panel(y, vec![])])
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: cargo run --example gallery -- FOLDER")?;
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    let charts = [
        lines(),
        scatter(600),
        scatter(100_000),
        frontier(),
        bars(),
        forest(),
        histogram(),
        timeline(60),
        timeline(6000),
        distribution(),
        columns(),
        many_names(),
        eight(),
        turned(),
        single(),
        nothing(),
    ];
    for chart in charts {
        for (theme, name) in [(Theme::Light, "light"), (Theme::Dark, "dark")] {
            let before = Instant::now();
            let picture = svg(&chart, theme);
            let drawn = before.elapsed();
            let before = Instant::now();
            let pixels = png(&chart, theme, 2.0)?;
            let painted = before.elapsed();
            println!(
                "{:18} {name:5}  svg {:>8} bytes {:>7.1} ms   png {:>8} bytes {:>7.1} ms",
                chart.id,
                picture.len(),
                drawn.as_secs_f64() * 1e3,
                pixels.len(),
                painted.as_secs_f64() * 1e3
            );
            std::fs::write(folder.join(format!("{}_{name}.svg", chart.id)), picture)?;
            std::fs::write(folder.join(format!("{}_{name}.png", chart.id)), pixels)?;
        }
    }
    Ok(())
}
