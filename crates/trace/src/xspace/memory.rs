//! Counts the memory that a trace takes, and stops reading at the limit.
//!
//! Two bytes of a file can declare an event, a line or a stat, and compressed they take almost nothing. Memory is
//! therefore counted before it is allocated, by what a part takes at most.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use super::event::Gathered;
use super::line::Head;
use crate::error::TraceError;
use crate::table::Ids;

/// The size of an event in the columns.
pub(super) const BYTES_PER_EVENT: usize = 20;

/// The memory of an event: its columns, the offset of every sixteenth event twice, and up to 43 bytes to compute times
/// (24 to sort it by start, 12 for the sort itself, and some for gaps and executions).
const EVENT_BYTES: usize = 64;
/// The memory of a plane: its names, its place in the maps, and its entry in the table.
pub(super) const PLANE_BYTES: u64 = 1024;
/// The memory of a line: its span, its header, its segment, and its entry in the table.
pub(super) const LINE_BYTES: u64 = 768;
/// The memory of a description, the name of a stat, a stat of a plane, or a host: an entry of a map or list that grows.
pub(super) const PART_BYTES: u64 = 96;
/// The memory of an error or warning of the profiler, which becomes a notice.
pub(super) const NOTICE_BYTES: u64 = 256;
/// The memory of a kind: the kind twice, its description, and its places in the maps.
const KIND_BYTES: u64 = 640;
/// The memory of a text, without its characters.
const TEXT_BYTES: u64 = 96;
/// How often the characters of a text are in memory: in the table, and in the rows or the page made of it.
const COPIES_OF_TEXT: u64 = 2;
/// The memory of an instruction or a computation of a compiled program: its fields in a list that grows, and its places
/// in the maps of names, positions and groups.
pub(super) const INSTRUCTION_BYTES: u64 = 384;

/// The memory that was counted so far.
#[derive(Debug)]
pub(super) struct Memory {
    limit: u64,
    used: AtomicU64,
}

impl Memory {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, used: AtomicU64::new(0) }
    }

    pub(super) fn add(&self, bytes: u64) {
        // A sum beyond `u64::MAX` would need more parts than a file can have.
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Stops counting memory that was freed.
    pub(super) fn subtract(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn is_exceeded(&self) -> bool {
        self.used.load(Ordering::Relaxed) > self.limit
    }

    /// Fails if more memory is needed than the limit.
    pub(super) fn check(&self) -> Result<(), TraceError> {
        let needed = self.used.load(Ordering::Relaxed);
        if needed > self.limit { Err(TraceError::TableTooLarge { needed, limit: self.limit }) } else { Ok(()) }
    }

    /// Counts the memory of the events, and checks that the system has that much.
    pub(super) fn add_events<'a>(&self, lines: impl Iterator<Item = &'a Head>) -> Result<(), TraceError> {
        let events: usize = lines.map(Head::events).sum();
        let bytes = events.saturating_mul(EVENT_BYTES);
        self.add(bytes as u64);
        self.check()?;
        // The columns are allocated as zeros, which costs nothing until they are written, but aborts the process if it
        // fails. Ask for the memory first, and a quarter more for all that follows.
        let mut probe: Vec<u8> = Vec::new();
        let is_there = probe.try_reserve_exact(bytes.saturating_add(bytes / 4)).is_ok();
        black_box(&mut probe);
        if is_there { Ok(()) } else { Err(TraceError::NoMemory { needed: bytes as u64 }) }
    }

    /// Counts the results of a chunk besides its columns. Ids and events without a time are copied once.
    pub(super) fn add_gathered(&self, gathered: &Gathered) {
        let Ids { run, scope, correlation, step } = &gathered.ids;
        let ids: usize = [run, scope, correlation, step].iter().map(|column| column.event.len()).sum();
        let copied = ids * (size_of::<u32>() + size_of::<i64>()) + size_of_val(&gathered.unplaced[..]);
        let rest = size_of_val(&gathered.kinds[..]) + size_of_val(&gathered.strings[..]);
        self.add((2 * copied + rest) as u64);
    }

    /// Counts a kind, without its texts.
    pub(super) fn add_kind(&self) {
        self.add(KIND_BYTES);
    }

    /// Counts a text of the table.
    pub(super) fn add_text(&self, characters: &str) {
        self.add(TEXT_BYTES + COPIES_OF_TEXT * characters.len() as u64);
    }
}
