//! `sweep.json`: what was asked for, how far each run is, and what the points came to.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::plan::{check, order};
use super::{Axis, CooledDown, EnergySource, Figures, Rest, RunFigures, RunState, SweepError, run_name};
use crate::config::{RunConfig, Schedule};
use crate::journal::{Closing, JournalError};
use crate::run::{Prepared, RunError};
use crate::slug::sweep_folder_name;
use crate::store::write_json;
use ergometer_clients::ModelFacts;

/// The name of the file.
pub(super) const SWEEP_FILE: &str = "sweep.json";

/// The version of `sweep.json` that is written and read.
const VERSION: u32 = 1;

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepSpec {
    /// What all runs have in common.
    pub config: RunConfig,
    /// The points.
    pub schedules: Vec<Schedule>,
    /// How often each is done.
    pub repeats: u32,
    /// How long to wait between runs at most, in seconds.
    pub cooldown_s: f64,
}

impl SweepSpec {
    /// Checks what can be checked before anything is asked of a server.
    pub fn check(&self) -> Result<(), SweepError> {
        check(&self.schedules).map(drop)
    }
}

/// What must stay the same for points to be comparable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "named as in the summary of a run")]
pub struct Identity {
    pub hardware_label: String,
    pub model: String,
    pub model_facts: ModelFacts,
    pub dataset: String,
    pub dataset_fingerprint: String,
}

/// A sweep, as `sweep.json` has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// The version of the format.
    pub format_version: u32,
    /// The version of Ergometer that started the sweep.
    pub ergometer: String,
    /// When this was written, in seconds since the epoch.
    pub generated_at: f64,
    /// What differs between the points.
    pub axis: Axis,
    /// Whether every run is whole.
    pub complete: bool,
    /// What does not.
    #[serde(flatten)]
    pub identity: Identity,
    /// How often each point is done.
    pub repeats: u32,
    /// How long it is waited between runs at most, in seconds.
    pub cooldown_s: f64,
    /// What the machine was like before the first run, where it is waited for.
    pub rest: Option<Rest>,
    /// The points, in the order they were asked for.
    pub points: Vec<Point>,
    /// What all runs have in common, without its secrets; the schedule is the first point's.
    pub config: RunConfig,
}

/// One load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// When requests are sent.
    pub schedule: Schedule,
    /// Where the joules come from.
    pub energy: Option<EnergySource>,
    /// In how many runs the sender, not the server, kept requests back; `None` where that was not looked at.
    pub client_limited: Option<usize>,
    /// What its complete runs came to; where none is, what is there.
    pub figures: Figures,
    /// Its runs, in order.
    pub runs: Vec<SweepRun>,
}

/// A run of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepRun {
    /// Its folder, in that of the sweep.
    pub folder: String,
    /// Which one of its point, from 1.
    pub repeat: u32,
    /// Whether every query that was asked for has its record.
    pub complete: bool,
    /// Why it ended; `None` where it was not made, or was killed.
    pub closing: Option<Closing>,
    /// The wait before it.
    pub cooldown: Option<CooledDown>,
    /// What it came to; `None` where it was not made.
    #[serde(flatten)]
    pub figures: Option<RunFigures>,
}

#[derive(Deserialize)]
struct Versioned {
    format_version: u32,
}

impl Identity {
    /// That of a run that is ready to go.
    #[must_use]
    pub fn of(prepared: &Prepared) -> Self {
        Self {
            hardware_label: prepared.hardware_label(),
            model: prepared.config().client.model.clone(),
            model_facts: prepared.model().clone(),
            dataset: prepared.dataset().name().to_owned(),
            dataset_fingerprint: prepared.dataset().fingerprint().to_owned(),
        }
    }

    /// Where the sweep goes, in a folder of runs.
    #[must_use]
    pub fn folder_in(&self, runs: &Path, name: Option<&str>) -> PathBuf {
        runs.join(sweep_folder_name(&self.hardware_label, &self.model, &self.dataset, name))
    }

    /// What is not as it was.
    fn change(&self, now: &Self) -> Option<String> {
        let (then, model) = (&self.model_facts, &now.model_facts);
        if self.dataset_fingerprint != now.dataset_fingerprint {
            Some(format!("the dataset {} is not what it was. hint: put the old one back", self.dataset))
        } else if then.parameters != model.parameters || then.fingerprint != model.fingerprint {
            Some(String::from("the model is not what it was"))
        } else if self.hardware_label != now.hardware_label {
            let (then, now) = (&self.hardware_label, &now.hardware_label);
            Some(format!("it was begun on {then}, and this is {now}. hint: points of two machines are no one sweep's"))
        } else {
            None
        }
    }
}

impl Sweep {
    /// One of which nothing is done yet.
    pub fn new(spec: &SweepSpec, identity: Identity) -> Result<Self, SweepError> {
        let axis = check(&spec.schedules)?;
        let run = |schedule: &Schedule, repeat| SweepRun {
            folder: run_name(schedule, repeat, spec.repeats),
            repeat,
            complete: false,
            closing: None,
            cooldown: None,
            figures: None,
        };
        let point = |schedule: &Schedule| Point {
            schedule: *schedule,
            energy: None,
            client_limited: None,
            figures: Figures::default(),
            runs: (1..=spec.repeats).map(|repeat| run(schedule, repeat)).collect(),
        };
        Ok(Self {
            format_version: VERSION,
            ergometer: String::from(env!("CARGO_PKG_VERSION")),
            generated_at: now(),
            axis,
            complete: false,
            identity,
            repeats: spec.repeats,
            cooldown_s: spec.cooldown_s,
            rest: None,
            points: spec.schedules.iter().map(point).collect(),
            config: RunConfig { schedule: spec.schedules[0], ..spec.config.redacted() },
        })
    }

    /// Whether a folder has one.
    #[must_use]
    pub fn is_in(folder: &Path) -> bool {
        folder.join(SWEEP_FILE).is_file()
    }

    /// Reads that of a folder.
    pub fn read(folder: &Path) -> Result<Self, SweepError> {
        let path = folder.join(SWEEP_FILE);
        let damaged = |error: serde_json::Error| JournalError::Damaged { path: path.clone(), what: error.to_string() };
        let text = fs::read(&path).map_err(JournalError::io("read", &path))?;
        let versioned: Versioned = serde_json::from_slice(&text).map_err(damaged)?;
        if versioned.format_version > VERSION {
            return Err(JournalError::Version { path, found: versioned.format_version, known: VERSION }.into());
        }
        let sweep: Self = serde_json::from_slice(&text).map_err(damaged)?;
        let schedules: Vec<Schedule> = sweep.points.iter().map(|point| point.schedule).collect();
        check(&schedules)?;
        let is_expected = |point: &Point| {
            let expected = (1..=sweep.repeats).map(|repeat| run_name(&point.schedule, repeat, sweep.repeats));
            point.runs.iter().map(|run| run.folder.clone()).eq(expected)
        };
        if !sweep.points.iter().all(is_expected) {
            let what = String::from("its runs are not those of its points");
            return Err(JournalError::Damaged { path, what }.into());
        }
        Ok(sweep)
    }

    /// Writes it into a folder, whole or not at all.
    pub fn write(&mut self, folder: &Path) -> Result<(), SweepError> {
        self.generated_at = now();
        Ok(write_json(&folder.join(SWEEP_FILE), self)?)
    }

    /// The order in which runs are made, as places of points and of runs in them: round by round.
    pub fn order(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        order(self.points.len(), self.repeats as usize)
    }

    /// Looks at the folders of the runs, in the order in which they are made, and takes in what they say: what was deleted
    /// is forgotten, and what was killed is not whole.
    pub fn look(&mut self, folder: &Path) -> Vec<((usize, usize), RunState)> {
        let mut states = Vec::new();
        for (point, run) in self.order() {
            let entry = &mut self.points[point].runs[run];
            let state = RunState::of(&folder.join(&entry.folder));
            match &state {
                RunState::Complete(summary) => self.take((point, run), summary),
                RunState::Unfinished => entry.complete = false,
                RunState::Missing => {
                    (entry.complete, entry.closing, entry.cooldown, entry.figures) = (false, None, None, None);
                }
            }
            states.push(((point, run), state));
        }
        self.sum_up();
        states
    }

    /// Takes in the summary of a run, as `summary.json` has it.
    pub fn take(&mut self, (point, run): (usize, usize), summary: &Value) {
        let run = &mut self.points[point].runs[run];
        run.complete = summary["complete"] == true;
        run.closing = serde_json::from_value(summary["closing"].clone()).ok();
        run.figures = Some(RunFigures::of(summary));
        self.sum_up();
    }

    fn sum_up(&mut self) {
        self.points.iter_mut().for_each(Point::sum_up);
        self.complete = self.points.iter().flat_map(|point| &point.runs).all(|run| run.complete);
    }

    /// The configuration to go on with; `secrets` puts back what was not stored.
    pub fn config_with(&self, folder: &Path, secrets: impl FnOnce(&mut RunConfig)) -> Result<RunConfig, SweepError> {
        let mut config = self.config.clone();
        secrets(&mut config);
        let refuse = |why: String| RunError::NotResumable { path: folder.to_path_buf(), why };
        if let Some(secret) = config.missing_secret() {
            return Err(refuse(format!("{secret} was not stored, as it is a secret. hint: give it again")).into());
        }
        if config.redacted() != self.config {
            return Err(refuse(String::from("it was begun with another configuration")).into());
        }
        Ok(config)
    }

    /// Checks that a run that is to be made is comparable to those that are there.
    pub fn check(&self, folder: &Path, prepared: &Prepared) -> Result<(), SweepError> {
        let mut now = Identity::of(prepared);
        // Each run has prompts of its own, by the parameters that the sweep has kept.
        if prepared.dataset().id() == "synthetic" {
            now.dataset_fingerprint.clone_from(&self.identity.dataset_fingerprint);
        }
        match self.identity.change(&now) {
            None => Ok(()),
            Some(why) => Err(RunError::NotResumable { path: folder.to_path_buf(), why }.into()),
        }
    }
}

impl Point {
    /// Its runs that are whole; where none is, those that are there.
    fn counted_runs(&self) -> Vec<&RunFigures> {
        let has_whole = self.runs.iter().any(|run| run.complete);
        let counted = self.runs.iter().filter(|run| run.complete || !has_whole);
        counted.filter_map(|run| run.figures.as_ref()).collect()
    }

    fn sum_up(&mut self) {
        let runs = self.counted_runs();
        let (figures, energy) = (RunFigures::over(&runs), RunFigures::source(&runs));
        let limited: Vec<bool> = runs.iter().filter_map(|run| run.client_limited).collect();
        self.client_limited = (!limited.is_empty()).then(|| limited.iter().filter(|is| **is).count());
        (self.figures, self.energy) = (figures, energy);
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sweep(repeats: u32) -> Sweep {
        let config = serde_json::from_value(json!({
            "dataset": {"id": "builtin"}, "request": {"seed": 0}, "warmup": 0, "idle_s": 0.0, "devices": [],
            "client": {"id": "openai", "model": "m", "headers": ["Authorization: Bearer hunter2"]},
            "schedule": {"mode": "concurrency", "concurrency": 1}, "server_is_local": false, "model_cpu": true, "prices": {},
        }));
        let schedules = [1, 4].map(|concurrency| Schedule::Concurrency { concurrency }).to_vec();
        let identity = Identity {
            hardware_label: String::from("H200"),
            model: String::from("m"),
            model_facts: ModelFacts::default(),
            dataset: String::from("builtin"),
            dataset_fingerprint: String::from("abc"),
        };
        Sweep::new(&SweepSpec { config: config.unwrap(), schedules, repeats, cooldown_s: 0.0 }, identity).unwrap()
    }

    fn summary(requests_per_second: f64, complete: bool) -> Value {
        let closing = if complete { "finished" } else { "interrupted" };
        json!({"complete": complete, "closing": closing, "tokens": {"requests_per_second": requests_per_second}})
    }

    #[test]
    fn it_is_read_as_it_was_written_and_has_no_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let mut sweep = sweep(2);
        sweep.take((1, 0), &summary(3.0, true));
        sweep.write(folder.path()).unwrap();
        assert!(Sweep::is_in(folder.path()));
        assert_eq!(Sweep::read(folder.path()).unwrap(), sweep);
        let path = folder.path().join(SWEEP_FILE);
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("hunter2"), "{text}");
        fs::write(&path, text.replace("concurrency_4_repeat_1", "../elsewhere")).unwrap();
        assert!(Sweep::read(folder.path()).unwrap_err().to_string().contains("damaged"));
        fs::write(&path, text.replace("\"format_version\": 1", "\"format_version\": 9")).unwrap();
        assert!(Sweep::read(folder.path()).unwrap_err().to_string().contains("later version"));
    }

    #[test]
    fn a_point_is_what_its_whole_runs_came_to() {
        let mut sweep = sweep(2);
        sweep.take((0, 0), &summary(1.0, false));
        assert_eq!(sweep.points[0].figures["requests_per_second"].mean, 1.0, "better than nothing");
        sweep.take((0, 1), &summary(3.0, true));
        assert_eq!(sweep.points[0].figures["requests_per_second"].mean, 3.0);
        sweep.take((0, 0), &summary(5.0, true));
        let figure = sweep.points[0].figures["requests_per_second"];
        assert_eq!((figure.mean, figure.n, sweep.complete), (4.0, 2, false));
        assert!(figure.low.is_some() && sweep.points[1].figures.is_empty());
        sweep.take((1, 0), &summary(5.0, true));
        sweep.take((1, 1), &summary(5.0, true));
        assert!(sweep.complete);
        assert_eq!(sweep.points[1].runs[0].closing, Some(Closing::Finished));
    }

    #[test]
    fn the_folders_say_what_is_left_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let mut sweep = sweep(2);
        for place in [(0, 0), (1, 0), (0, 1)] {
            sweep.take(place, &summary(2.0, true));
        }
        let run = |name: &str| folder.path().join(name);
        fs::create_dir_all(run("concurrency_1_repeat_1")).unwrap();
        fs::write(run("concurrency_1_repeat_1/summary.json"), summary(7.0, true).to_string()).unwrap();
        fs::create_dir_all(run("concurrency_4_repeat_1/journal")).unwrap();
        fs::write(run("concurrency_4_repeat_1/journal/run.json"), "{}").unwrap();
        let left: Vec<_> = sweep
            .look(folder.path())
            .into_iter()
            .filter(|(_, state)| !matches!(state, RunState::Complete(_)))
            .collect();
        let expected = [((1, 0), RunState::Unfinished), ((0, 1), RunState::Missing), ((1, 1), RunState::Missing)];
        assert_eq!(left, expected);
        let figure = sweep.points[0].figures["requests_per_second"];
        assert_eq!((figure.mean, figure.n), (7.0, 1), "the one that was deleted is forgotten");
        assert!(!sweep.points[1].runs[0].complete && sweep.points[0].runs[1].figures.is_none());
    }

    #[test]
    fn secrets_are_given_again_and_nothing_else_is_changed() {
        let (sweep, folder) = (sweep(1), Path::new("sweep_x"));
        let missing = sweep.config_with(folder, |_| {}).unwrap_err().to_string();
        assert!(missing.contains("--header Authorization") && missing.contains("sweep_x"), "{missing}");
        let given =
            |config: &mut RunConfig| config.client.headers = vec![String::from("Authorization: Bearer hunter2")];
        assert_eq!(sweep.config_with(folder, given).unwrap().client.headers, ["Authorization: Bearer hunter2"]);
        let other = sweep.config_with(folder, |config| {
            given(config);
            config.warmup = 9;
        });
        assert!(other.unwrap_err().to_string().contains("another configuration"));
    }

    #[test]
    fn points_of_two_datasets_models_or_machines_are_no_sweep() {
        let then = sweep(1).identity;
        assert_eq!(then.change(&then), None);
        let other = Identity { dataset_fingerprint: String::from("def"), ..then.clone() };
        assert!(then.change(&other).unwrap().contains("dataset builtin"));
        let other = Identity { hardware_label: String::from("M3"), ..then.clone() };
        assert!(then.change(&other).unwrap().contains("begun on H200"));
        let model_facts = ModelFacts { parameters: Some(8), ..ModelFacts::default() };
        assert!(then.change(&Identity { model_facts, ..then.clone() }).unwrap().contains("model"));
        assert_eq!(then.folder_in(Path::new("runs"), Some("a")), Path::new("runs/sweep_H200_m_builtin_a"));
    }
}
