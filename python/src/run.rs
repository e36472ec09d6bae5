//! A saved run, for Python: its files as tables.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_ipc::reader::StreamReader;
use arrow_schema::SchemaRef;
use ergometer_analysis::AnalysisError;
use ergometer_analysis::saved::{Estimate, Summary, Sweep, SweepPoint, data_files};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use pyo3::prelude::*;
use serde_json::Value;

use crate::error::{MissingFileError, RunError};
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
        let told = format!("{} is a sweep of several runs. hint: load_sweep() opens each of them", folder.display());
        return Err(RunError::new_err(told));
    }
    let summary = interruptible(py, move || Summary::open(&path).map(|summary| summary.value().clone()))?;
    let summary = summary.map_err(|error| match error {
        AnalysisError::NotARun { path, .. } if !path.exists() => MissingFileError::new_err((
            format!(
                "cannot read {}: there is nothing at this path. hint: a run is a folder that `ergo profile` wrote",
                path.display()
            ),
            path,
        )),
        error => told(&error),
    })?;
    Ok(SavedRun { folder, summary })
}

/// A saved sweep.
#[pyclass(frozen, get_all, name = "Sweep", module = "ergometer._native")]
pub(crate) struct SavedSweep {
    /// Where it is.
    folder: PathBuf,
    /// What differs between its points: `concurrency`, `rate` or `replay`.
    axis: String,
    /// Of each run that is there: the value of its point on the axis, and its folder.
    runs: Vec<(f64, PathBuf)>,
    /// Of each point its value, and by name its figures: mean, and the ends of the interval of repeats.
    points: Vec<(f64, BTreeMap<String, Figure>)>,
}

/// A mean, and the ends of its interval where it has one.
type Figure = (f64, Option<f64>, Option<f64>);

/// Opens the sweep in a folder.
#[pyfunction]
pub(crate) fn open_sweep(py: Python<'_>, folder: PathBuf) -> PyResult<SavedSweep> {
    if !folder.exists() {
        let told = format!(
            "cannot read {}: there is nothing at this path. hint: a sweep is a folder that `ergo profile` wrote for several loads",
            folder.display()
        );
        return Err(MissingFileError::new_err((told, folder)));
    }
    if !Sweep::is_in(&folder) {
        let told = format!("{} is no sweep: it has no sweep.json. hint: load_run() opens a run", folder.display());
        return Err(RunError::new_err(told));
    }
    let path = folder.clone();
    let sweep = interruptible(py, move || Sweep::open(&path))?.map_err(|error| told(&error))?;
    if sweep.points.iter().all(|point| point.runs.is_empty()) {
        return Err(damaged(&folder.join("sweep.json"), &"it names no run that is there"));
    }
    let figures = |point: &SweepPoint| {
        let figure = |estimate: &Estimate| {
            (estimate.value, estimate.interval.map(|ends| ends.0), estimate.interval.map(|ends| ends.1))
        };
        point.figures.iter().map(|(name, estimate)| (name.clone(), figure(estimate))).collect()
    };
    let runs = sweep.points.iter().flat_map(|point| point.runs.iter().map(|run| (point.value, run.clone())));
    Ok(SavedSweep {
        folder,
        axis: sweep.axis.clone(),
        runs: runs.collect(),
        points: sweep.points.iter().map(|point| (point.value, figures(point))).collect(),
    })
}

#[pymethods]
impl SavedRun {
    /// Where it is.
    #[getter]
    fn folder(&self) -> String {
        self.folder.display().to_string()
    }

    /// One row a query, as `datasets.load_from_disk` has them.
    #[getter]
    fn records(&self, py: Python<'_>) -> PyResult<Table> {
        let folder = self.folder.clone();
        interruptible(py, move || records(&folder))?
    }

    /// One row a request.
    #[getter]
    fn requests(&self, py: Python<'_>) -> PyResult<Table> {
        self.parquet(py, "requests.parquet")
    }

    /// One row a reading.
    #[getter]
    fn telemetry(&self, py: Python<'_>) -> PyResult<Table> {
        self.parquet(py, "telemetry.parquet")
    }

    /// `summary.json` in one row: a column for each value, named by its path as `energy.measured.gross_j`.
    #[getter]
    fn summary(&self) -> PyResult<Table> {
        let mut values = Vec::new();
        flatten(&mut values, String::new(), &self.summary);
        values.into_iter().fold(Columns::default(), |columns, (name, array)| columns.array(name, array)).finish()
    }

    /// `summary.json` as it is.
    #[getter]
    fn summary_json(&self) -> String {
        self.summary.to_string()
    }
}

impl SavedRun {
    fn parquet(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        let path = self.folder.join(name);
        interruptible(py, move || {
            let file = File::open(&path).map_err(|cause| unread(&path, &cause))?;
            let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|cause| damaged(&path, &cause))?;
            let reader = builder.build().map_err(|cause| damaged(&path, &cause))?;
            let schema = arrow_array::RecordBatchReader::schema(&reader);
            let batches: Result<Vec<RecordBatch>, _> = reader.collect();
            Ok(Table::new(schema, batches.map_err(|cause| damaged(&path, &cause))?))
        })?
    }
}

fn records(folder: &Path) -> PyResult<Table> {
    let mut schema: Option<SchemaRef> = None;
    let mut batches = Vec::new();
    for path in data_files(folder).map_err(|error| told(&error))? {
        let file = File::open(&path).map_err(|cause| unread(&path, &cause))?;
        let reader = StreamReader::try_new(BufReader::new(file), None).map_err(|cause| damaged(&path, &cause))?;
        let known = schema.get_or_insert_with(|| reader.schema());
        if known.fields() != reader.schema().fields() {
            return Err(damaged(&path, &"its columns are not those of the files before it"));
        }
        let known = Arc::clone(known);
        for batch in reader {
            let batch = batch.map_err(|cause| damaged(&path, &cause))?;
            batches.push(batch.with_schema(Arc::clone(&known)).map_err(|cause| damaged(&path, &cause))?);
        }
    }
    let schema = schema.ok_or_else(|| damaged(folder, &"it names no file of records"))?;
    Ok(Table::new(schema, batches))
}

/// Every value of a summary, by its path. Lists stay JSON; what is absent is no column.
fn flatten(values: &mut Vec<(String, ArrayRef)>, path: String, value: &Value) {
    let array: ArrayRef = match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                flatten(values, if path.is_empty() { name.clone() } else { format!("{path}.{name}") }, value);
            }
            return;
        }
        // What a run does not have is no column: of which type it would be is not known here.
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

fn told(error: &AnalysisError) -> PyErr {
    RunError::new_err(error.to_string())
}

fn unread(path: &Path, cause: &std::io::Error) -> PyErr {
    let told =
        format!("cannot read {}: {cause}. hint: is the run whole? `ergo finalize` writes its files", path.display());
    RunError::new_err(told)
}

fn damaged(path: &Path, cause: &dyn std::fmt::Display) -> PyErr {
    RunError::new_err(AnalysisError::Damaged { path: path.to_path_buf(), what: cause.to_string() }.to_string())
}
