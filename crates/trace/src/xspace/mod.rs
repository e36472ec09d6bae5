//! Reads `XSpace` files (`.xplane.pb`), which JAX, XLA and TensorFlow write, into the table of events.
//!
//! It finds the lines of a file first, then walks the lines and reads chunks of them in parallel. Descriptions may
//! follow the lines that use them, so names are looked up at the end, once per kind of event.

mod assembly;
mod event;
mod hlo;
mod hosts;
mod identity;
mod instructions;
mod layout;
mod line;
mod memory;
mod resolve;
mod session;
mod stats;

use rayon::prelude::*;

use crate::error::TraceError;
use crate::source::{Leniency, Limits, Source};
use crate::table::{Notice, Trace};

use assembly::Assembly;
use hosts::name_hosts;
use layout::{Layout, Loss, MOST_LINES, MOST_PLANES, lossy};
use line::Head;
use memory::Memory;
use session::SessionInfo;
use stats::{FilePlane, Files};

/// Options for reading traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOptions {
    /// How damage is treated.
    pub leniency: Leniency,
    /// Whether to read the ids that executions and steps are found by.
    pub ids: KeepIds,
    /// The lines to read.
    pub lines: KeepLines,
    /// The limit on the memory of the table of events, in bytes.
    pub max_table_bytes: u64,
}

/// The lines to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepLines {
    /// All lines.
    All,
    /// Only lines that may contain work of a device, without host threads on which no event names an op. This is faster
    /// and sufficient for ops, kernels and gaps.
    OfWork,
}

/// Whether to read the ids that connect events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepIds {
    /// Read ids, which executions and steps need.
    Yes,
    /// Skip ids, which is faster.
    No,
}

impl Default for ReadOptions {
    fn default() -> Self {
        let max_table_bytes = Limits::default().decompressed_bytes;
        Self { leniency: Leniency::Strict, ids: KeepIds::Yes, lines: KeepLines::All, max_table_bytes }
    }
}

/// The tags of the fields of a file: field number and wire type in one byte.
const PLANES: u8 = 0x0a;
const ERRORS: u8 = 0x12;
const WARNINGS: u8 = 0x1a;
const HOSTS: u8 = 0x22;

/// Reads `XSpace` files into one trace. See the [crate documentation](crate) for an example.
pub fn read(sources: Vec<Source>, options: &ReadOptions) -> Result<Trace, TraceError> {
    let memory = Memory::new(options.max_table_bytes);
    let mut notices = Vec::new();
    let mut files = Files { sources, planes: Vec::new() };
    let mut sessions: Vec<SessionInfo> = Vec::new();
    for (source, file) in files.sources.iter().enumerate() {
        let mut layout = read_layout(file, options, &memory, &mut notices)?;
        if options.lines == KeepLines::OfWork {
            layout.remove_threads_without_ops(file.bytes());
        }
        let first = sessions.len();
        for session in &layout.sessions {
            let host = session.hosts.first().map(|host| lossy(host.bytes(file.bytes())).into_owned());
            sessions.push(SessionInfo { source, host, ..SessionInfo::default() });
        }
        for mut plane in layout.planes {
            plane.session += first;
            sessions[plane.session].read_plane(file.bytes(), &plane, options.ids == KeepIds::Yes);
            files.planes.push(FilePlane { source, layout: plane });
        }
    }
    let heads = walk_lines(&files, options, &mut notices)?;
    let mut lines: Vec<Vec<(i64, usize)>> = vec![Vec::new(); sessions.len()];
    for (plane, heads) in files.planes.iter().zip(&heads) {
        let heads = heads.iter().filter(|head| head.events() > 0);
        lines[plane.layout.session].extend(heads.map(|head| (head.timestamp_ns(), head.events())));
    }
    for (info, lines) in sessions.iter_mut().zip(lines) {
        info.choose_base(lines);
    }
    name_hosts(&files.sources, &mut sessions);
    Assembly { files, sessions, heads, options, memory: &memory, notices }.finish()
}

fn read_layout<'a>(
    source: &'a Source,
    options: &ReadOptions,
    memory: &Memory,
    notices: &mut Vec<Notice>,
) -> Result<Layout<'a>, TraceError> {
    let (file, path) = (source.bytes(), source.path());
    if file.is_empty() {
        return Err(TraceError::Empty { file: path.to_owned() });
    }
    if let Some(cut) = source.cut() {
        notices.push(Notice::CutPacking { file: path.to_owned(), why: cut.to_string() });
    }
    if is_json(file) {
        return Err(TraceError::Json { file: path.to_owned() });
    }
    let layout = Layout::read(file, memory);
    memory.check()?;
    if layout.is_too_large() {
        return Err(TraceError::TooManyParts { file: path.to_owned(), planes: MOST_PLANES, lines: MOST_LINES });
    }
    if layout.planes.is_empty() {
        // A file that does not begin like a trace is something else, so its damage would be a confusing message.
        let begins = file.first().is_some_and(|tag| [PLANES, ERRORS, WARNINGS, HOSTS].contains(tag));
        return Err(match layout.losses.into_iter().next() {
            Some(Loss { part, damage, .. }) if begins => TraceError::Damaged { file: path.to_owned(), part, damage },
            _ => TraceError::NotATrace { file: path.to_owned() },
        });
    }
    report_losses(source, options, &layout.losses, notices)?;
    notices.extend(layout.errors.iter().map(|text| Notice::ProfilerError(lossy(text.bytes(file)).into_owned())));
    notices.extend(layout.warnings.iter().map(|text| Notice::ProfilerWarning(lossy(text.bytes(file)).into_owned())));
    Ok(layout)
}

/// Whether a file begins with JSON. A trace may also begin with a line break, but does not continue as text.
fn is_json(file: &[u8]) -> bool {
    let beginning = file.get(..64).unwrap_or(file);
    let is_text = beginning.iter().all(|byte| byte.is_ascii_whitespace() || !byte.is_ascii_control());
    is_text && matches!(file.trim_ascii_start(), [b'{' | b'[', ..])
}

fn report_losses<'a>(
    source: &Source,
    options: &ReadOptions,
    losses: impl IntoIterator<Item = &'a Loss>,
    notices: &mut Vec<Notice>,
) -> Result<(), TraceError> {
    for Loss { part, damage, bytes } in losses {
        let (file, part) = (source.path().to_owned(), part.clone());
        if options.leniency == Leniency::Strict {
            return Err(TraceError::Damaged { file, part, damage: *damage });
        }
        notices.push(Notice::Lost { file, part, damage: *damage, bytes: *bytes });
    }
    Ok(())
}

/// Walks all lines in parallel. The result has the lines of each plane in the files.
fn walk_lines(files: &Files, options: &ReadOptions, notices: &mut Vec<Notice>) -> Result<Vec<Vec<Head>>, TraceError> {
    let heads: Vec<Vec<Head>> = files
        .planes
        .par_iter()
        .map(|plane| {
            let file = files.sources[plane.source].bytes();
            plane.layout.lines.par_iter().map(|&line| Head::walk(file, line)).collect()
        })
        .collect();
    for (plane, heads) in files.planes.iter().zip(&heads) {
        let source = &files.sources[plane.source];
        let losses: Vec<Loss> = heads
            .iter()
            .zip(&plane.layout.lines)
            .enumerate()
            .filter_map(|(number, (head, line))| {
                let is_cut = number + 1 == heads.len();
                let damage = head.damage.or(plane.layout.cut.filter(|_| is_cut))?;
                let plane = plane.layout.part(source.bytes());
                let part = match head.name().bytes(source.bytes()) {
                    [] => format!("{plane}, line {}", head.id()),
                    name => format!("{plane}, line {}", lossy(name)),
                };
                Some(Loss { part, damage, bytes: (line.end - head.end) as u64 })
            })
            .collect();
        report_losses(source, options, &losses, notices)?;
    }
    Ok(heads)
}
