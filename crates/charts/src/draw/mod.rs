//! Draws a [`Chart`] as SVG or PNG.
//!
//! The SVG is well formed whatever the chart contains. Values that are not finite, or not positive on a logarithmic
//! axis, are not drawn. Lines and areas are clipped to the panel. A chart without data says "no data".

mod axes;
mod bars;
mod coverage;
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
use coverage::has_names;
use font::Weight;
use layout::{Layout, NOTE, NOTE_LINE, PanelLayout, SUBTITLE, SUBTITLE_LINE, TITLE, TITLE_LINE};
use number::Style;
use panel::Omissions;
pub use png::{PictureError, png};
use ruler::Ruler;
use write::{Anchor, Svg, Text, clean};

use crate::palette::{Paper, Theme};
use crate::{Chart, Mark, Panel, Scale};

/// The width of every picture, in pixels.
const WIDTH: f64 = 800.0;
/// The margin around a picture.
const EDGE: f64 = 20.0;
/// The font size of ticks and labels.
const SMALL: f64 = 12.0;
/// The maximum number of notes; further notes are only counted.
const MAX_NOTES: usize = 8;

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

/// The area and the scales of a panel while its marks are drawn.
struct View {
    area: Area,
    x: Ruler,
    y: Ruler,
    /// Room to the right of the area.
    margin: f64,
    /// Whether the vertical axis has names, so that bars and intervals are horizontal.
    across: bool,
    theme: Theme,
}

/// Draws a chart as SVG, 800 pixels wide and about 500 pixels high; several panels or many names make it higher.
///
/// It uses the font Inter and falls back to the reader's own font. It embeds nothing and loads nothing.
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
///     x: Axis::linear("concurrency", ""),
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
            notes.extend(omission_notes(draw_panel(&mut body, chart, &layout, (panel, place), theme)));
        }
        foot(&mut body, &layout, paper);
    } else {
        let area = Area { x: EDGE, y: layout.legend_top, width: WIDTH - 2.0 * EDGE, height: 130.0 };
        no_data(&mut body, area, paper);
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

fn text_line<'a>(content: &'a str, size: f64, colour: &'a str) -> Text<'a> {
    let (weight, anchor) = (Weight::Regular, Anchor::Start);
    Text { x: EDGE, y: 0.0, size, weight, anchor, colour, outline: None, rotation: 0.0, content }
}

fn heading(svg: &mut Svg, layout: &Layout, paper: Paper) {
    let mut y = EDGE - 5.0;
    for line in &layout.title {
        y += TITLE_LINE;
        svg.text(&Text { y, weight: Weight::Strong, ..text_line(line, TITLE, paper.text) });
    }
    for line in &layout.subtitle {
        y += SUBTITLE_LINE;
        svg.text(&Text { y: y + 1.0, ..text_line(line, SUBTITLE, paper.muted) });
    }
}

fn no_data(svg: &mut Svg, area: Area, paper: Paper) {
    let text = text_line("no data", 14.0, paper.muted);
    let (x, y) = (area.x + area.width / 2.0, area.y + area.height / 2.0 + 5.0);
    svg.text(&Text { x, y, anchor: Anchor::Middle, ..text });
}

fn draw_panel(
    svg: &mut Svg,
    chart: &Chart,
    layout: &Layout,
    (panel, place): (&Panel, &PanelLayout),
    theme: Theme,
) -> Omissions {
    let (paper, area) = (theme.paper(), place.area);
    if !place.ticks.caption.is_empty() {
        let caption = font::cut(&place.ticks.caption, WIDTH - EDGE - layout.captions, SMALL, Weight::Regular);
        svg.text(&Text { x: layout.captions, y: area.y - 14.0, ..text_line(&caption, SMALL, paper.muted) });
    }
    if !place.coverage.anything {
        no_data(svg, area, paper);
        return Omissions::default();
    }
    let horizontal =
        Horizontal { area, ruler: &layout.x, ticks: &layout.x_ticks, orientation: layout.orientation, paper };
    let names = has_names(&panel.y);
    // Vertical grid lines help if values are on the horizontal axis or panels share it.
    if !has_names(&chart.x) && (names || panel.y.scale == Scale::Plain || chart.panels.len() > 1) {
        horizontal.grid(svg);
    }
    Vertical { area, ruler: &place.ruler, ticks: &place.ticks, names, paper, room: layout.left - 8.0 }.draw(svg);
    let view = View { area, x: layout.x, y: place.ruler, margin: layout.right, across: names, theme };
    let zero = !coverage::from_top(panel) && panel.y.scale != Scale::Plain;
    // The base line is above bars and spans, which end at it, and below dots and lines, which cross it.
    let over = panel.marks.iter().any(|mark| matches!(mark, Mark::Bars(_) | Mark::Spans(_)));
    if !over {
        base(svg, &view, &horizontal, zero);
    }
    let omissions = panel::draw(svg, &view, panel, &chart.x);
    if over {
        base(svg, &view, &horizontal, zero);
    }
    omissions
}

/// Draws the base line: zero if it is on the axis, otherwise the bottom of the panel.
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

/// Writes the tick labels and the caption of the horizontal axis, below the last panel.
fn foot(svg: &mut Svg, layout: &Layout, paper: Paper) {
    let Some(PanelLayout { area, .. }) = layout.panels.last() else { return };
    let ticks = &layout.x_ticks;
    Horizontal { area: *area, ruler: &layout.x, ticks, orientation: layout.orientation, paper }.texts(svg);
    let texts = if ticks.major.is_empty() { 4.0 } else { layout.orientation.depth() };
    let caption = font::cut(&ticks.caption, area.width, SMALL, Weight::Regular);
    svg.text(&Text {
        x: area.x + area.width,
        y: area.y + area.height + texts + 17.0,
        anchor: Anchor::End,
        ..text_line(&caption, SMALL, paper.muted)
    });
}

fn omission_notes(omissions: Omissions) -> impl Iterator<Item = String> {
    let Omissions { names, line_names, rule_names, whiskers } = omissions;
    let note =
        |count: usize, text: &str| (count > 0).then(|| format!("{} {text}", Style::Fixed(0).write(count as f64)));
    [
        note(names, "point labels are not shown for lack of space."),
        note(line_names, "line labels are not shown for lack of space."),
        note(rule_names, "labels of reference lines are not shown for lack of space."),
        note(whiskers, "intervals are not shown because they would hide the points."),
    ]
    .into_iter()
    .flatten()
}

/// Writes the notes and returns the height of the picture.
fn write_notes(svg: &mut Svg, notes: &[String], top: f64, paper: Paper) -> f64 {
    let mut y = top;
    let more = notes.len().saturating_sub(MAX_NOTES);
    let rest = (more > 0).then(|| format!("{more} more notes are not shown."));
    for note in notes.iter().take(MAX_NOTES).chain(&rest) {
        for line in font::wrap(note, WIDTH - 2.0 * EDGE, NOTE, Weight::Regular, 4) {
            y += NOTE_LINE;
            svg.text(&Text { y, ..text_line(&line, NOTE, paper.muted) });
        }
    }
    (y + 16.0).ceil()
}
