//! Draws many devices as lines: figures in columns, and a small graph in the remaining room.
//!
//! Empty columns are left out; if there is too little room, the least important ones as well.

use ergometer_units::format::quantity;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::graph::{bar, line_graph, round_up};
use super::header::short_time;
use super::theme::Tone;
use super::{Frame, Scene};
use crate::picture::{DeviceView, Graph};
use ergometer_units::format::digits;
use ergometer_units::text::{fitted, visible};

/// The smallest useful width of a graph.
const NARROWEST_GRAPH: usize = 10;
/// The largest useful width of a graph; beyond it, figures are too far from their names.
const WIDEST_GRAPH: usize = 100;

/// One column of figures. The graph is after the power.
struct Column {
    head: &'static str,
    cells: Vec<(Tone, String)>,
    /// If there is too little room, columns of the highest rank are left out first.
    rank: u8,
    align: Align,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

impl Column {
    fn width(&self) -> usize {
        let cells = self.cells.iter().map(|(_, cell)| cell.chars().count());
        cells.max().unwrap_or(0).max(self.head.chars().count())
    }
}

pub(super) fn draw(buffer: &mut Buffer, area: Rect, scene: &Scene<'_>, places: &[usize]) {
    let lines = usize::from(area.height.saturating_sub(1));
    // The last line counts the devices without room.
    let visible_lines = if places.len() > lines { lines.saturating_sub(1) } else { lines };
    let chosen = places.iter().position(|&place| place == scene.ui.device).unwrap_or(0);
    let first = (chosen + 1).saturating_sub(visible_lines);
    let shown: Vec<(usize, &DeviceView)> = places
        .iter()
        .skip(first)
        .take(visible_lines)
        .filter_map(|&place| Some((place, scene.picture.devices.get(place)?)))
        .collect();
    let columns = columns(&shown);
    let (columns, graph) = fit(columns, usize::from(area.width).saturating_sub(2));
    let mut x = area.x + 1;
    for column in &columns {
        let width = column.width();
        let put = |buffer: &mut Buffer, y: u16, tone: Tone, text: &str| {
            let gap = if column.align == Align::Right { width.saturating_sub(text.chars().count()) } else { 0 };
            let at = x.saturating_add(u16::try_from(gap).unwrap_or(0));
            if at < area.right() {
                buffer.set_stringn(at, y, text, usize::from(area.right() - at), scene.style(tone));
            }
        };
        put(buffer, area.y, Tone::Faint, column.head);
        for (y, (tone, cell)) in (area.y + 1..area.bottom()).zip(&column.cells) {
            put(buffer, y, *tone, cell);
        }
        x = x.saturating_add(u16::try_from(width + 1).unwrap_or(u16::MAX));
        if column.head == "power" && graph >= NARROWEST_GRAPH {
            let width = u16::try_from(graph).unwrap_or(0);
            let head = format!("last {}", short_time(scene.picture.span));
            buffer.set_stringn(x, area.y, head, graph, scene.style(Tone::Faint));
            for (y, (_, view)) in (area.y + 1..area.bottom()).zip(&shown) {
                draw_row_graph(buffer, Rect { x, y, width, height: 1 }, scene, view);
            }
            x += width + 1;
        }
    }
    let more = places.len() - shown.len();
    if more > 0 && area.height > 1 {
        let text = if scene.frame == Frame::Live { format!("{more} more: up, down") } else { format!("{more} more") };
        let width = usize::from(area.width.saturating_sub(1));
        buffer.set_stringn(area.x + 1, area.bottom() - 1, text, width, scene.style(Tone::Faint));
    }
    for (y, (place, _)) in (area.y + 1..area.bottom()).zip(&shown) {
        if scene.is_selected(*place) {
            buffer.set_string(area.x, y, "▸", scene.style(Tone::Selected));
        }
    }
}

fn draw_row_graph(buffer: &mut Buffer, area: Rect, scene: &Scene<'_>, view: &DeviceView) {
    let Some(history) = view.graph.history() else { return };
    let (tone, top) = match (&view.graph, view.is_measured()) {
        (Graph::Busy(_), _) => (Tone::Busy, 100.0),
        (_, is_measured) => {
            let peak = history.peak.unwrap_or(0.0);
            let top = view.power_limit.map_or(0.0, ergometer_units::Watts::get).max(round_up(peak));
            (if is_measured { Tone::Power } else { Tone::Modelled }, top)
        }
    };
    line_graph(buffer, area, history, top, scene.style(tone));
    // Other rows show power, so the label is needed.
    if matches!(view.graph, Graph::Busy(_)) {
        buffer.set_stringn(area.x, area.y, "busy ", usize::from(area.width), scene.style(Tone::Faint));
    }
}

/// The columns that at least one device has a value for.
fn columns(shown: &[(usize, &DeviceView)]) -> Vec<Column> {
    use Align::{Left, Right};
    let column = |head, align, rank, cell: &dyn Fn(&DeviceView) -> Option<(Tone, String)>| {
        let cells: Vec<_> = shown.iter().map(|(_, view)| cell(view)).collect();
        cells.iter().any(Option::is_some).then(|| Column {
            head,
            align,
            rank,
            cells: cells.into_iter().map(|cell| cell.unwrap_or((Tone::Faint, String::from("-")))).collect(),
        })
    };
    let plain = |text: String| (Tone::Plain, text);
    let percent = |value: Option<f64>| value.map(|percent| (Tone::Plain, format!("{percent:.0} %")));
    let all = [
        column("device", Left, 0, &|view| Some((Tone::Strong, view.id.to_string()))),
        column("name", Left, 4, &|view| Some((Tone::Faint, fitted(&visible(&view.now.name), 22).into_owned()))),
        column("power", Right, 0, &power),
        column("peak", Right, 5, &|view| match &view.graph {
            Graph::Power(history) => {
                history.peak.map(|peak| (Tone::Faint, format!("{}{peak:.0} W", view.modelled_mark())))
            }
            _ => None,
        }),
        column("energy", Right, 0, &|view| {
            view.now.energy_j.map(|joules| plain(format!("{}{}", view.modelled_mark(), quantity(joules, "J"))))
        }),
        column("busy", Right, 0, &|view| percent(view.now.utilization_pct)),
        column("", Left, 8, &|view| view.now.utilization_pct.map(|percent| (Tone::Busy, bar(percent / 100.0, 8)))),
        column("SM", Right, 9, &|view| percent(view.now.sm_activity_pct)),
        column("tensor", Right, 9, &|view| percent(view.now.tensor_activity_pct)),
        column("DRAM", Right, 9, &|view| percent(view.now.dram_activity_pct)),
        column("memory", Right, 1, &|view| view.now.memory().map(plain)),
        column("", Left, 7, &|view| {
            let share = view.now.memory_used_bytes? as f64 / view.now.memory_total_bytes? as f64;
            Some((Tone::Memory, bar(share, 8)))
        }),
        column("temp", Right, 1, &|view| {
            let celsius = view.now.temperature_hotspot_c.or(view.now.temperature_c)?;
            let tone = if celsius >= 85.0 { Tone::Warning } else { Tone::Plain };
            Some((tone, format!("{celsius:.0}°C")))
        }),
        column("clock", Right, 6, &|view| view.now.clock_core_mhz.map(|clock| plain(format!("{clock:.0} MHz")))),
        column("limited", Left, 3, &|view| Some((Tone::Warning, view.throttled())).filter(|cell| !cell.1.is_empty())),
    ];
    all.into_iter().flatten().collect()
}

fn power(view: &DeviceView) -> Option<(Tone, String)> {
    if view.now.silent_s.is_some() {
        return Some((Tone::Warning, String::from("no data")));
    }
    let tone = if view.is_measured() { Tone::Strong } else { Tone::Plain };
    view.now.power_w.map(|watts| (tone, format!("{}{} W", view.modelled_mark(), digits(watts))))
}

/// Leaves out columns until a graph has room. Returns the columns and the width of the graph.
fn fit(mut columns: Vec<Column>, width: usize) -> (Vec<Column>, usize) {
    loop {
        let used: usize = columns.iter().map(|column| column.width() + 1).sum();
        if width >= used + NARROWEST_GRAPH {
            return (columns, (width - used).min(WIDEST_GRAPH));
        }
        let last = columns.iter().map(|column| column.rank).max().filter(|&rank| rank > 0);
        let Some(place) = last.and_then(|rank| columns.iter().rposition(|column| column.rank == rank)) else {
            return (columns, 0);
        };
        columns.remove(place);
    }
}
