//! Exposes statistics of repeated times to the Python code of the package.

use ergometer_statistics::{Sample, Variant, Verdict, median_interval_at};
use ergometer_units::Seconds;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// The median and the mean of times in seconds, each with its interval, and their spread.
#[pyfunction]
#[pyo3(signature = (seconds, level=0.95))]
pub(crate) fn summarize<'py>(py: Python<'py>, seconds: &Bound<'py, PyAny>, level: f64) -> PyResult<Bound<'py, PyDict>> {
    let sample = sample(&seconds.extract::<Vec<f64>>()?)?;
    let summary = sample.summary();
    let median = median_interval_at(sample.sorted_seconds(), level);
    let mean = sample.mean_interval(level);
    let summary_values = PyDict::new(py);
    summary_values.set_item("n", summary.n)?;
    summary_values.set_item("median_s", summary.median_s)?;
    summary_values.set_item("median_low_s", median.map(|interval| interval.low))?;
    summary_values.set_item("median_high_s", median.map(|interval| interval.high))?;
    summary_values.set_item("mean_s", summary.mean_s)?;
    summary_values.set_item("mean_low_s", mean.map(|interval| interval.low))?;
    summary_values.set_item("mean_high_s", mean.map(|interval| interval.high))?;
    summary_values.set_item("std_s", summary.std_s)?;
    summary_values.set_item("min_s", summary.min_s)?;
    summary_values.set_item("max_s", summary.max_s)?;
    Ok(summary_values)
}

/// Ranks named samples of times in seconds by median and compares each with the fastest.
#[pyfunction]
#[pyo3(signature = (samples, level=0.95))]
pub(crate) fn rank<'py>(py: Python<'py>, samples: &Bound<'py, PyDict>, level: f64) -> PyResult<Bound<'py, PyList>> {
    let mut variants = Vec::with_capacity(samples.len());
    for (id, times) in samples.iter() {
        variants.push(Variant { id: id.extract()?, sample: sample(&times.extract::<Vec<f64>>()?)? });
    }
    let rows = PyList::empty(py);
    for row in ergometer_statistics::rank(&variants, level).rows {
        let row_values = PyDict::new(py);
        row_values.set_item("id", row.id)?;
        row_values.set_item("n", row.n)?;
        row_values.set_item("median_s", row.median_s)?;
        row_values.set_item("ratio", row.ratio)?;
        row_values.set_item("ratio_low", row.ratio_interval.map(|interval| interval.low))?;
        row_values.set_item("ratio_high", row.ratio_interval.map(|interval| interval.high))?;
        row_values.set_item("p", row.p)?;
        row_values.set_item("corrected_p", row.corrected_p)?;
        row_values.set_item("verdict", verdict(row.verdict))?;
        rows.append(row_values)?;
    }
    Ok(rows)
}

fn sample(seconds: &[f64]) -> PyResult<Sample> {
    let is_finite = seconds.iter().all(|time| time.is_finite());
    let times: Vec<Seconds> = seconds.iter().map(|&time| Seconds::new(time)).collect();
    let sample = Sample::from_seconds(&times).filter(|_| is_finite);
    sample.ok_or_else(|| PyValueError::new_err("a sample needs at least one time, and all times must be finite"))
}

/// The name of a verdict, the same as in JSON.
pub(crate) fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Fastest => "fastest",
        Verdict::Slower => "slower",
        Verdict::TooCloseToCall => "too_close_to_call",
        Verdict::TooFewSamples => "too_few_samples",
    }
}
