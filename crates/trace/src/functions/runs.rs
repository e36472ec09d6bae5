//! Collects the executions of variants, and merges the executions of one run on several devices.
//!
//! They share session, module and compilation. If the platform numbers runs, they share the number, too. Otherwise, as
//! on GPU, the first run on one device is merged with the first run on each other device, and so on. Devices that run a
//! module independently cannot be distinguished from devices that run it together.

use std::collections::{BTreeMap, BTreeSet};

use ergometer_units::Picos;
use foldhash::HashMap;

use super::{FunctionId, FunctionOptions, FunctionTimes, Functions};
use crate::accounting::{DeviceId, Execution, FoundBy, executions};
use crate::table::{ProgramId, Text, Trace};
use ergometer_statistics::{Sample, SampleSummary};

/// The executions of variants in one or more traces: add each trace, then [`finish`](Self::finish).
#[derive(Debug, Default)]
pub struct FunctionCollector {
    variants: BTreeMap<FunctionId, Variant>,
    other_modules: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct Variant {
    modules: BTreeSet<String>,
    programs: BTreeSet<ProgramId>,
    /// The runs, by trace, session and time.
    runs: Vec<Run>,
}

/// One run of a program on one or more devices.
#[derive(Debug)]
struct Run {
    session: usize,
    start: Picos,
    devices: usize,
    busy: Picos,
    span: Picos,
}

/// The key of a run: the values that its executions on all devices share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct RunKey {
    session: usize,
    module: Text,
    program: Option<ProgramId>,
    /// The number of the run, if the platform has one.
    run_id: Option<i64>,
}

impl FunctionCollector {
    /// The variants with fewer executions here than in `all`: id, number of missing executions, number in `all`.
    pub fn missing_from<'a>(&'a self, all: &'a Self) -> impl Iterator<Item = (&'a FunctionId, usize, usize)> {
        all.variants.iter().filter_map(|(id, there)| {
            let here = self.variants.get(id).map_or(0, |here| here.runs.len());
            (here < there.runs.len()).then(|| (id, there.runs.len() - here, there.runs.len()))
        })
    }

    /// Adds the executions of a trace for which `takes` is true.
    pub fn add(&mut self, trace: &Trace, options: &FunctionOptions, takes: impl Fn(&Execution) -> bool) {
        let mut ids: HashMap<Text, Option<FunctionId>> = HashMap::default();
        // Sorted by time on each device.
        let executions = executions(trace, &options.filter);
        let mut seen: HashMap<(RunKey, DeviceId), u64> = HashMap::default();
        let mut places: HashMap<(RunKey, u64), usize> = HashMap::default();
        let mut runs: Vec<(RunKey, Run)> = Vec::new();
        for execution in executions.iter().filter(|execution| takes(execution)) {
            let Some(module) = execution.module else { continue };
            let id = ids.entry(module).or_insert_with(|| FunctionId::find(&options.pattern, trace.text(module)));
            if id.is_none() {
                continue;
            }
            let key = RunKey::new(execution, module);
            let number = seen.entry((key, execution.device)).or_default();
            let next = runs.len();
            let place = *places.entry((key, *number)).or_insert(next);
            *number += 1;
            if place == next {
                runs.push((key, Run::new(execution)));
            } else {
                runs[place].1.take_longest(execution);
            }
        }
        runs.sort_by_key(|(_, run)| (run.session, run.start));
        for (key, run) in runs {
            let Some(Some(id)) = ids.get(&key.module) else { continue };
            let variant = self.variants.entry(id.clone()).or_default();
            variant.modules.insert(trace.text(key.module).to_owned());
            variant.programs.extend(key.program);
            variant.runs.push(run);
        }
        let others = ids.iter().filter(|(_, id)| id.is_none());
        self.other_modules.extend(others.map(|(&module, _)| trace.text(module).to_owned()));
    }

    /// The times of each variant, with intervals of this level, shortest median busy time first.
    #[must_use]
    pub fn finish(self, level: f64) -> Functions {
        let mut rows: Vec<FunctionTimes> =
            self.variants.into_iter().filter_map(|(id, variant)| variant.finish(id, level)).collect();
        // A stable sort keeps equal rows in the order of their ids.
        rows.sort_by(|one, other| {
            let key = |row: &FunctionTimes| [row.busy.median_s, row.busy.mean_s];
            let ([one_median, one_mean], [other_median, other_mean]) = (key(one), key(other));
            one_median.total_cmp(&other_median).then(one_mean.total_cmp(&other_mean))
        });
        Functions { rows, other_modules: self.other_modules.into_iter().collect(), level }
    }
}

impl RunKey {
    fn new(execution: &Execution, module: Text) -> Self {
        let is_numbered = matches!(execution.found_by, FoundBy::RunId | FoundBy::ModuleLine);
        let run_id = execution.id.filter(|_| is_numbered);
        Self { session: execution.session, module, program: execution.program, run_id }
    }
}

impl Run {
    fn new(execution: &Execution) -> Self {
        Self {
            session: execution.session,
            start: execution.span.start,
            devices: 1,
            busy: execution.account.busy,
            span: execution.span.length(),
        }
    }

    fn take_longest(&mut self, execution: &Execution) {
        let other = Self::new(execution);
        self.start = self.start.min(other.start);
        self.devices += 1;
        self.busy = self.busy.max(other.busy);
        self.span = self.span.max(other.span);
    }
}

impl Variant {
    fn finish(self, id: FunctionId, level: f64) -> Option<FunctionTimes> {
        let summary = |times: &[Picos]| -> Option<SampleSummary> {
            let sample = Sample::from_picos(times)?;
            Some(SampleSummary { mean_interval_s: sample.mean_interval(level), ..sample.summary() })
        };
        let busy_times: Vec<Picos> = self.runs.iter().map(|run| run.busy).collect();
        let span_times: Vec<Picos> = self.runs.iter().map(|run| run.span).collect();
        Some(FunctionTimes {
            id,
            modules: self.modules.into_iter().collect(),
            program_ids: self.programs.into_iter().collect(),
            n: self.runs.len(),
            devices: self.runs.iter().map(|run| run.devices).max()?,
            busy: summary(&busy_times)?,
            span: summary(&span_times)?,
            busy_times,
            span_times,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounting::Filter;
    use crate::{ReadOptions, Source, read};
    use ergometer_trace_testing::{Event, Line, Plane, encode};
    use proptest::prelude::*;

    fn trace(bytes: &[u8]) -> Trace {
        read(vec![Source::from_bytes("test", bytes.to_vec())], &ReadOptions::default()).unwrap()
    }

    fn fixture(name: &str) -> Vec<u8> {
        std::fs::read(format!("{}/../../fixtures/xplane/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    }

    fn functions(trace: &Trace, filter: Filter) -> Functions {
        super::super::functions(trace, &FunctionOptions { filter, ..FunctionOptions::autotune().unwrap() })
    }

    fn nanos(times: &[Picos]) -> Vec<f64> {
        times.iter().map(|time| time.get() as f64 / 1e3).collect()
    }

    #[test]
    fn four_functions_run_five_times_on_a_gpu() {
        let trace = trace(&fixture("gpu_autotune.xplane.pb"));
        let found = functions(&trace, Filter::default());
        let rows: Vec<(String, usize, usize)> =
            found.rows.iter().map(|row| (row.id.to_string(), row.n, row.devices)).collect();
        assert_eq!(rows, ["0", "1", "2", "3"].map(|id| (id.to_owned(), 5, 1)));
        // Sums of the durations of kernels, by hand. The kernels of the third overlap, so that its busy time is its
        // span.
        assert_eq!(nanos(&found.rows[0].busy_times), [12_991.0, 13_056.0, 13_054.0, 13_248.0, 12_864.0]);
        assert_eq!(nanos(&found.rows[0].span_times), [198_526.0, 25_632.0, 29_503.0, 21_472.0, 29_760.0]);
        assert_eq!(nanos(&found.rows[2].busy_times)[0], 51_551.0);
        assert_eq!(found.rows[2].busy_times, found.rows[2].span_times);
        assert_eq!(nanos(&found.rows[3].busy_times)[0], 354_493.0);
        assert!(found.other_modules.is_empty());
    }

    #[test]
    fn three_functions_run_five_times_on_a_processor() {
        let trace = trace(&fixture("small_cpu_666.xplane.pb"));
        let found = functions(&trace, Filter::default());
        let rows: Vec<(String, usize)> = found.rows.iter().map(|row| (row.id.to_string(), row.n)).collect();
        assert_eq!(rows, [("2".to_owned(), 5), ("0".to_owned(), 5), ("1".to_owned(), 5)]);
        assert_eq!(nanos(&found.rows[1].busy_times), [651_100.0, 409_447.0, 384_783.0, 467_342.0, 490_557.0]);
        assert_eq!(found.other_modules, ["jit_step"]);
    }

    #[test]
    fn with_a_regex_an_execution_has_the_time_of_the_events_that_match() {
        let trace = trace(&fixture("gpu_autotune.xplane.pb"));
        let filter = Filter { pattern: Some(regex::Regex::new("gemm").unwrap()), ..Filter::default() };
        let found = functions(&trace, filter);
        assert_eq!(nanos(&found.rows[0].busy_times)[..2], [9_471.0, 9_600.0]);
        assert_eq!(nanos(&found.rows[3].busy_times)[0], 196_990.0);
    }

    #[test]
    fn several_profiles_are_one_sample() {
        let bytes = fixture("gpu_autotune.xplane.pb");
        let sources = ["a", "b"].map(|name| Source::from_bytes(name, bytes.clone())).into();
        let trace = read(sources, &ReadOptions::default()).unwrap();
        let found = functions(&trace, Filter::default());
        assert_eq!(found.rows.iter().map(|row| (row.n, row.devices)).collect::<Vec<_>>(), [(10, 1); 4]);
        assert_eq!(found.rows[0].busy_times[..5], found.rows[0].busy_times[5..]);
    }

    fn kernel(module: &'static str, start_ns: i64, duration_ns: i64) -> Event {
        Event { module: Some(module), program: Some(7), ..Event::new("kernel", start_ns, duration_ns) }
    }

    #[test]
    fn an_execution_on_several_devices_takes_the_longest_of_them() {
        // Two runs on two devices. On GPU only their order shows which belong together.
        let device = |name, [first, second]: [i64; 2]| Plane {
            name,
            lines: vec![Line::new(
                1,
                vec![
                    Event { correlation: Some(1), ..kernel("jit_autotune_fn_4", 0, first) },
                    Event { correlation: Some(9), ..kernel("jit_autotune_fn_4", 500, second) },
                ],
            )],
        };
        let planes = [device("/device:GPU:0", [10, 25]), device("/device:GPU:1", [30, 20])];
        let found = functions(&trace(&encode(&planes)), Filter::default());
        assert_eq!((nanos(&found.rows[0].busy_times), found.rows[0].devices), (vec![30.0, 25.0], 2));
    }

    #[test]
    fn runs_are_merged_by_their_number() {
        // The first run is missing on the second device: by order, 10 would be merged with 20.
        let run = |run, ordinal, start, duration| Event {
            run: Some(run),
            ordinal: Some(ordinal),
            op: Some("dot"),
            ..kernel("jit_autotune_fn_4", start, duration)
        };
        let line = Line::new(1, vec![run(-5, 0, 0, 10), run(0, 0, 100, 12), run(0, 1, 101, 20)]);
        let found = functions(&trace(&encode(&[Plane { name: "/host:CPU", lines: vec![line] }])), Filter::default());
        assert_eq!((nanos(&found.rows[0].busy_times), found.rows[0].devices), (vec![10.0, 20.0], 2));
    }

    proptest! {
        #[test]
        fn devices_in_any_order_give_the_same_times(durations in prop::collection::vec([1_i64..90, 1..90, 1..90], 1..8)) {
            let device = |number: usize| Plane {
                name: ["/device:GPU:0", "/device:GPU:1", "/device:GPU:2"][number],
                lines: vec![Line::new(1, (0_i64..).zip(&durations).map(|(run, lengths)| Event {
                    correlation: Some(run * 10),
                    ..kernel("jit_autotune_fn_1", run * 100, lengths[number])
                }).collect())],
            };
            let forward = functions(&trace(&encode(&[device(0), device(1), device(2)])), Filter::default());
            let backward = functions(&trace(&encode(&[device(2), device(0), device(1)])), Filter::default());
            prop_assert_eq!(&forward, &backward);
            let longest: Vec<f64> = durations.iter().map(|lengths| *lengths.iter().max().unwrap() as f64).collect();
            prop_assert_eq!(nanos(&forward.rows[0].busy_times), longest);
        }
    }
}
