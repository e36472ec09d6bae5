//! `ergo monitor`: sensors (or a recording of them) go in; one table, refreshed, or one JSON object a tick comes out,
//! and at the end, however it ends, the totals with their intervals.

mod tick;
mod totals;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ergometer_telemetry::sensors::replay::{Pace, Replay, Times};
use ergometer_telemetry::{Clock, Sampler, Sensor};

use crate::arguments::{MonitorArguments, StreamFormat};
use crate::commands::energy::read;
use crate::devices::select;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::keep::{Keep, tell_events};
use crate::screen::{Screen, print};
use tick::{Sight, Tick};

/// The shortest interval: faster than this a terminal only flickers, and no sensor has more to say.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

pub(crate) fn run(arguments: &MonitorArguments, screen: Screen) -> Result<ExitCode, Failure> {
    if arguments.interval < SHORTEST_INTERVAL {
        return Err(Failure::usage("the interval is too short").hint("--interval 10ms is the shortest"));
    }
    let interrupt = Interrupt::listen()?;
    let sensors = sensors(arguments, screen)?;
    let (tap, keep) = Keep::start(arguments.record.as_deref(), &sensors)?;
    let clock = Arc::new(Clock::start());
    let started = Instant::now();
    let sampler = Sampler::start(sensors, Arc::clone(&clock), tap);
    // A reader that went away ends the watch as Ctrl-C does: what was recorded is kept.
    let watched = watch(arguments, screen, &sampler, &interrupt, started);
    let timeline = sampler.stop();
    let kept = keep.finish();
    let is_interrupted = watched?;
    let text = match arguments.format {
        StreamFormat::Jsonl => totals::as_json(&timeline)?,
        StreamFormat::Table => totals::as_table(&timeline, screen),
    };
    print(&text)?;
    tell_events(&timeline, screen);
    kept?;
    if let Some(path) = &arguments.record {
        screen.note(&format!("recorded {} readings in {}", timeline.len(), path.display()));
    }
    // Ctrl-C is how an endless watch is meant to end; only a duration can be cut short.
    let is_cut = is_interrupted && arguments.duration.is_some();
    Ok(if is_cut { Exit::Interrupted.into() } else { Exit::Done.into() })
}

fn sensors(arguments: &MonitorArguments, screen: Screen) -> Result<Vec<Box<dyn Sensor>>, Failure> {
    let Some(path) = &arguments.replay else { return Ok(select(&arguments.sensors)?.sensors) };
    let timeline = read(path, false, screen)?;
    let replay = Replay { pace: Pace::Speed(arguments.speed), times: Times::FromNow };
    replay.sensors(&timeline).map_err(|error| Failure::usage(error).hint("--speed 1 plays as it was recorded"))
}

/// Shows ticks until the end, by time, by the end of a recording, or by Ctrl-C. Says whether it was the last.
fn watch(
    arguments: &MonitorArguments,
    screen: Screen,
    sampler: &Sampler,
    interrupt: &Interrupt,
    started: Instant,
) -> Result<bool, Failure> {
    let end = arguments.duration.map(|duration| started + duration);
    let is_terminal = io::stdout().is_terminal();
    let mut sight = Sight::default();
    let mut drawn_lines = 0;
    let mut next = started;
    loop {
        next += arguments.interval;
        let deadline = end.map_or(next, |end| end.min(next));
        if interrupt.sleep_until(deadline) {
            return Ok(true);
        }
        let tick = sampler.with_timeline(|timeline| Tick::new(timeline, started.elapsed(), &mut sight));
        let text = match arguments.format {
            StreamFormat::Jsonl => tick.as_json()?,
            StreamFormat::Table => tick.as_table(screen),
        };
        if arguments.format == StreamFormat::Table && is_terminal && drawn_lines > 0 && tick.fits(screen) {
            // Up over the last table, and clear to the end of the screen.
            print(&format!("\x1b[{drawn_lines}A\x1b[J"))?;
        }
        drawn_lines = text.lines().count();
        print(&text)?;
        let is_over = end.is_some_and(|end| Instant::now() >= end);
        if is_over || (arguments.replay.is_some() && sampler.running() == 0) {
            return Ok(false);
        }
    }
}
