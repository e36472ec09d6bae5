//! The report of `ergo measure`: energy by device over all runs, gross and net, for people and for programs.

use std::ffi::OsString;
use std::fmt::Write as _;

use ergometer_telemetry::{DeviceEnergy, DeviceId, EnergyError, EnergyMeter, Estimate, Provenance, Scope, Timeline};
use ergometer_units::{Timestamp, Window};
use serde::Serialize;

use super::middle;
use super::runs::{Run, code_of};
use crate::csv;
use crate::exit::Failure;
use crate::figures::{digits, margin, or_dash};
use crate::repeats::Mean;
use crate::report::{EstimateReport, to_json};
use crate::screen::{Align, Screen, Table, Tone};

#[derive(Debug, Serialize)]
pub(super) struct Report {
    command: Vec<String>,
    repeat: usize,
    /// Of all measured devices together; absent where nothing is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<Figures>,
    devices: Vec<DeviceFigures>,
    /// The devices whose energy is not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing: Vec<Missing>,
    duration_s: Spread,
    runs: Vec<RunReport>,
}

/// A mean over the runs with its 95 % interval: of what the runs scatter by and of the estimates' own uncertainty.
#[derive(Debug, Clone, Copy, Serialize)]
struct Spread {
    mean: f64,
    low: Option<f64>,
    high: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Figures {
    gross_j: Spread,
    /// Gross less the power at rest over the same time; absent where no rest was measured.
    net_j: Option<Spread>,
    average_w: Spread,
    idle_w: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(super) struct DeviceFigures {
    device: DeviceId,
    name: String,
    scope: Scope,
    pub(super) provenance: Provenance,
    summed: bool,
    method: String,
    #[serde(flatten)]
    figures: Figures,
}

/// A device whose energy is not known, and why.
#[derive(Debug, Serialize)]
struct Missing {
    device: DeviceId,
    name: String,
    scope: Scope,
    why: String,
}

#[derive(Debug, Serialize)]
struct RunReport {
    start_us: i64,
    end_us: i64,
    duration_s: f64,
    exit_code: u8,
    energy: Option<EstimateReport>,
}

/// What is asked of one device, or of all.
type Ask<'a> = &'a dyn Fn(Window) -> Option<Estimate>;

impl Report {
    pub(super) fn new(
        command: &[OsString],
        runs: &[Run],
        rests: &[Window],
        meter: &EnergyMeter,
        timeline: &Timeline,
    ) -> Self {
        let windows: Vec<Window> = runs.iter().map(|run| run.window).collect();
        let energies: Vec<_> = windows.iter().map(|&window| meter.energy(window)).collect();
        let all = |window: Window| meter.energy(window).measured.ok();
        let places = energies.first().map_or(&[][..], |energy| &energy.devices[..]);
        let devices = places.iter().filter_map(|place| {
            let one = |window: Window| {
                let devices = meter.energy(window).devices;
                let found =
                    devices.into_iter().find(|other| (other.device, other.scope) == (place.device, place.scope));
                found.and_then(|found| found.estimate.ok())
            };
            Some(DeviceFigures {
                device: place.device,
                name: timeline.device_name(place.device).unwrap_or_default().to_owned(),
                scope: place.scope,
                provenance: place.provenance,
                summed: place.summed,
                method: one(*windows.first()?)?.method.to_string(),
                figures: Figures::new(&windows, rests, &one)?,
            })
        });
        Self {
            command: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            repeat: runs.len(),
            total: Figures::new(&windows, rests, &all),
            devices: devices.collect(),
            missing: places.iter().filter_map(|place| Missing::of(place, timeline)).collect(),
            duration_s: Spread::of(&windows.iter().map(|window| window.length().get()).collect::<Vec<_>>(), None),
            runs: runs
                .iter()
                .zip(&energies)
                .map(|(run, energy)| RunReport {
                    start_us: run.window.start().micros_since_epoch(),
                    end_us: run.window.end().micros_since_epoch(),
                    duration_s: run.window.length().get(),
                    exit_code: code_of(run.status),
                    energy: energy.counted().ok().map(EstimateReport::from),
                })
                .collect(),
        }
    }

    /// The devices whose energy is not known, and why, for people.
    pub(super) fn missing(&self) -> impl Iterator<Item = String> {
        self.missing.iter().map(|missing| format!("{} {}: {}", missing.device, missing.name, missing.why))
    }

    pub(super) fn devices(&self) -> impl Iterator<Item = &DeviceFigures> {
        self.devices.iter()
    }

    pub(super) fn as_json(&self) -> Result<String, Failure> {
        to_json(self)
    }

    pub(super) fn as_csv(&self) -> String {
        let head = [
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
        let mut text = csv::line(head);
        for device in &self.devices {
            let figures = &device.figures;
            text.push_str(&csv::line([
                device.device.to_string(),
                device.scope.to_string(),
                device.provenance.to_string(),
                self.repeat.to_string(),
                figures.gross_j.mean.to_string(),
                csv::number(figures.gross_j.low),
                csv::number(figures.gross_j.high),
                csv::number(figures.net_j.map(|net| net.mean)),
                figures.average_w.mean.to_string(),
                csv::number(figures.idle_w),
                self.duration_s.mean.to_string(),
            ]));
        }
        text
    }

    pub(super) fn as_table(&self, screen: Screen) -> String {
        use Align::{Left, Right};
        let mut table = Table::new([Left, Left, Right, Right, Right, Right, Left]);
        table.head(["device", "", "energy", "net of idle", "average", "idle", ""]);
        let cells = |figures: &Figures| {
            let watts = |watts: f64| format!("{} W", digits(watts));
            vec![
                (Tone::Strong, figures.gross_j.shown("J")),
                (Tone::Plain, or_dash(figures.net_j.map(|net| net.shown("J")))),
                (Tone::Plain, watts(figures.average_w.mean)),
                (Tone::Plain, or_dash(figures.idle_w.map(watts))),
            ]
        };
        for device in &self.devices {
            let mut row = vec![
                (Tone::Strong, device.device.to_string()),
                (Tone::Faint, format!("{} {}", device.name, device.scope)),
            ];
            row.extend(cells(&device.figures));
            let part = match device.scope {
                _ if device.summed || device.provenance == Provenance::Modelled => "",
                Scope::Psys | Scope::Rail | Scope::Module => ", not in the sum",
                _ => ", part of another",
            };
            row.push((Tone::Faint, format!("{}{part}", device.method)));
            table.row(row);
        }
        if let Some(total) =
            self.total.as_ref().filter(|_| self.devices.iter().filter(|device| device.summed).count() > 1)
        {
            let mut row = vec![(Tone::Strong, String::from("all")), (Tone::Faint, String::from("measured"))];
            row.extend(cells(total));
            table.row(row);
        }
        let codes: Vec<u8> = self.runs.iter().map(|run| run.exit_code).filter(|&code| code != 0).collect();
        let mut closing = format!("  {}", self.duration_s.shown("s"));
        if self.repeat > 1 {
            let _ = write!(closing, "   mean of {} runs, ± is its 95 % interval", self.repeat);
        }
        if let Some(code) = codes.first() {
            let _ = write!(closing, "   exit code {code}");
        }
        format!("{}{}\n", table.render(screen), screen.paint(Tone::Faint, &closing))
    }
}

impl Missing {
    fn of(place: &DeviceEnergy, timeline: &Timeline) -> Option<Self> {
        let why = match *place.estimate.as_ref().err()? {
            EnergyError::Outside { window, last, .. } if last < window.end() => {
                format!("its readings end {:.1} s before the command does", (window.end() - last).get())
            }
            EnergyError::Outside { window, first, .. } => {
                format!("its readings begin {:.1} s after the command does", (first - window.start()).get())
            }
            other => other.to_string(),
        };
        let name = timeline.device_name(place.device).unwrap_or_default().to_owned();
        Some(Self { device: place.device, name, scope: place.scope, why })
    }
}

impl Figures {
    fn new(runs: &[Window], rests: &[Window], ask: Ask) -> Option<Self> {
        let estimates: Vec<Estimate> = runs.iter().filter_map(|&window| ask(window)).collect();
        if estimates.len() < runs.len() {
            return None;
        }
        let rested: Vec<(Window, Estimate)> = rests.iter().filter_map(|&rest| Some((rest, ask(rest)?))).collect();
        let rest_watts: Vec<(Timestamp, f64)> =
            rested.iter().map(|(rest, energy)| (middle(*rest), (energy.joules / rest.length()).get())).collect();
        let idle: Option<Vec<f64>> = runs.iter().map(|&run| idle_at(&rest_watts, middle(run))).collect();
        let gross: Vec<f64> = estimates.iter().map(|estimate| estimate.joules.get()).collect();
        let seconds: Vec<f64> = runs.iter().map(|run| run.length().get()).collect();
        let mean = |values: &[f64]| Mean::of(values).map_or(0.0, |mean| mean.value);
        let own = mean(&estimates.iter().map(half_width).collect::<Vec<_>>());
        // What the power at rest is off by is off for as long as the command ran.
        let rest_halves: Vec<f64> =
            rested.iter().map(|(rest, energy)| half_width(energy) / rest.length().get()).collect();
        let own_net = own.hypot(mean(&rest_halves) * mean(&seconds));
        let net: Option<Vec<f64>> = idle.as_ref().map(|idle| {
            gross.iter().zip(idle).zip(&seconds).map(|((gross, idle), seconds)| gross - idle * seconds).collect()
        });
        let average: Vec<f64> = gross.iter().zip(&seconds).map(|(gross, seconds)| gross / seconds).collect();
        Some(Self {
            gross_j: Spread::of(&gross, Some(own)).not_below_zero(),
            net_j: net.map(|net| Spread::of(&net, Some(own_net))),
            average_w: Spread::of(&average, Some(own / mean(&seconds))).not_below_zero(),
            idle_w: idle.and_then(|idle| Mean::of(&idle)).map(|idle| idle.value),
        })
    }
}

/// Half the width of an interval; its lower end stops at zero, so the upper one tells.
fn half_width(estimate: &Estimate) -> f64 {
    (estimate.high - estimate.joules).get()
}

/// The power at rest at a time between two rests, on the line through them; one rest alone holds for all times.
fn idle_at(rests: &[(Timestamp, f64)], at: Timestamp) -> Option<f64> {
    match *rests {
        [] => None,
        [(_, watts)] => Some(watts),
        [(first, before), .., (last, after)] => {
            let share = (at - first) / (last - first);
            Some(before + (after - before) * share.clamp(0.0, 1.0))
        }
    }
}

impl Spread {
    /// Over the runs. `own` is half the width of one estimate's interval: it is the same sensor or model every time, so
    /// it does not shrink with the number of runs, and what they scatter by comes to it.
    fn of(values: &[f64], own: Option<f64>) -> Self {
        let Some(mean) = Mean::of(values) else { return Self { mean: 0.0, low: None, high: None } };
        let half = match (mean.half_width, own) {
            (Some(scatter), Some(own)) => Some(scatter.hypot(own)),
            (scatter, own) => scatter.or(own),
        };
        Self { mean: mean.value, low: half.map(|half| mean.value - half), high: half.map(|half| mean.value + half) }
    }

    fn not_below_zero(self) -> Self {
        Self { low: self.low.map(|low| low.max(0.0)), ..self }
    }

    fn shown(self, unit: &str) -> String {
        let half = self.high.map(|high| format!(" {}", margin(high - self.mean, self.mean))).unwrap_or_default();
        format!("{} {unit}{half}", digits(self.mean))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_power_is_interpolated_between_the_rests() {
        let at = Timestamp::from_nanos_since_epoch;
        assert_eq!(idle_at(&[], at(5)), None);
        assert_eq!(idle_at(&[(at(0), 80.0)], at(5)), Some(80.0));
        let two = [(at(0), 80.0), (at(10_000_000_000), 120.0)];
        assert_eq!(idle_at(&two, at(5_000_000_000)), Some(100.0));
        assert_eq!(idle_at(&two, at(20_000_000_000)), Some(120.0));
    }
}
