//! What an event is, apart from when: many events share one kind, and every grouping is a grouping of kinds.

use std::fmt;

use serde::{Serialize, Serializer};

use super::Text;

/// The place of a [`Kind`] in its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindId(pub(crate) u32);

impl KindId {
    /// As an index of tables that have one entry a kind.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What an event is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Kind {
    /// The event's own name; on GPU that of the kernel.
    pub name: Text,
    /// A name for people, where the trace has one.
    pub display_name: Option<Text>,
    /// The compiled module it is part of: `hlo_module`.
    pub module: Option<Text>,
    /// Whether it does not name its module itself: it runs in it, on a plane that has a line of modules.
    pub is_module_by_time: bool,
    /// Which compilation of the module: `program_id`.
    pub program: Option<ProgramId>,
    /// The operation in the module: `hlo_op`.
    pub op: Option<Text>,
    /// What the op does, where the trace has the compiled program: `all-reduce`, `fusion`. Of an asynchronous start, what it
    /// starts.
    pub opcode: Option<Text>,
    /// The named scopes it stands in, as in `jit(step)/layer_0/dot_general`, where the event says them.
    pub path: Option<Text>,
    /// The named scopes of its op in the compiled program. Where one kernel serves several ops and nothing tells which of them
    /// ran, those that all of them stand in.
    pub hlo_path: Option<Text>,
    /// The compiler's category: `hlo_category`.
    pub category: Option<Text>,
    /// Which device of a host that has several on one plane: `device_ordinal`.
    pub device_ordinal: Option<i64>,
    /// Where the trace describes it, for its details.
    pub(crate) description: Description,
}

impl Kind {
    /// The named scopes it stands in: what the event says itself, or else its compiled program.
    #[must_use]
    pub fn scope_path(&self) -> Option<Text> {
        self.path.or(self.hlo_path)
    }
}

/// Where a kind is described: a number the reader understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Description {
    pub(crate) plane: u32,
    pub(crate) metadata_id: i64,
}

/// The number of a compilation. Traces have both signed and unsigned ones of 64 bits.
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

/// Whether an op stands for the many that a command buffer (a CUDA graph) launches at once.
pub(crate) fn is_command_buffer(op: &str) -> bool {
    op.strip_prefix("command_buffer").is_some_and(|rest| rest.is_empty() || rest.starts_with(['_', '.']))
}
