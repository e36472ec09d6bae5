//! Measures how fast models run on this machine: load time, and prefill and decode in tokens per second. It measures
//! the demo models (on the calling thread only) and the model folders given as arguments. Each figure is the best of
//! several rounds, because the machine may be busy.

use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use ergometer_inference::{Demo, Model, ModelError, Prompt, Sampling};

/// How long each figure is measured.
const MEASURE_FOR: Duration = Duration::from_secs(2);
/// Maximum tokens of the answer; it may end earlier with an end-of-sequence token.
const ANSWER: usize = 150;
const PROBLEM: &str = "Add 1538 and 6544, showing the working. ";

fn main() -> Result<(), Box<dyn Error>> {
    println!("model        parameters  weights MB   load ms  prefill tok/s  decode tok/s");
    for demo in Demo::ALL {
        measure(|| Model::demo(demo))?;
    }
    for folder in std::env::args_os().skip(1) {
        measure(|| Model::load(Path::new(&folder)))?;
    }
    Ok(())
}

fn measure(load: impl FnOnce() -> Result<Model, ModelError>) -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    let model = load()?;
    let loaded = started.elapsed();
    let (long, short) = (model.encode(None, &PROBLEM.repeat(6)[..230])?, model.encode(None, PROBLEM.trim_end())?);
    let prefill = best(|| run(&model, &long, 1).map(|(tokens, _, first)| (tokens, first)))?;
    let decode = best(|| run(&model, &short, ANSWER).map(|(_, tokens, rest)| (tokens, rest)))?;
    let info = model.info();
    println!(
        "{:12} {:10} {:11.2} {:9.2} {prefill:14.0} {decode:13.0}",
        info.name,
        info.parameters,
        info.weight_bytes as f64 / 1e6,
        loaded.as_secs_f64() * 1e3,
    );
    Ok(())
}

/// Returns the tokens of the prompt, the tokens after the first, and a time: TTFT if `max_tokens` is 1, otherwise the
/// time after the first token.
fn run(model: &Model, prompt: &Prompt, max_tokens: usize) -> Result<(usize, usize, Duration), Box<dyn Error>> {
    let sampling = Sampling { max_tokens: Some(max_tokens), ..Sampling::default() };
    let started = Instant::now();
    let mut first = None;
    let generation = model.generate(prompt, &sampling, &mut |_| {
        first.get_or_insert_with(Instant::now);
        ControlFlow::Continue(())
    })?;
    let first = first.ok_or("the model generated no token")?;
    let time = if max_tokens == 1 { first - started } else { first.elapsed() };
    Ok((generation.input_tokens, generation.output_tokens - 1, time))
}

/// The highest tokens per second of all rounds.
fn best(mut run: impl FnMut() -> Result<(usize, Duration), Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let mut best = 0.0_f64;
    let started = Instant::now();
    while started.elapsed() < MEASURE_FOR {
        let (tokens, time) = run()?;
        best = best.max(tokens as f64 / time.as_secs_f64());
    }
    Ok(best)
}
