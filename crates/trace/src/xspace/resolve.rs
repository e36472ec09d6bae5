//! Converts the kinds of a chunk to kinds of the trace by looking up names, once per kind.

use foldhash::{HashMap, HashSet};

use super::event::Gathered;
use super::identity::{KnownStat, LocalKind, Tag};
use super::layout::{PlaneLayout, lossy};
use super::memory::Memory;
use super::stats::raw_stat;
use crate::error::TraceError;
use crate::table::{Description, Kind, KindId, ProgramId, Strings, Text, number};
use crate::wire::{Fields, Span, Value};

/// The kinds of a trace while it is being read.
#[derive(Debug)]
pub(super) struct Resolver<'m> {
    memory: &'m Memory,
    pub(super) strings: Strings,
    pub(super) kinds: Vec<Kind>,
    places: HashMap<Kind, KindId>,
    /// A cache of kinds of a plane that have no strings of their own.
    known: HashMap<(u32, LocalKind), KindId>,
    /// A cache of descriptions: several kinds may share one.
    described: HashMap<Description, Metadata>,
    pub(super) undescribed: HashSet<KindId>,
}

impl<'m> Resolver<'m> {
    /// An empty table, which counts its kinds and texts in `memory`.
    pub(super) fn new(memory: &'m Memory) -> Self {
        Self {
            memory,
            strings: Strings::default(),
            kinds: Vec::new(),
            places: HashMap::default(),
            known: HashMap::default(),
            described: HashMap::default(),
            undescribed: HashSet::default(),
        }
    }

    pub(super) fn text(&mut self, bytes: &[u8]) -> Text {
        self.intern(&lossy(bytes))
    }

    pub(super) fn intern(&mut self, characters: &str) -> Text {
        let before = self.strings.count();
        let text = self.strings.intern(characters);
        if self.strings.count() > before {
            self.memory.add_text(characters);
        }
        text
    }

    /// The kinds of the trace for the kinds of a chunk, in the order of the chunk. Fails at the limit on memory.
    pub(super) fn resolve(
        &mut self,
        file: &[u8],
        layout: &PlaneLayout,
        plane: u32,
        gathered: &Gathered,
    ) -> Result<Vec<KindId>, TraceError> {
        let kinds = gathered.kinds.iter().map(|kind| {
            let id = self.kind(file, layout, plane, kind, &gathered.strings);
            self.memory.check().map(|()| id)
        });
        kinds.collect()
    }

    fn kind(&mut self, file: &[u8], layout: &PlaneLayout, plane: u32, local: &LocalKind, strings: &[Span]) -> KindId {
        let is_shared = [KnownStat::Module, KnownStat::Op, KnownStat::Program, KnownStat::Path, KnownStat::FrameworkOp]
            .iter()
            .all(|&stat| local.identity.get(stat).0 != Tag::Text);
        if is_shared && let Some(&id) = self.known.get(&(plane, *local)) {
            return id;
        }
        let description = Description { plane, metadata_id: local.metadata_id };
        let metadata = self.metadata(file, layout, description);
        // A stat of the event takes precedence over its description.
        let mut text = |stat: KnownStat, shared: Option<Text>| -> Option<Text> {
            let (tag, bits) = local.identity.get(stat);
            let bytes = match tag {
                Tag::Text => strings.get(usize::try_from(bits).ok()?)?.bytes(file),
                Tag::Reference => layout.stat_names.get(&bits.cast_signed())?.bytes(file),
                _ => return shared,
            };
            Some(self.text(bytes))
        };
        let (module, op) = (text(KnownStat::Module, metadata.module), text(KnownStat::Op, metadata.op));
        let path = text(KnownStat::Path, metadata.path);
        let framework_op = text(KnownStat::FrameworkOp, metadata.framework_op);
        let kind = Kind {
            name: metadata.name,
            display_name: metadata.display_name,
            module,
            is_module_by_time: false,
            program: match local.identity.get(KnownStat::Program) {
                (Tag::Unsigned, bits) => Some(bits.into()),
                (Tag::Signed, bits) => Some(bits.cast_signed().into()),
                _ => metadata.program,
            },
            op,
            opcode: None,
            // On GPU `tf_op` contains only the fact that there is a module.
            path: path.or(framework_op.filter(|&text| !self.strings.get(text).starts_with("XlaModule"))),
            hlo_path: None,
            category: metadata.category,
            device_ordinal: match local.identity.get(KnownStat::DeviceOrdinal) {
                (Tag::Signed | Tag::Unsigned, bits) => Some(bits.cast_signed()),
                _ => None,
            },
            description,
        };
        let next = KindId(number(self.kinds.len()));
        let id = *self.places.entry(kind.clone()).or_insert(next);
        if id == next {
            self.kinds.push(kind);
            self.memory.add_kind();
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
            Some(&span) => self.read_metadata(file, layout, span),
            None => Metadata::named(self.intern(&format!("metadata {}", description.metadata_id))),
        };
        self.described.insert(description, metadata);
        metadata
    }

    fn read_metadata(&mut self, file: &[u8], layout: &PlaneLayout, span: Span) -> Metadata {
        let mut metadata = Metadata::named(self.text(b""));
        for field in Fields::new(file, span).filter_map(Result::ok) {
            match (field.number, field.span()) {
                (2, Some(name)) => metadata.name = self.text(name.bytes(file)),
                (4, Some(name)) => metadata.display_name = (name.start < name.end).then(|| self.text(name.bytes(file))),
                (5, Some(stat)) => self.add_stat(file, layout, stat, &mut metadata),
                _ => {}
            }
        }
        metadata
    }

    /// Adds a stat to a description. The last of several with the same name counts.
    fn add_stat(&mut self, file: &[u8], layout: &PlaneLayout, stat: Span, metadata: &mut Metadata) {
        let Ok((id, value)) = raw_stat(file, stat) else { return };
        let name = layout.stat_names.get(&id).map_or(&[][..], |name| name.bytes(file));
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
        *target = characters.map(|span| self.text(span.bytes(file)));
    }
}

/// The description of a kind of event.
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
