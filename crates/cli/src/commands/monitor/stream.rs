//! One table, refreshed, or one JSON object a tick: what `ergo monitor` prints where there is no screen to fill.

use std::io::{self, IsTerminal};
use std::time::Instant;

use ergometer_telemetry::Sampler;

use super::archive::Archive;
use super::ledger::Ledger;
use super::one_frame_at;
use super::recorder::Recorder;
use super::tick::{Tick, process_ticks};
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
    pub(super) sampler: &'a Sampler,
    pub(super) recorder: &'a Recorder,
    pub(super) watcher: Option<Watcher>,
    pub(super) interrupt: &'a Interrupt,
    pub(super) started: Instant,
}

impl Stream<'_> {
    /// Shows ticks until the end, by time, by the end of a recording, or by Ctrl-C. Says whether it was the last.
    pub(super) fn run(&self, archive: &mut Archive) -> Result<bool, Failure> {
        let arguments = self.arguments;
        let end = arguments.duration.map(|duration| self.started + duration);
        let is_terminal = io::stdout().is_terminal();
        let (mut ledger, mut split) = (Ledger::default(), SplitByCpuTime::default());
        let mut drawn_lines = 0;
        let mut next = self.started;
        loop {
            next += arguments.interval;
            let deadline = end.map_or(next, |end| end.min(next));
            if self.interrupt.sleep_until(deadline) {
                return Ok(true);
            }
            let tick = self.tick(&mut ledger, &mut split);
            if arguments.once && Instant::now() < one_frame_at(arguments, self.started) {
                continue;
            }
            archive.tend(self.sampler);
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
            if arguments.once || is_over || (arguments.replay.is_some() && self.sampler.running() == 0) {
                return Ok(false);
            }
        }
    }

    fn tick(&self, ledger: &mut Ledger, split: &mut SplitByCpuTime) -> Tick {
        let seen = self.watcher.as_ref().map(Watcher::last);
        let mut tick = self.sampler.with_timeline(|timeline| {
            ledger.update(timeline);
            if let (Some(_), Some((looks, table))) = (self.arguments.split, &seen) {
                split.update((*looks, table), ledger.cpu_energy(timeline));
            }
            Tick::new(timeline, self.started.elapsed(), ledger)
        });
        tick.recording = self.recorder.path().map(|path| path.display().to_string());
        tick.processes = seen.map(|(_, table)| process_ticks(&table, &split.shares()));
        tick
    }
}
