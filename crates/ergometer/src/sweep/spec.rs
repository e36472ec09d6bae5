//! The specification of a sweep, and checks that a folder still belongs to it.

use std::path::Path;

use ergometer_runs::config::{RunConfig, Schedule};
use ergometer_runs::sweep::{Identity, PlanError, Sweep, check};

use super::{RunState, SweepError};
use crate::run::{CALIBRATION_LOAD, PreparedRun, RunError, read_duration};

/// The specification of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepSpec {
    /// The configuration that all runs have in common.
    pub config: RunConfig,
    /// The points.
    pub schedules: Vec<Schedule>,
    /// How often each point runs.
    pub repeats: u32,
    /// The longest wait between runs, in seconds.
    pub cooldown_s: f64,
}

impl SweepSpec {
    /// Checks the points and the cooldown before the first request.
    pub fn check(&self) -> Result<(), SweepError> {
        check(&self.schedules)?;
        read_duration("cooldown", self.cooldown_s)?;
        Ok(())
    }

    /// The model that is fitted to all points needs no calibration if a point has as low a load.
    pub(super) fn drop_needless_calibration(&mut self) {
        if self.schedules.iter().any(|schedule| schedule.concurrency().is_some_and(|load| load <= CALIBRATION_LOAD)) {
            self.config.calibrate_s = 0.0;
        }
    }

    /// Creates a sweep without runs, and without the secrets of the configuration.
    pub fn begin(&self, identity: Identity) -> Result<Sweep, PlanError> {
        Sweep::new(self.config.redacted(), &self.schedules, self.repeats, self.cooldown_s, identity)
    }
}

/// The identity of a prepared run, which must be the same for all points.
pub(super) fn identity(prepared: &PreparedRun) -> Identity {
    Identity {
        hardware_label: prepared.hardware_label(),
        model: prepared.config().client.model.clone(),
        model_facts: prepared.model().clone(),
        dataset: prepared.dataset().name().to_owned(),
        dataset_fingerprint: prepared.dataset().fingerprint().to_owned(),
    }
}

/// The first change between the identity at the start of a sweep and now.
fn change(then: &Identity, now: &Identity) -> Option<String> {
    let (old, new) = (&then.model_facts, &now.model_facts);
    if then.dataset_fingerprint != now.dataset_fingerprint {
        Some(format!("the dataset {} has changed since the sweep started", then.dataset))
    } else if old.parameters != new.parameters || old.fingerprint != new.fingerprint {
        Some(String::from("the model has changed since the sweep started"))
    } else if then.hardware_label != now.hardware_label {
        let (old, new) = (&then.hardware_label, &now.hardware_label);
        Some(format!("the sweep started on {old}, and this machine is {new}"))
    } else {
        None
    }
}

/// Reads the state of each run from its folder, in the order in which they are made, and updates the sweep: a deleted
/// run is removed, and a killed run is marked incomplete.
pub(super) fn look(sweep: &mut Sweep, folder: &Path) -> Vec<((usize, usize), RunState)> {
    let mut states = Vec::new();
    for (point, run) in sweep.order() {
        let entry = &mut sweep.points[point].runs[run];
        let state = RunState::read(&folder.join(&entry.folder));
        match &state {
            RunState::Complete(summary) => sweep.take((point, run), summary),
            RunState::Unfinished => entry.complete = false,
            RunState::Missing => {
                (entry.complete, entry.closing, entry.cooldown, entry.figures) = (false, None, None, None);
            }
        }
        states.push(((point, run), state));
    }
    sweep.sum_up();
    states
}

/// The configuration to resume a sweep with. `secrets` restores the secrets, which are not stored.
pub(super) fn config_with(
    sweep: &Sweep,
    folder: &Path,
    secrets: impl FnOnce(&mut RunConfig),
) -> Result<RunConfig, SweepError> {
    let mut config = sweep.config.clone();
    secrets(&mut config);
    let refuse = |why: String| RunError::not_resumable(folder, why);
    if let Some(secret) = config.missing_secret() {
        return Err(RunError::missing_secret(folder, &secret).into());
    }
    if config.redacted() != sweep.config {
        return Err(refuse(String::from("it was started with another configuration")).into());
    }
    Ok(config)
}

/// Checks that a new run is comparable to the existing ones.
pub(super) fn check_comparable(sweep: &Sweep, folder: &Path, prepared: &PreparedRun) -> Result<(), SweepError> {
    let mut now = identity(prepared);
    // Each run has its own synthetic prompts, drawn with the parameters of the sweep, so their hash differs.
    if prepared.dataset().id() == "synthetic" {
        now.dataset_fingerprint.clone_from(&sweep.identity.dataset_fingerprint);
    }
    match change(&sweep.identity, &now) {
        None => Ok(()),
        Some(why) => Err(RunError::not_resumable(folder, why).into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use ergometer_clients::ModelFacts;
    use ergometer_diagnostics::{CommandLine, Diagnostic as _};
    use ergometer_runs::sweep::SWEEP_FILE;
    use ergometer_runs::{Closing, Summary, testing};
    use serde_json::{Value, json};

    use super::*;

    fn sweep(repeats: u32) -> Sweep {
        let headers = ["Authorization: Bearer hunter2"];
        let config = testing::config(json!({"client": {"id": "openai", "model": "m", "headers": headers}}));
        let schedules = [1, 4].map(|concurrency| Schedule::Concurrency { concurrency }).to_vec();
        SweepSpec { config, schedules, repeats, cooldown_s: 0.0 }.begin(testing::identity()).unwrap()
    }

    fn summary(requests_per_second: f64, complete: bool) -> Summary {
        Summary::from_value(summary_json(requests_per_second, complete)).unwrap()
    }

    fn summary_json(requests_per_second: f64, complete: bool) -> Value {
        let closing = if complete { "finished" } else { "interrupted" };
        json!({"complete": complete, "closing": closing, "tokens": {"requests_per_second": requests_per_second}})
    }

    #[test]
    fn a_sweep_with_a_low_load_is_not_calibrated() {
        let calibrate = |loads: &[u32]| {
            let schedules = loads.iter().map(|&concurrency| Schedule::Concurrency { concurrency }).collect();
            let config = RunConfig { calibrate_s: 6.0, ..sweep(1).config };
            let mut spec = SweepSpec { config, schedules, repeats: 1, cooldown_s: 0.0 };
            spec.drop_needless_calibration();
            spec.config.calibrate_s
        };
        assert_eq!((calibrate(&[8, 64]), calibrate(&[4, 64]), calibrate(&[1])), (6.0, 0.0, 0.0));
    }

    #[test]
    fn a_sweep_is_read_back_without_secrets() {
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
        let error = Sweep::read(folder.path()).unwrap_err().one_line(&CommandLine);
        assert!(error.contains("damaged") && error.contains("pass the run folders"), "{error}");
        fs::write(&path, text.replace("\"format_version\": 1", "\"format_version\": 9")).unwrap();
        assert!(Sweep::read(folder.path()).unwrap_err().to_string().contains("later version"));
    }

    #[test]
    fn a_point_has_the_figures_of_its_complete_runs() {
        let mut sweep = sweep(2);
        sweep.take((0, 0), &summary(1.0, false));
        assert_eq!(
            sweep.points[0].figures["requests_per_second"].mean, 1.0,
            "an incomplete run counts if there is no other"
        );
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
    fn the_state_of_runs_is_read_from_their_folders() {
        let folder = tempfile::tempdir().unwrap();
        let mut sweep = sweep(2);
        for place in [(0, 0), (1, 0), (0, 1)] {
            sweep.take(place, &summary(2.0, true));
        }
        let run = |name: &str| folder.path().join(name);
        fs::create_dir_all(run("concurrency_1_repeat_1")).unwrap();
        fs::write(run("concurrency_1_repeat_1/summary.json"), summary_json(7.0, true).to_string()).unwrap();
        fs::create_dir_all(run("concurrency_4_repeat_1/journal")).unwrap();
        fs::write(run("concurrency_4_repeat_1/journal/run.json"), "{}").unwrap();
        let left: Vec<_> = look(&mut sweep, folder.path())
            .into_iter()
            .filter(|(_, state)| !matches!(state, RunState::Complete(_)))
            .collect();
        let expected = [((1, 0), RunState::Unfinished), ((0, 1), RunState::Missing), ((1, 1), RunState::Missing)];
        assert_eq!(left, expected);
        let figure = sweep.points[0].figures["requests_per_second"];
        assert_eq!((figure.mean, figure.n), (7.0, 1), "the deleted run does not count");
        assert!(!sweep.points[1].runs[0].complete && sweep.points[0].runs[1].figures.is_none());
    }

    #[test]
    fn an_invalid_cooldown_is_refused() {
        let spec = |cooldown_s| {
            let schedules = vec![Schedule::Concurrency { concurrency: 1 }];
            SweepSpec { config: sweep(1).config, schedules, repeats: 1, cooldown_s }
        };
        assert!(spec(0.0).check().is_ok() && spec(1.5).check().is_ok());
        for wrong in [-1.0, 1e300, f64::INFINITY, f64::NAN] {
            let error = spec(wrong).check().unwrap_err();
            assert!(matches!(error, SweepError::Run(RunError::Config(_))), "{error}");
            assert!(error.one_line(&CommandLine).contains("--cooldown"), "{error}");
        }
    }

    #[test]
    fn only_secrets_may_change_on_resume() {
        let (sweep, folder) = (sweep(1), Path::new("sweep_x"));
        let missing = config_with(&sweep, folder, |_| {}).unwrap_err().to_string();
        assert!(missing.contains("the header Authorization") && missing.contains("sweep_x"), "{missing}");
        let given =
            |config: &mut RunConfig| config.client.headers = vec![String::from("Authorization: Bearer hunter2")];
        assert_eq!(config_with(&sweep, folder, given).unwrap().client.headers, ["Authorization: Bearer hunter2"]);
        let other = config_with(&sweep, folder, |config| {
            given(config);
            config.warmup = 9;
        });
        assert!(other.unwrap_err().to_string().contains("another configuration"));
    }

    #[test]
    fn a_sweep_has_one_dataset_model_and_machine() {
        let then = sweep(1).identity;
        assert_eq!(change(&then, &then), None);
        let other = Identity { dataset_fingerprint: String::from("def"), ..then.clone() };
        assert!(change(&then, &other).unwrap().contains("dataset builtin"));
        let other = Identity { hardware_label: String::from("M3"), ..then.clone() };
        assert!(change(&then, &other).unwrap().contains("started on H200"));
        let model_facts = ModelFacts { parameters: Some(8), ..ModelFacts::default() };
        assert!(change(&then, &Identity { model_facts, ..then.clone() }).unwrap().contains("model"));
        assert_eq!(then.folder_in(Path::new("runs"), Some("a")), Path::new("runs/sweep_H200_m_builtin_a"));
    }
}
