//! Prints the energy of the whole time as a table or as the last line of JSON.

use ergometer_monitor::{DeviceTotal, TotalEnergy};
use serde::Serialize;

use crate::exit::Failure;
use crate::figures::{digits, joules, method_note};
use crate::report::{DeviceReport, EstimateReport};
use crate::screen::{Align, Screen, Table, Tone};

#[derive(Serialize)]
struct Line {
    totals: TotalReport,
}

#[derive(Serialize)]
struct TotalReport {
    start_us: i64,
    end_us: i64,
    #[serde(flatten)]
    energy: Option<EstimateReport>,
    devices: Vec<DeviceTotalReport>,
}

#[derive(Serialize)]
struct DeviceTotalReport {
    #[serde(flatten)]
    device: DeviceReport,
    /// The time of the estimate.
    start_us: Option<i64>,
    end_us: Option<i64>,
}

pub(super) fn as_json(total: Option<&TotalEnergy>) -> Result<String, Failure> {
    let Some(total) = total else { return Ok(String::new()) };
    let device = |it: &DeviceTotal| DeviceTotalReport {
        device: DeviceReport::from(&it.energy),
        start_us: it.window.map(|window| window.start().micros_since_epoch()),
        end_us: it.window.map(|window| window.end().micros_since_epoch()),
    };
    let totals = TotalReport {
        start_us: total.window.start().micros_since_epoch(),
        end_us: total.window.end().micros_since_epoch(),
        energy: total.counted().as_ref().map(EstimateReport::from),
        devices: total.devices.iter().map(device).collect(),
    };
    let mut line = serde_json::to_string(&Line { totals }).map_err(|error| Failure::failed(error.to_string()))?;
    line.push('\n');
    Ok(line)
}

pub(super) fn as_table(total: Option<&TotalEnergy>, screen: Screen) -> String {
    let Some(total) = total else { return String::new() };
    let length = total.window.length();
    let mut table = Table::new([Align::Left, Align::Left, Align::Right, Align::Right, Align::Left, Align::Left]);
    table.row(vec![
        (Tone::Faint, String::from("total")),
        (Tone::Faint, String::new()),
        (Tone::Faint, format!("over {:.2} s", length.get())),
    ]);
    for device in &total.devices {
        let (Ok(estimate), Some(own)) = (&device.energy.estimate, device.window) else { continue };
        let is_part = own != total.window;
        let time = format!("{:.1} of {:.1} s", own.length().get(), length.get());
        table.row(vec![
            (Tone::Strong, device.energy.device.to_string()),
            (Tone::Faint, device.energy.scope.label().to_owned()),
            (Tone::Strong, joules(estimate)),
            (Tone::Plain, format!("{} W", digits((estimate.joules / own.length()).get()))),
            (Tone::Faint, estimate.method.to_string()),
            (Tone::Warning, if is_part { time } else { String::new() }),
        ]);
    }
    let methods = total.devices.iter().filter_map(|it| Some(it.energy.estimate.as_ref().ok()?.method));
    let note = method_note(methods).map(|note| format!("{}\n", screen.paint(Tone::Faint, &format!("  {note}"))));
    format!("\n{}{}", table.render(screen), note.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use ergometer_monitor::testing::timeline;

    use super::*;

    #[test]
    fn a_device_with_a_shorter_time_shows_it() {
        let total = TotalEnergy::from_timeline(&timeline(&[(0, 180), (2, 177), (0, 20), (90, 180)])).unwrap();
        let table = as_table(Some(&total), Screen::PLAIN);
        assert!(table.contains("1.8 of 17.5 s") && table.contains("8.7 of 17.5 s"), "{table}");
        assert_eq!(table.matches(" of ").count(), 2, "{table}");
        let line: serde_json::Value = serde_json::from_str(&as_json(Some(&total)).unwrap()).unwrap();
        assert_eq!(line["totals"]["devices"][2]["end_us"], 2_000_000);
        assert_eq!(line["totals"]["end_us"], 17_700_000);
    }
}
