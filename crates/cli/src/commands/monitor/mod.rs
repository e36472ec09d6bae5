//! `ergo monitor`: sensors (or a recording of them) go in; on a terminal the whole screen shows them, elsewhere one table,
//! refreshed, or one JSON object a tick comes out; and at the end, however it ends, the totals with their intervals.

mod archive;
mod draw;
mod history;
mod keys;
mod latest;
mod ledger;
mod live;
mod picture;
mod recorder;
#[cfg(test)]
mod snapshots;
mod stream;
mod terminal;
mod tick;
mod totals;
mod ui;
mod watcher;

use std::collections::BTreeMap;
use std::env;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ergometer_telemetry::sensors::host::SystemInfo;
use ergometer_telemetry::sensors::nvidia;
use ergometer_telemetry::sensors::replay::{Pace, Replay, Times};
use ergometer_telemetry::{Clock, DeviceId, Sampler, Sensor};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::arguments::{MonitorArguments, Split, StreamFormat};
use crate::commands::energy::read;
use crate::devices::select;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::keep::tell_events;
use crate::screen::{Screen, print};
use archive::Archive;
use draw::{Colors, Frame, Signs, Theme};
use ledger::Ledger;
use live::{End, Live, Source};
use recorder::Recorder;
use stream::Stream;
use ui::Ui;
use watcher::{SplitByCpuTime, Watcher};

/// The shortest interval: faster than this a terminal only flickers, and no sensor has more to say.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// The size of a frame that goes to no terminal.
const USUAL_SIZE: (u16, u16) = (80, 24);

/// How readings are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Show {
    WholeScreen,
    /// One frame, as text.
    OneFrame,
    Stream(StreamFormat),
}

pub(crate) fn run(arguments: &MonitorArguments, screen: Screen) -> Result<ExitCode, Failure> {
    if arguments.interval < SHORTEST_INTERVAL {
        return Err(Failure::usage("the interval is too short").hint("--interval 10ms is the shortest"));
    }
    let show = show(arguments);
    let interrupt = Interrupt::listen()?;
    let (sensors, host) = sensors(arguments, screen)?;
    let (tap, recorder) = Recorder::new(&sensors, arguments.record.as_deref());
    recorder.start_wanted()?;
    let clock = Arc::new(Clock::start());
    let started = Instant::now();
    let sampler = Sampler::start(sensors, Arc::clone(&clock), Some(tap));
    let is_live = arguments.replay.is_none();
    let wants_processes = arguments.processes || arguments.split.is_some() || show == Show::WholeScreen;
    let watcher = if is_live && wants_processes { Some(Watcher::start()?) } else { None };
    let mut archive = Archive::default();
    // A reader that went away ends the watch as Ctrl-C does: what was recorded is kept.
    let watched = match show {
        Show::Stream(format) => {
            let (sampler, recorder, interrupt) = (&sampler, &recorder, &interrupt);
            Stream { arguments, format, screen, sampler, recorder, watcher, interrupt, started }
                .run(&mut archive)
                .map(|is_interrupted| if is_interrupted { End::Asked } else { End::Over })
        }
        Show::WholeScreen | Show::OneFrame => {
            let mut ui = Ui::new(arguments.history.min(ui::LONGEST_SPAN));
            ui.processes = live::processes_at_start(watcher.as_ref());
            ui.recording = recorder.path().map(|path| path.display().to_string());
            let mut live = Live {
                sampler: &sampler,
                clock: &clock,
                recorder: &recorder,
                interrupt: &interrupt,
                source: if is_live { Source::Machine } else { Source::Recording },
                host,
                caps: if is_live { caps() } else { BTreeMap::new() },
                split: arguments.split.filter(|_| watcher.is_some()).map(|Split::CpuTime| SplitByCpuTime::default()),
                watcher,
                ledger: Ledger::default(),
                archive: &mut archive,
                started,
                interval: arguments.interval,
            };
            let until = arguments.duration.map(|duration| started + duration);
            match show {
                Show::OneFrame => {
                    let theme = Theme { color: Colors::Off, ..theme(screen) };
                    one_frame(&mut live, &ui, theme, one_frame_at(arguments, started))
                }
                _ => live.run(ui, theme(screen), until).map_err(Failure::from),
            }
        }
    };
    let timeline = sampler.stop();
    let kept = recorder.stop();
    let end = watched?;
    if arguments.once {
        return kept.map(|_| Exit::Done.into());
    }
    let total = archive.total(&timeline);
    let text = match show {
        Show::Stream(StreamFormat::Jsonl) => totals::as_json(total.as_ref())?,
        _ => totals::as_table(total.as_ref(), screen),
    };
    if end != End::TerminalGone {
        print(&text)?;
    }
    tell_events(&archive.events(&timeline), screen);
    if let Some(recorded) = kept? {
        screen.note(&format!("recorded {} readings in {}", recorded.readings, recorded.path.display()));
    }
    // Ctrl-C is how an endless watch is meant to end; only a duration can be cut short.
    let is_cut = end == End::Asked && arguments.duration.is_some();
    Ok(if is_cut { Exit::Interrupted.into() } else { Exit::Done.into() })
}

/// The whole screen where there is one and nothing else was asked for.
fn show(arguments: &MonitorArguments) -> Show {
    let is_dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
    match arguments.format {
        Some(format) => Show::Stream(format),
        None if arguments.once => Show::OneFrame,
        None if io::stdout().is_terminal() && io::stdin().is_terminal() && !is_dumb => Show::WholeScreen,
        None => Show::Stream(StreamFormat::Table),
    }
}

/// The sensors, and the name of the machine they are of.
fn sensors(arguments: &MonitorArguments, screen: Screen) -> Result<(Vec<Box<dyn Sensor>>, String), Failure> {
    let Some(path) = &arguments.replay else {
        let host = SystemInfo::read().host_name.unwrap_or_else(|| String::from("this machine"));
        return Ok((select(&arguments.sensors)?.sensors, host));
    };
    let timeline = read(path, false, screen)?;
    let host = timeline.device_name(DeviceId::host()).unwrap_or("a recording").to_owned();
    let replay = Replay { pace: Pace::Speed(arguments.speed), times: Times::FromNow };
    let sensors = replay.sensors(&timeline);
    let sensors = sensors.map_err(|error| Failure::usage(error).hint("--speed 1 plays as it was recorded"))?;
    Ok((sensors, host))
}

/// The power that each GPU is held to, where its driver says.
fn caps() -> BTreeMap<DeviceId, ergometer_units::Watts> {
    nvidia::system_gpus().into_iter().filter_map(|gpu| Some((gpu.device, gpu.power_limit?))).collect()
}

/// What the terminal can show: colour unless it was refused, and Unicode unless the locale says that there is none.
fn theme(screen: Screen) -> Theme {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let locale = names.into_iter().filter_map(env::var_os).find(|value| !value.is_empty());
    let has_unicode = locale.is_none_or(|locale| {
        let locale = locale.to_string_lossy().to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    });
    // The console of Linux has no braille.
    let is_console = env::var_os("TERM").is_some_and(|term| term == "linux");
    Theme {
        color: if screen.has_color() { Colors::Sixteen } else { Colors::Off },
        signs: if has_unicode && !is_console { Signs::Unicode } else { Signs::Ascii },
    }
}

/// When the one frame of `--once` is shown: after two intervals, since power has to have come from somewhere; where
/// energy is divided among processes, after two looks at them.
fn one_frame_at(arguments: &MonitorArguments, started: Instant) -> Instant {
    let looks =
        if arguments.split.is_some() { watcher::LOOK_EVERY * 2 + watcher::LOOK_EVERY / 5 } else { Duration::ZERO };
    started + looks.max(arguments.interval * 2)
}

/// Waits until there is power to show, and prints a frame of plain text.
fn one_frame(live: &mut Live<'_>, ui: &Ui, theme: Theme, at: Instant) -> Result<End, Failure> {
    while Instant::now() < at {
        if live.interrupt.sleep_until(at.min(Instant::now() + live.interval)) {
            return Ok(End::Asked);
        }
        // What it remembers from tick to tick wants to be told of each.
        let _ = live.picture(ui, USUAL_SIZE.0);
    }
    let columns = || env::var("COLUMNS").ok()?.parse().ok();
    let width = Screen::width().or_else(columns).and_then(|width| u16::try_from(width).ok()).unwrap_or(USUAL_SIZE.0);
    let picture = live.picture(ui, width);
    let mut buffer = Buffer::empty(Rect::new(0, 0, width.clamp(40, 500), USUAL_SIZE.1));
    draw::draw(&mut buffer, &picture, ui, theme, Frame::Once);
    print(&text_of(&buffer))?;
    Ok(End::Over)
}

/// The characters of a buffer, line by line, without what is empty at the ends.
fn text_of(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area().width).max(1);
    let line = |cells: &[ratatui::buffer::Cell]| {
        let text: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        text.trim_end().to_owned()
    };
    let mut lines: Vec<String> = buffer.content().chunks(width).map(line).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.join("\n") + "\n"
}
