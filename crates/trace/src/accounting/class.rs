//! Classifies events as compute, communication or memory copies.

use serde::Serialize;

use crate::table::{Kind, Trace};

/// The class of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Computation: everything that is neither communication nor a copy.
    Compute,
    /// Communication with other devices: collectives, sends and receives.
    Communication,
    /// Copying or setting memory of the device or the host.
    Memcpy,
}

impl Class {
    /// All classes.
    pub const ALL: [Self; 3] = [Self::Compute, Self::Communication, Self::Memcpy];

    /// Its name in tables and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Communication => "communication",
            Self::Memcpy => "memcpy",
        }
    }

    /// Its name in text for people: the class memcpy includes memset.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Memcpy => "memcpy/memset",
            other => other.name(),
        }
    }

    /// The class by the opcode, or else by the names of the event, its op and its category. A fusion is named after
    /// what it computes, so only whole words at the beginning count.
    pub(crate) fn from_kind(trace: &Trace, kind: &Kind) -> Self {
        if let Some(class) = kind.opcode.and_then(|opcode| Self::from_opcode(trace.text(opcode))) {
            return class;
        }
        let primitives = if kind.opcode.is_none() { &PRIMITIVES[..] } else { &[] };
        let names = [kind.category, kind.op, Some(kind.name)];
        let names = names.iter().flatten().map(|&text| words(trace.text(text)));
        let mut class = Self::Compute;
        for name in names {
            if COMMUNICATION.iter().chain(primitives).any(|known| begins_with(&name, known)) {
                return Self::Communication;
            }
            if MEMCPY.iter().any(|known| begins_with(&name, known)) {
                class = Self::Memcpy;
            }
        }
        class
    }

    /// The class of an opcode; `None` for opcodes that may do anything, such as fusions.
    fn from_opcode(opcode: &str) -> Option<Self> {
        let started = opcode.strip_suffix("-start").or(opcode.strip_suffix("-done"));
        match started.unwrap_or(opcode) {
            "copy" if started.is_some() => Some(Self::Memcpy),
            "all-reduce"
            | "all-gather"
            | "all-to-all"
            | "reduce-scatter"
            | "collective-permute"
            | "collective-broadcast"
            | "ragged-all-to-all"
            | "send"
            | "recv" => Some(Self::Communication),
            "infeed" | "outfeed" => Some(Self::Memcpy),
            _ => None,
        }
    }
}

/// Converts to lower case, with `-` between words: XLA writes `all-reduce-start.3`, CUPTI `MemcpyH2D`, kernels
/// `all_reduce`.
fn words(name: &str) -> String {
    name.chars().map(|character| if character == '_' { '-' } else { character.to_ascii_lowercase() }).collect()
}

fn begins_with(name: &str, known: &str) -> bool {
    name.strip_prefix(known).is_some_and(|rest| {
        known.ends_with('*') || !rest.starts_with(|character: char| character.is_ascii_alphabetic())
    }) || known.strip_suffix('*').is_some_and(|known| name.starts_with(known))
}

/// The collectives of XLA's HLO, and the kernels of NCCL, RCCL and NVSHMEM.
const COMMUNICATION: [&str; 16] = [
    "all-reduce",
    "all-gather",
    "all-to-all",
    "reduce-scatter",
    "collective-permute",
    "collective-broadcast",
    "ragged-all-to-all",
    "partition-id",
    "send",
    "send-done",
    "recv",
    "recv-done",
    "nccl*",
    "rccl*",
    "nvshmem*",
    "async-collective*",
];

/// The names of collectives in JAX. XLA also names other ops after them, so they count only if the opcode is unknown.
const PRIMITIVES: [&str; 6] = ["psum", "pmax", "pmin", "ppermute", "pbroadcast", "pgather"];

/// Copies and fills with the names of CUPTI, asynchronous copies of HLO, and transfers to and from the host.
const MEMCPY: [&str; 8] =
    ["memcpy*", "memset*", "copy-start", "copy-done", "infeed", "outfeed", "host-transfer*", "async-copy*"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_matched_by_whole_words() {
        for (name, known) in [
            ("all-reduce-start.3", "all-reduce"),
            ("all-reduce", "all-reduce"),
            ("ncclDevKernel_AllReduce_Sum_f32", "nccl*"),
            ("MemcpyH2D", "memcpy*"),
            ("Memset 3", "memset*"),
            ("send.1", "send"),
        ] {
            assert!(begins_with(&words(name), known), "{name}");
        }
        for (name, known) in [("sender_fusion", "send"), ("loop_all_reduce_fusion", "all-reduce"), ("recvx", "recv")] {
            assert!(!begins_with(&words(name), known), "{name}");
        }
    }

    #[test]
    fn the_opcode_counts_before_the_name() {
        for (opcode, class) in [
            ("all-reduce", Some(Class::Communication)),
            ("all-gather-start", Some(Class::Communication)),
            ("collective-permute-done", Some(Class::Communication)),
            ("recv-done", Some(Class::Communication)),
            ("copy-start", Some(Class::Memcpy)),
            ("outfeed", Some(Class::Memcpy)),
            ("copy", None),
            ("fusion", None),
        ] {
            assert_eq!(Class::from_opcode(opcode), class, "{opcode}");
        }
    }

    #[test]
    fn names_of_primitives_count_only_without_an_opcode() {
        let named = |name: &str| PRIMITIVES.iter().any(|known| begins_with(&words(name), known));
        for name in ["psum.3", "psum_invariant.7", "psum_scatter.1", "ppermute.3", "pmax"] {
            assert!(named(name), "{name}");
        }
        assert!(!named("psummary") && !named("pmaximum_fusion"));
    }
}
