//! The profiler of `ejkernel`'s autotuning, with its names, arguments and sentences: bytes of profiles go in, seconds by
//! event or by function id come out.
//!
//! What it kept and what it changed, `differences` shows on recorded traces. Options for TensorFlow (`require_tf`,
//! `silence_tf_cpp_logs`) have no meaning here and are not there: nothing needs it. Running a function under a profiler
//! is for whoever has one; this reads what it wrote, of any number of executions at once.

#[cfg(test)]
mod differences;
mod error;
mod events;
mod selection;

use std::collections::BTreeMap;

use ergometer_units::Picos;
use foldhash::HashSet;
use regex::{Regex, RegexBuilder};

use crate::accounting::{Execution, Filter};
use crate::functions::{Collected, FunctionId, FunctionOptions, Functions};
use crate::source::{Reading, Source};
use crate::statistics::DEFAULT_LEVEL;
use crate::table::Trace;
use crate::xspace::{ReadOptions, read};

pub use error::{Profiled, ProfilerWarning, ProfilingError};
use selection::{CutExecution, Selection};

/// What a pattern may take in memory; 10 MB by default.
const MOST_PATTERN_BYTES: usize = 1 << 28;

/// What a [`Profiler`] looks at.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfilerOptions {
    /// Events whose module, or name where they have none, begins with this; empty for all.
    pub prefix_filter: String,
    /// Found in the module, op or kernel of an event it makes that count; times are then those of such events only.
    /// In the syntax of Rust's `regex`: no look-around.
    pub event_filter_regex: Option<String>,
    /// Events at least this long. Many kernels are shorter than the default of 1 µs: `verbose` tells how many.
    pub min_duration_ns: f64,
    /// So many events of a plane at most, in the order of the file; what that cuts, a warning tells.
    pub max_events_per_profile: Option<usize>,
    /// Whether warnings also tell what is only worth knowing.
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

/// Times of events and functions from profiles.
///
/// ```
/// # use ergometer_trace::{Profiler, ProfilerOptions};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/xplane/gpu_autotune.xplane.pb");
/// let profiler = Profiler::new(ProfilerOptions::default())?;
/// let profile = profiler.parse_profile_from_bytes(&std::fs::read(file)?)?;
///
/// let plane = profiler.find_device_plane_ids(&profile, "gpu")?[0];
/// let events = profiler.get_events_from_plane(&profile, plane)?.found;
/// assert_eq!(events["jit_autotune_fn_0(3981-281474976710658)"], 4.191e-6);
///
/// let times = profiler.profile_times_by_function_id([&profile], "gpu")?.found;
/// let (mean_s, std_s) = times[&0];
/// assert!((mean_s - 13.0337e-6).abs() < 1e-10 && std_s < 0.1e-6);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Profiler {
    options: ProfilerOptions,
    event_filter: Option<Regex>,
    functions: Regex,
}

impl Profiler {
    /// With these options.
    ///
    /// # Errors
    /// Where the filter is no regular expression.
    pub fn new(options: ProfilerOptions) -> Result<Self, ProfilingError> {
        let event_filter = options.event_filter_regex.as_deref().map(compile).transpose()?;
        Ok(Self { options, event_filter, functions: compile(FunctionOptions::PATTERN)? })
    }

    /// What it looks at.
    #[must_use]
    pub fn options(&self) -> &ProfilerOptions {
        &self.options
    }

    /// A profile from the bytes of an `.xplane.pb` file, packed or not.
    ///
    /// # Errors
    /// Where they are none, or damaged.
    pub fn parse_profile_from_bytes(&self, profile_bytes: &[u8]) -> Result<Trace, ProfilingError> {
        let source = Source::unpack("profile", profile_bytes.to_vec(), &Reading::default())?;
        Ok(read(vec![source], &ReadOptions::default())?)
    }

    /// The numbers of the planes whose name has the device in it, whatever the case: `gpu`, `TPU:1`, `cpu`.
    ///
    /// # Errors
    /// Where there are none; it lists those that are there.
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

    /// Seconds by `name(P-S)` of the events of a plane whose names pass the prefix. The name is that of the module, or
    /// of the event where it has none; P is the `program_id`, or the `run_id` where there is none; S the
    /// `scope_range_id`; what is missing reads `None`.
    ///
    /// Several events can have one name: on CPU all runs of a module do. Their time is the length of their union, so
    /// none is lost and none counted twice. With `event_filter_regex` it is the union of what matches: of these events
    /// themselves, of those nested in them on the same line, and, where the plane has a line of modules, of the ops that
    /// run in them. An event that is of another module is nobody's child.
    ///
    /// # Errors
    /// Where there is no such plane.
    pub fn get_events_from_plane(
        &self,
        profile: &Trace,
        plane_idx: usize,
    ) -> Result<Profiled<BTreeMap<String, f64>>, ProfilingError> {
        let selection = Selection::of(profile, plane_idx, &self.options)?;
        let found = events::seconds(profile, &selection, self.event_filter.as_ref());
        Ok(Profiled { found, warnings: selection.warnings(&self.options) })
    }

    /// Mean and standard deviation in seconds of the busy times of `jit_autotune_fn_<id>`, by id, from one or many
    /// profiles, in each of which it may have run any number of times. Of more than two times the smallest and the
    /// largest are dropped, and the deviation is that of the population.
    ///
    /// All planes of the platform count; an execution on several devices takes the longest of them. An id that is no
    /// `i64` is not there: [`Self::profile_functions`] has it, and better statistics.
    ///
    /// # Errors
    /// Where there is no profile, or one of them has no plane of the platform.
    pub fn profile_times_by_function_id<'a>(
        &self,
        profiles: impl IntoIterator<Item = &'a Trace>,
        platform: &str,
    ) -> Result<Profiled<FunctionSeconds>, ProfilingError> {
        let Profiled { found, warnings } = self.profile_functions(profiles, platform)?;
        let times = found.rows.into_iter().filter_map(|row| match row.id {
            FunctionId::Number(id) => Some((id, (row.busy.trimmed.mean_s, row.busy.trimmed.std_s))),
            FunctionId::Text(_) => None,
        });
        Ok(Profiled { found: times.collect(), warnings })
    }

    /// As [`Self::profile_times_by_function_id`], with every time and all statistics. An execution of which
    /// `max_events_per_profile` cuts a part is left out.
    ///
    /// # Errors
    /// Where there is no profile, or one of them has no plane of the platform.
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
        let of_any_length = FunctionOptions {
            filter: Filter { min_duration: Picos::ZERO, ..options.filter.clone() },
            ..options.clone()
        };
        let (mut collected, mut warnings, mut profiles_seen) = (Collected::default(), Vec::new(), 0);
        let mut all = Collected::default();
        for profile in profiles {
            profiles_seen += 1;
            let planes = self.find_device_plane_ids(profile, platform)?;
            let mut cut: HashSet<CutExecution> = HashSet::default();
            for &plane in &planes {
                let selection = Selection::of(profile, plane, &self.options)?;
                warnings.extend(selection.warnings(&self.options));
                cut.extend(selection.cut_executions(profile));
            }
            let begins = |execution: &Execution| {
                execution.module.is_some_and(|name| profile.text(name).starts_with(&self.options.prefix_filter))
            };
            let takes = |execution: &Execution| {
                planes.contains(&execution.device.plane)
                    && begins(execution)
                    && !cut.contains(&CutExecution::from(execution))
            };
            collected.add(profile, &options, takes);
            if options.filter.min_duration > Picos::ZERO {
                all.add(profile, &of_any_length, takes);
            }
        }
        warnings.extend(collected.left_out_of(&all).map(|(id, left_out, executions)| {
            ProfilerWarning::ShortExecutions { id: id.to_string(), left_out, executions }
        }));
        if profiles_seen == 0 {
            return Err(ProfilingError::NoProfile);
        }
        Ok(Profiled { found: collected.finish(DEFAULT_LEVEL), warnings })
    }
}

impl ProfilerOptions {
    /// In whole picoseconds, and never negative.
    fn min_duration(&self) -> Picos {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "parts of a picosecond do not count, and the cast saturates"
        )]
        Picos::new((self.min_duration_ns * 1000.0).max(0.0) as i64)
    }
}

fn compile(pattern: &str) -> Result<Regex, ProfilingError> {
    // An alternation of all names of a large trace is a pattern too.
    RegexBuilder::new(pattern)
        .size_limit(MOST_PATTERN_BYTES)
        .build()
        .map_err(|cause| ProfilingError::Regex { pattern: pattern.to_owned(), cause })
}
