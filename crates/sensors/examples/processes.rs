//! Prints the busiest processes twice, a second apart, and how long it took to read them.

use std::thread;
use std::time::{Duration, Instant};

use ergometer_diagnostics::{CommandLine, Diagnostic};
use ergometer_sensors::processes::{Process, ProcessTable, ProcessWatch};
use ergometer_units::{Bytes, Seconds};

fn main() {
    let mut watch = ProcessWatch::start();
    for round in 0..2 {
        if round > 0 {
            thread::sleep(Duration::from_secs(1));
        }
        let started = Instant::now();
        let table = watch.sample();
        print(&table, started.elapsed());
    }
}

fn print(table: &ProcessTable, took: Duration) {
    let count = table.processes.len();
    println!(
        "{count} processes over {:.3} s on {} processors; reading them took {:.1} ms, {:.0} us a process",
        table.since_last.get(),
        table.processors.map_or_else(|| "-".to_owned(), |count| count.to_string()),
        took.as_secs_f64() * 1e3,
        took.as_secs_f64() * 1e6 / count.max(1) as f64,
    );
    println!("{:>8} {:<12} {:>8} {:>10} {:>9}  {:<16} command", "id", "user", "cpu s", "total s", "memory", "name");
    let mut processes: Vec<&Process> = table.processes.iter().collect();
    let busy =
        |process: &Process| (!process.gpus.is_empty(), process.cpu.or(process.cpu_total).map_or(0.0, Seconds::get));
    processes.sort_by(|a, b| busy(b).partial_cmp(&busy(a)).unwrap_or(std::cmp::Ordering::Equal));
    for process in processes.into_iter().take(20) {
        print_process(process);
    }
    for note in &table.notes {
        println!("note: {}", note.one_line(&CommandLine));
    }
    println!();
}

fn print_process(process: &Process) {
    let seconds = |time: Option<Seconds>| time.map_or_else(|| "-".to_owned(), |time| format!("{:.2}", time.get()));
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    println!(
        "{:>8} {:<12} {:>8} {:>10} {:>9}  {:<16} {:.60}",
        process.id,
        text(&process.user),
        seconds(process.cpu),
        seconds(process.cpu_total),
        mebibytes(process.memory),
        text(&process.name),
        text(&process.command),
    );
    for gpu in &process.gpus {
        let percent = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{share:.0} %"));
        println!(
            "         {}: {}, busy {}, memory busy {}",
            gpu.device,
            mebibytes(gpu.memory),
            percent(gpu.utilization_pct),
            percent(gpu.memory_utilization_pct)
        );
    }
}

fn mebibytes(bytes: Option<Bytes>) -> String {
    bytes.map_or_else(|| "-".to_owned(), |bytes| format!("{:.0} MiB", bytes.get() as f64 / f64::from(1 << 20)))
}
