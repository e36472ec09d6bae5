//! Readings as a table, with the columns of a run's `telemetry.parquet`.

use std::sync::Arc;

use arrow_array::builder::StringDictionaryBuilder;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, Float64Array, Int64Array};
use ergometer_telemetry::{Channel, Readings, Timeline};
use ergometer_units::Window;
use pyo3::PyResult;

use crate::table::{Columns, Table};

/// Consecutive readings of a channel.
struct Stretch<'a> {
    sensor: &'a str,
    channel: &'a Channel,
    readings: Readings<'a>,
}

/// Every reading, or those of a window, by sensor, channel and time.
pub(super) fn table(timeline: &Timeline, window: Option<Window>) -> PyResult<Table> {
    tabled(&stretches(timeline, |id| {
        let column = timeline.column(id);
        window.map_or_else(|| column.readings(), |window| column.within(window))
    }))
}

/// The last reading of each channel.
pub(super) fn latest(timeline: &Timeline) -> PyResult<Table> {
    tabled(&stretches(timeline, |id| {
        let Readings { at_ns, early_ns, values } = timeline.column(id).readings();
        let last = at_ns.len().saturating_sub(1);
        Readings { at_ns: &at_ns[last..], early_ns: &early_ns[last..], values: &values[last..] }
    }))
}

fn stretches<'a>(
    timeline: &'a Timeline,
    readings: impl Fn(ergometer_telemetry::ChannelId) -> Readings<'a>,
) -> Vec<Stretch<'a>> {
    let mut stretches = Vec::new();
    for (key, info) in timeline.sensors() {
        for (id, channel) in timeline.channels_of(key) {
            stretches.push(Stretch { sensor: &info.id, channel, readings: readings(id) });
        }
    }
    stretches
}

fn tabled(stretches: &[Stretch<'_>]) -> PyResult<Table> {
    let text = |of: fn(&Stretch<'_>) -> String| -> ArrayRef {
        let mut builder = StringDictionaryBuilder::<Int32Type>::new();
        for stretch in stretches {
            builder.append_values(of(stretch), stretch.readings.at_ns.len());
        }
        Arc::new(builder.finish())
    };
    let after = |stretch: &Stretch<'_>| {
        let times: Vec<_> = stretch.readings.at_ns.iter().zip(stretch.readings.early_ns).collect();
        times
            .into_iter()
            .map(|(&at, &early)| (early > 0).then(|| at.saturating_sub(i64::from(early))))
            .collect::<Vec<_>>()
    };
    let times = stretches.iter().flat_map(|stretch| stretch.readings.at_ns).copied();
    let values = stretches.iter().flat_map(|stretch| stretch.readings.values).copied();
    Columns::default()
        .array("time_ns", Arc::new(Int64Array::from_iter_values(times)))
        .array("after_ns", Arc::new(stretches.iter().flat_map(after).collect::<Int64Array>()))
        .array("sensor", text(|stretch| stretch.sensor.to_owned()))
        .array("device", text(|stretch| stretch.channel.device.to_string()))
        .array("scope", text(|stretch| stretch.channel.scope.to_string()))
        .array("signal", text(|stretch| stretch.channel.signal.to_string()))
        .array("value", Arc::new(Float64Array::from_iter_values(values)))
        .array("unit", text(|stretch| stretch.channel.signal.unit().to_owned()))
        .array("provenance", text(|stretch| stretch.channel.provenance.to_string()))
        .finish()
}
