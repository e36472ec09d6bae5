//! Reads why an AMD GPU reduces its clocks, as NVML's bits, from `gpu_metrics`.
//!
//! Only limiters with the same meaning as an NVML bit are reported: current limits have none. Radeon cards are not
//! read, because some report a temperature limit at 9 W and 30 degrees.

use std::fs::File;
use std::io;

use super::card::Chip;
use super::files::read_whole;
use super::metrics::{Residency, parse};
use crate::gauges::ReadGauge;

/// NVML's bits: power cap, hardware slowdown, thermal slowdown by software.
const POWER_CAP: u32 = 0x04;
const HARDWARE_SLOWDOWN: u32 = 0x08;
const THERMAL_SLOWDOWN: u32 = 0x20;

/// The driver's bits with the same meaning on every chip (`SMU_THROTTLER_*` in `amdgpu_smu.h`): power limits,
/// temperature limits, and the signals for an overheated chip.
const POWER_LIMITERS: u64 = 0xff;
const THERMAL_LIMITERS: u64 = 0x0fff << 32;
const HOT_SIGNALS: u64 = 0b1011 << 44;

/// The throttle reasons of one GPU.
pub(super) struct ThrottleReasons {
    pub(super) file: File,
    pub(super) chip: Chip,
    /// The counts of the last read. The first read has nothing to compare with and gives no value.
    pub(super) before: Option<Residency>,
}

impl ReadGauge for ThrottleReasons {
    fn read(&mut self) -> io::Result<Option<f64>> {
        let bytes = read_whole(&mut self.file)?;
        let metrics =
            parse(&bytes, self.chip).map_err(|unknown| io::Error::new(io::ErrorKind::InvalidData, unknown))?;
        if let Some(limiters) = metrics.limiters {
            return Ok(Some(f64::from(reasons_from_limiters(limiters))));
        }
        let before = std::mem::replace(&mut self.before, metrics.residency);
        Ok(before.zip(metrics.residency).and_then(|(before, now)| reasons_between(before, now)).map(f64::from))
    }
}

fn reasons_from_limiters(limiters: u64) -> u32 {
    let bit = |mask: u64, reason: u32| if limiters & mask == 0 { 0 } else { reason };
    bit(POWER_LIMITERS, POWER_CAP) | bit(THERMAL_LIMITERS, THERMAL_SLOWDOWN) | bit(HOT_SIGNALS, HARDWARE_SLOWDOWN)
}

/// The limiters that were active between two reads. `None` if no cycle passed or the counters were reset.
fn reasons_between(before: Residency, now: Residency) -> Option<u32> {
    if now.cycles <= before.cycles {
        return None;
    }
    // Some drivers of MI300X report the count of all cycles for an inactive limiter.
    let was_active = |before: u64, count: u64| count > before && count != now.cycles;
    let mut reasons = 0;
    if was_active(before.power, now.power) {
        reasons |= POWER_CAP;
    }
    if was_active(before.processor_hot, now.processor_hot) {
        reasons |= HARDWARE_SLOWDOWN;
    }
    if before.thermal.into_iter().zip(now.thermal).any(|(before, now)| was_active(before, now)) {
        reasons |= THERMAL_SLOWDOWN;
    }
    Some(reasons)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: Residency = Residency { cycles: 55_257_356, processor_hot: 0, power: 749_905, thermal: [0; 3] };

    #[test]
    fn cycles_at_a_limit_are_reasons() {
        // Recorded on an MI300X at 706 W, 5 s apart.
        let now = Residency { cycles: 55_262_364, power: 754_247, ..BEFORE };
        assert_eq!(reasons_between(BEFORE, now), Some(POWER_CAP));
        assert_eq!(reasons_between(BEFORE, Residency { power: BEFORE.power, ..now }), Some(0));
        assert_eq!(
            reasons_between(BEFORE, Residency { thermal: [0, 0, 7], ..now }),
            Some(POWER_CAP | THERMAL_SLOWDOWN)
        );
        assert_eq!(reasons_between(BEFORE, Residency { processor_hot: 9, ..now }), Some(POWER_CAP | HARDWARE_SLOWDOWN));
    }

    #[test]
    fn a_count_of_all_cycles_is_not_a_limit() {
        let counts = |cycles| Residency { cycles, processor_hot: 0, power: cycles, thermal: [cycles, 0, cycles] };
        assert_eq!(reasons_between(counts(10_657_785), counts(10_657_885)), Some(0));
    }

    #[test]
    fn without_a_cycle_there_is_no_value() {
        assert_eq!(reasons_between(BEFORE, BEFORE), None);
        assert_eq!(reasons_between(BEFORE, Residency { cycles: 12, ..BEFORE }), None, "the counter was reset");
    }

    #[test]
    fn the_common_bits_of_all_chips_are_translated() {
        assert_eq!(reasons_from_limiters(0), 0);
        assert_eq!(reasons_from_limiters(1), POWER_CAP, "PPT0");
        assert_eq!(reasons_from_limiters(1 << 36), THERMAL_SLOWDOWN, "hotspot");
        assert_eq!(reasons_from_limiters(1 << 47), HARDWARE_SLOWDOWN, "PROCHOT of the GPU");
        assert_eq!(
            reasons_from_limiters(1 << 16 | 1 << 23 | 1 << 46 | 1 << 56),
            0,
            "current limits, the processor and others have no bit"
        );
    }
}
