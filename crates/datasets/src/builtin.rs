//! The built-in dataset: 600 problems in twelve subjects, compiled into the program and described in
//! `assets/README.md`.

use super::columns::Columns;
use super::row::{query_of, row_of};
use super::{Dataset, DatasetError, Query};
use crate::fingerprint::sha256;
use crate::grade::Grader;

const TEXT: &str = include_str!("../../../assets/datasets/builtin.jsonl");

/// The built-in dataset.
#[derive(Debug)]
pub struct Builtin {
    lines: Vec<&'static str>,
    fingerprint: String,
}

impl Default for Builtin {
    fn default() -> Self {
        Self { lines: TEXT.lines().collect(), fingerprint: sha256(TEXT.as_bytes()) }
    }
}

impl Dataset for Builtin {
    fn id(&self) -> &'static str {
        "builtin"
    }

    fn name(&self) -> &'static str {
        "builtin"
    }

    fn size(&self) -> Option<u64> {
        Some(self.lines.len() as u64)
    }

    fn get(&self, index: u64) -> Result<Query, DatasetError> {
        let line = usize::try_from(index).ok().and_then(|index| self.lines.get(index));
        let line = line.ok_or(DatasetError::Beyond { index, size: self.lines.len() as u64 })?;
        row_of(line.as_bytes())
            .and_then(|row| query_of(row, index, &Columns::default()))
            .map_err(|what| DatasetError::Line { path: "builtin".into(), line: index + 1, what })
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn grader(&self) -> Grader {
        Grader::Exact
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_six_hundred_problems_in_twelve_subjects() {
        let dataset = Builtin::default();
        let queries: Vec<Query> = (0..dataset.size().unwrap()).map(|index| dataset.get(index).unwrap()).collect();
        let mut subjects: Vec<&str> = queries.iter().map(|query| query.subject.as_str()).collect();
        subjects.sort_unstable();
        subjects.dedup();
        assert_eq!((queries.len(), subjects.len()), (600, 12));
        assert_eq!((queries[0].problem.as_str(), queries[0].answer.as_str()), ("What is 39 + 1?", "40"));
        assert!(queries.iter().all(|query| query.metadata.is_empty()));
        assert!(matches!(dataset.get(600), Err(DatasetError::Beyond { index: 600, size: 600 })));
    }
}
