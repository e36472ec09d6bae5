//! Selects and orders queries of a dataset: `where`, then `shuffle`, then `skip`, then `limit`.
//!
//! The turns of a conversation stay together: `shuffle` moves whole conversations, and `skip` ends at the first turn of
//! a conversation. `limit` counts queries, so the last conversation may be cut short.
//!
//! The index of a query is its position in the selection. With `where` or `shuffle`, the metadata `source_index` has
//! its index in the dataset. The fingerprint includes the selection.

use std::collections::{BTreeMap, BTreeSet};

use ergometer_diagnostics::{Hint, Message};
use serde_json::Value;

use super::columns::Columns;
use super::error::columns_hint;
use super::random::Random;
use super::{Dataset, DatasetError, Query};
use crate::fingerprint::sha256;
use crate::grade::Grader;

/// Names and descriptions of the parameters that every dataset has.
pub(super) const PARAMETERS: &[(&str, &str)] = &[
    ("where", "COLUMN=VALUE: keep only the queries with this value in this column"),
    ("shuffle", "shuffle the queries with this random seed"),
    ("skip", "number of queries to skip, after where and shuffle"),
    ("limit", "maximum number of queries, after skip"),
    ("subset", "A..B: same as skip=A and limit=B-A"),
];

/// Maximum number of values listed in an error.
const SHOWN: usize = 8;

/// Which queries are selected, and in which order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// A column and the value it must have.
    pub equals: Option<(String, String)>,
    /// The seed of the random order.
    pub shuffle: Option<u64>,
    /// The number of queries to skip.
    pub skip: u64,
    /// The maximum number of queries.
    pub limit: Option<u64>,
}

impl Selection {
    /// Parses the selection parameters of a dataset.
    pub fn parse(parameters: &BTreeMap<String, String>) -> Result<Self, DatasetError> {
        let given = |name: &str| parameters.get(name).map(String::as_str);
        let number = |name: &'static str| match given(name).map(|text| (text, text.trim().parse::<u64>())) {
            None => Ok(None),
            Some((_, Ok(number))) => Ok(Some(number)),
            Some((text, Err(_))) => {
                Err(DatasetError::Value { parameter: name, what: format!("`{text}` is not a whole number").into() })
            }
        };
        let (mut skip, mut limit) = (number("skip")?, number("limit")?);
        if let Some(text) = given("subset") {
            let wrong = |what: &str, hint: &'static str| {
                let what = Message::new(format!("`{text}` {what}")).with_hint(Hint::text(hint));
                Err(DatasetError::Value { parameter: "subset", what })
            };
            if skip.is_some() || limit.is_some() {
                return wrong("conflicts with skip and limit", "set one or the other");
            }
            let ends =
                text.split_once("..").map(|(start, end)| (start.trim().parse::<u64>(), end.trim().parse::<u64>()));
            match ends {
                Some((Ok(start), Ok(end))) if start < end => (skip, limit) = (Some(start), Some(end - start)),
                _ => return wrong("is not a range", "100..200 selects the hundred queries 100 to 199"),
            }
        }
        if limit == Some(0) {
            return Err(DatasetError::Value { parameter: "limit", what: "0 leaves no query".into() });
        }
        let equals = match given("where").map(|text| (text, text.split_once('='))) {
            None => None,
            Some((_, Some((column, value)))) if !column.trim().is_empty() => {
                Some((column.trim().to_owned(), value.to_owned()))
            }
            Some((text, _)) => {
                let hint = Hint::text("write it as where=subject=algebra");
                let what = Message::new(format!("`{text}` is not a condition")).with_hint(hint);
                return Err(DatasetError::Value { parameter: "where", what });
            }
        };
        Ok(Self { equals, shuffle: number("shuffle")?, skip: skip.unwrap_or(0), limit })
    }

    /// Applies the selection to a dataset. The default selection returns the dataset unchanged.
    pub fn apply(&self, dataset: Box<dyn Dataset>) -> Result<Box<dyn Dataset>, DatasetError> {
        if *self == Self::default() { Ok(dataset) } else { Ok(Box::new(SelectedDataset::new(dataset, self)?)) }
    }
}

/// A dataset with a selection applied.
pub struct SelectedDataset {
    dataset: Box<dyn Dataset>,
    skip: u64,
    size: Option<u64>,
    /// The source index of each query before `skip`; `None` if the order is unchanged.
    order: Option<Vec<u64>>,
    fingerprint: String,
}

impl SelectedDataset {
    /// Selects the queries.
    pub fn new(dataset: Box<dyn Dataset>, selection: &Selection) -> Result<Self, DatasetError> {
        let mut order = None;
        if selection.equals.is_some() || selection.shuffle.is_some() {
            let parameter = if selection.shuffle.is_some() { "shuffle" } else { "where" };
            let Some(size) = dataset.size() else {
                let done = if parameter == "shuffle" { "shuffled" } else { "filtered" };
                let what = format!("the dataset {} is endless, so it cannot be {done}", dataset.id()).into();
                return Err(DatasetError::Value { parameter, what });
            };
            let mut kept = match &selection.equals {
                Some((column, value)) => matching(&*dataset, size, column, value)?,
                None => (0..size).collect(),
            };
            if let Some(seed) = selection.shuffle {
                kept = shuffled(&*dataset, &kept, seed);
            }
            order = Some(kept);
        }
        let all = order.as_ref().map(|order| order.len() as u64).or(dataset.size());
        let mut selected = Self { dataset, skip: selection.skip, size: all, order, fingerprint: String::new() };
        let skip = selected.start(all)?;
        let left = all.map(|all| all.saturating_sub(skip));
        if left == Some(0) {
            let all = all.unwrap_or(0);
            let what = format!("skipping {} of {all} queries leaves none", selection.skip).into();
            return Err(DatasetError::Value { parameter: "skip", what });
        }
        selected.skip = skip;
        selected.size = match (left, selection.limit) {
            (Some(left), Some(limit)) => Some(left.min(limit)),
            (left, limit) => left.or(limit),
        };
        selected.fingerprint = sha256(format!("{} {selection:?}", selected.dataset.fingerprint()).as_bytes());
        Ok(selected)
    }

    /// The source index of a query of the selection.
    fn source(&self, place: u64) -> Option<u64> {
        match &self.order {
            None => Some(place),
            Some(order) => usize::try_from(place).ok().and_then(|place| order.get(place).copied()),
        }
    }

    /// The number of queries to skip so that the first remaining one starts a conversation.
    fn start(&self, all: Option<u64>) -> Result<u64, DatasetError> {
        let mut skip = self.skip;
        while skip > 0
            && all.is_none_or(|all| skip < all)
            && let Some(source) = self.source(skip)
            && self.dataset.get(source)?.turn.is_some_and(|turn| turn.number > 0)
        {
            skip += 1;
        }
        Ok(skip)
    }
}

impl Dataset for SelectedDataset {
    fn id(&self) -> &'static str {
        self.dataset.id()
    }

    fn name(&self) -> &str {
        self.dataset.name()
    }

    fn size(&self) -> Option<u64> {
        self.size
    }

    fn get(&self, index: u64) -> Result<Query, DatasetError> {
        if let Some(size) = self.size.filter(|&size| index >= size) {
            return Err(DatasetError::Beyond { index, size });
        }
        let place = index.saturating_add(self.skip);
        let source = self.source(place).ok_or(DatasetError::Beyond { index, size: self.size.unwrap_or(place) })?;
        let mut query = Query { index, ..self.dataset.get(source)? };
        if self.order.is_some() {
            query.metadata.insert(String::from("source_index"), source.into());
        }
        Ok(query)
    }

    fn turns(&self, index: u64) -> u64 {
        let turns = self.source(index.saturating_add(self.skip)).map_or(1, |source| self.dataset.turns(source));
        self.size.map_or(turns, |size| turns.min(size.saturating_sub(index))).max(1)
    }

    fn is_packed(&self) -> bool {
        self.dataset.is_packed()
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn grader(&self) -> Grader {
        self.dataset.grader()
    }

    fn columns(&self) -> Option<&Columns> {
        self.dataset.columns()
    }

    fn skipped(&self) -> u64 {
        self.dataset.skipped()
    }
}

/// Indices in a random order, with the turns of a conversation kept together.
fn shuffled(dataset: &dyn Dataset, places: &[u64], seed: u64) -> Vec<u64> {
    let (mut firsts, mut rest) = (Vec::new(), places);
    while let Some(&first) = rest.first() {
        firsts.push(first);
        let turns = usize::try_from(dataset.turns(first)).unwrap_or(usize::MAX);
        rest = rest.get(turns.max(1)..).unwrap_or_default();
    }
    Random::new(seed).shuffle(&mut firsts);
    firsts.into_iter().flat_map(|first| first..first + dataset.turns(first).max(1)).collect()
}

/// The indices of the queries that have a value in a column.
fn matching(dataset: &dyn Dataset, size: u64, column: &str, value: &str) -> Result<Vec<u64>, DatasetError> {
    // The subject column can also be named by its own name.
    let subject = dataset.columns().and_then(|columns| columns.subject.as_ref()).map(|column| column.name.as_str());
    let is_subject = column == "subject" || subject == Some(column);
    let (mut kept, mut columns, mut values) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for index in 0..size {
        let mut query = dataset.get(index)?;
        let found = match query.metadata.shift_remove(column) {
            Some(cell) => Some(shown(cell)),
            None => is_subject.then_some(query.subject),
        };
        match found {
            Some(found) if found == value => kept.push(index),
            Some(found) if values.len() <= SHOWN => {
                values.insert(found);
            }
            Some(_) => {}
            None => columns.extend(query.metadata.into_iter().map(|(name, _)| name)),
        }
    }
    if !kept.is_empty() {
        return Ok(kept);
    }
    let what = if values.is_empty() {
        columns.insert(String::from("subject"));
        Message::new(format!("no column `{column}`")).with_hint(columns_hint(columns))
    } else {
        let values: Vec<String> = values.into_iter().collect();
        let hint = match values.get(..SHOWN) {
            Some(some) if values.len() > SHOWN => format!("some of the values are {}", some.join(", ")),
            _ => format!("the values are {}", values.join(", ")),
        };
        Message::new(format!("no query has `{value}` in `{column}`")).with_hint(Hint::text(hint))
    };
    Err(DatasetError::Value { parameter: "where", what })
}

fn shown(value: Value) -> String {
    super::row::text(value)
}

#[cfg(test)]
mod tests {
    use ergometer_diagnostics::{CommandLine, Diagnostic as _};
    use proptest::prelude::*;

    use super::*;
    use crate::{Builtin, DatasetSpec};

    fn select(parameters: &[(&str, &str)]) -> Result<Box<dyn Dataset>, DatasetError> {
        let owned: BTreeMap<String, String> =
            parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Selection::parse(&owned)?.apply(Box::<Builtin>::default())
    }

    fn problems(dataset: &dyn Dataset) -> Vec<String> {
        (0..dataset.size().unwrap()).map(|index| dataset.get(index).unwrap().problem).collect()
    }

    #[test]
    fn where_keeps_only_matching_queries() {
        let dataset =
            select(&[("where", "subject=addition"), ("shuffle", "1"), ("skip", "10"), ("limit", "5")]).unwrap();
        assert_eq!(dataset.size(), Some(5));
        let whole = Builtin::default();
        for index in 0..5 {
            let query = dataset.get(index).unwrap();
            let source = query.metadata["source_index"].as_u64().unwrap();
            assert_eq!((query.index, query.subject.as_str()), (index, "addition"));
            assert_eq!(query.problem, whole.get(source).unwrap().problem);
        }
        assert!(matches!(dataset.get(5), Err(DatasetError::Beyond { .. })));
    }

    #[test]
    fn a_subset_has_no_source_index_and_an_empty_selection_is_the_dataset() {
        let part = select(&[("subset", "590..610")]).unwrap();
        assert_eq!((part.size(), part.get(0).unwrap().index), (Some(10), 0));
        assert!(part.get(0).unwrap().metadata.is_empty());
        assert_eq!(select(&[]).unwrap().fingerprint(), Builtin::default().fingerprint());
    }

    #[test]
    fn every_selection_has_its_own_fingerprint() {
        let all: Vec<String> = [
            &[("shuffle", "1")][..],
            &[("shuffle", "2")],
            &[("skip", "1")],
            &[("limit", "1")],
            &[],
            &[("where", "subject=addition")],
        ]
        .iter()
        .map(|parameters| select(parameters).unwrap().fingerprint().to_owned())
        .collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }

    #[test]
    fn invalid_selections_are_rejected() {
        let error = |parameters: &[(&str, &str)]| select(parameters).err().unwrap().one_line(&CommandLine);
        assert!(error(&[("where", "colour=red")]).contains("no column `colour`. hint: the columns are subject"));
        assert!(
            error(&[("where", "subject=zoology")])
                .contains("no query has `zoology` in `subject`. hint: some of the values are add")
        );
        assert!(error(&[("where", "subject")]).contains("is not a condition"));
        assert!(error(&[("skip", "600")]).contains("skipping 600 of 600 queries leaves none"));
        assert!(error(&[("limit", "0")]).contains("leaves no query"));
        assert!(error(&[("subset", "5..5")]).contains("is not a range"));
        assert!(error(&[("subset", "1..5"), ("skip", "2")]).contains("one or the other"));
        assert!(error(&[("shuffle", "x")]).contains("is not a whole number"));
        let endless = |name: &str, value: &str| {
            let parameters = [(name.to_owned(), value.to_owned())].into();
            crate::open(&DatasetSpec { id: String::from("synthetic"), parameters })
        };
        assert!(endless("shuffle", "1").err().unwrap().to_string().contains("is endless"));
        assert!(endless("where", "subject=a").is_err());
        let (all, later) = (endless("seed", "0").unwrap(), endless("skip", "5").unwrap());
        assert_eq!((later.size(), later.get(0).unwrap().problem), (None, all.get(5).unwrap().problem));
        assert_eq!(endless("limit", "3").unwrap().size(), Some(3));
    }

    #[test]
    fn a_selection_of_endless_conversations_starts_with_a_first_turn() {
        let parameters = [("turns", "3"), ("skip", "4"), ("limit", "5")];
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let part = crate::open(&DatasetSpec { id: String::from("synthetic"), parameters }).unwrap();
        let first = part.get(0).unwrap().turn.unwrap();
        assert_eq!((first.conversation, first.number, part.size()), (2, 0, Some(5)));
        assert_eq!((part.turns(0), part.turns(3)), (3, 2), "the last conversation is cut short");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn a_selection_has_the_matching_queries_once_each(
            seed in proptest::option::of(any::<u64>()),
            only in any::<bool>(),
            skip in 0_u64..49,
            limit in proptest::option::of(1_u64..700),
        ) {
            let equals = only.then(|| (String::from("subject"), String::from("addition")));
            let selection = Selection { equals, shuffle: seed, skip, limit };
            let selected = SelectedDataset::new(Box::<Builtin>::default(), &selection).unwrap();
            // The same without skip and limit: all matching queries, once each.
            let whole = SelectedDataset::new(Box::<Builtin>::default(), &Selection { skip: 0, limit: None, ..selection }).unwrap();
            let mut all = problems(&whole);
            let part: Vec<String> = all.iter().skip(usize::try_from(skip).unwrap())
                .take(limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap())).cloned().collect();
            prop_assert_eq!(problems(&selected), part);
            let builtin = Builtin::default();
            let mut expected: Vec<String> = (0..600).map(|index| builtin.get(index).unwrap())
                .filter(|query| !only || query.subject == "addition").map(|query| query.problem).collect();
            all.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(all, expected);
            for index in 0..selected.size().unwrap() {
                prop_assert_eq!(selected.get(index).unwrap().index, index);
            }
        }
    }
}
