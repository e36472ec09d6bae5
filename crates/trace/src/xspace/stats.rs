//! Reads the stats of an event, a kind or a plane from the file on request.

use std::borrow::Cow;
use std::ops::Range;

use super::layout::PlaneLayout;
use super::line::{Events, LANDMARK};
use crate::source::Source;
use crate::table::{
    Description, Details, EventId, Line, RawStat, RawValue, Stat, StatValue, StatVisitor, StatsTarget, TableText, Trace,
};
use crate::wire::{Damage, Fields, Span, Value};

/// The files of a trace and the layouts of their planes.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) sources: Vec<Source>,
    pub(super) planes: Vec<FilePlane>,
}

/// A plane in a file.
#[derive(Debug)]
pub(super) struct FilePlane {
    pub(super) source: usize,
    pub(super) layout: PlaneLayout,
}

impl Files {
    fn plane(&self, plane: u32) -> Option<(&[u8], &PlaneLayout)> {
        let plane = self.planes.get(plane as usize)?;
        Some((self.sources.get(plane.source)?.bytes(), &plane.layout))
    }

    fn event<'a>(&'a self, trace: &Trace, id: EventId) -> Option<Result<Vec<Stat<'a>>, Damage>> {
        let line = trace.planes.get(id.plane)?.lines.get(id.line)?;
        let segment = line.segment(id.event)?;
        let (file, layout) = self.plane(segment.plane)?;
        let number = id.event - segment.events.start;
        let bytes = Span { start: *segment.landmarks.get(number / LANDMARK)?, end: segment.end };
        let event = Events::new(file, bytes).nth(number % LANDMARK)?;
        Some(stats_in(file, layout, event, 4))
    }

    fn kind(&self, description: Description) -> Option<Result<Vec<Stat<'_>>, Damage>> {
        let (file, layout) = self.plane(description.plane)?;
        let span = *layout.event_metadata.get(&description.metadata_id)?;
        Some(stats_in(file, layout, span, 5))
    }
}

impl Details for Files {
    fn stats<'a>(&'a self, trace: &'a Trace, target: StatsTarget) -> Result<Vec<Stat<'a>>, Damage> {
        match target {
            StatsTarget::Event(id) => self.event(trace, id).unwrap_or_else(|| Ok(Vec::new())),
            StatsTarget::Kind(description) => self.kind(description).unwrap_or_else(|| Ok(Vec::new())),
            StatsTarget::Plane(plane) => match self.plane(plane) {
                Some((file, layout)) => layout.stats.iter().map(|&span| stat(file, layout, span)).collect(),
                None => Ok(Vec::new()),
            },
        }
    }

    fn walk<'a>(
        &'a self,
        _: &'a Trace,
        line: &Line,
        events: Range<usize>,
        visit: &mut StatVisitor<'_, 'a>,
    ) -> Result<(), Damage> {
        let mut first_damage = Ok(());
        let mut next = events.start;
        while let Some(segment) = line.segment(next).filter(|_| next < events.end) {
            let end = segment.events.end.min(events.end);
            let number = next - segment.events.start;
            if let (Some((file, _)), Some(&start)) =
                (self.plane(segment.plane), segment.landmarks.get(number / LANDMARK))
            {
                let messages = Events::new(file, Span { start, end: segment.end }).skip(number % LANDMARK);
                for (event, message) in (next..end).zip(messages) {
                    let visited = visit_event(file, segment.plane, message, &mut |stat| visit(event, stat));
                    first_damage = first_damage.and(visited);
                }
            }
            next = end;
        }
        first_damage
    }

    fn table_text(&self, text: TableText) -> Option<Cow<'_, str>> {
        let (file, layout) = self.plane(text.plane)?;
        layout.stat_names.get(&text.id).map(|name| String::from_utf8_lossy(name.bytes(file)))
    }
}

/// Visits the stats of an event.
fn visit_event<'a>(
    file: &'a [u8],
    plane: u32,
    message: Span,
    visit: &mut dyn FnMut(RawStat<'a>),
) -> Result<(), Damage> {
    for field in Fields::new(file, message) {
        let field = field?;
        let (true, Some(span)) = (field.number == 4, field.span()) else { continue };
        let (id, value) = raw_stat(file, span)?;
        let value = match value {
            Some((2, Value::Fixed64(bits))) => RawValue::Double(f64::from_bits(bits)),
            Some((3, Value::Varint(bits))) => RawValue::Unsigned(bits),
            Some((4, Value::Varint(bits))) => RawValue::Signed(bits.cast_signed()),
            Some((5, Value::Span(span))) => RawValue::Text(span.bytes(file)),
            Some((6, Value::Span(span))) => RawValue::Bytes(span.bytes(file)),
            Some((7, Value::Varint(bits))) => RawValue::Reference(TableText { plane, id: bits.cast_signed() }),
            _ => RawValue::Absent,
        };
        visit(RawStat { name: TableText { plane, id }, value });
    }
    Ok(())
}

/// The stats in field `number` of a message.
fn stats_in<'a>(file: &'a [u8], layout: &PlaneLayout, message: Span, number: u64) -> Result<Vec<Stat<'a>>, Damage> {
    let mut stats = Vec::new();
    for field in Fields::new(file, message) {
        let field = field?;
        if let (true, Some(span)) = (field.number == number, field.span()) {
            stats.push(stat(file, layout, span)?);
        }
    }
    Ok(stats)
}

fn stat<'a>(file: &'a [u8], layout: &PlaneLayout, span: Span) -> Result<Stat<'a>, Damage> {
    let (id, value) = raw_stat(file, span)?;
    let name = match layout.stat_names.get(&id).map(|name| name.bytes(file)) {
        Some(name) if !name.is_empty() => String::from_utf8_lossy(name),
        _ => Cow::Owned(id.to_string()),
    };
    let value = match value {
        Some((2, Value::Fixed64(bits))) => StatValue::Double(f64::from_bits(bits)),
        Some((3, Value::Varint(bits))) => StatValue::Unsigned(bits),
        Some((4, Value::Varint(bits))) => StatValue::Signed(bits.cast_signed()),
        Some((5, Value::Span(span))) => StatValue::Text(String::from_utf8_lossy(span.bytes(file))),
        Some((6, Value::Span(span))) => StatValue::Bytes(span.bytes(file)),
        Some((7, Value::Varint(bits))) => {
            let id = bits.cast_signed();
            StatValue::Reference(
                layout.stat_names.get(&id).map(|name| String::from_utf8_lossy(name.bytes(file))).ok_or(id),
            )
        }
        _ => StatValue::Absent,
    };
    Ok(Stat { name, value })
}

/// The number and the value of a stat. The last of several values counts.
pub(super) fn raw_stat(file: &[u8], span: Span) -> Result<(i64, Option<(u64, Value)>), Damage> {
    let (mut id, mut value) = (0, None);
    for field in Fields::new(file, span) {
        let field = field?;
        match (field.number, field.value) {
            (1, Value::Varint(bits)) => id = bits.cast_signed(),
            (2, Value::Fixed64(_)) | (3 | 4 | 7, Value::Varint(_)) | (5 | 6, Value::Span(_)) => {
                value = Some((field.number, field.value));
            }
            _ => {}
        }
    }
    Ok((id, value))
}
