//! `XSpace` files (`.xplane.pb`), as JAX, XLA and TensorFlow write them, into the table of events.
//!
//! The file is taken apart to its lines first; then lines are walked, and chunks of them read, in parallel. Descriptions
//! may stand behind the lines that use them, so names are looked up at the end, once a kind of event.

mod assembly;
mod event;
mod hlo;
mod hosts;
mod identity;
mod instructions;
mod layout;
mod line;
mod resolve;
mod session;
mod stats;

use rayon::prelude::*;

use crate::error::TraceError;
use crate::source::{Leniency, Source};
use crate::table::{Notice, Trace};

use assembly::Assembly;
use hosts::name_hosts;
use layout::{Layout, Loss, MOST_LINES, MOST_PLANES, lossy};
use line::Head;
use session::Facts;
use stats::{FilePlane, Files};

/// How to read traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOptions {
    /// What to do with damage.
    pub leniency: Leniency,
    /// Whether to read the numbers that executions and steps are found by.
    pub ids: KeepIds,
    /// Which lines to read.
    pub lines: KeepLines,
    /// How many events there may be.
    pub max_events: u64,
}

/// Which lines to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepLines {
    /// All.
    All,
    /// Those that may have work of a device: threads of a host on which no event names an op are left out. Faster, and
    /// enough for ops, kernels and gaps.
    OfWork,
}

/// Whether to read the numbers that tie events together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepIds {
    /// They are read: executions and steps can be told apart.
    Yes,
    /// They are not, which is faster.
    No,
}

impl Default for ReadOptions {
    fn default() -> Self {
        // Twenty bytes an event: 10 GB.
        Self { leniency: Leniency::Strict, ids: KeepIds::Yes, lines: KeepLines::All, max_events: 500_000_000 }
    }
}

/// The fields of a file: number and type in one byte.
const PLANES: u8 = 0x0a;
const ERRORS: u8 = 0x12;
const WARNINGS: u8 = 0x1a;
const HOSTS: u8 = 0x22;

/// Reads `XSpace` files into one trace.
pub fn read(sources: Vec<Source>, options: &ReadOptions) -> Result<Trace, TraceError> {
    let mut notices = Vec::new();
    let mut files = Files { sources, planes: Vec::new() };
    let mut sessions: Vec<Facts> = Vec::new();
    for (source, file) in files.sources.iter().enumerate() {
        let mut layout = lay_out(file, options, &mut notices)?;
        if options.lines == KeepLines::OfWork {
            layout.leave_idle_threads(file.bytes());
        }
        let first = sessions.len();
        for session in &layout.sessions {
            let host = session.hosts.first().map(|host| lossy(host.of(file.bytes())).into_owned());
            sessions.push(Facts { source, host, ..Facts::default() });
        }
        for mut plane in layout.planes {
            plane.session += first;
            sessions[plane.session].learn(file.bytes(), &plane, options.ids == KeepIds::Yes);
            files.planes.push(FilePlane { source, layout: plane });
        }
    }
    let heads = walk_lines(&files, options, &mut notices)?;
    let mut lines: Vec<Vec<(i64, usize)>> = vec![Vec::new(); sessions.len()];
    for (plane, heads) in files.planes.iter().zip(&heads) {
        let heads = heads.iter().filter(|head| head.events() > 0);
        lines[plane.layout.session].extend(heads.map(|head| (head.timestamp_ns(), head.events())));
    }
    for (facts, lines) in sessions.iter_mut().zip(lines) {
        facts.settle(lines);
    }
    name_hosts(&files.sources, &mut sessions);
    Assembly { files, sessions, heads, options, notices }.finish()
}

fn lay_out(source: &Source, options: &ReadOptions, notices: &mut Vec<Notice>) -> Result<Layout, TraceError> {
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
    let layout = Layout::of(file);
    if layout.is_too_large() {
        return Err(TraceError::TooManyParts { file: path.to_owned(), planes: MOST_PLANES, lines: MOST_LINES });
    }
    if layout.planes.is_empty() {
        // What does not even begin like a trace is something else; the damage would be a riddle.
        let begins = file.first().is_some_and(|tag| [PLANES, ERRORS, WARNINGS, HOSTS].contains(tag));
        return Err(match layout.losses.into_iter().next() {
            Some(Loss { part, damage, .. }) if begins => TraceError::Damaged { file: path.to_owned(), part, damage },
            _ => TraceError::NotATrace { file: path.to_owned() },
        });
    }
    report_losses(source, options, &layout.losses, notices)?;
    notices.extend(layout.errors.iter().map(|text| Notice::ProfilerError(lossy(text.of(file)).into_owned())));
    notices.extend(layout.warnings.iter().map(|text| Notice::ProfilerWarning(lossy(text.of(file)).into_owned())));
    Ok(layout)
}

/// Whether a file is text that begins as JSON does. A line break is also how a trace begins, but no trace goes on as text.
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

/// Walks all lines, in parallel; the heads are by plane of the files.
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
                let part = match head.name().of(source.bytes()) {
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
