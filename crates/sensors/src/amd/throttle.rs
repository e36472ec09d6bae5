//! What holds the clocks of an AMD GPU back, in NVML's bits.
//!
//! In go tables of `gpu_metrics`; out comes a number of bits per read. What always holds: only limiters that mean the
//! same are told. Limits of current have no such bit, and Radeon cards are left out: some tell a limit of temperature
//! at 9 W and 30 degrees.

use std::fs::File;
use std::io;

use super::card::Chip;
use super::files::read_whole;
use super::metrics::{Residency, parse};
use crate::gauges::ReadGauge;

/// NVML's bits: the power cap, hardware slowdown, slowdown for temperature by software.
const POWER_CAP: u32 = 0x04;
const HARDWARE_SLOWDOWN: u32 = 0x08;
const THERMAL_SLOWDOWN: u32 = 0x20;

/// The driver's bits that mean the same on every chip (`SMU_THROTTLER_*` of `amdgpu_smu.h`): limits of power, of
/// temperature, and the signal that the chip is too hot.
const POWER_LIMITERS: u64 = 0xff;
const THERMAL_LIMITERS: u64 = 0x0fff << 32;
const HOT_SIGNALS: u64 = 0b1011 << 44;

/// The reasons, read from the table.
pub(super) struct ThrottleReasons {
    pub(super) file: File,
    pub(super) chip: Chip,
    /// What was counted when it was last read; the first read has nothing to compare with and tells nothing.
    pub(super) before: Option<Residency>,
}

impl ReadGauge for ThrottleReasons {
    fn read(&mut self) -> io::Result<Option<f64>> {
        let bytes = read_whole(&mut self.file)?;
        let told = parse(&bytes, self.chip).map_err(|unknown| io::Error::new(io::ErrorKind::InvalidData, unknown))?;
        if let Some(limiters) = told.limiters {
            return Ok(Some(f64::from(of_limiters(limiters))));
        }
        let before = std::mem::replace(&mut self.before, told.residency);
        Ok(before.zip(told.residency).and_then(|(before, now)| of_residency(before, now)).map(f64::from))
    }
}

fn of_limiters(limiters: u64) -> u32 {
    let told = |mask: u64, reason: u32| if limiters & mask == 0 { 0 } else { reason };
    told(POWER_LIMITERS, POWER_CAP) | told(THERMAL_LIMITERS, THERMAL_SLOWDOWN) | told(HOT_SIGNALS, HARDWARE_SLOWDOWN)
}

/// What was at work at some time between two reads. `None` where no cycle passed or the counts started again.
fn of_residency(before: Residency, now: Residency) -> Option<u32> {
    if now.cycles <= before.cycles {
        return None;
    }
    // Some drivers of MI300X give the count of all cycles as that of a limiter, also of one at rest.
    let worked = |before: u64, count: u64| count > before && count != now.cycles;
    let mut reasons = 0;
    if worked(before.power, now.power) {
        reasons |= POWER_CAP;
    }
    if worked(before.processor_hot, now.processor_hot) {
        reasons |= HARDWARE_SLOWDOWN;
    }
    if before.thermal.into_iter().zip(now.thermal).any(|(before, now)| worked(before, now)) {
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
        assert_eq!(of_residency(BEFORE, now), Some(POWER_CAP));
        assert_eq!(of_residency(BEFORE, Residency { power: BEFORE.power, ..now }), Some(0));
        assert_eq!(of_residency(BEFORE, Residency { thermal: [0, 0, 7], ..now }), Some(POWER_CAP | THERMAL_SLOWDOWN));
        assert_eq!(of_residency(BEFORE, Residency { processor_hot: 9, ..now }), Some(POWER_CAP | HARDWARE_SLOWDOWN));
    }

    #[test]
    fn a_count_of_all_cycles_is_no_limit() {
        let counts = |cycles| Residency { cycles, processor_hot: 0, power: cycles, thermal: [cycles, 0, cycles] };
        assert_eq!(of_residency(counts(10_657_785), counts(10_657_885)), Some(0));
    }

    #[test]
    fn no_cycle_tells_nothing() {
        assert_eq!(of_residency(BEFORE, BEFORE), None);
        assert_eq!(of_residency(BEFORE, Residency { cycles: 12, ..BEFORE }), None, "it started again");
    }

    #[test]
    fn the_bits_of_all_chips_are_translated() {
        assert_eq!(of_limiters(0), 0);
        assert_eq!(of_limiters(1), POWER_CAP, "PPT0");
        assert_eq!(of_limiters(1 << 36), THERMAL_SLOWDOWN, "hotspot");
        assert_eq!(of_limiters(1 << 47), HARDWARE_SLOWDOWN, "PROCHOT of the GPU");
        assert_eq!(
            of_limiters(1 << 16 | 1 << 23 | 1 << 46 | 1 << 56),
            0,
            "currents, the processor and the rest have no bit"
        );
    }
}
