//! The state of the screen, and how actions change it.

use std::time::Duration;

use crate::keys::Action;

/// The time ranges of graphs.
const SPANS_S: [u64; 9] = [10, 30, 60, 120, 300, 600, 1200, 1800, 3600];

/// The longest time range of a graph.
pub(crate) const LONGEST_SPAN: Duration = Duration::from_secs(3600);

/// The state of the screen.
#[derive(Debug, Clone)]
pub(crate) struct Ui {
    pub(crate) motion: Motion,
    pub(crate) span: Duration,
    pub(crate) focus: Focus,
    /// The index of the selected device.
    pub(crate) device: usize,
    /// The index of the first process shown.
    pub(crate) process: usize,
    pub(crate) sort: Sort,
    pub(crate) order: Order,
    pub(crate) processes: Processes,
    pub(crate) overlay: Overlay,
    pub(crate) detail: Detail,
    /// The file being recorded.
    pub(crate) recording: Option<String>,
    /// A message that is shown until the next key.
    pub(crate) message: Option<String>,
    /// The number of events that the user has seen.
    pub(crate) events_seen: usize,
}

/// Whether the display is updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Motion {
    Running,
    Paused,
    /// The recording has ended.
    Ended,
}

/// Whether all devices are shown or only the selected one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    All,
    One,
}

/// Which list the arrow keys move in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Focus {
    Devices,
    Processes,
}

/// Whether processes are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Processes {
    Shown,
    Hidden,
}

/// The panel over the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overlay {
    Nothing,
    Help,
    Events,
}

/// The column that processes are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    GpuMemory,
    Gpu,
    Cpu,
    Memory,
    Pid,
}

/// Largest first, or reversed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Usual,
    Reversed,
}

impl Sort {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::GpuMemory => "GPU memory",
            Self::Gpu => "GPU %",
            Self::Cpu => "CPU %",
            Self::Memory => "memory",
            Self::Pid => "pid",
        }
    }

    /// The next column that is shown.
    fn next(self, has_gpus: bool) -> Self {
        match self {
            Self::Pid if !has_gpus => Self::Cpu,
            Self::GpuMemory => Self::Gpu,
            Self::Gpu => Self::Cpu,
            Self::Cpu => Self::Memory,
            Self::Memory => Self::Pid,
            Self::Pid => Self::GpuMemory,
        }
    }
}

/// The lengths of the lists.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lengths {
    pub(crate) devices: usize,
    pub(crate) processes: usize,
    pub(crate) events: usize,
    /// Whether there are GPU columns to sort by.
    pub(crate) has_gpus: bool,
}

/// The work of the caller after an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Redraw,
    Quit,
    /// The time range of the graphs changed.
    SpanChanged,
    Record,
    ResetEnergy,
    Suspend,
}

impl Ui {
    pub(crate) fn new(span: Duration) -> Self {
        Self {
            motion: Motion::Running,
            span,
            focus: Focus::Devices,
            device: 0,
            process: 0,
            sort: Sort::GpuMemory,
            order: Order::Usual,
            processes: Processes::Shown,
            overlay: Overlay::Nothing,
            detail: Detail::All,
            recording: None,
            message: None,
            events_seen: 0,
        }
    }

    /// Applies an action.
    pub(crate) fn apply(&mut self, action: Action, lengths: Lengths) -> Effect {
        self.message = None;
        match action {
            Action::Quit => return Effect::Quit,
            Action::Back => match (self.overlay, self.detail) {
                // Esc must not quit a session of hours by accident.
                (Overlay::Nothing, Detail::All) => {}
                (Overlay::Nothing, Detail::One) => self.detail = Detail::All,
                (Overlay::Help | Overlay::Events, _) => self.overlay = Overlay::Nothing,
            },
            Action::Pause => {
                self.motion = match self.motion {
                    Motion::Running => Motion::Paused,
                    Motion::Paused => Motion::Running,
                    Motion::Ended => Motion::Ended,
                }
            }
            Action::SortNext => self.sort = self.sort.next(lengths.has_gpus),
            Action::Reverse => {
                self.order = if self.order == Order::Usual { Order::Reversed } else { Order::Usual };
            }
            Action::Record => return Effect::Record,
            Action::Processes => {
                let is_shown = self.processes == Processes::Shown;
                self.processes = if is_shown { Processes::Hidden } else { Processes::Shown };
                self.focus = Focus::Devices;
            }
            Action::Longer | Action::Shorter => return self.change_span(action),
            Action::NextFocus => {
                let can_go = self.focus == Focus::Devices && self.processes == Processes::Shown;
                self.focus = if can_go { Focus::Processes } else { Focus::Devices };
            }
            Action::Up => self.scroll(lengths, |place| place.saturating_sub(1)),
            Action::Down => self.scroll(lengths, |place| place.saturating_add(1)),
            Action::PageUp => self.scroll(lengths, |place| place.saturating_sub(10)),
            Action::PageDown => self.scroll(lengths, |place| place.saturating_add(10)),
            Action::Home => self.scroll(lengths, |_| 0),
            Action::End => self.scroll(lengths, |_| usize::MAX),
            Action::Detail => {
                self.detail = if self.detail == Detail::One { Detail::All } else { Detail::One };
            }
            Action::ResetEnergy => return Effect::ResetEnergy,
            Action::Help => self.toggle(Overlay::Help),
            Action::Events => {
                self.events_seen = lengths.events;
                self.toggle(Overlay::Events);
            }
            Action::Suspend => return Effect::Suspend,
        }
        Effect::Redraw
    }

    fn toggle(&mut self, overlay: Overlay) {
        self.overlay = if self.overlay == overlay { Overlay::Nothing } else { overlay };
    }

    fn change_span(&mut self, action: Action) -> Effect {
        let seconds = self.span.as_secs_f64();
        let next = match action {
            Action::Longer => SPANS_S.iter().find(|span| **span as f64 > seconds),
            _ => SPANS_S.iter().rev().find(|span| (**span as f64) < seconds),
        };
        if let Some(&next) = next {
            self.span = Duration::from_secs(next);
        }
        Effect::SpanChanged
    }

    fn scroll(&mut self, lengths: Lengths, to: impl Fn(usize) -> usize) {
        let (place, length) = match self.focus {
            Focus::Devices => (&mut self.device, lengths.devices),
            Focus::Processes => (&mut self.process, lengths.processes),
        };
        *place = to(*place).min(length.saturating_sub(1));
    }
}
