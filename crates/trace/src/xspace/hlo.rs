//! Reads the instructions of a compiled program, with opcode and named scopes, from the `HloProto` that XLA writes into
//! a trace.
//!
//! It reads messages to a fixed depth, and each byte a fixed number of times. A damaged program is read up to the
//! damage.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;
use foldhash::{HashMap, HashSet};

use super::memory::{INSTRUCTION_BYTES, Memory};
use crate::error::TraceError;
use crate::wire::{Field, Fields, Span, Value, varint};

/// The fields of an instruction.
const NAME: u64 = 1;
const OPCODE: u64 = 2;
const METADATA: u64 = 7;
const ID: u64 = 35;
const OPERANDS: u64 = 36;
const PREDECESSORS: u64 = 37;
const CALLED: u64 = 38;
/// Attributes that do not change what an instruction computes: hints for launching and lowering, and its original form.
const FRONTEND_ATTRIBUTES: u64 = 68;
const ORIGINAL_VALUE: u64 = 88;

/// Longer paths are ignored, because each of many instructions may read the bytes of a shared path.
const LONGEST_PATH: usize = 4096;

/// The instructions of a program.
#[derive(Debug, Default)]
pub(super) struct Program<'a> {
    file: &'a [u8],
    instructions: Vec<Instruction<'a>>,
    computations: Vec<Computation>,
    /// The index of each computation, by its number.
    places: HashMap<u64, usize>,
    /// The computations inside fusions, whose instructions do not run on their own.
    fused: HashSet<usize>,
    /// The number of the entry computation, which runs once.
    entry: Option<u64>,
    schedule: Option<Span>,
    /// A cache of the paths of fused computations.
    paths: HashMap<usize, &'a [u8]>,
}

/// An instruction; missing fields are empty.
#[derive(Debug, Default, Clone, Copy)]
struct Instruction<'a> {
    name: &'a [u8],
    opcode: &'a [u8],
    path: &'a [u8],
    id: u64,
    /// The first computation it calls.
    called: Option<u64>,
    message: Span,
}

#[derive(Debug, Default)]
struct Computation {
    /// The index of the instruction that computes its result.
    root: Option<usize>,
    first: usize,
    end: usize,
}

impl<'a> Program<'a> {
    /// Reads a program and counts its memory. Fails at the limit on memory.
    pub(super) fn read(file: &'a [u8], proto: Span, memory: &Memory) -> Result<Self, TraceError> {
        let mut program = Self { file, ..Self::default() };
        for module in messages(file, proto, 1) {
            for field in undamaged(file, module) {
                match (field.number, field.value) {
                    (3, Value::Span(computation)) => program.take(computation, memory),
                    (6, Value::Varint(entry)) => program.entry = Some(entry),
                    (7, Value::Span(schedule)) => program.schedule = Some(schedule),
                    _ => {}
                }
            }
        }
        let fusions = program.instructions.iter().filter(|instruction| instruction.opcode == b"fusion");
        let called = fusions.filter_map(|fusion| program.places.get(&fusion.called?).copied());
        program.fused = called.collect();
        memory.check()?;
        Ok(program)
    }

    /// The memory that was counted for it.
    pub(super) fn counted_bytes(&self) -> u64 {
        (self.instructions.len() + self.computations.len()) as u64 * INSTRUCTION_BYTES
    }

    fn take(&mut self, computation: Span, memory: &Memory) {
        if memory.is_exceeded() {
            return;
        }
        memory.add(INSTRUCTION_BYTES);
        let (mut id, mut root, first) = (0, 0, self.instructions.len());
        for field in undamaged(self.file, computation).take_while(|_| !memory.is_exceeded()) {
            match (field.number, field.value) {
                (2, Value::Span(message)) => {
                    memory.add(INSTRUCTION_BYTES);
                    self.instructions.push(Instruction::read(self.file, message));
                }
                (5, Value::Varint(bits)) => id = bits,
                (6, Value::Varint(bits)) => root = bits,
                _ => {}
            }
        }
        self.places.insert(id, self.computations.len());
        let root = (first..self.instructions.len()).rfind(|&place| self.instructions[place].id == root);
        self.computations.push(Computation { root, first, end: self.instructions.len() });
    }

    /// The instructions that run on their own: index and name.
    pub(super) fn running(&self) -> impl Iterator<Item = (usize, &'a [u8])> {
        let computations = self.computations.iter().enumerate().filter(|(place, _)| !self.fused.contains(place));
        let instructions = computations.flat_map(|(_, computation)| computation.first..computation.end);
        instructions.map(|place| (place, self.instructions[place].name))
    }

    /// Whether each of these instructions runs once per run of the program.
    pub(super) fn run_once(&self, instructions: &[usize]) -> bool {
        let entry = self.entry.and_then(|entry| self.places.get(&entry)).map(|&place| &self.computations[place]);
        entry.is_some_and(|entry| instructions.iter().all(|place| (entry.first..entry.end).contains(place)))
    }

    /// The opcode of an instruction; for an asynchronous start, the opcode of the instruction that it starts.
    pub(super) fn opcode(&self, instruction: usize) -> &'a [u8] {
        let instruction = &self.instructions[instruction];
        let started = (instruction.opcode == b"async-start").then_some(instruction.called).flatten();
        let root = started.and_then(|called| self.root(*self.places.get(&called)?));
        root.map_or(instruction.opcode, |root| root.opcode)
    }

    /// The named scopes of an instruction; empty if unknown. Compilers omit the scopes of some fusions. A fusion then
    /// has the scopes of its result, or else the scopes that all its instructions have in common.
    pub(super) fn path(&mut self, instruction: usize) -> &'a [u8] {
        let Instruction { opcode, path, called, .. } = self.instructions[instruction];
        if !path.is_empty() || opcode != b"fusion" {
            return path;
        }
        let Some(&place) = called.and_then(|called| self.places.get(&called)) else { return b"" };
        if let Some(path) = self.paths.get(&place) {
            return path;
        }
        let path = match self.root(place) {
            Some(root) if !root.path.is_empty() => root.path,
            _ => {
                let computation = &self.computations[place];
                let inner = self.instructions[computation.first..computation.end].iter();
                let computing = inner.filter(|inner| !matches!(inner.opcode, b"parameter" | b"constant"));
                common(computing.map(|inner| inner.path).filter(|path| !path.is_empty()))
            }
        };
        self.paths.insert(place, path);
        path
    }

    fn root(&self, computation: usize) -> Option<&Instruction<'a>> {
        self.computations[computation].root.map(|root| &self.instructions[root])
    }

    /// Groups of running instructions that differ only in names, operands and scopes, so that one kernel may serve a
    /// whole group. Each group is in the order of execution.
    pub(super) fn alike(&self) -> Vec<Vec<usize>> {
        let mut fingerprints = Fingerprints { program: self, computations: HashMap::default() };
        let mut groups: HashMap<u64, Vec<usize>> = HashMap::default();
        // A computation comes after those that it calls.
        for (place, computation) in self.computations.iter().enumerate() {
            let fingerprint = fingerprints.computation(computation);
            fingerprints.computations.insert(place, fingerprint);
        }
        for (place, _) in self.running() {
            groups.entry(fingerprints.instruction(place, None)).or_default().push(place);
        }
        let order = self.order();
        let mut groups: Vec<Vec<usize>> = groups.into_values().collect();
        for group in &mut groups {
            group.sort_by_key(|&place| (order.get(&self.instructions[place].id), place));
        }
        groups
    }

    /// The position of each instruction in the schedule, by its number.
    fn order(&self) -> HashMap<u64, usize> {
        let mut order = HashMap::default();
        let entries = self.schedule.into_iter().flat_map(|schedule| messages(self.file, schedule, 1));
        for sequence in entries.flat_map(|entry| messages(self.file, entry, 2)) {
            for field in undamaged(self.file, sequence).filter(|field| field.number == 1) {
                numbers(self.file, field.value, |id| {
                    let next = order.len();
                    // A damaged schedule may have more numbers than the program has instructions.
                    if next < self.instructions.len() {
                        order.insert(id, next);
                    }
                });
            }
        }
        order
    }
}

impl<'a> Instruction<'a> {
    fn read(file: &'a [u8], message: Span) -> Self {
        let mut instruction = Self { message, ..Self::default() };
        for field in undamaged(file, message) {
            match (field.number, field.value) {
                (NAME, Value::Span(name)) => instruction.name = name.bytes(file),
                (OPCODE, Value::Span(opcode)) => instruction.opcode = opcode.bytes(file),
                (METADATA, Value::Span(metadata)) => {
                    // An instruction that was made of several has the paths of all.
                    let path = messages(file, metadata, 2).last().unwrap_or_default().bytes(file);
                    let path = if path.len() > LONGEST_PATH { b"" } else { path };
                    instruction.path = common(path.split(|&sign| sign == b';'));
                }
                (ID, Value::Varint(bits)) => instruction.id = bits,
                (CALLED, value) => numbers(file, value, |called| {
                    instruction.called.get_or_insert(called);
                }),
                _ => {}
            }
        }
        instruction
    }
}

/// Computes hashes that are equal for equal computations.
struct Fingerprints<'a> {
    program: &'a Program<'a>,
    /// The hashes of the computations so far.
    computations: HashMap<usize, u64>,
}

impl Fingerprints<'_> {
    fn computation(&self, computation: &Computation) -> u64 {
        let places = computation.first..computation.end;
        let ids = places.clone().map(|place| self.program.instructions[place].id);
        let positions: HashMap<u64, usize> = ids.zip(0..).collect();
        let mut hasher = FixedState::default().build_hasher();
        hasher.write_usize(computation.root.map_or(usize::MAX, |root| root - computation.first));
        for place in places {
            hasher.write_u64(self.instruction(place, Some(&positions)));
        }
        hasher.finish()
    }

    /// The hash of an instruction; with `positions`, it includes the positions of its operands.
    fn instruction(&self, place: usize, positions: Option<&HashMap<u64, usize>>) -> u64 {
        let file = self.program.file;
        let mut hasher = FixedState::default().build_hasher();
        for Field { number, value } in undamaged(file, self.program.instructions[place].message) {
            match number {
                NAME | METADATA | ID | PREDECESSORS | FRONTEND_ATTRIBUTES | ORIGINAL_VALUE => {}
                OPERANDS => numbers(file, value, |id| {
                    if let Some(positions) = positions {
                        hasher.write_usize(positions.get(&id).copied().unwrap_or(usize::MAX));
                    }
                }),
                CALLED => numbers(file, value, |id| {
                    let fingerprint = self.program.places.get(&id).and_then(|place| self.computations.get(place));
                    hasher.write_u64(fingerprint.copied().unwrap_or(id));
                }),
                _ => {
                    hasher.write_u64(number);
                    match value {
                        Value::Varint(bits) | Value::Fixed64(bits) => hasher.write_u64(bits),
                        Value::Fixed32(bits) => hasher.write_u32(bits),
                        Value::Span(span) => hasher.write(span.bytes(file)),
                    }
                }
            }
        }
        hasher.finish()
    }
}

/// The common prefix of paths, in whole scopes.
pub(super) fn common<'a>(mut paths: impl Iterator<Item = &'a [u8]>) -> &'a [u8] {
    let Some(first) = paths.next() else { return b"" };
    paths.fold(first, |common, path| {
        let same = common.iter().zip(path).take_while(|(one, other)| one == other).count();
        let ends = |path: &[u8]| path.get(same).is_none_or(|&sign| sign == b'/');
        if ends(common) && ends(path) {
            return &common[..same];
        }
        &common[..common[..same].iter().rposition(|&sign| sign == b'/').unwrap_or(0)]
    })
}

/// The fields of a message up to its first damage.
fn undamaged(file: &[u8], message: Span) -> impl Iterator<Item = Field> {
    Fields::new(file, message).map_while(Result::ok)
}

/// The messages in one field.
pub(super) fn messages(file: &[u8], message: Span, number: u64) -> impl Iterator<Item = Span> {
    undamaged(file, message).filter(move |field| field.number == number).filter_map(Field::span)
}

/// The integers in a field, single or packed.
fn numbers(file: &[u8], value: Value, mut take: impl FnMut(u64)) {
    match value {
        Value::Varint(bits) => take(bits),
        Value::Span(span) => {
            let (bytes, mut at) = (span.bytes(file), 0);
            while let Some(number) = varint(bytes, &mut at) {
                take(number);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_whole_scopes_in_common() {
        for (paths, expected) in [
            (&["a/b/c", "a/b/d"][..], "a/b"),
            (&["a/b1", "a/b2"], "a"),
            (&["a/b", "a/b/c"], "a/b"),
            (&["a/b/c", "a/b"], "a/b"),
            (&["a", "b"], ""),
            (&["a/b", ""], ""),
            (&["a"], "a"),
            (&[], ""),
        ] {
            assert_eq!(common(paths.iter().map(|path| path.as_bytes())), expected.as_bytes(), "{paths:?}");
        }
    }
}
