//! Reads a trace from a path, several paths, bytes, or the object of another reader.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ergometer_diagnostics::{Diagnostic, Hint, Keywords, Message};
use ergometer_trace::{Leniency, Limits, Platform, ReadOptions, Reading, SkipReason, Source, TraceFiles, find, read};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView};
use rayon::prelude::*;

use super::{Trace, profile_data};
use crate::error::{TraceError, exception, source_error};
use crate::interruptible::interruptible;

/// Where to read the trace from.
enum Input {
    Files(Vec<PathBuf>),
    Bytes(Vec<u8>),
    /// A `ProfileData`, serialized.
    ProfileData(Vec<u8>),
}

/// Reads a trace from a file (`.xplane.pb`, also `.gz`, `.xz`, `.zst`) or a profiler log folder, a list of them, the
/// bytes of a file, a `jax.profiler.ProfileData`, or an `XSpace` protobuf message.
///
/// `lenient=True` reads the intact parts of a truncated or damaged trace; its `warnings` then list what is missing. The
/// trace is held in memory: later changes of the file have no effect.
///
/// ```python
/// >>> import ergometer
/// >>> ergometer.read_trace("fixtures/xplane/small_cpu_666.xplane.pb").modules().num_rows > 0
/// True
///
/// ```
#[pyfunction]
#[pyo3(signature = (source, *, lenient=false))]
pub(crate) fn read_trace(py: Python<'_>, source: &Bound<'_, PyAny>, lenient: bool) -> PyResult<Trace> {
    if let Ok(trace) = source.cast::<Trace>() {
        let other = trace.get();
        return Ok(Trace {
            table: Arc::clone(&other.table),
            files: other.files.clone(),
            warnings: other.warnings.clone(),
            is_lenient: other.is_lenient,
        });
    }
    let input = input(source)?;
    let is_profile_data = matches!(input, Input::ProfileData(_));
    let leniency = if lenient { Leniency::KeepWhole } else { Leniency::Strict };
    let reading = Reading { leniency, limits: Limits::from_free_memory() };
    let (found, sources) = interruptible(py, move || match input {
        Input::Bytes(bytes) | Input::ProfileData(bytes) => {
            Source::unpack("the data", bytes, &reading).map(|source| (TraceFiles::default(), vec![source]))
        }
        Input::Files(paths) => {
            let found = find(&paths)?;
            let sources: Result<Vec<Source>, _> =
                found.files.par_iter().map(|file| Source::open_in_memory(file, &reading)).collect();
            sources.map(|sources| (found, sources))
        }
    })?
    .map_err(|error| source_error(&error))?;
    let max_table_bytes = reading.limits.decompressed_bytes;
    let options = ReadOptions { leniency, max_table_bytes, ..ReadOptions::default() };
    let trace = interruptible(py, move || read(sources, &options))?.map_err(|error| exception::<TraceError>(&error))?;
    let files = found.files.iter().map(|file| file.display().to_string()).collect();
    let left_out = found.skipped.iter().filter(|skipped| skipped.reason != SkipReason::PackedCopy);
    let mut warnings: Vec<String> = left_out.map(ToString::to_string).collect();
    warnings.extend(trace.notices().iter().map(ToString::to_string));
    if is_profile_data && trace.planes().iter().any(|plane| plane.platform == Platform::Gpu) {
        let message = Message::new(
            "a ProfileData does not say which kernels were launched together: consecutive executions of a module count as \
             one",
        );
        warnings.push(message.with_hint(Hint::text("pass the file or its bytes")).one_line(&Keywords));
    }
    Ok(Trace { table: Arc::new(trace), files, warnings, is_lenient: lenient })
}

fn input(source: &Bound<'_, PyAny>) -> PyResult<Input> {
    if let Ok(bytes) = source.cast::<PyBytes>() {
        return Ok(Input::Bytes(bytes.as_bytes().to_vec()));
    }
    if let Ok(bytes) = source.cast::<PyByteArray>() {
        return Ok(Input::Bytes(bytes.to_vec()));
    }
    if source.is_instance_of::<PyMemoryView>() {
        let bytes = source.call_method0("tobytes")?;
        return Ok(Input::Bytes(bytes.cast::<PyBytes>()?.as_bytes().to_vec()));
    }
    if let Ok(path) = source.extract::<PathBuf>() {
        return Ok(Input::Files(vec![as_file(path)]));
    }
    if source.hasattr("SerializeToString")? {
        let bytes = source.call_method0("SerializeToString")?;
        return Ok(Input::Bytes(bytes.cast::<PyBytes>()?.as_bytes().to_vec()));
    }
    if source.hasattr("planes")? {
        return Ok(Input::ProfileData(profile_data::serialize(source)?));
    }
    if let Ok(paths) = source.extract::<Vec<PathBuf>>() {
        if paths.is_empty() {
            return Err(PyValueError::new_err("the list of paths is empty"));
        }
        return Ok(Input::Files(paths.into_iter().map(as_file).collect()));
    }
    let message = format!(
        "source must be a path, a list of paths, bytes, a jax.profiler.ProfileData or an XSpace, not {}",
        source.get_type().name()?
    );
    Err(PyTypeError::new_err(message))
}

/// Makes `-` the name of a file; on the command line it means standard input.
fn as_file(path: PathBuf) -> PathBuf {
    if path == Path::new("-") { Path::new(".").join(path) } else { path }
}
