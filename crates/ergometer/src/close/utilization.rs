//! Computes utilization of the hardware: the operations and bytes a model needs, divided by the peaks of the hardware.
//!
//! Formulas, with N parameters, W bytes of weights, i input and o output tokens:
//! - FLOPs of a request: 2 N (i + o), the multiplications and additions of its weights, without attention.
//! - Bytes of a request: W for each of its o steps, divided among concurrent requests as time is.
//! - MFU: FLOPs / (its share of the time x peak FLOP/s). MBU: W (o - 1) / (time from first token to end x peak bytes/s).
//! - Arithmetic intensity: FLOPs / bytes.

use ergometer_telemetry::DeviceKind;
use ergometer_units::Seconds;

use crate::config::CountedDevices;
use crate::journal::Manifest;
use ergometer_runs::record::{ComputeMetrics, HardwareUtilization};
use ergometer_sensors::hardware::{Peak, peak_of};

/// The size of the model and the peaks of the hardware, as far as they are known.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Workload {
    parameters: Option<f64>,
    weight_bytes: Option<f64>,
    peak_flops: Option<f64>,
    peak_bytes_per_second: Option<f64>,
}

/// The work of one request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Work {
    pub(super) input: Option<u64>,
    pub(super) output: Option<u64>,
    /// How long it was in flight.
    pub(super) length: Seconds,
    /// Its share of that time.
    pub(super) shared: Seconds,
    /// From the first token to the end.
    pub(super) decode: Option<Seconds>,
}

impl Workload {
    pub(super) fn new(manifest: &Manifest, counted: &CountedDevices) -> Self {
        let on_gpu = manifest.model.computes_on != Some(DeviceKind::Cpu) && super::is_ours(manifest);
        let gpus = manifest.gpus.iter().filter(|gpu| {
            let index = u32::try_from(gpu.device_id).unwrap_or(u32::MAX);
            on_gpu && counted.counts(ergometer_telemetry::DeviceId::gpu(index))
        });
        // A GPU without known peaks makes the sum unknown.
        let peaks: Option<Vec<Peak>> = gpus.map(|gpu| peak_of(&gpu.name)).collect();
        let peaks = peaks.filter(|peaks| !peaks.is_empty());
        Self {
            parameters: manifest.model.parameters.map(|count| count as f64),
            weight_bytes: manifest.model.weight_bytes.map(|bytes| bytes as f64),
            peak_flops: peaks.as_ref().map(|peaks| peaks.iter().map(|peak| peak.fp16_flop_per_s).sum()),
            peak_bytes_per_second: peaks.map(|peaks| peaks.iter().map(|peak| peak.memory_bytes_per_s).sum()),
        }
    }

    pub(super) fn compute(&self, work: Work) -> ComputeMetrics {
        let per_token = self.parameters.map(|parameters| 2.0 * parameters);
        let flops = self.flops(work);
        ComputeMetrics {
            flops_per_request: flops,
            macs_per_request: flops.map(|flops| flops / 2.0),
            total_flops: flops,
            flops_per_token: per_token,
        }
    }

    pub(super) fn derived(&self, work: Work, gauges: HardwareUtilization) -> HardwareUtilization {
        let ratio = |above: Option<f64>, below: Option<f64>| {
            above.zip(below).map(|(above, below)| above / below).filter(|ratio| ratio.is_finite())
        };
        let times = |one: Option<f64>, other: f64| one.map(|one| one * other);
        let share = work.shared / work.length;
        let bytes = self.weight_bytes.zip(work.output).map(|(weights, output)| weights * output as f64 * share);
        let moved = self.weight_bytes.zip(work.output.filter(|&output| output > 1));
        let moved = moved.map(|(weights, output)| weights * (output - 1) as f64);
        HardwareUtilization {
            mfu: ratio(self.flops(work), times(self.peak_flops, work.shared.get())),
            mbu: work.decode.and_then(|decode| ratio(moved, times(self.peak_bytes_per_second, decode.get()))),
            arithmetic_intensity: ratio(self.flops(work), bytes),
            ..gauges
        }
    }

    fn flops(&self, work: Work) -> Option<f64> {
        Some(2.0 * self.parameters? * (work.input? + work.output?) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formulas_match_values_computed_by_hand() {
        let workload = Workload {
            parameters: Some(1e9),
            weight_bytes: Some(2e9),
            peak_flops: Some(1e15),
            peak_bytes_per_second: Some(4e12),
        };
        let work = Work {
            input: Some(100),
            output: Some(101),
            length: Seconds::new(1.0),
            shared: Seconds::new(0.5),
            decode: Some(Seconds::new(0.8)),
        };
        assert_eq!(workload.compute(work).flops_per_request, Some(2e9 * 201.0));
        let derived = workload.derived(work, HardwareUtilization::default());
        assert!((derived.mfu.unwrap() - 4.02e11 / (0.5 * 1e15)).abs() < 1e-12);
        assert!((derived.mbu.unwrap() - 2e11 / (0.8 * 4e12)).abs() < 1e-12);
        assert!((derived.arithmetic_intensity.unwrap() - 4.02e11 / (2e9 * 101.0 * 0.5)).abs() < 1e-9);
        let unknown = Workload::default().derived(work, HardwareUtilization::default());
        assert_eq!((unknown.mfu, unknown.mbu, unknown.arithmetic_intensity), (None, None, None));
    }
}
