//! Computes seconds by event and by function id from JAX profiles, with the names, arguments and error messages of
//! `ejkernel`'s profiler.
//!
//! The test module `differences` shows on recorded traces what differs from `ejkernel`. Options for TensorFlow
//! (`require_tf`, `silence_tf_cpp_logs`) do not exist here, because nothing needs TensorFlow. This crate only reads
//! profiles; `ergometer.Profiler` in Python runs functions under JAX's profiler.
//!
//! ```
//! use ergometer_profiler::{Profiler, ProfilerOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/xplane/gpu_autotune.xplane.pb");
//! let profiler = Profiler::new(ProfilerOptions::default())?;
//! let profile = profiler.parse_profile_from_bytes(&std::fs::read(file)?)?;
//!
//! let plane = profiler.find_device_plane_ids(&profile, "gpu")?[0];
//! let events = profiler.get_events_from_plane(&profile, plane)?.value;
//! assert_eq!(events["jit_autotune_fn_0(3981-281474976710658)"], 4.191e-6);
//!
//! let times = profiler.profile_times_by_function_id([&profile], "gpu")?.value;
//! let (mean_s, std_s) = times[&0];
//! assert!((mean_s - 13.0337e-6).abs() < 1e-10 && std_s < 0.1e-6);
//! # Ok(())
//! # }
//! ```

#[cfg(test)]
mod differences;
mod error;
mod events;
mod selection;

use std::collections::BTreeMap;

use ergometer_statistics::DEFAULT_LEVEL;
use ergometer_trace::accounting::{Execution, Filter};
use ergometer_trace::{
    FunctionCollector, FunctionId, FunctionOptions, Functions, ReadOptions, Reading, Source, Trace, read,
};
use ergometer_units::Picos;
use foldhash::HashSet;
use regex::{Regex, RegexBuilder};

pub use error::{Profiled, ProfilerWarning, ProfilingError};
use selection::{PlaneExecution, Selection};

/// Memory limit of a compiled pattern; the default of `regex` is 10 MB.
const MAX_PATTERN_BYTES: usize = 1 << 28;

/// The events that a [`Profiler`] counts.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfilerOptions {
    /// Prefix of the module of an event, or of its name if it has no module; empty for all events.
    pub prefix_filter: String,
    /// Only events whose module, op or kernel matches this pattern count. Syntax of Rust's `regex`, without
    /// look-around.
    pub event_filter_regex: Option<String>,
    /// Minimum duration of an event. Many kernels are shorter than the default of 1 µs: `verbose` reports how many.
    pub min_duration_ns: f64,
    /// Maximum number of events of a plane, in file order; a warning reports the events left out.
    pub max_events_per_profile: Option<usize>,
    /// Whether to report events that are too short, too.
    pub verbose: bool,
}

impl Default for ProfilerOptions {
    fn default() -> Self {
        Self {
            prefix_filter: "jit_".to_owned(),
            event_filter_regex: None,
            min_duration_ns: 1000.0,
            max_events_per_profile: None,
            verbose: false,
        }
    }
}

/// Mean and standard deviation in seconds by function id.
pub type FunctionSeconds = BTreeMap<i64, (f64, f64)>;

/// Times of events and functions from profiles; the crate's front page has an example.
#[derive(Debug, Clone)]
pub struct Profiler {
    options: ProfilerOptions,
    event_filter: Option<Regex>,
    functions: Regex,
}

impl Profiler {
    /// A profiler with these options.
    ///
    /// # Errors
    /// If `event_filter_regex` is not a valid regular expression.
    pub fn new(options: ProfilerOptions) -> Result<Self, ProfilingError> {
        let event_filter = options.event_filter_regex.as_deref().map(compile).transpose()?;
        Ok(Self { options, event_filter, functions: compile(FunctionOptions::PATTERN)? })
    }

    /// Its options.
    #[must_use]
    pub fn options(&self) -> &ProfilerOptions {
        &self.options
    }

    /// Reads a profile from the bytes of an `.xplane.pb` file, compressed or not.
    ///
    /// # Errors
    /// If the bytes are not a profile, or damaged.
    pub fn parse_profile_from_bytes(&self, profile_bytes: &[u8]) -> Result<Trace, ProfilingError> {
        let source = Source::unpack("profile", profile_bytes.to_vec(), &Reading::default())?;
        Ok(read(vec![source], &ReadOptions::default())?)
    }

    /// The numbers of the planes with the device in their name, in any case: `gpu`, `TPU:1`, `cpu`.
    ///
    /// # Errors
    /// If no plane matches; the message lists the planes of the profile.
    pub fn find_device_plane_ids(&self, profile: &Trace, device_str: &str) -> Result<Vec<usize>, ProfilingError> {
        let device = device_str.to_lowercase();
        let names = || profile.planes().iter().map(|plane| profile.text(plane.name));
        let found: Vec<usize> = names()
            .enumerate()
            .filter(|(_, name)| name.to_lowercase().contains(&device))
            .map(|(number, _)| number)
            .collect();
        if found.is_empty() {
            let available = names().map(str::to_owned).collect();
            return Err(ProfilingError::NoDevice { device: device_str.to_owned(), available });
        }
        Ok(found)
    }

    /// Seconds by `name(P-S)` of the events of a plane whose names start with the prefix. The name is the event's
    /// module, or the event's own name if it has no module; P is the `program_id`, or the `run_id` if there is none; S
    /// is the `scope_range_id`; a missing number reads `None`.
    ///
    /// Several events can share a name: on CPU all runs of a module do. Their time is the length of their union, so no
    /// event is lost or counted twice. With `event_filter_regex` it is the union of the matching events among them, of
    /// matching events nested in them on the same line and, on a plane with a line of modules, of the matching ops that
    /// run in them. An event of a different module is never a child.
    ///
    /// # Errors
    /// If there is no such plane.
    pub fn get_events_from_plane(
        &self,
        profile: &Trace,
        plane_idx: usize,
    ) -> Result<Profiled<BTreeMap<String, f64>>, ProfilingError> {
        let selection = Selection::new(profile, plane_idx, &self.options)?;
        let value = events::seconds(profile, &selection, self.event_filter.as_ref());
        Ok(Profiled { value, warnings: selection.warnings(&self.options) })
    }

    /// Mean and standard deviation in seconds of the busy times of `jit_autotune_fn_<id>`, by id, from one or more
    /// profiles, each with any number of executions. With more than two executions the shortest and the longest are
    /// dropped; the deviation is the population standard deviation.
    ///
    /// All planes of the platform count; an execution on several devices counts with its longest time. An id that does
    /// not fit an `i64` is left out: [`Self::profile_functions`] has it, and more statistics.
    ///
    /// # Errors
    /// If there is no profile, or a profile has no plane of the platform.
    pub fn profile_times_by_function_id<'a>(
        &self,
        profiles: impl IntoIterator<Item = &'a Trace>,
        platform: &str,
    ) -> Result<Profiled<FunctionSeconds>, ProfilingError> {
        let Profiled { value: functions, warnings } = self.profile_functions(profiles, platform)?;
        let times = functions.rows.into_iter().filter_map(|row| match row.id {
            FunctionId::Number(id) => Some((id, (row.busy.trimmed.mean_s, row.busy.trimmed.std_s))),
            FunctionId::Text(_) => None,
        });
        Ok(Profiled { value: times.collect(), warnings })
    }

    /// The same as [`Self::profile_times_by_function_id`], with every time and all statistics. Leaves out executions
    /// with events beyond `max_events_per_profile`.
    ///
    /// # Errors
    /// If there is no profile, or a profile has no plane of the platform.
    pub fn profile_functions<'a>(
        &self,
        profiles: impl IntoIterator<Item = &'a Trace>,
        platform: &str,
    ) -> Result<Profiled<Functions>, ProfilingError> {
        let options = FunctionOptions {
            pattern: self.functions.clone(),
            filter: Filter {
                devices: vec![platform.to_owned()],
                prefix: None,
                pattern: self.event_filter.clone(),
                min_duration: self.options.min_duration(),
            },
            level: DEFAULT_LEVEL,
        };
        let any_length = FunctionOptions {
            filter: Filter { min_duration: Picos::ZERO, ..options.filter.clone() },
            ..options.clone()
        };
        let (mut collected, mut warnings, mut profile_count) = (FunctionCollector::default(), Vec::new(), 0);
        let mut all = FunctionCollector::default();
        for profile in profiles {
            profile_count += 1;
            let planes = self.find_device_plane_ids(profile, platform)?;
            let mut cut: HashSet<PlaneExecution> = HashSet::default();
            for &plane in &planes {
                let selection = Selection::new(profile, plane, &self.options)?;
                warnings.extend(selection.warnings(&self.options));
                cut.extend(selection.cut_executions(profile));
            }
            let has_prefix = |execution: &Execution| {
                execution.module.is_some_and(|name| profile.text(name).starts_with(&self.options.prefix_filter))
            };
            let takes = |execution: &Execution| {
                planes.contains(&execution.device.plane)
                    && has_prefix(execution)
                    && !cut.contains(&(execution.device.plane, execution.key()))
            };
            collected.add(profile, &options, takes);
            if options.filter.min_duration > Picos::ZERO {
                all.add(profile, &any_length, takes);
            }
        }
        warnings.extend(collected.missing_from(&all).map(|(id, left_out, executions)| {
            ProfilerWarning::ShortExecutions { id: id.to_string(), left_out, executions }
        }));
        if profile_count == 0 {
            return Err(ProfilingError::NoProfile);
        }
        Ok(Profiled { value: collected.finish(DEFAULT_LEVEL), warnings })
    }
}

impl ProfilerOptions {
    /// The minimum duration in whole picoseconds, never negative.
    fn min_duration(&self) -> Picos {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "fractions of a picosecond do not count, and the cast saturates"
        )]
        Picos::new((self.min_duration_ns * 1000.0).max(0.0) as i64)
    }
}

fn compile(pattern: &str) -> Result<Regex, ProfilingError> {
    // Python passes an alternation of all matching names where `regex` cannot parse the user's pattern.
    RegexBuilder::new(pattern)
        .size_limit(MAX_PATTERN_BYTES)
        .build()
        .map_err(|cause| ProfilingError::Regex { pattern: pattern.to_owned(), cause })
}

#[cfg(test)]
mod test_trace {
    use ergometer_trace::{ReadOptions, Source, Trace, read};
    use ergometer_trace_testing::{Plane, encode};

    /// The trace in these bytes.
    pub(crate) fn trace(bytes: Vec<u8>) -> Trace {
        read(vec![Source::from_bytes("test", bytes)], &ReadOptions::default()).unwrap()
    }

    /// A trace of these planes.
    pub(crate) fn synthetic(planes: &[Plane]) -> Trace {
        trace(encode(planes))
    }
}
