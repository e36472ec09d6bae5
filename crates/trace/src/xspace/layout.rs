//! Finds the sessions, planes, lines and descriptions in a file, without reading the lines.

use std::borrow::Cow;

use foldhash::{HashMap, HashSet};
use memchr::memmem;
use rayon::prelude::*;

use super::identity::KnownStat;
use super::memory::{LINE_BYTES, Memory, NOTICE_BYTES, PART_BYTES, PLANE_BYTES};
use super::stats::raw_stat;
use crate::table::Platform;
use crate::wire::{Damage, Field, Fields, Span, Value};

/// The spans of the planes of a file and of their lines.
#[derive(Debug, Default)]
pub(super) struct Layout<'a> {
    pub(super) planes: Vec<PlaneLayout>,
    pub(super) sessions: Vec<SessionLayout<'a>>,
    pub(super) errors: Vec<Span>,
    pub(super) warnings: Vec<Span>,
    pub(super) losses: Vec<Loss>,
}

/// One run of a profiler. Concatenated files have several.
#[derive(Debug, Default)]
pub(super) struct SessionLayout<'a> {
    pub(super) hosts: Vec<Span>,
    names: HashSet<&'a [u8]>,
    /// The number of planes before the hosts; zero until the hosts are read.
    planes_before_hosts: usize,
}

#[derive(Debug, Default)]
pub(super) struct PlaneLayout {
    /// Its session in this file.
    pub(super) session: usize,
    pub(super) name: Span,
    pub(super) lines: Vec<Span>,
    /// The description of each kind of event, by its number.
    pub(super) event_metadata: HashMap<i64, Span>,
    /// The name of each kind of stat, by its number.
    pub(super) stat_names: HashMap<i64, Span>,
    pub(super) stats: Vec<Span>,
    /// The highest number of an event description; -1 if there is none.
    pub(super) largest_metadata: i64,
    /// The damage if the file ends within the last line.
    pub(super) cut: Option<Damage>,
}

/// A damaged part, which is lost from the damage to its end.
#[derive(Debug)]
pub(super) struct Loss {
    pub(super) part: String,
    pub(super) damage: Damage,
    pub(super) bytes: u64,
}

/// The tag of `offset_ps` of an event: field number and wire type in one byte.
const OFFSET_OF_EVENT: u8 = 0x10;

/// The first bytes of a stat with this number.
fn stat_prefix(id: i64) -> Vec<u8> {
    let mut bytes = vec![0x08];
    let mut rest = id.cast_unsigned();
    while rest >= 0x80 {
        bytes.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push((rest & 0x7f) as u8);
    bytes
}

/// Limits on planes and lines, far above any trace. Each needs much more memory than the two bytes that can declare it.
pub(super) const MOST_PLANES: usize = 100_000;
pub(super) const MOST_LINES: usize = 1_000_000;

impl<'a> Layout<'a> {
    /// Whether there are more planes or lines than the limits.
    pub(super) fn is_too_large(&self) -> bool {
        let lines: usize = self.planes.iter().map(|plane| plane.lines.len()).sum();
        self.planes.len() > MOST_PLANES || lines > MOST_LINES
    }

    /// Removes the lines of hosts without ops, unless no line would remain.
    pub(super) fn remove_threads_without_ops(&mut self, file: &[u8]) {
        let mut kept: Vec<Vec<Span>> = self
            .planes
            .par_iter()
            .map(|plane| match Platform::from_plane_name(&lossy(plane.name.bytes(file))) {
                Platform::Host if plane.cut.is_none() => plane.lines_with_ops(file),
                _ => plane.lines.clone(),
            })
            .collect();
        if kept.iter().any(|lines| !lines.is_empty()) {
            for (plane, lines) in self.planes.iter_mut().zip(&mut kept) {
                plane.lines = std::mem::take(lines);
            }
        }
    }

    /// The layout of a file. It is incomplete if the limit on memory is reached.
    pub(super) fn read(file: &'a [u8], memory: &Memory) -> Self {
        let mut layout = Self::default();
        let mut fields = Fields::new(file, Span { start: 0, end: file.len() });
        loop {
            let start = fields.offset();
            match fields.next() {
                _ if layout.planes.len() > MOST_PLANES || memory.is_exceeded() => return layout,
                Some(Ok(field)) => layout.take(file, field, memory),
                Some(Err(damage)) => layout.take_cut(file, start, (fields.cut(), damage), memory),
                None => return layout,
            }
        }
    }

    fn take(&mut self, file: &'a [u8], field: Field, memory: &Memory) {
        let Some(span) = field.span() else { return };
        match field.number {
            1 => {
                let (plane, losses) = PlaneLayout::read(file, span, memory);
                self.losses.extend(losses);
                self.add(file, plane);
            }
            2 | 3 => {
                memory.add(NOTICE_BYTES);
                if field.number == 2 { &mut self.errors } else { &mut self.warnings }.push(span);
            }
            4 => {
                memory.add(PART_BYTES);
                let planes = self.planes.len();
                let session = self.session();
                session.hosts.push(span);
                session.planes_before_hosts = planes;
            }
            _ => {}
        }
    }

    /// Reads the start of a plane at the end of a truncated file. Only the innermost truncated part reports the loss.
    fn take_cut(&mut self, file: &'a [u8], start: usize, (cut, damage): (Option<Field>, Damage), memory: &Memory) {
        if let Some(span) = cut.filter(|field| field.number == 1).and_then(Field::span) {
            let (plane, losses) = PlaneLayout::read(file, span, memory);
            if !plane.lines.is_empty() || plane.name.start < plane.name.end {
                if losses.is_empty() && plane.cut.is_none() {
                    self.losses.push(Loss { part: plane.part(file), damage, bytes: 0 });
                }
                self.losses.extend(losses);
                return self.add(file, plane);
            }
        }
        let bytes = (file.len() - start) as u64;
        self.losses.push(Loss { part: String::from("the list of planes"), damage, bytes });
    }

    fn session(&mut self) -> &mut SessionLayout<'a> {
        if self.sessions.is_empty() {
            self.sessions.push(SessionLayout::default());
        }
        let last = self.sessions.len() - 1;
        &mut self.sessions[last]
    }

    fn add(&mut self, file: &'a [u8], mut plane: PlaneLayout) {
        let name = plane.name.bytes(file);
        // A session writes each plane once, so a repeated name belongs to the next session. So do the planes between
        // the hosts, which a session writes last, and the repeated name.
        if !self.session().names.insert(name) {
            let first = self.session().planes_before_hosts;
            let next = self.sessions.len();
            let mut names: HashSet<&[u8]> = [name].into_iter().collect();
            if first > 0 {
                for plane in self.planes.iter_mut().skip(first) {
                    plane.session = next;
                    names.insert(plane.name.bytes(file));
                }
            }
            self.sessions.push(SessionLayout { names, ..SessionLayout::default() });
        }
        plane.session = self.sessions.len() - 1;
        self.planes.push(plane);
    }
}

impl PlaneLayout {
    /// The lines whose events may name an op: those that contain the bytes of a stat with the number of `hlo_op`.
    fn lines_with_ops(&self, file: &[u8]) -> Vec<Span> {
        let named_op = self.stat_names.iter().filter(|(_, name)| name.bytes(file) == KnownStat::Op.name());
        let finders: Vec<memmem::Finder<'_>> =
            named_op.map(|(&id, _)| memmem::Finder::new(&stat_prefix(id)).into_owned()).collect();
        let may_have = |line: &&Span| {
            let bytes = line.bytes(file);
            // An event with the same description number begins with the same bytes, followed by its offset.
            let is_stat = |at: usize, length: usize| bytes.get(at + length) != Some(&OFFSET_OF_EVENT);
            finders.iter().any(|finder| finder.find_iter(bytes).any(|at| is_stat(at, finder.needle().len())))
        };
        self.lines.par_iter().filter(may_have).copied().collect()
    }

    fn read(file: &[u8], span: Span, memory: &Memory) -> (Self, Vec<Loss>) {
        memory.add(PLANE_BYTES);
        let mut plane = Self { largest_metadata: -1, ..Self::default() };
        let mut fields = Fields::new(file, span);
        let (mut rest, mut descriptions) = (None, None);
        loop {
            let start = fields.offset();
            match fields.next() {
                _ if memory.is_exceeded() => break,
                Some(Ok(field)) => {
                    if let Err(damage) = plane.take(file, field, memory) {
                        let lost = field.span().map_or(0, |span| span.end as u64 - damage.offset);
                        descriptions.get_or_insert((damage, 0)).1 += lost;
                    }
                }
                Some(Err(damage)) => {
                    let cut = fields.cut().filter(|cut| cut.number == 3 && span.end == file.len());
                    if let Some(line) = cut.and_then(Field::span) {
                        memory.add(LINE_BYTES);
                        plane.lines.push(line);
                        plane.cut = Some(damage);
                    } else {
                        rest = Some((damage, (span.end - start) as u64));
                    }
                }
                None => break,
            }
        }
        let mut losses = Vec::new();
        if let Some((damage, bytes)) = descriptions {
            losses.push(Loss { part: format!("the descriptions of {}", plane.part(file)), damage, bytes });
        }
        if let Some((damage, bytes)) = rest {
            losses.push(Loss { part: plane.part(file), damage, bytes });
        }
        (plane, losses)
    }

    /// The name of the plane for messages about damage.
    pub(super) fn part(&self, file: &[u8]) -> String {
        match self.name.bytes(file) {
            [] => String::from("a plane without a name"),
            name => format!("plane {}", lossy(name)),
        }
    }

    /// Reads a field of the plane. A damaged description is kept up to the damage.
    fn take(&mut self, file: &[u8], field: Field, memory: &Memory) -> Result<(), Damage> {
        let Some(span) = field.span() else { return Ok(()) };
        memory.add(match field.number {
            3 => LINE_BYTES,
            4..=6 => PART_BYTES,
            _ => 0,
        });
        match field.number {
            2 => self.name = span,
            3 => self.lines.push(span),
            4 => {
                let (id, description, whole) = entry(file, span);
                self.event_metadata.insert(id, description);
                self.largest_metadata = self.largest_metadata.max(id);
                whole?;
                for field in Fields::new(file, description) {
                    if let (5, Some(stat)) = (field?.number, field?.span()) {
                        raw_stat(file, stat)?;
                    }
                }
            }
            5 => {
                let (id, description, whole) = entry(file, span);
                let names = Fields::new(file, description).filter_map(Result::ok).filter(|field| field.number == 2);
                self.stat_names.insert(id, names.filter_map(Field::span).last().unwrap_or_default());
                whole?;
                Fields::new(file, description).find_map(Result::err).map_or(Ok(()), Err)?;
            }
            6 => {
                self.stats.push(span);
                raw_stat(file, span)?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// The key and the value of a map entry, and its damage.
fn entry(file: &[u8], span: Span) -> (i64, Span, Result<(), Damage>) {
    let (mut id, mut value) = (0, Span::default());
    for field in Fields::new(file, span) {
        match field.map(|field| (field.number, field.value)) {
            Ok((1, Value::Varint(bits))) => id = bits.cast_signed(),
            Ok((2, Value::Span(span))) => value = span,
            Ok(_) => {}
            Err(damage) => return (id, value, Err(damage)),
        }
    }
    (id, value, Ok(()))
}

/// The longest name that is kept whole, in bytes. Names are copied into tables and reports, and a few kilobytes of a
/// compressed file can declare a name of gigabytes.
const LONGEST_NAME: usize = 64 << 10;

/// Decodes a name or message; invalid UTF-8 is replaced. A longer one is cut and ends with its length.
pub(super) fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    match bytes.get(..LONGEST_NAME) {
        Some(start) if bytes.len() > LONGEST_NAME => {
            let start = String::from_utf8_lossy(start);
            // The cut may be inside a character.
            let start = start.trim_end_matches(char::REPLACEMENT_CHARACTER);
            Cow::Owned(format!("{start}… ({} bytes)", bytes.len()))
        }
        _ => String::from_utf8_lossy(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of less than 128 bytes, with its length.
    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(content.len()).unwrap()][..], content].concat()
    }

    fn plane(name: &[u8], rest: &[u8]) -> Vec<u8> {
        field(1, &[&field(2, name)[..], rest].concat())
    }

    fn layout(file: &[u8]) -> Layout<'_> {
        Layout::read(file, &Memory::new(u64::MAX))
    }

    fn losses(file: &[u8]) -> Vec<(String, u64, u64)> {
        let layout = layout(file);
        layout.losses.into_iter().map(|loss| (loss.part, loss.damage.offset, loss.bytes)).collect()
    }

    #[test]
    fn a_repeated_plane_name_begins_a_session() {
        let one = [plane(b"a", &[]), plane(b"b", &[]), field(4, b"host")].concat();
        let twice = one.repeat(2);
        let layout = layout(&twice);
        assert_eq!(layout.planes.iter().map(|plane| plane.session).collect::<Vec<_>>(), [0, 0, 1, 1]);
        assert_eq!(layout.sessions.iter().map(|session| session.hosts.len()).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(layout.losses.len(), 0);
    }

    #[test]
    fn the_last_description_of_a_number_counts() {
        let entry = |id: u8, name: &[u8]| [&[0x08, id][..], &field(2, &field(2, name))].concat();
        let stats = [field(5, &entry(3, b"old")), field(5, &entry(3, b"new")), field(4, &entry(9, b"kind"))].concat();
        let file = plane(b"a", &stats);
        let layout = layout(&file);
        assert_eq!(layout.planes[0].stat_names[&3].bytes(&file), b"new");
        assert_eq!((layout.planes[0].event_metadata.len(), layout.planes[0].largest_metadata), (1, 9));
    }

    #[test]
    fn a_cut_is_reported_once_and_by_the_innermost_part() {
        let first = plane(b"a", &[]);
        let whole = [&first[..], &plane(b"b", &[field(3, &[0x08, 0x01]), field(6, &[0x08, 0x01])].concat())].concat();
        let (start, at) = (first.len() as u64, |length: usize| losses(&whole[..first.len() + length]));
        let file = |offset: u64, bytes: u64| vec![(String::from("the list of planes"), offset, bytes)];
        let plane = |offset: u64, bytes: u64| vec![(String::from("plane b"), offset, bytes)];
        // Cut in the tag, the length or the name of the plane: no part of it is kept.
        assert_eq!(at(1), file(start + 1, 1));
        assert_eq!(at(2), file(start, 2));
        assert_eq!(at(4), file(start, 4));
        // Cut between two of its parts: nothing before the cut is lost.
        assert_eq!(at(5), plane(start, 0));
        assert_eq!(at(9), plane(start, 0));
        // Cut in the tag and length of a line, which is lost; in a line, which reports it itself; in a stat.
        assert_eq!(at(6), plane(start + 6, 1));
        assert_eq!(at(7), vec![]);
        assert_eq!(at(8), vec![]);
        assert_eq!(at(11), plane(start + 9, 2));
        let cut = layout(&whole[..first.len() + 8]);
        assert_eq!((cut.planes.len(), cut.planes[1].lines.len()), (2, 1));
        assert_eq!(cut.planes[1].cut.map(|damage| damage.offset), Some(start + 5));
    }

    #[test]
    fn an_earlier_loss_does_not_hide_a_later_one() {
        let first = plane(b"a", &[0x1b]);
        let file = [&first[..], &plane(b"b", &field(3, &[0x08, 0x01]))].concat();
        let parts: Vec<String> = losses(&file[..first.len() + 5]).into_iter().map(|(part, ..)| part).collect();
        assert_eq!(parts, ["plane a", "plane b"]);
    }

    #[test]
    fn damaged_descriptions_are_one_loss_with_all_their_bytes() {
        let damaged = field(4, &[0x08, 0x01, 0x12, 0x09, 0x00]);
        let stat = field(6, &[0x08, 0x01, 0x0b]);
        let file = plane(b"a", &[&damaged[..], &damaged, &stat].concat());
        assert_eq!(losses(&file), [(String::from("the descriptions of plane a"), 9, 7)]);
        assert_eq!(layout(&file).planes[0].event_metadata.len(), 1);
    }
}
