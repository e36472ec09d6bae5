//! Generates an answer to a prompt and streams its text token by token.

use std::error::Error;
use std::ops::ControlFlow;

use crate::chat::Conversation;
use crate::detokenizer::Detokenizer;
use crate::error::GenerateError;
use crate::model::Model;
use crate::sampling::{EndOfSequence, Sampler, Sampling};
use crate::stop::{StopCheck, StopTexts};

/// The tokens of a prompt. Only the model that encoded a prompt can use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    tokens: Vec<u32>,
}

impl Prompt {
    /// The tokens.
    #[must_use]
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }
}

/// Token counts of an answer, and why it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation {
    /// Tokens of the prompt.
    pub input_tokens: usize,
    /// Tokens of the answer, equal to the number of calls of `on_piece`. An end-of-sequence token counts, because it
    /// takes a pass through the model like any other token.
    pub output_tokens: usize,
    /// Why the answer ended.
    pub finish: Finish,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Finish {
    /// The model generated an end-of-sequence token or a stop text.
    Stop,
    /// The answer reached `max_tokens` or the end of the context.
    Length,
    /// The caller cancelled the generation.
    Cancelled,
}

/// Turns tokens into text and cuts the text at a stop text.
struct TextStream<'a> {
    detokenizer: Detokenizer<'a>,
    stops: StopTexts<'a>,
}

impl Model {
    /// Encodes an optional system message and a user message with the model's chat template. A model without a chat
    /// template gets the two texts separated by an empty line. The text of a special token becomes that token, as in
    /// other inference servers.
    pub fn encode(&self, system: Option<&str>, user: &str) -> Result<Prompt, GenerateError> {
        self.encode_conversation(&Conversation { system, before: &[], user })
    }

    /// Encodes a conversation of several turns with the model's chat template. A model without a chat template gets all
    /// texts, separated by empty lines.
    pub fn encode_conversation(&self, conversation: &Conversation<'_>) -> Result<Prompt, GenerateError> {
        Ok(Prompt { tokens: self.chat.encode(&self.tokenizer, conversation, Some(self.info.context))? })
    }

    /// Generates an answer. It calls `on_piece` once per token, as soon as the token is chosen, with the text that can
    /// no longer change; the text is empty while a character or a stop text is incomplete. The pieces joined are the
    /// answer. Returning `Break` from `on_piece` ends the generation immediately.
    pub fn generate(
        &self,
        prompt: &Prompt,
        sampling: &Sampling,
        on_piece: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation, GenerateError> {
        self.generate_while(prompt, sampling, &|| true, on_piece)
    }

    /// Generates an answer while `keep_going` returns true. It is called before every layer, so a caller can also
    /// cancel during a long prefill.
    pub fn generate_while(
        &self,
        prompt: &Prompt,
        sampling: &Sampling,
        keep_going: &dyn Fn() -> bool,
        on_piece: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation, GenerateError> {
        self.check(prompt)?;
        let mut sampler = Sampler::new(sampling)?;
        let room = self.info.context - prompt.tokens.len();
        let limit = sampling.max_tokens.map_or(room, |max_tokens| max_tokens.min(room));
        let done = |output_tokens, finish| Ok(Generation { input_tokens: prompt.tokens.len(), output_tokens, finish });
        if limit == 0 {
            return done(0, Finish::Length);
        }
        let mut text =
            TextStream { detokenizer: Detokenizer::new(&self.tokenizer), stops: StopTexts::new(&sampling.stop) };
        let mut session = self.transformer.session();
        if self.transformer.forward_while(&prompt.tokens, &mut session, keep_going).is_break() {
            return done(0, Finish::Cancelled);
        }
        for count in 1.. {
            let position = session.length();
            let token = sampler.pick(session.logits()).ok_or(GenerateError::NotFinite { position })?;
            let ended = sampling.end_of_sequence == EndOfSequence::Stop && self.end_tokens.contains(&token);
            // The last token also releases the text held back so far.
            let checked = text.push((!ended).then_some(token), ended || count == limit).map_err(tokenizer_failed)?;
            let (StopCheck::Continue(piece) | StopCheck::Stop(piece)) = &checked;
            let flow = on_piece(piece);
            if ended || matches!(checked, StopCheck::Stop(_)) {
                return done(count, Finish::Stop);
            }
            if flow.is_break() {
                return done(count, Finish::Cancelled);
            }
            if count == limit {
                break;
            }
            if self.transformer.forward_while(&[token], &mut session, keep_going).is_break() {
                return done(count, Finish::Cancelled);
            }
        }
        done(limit, Finish::Length)
    }

    fn check(&self, prompt: &Prompt) -> Result<(), GenerateError> {
        let (tokens, context) = (prompt.tokens.len(), self.info.context);
        if tokens == 0 {
            return Err(GenerateError::EmptyPrompt);
        }
        if tokens > context {
            return Err(GenerateError::TooLong { tokens, context });
        }
        let vocabulary = self.transformer.vocabulary();
        match prompt.tokens.iter().find(|&&token| token as usize >= vocabulary) {
            Some(&token) => Err(GenerateError::UnknownToken { token, vocabulary }),
            None => Ok(()),
        }
    }
}

impl TextStream<'_> {
    /// Adds a token, or `None` for a token without text, and returns the text that can no longer change. The last token
    /// returns all remaining text.
    fn push(&mut self, token: Option<u32>, is_last: bool) -> Result<StopCheck, Box<dyn Error + Send + Sync>> {
        let mut piece = token.map(|token| self.detokenizer.push(token)).transpose()?.unwrap_or_default();
        if is_last {
            piece += &self.detokenizer.finish()?;
        }
        Ok(match self.stops.push(piece) {
            StopCheck::Continue(text) if is_last => StopCheck::Continue(text + &self.stops.finish()),
            checked => checked,
        })
    }
}

fn tokenizer_failed(cause: Box<dyn Error + Send + Sync>) -> GenerateError {
    GenerateError::Tokenizer { cause }
}
