//! What a user has of a trace into a trace: a path, several, bytes, or an object of another reader.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ergometer_trace::{Leniency, Limits, Platform, ReadOptions, Reading, SkipReason, Source, TraceFiles, find, read};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView};
use rayon::prelude::*;

use super::{Trace, profile_data};
use crate::error::{unopened, unread};
use crate::interruptible::interruptible;

/// Where the bytes are.
enum Place {
    Files(Vec<PathBuf>),
    Bytes(Vec<u8>),
    /// What a `ProfileData` shows, as bytes.
    Shown(Vec<u8>),
}

/// Reads a trace: a file (`.xplane.pb`, also `.gz`, `.xz`, `.zst`) or the profiler's log folder by its path, several of
/// them in a list, the bytes of a file, a `jax.profiler.ProfileData`, or an `XSpace` of protobuf.
///
/// Of a trace that is cut or damaged `lenient=True` reads what is whole; `warnings` then says what is lost. The trace is
/// held in memory: what becomes of the file afterwards changes nothing.
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
        let known = trace.get();
        return Ok(Trace {
            table: Arc::clone(&known.table),
            files: known.files.clone(),
            warnings: known.warnings.clone(),
            is_lenient: known.is_lenient,
        });
    }
    let place = place(source)?;
    let is_shown = matches!(place, Place::Shown(_));
    let leniency = if lenient { Leniency::KeepWhole } else { Leniency::Strict };
    let reading = Reading { leniency, limits: Limits::from_free_memory() };
    let (found, sources) = interruptible(py, move || match place {
        Place::Bytes(bytes) | Place::Shown(bytes) => {
            Source::unpack("the data", bytes, &reading).map(|source| (TraceFiles::default(), vec![source]))
        }
        Place::Files(paths) => {
            let found = find(&paths)?;
            let sources: Result<Vec<Source>, _> =
                found.files.par_iter().map(|file| Source::open_in_memory(file, &reading)).collect();
            sources.map(|sources| (found, sources))
        }
    })?
    .map_err(|error| unopened(&error))?;
    let options = ReadOptions { leniency, ..ReadOptions::default() };
    let trace = interruptible(py, move || read(sources, &options))?.map_err(|error| unread(&error))?;
    let files = found.files.iter().map(|file| file.display().to_string()).collect();
    let left_out = found.skipped.iter().filter(|skipped| skipped.reason != SkipReason::PackedCopy);
    let mut warnings: Vec<String> = left_out.map(ToString::to_string).collect();
    warnings.extend(trace.notices().iter().map(ToString::to_string));
    if is_shown && trace.planes().iter().any(|plane| plane.platform == Platform::Gpu) {
        warnings.push(String::from(
            "a ProfileData does not show which kernels were launched together: executions of a module that follow each \
             other count as one. hint: give the file or its bytes",
        ));
    }
    Ok(Trace { table: Arc::new(trace), files, warnings, is_lenient: lenient })
}

fn place(source: &Bound<'_, PyAny>) -> PyResult<Place> {
    if let Ok(bytes) = source.cast::<PyBytes>() {
        return Ok(Place::Bytes(bytes.as_bytes().to_vec()));
    }
    if let Ok(bytes) = source.cast::<PyByteArray>() {
        return Ok(Place::Bytes(bytes.to_vec()));
    }
    if source.is_instance_of::<PyMemoryView>() {
        let bytes = source.call_method0("tobytes")?;
        return Ok(Place::Bytes(bytes.cast::<PyBytes>()?.as_bytes().to_vec()));
    }
    if let Ok(path) = source.extract::<PathBuf>() {
        return Ok(Place::Files(vec![named(path)]));
    }
    if source.hasattr("SerializeToString")? {
        let bytes = source.call_method0("SerializeToString")?;
        return Ok(Place::Bytes(bytes.cast::<PyBytes>()?.as_bytes().to_vec()));
    }
    if source.hasattr("planes")? {
        return Ok(Place::Shown(profile_data::serialized(source)?));
    }
    if let Ok(paths) = source.extract::<Vec<PathBuf>>() {
        if paths.is_empty() {
            return Err(PyValueError::new_err("no paths were given: there is nothing to read"));
        }
        return Ok(Place::Files(paths.into_iter().map(named).collect()));
    }
    let told = format!(
        "a trace is a path, several paths, bytes, a jax.profiler.ProfileData or an XSpace, not {}",
        source.get_type().name()?
    );
    Err(PyTypeError::new_err(told))
}

/// A path as a path: to the command `-` is standard input, to Python it is a file of that name.
fn named(path: PathBuf) -> PathBuf {
    if path == Path::new("-") { Path::new(".").join(path) } else { path }
}
