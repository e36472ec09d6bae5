//! Opens the gauge or the counter of a hwmon channel.
//!
//! More power than the part can draw is an error, never a reading.

use std::io;
use std::path::{Path, PathBuf};

use ergometer_telemetry::{CounterLimits, Scope};
use ergometer_units::{Joules, Seconds, Watts};

use super::INTERVAL;
use super::chip::Quantity;
use crate::energy_counter::ReadCounter;
use crate::gauges::{FileProduct, ReadGauge, ScaledFile};
use crate::sysfs::Attribute;

const MICRO: f64 = 1e-6;

/// Opens a file. Tests replace this to deny permission.
pub(super) type OpenFile<'a> = &'a dyn Fn(&Path) -> io::Result<Attribute>;

/// An open gauge in watts, or a counter with its limits.
pub(super) enum Source {
    Gauge(Box<dyn ReadGauge>),
    Counter(Box<dyn ReadCounter>, CounterLimits),
}

/// Opens the source of a channel. The error names the file.
pub(super) fn open(quantity: &Quantity, scope: Scope, open: OpenFile<'_>) -> Result<Source, (PathBuf, io::Error)> {
    let file = |path: &Path| open(path).map_err(|error| (path.to_owned(), error));
    let bound = scope.power_bound();
    let gauge = |source: Box<dyn ReadGauge>| Source::Gauge(Box::new(BoundedGauge { source, bound }));
    Ok(match quantity {
        Quantity::Power { path, .. } | Quantity::Average { path, .. } => {
            gauge(Box::new(ScaledFile { file: file(path)?, factor: MICRO }))
        }
        // Millivolts times milliamperes are microwatts.
        Quantity::Product { paths: [volts, amperes], .. } => {
            gauge(Box::new(FileProduct { files: [file(volts)?, file(amperes)?], factor: MICRO }))
        }
        Quantity::Energy { path, period } => {
            let limits = CounterLimits {
                unit: Joules::from_micros(1.0),
                // The drivers extend the counters to 64 bits.
                range: None,
                bound,
                // An unknown update period is assumed to be one interval.
                update_period: period.unwrap_or(Seconds::new(INTERVAL.as_secs_f64())),
            };
            Source::Counter(Box::new(file(path)?), limits)
        }
    })
}

/// A power with an upper bound: a failed ACPI meter shows 2^32 - 1 mW.
struct BoundedGauge {
    source: Box<dyn ReadGauge>,
    bound: Watts,
}

impl ReadGauge for BoundedGauge {
    fn read(&mut self) -> io::Result<Option<f64>> {
        match self.source.read()? {
            Some(watts) if watts > self.bound.get() => {
                let why = format!("it shows {watts:.0} W, more than the device can draw");
                Err(io::Error::new(io::ErrorKind::InvalidData, why))
            }
            power => Ok(power),
        }
    }
}
