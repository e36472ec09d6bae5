//! Copies the GPU of a recording several times, to see how the monitor shows many devices:
//! `cargo run -p ergometer-telemetry --example many_devices -- ONE.jsonl.gz MANY.jsonl.gz 8`, then
//! `ergo monitor --replay MANY.jsonl.gz`. The copies are shifted in time and have scaled power; they are not measured.

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;

use ergometer_telemetry::recording::{self, Packing};
use ergometer_telemetry::{Batch, Channel, DeviceId, DeviceKind, Reading, SensorInfo, Signal, Timeline};
use ergometer_units::Seconds;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to, count] = arguments.as_slice() else {
        return Err("usage: many_devices INPUT OUTPUT GPU_COUNT".into());
    };
    let one = recording::read_file(from)?;
    let mut many = Timeline::default();
    for (key, info) in one.sensors() {
        let copies = if info.device.kind == DeviceKind::Gpu { count.parse()? } else { 1 };
        for copy in 0..copies {
            let moved = |device: DeviceId| DeviceId { index: device.index + copy, ..device };
            let channels: Vec<Channel> = one
                .channels_of(key)
                .map(|(_, channel)| Channel { device: moved(channel.device), ..channel.clone() })
                .collect();
            let id = format!("{}{}", info.id.trim_end_matches('0'), if info.id.ends_with('0') { copy } else { 0 });
            let info = SensorInfo { id, device: moved(info.device), ..info.clone() };
            let new = many.add_sensor(&info, &channels);
            let mut batch = Batch::default();
            for (index, (id, channel)) in one.channels_of(key).enumerate() {
                let later = Seconds::new(1.7 * f64::from(copy));
                let factor = if is_scaled(channel.signal) { 1.0 - 0.06 * f64::from(copy) } else { 1.0 };
                batch.readings.extend(one.column(id).readings().points().map(|point| Reading {
                    channel: index,
                    after: point.after + later,
                    at: point.at + later,
                    value: point.value * factor,
                }));
            }
            many.append(new, &batch);
        }
    }
    recording::write(&many, Box::new(BufWriter::new(File::create(to)?)), Packing::Gzip)?;
    Ok(())
}

/// Whether the values of a signal are scaled, so that the copies differ.
fn is_scaled(signal: Signal) -> bool {
    matches!(
        signal,
        Signal::Energy | Signal::PowerRing | Signal::PowerInstant | Signal::PowerAverage | Signal::Temperature
    )
}
