//! A dataset of questions whose answers are the numbers 10, 11, 12 and so on, in two subjects.

use ergometer_datasets::grade::Grader;
use ergometer_datasets::{Dataset, DatasetError, Query, Turn};

/// A dataset with this many questions.
pub(crate) struct Questions {
    pub(crate) size: Option<u64>,
    pub(crate) fingerprint: String,
    /// The number of turns of each conversation.
    pub(crate) turns: u64,
    /// The seconds between two recorded arrivals, if there are arrival times.
    pub(crate) apart_s: Option<f64>,
    /// Whether queries are read on a blocking thread.
    pub(crate) is_packed: bool,
    /// Reading this query panics.
    pub(crate) panics_at: Option<u64>,
}

impl Questions {
    pub(crate) fn new(size: u64) -> Self {
        Self {
            size: Some(size),
            fingerprint: format!("questions-{size}"),
            turns: 1,
            apart_s: None,
            is_packed: false,
            panics_at: None,
        }
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
        assert_ne!(self.panics_at, Some(index), "the test says so");
        Ok(Query {
            index,
            problem: format!("what is 10 + {index}?"),
            answer: (10 + index).to_string(),
            subject: String::from(if index.is_multiple_of(2) { "even" } else { "odd" }),
            turn: (self.turns > 1).then(|| Turn {
                conversation: index / self.turns,
                number: u32::try_from(index % self.turns).unwrap(),
                think_s: None,
            }),
            arrival_s: self.apart_s.map(|apart| 100.0 + apart * index as f64),
            ..Query::default()
        })
    }

    fn is_packed(&self) -> bool {
        self.is_packed
    }

    fn turns(&self, index: u64) -> u64 {
        assert_eq!(index % self.turns, 0, "only first turns are requested");
        self.turns
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn grader(&self) -> Grader {
        Grader::Exact
    }
}
