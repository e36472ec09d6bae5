//! Re-exports the devices whose energy counts.

pub use ergometer_runs::config::{CountedDevices, DeviceError};
