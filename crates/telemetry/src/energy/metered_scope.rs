//! Selects the energy sources that are summed: those that no other source contains.
//!
//! A GPU contains its memory. A package contains its cores and uncore, but not the DRAM. A CPU module contains its
//! package; a GPU module (MI300A, GH200) also contains the CPUs on it. The power supply contains everything. The
//! content of a rail is unknown.

use super::source::Source;
use crate::{DeviceId, DeviceKind, Scope, Timeline};

/// One device and scope that has energy or power.
///
/// ```
/// use ergometer_telemetry::{MeteredScope, Timeline};
/// assert!(MeteredScope::all(&Timeline::default()).is_empty());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeteredScope {
    /// The device.
    pub device: DeviceId,
    /// The scope.
    pub scope: Scope,
    /// Whether a sensor measures it. Modelled energy is never part of the sum.
    pub measured: bool,
    /// Whether it is part of the sum; a scope contained in another is not.
    pub summed: bool,
}

impl MeteredScope {
    /// All metered scopes of a timeline. A channel needs at least two readings.
    #[must_use]
    pub fn all(timeline: &Timeline) -> Vec<Self> {
        Self::counting(timeline, &|_| true)
    }

    /// The metered scopes of the devices for which `counts` is true. A power-supply meter is the sum if it is the only
    /// such device.
    #[must_use]
    pub fn counting(timeline: &Timeline, counts: &dyn Fn(DeviceId) -> bool) -> Vec<Self> {
        let mut sources = Source::all(timeline);
        sources.retain(|source| counts(source.device));
        let metered = |source: &Source| Self {
            device: source.device,
            scope: source.scope,
            measured: source.is_measured(),
            summed: is_summed(source, &sources),
        };
        sources.iter().map(metered).collect()
    }
}

/// Whether a source is part of the sum over all counted sources.
pub(super) fn is_summed(source: &Source, all: &[Source]) -> bool {
    if !source.is_measured() {
        return false;
    }
    let measured = || all.iter().filter(|other| other.is_measured());
    let has = |scope: Scope| measured().any(|other| (other.device, other.scope) == (source.device, scope));
    let is_whole = |other: &Source| matches!(other.scope, Scope::Device | Scope::Package | Scope::Module);
    // The power supply, which includes fans and disks, is used only if no device has its own meter.
    let first_supply = measured().filter(|other| other.scope == Scope::Psys).map(|other| other.device).min();
    let uses_supply = first_supply.is_some() && !measured().any(is_whole);
    // A GPU module is used if the GPU itself has no meter; it then includes the CPUs on it.
    let is_gpu_module_used = |other: &Source| {
        let is_device = |same: &Source| (same.device, same.scope) == (other.device, Scope::Device);
        other.scope == Scope::Module && other.device.kind == DeviceKind::Gpu && !measured().any(is_device)
    };
    let is_inside = source.device.kind != DeviceKind::Gpu && measured().any(is_gpu_module_used);
    match source.scope {
        Scope::Device => true,
        Scope::Package => !is_inside,
        Scope::Memory | Scope::Rail => false,
        Scope::Module if source.device.kind == DeviceKind::Gpu => !has(Scope::Device),
        Scope::Module => !has(Scope::Package) && !is_inside,
        // Use the first of several supply meters.
        Scope::Psys => uses_supply && first_supply == Some(source.device),
        Scope::Dram => !has(Scope::Module) && !uses_supply && !is_inside,
        Scope::Core | Scope::Uncore => !has(Scope::Package) && !has(Scope::Module) && !uses_supply && !is_inside,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::example::sensor;
    use crate::{Batch, Channel, Provenance, SensorInfo, Signal};
    use ergometer_units::Timestamp;

    /// The summed scopes of a machine with these sources, each with two readings.
    fn summed(sources: &[(DeviceId, Scope)], counts: &dyn Fn(DeviceId) -> bool) -> Vec<(DeviceId, Scope)> {
        let mut timeline = Timeline::default();
        for (number, &(device, scope)) in sources.iter().enumerate() {
            let (signal, provenance) = (Signal::PowerInstant, Provenance::SampledPower);
            let channel = Channel { device, scope, signal, provenance, update_period: None };
            let key = timeline.add_sensor(&SensorInfo { device, ..sensor(&format!("{number}")) }, &[channel]);
            let mut batch = Batch::default();
            for second in 0..2 {
                batch.push(0, Timestamp::from_nanos_since_epoch(second * 1_000_000_000), 10.0);
            }
            timeline.append(key, &batch);
        }
        let summed = MeteredScope::counting(&timeline, counts).into_iter().filter(|metered| metered.summed);
        summed.map(|metered| (metered.device, metered.scope)).collect()
    }

    const GPU: (DeviceId, Scope) = (DeviceId::gpu(0), Scope::Device);
    const PACKAGE: (DeviceId, Scope) = (DeviceId::cpu(0), Scope::Package);
    const DRAM: (DeviceId, Scope) = (DeviceId::cpu(0), Scope::Dram);
    const MODULE: (DeviceId, Scope) = (DeviceId::cpu(0), Scope::Module);
    const CORES: (DeviceId, Scope) = (DeviceId::cpu(0), Scope::Core);
    const SUPPLY: (DeviceId, Scope) = (DeviceId::meter(0), Scope::Psys);
    const BATTERY: (DeviceId, Scope) = (DeviceId::meter(1), Scope::Psys);
    const RAIL: (DeviceId, Scope) = (DeviceId::rail(0), Scope::Rail);

    #[test]
    fn a_supply_meter_is_never_added_to_the_devices_it_supplies() {
        let all = |_| true;
        assert_eq!(summed(&[GPU, PACKAGE, DRAM, CORES, SUPPLY, RAIL], &all), [GPU, PACKAGE, DRAM]);
        assert_eq!(summed(&[GPU, SUPPLY], &all), [GPU]);
        assert_eq!(summed(&[SUPPLY, BATTERY, RAIL, CORES, DRAM], &all), [SUPPLY]);
        assert_eq!(summed(&[RAIL], &all), []);
    }

    #[test]
    fn a_meter_that_is_the_only_counted_device_is_the_sum() {
        assert_eq!(summed(&[GPU, PACKAGE, SUPPLY], &|device| device == DeviceId::meter(0)), [SUPPLY]);
        assert_eq!(summed(&[GPU, PACKAGE, SUPPLY], &|device| device == DeviceId::cpu(0)), [PACKAGE]);
    }

    #[test]
    fn a_module_contains_its_package_its_memory_and_a_gpu() {
        let all = |_| true;
        assert_eq!(summed(&[MODULE, PACKAGE, CORES], &all), [PACKAGE]);
        assert_eq!(summed(&[MODULE, DRAM, CORES], &all), [MODULE]);
        // A processor with integrated graphics, and a discrete GPU.
        assert_eq!(summed(&[GPU, MODULE], &all), [GPU, MODULE]);
    }

    #[test]
    fn a_gpu_module_is_not_added_to_the_devices_it_contains() {
        let all = |_| true;
        let gpu_module = (DeviceId::gpu(0), Scope::Module);
        // GH200: the counter covers the module, power covers the GPU, and Grace has separate meters.
        assert_eq!(summed(&[GPU, gpu_module, PACKAGE, MODULE], &all), [GPU, PACKAGE]);
        // MI300A: the GPU has only the power of the socket, which includes the processors that RAPL counts.
        assert_eq!(summed(&[gpu_module, PACKAGE, DRAM], &all), [gpu_module]);
    }
}
