//! CSV files that grow, are truncated and rotated.

use super::*;

#[test]
fn appended_rows_are_read_with_their_times() {
    let fixture = Fixture::new("meter.csv", "time,power_w\n1794730772,100\n");
    let mut bench = Bench::new(&fixture.spec("csv"));
    assert_eq!(bench.sensor.info().id, "csv:meter.csv");
    assert_eq!(bench.values(), [0.0; 0], "an old row is not a reading");
    let first = bench.time(-0.5);
    fixture.append(format!("{first},312\n{},31", bench.time(-0.25)));
    let batch = bench.sample();
    assert_eq!(values(&batch), [312.0], "half a line waits");
    let at = batch.readings[0].at.nanos_since_epoch() as f64 / 1e9;
    assert!((at - first.parse::<f64>().unwrap()).abs() < 0.01, "the row's own time");
    fixture.append("3\r\n");
    assert_eq!(bench.values(), [313.0]);
    assert_eq!(bench.values(), [0.0; 0]);
}

#[test]
fn the_last_row_counts_if_it_is_recent() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    let fixture = Fixture::new("meter.csv", &format!("time,power_w\n{:.3},312\n", now - 1.0));
    let mut bench = Bench::new(&fixture.spec("csv"));
    assert_eq!(bench.values(), [312.0]);
    assert_eq!(bench.values(), [0.0; 0]);
}

#[test]
fn rows_without_a_time_get_the_time_of_the_read() {
    let fixture = Fixture::new("meter.csv", "power_w\n");
    let mut bench = Bench::new(&fixture.spec("csv"));
    bench.sample();
    let before = bench.clock.now();
    fixture.append("300\n310\n");
    let batch = bench.sample();
    assert_eq!(values(&batch), [305.0]);
    assert!(batch.readings[0].after <= before && before <= batch.readings[0].at);
}

#[test]
fn malformed_rows_and_rows_out_of_order_are_reported_once() {
    let fixture = Fixture::new("meter.csv", "time,power_w\n");
    let mut bench = Bench::new(&fixture.spec("csv"));
    let (early, late) = (bench.time(-2.0), bench.time(-1.0));
    fixture.append(format!("{late},312\nfish\n{early},5\n\n{early},6\n").as_bytes());
    fixture.append(b"\xff\xfe,\xff\n");
    let batch = bench.sample();
    assert_eq!(values(&batch), [312.0]);
    assert_eq!(kinds(&batch), [EventKind::ReadFailed; 2]);
    fixture.append("fish\n");
    assert_eq!(bench.sample().events.len(), 0);
    let mut batch = Batch::default();
    bench.sensor.sample_last(&bench.clock, &mut batch).unwrap();
    assert!(
        batch.events[0].message.contains("skipped 3 rows without a reading and 2 rows out of order"),
        "{:?}",
        batch.events
    );
}

#[test]
fn a_line_that_is_too_long_is_dropped() {
    let fixture = Fixture::new("meter.csv", "power_w\n");
    let mut bench = Bench::new(&fixture.spec("csv"));
    fixture.append("9".repeat(100_000));
    assert_eq!(kinds(&bench.sample()), [EventKind::ReadFailed]);
    fixture.append("9\n312\n");
    assert_eq!(bench.values(), [312.0]);
}

#[test]
fn a_clock_in_another_time_zone_is_reported() {
    let fixture = Fixture::new("meter.csv", "time,power_w\n");
    let mut bench = Bench::new(&fixture.spec("csv"));
    fixture.append(format!("{},312\n", bench.time(3600.0)));
    let batch = bench.sample();
    assert_eq!(values(&batch), [0.0; 0]);
    assert!(batch.events[0].message.contains("3600 s ahead of this machine's clock"), "{:?}", batch.events);
}

#[test]
fn a_rotated_or_truncated_file_is_read_from_its_start() {
    let fixture = Fixture::new("meter.csv", "power_w\n100\n200\n");
    let mut bench = Bench::new(&fixture.spec("csv"));
    fixture.append("300\n");
    fixture.replace("volts,power_w\n230,310\n");
    // The rest of the old file and the new one: without times, the value is their mean.
    let batch = bench.sample();
    assert_eq!((values(&batch), kinds(&batch)), (vec![305.0], vec![EventKind::SamplesLost]));
    File::create(&fixture.path).unwrap().write_all(b"power_w\n").unwrap();
    assert_eq!(kinds(&bench.sample()), [EventKind::SamplesLost]);
    fixture.append("320\n");
    assert_eq!(bench.values(), [320.0]);
    fs::remove_file(&fixture.path).unwrap();
    assert_eq!(bench.sample().events.len(), 0, "the file is being rotated");
    fs::write(&fixture.path, "volts\n").unwrap();
    let batch = bench.sample();
    assert_eq!(kinds(&batch), [EventKind::SamplesLost, EventKind::ReadFailed], "the new file has no power column");
    fixture.append("230\n");
    assert_eq!(bench.values(), [0.0; 0], "volts are not watts");
}

#[test]
fn a_file_without_values_is_an_error_when_opening() {
    let fixture = Fixture::new("meter.csv", "volts,amperes\n230,1.5\n");
    assert!(open_error(&fixture.spec("csv")).contains("set value= to one of `volts`, `amperes`"));
    assert!(open_error(&fixture.spec("csv[value=watts]")).contains("no column `watts`"));
    fs::write(&fixture.path, "").unwrap();
    assert!(open_error(&fixture.spec("csv")).contains("start the program that writes the file first"));
    fs::write(&fixture.path, "power_w\nfish\n").unwrap();
    assert!(open_error(&fixture.spec("csv")).contains("`fish` is not a power or energy value"));
    fs::write(&fixture.path, "time,power_w\n0.1,300\n").unwrap();
    assert!(open_error(&fixture.spec("csv")).contains("use time=none"));
    assert!(open(&spec(&fixture.spec("csv[time=none]")), 0).is_ok());
    assert!(open_error("csv:/nonexistent/meter.csv").contains("cannot read /nonexistent/meter.csv"));
    assert!(open_error(&format!("csv:{}", fixture.folder.path().display())).contains("not a regular file"));
    fs::write(&fixture.path, [b"power_w\n".to_vec(), b"300\n".repeat(100_000)].concat()).unwrap();
    assert_eq!(Bench::new(&fixture.spec("csv")).values(), [0.0; 0], "a long history is skipped");
}
