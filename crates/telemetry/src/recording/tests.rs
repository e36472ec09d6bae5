//! Tests that recordings read back, and that damaged files give an error and never panic.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use ergometer_diagnostics::Diagnostic;
use proptest::prelude::*;

use super::*;
use crate::timeline::example::{gauge, sensor, time};
use crate::{Batch, EventKind, Reading, Signal};

/// A buffer that can be read while a writer owns a clone of it.
#[derive(Clone, Default)]
struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Bytes {
    fn get(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn example(rows: &[(usize, i64, u32, f64)]) -> Timeline {
    let mut timeline = Timeline::default();
    let first = timeline.add_sensor(&sensor("first"), &[gauge(Signal::Energy)]);
    let second = timeline.add_sensor(&sensor("second"), &[gauge(Signal::Temperature), gauge(Signal::ClockCore)]);
    let mut batches = [Batch::default(), Batch::default()];
    batches[1].event(time(5), EventKind::CounterReset, "the driver was loaded again");
    for &(channel, at_ns, early_ns, value) in rows {
        let after = time(at_ns.saturating_sub(i64::from(early_ns)));
        let (sensor, channel) = if channel == 0 { (0, 0) } else { (1, channel - 1) };
        batches[sensor].readings.push(Reading { channel, after, at: time(at_ns), value });
    }
    timeline.append(first, &batches[0]);
    timeline.append(second, &batches[1]);
    timeline
}

fn written(timeline: &Timeline, packing: Packing) -> Vec<u8> {
    let bytes = Bytes::default();
    write(timeline, Box::new(bytes.clone()), packing).unwrap();
    bytes.get()
}

fn rows() -> impl Strategy<Value = Vec<(usize, i64, u32, f64)>> {
    let value = prop::num::f64::NORMAL | prop::num::f64::ZERO | prop::num::f64::SUBNORMAL;
    prop::collection::vec((0_usize..3, -1_000_000_i64..i64::MAX, any::<u32>(), value), 0..40)
}

/// Whether each column of `part` is a prefix of the column of `whole`.
fn is_prefix(part: &Timeline, whole: &Timeline) -> bool {
    let columns = |timeline: &Timeline| {
        timeline.channels().map(|(id, _)| timeline.column(id).readings().values.to_vec()).collect::<Vec<_>>()
    };
    columns(part).iter().zip(columns(whole)).all(|(part, whole)| whole.starts_with(part))
}

proptest! {
    #[test]
    fn written_recordings_read_back(rows in rows(), gzip in any::<bool>()) {
        let timeline = example(&rows);
        let packing = if gzip { Packing::Gzip } else { Packing::Plain };
        prop_assert_eq!(read_bytes(&written(&timeline, packing)).unwrap(), timeline);
    }

    #[test]
    fn a_truncated_recording_is_an_error_and_keeps_a_prefix(rows in rows(), gzip in any::<bool>(), at in 0.0_f64..1.0) {
        let timeline = example(&rows);
        let bytes = written(&timeline, if gzip { Packing::Gzip } else { Packing::Plain });
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index into the bytes")]
        let cut = &bytes[..(at * bytes.len() as f64) as usize];
        prop_assert!(read_bytes(cut).is_err());
        if let Ok(recording) = read(cut, Leniency::KeepWhole) {
            prop_assert!(is_prefix(&recording.timeline, &timeline));
            let complete = recording.truncation.map(|truncation| truncation.readings);
            prop_assert_eq!(complete, Some(recording.timeline.len() as u64));
        } else {
            let header = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(usize::MAX);
            prop_assert!(gzip || cut.len() <= header, "only a recording cut in its header has no complete part");
        }
    }

    #[test]
    fn changed_bytes_never_panic(
        rows in rows(),
        gzip in any::<bool>(),
        at in any::<prop::sample::Index>(),
        to in any::<u8>(),
    ) {
        let mut bytes = written(&example(&rows), if gzip { Packing::Gzip } else { Packing::Plain });
        let index = at.index(bytes.len());
        bytes[index] = to;
        for leniency in [Leniency::Strict, Leniency::KeepWhole] {
            let _ = read(bytes.as_slice(), leniency);
        }
    }
}

const HEADER: &str = concat!(
    r#"{"format":"ergometer-recording","version":1,"sensors":[{"id":"a","name":"A","device":"gpu:0","#,
    r#""interval_ms":100.0,"channels":[{"device":"gpu:0","scope":"device","signal":"energy","#,
    r#""provenance":"counter","update_period":0.1}]}]}"#
);

fn read_error(text: &str) -> RecordingError {
    read_bytes(text.as_bytes()).unwrap_err()
}

#[test]
fn the_format_matches_the_documentation() {
    let event = r#"{"event":{"at_ns":5,"kind":"counter_reset","message":"m"}}"#;
    let text = format!("{HEADER}\n[0,1000,7,1.5]\n{event}\n{{\"end\":{{\"readings\":1}}}}\n");
    let timeline = read_bytes(text.as_bytes()).unwrap();
    assert_eq!(timeline.column(timeline.channels().next().unwrap().0).readings().early_ns, [7]);
    assert_eq!(timeline.events()[0].kind, EventKind::CounterReset);
    assert_eq!(String::from_utf8(written(&timeline, Packing::Plain)).unwrap(), text);
}

#[test]
fn each_kind_of_damage_has_a_specific_error() {
    for (text, expected) in [
        (String::new(), "the recording is empty"),
        (String::from("\n \n"), "the recording is empty"),
        (String::from("hello"), "not a recording: line 1, column 1 is not JSON"),
        (String::from("hello\nworld\n"), "not a recording: line 1, column 1 is not JSON"),
        (String::from("{\"format\":\"other\",\"version\":1}\n"), "the field `format` is \"other\""),
        (HEADER.replace(":1,", ":2,") + "\n", "has format version 2, this program reads 1"),
        (HEADER.replace("100.0", "-1") + "\n", "the interval of a is -1 ms"),
        (HEADER[..90].to_owned(), "ends in the middle of a line, after 0 whole lines (byte 0)"),
        (format!("{HEADER}\n"), "was not closed: it ends after 1 whole line ("),
        (
            format!("{HEADER}\n[0,1,0,2.5]\n[0,2,0"),
            "ends in the middle of a line, after 2 whole lines (byte 238) with 1 readings",
        ),
        (format!("{HEADER}\n[1,1,0,2.5]\n"), "line 2: there is no channel 1; channels in the header: 1"),
        (format!("{HEADER}\n[0,1,0,null]\n"), "line 2: the value is not a finite number"),
        (format!("{HEADER}\n[0,1,0,NaN]\n"), "line 2: the value is not a finite number"),
        (format!("{HEADER}\n[0,1,0,1e999]\n"), "line 2: the value is not a finite number"),
        (format!("{HEADER}\n[0,1,0,2.5,6]\n"), "line 2: column 12: trailing characters"),
        (format!("{HEADER}\n[0,1,-4,2.5]\n"), "line 2: column 7: invalid value"),
        (
            format!("{HEADER}\n[0,1,0,2.5]\n{{\"end\":{{\"readings\":2}}}}\n"),
            "end line gives 2 readings, but the recording has 1",
        ),
        (
            format!("{HEADER}\n{{\"end\":{{\"readings\":0}}}}\n[0,1,0,2.5]\n"),
            "line 3: there is text after the end line",
        ),
    ] {
        let error = read_error(&text);
        assert!(error.to_string().contains(expected), "{text:?} gave: {error}");
        assert!(!error.to_string().contains("hint: ") && error.hint().is_some(), "{error}");
    }
}

#[test]
fn large_lines_and_files_are_rejected() {
    let text = format!("{HEADER}\n[0,1,0,2.5]{}\n", " ".repeat(1000));
    let limited = |line, total| {
        read_within(text.as_bytes(), Leniency::KeepWhole, Limits { total, line }).unwrap_err().to_string()
    };
    assert!(limited(500, 10_000).contains("line 2 is larger than 500 bytes"));
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(text.as_bytes()).unwrap();
    let limits = Limits { line: 5000, total: 600 };
    let error = read_within(packed.finish().unwrap().as_slice(), Leniency::KeepWhole, limits).unwrap_err();
    assert!(error.to_string().contains("decompressed, is larger than 600 bytes"), "{error}");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&vec![b'\n'; 1 << 20]).unwrap();
    let limits = Limits { total: 1 << 16, line: 1 << 16 };
    let bomb = read_within(packed.finish().unwrap().as_slice(), Leniency::Strict, limits);
    assert!(matches!(bomb, Err(RecordingError::TooLarge { .. })), "{bomb:?}");
}

#[test]
fn a_plain_recording_has_no_limit_in_total() {
    let text = format!("{HEADER}\n{}", "[0,1,0,2.5]\n".repeat(1000));
    let limits = Limits { line: 5000, total: 600 };
    let found = read_within(text.as_bytes(), Leniency::KeepWhole, limits).unwrap();
    assert_eq!(found.timeline.len(), 1000);
}

#[test]
fn a_line_that_could_not_be_read_back_is_not_written() {
    let info = crate::SensorInfo { name: "x".repeat(65 << 20), ..sensor("a") };
    let channels = [gauge(Signal::Energy)];
    let bytes = Bytes::default();
    let described = [(&info, channels.as_slice())];
    let error = RecordingWriter::new(Box::new(bytes), Packing::Plain, described).unwrap_err();
    assert!(error.to_string().contains("longer than 64 MiB"), "{error}");
}

#[test]
fn a_killed_writer_leaves_the_flushed_readings() {
    let bytes = Bytes::default();
    let info = sensor("a");
    let channels = [gauge(Signal::Energy)];
    let described = [(&info, channels.as_slice())];
    let mut writer = RecordingWriter::new(Box::new(bytes.clone()), Packing::Gzip, described).unwrap();
    let mut batch = Batch::default();
    batch.push(0, time(1), 2.5);
    batch.push(0, time(2), f64::NAN);
    writer.append(crate::SensorKey::FIRST, &batch).unwrap();
    writer.flush().unwrap();
    let recording = read(bytes.get().as_slice(), Leniency::KeepWhole).unwrap();
    assert_eq!(recording.timeline.len(), 1);
    assert_eq!(recording.truncation.map(|truncation| truncation.cut), Some(Cut::MidStream));
}
