//! `ergo monitor`: shows sensors, or a recording, on the full screen, as a table, or as one line of JSON per tick.
//!
//! At the end, also after an interrupt, it prints the energy of the whole time with intervals.

mod tick_table;
mod totals;

use std::env;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Instant;

use ergometer_monitor::{
    Colors, Config, End, Input, Monitor, MonitorError, Outcome, RecordError, Signs, Split, Theme, Tick,
};
use ergometer_sensors::replay::Pace;

use crate::arguments::{MonitorArguments, SplitRule, StreamFormat};
use crate::commands::energy::read;
use crate::devices::select;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::recorder::{print_events, record_failure};
use crate::screen::{Screen, print};

/// The width of a frame without a terminal.
const USUAL_WIDTH: usize = 80;

/// How readings are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    FullScreen,
    /// One frame, as text.
    OneFrame,
    Stream(StreamFormat),
}

pub(crate) fn run(arguments: &MonitorArguments, screen: Screen) -> Result<ExitCode, Failure> {
    let mode = mode(arguments);
    let config = config(arguments, mode);
    config.check().map_err(|error| failure(error.into()))?;
    // Until sensors are open Ctrl-C ends the program at once: a driver or a command may hang.
    let input = input(arguments, screen)?;
    let interrupt = Interrupt::listen()?;
    let mut monitor = Monitor::start(input, config).map_err(failure)?;
    if let Some(warning) = monitor.warning().filter(|_| mode != Mode::FullScreen) {
        screen.warning(warning);
    }
    let shown = match mode {
        Mode::FullScreen => monitor.full_screen(theme(screen), &interrupt).map_err(Failure::from),
        Mode::OneFrame => one_frame(&mut monitor, screen, &interrupt),
        Mode::Stream(format) => stream(&mut monitor, arguments.once, (format, screen), &interrupt),
    };
    // The totals of many devices over a long time take seconds, and the full screen is closed already.
    if mode == Mode::FullScreen && !matches!(shown, Ok(End::TerminalGone)) {
        screen.note("computing the totals…");
    }
    let outcome = monitor.finish();
    let end = shown?;
    if arguments.once {
        outcome.recorded.map_err(|error| failure(error.into()))?;
        return Ok(Exit::Done.into());
    }
    show_outcome(outcome, end, mode, screen)?;
    // An endless monitor is meant to end with Ctrl-C; only a duration can be cut short.
    let is_cut = end == End::Interrupted && arguments.duration.is_some();
    Ok(if is_cut { Exit::Interrupted.into() } else { Exit::Done.into() })
}

fn config(arguments: &MonitorArguments, mode: Mode) -> Config {
    Config {
        interval: arguments.interval,
        duration: arguments.duration,
        history: arguments.history,
        record: arguments.record.clone(),
        processes: arguments.processes || mode == Mode::FullScreen,
        split: arguments.split.map(|SplitRule::CpuTime| Split::CpuTime),
    }
}

/// The full screen on a terminal, unless another format was requested.
fn mode(arguments: &MonitorArguments) -> Mode {
    let is_dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
    match arguments.format {
        Some(format) => Mode::Stream(format),
        None if arguments.once => Mode::OneFrame,
        None if io::stdout().is_terminal() && io::stdin().is_terminal() && !is_dumb => Mode::FullScreen,
        None => Mode::Stream(StreamFormat::Table),
    }
}

/// The sensors of this machine or of the recording.
fn input(arguments: &MonitorArguments, screen: Screen) -> Result<Input, Failure> {
    let Some(path) = &arguments.replay else { return Ok(Input::machine(select(&arguments.sensors)?.sensors)) };
    let timeline = read(path, false, screen)?;
    let play = |pace| Input::recording(&timeline, pace).map_err(Failure::usage);
    let input = play(Pace::Speed(arguments.speed))?;
    // One frame of a recording shows its end: its first seconds may have no power yet.
    if arguments.once { play(Pace::AtOnce) } else { Ok(input) }
}

fn one_frame(monitor: &mut Monitor, screen: Screen, interrupt: &Interrupt) -> Result<End, Failure> {
    let columns = || env::var("COLUMNS").ok()?.parse().ok();
    let width = Screen::width().or_else(columns).unwrap_or(USUAL_WIDTH);
    let theme = Theme { colors: Colors::Off, ..theme(screen) };
    let Some(frame) = monitor.one_frame(theme, u16::try_from(width).unwrap_or(u16::MAX), interrupt) else {
        return Ok(End::Interrupted);
    };
    print(&frame)?;
    Ok(End::Over)
}

fn stream(
    monitor: &mut Monitor,
    once: bool,
    (format, screen): (StreamFormat, Screen),
    interrupt: &Interrupt,
) -> Result<End, Failure> {
    let is_terminal = io::stdout().is_terminal();
    let mut drawn_lines = 0;
    let mut show = |tick: &Tick| -> Result<(), Failure> {
        let text = match format {
            StreamFormat::Jsonl => tick_table::as_json(tick)?,
            StreamFormat::Table => tick_table::as_table(tick, screen),
        };
        if format == StreamFormat::Table && is_terminal && drawn_lines > 0 && tick_table::fits(tick, screen) {
            // Move up over the last table, and clear to the end of the screen.
            print(&format!("\x1b[{drawn_lines}A\x1b[J"))?;
        }
        drawn_lines = text.lines().count();
        Ok(print(&text)?)
    };
    if !once {
        return monitor.stream(interrupt, show);
    }
    match monitor.one_tick(interrupt) {
        Some(tick) => show(&tick).map(|()| End::Over),
        None => Ok(End::Interrupted),
    }
}

/// Prints the totals, the events of the sensors and the recordings.
fn show_outcome(outcome: Outcome, end: End, mode: Mode, screen: Screen) -> Result<(), Failure> {
    let energy = outcome.energy();
    let text = match mode {
        Mode::Stream(StreamFormat::Jsonl) => totals::as_json(energy.as_ref())?,
        _ => totals::as_table(energy.as_ref(), screen),
    };
    if end != End::TerminalGone {
        print(&text)?;
    }
    print_events(&outcome.events(), screen);
    if let Some(recorded) = outcome.recorded.map_err(|error| failure(error.into()))? {
        screen.note(&recorded.to_string());
    }
    report_lost(outcome.lost, screen)
}

/// Recordings that were started with a key and could not be written fail the command, as with `--record`.
fn report_lost(mut lost: Vec<RecordError>, screen: Screen) -> Result<(), Failure> {
    let Some(last) = lost.pop() else { return Ok(()) };
    for error in &lost {
        screen.warning(error);
    }
    Err(failure(last.into()))
}

fn failure(error: MonitorError) -> Failure {
    match error {
        MonitorError::Config(_) => Failure::usage(error),
        MonitorError::Record(error) => record_failure(error),
        MonitorError::Thread(_) => Failure::failed(error),
    }
}

impl ergometer_monitor::Interrupt for Interrupt {
    fn is_interrupted(&self) -> bool {
        self.is_interrupted()
    }

    fn sleep_until(&self, deadline: Instant) -> bool {
        self.sleep_until(deadline)
    }
}

/// The theme for this terminal: color unless disabled, and Unicode unless the locale excludes it.
fn theme(screen: Screen) -> Theme {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let locale = names.into_iter().filter_map(env::var_os).find(|value| !value.is_empty());
    let has_unicode = locale.is_none_or(|locale| {
        let locale = locale.to_string_lossy().to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    });
    // The Linux console has no braille characters.
    let is_console = env::var_os("TERM").is_some_and(|term| term == "linux");
    Theme {
        colors: if screen.has_color() { Colors::Sixteen } else { Colors::Off },
        signs: if has_unicode && !is_console { Signs::Unicode } else { Signs::Ascii },
    }
}
