//! A dataset of questions whose answers are the numbers 10, 11, 12 and so on, in two subjects.

use ergometer::dataset::{Dataset, DatasetError, Query};
use ergometer::grade::Grader;

/// As many questions as asked for.
pub(crate) struct Questions {
    pub(crate) size: Option<u64>,
    pub(crate) fingerprint: String,
}

impl Questions {
    pub(crate) fn new(size: u64) -> Self {
        Self { size: Some(size), fingerprint: format!("questions-{size}") }
    }
}

impl Dataset for Questions {
    fn id(&self) -> &'static str {
        "questions"
    }

    fn name(&self) -> &'static str {
        "questions"
    }

    fn size(&self) -> Option<u64> {
        self.size
    }

    fn get(&self, index: u64) -> Result<Query, DatasetError> {
        if let Some(size) = self.size.filter(|&size| index >= size) {
            return Err(DatasetError::Beyond { index, size });
        }
        Ok(Query {
            index,
            problem: format!("what is 10 + {index}?"),
            answer: (10 + index).to_string(),
            subject: String::from(if index.is_multiple_of(2) { "even" } else { "odd" }),
            ..Query::default()
        })
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn grader(&self) -> Grader {
        Grader::Exact
    }
}
