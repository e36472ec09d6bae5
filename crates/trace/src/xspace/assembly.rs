//! Builds the table of events: allocates the columns, reads chunks of lines into them in parallel, then resolves names.

use ergometer_units::Timestamp;
use foldhash::HashMap;
use rayon::prelude::*;

use super::event::{Chunk, Columns, Gathered};
use super::identity::{KnownStat, KnownStats};
use super::instructions::name_instructions;
use super::line::{Head, LANDMARK};
use super::memory::{BYTES_PER_EVENT, Memory};
use super::resolve::Resolver;
use super::session::SessionInfo;
use super::stats::{FilePlane, Files};
use super::{KeepIds, ReadOptions};
use crate::error::TraceError;
use crate::source::Leniency;
use crate::table::{
    Ids, KindId, Line, Notice, Plane, Platform, Segment, Session, Strings, Text, Trace, UnplacedReason, number,
};
use crate::wire::{Damage, Span};

/// The number of events that one task reads; a multiple of the distance of landmarks.
const CHUNK: usize = 1024 * LANDMARK;

/// A trace while its events are read.
pub(super) struct Assembly<'a> {
    pub(super) files: Files,
    pub(super) sessions: Vec<SessionInfo>,
    /// The lines of each plane in the files.
    pub(super) heads: Vec<Vec<Head>>,
    pub(super) options: &'a ReadOptions,
    pub(super) memory: &'a Memory,
    pub(super) notices: Vec<Notice>,
}

/// A chunk of events to read, and the columns to write.
struct Task<'a> {
    chunk: Chunk<'a>,
    columns: Columns<'a>,
    position: ChunkPosition,
}

/// The position of a chunk: plane and line in the table, the index of its first event, and the plane in the files.
#[derive(Debug, Clone, Copy)]
struct ChunkPosition {
    plane: usize,
    line: usize,
    first: usize,
    file_plane: usize,
}

/// A chunk that was read; its kinds still have the numbers of the chunk.
struct ChunkResult<'a> {
    gathered: Gathered,
    kinds: &'a mut [KindId],
    position: ChunkPosition,
}

impl Assembly<'_> {
    pub(super) fn finish(mut self) -> Result<Trace, TraceError> {
        let events: u64 = self.heads.iter().flatten().map(|head| head.events() as u64).sum();
        let limit = u64::from(u32::MAX);
        if events > limit {
            return Err(TraceError::TooManyEvents { events, limit });
        }
        self.memory.add_events(self.heads.iter().flatten())?;
        let mut resolver = Resolver::new(self.memory);
        let zero_ns = self.zero_ns();
        let mut planes = self.planes(&mut resolver)?;
        self.read_events(&mut planes, &mut resolver, zero_ns)?;
        self.check(&planes, &resolver);
        let strings = &mut resolver.strings;
        let sessions = self.sessions.iter_mut().map(|info| session(info, strings)).collect();
        for (number, source) in self.files.sources.iter().enumerate() {
            if !self.sessions.iter().any(|info| info.source == number && info.events > 0) {
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
            details: Box::new(Files { sources: Vec::new(), planes: Vec::new() }),
        };
        trace.name_modules();
        name_instructions(&mut trace, &self.files, self.memory)?;
        trace.details = Box::new(self.files);
        Ok(trace)
    }

    /// The wall-clock time that all starts count from: the start of the first session.
    fn zero_ns(&mut self) -> Option<i64> {
        let zero = self.sessions.iter().filter_map(|info| info.epoch_ns).min()?;
        let timeless = self.sessions.iter().filter(|info| info.epoch_ns.is_none() && info.events > 0);
        let mut timeless: Vec<usize> = timeless.map(|info| info.source).collect();
        timeless.dedup();
        for source in timeless {
            let file = self.files.sources[source].path().to_owned();
            self.notices.push(Notice::NoEpoch { file });
        }
        Some(zero)
    }

    /// The planes and lines of the table, with allocated columns.
    fn planes(&self, resolver: &mut Resolver<'_>) -> Result<Vec<Plane>, TraceError> {
        let mut planes: Vec<Plane> = Vec::new();
        let mut plane_places: HashMap<(Option<Text>, Text), usize> = HashMap::default();
        let mut line_places: HashMap<(usize, i64), usize> = HashMap::default();
        for (file_plane, (plane, heads)) in self.files.planes.iter().zip(&self.heads).enumerate() {
            let file = self.files.sources[plane.source].bytes();
            let name = resolver.text(plane.layout.name.bytes(file));
            let host = self.sessions[plane.layout.session].host.as_deref().map(|host| resolver.intern(host));
            let place = *plane_places.entry((host, name)).or_insert_with(|| {
                let platform = Platform::from_plane_name(resolver.strings.get(name));
                planes.push(Plane { name, host, platform, lines: Vec::new(), parts: Vec::new() });
                planes.len() - 1
            });
            let target = &mut planes[place];
            target.parts.push(number(file_plane));
            for head in heads {
                self.memory.check()?;
                let line_place = *line_places.entry((place, head.id())).or_insert_with(|| {
                    target.lines.push(Line {
                        id: head.id(),
                        name: resolver.text(head.name().bytes(file)),
                        display_name: head.display_name().map(|name| resolver.text(name.bytes(file))),
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
                for run in &head.runs {
                    let first = line.segments.last().map_or(0, |segment| segment.events.end);
                    line.segments.push(Segment {
                        session: number(plane.layout.session),
                        plane: number(file_plane),
                        events: first..first + run.events,
                        landmarks: run.landmarks.clone(),
                        end: run.end,
                        timestamp_ns: head.timestamp_ns(),
                    });
                }
            }
        }
        for line in planes.iter_mut().flat_map(|plane| &mut plane.lines) {
            let events = line.segments.last().map_or(0, |segment| segment.events.end);
            line.start_ps = vec![0; events];
            line.duration_ps = vec![0; events];
            line.kind = vec![KindId(0); events];
        }
        Ok(planes)
    }

    fn read_events(
        &mut self,
        planes: &mut [Plane],
        resolver: &mut Resolver<'_>,
        zero_ns: Option<i64>,
    ) -> Result<(), TraceError> {
        let known_stats: Vec<KnownStats> = self.files.planes.iter().map(|plane| self.known_stats(plane)).collect();
        let mut tasks = Vec::new();
        for (plane_number, plane) in planes.iter_mut().enumerate() {
            for (line_number, line) in plane.lines.iter_mut().enumerate() {
                let (mut starts, mut durations, mut kinds) =
                    (&mut line.start_ps[..], &mut line.duration_ps[..], &mut line.kind[..]);
                for segment in &line.segments {
                    let file_plane = segment.plane as usize;
                    let FilePlane { source, layout } = &self.files.planes[file_plane];
                    let info = &self.sessions[segment.session as usize];
                    let base_ps = base_ps(info, segment.timestamp_ns, zero_ns);
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
                            known_stats: &known_stats[file_plane],
                            largest_metadata: layout.largest_metadata,
                        };
                        let position = ChunkPosition { plane: plane_number, line: line_number, first, file_plane };
                        tasks.push(Task { chunk, columns, position });
                        first += length;
                    }
                }
            }
        }
        let (sources, file_planes, memory) = (&self.files.sources, &self.files.planes, self.memory);
        // With short events, the columns are nearly as large as the file. Releasing pages takes time, so other files
        // keep them.
        let events: usize = self.heads.iter().flatten().map(Head::events).sum();
        let bytes: usize = sources.iter().map(|source| source.bytes().len()).sum();
        let is_memory_scarce = 2 * BYTES_PER_EVENT * events > bytes;
        let done: Vec<ChunkResult<'_>> = tasks
            .into_par_iter()
            .map(|Task { chunk, columns: Columns { start_ps, duration_ps, kind: kinds }, position }| {
                // The other chunks do not matter if the limit is reached.
                let gathered = if memory.is_exceeded() {
                    Gathered::default()
                } else {
                    chunk.read(Columns { start_ps, duration_ps, kind: &mut *kinds })
                };
                memory.add_gathered(&gathered);
                if is_memory_scarce {
                    sources[file_planes[position.file_plane].source].release(chunk.bytes.start..chunk.bytes.end);
                }
                ChunkResult { gathered, kinds, position }
            })
            .collect();
        memory.check()?;
        let mut rests = Vec::with_capacity(done.len());
        let mut renamed = Vec::with_capacity(done.len());
        for ChunkResult { gathered, kinds, position } in done {
            let FilePlane { source, layout } = &self.files.planes[position.file_plane];
            let file = self.files.sources[*source].bytes();
            renamed.push((kinds, resolver.resolve(file, layout, number(position.file_plane), &gathered)?));
            rests.push((gathered, position));
        }
        renamed.into_par_iter().for_each(|(kinds, names)| {
            for kind in kinds {
                *kind = names[kind.index()];
            }
        });
        self.add_gathered(planes, &rests)
    }

    fn add_gathered(&mut self, planes: &mut [Plane], rests: &[(Gathered, ChunkPosition)]) -> Result<(), TraceError> {
        let mut negative = 0;
        let mut damaged = None;
        for (gathered, position) in rests {
            if let Some(damage) = gathered.first_damage {
                self.tolerate(position.file_plane, damage)?;
                damaged.get_or_insert(damage);
            }
            let (line, offset) = (&mut planes[position.plane].lines[position.line], number(position.first));
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
            let count = lines.filter(|unplaced| unplaced.why == UnplacedReason::Damaged).count() as u64;
            self.notices.push(Notice::DamagedEvents { count, first });
        }
        if negative > 0 {
            self.notices.push(Notice::NegativeDurations(negative));
        }
        Ok(())
    }

    /// Fails for a damaged event, unless the trace is read leniently.
    fn tolerate(&self, file_plane: usize, damage: Damage) -> Result<(), TraceError> {
        if self.options.leniency == Leniency::KeepWhole {
            return Ok(());
        }
        let FilePlane { source, layout } = &self.files.planes[file_plane];
        let source = &self.files.sources[*source];
        let part = format!("an event of {}", layout.part(source.bytes()));
        Err(TraceError::Damaged { file: source.path().to_owned(), part, damage })
    }

    fn known_stats(&self, plane: &FilePlane) -> KnownStats {
        let file = self.files.sources[plane.source].bytes();
        KnownStats::new(plane.layout.stat_names.iter().filter_map(|(&id, name)| {
            let known = KnownStat::from_name(name.bytes(file))?;
            (known.is_identity() || self.options.ids == KeepIds::Yes).then_some((id, known))
        }))
    }

    /// Adds notices about events that have no time or no description.
    fn check(&mut self, planes: &[Plane], resolver: &Resolver<'_>) {
        let lines = || planes.iter().flat_map(|plane| &plane.lines);
        let count = |what: fn(UnplacedReason) -> bool| {
            lines().flat_map(|line| &line.unplaced).filter(|unplaced| what(unplaced.why)).count() as u64
        };
        let out_of_range = count(|why| why == UnplacedReason::OutOfRange);
        let aggregated = count(|why| matches!(why, UnplacedReason::Aggregated(_)));
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

/// The time that the offsets of a line count from, from the zero of the trace; `None` if it does not fit into
/// picoseconds.
fn base_ps(info: &SessionInfo, timestamp_ns: i64, zero_ns: Option<i64>) -> Option<i64> {
    let shift = match (info.epoch_ns, zero_ns) {
        (Some(epoch), Some(zero)) => i128::from(epoch) - i128::from(zero),
        _ => 0,
    };
    let base = (i128::from(timestamp_ns) - i128::from(info.base_ns) + shift) * 1000;
    i64::try_from(base).ok()
}

fn session(info: &mut SessionInfo, strings: &mut Strings) -> Session {
    Session {
        host: info.host.as_deref().map(|host| strings.intern(host)),
        started: info.started,
        stopped: info.stopped,
        scope_parents: std::mem::take(&mut info.scope_parents),
    }
}
