//! The memory of a trace is limited: files whose parts take more memory than bytes are errors, and nothing aborts.

use std::io::Write;

use ergometer_diagnostics::{CommandLine, Diagnostic};
use ergometer_trace::{Limits, ReadOptions, Reading, Source, Trace, TraceError, read};
use ergometer_trace_testing::xspace::{delimited, varint};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::fixture;

const LIMIT: u64 = 8 << 20;

fn read_within(bytes: Vec<u8>, max_table_bytes: u64) -> Result<Trace, TraceError> {
    let options = ReadOptions { max_table_bytes, ..ReadOptions::default() };
    read(vec![Source::from_bytes("host.xplane.pb", bytes)], &options)
}

/// A plane with this content after its name.
fn plane(content: &[u8]) -> Vec<u8> {
    delimited(1, &[&delimited(2, b"/device:GPU:0")[..], content].concat())
}

/// A line with these events.
fn line(events: &[u8]) -> Vec<u8> {
    plane(&delimited(3, events))
}

/// The description of an event with this name, and a line with the event.
fn named_event(id: u8, name: &[u8]) -> Vec<u8> {
    let description = [&[0x08][..], &varint(id.into()), &delimited(2, name)].concat();
    let described = delimited(4, &[&[0x08][..], &varint(id.into()), &delimited(2, &description)].concat());
    let event = delimited(4, &[&[0x08][..], &varint(id.into()), &[0x18, 0x05]].concat());
    [described, delimited(3, &[delimited(2, b"XLA Modules"), event].concat())].concat()
}

/// A run of a program, whose computation has this content.
fn program(computation: &[u8]) -> Vec<u8> {
    let proto = delimited(1, &delimited(3, computation));
    let stat = delimited(5, &[&[0x08, 0x01][..], &delimited(6, &proto)].concat());
    let description = delimited(2, &[delimited(2, b"jit_f(7)"), stat].concat());
    let stat_name = delimited(5, &[&[0x08, 0x01][..], &delimited(2, &delimited(2, b"hlo_proto"))].concat());
    let metadata = [delimited(2, b"/host:metadata"), delimited(4, &description), stat_name].concat();
    [plane(&named_event(1, b"jit_f(7)")), delimited(1, &metadata)].concat()
}

#[test]
fn small_parts_that_take_much_memory_are_an_error_at_the_limit() {
    let kinds: Vec<u8> = (0..100_000).flat_map(|id| delimited(4, &[&[0x08][..], &varint(id)].concat())).collect();
    let run_id = delimited(5, &[&[0x08, 0x01][..], &delimited(2, &delimited(2, b"run_id"))].concat());
    let run = delimited(4, &delimited(4, &[0x08, 0x01, 0x18, 0x05]));
    let runs = plane(&[&run_id[..], &delimited(3, &run.repeat(200_000))].concat());
    let names = plane(
        &(1..200_u8)
            .flat_map(|id| named_event(id, &[&[b'a', id][..], &b"x".repeat(60_000)].concat()))
            .collect::<Vec<_>>(),
    );
    let with_plane = |rest: Vec<u8>| [line(&[0x22, 0x00]), rest].concat();
    for (name, bytes) in [
        ("events", line(&[0x22, 0x00].repeat(1_000_000))),
        ("kinds", line(&kinds)),
        ("aggregated events", line(&delimited(4, &[0x28, 0x03]).repeat(200_000))),
        ("run ids", runs),
        ("names", names),
        ("instructions", program(&[0x12, 0x00].repeat(200_000))),
        ("lines", plane(&[0x1a, 0x00].repeat(100_000))),
        ("stats of a plane", plane(&[0x32, 0x00].repeat(1_000_000))),
        ("planes", [0x0a, 0x00].repeat(50_000)),
        ("errors", with_plane([0x12, 0x00].repeat(500_000))),
        ("warnings", with_plane([0x1a, 0x00].repeat(500_000))),
        ("hosts", with_plane([0x22, 0x00].repeat(500_000))),
    ] {
        match read_within(bytes.clone(), LIMIT) {
            Err(TraceError::TableTooLarge { needed, limit: LIMIT }) => assert!(needed > LIMIT, "{name}: {needed}"),
            other => panic!("{name}: {:?}", other.map(|trace| trace.planes().len())),
        }
        assert!(read_within(bytes, ReadOptions::default().max_table_bytes).is_ok(), "{name}");
    }
}

#[test]
fn a_long_name_is_cut_and_ends_with_its_length() {
    // A character of two bytes lies across the cut.
    let name = [&b"a"[..], &"é".repeat(5_000_000).into_bytes()].concat();
    let trace = read_within(plane(&named_event(1, &name)), LIMIT).unwrap();
    let name = trace.text(trace.kinds()[0].name);
    assert_eq!(name, format!("a{}… (10000001 bytes)", "é".repeat((64 << 9) - 1)));
    let nameless =
        [delimited(1, &delimited(2, &b"p".repeat(5_000_000))), delimited(4, &b"h".repeat(5_000_000))].concat();
    let trace = read_within(nameless, LIMIT).unwrap();
    assert!(trace.text(trace.planes()[0].name).ends_with("p… (5000000 bytes)"));
}

#[test]
fn the_error_has_the_limit_and_a_hint() {
    let error = read_within(line(&[0x22, 0x00].repeat(100)), 2000).unwrap_err().one_line(&CommandLine);
    assert_eq!(
        error,
        "the trace needs at least 8192 bytes of memory, more than the limit of 2000 bytes. \
         hint: check that this is a trace; if it is, record a shorter one"
    );
}

#[test]
fn a_recorded_trace_takes_little_more_memory_than_its_file() {
    for name in ["gpu_autotune.xplane.pb", "gpu_train_200.xplane.pb.xz"] {
        let source = Source::unpack(name, fixture(name), &Reading::default()).unwrap();
        let options = ReadOptions { max_table_bytes: source.bytes().len() as u64 * 5 / 4, ..ReadOptions::default() };
        let error = read(vec![source], &options).err().map(|error| error.to_string());
        assert_eq!(error, None, "{name}");
    }
}

/// 12 million events without content: 24 MB, or 24 kB compressed, that need up to 768 MB.
fn many_events() -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&line(&[0x22, 0x00].repeat(12_000_000))).unwrap();
    packed.finish().unwrap()
}

#[test]
#[ignore = "started with little address space by the next test"]
fn read_many_events_with_little_address_space() {
    let packed = many_events();
    let limits = Limits::from_free_memory();
    assert!(limits.decompressed_bytes < 200 << 20, "{limits:?}");
    for max_table_bytes in [limits.decompressed_bytes, u64::MAX] {
        let source = Source::unpack("host.xplane.pb.gz", packed.clone(), &Reading { limits, ..Reading::default() });
        let options = ReadOptions { max_table_bytes, ..ReadOptions::default() };
        let error = read(vec![source.unwrap()], &options).err().map(|error| error.to_string());
        println!("read: {}", error.unwrap_or_default());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn too_little_address_space_is_an_error_and_not_an_abort() {
    let child = std::process::Command::new("sh")
        .arg("-c")
        .arg("ulimit -v 300000 && exec \"$0\" --exact memory::read_many_events_with_little_address_space --ignored --nocapture")
        .arg(std::env::current_exe().unwrap())
        .env("RAYON_NUM_THREADS", "2")
        .env("RUST_TEST_THREADS", "1")
        .output()
        .unwrap();
    let (text, errors) = (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    assert!(child.status.success(), "{:?}: {text} {errors}", child.status);
    assert!(text.contains("read: the trace needs at least 768001792 bytes"), "{text}");
    assert!(text.contains("read: out of memory: the events of the trace need 768000000 bytes"), "{text}");
}
