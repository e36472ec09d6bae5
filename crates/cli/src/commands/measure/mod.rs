//! `ergo measure`: a command goes in; its energy by device comes out, gross and net of what the machine draws at rest.

mod runs;
mod show;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ergometer_sensors::have_energy;
use ergometer_telemetry::{Clock, EnergyMeter, Provenance, Sampler};
use ergometer_units::{Seconds, Timestamp, Window};

use crate::arguments::{Format, MeasureArguments};
use crate::devices::select;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::keep::{Keep, tell_events};
use crate::screen::{Screen, print};
use runs::{Run, code_of};

/// After work a machine settles for this long before it counts as at rest.
const SETTLE: Duration = Duration::from_secs(1);

/// Without a measurement at rest, what the sensors need before and after a run to frame it: a few steps of a counter.
const FRAME: Duration = Duration::from_millis(400);

pub(crate) fn run(arguments: &MeasureArguments, screen: Screen) -> Result<ExitCode, Failure> {
    let sensors = select(&arguments.sensors)?.sensors;
    if !have_energy(&sensors) {
        return Err(Failure::failed("no sensor of energy or power here").hint(
            "`ergo doctor` says what is missing and how to mend it; without --no-model the CPU's power is modelled",
        ));
    }
    let interrupt = Interrupt::listen()?;
    let clock = Arc::new(Clock::start());
    let (tap, keep) = Keep::start(arguments.record.as_deref(), &sensors)?;
    let sampler = Sampler::start(sensors, Arc::clone(&clock), tap);
    let outcome = measure(arguments, screen, &clock, &interrupt);
    let timeline = sampler.stop();
    let kept = keep.finish();
    let Measured { runs, rests } = outcome?;
    let windows: Vec<Window> = runs.iter().map(|run| run.window).chain(rests.iter().copied()).collect();
    let meter = EnergyMeter::new(&timeline, &windows);
    let report = show::Report::new(&arguments.command, &runs, &rests, &meter, &timeline);
    print(&match arguments.format {
        Format::Json => report.as_json()?,
        Format::Csv => report.as_csv(),
        Format::Table => report.as_table(screen),
    })?;
    tell_events(timeline.events(), screen);
    kept?;
    for missing in report.missing() {
        screen.warning(&format!("no energy of {missing}"));
    }
    if report.devices().next().is_some() && report.devices().all(|device| device.provenance == Provenance::Modelled) {
        screen.warning(
            "energy is modelled from CPU utilization, not measured; `ergo doctor` says what else there could be",
        );
    }
    // The first failure is passed on, as the command's own.
    let failed = runs.iter().map(|run| code_of(run.status)).find(|&code| code != 0);
    Ok(match failed {
        _ if interrupt.is_asked() => Exit::Interrupted.into(),
        Some(code) => ExitCode::from(code),
        None if report.devices().next().is_none() => {
            return Err(Failure::failed("nothing measured the command")
                .hint("`ergo doctor` with the same --sensor and --device says what each sensor gives"));
        }
        None => Exit::Done.into(),
    })
}

/// What was run, and when the machine was at rest.
struct Measured {
    runs: Vec<Run>,
    rests: Vec<Window>,
}

fn measure(
    arguments: &MeasureArguments,
    screen: Screen,
    clock: &Clock,
    interrupt: &Interrupt,
) -> Result<Measured, Failure> {
    let mut measured = Measured { runs: Vec::new(), rests: Vec::new() };
    measured.rests.extend(rest(arguments.idle, clock, interrupt, screen));
    for number in 1..=arguments.repeat {
        if interrupt.is_asked() {
            break;
        }
        if arguments.repeat > 1 {
            screen.note(&format!("run {number} of {}", arguments.repeat));
        }
        let run = Run::of(&arguments.command, arguments.format, clock, interrupt)?;
        let is_done = run.status.success();
        measured.runs.push(run);
        if !is_done {
            break;
        }
        interrupt.sleep_until(Instant::now() + FRAME);
    }
    if measured.runs.is_empty() {
        return Err(Failure::interrupted("interrupted before the command was started"));
    }
    if !interrupt.is_asked() {
        measured.rests.extend(rest(arguments.idle, clock, interrupt, screen));
    }
    // The driver hands its last samples out late.
    std::thread::sleep(FRAME);
    Ok(measured)
}

/// Lets the machine settle and then rest. `None` where no rest was asked for, or it was cut short.
fn rest(length: Duration, clock: &Clock, interrupt: &Interrupt, screen: Screen) -> Option<Window> {
    if length.is_zero() {
        interrupt.sleep_until(Instant::now() + FRAME);
        return None;
    }
    screen.note(&format!("idle   settling, then measured for {:.1} s", length.as_secs_f64()));
    if interrupt.sleep_until(Instant::now() + SETTLE) {
        return None;
    }
    let start = clock.now();
    if interrupt.sleep_until(Instant::now() + length) {
        return None;
    }
    Window::new(start, clock.now()).ok()
}

/// The middle of a window.
fn middle(window: Window) -> Timestamp {
    window.start() + Seconds::new(window.length().get() / 2.0)
}
