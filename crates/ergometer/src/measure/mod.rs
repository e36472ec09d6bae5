//! Measures the energy of a command: runs it, measures idle power before and after, and reports the energy of
//! each device, gross and net of idle power.
//!
//! ```
//! use std::time::Duration;
//!
//! use ergometer::measure::{MeasureSpec, measure};
//! use ergometer_sensors::modelled::ModelPolicy;
//! use ergometer_sensors::probe_machine;
//!
//! let sensors = probe_machine(ModelPolicy::WhereUnmeasured).sensors;
//! let spec = MeasureSpec { repeats: 2, idle: Duration::ZERO, ..MeasureSpec::new(["true"]) };
//! let report = measure(&spec, sensors, None, &mut ())?.report();
//! for device in &report.devices {
//!     println!("{} {:.1} J", device.device, device.figures.gross_j.value);
//! }
//! assert_eq!((report.runs.len(), report.failed_exit_code()), (2, None));
//! # Ok::<(), ergometer::measure::MeasureError>(())
//! ```

mod command;
mod control;
mod error;
mod figures;
mod report;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use ergometer_sensors::have_energy;
use ergometer_sensors::process_group::GroupGuard;
use ergometer_telemetry::{Clock, EnergyMeter, Sampler, Sensor, Tap, Timeline};
use ergometer_units::Window;

pub use command::{CommandRun, ProcessGroup, Stdout};
pub use control::{IdlePhase, MeasureControl, MeasureNotice};
pub use error::MeasureError;
pub use figures::EnergyFigures;
pub use report::{DeviceFigures, EnergyReport, MeasureReport, RunReport, UnknownEnergy};

/// After work a machine settles for this long before its idle power is measured.
const SETTLE: Duration = Duration::from_secs(1);

/// Without an idle measurement, sensors need this long before and after a run to enclose it: a few steps of a counter.
const FRAME: Duration = Duration::from_millis(400);

/// A command to measure, and how to measure it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasureSpec {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// How many times to run it. The first run that fails is the last.
    pub repeats: u32,
    /// How long to measure idle power before and after; zero skips it.
    pub idle: Duration,
    /// Where the standard output of the command goes.
    pub stdout: Stdout,
    /// The process group of the command.
    pub process_group: ProcessGroup,
}

impl MeasureSpec {
    /// Runs the command once, with two seconds of idle power before and after.
    pub fn new(command: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        let command = command.into_iter().map(Into::into).collect();
        let (stdout, process_group) = (Stdout::Inherit, ProcessGroup::Shared);
        Self { command, repeats: 1, idle: Duration::from_secs(2), stdout, process_group }
    }
}

/// The runs of a command and everything that sensors read meanwhile.
pub struct Measurement {
    /// The command.
    pub command: Vec<OsString>,
    /// Its runs, at least one.
    pub runs: Vec<CommandRun>,
    /// The windows in which idle power was measured.
    pub rests: Vec<Window>,
    /// All readings.
    pub timeline: Timeline,
}

impl Measurement {
    /// Estimates the energy of the runs.
    #[must_use]
    pub fn report(&self) -> MeasureReport {
        let windows: Vec<Window> = self.runs.iter().map(|run| run.window).chain(self.rests.iter().copied()).collect();
        let meter = EnergyMeter::new(&self.timeline, &windows);
        MeasureReport::new(self, &meter)
    }
}

/// Runs a command while sensors are read. The tap receives every reading.
pub fn measure(
    spec: &MeasureSpec,
    sensors: Vec<Box<dyn Sensor>>,
    tap: Option<Tap>,
    control: &mut dyn MeasureControl,
) -> Result<Measurement, MeasureError> {
    if !have_energy(&sensors) {
        return Err(MeasureError::NoSensor);
    }
    let clock = Arc::new(Clock::start());
    let sampler = Sampler::start(sensors, Arc::clone(&clock), tap);
    let outcome = run_all(spec, &clock, control);
    let timeline = sampler.stop();
    let (runs, rests) = outcome?;
    Ok(Measurement { command: spec.command.clone(), runs, rests, timeline })
}

fn run_all(
    spec: &MeasureSpec,
    clock: &Clock,
    control: &mut dyn MeasureControl,
) -> Result<(Vec<CommandRun>, Vec<Window>), MeasureError> {
    let (mut runs, mut rests) = (Vec::new(), Vec::new());
    // Without a guard the command is measured all the same.
    let guard = (spec.process_group == ProcessGroup::Own).then(GroupGuard::start).and_then(Result::ok);
    rests.extend(rest(spec.idle, IdlePhase::Before, clock, control));
    for number in 1..=spec.repeats {
        if control.is_interrupted() {
            break;
        }
        control.notice(MeasureNotice::Starting { number, repeats: spec.repeats });
        let run = CommandRun::execute(spec, clock, guard.as_ref(), control)?;
        let succeeded = run.status.success();
        runs.push(run);
        if !succeeded {
            break;
        }
        control.sleep(FRAME);
    }
    if runs.is_empty() {
        return Err(MeasureError::Interrupted);
    }
    if !control.is_interrupted() {
        rests.extend(rest(spec.idle, IdlePhase::After, clock, control));
    }
    // Drivers deliver their last samples late.
    std::thread::sleep(FRAME);
    Ok((runs, rests))
}

/// Lets the machine settle, then returns the window of the idle measurement. `None` without idle time, or if interrupted.
fn rest(length: Duration, phase: IdlePhase, clock: &Clock, control: &mut dyn MeasureControl) -> Option<Window> {
    if length.is_zero() {
        control.sleep(FRAME);
        return None;
    }
    control.notice(MeasureNotice::Idle { phase, length });
    if control.sleep(SETTLE) {
        return None;
    }
    let start = clock.now();
    if control.sleep(length) {
        return None;
    }
    Window::new(start, clock.now()).ok()
}
