//! The kinds of a chunk into those of the trace: numbers become names, once a kind.

use rustc_hash::FxHashMap;

use super::event::Gathered;
use super::identity::{LocalKind, Tag, Wanted};
use super::layout::{PlaneLayout, lossy};
use crate::table::{Description, Kind, KindId, ProgramId, Strings, Text};
use crate::wire::{Field, Fields, Span};

/// The kinds of a trace while it is put together.
#[derive(Debug, Default)]
pub(super) struct Resolver {
    pub(super) strings: Strings,
    pub(super) kinds: Vec<Kind>,
    places: FxHashMap<Kind, KindId>,
    /// Kinds of a plane that were seen before, without strings of their own.
    known: FxHashMap<(u32, LocalKind), KindId>,
    pub(super) undescribed: FxHashMap<KindId, ()>,
}

impl Resolver {
    pub(super) fn text(&mut self, bytes: &[u8]) -> Text {
        self.strings.intern(&lossy(bytes))
    }

    /// The trace's kinds of a chunk's, in the chunk's order.
    pub(super) fn resolve(
        &mut self,
        file: &[u8],
        layout: &PlaneLayout,
        plane: u32,
        gathered: &Gathered,
    ) -> Vec<KindId> {
        gathered.kinds.iter().map(|kind| self.kind(file, layout, plane, kind, &gathered.strings)).collect()
    }

    fn kind(&mut self, file: &[u8], layout: &PlaneLayout, plane: u32, local: &LocalKind, strings: &[Span]) -> KindId {
        let is_shared = [Wanted::Module, Wanted::Op, Wanted::Program, Wanted::Path, Wanted::FrameworkOp]
            .iter()
            .all(|&wanted| local.identity.get(wanted).0 != Tag::Text);
        if is_shared {
            if let Some(&id) = self.known.get(&(plane, *local)) {
                return id;
            }
        }
        let metadata = Metadata::of(file, layout, local.metadata_id);
        let text = |resolver: &mut Self, wanted: Wanted| -> Option<Text> {
            let (tag, bits) = local.identity.get(wanted);
            let bytes = match tag {
                Tag::Text => strings.get(usize::try_from(bits).ok()?)?.of(file),
                Tag::Reference => layout.stat_names.get(&bits.cast_signed())?.of(file),
                _ => return metadata.text(file, layout, wanted).map(|bytes| resolver.text(bytes)),
            };
            Some(resolver.text(bytes))
        };
        let module = text(self, Wanted::Module);
        let op = text(self, Wanted::Op);
        let path = text(self, Wanted::Path);
        let framework_op = text(self, Wanted::FrameworkOp);
        let name = match metadata.name {
            Some(name) => self.text(name.of(file)),
            None => self.strings.intern(&format!("metadata {}", local.metadata_id)),
        };
        let kind = Kind {
            name,
            display_name: metadata.display_name.map(|name| self.text(name.of(file))),
            module,
            program: metadata.number(file, layout, Wanted::Program, local),
            op,
            // On GPU `tf_op` only says that there is a module.
            path: path.or(framework_op.filter(|&text| !self.strings.get(text).starts_with("XlaModule"))),
            category: metadata.named(file, layout, b"hlo_category").map(|bytes| self.text(bytes)),
            device_ordinal: match local.identity.get(Wanted::DeviceOrdinal) {
                (Tag::Signed | Tag::Unsigned, bits) => Some(bits.cast_signed()),
                _ => None,
            },
            description: Description { plane, metadata_id: local.metadata_id },
        };
        let next = KindId(u32::try_from(self.kinds.len()).unwrap_or(u32::MAX));
        let id = *self.places.entry(kind.clone()).or_insert(next);
        if id == next {
            self.kinds.push(kind);
            if metadata.name.is_none() {
                self.undescribed.insert(id, ());
            }
        }
        if is_shared {
            self.known.insert((plane, *local), id);
        }
        id
    }
}

/// The description of a kind of event.
#[derive(Debug, Default)]
struct Metadata {
    name: Option<Span>,
    display_name: Option<Span>,
    stats: Vec<Span>,
}

impl Metadata {
    fn of(file: &[u8], layout: &PlaneLayout, id: i64) -> Self {
        let Some(&span) = layout.event_metadata.get(&id) else { return Self::default() };
        let mut metadata = Self { name: Some(Span::default()), ..Self::default() };
        for field in Fields::new(file, span).filter_map(Result::ok) {
            match (field.number, field.span()) {
                (2, Some(span)) => metadata.name = Some(span),
                (4, Some(span)) if span.start < span.end => metadata.display_name = Some(span),
                (5, Some(span)) => metadata.stats.push(span),
                _ => {}
            }
        }
        metadata
    }

    /// The value of a stat of the description, by its name.
    fn stat<'a>(&self, file: &'a [u8], layout: &PlaneLayout, name: &[u8]) -> Option<Vec<Field>> {
        self.stats.iter().find_map(|&stat| {
            let fields: Vec<Field> = Fields::new(file, stat).filter_map(Result::ok).collect();
            let id = fields.iter().find(|field| field.number == 1).and_then(|field| field.signed()).unwrap_or(0);
            (layout.stat_names.get(&id)?.of(file) == name).then_some(fields)
        })
    }

    fn named<'a>(&self, file: &'a [u8], layout: &PlaneLayout, name: &[u8]) -> Option<&'a [u8]> {
        self.stat(file, layout, name)?.iter().find_map(|field| match field.number {
            5 | 6 => field.span().map(|span| span.of(file)),
            7 => layout.stat_names.get(&field.signed()?).map(|span| span.of(file)),
            _ => None,
        })
    }

    fn text<'a>(&self, file: &'a [u8], layout: &PlaneLayout, wanted: Wanted) -> Option<&'a [u8]> {
        self.named(file, layout, wanted.name())
    }

    fn number(&self, file: &[u8], layout: &PlaneLayout, wanted: Wanted, local: &LocalKind) -> Option<ProgramId> {
        match local.identity.get(wanted) {
            (Tag::Unsigned, bits) => return Some(bits.into()),
            (Tag::Signed, bits) => return Some(bits.cast_signed().into()),
            _ => {}
        }
        self.stat(file, layout, wanted.name())?.iter().find_map(|field| match field.number {
            3 => field.signed().map(|number| number.cast_unsigned().into()),
            4 => field.signed().map(ProgramId::from),
            _ => None,
        })
    }
}
