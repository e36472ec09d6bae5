//! The first lines of a run: dataset, model and sensors, and the planned calibration.

use std::time::Duration;

use ergometer::run::PreparedRun;
use ergometer_clients::Locality;
use ergometer_telemetry::{DeviceId, Provenance};

use crate::figures::thousands;

pub(super) fn line(prepared: &PreparedRun) -> String {
    let config = prepared.config();
    let parameters = prepared.model().parameters.map(|count| format!(" ({} parameters)", short(count as f64)));
    let queries = match (prepared.queries(), prepared.dataset().size()) {
        (Some(queries), Some(size)) if queries < size => {
            format!("{} of {} queries", thousands(queries as f64), thousands(size as f64))
        }
        (Some(1), _) => String::from("1 query"),
        (Some(queries), _) => format!("{} queries", thousands(queries as f64)),
        (None, _) => String::from("endless"),
    };
    let dataset = prepared.dataset();
    // Shows which columns are used if their names differ from the default.
    let columns = dataset.columns().map(ToString::to_string).filter(|mapped| !mapped.is_empty());
    let columns = columns.map(|mapped| format!(" ({mapped})"));
    let skipped = match dataset.skipped() {
        0 => String::new(),
        1 => String::from(", 1 entry skipped"),
        count => format!(", {} entries skipped", thousands(count as f64)),
    };
    let parts = [
        format!("Ergometer {}", env!("CARGO_PKG_VERSION")),
        format!("{} {}{}", config.client.id, config.client.model, parameters.unwrap_or_default()),
        format!("{}{}, {queries}{}", dataset.name(), columns.unwrap_or_default(), skipped),
        meter(prepared),
    ];
    let server = prepared.server_metrics().map(|server| format!("metrics of {}", server.software()));
    parts.into_iter().chain(server).collect::<Vec<_>>().join("  ·  ")
}

/// The planned calibration. Whether that of an earlier run is reused is known when the run starts.
pub(super) fn calibration(length: Duration) -> String {
    let seconds = length.as_secs_f64();
    format!(
        "calibration  {seconds} s at 1 and 4 in flight, before the run, unless an earlier calibration is reused; \
         --calibrate off skips it"
    )
}

/// The devices with measured and modelled energy.
fn meter(prepared: &PreparedRun) -> String {
    if let Locality::Elsewhere { host } = prepared.locality() {
        return format!("no energy: the server is on {host}");
    }
    let sensing = prepared.sensing();
    let is_measured = |device: DeviceId| {
        let mut channels = sensing.sensors.iter().flat_map(|sensor| sensor.channels());
        channels.any(|channel| {
            channel.device == device && !matches!(channel.provenance, Provenance::Modelled | Provenance::Gauge)
        })
    };
    let (measured, modelled): (Vec<DeviceId>, Vec<DeviceId>) = sensing
        .devices()
        .into_iter()
        .filter(|&device| prepared.counted().counts(device))
        .partition(|&device| is_measured(device));
    let names = |devices: &[DeviceId]| devices.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match (measured.as_slice(), modelled.as_slice()) {
        ([], []) => String::from("no energy (no sensor: run `ergo doctor`)"),
        ([], _) => String::from("CPU modelled (no energy sensor: run `ergo doctor`)"),
        (measured, []) => format!("{} measured", names(measured)),
        (measured, modelled) => format!("{} measured, {} modelled", names(measured), names(modelled)),
    }
}

/// `0.1 M`, `135 M`, `8.0 B`.
fn short(count: f64) -> String {
    let (value, unit) = if count >= 1e9 {
        (count / 1e9, "B")
    } else if count >= 1e5 {
        (count / 1e6, "M")
    } else {
        (count / 1e3, "k")
    };
    if value >= 10.0 { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_parameters_are_short() {
        let shown: Vec<String> = [141_000.0, 921_000.0, 134_500_000.0, 8.03e9].map(short).to_vec();
        assert_eq!(shown, ["0.1 M", "0.9 M", "134 M", "8.0 B"]);
    }

    #[test]
    fn the_plan_says_how_to_skip_the_calibration() {
        assert_eq!(
            calibration(Duration::from_secs(6)),
            "calibration  6 s at 1 and 4 in flight, before the run, unless an earlier calibration is reused; \
             --calibrate off skips it"
        );
    }
}
