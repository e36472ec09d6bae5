//! Opcodes and named scopes of events, from the compiled programs of a trace.

use std::collections::BTreeMap;

use ergometer_trace::{Platform, Text, Trace};
use proptest::prelude::*;

use crate::{fixture, lenient, strict};
use ergometer_trace_testing::xspace::{
    Event, EventMetadata, Line, Plane, Space, Stat, Style, Timing, Value, delimited, varint,
};

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field * 8), varint(value)].concat()
}

/// An instruction: number, name, opcode, path and the computation that it calls.
type Instruction<'a> = (u64, &'a str, &'a str, &'a str, Option<u64>);

fn instruction(&(id, name, opcode, path, called): &Instruction<'_>) -> Vec<u8> {
    let called = called.map_or(Vec::new(), |called| delimited(38, &varint(called)));
    let texts = [delimited(1, name.as_bytes()), delimited(2, opcode.as_bytes())];
    [&texts.concat()[..], &delimited(7, &delimited(2, path.as_bytes())), &number(35, id), &called].concat()
}

/// A program of numbered computations. The last instruction of a computation is its result, and the last computation is
/// the entry.
fn program(computations: &[(u64, &[Instruction<'_>])]) -> Vec<u8> {
    let mut module = delimited(1, b"jit_f");
    for (id, instructions) in computations {
        let mut computation: Vec<u8> = instructions.iter().flat_map(|one| delimited(2, &instruction(one))).collect();
        computation.extend([number(5, *id), number(6, instructions.last().unwrap().0)].concat());
        module.extend(delimited(3, &computation));
    }
    module.extend(number(6, computations.last().unwrap().0));
    delimited(1, &module)
}

/// A trace with events of one stream: kernel, op and launch of each.
fn space(program: &[u8], events: &[(&str, &str, u64)]) -> Space {
    let texts = |names: &[&str]| (1..).zip(names).map(|(id, name)| (id, name.as_bytes().to_vec())).collect();
    let proto = Stat { id: 1, value: Some(Value::Bytes(program.to_vec())) };
    let described =
        |name: &str, stats| EventMetadata { name: name.as_bytes().to_vec(), stats, ..EventMetadata::default() };
    let metadata = Plane {
        name: b"/host:metadata".to_vec(),
        event_metadata: vec![(7, described("jit_f(6)", vec![proto]))],
        stat_metadata: texts(&["Hlo Proto"]),
        ..Plane::default()
    };
    let stat = |id, value| Stat { id, value: Some(value) };
    let event = |(number, &(_, op, launch)): (i64, &(&str, &str, u64))| Event {
        metadata_id: number,
        timing: Timing::Offset(number * 1000),
        duration_ps: 10,
        stats: vec![
            stat(1, Value::Text(b"jit_f".to_vec())),
            stat(2, Value::Text(op.as_bytes().to_vec())),
            stat(3, Value::Unsigned(6)),
            stat(4, Value::Unsigned(launch)),
        ],
    };
    let device = Plane {
        name: b"/device:GPU:0".to_vec(),
        lines: vec![Line { id: 1, events: (1..).zip(events).map(event).collect(), ..Line::default() }],
        event_metadata: (1..).zip(events).map(|(id, (kernel, ..))| (id, described(kernel, Vec::new()))).collect(),
        stat_metadata: texts(&["hlo_module", "hlo_op", "program_id", "correlation_id"]),
        ..Plane::default()
    };
    Space { planes: vec![metadata, device], ..Space::default() }
}

/// Opcode and path of each event of the last plane.
fn opcodes_and_paths(trace: &Trace) -> Vec<(String, String)> {
    let text = |text: Option<Text>| text.map_or("", |text| trace.text(text)).to_owned();
    let events = trace.planes().last().unwrap().lines.iter().flat_map(ergometer_trace::Line::events);
    let kinds = events.map(|event| trace.kind(event.kind));
    kinds.map(|kind| (text(kind.opcode), text(kind.scope_path()))).collect()
}

fn read_events(program: &[u8], events: &[(&str, &str, u64)]) -> Vec<(String, String)> {
    opcodes_and_paths(&strict(&space(program, events).encode(Style::Plain)).unwrap())
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|&(opcode, path)| (opcode.to_owned(), path.to_owned())).collect()
}

const ADD: &[Instruction<'_>] = &[(11, "add.9", "add", "jit(f)/a/add", None), (12, "x", "tanh", "", None)];
const MUL: &[Instruction<'_>] = &[
    (21, "mul.1", "multiply", "jit(f)/b/c/mul", None),
    (22, "mul.2", "multiply", "jit(f)/b/d", None),
    (23, "y", "convert", "", None),
];

#[test]
fn an_event_with_an_op_has_its_instruction() {
    let program = program(&[
        (1, ADD),
        (2, MUL),
        (3, &[(31, "inner", "all-reduce", "", None)]),
        (
            4,
            &[
                (41, "psum.7", "all-reduce", "jit(f)/comm/psum", None),
                (42, "one", "fusion", "", Some(1)),
                (43, "two", "fusion", "", Some(2)),
                (44, "start", "async-start", "jit(f)/s", Some(3)),
            ],
        ),
    ]);
    let events = [("k", "psum.7", 1), ("k", "one", 1), ("k", "two", 1), ("k", "start", 1), ("k", "mul.1", 1)];
    let expected = [
        ("all-reduce", "jit(f)/comm/psum"),
        ("fusion", "jit(f)/a/add"),
        ("fusion", "jit(f)/b"),
        ("all-reduce", "jit(f)/s"),
        // The instructions inside a fusion do not run.
        ("", ""),
    ];
    assert_eq!(read_events(&program, &events), pairs(&expected));
}

/// A program with two layers whose multiplications are alike, and instructions outside the layers.
fn layers() -> Vec<u8> {
    let inner: &[Instruction<'_>] = &[(1, "p", "parameter", "", None), (2, "dot", "dot", "", None)];
    program(&[
        (1, inner),
        (2, inner),
        (
            3,
            &[
                (31, "gemm.1", "fusion", "jit(f)/layer_0/dot", Some(1)),
                (32, "a-b", "sort", "jit(f)/first", None),
                (33, "a.b", "copy", "jit(f)/second", None),
                (34, "gemm.2", "fusion", "jit(f)/layer_1/dot", Some(2)),
                (35, "root", "add", "jit(f)/add", None),
            ],
        ),
    ])
}

const GRAPH: &str = "command_buffer_1";

#[test]
fn the_order_decides_which_instruction_a_shared_kernel_ran() {
    let twice = [("gemm_1", GRAPH, 1), ("gemm_1", GRAPH, 1), ("root", GRAPH, 1), ("gemm_1", GRAPH, 2)];
    let expected = [
        ("fusion", "jit(f)/layer_0/dot"),
        ("fusion", "jit(f)/layer_1/dot"),
        ("add", "jit(f)/add"),
        // An incomplete launch: it is unknown which instruction ran.
        ("fusion", "jit(f)"),
    ];
    let space = space(&layers(), &twice);
    let mut one_kernel = space.clone();
    for event in &mut one_kernel.planes[1].lines[0].events {
        // There is one description per kernel.
        event.metadata_id = if event.metadata_id == 3 { 3 } else { 1 };
    }
    assert_eq!(opcodes_and_paths(&strict(&one_kernel.encode(Style::Plain)).unwrap()), pairs(&expected));
    for event in &mut one_kernel.planes[1].lines[0].events {
        event.stats[3].value = Some(Value::Unsigned(1));
    }
    // Three events for two instructions: something else runs the kernel, too.
    let unknown = [("fusion", ""), ("fusion", ""), ("add", "jit(f)/add"), ("fusion", "")];
    assert_eq!(opcodes_and_paths(&strict(&one_kernel.encode(Style::Plain)).unwrap()), pairs(&unknown));
}

#[test]
fn a_kernel_name_of_two_instructions_has_what_they_have_in_common() {
    assert_eq!(read_events(&layers(), &[("a_b", GRAPH, 1)]), pairs(&[("", "")]));
    assert_eq!(read_events(&layers(), &[("a.b", GRAPH, 1)]), pairs(&[("copy", "jit(f)/second")]));
    assert_eq!(read_events(&layers(), &[("nvjet_tst", GRAPH, 1)]), pairs(&[("", "")]));
}

proptest! {
    /// A damaged program does not damage the trace.
    #[test]
    fn a_damaged_program_is_read_up_to_the_damage(place in 0_usize..400, byte: u8, cut in 0_usize..400) {
        let mut program = layers();
        program.truncate(program.len().saturating_sub(cut % 7));
        let place = place % program.len();
        program[place] = byte;
        let events = [("gemm_1", GRAPH, 1), ("gemm_2", GRAPH, 1), ("k", "root", 1)];
        let bytes = space(&program, &events).encode(Style::Plain);
        prop_assert_eq!(opcodes_and_paths(&strict(&bytes).unwrap()).len(), 3);
        prop_assert_eq!(opcodes_and_paths(&strict(&bytes).unwrap()), opcodes_and_paths(&lenient(&bytes).unwrap()));
    }

    #[test]
    fn any_bytes_are_a_program_without_names(program in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert_eq!(read_events(&program, &[("k", "op", 1), ("k", GRAPH, 1)]).len(), 2);
    }
}

/// The time of the work of devices, by the first scopes of its path.
fn time_by_scope(trace: &Trace, depth: usize) -> BTreeMap<String, i64> {
    let mut times = BTreeMap::new();
    for plane in trace.planes().iter().filter(|plane| plane.platform != Platform::Other) {
        for event in plane.lines.iter().flat_map(ergometer_trace::Line::events) {
            let kind = trace.kind(event.kind);
            if plane.platform == Platform::Host && kind.op.is_none() {
                continue;
            }
            let path = kind.scope_path().map_or("", |path| trace.text(path));
            let scope: Vec<&str> = path.split('/').take(depth).collect();
            *times.entry(scope.join("/")).or_default() += event.duration.get();
        }
    }
    times
}

#[test]
fn kernels_of_graphs_have_the_scopes_of_their_layers() {
    let trace = strict(&fixture("gpu_infer_20.xplane.pb")).unwrap();
    let times = time_by_scope(&trace, 2);
    let layers: Vec<String> = (0..8).map(|layer| format!("jit(fwd)/layer_{layer}")).collect();
    assert_eq!(times.keys().cloned().collect::<Vec<_>>(), [vec![String::new()], layers.clone()].concat());
    // The layers are alike, so their times are similar.
    let (least, most) = (layers.iter().map(|layer| times[layer]).min(), layers.iter().map(|layer| times[layer]).max());
    assert!(least.zip(most).is_some_and(|(least, most)| most - least < least / 20), "{times:?}");
    // Kernels of libraries have no scope of the program.
    let all: i64 = times.values().sum();
    assert!(times[""] * 100 < all * 15, "{times:?}");
}

#[test]
fn ops_on_cpu_have_paths() {
    let trace = strict(&fixture("small_cpu_666.xplane.pb")).unwrap();
    let times = time_by_scope(&trace, 1);
    let modules = ["jit(autotune_fn_0)", "jit(autotune_fn_1)", "jit(autotune_fn_2)", "jit(step)"];
    assert_eq!(times.into_keys().collect::<Vec<_>>(), modules);
    assert!(trace.kinds().iter().filter(|kind| kind.op.is_some()).all(|kind| kind.opcode.is_some()));
}
