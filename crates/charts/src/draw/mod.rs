//! Still pictures: a [`Chart`] goes in, SVG or PNG comes out.
//!
//! Whatever the chart holds, the SVG is well formed and nothing that is drawn is wrong: values without a place (not
//! finite, not positive on a logarithmic axis) are left out, what lies outside an axis is cut where it leaves, and a
//! chart with nothing to draw says so.

mod axes;
mod bars;
mod cover;
mod font;
mod ink;
mod labels;
mod layout;
mod legend;
mod lines;
mod number;
mod panel;
mod png;
mod points;
mod ruler;
mod spans;
mod ticks;
mod unit;
mod write;

use std::fmt::Write as _;

use axes::{Horizontal, Vertical};
use cover::has_names;
use font::Weight;
use layout::{Layout, NOTE, NOTE_LINE, Place, SUBTITLE, SUBTITLE_LINE, TITLE, TITLE_LINE};
use number::Style;
use panel::LeftOut;
pub use png::{PictureError, png};
use ruler::Ruler;
use write::{Anchor, Svg, Text, clean};

use crate::palette::{Paper, Theme};
use crate::{Chart, Mark, Panel, Scale};

/// The width of every picture, in pixels.
const WIDTH: f64 = 800.0;
/// What stays free around it.
const EDGE: f64 = 20.0;
/// The size of ticks and labels.
const SMALL: f64 = 12.0;
/// Notes beyond these are counted, not written.
const MOST_NOTES: usize = 8;

/// A rectangle in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Area {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

impl Area {
    fn grown(self, by: f64) -> Self {
        Self { x: self.x - by, y: self.y - by, width: self.width + 2.0 * by, height: self.height + 2.0 * by }
    }

    fn holds(self, (x, y): (f64, f64)) -> bool {
        (self.x..=self.x + self.width).contains(&x) && (self.y..=self.y + self.height).contains(&y)
    }

    fn inside(self, other: Self) -> bool {
        other.holds((self.x, self.y)) && other.holds((self.x + self.width, self.y + self.height))
    }

    fn overlaps(self, other: Self) -> bool {
        self.x < other.x + other.width
            && other.x < self.x + self.width
            && self.y < other.y + other.height
            && other.y < self.y + self.height
    }
}

/// A panel as its marks see it.
struct View {
    area: Area,
    x: Ruler,
    y: Ruler,
    /// Room to the right of the area.
    margin: f64,
    /// Whether the vertical axis has names, so that bars and intervals lie.
    across: bool,
    theme: Theme,
}

/// The chart as an SVG, 800 pixels wide and about 500 high: higher for several panels and for many names.
///
/// It names the font Inter and falls back to the reader's own; nothing is embedded and nothing is fetched.
///
/// ```
/// use ergometer_charts::{Axis, Chart, Hue, Mark, Panel, Stroke, Theme, svg};
///
/// let line = Mark::Line {
///     label: "tiny".into(),
///     hue: Hue::Series(0),
///     stroke: Stroke::Solid,
///     x: vec![1.0, 2.0, 4.0],
///     y: vec![0.0021, 0.0023, 0.0031],
/// };
/// let chart = Chart {
///     id: "ttft".into(),
///     title: "Time to first token".into(),
///     subtitle: String::new(),
///     notes: vec![],
///     x: Axis::linear("requests at once", ""),
///     panels: vec![Panel { y: Axis::from_zero("time to first token", "s"), marks: vec![line], share: 1.0 }],
/// };
/// assert!(svg(&chart, Theme::Light).contains("time to first token, ms"));
/// ```
#[must_use]
pub fn svg(chart: &Chart, theme: Theme) -> String {
    let layout = Layout::new(chart);
    let paper = theme.paper();
    let mut body = Svg::default();
    heading(&mut body, &layout, paper);
    let mut notes: Vec<String> = chart.notes.iter().map(|note| clean(note)).filter(|note| !note.is_empty()).collect();
    if layout.anything {
        layout.legend.draw(&mut body, theme, layout.legend_top);
        for (panel, place) in chart.panels.iter().zip(&layout.panels) {
            notes.extend(left_out(draw_panel(&mut body, chart, &layout, (panel, place), theme)));
        }
        foot(&mut body, &layout, paper);
    } else {
        let area = Area { x: EDGE, y: layout.legend_top, width: WIDTH - 2.0 * EDGE, height: 130.0 };
        nothing(&mut body, area, paper);
    }
    let height = write_notes(&mut body, &notes, layout.foot, paper);

    let mut out = Svg::default();
    let mut head = String::new();
    let _ = writeln!(
        head,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         role=\"img\" font-family=\"Inter, system-ui, -apple-system, 'Segoe UI', sans-serif\" \
         font-variant=\"tabular-nums\">"
    );
    out.raw(&head);
    out.described("title", &chart.title);
    if !clean(&chart.subtitle).is_empty() {
        out.described("desc", &chart.subtitle);
    }
    out.raw(&format!("<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"{}\"/>\n", paper.background));
    out.append(&body);
    out.finish()
}

fn line_of<'a>(content: &'a str, size: f64, colour: &'a str) -> Text<'a> {
    let (weight, anchor) = (Weight::Regular, Anchor::Start);
    Text { x: EDGE, y: 0.0, size, weight, anchor, colour, rim: None, turned: 0.0, content }
}

fn heading(svg: &mut Svg, layout: &Layout, paper: Paper) {
    let mut y = EDGE - 5.0;
    for line in &layout.title {
        y += TITLE_LINE;
        svg.text(&Text { y, weight: Weight::Strong, ..line_of(line, TITLE, paper.text) });
    }
    for line in &layout.subtitle {
        y += SUBTITLE_LINE;
        svg.text(&Text { y: y + 1.0, ..line_of(line, SUBTITLE, paper.muted) });
    }
}

fn nothing(svg: &mut Svg, area: Area, paper: Paper) {
    let text = line_of("no data", 14.0, paper.muted);
    let (x, y) = (area.x + area.width / 2.0, area.y + area.height / 2.0 + 5.0);
    svg.text(&Text { x, y, anchor: Anchor::Middle, ..text });
}

fn draw_panel(
    svg: &mut Svg,
    chart: &Chart,
    layout: &Layout,
    (panel, place): (&Panel, &Place),
    theme: Theme,
) -> LeftOut {
    let (paper, area) = (theme.paper(), place.area);
    if !place.ticks.caption.is_empty() {
        let caption = font::cut(&place.ticks.caption, WIDTH - EDGE - layout.captions, SMALL, Weight::Regular);
        svg.text(&Text { x: layout.captions, y: area.y - 14.0, ..line_of(&caption, SMALL, paper.muted) });
    }
    if !place.cover.anything {
        nothing(svg, area, paper);
        return LeftOut::default();
    }
    let horizontal = Horizontal { area, ruler: &layout.x, ticks: &layout.x_ticks, stand: layout.stand, paper };
    let names = has_names(&panel.y);
    // Upright lines where the horizontal axis is the one that is read, or joins panels.
    if !has_names(&chart.x) && (names || panel.y.scale == Scale::Plain || chart.panels.len() > 1) {
        horizontal.grid(svg);
    }
    Vertical { area, ruler: &place.ruler, ticks: &place.ticks, names, paper, room: layout.left - 8.0 }.draw(svg);
    let view = View { area, x: layout.x, y: place.ruler, margin: layout.right, across: names, theme };
    let zero = !cover::from_top(panel) && panel.y.scale != Scale::Plain;
    // Over areas, which end at it; under dots and lines, which cross it.
    let over = panel.marks.iter().any(|mark| matches!(mark, Mark::Bars(_) | Mark::Spans(_)));
    if !over {
        base(svg, &view, &horizontal, zero);
    }
    let left_out = panel::draw(svg, &view, panel, &chart.x);
    if over {
        base(svg, &view, &horizontal, zero);
    }
    left_out
}

/// The line values stand on: zero where it is on the axis, the foot of the panel otherwise.
fn base(svg: &mut Svg, view: &View, horizontal: &Horizontal<'_>, with_zero: bool) {
    let Area { x, y, width, height } = view.area;
    let style = format!("stroke=\"{}\" stroke-width=\"1\"", view.theme.paper().axis);
    if view.across {
        let zero = view.x.visible(0.0).unwrap_or(x);
        svg.line((zero, y), (zero, y + height), &style);
    } else {
        svg.line((x, y + height), (x + width, y + height), &style);
        horizontal.marks(svg);
        if let Some(zero) = view.y.visible(0.0).filter(|zero| *zero < y + height - 1.0 && *zero > y + 1.0 && with_zero)
        {
            svg.line((x, zero), (x + width, zero), &style);
        }
    }
}

/// Texts of the horizontal axis, below the last panel.
fn foot(svg: &mut Svg, layout: &Layout, paper: Paper) {
    let Some(Place { area, .. }) = layout.panels.last() else { return };
    let ticks = &layout.x_ticks;
    Horizontal { area: *area, ruler: &layout.x, ticks, stand: layout.stand, paper }.texts(svg);
    let texts = if ticks.major.is_empty() { 4.0 } else { layout.stand.depth() };
    let caption = font::cut(&ticks.caption, area.width, SMALL, Weight::Regular);
    svg.text(&Text {
        x: area.x + area.width,
        y: area.y + area.height + texts + 17.0,
        anchor: Anchor::End,
        ..line_of(&caption, SMALL, paper.muted)
    });
}

fn left_out(left_out: LeftOut) -> impl Iterator<Item = String> {
    let LeftOut { names, line_names, rule_names, whiskers } = left_out;
    let note =
        |count: usize, text: &str| (count > 0).then(|| format!("{} {text}", Style::Fixed(0).write(count as f64)));
    [
        note(names, "names of points have no room and are left out."),
        note(line_names, "names of lines have no room and are left out."),
        note(rule_names, "labels of rules have no room and are left out."),
        note(whiskers, "intervals would cover the points and are left out."),
    ]
    .into_iter()
    .flatten()
}

/// Writes the notes; gives the height of the picture.
fn write_notes(svg: &mut Svg, notes: &[String], top: f64, paper: Paper) -> f64 {
    let mut y = top;
    let more = notes.len().saturating_sub(MOST_NOTES);
    let rest = (more > 0).then(|| format!("{more} more notes are left out."));
    for note in notes.iter().take(MOST_NOTES).chain(&rest) {
        for line in font::wrap(note, WIDTH - 2.0 * EDGE, NOTE, Weight::Regular, 4) {
            y += NOTE_LINE;
            svg.text(&Text { y, ..line_of(&line, NOTE, paper.muted) });
        }
    }
    (y + 16.0).ceil()
}
