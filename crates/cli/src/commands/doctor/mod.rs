//! `ergo doctor`: shows which sensors work, why others do not and how to fix them, and measures how accurate they are.

mod accuracy;
mod timed;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use ergometer_diagnostics::{CommandLine, Diagnostic};
use ergometer_statistics::median;
use ergometer_telemetry::{Clock, Finding, Provenance, Sampler, Scope, SensorKey, Signal, Status, Timeline};
use serde::Serialize;

use crate::arguments::{DoctorArguments, Format};
use crate::csv;
use crate::devices::examine;
use crate::exit::{Exit, Failure};
use crate::figures::{digits, or_dash};
use crate::interrupt::Interrupt;
use crate::report::to_json;
use crate::screen::{Align, Screen, Table, Tone, print};
use accuracy::Accuracy;
use timed::Costs;

#[derive(Debug, Serialize)]
struct Report {
    findings: Vec<FindingReport>,
    sensors: Vec<SensorReport>,
    accuracy: Vec<Accuracy>,
    events: Vec<String>,
}

#[derive(Debug, Serialize)]
struct FindingReport {
    device: String,
    source: String,
    status: &'static str,
    detail: String,
    fix: Option<String>,
}

#[derive(Debug, Serialize)]
struct SensorReport {
    id: String,
    device: String,
    name: String,
    /// The median time of a read.
    read_ms: Option<f64>,
    /// How late the driver delivers samples; absent if readings get their time when they are read.
    lag_ms: Option<f64>,
    channels: Vec<ChannelReport>,
}

#[derive(Debug, Serialize)]
struct ChannelReport {
    scope: Scope,
    signal: Signal,
    provenance: Provenance,
    /// The documented update period of the source.
    update_ms: Option<f64>,
    /// The measured median time between updates.
    measured_ms: Option<f64>,
    readings: usize,
    /// The last value, in the unit of the signal.
    last: Option<f64>,
    unit: &'static str,
}

pub(crate) fn run(arguments: &DoctorArguments, screen: Screen) -> Result<ExitCode, Failure> {
    // Until here Ctrl-C ends the program: a driver or a command may hang in the probe.
    let selected = examine(&arguments.sensors)?;
    let interrupt = Interrupt::listen()?;
    screen.note(&format!("reading the sensors for {:.0} s", arguments.duration.as_secs_f64()));
    let costs = Costs::default();
    let sensors = selected.sensors.into_iter().map(|sensor| costs.time(sensor)).collect();
    let sampler = Sampler::start(sensors, Arc::new(Clock::start()), None);
    let is_interrupted = interrupt.sleep_until(Instant::now() + arguments.duration);
    let timeline = sampler.stop();
    let report = Report {
        findings: selected.findings.iter().map(FindingReport::from).collect(),
        sensors: timeline.sensors().map(|(key, _)| sensor_report(&timeline, key, &costs)).collect(),
        accuracy: accuracy::expected(&timeline),
        events: timeline.events().iter().map(|event| event.one_line(&CommandLine)).collect(),
    };
    print(&match arguments.format {
        Format::Json => to_json(&report)?,
        Format::Csv => report.as_csv(),
        Format::Table => report.as_table(screen),
    })?;
    Ok(if is_interrupted { Exit::Interrupted.into() } else { Exit::Done.into() })
}

fn sensor_report(timeline: &Timeline, key: SensorKey, costs: &Costs) -> SensorReport {
    let info = timeline.sensors().find(|(other, _)| *other == key).map(|(_, info)| info.clone());
    let (id, device, name) = info.map_or_else(Default::default, |info| (info.id, info.device.to_string(), info.name));
    let channels = timeline.channels_of(key).map(|(channel_id, channel)| {
        let readings = timeline.column(channel_id).readings();
        // A counter may return the same value several times: its period is the time between changes.
        let is_change =
            |index: usize| channel.signal != Signal::Energy || readings.values[index] != readings.values[index - 1];
        let changes: Vec<i64> =
            (1..readings.len()).filter(|&index| is_change(index)).map(|index| readings.at_ns[index]).collect();
        let spacings = changes.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6);
        ChannelReport {
            scope: channel.scope,
            signal: channel.signal,
            provenance: channel.provenance,
            update_ms: channel.update_period.map(ergometer_units::Seconds::as_millis),
            measured_ms: median(spacings),
            readings: readings.len(),
            last: timeline.column(channel_id).last().map(|point| point.value),
            unit: channel.signal.unit(),
        }
    });
    SensorReport {
        read_ms: costs.read_ms(&id),
        lag_ms: costs.lag_ms(&id),
        channels: channels.collect(),
        id,
        device,
        name,
    }
}

impl From<&Finding> for FindingReport {
    fn from(finding: &Finding) -> Self {
        let (status, detail, fix) = match &finding.status {
            Status::Works(detail) => ("works", detail.clone(), None),
            Status::Limited { why, fix } => ("limited", why.clone(), fix.clone()),
            Status::Absent { why, fix } => ("absent", why.clone(), fix.clone()),
        };
        Self { device: finding.device.clone(), source: finding.source.clone(), status, detail, fix }
    }
}

impl SensorReport {
    /// The last power reading, of the largest scope.
    fn now(&self) -> Option<String> {
        let power = self.channels.iter().find(|channel| channel.unit == "W" && channel.last.is_some())?;
        Some(format!("{} W", digits(power.last?)))
    }
}

impl Report {
    fn as_csv(&self) -> String {
        let mut text = csv::line(["device", "source", "status", "detail", "fix"]);
        for finding in &self.findings {
            let fix = finding.fix.as_deref().unwrap_or_default();
            text.push_str(&csv::line([&finding.device, &finding.source, finding.status, &finding.detail, fix]));
        }
        text
    }

    fn as_table(&self, screen: Screen) -> String {
        let mut text = self.findings_table(screen);
        text.push('\n');
        text.push_str(&self.sensors_table(screen));
        text.push('\n');
        for accuracy in &self.accuracy {
            let _ = writeln!(text, "  {}", accuracy.sentence());
        }
        if self.accuracy.is_empty() {
            text.push_str("  no energy readings: no sensor measures or models energy, or --duration was too short\n");
        }
        for event in &self.events {
            let _ = writeln!(text, "  {} {event}", screen.paint(Tone::Warning, "warning"));
        }
        text
    }

    /// The findings by device. A fix has its own line, so that it can be copied.
    fn findings_table(&self, screen: Screen) -> String {
        let mut table = Table::new([Align::Left, Align::Left, Align::Left, Align::Left]);
        let mut last_device = "";
        for finding in &self.findings {
            let (tone, word) = match finding.status {
                "works" => (Tone::Good, "ok"),
                "limited" => (Tone::Warning, "limited"),
                _ => (Tone::Bad, "absent"),
            };
            let device = if finding.device == last_device { "" } else { &finding.device };
            table.row(vec![
                (Tone::Strong, device.to_owned()),
                (Tone::Plain, finding.source.clone()),
                (tone, word.to_owned()),
                (Tone::Plain, finding.detail.clone()),
            ]);
            if let Some(fix) = &finding.fix {
                let blank = || (Tone::Plain, String::new());
                table.row(vec![blank(), blank(), (Tone::Strong, String::from("fix:")), (Tone::Strong, fix.clone())]);
            }
            last_device = &finding.device;
        }
        table.render(screen)
    }

    /// The measured update period and read time of each sensor.
    fn sensors_table(&self, screen: Screen) -> String {
        let mut table = Table::new([Align::Left, Align::Left, Align::Right, Align::Right, Align::Right, Align::Left]);
        table.head(["sensor", "device", "now", "read time", "delay of readings", "update period, measured"]);
        for sensor in &self.sensors {
            let mut by_period: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for channel in &sensor.channels {
                let period =
                    channel.measured_ms.map_or_else(|| String::from("no update seen"), |ms| format!("{ms:.0} ms"));
                let scope =
                    if channel.scope == Scope::Device { String::new() } else { format!("{} ", channel.scope.label()) };
                by_period.entry(period).or_default().push(format!("{scope}{}", channel.signal));
            }
            let periods: Vec<String> =
                by_period.iter().map(|(period, signals)| format!("{period}: {}", signals.join(", "))).collect();
            let milliseconds = |ms: Option<f64>| or_dash(ms.map(|ms| format!("{ms:.2} ms")));
            table.row(vec![
                (Tone::Strong, sensor.id.clone()),
                (Tone::Faint, sensor.device.clone()),
                (Tone::Plain, or_dash(sensor.now())),
                (Tone::Plain, milliseconds(sensor.read_ms)),
                (Tone::Plain, milliseconds(sensor.lag_ms)),
                (Tone::Plain, periods.join("; ")),
            ]);
        }
        table.render(screen)
    }
}
