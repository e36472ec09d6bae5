//! Draws one device as a card: its graph on the left, its figures on the right.

use ergometer_telemetry::{Scope, Signal};
use ergometer_units::format::quantity;
use ratatui::buffer::Buffer;
use ratatui::layout::{Alignment, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Widget};

use super::Scene;
use super::graph::{area_graph, bar, round_up};
use super::header::short_time;
use super::theme::Tone;
use crate::latest::source_word;
use crate::picture::{DeviceView, Graph};
use ergometer_units::format::digits;
use ergometer_units::text::{fitted, visible};

/// The width of one column of figures.
const FIGURES: u16 = 32;
/// The width of the labels of the scale.
const LABELS: u16 = 7;
/// The width of the label of the time axis: `busy, last 2 min`.
const AXIS: u16 = 16;

/// One line of figures.
struct Figure {
    label: &'static str,
    /// From 0 to 1, if the figure is a share.
    share: Option<f64>,
    value: String,
    tone: Tone,
}

pub(super) fn draw(buffer: &mut Buffer, area: Rect, scene: &Scene<'_>, (place, view): (usize, &DeviceView)) {
    let border = if scene.is_selected(place) { Tone::Selected } else { Tone::Faint };
    let power = power_title(scene, view);
    let room = usize::from(area.width).saturating_sub(power.width() + 12);
    let name = vec![
        scene.span(border, " "),
        scene.span(Tone::Strong, view.id.to_string()),
        scene.span(Tone::Plain, format!(" {} ", fitted(&visible(&view.now.name), room))),
    ];
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(scene.style(border))
        .title_top(Line::from(name))
        .title_top(power.alignment(Alignment::Right));
    let inner = block.inner(area);
    block.render(area, buffer);
    let figures = figures(view);
    let wanted = if inner.width >= 150 && figures.len() > usize::from(inner.height) { 2 } else { 1 };
    let width = (FIGURES * wanted).min(inner.width / 2);
    let left = Rect { width: inner.width - width - 1, ..inner };
    draw_graph(buffer, left, scene, view);
    let right = Rect { x: left.right() + 1, width, ..inner };
    draw_figures(buffer, right, scene, &figures);
}

fn power_title(scene: &Scene<'_>, view: &DeviceView) -> Line<'static> {
    let mut spans = Vec::new();
    if let (Some(watts), Some(signal)) = (view.now.power_w, view.now.power_source) {
        spans.push(scene.span(Tone::Strong, format!(" {}{} W", view.modelled_mark(), digits(watts))));
        spans.push(scene.span(Tone::Faint, format!(" {} ", source_word(signal))));
        if let Some(cap) = view.power_limit {
            spans.push(scene.span(Tone::Faint, format!("of {} W ", short_number(cap.get()))));
        }
    }
    if let Some(silent) = view.now.silent_s {
        spans.push(scene.span(Tone::Warning, format!(" no reading for {silent:.0} s ")));
    }
    Line::from(spans)
}

fn draw_graph(buffer: &mut Buffer, area: Rect, scene: &Scene<'_>, view: &DeviceView) {
    if area.height < 2 || area.width < LABELS + 4 {
        return;
    }
    let graph = Rect { x: area.x + LABELS, width: area.width - LABELS, height: area.height - 1, ..area };
    let Some(history) = view.graph.history() else {
        buffer.set_string(graph.x, graph.y, "no power sensor", scene.style(Tone::Faint));
        return;
    };
    let (tone, top) = match (&view.graph, view.is_measured()) {
        (Graph::Busy(_), _) => (Tone::Busy, 100.0),
        (_, true) => (Tone::Power, scale(view)),
        (_, false) => (Tone::Modelled, scale(view)),
    };
    area_graph(buffer, graph, history, top, scene.style(tone));
    let unit = view.graph.unit();
    let label = |value: f64| format!("{:>6} ", format!("{} {unit}", short_number(value)));
    buffer.set_string(area.x, graph.y, label(top), scene.style(Tone::Faint));
    if graph.height >= 5 {
        let middle = graph.y + graph.height / 2;
        buffer.set_string(area.x, middle, label(top / 2.0), scene.style(Tone::Faint));
    }
    buffer.set_string(area.x, graph.bottom() - 1, label(0.0), scene.style(Tone::Faint));
    let span = short_time(scene.picture.span);
    let axis = if matches!(view.graph, Graph::Busy(_)) { format!("busy, last {span}") } else { format!("{span} ago") };
    let peak = history.peak.map(|peak| format!("peak {} {unit}   ", short_number(peak))).unwrap_or_default();
    let right = format!("{peak}now");
    buffer.set_stringn(graph.x, graph.bottom(), axis, usize::from(graph.width), scene.style(Tone::Faint));
    let right_width = u16::try_from(right.chars().count()).unwrap_or(u16::MAX);
    if graph.width > right_width + AXIS {
        buffer.set_string(graph.right() - right_width, graph.bottom(), right, scene.style(Tone::Faint));
    }
}

/// The top of a device's scale: its power limit, or its peak if that is higher.
fn scale(view: &DeviceView) -> f64 {
    let peak = view.graph.history().and_then(|history| history.peak).unwrap_or(0.0);
    match view.power_limit {
        Some(cap) if cap.get() >= peak => cap.get(),
        _ => round_up(peak),
    }
}

fn short_number(value: f64) -> String {
    if value >= 100.0 || value == value.round() { format!("{value:.0}") } else { format!("{value:.1}") }
}

fn figures(view: &DeviceView) -> Vec<Figure> {
    let now = &view.now;
    let mut figures = Vec::new();
    let mut plain = |label, tone, value: Option<String>| {
        figures.extend(value.map(|value| Figure { label, share: None, value, tone }));
    };
    let throttled = view.throttled();
    plain("limited", Tone::Warning, (!throttled.is_empty()).then_some(throttled));
    let energy = |joules: f64| {
        let hours = if joules >= 3600.0 { format!("  {}", quantity(joules / 3600.0, "Wh")) } else { String::new() };
        format!("{}{}{hours}", view.modelled_mark(), quantity(joules, "J"))
    };
    plain("energy", Tone::Plain, now.energy_j.map(energy));
    let busy = |label, percent: Option<f64>| {
        percent.map(|percent| Figure {
            label,
            share: Some(percent / 100.0),
            value: format!("{percent:.0} %"),
            tone: Tone::Busy,
        })
    };
    figures.extend(busy("busy", now.utilization_pct));
    if let Some(text) = now.memory() {
        let share = now.memory_used_bytes.zip(now.memory_total_bytes).map(|(used, total)| used as f64 / total as f64);
        let tone = if share.is_some_and(|share| share > 0.95) { Tone::Warning } else { Tone::Memory };
        figures.push(Figure { label: "memory", share, value: text, tone });
    }
    let degrees = |celsius: f64| format!("{celsius:.0} °C");
    let temperature = match (now.temperature_c, now.temperature_hotspot_c) {
        (Some(edge), Some(hottest)) => Some(format!("{}, hotspot {}", degrees(edge), degrees(hottest))),
        (edge, hottest) => edge.or(hottest).map(degrees),
    };
    let hottest = now.temperature_hotspot_c.or(now.temperature_c).unwrap_or(0.0);
    let tone = if hottest >= 85.0 { Tone::Warning } else { Tone::Plain };
    let mut plain = |label, tone, value: Option<String>| {
        figures.extend(value.map(|value| Figure { label, share: None, value, tone }));
    };
    plain("temp", tone, temperature);
    let clock = now.clock_core_mhz.map(|core| match now.clock_memory_mhz {
        Some(memory) => format!("{core:.0} MHz, memory {memory:.0}"),
        None => format!("{core:.0} MHz"),
    });
    plain("clock", Tone::Plain, clock);
    figures.extend(busy("SM", now.sm_activity_pct));
    figures.extend(busy("tensor", now.tensor_activity_pct));
    figures.extend(busy("DRAM", now.dram_activity_pct));
    for &(scope, power) in &view.parts {
        // An average over a second differs from the current power beside it.
        let is_other = power.signal == Signal::PowerAverage && now.power_source != Some(Signal::PowerAverage);
        let suffix = if is_other { ", average" } else { "" };
        let value = format!("{} W {}{suffix}", digits(power.watts), scope_name(scope));
        figures.push(Figure { label: "power", share: None, value, tone: Tone::Plain });
    }
    figures
}

fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Device => "board",
        Scope::Memory => "memory",
        Scope::Package => "package",
        Scope::Core => "cores",
        Scope::Uncore => "uncore",
        Scope::Dram => "DRAM",
        Scope::Psys => "supply",
        Scope::Module => "module",
        Scope::Rail => "rail",
    }
}

fn draw_figures(buffer: &mut Buffer, area: Rect, scene: &Scene<'_>, figures: &[Figure]) {
    if area.height == 0 {
        return;
    }
    let columns = (area.width / FIGURES).max(1);
    let width = area.width / columns;
    for (index, figure) in figures.iter().enumerate() {
        let index = u16::try_from(index).unwrap_or(u16::MAX);
        let (column, row) = (index / area.height, index % area.height);
        if column >= columns {
            break;
        }
        let label = scene.span(Tone::Faint, format!("{:<8}", figure.label));
        let room = usize::from(width).saturating_sub(9);
        let mut spans = vec![label];
        let value_width = figure.value.chars().count();
        if let Some(share) = figure.share.filter(|_| room > value_width + 4) {
            let bar = bar(share, room - value_width.max(5) - 1);
            spans.push(scene.span(figure.tone, bar));
            spans.push(Span::raw(format!(" {:>5}", figure.value)));
        } else {
            let tone = if figure.share.is_some() { Tone::Plain } else { figure.tone };
            spans.push(scene.span(tone, fitted(&figure.value, room)));
        }
        buffer.set_line(area.x + column * width, area.y + row, &Line::from(spans), width);
    }
}
