//! Live power, energy and processes of a machine, as a full-screen terminal view or a stream of ticks.
//!
//! A [`Monitor`] samples sensors, or plays a recording, until it is finished. It can show the full screen
//! ([`Monitor::full_screen`]), draw one frame as text ([`Monitor::one_frame`]) or call back with a [`Tick`] every
//! interval ([`Monitor::stream`]). [`Outcome::energy`] estimates the energy of the whole time with its interval.
//!
//! ```
//! use std::time::Duration;
//!
//! use ergometer_monitor::{Colors, Config, Input, Monitor, NeverInterrupted, Signs, Theme};
//! use ergometer_telemetry::recording;
//! use ergometer_sensors::replay::Pace;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let timeline = recording::read_file("../../fixtures/telemetry/h200_stream_b.jsonl.gz")?;
//! let config = Config { interval: Duration::from_millis(100), ..Config::default() };
//! let mut monitor = Monitor::start(Input::recording(&timeline, Pace::AtOnce)?, config)?;
//! let theme = Theme { colors: Colors::Off, signs: Signs::Ascii };
//! let frame = monitor.one_frame(theme, 80, &NeverInterrupted).expect("not interrupted");
//! assert!(frame.contains("gpu:0 NVIDIA H200"));
//!
//! let energy = monitor.finish().energy().expect("the recording has power").counted().expect("a GPU is measured");
//! assert!(energy.low < energy.joules && energy.joules < energy.high);
//! # Ok(())
//! # }
//! ```

mod archive;
mod config;
mod draw;
mod frame;
mod history;
mod input;
mod interrupt;
mod keys;
mod latest;
mod ledger;
mod live;
mod monitor;
mod picture;
mod recorder;
#[cfg(test)]
mod snapshots;
mod source;
mod stream;
mod terminal;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tick;
mod totals;
mod ui;
mod watcher;

pub use config::{Config, ConfigError, Split};
pub use draw::{Colors, Signs, Theme};
pub use input::Input;
pub use interrupt::{Interrupt, NeverInterrupted};
pub use live::End;
pub use monitor::{Monitor, MonitorError, Outcome};
pub use recorder::{RecordError, Recorded, create_recording};
pub use tick::{DeviceTick, GpuTick, MachineTick, ProcessTick, ReplayTick, Tick};
pub use totals::{DeviceTotal, TotalEnergy};
