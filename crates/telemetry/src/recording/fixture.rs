//! Reads the raw recordings of `fixtures/telemetry`: one JSON object with unprocessed NVML readings of one GPU.
//!
//! The input is in microseconds, millijoules and milliwatts; the output is a timeline of `gpu:0` in nanoseconds, joules
//! and watts. A missing key is a missing channel, an unknown key is ignored, and a wrong structure is an error.

use std::time::Duration;

use ergometer_units::{Seconds, Timestamp};
use serde::Deserialize;
use serde_json::error::Category;

use super::error::json_reason;
use super::{Cut, RecordingError, Truncation};
use crate::{Batch, Channel, DeviceId, Provenance, Reading, Scope, SensorInfo, Signal, Timeline};

/// One reading: its time in microseconds, and the value.
type Row = (i64, f64);
/// One counter value: the times around the read in microseconds, and millijoules.
type CounterRow = (i64, i64, f64);

/// Samples closer together than this are one sample that was read twice: the driver's timestamps of the same sample
/// differ by 1-6 us between reads, and different samples are at least 7.7 ms apart.
const SAME_SAMPLE_US: i64 = 1000;

/// The polling interval of the counter, about 12 ms. If a recording has only the first read of each value, the last
/// read of the previous value started about this much earlier.
const POLL_US: i64 = 12_000;

/// The update period of the counter. The first value read may be up to this old.
const COUNTER_PERIOD_US: i64 = 100_000;

#[derive(Debug, Deserialize)]
struct Raw {
    energy_counter: Option<Vec<CounterRow>>,
    energy_counter_edges: Option<Vec<CounterRow>>,
    power_ring: Option<Vec<Row>>,
    power_instant: Option<Vec<Row>>,
    power_average: Option<Vec<Row>>,
    memory_power_average: Option<Vec<Row>>,
    util_ring: Option<Vec<Row>>,
    slow: Option<Vec<GaugeRow>>,
}

/// Gauges that are read less often: `t` in microseconds, memory in bytes, utilization in percent, clocks in megahertz.
#[derive(Debug, Deserialize)]
struct GaugeRow {
    t: i64,
    mem_used: Option<f64>,
    mem_total: Option<f64>,
    util_gpu: Option<f64>,
    util_mem: Option<f64>,
    temp: Option<f64>,
    sm_mhz: Option<f64>,
    mem_mhz: Option<f64>,
}

/// Reads the text of a raw recording.
pub(super) fn read(text: &[u8]) -> Result<Timeline, RecordingError> {
    let raw = parse(text)?;
    let mut channels = Channels::default();
    if let Some(rows) = raw.energy_counter_edges.or_else(|| raw.energy_counter.map(edges_from_reads)) {
        channels.add_counter(&rows)?;
    }
    let power = |scope, signal, provenance, period_ms: f64| {
        channel(scope, signal, provenance, Some(Seconds::from_millis(period_ms)))
    };
    let powers = [
        (power(Scope::Device, Signal::PowerRing, Provenance::SampledPower, 20.0), raw.power_ring.map(merge)),
        (power(Scope::Device, Signal::PowerInstant, Provenance::SampledPower, 100.0), raw.power_instant),
        (power(Scope::Device, Signal::PowerAverage, Provenance::AveragedPower, 100.0), raw.power_average),
        (power(Scope::Memory, Signal::PowerAverage, Provenance::AveragedPower, 100.0), raw.memory_power_average),
    ];
    for (channel, rows) in powers {
        channels.add(channel, rows.unwrap_or_default().into_iter().map(|(at_us, power_mw)| (at_us, power_mw / 1e3)))?;
    }
    let slow = raw.slow.unwrap_or_default();
    let rows = |pick: fn(&GaugeRow) -> Option<f64>| {
        slow.iter().filter_map(move |row| pick(row).map(|value| (row.t, value))).collect::<Vec<_>>()
    };
    let gauge = |signal| channel(Scope::Device, signal, Provenance::Gauge, None);
    match raw.util_ring {
        Some(rows) => {
            let period = Some(Seconds::from_millis(200.0));
            channels.add(Channel { update_period: period, ..gauge(Signal::Utilization) }, merge(rows))?;
        }
        None => channels.add(gauge(Signal::Utilization), rows(|row| row.util_gpu))?,
    }
    channels.add(gauge(Signal::MemoryUsed), rows(|row| row.mem_used))?;
    channels.add(gauge(Signal::MemoryTotal), rows(|row| row.mem_total))?;
    channels.add(gauge(Signal::Temperature), rows(|row| row.temp))?;
    channels.add(gauge(Signal::ClockCore), rows(|row| row.sm_mhz))?;
    channels.add(gauge(Signal::ClockMemory), rows(|row| row.mem_mhz))?;
    channels.add(gauge(Signal::MemoryUtilization), rows(|row| row.util_mem))?;
    channels.into_timeline()
}

fn parse(text: &[u8]) -> Result<Raw, RecordingError> {
    // Serde would read a list as the fields in order.
    if text.trim_ascii_start().first() == Some(&b'[') {
        return Err(RecordingError::UnknownFormat { reason: String::from("it is a JSON list without a header") });
    }
    serde_json::from_slice(text).map_err(|error| {
        let (line, column, reason) = (error.line() as u64, error.column() as u64, json_reason(&error));
        match error.classify() {
            Category::Data => RecordingError::Malformed { line, reason },
            Category::Eof => {
                let cut = Cut::MidLine;
                RecordingError::Truncated(Truncation { cut, whole_lines: 0, whole_bytes: 0, readings: 0 })
            }
            Category::Io | Category::Syntax => RecordingError::NotJson { line, column, reason },
        }
    })
}

/// Computes the edges of the counter from the first read of each value.
fn edges_from_reads(mut rows: Vec<CounterRow>) -> Vec<CounterRow> {
    for row in &mut rows {
        row.0 = row.0.saturating_sub(POLL_US);
    }
    rows
}

/// Keeps the first of samples that were read twice.
fn merge(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by_key(|&(at_us, _)| at_us);
    rows.dedup_by(|next, kept| next.0.saturating_sub(kept.0) <= SAME_SAMPLE_US);
    rows
}

fn channel(scope: Scope, signal: Signal, provenance: Provenance, update_period: Option<Seconds>) -> Channel {
    Channel { device: DeviceId::gpu(0), scope, signal, provenance, update_period }
}

/// The channels found so far, and their readings.
#[derive(Default)]
struct Channels {
    channels: Vec<Channel>,
    batch: Batch,
}

impl Channels {
    fn add_counter(&mut self, rows: &[CounterRow]) -> Result<(), RecordingError> {
        let period = Some(Seconds::from_millis(100.0));
        let index = self.channels.len();
        self.channels.push(channel(Scope::Device, Signal::Energy, Provenance::Counter, period));
        for (row, &(after_us, at_us, energy_mj)) in rows.iter().enumerate() {
            if at_us < after_us {
                let reason = format!("row {row} of the energy counter ends before it starts");
                return Err(RecordingError::Malformed { line: 1, reason });
            }
            let earlier_us = if row == 0 { COUNTER_PERIOD_US } else { 0 };
            let after = time(after_us.saturating_sub(earlier_us))?;
            self.batch.readings.push(Reading { channel: index, after, at: time(at_us)?, value: energy_mj / 1e3 });
        }
        Ok(())
    }

    fn add(&mut self, channel: Channel, rows: impl IntoIterator<Item = Row>) -> Result<(), RecordingError> {
        let (index, before) = (self.channels.len(), self.batch.readings.len());
        for (at_us, value) in rows {
            self.batch.push(index, time(at_us)?, value);
        }
        if self.batch.readings.len() > before {
            self.channels.push(channel);
        }
        Ok(())
    }

    fn into_timeline(self) -> Result<Timeline, RecordingError> {
        if self.batch.readings.is_empty() {
            let reason = String::from("the object has neither a `format` nor a key of a raw recording");
            return Err(RecordingError::UnknownFormat { reason });
        }
        let info = SensorInfo {
            id: String::from("recording:0"),
            name: String::from("NVIDIA GPU"),
            device: DeviceId::gpu(0),
            interval: Duration::from_millis(100),
        };
        let mut timeline = Timeline::default();
        let key = timeline.add_sensor(&info, &self.channels);
        timeline.append(key, &self.batch);
        Ok(timeline)
    }
}

fn time(time_us: i64) -> Result<Timestamp, RecordingError> {
    Timestamp::from_micros_since_epoch(time_us).ok_or_else(|| {
        let reason = format!("{time_us} us since the epoch is out of range");
        RecordingError::Malformed { line: 1, reason }
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::timeline::example::time as nanos;
    use crate::{ChannelId, recording};

    fn fixture(name: &str) -> Timeline {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/telemetry").join(name);
        recording::read_file(path).unwrap()
    }

    fn device(timeline: &Timeline, signal: Signal) -> ChannelId {
        timeline.find(DeviceId::gpu(0), Scope::Device, signal).unwrap()
    }

    /// The expected numbers were counted with Python; rings without rows within 1 ms of the last row kept.
    #[test]
    fn the_fixtures_have_the_expected_number_of_rows() {
        let signals = [Signal::Energy, Signal::PowerRing, Signal::PowerInstant, Signal::PowerAverage];
        let gauges = [Signal::Utilization, Signal::MemoryUsed, Signal::Temperature, Signal::MemoryUtilization];
        for (name, powers, slow) in [
            ("h200_truth_a.json.gz", [1079, 5331, 984, 1061], [605, 953, 953, 953]),
            ("h200_kernels_a.json.gz", [337, 1683, 304, 329], [234, 298, 298, 298]),
        ] {
            let timeline = fixture(name);
            let count = |signal| timeline.column(device(&timeline, signal)).len();
            assert_eq!((signals.map(count), gauges.map(count)), (powers, slow), "{name}");
            assert_eq!(timeline.channels().len(), 12);
            assert_eq!(timeline.device_name(DeviceId::gpu(0)), Some("NVIDIA GPU"));
            assert_eq!(timeline.events(), []);
        }
        let memory = fixture("h200_truth_a.json.gz");
        let memory = memory.column(memory.find(DeviceId::gpu(0), Scope::Memory, Signal::PowerAverage).unwrap()).len();
        assert_eq!(memory, 1060);
    }

    #[test]
    fn recorded_edges_are_used_and_others_estimated() {
        let timeline = fixture("h200_truth_a.json.gz");
        let energy = timeline.column(device(&timeline, Signal::Energy));
        let [first, second] = [0, 1].map(|index| energy.get(index).unwrap());
        assert_eq!(first.after, nanos((1_794_730_772_333_426 - 100_000) * 1000));
        assert_eq!((second.after, second.at), (nanos(1_794_730_772_403_214_000), nanos(1_794_730_772_415_197_000)));
        assert_eq!((first.value, second.value), (3450.406, 3508.872));

        let timeline = fixture("h200_kernels_a.json.gz");
        let energy = timeline.column(device(&timeline, Signal::Energy));
        let [first, second] = [0, 1].map(|index| energy.get(index).unwrap());
        assert_eq!(first.after, nanos((1_794_725_811_012_668 - 112_000) * 1000));
        assert_eq!(second.after, nanos((1_794_725_811_105_721 - 12_000) * 1000));
    }

    /// Both numbers were computed with Python from the raw rows. The board is still warming up, from 629 to 641 W.
    #[test]
    fn ring_and_counter_agree_over_the_steady_phase_of_a_fixture() {
        let timeline = fixture("h200_truth_a.json.gz");
        let [ring, counter] = [Signal::PowerRing, Signal::Energy].map(|signal| device(&timeline, signal));
        let (start, end) = (nanos(1_794_730_783_000_000_000), nanos(1_794_730_787_000_000_000));
        let steady = ergometer_units::Window::new(start, end).unwrap();
        let mean_w = timeline.stats(ring, steady).unwrap().avg;
        assert!((mean_w - 636.162_612_987_5).abs() < 1e-9, "{mean_w}");
        let edges: Vec<_> = timeline.column(counter).within(steady).points().collect();
        let (first, last) = (edges.first().unwrap(), edges.last().unwrap());
        let counted_w = (last.value - first.value) / (last.at - first.at).get();
        assert!((counted_w - 636.050_212_844).abs() < 1e-6, "{counted_w}");
        assert_eq!((timeline.gaps(ring, steady), timeline.gaps(counter, steady)), (Vec::new(), Vec::new()));
    }

    #[test]
    fn missing_keys_are_absent_and_wrong_structures_are_errors() {
        let text = br#"{"units": "", "new": [{}], "slow": [{"t": 1, "temp": 40, "util_gpu": 7}, {"t": 2}]}"#;
        let timeline = read(text).unwrap();
        let signals: Vec<_> = timeline.channels().map(|(_, channel)| channel.signal).collect();
        assert_eq!(signals, [Signal::Utilization, Signal::Temperature]);

        let error = |text: &[u8]| read(text).unwrap_err();
        assert!(matches!(error(b"{}"), RecordingError::UnknownFormat { .. }));
        assert!(matches!(error(b"[[1, 2]]"), RecordingError::UnknownFormat { .. }));
        assert!(matches!(error(br#"{"power_ring": [[1]]}"#), RecordingError::Malformed { line: 1, .. }));
        assert!(matches!(error(br#"{"power_ring": {"a": 1}}"#), RecordingError::Malformed { .. }));
        assert!(matches!(error(b"{\n\"power_ring\": [[1, \"x\"]]}"), RecordingError::Malformed { line: 2, .. }));
        assert!(matches!(error(br#"{"power_ring": [[9223372036854775807, 1]]}"#), RecordingError::Malformed { .. }));
        assert!(matches!(error(br#"{"energy_counter_edges": [[9, 3, 1]]}"#), RecordingError::Malformed { .. }));
        assert!(matches!(error(br#"{"power_ring": [[1, NaN]]}"#), RecordingError::NotJson { line: 1, .. }));
        assert!(matches!(error(br#"{"power_ring": [[1, 2"#), RecordingError::Truncated(_)));
    }
}
