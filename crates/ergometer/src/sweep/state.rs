//! A run's folder goes in; what is left to do about it comes out.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::journal::JournalFolder;

/// How far a run of a sweep is.
#[derive(Debug, Clone, PartialEq)]
pub enum RunState {
    /// It is to be made.
    Missing,
    /// It was begun: interrupted or killed, and can be gone on with.
    Unfinished,
    /// Nothing is left to do. With its summary.
    Complete(Box<Value>),
}

impl RunState {
    /// That of a folder, whether it is there or not. The folder is asked, not `sweep.json`: that may be from before a kill.
    #[must_use]
    pub fn of(folder: &Path) -> Self {
        let summary = fs::read(folder.join("summary.json")).ok();
        let summary = summary.and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        let has_journal = JournalFolder::of_run(folder).exists();
        match summary {
            // Answers that the judge was not asked about can be asked about as long as the journal is there.
            Some(summary) if summary["complete"] == true && !(has_journal && is_unjudged(&summary)) => {
                Self::Complete(Box::new(summary))
            }
            _ if has_journal => Self::Unfinished,
            _ => Self::Missing,
        }
    }
}

fn is_unjudged(summary: &Value) -> bool {
    summary.pointer("/judge/unjudged").and_then(Value::as_u64).is_some_and(|count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_tells_what_is_left_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("concurrency_1");
        assert_eq!(RunState::of(&run), RunState::Missing);
        fs::create_dir_all(run.join("journal")).unwrap();
        assert_eq!(RunState::of(&run), RunState::Missing, "killed before its journal began");
        fs::write(run.join("journal/run.json"), "{}").unwrap();
        assert_eq!(RunState::of(&run), RunState::Unfinished, "killed");
        fs::write(run.join("summary.json"), r#"{"complete":false,"closing":"interrupted"}"#).unwrap();
        assert_eq!(RunState::of(&run), RunState::Unfinished, "interrupted");
        fs::write(run.join("summary.json"), r#"{"complete":true,"judge":{"unjudged":2}}"#).unwrap();
        assert_eq!(RunState::of(&run), RunState::Unfinished, "interrupted while it was judged");
        fs::write(run.join("summary.json"), r#"{"complete":true,"judge":null}"#).unwrap();
        assert!(matches!(RunState::of(&run), RunState::Complete(summary) if summary["complete"] == true));
        fs::remove_dir_all(run.join("journal")).unwrap();
        assert!(matches!(RunState::of(&run), RunState::Complete(_)), "its journal may be deleted once it is whole");
    }
}
