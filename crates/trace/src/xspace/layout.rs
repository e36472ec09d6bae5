//! Where everything is in a file: its sessions and planes, the lines and descriptions of each. Lines are not looked into.

use std::borrow::Cow;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::wire::{Damage, Field, Fields, Span};

/// A file, taken apart down to its lines.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pub(super) planes: Vec<PlaneLayout>,
    pub(super) sessions: Vec<SessionLayout>,
    pub(super) errors: Vec<Span>,
    pub(super) warnings: Vec<Span>,
    pub(super) losses: Vec<Loss>,
}

/// What one run of a profiler wrote. Files put one behind the other are several.
#[derive(Debug, Default)]
pub(super) struct SessionLayout {
    pub(super) hosts: Vec<Span>,
    names: FxHashSet<Vec<u8>>,
}

#[derive(Debug, Default)]
pub(super) struct PlaneLayout {
    /// Of this file.
    pub(super) session: usize,
    pub(super) name: Span,
    pub(super) lines: Vec<Span>,
    /// The description of each kind of event, by its number.
    pub(super) event_metadata: FxHashMap<i64, Span>,
    /// The name of each kind of stat, by its number.
    pub(super) stat_names: FxHashMap<i64, Span>,
    pub(super) stats: Vec<Span>,
}

/// A part that is damaged: from the damage to its end it is lost.
#[derive(Debug)]
pub(super) struct Loss {
    pub(super) part: String,
    pub(super) damage: Damage,
    pub(super) bytes: u64,
}

impl Layout {
    pub(super) fn of(file: &[u8]) -> Self {
        let mut layout = Self::default();
        let mut fields = Fields::new(file, Span { start: 0, end: file.len() });
        while let Some(field) = fields.next() {
            match field {
                Ok(field) => layout.take(file, field),
                Err(damage) => {
                    let bytes = file.len() as u64 - damage.offset;
                    layout.losses.push(Loss { part: String::from("the file"), damage, bytes });
                    // A file that was cut ends in the middle of a plane: what of it is there is read.
                    if let Some(cut) = fields.cut() {
                        layout.losses.pop();
                        let planes = layout.planes.len();
                        layout.take(file, cut);
                        if layout.planes.len() == planes || layout.losses.is_empty() {
                            layout.losses.push(Loss { part: String::from("the file"), damage, bytes });
                        }
                    }
                }
            }
        }
        layout
    }

    fn take(&mut self, file: &[u8], field: Field) {
        let Some(span) = field.span() else { return };
        match field.number {
            1 => self.take_plane(file, span),
            2 => self.errors.push(span),
            3 => self.warnings.push(span),
            4 => self.session().hosts.push(span),
            _ => {}
        }
    }

    fn session(&mut self) -> &mut SessionLayout {
        if self.sessions.is_empty() {
            self.sessions.push(SessionLayout::default());
        }
        let last = self.sessions.len() - 1;
        &mut self.sessions[last]
    }

    fn take_plane(&mut self, file: &[u8], span: Span) {
        let mut plane = PlaneLayout::default();
        if let Some(loss) = plane.fill(file, span) {
            self.losses.push(loss);
        }
        let name = plane.name.of(file).to_vec();
        // One session writes each plane once: a name that comes again is from the next.
        if !self.session().names.insert(name.clone()) {
            self.sessions.push(SessionLayout::default());
            self.session().names.insert(name);
        }
        plane.session = self.sessions.len() - 1;
        self.planes.push(plane);
    }
}

impl PlaneLayout {
    fn fill(&mut self, file: &[u8], span: Span) -> Option<Loss> {
        let mut fields = Fields::new(file, span);
        let mut loss = None;
        while let Some(field) = fields.next() {
            match field {
                Ok(field) => self.take(file, field),
                Err(damage) => {
                    if let Some(cut) = fields.cut().filter(|cut| cut.number == 3 && span.end == file.len()) {
                        self.take(file, cut);
                    }
                    loss = Some((damage, span.end as u64 - damage.offset));
                }
            }
        }
        let part = || format!("plane {}", lossy(self.name.of(file)));
        loss.map(|(damage, bytes)| Loss { part: part(), damage, bytes })
    }

    fn take(&mut self, file: &[u8], field: Field) {
        let Some(span) = field.span() else { return };
        match field.number {
            2 => self.name = span,
            3 => self.lines.push(span),
            4 => {
                let (id, description) = entry(file, span);
                self.event_metadata.insert(id, description);
            }
            5 => {
                let (id, description) = entry(file, span);
                let mut fields = Fields::new(file, description).filter_map(Result::ok);
                let name = fields.find(|field| field.number == 2).and_then(Field::span).unwrap_or_default();
                self.stat_names.insert(id, name);
            }
            6 => self.stats.push(span),
            _ => {}
        }
    }

    pub(super) fn largest_metadata(&self) -> i64 {
        self.event_metadata.keys().copied().max().unwrap_or(-1)
    }
}

/// The key and the value of an entry of a map.
fn entry(file: &[u8], span: Span) -> (i64, Span) {
    let (mut id, mut value) = (0, Span::default());
    for field in Fields::new(file, span).filter_map(Result::ok) {
        match (field.number, field.signed(), field.span()) {
            (1, Some(number), _) => id = number,
            (2, _, Some(span)) => value = span,
            _ => {}
        }
    }
    (id, value)
}

/// Characters; what is not UTF-8 is replaced.
pub(super) fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
