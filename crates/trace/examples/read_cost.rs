//! Compares the time of reading a trace with the minimum: a walk over every field of the file on one core.
//!
//! `cargo run --release -p ergometer-trace --example read_cost -- FILE…`

use std::path::Path;
use std::time::Instant;

use ergometer_trace::accounting::{By, Filter, rows};
use ergometer_trace::{KeepIds, ReadOptions, Reading, Source, read};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args_os().skip(1) {
        let open = || Source::open(Path::new(&path), &Reading::default());
        let source = open()?;
        let size = source.bytes().len() as f64;
        let (walk, fields) = fastest(|| walk(source.bytes(), &SPACE));
        println!("{}: {:.1} MB, {fields} fields", path.display(), size / 1e6);
        let print = |what: &str, seconds: f64| {
            println!(
                "  {what:36} {:7.1} ms  {:5.2} GB/s  {:4.2} x the walk",
                seconds * 1e3,
                size / seconds / 1e9,
                seconds / walk
            );
        };
        print("walk over every field, one core", walk);
        for (what, ids) in [("events", KeepIds::No), ("events and ids", KeepIds::Yes)] {
            let options = ReadOptions { ids, ..ReadOptions::default() };
            let (seconds, trace) = fastest(|| open().map(|source| read(vec![source], &options)));
            print(&format!("read {what}, all cores"), seconds);
            let trace = trace??;
            let (seconds, _) = fastest(|| rows(&trace, By::Op, &Filter::default()).len());
            print(&format!("account for {} events", trace.event_count()), seconds);
        }
    }
    Ok(())
}

/// The result and the time of the fastest of ten rounds, which other processes disturbed least.
fn fastest<T>(mut work: impl FnMut() -> T) -> (f64, T) {
    let mut round = || {
        let start = Instant::now();
        let done = work();
        (start.elapsed().as_secs_f64(), done)
    };
    let mut best = round();
    for _ in 0..9 {
        let next = round();
        if next.0 < best.0 {
            best = next;
        }
    }
    best
}

/// The fields of a message that are messages.
struct Shape {
    inner: &'static [(u64, &'static Shape)],
}

static STAT: Shape = Shape { inner: &[] };
static EVENT: Shape = Shape { inner: &[(4, &STAT)] };
static LINE: Shape = Shape { inner: &[(4, &EVENT)] };
static PLANE: Shape = Shape { inner: &[(3, &LINE)] };
static SPACE: Shape = Shape { inner: &[(1, &PLANE)] };

/// Counts the fields of a message, including nested messages.
fn walk(bytes: &[u8], shape: &Shape) -> u64 {
    let (mut at, mut count) = (0, 0);
    while at < bytes.len() {
        let tag = number(bytes, &mut at);
        count += 1;
        match tag & 7 {
            0 => {
                number(bytes, &mut at);
            }
            1 => at += 8,
            2 => {
                let length = usize::try_from(number(bytes, &mut at)).unwrap_or(usize::MAX);
                let end = at.saturating_add(length).min(bytes.len());
                if let Some((_, inner)) = shape.inner.iter().find(|(number, _)| *number == tag >> 3) {
                    count += walk(&bytes[at..end], inner);
                }
                at = end;
            }
            _ => at += 4,
        }
    }
    count
}

fn number(bytes: &[u8], at: &mut usize) -> u64 {
    let (mut value, mut shift) = (0, 0);
    while let Some(&byte) = bytes.get(*at) {
        *at += 1;
        value |= u64::from(byte & 0x7f) << (shift & 63);
        shift += 7;
        if byte < 0x80 {
            break;
        }
    }
    value
}
