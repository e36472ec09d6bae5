//! A recording of requests: a file with times and lengths goes in; queries with their arrivals come out, in their order.
//!
//! What was said is in few recordings, so prompts of the same length are made of common words, as those of `synthetic`
//! are. Where a recording names the blocks of a prompt, the same block is the same words wherever it stands: a prefix
//! cache sees what it saw then. Of each request only its time and its lengths are in memory (about 48 bytes), its blocks
//! (8 bytes each), and its text where it has one. The first query arrives at 0.

mod recorded;
mod source;

use std::collections::BTreeMap;
use std::path::Path;

use sha2::{Digest, Sha256};

use self::recorded::{Recorded, TimeUnit, requests_of};
use super::lengths::LONGEST;
use super::random::Random;
use super::row::{Row, text};
use super::selection::Selection;
use super::synthetic::{add_words, common_words};
use super::table::name_of;
use super::{Dataset, DatasetError, Query, Turn};
use crate::fingerprint::hexadecimal;
use crate::grade::Grader;

/// The parameters, and what they mean.
pub(super) const PARAMETERS: &[(&str, &str)] = &[
    ("path", "the file: JSON Lines or CSV, packed with gzip or not"),
    ("time_unit", "ms or s, where the recording's own is another"),
    ("block_tokens", "how many tokens a block of hash_ids has (512)"),
    ("max_prompt_tokens", "no prompt is longer"),
    ("max_output_tokens", "no answer may be longer"),
    ("seed", "another seed gives other words (0)"),
];

/// A recording.
#[derive(Debug)]
pub(super) struct Replay {
    name: String,
    requests: Vec<Request>,
    /// The blocks of all requests, one after the other.
    blocks: Vec<u64>,
    texts: Vec<Box<str>>,
    settings: Settings,
    words: Vec<&'static str>,
    skipped: u64,
    fingerprint: String,
}

#[derive(Debug, Clone, Copy)]
struct Settings {
    block_tokens: u64,
    most_prompt: u64,
    most_output: u64,
    seed: u64,
}

/// One request, as it is kept.
#[derive(Debug, Clone, Copy)]
struct Request {
    place: Place,
    input: u32,
    output: Option<u32>,
    said: Said,
}

/// Where a request stands in time.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// It arrived by itself, or is the first of this many turns.
    Arrived { at_s: f64, turns: u32 },
    /// It is a further turn, this many after the first.
    Further { number: u32, think_s: Option<f64> },
}

impl Place {
    /// Where the request at this index stands in its session; a conversation's number is the index of its first turn.
    fn turn(self, index: u64) -> Option<Turn> {
        match self {
            Self::Arrived { turns: 1, .. } => None,
            Self::Arrived { .. } => Some(Turn { conversation: index, number: 0, think_s: None }),
            Self::Further { number, think_s } => {
                Some(Turn { conversation: index.saturating_sub(number.into()), number, think_s })
            }
        }
    }
}

/// What a request says.
#[derive(Debug, Clone, Copy)]
enum Said {
    /// Words, where the recording has lengths only.
    Words,
    /// The words of these blocks.
    Blocks { start: u32, count: u32 },
    /// What was said.
    Text(u32),
}

impl Replay {
    /// Reads the file through. The selection is of the recording's rows, so that the first one taken arrives at 0.
    pub(super) fn new(
        path: &Path,
        parameters: &BTreeMap<String, String>,
        selection: &Selection,
    ) -> Result<Self, DatasetError> {
        if selection.shuffle.is_some() {
            let what = String::from("a recording is sent in the order it arrived. hint: leave it out");
            return Err(DatasetError::Value { parameter: "shuffle", what });
        }
        let (settings, unit) = settings(parameters)?;
        let mut reading = Reading::default();
        source::read(path, &mut |row| match &selection.equals {
            Some((column, value)) if !has(&row, column, value)? => Ok(()),
            _ => reading.add(requests_of(&row, unit)?),
        })?;
        if reading.sessions.is_empty() {
            return Err(match (&selection.equals, reading.skipped) {
                (Some((column, value)), 0) => {
                    let what = format!("no row has `{value}` in `{column}`");
                    DatasetError::Value { parameter: "where", what }
                }
                _ => DatasetError::Empty { path: path.to_path_buf() },
            });
        }
        let requests = reading.ordered(selection)?;
        let mut dataset = Self {
            name: name_of(&source::unpacked_name(path)),
            requests,
            blocks: reading.blocks,
            texts: reading.texts,
            settings,
            words: common_words(),
            skipped: reading.skipped,
            fingerprint: String::new(),
        };
        dataset.fingerprint = dataset.hash()?;
        Ok(dataset)
    }

    fn hash(&self) -> Result<String, DatasetError> {
        let mut digest = Sha256::new();
        digest.update(format!("replay {:?}", self.settings));
        for request in &self.requests {
            digest.update(format!("{:?} {} {:?}", request.place, request.input, request.output));
            match request.said {
                Said::Words => {}
                Said::Blocks { .. } => self.blocks_of(request).iter().for_each(|id| digest.update(id.to_le_bytes())),
                Said::Text(_) => digest.update(self.text_of(request).unwrap_or_default()),
            }
            digest.update(b"\n");
        }
        // The first query stands for the words: another version of them would give another.
        digest.update(self.get(0)?.problem);
        Ok(hexadecimal(&digest.finalize()))
    }

    fn blocks_of(&self, request: &Request) -> &[u64] {
        let Said::Blocks { start, count } = request.said else { return &[] };
        let start = start as usize;
        self.blocks.get(start..start + count as usize).unwrap_or_default()
    }

    fn text_of(&self, request: &Request) -> Option<&str> {
        let Said::Text(place) = request.said else { return None };
        self.texts.get(place as usize).map(AsRef::as_ref)
    }

    /// What a request says: its blocks as far as it is long, and what is left in words of its own.
    fn problem(&self, index: u64, request: &Request) -> String {
        if let Some(text) = self.text_of(request) {
            return text.to_owned();
        }
        let Settings { block_tokens, most_prompt, seed, .. } = self.settings;
        let mut left = u64::from(request.input).clamp(1, most_prompt);
        let mut problem = String::new();
        for &id in self.blocks_of(request) {
            if left == 0 {
                break;
            }
            let count = left.min(block_tokens);
            // Other words than those of the query at the place that is the same number.
            add_words(&mut problem, &self.words, &mut Random::of_query(!seed, id), count);
            left -= count;
        }
        add_words(&mut problem, &self.words, &mut Random::of_query(seed, index), left);
        problem
    }

    fn request(&self, index: u64) -> Option<&Request> {
        usize::try_from(index).ok().and_then(|index| self.requests.get(index))
    }
}

impl Dataset for Replay {
    fn id(&self) -> &'static str {
        "replay"
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> Option<u64> {
        Some(self.requests.len() as u64)
    }

    fn get(&self, index: u64) -> Result<Query, DatasetError> {
        let size = self.requests.len() as u64;
        let request = self.request(index).ok_or(DatasetError::Beyond { index, size })?;
        let output = request.output.map(|output| u64::from(output).min(self.settings.most_output));
        let arrival_s = match request.place {
            Place::Arrived { at_s, .. } => Some(at_s),
            Place::Further { .. } => None,
        };
        Ok(Query {
            index,
            problem: self.problem(index, request),
            output_tokens: output,
            arrival_s,
            turn: request.place.turn(index),
            ..Query::default()
        })
    }

    fn turns(&self, index: u64) -> u64 {
        match self.request(index).map(|request| request.place) {
            Some(Place::Arrived { turns, .. }) => turns.into(),
            _ => 1,
        }
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn grader(&self) -> Grader {
        Grader::None
    }

    fn skipped(&self) -> u64 {
        self.skipped
    }
}

/// What was read so far.
#[derive(Debug, Default)]
struct Reading {
    requests: Vec<Request>,
    /// When each session arrived and where its turns stand; a request by itself is a session of one.
    sessions: Vec<(f64, u32)>,
    blocks: Vec<u64>,
    texts: Vec<Box<str>>,
    skipped: u64,
}

impl Reading {
    fn add(&mut self, turns: Vec<Recorded>) -> Result<(), String> {
        let arrival = turns.first().and_then(|turn| turn.arrival_s);
        let count = turns.len() as u64;
        // A session that breaks off is taken up to there.
        let kept: Vec<Recorded> = turns.into_iter().take_while(|turn| !turn.is_empty()).collect();
        self.skipped += count - kept.len() as u64;
        let (Some(at_s), Ok(turns), false) = (arrival, u32::try_from(kept.len()), kept.is_empty()) else {
            return Ok(());
        };
        let many = |_| String::from("more rows than can be kept: 4294967295");
        self.sessions.push((at_s, u32::try_from(self.requests.len()).map_err(many)?));
        for (number, turn) in (0..turns).zip(kept) {
            let said = match turn.text {
                Some(text) => {
                    self.texts.push(text.into());
                    Said::Text(u32::try_from(self.texts.len() - 1).map_err(many)?)
                }
                None if turn.blocks.is_empty() => Said::Words,
                None => {
                    let start = u32::try_from(self.blocks.len()).map_err(many)?;
                    let count = u32::try_from(turn.blocks.len()).map_err(many)?;
                    self.blocks.extend(turn.blocks);
                    Said::Blocks { start, count }
                }
            };
            let place = match number {
                0 => Place::Arrived { at_s, turns },
                number => Place::Further { number, think_s: turn.think_s },
            };
            self.requests.push(Request { place, input: turn.input, output: turn.output, said });
        }
        Ok(())
    }

    /// The requests in the order they arrived, from the first that is taken, which arrives at 0. To skip ends at the start
    /// of a session; a limit may end in the middle of one.
    fn ordered(&mut self, selection: &Selection) -> Result<Vec<Request>, DatasetError> {
        self.sessions.sort_by(|one, other| one.0.total_cmp(&other.0));
        let all = std::mem::take(&mut self.requests);
        let limit = selection.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let (mut kept, mut seen, mut first) = (Vec::new(), 0_u64, None);
        for &(at_s, start) in &self.sessions {
            let turns = all[start as usize..].iter().enumerate();
            let count = turns.take_while(|(number, turn)| *number == 0 || matches!(turn.place, Place::Further { .. }));
            let count = count.count();
            let is_skipped = seen < selection.skip;
            seen += count as u64;
            let count = count.min(limit - kept.len());
            if is_skipped || count == 0 {
                continue;
            }
            let at_s = at_s - *first.get_or_insert(at_s);
            let turns = u32::try_from(count).unwrap_or(u32::MAX);
            let session = all[start as usize..][..count].iter().copied();
            kept.extend(session.map(|turn| match turn.place {
                Place::Arrived { .. } => Request { place: Place::Arrived { at_s, turns }, ..turn },
                Place::Further { .. } => turn,
            }));
        }
        if kept.is_empty() {
            let what = format!("{} leaves no query of {}", selection.skip, all.len());
            return Err(DatasetError::Value { parameter: "skip", what });
        }
        kept.shrink_to_fit();
        Ok(kept)
    }
}

fn settings(parameters: &BTreeMap<String, String>) -> Result<(Settings, Option<TimeUnit>), DatasetError> {
    let given = |name: &str| parameters.get(name).map(|text| text.trim());
    let number = |name: &'static str, default: u64, least: u64, most: u64| match given(name) {
        None => Ok(default),
        Some(text) => text.parse().ok().filter(|number| (least..=most).contains(number)).ok_or_else(|| {
            let what = format!("`{text}` is no whole number from {least} to {most}");
            DatasetError::Value { parameter: name, what }
        }),
    };
    let unit = match given("time_unit") {
        None => None,
        Some("s") => Some(TimeUnit::Seconds),
        Some("ms") => Some(TimeUnit::Milliseconds),
        Some(other) => {
            let what = format!("`{other}` is neither s nor ms");
            return Err(DatasetError::Value { parameter: "time_unit", what });
        }
    };
    let settings = Settings {
        block_tokens: number("block_tokens", 512, 1, LONGEST)?,
        most_prompt: number("max_prompt_tokens", LONGEST, 1, LONGEST)?,
        most_output: number("max_output_tokens", LONGEST, 1, LONGEST)?,
        seed: number("seed", 0, 0, u64::MAX)?,
    };
    Ok((settings, unit))
}

/// Whether a column of a row has a value.
fn has(row: &Row, column: &str, value: &str) -> Result<bool, String> {
    let there = || row.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    let cell = row.get(column).ok_or_else(|| format!("no column `{column}`. hint: the columns are {}", there()))?;
    Ok(text(cell.clone()) == value)
}

#[cfg(test)]
mod tests;
