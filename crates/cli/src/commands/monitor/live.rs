//! The whole screen, as long as the user likes: readings, processes and keys come in; frames go out.
//!
//! Sampling goes on whatever the screen does. A terminal that is gone ends the watch; what was recorded is kept.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crossterm::event::{self, Event};
use ergometer_sensors::processes::Process;
use ergometer_telemetry::{Clock, DeviceId, Sampler};
use ergometer_units::Watts;
use signal_hook::consts::SIGCONT;

use super::archive::Archive;
use super::draw::{Frame, Theme, draw};
use super::keys::action;
use super::ledger::Ledger;
use super::picture::{Facts, Picture};
use super::recorder::Recorder;
use super::source::Source;
use super::terminal::FullScreen;
use super::ui::{Effect, Lengths, Motion, Processes, Ui};
use super::watcher::{SplitByCpuTime, Watcher};
use crate::interrupt::Interrupt;

/// How soon a signal is noticed while no key is pressed.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Everything a watch has.
pub(super) struct Live<'a> {
    pub(super) sampler: &'a Sampler,
    pub(super) clock: &'a Clock,
    pub(super) recorder: &'a Recorder,
    pub(super) interrupt: &'a Interrupt,
    pub(super) source: Source,
    pub(super) host: String,
    pub(super) caps: BTreeMap<DeviceId, Watts>,
    pub(super) watcher: Option<Watcher>,
    pub(super) split: Option<SplitByCpuTime>,
    pub(super) ledger: Ledger,
    /// When the user began to count anew.
    pub(super) counted_from: Option<Duration>,
    pub(super) archive: &'a mut Archive,
    pub(super) started: Instant,
    pub(super) interval: Duration,
}

/// How a watch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// By its time.
    Over,
    /// By the user.
    Asked,
    /// Nobody sees the terminal any more.
    TerminalGone,
}

impl Live<'_> {
    /// Shows frames until the end.
    pub(super) fn run(&mut self, mut ui: Ui, theme: Theme, until: Option<Instant>) -> io::Result<End> {
        let continued = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGCONT, Arc::clone(&continued))?;
        let mut screen = FullScreen::enter()?;
        let events = read_events()?;
        let mut picture = self.picture(&ui, screen.0.size().map_or(80, |size| size.width));
        let mut due = Instant::now();
        loop {
            let now = Instant::now();
            if until.is_some_and(|until| now >= until) {
                return Ok(End::Over);
            }
            let width = screen.0.size().map_or(80, |size| size.width);
            if now >= due {
                due = now + self.interval;
                if ui.motion == Motion::Going {
                    if self.source != Source::Machine && self.sampler.running() == 0 {
                        ui.motion = Motion::Ended;
                    }
                    picture = self.picture(&ui, width);
                }
                // What is forgotten has to be in the ledger, be the picture paused or not.
                self.sampler.with_timeline(|timeline| self.ledger.update(timeline));
                self.archive.tend(self.sampler);
                self.watch_recording(&mut ui);
            }
            if screen.0.draw(|frame| draw(frame.buffer_mut(), &picture, &ui, theme, Frame::Live)).is_err() {
                return Ok(End::TerminalGone);
            }
            let next = until.map_or(due, |until| until.min(due));
            match self.wait(next, &events, &continued) {
                Woken::Due => {}
                Woken::Ended(end) => return Ok(end),
                Woken::Continued => screen.resume()?,
                Woken::Event(Event::Key(key)) => {
                    let Some(action) = action(key) else { continue };
                    match ui.apply(action, lengths(&picture)) {
                        Effect::Quit => return Ok(End::Asked),
                        Effect::Redraw => due = if ui.motion == Motion::Going { Instant::now() } else { due },
                        Effect::Stretch => {
                            let cells = cells(width);
                            self.sampler.with_timeline(|timeline| picture.stretch(timeline, ui.span, cells));
                        }
                        Effect::Record => self.toggle_recording(&mut ui),
                        Effect::ResetEnergy => {
                            self.ledger.reset();
                            self.counted_from = Some(self.source.elapsed(self.started));
                            self.split = self.split.take().map(|_| SplitByCpuTime::default());
                            ui.message = Some(String::from("energy is counted from here"));
                            due = Instant::now();
                        }
                        Effect::Suspend => screen.suspend()?,
                    }
                }
                Woken::Event(_) => due = Instant::now(),
            }
        }
    }

    /// Waits for a key, a new size, a signal or the time.
    fn wait(&self, until: Instant, events: &Receiver<Event>, continued: &AtomicBool) -> Woken {
        loop {
            if self.interrupt.is_asked() {
                return Woken::Ended(End::Asked);
            }
            if continued.swap(false, Ordering::Relaxed) {
                return Woken::Continued;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Woken::Due;
            }
            match events.recv_timeout(left.min(LOOK_EVERY)) {
                Ok(event) => return Woken::Event(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Woken::Ended(End::TerminalGone),
            }
        }
    }

    /// The machine as it is now.
    pub(super) fn picture(&mut self, ui: &Ui, width: u16) -> Picture {
        let (ledger, split) = (&mut self.ledger, &mut self.split);
        let processes = self.watcher.as_ref().map(Watcher::last);
        let mut picture = self.sampler.with_timeline(|timeline| {
            ledger.update(timeline);
            if let (Some(split), Some((looks, table))) = (split.as_mut(), &processes) {
                split.update((*looks, table), ledger.cpu_energy(timeline));
            }
            let facts = Facts {
                host: &self.host,
                now: self.source.now(timeline, self.clock),
                elapsed: self.source.elapsed(self.started),
                span: ui.span,
                cells: cells(width),
                caps: &self.caps,
                ledger,
            };
            let mut picture = Picture::new(timeline, &facts);
            picture.events = self.archive.events(timeline);
            picture
        });
        picture.playback = self.source.playback();
        picture.counted = self.counted_from.map(|from| picture.elapsed.saturating_sub(from));
        picture.processes = processes.map(|(_, mut table)| {
            table.processes.retain(is_of_interest);
            table
        });
        picture.split = self.split.as_ref().map(SplitByCpuTime::shares);
        picture
    }

    fn toggle_recording(&self, ui: &mut Ui) {
        if self.source != Source::Machine {
            ui.message = Some(String::from("a recording is being played: there is nothing to record"));
            return;
        }
        ui.message = self.recorder.toggle();
        self.watch_recording(ui);
    }

    fn watch_recording(&self, ui: &mut Ui) {
        ui.recording = self.recorder.path().map(|path| path.display().to_string());
        if let Some(failure) = self.recorder.failure() {
            ui.message = Some(failure);
        }
    }
}

/// Keys and new sizes, read on a thread of their own: crossterm does not return from a terminal that is gone (it reads
/// nothing, again and again), and the signal that tells of it must be seen all the same.
fn read_events() -> io::Result<Receiver<Event>> {
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new().name(String::from("ergo-keys")).spawn(move || {
        while let Ok(event) = event::read() {
            if sender.send(event).is_err() {
                return;
            }
        }
    })?;
    Ok(receiver)
}

/// Why a wait ended.
enum Woken {
    Due,
    Event(Event),
    Continued,
    Ended(End),
}

fn lengths(picture: &Picture) -> Lengths {
    Lengths {
        devices: picture.devices.len(),
        processes: picture.processes.as_ref().map_or(0, |table| table.processes.len()),
        events: picture.events.len(),
        has_gpus: picture.has_gpus(),
    }
}

/// Two columns of dots a character, as many as the widest graph can have.
fn cells(width: u16) -> usize {
    usize::from(width.max(40)) * 2
}

/// All but the threads of the kernel that did nothing: a machine has hundreds of them.
fn is_of_interest(process: &Process) -> bool {
    let is_kernel = process.command.is_none() && process.memory.is_some_and(|memory| memory.get() == 0);
    !is_kernel || !process.gpus.is_empty() || process.cpu.is_some_and(|cpu| cpu.get() > 0.0)
}

/// Whether processes are to be shown at the start.
pub(super) fn processes_at_start(watcher: Option<&Watcher>) -> Processes {
    if watcher.is_some() { Processes::Shown } else { Processes::Hidden }
}

#[cfg(test)]
mod tests {
    use ergometer_units::{Bytes, Seconds};

    use super::*;

    #[test]
    fn idle_threads_of_the_kernel_are_left_out_and_nobody_else() {
        let kernel = Process { id: 2, memory: Some(Bytes::new(0)), cpu: Some(Seconds::ZERO), ..Process::default() };
        assert!(!is_of_interest(&kernel));
        assert!(is_of_interest(&Process { cpu: Some(Seconds::new(0.01)), ..kernel.clone() }), "it works");
        assert!(is_of_interest(&Process { command: Some(String::from("bash")), ..kernel.clone() }));
        assert!(is_of_interest(&Process { memory: None, ..kernel }), "nothing is known of it");
    }
}
