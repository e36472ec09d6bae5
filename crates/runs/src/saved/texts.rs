//! Reads the texts of a few queries of a run.

use std::collections::BTreeMap;

use ergometer_columnar::read_stream;

use super::columns::Column;
use super::run::{Run, model_in};
use crate::column_names as names;
use crate::folder::record_files;
use crate::{ReadError, regular_file};

/// The texts of one query, cut to a length.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Texts {
    /// The problem.
    pub problem: String,
    /// The correct answer.
    pub answer: String,
    /// The response of the model.
    pub response: String,
    /// Why it failed; empty if it completed.
    pub cause: String,
}

impl Texts {
    /// Reads the texts of the queries at these indices of [`Run::queries`], at most `length` characters of each.
    pub fn read(run: &Run, wanted: &[usize], length: usize) -> Result<BTreeMap<usize, Self>, ReadError> {
        let wanted: std::collections::BTreeSet<usize> = wanted.iter().copied().collect();
        let mut texts = BTreeMap::new();
        let mut first = 0;
        for path in record_files(&run.folder)? {
            let file = regular_file::open(&path).map_err(ReadError::io("read", &path))?;
            let damaged = ReadError::of_file(&path);
            let reader = read_stream(file, None).map_err(&damaged)?;
            let model = model_in(reader.schema(), &run.summary.model).unwrap_or_default();
            for batch in reader {
                let batch = batch.map_err(&damaged)?;
                let columns = [
                    Column::find(&batch, &[names::PROBLEM]),
                    Column::find(&batch, &[names::ANSWER]),
                    Column::find(&batch, &[names::MODEL_ANSWERS, &model]),
                    Column::find(&batch, &[names::ERGOMETER, names::CAUSE]),
                ];
                for &place in wanted.range(first..first + batch.num_rows()) {
                    let [problem, answer, response, cause] =
                        [0, 1, 2, 3].map(|column| cut(columns[column].text(place - first).unwrap_or_default(), length));
                    texts.insert(place, Self { problem, answer, response, cause });
                }
                first += batch.num_rows();
            }
        }
        Ok(texts)
    }
}

/// The start of a text, with `…` if it is cut.
fn cut(text: &str, length: usize) -> String {
    match text.char_indices().nth(length) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
