//! Prints the report of `ergo measure` as a table or as CSV.

use std::fmt::Write as _;

use ergometer::measure::{EnergyFigures, MeasureReport};
use ergometer_statistics::Estimate;
use ergometer_telemetry::{Provenance, Scope};

use crate::csv;
use crate::figures::{digits, margin, method_note, or_dash};
use crate::screen::{Align, Screen, Table, Tone};

/// Explains ± of one run.
const INTERVAL: &str = "± is half of the 95 % interval: the uncertainty of the sensor or model";

/// Explains ± of several runs.
const INTERVAL_OF_MEAN: &str = "± is half of the 95 % interval of the mean: for time the variation between runs, for \
                                energy also the uncertainty of the sensor or model";

pub(super) fn as_csv(report: &MeasureReport) -> String {
    let columns = [
        "device",
        "scope",
        "provenance",
        "runs",
        "gross_j",
        "gross_low_j",
        "gross_high_j",
        "net_j",
        "average_w",
        "idle_w",
        "duration_s",
    ];
    let mut text = csv::line(columns);
    for device in &report.devices {
        let figures = &device.figures;
        text.push_str(&csv::line([
            device.device.to_string(),
            device.scope.to_string(),
            device.provenance.to_string(),
            report.repeat.to_string(),
            figures.gross_j.value.to_string(),
            csv::number(figures.gross_j.low),
            csv::number(figures.gross_j.high),
            csv::number(figures.net_j.map(|net| net.value)),
            figures.average_w.value.to_string(),
            csv::number(figures.idle_w),
            report.duration_s.value.to_string(),
        ]));
    }
    text
}

pub(super) fn as_table(report: &MeasureReport, screen: Screen) -> String {
    use Align::{Left, Right};
    let mut table = Table::new([Left, Left, Right, Right, Right, Right, Left]);
    table.head(["device", "", "energy", "net of idle", "average", "idle", ""]);
    let cells = |figures: &EnergyFigures| {
        let watts = |watts: f64| format!("{} W", digits(watts));
        vec![
            (Tone::Strong, with_margin(figures.gross_j, "J")),
            (Tone::Plain, or_dash(figures.net_j.map(|net| with_margin(net, "J")))),
            (Tone::Plain, watts(figures.average_w.value)),
            (Tone::Plain, or_dash(figures.idle_w.map(watts))),
        ]
    };
    for device in &report.devices {
        let mut row = vec![
            (Tone::Strong, device.device.to_string()),
            (Tone::Faint, format!("{} {}", device.name, device.scope.label())),
        ];
        row.extend(cells(&device.figures));
        let part = match device.scope {
            _ if device.summed || device.provenance == Provenance::Modelled => "",
            Scope::Psys | Scope::Rail | Scope::Module => ", not in the sum",
            _ => ", included in another row",
        };
        row.push((Tone::Faint, format!("{}{part}", device.method)));
        table.row(row);
    }
    if let Some(total) =
        report.total.as_ref().filter(|_| report.devices.iter().filter(|device| device.summed).count() > 1)
    {
        let mut row = vec![(Tone::Strong, String::from("all")), (Tone::Faint, String::from("measured"))];
        row.extend(cells(total));
        table.row(row);
    }
    let codes: Vec<u8> = report.runs.iter().map(|run| run.exit_code).filter(|&code| code != 0).collect();
    let mut duration = with_margin(report.duration_s, "s");
    if report.repeat > 1 {
        let _ = write!(duration, "   mean of {} runs", report.repeat);
    }
    if let Some(code) = codes.first() {
        let _ = write!(duration, "   exit code {code}");
    }
    let interval = if report.repeat > 1 { INTERVAL_OF_MEAN } else { INTERVAL };
    let methods = report.devices.iter().map(|device| &device.method);
    let closing = [duration, String::from(interval)].into_iter().chain(method_note(methods));
    let closing = closing.map(|line| format!("{}\n", screen.paint(Tone::Faint, &format!("  {line}"))));
    table.render(screen) + &closing.collect::<String>()
}

fn with_margin(value: Estimate, unit: &str) -> String {
    let half = value.high.map(|high| format!(" {}", margin(high - value.value, value.value))).unwrap_or_default();
    format!("{} {unit}{half}", digits(value.value))
}
