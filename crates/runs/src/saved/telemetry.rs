//! Reads `telemetry.parquet` into channels sorted by time.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch, StringArray};
use ergometer_columnar::{ParquetFile, Selection};

use crate::column_names as names;
use crate::store::TELEMETRY_FILE;
use crate::{ReadError, regular_file};

/// The readings of a run.
#[derive(Debug, Default)]
pub struct Telemetry {
    /// A channel for each session, sensor, device, scope and signal.
    pub channels: Vec<Channel>,
}

/// The readings of one channel in one session.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Channel {
    /// The session of the run.
    pub session: u32,
    /// The sensor.
    pub sensor: String,
    /// The device, such as `gpu:0`.
    pub device: String,
    /// The scope, such as `device` or `package`.
    pub scope: String,
    /// The signal, such as `power_ring` or `temperature`.
    pub signal: String,
    /// The unit, such as `W`.
    pub unit: String,
    /// The provenance, such as `counter`.
    pub provenance: String,
    /// Times of the readings, in nanoseconds since the epoch, ascending.
    pub at_ns: Vec<i64>,
    /// Values of the readings, as many as `at_ns`.
    pub values: Vec<f64>,
}

impl Telemetry {
    /// Reads the channels of these signals; without any, none. A run without the file has no readings.
    pub fn read(folder: &Path, signals: &[&str]) -> Result<Self, ReadError> {
        let path = folder.join(TELEMETRY_FILE);
        let file = match regular_file::open(&path) {
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            file => file.map_err(ReadError::io("read", &path))?,
        };
        let damaged = ReadError::of_file(&path);
        let file = ParquetFile::open(file).map_err(&damaged)?;
        let columns = [
            names::TIME_NS,
            names::SESSION,
            names::SENSOR,
            names::DEVICE,
            names::SCOPE,
            names::SIGNAL,
            names::VALUE,
            names::UNIT,
            names::PROVENANCE,
        ];
        let selection = Selection { group: None, columns: Some(&columns), batch_rows: 1 << 16 };
        let mut telemetry = Self::default();
        for batch in file.batches(selection).map_err(&damaged)? {
            telemetry.push(&batch.map_err(&damaged)?, signals).ok_or_else(|| ReadError::Damaged {
                path: path.clone(),
                what: String::from("it does not have the columns of a telemetry file"),
            })?;
        }
        telemetry.channels.iter_mut().for_each(Channel::put_in_order);
        Ok(telemetry)
    }

    /// The channels of a signal.
    pub fn channels_with<'a>(&'a self, signal: &'a str) -> impl Iterator<Item = &'a Channel> {
        self.channels.iter().filter(move |channel| channel.signal == signal)
    }

    fn push(&mut self, batch: &RecordBatch, signals: &[&str]) -> Option<()> {
        let texts = |name: &str| Texts::find(batch, name);
        let (sensor, device, scope) = (texts(names::SENSOR)?, texts(names::DEVICE)?, texts(names::SCOPE)?);
        let (signal, unit, provenance) = (texts(names::SIGNAL)?, texts(names::UNIT)?, texts(names::PROVENANCE)?);
        let times = batch.column_by_name(names::TIME_NS)?.as_primitive_opt::<Int64Type>()?;
        let sessions = batch.column_by_name(names::SESSION)?.as_primitive_opt::<Int64Type>()?;
        let values = batch.column_by_name(names::VALUE)?.as_primitive_opt::<Float64Type>()?;
        for row in 0..batch.num_rows() {
            let is_known = times.is_valid(row) && sessions.is_valid(row) && values.is_valid(row);
            if !is_known || !signals.contains(&signal.at(row)) {
                continue;
            }
            let session = u32::try_from(sessions.value(row)).unwrap_or(0);
            let is_same = |channel: &Channel| {
                channel.session == session
                    && channel.sensor == sensor.at(row)
                    && channel.device == device.at(row)
                    && channel.scope == scope.at(row)
                    && channel.signal == signal.at(row)
            };
            // Rows are sorted by channel, so it is nearly always the last one.
            let place = if self.channels.last().is_some_and(is_same) {
                self.channels.len() - 1
            } else if let Some(place) = self.channels.iter().position(is_same) {
                place
            } else {
                self.channels.push(Channel {
                    session,
                    sensor: sensor.at(row).to_owned(),
                    device: device.at(row).to_owned(),
                    scope: scope.at(row).to_owned(),
                    signal: signal.at(row).to_owned(),
                    unit: unit.at(row).to_owned(),
                    provenance: provenance.at(row).to_owned(),
                    ..Channel::default()
                });
                self.channels.len() - 1
            };
            let (value, channel) = (values.value(row), &mut self.channels[place]);
            if value.is_finite() {
                channel.at_ns.push(times.value(row));
                channel.values.push(value);
            }
        }
        Some(())
    }
}

impl Channel {
    /// Sorts the readings by time. Ergometer writes them sorted; other tools may not.
    fn put_in_order(&mut self) {
        if self.at_ns.is_sorted() {
            return;
        }
        let mut readings: Vec<(i64, f64)> = self.at_ns.iter().copied().zip(self.values.iter().copied()).collect();
        readings.sort_by_key(|reading| reading.0);
        (self.at_ns, self.values) = readings.into_iter().unzip();
    }
}

/// A dictionary-encoded column of texts.
struct Texts<'a> {
    keys: &'a arrow_array::Int32Array,
    values: &'a StringArray,
}

impl<'a> Texts<'a> {
    fn find(batch: &'a RecordBatch, name: &str) -> Option<Self> {
        let column = batch.column_by_name(name)?.as_any_dictionary_opt()?;
        let keys = column.keys().as_primitive_opt::<Int32Type>()?;
        Some(Self { keys, values: column.values().as_string_opt::<i32>()? })
    }

    fn at(&self, row: usize) -> &'a str {
        let key = usize::try_from(self.keys.value(row)).ok().filter(|_| self.keys.is_valid(row)).unwrap_or(usize::MAX);
        if key < self.values.len() { self.values.value(key) } else { "" }
    }
}
