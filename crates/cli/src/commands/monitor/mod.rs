//! `ergo monitor`: sensors (or a recording of them) go in; on a terminal the whole screen shows them, elsewhere one table,
//! refreshed, or one JSON object a tick comes out; and at the end, however it ends, the totals with their intervals.

mod archive;
mod draw;
mod history;
mod keys;
mod latest;
mod ledger;
mod live;
mod once;
mod picture;
mod recorder;
#[cfg(test)]
mod snapshots;
mod source;
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

use ergometer_sensors::nvidia;
use ergometer_sensors::replay::{Pace, Replay, Times};
use ergometer_telemetry::{Channel, Clock, DeviceId, DeviceKind, Provenance, Sampler, Sensor};

use crate::arguments::{MonitorArguments, StreamFormat};
use crate::bridge::diagnosed;
use crate::commands::energy::read;
use crate::devices::select;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::keep::tell_events;
use crate::screen::{Screen, print};
use archive::Archive;
use draw::{Colors, Signs, Theme};
use ledger::Ledger;
use live::{End, Live};
use once::{one_frame, one_frame_at};
use recorder::Recorder;
use source::{Playback, Source};
use stream::{Readings, Stream};
use ui::{Sort, Ui};
use watcher::{SplitByCpuTime, Watcher};

/// The shortest interval: faster than this a terminal only flickers, and no sensor has more to say.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// The shortest time that a graph can show.
const SHORTEST_SPAN: Duration = Duration::from_secs(1);

const NOTHING_TO_SPLIT: &str = "--split: no energy of a CPU is measured or modelled here, so there is nothing to split";

/// How readings are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Show {
    WholeScreen,
    /// One frame, as text.
    OneFrame,
    Stream(StreamFormat),
}

pub(crate) fn run(arguments: &MonitorArguments, screen: Screen) -> Result<ExitCode, Failure> {
    check(arguments)?;
    let show = show(arguments);
    // Ctrl-C ends the search itself: a driver or a command may hang in it.
    let (sensors, host, source) = sensors(arguments, screen)?;
    let interrupt = Interrupt::listen()?;
    // Energy that is not there cannot be divided.
    let has_cpu_energy = sensors.iter().flat_map(|sensor| sensor.channels()).any(has_cpu_energy);
    let is_split = arguments.split.is_some() && source == Source::Machine && has_cpu_energy;
    let nothing_to_split = (arguments.split.is_some() && !is_split).then_some(NOTHING_TO_SPLIT);
    if let Some(message) = nothing_to_split.filter(|_| show != Show::WholeScreen) {
        screen.warning(message);
    }
    let has_gpus = sensors.iter().any(|sensor| sensor.info().device.kind == DeviceKind::Gpu);
    let (tap, recorder) = Recorder::new(&sensors, arguments.record.as_deref());
    recorder.start_wanted()?;
    let clock = Arc::new(Clock::start());
    let started = Instant::now();
    let sampler = Sampler::start(sensors, Arc::clone(&clock), Some(tap));
    let is_live = source == Source::Machine;
    let wants_processes = arguments.processes || arguments.split.is_some() || show == Show::WholeScreen;
    let watcher = if is_live && wants_processes { Some(Watcher::start()?) } else { None };
    let mut archive = if is_live { Archive::since(clock.at(started)) } else { Archive::default() };
    // A reader that went away ends the watch as Ctrl-C does: what was recorded is kept.
    let watched = match show {
        Show::Stream(format) => {
            let (sampler, clock, recorder, interrupt) = (&sampler, &*clock, &recorder, &interrupt);
            let readings = Readings { sampler, clock, source, started };
            Stream { arguments, format, screen, readings, recorder, watcher, is_split, interrupt }
                .run(&mut archive)
                .map(|is_interrupted| if is_interrupted { End::Asked } else { End::Over })
        }
        Show::WholeScreen | Show::OneFrame => {
            let mut ui = Ui::new(arguments.history);
            ui.processes = live::processes_at_start(watcher.as_ref());
            ui.sort = if has_gpus { Sort::GpuMemory } else { Sort::Cpu };
            ui.message = nothing_to_split.filter(|_| show == Show::WholeScreen).map(String::from);
            ui.recording = recorder.path().map(|path| path.display().to_string());
            let mut live = Live {
                sampler: &sampler,
                clock: &clock,
                recorder: &recorder,
                interrupt: &interrupt,
                source,
                host,
                caps: if is_live { caps() } else { BTreeMap::new() },
                split: is_split.then(SplitByCpuTime::default),
                watcher,
                ledger: Ledger::default(),
                counted_from: None,
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
    // Curves of many devices over a long time take seconds, and the screen is gone already.
    if show == Show::WholeScreen && !matches!(watched, Ok(End::TerminalGone)) {
        screen.note("working out the totals…");
    }
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
    tell_lost(&recorder, screen)?;
    // Ctrl-C is how an endless watch is meant to end; only a duration can be cut short.
    let is_cut = end == End::Asked && arguments.duration.is_some();
    Ok(if is_cut { Exit::Interrupted.into() } else { Exit::Done.into() })
}

/// What a key began to record and the disk did not take: an error, as it is with `--record`.
fn tell_lost(recorder: &Recorder, screen: Screen) -> Result<(), Failure> {
    let mut lost = recorder.lost();
    let Some(last) = lost.pop() else { return Ok(()) };
    for message in &lost {
        screen.warning(message);
    }
    Err(Failure::failed(last))
}

/// What makes no sense is refused before anything is read.
fn check(arguments: &MonitorArguments) -> Result<(), Failure> {
    if arguments.interval < SHORTEST_INTERVAL {
        return Err(Failure::usage("the interval is too short").hint("--interval 10ms is the shortest"));
    }
    if arguments.duration.is_some_and(|duration| duration.is_zero()) {
        return Err(Failure::usage("a watch of no time shows nothing").hint("--duration 10s, or --once for one frame"));
    }
    if !(SHORTEST_SPAN..=ui::LONGEST_SPAN).contains(&arguments.history) {
        return Err(Failure::usage("graphs cannot reach back so far or so little").hint("--history takes 1s to 1h"));
    }
    Ok(())
}

fn has_cpu_energy(channel: &Channel) -> bool {
    channel.device.kind == DeviceKind::Cpu && channel.provenance != Provenance::Gauge
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

type Sensors = Vec<Box<dyn Sensor>>;

/// The sensors, the name of the machine they are of, and whether they are of a machine or a recording.
fn sensors(arguments: &MonitorArguments, screen: Screen) -> Result<(Sensors, String, Source), Failure> {
    let Some(path) = &arguments.replay else {
        let host =
            ergometer_sensors::host::read_system_info().host_name.unwrap_or_else(|| String::from("this machine"));
        return Ok((select(&arguments.sensors)?.sensors, host, Source::Machine));
    };
    let timeline = read(path, false, screen)?;
    let host = timeline.device_name(DeviceId::host()).unwrap_or("a recording").to_owned();
    let length = timeline.span().map_or(Duration::ZERO, |span| Duration::from_secs_f64(span.length().get().max(0.0)));
    let played = |pace| Replay { pace, times: Times::FromNow }.sensors(&timeline);
    let pace = Pace::Speed(arguments.speed);
    let sensors =
        played(pace).map_err(|error| Failure::usage(diagnosed!(error)).hint("--speed 1 plays as it was recorded"))?;
    // The one frame of a recording is the one at its end: its first seconds may have no power yet.
    let (pace, sensors) = if arguments.once {
        (Pace::AtOnce, played(Pace::AtOnce).map_err(|error| Failure::usage(diagnosed!(error)))?)
    } else {
        (pace, sensors)
    };
    Ok((sensors, host, Source::Recording(Playback { pace, length })))
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
