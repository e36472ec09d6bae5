//! A run: `summary.json` and the records, without their texts.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Component, Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use ergometer_units::Timestamp;
use serde_json::Value;

use super::columns::Column;
use super::query::{Energy, Outcome, Phases, Query};
use super::summary::Summary;
use crate::AnalysisError;

/// A saved run.
#[derive(Debug)]
pub struct Run {
    /// Where it is.
    pub folder: PathBuf,
    /// What it came to.
    pub summary: Summary,
    /// Its queries, in the order of the records.
    pub queries: Vec<Query>,
    /// What its queries are about.
    pub subjects: Vec<String>,
    /// Where its joules come from; `None` where it has none.
    pub energy: Option<EnergySource>,
    /// How many numbers of the records are NaN or infinite. They count as absent.
    pub not_finite: u64,
}

/// Where the joules of a run come from. They are never added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnergySource {
    /// A sensor.
    Measured,
    /// The use of the processor.
    Modelled,
}

impl EnergySource {
    /// As `summary.json` has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Modelled => "modelled",
        }
    }
}

impl Run {
    /// Reads the run in a folder.
    pub fn open(folder: &Path) -> Result<Self, AnalysisError> {
        let summary = Summary::open(folder)?;
        let source = |name: &str| summary.at(&format!("/energy/{name}")).is_some();
        let energy = match (source("measured"), source("modelled")) {
            (true, _) => Some(EnergySource::Measured),
            (false, true) => Some(EnergySource::Modelled),
            (false, false) => None,
        };
        let mut records = Records { energy, ..Records::default() };
        for file in data_files(folder)? {
            records.read(&file, summary.text("/model"))?;
        }
        let Records { queries, subjects, energy, not_finite, .. } = records;
        Ok(Self { folder: folder.to_path_buf(), summary, queries, subjects: subjects.names, energy, not_finite })
    }

    /// The name of its folder.
    #[must_use]
    pub fn name(&self) -> String {
        let whole = self.folder.canonicalize();
        let path = whole.as_deref().unwrap_or(&self.folder);
        path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
    }

    /// What a query is about.
    #[must_use]
    pub fn subject(&self, query: &Query) -> &str {
        self.subjects.get(query.subject as usize).map_or("", String::as_str)
    }

    /// Its queries that have an answer.
    pub fn completed(&self) -> impl Iterator<Item = &Query> {
        self.queries.iter().filter(|query| query.is_completed())
    }

    /// How many requests were in flight on average, at least 1.
    #[must_use]
    pub fn mean_in_flight(&self) -> f64 {
        let busy: f64 = self.queries.iter().filter_map(|query| query.total_s).sum();
        let whole = self.summary.number("/duration_s").filter(|&seconds| seconds > 0.0);
        self.summary.number("/load/in_flight/mean").or(whole.map(|whole| busy / whole)).unwrap_or(1.0).max(1.0)
    }

    /// How many neighbours are drawn together when queries are resampled: one where they ran one at a time, else about
    /// twice as many as ran together.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some thousands at most")]
    pub fn block(&self) -> usize {
        let together = self.mean_in_flight();
        if together <= 1.05 { 1 } else { (2.0 * together).ceil().min(1e6) as usize }
    }

    /// A number of the summary's energy that counts, as `gross_j_per_query`.
    #[must_use]
    pub fn energy_path(&self, field: &str) -> Option<String> {
        self.energy.map(|source| format!("/energy/{}/{field}", source.name()))
    }
}

impl Summary {
    /// Reads that of the run in a folder.
    pub fn open(folder: &Path) -> Result<Self, AnalysisError> {
        check_folder(folder)?;
        Self::read(folder)
    }
}

/// Says what is wrong with a folder that has no results.
fn check_folder(folder: &Path) -> Result<(), AnalysisError> {
    if folder.join("summary.json").is_file() {
        return Ok(());
    }
    let path = folder.to_path_buf();
    let why = match fs::metadata(folder) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => "there is nothing at this path",
        Err(cause) => return Err(AnalysisError::Io { doing: "read", path, cause }),
        Ok(found) if !found.is_dir() => "it is a file",
        Ok(_) if folder.join("journal").is_dir() => return Err(AnalysisError::NotClosed { path }),
        Ok(_) => "summary.json is not in it",
    };
    Err(AnalysisError::NotARun { path, why: why.to_owned() })
}

/// The files of the records of a run, as `state.json` names them.
pub fn data_files(folder: &Path) -> Result<Vec<PathBuf>, AnalysisError> {
    let path = folder.join("state.json");
    let text = fs::read(&path).map_err(AnalysisError::io("read", &path))?;
    let state: Value = serde_json::from_slice(&text).map_err(AnalysisError::damaged(&path))?;
    let names = state["_data_files"].as_array().into_iter().flatten().map(|file| file["filename"].as_str());
    let files: Option<Vec<PathBuf>> = names.map(|name| inside(folder, name?)).collect();
    match files {
        Some(files) if !files.is_empty() => Ok(files),
        _ => Err(AnalysisError::Damaged { path, what: String::from("it names no file of records in its folder") }),
    }
}

/// A file or a folder by its name; `None` for a name that leads elsewhere.
pub(super) fn inside(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut parts = Path::new(name).components();
    let is_name = matches!(parts.next(), Some(Component::Normal(_))) && parts.next().is_none();
    is_name.then(|| folder.join(name))
}

/// Names with their places.
#[derive(Debug, Default)]
struct Names {
    names: Vec<String>,
    places: HashMap<String, u32>,
}

impl Names {
    fn place(&mut self, name: &str) -> u32 {
        if let Some(&place) = self.places.get(name) {
            return place;
        }
        let place = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name.to_owned());
        self.places.insert(name.to_owned(), place);
        place
    }
}

/// What was read so far.
#[derive(Debug, Default)]
struct Records {
    queries: Vec<Query>,
    subjects: Names,
    energy: Option<EnergySource>,
    not_finite: u64,
    model: Option<String>,
}

impl Records {
    fn read(&mut self, path: &Path, model: Option<&str>) -> Result<(), AnalysisError> {
        let file = File::open(path).map_err(AnalysisError::io("read", path))?;
        let damaged = AnalysisError::damaged(path);
        let whole = StreamReader::try_new(BufReader::new(file), None).map_err(&damaged)?;
        let schema = whole.schema();
        self.model = model_in(&schema, model);
        // Texts of problems and answers are most of the bytes, and nobody asks for them here.
        let wanted = ["subject", "model_metrics", "ergometer"];
        let places = wanted.iter().filter_map(|name| schema.index_of(name).ok()).collect();
        drop(whole);
        let file = File::open(path).map_err(AnalysisError::io("read", path))?;
        for batch in StreamReader::try_new(BufReader::new(file), Some(places)).map_err(&damaged)? {
            self.push(&batch.map_err(&damaged)?);
        }
        Ok(())
    }

    fn push(&mut self, batch: &RecordBatch) {
        let model = self.model.clone().unwrap_or_default();
        let metric = |path: &[&str]| {
            let whole: Vec<&str> = ["model_metrics", &model].into_iter().chain(path.iter().copied()).collect();
            Column::of(batch, &whole)
        };
        let own = |path: &[&str]| {
            let whole: Vec<&str> = ["ergometer"].into_iter().chain(path.iter().copied()).collect();
            Column::of(batch, &whole)
        };
        let subject = Column::of(batch, &["subject"]);
        let [request, index, session, attempts] =
            ["request", "query_index", "session", "attempts"].map(|name| own(&[name]));
        let [scheduled, sent, first_token, last_token, end] =
            ["scheduled_ns", "sent_ns", "first_token_ns", "last_token_ns", "end_ns"].map(|name| own(&[name]));
        let outcome = own(&["outcome"]);
        let [input, output, total] = ["input", "output", "total"].map(|name| metric(&["token_metrics", name]));
        let ttft = metric(&["latency_metrics", "time_to_first_token_seconds"]);
        let total_s = metric(&["latency_metrics", "total_query_seconds"]);
        let gpu_joules = metric(&["energy_metrics", "per_query_joules"]);
        let watts =
            ["avg", "median", "max", "min"].map(|name| metric(&["power_metrics", "gpu", "per_query_watts", name]));
        let phases = ["prefill_energy_j", "decode_energy_j", "prefill_duration_ms", "decode_duration_ms"]
            .map(|name| metric(&["phase_metrics", name]));
        let temperature = metric(&["temperature_metrics", "avg"]);
        let correct = metric(&["lm_correctness"]);
        let cost = metric(&["cost", "total_cost_usd"]);
        let source = self.energy.map_or("measured", EnergySource::name);
        let gross = ["joules", "low", "high"].map(|name| own(&["energy", source, "gross", name]));
        let net = own(&["energy", source, "net", "joules"]);
        for row in 0..batch.num_rows() {
            let at = |column: &Column| column.integer(row).map(Timestamp::from_nanos_since_epoch);
            let has_energy = || {
                let gross_j = gross[0].number(row)?;
                let (low, high) = (gross[1].number(row).unwrap_or(gross_j), gross[2].number(row).unwrap_or(gross_j));
                Some(Energy { gross: gross_j, low, high, net: net.number(row) })
            };
            // Runs of other tools have no column of ours: the GPU's energy is all there is.
            let energy = if gross[0].is_there() {
                has_energy()
            } else {
                gpu_joules.number(row).map(|joules| Energy { gross: joules, low: joules, high: joules, net: None })
            };
            let [prefill_j, decode_j, prefill_ms, decode_ms] = [0, 1, 2, 3].map(|place| phases[place].number(row));
            self.queries.push(Query {
                request: request.count(row).unwrap_or(self.queries.len() as u64),
                index: index.count(row).unwrap_or(self.queries.len() as u64),
                session: session.count(row).and_then(|session| u32::try_from(session).ok()).unwrap_or(0),
                subject: self.subjects.place(subject.text(row).unwrap_or("")),
                outcome: if outcome.text(row) == Some("failed") { Outcome::Failed } else { Outcome::Completed },
                attempts: attempts.count(row).unwrap_or(1),
                scheduled: at(&scheduled),
                sent: at(&sent),
                first_token: at(&first_token),
                last_token: at(&last_token),
                end: at(&end),
                input_tokens: input.count(row),
                output_tokens: output.count(row),
                total_tokens: total.count(row),
                ttft_s: ttft.number(row),
                total_s: total_s.number(row),
                gpu_joules: gpu_joules.number(row),
                gpu_watts: watts.iter().find_map(|watts| watts.number(row)),
                energy,
                phases: Phases {
                    prefill_j,
                    decode_j,
                    prefill_s: prefill_ms.map(|time_ms| time_ms / 1e3),
                    decode_s: decode_ms.map(|time_ms| time_ms / 1e3),
                },
                temperature_c: temperature.number(row),
                correct: correct.boolean(row),
                cost_usd: cost.number(row),
            });
        }
        let floats = [&ttft, &total_s, &gpu_joules, &temperature, &cost, &net];
        let floats = floats.into_iter().chain(&watts).chain(&phases).chain(&gross);
        self.not_finite += floats.map(Column::not_finite).sum::<u64>();
        if self.energy.is_none() && self.queries.iter().any(|query| query.energy.is_some()) {
            self.energy = Some(EnergySource::Measured);
        }
    }
}

/// The model whose metrics the records have: the one that is named, else the first.
pub(super) fn model_in(schema: &arrow_schema::Schema, named: Option<&str>) -> Option<String> {
    let arrow_schema::DataType::Struct(models) = schema.field_with_name("model_metrics").ok()?.data_type() else {
        return None;
    };
    let is_named = |model: &&arrow_schema::FieldRef| Some(model.name().as_str()) == named;
    models.iter().find(is_named).or(models.first()).map(|model| model.name().clone())
}
