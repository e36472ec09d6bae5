//! Writes a page with every kind of block and chart: `cargo run -p ergometer-charts --example page -- page.html [N]`.
//! N is the number of requests, 600 by default.

use std::error::Error;
use std::f64::consts::TAU;

use ergometer_charts::{
    Axis, Block, Cell, Chart, Figure, Hue, Mark, Notice, Page, Panel, Points, Scale, Section, Side, Spans, Stroke,
    Table, Tone,
};

/// A hostile name of a model or text of an answer. The page must show it and not run it.
const HOSTILE: &str = "</script><script>window.obeyed = true</script><img src=x onerror=\"window.obeyed = true\">";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: cargo run -p ergometer-charts --example page -- page.html [N]")?;
    let count = arguments.next().map_or(Ok(600), |count| count.parse())?;
    std::fs::write(path, page(&requests(count)).html())?;
    Ok(())
}

/// A request on the page.
struct Request {
    number: u64,
    lane: u32,
    start: f64,
    first_token: f64,
    end: f64,
    energy: f64,
    subject: &'static str,
    correct: bool,
}

const SUBJECTS: [&str; 5] = ["counting", "addition", "remainder", "sorting", "reading"];

/// Made-up requests in eight busy lanes, the same in every run.
fn requests(count: u64) -> Vec<Request> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut free = [0.0; 8];
    (0..count)
        .map(|number| {
            let lane = (number % 8) as u32;
            let start = free[lane as usize] + 0.002 * random();
            let first_token = start + 0.0018 * (1.0 + 3.0 * random().powi(4));
            let end = first_token + 0.004 + 0.05 * random() * random();
            free[lane as usize] = end;
            let subject = SUBJECTS.into_iter().nth((number * 7 % 11 % 5) as usize).unwrap_or_default();
            let energy = (end - start) * (4.0 + 2.0 * random());
            Request { number, lane, start, first_token, end, energy, subject, correct: random() < 0.8 }
        })
        .collect()
}

fn page(requests: &[Request]) -> Page {
    Page {
        title: String::from("Profile of tiny on builtin"),
        subtitle: String::from("0.1 M parameters · 600 problems · modelled CPU"),
        sections: vec![
            summary(),
            section(
                "latency",
                "Latency",
                vec![chart(scatter(requests)), chart(distribution(requests)), chart(histogram(requests))],
            ),
            section("power", "Power and requests", vec![chart(timeline(requests))]),
            section("energy", "Energy", vec![chart(by_subject()), chart(grouped()), chart(frontier()), chart(sweep())]),
            section("requests", "Requests", vec![Block::Table(request_table(requests))]),
            section(
                "odd",
                "Edge cases",
                vec![
                    Block::Text(format!(
                        "Text is shown as it is: {HOSTILE} <!-- ]]> & \u{202e}turned\u{202c} \u{1b}[31m"
                    )),
                    chart(Chart { title: String::from(HOSTILE), ..nothing() }),
                    chart(hostile()),
                ],
            ),
            section(
                "setup",
                "Setup",
                vec![Block::Facts(
                    [
                        ("model", "tiny"),
                        ("dataset", "builtin, 600 problems, revision 3"),
                        ("machine", "XEON, 16 cores"),
                        ("energy", "modelled from CPU utilization"),
                        ("concurrency", "8"),
                        ("version", "0.1.0"),
                        ("command", "ergo profile --concurrency 8"),
                        ("answer", HOSTILE),
                    ]
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .into(),
                )],
            ),
        ],
        made_by: String::from("Ergometer 0.1.0"),
    }
}

fn section(id: &str, title: &str, blocks: Vec<Block>) -> Section {
    Section { id: id.to_owned(), title: title.to_owned(), blocks }
}

fn chart(chart: Chart) -> Block {
    Block::Chart(Box::new(chart))
}

fn summary() -> Section {
    let figure = |label: &str, value: &str, interval: &str, comment: &str| Figure {
        label: label.to_owned(),
        value: value.to_owned(),
        interval: interval.to_owned(),
        comment: comment.to_owned(),
    };
    let notice = |text: &str, remedy: &str| Notice { text: text.to_owned(), remedy: remedy.to_owned() };
    section(
        "summary",
        "Summary",
        vec![
            Block::Verdict {
                text: String::from(
                    "79.7 % of the problems are solved at 0.21 J each; energy is modelled, not measured.",
                ),
                tone: Tone::Warning,
            },
            Block::Figures(vec![
                figure("Accuracy", "79.7 %", "76.4 to 82.8 %", "best counting, worst remainder"),
                figure("Time to first token", "1.9 ms p50", "3.1 ms p99", "600 requests"),
                figure("Throughput", "1,240 tok/s", "", "13.9 tokens per query"),
                figure("Energy", "0.21 J/query", "± 0.02", "modelled CPU, not measured"),
                figure("Intelligence per joule", "3.8 correct/J", "± 0.3", ""),
            ]),
            Block::Notices(vec![
                notice(
                    "Energy is modelled from CPU utilization.",
                    "Run `ergo doctor` to see the sensors of this machine.",
                ),
                notice("Three requests were retried.", ""),
            ]),
            Block::Text(String::from(
                "The most important results come first. Every number has a unit, and an interval or a source.\n\nA second paragraph.",
            )),
        ],
    )
}

fn plain(id: &str, title: &str, x: Axis, panels: Vec<Panel>) -> Chart {
    Chart { id: id.to_owned(), title: title.to_owned(), subtitle: String::new(), notes: Vec::new(), x, panels }
}

fn panel(y: Axis, share: f64, marks: Vec<Mark>) -> Panel {
    Panel { y, marks, share }
}

fn scatter(requests: &[Request]) -> Chart {
    let series = |correct: bool, label: &str, hue: Hue| {
        let chosen: Vec<&Request> = requests.iter().filter(|request| request.correct == correct).collect();
        Mark::Points(Points {
            label: label.to_owned(),
            hue,
            x: chosen.iter().map(|request| request.start).collect(),
            y: chosen.iter().map(|request| request.first_token - request.start).collect(),
            requests: chosen.iter().map(|request| request.number).collect(),
            ..Points::default()
        })
    };
    let slo = Mark::Rule { side: Side::Y, at: 0.005, label: String::from("SLO 5 ms"), hue: Hue::Bad };
    Chart {
        subtitle: String::from("each request, by send time"),
        notes: vec![String::from("Click a point to see its request.")],
        ..plain(
            "ttft",
            "Time to first token",
            Axis::linear("send time", "s"),
            vec![panel(
                Axis::log("time to first token", "s"),
                1.0,
                vec![slo, series(true, "correct", Hue::Series(0)), series(false, "wrong", Hue::Series(1))],
            )],
        )
    }
}

fn distribution(requests: &[Request]) -> Chart {
    let step = |label: &str, hue: Hue, value: &dyn Fn(&Request) -> f64| {
        let mut x: Vec<f64> = requests.iter().map(value).collect();
        x.sort_by(f64::total_cmp);
        let y = (1..=x.len()).map(|rank| 100.0 * rank as f64 / x.len() as f64).collect();
        Mark::Step { label: label.to_owned(), hue, x, y }
    };
    let median = Mark::Rule { side: Side::Y, at: 50.0, label: String::from("median"), hue: Hue::Muted };
    plain(
        "distribution",
        "Distribution of latencies",
        Axis::log("latency", "s"),
        vec![panel(
            Axis::from_zero("requests", "%").within(0.0, 100.0),
            1.0,
            vec![
                median,
                step("TTFT", Hue::Series(0), &|request| request.first_token - request.start),
                step("E2E latency", Hue::Series(2), &|request| request.end - request.start),
            ],
        )],
    )
}

fn histogram(requests: &[Request]) -> Chart {
    let count = |bin: i32| {
        let low = 0.002 * f64::from(bin);
        let inside = |request: &&Request| (low..low + 0.002).contains(&(request.end - request.start));
        requests.iter().filter(inside).count() as f64
    };
    let bars = Points {
        label: String::from("requests"),
        x: (0..30).map(|bin| 0.001 + 0.002 * f64::from(bin)).collect(),
        y: (0..30).map(count).collect(),
        ..Points::default()
    };
    let rule = |at: f64, label: &str| Mark::Rule { side: Side::X, at, label: label.to_owned(), hue: Hue::Bad };
    plain(
        "histogram",
        "E2E latency",
        Axis::from_zero("latency", "s"),
        vec![panel(
            Axis::from_zero("requests", ""),
            1.0,
            vec![Mark::Bars(bars), rule(0.016, "p50"), rule(0.019, "mean"), rule(0.046, "p99")],
        )],
    )
}

fn timeline(requests: &[Request]) -> Chart {
    let end = requests.iter().fold(0.0, |end: f64, request| end.max(request.end));
    // Two readings per request, like a fast sensor.
    let readings = requests.len() * 2;
    let x: Vec<f64> = (0..readings).map(|reading| end * reading as f64 / readings as f64).collect();
    let wave = |time: f64, base: f64| {
        base + 12.0 * (time * TAU * 0.7).sin() + 5.0 * (time * TAU * 31.0).sin() + 3.0 * (time * TAU * 173.3).sin()
    };
    let package: Vec<f64> = x.iter().map(|&time| wave(time, 82.0)).collect();
    let mut memory: Vec<f64> = x.iter().map(|&time| wave(time, 30.0) / 2.0).collect();
    // A gap in the readings of a sensor.
    for value in memory.iter_mut().skip(readings / 3).take(readings / 20) {
        *value = f64::NAN;
    }
    let spans = Spans {
        label: String::from("request, paler before the first token"),
        hue: Hue::Series(3),
        start: requests.iter().map(|request| request.start).collect(),
        turn: requests.iter().map(|request| request.first_token).collect(),
        end: requests.iter().map(|request| request.end).collect(),
        lane: requests.iter().map(|request| request.lane).collect(),
        requests: requests.iter().map(|request| request.number).collect(),
        names: requests.iter().map(|request| format!("{} {}", request.subject, request.number)).collect(),
    };
    let step = |label: &str, hue, y| Mark::Step { label: label.to_owned(), hue, x: x.clone(), y };
    let idle = Mark::Rule { side: Side::Y, at: 12.4, label: String::from("idle 12.4 W"), hue: Hue::Muted };
    let lanes = Axis { scale: Scale::Plain, ..Axis::linear("requests in flight", "") };
    Chart {
        subtitle: String::from("power and requests in flight"),
        notes: vec![String::from("Drag to zoom in; double-click to reset.")],
        ..plain(
            "timeline",
            "Power over the run",
            Axis::from_zero("time", "s"),
            vec![
                panel(
                    Axis::from_zero("power", "W"),
                    2.0,
                    vec![idle, step("package", Hue::Series(0), package), step("memory", Hue::Series(2), memory)],
                ),
                panel(lanes, 1.0, vec![Mark::Spans(spans)]),
            ],
        )
    }
}

fn by_subject() -> Chart {
    let points = Points {
        hue: Hue::Series(2),
        x: vec![100.0, 96.2, 2.1, 81.0, 64.5],
        y: vec![0.0, 1.0, 2.0, 3.0, 4.0],
        low: vec![97.0, 92.0, 0.4, 74.0, 56.0],
        high: vec![100.0, 98.4, 6.0, 86.9, 72.2],
        ..Points::default()
    };
    let names = SUBJECTS.iter().map(|&subject| subject.to_owned()).collect();
    plain(
        "accuracy",
        "Accuracy by subject",
        Axis::from_zero("accuracy", "%").within(0.0, 100.0),
        vec![panel(Axis::names("", names), 1.0, vec![Mark::Bars(points)])],
    )
}

fn grouped() -> Chart {
    let bars = |label: &str, hue, y: Vec<f64>| {
        let low = y.iter().map(|value| value * 0.9).collect();
        let high = y.iter().map(|value| value * 1.12).collect();
        let x = (0..y.len()).map(|place| place as f64).collect();
        Mark::Bars(Points { label: label.to_owned(), hue, x, y, low, high, ..Points::default() })
    };
    let names = SUBJECTS.iter().map(|&subject| subject.to_owned()).collect();
    plain(
        "energy_by_subject",
        "Energy by subject",
        Axis::names("", names),
        vec![panel(
            Axis::from_zero("energy", "J/query"),
            1.0,
            vec![
                bars("tiny", Hue::Series(0), vec![0.18, 0.2, 0.31, 0.24, 0.22]),
                bars("small", Hue::Series(1), vec![0.61, 0.7, 0.88, 0.74, 0.79]),
            ],
        )],
    )
}

fn frontier() -> Chart {
    let named = |label: &str, hue, points: &[(f64, f64, &str)]| {
        Mark::Points(Points {
            label: label.to_owned(),
            hue,
            x: points.iter().map(|point| point.0).collect(),
            y: points.iter().map(|point| point.1).collect(),
            low: points.iter().map(|point| point.1 - 3.0).collect(),
            high: points.iter().map(|point| (point.1 + 3.0).min(100.0)).collect(),
            names: points.iter().map(|point| point.2.to_owned()).collect(),
            ..Points::default()
        })
    };
    let best = Mark::Line {
        label: String::from("Pareto front"),
        hue: Hue::Muted,
        stroke: Stroke::Dashed,
        x: vec![0.004, 0.21, 0.74, 40.0],
        y: vec![31.0, 79.7, 91.3, 97.0],
    };
    plain(
        "frontier",
        "Accuracy and energy",
        Axis::log("energy per query", "J"),
        vec![panel(
            Axis::linear("accuracy", "%"),
            1.0,
            vec![
                best,
                named(
                    "this machine",
                    Hue::Series(0),
                    &[(0.004, 31.0, "nano"), (0.21, 79.7, "tiny"), (0.74, 91.3, "small")],
                ),
                named("elsewhere", Hue::Series(1), &[(3.1, 88.0, "medium"), (40.0, 97.0, HOSTILE)]),
            ],
        )],
    )
}

fn sweep() -> Chart {
    let x: Vec<f64> = (0..=60).map(f64::from).collect();
    let line = |label: &str, hue, stroke, scale: f64| Mark::Line {
        label: label.to_owned(),
        hue,
        stroke,
        x: x.clone(),
        y: x.iter().map(|rate| scale * (0.002 + 0.00002 * (rate / 9.0).exp())).collect(),
    };
    let band = Mark::Band {
        hue: Hue::Series(0),
        x: x.clone(),
        low: x.iter().map(|rate| 0.9 * (0.002 + 0.00002 * (rate / 9.0).exp())).collect(),
        high: x.iter().map(|rate| 1.15 * (0.002 + 0.00002 * (rate / 9.0).exp())).collect(),
    };
    plain(
        "sweep",
        "Latency under load",
        Axis::from_zero("request rate", "1/s"),
        vec![panel(
            Axis::from_zero("time to first token", "s"),
            1.0,
            vec![
                band,
                line("p50", Hue::Series(0), Stroke::Solid, 1.0),
                line("p90", Hue::Series(1), Stroke::Dashed, 1.4),
                line("p99", Hue::Series(3), Stroke::Dotted, 2.1),
            ],
        )],
    )
}

fn request_table(requests: &[Request]) -> Table {
    let mut table = Table::new(
        "request_table",
        "Requests",
        &[
            ("Request", "request"),
            ("Subject", "subject"),
            ("First token", "ttft_ms"),
            ("Latency", "latency_ms"),
            ("Energy", "energy_j"),
            ("Answer", "answer"),
        ],
    );
    table.notes.push(String::from("Energy is missing if a request was too short to measure."));
    table.rows = requests
        .iter()
        .map(|request| {
            let verdict = if request.correct { ("correct", Tone::Good) } else { ("wrong", Tone::Bad) };
            let energy = (request.energy > 0.04).then_some(request.energy);
            vec![
                Cell::Request { request: request.number },
                Cell::text(request.subject),
                Cell::number(Some(1e3 * (request.first_token - request.start)), |value| format!("{value:.2} ms")),
                Cell::number(Some(1e3 * (request.end - request.start)), |value| format!("{value:.1} ms")),
                energy.map_or(Cell::Absent, |value| Cell::Estimate {
                    value,
                    low: value * 0.9,
                    high: value * 1.1,
                    shown: format!("{value:.3} ± {:.3} J", value * 0.1),
                }),
                Cell::Verdict { text: verdict.0.to_owned(), tone: verdict.1 },
            ]
        })
        .collect();
    table
}

fn nothing() -> Chart {
    let empty = Mark::Points(Points { x: vec![f64::NAN], y: vec![1.0], ..Points::default() });
    plain("nothing", "", Axis::linear("", "s"), vec![panel(Axis::linear("", "W"), 1.0, vec![empty])])
}

fn hostile() -> Chart {
    let points = Points {
        label: HOSTILE.to_owned(),
        x: vec![1.0, f64::NAN, 3.0],
        y: vec![1.0, 2.0, f64::INFINITY],
        names: vec![HOSTILE.to_owned(); 3],
        ..Points::default()
    };
    plain(
        "hostile",
        "Hostile names",
        Axis::linear(HOSTILE, "s"),
        vec![panel(Axis::linear(HOSTILE, HOSTILE), 1.0, vec![Mark::Points(points)])],
    )
}
