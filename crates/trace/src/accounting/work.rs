//! Decides which events of a plane are work of its device, and names their ops, on every platform.
//!
//! Work is the events on streams on GPU, the events on the line of ops on TPU, and the events that name an op on a
//! host.

use crate::table::{Kind, Line, MODULES_LINE, Plane, Platform, Text, Trace, is_command_buffer};

/// The role of a line on its plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Its events are work.
    Work,
    /// Each event is one execution of a module.
    Modules,
    /// Its events are steps.
    Steps,
    /// Its events summarize other lines. Profile viewers add such lines to a trace.
    Derived,
}

impl Role {
    /// The role of a line, by its name and its platform.
    #[must_use]
    pub fn from_line(trace: &Trace, plane: &Plane, line: &Line) -> Self {
        if plane.platform == Platform::Host {
            return Self::Work;
        }
        match trace.text(line.name) {
            MODULES_LINE => Self::Modules,
            "Steps" => Self::Steps,
            // On TPU these are the ops themselves. On GPU the kernels are the work, and this line was added later.
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

/// For each kind of the trace, whether its events are work on this plane.
#[must_use]
pub fn kinds_of_work(trace: &Trace, plane: &Plane) -> Vec<bool> {
    match plane.platform {
        Platform::Gpu | Platform::Tpu | Platform::OtherDevice => vec![true; trace.kinds().len()],
        Platform::Host | Platform::Other => trace.kinds().iter().map(|kind| kind.op.is_some()).collect(),
    }
}

/// The name of the op of an event. In a command buffer all kernels of a module have the same op, so the name is that of
/// the kernel.
pub(crate) fn op(trace: &Trace, kind: &Kind) -> Text {
    match kind.op {
        Some(op) if !is_command_buffer(trace.text(op)) => op,
        _ => kind.name,
    }
}
