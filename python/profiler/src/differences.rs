//! Tests that show where this profiler differs from `ejkernel`'s, and why: on recorded traces, or on synthetic ones
//! where no recorded trace shows the difference. The numbers of `ejkernel` come from its code with its reading of stats
//! repaired.

use super::*;
use crate::test_trace::{synthetic, trace};
use ergometer_trace_testing::{Event, Line, Plane};

fn fixture(name: &str) -> Trace {
    trace(std::fs::read(format!("{}/../../fixtures/xplane/{name}.xplane.pb", env!("CARGO_MANIFEST_DIR"))).unwrap())
}

fn profiler(change: impl FnOnce(&mut ProfilerOptions)) -> Profiler {
    let mut options = ProfilerOptions::default();
    change(&mut options);
    Profiler::new(options).unwrap()
}

fn with_regex(pattern: &str) -> Profiler {
    profiler(|options| options.event_filter_regex = Some(pattern.to_owned()))
}

fn events(profiler: &Profiler, profile: &Trace, device: &str) -> BTreeMap<String, f64> {
    let plane = profiler.find_device_plane_ids(profile, device).unwrap()[0];
    profiler.get_events_from_plane(profile, plane).unwrap().value
}

fn times(profiler: &Profiler, profile: &Trace, device: &str) -> Vec<(i64, f64, f64)> {
    let times = profiler.profile_times_by_function_id([profile], device).unwrap().value;
    times.into_iter().map(|(id, (mean_s, std_s))| (id, mean_s, std_s)).collect()
}

#[track_caller]
fn assert_close(actual: f64, expected: f64) {
    assert!((actual - expected).abs() < 1e-15, "{actual}, not {expected}");
}

#[test]
fn agrees_with_ejkernel_when_each_key_has_one_event() {
    let found = events(&profiler(|_| ()), &fixture("gpu_autotune"), "gpu");
    assert_eq!(found.len(), 50);
    for (key, seconds) in [
        ("jit_autotune_fn_0(3981-281474976710658)", 4.191e-6),
        ("jit_autotune_fn_2(66154-281474976710667)", 28.032e-6),
        ("jit_autotune_fn_3(102528-281474976710670)", 156.735e-6),
    ] {
        assert_close(found[key], seconds);
    }
}

#[test]
fn events_with_the_same_key_add_up_on_cpu() {
    // The key has no run number. ejkernel returned the last of five events, 490.557 µs.
    let found = events(&profiler(|_| ()), &fixture("small_cpu_666"), "cpu");
    assert_eq!(found.len(), 4);
    assert_close(found["jit_autotune_fn_0(8-None)"], f64::from(651_100 + 409_447 + 384_783 + 467_342 + 490_557) / 1e9);
    // 65 events; the last has 20.313 µs.
    assert!(found["jit_step(6-None)"] > 1e-3, "{}", found["jit_step(6-None)"]);
}

#[test]
fn events_with_the_same_key_add_up_on_gpu() {
    // A custom call first sets memory for 768 ns, then runs a kernel. ejkernel returned the kernel's time only.
    let found = events(&profiler(|options| options.min_duration_ns = 0.0), &fixture("gpu_autotune"), "gpu");
    assert_close(found["jit_autotune_fn_3(102528-281474976710670)"], 157.503e-6);
}

#[test]
fn the_kernels_of_a_cuda_graph_add_up() {
    // All 365 kernels of a step have one scope, and therefore one key. ejkernel returned the last kernel: 13.312,
    // 13.377 and 13.280 µs for steps that take 4 ms.
    let found: Vec<f64> = events(&profiler(|_| ()), &fixture("gpu_train_3"), "gpu").into_values().collect();
    assert_eq!(found.len(), 3);
    for (seconds, expected) in found.into_iter().zip([4_072.085e-6, 4_071.483e-6, 4_072.407e-6]) {
        assert_close(seconds, expected);
    }
}

#[test]
fn a_function_on_gpu_is_timed_by_execution_not_by_kernel() {
    // ejkernel counted each of the four kernels as a call: twenty samples, 3.225 ± 1.505 µs, about a quarter of the
    // time. For fn_3 it had ten samples of 177.090 ± 20.077 µs.
    let found = times(&profiler(|_| ()), &fixture("gpu_autotune"), "gpu");
    // fn_0: the middle three of 12.991 13.056 13.054 13.248 12.864 µs. Kernels of fn_1 and fn_2 overlap on their
    // stream.
    let expected_ns = [
        (13_033.666_666_667, 30.180_935_852),
        (14_527.666_666_667, 26.132_142_830),
        (51_519.333_333_333, 26.132_142_830),
        (354_193.666_666_667, 105.224_627_451),
    ];
    assert_eq!(found.len(), 4);
    for ((id, mean_s, std_s), (expected_id, (mean_ns, std_ns))) in found.into_iter().zip((0..).zip(expected_ns)) {
        assert_eq!(id, expected_id);
        assert_close(mean_s, mean_ns / 1e9);
        assert_close(std_s, std_ns / 1e9);
    }
}

#[test]
fn a_function_on_cpu_has_all_its_executions() {
    // ejkernel had one sample of each function, with a deviation of 0: 490.557, 450.321 and 415.073 µs.
    let found = times(&profiler(|_| ()), &fixture("small_cpu_666"), "cpu");
    assert_eq!(found.len(), 3);
    // The middle three of 651.100 409.447 384.783 467.342 490.557 µs.
    assert_close(found[0].1, f64::from(409_447 + 467_342 + 490_557) / 3e9);
    assert!(found.iter().all(|&(_, _, std_s)| std_s > 1e-6));
}

#[test]
fn the_fastest_function_is_found_by_all_executions_not_by_the_last() {
    // ejkernel only had the last execution of each function, by which fn_1 won with 392.806 µs against 520.475 and
    // 573.143. By the medians of two hundred executions (450.006, 461.874 and 451.837 µs) it is the slowest.
    let profile = fixture("med_cpu_26820");
    let found = profiler(|_| ()).profile_functions([&profile], "cpu").unwrap().value;
    let rows: Vec<(String, f64)> = found.rows.iter().map(|row| (row.id.to_string(), row.busy.median_s)).collect();
    let expected = [("0", 450.006e-6), ("2", 451.8365e-6), ("1", 461.8735e-6)];
    for ((id, median_s), expected) in rows.into_iter().zip(expected) {
        assert_eq!(id, expected.0);
        assert_close(median_s, expected.1);
    }
}

#[test]
fn there_is_no_cap_by_default_and_a_cap_warns() {
    // By default ejkernel stopped at 10,000 of 26,820 events without a warning: it saw 2,922 of the ops.
    let profile = fixture("med_cpu_26820");
    let all = profiler(|_| ()).profile_functions([&profile], "cpu").unwrap();
    assert_eq!(all.value.rows.iter().map(|row| row.n).collect::<Vec<_>>(), [200; 3]);
    assert!(all.warnings.is_empty());
    let capped = profiler(|options| options.max_events_per_profile = Some(10_000));
    let cut = capped.profile_functions([&profile], "cpu").unwrap();
    assert!(matches!(cut.warnings[..], [ProfilerWarning::Cut { kept: 10_000, left_out: 1.., .. }]), "{cut:?}");
    let counts: Vec<usize> = cut.value.rows.iter().map(|row| row.n).collect();
    assert!(counts.iter().all(|n| (150..200).contains(n)), "{counts:?}");
    // With short events included, the first 10,000 events in file order are all calls of Python functions.
    let short = profiler(|options| {
        options.max_events_per_profile = Some(10_000);
        options.min_duration_ns = 0.0;
    });
    let plane = short.find_device_plane_ids(&profile, "cpu").unwrap()[0];
    let nothing = short.get_events_from_plane(&profile, plane).unwrap();
    assert!(nothing.value.is_empty());
    assert_eq!(
        nothing.warnings[0].to_string().split(':').next(),
        Some("max_events_per_profile = 10000 left out 16820 events of /host")
    );
}

#[test]
fn an_execution_split_by_the_cap_is_left_out() {
    // 6 of 55 kernels: the four of fn_0 and the two of fn_1. With 5, half of fn_1 would count as a whole execution.
    let profile = fixture("gpu_autotune");
    for (cap, expected) in [(6, vec![1, 1]), (5, vec![1])] {
        let capped = profiler(|options| options.max_events_per_profile = Some(cap));
        let found = capped.profile_functions([&profile], "gpu").unwrap().value;
        assert_eq!(found.rows.iter().map(|row| row.n).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn the_regex_matches_the_name_of_the_kernel() {
    // On GPU no event encloses the kernels, and ejkernel matched the filter with `jit_autotune_fn_0(…)` only: every
    // time was 0.
    let profile = fixture("gpu_autotune");
    let found = events(&with_regex("gemm|nvjet"), &profile, "gpu");
    assert_close(found["jit_autotune_fn_0(3981-281474976710658)"], 4.191e-6);
    assert_close(found["jit_autotune_fn_0(3981-281474976710659)"], 0.0);
    let times = times(&with_regex("gemm"), &profile, "gpu");
    // The middle three of 9.471 9.600 9.534 9.600 9.344 µs.
    assert_close(times[0].1, 9.535e-6);
    assert_eq!(times.len(), 4);
    let found = events(&with_regex("fusion"), &fixture("small_cpu_666"), "cpu");
    assert_close(found["jit_autotune_fn_0(8-None)"], 2.403_229e-3);
}

#[test]
fn the_regex_matches_the_numbers_of_a_key_as_in_ejkernel() {
    let found = events(&with_regex(r"\(3981-281474976710660\)"), &fixture("gpu_autotune"), "gpu");
    assert_close(found["jit_autotune_fn_0(3981-281474976710660)"], 5.28e-6);
    assert_eq!(found.values().filter(|seconds| **seconds > 0.0).count(), 1);
}

#[test]
fn verbose_reports_short_kernels() {
    // fn_3 sets memory for less than the default of min_duration_ns, which is the same as in ejkernel.
    let profile = fixture("gpu_autotune");
    let (quiet, verbose) = (profiler(|_| ()), profiler(|options| options.verbose = true));
    assert!(quiet.profile_functions([&profile], "gpu").unwrap().warnings.is_empty());
    let warnings = verbose.profile_functions([&profile], "gpu").unwrap().warnings;
    assert_eq!(
        warnings[0].to_string(),
        "5 events of /device:GPU:0 are shorter than min_duration_ns and left out, 3.839 µs together"
    );
    let longest = |profiler: &Profiler| times(profiler, &profile, "gpu")[3].1;
    let all = profiler(|options| options.min_duration_ns = 0.0);
    assert!((longest(&all) - longest(&quiet) - 0.768e-6).abs() < 1e-9);
}

fn kernel(start_ns: i64, duration_ns: i64) -> Event {
    Event { module: Some("jit_autotune_fn_1"), program: Some(3), ..Event::new("gemm", start_ns, duration_ns) }
}

#[test]
fn all_planes_of_a_platform_count_not_only_the_first() {
    let device = |name, duration| Plane { name, lines: vec![Line::new(1, vec![kernel(0, duration)])] };
    let profile = synthetic(&[device("/device:GPU:0", 2_000), device("/device:GPU:1", 5_000)]);
    assert_eq!(profiler(|_| ()).find_device_plane_ids(&profile, "Gpu").unwrap(), [0, 1]);
    assert_eq!(times(&profiler(|_| ()), &profile, "gpu"), [(1, 5e-6, 0.0)]);
    assert_eq!(times(&profiler(|_| ()), &profile, "gpu:0"), [(1, 2e-6, 0.0)]);
}

#[test]
fn zero_is_a_number() {
    // ejkernel treated the id zero as missing, and so two programs as one.
    let event = |program, scope| Event { program: Some(program), scope, ..kernel(0, 2_000) };
    let line_events =
        vec![event(0, Some(0)), event(1, None), Event { program: None, run: Some(0), ..kernel(0, 3_000) }];
    let profile = synthetic(&[Plane { name: "/device:GPU:0", lines: vec![Line::new(1, line_events)] }]);
    let found: Vec<String> = events(&profiler(|_| ()), &profile, "gpu").into_keys().collect();
    let expected = ["jit_autotune_fn_1(0-0)", "jit_autotune_fn_1(0-None)", "jit_autotune_fn_1(1-None)"];
    assert_eq!(found, expected);
}

#[test]
fn event_times_count_from_the_start_of_their_line() {
    // Two streams, the second 10 µs later. From a raw file ejkernel put both at 0, where they would overlap.
    let line = |id, timestamp_ns| Line { timestamp_ns, ..Line::new(id, vec![kernel(0, 2_000)]) };
    let profile = synthetic(&[Plane { name: "/device:GPU:0", lines: vec![line(1, 5_000), line(2, 15_000)] }]);
    assert_close(events(&profiler(|_| ()), &profile, "gpu")["jit_autotune_fn_1(3-None)"], 4e-6);
}

#[test]
fn children_are_nested_on_the_same_line_and_of_the_same_module() {
    let parent = || Event { module: None, program: Some(1), ..Event::new("jit_step", 0, 10_000) };
    let child = |name, start| Event::new(name, start, 2_000);
    let other_module = Event { module: Some("jit_other"), ..kernel(3_000, 2_000) };
    let own = Event { module: Some("jit_step"), program: Some(1), ..Event::new("gemm", 3_000, 2_000) };
    let seconds = |first: Vec<Event>, second: Vec<Event>| {
        let lines = vec![Line::new(1, first), Line::new(2, second)];
        let profile = synthetic(&[Plane { name: "/device:GPU:0", lines }]);
        events(&with_regex("gemm"), &profile, "gpu")["jit_step(1-None)"]
    };
    assert_close(seconds(vec![parent(), child("gemm", 1_000), child("copy", 5_000)], vec![]), 2e-6);
    // ejkernel counted concurrent events of another stream.
    assert_close(seconds(vec![parent()], vec![child("gemm", 1_000)]), 0.0);
    // An event that ends after its parent is not nested.
    assert_close(seconds(vec![parent(), child("gemm", 9_000)], vec![]), 0.0);
    let parent_with = |module| Event { module: Some(module), ..parent() };
    assert_close(seconds(vec![parent_with("jit_step"), other_module], vec![]), 0.0);
    assert_close(seconds(vec![parent_with("jit_step"), own], vec![]), 2e-6);
}

#[test]
fn concurrent_events_of_other_threads_are_not_children() {
    // During three of 200 executions of fn_2 another thread runs these events from start to end: ejkernel counted them.
    // Waiting on the execution's own thread is part of it.
    let profile = fixture("med_cpu_26820");
    let found = |pattern| events(&with_regex(pattern), &profile, "cpu")["jit_autotune_fn_2(12-None)"];
    assert_close(found("CreateOutputs|Handle input event"), 0.0);
    assert!(found("SlinkyThreadPool::Await") > 0.0);
}

#[test]
fn a_module_on_tpu_contains_the_ops_that_run_in_it() {
    let module =
        |start| Event { program: Some(9), run: Some(start), ..Event::new("jit_autotune_fn_2(9)", start, 20_000) };
    let op = |name, start, duration| Event::new(name, start, duration);
    let lines = vec![
        Line { name: "XLA Modules", ..Line::new(1, vec![module(0), module(50_000)]) },
        Line {
            name: "XLA Ops",
            ..Line::new(
                2,
                vec![
                    op("dot", 1_000, 4_000),
                    op("copy", 6_000, 3_000),
                    op("dot", 55_000, 5_000),
                    op("dot", 90_000, 9_000),
                ],
            )
        },
    ];
    let profile = synthetic(&[Plane { name: "/device:TPU:0", lines }]);
    let key = "jit_autotune_fn_2(9)(9-None)";
    assert_close(events(&profiler(|_| ()), &profile, "tpu")[key], 40e-6);
    // A filter that matches the module too counts the module's children, not the module.
    assert_close(events(&with_regex("dot|jit_"), &profile, "tpu")[key], 9e-6);
    assert_eq!(times(&with_regex("dot"), &profile, "tpu"), [(2, 4.5e-6, 0.5e-6)]);
}

#[test]
fn messages_are_those_of_ejkernel() {
    let (profiler, profile) = (profiler(|_| ()), fixture("small_cpu_666"));
    let message = |error: ProfilingError| error.to_string();
    assert_eq!(
        message(profiler.find_device_plane_ids(&profile, "TPU").unwrap_err()),
        "No planes found for device 'TPU'. Available devices: ['/host:metadata', '/host:CPU', 'Task Environment']"
    );
    assert_eq!(message(profiler.get_events_from_plane(&profile, 3).unwrap_err()), "Plane index 3 out of range (0-2)");
    let parse = message(profiler.parse_profile_from_bytes(b"no profile").unwrap_err());
    assert!(parse.starts_with("Failed to parse profile data: "), "{parse}");
    let options = ProfilerOptions { event_filter_regex: Some("(".to_owned()), ..ProfilerOptions::default() };
    assert!(message(Profiler::new(options).unwrap_err()).starts_with("Invalid regex pattern '(': "));
    let none = profiler.profile_times_by_function_id([], "gpu").unwrap_err();
    assert_eq!(message(none), "No profile was created.");
}

#[test]
fn executions_of_several_profiles_are_one_sample() {
    let (one, other) = (fixture("gpu_autotune"), fixture("gpu_autotune"));
    let found = profiler(|_| ()).profile_functions([&one, &other], "gpu").unwrap().value;
    assert_eq!(found.rows.iter().map(|row| row.n).collect::<Vec<_>>(), [10; 4]);
}
