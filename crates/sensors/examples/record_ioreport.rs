//! Records the energy counters of a Mac with Apple Silicon: prints samples of every channel of `IOReport`'s energy model,
//! 100 ms apart, in the format of `fixtures/apple`. The argument is how many, 60 where there is none.

use std::process::ExitCode;
use std::time::Duration;

use ergometer_sensors::apple::{self, Sample, Wanted};

const INTERVAL: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    let count = match std::env::args().nth(1).map(|count| count.parse::<usize>()) {
        None => 60,
        Some(Ok(count)) => count,
        Some(Err(error)) => {
            eprintln!("cannot take that many samples: {error}. hint: give a number, for example 60");
            return ExitCode::FAILURE;
        }
    };
    match record(count) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cannot record: {error}. hint: this works only on macOS, on a Mac with Apple Silicon");
            ExitCode::FAILURE
        }
    }
}

fn record(count: usize) -> std::io::Result<String> {
    let mut source = apple::open(Wanted::All)?;
    let mut samples: Vec<Sample> = Vec::new();
    for index in 0..count {
        if index > 0 {
            std::thread::sleep(INTERVAL);
        }
        samples.push(source.read()?);
    }
    Ok(serde_json::to_string_pretty(&samples)?)
}
