//! Records the energy counters of a Mac with Apple Silicon: prints samples of every channel of `IOReport`'s energy
//! model, 100 ms apart, in the format of `fixtures/apple`. The argument is the number of samples (default: 60).

use std::process::ExitCode;
use std::time::Duration;

use ergometer_sensors::apple::{self, ChannelSet, Sample};

const INTERVAL: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    let count = match std::env::args().nth(1).map(|count| count.parse::<usize>()) {
        None => 60,
        Some(Ok(count)) => count,
        Some(Err(error)) => {
            eprintln!("error: the number of samples is not a number: {error}\nhint: for example, pass 60");
            return ExitCode::FAILURE;
        }
    };
    match record(count) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: cannot record: {error}\nhint: run this on a Mac with Apple Silicon");
            ExitCode::FAILURE
        }
    }
}

fn record(count: usize) -> std::io::Result<String> {
    let mut source = apple::open(ChannelSet::All)?;
    let mut samples: Vec<Sample> = Vec::new();
    for index in 0..count {
        if index > 0 {
            std::thread::sleep(INTERVAL);
        }
        samples.push(source.read()?);
    }
    Ok(serde_json::to_string_pretty(&samples)?)
}
