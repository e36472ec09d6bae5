//! Reads `summary.json` and the records of a run, without their texts.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use ergometer_columnar::read_stream;
use ergometer_units::Timestamp;

use super::columns::Column;
use super::query::{Attribution, Energy, Outcome, Phases, Query};
use crate::column_names as names;
use crate::folder::record_files;
use crate::summary::EnergyTotals;
use crate::{EnergySource, ReadError, Summary, regular_file};

/// A saved run.
#[derive(Debug)]
pub struct Run {
    /// The run folder.
    pub folder: PathBuf,
    /// Its `summary.json`.
    pub summary: Summary,
    /// Its queries, in the order of the records.
    pub queries: Vec<Query>,
    /// The subjects of its queries.
    pub subjects: Vec<String>,
    /// The source of its energy; `None` if it has none.
    pub energy: Option<EnergySource>,
    /// How many numbers of the records are NaN or infinite. They count as absent.
    pub not_finite: u64,
}

impl Run {
    /// Reads the run in a folder.
    pub fn open(folder: &Path) -> Result<Self, ReadError> {
        let summary = Summary::read(folder)?;
        let mut records = Records { energy: summary.energy_source(), ..Records::default() };
        for file in record_files(folder)? {
            records.read(&file, &summary.model)?;
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

    /// The subject of a query.
    #[must_use]
    pub fn subject(&self, query: &Query) -> &str {
        self.subjects.get(query.subject as usize).map_or("", String::as_str)
    }

    /// The completed queries.
    pub fn completed(&self) -> impl Iterator<Item = &Query> {
        self.queries.iter().filter(|query| query.is_completed())
    }

    /// How many requests were in flight on average, at least 1.
    #[must_use]
    pub fn mean_in_flight(&self) -> f64 {
        let busy: f64 = self.queries.iter().filter_map(|query| query.total_s).sum();
        let seconds = self.summary.duration_s;
        let of_load = self.summary.load.as_ref().and_then(|load| load.whole.in_flight).map(|in_flight| in_flight.mean);
        of_load.or((seconds > 0.0).then(|| busy / seconds)).unwrap_or(1.0).max(1.0)
    }

    /// The block size for resampling queries: 1 if they ran one at a time, else about twice the number in flight.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some thousands at most")]
    pub fn block(&self) -> usize {
        let together = self.mean_in_flight();
        if together <= 1.05 { 1 } else { (2.0 * together).ceil().min(1e6) as usize }
    }

    /// The totals of the energy source of this run.
    #[must_use]
    pub fn energy_totals(&self) -> Option<&EnergyTotals> {
        self.summary.energy_totals(self.energy)
    }
}

/// Names with their indices.
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

/// The columns of records that [`Run::open`] reads.
const READ_COLUMNS: [&str; 3] = [names::SUBJECT, names::MODEL_METRICS, names::ERGOMETER];

/// The records read so far.
#[derive(Debug, Default)]
struct Records {
    queries: Vec<Query>,
    subjects: Names,
    energy: Option<EnergySource>,
    not_finite: u64,
    model: Option<String>,
}

impl Records {
    fn read(&mut self, path: &Path, model: &str) -> Result<(), ReadError> {
        let file = regular_file::open(path).map_err(ReadError::io("read", path))?;
        let damaged = ReadError::of_file(path);
        // Skip the texts of problems and answers, which are most of the bytes.
        let batches = read_stream(file, Some(&READ_COLUMNS)).map_err(&damaged)?;
        let has = |name: &&str| batches.schema().index_of(name).is_ok();
        if !READ_COLUMNS.iter().any(has) {
            let what = format!("it has none of the columns {}", READ_COLUMNS.join(", "));
            return Err(ReadError::Damaged { path: path.to_path_buf(), what });
        }
        self.model = model_in(batches.schema(), model);
        for batch in batches {
            self.push(&batch.map_err(&damaged)?);
        }
        Ok(())
    }

    fn push(&mut self, batch: &RecordBatch) {
        let model = self.model.clone().unwrap_or_default();
        let metric = |path: &[&str]| {
            let whole: Vec<&str> = [names::MODEL_METRICS, &model].into_iter().chain(path.iter().copied()).collect();
            Column::find(batch, &whole)
        };
        let own = |path: &[&str]| {
            let whole: Vec<&str> = [names::ERGOMETER].into_iter().chain(path.iter().copied()).collect();
            Column::find(batch, &whole)
        };
        let subject = Column::find(batch, &[names::SUBJECT]);
        let [request, index, session, attempts] =
            [names::REQUEST, names::QUERY_INDEX, names::SESSION, names::ATTEMPTS].map(|name| own(&[name]));
        let [scheduled, sent, first_token, last_token, end] =
            [names::SCHEDULED_NS, names::SENT_NS, names::FIRST_TOKEN_NS, names::LAST_TOKEN_NS, names::END_NS]
                .map(|name| own(&[name]));
        let [outcome, cached] = [names::OUTCOME, names::CACHED_TOKENS].map(|name| own(&[name]));
        let [input, output, total] =
            [names::INPUT, names::OUTPUT, names::TOTAL].map(|name| metric(&[names::TOKEN_METRICS, name]));
        let ttft = metric(&[names::LATENCY_METRICS, names::TIME_TO_FIRST_TOKEN_SECONDS]);
        let total_s = metric(&[names::LATENCY_METRICS, names::TOTAL_QUERY_SECONDS]);
        let gpu_joules = metric(&[names::ENERGY_METRICS, names::PER_QUERY_JOULES]);
        let watts = [names::AVG, names::MEDIAN, names::MAX, names::MIN]
            .map(|name| metric(&[names::POWER_METRICS, names::GPU, names::PER_QUERY_WATTS, name]));
        let phases =
            [names::PREFILL_ENERGY_J, names::DECODE_ENERGY_J, names::PREFILL_DURATION_MS, names::DECODE_DURATION_MS]
                .map(|name| metric(&[names::PHASE_METRICS, name]));
        let temperature = metric(&[names::TEMPERATURE_METRICS, names::AVG]);
        let correct = metric(&[names::LM_CORRECTNESS]);
        let cost = metric(&[names::COST, names::TOTAL_COST_USD]);
        let source = self.energy.unwrap_or(EnergySource::Measured).name();
        let gross =
            [names::JOULES, names::LOW, names::HIGH].map(|name| own(&[names::ENERGY, source, names::GROSS, name]));
        let net = own(&[names::ENERGY, source, names::NET, names::JOULES]);
        let [share, share_low, share_high, prefill_share, decode_share] =
            [names::SHARE, names::LOW, names::HIGH, names::PREFILL_J, names::DECODE_J]
                .map(|name| own(&[names::ENERGY, names::ATTRIBUTION, name]));
        for row in 0..batch.num_rows() {
            let at = |column: &Column| column.integer(row).map(Timestamp::from_nanos_since_epoch);
            let has_energy = || {
                let gross_j = gross[0].number(row)?;
                let (low, high) = (gross[1].number(row).unwrap_or(gross_j), gross[2].number(row).unwrap_or(gross_j));
                Some(Energy { gross: gross_j, low, high, net: net.number(row) })
            };
            // Runs of other tools have no `ergometer` column, only the energy of the GPUs.
            let energy = if gross[0].is_there() {
                has_energy()
            } else {
                gpu_joules.number(row).map(|joules| Energy { gross: joules, low: joules, high: joules, net: None })
            };
            let attribution = share.number(row).map(|joules| Attribution {
                share: joules,
                low: share_low.number(row).unwrap_or(joules),
                high: share_high.number(row).unwrap_or(joules),
                prefill_j: prefill_share.number(row),
                decode_j: decode_share.number(row),
            });
            let [prefill_j, decode_j, prefill_ms, decode_ms] = [0, 1, 2, 3].map(|place| phases[place].number(row));
            self.queries.push(Query {
                request: request.count(row).unwrap_or(self.queries.len() as u64),
                index: index.count(row).unwrap_or(self.queries.len() as u64),
                session: session.count(row).and_then(|session| u32::try_from(session).ok()).unwrap_or(0),
                subject: self.subjects.place(subject.text(row).unwrap_or("")),
                outcome: Outcome::from_name(outcome.text(row)),
                attempts: attempts.count(row).unwrap_or(1),
                scheduled: at(&scheduled),
                sent: at(&sent),
                first_token: at(&first_token),
                last_token: at(&last_token),
                end: at(&end),
                input_tokens: input.count(row),
                cached_tokens: cached.count(row),
                output_tokens: output.count(row),
                total_tokens: total.count(row),
                ttft_s: ttft.number(row),
                total_s: total_s.number(row),
                gpu_joules: gpu_joules.number(row),
                gpu_watts: watts.iter().find_map(|watts| watts.number(row)),
                energy,
                attribution,
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
        let floats = floats.into_iter().chain([&share, &share_low, &share_high, &prefill_share, &decode_share]);
        let floats = floats.chain(&watts).chain(&phases).chain(&gross);
        self.not_finite += floats.map(Column::not_finite).sum::<u64>();
        if self.energy.is_none() && self.queries.iter().any(|query| query.energy.is_some()) {
            self.energy = Some(EnergySource::Measured);
        }
    }
}

/// The model of the metrics in the records: the named one, or else the first.
pub(super) fn model_in(schema: &arrow_schema::Schema, named: &str) -> Option<String> {
    let arrow_schema::DataType::Struct(models) = schema.field_with_name(names::MODEL_METRICS).ok()?.data_type() else {
        return None;
    };
    let is_named = |model: &&arrow_schema::FieldRef| model.name() == named;
    models.iter().find(is_named).or(models.first()).map(|model| model.name().clone())
}
