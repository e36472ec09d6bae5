//! `ergo energy`: estimates the energy of windows in a recording, for example to check the estimator.

use std::io::{self, IsTerminal, Read};
use std::path::Path;
use std::process::ExitCode;

use ergometer_diagnostics::{Diagnostic, hint, option};
use ergometer_telemetry::recording::{self, Leniency};
use ergometer_telemetry::{EnergyError, EnergyMeter, Scope, Timeline, WindowEnergy};
use ergometer_units::{Timestamp, Window};

use crate::arguments::{EnergyArguments, Format};
use crate::csv;
use crate::exit::{Exit, Failure};
use crate::figures::{digits, joules, method_note, or_dash, parse_bounds};
use crate::report::{WindowReport, to_json};
use crate::screen::{Align, Screen, Table, Tone, print};

/// The largest file of windows: more than a million windows.
const LARGEST_LIST: u64 = 256 << 20;

pub(crate) fn run(arguments: &EnergyArguments, screen: Screen) -> Result<ExitCode, Failure> {
    let windows = windows(arguments)?;
    let timeline = read(&arguments.recording, arguments.lenient, screen)?;
    let meter = EnergyMeter::new(&timeline, &windows);
    print_sensors(&timeline, &meter, screen);
    let energies: Vec<WindowEnergy> = windows.iter().map(|&window| meter.energy(window)).collect();
    for (index, energy) in energies.iter().enumerate() {
        if let (&Err(error), None) = (&energy.measured, &energy.modelled) {
            return Err(no_energy(index + 1, error, energy));
        }
    }
    let format = arguments.format.unwrap_or(if io::stdout().is_terminal() { Format::Table } else { Format::Json });
    let text = match format {
        Format::Json => to_json(&energies.iter().map(WindowReport::new).collect::<Vec<_>>())?,
        Format::Csv => as_csv(&energies),
        Format::Table => as_table(&energies, screen),
    };
    print(&text)?;
    Ok(Exit::Done.into())
}

/// Why a window has no energy; the error of a measured device takes precedence.
fn no_energy(number: usize, measured: EnergyError, energy: &WindowEnergy) -> Failure {
    let mut of_devices = energy.devices.iter().filter_map(|device| device.estimate.as_ref().err().copied());
    let error = if measured == EnergyError::NoSensor { of_devices.next_back().unwrap_or(measured) } else { measured };
    let mut message = error.to_message();
    message.text = match error {
        EnergyError::Outside { window, first, last } => {
            let [start, end, first, last] =
                [window.start(), window.end(), first, last].map(Timestamp::micros_since_epoch);
            format!("window {number} ({start}..{end} us) lies outside the recording, which covers {first}..{last} us")
        }
        EnergyError::NoSensor | EnergyError::TooFewReadings => format!("window {number}: {}", message.text),
    };
    Failure::failed(message)
}

/// Prints the estimated properties of the sensors, with --verbose.
fn print_sensors(timeline: &Timeline, meter: &EnergyMeter, screen: Screen) {
    for device in timeline.devices() {
        if let Some(model) = meter.sensor_model(device, Scope::Device) {
            screen.detail(&format!(
                "{device}: power sensor averages over {:.1} ms, lags {:.1} ms, noise {:.1} W; counter lags {:.1} ms",
                model.memory.as_millis(),
                model.power_lag.as_millis(),
                model.noise_watts,
                model.counter_lag.as_millis()
            ));
        }
    }
}

/// Reads a recording; a truncated one only with `lenient`.
pub(crate) fn read(path: &Path, lenient: bool, screen: Screen) -> Result<Timeline, Failure> {
    let leniency = if lenient { Leniency::KeepWhole } else { Leniency::Strict };
    let recording = recording::read_file_with(path, leniency).map_err(|error| Failure::failed(&error))?;
    if let Some(truncation) = &recording.truncation {
        screen.warning(&format!("{}: {truncation}", path.display()));
    }
    Ok(recording.timeline)
}

fn windows(arguments: &EnergyArguments) -> Result<Vec<Window>, Failure> {
    let mut windows = arguments.window.clone();
    if let Some(path) = &arguments.windows {
        let text = read_list(path).map_err(|error| {
            Failure::failed(format!("cannot read the windows in {}: {error}", path.display()))
                .hint("write one window per line: start and end in microseconds since the Unix epoch")
        })?;
        windows.extend(parse_list(&text, path)?);
    }
    if windows.is_empty() {
        return Err(Failure::usage("no window was given").hint(hint!(
            "pass ",
            option("window").value("START_US..END_US"),
            " or ",
            option("windows").value("FILE")
        )));
    }
    Ok(windows)
}

fn read_list(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    if path.as_os_str() == "-" {
        io::stdin().lock().take(LARGEST_LIST).read_to_string(&mut text)?;
    } else {
        std::fs::File::open(path)?.take(LARGEST_LIST).read_to_string(&mut text)?;
    }
    Ok(text)
}

/// Parses one window per line: two numbers, separated by white space or a comma. Skips empty lines and lines with `#`.
fn parse_list(text: &str, path: &Path) -> Result<Vec<Window>, Failure> {
    let mut windows = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start_matches('\u{feff}').trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut fields = line.split([' ', '\t', ',']).filter(|field| !field.is_empty());
        let place = format!("{}, line {}", path.display(), index + 1);
        let window = match (fields.next(), fields.next()) {
            (Some(start), Some(end)) => parse_bounds(start, end),
            _ => None,
        };
        match window {
            Some(Ok(window)) => windows.push(window),
            Some(Err(reversed)) => return Err(Failure::usage(format!("{place}: {reversed}"))),
            None => {
                return Err(Failure::usage(format!("{place}: `{}` is not a window", shorten(line)))
                    .hint("write start and end in microseconds since the Unix epoch"));
            }
        }
    }
    Ok(windows)
}

fn shorten(line: &str) -> String {
    if line.chars().count() > 60 { line.chars().take(60).chain(['…']).collect() } else { line.to_owned() }
}

fn as_csv(energies: &[WindowEnergy]) -> String {
    let mut text = csv::line(["start_us", "end_us", "device", "joules", "low", "high", "method", "notes"]);
    for energy in energies {
        let report = WindowReport::new(energy);
        let all = (String::from("all"), report.energy.as_ref(), None);
        let each = report.devices.iter().map(|device| {
            (format!("{} {}", device.device, device.scope), device.energy.as_ref(), device.error.clone())
        });
        for (device, energy, error) in std::iter::once(all).chain(each) {
            let notes = energy.map_or_else(Vec::new, |energy| energy.notes.clone());
            text.push_str(&csv::line([
                report.start_us.to_string(),
                report.end_us.to_string(),
                device,
                csv::number(energy.map(|energy| energy.joules)),
                csv::number(energy.map(|energy| energy.low)),
                csv::number(energy.map(|energy| energy.high)),
                energy.map_or_else(String::new, |energy| energy.method.to_string()),
                notes.into_iter().chain(error).collect::<Vec<_>>().join("; "),
            ]));
        }
    }
    text
}

fn as_table(energies: &[WindowEnergy], screen: Screen) -> String {
    let mut table = Table::new([Align::Right, Align::Right, Align::Right, Align::Right, Align::Left]);
    table.head(["start (us)", "length", "energy", "power", "method"]);
    for energy in energies {
        let Some(estimate) = energy.measured.as_ref().ok().or(energy.modelled.as_ref()) else { continue };
        let length = energy.window.length();
        let watts = (estimate.joules / length).get();
        let method = std::iter::once(estimate.method.to_string());
        let remarks: Vec<String> = method.chain(estimate.notes.iter().map(ToString::to_string)).collect();
        table.row(vec![
            (Tone::Plain, energy.window.start().micros_since_epoch().to_string()),
            (Tone::Plain, format!("{:.1} ms", length.as_millis())),
            (Tone::Strong, joules(estimate)),
            (Tone::Plain, or_dash(watts.is_finite().then(|| format!("{} W", digits(watts))))),
            (Tone::Faint, remarks.join("; ")),
        ]);
    }
    let estimates = energies.iter().filter_map(|energy| energy.measured.as_ref().ok().or(energy.modelled.as_ref()));
    let note = method_note(estimates.map(|estimate| estimate.method));
    let note = note.map(|note| format!("{}\n", screen.paint(Tone::Faint, &format!("  {note}"))));
    table.render(screen) + &note.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<usize, String> {
        parse_list(text, Path::new("windows.txt"))
            .map(|windows| windows.len())
            .map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn lists_may_have_comments_commas_and_crlf() {
        assert_eq!(parse("# start end\n\n1000 2000\r\n1000,3000\n\u{feff}4000\t5000 stream\n"), Ok(3));
        assert!(parse("1000 2000\n1000\n").unwrap_err().contains("line 2"));
        assert!(parse("2000 1000\n").unwrap_err().contains("ends before it starts"));
        assert!(parse("one two\n").unwrap_err().contains("is not a window"));
    }
}
