//! Sensors → readings → timeline → the energy of any window, with its uncertainty.
//!
//! A [`Sensor`] is sampled on a thread of its own and emits [`Reading`]s of its [`Channel`]s. A reading keeps its
//! truth: the sensor's own time, its device, scope and provenance. What could not be read is absent, never zero.

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
    DeviceEnergy, EnergyError, EnergyMeter, Estimate, Method, Note, Part, SensorModel, Slice, Slices, WindowEnergy,
};
pub use reading::{Batch, Event, EventKind, Reading};
pub use sampler::{Sampler, Tap};
pub use sensor::{Finding, Probe, Sensor, SensorError, SensorInfo, Status};
pub use system_info::SystemInfo;
pub use throttle::ThrottleReasons;
pub use timeline::{ChannelId, Column, Point, Readings, SensorKey, Stats, Timeline};
