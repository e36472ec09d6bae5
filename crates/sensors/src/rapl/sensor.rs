//! The sensor of one device's zones: their open counters go in, and a sensor of counters comes out.

use std::time::Duration;

use ergometer_units::Seconds;

use super::OpenZone;
use super::zone::Zone;
use crate::counted::{BusyProcessors, CountedEnergy, Identity};
use crate::counters::Counters;
use crate::processor_time::ProcessorTime;
use ergometer_telemetry::{Channel, CounterLimits, DeviceId, Provenance, SensorInfo, Signal};

/// Often against a wrap (65 kJ at 500 W is two minutes), seldom against the cost of a read.
const INTERVAL: Duration = Duration::from_millis(50);
/// Intel's manual (Software Developer's Manual, volume 3B, 16.10): updated every 1 ms or so.
pub(super) const UPDATE_PERIOD: Seconds = Seconds::new(0.001);
/// Every so many samples (1 s) each counter is asked whether it moved.
const WATCH_SAMPLES: u32 = 20;
const GONE: &str = "its energy counters are gone (was the RAPL driver unloaded?)";

/// The counters of one CPU package (or die), or of the platform.
pub(super) fn of_zones(device: DeviceId, zones: Vec<OpenZone>, activity: Option<ProcessorTime>) -> Counters {
    let name = zones.first().map(|(zone, _)| zone.label.clone()).unwrap_or_default();
    let id = if device == DeviceId::host() { "rapl:psys".to_owned() } else { format!("rapl:{}", device.index) };
    let info = SensorInfo { id, name: format!("CPU {name}"), device, interval: INTERVAL };
    let counted = zones.into_iter().map(|(zone, file)| {
        let (channel, limits) = (channel(&zone), limits(&zone));
        let identity = Identity { label: zone.label, device: zone.device };
        (channel, CountedEnergy::new(identity, limits, file))
    });
    Counters::new(info, counted.collect(), GONE).moved_by(BusyProcessors::new(activity, WATCH_SAMPLES))
}

fn limits(zone: &Zone) -> CounterLimits {
    CounterLimits {
        unit: zone.counts.unit(),
        range: zone.counts.range(),
        bound: zone.scope.power_bound(),
        update_period: UPDATE_PERIOD,
    }
}

fn channel(zone: &Zone) -> Channel {
    Channel {
        device: zone.device,
        scope: zone.scope,
        signal: Signal::Energy,
        provenance: Provenance::Counter,
        update_period: Some(UPDATE_PERIOD),
    }
}
