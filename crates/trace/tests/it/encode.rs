//! `XSpace` messages, written by hand: the same content comes out in any style a writer may have. In every style the last of
//! several values of a field counts, and what is zero may be left out.

/// A whole file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Space {
    pub(crate) planes: Vec<Plane>,
    pub(crate) errors: Vec<Vec<u8>>,
    pub(crate) warnings: Vec<Vec<u8>>,
    pub(crate) hosts: Vec<Vec<u8>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Plane {
    pub(crate) name: Vec<u8>,
    pub(crate) lines: Vec<Line>,
    pub(crate) event_metadata: Vec<(i64, EventMetadata)>,
    pub(crate) stat_metadata: Vec<(i64, Vec<u8>)>,
    pub(crate) stats: Vec<Stat>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EventMetadata {
    pub(crate) name: Vec<u8>,
    pub(crate) display_name: Vec<u8>,
    pub(crate) stats: Vec<Stat>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) id: i64,
    pub(crate) name: Vec<u8>,
    pub(crate) display_name: Vec<u8>,
    pub(crate) timestamp_ns: i64,
    pub(crate) events: Vec<Event>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Event {
    pub(crate) metadata_id: i64,
    pub(crate) place: Place,
    pub(crate) duration_ps: i64,
    pub(crate) stats: Vec<Stat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Offset(i64),
    Occurrences(i64),
}

impl Default for Place {
    fn default() -> Self {
        Self::Offset(0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Stat {
    pub(crate) id: i64,
    pub(crate) value: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// The bits of a floating number.
    Double(u64),
    Unsigned(u64),
    Signed(i64),
    Text(Vec<u8>),
    Bytes(Vec<u8>),
    Reference(i64),
}

/// How to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// By field number, zeros left out: as the usual writers do.
    Plain,
    /// In any order, with unknown fields, with values that do not count before those that do, zeros here and there.
    Odd(u64),
}

impl Space {
    pub(crate) fn encode(&self, style: Style) -> Vec<u8> {
        let mut writer = Writer(style);
        writer.space(self)
    }
}

/// One field of a message; those of one group keep their order.
struct Part {
    group: u64,
    bytes: Vec<u8>,
}

struct Writer(Style);

impl Writer {
    fn space(&mut self, space: &Space) -> Vec<u8> {
        let planes: Vec<Vec<u8>> = space.planes.iter().map(|plane| self.plane(plane)).collect();
        let mut parts: Vec<Part> = planes.iter().map(|plane| bytes_field(1, plane)).collect();
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
        let mut place = match event.place {
            Place::Offset(offset) => self.number(2, offset),
            Place::Occurrences(count) => vec![number_field(5, count)],
        };
        if !place.is_empty() && self.chance(4) {
            place.insert(0, number_field(5, 3));
        }
        parts.extend(place.into_iter().map(|part| Part { group: 2, ..part }));
        parts.extend(self.number(3, event.duration_ps));
        parts.extend(event.stats.iter().map(|stat| bytes_field(4, &self.stat(stat))).collect::<Vec<_>>());
        self.message(parts)
    }

    fn stat(&mut self, stat: &Stat) -> Vec<u8> {
        let mut parts = if stat.id != 0 || self.chance(2) { vec![number_field(1, stat.id)] } else { Vec::new() };
        let value = stat.value.as_ref().map(|value| match value {
            Value::Double(bits) => Part { group: 2, bytes: [&[0x11][..], &bits.to_le_bytes()].concat() },
            Value::Unsigned(number) => number_field(3, number.cast_signed()),
            Value::Signed(number) => number_field(4, *number),
            Value::Text(text) => bytes_field(5, text),
            Value::Bytes(bytes) => bytes_field(6, bytes),
            Value::Reference(id) => number_field(7, *id),
        });
        if value.is_some() && self.chance(4) {
            parts.push(Part { group: 2, bytes: vec![0x20, 0x07] });
        }
        parts.extend(value.map(|part| Part { group: 2, ..part }));
        self.message(parts)
    }

    fn number(&mut self, field: u64, value: i64) -> Vec<Part> {
        if value == 0 && !self.chance(2) {
            return Vec::new();
        }
        let other = self.chance(5).then(|| number_field(field, value ^ 0x55));
        other.into_iter().chain([number_field(field, value)]).collect()
    }

    fn text(&mut self, field: u64, text: &[u8]) -> Vec<Part> {
        if text.is_empty() && !self.chance(2) {
            return Vec::new();
        }
        let other = self.chance(5).then(|| bytes_field(field, b"not this"));
        other.into_iter().chain([bytes_field(field, text)]).collect()
    }

    /// One in so many, where the style is odd.
    fn chance(&mut self, of: u64) -> bool {
        matches!(self.0, Style::Odd(_)) && self.random().is_multiple_of(of)
    }

    fn random(&mut self) -> u64 {
        let Style::Odd(seed) = &mut self.0 else { return 0 };
        *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*seed ^ (*seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 27)
    }

    fn message(&mut self, mut parts: Vec<Part>) -> Vec<u8> {
        if self.chance(4) {
            let unknown =
                [number_field(100, -1), bytes_field(101, b"later"), Part { group: 102, bytes: fixed(102, 8) }];
            parts.extend(unknown.into_iter().chain([Part { group: 103, bytes: fixed(103, 4) }]));
        }
        if self.chance(2) {
            // Each group takes random places among the others and keeps its own order.
            let mut places: Vec<u64> = parts.iter().map(|part| part.group).collect();
            for last in (1..places.len()).rev() {
                places.swap(last, usize::try_from(self.random() % (last as u64 + 1)).unwrap());
            }
            let mut left: Vec<Option<Part>> = parts.into_iter().map(Some).collect();
            let next = |group: u64, left: &mut Vec<Option<Part>>| {
                left.iter_mut().find(|part| part.as_ref().is_some_and(|part| part.group == group))?.take()
            };
            parts = places.into_iter().filter_map(|group| next(group, &mut left)).collect();
        }
        parts.into_iter().flat_map(|part| part.bytes).collect()
    }
}

pub(crate) fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push((value % 0x80) as u8 + 0x80);
        value /= 0x80;
    }
    bytes.push((value & 0x7f) as u8);
    bytes
}

/// A message or text of this field, with its length before it.
pub(crate) fn delimited(field: u64, content: &[u8]) -> Vec<u8> {
    [&varint(field * 8 + 2)[..], &varint(content.len() as u64), content].concat()
}

fn number_field(field: u64, value: i64) -> Part {
    Part { group: field, bytes: [varint(field * 8), varint(value.cast_unsigned())].concat() }
}

fn bytes_field(field: u64, content: &[u8]) -> Part {
    Part { group: field, bytes: delimited(field, content) }
}

fn fixed(field: u64, bytes: usize) -> Vec<u8> {
    let mut encoded = varint(field * 8 + if bytes == 8 { 1 } else { 5 });
    encoded.resize(encoded.len() + bytes, 0xfe);
    encoded
}
