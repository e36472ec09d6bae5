//! Prints one tick as a table or a line of JSON.

use ergometer_monitor::Tick;
use ergometer_telemetry::Signal;

use crate::exit::Failure;
use crate::figures::{digits, or_dash};
use crate::screen::{Align, Screen, Table, Tone};

pub(super) fn as_json(tick: &Tick) -> Result<String, Failure> {
    let mut line = serde_json::to_string(tick).map_err(|error| Failure::failed(error.to_string()))?;
    line.push('\n');
    Ok(line)
}

/// Whether no line of the table wraps: a wrapped line cannot be overwritten.
pub(super) fn fits(tick: &Tick, screen: Screen) -> bool {
    let widest = table(tick).render(screen.plain()).lines().map(|line| line.chars().count()).max();
    Screen::width().is_none_or(|width| widest.unwrap_or(0) <= width)
}

pub(super) fn as_table(tick: &Tick, screen: Screen) -> String {
    let mut text = table(tick).render(screen);
    let mut legend = format!("  {:.0} s", tick.elapsed_s);
    if let Some(replay) = tick.replay {
        let speed = replay.speed.map_or_else(String::new, |speed| format!(" ×{speed}"));
        legend = format!("  replay{speed}  {:.0} of {:.0} s", tick.elapsed_s, replay.length_s);
    }
    if tick.devices.iter().any(|device| device.power_source == Some(Signal::PowerModelled)) {
        legend.push_str("   ~ modelled from utilization, not measured");
    }
    text.push_str(&screen.paint(Tone::Faint, &legend));
    text.push('\n');
    text
}

fn table(tick: &Tick) -> Table {
    use Align::{Left, Right};
    let mut table = Table::new([Left, Left, Right, Right, Right, Right, Right, Right]);
    table.head(["device", "", "power", "energy", "busy", "memory", "temp", "clock"]);
    for device in &tick.devices {
        let mark = device.modelled_mark();
        table.row(vec![
            (Tone::Strong, device.device.clone()),
            (Tone::Faint, device.name.clone()),
            match device.silent_s {
                Some(_) => (Tone::Warning, String::from("silent")),
                None => (Tone::Plain, or_dash(device.power_w.map(|watts| format!("{mark}{} W", digits(watts))))),
            },
            (Tone::Plain, or_dash(device.energy_j.map(|joules| format!("{mark}{} J", digits(joules))))),
            (Tone::Plain, or_dash(device.utilization_pct.map(|percent| format!("{percent:.0} %")))),
            (Tone::Plain, or_dash(device.memory())),
            (Tone::Plain, or_dash(device.temperature_c.map(|degrees| format!("{degrees:.0} °C")))),
            (Tone::Plain, or_dash(device.clock_core_mhz.map(|megahertz| format!("{megahertz:.0} MHz")))),
        ]);
    }
    table
}
