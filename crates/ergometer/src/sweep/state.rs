//! Reads the state of a run of a sweep from its folder.

use std::path::Path;

use ergometer_runs::Summary;

use crate::journal::JournalFolder;

/// The state of a run of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub enum RunState {
    /// It has not started.
    Missing,
    /// It was interrupted or killed and can be resumed.
    Unfinished,
    /// It is complete.
    Complete(Box<Summary>),
}

impl RunState {
    /// Reads the state of a run folder, which need not exist. The folder counts, not `sweep.json`, which may be
    /// outdated after a kill.
    #[must_use]
    pub fn read(folder: &Path) -> Self {
        let has_journal = JournalFolder::of_run(folder).exists();
        match Summary::read(folder).ok() {
            // While the journal exists, unjudged answers can still be judged.
            Some(summary) if summary.complete && !(has_journal && has_unjudged(&summary)) => {
                Self::Complete(Box::new(summary))
            }
            _ if has_journal => Self::Unfinished,
            _ => Self::Missing,
        }
    }
}

fn has_unjudged(summary: &Summary) -> bool {
    summary.judge.as_ref().is_some_and(|judge| judge.unjudged > 0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_state_is_read_from_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("concurrency_1");
        assert_eq!(RunState::read(&run), RunState::Missing);
        fs::create_dir_all(run.join("journal")).unwrap();
        assert_eq!(RunState::read(&run), RunState::Missing, "killed before its journal was created");
        fs::write(run.join("journal/run.json"), "{}").unwrap();
        assert_eq!(RunState::read(&run), RunState::Unfinished, "killed");
        fs::write(run.join("summary.json"), r#"{"complete":false,"closing":"interrupted"}"#).unwrap();
        assert_eq!(RunState::read(&run), RunState::Unfinished, "interrupted");
        fs::write(
            run.join("summary.json"),
            r#"{"complete":true,"judge":{"model":"m","judged":1,"without_verdict":0,"unjudged":2}}"#,
        )
        .unwrap();
        assert_eq!(RunState::read(&run), RunState::Unfinished, "interrupted during the judging");
        fs::write(run.join("summary.json"), r#"{"complete":true,"judge":null}"#).unwrap();
        assert!(matches!(RunState::read(&run), RunState::Complete(summary) if summary.complete));
        fs::remove_dir_all(run.join("journal")).unwrap();
        assert!(matches!(RunState::read(&run), RunState::Complete(_)), "the journal of a complete run may be deleted");
    }
}
