//! Reads the name, driver version, power limit and memory of AMD GPUs for the record of a run.

use std::path::Path;

use ergometer_telemetry::DeviceId;
use ergometer_units::{Bytes, Watts};

use super::Options;
use super::card::{Card, find_cards};
use crate::nvidia::GpuInfo;
use crate::sysfs::{parse_number, read_text};

/// Describes this machine's AMD GPUs, with the same indices as [`probe`](super::probe).
#[must_use]
pub fn system_gpus(options: &Options) -> Vec<GpuInfo> {
    let cards = find_cards(&options.root).unwrap_or_default();
    let driver_version = read_text(&options.driver_version).ok().filter(|version| !version.is_empty());
    (options.first_gpu..)
        .zip(cards)
        .map(|(index, card)| GpuInfo { driver_version: driver_version.clone(), ..info(DeviceId::gpu(index), &card) })
        .collect()
}

fn info(device: DeviceId, card: &Card) -> GpuInfo {
    // The driver stores the cap. The other limits are read from the firmware, which wakes a sleeping GPU.
    let cap = card.hwmon.as_ref().filter(|_| !card.sleeps()).and_then(|hwmon| number(&hwmon.join("power1_cap")));
    GpuInfo {
        device,
        name: card.name.clone(),
        uuid: read_text(&card.file("unique_id")).ok().filter(|id| !id.is_empty()),
        driver_version: None,
        power_limit: cap.map(|cap_uw| Watts::new(cap_uw as f64 * 1e-6)),
        memory_total: number(&card.file("mem_info_vram_total")).map(Bytes::new),
        mig_enabled: None,
    }
}

fn number(path: &Path) -> Option<u64> {
    parse_number(read_text(path).ok()?.as_bytes()).ok()
}
