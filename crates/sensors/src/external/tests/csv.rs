//! Real tables that grow, are cut and rotated.

use super::*;

#[test]
fn a_table_gives_the_rows_that_are_appended_with_their_times() {
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
fn the_last_row_counts_where_it_is_fresh() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    let fixture = Fixture::new("meter.csv", &format!("time,power_w\n{:.3},312\n", now - 1.0));
    let mut bench = Bench::new(&fixture.spec("csv"));
    assert_eq!(bench.values(), [312.0]);
    assert_eq!(bench.values(), [0.0; 0]);
}

#[test]
fn rows_without_a_time_have_that_of_the_look() {
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
fn garbage_and_rows_out_of_order_are_told_once() {
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
    assert!(batch.events[0].message.contains("3 rows were no readings and 2 were out of order"), "{:?}", batch.events);
}

#[test]
fn a_line_without_end_is_thrown_away() {
    let fixture = Fixture::new("meter.csv", "power_w\n");
    let mut bench = Bench::new(&fixture.spec("csv"));
    fixture.append("9".repeat(100_000));
    assert_eq!(kinds(&bench.sample()), [EventKind::ReadFailed]);
    fixture.append("9\n312\n");
    assert_eq!(bench.values(), [312.0]);
}

#[test]
fn a_clock_of_another_time_zone_is_told() {
    let fixture = Fixture::new("meter.csv", "time,power_w\n");
    let mut bench = Bench::new(&fixture.spec("csv"));
    fixture.append(format!("{},312\n", bench.time(3600.0)));
    let batch = bench.sample();
    assert_eq!(values(&batch), [0.0; 0]);
    assert!(batch.events[0].message.contains("3600 s ahead of this machine's"), "{:?}", batch.events);
}

#[test]
fn a_table_that_is_rotated_or_cut_is_read_from_its_start() {
    let fixture = Fixture::new("meter.csv", "power_w\n100\n200\n");
    let mut bench = Bench::new(&fixture.spec("csv"));
    fixture.append("300\n");
    fixture.replace("volts,power_w\n230,310\n");
    // What the old file had to the end, and the new one: without times, their mean.
    let batch = bench.sample();
    assert_eq!((values(&batch), kinds(&batch)), (vec![305.0], vec![EventKind::SamplesLost]));
    File::create(&fixture.path).unwrap().write_all(b"power_w\n").unwrap();
    assert_eq!(kinds(&bench.sample()), [EventKind::SamplesLost]);
    fixture.append("320\n");
    assert_eq!(bench.values(), [320.0]);
    fs::remove_file(&fixture.path).unwrap();
    assert_eq!(bench.sample().events.len(), 0, "between the steps of a rotation");
    fs::write(&fixture.path, "volts\n").unwrap();
    let batch = bench.sample();
    assert_eq!(kinds(&batch), [EventKind::SamplesLost, EventKind::ReadFailed], "the new one has no such column");
    fixture.append("230\n");
    assert_eq!(bench.values(), [0.0; 0], "volts are no watts");
}

#[test]
fn a_table_that_is_none_is_refused() {
    let fixture = Fixture::new("meter.csv", "volts,amperes\n230,1.5\n");
    assert!(refused(&fixture.spec("csv")).contains("give value= one of `volts`, `amperes`"));
    assert!(refused(&fixture.spec("csv[value=watts]")).contains("no column `watts`"));
    fs::write(&fixture.path, "").unwrap();
    assert!(refused(&fixture.spec("csv")).contains("start the meter first"));
    fs::write(&fixture.path, "power_w\nfish\n").unwrap();
    assert!(refused(&fixture.spec("csv")).contains("`fish` is no value"));
    fs::write(&fixture.path, "time,power_w\n0.1,300\n").unwrap();
    assert!(refused(&fixture.spec("csv")).contains("time=none leaves it out"));
    assert!(open(&spec(&fixture.spec("csv[time=none]")), 0).is_ok());
    assert!(refused("csv:/nonexistent/meter.csv").contains("cannot read /nonexistent/meter.csv"));
    assert!(refused(&format!("csv:{}", fixture.folder.path().display())).contains("no plain file"));
    fs::write(&fixture.path, [b"power_w\n".to_vec(), b"300\n".repeat(100_000)].concat()).unwrap();
    assert_eq!(Bench::new(&fixture.spec("csv")).values(), [0.0; 0], "a long history is skipped");
}
