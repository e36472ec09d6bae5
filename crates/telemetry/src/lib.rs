//! Samples power and energy sensors and estimates the energy of any time window, with its uncertainty.
//!
//! A [`Sampler`] reads each [`Sensor`] on its own thread and collects the [`Reading`]s in a [`Timeline`]. An
//! [`EnergyMeter`] estimates energy from the timeline. [`recording`] writes timelines to files and reads them back.
//! Every reading keeps the time, device, scope and provenance its sensor reported. A value that could not be read is
//! absent, never zero.
//!
//! ```
//! use ergometer_telemetry::{
//!     Batch, Channel, DeviceId, EnergyMeter, Provenance, Scope, SensorInfo, Signal, Timeline,
//! };
//! use ergometer_units::{Seconds, Timestamp, Window};
//! use std::time::Duration;
//!
//! // A GPU that draws 200 W for 10 s, with an energy counter that updates every 100 ms.
//! let device = DeviceId::gpu(0);
//! let info = SensorInfo {
//!     id: "counter:0".to_owned(),
//!     name: "Example GPU".to_owned(),
//!     device,
//!     interval: Duration::from_millis(100),
//! };
//! let channel = Channel {
//!     device,
//!     scope: Scope::Device,
//!     signal: Signal::Energy,
//!     provenance: Provenance::Counter,
//!     update_period: Some(Seconds::new(0.1)),
//! };
//! let start = Timestamp::from_nanos_since_epoch(0);
//! let mut batch = Batch::default();
//! for step in 0..=100 {
//!     batch.push(0, start + Seconds::new(0.1 * f64::from(step)), 20.0 * f64::from(step));
//! }
//! let mut timeline = Timeline::default();
//! let sensor = timeline.add_sensor(&info, &[channel]);
//! timeline.append(sensor, &batch);
//!
//! let window = Window::new(start + Seconds::new(2.0), start + Seconds::new(7.0)).unwrap();
//! let energy = EnergyMeter::new(&timeline, &[window]).energy(window).measured.unwrap();
//! assert!((energy.joules.get() - 1000.0).abs() < 10.0);
//! assert!(energy.low <= energy.joules && energy.joules <= energy.high);
//! ```

mod channel;
mod clock;
mod counter;
mod energy;
pub mod exposition;
mod reading;
pub mod recording;
mod sampler;
mod sensor;
mod system_info;
mod throttle;
mod timeline;

pub use channel::{Channel, DeviceId, DeviceKind, ParseDeviceError, Provenance, Scope, Signal};
pub use clock::Clock;
pub use counter::{Counter, CounterLimits, Step};
pub use energy::{
    DeviceEnergy, EnergyError, EnergyEstimate, EnergyMeter, MeteredScope, Method, Note, SensorModel, Slice, Slices,
    WindowEnergy,
};
pub use reading::{Batch, Event, EventKind, Reading};
pub use sampler::{Sampler, Tap};
pub use sensor::{Finding, Probe, Sensor, SensorError, SensorInfo, Status};
pub use system_info::SystemInfo;
pub use throttle::ThrottleReasons;
pub use timeline::{ChannelId, Column, Point, Readings, SensorKey, Stats, Timeline};
