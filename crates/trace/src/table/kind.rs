//! Kinds of events: all that identifies an event, without its times. Many events share one kind, and events are grouped
//! by kind.

use std::fmt;

use serde::{Serialize, Serializer};

use super::Text;

/// The number of a [`Kind`] in its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindId(pub(crate) u32);

impl KindId {
    /// The number as an index of tables with one entry per kind.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// All that identifies an event, without its times.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Kind {
    /// The name of the event; on GPU, the name of the kernel.
    pub name: Text,
    /// The display name, if the trace has one.
    pub display_name: Option<Text>,
    /// The compiled module that it belongs to: `hlo_module`.
    pub module: Option<Text>,
    /// Whether the module was found by time, on a plane with a line of modules, because the event does not name it.
    pub is_module_by_time: bool,
    /// The compilation of the module: `program_id`.
    pub program: Option<ProgramId>,
    /// The operation in the module: `hlo_op`.
    pub op: Option<Text>,
    /// The opcode of the op (`all-reduce`, `fusion`), if the trace has the compiled program. For an asynchronous start,
    /// the opcode of the op that it starts.
    pub opcode: Option<Text>,
    /// The named scopes around it, such as `jit(step)/layer_0/dot_general`, if the event names them.
    pub path: Option<Text>,
    /// The named scopes of its op in the compiled program. If one kernel serves several ops and it is unknown which of
    /// them ran, the scopes that they have in common.
    pub hlo_path: Option<Text>,
    /// The compiler's category: `hlo_category`.
    pub category: Option<Text>,
    /// The number of the device, on a plane with several devices: `device_ordinal`.
    pub device_ordinal: Option<i64>,
    /// Where the trace describes it, to read its stats.
    pub(crate) description: Description,
}

impl Kind {
    /// The named scopes around it, from the event itself, or else from the compiled program.
    #[must_use]
    pub fn scope_path(&self) -> Option<Text> {
        self.path.or(self.hlo_path)
    }
}

/// The location of the description of a kind in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Description {
    pub(crate) plane: u32,
    pub(crate) metadata_id: i64,
}

/// The number of a compilation. Traces have signed and unsigned numbers of 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramId(i128);

impl ProgramId {
    /// The number.
    #[must_use]
    pub const fn get(self) -> i128 {
        self.0
    }
}

impl From<i64> for ProgramId {
    fn from(number: i64) -> Self {
        Self(number.into())
    }
}

impl From<u64> for ProgramId {
    fn from(number: u64) -> Self {
        Self(number.into())
    }
}

impl fmt::Display for ProgramId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl Serialize for ProgramId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (i64::try_from(self.0), u64::try_from(self.0)) {
            (Ok(number), _) => serializer.serialize_i64(number),
            (Err(_), Ok(number)) => serializer.serialize_u64(number),
            (Err(_), Err(_)) => serializer.serialize_str(&self.0.to_string()),
        }
    }
}

/// Whether an op is a command buffer (a CUDA graph), which launches many ops at once.
pub(crate) fn is_command_buffer(op: &str) -> bool {
    op.strip_prefix("command_buffer").is_some_and(|rest| rest.is_empty() || rest.starts_with(['_', '.']))
}
