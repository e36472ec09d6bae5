//! Sensors that a user brings along: a command that prints power or energy, a table that a meter writes, a file in
//! Prometheus' text format.
//!
//! In goes what was written after `--sensor`; out come sensors of the machine's supply (`meter:N`). Each source is tried
//! once before it is taken, so that a wrong one is an error at the start and not an empty column at the end. What a
//! command line says is shown to nobody.

mod command;
mod complaint;
mod csv;
mod layout;
mod meter;
mod output;
mod parts;
mod prometheus;
mod spec;
mod tail;
#[cfg(test)]
mod tests;
mod time;
mod unit;

use self::command::Command;
use self::complaint::Complaint;
use self::csv::Csv;
use self::layout::Wishes;
use self::meter::{Meter, Scale, Trouble};
use self::prometheus::Prometheus;
use self::spec::Source;
pub use self::spec::{Spec, SpecError};
use self::unit::Quantity;
use ergometer_telemetry::{DeviceId, Sensor, SensorInfo};

/// Why a sensor of the user's own cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{sensor} gives no value: {why}{}", hint.as_ref().map(|hint| format!(". hint: {hint}")).unwrap_or_default())]
pub struct ExternalError {
    /// Which, as its id says it.
    pub sensor: String,
    /// What is wrong, and where.
    pub why: String,
    /// What would be right, where that is known.
    pub hint: Option<String>,
}

/// Opens all of them, with numbers from `first_meter` on, up to the first that does not work. Of two with the same id
/// the second has `-2` at its end. Each source is tried once: a command runs, for as long as its timeout at most.
///
/// ```
/// use ergometer_sensors::external::{self, Spec};
/// let specs: Vec<Spec> = ["command:echo 312 W", "command:echo 40 W"].iter().filter_map(|text| text.parse().ok()).collect();
/// let sensors = external::open_all(&specs, 0).unwrap();
/// assert_eq!(sensors[1].info().id, "command:echo-2");
/// assert_eq!(sensors[1].info().device.to_string(), "meter:1");
/// ```
pub fn open_all(specs: &[Spec], first_meter: u32) -> Result<Vec<Box<dyn Sensor>>, ExternalError> {
    opening(specs, first_meter).collect()
}

/// The same for who wants to know of each whether it works: one that does not keeps its id and its number, so that the
/// others have those they have when it is mended.
#[must_use]
pub fn open_each(specs: &[Spec], first_meter: u32) -> Vec<Result<Box<dyn Sensor>, ExternalError>> {
    opening(specs, first_meter).collect()
}

/// Opens one after another, as they are asked for.
fn opening(specs: &[Spec], first_meter: u32) -> impl Iterator<Item = Result<Box<dyn Sensor>, ExternalError>> {
    let mut taken: Vec<String> = Vec::with_capacity(specs.len());
    (first_meter..).zip(specs).map(move |(number, spec)| {
        let names = std::iter::once(spec.name.clone()).chain((2_u32..).map(|count| format!("{}-{count}", spec.name)));
        let name = names.into_iter().find(|name| !taken.contains(&id(spec, name))).unwrap_or_default();
        taken.push(id(spec, &name));
        open_named(spec, &name, number)
    })
}

fn id(spec: &Spec, name: &str) -> String {
    format!("{}:{name}", spec.source.kind())
}

fn open_named(spec: &Spec, name: &str, number: u32) -> Result<Box<dyn Sensor>, ExternalError> {
    let id = id(spec, name);
    let told = |trouble| match trouble {
        Trouble::Failed(Complaint { why, hint }) | Trouble::Lost(Complaint { why, hint }) => {
            ExternalError { sensor: id.clone(), why, hint }
        }
    };
    let (scale, source) = opened(spec).map_err(told)?;
    let interval = source.pause().unwrap_or(spec.every);
    let info = SensorInfo { id, name: name.to_owned(), device: DeviceId::meter(number), interval };
    Ok(Box::new(Meter::new(info, scale, source)))
}

fn opened(spec: &Spec) -> Result<(Scale, Box<dyn meter::Source>), Trouble> {
    let Spec { unit, quantity, every, .. } = *spec;
    match &spec.source {
        Source::Command { command, timeout, pattern } => {
            let pattern = pattern.as_deref().map(output::compiled).transpose();
            let pattern = pattern.map_err(|error| Trouble::failed(error.to_string()))?;
            let quantity = quantity.unwrap_or(Quantity::Power);
            let finder = output::Finder { pattern, unit, quantity };
            let state = command::State::default();
            let command = Command { line: command.clone(), timeout: *timeout, every, finder, state };
            let found = command.try_once()?;
            Ok((Scale::of(quantity, found.unit, Some(found.amount)), Box::new(command)))
        }
        Source::Csv { path, time, value } => {
            let wishes = Wishes { time: time.clone(), value: value.clone(), unit, quantity };
            let opened = Csv::open(path, wishes)?;
            let unit = opened.layout.unit;
            Ok((Scale::of(unit.quantity, unit, opened.amount), Box::new(opened.source)))
        }
        Source::Prometheus { path, metric } => {
            let finder = prometheus::Finder { metric: metric.clone(), unit, quantity };
            let (source, metric) = Prometheus::open(path, finder)?;
            Ok((Scale::of(metric.unit.quantity, metric.unit, Some(metric.amount)), Box::new(source)))
        }
    }
}
