//! Reads arbitrary bytes as files of a run folder. The first two bytes choose what is done with the run, the rest is
//! split into files. Other files are those of a small valid run.
//!
//! Reading must not panic or use more memory than the size of the files justifies. The same run must give the same
//! analyses each time, and a run that was finalized must be readable.

#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};

use ergometer::close::{ClosedRun, close};
use ergometer::journal::{JournalFolder, Manifest};
use ergometer_analysis::AnalysisError;
use ergometer_analysis::analyses::{self, Options};
use ergometer_analysis::compare::{self, compare, front};
use ergometer_analysis::curve::Curve;
use ergometer_analysis::plots::{self, Detail, PlotInput};
use ergometer_analysis::report::report;
use ergometer_charts::{Theme, svg};
use ergometer_fuzz::{Scratch, files};
use ergometer_runs::config::Slo;
use ergometer_runs::cost_model::RequestShape;
use ergometer_runs::saved::{Attempt, Run, Saved, Telemetry, Texts};
use ergometer_runs::{ReadError, Summary};
use libfuzzer_sys::fuzz_target;

/// The journal of the valid run.
const JOURNAL: [(&str, &[u8]); 4] = [
    ("run.json", include_bytes!("../run/run.json")),
    ("session-0.events.jsonl", include_bytes!("../run/session-0.events.jsonl")),
    ("session-0.readings.jsonl", include_bytes!("../run/session-0.readings.jsonl")),
    ("after.jsonl", include_bytes!("../run/after.jsonl")),
];

/// The files of a run folder by the byte in front of them.
const FILES: &[(u8, &str)] = &[
    (b's', "summary.json"),
    (b't', "state.json"),
    (b'd', "data-00000-of-00001.arrow"),
    (b'r', "requests.parquet"),
    (b'p', "telemetry.parquet"),
    (b'w', "sweep.json"),
    (b'm', "journal/run.json"),
    (b'e', "journal/session-0.events.jsonl"),
    (b'f', "journal/session-1.events.jsonl"),
    (b'g', "journal/session-0.readings.jsonl"),
    (b'h', "journal/session-1.readings.jsonl"),
    (b'a', "journal/after.jsonl"),
];

static RUNS: LazyLock<Mutex<Runs>> = LazyLock::new(|| Mutex::new(Runs::new()));

/// The valid run in the folder `valid`, and the run of the input in the folder `run`.
struct Runs {
    scratch: Scratch,
    /// The content of each of [`FILES`] in the valid run.
    valid: Vec<Option<Vec<u8>>>,
    /// The places in [`FILES`] that the last input changed.
    changed: Vec<usize>,
}

impl Runs {
    fn new() -> Self {
        let scratch = Scratch::new();
        for (name, bytes) in JOURNAL {
            scratch.write(&format!("valid/journal/{name}"), with_hash(bytes).as_deref().unwrap_or(bytes));
        }
        let folder = scratch.path("valid");
        close(&folder).expect("the valid run can be finalized");
        let valid = FILES.iter().map(|(_, name)| fs::read(folder.join(name)).ok()).collect();
        scratch.clear("run");
        scratch.clear("run/journal");
        Self { scratch, valid, changed: (0..FILES.len()).collect() }
    }

    /// Writes the files of an input and returns the folder. Later files replace earlier files of the same name.
    fn write(&mut self, input: &[u8]) -> PathBuf {
        for place in std::mem::take(&mut self.changed) {
            self.put(place, self.valid[place].as_deref());
        }
        for (letter, content) in files(input) {
            let Some(place) = FILES.iter().position(|(known, _)| *known == letter) else { continue };
            let manifest = (letter == b'm').then(|| with_hash(content)).flatten();
            self.put(place, Some(manifest.as_deref().unwrap_or(content)));
            self.changed.push(place);
        }
        self.scratch.path("run")
    }

    fn put(&self, place: usize, content: Option<&[u8]>) {
        let name = format!("run/{}", FILES[place].1);
        match content {
            Some(content) => {
                self.scratch.write(&name, content);
            }
            None => {
                let _ = fs::remove_file(self.scratch.path(&name));
            }
        }
    }

    /// Notes that all files were written again.
    fn all_changed(&mut self) {
        self.changed = (0..FILES.len()).collect();
    }
}

/// A manifest with the correct hash of its configuration, which an input cannot guess.
fn with_hash(content: &[u8]) -> Option<Vec<u8>> {
    let mut manifest: Manifest = serde_json::from_slice(content).ok()?;
    manifest.config_hash = Manifest::hash_of(&manifest.config).ok()?;
    serde_json::to_vec(&manifest).ok()
}

fuzz_target!(|data: &[u8]| {
    let [choice, option, input @ ..] = data else { return };
    let (choice, option) = (usize::from(*choice % 32), Choice(*option));
    let mut runs = RUNS.lock().expect("a panic ends the process");
    let folder = runs.write(input);
    let valid = runs.scratch.path("valid");
    // An error is a result like any other.
    let _ = match choice {
        0..16 => analyze(&folder, choice % analyses::ALL.len(), option),
        16..24 => plot(&folder, choice % plots::ALL.len()),
        24 => read(&folder),
        25 => write_report(&folder),
        26 | 27 => compare_runs(&valid, &folder, option),
        _ => {
            runs.all_changed();
            finalize(&folder, option)
        }
    };
});

/// Bits that choose between two ways.
#[derive(Clone, Copy)]
struct Choice(u8);

impl Choice {
    fn has(self, bit: u8) -> bool {
        self.0 >> bit & 1 == 1
    }
}

/// Reads every file, as `analyze` and `report` do in part.
fn read(folder: &Path) -> Result<(), AnalysisError> {
    let run = Run::open(folder)?;
    let summary = serde_json::to_value(&run.summary).expect("a summary is JSON");
    let same = Summary::from_value(summary.clone()).expect("a summary that was written");
    assert_eq!(serde_json::to_value(same).ok(), Some(summary));
    let texts = Texts::read(&run, &(0..run.queries.len().min(20)).collect::<Vec<_>>(), 9)?;
    assert_eq!(texts.len(), run.queries.len().min(20));
    Attempt::each(folder, |_, _| {})?;
    let telemetry = Telemetry::read(folder, &["energy", "power_ring", "power_modelled", "temperature"])?;
    for channel in &telemetry.channels {
        assert!(channel.at_ns.len() == channel.values.len() && channel.at_ns.is_sorted());
    }
    Ok(())
}

fn analyze(folder: &Path, place: usize, option: Choice) -> Result<(), AnalysisError> {
    let run = match Saved::open(folder)? {
        Saved::Run(run) => *run,
        Saved::Sweep(sweep) => {
            let _ = Curve::from_sweep(&sweep.sweep).findings();
            let _ = sweep.labels();
            return Ok(());
        }
    };
    let limits = Slo { ttft_s: Some(0.02), tpot_s: Some(0.002), itl_s: Some(0.002), ..Slo::default() };
    let shape = RequestShape { input: 700.0, output: 90.0, concurrency: 32.0 };
    let options = Options {
        limits: option.has(0).then_some(limits),
        skip_zeroes: option.has(1),
        seed: 1,
        predict: option.has(0).then_some(shape).into_iter().collect(),
    };
    let analysis = analyses::ALL[place];
    let findings = analysis.run(&run, &options)?;
    let text = serde_json::to_string(&findings.artifact(analysis.id())).expect("findings are JSON");
    if option.has(2) {
        let again = analysis.run(&Run::open(folder)?, &options)?;
        assert_eq!(text, serde_json::to_string(&again.artifact(analysis.id())).expect("findings are JSON"));
        assert_eq!(findings.tables, again.tables);
    }
    Ok(())
}

fn open(folder: &Path, detail: Detail) -> Result<PlotInput, ReadError> {
    Ok(match Saved::open(folder)? {
        Saved::Run(run) => PlotInput::new(vec![*run], Vec::new(), detail),
        Saved::Sweep(sweep) => PlotInput::new(sweep.runs()?, vec![*sweep], detail),
    })
}

fn plot(folder: &Path, place: usize) -> Result<(), AnalysisError> {
    for chart in plots::ALL[place].draw(&open(folder, Detail::Still)?)? {
        assert!(svg(&chart, Theme::Light).starts_with("<svg"));
    }
    Ok(())
}

fn write_report(folder: &Path) -> Result<(), AnalysisError> {
    let input = open(folder, Detail::Page)?;
    let page = report(&input, &Options::default())?;
    assert!(page.html().ends_with("</html>\n"));
    Ok(())
}

fn compare_runs(valid: &Path, folder: &Path, option: Choice) -> Result<(), AnalysisError> {
    let mut runs = vec![Run::open(valid)?];
    runs.extend(Saved::open(folder)?.runs()?);
    if option.has(0) {
        runs.rotate_left(1);
    }
    let options = compare::Options { draws: 50, ..compare::Options::default() };
    let comparison = compare(&runs, &options)?;
    assert!(serde_json::to_string(&comparison).is_ok() && !comparison.tables().is_empty());
    let _ = front(&runs);
    Ok(())
}

/// Derives the files from the journal. They must be readable, and the same each time.
fn finalize(folder: &Path, option: Choice) -> Result<(), AnalysisError> {
    let Ok(ClosedRun { summary, warnings, .. }) = close(folder) else { return Ok(()) };
    let run = Run::open(folder).expect("a run that was finalized");
    let of_file = |mut summary: Summary| {
        summary.generated_at = 0.0;
        serde_json::to_value(summary).expect("a summary is JSON")
    };
    let written = of_file(summary);
    assert_eq!(written, of_file(run.summary.clone()));
    assert_eq!(run.queries.len() as u64, run.summary.total_queries);
    read(folder).expect("a run that was finalized");
    let journal = JournalFolder::of_run(folder);
    let ended = |session: u32| journal.events(session).map_or(0, |events| events.requests.len() + events.lost.len());
    let mut attempts = 0;
    Attempt::each(folder, |_, _| attempts += 1).expect("a run that was finalized");
    assert_eq!(attempts, [0, 1].map(ended).into_iter().sum::<usize>());
    if option.has(0) {
        let again = close(folder).expect("a run that was finalized");
        assert_eq!((of_file(again.summary), again.warnings), (written, warnings));
    }
    Ok(())
}
