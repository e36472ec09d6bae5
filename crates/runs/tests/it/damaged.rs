//! Damaged files of a run are errors: nothing panics, and no panic is printed.

use std::cell::Cell;
use std::fs;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Once;

use ergometer_runs::ReadError;
use ergometer_runs::saved::{Attempt, Run, Telemetry, Texts};
use ergometer_runs::store::{REQUESTS_FILE, TELEMETRY_FILE};

const RECORDS_FILE: &str = "data-00000-of-00001.arrow";

thread_local! {
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

/// Counts the panics of this thread that a user would see.
fn count_printed_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let next = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            PANICS.set(PANICS.get() + 1);
            next(info);
        }));
    });
}

/// A copy of a small run.
fn copied_run() -> tempfile::TempDir {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs/v0_1_0_one");
    let folder = tempfile::tempdir().unwrap();
    for name in ["summary.json", "state.json", RECORDS_FILE, REQUESTS_FILE, TELEMETRY_FILE] {
        fs::copy(run.join(name), folder.path().join(name)).unwrap();
    }
    folder
}

/// Cuts a file of a run and changes its bytes, every `step` bytes, and reads it each time.
fn damage(name: &str, step: usize, read: impl Fn(&Path) -> Result<(), ReadError>) {
    count_printed_panics();
    let folder = copied_run();
    let path: PathBuf = folder.path().join(name);
    let whole = fs::read(&path).unwrap();
    read(folder.path()).unwrap();
    let mut errors = 0;
    let mut check = |bytes: &[u8], what: &dyn Fn() -> String| {
        fs::write(&path, bytes).unwrap();
        if let Err(error) = read(folder.path()) {
            let text = error.to_string();
            let expected = format!("{} is damaged: ", path.display());
            assert!(text.starts_with(&expected), "{}: {text}", what());
            errors += 1;
        }
        assert_eq!(PANICS.take(), 0, "{}: a panic is printed", what());
    };
    // The first kilobyte has the schema, or the first pages.
    let places = || (0..1024).step_by(3).chain((1024..whole.len()).step_by(step));
    let mut bytes = whole.clone();
    for place in places() {
        let other = if place % 2 == 0 { 0xff } else { whole[place] ^ 0x80 };
        bytes[place] = other;
        check(&bytes, &|| format!("{name} with {other:#04x} at {place}"));
        bytes[place] = whole[place];
    }
    for length in places().step_by(5) {
        check(&whole[..length], &|| format!("{name} cut at {length}"));
    }
    assert!(errors > 100, "{name}: {errors} errors");
}

#[test]
fn damaged_records_are_errors() {
    damage(RECORDS_FILE, 211, |folder| {
        let run = Run::open(folder)?;
        Texts::read(&run, &[0, 1, 2], 100).map(drop)
    });
}

#[test]
fn damaged_requests_are_errors() {
    damage(REQUESTS_FILE, 37, |folder| Attempt::each(folder, |_, _| {}));
}

#[test]
fn damaged_telemetry_is_an_error() {
    damage(TELEMETRY_FILE, 61, |folder| Telemetry::read(folder, &["power", "temperature"]).map(drop));
}

#[test]
fn records_without_the_columns_of_a_run_are_an_error() {
    let folder = copied_run();
    let path = folder.path().join(RECORDS_FILE);
    let mut bytes = fs::read(&path).unwrap();
    for name in ["subject", "model_metrics", "ergometer"] {
        let place = bytes.windows(name.len()).position(|window| window == name.as_bytes()).unwrap();
        bytes[place] = b'x';
    }
    fs::write(&path, &bytes).unwrap();
    let error = Run::open(folder.path()).unwrap_err().to_string();
    assert!(error.ends_with("is damaged: it has none of the columns subject, model_metrics, ergometer"), "{error}");
}
