//! A timeline goes in; the devices and scopes that have energy or power come out, and which of them make up the sum.
//!
//! For who shows power as it goes and needs no estimate: the rule is the meter's own.

use super::meter::is_summed;
use super::source::Source;
use crate::{DeviceId, Scope, Timeline};

/// One device and scope that has energy or power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The device.
    pub device: DeviceId,
    /// The part of it.
    pub scope: Scope,
    /// Whether anything measures it. What is only modelled is never part of the sum.
    pub measured: bool,
    /// Whether it is part of the sum; a scope contained in another is not.
    pub summed: bool,
}

impl Part {
    /// Those of a timeline. A channel counts once it has two readings.
    #[must_use]
    pub fn all(timeline: &Timeline) -> Vec<Self> {
        let sources = Source::all(timeline);
        let part = |source: &Source| Self {
            device: source.device,
            scope: source.scope,
            measured: source.is_measured(),
            summed: is_summed(source, &sources),
        };
        sources.iter().map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::example::{sensor, time};
    use crate::{Batch, Channel, Provenance, Signal};

    #[test]
    fn a_gpu_contains_its_memory_and_a_model_is_no_part_of_the_sum() {
        let channel =
            |device, scope, signal, provenance| Channel { device, scope, signal, provenance, update_period: None };
        let channels = [
            channel(DeviceId::gpu(0), Scope::Device, Signal::PowerInstant, Provenance::SampledPower),
            channel(DeviceId::gpu(0), Scope::Memory, Signal::PowerAverage, Provenance::AveragedPower),
            channel(DeviceId::cpu(0), Scope::Package, Signal::PowerModelled, Provenance::Modelled),
        ];
        let mut timeline = Timeline::default();
        let key = timeline.add_sensor(&sensor("a"), &channels);
        let told = |timeline: &Timeline| {
            Part::all(timeline).iter().map(|part| (part.scope, part.measured, part.summed)).collect::<Vec<_>>()
        };
        let unheard = [(Scope::Device, false, false), (Scope::Memory, false, false), (Scope::Package, false, false)];
        assert_eq!(told(&timeline), unheard, "nothing was read yet");
        let mut batch = Batch::default();
        for at in [1, 2] {
            (0..3).for_each(|channel| batch.push(channel, time(at), 100.0));
        }
        timeline.append(key, &batch);
        let heard = [(Scope::Device, true, true), (Scope::Memory, true, false), (Scope::Package, false, false)];
        assert_eq!(told(&timeline), heard);
    }
}
