//! Compares the reader with the second reader on undamaged files, in every style of writing.

use ergometer_trace::{ReadOptions, Source, Trace, read};
use ergometer_units::Timestamp;
use proptest::prelude::*;

use crate::reference::{expect, parse_sessions};
use crate::{fixture, strict, view};
use ergometer_trace_testing::xspace::{Event, EventMetadata, Line, Plane, Space, Stat, Style, Timing, Value};

fn assert_reads_as_expected(bytes: &[u8]) {
    let trace = strict(bytes).unwrap();
    assert_eq!(view::from_trace(&trace), expect(&[("host.xplane.pb", bytes)]));
}

fn read_all(files: &[(&str, &[u8])]) -> Trace {
    let sources = files.iter().map(|(name, bytes)| Source::from_bytes(*name, bytes.to_vec())).collect();
    read(sources, &ReadOptions::default()).unwrap()
}

/// A few small numbers, so that they coincide, and the extremes.
fn id() -> impl Strategy<Value = i64> {
    prop_oneof![6 => 0_i64..6, 1 => 4_090_i64..4_100, 1 => Just(-1), 1 => Just(i64::MIN), 1 => Just(70_000)]
}

fn time() -> impl Strategy<Value = i64> {
    let edges = [i64::MIN, -(1 << 62), -(1 << 62) + 1, -1, 0, 1, (1 << 62) - 1, 1 << 62, i64::MAX];
    prop_oneof![8 => 0_i64..10_000_000, 1 => prop::sample::select(edges.to_vec()), 1 => any::<i64>()]
}

fn line_time() -> impl Strategy<Value = i64> {
    let edges = [i64::MIN, -1, 0, 4_611_686_018_427_387, 4_611_686_018_427_388, i64::MAX];
    let since_epoch = 1_794_725_055_813_077_000_i64;
    prop_oneof![
        6 => 0_i64..1_000_000,
        3 => since_epoch..since_epoch + 1_000_000,
        1 => prop::sample::select(edges.to_vec())
    ]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::sample::select(vec!["a", "jit_f", "gemm", "XlaModule:x", "é"]).prop_map(|text| text.as_bytes().to_vec()),
        1 => Just(Vec::new()),
        1 => Just(vec![0xff, 0xfe, b'x'])
    ]
}

fn stat_name() -> impl Strategy<Value = Vec<u8>> {
    let known = [
        "hlo_module",
        "hlo_op",
        "program_id",
        "name",
        "tf_op",
        "device_ordinal",
        "run_id",
        "scope_range_id",
        "correlation_id",
        "step_num",
        "hlo_category",
        "profile_start_time",
        "profile_stop_time",
    ];
    prop_oneof![4 => prop::sample::select(known.to_vec()).prop_map(|text| text.as_bytes().to_vec()), 1 => bytes()]
}

fn stat() -> impl Strategy<Value = Stat> {
    let value = prop_oneof![
        any::<u64>().prop_map(Value::Double),
        prop_oneof![Just(0), any::<u64>()].prop_map(Value::Unsigned),
        prop_oneof![Just(0), any::<i64>()].prop_map(Value::Signed),
        bytes().prop_map(Value::Text),
        bytes().prop_map(Value::Bytes),
        id().prop_map(Value::Reference),
    ];
    (id(), prop::option::weighted(0.9, value)).prop_map(|(id, value)| Stat { id, value })
}

fn stats() -> impl Strategy<Value = Vec<Stat>> {
    prop::collection::vec(stat(), 0..4)
}

fn event() -> impl Strategy<Value = Event> {
    let timing = prop_oneof![8 => time().prop_map(Timing::Offset), 1 => any::<i64>().prop_map(Timing::Occurrences)];
    (id(), timing, time(), stats()).prop_map(|(metadata_id, timing, duration_ps, stats)| Event {
        metadata_id,
        timing,
        duration_ps,
        stats,
    })
}

fn line() -> impl Strategy<Value = Line> {
    (id(), bytes(), bytes(), line_time(), prop::collection::vec(event(), 0..40)).prop_map(
        |(id, name, display_name, timestamp_ns, events)| Line { id, name, display_name, timestamp_ns, events },
    )
}

fn plane() -> impl Strategy<Value = Plane> {
    let names = ["/host:metadata", "/host:CPU", "/device:GPU:0", "Task Environment", ""];
    let name = prop::sample::select(names.to_vec()).prop_map(|name| name.as_bytes().to_vec());
    let metadata =
        (bytes(), bytes(), stats()).prop_map(|(name, display_name, stats)| EventMetadata { name, display_name, stats });
    let parts = (
        name,
        prop::collection::vec(line(), 0..4),
        prop::collection::vec((id(), metadata), 0..6),
        prop::collection::vec((id(), stat_name()), 0..10),
        stats(),
    );
    parts.prop_map(|(name, lines, event_metadata, stat_metadata, stats)| Plane {
        name,
        lines,
        event_metadata,
        stat_metadata,
        stats,
    })
}

fn texts() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(bytes(), 0..3)
}

fn space() -> impl Strategy<Value = Space> {
    (prop::collection::vec(plane(), 1..6), texts(), texts(), texts())
        .prop_map(|(planes, errors, warnings, hosts)| Space { planes, errors, warnings, hosts })
}

fn style() -> impl Strategy<Value = Style> {
    prop_oneof![1 => Just(Style::Plain), 3 => any::<u64>().prop_map(Style::Odd)]
}

/// The content of a file with its planes sorted, to compare the second reader with the encoder.
fn joined(sessions: Vec<Space>) -> Space {
    let mut whole = Space::default();
    for session in sessions {
        whole.planes.extend(session.planes);
        whole.errors.extend(session.errors);
        whole.warnings.extend(session.warnings);
        whole.hosts.extend(session.hosts);
    }
    whole
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_second_reader_reads_what_was_written(space in space(), style in style()) {
        prop_assert_eq!(joined(parse_sessions(&space.encode(style))), space);
    }

    #[test]
    fn any_space_in_any_style_is_read_as_expected(space in space(), style in style()) {
        let bytes = space.encode(style);
        prop_assert_eq!(view::from_trace(&strict(&bytes).unwrap()), expect(&[("host.xplane.pb", &bytes)]));
    }

    #[test]
    fn several_files_are_one_trace(spaces in prop::collection::vec((space(), style()), 2..4), same_names: bool) {
        let files: Vec<Vec<u8>> = spaces.iter().map(|(space, style)| space.encode(*style)).collect();
        let names = if same_names { ["a/x.xplane.pb", "b/x.xplane.pb", "c/x.xplane.pb"] } else { ["x.xplane.pb", "y.xplane.pb", "z.pb"] };
        let files: Vec<(&str, &[u8])> = names.into_iter().zip(files.iter().map(Vec::as_slice)).collect();
        prop_assert_eq!(view::from_trace(&read_all(&files)), expect(&files));
    }

    #[test]
    fn concatenated_files_are_several_sessions(one in space(), other in space()) {
        let (mut one, mut other) = (one, other);
        // Every session has the first plane.
        for space in [&mut one, &mut other] {
            space.planes[0].name = b"/host:metadata".to_vec();
        }
        let mut names = std::collections::HashSet::new();
        one.planes.retain(|plane| names.insert(plane.name.clone()));
        let (one, other) = (one.encode(Style::Plain), other.encode(Style::Plain));
        let together = [&one[..], &other].concat();
        let view = view::from_trace(&strict(&together).unwrap());
        prop_assert_eq!(&view, &expect(&[("host.xplane.pb", &together)]));
        let events = |bytes: &[u8]| strict(bytes).unwrap().event_count();
        let together: usize = view.planes.iter().flat_map(|plane| &plane.lines).map(|line| line.events.len()).sum();
        prop_assert_eq!(together, events(&one) + events(&other));
        let first = view::from_trace(&strict(&one).unwrap()).sessions;
        prop_assert_eq!(&view.sessions[..first.len()], &first[..]);
    }
}

#[test]
fn a_recorded_file_is_read_as_expected() {
    for name in ["gpu_autotune", "small_cpu_666", "med_cpu_26820", "gpu_train_3"] {
        assert_reads_as_expected(&fixture(&format!("{name}.xplane.pb")));
    }
}

#[test]
fn a_line_of_many_chunks_is_one_line() {
    let event = |number: i64| Event {
        metadata_id: number % 7,
        timing: if number % 9_999 == 0 { Timing::Occurrences(number) } else { Timing::Offset(number * 1_000) },
        duration_ps: 900 - number % 1_000,
        stats: vec![
            Stat { id: 1, value: Some(Value::Signed(number / 100)) },
            Stat { id: 2, value: Some(Value::Text(format!("jit_{}", number % 5).into_bytes())) },
        ],
    };
    let plane = Plane {
        name: b"/device:GPU:0".to_vec(),
        lines: vec![
            Line { id: 14, events: (0..40_000).map(event).collect(), ..Line::default() },
            Line { id: 14, timestamp_ns: 40_000, events: (40_000..60_000).map(event).collect(), ..Line::default() },
        ],
        event_metadata: (1..7)
            .map(|id| (id.into(), EventMetadata { name: vec![b'a' + id], ..EventMetadata::default() }))
            .collect(),
        stat_metadata: vec![(1, b"run_id".to_vec()), (2, b"hlo_module".to_vec())],
        stats: Vec::new(),
    };
    assert_reads_as_expected(&Space { planes: vec![plane], ..Space::default() }.encode(Style::Plain));
}

/// A session that started at this time on this host, with one event a microsecond later.
fn session(host: &str, started_ns: i64) -> Vec<u8> {
    let environment = Plane {
        name: b"Task Environment".to_vec(),
        stat_metadata: vec![(1, b"profile_start_time".to_vec()), (2, b"profile_stop_time".to_vec())],
        stats: vec![
            Stat { id: 1, value: Some(Value::Unsigned(started_ns.cast_unsigned())) },
            Stat { id: 2, value: Some(Value::Unsigned(started_ns.cast_unsigned() + 1_000_000)) },
        ],
        ..Plane::default()
    };
    let event = Event { timing: Timing::Offset(1_000_000), duration_ps: 5, ..Event::default() };
    let line = Line { id: 3, events: vec![event], ..Line::default() };
    let host_plane = Plane { name: b"/host:CPU".to_vec(), lines: vec![line], ..Plane::default() };
    Space { planes: vec![host_plane, environment], hosts: vec![host.into()], ..Space::default() }.encode(Style::Plain)
}

/// The host of each plane, and the starts of its events.
fn placed(trace: &Trace) -> Vec<(String, Vec<i64>)> {
    let starts = |plane: &view::Plane| {
        plane.lines.iter().flat_map(|line| &line.events).filter_map(|event| event.start_ps).collect::<Vec<_>>()
    };
    let planes = view::from_trace(trace).planes;
    let planes = planes.iter().filter(|plane| plane.name == "/host:CPU");
    planes.map(|plane| (plane.host.clone().unwrap_or_default(), starts(plane))).collect()
}

#[test]
fn sessions_share_one_clock() {
    let (early, late) = (session("one", 1_794_725_055_000_000_000), session("two", 1_794_725_056_000_000_000));
    let second = 1_000_000_000_000;
    let expected = [(String::from("two"), vec![second + 1_000_000]), (String::from("one"), vec![1_000_000])];
    let trace = read_all(&[("two.xplane.pb", &late), ("one.xplane.pb", &early)]);
    assert_eq!(placed(&trace), expected);
    assert_eq!(trace.zero().map(Timestamp::nanos_since_epoch), Some(1_794_725_055_000_000_000));
    // Two sessions on the same host share a plane and a timeline.
    let late = session("one", 1_794_725_056_000_000_000);
    let both = [(String::from("one"), vec![1_000_000, second + 1_000_000])];
    assert_eq!(placed(&read_all(&[("one.xplane.pb", &early), ("again.xplane.pb", &late)])), both);
    assert_eq!(placed(&strict(&[early, late].concat()).unwrap()), both);
}

#[test]
fn two_hosts_with_the_same_name_stay_separate() {
    let start_ns = 1_794_725_055_000_000_000;
    let (one, other) = (session("localhost", start_ns), session("localhost", start_ns + 1));
    let hosts = |names: [&'static str; 2]| -> Vec<String> {
        placed(&read_all(&[(names[0], &one), (names[1], &other)])).into_iter().map(|(host, _)| host).collect()
    };
    assert_eq!(hosts(["t/a.xplane.pb", "t/b.xplane.pb"]), ["a", "b"]);
    assert_eq!(
        hosts(["a/localhost.xplane.pb", "b/localhost.xplane.pb"]),
        ["a/localhost.xplane.pb", "b/localhost.xplane.pb"]
    );
}

#[test]
fn a_line_with_a_damaged_time_does_not_shift_others() {
    let mut space = joined(parse_sessions(&session("one", 1_794_725_055_000_000_000)));
    let line = space.planes[0].lines[0].clone();
    for time in [i64::MIN, i64::MAX] {
        space.planes[0].lines = vec![line.clone(), Line { id: 4, timestamp_ns: time, ..line.clone() }, line.clone()];
        let trace = strict(&space.encode(Style::Plain)).unwrap();
        assert_eq!(placed(&trace), [(String::from("one"), vec![1_000_000, 1_000_000])]);
        assert_eq!(
            trace.notices()[0].to_string(),
            "1 event is more than 53 days before or after the others and left out of all times"
        );
    }
}

#[test]
fn a_concatenated_file_keeps_all_its_planes() {
    let environment = |start: u64| Plane {
        name: b"Task Environment".to_vec(),
        stat_metadata: vec![(1, b"profile_start_time".to_vec())],
        stats: vec![Stat { id: 1, value: Some(Value::Unsigned(start)) }],
        ..Plane::default()
    };
    let named = |name: &str| Plane {
        name: name.as_bytes().to_vec(),
        lines: vec![Line { id: 1, events: vec![Event { duration_ps: 5, ..Event::default() }], ..Line::default() }],
        ..Plane::default()
    };
    let space =
        |planes: Vec<Plane>, host: &str| Space { planes, hosts: vec![host.as_bytes().to_vec()], ..Space::default() };
    let first = space(vec![named("/host:CPU"), environment(1_000)], "one").encode(Style::Plain);
    let second =
        space(vec![named("/device:TPU:0"), named("/host:CPU"), environment(3_000)], "two").encode(Style::Plain);
    let trace = strict(&[first, second].concat()).unwrap();
    let planes: Vec<_> = trace
        .planes()
        .iter()
        .filter_map(|plane| {
            Some((trace.text(plane.name), trace.text(plane.host?), plane.lines.first()?.event(0)?.start?.get()))
        })
        .collect();
    assert_eq!(planes, [("/host:CPU", "one", 0), ("/device:TPU:0", "two", 2_000_000), ("/host:CPU", "two", 2_000_000)]);
}
