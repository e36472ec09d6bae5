//! The full screen: readings, processes and keys change a picture, which is drawn every interval.
//!
//! Sampling is independent of drawing. If the terminal goes away, the view ends and the recording is kept.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crossterm::event::{self, Event};
use ergometer_diagnostics::{CommandLine, Diagnostic};
use signal_hook::consts::SIGCONT;

use crate::draw::{Frame, Theme, draw};
use crate::interrupt::Interrupt;
use crate::keys::action;
use crate::monitor::Monitor;
use crate::picture::Picture;
use crate::recorder::Toggled;
use crate::source::Source;
use crate::terminal::FullScreen;
use crate::ui::{Effect, Lengths, Motion, Processes, Sort, Ui};
use crate::watcher::SplitByCpuTime;

/// How soon a signal is noticed while no key is pressed.
const SIGNAL_CHECK: Duration = Duration::from_millis(100);

/// Why a view ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The duration or the recording ended.
    Over,
    /// The user quit or interrupted the view.
    Interrupted,
    /// The terminal was closed.
    TerminalGone,
}

/// The full screen of a monitor.
struct Live<'a> {
    monitor: &'a mut Monitor,
    interrupt: &'a dyn Interrupt,
    ui: Ui,
    /// When the user last reset the energy.
    counted_from: Option<Duration>,
}

impl Monitor {
    /// Fills the terminal with the live view until the user quits, the duration ends, or an interrupt.
    pub fn full_screen(&mut self, theme: Theme, interrupt: &dyn Interrupt) -> io::Result<End> {
        self.read_power_limits();
        let mut ui = initial_ui(self);
        ui.message = self.warning().map(str::to_owned);
        Live { monitor: self, interrupt, ui, counted_from: None }.run(theme)
    }
}

/// The state of the screen before the first key.
pub(crate) fn initial_ui(monitor: &Monitor) -> Ui {
    let mut ui = Ui::new(monitor.config.history);
    ui.processes = if monitor.watcher.is_some() { Processes::Shown } else { Processes::Hidden };
    ui.sort = if monitor.has_gpus { Sort::GpuMemory } else { Sort::Cpu };
    ui.recording = monitor.recorder.path().map(|path| path.display().to_string());
    ui
}

impl Live<'_> {
    fn run(&mut self, theme: Theme) -> io::Result<End> {
        let continued = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGCONT, Arc::clone(&continued))?;
        let mut screen = FullScreen::enter()?;
        let events = read_events()?;
        let until = self.monitor.end();
        let mut picture = self.picture(screen.width());
        let mut due = Instant::now();
        loop {
            let now = Instant::now();
            if until.is_some_and(|until| now >= until) {
                return Ok(End::Over);
            }
            let width = screen.width();
            if now >= due {
                due = now + self.monitor.config.interval;
                if self.ui.motion == Motion::Running {
                    if self.monitor.is_played() {
                        self.ui.motion = Motion::Ended;
                    }
                    picture = self.picture(width);
                }
                // The archive drops readings, so the ledger must count them first, even while paused.
                let (sampler, ledger) = (&self.monitor.sampler, &mut self.monitor.ledger);
                sampler.with_timeline(|timeline| ledger.update(timeline));
                self.monitor.archive.update(sampler);
                self.watch_recording();
            }
            if screen.0.draw(|frame| draw(frame.buffer_mut(), &picture, &self.ui, theme, Frame::Live)).is_err() {
                return Ok(End::TerminalGone);
            }
            let next = until.map_or(due, |until| until.min(due));
            match self.wait(next, &events, &continued) {
                Woken::Due => {}
                Woken::Ended(end) => return Ok(end),
                Woken::Continued => screen.resume()?,
                Woken::Event(Event::Key(key)) => {
                    let Some(action) = action(key) else { continue };
                    match self.ui.apply(action, lengths(&picture)) {
                        Effect::Quit => return Ok(End::Interrupted),
                        Effect::Redraw => due = if self.ui.motion == Motion::Running { Instant::now() } else { due },
                        Effect::SpanChanged => {
                            let (span, cells) = (self.ui.span, cells(width));
                            self.monitor.sampler.with_timeline(|timeline| picture.set_span(timeline, span, cells));
                        }
                        Effect::Record => self.toggle_recording(),
                        Effect::ResetEnergy => {
                            self.reset_energy();
                            due = Instant::now();
                        }
                        Effect::Suspend => screen.suspend()?,
                    }
                }
                Woken::Event(_) => due = Instant::now(),
            }
        }
    }

    /// Waits for a key, a new size, a signal or the next refresh.
    fn wait(&self, until: Instant, events: &Receiver<Event>, continued: &AtomicBool) -> Woken {
        loop {
            if self.interrupt.is_interrupted() {
                return Woken::Ended(End::Interrupted);
            }
            if continued.swap(false, Ordering::Relaxed) {
                return Woken::Continued;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Woken::Due;
            }
            match events.recv_timeout(left.min(SIGNAL_CHECK)) {
                Ok(event) => return Woken::Event(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Woken::Ended(End::TerminalGone),
            }
        }
    }

    fn picture(&mut self, width: u16) -> Picture {
        let mut picture = self.monitor.picture(self.ui.span, cells(width));
        picture.counted = self.counted_from.map(|from| picture.elapsed.saturating_sub(from));
        picture
    }

    fn reset_energy(&mut self) {
        self.monitor.ledger.reset();
        self.counted_from = Some(self.monitor.elapsed());
        self.monitor.split = self.monitor.split.take().map(|_| SplitByCpuTime::default());
        self.ui.message = Some(String::from("energy is counted from now"));
    }

    fn toggle_recording(&mut self) {
        if self.monitor.source != Source::Machine {
            self.ui.message = Some(String::from("a recording is playing: there is nothing to record"));
            return;
        }
        self.ui.message = Some(match self.monitor.recorder.toggle() {
            Toggled::Started(path) => format!("recording every reading to {}", path.display()),
            Toggled::Stopped(recorded) => recorded.to_string(),
            Toggled::Failed(message) => message.one_line(&CommandLine),
        });
        self.watch_recording();
    }

    fn watch_recording(&mut self) {
        self.ui.recording = self.monitor.recorder.path().map(|path| path.display().to_string());
        if let Some(failure) = self.monitor.recorder.failure() {
            self.ui.message = Some(failure);
        }
    }
}

/// Reads keys and new sizes on a separate thread: crossterm never returns from a terminal that is gone, and signals
/// have to be noticed all the same.
fn read_events() -> io::Result<Receiver<Event>> {
    let (sender, receiver) = mpsc::channel();
    let read = move || {
        while let Ok(event) = event::read() {
            if sender.send(event).is_err() {
                return;
            }
        }
    };
    let started = thread::Builder::new().name(String::from("ergo-keys")).spawn(read);
    started.map_err(|cause| io::Error::new(cause.kind(), format!("cannot start a thread: {cause}")))?;
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

/// The cells of the widest graph: two columns of dots per character.
pub(crate) fn cells(width: u16) -> usize {
    usize::from(width.max(40)) * 2
}
