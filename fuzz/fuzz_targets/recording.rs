//! Reads arbitrary bytes as a recording of sensors. The first two bytes choose where it is cut and which windows are
//! measured.
//!
//! Reading must not panic, and lenient mode must not change an undamaged recording. A cut recording must give a part of
//! the whole, a recording that is written must be read back equally, and no energy may lie outside of its interval.

#![no_main]

use std::io::Write;
use std::sync::{Arc, Mutex};

use ergometer_telemetry::recording::{self, Leniency, Packing, Recording, RecordingError};
use ergometer_telemetry::{EnergyEstimate, EnergyMeter, Timeline};
use ergometer_units::{Timestamp, Window};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [high, low, bytes @ ..] = data else { return };
    let choice = usize::from(u16::from_be_bytes([*high, *low]));
    let strict = recording::read_bytes(bytes);
    let lenient = recording::read(bytes, Leniency::KeepWhole);
    match (&strict, &lenient) {
        (Ok(timeline), Ok(Recording { timeline: same, truncation: None })) => assert_eq!(timeline, same),
        (Err(RecordingError::Truncated(expected)), Ok(Recording { timeline, truncation: Some(found) })) => {
            assert_eq!(expected, found);
            assert!(timeline.len() as u64 <= found.readings && found.whole_bytes >= found.whole_lines);
        }
        (Err(error), Err(same)) => assert_eq!(error.to_string(), same.to_string()),
        (strict, lenient) => panic!("strict and lenient mode differ: {strict:?}, {lenient:?}"),
    }
    let Ok(Recording { timeline, .. }) = lenient else { return };
    let cut = choice.min(bytes.len());
    if let Ok(part) = recording::read(&bytes[..cut], Leniency::KeepWhole) {
        assert!(part.timeline.len() <= timeline.len() || strict.is_err());
        assert!(part.truncation.is_some() || cut == bytes.len() || part.timeline == timeline);
    }
    write_and_read(&timeline, choice);
    measure(&timeline, choice);
});

/// A writer whose bytes can be read afterwards.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic while it is locked").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn write_and_read(timeline: &Timeline, choice: usize) {
    let packing = if choice % 8 == 0 { Packing::Gzip } else { Packing::Plain };
    let written = Written::default();
    recording::write(timeline, Box::new(written.clone()), packing).expect("a writable recording");
    let bytes = written.0.lock().expect("no panic while it is locked");
    assert_eq!(&recording::read_bytes(&bytes).expect("a valid recording"), timeline);
    let cut = choice % bytes.len();
    match recording::read(&bytes[..cut], Leniency::KeepWhole) {
        Ok(Recording { timeline: part, truncation: Some(_) }) => {
            assert!(part.len() <= timeline.len() && timeline.events().starts_with(part.events()));
        }
        Ok(_) => panic!("a cut at {cut} of {} was not noticed", bytes.len()),
        Err(RecordingError::Truncated(_) | RecordingError::Empty) => {}
        // Two bytes of a compressed file are not yet recognized as such.
        Err(error) => assert!(packing == Packing::Gzip && cut < 2, "{error}"),
    }
}

/// Estimates the energy of the whole recording and of parts of it.
fn measure(timeline: &Timeline, choice: usize) {
    let Some(span) = timeline.span() else { return };
    let at = |share: i64| {
        let length = span.end().nanos_since_epoch().saturating_sub(span.start().nanos_since_epoch());
        Timestamp::from_nanos_since_epoch(span.start().nanos_since_epoch().saturating_add(length / 256 * share))
    };
    let middle = at((choice % 256) as i64);
    let windows = [(span.start(), span.end()), (span.start(), middle), (middle, span.end()), (middle, middle)];
    let windows: Vec<Window> = windows.into_iter().filter_map(|(start, end)| Window::new(start, end).ok()).collect();
    let known = &windows[..windows.len().min(choice % 4)];
    let meter = EnergyMeter::new(timeline, known);
    for &window in &windows {
        let energy = meter.energy(window);
        let devices = energy.devices.iter().filter_map(|device| device.estimate.as_ref().ok());
        for estimate in devices.chain(energy.measured.as_ref().ok()).chain(&energy.modelled) {
            check(estimate);
        }
        for (id, _) in timeline.channels() {
            for gap in timeline.gaps(id, window) {
                assert!(window.start() <= gap.start() && gap.end() <= window.end());
            }
            if let Some(stats) = timeline.stats(id, window) {
                assert!(stats.min <= stats.max);
            }
        }
        let _ = timeline.around(window);
    }
    let _ = meter.slices(&[span.start(), middle, span.end()]);
    assert!(meter.data().all(|window| window.start() <= window.end()));
}

/// The energy lies in its interval. Sums of the largest numbers may overflow.
fn check(estimate: &EnergyEstimate) {
    let [low, joules, high] = [estimate.low, estimate.joules, estimate.high].map(|energy| energy.get());
    let is_finite = low.is_finite() && joules.is_finite() && high.is_finite();
    assert!(!is_finite || (low <= joules && joules <= high), "{estimate:?}");
}
