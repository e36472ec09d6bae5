//! Truncated, modified and random files give an error with the position, or the undamaged part. Nothing panics.

use ergometer_diagnostics::{CommandLine, Diagnostic};
use ergometer_trace::{EventId, Notice, Trace, TraceError};
use ergometer_units::Picos;
use proptest::prelude::*;

use crate::{fixture, lenient, strict};
use ergometer_trace_testing::xspace::{
    Event, EventMetadata, Line, Plane, Space, Stat, Style, Timing, Value, delimited, varint,
};

/// A small file with all kinds of content.
fn small() -> Space {
    let event = |number: i64| Event {
        metadata_id: 1 + number % 2,
        timing: Timing::Offset(number * 1_000),
        duration_ps: 900,
        stats: vec![Stat { id: 2, value: Some(Value::Reference(3)) }, Stat { id: 4, value: Some(Value::Double(7)) }],
    };
    let line =
        |id: i64| Line { id, name: b"Stream #14".to_vec(), events: (0..5).map(event).collect(), ..Line::default() };
    let metadata = |name: &[u8]| EventMetadata { name: name.to_vec(), ..EventMetadata::default() };
    let plane = |name: &[u8]| Plane {
        name: name.to_vec(),
        lines: vec![line(14), line(15)],
        event_metadata: vec![(1, metadata(b"gemm")), (2, metadata(b"copy"))],
        stat_metadata: vec![(2, b"hlo_module".to_vec()), (3, b"jit_f".to_vec()), (4, b"occupancy".to_vec())],
        stats: vec![Stat { id: 4, value: Some(Value::Signed(5)) }],
    };
    Space {
        planes: vec![plane(b"/device:GPU:0"), plane(b"/device:GPU:1")],
        hosts: vec![b"vm".to_vec()],
        ..Space::default()
    }
}

/// Start and duration of each event, by line. It also reads all stats. Names that were cut off are ignored.
fn walk(trace: &Trace) -> Vec<Vec<(Option<i64>, i64)>> {
    let mut lines = Vec::new();
    for (plane_number, plane) in trace.planes().iter().enumerate() {
        let _ = trace.plane_stats(plane_number);
        for (line_number, line) in plane.lines.iter().enumerate() {
            for (number, event) in line.events().enumerate() {
                let _ = trace.event_stats(EventId { plane: plane_number, line: line_number, event: number });
                let _ = trace.kind_stats(event.kind);
                let end = event.start.map(|start| start.get().checked_add(event.duration.get()));
                assert!(event.duration.get() >= 0 && end != Some(None));
            }
            lines.push(line.events().map(|event| (event.start.map(Picos::get), event.duration.get())).collect());
        }
    }
    lines
}

/// The notices about damage.
fn losses(trace: &Trace) -> Vec<&Notice> {
    trace.notices().iter().filter(|notice| matches!(notice, Notice::Lost { .. })).collect()
}

/// Reads the first bytes of a file, strictly and leniently, and compares both with the complete file.
fn check_prefix(bytes: &[u8], length: usize, boundaries: &[usize]) {
    let whole = walk(&strict(bytes).unwrap());
    let cut = &bytes[..length];
    let is_boundary = boundaries.contains(&length);
    match strict(cut) {
        Ok(trace) => {
            assert!(is_boundary, "{length} bytes are read as a whole file");
            walk(&trace);
        }
        Err(TraceError::Empty { .. }) => assert_eq!(length, 0),
        Err(TraceError::Damaged { damage, .. }) => {
            assert!(!is_boundary, "{length}: {damage}");
            assert!(damage.offset <= length as u64);
        }
        Err(error) => panic!("{length}: {error}"),
    }
    match lenient(cut) {
        Ok(trace) => {
            let losses = losses(&trace);
            assert_eq!(losses.len(), usize::from(!is_boundary), "{length}: {losses:?}");
            if let [Notice::Lost { damage, bytes, .. }] = losses[..] {
                // The lost bytes are at the end, from the field that contains the damage.
                assert!(*bytes == 0 || length as u64 - bytes <= damage.offset, "{length}: {losses:?}");
                assert!(*bytes < length as u64);
            }
            let kept = walk(&trace);
            assert!(kept.len() <= whole.len(), "{length}");
            for (number, (line, whole)) in kept.iter().zip(&whole).enumerate() {
                // Only the last line is shorter.
                let is_last = number + 1 == kept.len();
                assert!(if is_last { whole.starts_with(line) } else { whole == line }, "{length}");
            }
        }
        // There is no plane yet.
        Err(_) => assert!(boundaries.iter().all(|&boundary| length < boundary), "{length}"),
    }
}

/// The offsets where planes and other fields of the file end.
fn boundaries(bytes: &[u8]) -> Vec<usize> {
    let (mut at, mut ends) = (0, Vec::new());
    while at < bytes.len() {
        at += 1;
        let (mut length, mut shift) = (0, 0);
        loop {
            let byte = bytes[at];
            length |= usize::from(byte & 127) << shift;
            (at, shift) = (at + 1, shift + 7);
            if byte < 128 {
                break;
            }
        }
        at += length;
        ends.push(at);
    }
    ends
}

#[test]
fn every_prefix_of_a_small_file() {
    let bytes = small().encode(Style::Plain);
    for length in 0..=bytes.len() {
        check_prefix(&bytes, length, &boundaries(&bytes));
    }
}

#[test]
fn many_prefixes_of_a_recorded_file() {
    let bytes = fixture("small_cpu_666.xplane.pb");
    let boundaries = boundaries(&bytes);
    assert_eq!(boundaries.len(), 4);
    for length in (1..bytes.len()).step_by(173).chain(boundaries.clone()) {
        check_prefix(&bytes, length, &boundaries);
    }
}

#[test]
fn a_changed_byte_is_an_error_or_another_trace() {
    for (bytes, step) in [(small().encode(Style::Plain), 1), (fixture("small_cpu_666.xplane.pb"), 211)] {
        for place in (0..bytes.len()).step_by(step) {
            for change in [0x01, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[place] ^= change;
                let is_whole = strict(&changed).map(|trace| walk(&trace)).ok();
                let kept = lenient(&changed).map(|trace| walk(&trace));
                if let Some(whole) = is_whole {
                    assert_eq!(kept.unwrap(), whole, "byte {place}");
                }
            }
        }
    }
}

#[test]
fn a_damaged_plane_spares_the_others() {
    let bytes = small().encode(Style::Plain);
    // The last line of the second plane claims more bytes than the plane has.
    let line = bytes.len() - 4 - bytes.iter().rev().skip(4).position(|&byte| byte == 0x1a).unwrap() - 1;
    let mut changed = bytes.clone();
    assert_eq!(changed[line], 0x1a);
    changed[line + 1] = 0xff;
    let trace = lenient(&changed).unwrap();
    let [Notice::Lost { part, bytes: lost, .. }] = losses(&trace)[..] else { panic!("{:?}", trace.notices()) };
    let plane_end = boundaries(&bytes)[1];
    assert_eq!((part.as_str(), *lost), ("plane /device:GPU:1", (plane_end - line) as u64));
    assert_eq!(walk(&trace).iter().map(Vec::len).collect::<Vec<_>>(), [5, 5, 5]);
    // Its name and host are those of the complete file.
    assert_eq!(trace.sessions()[0].host.map(|host| trace.text(host)), Some("vm"));
}

#[test]
fn an_error_reads_as_a_sentence() {
    let mut cut = small().encode(Style::Plain);
    cut.truncate(100);
    let long = delimited(1, &[delimited(2, b"/host:CPU"), vec![0x1a], varint(1 << 63)].concat());
    let group = delimited(1, &[delimited(2, b"/host:CPU"), vec![0x1b, 0x1b, 0x1b]].concat());
    let event = delimited(1, &[delimited(2, b"/host:CPU"), delimited(3, &delimited(4, &[0x22, 0x7f]))].concat());
    let description = delimited(1, &[delimited(2, b"/host:CPU"), delimited(4, &[0x08, 0x01, 0x12, 0x05])].concat());
    let errors: Vec<String> =
        [&cut, &long, &group, &event, &description, &b"hello, world".to_vec(), &vec![0x1f, 0x8b, 8, 0], &vec![]]
            .map(|bytes| strict(bytes).unwrap_err().one_line(&CommandLine))
            .to_vec();
    insta::assert_snapshot!(errors.join("\n"));
    let notices: Vec<String> = [&cut, &long, &event, &description]
        .map(|bytes| lenient(bytes).unwrap().notices().iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        .to_vec();
    insta::assert_snapshot!(notices.join("\n"));
}

#[test]
fn lengths_beyond_the_file_take_no_memory() {
    for claimed in [1 << 20, 1 << 31, 1 << 32, 1 << 62, 1 << 63, u64::MAX] {
        for field in 1..7_u64 {
            let claim = [varint(field * 8 + 2), varint(claimed)].concat();
            for bytes in [claim.clone(), delimited(1, &claim), delimited(1, &delimited(3, &claim))] {
                let trace = [strict(&bytes), lenient(&bytes)];
                assert!(trace.iter().flatten().all(|trace| trace.event_count() == 0));
            }
        }
    }
}

#[test]
fn deep_nesting_does_not_recurse() {
    let mut nested = Vec::new();
    for _ in 0..2_000 {
        nested = delimited(4, &nested);
    }
    let bytes = delimited(1, &delimited(3, &nested));
    assert_eq!(walk(&strict(&bytes).unwrap()).len(), 1);
    assert!(matches!(strict(&delimited(1, &[0x0b; 5_000])), Err(TraceError::Damaged { .. })));
}

#[test]
fn many_empty_planes_are_read_in_linear_time() {
    // Each plane has the same name, so each begins a session.
    let planes = [0x0a, 0x00].repeat(100_000);
    assert_eq!(strict(&planes).unwrap().sessions().len(), 100_000);
    let lines = delimited(1, &[0x1a, 0x00].repeat(100_000));
    assert_eq!(strict(&lines).unwrap().planes()[0].lines.len(), 1);
    let events = delimited(1, &delimited(3, &[0x22, 0x00].repeat(100_000)));
    assert_eq!(strict(&events).unwrap().event_count(), 100_000);
    // Many lines, and a description with a high number.
    let line = |id: u64| delimited(3, &[&[0x08][..], &varint(id), &[0x22, 0x00]].concat());
    let description = delimited(4, &[&[0x08][..], &varint(60_000)].concat());
    let lines: Vec<u8> = (0..20_000).flat_map(line).collect();
    assert_eq!(strict(&delimited(1, &[description, lines].concat())).unwrap().event_count(), 20_000);
}

/// The files that the fuzzer starts from.
#[test]
#[ignore = "writes fuzz/corpus/xspace"]
fn corpus() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/xspace");
    std::fs::create_dir_all(&folder).unwrap();
    let small = small();
    let plain = small.encode(Style::Plain);
    let mut files = vec![("plain".to_owned(), plain.clone()), ("twice".to_owned(), plain.repeat(2))];
    files.extend((1..5).map(|seed| (format!("odd_{seed}"), small.encode(Style::Odd(seed)))));
    files.extend([100, 250].map(|length| (format!("cut_{length}"), plain[..length].to_vec())));
    // The last plane and the host of a recorded file, and the plane of its device without most events.
    let recorded = fixture("gpu_autotune.xplane.pb");
    let ends = boundaries(&recorded);
    files.push(("environment".to_owned(), recorded[ends[3]..].to_vec()));
    files.push(("scopes".to_owned(), recorded[ends[0]..ends[1]].to_vec()));
    files.push(("device_cut".to_owned(), recorded[ends[1]..ends[1] + 3_000].to_vec()));
    for (name, bytes) in files {
        assert!(bytes.len() < 4_096, "{name}");
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for trace in [strict(&bytes), lenient(&bytes)].into_iter().flatten() {
            walk(&trace);
        }
    }

    #[test]
    fn any_content_of_a_plane_is_read_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..300), depth in 0..4_usize) {
        let mut file = bytes;
        for field in [4, 4, 3, 1].into_iter().skip(3 - depth) {
            file = delimited(field, &file);
        }
        let trace = lenient(&file).unwrap();
        let kept = walk(&trace);
        if let Ok(trace) = strict(&file) {
            prop_assert_eq!(walk(&trace), kept);
        }
    }
}

#[test]
fn the_error_of_a_json_file_names_json() {
    for text in ["{\"traceEvents\": []}", "\n  {\n    \"schemaVersion\": 1,\n", "[{}]"] {
        assert!(matches!(strict(text.as_bytes()), Err(TraceError::Json { .. })), "{text}");
    }
}
