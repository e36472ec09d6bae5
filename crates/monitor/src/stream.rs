//! Calls back with one tick every interval.

use std::sync::Arc;
use std::time::Instant;

use crate::interrupt::Interrupt;
use crate::live::End;
use crate::monitor::Monitor;
use crate::source::Playback;
use crate::tick::{ReplayTick, Tick, process_ticks};
use crate::watcher::SplitByCpuTime;

impl Monitor {
    /// Calls `show` with a tick every interval, until the duration or the recording ends, or an interrupt.
    pub fn stream<E>(
        &mut self,
        interrupt: &dyn Interrupt,
        mut show: impl FnMut(&Tick) -> Result<(), E>,
    ) -> Result<End, E> {
        let end = self.end();
        let mut next = self.started;
        loop {
            next += self.config.interval;
            let deadline = end.map_or(next, |end| end.min(next));
            if interrupt.sleep_until(deadline) {
                return Ok(End::Interrupted);
            }
            let tick = self.tick();
            self.archive.update(&self.sampler);
            show(&tick)?;
            if end.is_some_and(|end| Instant::now() >= end) || self.is_played() {
                return Ok(End::Over);
            }
        }
    }

    /// One tick, after two intervals or at the end of a recording. `None` if interrupted.
    pub fn one_tick(&mut self, interrupt: &dyn Interrupt) -> Option<Tick> {
        self.wait_for_readings(interrupt).then(|| self.tick())
    }

    fn tick(&mut self) -> Tick {
        let (source, clock, elapsed) = (self.source, Arc::clone(self.clock()), self.elapsed());
        let (mut tick, processes) =
            self.update(|timeline, ledger| Tick::new(timeline, source.now(timeline, &clock), elapsed, ledger));
        let replay =
            |playback: Playback| ReplayTick { speed: playback.speed(), length_s: playback.length.as_secs_f64() };
        tick.replay = source.playback().map(replay);
        tick.recording = self.recorder.path().map(|path| path.display().to_string());
        let shares = self.split.as_ref().map(SplitByCpuTime::shares);
        if let Some(table) = processes {
            tick.cpu_energy_rest_j = shares.as_ref().map(|shares| shares.rest_j(&table));
            tick.processes = Some(process_ticks(&table, shares.as_ref()));
        }
        tick
    }
}
