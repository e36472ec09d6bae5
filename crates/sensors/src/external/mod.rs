//! Reads the user's own meters: a command that prints power or energy, a CSV file, or a Prometheus text file.
//!
//! Each [`Spec`] becomes one sensor of the whole machine's power (`meter:N`). Every source is read once when it is
//! opened, so a wrong definition is an error at the start of a run and not an empty column at the end. Commands are
//! never shown, because they may contain passwords.

mod command;
mod csv;
mod definition;
mod layout;
mod meter;
mod output;
mod parser;
mod prometheus;
mod spec;
mod tail;
#[cfg(test)]
mod tests;
mod time;
mod unit;

use std::borrow::Cow;
use std::sync::Arc;

use ergometer_diagnostics::{Diagnostic, Hint, Message};
use ergometer_telemetry::{DeviceId, Sensor, SensorInfo};

use self::command::Command;
use self::csv::Csv;
use self::layout::ColumnOptions;
use self::meter::{Meter, Scale, SourceError};
use self::prometheus::Prometheus;
use self::spec::Source;
use self::unit::Quantity;
use crate::process_group::GroupGuard;

pub use self::spec::{Spec, SpecError};

/// An external sensor gave no value when it was opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{sensor} gives no value: {cause}")]
pub struct ExternalError {
    /// The sensor's id.
    pub sensor: String,
    /// The cause, with its hint.
    pub cause: Message,
}

impl Diagnostic for ExternalError {
    fn hint(&self) -> Option<Hint> {
        self.cause.hint.clone()
    }
}

/// Opens every sensor and stops at the first that gives no value. Meters are numbered from `first_meter`. A second
/// sensor with the same id gets the suffix `-2`. Each source is read once; a command runs until it ends or times out.
///
/// ```
/// use ergometer_sensors::external::{self, Spec};
/// let specs: Vec<Spec> = ["command:echo 312 W", "command:echo 40 W"].iter().filter_map(|text| text.parse().ok()).collect();
/// let sensors = external::open_all(&specs, 0).unwrap();
/// assert_eq!(sensors[1].info().id, "command:echo-2");
/// assert_eq!(sensors[1].info().device.to_string(), "meter:1");
/// ```
pub fn open_all(specs: &[Spec], first_meter: u32) -> Result<Vec<Box<dyn Sensor>>, ExternalError> {
    open_lazily(specs, first_meter).collect()
}

/// Opens every sensor and returns the result of each. A sensor that fails keeps its id and number, so that the ids of
/// the others do not change when it is repaired.
#[must_use]
pub fn open_each(specs: &[Spec], first_meter: u32) -> Vec<Result<Box<dyn Sensor>, ExternalError>> {
    open_lazily(specs, first_meter).collect()
}

/// Opens each sensor when the iterator reaches it.
fn open_lazily(specs: &[Spec], first_meter: u32) -> impl Iterator<Item = Result<Box<dyn Sensor>, ExternalError>> {
    let mut taken: Vec<String> = Vec::with_capacity(specs.len());
    (first_meter..).zip(specs).map(move |(number, spec)| {
        let names = std::iter::once(spec.name.clone()).chain((2_u32..).map(|count| format!("{}-{count}", spec.name)));
        let name = names.into_iter().find(|name| !taken.contains(&id(spec, name))).unwrap_or_default();
        taken.push(id(spec, &name));
        open_named(spec, &name, number)
    })
}

/// A message with a hint.
fn with_hint(text: impl Into<String>, hint: impl Into<Cow<'static, str>>) -> Message {
    Message::new(text).with_hint(Hint::text(hint))
}

fn id(spec: &Spec, name: &str) -> String {
    format!("{}:{name}", spec.source.kind())
}

fn open_named(spec: &Spec, name: &str, number: u32) -> Result<Box<dyn Sensor>, ExternalError> {
    let id = id(spec, name);
    let failed = |error| {
        let (SourceError::Failed(cause) | SourceError::Lost(cause)) = error;
        ExternalError { sensor: id.clone(), cause }
    };
    let (scale, source) = open_source(spec).map_err(failed)?;
    let interval = source.pause().unwrap_or(spec.every);
    let info = SensorInfo { id, name: name.to_owned(), device: DeviceId::meter(number), interval };
    Ok(Box::new(Meter::new(info, scale, source)))
}

fn open_source(spec: &Spec) -> Result<(Scale, Box<dyn meter::Source>), SourceError> {
    let Spec { unit, quantity, every, .. } = *spec;
    match &spec.source {
        Source::Command { command, timeout, pattern } => {
            let pattern = pattern.as_deref().map(output::compile_pattern).transpose();
            let pattern = pattern.map_err(|error| SourceError::failed(error.to_string()))?;
            let quantity = quantity.unwrap_or(Quantity::Power);
            let finder = output::Finder { pattern, unit, quantity };
            let state = command::State::default();
            let guard =
                GroupGuard::start().map_err(|cause| SourceError::failed(format!("cannot start sh: {cause}")))?;
            let guard = Arc::new(guard);
            let mut command = Command { line: command.clone(), timeout: *timeout, every, finder, state, guard };
            let found = command.try_once()?;
            Ok((Scale::from_value(quantity, found.unit, Some(found.amount)), Box::new(command)))
        }
        Source::Csv { path, time, value } => {
            let options = ColumnOptions { time: time.clone(), value: value.clone(), unit, quantity };
            let opened = Csv::open(path, options)?;
            let unit = opened.layout.unit;
            Ok((Scale::from_value(unit.quantity, unit, opened.amount), Box::new(opened.source)))
        }
        Source::Prometheus { path, metric } => {
            let finder = prometheus::Finder { metric: metric.clone(), unit, quantity };
            let (source, metric) = Prometheus::open(path, finder)?;
            Ok((Scale::from_value(metric.unit.quantity, metric.unit, Some(metric.amount)), Box::new(source)))
        }
    }
}
