//! Encodes `XSpace` messages, in the style of the usual writers or in any other that the format allows.
//!
//! In every style the last of several values of a field counts, and zero may be omitted.

/// A file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Space {
    /// Devices and hosts.
    pub planes: Vec<Plane>,
    /// Errors of the profiler.
    pub errors: Vec<Vec<u8>>,
    /// Warnings of the profiler.
    pub warnings: Vec<Vec<u8>>,
    /// Host names.
    pub hosts: Vec<Vec<u8>>,
}

/// A device or a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plane {
    /// Its name.
    pub name: Vec<u8>,
    /// Its timelines.
    pub lines: Vec<Line>,
    /// The descriptions of its events, by number.
    pub event_metadata: Vec<(i64, EventMetadata)>,
    /// The names of its stats, by number.
    pub stat_metadata: Vec<(i64, Vec<u8>)>,
    /// The stats of the plane itself.
    pub stats: Vec<Stat>,
}

/// The description of a kind of event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventMetadata {
    /// Its name.
    pub name: Vec<u8>,
    /// Its display name; empty without one.
    pub display_name: Vec<u8>,
    /// The stats of all events of the kind.
    pub stats: Vec<Stat>,
}

/// A timeline.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// Its number.
    pub id: i64,
    /// Its name.
    pub name: Vec<u8>,
    /// Its display name; empty without one.
    pub display_name: Vec<u8>,
    /// The time that offsets count from.
    pub timestamp_ns: i64,
    /// Its events.
    pub events: Vec<Event>,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// The number of its description.
    pub metadata_id: i64,
    /// When it starts, or how often it occurred.
    pub timing: Timing,
    /// How long it takes.
    pub duration_ps: i64,
    /// Its own stats.
    pub stats: Vec<Stat>,
}

/// When an event starts, or how often an aggregated event occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// The start in picoseconds, from the start of its line.
    Offset(i64),
    /// The number of events that it aggregates.
    Occurrences(i64),
}

impl Default for Timing {
    fn default() -> Self {
        Self::Offset(0)
    }
}

/// A named value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stat {
    /// The number of its name.
    pub id: i64,
    /// Its value.
    pub value: Option<Value>,
}

/// The value of a stat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// The bits of a floating-point number.
    Double(u64),
    /// An unsigned integer.
    Unsigned(u64),
    /// A signed integer.
    Signed(i64),
    /// Characters.
    Text(Vec<u8>),
    /// Bytes.
    Bytes(Vec<u8>),
    /// The number of a stat name that is the text.
    Reference(i64),
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// By field number, without zeros: as the usual writers do.
    Plain,
    /// From this seed: fields in any order, unknown fields, overwritten values, and some zeros.
    Odd(u64),
}

impl Space {
    /// The bytes of the file.
    #[must_use]
    pub fn encode(&self, style: Style) -> Vec<u8> {
        Encoder(style).space(self)
    }
}

/// One encoded field of a message. Fields of one group keep their order.
struct EncodedField {
    group: u64,
    bytes: Vec<u8>,
}

struct Encoder(Style);

impl Encoder {
    fn space(&mut self, space: &Space) -> Vec<u8> {
        let planes: Vec<Vec<u8>> = space.planes.iter().map(|plane| self.plane(plane)).collect();
        let mut parts: Vec<EncodedField> = planes.iter().map(|plane| bytes_field(1, plane)).collect();
        for (number, texts) in [(2, &space.errors), (3, &space.warnings), (4, &space.hosts)] {
            parts.extend(texts.iter().map(|text| bytes_field(number, text)));
        }
        self.message(parts)
    }

    fn plane(&mut self, plane: &Plane) -> Vec<u8> {
        let mut parts = self.text(2, &plane.name);
        for line in &plane.lines {
            parts.push(bytes_field(3, &self.line(line)));
        }
        for (id, metadata) in &plane.event_metadata {
            let mut inner = self.number(1, *id);
            inner.extend(self.text(2, &metadata.name));
            inner.extend(self.text(4, &metadata.display_name));
            inner.extend(metadata.stats.iter().map(|stat| bytes_field(5, &self.stat(stat))).collect::<Vec<_>>());
            let inner = self.message(inner);
            parts.push(bytes_field(4, &self.entry(*id, &inner)));
        }
        for (id, name) in &plane.stat_metadata {
            let mut inner = self.number(1, *id);
            inner.extend(self.text(2, name));
            let inner = self.message(inner);
            parts.push(bytes_field(5, &self.entry(*id, &inner)));
        }
        for stat in &plane.stats {
            parts.push(bytes_field(6, &self.stat(stat)));
        }
        self.message(parts)
    }

    fn entry(&mut self, id: i64, value: &[u8]) -> Vec<u8> {
        let mut parts = self.number(1, id);
        parts.push(bytes_field(2, value));
        self.message(parts)
    }

    fn line(&mut self, line: &Line) -> Vec<u8> {
        let mut parts = self.number(1, line.id);
        parts.extend(self.text(2, &line.name));
        parts.extend(self.number(3, line.timestamp_ns));
        parts.extend(line.events.iter().map(|event| bytes_field(4, &self.event(event))).collect::<Vec<_>>());
        parts.extend(self.text(11, &line.display_name));
        self.message(parts)
    }

    fn event(&mut self, event: &Event) -> Vec<u8> {
        let mut parts = self.number(1, event.metadata_id);
        let mut place = match event.timing {
            Timing::Offset(offset) => self.number(2, offset),
            Timing::Occurrences(count) => vec![number_field(5, count)],
        };
        if !place.is_empty() && self.chance(4) {
            place.insert(0, number_field(5, 3));
        }
        parts.extend(place.into_iter().map(|part| EncodedField { group: 2, ..part }));
        parts.extend(self.number(3, event.duration_ps));
        parts.extend(event.stats.iter().map(|stat| bytes_field(4, &self.stat(stat))).collect::<Vec<_>>());
        self.message(parts)
    }

    fn stat(&mut self, stat: &Stat) -> Vec<u8> {
        let mut parts = if stat.id != 0 || self.chance(2) { vec![number_field(1, stat.id)] } else { Vec::new() };
        let value = stat.value.as_ref().map(|value| match value {
            Value::Double(bits) => EncodedField { group: 2, bytes: [&[0x11][..], &bits.to_le_bytes()].concat() },
            Value::Unsigned(number) => number_field(3, number.cast_signed()),
            Value::Signed(number) => number_field(4, *number),
            Value::Text(text) => bytes_field(5, text),
            Value::Bytes(bytes) => bytes_field(6, bytes),
            Value::Reference(id) => number_field(7, *id),
        });
        if value.is_some() && self.chance(4) {
            parts.push(EncodedField { group: 2, bytes: vec![0x20, 0x07] });
        }
        parts.extend(value.map(|part| EncodedField { group: 2, ..part }));
        self.message(parts)
    }

    fn number(&mut self, field: u64, value: i64) -> Vec<EncodedField> {
        if value == 0 && !self.chance(2) {
            return Vec::new();
        }
        let other = self.chance(5).then(|| number_field(field, value ^ 0x55));
        other.into_iter().chain([number_field(field, value)]).collect()
    }

    fn text(&mut self, field: u64, text: &[u8]) -> Vec<EncodedField> {
        if text.is_empty() && !self.chance(2) {
            return Vec::new();
        }
        let other = self.chance(5).then(|| bytes_field(field, b"not this"));
        other.into_iter().chain([bytes_field(field, text)]).collect()
    }

    /// True once in `one_in` times if the style is odd.
    fn chance(&mut self, one_in: u64) -> bool {
        matches!(self.0, Style::Odd(_)) && self.random().is_multiple_of(one_in)
    }

    fn random(&mut self) -> u64 {
        let Style::Odd(seed) = &mut self.0 else { return 0 };
        *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*seed ^ (*seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 27)
    }

    fn message(&mut self, mut parts: Vec<EncodedField>) -> Vec<u8> {
        if self.chance(4) {
            let unknown =
                [number_field(100, -1), bytes_field(101, b"later"), EncodedField { group: 102, bytes: fixed(102, 8) }];
            parts.extend(unknown.into_iter().chain([EncodedField { group: 103, bytes: fixed(103, 4) }]));
        }
        if self.chance(2) {
            // Shuffles the groups; each keeps its own order.
            let mut places: Vec<u64> = parts.iter().map(|part| part.group).collect();
            for last in (1..places.len()).rev() {
                places.swap(last, usize::try_from(self.random() % (last as u64 + 1)).unwrap_or(0));
            }
            let mut left: Vec<Option<EncodedField>> = parts.into_iter().map(Some).collect();
            let next = |group: u64, left: &mut Vec<Option<EncodedField>>| {
                left.iter_mut().find(|part| part.as_ref().is_some_and(|part| part.group == group))?.take()
            };
            parts = places.into_iter().filter_map(|group| next(group, &mut left)).collect();
        }
        parts.into_iter().flat_map(|part| part.bytes).collect()
    }
}

/// A variable-length integer.
#[must_use]
pub fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push((value % 0x80) as u8 + 0x80);
        value /= 0x80;
    }
    bytes.push((value & 0x7f) as u8);
    bytes
}

/// A field with a message, text or bytes, preceded by its length.
#[must_use]
pub fn delimited(field: u64, content: &[u8]) -> Vec<u8> {
    [&varint(field * 8 + 2)[..], &varint(content.len() as u64), content].concat()
}

fn number_field(field: u64, value: i64) -> EncodedField {
    EncodedField { group: field, bytes: [varint(field * 8), varint(value.cast_unsigned())].concat() }
}

fn bytes_field(field: u64, content: &[u8]) -> EncodedField {
    EncodedField { group: field, bytes: delimited(field, content) }
}

fn fixed(field: u64, bytes: usize) -> Vec<u8> {
    let mut encoded = varint(field * 8 + if bytes == 8 { 1 } else { 5 });
    encoded.resize(encoded.len() + bytes, 0xfe);
    encoded
}
