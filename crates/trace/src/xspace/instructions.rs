//! Finds the opcode and the named scopes of events in the compiled programs that a trace contains.
//!
//! An event that names its op belongs to that instruction. In a command buffer (a CUDA graph), events have only the
//! name of the kernel. XLA names a kernel after one instruction, but uses it for all similar instructions, such as
//! those of several layers. The order of events decides which of them ran, if a launch has as many events of the kernel
//! as there are instructions. If it has fewer, an event has the scopes that all of them have in common. If it has more,
//! the scopes are unknown.

use std::ops::Range;

use foldhash::HashMap;
use rayon::prelude::*;

use super::hlo::{Program, common, messages};
use super::layout::lossy;
use super::memory::Memory;
use super::stats::{Files, raw_stat};
use crate::error::TraceError;
use crate::table::{Kind, KindId, Line, Strings, Text, Trace, is_command_buffer, number, parse_module};
use crate::wire::{Span, Value};

/// The key of a compiled program: session, number and name.
type Key = (usize, i128, Text);

/// The kinds of each instruction or group of instructions, with its information.
type InstructionKinds<'a> = Vec<(Vec<KindId>, InstructionInfo<'a>)>;

/// Information about an instruction, or about several that cannot be distinguished. Unknown values are empty.
#[derive(Debug, Default, Clone)]
struct InstructionInfo<'a> {
    opcode: &'a [u8],
    path: &'a [u8],
    /// The paths of all instructions that a kernel may serve, in the order of execution.
    members: Vec<&'a [u8]>,
    /// Whether all these paths are equal.
    is_one: bool,
    /// Whether each instruction runs once per launch.
    run_once: bool,
}

/// Sets the opcode and the named scopes of all events whose instruction is known. Fails at the limit on memory.
pub(super) fn name_instructions(trace: &mut Trace, files: &Files, memory: &Memory) -> Result<(), TraceError> {
    let mut wanted: HashMap<Key, Vec<KindId>> = HashMap::default();
    for (place, kind) in trace.kinds.iter().enumerate() {
        let (Some(program), Some(module)) = (kind.program, kind.module) else { continue };
        let Some(plane) = files.planes.get(kind.description.plane as usize) else { continue };
        let key = (plane.layout.session, unsigned(program.get()), module);
        wanted.entry(key).or_default().push(KindId(number(place)));
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let programs = programs(&trace.strings, files, &wanted);
    let found = programs.par_iter().map(|&(key, file, proto)| {
        let program = Program::read(file, proto, memory)?;
        let bytes = program.counted_bytes();
        let kinds = wanted[&key].iter().map(|&id| (id, &trace.kinds[id.index()]));
        let found = instructions(&trace.strings, kinds.collect(), program);
        memory.subtract(bytes);
        Ok(found)
    });
    let found: Vec<InstructionKinds> = found.collect::<Result<_, TraceError>>()?;
    let mut shared = SharedKernels::default();
    for (kinds, info) in found.into_iter().flatten() {
        let mut text = |bytes: &[u8]| (!bytes.is_empty()).then(|| trace.strings.intern(&lossy(bytes)));
        let (opcode, path) = (text(info.opcode), text(info.path));
        if !info.members.is_empty() {
            let paths = info.members.iter().map(|path| text(path)).collect();
            shared.groups.push(Group { paths, run_once: info.run_once });
        }
        for kind in kinds {
            (trace.kinds[kind.index()].opcode, trace.kinds[kind.index()].hlo_path) = (opcode, path);
            if !info.members.is_empty() {
                shared.group_by_kind.insert(kind, shared.groups.len() - 1);
            }
        }
    }
    if !shared.groups.is_empty() {
        for line in trace.planes.iter_mut().flat_map(|plane| &mut plane.lines) {
            shared.set_paths_by_order(&mut trace.kinds, line);
        }
    }
    Ok(())
}

/// Normalizes a program number, which traces write signed or unsigned.
fn unsigned(program: i128) -> i128 {
    program.rem_euclid(1 << 64)
}

/// The programs that events refer to, each with its file. The first one counts if several have the same name.
fn programs<'a>(strings: &Strings, files: &'a Files, wanted: &HashMap<Key, Vec<KindId>>) -> Vec<(Key, &'a [u8], Span)> {
    let mut programs: HashMap<Key, (i64, &[u8], Span)> = HashMap::default();
    for plane in &files.planes {
        let file = files.sources[plane.source].bytes();
        if plane.layout.name.bytes(file) != b"/host:metadata" {
            continue;
        }
        for (&id, &description) in &plane.layout.event_metadata {
            let name = messages(file, description, 2).last().unwrap_or_default();
            let name = lossy(name.bytes(file));
            let (module, Some(program)) = parse_module(&name) else { continue };
            let Some(module) = strings.find(module) else { continue };
            let key = (plane.layout.session, unsigned(program.get()), module);
            let proto = messages(file, description, 5).find_map(|stat| match raw_stat(file, stat).ok()? {
                (name, Some((6, Value::Span(proto)))) => {
                    let name = plane.layout.stat_names.get(&name)?.bytes(file);
                    matches!(name, b"Hlo Proto" | b"hlo_proto").then_some(proto)
                }
                _ => None,
            });
            if let Some(proto) = proto.filter(|_| wanted.contains_key(&key)) {
                let first = programs.entry(key).or_insert((id, file, proto));
                if id < first.0 {
                    *first = (id, file, proto);
                }
            }
        }
    }
    let mut programs: Vec<_> = programs.into_iter().map(|(key, (_, file, proto))| (key, file, proto)).collect();
    programs.sort_unstable_by_key(|&(key, ..)| key);
    programs
}

/// The instructions of these kinds.
fn instructions<'a>(strings: &Strings, kinds: Vec<(KindId, &Kind)>, mut program: Program<'a>) -> InstructionKinds<'a> {
    let mut by_op: HashMap<&[u8], Vec<KindId>> = HashMap::default();
    let mut by_kernel: HashMap<&[u8], Vec<KindId>> = HashMap::default();
    for (id, kind) in kinds {
        match kind.op.map(|op| strings.get(op)).filter(|op| !is_command_buffer(op)) {
            Some(op) => by_op.entry(op.as_bytes()).or_default().push(id),
            None => by_kernel.entry(strings.get(kind.name).as_bytes()).or_default().push(id),
        }
    }
    let mut found = InstructionKinds::new();
    if !by_kernel.is_empty() {
        found = kernels(&by_kernel, &mut program);
    }
    if !by_op.is_empty() {
        let named: Vec<(usize, &[u8])> = program.running().filter(|(_, name)| by_op.contains_key(name)).collect();
        for (place, name) in named {
            let info = InstructionInfo {
                opcode: program.opcode(place),
                path: program.path(place),
                ..InstructionInfo::default()
            };
            found.extend(by_op.remove(name).map(|kinds| (kinds, info)));
        }
    }
    found
}

/// The instructions of kernels with these names. A kernel has the name of an instruction, either unchanged, which takes
/// precedence, or with special characters replaced.
fn kernels<'a>(wanted: &HashMap<&[u8], Vec<KindId>>, program: &mut Program<'a>) -> InstructionKinds<'a> {
    let mut places: HashMap<&[u8], (Option<usize>, Vec<usize>)> = HashMap::default();
    let mut kernel = Vec::new();
    for (place, name) in program.running() {
        if let Some((&name, _)) = wanted.get_key_value(name) {
            places.entry(name).or_default().0 = Some(place);
        }
        kernel.clear();
        kernel.extend(name.iter().map(|&sign| if sign.is_ascii_alphanumeric() { sign } else { b'_' }));
        if let Some((&name, _)) = wanted.get_key_value(&kernel[..]) {
            places.entry(name).or_default().1.push(place);
        }
    }
    if places.is_empty() {
        return InstructionKinds::new();
    }
    let groups = program.alike();
    let members = groups.iter().enumerate().flat_map(|(group, places)| places.iter().map(move |&place| (place, group)));
    let group_of: HashMap<usize, usize> = members.collect();
    let mut by_group: Vec<(Vec<KindId>, Option<InstructionInfo>)> = vec![(Vec::new(), None); groups.len()];
    for (name, (exact, replaced)) in places {
        let candidates = exact.map_or(replaced, |place| vec![place]);
        let mut candidates: Vec<usize> = candidates.iter().filter_map(|place| group_of.get(place).copied()).collect();
        candidates.sort_unstable();
        candidates.dedup();
        for &group in &candidates {
            by_group[group].1.get_or_insert_with(|| InstructionInfo::from_group(&groups[group], program));
        }
        let kinds = wanted.get(name).into_iter().flatten().copied();
        if let [group] = candidates[..] {
            by_group[group].0.extend(kinds);
        } else {
            let found = candidates.iter().filter_map(|&group| by_group[group].1.as_ref());
            let agreed = found.map(InstructionInfo::certain).reduce(|one, other| {
                (if one.0 == other.0 { one.0 } else { b"" }, if one.1 == other.1 { one.1 } else { b"" })
            });
            let agreed = agreed.map(|(opcode, path)| InstructionInfo { opcode, path, ..InstructionInfo::default() });
            by_group.push((kinds.collect(), agreed));
        }
    }
    let used = by_group.into_iter().filter(|(kinds, _)| !kinds.is_empty());
    used.filter_map(|(kinds, found)| Some((kinds, found?))).collect()
}

impl<'a> InstructionInfo<'a> {
    /// The information about a group of instructions that one kernel may execute.
    fn from_group(group: &[usize], program: &mut Program<'a>) -> Self {
        let paths: Vec<&[u8]> = group.iter().map(|&place| program.path(place)).collect();
        let opcode = group.first().map_or(&b""[..], |&place| program.opcode(place));
        let (path, run_once) = (common(paths.iter().copied()), program.run_once(group));
        let is_one = paths.iter().all(|member| *member == path);
        Self { opcode, path, members: paths, is_one, run_once }
    }

    /// The opcode and the path that hold for every instruction of the group.
    fn certain(&self) -> (&'a [u8], &'a [u8]) {
        (self.opcode, if self.is_one { self.path } else { b"" })
    }
}

/// The instructions that one kernel may serve.
#[derive(Debug)]
struct Group {
    /// Their paths, in the order of execution.
    paths: Vec<Option<Text>>,
    run_once: bool,
}

/// Kernels that serve several instructions.
#[derive(Debug, Default)]
struct SharedKernels {
    groups: Vec<Group>,
    group_by_kind: HashMap<KindId, usize>,
    /// The kinds with a path of their own.
    kinds: HashMap<(KindId, Option<Text>), KindId>,
}

impl SharedKernels {
    /// Sets the path of events of shared kernels if their order determines it.
    fn set_paths_by_order(&mut self, kinds: &mut Vec<Kind>, line: &mut Line) {
        let segments: Vec<Range<usize>> = line.segments.iter().map(|segment| segment.events.clone()).collect();
        for segment in segments {
            let mut launches: HashMap<KindId, (i64, Vec<usize>)> = HashMap::default();
            for event in segment {
                let kind = line.kind[event];
                if !self.group_by_kind.contains_key(&kind) {
                    continue;
                }
                let Some(launch) = line.ids.correlation.get(number(event)) else { continue };
                let (current, events) = launches.entry(kind).or_insert((launch, Vec::new()));
                if *current != launch {
                    self.set_paths_of_launch(kinds, line, events);
                    *current = launch;
                    events.clear();
                }
                events.push(event);
            }
            for (_, mut events) in launches.into_values() {
                self.set_paths_of_launch(kinds, line, &mut events);
            }
        }
    }

    /// Sets the paths of the events of one kind in one launch.
    fn set_paths_of_launch(&mut self, kinds: &mut Vec<Kind>, line: &mut Line, events: &mut [usize]) {
        let Some(&first) = events.first() else { return };
        let kind = line.kind[first];
        let Some(Group { paths, run_once }) = self.group_by_kind.get(&kind).map(|&group| &self.groups[group]) else {
            return;
        };
        // With more events than instructions, the kernel also serves others, so the path is unknown.
        let unknown = *run_once && events.len() > paths.len();
        let is_ordered = events.len() == paths.len() && events.iter().all(|&event| line.why_unplaced(event).is_none());
        if !unknown && !is_ordered {
            return;
        }
        events.sort_by_key(|&event| line.start_ps[event]);
        for (place, &event) in events.iter().enumerate() {
            let path = paths[place.min(paths.len() - 1)].filter(|_| is_ordered);
            if path == kinds[kind.index()].hlo_path {
                continue;
            }
            line.kind[event] = *self.kinds.entry((kind, path)).or_insert_with(|| {
                let kind = Kind { hlo_path: path, ..kinds[kind.index()].clone() };
                kinds.push(kind);
                KindId(number(kinds.len() - 1))
            });
        }
    }
}
