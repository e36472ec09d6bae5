//! Attribution of energy: shares, balance, idle power, phases, and unknown energy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ergometer_clients::{FailureKind, Locality};
use ergometer_runs::config::{Retries, RunConfig, Schedule};
use ergometer_runs::summary::EnergyTotals;

use crate::client::{Scripted, Step, answer};
use crate::dataset::Questions;
use crate::rig::{Rig, assert_near, closed, config, has_warning};
use crate::sensors::{CPU_W, GPU_W, blind, cpu, gpu, machine, whole};
use crate::table::Table;

const GROSS: &str = "ergometer/energy/measured/gross/joules";

/// The share of time of each request, computed moment by moment, unlike in the library.
fn shared_seconds(table: &Table) -> Vec<f64> {
    let times = |path: &str| table.integers(path).into_iter().map(Option::unwrap).collect::<Vec<_>>();
    let (sent, end) = (times("ergometer/sent_ns"), times("ergometer/end_ns"));
    let mut edges: Vec<i64> = sent.iter().chain(&end).copied().collect();
    edges.sort_unstable();
    let mut shares = vec![0.0; sent.len()];
    for pair in edges.windows(2) {
        let inside = |&row: &usize| sent[row] <= pair[0] && pair[1] <= end[row];
        let in_flight: Vec<usize> = (0..sent.len()).filter(inside).collect();
        for &row in &in_flight {
            shares[row] += (pair[1] - pair[0]) as f64 / 1e9 / in_flight.len() as f64;
        }
    }
    shares
}

fn sum(values: &[Option<f64>]) -> f64 {
    values.iter().map(|value| value.unwrap()).sum()
}

fn assert_balanced(totals: &EnergyTotals) {
    let balance = totals.balance;
    assert_near(balance.requests_j + balance.idle_j + balance.unattributed_j, balance.meter_j, 1e-9);
    assert_near(totals.gross_j.value, balance.meter_j, 1e-9);
}

/// Requests of 30 to 110 ms, some of which fail.
fn uneven() -> Scripted {
    Scripted::new(|index| match index {
        2 => vec![Step::Wait(Duration::from_millis(40)), Step::Fail(FailureKind::MidStream, "gone")],
        _ => answer("10", 15 + 20 * (index % 3)),
    })
}

#[tokio::test]
async fn concurrent_requests_share_energy_equally() {
    let rig = Rig::new();
    let config = RunConfig { schedule: Schedule::Concurrency { concurrency: 3 }, ..config() };
    let run = closed(rig.run(config, Questions::new(10), uneven(), whole()).await);
    let table = Table::read(&rig.folder());
    let totals = run.summary.energy.measured.as_ref().unwrap();
    assert_balanced(totals);
    let joules = table.floats(GROSS);
    assert_near(sum(&joules), totals.balance.requests_j, 1e-6);
    let wanted = shared_seconds(&table);
    let longer: f64 = wanted.iter().sum();
    assert_near(sum(&joules), GPU_W * longer, 0.03);
    for (row, (joules, seconds)) in joules.iter().zip(&wanted).enumerate() {
        let found = joules.unwrap();
        assert!((found - GPU_W * seconds).abs() < 0.05 * GPU_W * seconds + 0.2, "{row}: {found}, {seconds} s");
    }
    let methods = table.texts("ergometer/energy/measured/gross/method");
    assert!(methods.iter().all(|method| method.as_deref() == Some("equal_share")), "{methods:?}");
    assert_near(totals.balance.meter_j, GPU_W * run.summary.duration_s, 0.03);
    // The energy of the CPU is modelled, kept apart, and balanced too.
    let modelled = run.summary.energy.modelled.as_ref().unwrap();
    assert_balanced(modelled);
    let of_cpu = table.floats("model_metrics/*/energy_metrics/cpu_per_query_joules");
    assert_near(sum(&of_cpu), CPU_W * longer, 0.03);
    assert_near(sum(&of_cpu), modelled.balance.requests_j, 1e-6);
    assert_eq!(table.floats("model_metrics/*/energy_metrics/per_query_joules"), joules);
    assert_eq!(table.floats("model_metrics/*/energy_metrics/total_joules"), joules);
    assert_eq!(table.lengths("ergometer/energy/devices"), [2; 10]);
}

#[tokio::test]
async fn a_single_request_has_the_energy_of_its_window_in_two_phases() {
    let rig = Rig::new();
    let client = Scripted::new(|_| answer("10", 60));
    let run = closed(rig.run(config(), Questions::new(4), client, whole()).await);
    let table = Table::read(&rig.folder());
    let methods = table.texts("ergometer/energy/measured/gross/method");
    assert!(methods.iter().flatten().all(|method| method != "equal_share"), "{methods:?}");
    let metric = |path: &str| table.floats(&format!("model_metrics/*/{path}"));
    let seconds = metric("latency_metrics/total_query_seconds");
    let (prefill, decode) = (metric("phase_metrics/prefill_energy_j"), metric("phase_metrics/decode_energy_j"));
    let (before, after) = (metric("phase_metrics/prefill_duration_ms"), metric("phase_metrics/decode_duration_ms"));
    for (row, joules) in table.floats(GROSS).into_iter().enumerate() {
        let joules = joules.unwrap();
        assert_near(joules, GPU_W * seconds[row].unwrap(), 0.03);
        assert_near(prefill[row].unwrap() + decode[row].unwrap(), joules, 1e-6);
        assert_near((before[row].unwrap() + after[row].unwrap()) / 1e3, seconds[row].unwrap(), 1e-6);
        assert_near(prefill[row].unwrap(), GPU_W * before[row].unwrap() / 1e3, 0.05);
        // There are ten input tokens, and one output token in each of the two chunks.
        assert_near(
            metric("phase_metrics/prefill_energy_per_input_token_j")[row].unwrap(),
            prefill[row].unwrap() / 10.0,
            1e-9,
        );
        assert_near(
            metric("phase_metrics/decode_energy_per_output_token_j")[row].unwrap(),
            decode[row].unwrap() / 2.0,
            1e-9,
        );
        assert_near(metric("phase_metrics/prefill_power_avg_w")[row].unwrap(), GPU_W, 0.05);
        assert_near(metric("power_metrics/gpu/per_query_watts/avg")[row].unwrap(), GPU_W, 1e-9);
        assert_near(metric("hardware_utilization/gpu/compute_utilization_pct")[row].unwrap(), 80.0, 1e-9);
        assert_near(metric("memory_metrics/gpu_mb/max")[row].unwrap(), 5000.0, 1e-9);
        assert_near(metric("temperature_metrics/median")[row].unwrap(), 61.0, 1e-9);
    }
    let (low, high) =
        (table.floats("ergometer/energy/measured/gross/low"), table.floats("ergometer/energy/measured/gross/high"));
    assert!(
        low.iter().zip(&high).zip(table.floats(GROSS)).all(|((low, high), joules)| *low <= joules && joules <= *high)
    );
    assert_eq!(run.summary.energy.queries_without_energy, 0);
}

#[tokio::test]
async fn net_energy_is_gross_energy_minus_idle_power() {
    let rig = Rig::new();
    let config = RunConfig { schedule: Schedule::Concurrency { concurrency: 3 }, idle_s: 0.3, ..config() };
    let run = closed(rig.run(config, Questions::new(6), uneven(), machine(vec![gpu(0, &Arc::default())])).await);
    let device = &run.summary.energy.devices[0];
    assert_eq!(device.idle_w.len(), 2, "before and after");
    for &watts in &device.idle_w {
        assert_near(watts, GPU_W, 0.02);
    }
    let totals = run.summary.energy.measured.as_ref().unwrap();
    let idle = device.idle_w.iter().sum::<f64>() / 2.0;
    let (table, net) = (Table::read(&rig.folder()), totals.net_j.unwrap());
    assert!(
        (net.value - (totals.gross_j.value - idle * run.summary.duration_s)).abs() < 0.01 * totals.gross_j.value,
        "{net:?}"
    );
    let nets = table.floats("ergometer/energy/measured/net/joules");
    for (row, seconds) in shared_seconds(&table).into_iter().enumerate() {
        let (gross, net) = (table.floats(GROSS)[row].unwrap(), nets[row].unwrap());
        assert!((gross - net - idle * seconds).abs() < 0.01 * gross, "{row}: {gross} {net} {seconds}");
    }
    assert!(!has_warning(&run, "idle power was not measured"), "{:?}", run.summary.warnings);
}

#[tokio::test]
async fn there_is_no_net_energy_without_idle_power() {
    let rig = Rig::new();
    let run = closed(rig.run(config(), Questions::new(2), uneven(), whole()).await);
    assert_eq!(run.summary.energy.measured.as_ref().unwrap().net_j, None);
    assert!(Table::read(&rig.folder()).is_absent("ergometer/energy/measured/net/joules"));
    assert!(has_warning(&run, "idle power was not measured"), "{:?}", run.summary.warnings);
}

#[tokio::test]
async fn a_remote_server_has_no_energy_and_gives_a_warning() {
    let elsewhere = || Scripted { place: Locality::Elsewhere { host: String::from("far.example") }, ..uneven() };
    let rig = Rig::new();
    let run = closed(rig.run(config(), Questions::new(3), elsewhere(), whole()).await);
    assert!(has_warning(&run, "the server runs on far.example"), "{:?}", run.summary.warnings);
    let summary = &run.summary;
    assert!(summary.energy.measured.is_none() && summary.energy.modelled.is_none() && summary.intelligence.is_none());
    assert!(summary.energy.devices.is_empty() && summary.gpu_info.is_none() && summary.hardware_label == "UNKNOWN_HW");
    let table = Table::read(&rig.folder());
    let absent = [
        "energy_metrics/per_query_joules",
        "energy_metrics/cpu_per_query_joules",
        "power_metrics/gpu/per_query_watts/avg",
        "power_metrics/cpu/per_query_watts/avg",
        "phase_metrics/prefill_energy_j",
        "hardware_utilization/gpu/compute_utilization_pct",
        "hardware_utilization/derived/mfu",
        "temperature_metrics/avg",
        "memory_metrics/gpu_mb/avg",
        "gpu_info/name",
        "system_info/cpu_brand",
    ];
    for path in absent {
        assert!(table.is_absent(&format!("model_metrics/*/{path}")), "{path}");
    }
    assert!(table.is_absent(GROSS) && table.lengths("ergometer/energy/devices") == [0; 3]);
    assert!(!table.is_absent("model_metrics/*/latency_metrics/total_query_seconds"), "times are known");

    // The user can declare the server local.
    let rig = Rig::new();
    let config = RunConfig { server_is_local: true, ..config() };
    let run = closed(rig.run(config, Questions::new(3), elsewhere(), whole()).await);
    assert!(run.summary.energy.measured.is_some() && !has_warning(&run, "the server runs on"));
    assert!(Table::read(&rig.folder()).floats(GROSS).iter().all(Option::is_some));
}

#[tokio::test]
async fn only_configured_devices_count() {
    let sensing = || machine(vec![gpu(0, &Arc::default()), gpu(1, &Arc::default()), cpu()]);
    let both = Rig::new();
    let run = closed(both.run(config(), Questions::new(3), uneven(), sensing()).await);
    let totals = run.summary.energy.measured.as_ref().unwrap();
    assert_near(totals.mean_power_w, 2.0 * GPU_W, 0.03);
    assert!(run.summary.energy.modelled.is_some());

    let one = Rig::new();
    let config = RunConfig {
        devices: ergometer_runs::config::CountedDevices::parse(&[String::from("gpu:1")]).unwrap(),
        ..config()
    };
    let run = closed(one.run(config, Questions::new(3), uneven(), sensing()).await);
    let totals = run.summary.energy.measured.as_ref().unwrap();
    assert_near(totals.mean_power_w, GPU_W, 0.03);
    assert!(run.summary.energy.modelled.is_none(), "the CPU does not count");
    assert_eq!(
        run.summary.energy.devices.iter().map(|device| device.device.to_string()).collect::<Vec<_>>(),
        ["gpu:1"]
    );
    let table = Table::read(&one.folder());
    assert_eq!(table.lengths("ergometer/energy/devices"), [1; 3]);
    assert!(table.is_absent("model_metrics/*/energy_metrics/cpu_per_query_joules"));
    assert!(table.is_absent("model_metrics/*/power_metrics/cpu/per_query_watts/avg"));
    assert_eq!(table.integers("model_metrics/*/gpu_info/device_id"), [Some(1); 3]);
    assert_near(table.floats("model_metrics/*/power_metrics/gpu/per_query_watts/avg")[0].unwrap(), GPU_W, 1e-9);
}

#[tokio::test]
async fn without_a_sensor_there_are_times_only() {
    let rig = Rig::new();
    let run = closed(rig.run(config(), Questions::new(2), uneven(), blind()).await);
    assert!(has_warning(&run, "no sensor measures energy"), "{:?}", run.summary.warnings);
    assert!(run.summary.energy.measured.is_none() && run.summary.duration_s > 0.0);
    assert!(Table::read(&rig.folder()).is_absent("model_metrics/*/energy_metrics/per_query_joules"));

    let rig = Rig::new();
    let run = closed(rig.run(config(), Questions::new(2), uneven(), machine(vec![cpu()])).await);
    assert!(has_warning(&run, "modelled from CPU utilization"), "{:?}", run.summary.warnings);
    assert_eq!(run.summary.intelligence.as_ref().unwrap().energy, Some(ergometer_runs::EnergySource::Modelled));
    assert!(Table::read(&rig.folder()).is_absent(GROSS));
}

/// The sensor has no readings while the second of three requests is in flight. Its energy is unknown, not zero.
#[tokio::test]
async fn energy_in_a_sensor_gap_is_unattributed_and_never_zero() {
    let rig = Rig::new();
    let silent = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&silent);
    let client = Scripted::new(move |index| {
        // The gap begins well before the second request's first token and ends well after its last.
        switch.store(index == 1, Ordering::Relaxed);
        answer("10", if index == 1 { 800 } else { 300 })
    });
    let run = closed(rig.run(config(), Questions::new(3), client, machine(vec![gpu(0, &silent)])).await);
    let totals = run.summary.energy.measured.as_ref().unwrap();
    assert_balanced(totals);
    assert!(totals.balance.unattributed_j > 0.8 * GPU_W * 1.6, "{:?}", totals.balance);
    assert_near(totals.balance.meter_j, GPU_W * run.summary.duration_s, 0.03);
    assert!(has_warning(&run, "of the energy cannot be assigned to requests"), "{:?}", run.summary.warnings);
    let table = Table::read(&rig.folder());
    let joules = table.floats(GROSS);
    assert_near(joules.iter().flatten().sum(), totals.balance.requests_j, 1e-6);
    assert_near(joules[0].unwrap(), GPU_W * 0.6, 0.15);
    // Only a few milliseconds at the ends of the request may have readings, and of the second phase at most those.
    let phases = |path: &str| table.floats(&format!("model_metrics/*/phase_metrics/{path}"))[1];
    for joules in [joules[1], phases("prefill_energy_j"), phases("decode_energy_j")] {
        assert!(joules.is_none_or(|joules| joules > 0.0), "{joules:?} is zero instead of unknown");
    }
    let high = table.floats("ergometer/energy/measured/gross/high")[1];
    assert!(high.is_none_or(|high| high > 0.8 * GPU_W * 1.6), "{high:?}");
}

#[tokio::test]
async fn energy_of_retried_attempts_is_counted_and_in_no_record() {
    let rig = Rig::new();
    let attempts = Arc::new(AtomicU64::new(0));
    // Every other attempt fails after 40 ms.
    let client = Scripted::new(move |_| match attempts.fetch_add(1, Ordering::Relaxed) % 2 {
        0 => vec![Step::Wait(Duration::from_millis(40)), Step::Fail(FailureKind::MidStream, "gone")],
        _ => answer("10", 20),
    });
    let config = RunConfig { retries: Retries { most: 2, backoff_s: 0.001 }, ..config() };
    let run = closed(rig.run(config, Questions::new(6), client, whole()).await);
    assert_eq!(run.summary.outcomes.retried, [(FailureKind::MidStream, 6)].into());
    assert_eq!((run.summary.outcomes.completed, run.summary.outcomes.failed.len()), (6, 0));
    let table = Table::read(&rig.folder());
    assert_eq!(table.integers("ergometer/attempts"), [Some(2); 6]);
    let totals = run.summary.energy.measured.as_ref().unwrap();
    assert_balanced(totals);
    assert!(totals.balance.retried_j > 0.0 && totals.balance.unrecorded_j.abs() < 1e-9, "{:?}", totals.balance);
    assert_near(sum(&table.floats(GROSS)) + totals.balance.retried_j, totals.balance.requests_j, 1e-6);
    let (_, exchanges) = rig.exchanges(0);
    let seconds: f64 = exchanges.iter().filter(|exchange| exchange.is_retried).map(|it| (it.end - it.sent).get()).sum();
    assert_near(totals.balance.retried_j, GPU_W * seconds, 0.05);
    assert!(has_warning(&run, "6 attempts failed and were retried; they used"), "{:?}", run.summary.warnings);
}
