//! How fast the demo models run on this machine: prints the time to load, and tokens a second of prefill and decode on
//! the calling thread. Each figure is the best of several tries, as the machine may have other work.

use std::error::Error;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use ergometer_inference::{Demo, Model, Prompt, Sampling};

/// A figure is the best of so many.
const TRIES: usize = 200;
/// Tokens of the answer; the end-of-sequence token may come before.
const ANSWER: usize = 150;

fn main() -> Result<(), Box<dyn Error>> {
    println!("model  parameters  weights MB   load ms  prefill tok/s  decode tok/s");
    for demo in Demo::ALL {
        let started = Instant::now();
        let model = Model::demo(demo)?;
        let loaded = started.elapsed();
        let long = model.encode(None, &"Add 1538 and 6544, showing the working. ".repeat(6)[..230])?;
        let prefill = best(|| run(&model, &long, 1).map(|(tokens, _, first)| (tokens, first)))?;
        let short = model.encode(None, "Add 1538 and 6544, showing the working.")?;
        let decode = best(|| run(&model, &short, ANSWER).map(|(_, tokens, rest)| (tokens, rest)))?;
        let info = model.info();
        println!(
            "{:5} {:11} {:11.2} {:9.2} {prefill:14.0} {decode:13.0}",
            info.name,
            info.parameters,
            info.weight_bytes as f64 / 1e6,
            loaded.as_secs_f64() * 1e3,
        );
    }
    Ok(())
}

/// Tokens that went in; tokens after the first; the time to the first where only one is wanted, else from it on.
fn run(model: &Model, prompt: &Prompt, most: usize) -> Result<(usize, usize, Duration), Box<dyn Error>> {
    let sampling = Sampling { max_tokens: Some(most), ..Sampling::default() };
    let started = Instant::now();
    let mut first = None;
    let generation = model.generate(prompt, &sampling, &mut |_| {
        first.get_or_insert_with(Instant::now);
        ControlFlow::Continue(())
    })?;
    let first = first.ok_or("no token came")?;
    let time = if most == 1 { first - started } else { first.elapsed() };
    Ok((generation.input_tokens, generation.output_tokens - 1, time))
}

/// The most tokens a second of all tries.
fn best(mut run: impl FnMut() -> Result<(usize, Duration), Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let mut best = 0.0_f64;
    for _ in 0..TRIES {
        let (tokens, time) = run()?;
        best = best.max(tokens as f64 / time.as_secs_f64());
    }
    Ok(best)
}
