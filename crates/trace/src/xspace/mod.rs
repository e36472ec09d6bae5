//! `XSpace` files (`.xplane.pb`), as JAX, XLA and TensorFlow write them, into the table of events.
//!
//! The file is taken apart to its lines first; then lines are walked, and chunks of them read, in parallel. Descriptions
//! may stand behind the lines that use them, so names are looked up at the end, once a kind of event.

mod event;
mod hosts;
mod identity;
mod layout;
mod line;
mod resolve;
mod session;
mod stats;

use ergometer_units::Timestamp;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

use crate::error::TraceError;
use crate::source::{Leniency, Source};
use crate::table::{Ids, KindId, Line, Notice, Plane, Platform, Segment, Session, Strings, Text, Trace, Why, number};
use crate::wire::{Damage, Span};

use event::{Chunk, Columns, Gathered};
use hosts::name_hosts;
use identity::{Wanted, WantedStats};
use layout::{Layout, Loss, lossy};
use line::{Head, LANDMARK};
use resolve::Resolver;
use session::Facts;
use stats::{FilePlane, Files};

/// How to read traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOptions {
    /// What to do with damage.
    pub leniency: Leniency,
    /// Whether to read the numbers that executions and steps are found by.
    pub ids: KeepIds,
    /// How many events there may be.
    pub events: u64,
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
        Self { leniency: Leniency::Strict, ids: KeepIds::Yes, events: 500_000_000 }
    }
}

/// The fields of a file: number and type in one byte.
const PLANES: u8 = 0x0a;
const ERRORS: u8 = 0x12;
const WARNINGS: u8 = 0x1a;
const HOSTS: u8 = 0x22;

/// So many events are read by one task. A multiple of the landmarks' distance.
const CHUNK: usize = 1024 * LANDMARK;

/// Reads `XSpace` files into one trace.
pub fn read(sources: Vec<Source>, options: &ReadOptions) -> Result<Trace, TraceError> {
    let mut notices = Vec::new();
    let mut files = Files { sources, planes: Vec::new() };
    let mut sessions: Vec<Facts> = Vec::new();
    for (source, file) in files.sources.iter().enumerate() {
        let layout = lay_out(file, options, &mut notices)?;
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
        let heads = heads.iter().filter(|head| head.events > 0);
        lines[plane.layout.session].extend(heads.map(|head| (head.timestamp_ns, head.events)));
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
    let layout = Layout::of(file);
    if layout.planes.is_empty() && matches!(file.trim_ascii_start(), [b'{' | b'[', ..]) {
        return Err(TraceError::Json { file: path.to_owned() });
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
                let part = match head.name.of(source.bytes()) {
                    [] => format!("{plane}, line {}", head.id),
                    name => format!("{plane}, line {}", lossy(name)),
                };
                Some(Loss { part, damage, bytes: (line.end - head.end) as u64 })
            })
            .collect();
        report_losses(source, options, &losses, notices)?;
    }
    Ok(heads)
}

/// A trace while its events are read.
struct Assembly<'a> {
    files: Files,
    sessions: Vec<Facts>,
    heads: Vec<Vec<Head>>,
    options: &'a ReadOptions,
    notices: Vec<Notice>,
}

/// One chunk of events to read, and where they go.
struct Task<'a> {
    chunk: Chunk<'a>,
    columns: Columns<'a>,
    /// Plane and line of the table, first event there, plane of the files.
    plane: usize,
    line: usize,
    first: usize,
    file_plane: usize,
}

impl Assembly<'_> {
    fn finish(mut self) -> Result<Trace, TraceError> {
        let events: u64 = self.heads.iter().flatten().map(|head| head.events as u64).sum();
        let most = self.options.events.min(u64::from(u32::MAX));
        if events > most {
            return Err(TraceError::TooManyEvents { events, limit: most });
        }
        let mut resolver = Resolver::default();
        let zero_ns = self.zero_ns();
        let mut planes = self.planes(&mut resolver);
        self.read_events(&mut planes, &mut resolver, zero_ns)?;
        self.check(&planes, &resolver);
        let strings = &mut resolver.strings;
        let sessions = self.sessions.iter_mut().map(|facts| session(facts, strings)).collect();
        for (number, source) in self.files.sources.iter().enumerate() {
            if !self.sessions.iter().any(|facts| facts.source == number && facts.events > 0) {
                self.notices.push(Notice::NoEvents { file: source.path().to_owned() });
            }
        }
        let mut trace = Trace {
            strings: resolver.strings,
            kinds: resolver.kinds,
            planes,
            sessions,
            zero: zero_ns.map(Timestamp::from_nanos_since_epoch),
            notices: self.notices,
            details: Box::new(self.files),
        };
        trace.name_modules();
        Ok(trace)
    }

    /// The wall time all starts count from: the first session's.
    fn zero_ns(&mut self) -> Option<i64> {
        let zero = self.sessions.iter().filter_map(|facts| facts.epoch_ns).min()?;
        let timeless = self.sessions.iter().filter(|facts| facts.epoch_ns.is_none() && facts.events > 0);
        let mut timeless: Vec<usize> = timeless.map(|facts| facts.source).collect();
        timeless.dedup();
        for source in timeless {
            let file = self.files.sources[source].path().to_owned();
            self.notices.push(Notice::NoEpoch { file });
        }
        Some(zero)
    }

    /// The planes and lines of the table, with room for the events of each.
    fn planes(&self, resolver: &mut Resolver) -> Vec<Plane> {
        let mut planes: Vec<Plane> = Vec::new();
        let mut plane_places: FxHashMap<(Option<Text>, Text), usize> = FxHashMap::default();
        let mut line_places: FxHashMap<(usize, i64), usize> = FxHashMap::default();
        for (file_plane, (plane, heads)) in self.files.planes.iter().zip(&self.heads).enumerate() {
            let file = self.files.sources[plane.source].bytes();
            let name = resolver.text(plane.layout.name.of(file));
            let host = self.sessions[plane.layout.session].host.as_deref().map(|host| resolver.strings.intern(host));
            let place = *plane_places.entry((host, name)).or_insert_with(|| {
                let platform = Platform::of(resolver.strings.get(name));
                planes.push(Plane { name, host, platform, lines: Vec::new(), parts: Vec::new() });
                planes.len() - 1
            });
            let target = &mut planes[place];
            target.parts.push(number(file_plane));
            for head in heads {
                let line_place = *line_places.entry((place, head.id)).or_insert_with(|| {
                    target.lines.push(Line {
                        id: head.id,
                        name: resolver.text(head.name.of(file)),
                        display_name: head.display_name.map(|name| resolver.text(name.of(file))),
                        start_ps: Vec::new(),
                        duration_ps: Vec::new(),
                        kind: Vec::new(),
                        unplaced: Vec::new(),
                        segments: Vec::new(),
                        ids: Ids::default(),
                    });
                    target.lines.len() - 1
                });
                let line = &mut target.lines[line_place];
                let first = line.segments.last().map_or(0, |segment| segment.events.end);
                line.segments.push(Segment {
                    session: number(plane.layout.session),
                    plane: number(file_plane),
                    events: first..first + head.events,
                    landmarks: head.landmarks.clone(),
                    end: head.end,
                    timestamp_ns: head.timestamp_ns,
                });
            }
        }
        for line in planes.iter_mut().flat_map(|plane| &mut plane.lines) {
            let events = line.segments.last().map_or(0, |segment| segment.events.end);
            line.start_ps = vec![0; events];
            line.duration_ps = vec![0; events];
            line.kind = vec![KindId(0); events];
        }
        planes
    }

    fn read_events(
        &mut self,
        planes: &mut [Plane],
        resolver: &mut Resolver,
        zero_ns: Option<i64>,
    ) -> Result<(), TraceError> {
        let wanted: Vec<WantedStats> = self.files.planes.iter().map(|plane| self.wanted(plane)).collect();
        let mut tasks = Vec::new();
        for (plane_number, plane) in planes.iter_mut().enumerate() {
            for (line_number, line) in plane.lines.iter_mut().enumerate() {
                let (mut starts, mut durations, mut kinds) =
                    (&mut line.start_ps[..], &mut line.duration_ps[..], &mut line.kind[..]);
                for segment in &line.segments {
                    let file_plane = segment.plane as usize;
                    let FilePlane { source, layout } = &self.files.planes[file_plane];
                    let facts = &self.sessions[segment.session as usize];
                    let base_ps = base_ps(facts, segment.timestamp_ns, zero_ns);
                    let mut first = segment.events.start;
                    while first < segment.events.end {
                        let length = CHUNK.min(segment.events.end - first);
                        let landmark = (first - segment.events.start) / LANDMARK;
                        let end = segment.landmarks.get(landmark + CHUNK / LANDMARK).copied().unwrap_or(segment.end);
                        let columns = Columns {
                            start_ps: starts.split_off_mut(..length).unwrap_or_default(),
                            duration_ps: durations.split_off_mut(..length).unwrap_or_default(),
                            kind: kinds.split_off_mut(..length).unwrap_or_default(),
                        };
                        let chunk = Chunk {
                            file: self.files.sources[*source].bytes(),
                            bytes: Span { start: segment.landmarks[landmark], end },
                            base_ps,
                            wanted: &wanted[file_plane],
                            largest_metadata: layout.largest_metadata,
                        };
                        tasks.push(Task { chunk, columns, plane: plane_number, line: line_number, first, file_plane });
                        first += length;
                    }
                }
            }
        }
        let (sources, planes_of_files) = (&self.files.sources, &self.files.planes);
        let done: Vec<(Gathered, &mut [KindId], [usize; 4])> = tasks
            .into_par_iter()
            .map(|task| {
                let Task { chunk, columns: Columns { start_ps, duration_ps, kind }, plane, line, first, file_plane } =
                    task;
                let gathered = chunk.read(Columns { start_ps, duration_ps, kind: &mut *kind });
                sources[planes_of_files[file_plane].source].release(chunk.bytes.start..chunk.bytes.end);
                (gathered, kind, [plane, line, first, file_plane])
            })
            .collect();
        let mut rests = Vec::with_capacity(done.len());
        let mut renamed = Vec::with_capacity(done.len());
        for (gathered, kind, place) in done {
            let FilePlane { source, layout } = &self.files.planes[place[3]];
            let file = self.files.sources[*source].bytes();
            renamed.push((kind, resolver.resolve(file, layout, number(place[3]), &gathered)));
            rests.push((gathered, place));
        }
        renamed.into_par_iter().for_each(|(kinds, names)| {
            for kind in kinds {
                *kind = names[kind.index()];
            }
        });
        self.keep_rests(planes, &rests)
    }

    fn keep_rests(&mut self, planes: &mut [Plane], rests: &[(Gathered, [usize; 4])]) -> Result<(), TraceError> {
        let mut negative = 0;
        let mut damaged = None;
        for (gathered, [plane, line, first, file_plane]) in rests {
            if let Some(damage) = gathered.first_damage {
                self.tolerate(*file_plane, damage)?;
                damaged.get_or_insert(damage);
            }
            let (line, offset) = (&mut planes[*plane].lines[*line], number(*first));
            line.ids.run.extend_from(&gathered.ids.run, offset);
            line.ids.scope.extend_from(&gathered.ids.scope, offset);
            line.ids.correlation.extend_from(&gathered.ids.correlation, offset);
            line.ids.step.extend_from(&gathered.ids.step, offset);
            line.unplaced.extend(gathered.unplaced.iter().map(|unplaced| {
                let mut unplaced = *unplaced;
                unplaced.event += offset;
                unplaced
            }));
            negative += gathered.negative_durations;
        }
        if let Some(first) = damaged {
            let lines = planes.iter().flat_map(|plane| &plane.lines).flat_map(|line| &line.unplaced);
            let count = lines.filter(|unplaced| unplaced.why == Why::Damaged).count() as u64;
            self.notices.push(Notice::DamagedEvents { count, first });
        }
        if negative > 0 {
            self.notices.push(Notice::NegativeDurations(negative));
        }
        Ok(())
    }

    /// Refuses a damaged event, unless leniency was asked for.
    fn tolerate(&self, file_plane: usize, damage: Damage) -> Result<(), TraceError> {
        if self.options.leniency == Leniency::KeepWhole {
            return Ok(());
        }
        let FilePlane { source, layout } = &self.files.planes[file_plane];
        let source = &self.files.sources[*source];
        let part = format!("an event of {}", layout.part(source.bytes()));
        Err(TraceError::Damaged { file: source.path().to_owned(), part, damage })
    }

    fn wanted(&self, plane: &FilePlane) -> WantedStats {
        let file = self.files.sources[plane.source].bytes();
        WantedStats::new(plane.layout.stat_names.iter().filter_map(|(&id, name)| {
            let wanted = Wanted::of(name.of(file))?;
            (wanted.is_identity() || self.options.ids == KeepIds::Yes).then_some((id, wanted))
        }))
    }

    fn check(&mut self, planes: &[Plane], resolver: &Resolver) {
        let lines = || planes.iter().flat_map(|plane| &plane.lines);
        let count = |what: fn(Why) -> bool| {
            lines().flat_map(|line| &line.unplaced).filter(|unplaced| what(unplaced.why)).count() as u64
        };
        let out_of_range = count(|why| why == Why::OutOfRange);
        let aggregated = count(|why| matches!(why, Why::Aggregated(_)));
        if out_of_range > 0 {
            self.notices.push(Notice::OutOfRange(out_of_range));
        }
        if aggregated > 0 {
            self.notices.push(Notice::Aggregated(aggregated));
        }
        if !resolver.undescribed.is_empty() {
            let events = lines().flat_map(|line| &line.kind).filter(|kind| resolver.undescribed.contains(kind));
            self.notices.push(Notice::Undescribed(events.count() as u64));
        }
    }
}

/// Where a line's offsets begin, from the trace's zero; `None` where that is no number of picoseconds.
fn base_ps(facts: &Facts, timestamp_ns: i64, zero_ns: Option<i64>) -> Option<i64> {
    let shift = match (facts.epoch_ns, zero_ns) {
        (Some(epoch), Some(zero)) => i128::from(epoch) - i128::from(zero),
        _ => 0,
    };
    let base = (i128::from(timestamp_ns) - i128::from(facts.base_ns) + shift) * 1000;
    i64::try_from(base).ok()
}

fn session(facts: &mut Facts, strings: &mut Strings) -> Session {
    Session {
        host: facts.host.as_deref().map(|host| strings.intern(host)),
        started: facts.started,
        stopped: facts.stopped,
        scope_parents: std::mem::take(&mut facts.scope_parents),
    }
}
