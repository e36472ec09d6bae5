//! Any bytes are a trace. Nothing may panic, no file is worth more memory than its size allows, and where a file is whole
//! leniency changes nothing.

#![no_main]

use ergometer_trace::{EventId, KindId, Leniency, Notice, ReadOptions, Source, Trace, TraceError, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let strict = trace(data, Leniency::Strict);
    let lenient = trace(data, Leniency::KeepWhole);
    for trace in strict.iter().chain(&lenient) {
        walk(trace, data.len());
    }
    match (strict, lenient) {
        (Ok(strict), Ok(lenient)) => {
            assert_eq!(strict.notices(), lenient.notices());
            assert_eq!(said(&strict), said(&lenient));
            let losses = |notice: &&Notice| matches!(notice, Notice::Lost { .. } | Notice::DamagedEvents { .. });
            assert_eq!(strict.notices().iter().find(losses), None);
        }
        (Ok(_), Err(error)) => panic!("leniency refuses what is whole: {error}"),
        (Err(TraceError::Damaged { damage, .. }), _) => assert!(damage.offset <= data.len() as u64),
        (Err(_), _) => {}
    }
});

fn trace(data: &[u8], leniency: Leniency) -> Result<Trace, TraceError> {
    let options = ReadOptions { leniency, ..ReadOptions::default() };
    read(vec![Source::from_bytes("host.xplane.pb", data.to_vec())], &options)
}

/// Asks for everything. An event is at least a tag and a length.
fn walk(trace: &Trace, bytes: usize) {
    assert!(trace.event_count() <= bytes / 2);
    for (plane_number, plane) in trace.planes().iter().enumerate() {
        let _ = trace.plane_stats(plane_number);
        for (line_number, line) in plane.lines.iter().enumerate() {
            for (number, event) in line.events().enumerate() {
                assert!(event.duration.get() >= 0);
                assert_eq!(event.start.is_none(), line.why_unplaced(number).is_some());
                if let Some(start) = event.start {
                    let end = start.get().checked_add(event.duration.get()).expect("an end");
                    assert!(start.get().abs().max(end.abs()) < 1 << 62);
                }
                let _ = trace.event_stats(EventId { plane: plane_number, line: line_number, event: number });
                let _ = trace.kind_stats(event.kind);
            }
        }
    }
    for notice in trace.notices() {
        assert!(!notice.to_string().is_empty());
    }
}

type Said = (KindId, Option<i64>, i64);

fn said(trace: &Trace) -> (Vec<&str>, Vec<Said>) {
    let names = trace.planes().iter().map(|plane| trace.text(plane.name));
    let lines = trace.planes().iter().flat_map(|plane| &plane.lines);
    let events = lines.flat_map(|line| line.events());
    let said = events.map(|event| (event.kind, event.start.map(|start| start.get()), event.duration.get()));
    (names.collect(), said.collect())
}
