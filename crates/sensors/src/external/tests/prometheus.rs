//! Prometheus text files that are rewritten, or not.

use super::*;

#[test]
fn a_metric_is_read_when_its_file_is_rewritten() {
    let fixture = Fixture::new("power.prom", "node_power_watts 300\n");
    let mut bench = Bench::new(&fixture.spec("prometheus"));
    assert_eq!(bench.values(), [300.0], "it was written just now");
    assert_eq!(bench.values(), [0.0; 0], "it was not written again");
    fixture.replace("node_power_watts 300\n");
    assert_eq!(bench.values(), [300.0], "the same value, written again");
    fixture.replace("node_power_watts 31");
    let batch = bench.sample();
    assert_eq!((values(&batch), kinds(&batch)), (vec![], vec![EventKind::ReadFailed]));
    fixture.replace("node_power_watts{");
    assert_eq!(bench.sample().events.len(), 0, "reported once");
    fixture.replace("node_power_watts 312\n");
    assert_eq!(bench.values(), [312.0]);
    fs::remove_file(&fixture.path).unwrap();
    assert_eq!(kinds(&bench.sample()), [EventKind::ReadFailed]);
}

#[test]
fn an_old_file_gives_no_reading() {
    let fixture = Fixture::new("power.prom", "node_power_watts 300\n");
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    File::options().write(true).open(&fixture.path).unwrap().set_modified(hour_ago).unwrap();
    let mut bench = Bench::new(&fixture.spec("prometheus"));
    assert_eq!(bench.values(), [0.0; 0]);
    fixture.replace("node_power_watts 312\n");
    assert_eq!(bench.values(), [312.0]);
}

#[test]
fn a_metric_with_a_time_counts_once() {
    let fixture = Fixture::new("power.prom", "a_joules_total 0\n");
    let mut bench = Bench::new(&fixture.spec("prometheus"));
    assert_eq!(bench.sensor.channels()[0].signal, Signal::Energy);
    bench.sample();
    let time_ms = bench.clock.now().nanos_since_epoch() / 1_000_000 + 20;
    fixture.replace(&format!("a_joules_total 7 {time_ms}\n"));
    let batch = bench.sample();
    assert_eq!(values(&batch), [7.0]);
    assert_eq!(batch.readings[0].at, Timestamp::from_nanos_since_epoch(time_ms * 1_000_000));
    fixture.replace(&format!("a_joules_total 7 {time_ms}\n# again\n"));
    assert_eq!(bench.values(), [0.0; 0]);
}

#[test]
fn a_metric_whose_time_goes_backwards_is_skipped_and_reported_once() {
    let fixture = Fixture::new("power.prom", "a_watts 300\n");
    let mut bench = Bench::new(&fixture.spec("prometheus"));
    bench.sample();
    let now_ms = bench.clock.now().nanos_since_epoch() / 1_000_000 + 5000;
    let mut write = |text: String| {
        fixture.replace(&text);
        let batch = bench.sample();
        (values(&batch), kinds(&batch))
    };
    assert_eq!(write(format!("a_watts 312 {now_ms}\n")), (vec![312.0], vec![]));
    assert_eq!(write(format!("a_watts 5 {}\n", now_ms - 1000)), (vec![], vec![EventKind::ReadFailed]));
    assert_eq!(write(format!("a_watts 6 {}\n", now_ms - 999)), (vec![], vec![]));
    assert_eq!(write(format!("a_watts 313 {}\n", now_ms + 1000)), (vec![313.0], vec![]));
}

#[test]
fn an_ambiguous_or_large_file_is_an_error_when_opening() {
    let fixture = Fixture::new("power.prom", "a_watts{n=\"1\"} 5\na_watts{n=\"2\"} 6\n");
    assert!(open_error(&fixture.spec("prometheus")).contains("2 samples match"));
    assert_eq!(Bench::new(&fixture.spec("prometheus[metric='a_watts{n=\"2\"}']")).values(), [6.0]);
    fs::write(&fixture.path, format!("#{}\n", "x".repeat(2_000_000))).unwrap();
    assert!(open_error(&fixture.spec("prometheus")).contains("larger than 1 MiB"));
}
