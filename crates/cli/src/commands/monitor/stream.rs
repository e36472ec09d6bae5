//! One table, refreshed, or one JSON object a tick: what `ergo monitor` prints where there is no screen to fill.

use std::io::{self, IsTerminal};
use std::time::Instant;

use ergometer_telemetry::{Clock, Sampler};

use super::archive::Archive;
use super::ledger::Ledger;
use super::once::one_frame_at;
use super::recorder::Recorder;
use super::source::Source;
use super::tick::{ReplayTick, Tick, process_ticks};
use super::watcher::{SplitByCpuTime, Watcher};
use crate::arguments::{MonitorArguments, StreamFormat};
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::screen::{Screen, print};

/// Everything a stream has.
pub(super) struct Stream<'a> {
    pub(super) arguments: &'a MonitorArguments,
    pub(super) format: StreamFormat,
    pub(super) screen: Screen,
    pub(super) readings: Readings<'a>,
    pub(super) recorder: &'a Recorder,
    pub(super) watcher: Option<Watcher>,
    /// Whether the CPU's energy is divided among processes.
    pub(super) is_split: bool,
    pub(super) interrupt: &'a Interrupt,
}

/// Where readings come from, and since when.
pub(super) struct Readings<'a> {
    pub(super) sampler: &'a Sampler,
    pub(super) clock: &'a Clock,
    pub(super) source: Source,
    pub(super) started: Instant,
}

impl Stream<'_> {
    /// Shows ticks until the end, by time, by the end of a recording, or by Ctrl-C. Says whether it was the last.
    pub(super) fn run(&self, archive: &mut Archive) -> Result<bool, Failure> {
        let arguments = self.arguments;
        let end = arguments.duration.map(|duration| self.readings.started + duration);
        let is_terminal = io::stdout().is_terminal();
        let (mut ledger, mut split) = (Ledger::default(), self.is_split.then(SplitByCpuTime::default));
        let mut drawn_lines = 0;
        let mut next = self.readings.started;
        loop {
            next += arguments.interval;
            let deadline = end.map_or(next, |end| end.min(next));
            if self.interrupt.sleep_until(deadline) {
                return Ok(true);
            }
            let tick = self.tick(&mut ledger, &mut split);
            let is_early = Instant::now() < one_frame_at(arguments, self.readings.started);
            if arguments.once
                && (is_early || self.readings.source != Source::Machine && self.readings.sampler.running() > 0)
            {
                continue;
            }
            archive.tend(self.readings.sampler);
            let text = match self.format {
                StreamFormat::Jsonl => tick.as_json()?,
                StreamFormat::Table => tick.as_table(self.screen),
            };
            if self.format == StreamFormat::Table && is_terminal && drawn_lines > 0 && tick.fits(self.screen) {
                // Up over the last table, and clear to the end of the screen.
                print(&format!("\x1b[{drawn_lines}A\x1b[J"))?;
            }
            drawn_lines = text.lines().count();
            print(&text)?;
            let is_over = end.is_some_and(|end| Instant::now() >= end);
            if arguments.once || is_over || (arguments.replay.is_some() && self.readings.sampler.running() == 0) {
                return Ok(false);
            }
        }
    }

    fn tick(&self, ledger: &mut Ledger, split: &mut Option<SplitByCpuTime>) -> Tick {
        let seen = self.watcher.as_ref().map(Watcher::last);
        let mut tick = self.readings.sampler.with_timeline(|timeline| {
            ledger.update(timeline);
            if let (Some(split), Some((looks, table))) = (split.as_mut(), &seen) {
                split.update((*looks, table), ledger.cpu_energy(timeline));
            }
            let now = self.readings.source.now(timeline, self.readings.clock);
            Tick::new(timeline, now, self.readings.source.elapsed(self.readings.started), ledger)
        });
        tick.replay = self
            .readings
            .source
            .playback()
            .map(|playback| ReplayTick { speed: playback.speed(), length_s: playback.length.as_secs_f64() });
        tick.recording = self.recorder.path().map(|path| path.display().to_string());
        let shares = split.as_ref().map(SplitByCpuTime::shares);
        if let Some((_, table)) = seen {
            tick.cpu_energy_rest_j = shares.as_ref().map(|shares| shares.rest_j(&table));
            tick.processes = Some(process_ticks(&table, shares.as_ref()));
        }
        tick
    }
}
