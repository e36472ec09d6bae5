//! The kinds of a chunk into those of the trace: numbers become names, once a kind.

use foldhash::{HashMap, HashSet};

use super::event::Gathered;
use super::identity::{LocalKind, Tag, Wanted};
use super::layout::{PlaneLayout, lossy};
use super::stats::raw_stat;
use crate::table::{Description, Kind, KindId, ProgramId, Strings, Text, number};
use crate::wire::{Fields, Span, Value};

/// The kinds of a trace while it is put together.
#[derive(Debug, Default)]
pub(super) struct Resolver {
    pub(super) strings: Strings,
    pub(super) kinds: Vec<Kind>,
    places: HashMap<Kind, KindId>,
    /// Kinds of a plane that were seen before, without strings of their own.
    known: HashMap<(u32, LocalKind), KindId>,
    /// Each description is read once, however many kinds of event have it.
    described: HashMap<Description, Metadata>,
    pub(super) undescribed: HashSet<KindId>,
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
        if is_shared && let Some(&id) = self.known.get(&(plane, *local)) {
            return id;
        }
        let description = Description { plane, metadata_id: local.metadata_id };
        let metadata = self.metadata(file, layout, description);
        // What the event says itself counts before what is said of all of them.
        let mut text = |wanted: Wanted, shared: Option<Text>| -> Option<Text> {
            let (tag, bits) = local.identity.get(wanted);
            let bytes = match tag {
                Tag::Text => strings.get(usize::try_from(bits).ok()?)?.of(file),
                Tag::Reference => layout.stat_names.get(&bits.cast_signed())?.of(file),
                _ => return shared,
            };
            Some(self.text(bytes))
        };
        let (module, op) = (text(Wanted::Module, metadata.module), text(Wanted::Op, metadata.op));
        let path = text(Wanted::Path, metadata.path);
        let framework_op = text(Wanted::FrameworkOp, metadata.framework_op);
        let kind = Kind {
            name: metadata.name,
            display_name: metadata.display_name,
            module,
            is_module_by_time: false,
            program: match local.identity.get(Wanted::Program) {
                (Tag::Unsigned, bits) => Some(bits.into()),
                (Tag::Signed, bits) => Some(bits.cast_signed().into()),
                _ => metadata.program,
            },
            op,
            opcode: None,
            // On GPU `tf_op` only says that there is a module.
            path: path.or(framework_op.filter(|&text| !self.strings.get(text).starts_with("XlaModule"))),
            hlo_path: None,
            category: metadata.category,
            device_ordinal: match local.identity.get(Wanted::DeviceOrdinal) {
                (Tag::Signed | Tag::Unsigned, bits) => Some(bits.cast_signed()),
                _ => None,
            },
            description,
        };
        let next = KindId(number(self.kinds.len()));
        let id = *self.places.entry(kind.clone()).or_insert(next);
        if id == next {
            self.kinds.push(kind);
            if !layout.event_metadata.contains_key(&local.metadata_id) {
                self.undescribed.insert(id);
            }
        }
        if is_shared {
            self.known.insert((plane, *local), id);
        }
        id
    }

    fn metadata(&mut self, file: &[u8], layout: &PlaneLayout, description: Description) -> Metadata {
        if let Some(&metadata) = self.described.get(&description) {
            return metadata;
        }
        let metadata = match layout.event_metadata.get(&description.metadata_id) {
            Some(&span) => self.described(file, layout, span),
            None => Metadata::named(self.strings.intern(&format!("metadata {}", description.metadata_id))),
        };
        self.described.insert(description, metadata);
        metadata
    }

    fn described(&mut self, file: &[u8], layout: &PlaneLayout, span: Span) -> Metadata {
        let mut metadata = Metadata::named(self.text(b""));
        for field in Fields::new(file, span).filter_map(Result::ok) {
            match (field.number, field.span()) {
                (2, Some(name)) => metadata.name = self.text(name.of(file)),
                (4, Some(name)) => metadata.display_name = (name.start < name.end).then(|| self.text(name.of(file))),
                (5, Some(stat)) => self.describe(file, layout, stat, &mut metadata),
                _ => {}
            }
        }
        metadata
    }

    /// Takes in a stat of a description. Of several with one name the last counts.
    fn describe(&mut self, file: &[u8], layout: &PlaneLayout, stat: Span, metadata: &mut Metadata) {
        let Ok((id, value)) = raw_stat(file, stat) else { return };
        let name = layout.stat_names.get(&id).map_or(&[][..], |name| name.of(file));
        let target = match name {
            b"hlo_module" => &mut metadata.module,
            b"hlo_op" => &mut metadata.op,
            b"name" => &mut metadata.path,
            b"tf_op" => &mut metadata.framework_op,
            b"hlo_category" => &mut metadata.category,
            b"program_id" => {
                metadata.program = match value {
                    Some((3, Value::Varint(bits))) => Some(bits.into()),
                    Some((4, Value::Varint(bits))) => Some(bits.cast_signed().into()),
                    _ => None,
                };
                return;
            }
            _ => return,
        };
        let characters = match value {
            Some((5 | 6, Value::Span(span))) => Some(span),
            Some((7, Value::Varint(bits))) => layout.stat_names.get(&bits.cast_signed()).copied(),
            _ => None,
        };
        *target = characters.map(|span| self.text(span.of(file)));
    }
}

/// What the description of a kind of event says of it.
#[derive(Debug, Clone, Copy)]
struct Metadata {
    name: Text,
    display_name: Option<Text>,
    module: Option<Text>,
    program: Option<ProgramId>,
    op: Option<Text>,
    path: Option<Text>,
    framework_op: Option<Text>,
    category: Option<Text>,
}

impl Metadata {
    fn named(name: Text) -> Self {
        Self {
            name,
            display_name: None,
            module: None,
            program: None,
            op: None,
            path: None,
            framework_op: None,
            category: None,
        }
    }
}
