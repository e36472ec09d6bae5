//! Writes `telemetry.parquet`: one row for each reading.
//!
//! Rows are sorted by session, sensor, channel and time. So the names of a channel and the time differences compress
//! well, and a query for one channel reads few row groups, found by their statistics. To get all channels by time, use
//! `ORDER BY time_ns`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use ergometer_telemetry::{Channel, Readings, Signal, Timeline};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

use super::StoreError;
use super::partial::PartialFile;
use crate::column_names as names;

/// The file's name in the run's folder.
pub const TELEMETRY_FILE: &str = "telemetry.parquet";

/// Readings converted to arrays at a time: 4 MB of them.
const CHUNK_ROWS: usize = 1 << 16;
/// Rows of a row group: two or three channels of an hour at 100 readings a second.
const ROW_GROUP_ROWS: usize = 1 << 20;

/// Writes the readings of a run into its folder.
///
/// ```
/// use ergometer_runs::store::TelemetryWriter;
///
/// let folder = tempfile::tempdir()?;
/// let mut writer = TelemetryWriter::create(folder.path())?;
/// writer.push(0, &ergometer_telemetry::Timeline::default())?;
/// assert_eq!(writer.finish()?, 0);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TelemetryWriter {
    path: PathBuf,
    schema: SchemaRef,
    parquet: ArrowWriter<PartialFile>,
    rows: u64,
}

/// Consecutive readings of one channel.
struct ReadingBlock<'a> {
    session: u32,
    sensor: &'a str,
    channel: &'a Channel,
    at_ns: &'a [i64],
    early_ns: &'a [u32],
    values: &'a [f64],
}

impl<'a> ReadingBlock<'a> {
    fn columns(&self) -> [(&'static str, ArrayRef); 10] {
        let Channel { device, scope, signal, provenance, .. } = self.channel;
        [
            (names::TIME_NS, Arc::new(Int64Array::from(self.at_ns.to_vec()))),
            (names::AFTER_NS, Arc::new(self.after_ns().collect::<Int64Array>())),
            (names::SESSION, Arc::new(Int64Array::from(vec![i64::from(self.session); self.at_ns.len()]))),
            (names::SENSOR, self.repeated(self.sensor)),
            (names::DEVICE, self.repeated(&device.to_string())),
            (names::SCOPE, self.repeated(&scope.to_string())),
            (names::SIGNAL, self.repeated(&signal.to_string())),
            (names::VALUE, Arc::new(Float64Array::from(self.values.to_vec()))),
            (names::UNIT, self.repeated(signal.unit())),
            (names::PROVENANCE, self.repeated(&provenance.to_string())),
        ]
    }

    /// The earliest time at which each value can have been measured; null if that is the time of the reading.
    fn after_ns(&self) -> impl Iterator<Item = Option<i64>> {
        let times = self.at_ns.iter().zip(self.early_ns);
        times.map(|(&at_ns, &early_ns)| (early_ns > 0).then(|| at_ns.saturating_sub(i64::from(early_ns))))
    }

    /// A column with the same text in every row, stored once.
    fn repeated(&self, text: &str) -> ArrayRef {
        let keys = Int32Array::from(vec![0; self.at_ns.len()]);
        Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::new(StringArray::from(vec![text]))))
    }

    fn split(
        session: u32,
        sensor: &'a str,
        channel: &'a Channel,
        readings: Readings<'a>,
    ) -> impl Iterator<Item = Self> {
        let times = readings.at_ns.chunks(CHUNK_ROWS);
        let rest = readings.early_ns.chunks(CHUNK_ROWS).zip(readings.values.chunks(CHUNK_ROWS));
        times.zip(rest).map(move |(at_ns, (early_ns, values))| Self {
            session,
            sensor,
            channel,
            at_ns,
            early_ns,
            values,
        })
    }
}

/// The schema, taken from the columns of an empty slice; only nullability has to be set by hand.
fn schema() -> SchemaRef {
    let channel = Channel {
        device: ergometer_telemetry::DeviceId::host(),
        scope: ergometer_telemetry::Scope::Device,
        signal: Signal::Energy,
        provenance: ergometer_telemetry::Provenance::Gauge,
        update_period: None,
    };
    let nothing = ReadingBlock { session: 0, sensor: "", channel: &channel, at_ns: &[], early_ns: &[], values: &[] };
    let field = |(name, array): (&str, ArrayRef)| Field::new(name, array.data_type().clone(), true);
    Arc::new(Schema::new(nothing.columns().map(field).to_vec()))
}

impl TelemetryWriter {
    /// Starts the file. An existing file stays until [`finish`](Self::finish).
    pub fn create(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join(TELEMETRY_FILE);
        let schema = schema();
        let file = PartialFile::create(&path)?;
        let parquet =
            ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties())).map_err(StoreError::parquet(&path))?;
        Ok(Self { path, schema, parquet, rows: 0 })
    }

    /// Adds every reading of a session. Sessions should be added in order.
    pub fn push(&mut self, session: u32, timeline: &Timeline) -> Result<(), StoreError> {
        for (key, sensor) in timeline.sensors() {
            for (id, channel) in timeline.channels_of(key) {
                let readings = timeline.column(id).readings();
                for block in ReadingBlock::split(session, &sensor.id, channel, readings) {
                    self.write(&block)?;
                }
            }
        }
        Ok(())
    }

    /// Finishes the file and renames it. Returns the number of readings.
    pub fn finish(self) -> Result<u64, StoreError> {
        self.parquet.into_inner().map_err(StoreError::parquet(&self.path))?.commit()?;
        Ok(self.rows)
    }

    fn write(&mut self, block: &ReadingBlock<'_>) -> Result<(), StoreError> {
        let arrays = block.columns().map(|(_, array)| array).to_vec();
        let batch: Result<_, ArrowError> = RecordBatch::try_new(Arc::clone(&self.schema), arrays);
        self.parquet.write(&batch.map_err(StoreError::arrow(&self.path))?).map_err(StoreError::parquet(&self.path))?;
        self.rows += block.at_ns.len() as u64;
        Ok(())
    }
}

/// Times increase steadily, so delta encoding packs them well; a dictionary would hold each time once.
fn properties() -> WriterProperties {
    let times = [names::TIME_NS, names::AFTER_NS].map(|name| ColumnPath::from(name.to_owned()));
    let builder = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS));
    let packed = |builder: parquet::file::properties::WriterPropertiesBuilder, column: ColumnPath| {
        builder
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED)
    };
    times.into_iter().fold(builder, packed).build()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, Int64Type};
    use ergometer_telemetry::{Batch, DeviceId, Provenance, Reading, Scope, SensorInfo};
    use ergometer_units::Timestamp;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::*;

    fn time(time_ns: i64) -> Timestamp {
        Timestamp::from_nanos_since_epoch(1_794_730_772_000_000_001 + time_ns)
    }

    fn timeline(readings: Vec<Reading>) -> Timeline {
        let device = DeviceId::gpu(0);
        let channel =
            |signal, provenance| Channel { device, scope: Scope::Device, signal, provenance, update_period: None };
        let info = SensorInfo {
            id: "nvml-energy:0".to_owned(),
            name: "NVIDIA H200".to_owned(),
            device,
            interval: Duration::from_millis(20),
        };
        let mut timeline = Timeline::default();
        let key = timeline.add_sensor(
            &info,
            &[channel(Signal::Energy, Provenance::Counter), channel(Signal::Temperature, Provenance::Gauge)],
        );
        timeline.append(key, &Batch { readings, events: Vec::new() });
        timeline
    }

    fn write_and_read(timelines: &[Timeline]) -> (u64, Vec<RecordBatch>) {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = TelemetryWriter::create(folder.path()).unwrap();
        for (session, timeline) in (0..).zip(timelines) {
            writer.push(session, timeline).unwrap();
        }
        let rows = writer.finish().unwrap();
        let file = File::open(folder.path().join(TELEMETRY_FILE)).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().with_batch_size(1 << 20).build().unwrap();
        (rows, reader.map(Result::unwrap).collect())
    }

    #[test]
    fn readings_are_rows_sorted_by_channel_then_time() {
        let first = timeline(vec![
            Reading { channel: 1, after: time(5), at: time(5), value: 41.0 },
            Reading { channel: 0, after: time(10), at: time(30), value: 7.5 },
            Reading { channel: 0, after: time(0), at: time(0), value: 7.0 },
        ]);
        let second = timeline(vec![Reading { channel: 1, after: time(99), at: time(99), value: 50.0 }]);
        let (rows, batches) = write_and_read(&[first, second]);
        let batch = &batches[0];
        assert_eq!((rows, batch.num_rows(), batch.schema()), (4, 4, schema()));
        let integers = |name: &str| batch[name].as_primitive::<Int64Type>().iter().collect::<Vec<_>>();
        let expected = [0, 30, 5, 99].map(|offset| Some(time(offset).nanos_since_epoch()));
        assert_eq!(integers("time_ns"), expected);
        assert_eq!(integers("after_ns"), [None, Some(time(10).nanos_since_epoch()), None, None]);
        assert_eq!(integers("session"), [Some(0), Some(0), Some(0), Some(1)]);
        assert_eq!(batch["value"].as_primitive::<Float64Type>().values()[..], [7.0, 7.5, 41.0, 50.0]);
        let texts = |name: &str| {
            let column = batch[name].as_dictionary::<Int32Type>().downcast_dict::<StringArray>().unwrap();
            column.into_iter().map(|text| text.unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(texts("unit"), ["J", "J", "degC", "degC"]);
        assert_eq!(texts("signal"), ["energy", "energy", "temperature", "temperature"]);
        assert_eq!((&*texts("device")[0], &*texts("scope")[0], &*texts("provenance")[2]), ("gpu:0", "device", "gauge"));
        assert_eq!(texts("sensor")[3], "nvml-energy:0");
    }

    #[test]
    fn empty_and_large_files_are_written() {
        let (rows, batches) = write_and_read(&[Timeline::default(), timeline(Vec::new())]);
        assert_eq!((rows, batches.len()), (0, 0));
        let count = 150_000;
        let reading = |index: i64| Reading { channel: 0, after: time(index), at: time(index), value: index as f64 };
        let (rows, batches) = write_and_read(&[timeline((0..count).map(reading).collect())]);
        let values = batches.iter().flat_map(|batch| batch["value"].as_primitive::<Float64Type>().values().to_vec());
        assert!(rows == 150_000 && values.eq((0..count).map(|index| index as f64)));
    }
}
