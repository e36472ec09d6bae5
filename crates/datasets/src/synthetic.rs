//! The dataset `synthetic`: endless prompts of common short words, with a maximum length for each answer.
//!
//! The turns of a conversation have consecutive indices, and only the first has the shared prefix. The same seed and
//! index always give the same query. One word is about one token, so lengths are approximate; the record has the
//! model's counts.

use std::collections::BTreeMap;

use ergometer_diagnostics::Message;

use super::lengths::{LONGEST, Lengths};
use super::random::Random;
use super::{Dataset, DatasetError, Query, Turn};
use crate::fingerprint::sha256;
use crate::grade::Grader;

/// Words that are one token in most vocabularies, including the space before them.
const WORDS: &str = "the of and to in is was for that it with as on be at by this had not are but from or have an they \
    which one you were all her she there would their we him been has when who will no more if out so up what its about \
    than into them can only other time new some could these two may first then do any like my now over such our man me \
    even most made after also did many off before must well back through years much where your way down should because \
    long each just state those people too mr how little good world make very year still see own work men day get here \
    old life both between being under three never know same last another while us might great go come since against \
    right came take used himself few house use place during high without again home around small found thought went say \
    part once general school every until united number does water less night put think almost hand enough far took head \
    yet system better set told nothing end why called eyes find going look asked later point knew city next program give";

/// Maximum number of turns of a conversation.
const MOST_TURNS: u64 = 10_000;

/// Endless queries.
#[derive(Debug)]
pub struct Synthetic {
    prompt: Lengths,
    most_prompt: u64,
    output: Lengths,
    most_output: u64,
    /// The number of turns of a conversation.
    turns: u64,
    /// The lengths of its later turns.
    further: Lengths,
    prefix: String,
    seed: u64,
    words: Vec<&'static str>,
    fingerprint: String,
}

impl Synthetic {
    /// Creates the dataset from its parameters.
    pub(super) fn new(parameters: &BTreeMap<String, String>) -> Result<Self, DatasetError> {
        let given = |name: &str| parameters.get(name).map(String::as_str);
        let lengths = |name: &'static str, default: &str| {
            given(name).unwrap_or(default).parse::<Lengths>().map_err(|what| value(name, what))
        };
        let number = |name: &'static str, default: u64, range: std::ops::RangeInclusive<u64>| match given(name) {
            None => Ok(default),
            Some(text) => text.trim().parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
                value(name, format!("`{text}` is not a whole number from {} to {}", range.start(), range.end()).into())
            }),
        };
        let words = common_words();
        let seed = number("seed", 0, 0..=u64::MAX)?;
        let prefix_tokens = number("shared_prefix_tokens", 0, 0..=LONGEST)?;
        let mut prefix = String::new();
        add_words(&mut prefix, &words, &mut Random::new(!seed), prefix_tokens);
        let mut dataset = Self {
            prompt: lengths("prompt_tokens", "128")?,
            most_prompt: number("max_prompt_tokens", LONGEST, 1..=LONGEST)?,
            output: lengths("output_tokens", "64")?,
            most_output: number("max_output_tokens", LONGEST, 1..=LONGEST)?,
            turns: number("turns", 1, 1..=MOST_TURNS)?,
            further: lengths("turn_tokens", given("prompt_tokens").unwrap_or("128"))?,
            prefix,
            seed,
            words,
            fingerprint: String::new(),
        };
        let what = (dataset.prompt, dataset.most_prompt, dataset.output, dataset.most_output, prefix_tokens, seed);
        // The first query represents the generator, so that another version of it gives another fingerprint.
        let first = dataset.get(0)?.problem;
        // Without conversations, the fingerprint stays the same as before conversations were added.
        let turns = (dataset.turns > 1).then(|| format!(" {} {:?}", dataset.turns, dataset.further));
        let turns = turns.unwrap_or_default();
        dataset.fingerprint = sha256(format!("synthetic {what:?} {first}{turns}").as_bytes());
        Ok(dataset)
    }
}

impl Dataset for Synthetic {
    fn id(&self) -> &'static str {
        "synthetic"
    }

    fn name(&self) -> &'static str {
        "synthetic"
    }

    fn size(&self) -> Option<u64> {
        None
    }

    fn get(&self, index: u64) -> Result<Query, DatasetError> {
        let mut random = Random::for_query(self.seed, index);
        let number = index % self.turns;
        let is_first = number == 0;
        let length = if is_first { self.prompt } else { self.further };
        let tokens = length.draw(&mut random, self.most_prompt);
        let output_tokens = self.output.draw(&mut random, self.most_output);
        let mut problem = if is_first { self.prefix.clone() } else { String::new() };
        add_words(&mut problem, &self.words, &mut random, tokens);
        let turn =
            Turn { conversation: index / self.turns, number: u32::try_from(number).unwrap_or(u32::MAX), think_s: None };
        let turn = (self.turns > 1).then_some(turn);
        Ok(Query { index, problem, output_tokens: Some(output_tokens), turn, ..Query::default() })
    }

    fn turns(&self, _index: u64) -> u64 {
        self.turns
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn grader(&self) -> Grader {
        Grader::None
    }
}

/// Words that are about one token each.
pub(super) fn common_words() -> Vec<&'static str> {
    WORDS.split_whitespace().collect()
}

/// Adds this many words to a text.
pub(super) fn add_words(text: &mut String, words: &[&str], random: &mut Random, count: u64) {
    for _ in 0..count {
        let word = usize::try_from(random.below(words.len() as u64)).ok().and_then(|place| words.get(place));
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(word.unwrap_or(&"the"));
    }
}

fn value(parameter: &'static str, what: Message) -> DatasetError {
    DatasetError::Value { parameter, what }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn open(parameters: &[(&str, &str)]) -> Result<Synthetic, DatasetError> {
        let owned = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Synthetic::new(&owned.collect())
    }

    #[test]
    fn prompts_have_their_lengths_and_share_their_prefix() {
        let parameters =
            [("prompt_tokens", "uniform:5..9"), ("output_tokens", "7"), ("shared_prefix_tokens", "20"), ("seed", "3")];
        let dataset = open(&parameters).unwrap();
        let queries: Vec<Query> = (0..50).map(|index| dataset.get(index).unwrap()).collect();
        let prefix: Vec<&str> = queries[0].problem.split(' ').take(20).collect();
        for query in &queries {
            let words: Vec<&str> = query.problem.split(' ').collect();
            assert!((25..=29).contains(&words.len()) && words[..20] == prefix[..], "{}", query.problem);
            assert_eq!(query.output_tokens, Some(7));
        }
        assert!(queries.windows(2).all(|pair| pair[0].problem != pair[1].problem));
    }

    #[test]
    fn every_parameter_changes_the_fingerprint_and_invalid_ones_are_errors() {
        let one = open(&[]).unwrap();
        for parameter in [
            ("seed", "1"),
            ("prompt_tokens", "9"),
            ("output_tokens", "9"),
            ("shared_prefix_tokens", "1"),
            ("max_prompt_tokens", "500"),
            ("max_output_tokens", "500"),
            ("turns", "2"),
        ] {
            assert_ne!(one.fingerprint(), open(&[parameter]).unwrap().fingerprint(), "{parameter:?}");
        }
        let error = open(&[("max_prompt_tokens", "0")]).unwrap_err().to_string();
        assert!(error.contains("max_prompt_tokens"), "{error}");
        assert!(open(&[("prompt_tokens", "x")]).is_err());
        assert!(open(&[("turns", "uniform:2..3")]).unwrap_err().to_string().contains("not a whole number"));
    }

    #[test]
    fn the_turns_of_a_conversation_follow_each_other() {
        let parameters =
            [("turns", "3"), ("prompt_tokens", "9"), ("turn_tokens", "uniform:2..4"), ("shared_prefix_tokens", "5")];
        let dataset = open(&parameters).unwrap();
        for index in 0..9 {
            let query = dataset.get(index).unwrap();
            let turn = query.turn.unwrap();
            assert_eq!((turn.conversation, u64::from(turn.number)), (index / 3, index % 3));
            let words = query.problem.split(' ').count();
            assert!(if turn.number == 0 { words == 14 } else { (2..=4).contains(&words) }, "{index}: {words}");
        }
        assert_eq!((dataset.turns(0), open(&[]).unwrap().turns(0)), (3, 1));
        assert_ne!(dataset.fingerprint(), open(&[&parameters[..2], &parameters[3..]].concat()).unwrap().fingerprint());
        assert_eq!(open(&[]).unwrap().get(0).unwrap().turn, None);
    }

    proptest! {
        #[test]
        fn the_same_index_gives_the_same_query(seed: u64, index: u64, before in prop::collection::vec(any::<u64>(), 0..4)) {
            let seed = seed.to_string();
            let parameters = [("seed", seed.as_str()), ("prompt_tokens", "normal:9,4"), ("output_tokens", "exponential:5")];
            let (one, other) = (open(&parameters).unwrap(), open(&parameters).unwrap());
            for place in before {
                one.get(place).unwrap();
            }
            prop_assert_eq!(one.get(index).unwrap(), other.get(index).unwrap());
            prop_assert_eq!(one.fingerprint(), other.fingerprint());
        }
    }
}
