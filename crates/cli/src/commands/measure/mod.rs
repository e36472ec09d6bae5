//! `ergo measure`: runs a command and prints its energy by device, gross and net of idle power.

mod show;

use std::fs::File;
use std::io;
use std::process::{Child, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use ergometer::measure::{
    IdlePhase, MeasureControl, MeasureError, MeasureNotice, MeasureSpec, ProcessGroup, Stdout, measure,
};
use ergometer_diagnostics::{Message, command, flag, hint, option};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

use crate::arguments::{Format, MeasureArguments};
use crate::devices::select;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::recorder::{Recorder, print_events};
use crate::report::to_json;
use crate::screen::{Screen, print};

pub(crate) fn run(arguments: &MeasureArguments, screen: Screen) -> Result<ExitCode, Failure> {
    let sensors = select(&arguments.sensors)?.sensors;
    let process_group = process_group();
    let mut control = Control { interrupt: Interrupt::listen()?, process_group, screen };
    let (tap, recorder) = Recorder::start(arguments.record.as_deref(), &sensors)?;
    let spec = MeasureSpec {
        command: arguments.command.clone(),
        repeats: arguments.repeat,
        idle: arguments.idle,
        stdout: if arguments.format == Format::Table { Stdout::Inherit } else { Stdout::ToStderr },
        process_group,
    };
    let measured = measure(&spec, sensors, tap, &mut control);
    let recorded = recorder.finish();
    let measured = measured.map_err(failure)?;
    let report = measured.report();
    print(&match arguments.format {
        Format::Json => to_json(&report)?,
        Format::Csv => show::as_csv(&report),
        Format::Table => show::as_table(&report, screen),
    })?;
    print_events(measured.timeline.events(), screen);
    recorded?;
    for unknown in &report.missing {
        screen.warning(&format!("no energy of {} {}: {}", unknown.device, unknown.name, unknown.why));
    }
    if report.is_modelled() {
        screen.warning(
            &Message::new("energy is modelled from CPU utilization, not measured")
                .with_hint(hint!(command("doctor"), " lists the sensors that this machine could use")),
        );
    }
    Ok(match report.failed_exit_code() {
        _ if control.is_interrupted() => Exit::Interrupted.into(),
        Some(code) => ExitCode::from(code),
        None if report.devices.is_empty() => {
            return Err(Failure::failed("no sensor measured the whole command").hint(hint!(
                command("doctor"),
                " with the same ",
                option("sensor"),
                " and ",
                option("device"),
                " shows the readings of each sensor"
            )));
        }
        None => Exit::Done.into(),
    })
}

/// In the foreground of a terminal the command shares the group of `ergo`: only this group may read from the terminal
/// (a password of `sudo`, say), and Ctrl-C and Ctrl-Z reach all of it. Elsewhere a signal reaches `ergo` alone, so the
/// command gets a group of its own, to which `ergo` passes signals on.
fn process_group() -> ProcessGroup {
    let foreground = File::open("/dev/tty").ok().and_then(|terminal| tcgetpgrp(terminal).ok());
    if foreground == Some(getpgrp()) { ProcessGroup::Shared } else { ProcessGroup::Own }
}

fn failure(error: MeasureError) -> Failure {
    match error {
        MeasureError::NoCommand => Failure::usage(error),
        MeasureError::Interrupted => Failure::interrupted(error),
        MeasureError::NoSensor => {
            Failure::failed(error).also(hint!("without ", flag("no-model"), " the CPU's power is modelled"))
        }
        MeasureError::Command(error) => error.into(),
        MeasureError::Spawn { .. } => Failure::failed(error),
    }
}

/// Prints progress, and stops at Ctrl-C.
struct Control {
    interrupt: Interrupt,
    process_group: ProcessGroup,
    screen: Screen,
}

impl MeasureControl for Control {
    fn notice(&mut self, notice: MeasureNotice) {
        match notice {
            MeasureNotice::Idle { phase, length } => {
                let phase = match phase {
                    IdlePhase::Before => "before",
                    IdlePhase::After => "after",
                };
                let seconds = length.as_secs_f64();
                self.screen.note(&format!(
                    "idle power {phase} the command: letting the machine settle, then measuring for {seconds:.1} s"
                ));
            }
            MeasureNotice::Starting { repeats: 1, .. } => {}
            MeasureNotice::Starting { number, repeats } => self.screen.note(&format!("run {number} of {repeats}")),
        }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt.is_interrupted()
    }

    fn sleep(&self, length: Duration) -> bool {
        self.interrupt.sleep_until(Instant::now() + length)
    }

    fn wait(&self, child: &mut Child) -> io::Result<ExitStatus> {
        self.interrupt.wait_for(child, self.process_group)
    }
}
