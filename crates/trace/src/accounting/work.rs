//! What of a plane is work of its device, and what each piece of it is called: one answer for every platform.
//!
//! On GPU it is what runs on streams; on TPU the ops, whose line lies beneath those of modules and steps; on a host, where
//! the ops run among everything else its threads do, the events that say which op they are.

use crate::table::{Kind, Line, MODULES_LINE, Plane, Platform, Text, Trace, is_command_buffer};

/// The role of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It has work.
    Work,
    /// It has modules: each event is one execution.
    Modules,
    /// It has steps.
    Steps,
    /// It repeats other lines in other words, as profile viewers add to a trace.
    Derived,
}

impl Role {
    /// The role of a line, by its name and its platform.
    #[must_use]
    pub fn of(trace: &Trace, plane: &Plane, line: &Line) -> Self {
        if plane.platform == Platform::Host {
            return Self::Work;
        }
        match trace.text(line.name) {
            MODULES_LINE => Self::Modules,
            "Steps" => Self::Steps,
            // On TPU they are the ops themselves; on GPU the kernels are, and this line was added later.
            "XLA Ops" if plane.platform == Platform::Gpu => Self::Derived,
            "XLA TraceMe"
            | "Framework Name Scope"
            | "Framework Ops"
            | "TensorFlow Name Scope"
            | "TensorFlow Ops"
            | "Source code"
            | "Source"
            | "Launch Stats" => Self::Derived,
            _ => Self::Work,
        }
    }
}

/// For every kind of the trace whether its events are work, on a plane.
#[must_use]
pub fn kinds_of_work(trace: &Trace, plane: &Plane) -> Vec<bool> {
    match plane.platform {
        Platform::Gpu | Platform::Tpu | Platform::OtherDevice => vec![true; trace.kinds().len()],
        Platform::Host | Platform::Other => trace.kinds().iter().map(|kind| kind.op.is_some()).collect(),
    }
}

/// The name of an event's op. Under command buffers all kernels of a module are one op, so there the kernel is the op.
pub(crate) fn op(trace: &Trace, kind: &Kind) -> Text {
    match kind.op {
        Some(op) if !is_command_buffer(trace.text(op)) => op,
        _ => kind.name,
    }
}
