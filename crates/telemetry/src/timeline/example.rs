//! Small sensors, columns and windows for the tests of this crate.

use std::time::Duration;

use ergometer_units::{Timestamp, Window};

use super::Column;
use crate::{Channel, DeviceId, Provenance, Scope, SensorInfo, Signal};

pub(crate) fn time(time_ns: i64) -> Timestamp {
    Timestamp::from_nanos_since_epoch(time_ns)
}

pub(crate) fn window(start_ns: i64, end_ns: i64) -> Window {
    Window::new(time(start_ns), time(end_ns)).unwrap()
}

pub(crate) fn column(rows: &[(i64, f64)]) -> Column {
    let mut column = Column::default();
    for &(at_ns, value) in rows {
        column.push(at_ns, 0, value);
    }
    column
}

/// A sensor of `gpu:0`, whose name is its id.
pub(crate) fn sensor(id: &str) -> SensorInfo {
    let interval = Duration::from_millis(100);
    SensorInfo { id: id.to_owned(), name: id.to_owned(), device: DeviceId::gpu(0), interval }
}

/// A channel of `gpu:0`.
pub(crate) fn gauge(signal: Signal) -> Channel {
    Channel {
        device: DeviceId::gpu(0),
        scope: Scope::Device,
        signal,
        provenance: Provenance::Gauge,
        update_period: None,
    }
}
