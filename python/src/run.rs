//! Exposes saved runs and sweeps to Python, with their files as tables.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::SchemaRef;
use ergometer_columnar::{ParquetFile, Selection, read_stream};
use ergometer_diagnostics::{Hint, Message, command, hint};
use ergometer_runs::config::Axis;
use ergometer_runs::folder::record_files;
use ergometer_runs::saved::SavedSweep as SweepFolder;
use ergometer_runs::store::{REQUESTS_FILE, TELEMETRY_FILE};
use ergometer_runs::sweep::{Point, SWEEP_FILE, Spread};
use ergometer_runs::{ReadError, Summary, Sweep, regular_file};
use pyo3::prelude::*;
use serde_json::Value;

use crate::error::{RunError, exception, missing_file};
use crate::interruptible::interruptible;
use crate::table::{Columns, Table};

/// A saved run.
#[pyclass(frozen, name = "Run", module = "ergometer._native")]
pub(crate) struct SavedRun {
    folder: PathBuf,
    summary: Value,
}

/// Opens the run in a folder.
#[pyfunction]
pub(crate) fn open_run(py: Python<'_>, folder: PathBuf) -> PyResult<SavedRun> {
    let path = folder.clone();
    if Sweep::is_in(&folder) {
        let message = Message::new(format!("{} is a sweep, not a run", folder.display()));
        return Err(exception::<RunError>(&message.with_hint(Hint::text("open it with load_sweep()"))));
    }
    let summary = interruptible(py, move || Summary::read_json(&path))?;
    let summary = summary.map_err(|error| match error {
        ReadError::NotARun { path, .. } if !path.exists() => {
            let message = Message::new(format!("cannot read {}: no such file or folder", path.display()));
            missing_file(&message.with_hint(hint!("pass the folder that ", command("profile"), " wrote")), &path)
        }
        error => exception::<RunError>(&error),
    })?;
    Ok(SavedRun { folder, summary })
}

/// A saved sweep.
#[pyclass(frozen, get_all, name = "Sweep", module = "ergometer._native")]
pub(crate) struct SavedSweep {
    /// The folder it was read from.
    folder: PathBuf,
    /// The variable of the sweep: `concurrency`, `rate` or `replay`.
    axis: String,
    /// For each existing run, its value on the axis and its folder.
    runs: Vec<(f64, PathBuf)>,
    /// For each point, its value on the axis and its metrics by name: mean, and the interval over repeats.
    points: Vec<(f64, BTreeMap<String, Figure>)>,
}

/// A mean, and the low and high end of its interval if it has one.
type Figure = (f64, Option<f64>, Option<f64>);

/// Opens the sweep in a folder.
#[pyfunction]
pub(crate) fn open_sweep(py: Python<'_>, folder: PathBuf) -> PyResult<SavedSweep> {
    if !folder.exists() {
        let message = Message::new(format!("cannot read {}: no such file or folder", folder.display()));
        let hint = hint!("pass the folder that ", command("profile"), " wrote for several concurrencies or rates");
        return Err(missing_file(&message.with_hint(hint), &folder));
    }
    if !Sweep::is_in(&folder) {
        let message = Message::new(format!("{} is not a sweep: it has no sweep.json", folder.display()));
        return Err(exception::<RunError>(&message.with_hint(Hint::text("open a run with load_run()"))));
    }
    let path = folder.clone();
    let sweep = interruptible(py, move || SweepFolder::open(&path))?.map_err(|error| exception::<RunError>(&error))?;
    let points = &sweep.sweep.points;
    let value = |point: &Point| Axis::value(&point.schedule);
    let runs: Vec<(f64, PathBuf)> = points
        .iter()
        .flat_map(|point| sweep.folders(point).into_iter().map(move |run| (Axis::value(&point.schedule), run)))
        .collect();
    if runs.is_empty() {
        return Err(damaged(&folder.join(SWEEP_FILE), &"none of its runs exists"));
    }
    let figures = |point: &Point| {
        let figure = |spread: &Spread| (spread.mean, spread.low, spread.high);
        point.figures.iter().map(|(name, spread)| (name.clone(), figure(spread))).collect()
    };
    let axis = sweep.sweep.axis.to_string();
    let points = points.iter().map(|point| (value(point), figures(point))).collect();
    Ok(SavedSweep { folder, axis, runs, points })
}

#[pymethods]
impl SavedRun {
    /// The folder it was read from.
    #[getter]
    fn folder(&self) -> String {
        self.folder.display().to_string()
    }

    /// One row per query, as in `datasets.load_from_disk`.
    #[getter]
    fn records(&self, py: Python<'_>) -> PyResult<Table> {
        let folder = self.folder.clone();
        interruptible(py, move || records(&folder))?
    }

    /// One row per attempt of a request.
    #[getter]
    fn requests(&self, py: Python<'_>) -> PyResult<Table> {
        self.parquet(py, REQUESTS_FILE)
    }

    /// One row per sensor reading.
    #[getter]
    fn telemetry(&self, py: Python<'_>) -> PyResult<Table> {
        self.parquet(py, TELEMETRY_FILE)
    }

    /// `summary.json` as one row, with a column for each value, named by its path: `energy.measured.gross_j`.
    #[getter]
    fn summary(&self) -> PyResult<Table> {
        let mut values = Vec::new();
        flatten(&mut values, String::new(), &self.summary);
        values.into_iter().fold(Columns::default(), |columns, (name, array)| columns.array(name, array)).finish()
    }

    /// The text of `summary.json`.
    #[getter]
    fn summary_json(&self) -> String {
        self.summary.to_string()
    }
}

impl SavedRun {
    fn parquet(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        let path = self.folder.join(name);
        interruptible(py, move || {
            let file = regular_file::open(&path).map_err(|cause| unreadable(&path, &cause))?;
            let wrong = |error| exception::<RunError>(&ReadError::of_file(&path)(error));
            let file = ParquetFile::open(file).map_err(wrong)?;
            let batches = file.batches(Selection { group: None, columns: None, batch_rows: 1024 }).map_err(wrong)?;
            let batches: Result<Vec<RecordBatch>, _> = batches.collect();
            Ok(Table::new(SchemaRef::clone(file.schema()), batches.map_err(wrong)?))
        })?
    }
}

fn records(folder: &Path) -> PyResult<Table> {
    let mut schema: Option<SchemaRef> = None;
    let mut batches = Vec::new();
    for path in record_files(folder).map_err(|error| exception::<RunError>(&error))? {
        let file = regular_file::open(&path).map_err(|cause| unreadable(&path, &cause))?;
        let wrong = |error| exception::<RunError>(&ReadError::of_file(&path)(error));
        let reader = read_stream(file, None).map_err(wrong)?;
        let first = schema.get_or_insert_with(|| SchemaRef::clone(reader.schema()));
        if first.fields() != reader.schema().fields() {
            return Err(damaged(&path, &"its columns differ from those of the previous files"));
        }
        let first = Arc::clone(first);
        for batch in reader {
            let batch = batch.map_err(wrong)?;
            batches.push(batch.with_schema(Arc::clone(&first)).map_err(|cause| damaged(&path, &cause))?);
        }
    }
    let schema = schema.ok_or_else(|| damaged(folder, &"it lists no data file"))?;
    Ok(Table::new(schema, batches))
}

/// Every value of a summary by its path. Lists stay JSON; null values have no column.
fn flatten(values: &mut Vec<(String, ArrayRef)>, path: String, value: &Value) {
    let array: ArrayRef = match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                flatten(values, if path.is_empty() { name.clone() } else { format!("{path}.{name}") }, value);
            }
            return;
        }
        // The type of a missing value is not known.
        Value::Null => return,
        Value::Bool(value) => Arc::new(BooleanArray::from(vec![*value])),
        Value::Number(number) => match number.as_i64() {
            Some(number) => Arc::new(Int64Array::from(vec![number])),
            None => Arc::new(Float64Array::from(vec![number.as_f64()])),
        },
        Value::String(text) => Arc::new(StringArray::from(vec![text.as_str()])),
        Value::Array(_) => Arc::new(StringArray::from(vec![value.to_string()])),
    };
    debug_assert_eq!(array.len(), 1);
    values.push((path, array));
}

fn unreadable(path: &Path, cause: &std::io::Error) -> PyErr {
    let message = Message::new(format!("cannot read {}: {cause}", path.display()));
    exception::<RunError>(&message.with_hint(hint!("write the files of an interrupted run with ", command("finalize"))))
}

fn damaged(path: &Path, cause: &dyn std::fmt::Display) -> PyErr {
    exception::<RunError>(&ReadError::Damaged { path: path.to_path_buf(), what: cause.to_string() })
}
