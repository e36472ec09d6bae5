//! Opens the sensor of one device from the counters of its zones.

use std::time::Duration;

use ergometer_diagnostics::{Message, hint};
use ergometer_telemetry::{Channel, CounterLimits, DeviceId, Provenance, SensorInfo, Signal};
use ergometer_units::Seconds;

use super::OpenZone;
use super::zone::Zone;
use crate::counters::Counters;
use crate::energy_counter::{BusyProcessors, EnergyCounter, Identity};
use crate::processor_time::ProcessorTime;

/// Much shorter than a wrap (65 kJ at 500 W is two minutes), and long compared to the cost of a read.
const INTERVAL: Duration = Duration::from_millis(50);
/// About 1 ms, by Intel's Software Developer's Manual, volume 3B, 16.10.
pub(super) const UPDATE_PERIOD: Seconds = Seconds::new(0.001);
/// The number of samples (1 s) between two checks whether each counter moved.
const WATCH_SAMPLES: u32 = 20;

/// The error when all counters are gone.
fn gone() -> Message {
    Message::new("its energy counters are gone").with_hint(hint!("check that the RAPL driver is loaded"))
}

/// The counters of one CPU package (or die), or of the platform.
pub(super) fn open_sensor(device: DeviceId, zones: Vec<OpenZone>, activity: Option<ProcessorTime>) -> Counters {
    let name = zones.first().map(|(zone, _)| zone.label.clone()).unwrap_or_default();
    let id = if device == DeviceId::host() { "rapl:psys".to_owned() } else { format!("rapl:{}", device.index) };
    let info = SensorInfo { id, name: format!("CPU {name}"), device, interval: INTERVAL };
    let counted = zones.into_iter().map(|(zone, file)| {
        let (channel, limits) = (channel(&zone), limits(&zone));
        let identity = Identity { label: zone.label, device: zone.device };
        (channel, EnergyCounter::new(identity, limits, file))
    });
    Counters::new(info, counted.collect(), gone()).moved_by(BusyProcessors::new(activity, WATCH_SAMPLES))
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
