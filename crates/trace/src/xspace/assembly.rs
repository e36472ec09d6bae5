//! The table of events: room for all of them first, then chunks of lines into their places, then names.

use ergometer_units::Timestamp;
use foldhash::HashMap;
use rayon::prelude::*;

use super::event::{Chunk, Columns, Gathered};
use super::identity::{Wanted, WantedStats};
use super::instructions::name_instructions;
use super::line::{Head, LANDMARK};
use super::resolve::Resolver;
use super::session::Facts;
use super::stats::{FilePlane, Files};
use super::{KeepIds, ReadOptions};
use crate::error::TraceError;
use crate::source::Leniency;
use crate::table::{Ids, KindId, Line, Notice, Plane, Platform, Segment, Session, Strings, Text, Trace, Why, number};
use crate::wire::{Damage, Span};

/// So many events are read by one task. A multiple of the landmarks' distance.
const CHUNK: usize = 1024 * LANDMARK;

/// What an event takes in the columns.
const BYTES_OF_EVENT: usize = 20;

/// A trace while its events are read.
pub(super) struct Assembly<'a> {
    pub(super) files: Files,
    pub(super) sessions: Vec<Facts>,
    /// The lines of each plane of the files.
    pub(super) heads: Vec<Vec<Head>>,
    pub(super) options: &'a ReadOptions,
    pub(super) notices: Vec<Notice>,
}

/// One chunk of events to read, and where they go.
struct Task<'a> {
    chunk: Chunk<'a>,
    columns: Columns<'a>,
    place: Place,
}

/// Where a chunk is: plane and line of the table, its first event there, and the plane of the files.
#[derive(Debug, Clone, Copy)]
struct Place {
    plane: usize,
    line: usize,
    first: usize,
    file_plane: usize,
}

/// A chunk that was read: its kinds are still numbered as it numbers them.
struct Read<'a> {
    gathered: Gathered,
    kinds: &'a mut [KindId],
    place: Place,
}

impl Assembly<'_> {
    pub(super) fn finish(mut self) -> Result<Trace, TraceError> {
        let events: u64 = self.heads.iter().flatten().map(|head| head.events() as u64).sum();
        let most = self.options.max_events.min(u64::from(u32::MAX));
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
            details: Box::new(Files { sources: Vec::new(), planes: Vec::new() }),
        };
        trace.name_modules();
        name_instructions(&mut trace, &self.files);
        trace.details = Box::new(self.files);
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
        let mut plane_places: HashMap<(Option<Text>, Text), usize> = HashMap::default();
        let mut line_places: HashMap<(usize, i64), usize> = HashMap::default();
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
                let line_place = *line_places.entry((place, head.id())).or_insert_with(|| {
                    target.lines.push(Line {
                        id: head.id(),
                        name: resolver.text(head.name().of(file)),
                        display_name: head.display_name().map(|name| resolver.text(name.of(file))),
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
                for part in &head.parts {
                    let first = line.segments.last().map_or(0, |segment| segment.events.end);
                    line.segments.push(Segment {
                        session: number(plane.layout.session),
                        plane: number(file_plane),
                        events: first..first + part.events,
                        landmarks: part.landmarks.clone(),
                        end: part.end,
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
                        let place = Place { plane: plane_number, line: line_number, first, file_plane };
                        tasks.push(Task { chunk, columns, place });
                        first += length;
                    }
                }
            }
        }
        let (sources, planes_of_files) = (&self.files.sources, &self.files.planes);
        // A file of short events: its columns are nearly as large. To let go of pages costs time that others need not pay.
        let events: usize = self.heads.iter().flatten().map(Head::events).sum();
        let bytes: usize = sources.iter().map(|source| source.bytes().len()).sum();
        let is_memory_scarce = 2 * BYTES_OF_EVENT * events > bytes;
        let done: Vec<Read<'_>> = tasks
            .into_par_iter()
            .map(|Task { chunk, columns: Columns { start_ps, duration_ps, kind: kinds }, place }| {
                let gathered = chunk.read(Columns { start_ps, duration_ps, kind: &mut *kinds });
                if is_memory_scarce {
                    sources[planes_of_files[place.file_plane].source].release(chunk.bytes.start..chunk.bytes.end);
                }
                Read { gathered, kinds, place }
            })
            .collect();
        let mut rests = Vec::with_capacity(done.len());
        let mut renamed = Vec::with_capacity(done.len());
        for Read { gathered, kinds, place } in done {
            let FilePlane { source, layout } = &self.files.planes[place.file_plane];
            let file = self.files.sources[*source].bytes();
            renamed.push((kinds, resolver.resolve(file, layout, number(place.file_plane), &gathered)));
            rests.push((gathered, place));
        }
        renamed.into_par_iter().for_each(|(kinds, names)| {
            for kind in kinds {
                *kind = names[kind.index()];
            }
        });
        self.keep_rests(planes, &rests)
    }

    fn keep_rests(&mut self, planes: &mut [Plane], rests: &[(Gathered, Place)]) -> Result<(), TraceError> {
        let mut negative = 0;
        let mut damaged = None;
        for (gathered, place) in rests {
            if let Some(damage) = gathered.first_damage {
                self.tolerate(place.file_plane, damage)?;
                damaged.get_or_insert(damage);
            }
            let (line, offset) = (&mut planes[place.plane].lines[place.line], number(place.first));
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
