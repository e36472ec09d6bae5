//! The dataset `replay`: a recording of requests as queries with arrival times.
//!
//! Few recordings contain the prompts, so prompts of the same length are made of common words, as in `synthetic`. If a
//! recording has the block ids of a prompt, the same block always becomes the same words, so that a prefix cache has
//! the same hits as in the recording. A request needs about 48 bytes of memory, plus 8 bytes per block and its text, if
//! it has one. The first query arrives at 0.

mod recorded;
mod source;

use std::collections::BTreeMap;
use std::path::Path;

use ergometer_diagnostics::{Hint, Message, hint, option};
use sha2::{Digest, Sha256};

use self::recorded::{Recorded, TimeUnit, requests_of};
use super::error::columns_hint;
use super::lengths::LONGEST;
use super::random::Random;
use super::row::{Row, text};
use super::selection::Selection;
use super::synthetic::{add_words, common_words};
use super::table::name_of;
use super::{Dataset, DatasetError, Query, Turn};
use crate::fingerprint::hexadecimal;
use crate::grade::Grader;

/// Names and descriptions of the parameters.
pub(super) const PARAMETERS: &[(&str, &str)] = &[
    ("path", "the file: JSON Lines or CSV, optionally compressed with gzip"),
    ("time_unit", "unit of the time stamps, ms or s [default: depends on the format]"),
    ("block_tokens", "tokens per block of hash_ids [default: 512]"),
    ("max_prompt_tokens", "maximum length of a prompt in tokens; longer prompts are shortened to it"),
    ("max_output_tokens", "upper limit for the tokens of each answer"),
    ("seed", "random seed of the words [default: 0]"),
];

/// A recording.
#[derive(Debug)]
pub(super) struct Replay {
    name: String,
    requests: Vec<Request>,
    /// The block ids of all requests, in order.
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

/// One request in memory.
#[derive(Debug, Clone, Copy)]
struct Request {
    timing: Timing,
    input: u32,
    output: Option<u32>,
    prompt: Prompt,
}

/// How a request is timed.
#[derive(Debug, Clone, Copy)]
enum Timing {
    /// It arrived at this time, and is the first of this many turns.
    Arrived { at_s: f64, turns: u32 },
    /// It is a later turn of a session, with its number from 0.
    Further { number: u32, think_s: Option<f64> },
}

impl Timing {
    /// The turn of the request at this index; `None` for a single request. A conversation's number is its first index.
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

/// The prompt of a request.
#[derive(Debug, Clone, Copy)]
enum Prompt {
    /// Random words, if the recording has lengths only.
    Words,
    /// The words of a range of blocks.
    Blocks { start: u32, count: u32 },
    /// The recorded text, by its position in `texts`.
    Text(u32),
}

impl Replay {
    /// Reads a recording. The selection applies to its rows, so that the first selected request arrives at 0.
    pub(super) fn new(
        path: &Path,
        parameters: &BTreeMap<String, String>,
        selection: &Selection,
    ) -> Result<Self, DatasetError> {
        if selection.shuffle.is_some() {
            let what = Message::new("requests of a recording are sent in the order of their arrival")
                .with_hint(Hint::text("leave out shuffle="));
            return Err(DatasetError::Value { parameter: "shuffle", what });
        }
        let (settings, unit) = settings(parameters)?;
        let mut recording = Recording::default();
        source::read(path, &mut |row| match &selection.equals {
            Some((column, value)) if !has(&row, column, value)? => Ok(()),
            _ => recording.add(requests_of(&row, unit)?),
        })?;
        if recording.sessions.is_empty() {
            return Err(match (&selection.equals, recording.skipped) {
                (Some((column, value)), 0) => {
                    let what = format!("no row has `{value}` in `{column}`").into();
                    DatasetError::Value { parameter: "where", what }
                }
                _ => DatasetError::Empty { path: path.to_path_buf() },
            });
        }
        let requests = recording.ordered(selection)?;
        let mut dataset = Self {
            name: name_of(&source::unpacked_name(path)),
            requests,
            blocks: recording.blocks,
            texts: recording.texts,
            settings,
            words: common_words(),
            skipped: recording.skipped,
            fingerprint: String::new(),
        };
        dataset.fingerprint = dataset.hash()?;
        Ok(dataset)
    }

    fn hash(&self) -> Result<String, DatasetError> {
        let mut digest = Sha256::new();
        digest.update(format!("replay {:?}", self.settings));
        for request in &self.requests {
            digest.update(format!("{:?} {} {:?}", request.timing, request.input, request.output));
            match request.prompt {
                Prompt::Words => {}
                Prompt::Blocks { .. } => self.blocks_of(request).iter().for_each(|id| digest.update(id.to_le_bytes())),
                Prompt::Text(_) => digest.update(self.text_of(request).unwrap_or_default()),
            }
            digest.update(b"\n");
        }
        // The first query represents the word list, so that another list gives another fingerprint.
        digest.update(self.get(0)?.problem);
        Ok(hexadecimal(&digest.finalize()))
    }

    fn blocks_of(&self, request: &Request) -> &[u64] {
        let Prompt::Blocks { start, count } = request.prompt else { return &[] };
        let start = start as usize;
        self.blocks.get(start..start + count as usize).unwrap_or_default()
    }

    fn text_of(&self, request: &Request) -> Option<&str> {
        let Prompt::Text(place) = request.prompt else { return None };
        self.texts.get(place as usize).map(AsRef::as_ref)
    }

    /// The prompt of a request: the words of its blocks up to its length, then random words.
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
            // The inverted seed keeps block words different from the words of the query with the same number.
            add_words(&mut problem, &self.words, &mut Random::for_query(!seed, id), count);
            left -= count;
        }
        add_words(&mut problem, &self.words, &mut Random::for_query(seed, index), left);
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
        let arrival_s = match request.timing {
            Timing::Arrived { at_s, .. } => Some(at_s),
            Timing::Further { .. } => None,
        };
        Ok(Query {
            index,
            problem: self.problem(index, request),
            output_tokens: output,
            arrival_s,
            turn: request.timing.turn(index),
            ..Query::default()
        })
    }

    fn turns(&self, index: u64) -> u64 {
        match self.request(index).map(|request| request.timing) {
            Some(Timing::Arrived { turns, .. }) => turns.into(),
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

/// The part of a recording that has been read.
#[derive(Debug, Default)]
struct Recording {
    requests: Vec<Request>,
    /// Arrival time and first request of each session; a single request is a session of one.
    sessions: Vec<(f64, u32)>,
    blocks: Vec<u64>,
    texts: Vec<Box<str>>,
    skipped: u64,
    /// The first and the last arrival time.
    arrivals: Option<(f64, f64)>,
}

/// The longest recording: ten years. A run would wait for a later request without any sign.
const LONGEST_S: f64 = 10.0 * 365.0 * 86_400.0;

impl Recording {
    fn add(&mut self, turns: Vec<Recorded>) -> Result<(), Message> {
        let arrival = turns.first().and_then(|turn| turn.arrival_s);
        let count = turns.len() as u64;
        // A session is used up to its first failed turn.
        let kept: Vec<Recorded> = turns.into_iter().take_while(|turn| !turn.is_empty()).collect();
        self.skipped += count - kept.len() as u64;
        let (Some(at_s), Ok(turns), false) = (arrival, u32::try_from(kept.len()), kept.is_empty()) else {
            return Ok(());
        };
        let (first, last) = self.arrivals.map_or((at_s, at_s), |(first, last)| (first.min(at_s), last.max(at_s)));
        if last - first > LONGEST_S {
            let hint = hint!("check the unit of the times: ", option("dataset-param").value("time_unit=s"), " or ms");
            let text = format!("its time of arrival, {at_s:e} s, is more than ten years away from the others");
            return Err(Message::new(text).with_hint(hint));
        }
        self.arrivals = Some((first, last));
        let many = |_| Message::new("more than 4294967295 rows");
        self.sessions.push((at_s, u32::try_from(self.requests.len()).map_err(many)?));
        for (number, turn) in (0..turns).zip(kept) {
            let prompt = match turn.text {
                Some(text) => {
                    self.texts.push(text.into());
                    Prompt::Text(u32::try_from(self.texts.len() - 1).map_err(many)?)
                }
                None if turn.blocks.is_empty() => Prompt::Words,
                None => {
                    let start = u32::try_from(self.blocks.len()).map_err(many)?;
                    let count = u32::try_from(turn.blocks.len()).map_err(many)?;
                    self.blocks.extend(turn.blocks);
                    Prompt::Blocks { start, count }
                }
            };
            let timing = match number {
                0 => Timing::Arrived { at_s, turns },
                number => Timing::Further { number, think_s: turn.think_s },
            };
            self.requests.push(Request { timing, input: turn.input, output: turn.output, prompt });
        }
        Ok(())
    }

    /// The selected requests in order of arrival, the first at 0. Skipping ends at the start of a session; a limit may
    /// end in the middle of one.
    fn ordered(&mut self, selection: &Selection) -> Result<Vec<Request>, DatasetError> {
        self.sessions.sort_by(|one, other| one.0.total_cmp(&other.0));
        let all = std::mem::take(&mut self.requests);
        let limit = selection.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let (mut kept, mut seen, mut first) = (Vec::new(), 0_u64, None);
        for &(at_s, start) in &self.sessions {
            let turns = all[start as usize..].iter().enumerate();
            let count =
                turns.take_while(|(number, turn)| *number == 0 || matches!(turn.timing, Timing::Further { .. }));
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
            kept.extend(session.map(|turn| match turn.timing {
                Timing::Arrived { .. } => Request { timing: Timing::Arrived { at_s, turns }, ..turn },
                Timing::Further { .. } => turn,
            }));
        }
        if kept.is_empty() {
            let what = format!("skipping {} of {} queries leaves none", selection.skip, all.len()).into();
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
            let what = format!("`{text}` is not a whole number from {least} to {most}").into();
            DatasetError::Value { parameter: name, what }
        }),
    };
    let unit = match given("time_unit") {
        None => None,
        Some("s") => Some(TimeUnit::Seconds),
        Some("ms") => Some(TimeUnit::Milliseconds),
        Some(other) => {
            let what = format!("`{other}` is neither s nor ms").into();
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

/// Whether a row has a value in a column.
fn has(row: &Row, column: &str, value: &str) -> Result<bool, Message> {
    let missing = || Message::new(format!("no column `{column}`")).with_hint(columns_hint(row.keys()));
    let cell = row.get(column).ok_or_else(missing)?;
    Ok(text(cell.clone()) == value)
}

#[cfg(test)]
mod tests;
