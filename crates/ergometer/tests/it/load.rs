//! The load of a run, from the journal to the files.

use std::fs::{self, OpenOptions};
use std::io::Write as _;

use ergometer::close::{ClosedRun, close};
use ergometer::journal::Entry;
use ergometer_clients::{Connections, RequestOptions};
use ergometer_diagnostics::{CommandLine, Diagnostic};
use ergometer_runs::config::Axis;
use ergometer_runs::config::{RunConfig, Schedule, Slo};
use ergometer_runs::summary::ClientLimit;
use ergometer_runs::{SenderFacts, WakeLag};
use serde_json::Value;

use crate::client::{Scripted, answer};
use crate::dataset::Questions;
use crate::rig::{Rig, closed, config, has_warning};
use crate::sensors::{blind, whole};

async fn four_at_a_time(rig: &Rig, sensing: ergometer::run::Sensing) -> ClosedRun {
    let slo = Slo { e2e_s: Some(3600.0), ..Slo::default() };
    let config = RunConfig { schedule: Schedule::Concurrency { concurrency: 4 }, slo, ..config() };
    closed(rig.run(config, Questions::new(40), Scripted::new(|_| answer("10", 10)), sensing).await)
}

fn over_time(rig: &Rig) -> Value {
    serde_json::from_slice(&fs::read(rig.folder().join("analysis/load.json")).unwrap()).unwrap()
}

#[tokio::test]
async fn a_closed_loop_has_a_steady_state_with_its_energy() {
    let rig = Rig::new();
    let run = four_at_a_time(&rig, whole()).await;
    let load = run.summary.load.as_ref().unwrap();
    assert_eq!((load.mode, load.concurrency, load.whole.completed), (Axis::Concurrency, Some(4), 40));
    assert_eq!(load.whole.goodput.unwrap().good, 40);
    assert_eq!(load.whole.itl_ms.unwrap().count, 40, "two chunks each");
    assert!(load.whole.in_flight.unwrap().max <= 4);
    let steady = load.steady_state.as_ref().unwrap();
    assert!(steady.figures.duration_s < load.whole.duration_s);
    let (tokens, energy) = (steady.output_tokens.unwrap(), steady.energy.unwrap());
    assert!(0.0 < tokens && tokens <= 80.0, "{tokens} of 80");
    assert_eq!(energy.energy, ergometer_runs::EnergySource::Measured);
    let whole = run.summary.energy.measured.as_ref().unwrap();
    assert!(0.0 < energy.gross_j.value && energy.gross_j.value < whole.gross_j.value, "{energy:?}");
    let shown: Value = serde_json::from_slice(&fs::read(rig.folder().join("summary.json")).unwrap()).unwrap();
    assert_eq!(shown["load"]["completed"], 40, "the figures of the run are next to its mode");
    assert_eq!(shown["load"]["steady_state"]["e2e_ms"]["count"], steady.figures.e2e_ms.unwrap().count);
}

#[tokio::test]
async fn the_load_over_time_is_derived_again_byte_for_byte() {
    let rig = Rig::new();
    four_at_a_time(&rig, blind()).await;
    let path = rig.folder().join("analysis/load.json");
    let first = fs::read(&path).unwrap();
    let found = over_time(&rig);
    let sum = |name: &str| found["bins"].as_array().unwrap().iter().map(|bin| bin[name].as_f64().unwrap()).sum::<f64>();
    assert_eq!((sum("scheduled"), sum("sent"), sum("completed"), sum("failed")), (40.0, 40.0, 40.0, 0.0));
    assert!((sum("output_tokens") - 80.0).abs() < 1e-9);
    assert_eq!(found["bin_s"], 1.0);
    fs::remove_dir_all(rig.folder().join("analysis")).unwrap();
    close(&rig.folder()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), first);
}

#[tokio::test]
async fn the_facts_of_the_sender_are_in_the_summary() {
    let rig = Rig::new();
    four_at_a_time(&rig, blind()).await;
    let facts = SenderFacts {
        end_ns: 2_000_000_000,
        processor_s: 3.0,
        cores: 2,
        most_in_flight: 4,
        wake_lag_ms: Some(WakeLag { count: 100, p50: 1.0, p99: 7.5, max: 30.0 }),
        connections: Some(Connections { opened: 4, reused: 36, most_open: 4, ..Connections::default() }),
        ..SenderFacts::default()
    };
    let events = rig.journal().events_path(0);
    let mut journal = OpenOptions::new().append(true).open(events).unwrap();
    journal.write_all(&Entry::Sender(Box::new(facts)).to_line()).unwrap();
    let run = close(&rig.folder()).unwrap();
    let load = run.summary.load.as_ref().unwrap();
    assert_eq!((load.client_limited, load.client.reasons.as_slice()), (true, [ClientLimit::Cpu].as_slice()));
    assert_eq!((load.client.processor_cores, load.connections.unwrap().reused), (Some(1.5), 36));
    assert!(has_warning(&run, "the client limited the load ("), "{:?}", run.summary.warnings);
    let hint = run.warnings.iter().find_map(|warning| {
        warning.hint().map(|hint| hint.phrase(&CommandLine)).filter(|hint| hint.contains("more cores"))
    });
    assert!(hint.is_some());
}

#[tokio::test]
async fn short_answers_give_a_warning() {
    let asked = |max_tokens, ignore_eos| RequestOptions { max_tokens, ignore_eos, ..RequestOptions::default() };
    for (request, is_warned) in
        [(asked(Some(9), true), true), (asked(Some(2), true), false), (asked(Some(9), false), false)]
    {
        let rig = Rig::new();
        let client = Scripted::new(|_| answer("10", 1));
        let run = closed(rig.run(RunConfig { request, ..config() }, Questions::new(3), client, blind()).await);
        assert_eq!(has_warning(&run, "3 of 3 answers stopped before"), is_warned, "{:?}", run.summary.warnings);
        let advises_the_option = run.warnings.iter().filter_map(Diagnostic::hint).any(|hint| {
            let hint = hint.phrase(&CommandLine);
            hint.contains("--ignore-eos") && !hint.contains("seems to ignore")
        });
        assert!(!advises_the_option, "the option was passed");
    }
}
