//! Builds a table of readings, with the columns of a run's `telemetry.parquet`.

use std::sync::Arc;

use arrow_array::builder::StringDictionaryBuilder;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, Float64Array, Int64Array};
use ergometer_telemetry::{Channel, Readings, Timeline};
use ergometer_units::Window;
use pyo3::PyResult;

use crate::table::{Columns, Table};

/// Consecutive readings of a channel.
struct ChannelReadings<'a> {
    sensor: &'a str,
    channel: &'a Channel,
    readings: Readings<'a>,
}

/// All readings, or those of a window, sorted by sensor, channel and time.
pub(super) fn table(timeline: &Timeline, window: Option<Window>) -> PyResult<Table> {
    to_table(&collect(timeline, |id| {
        let column = timeline.column(id);
        window.map_or_else(|| column.readings(), |window| column.within(window))
    }))
}

/// The last reading of each channel.
pub(super) fn latest(timeline: &Timeline) -> PyResult<Table> {
    to_table(&collect(timeline, |id| {
        let Readings { at_ns, early_ns, values } = timeline.column(id).readings();
        let last = at_ns.len().saturating_sub(1);
        Readings { at_ns: &at_ns[last..], early_ns: &early_ns[last..], values: &values[last..] }
    }))
}

fn collect<'a>(
    timeline: &'a Timeline,
    readings: impl Fn(ergometer_telemetry::ChannelId) -> Readings<'a>,
) -> Vec<ChannelReadings<'a>> {
    let mut channels = Vec::new();
    for (key, info) in timeline.sensors() {
        for (id, channel) in timeline.channels_of(key) {
            channels.push(ChannelReadings { sensor: &info.id, channel, readings: readings(id) });
        }
    }
    channels
}

fn to_table(channels: &[ChannelReadings<'_>]) -> PyResult<Table> {
    let text = |value: fn(&ChannelReadings<'_>) -> String| -> ArrayRef {
        let mut builder = StringDictionaryBuilder::<Int32Type>::new();
        for channel in channels {
            builder.append_values(value(channel), channel.readings.at_ns.len());
        }
        Arc::new(builder.finish())
    };
    let after = |channel: &ChannelReadings<'_>| {
        let times: Vec<_> = channel.readings.at_ns.iter().zip(channel.readings.early_ns).collect();
        times
            .into_iter()
            .map(|(&at, &early)| (early > 0).then(|| at.saturating_sub(i64::from(early))))
            .collect::<Vec<_>>()
    };
    let times = channels.iter().flat_map(|channel| channel.readings.at_ns).copied();
    let values = channels.iter().flat_map(|channel| channel.readings.values).copied();
    Columns::default()
        .array("time_ns", Arc::new(Int64Array::from_iter_values(times)))
        .array("after_ns", Arc::new(channels.iter().flat_map(after).collect::<Int64Array>()))
        .array("sensor", text(|channel| channel.sensor.to_owned()))
        .array("device", text(|channel| channel.channel.device.to_string()))
        .array("scope", text(|channel| channel.channel.scope.to_string()))
        .array("signal", text(|channel| channel.channel.signal.to_string()))
        .array("value", Arc::new(Float64Array::from_iter_values(values)))
        .array("unit", text(|channel| channel.channel.signal.unit().to_owned()))
        .array("provenance", text(|channel| channel.channel.provenance.to_string()))
        .finish()
}
