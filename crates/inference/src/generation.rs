//! Answers: a prompt and the rules of sampling go in, pieces of text come out as they are decided.

use std::error::Error;
use std::ops::ControlFlow;

use crate::chat::Conversation;
use crate::detokenizer::Detokenizer;
use crate::error::GenerateError;
use crate::model::Model;
use crate::sampling::{AtEnd, Sampler, Sampling};
use crate::stop::{Passed, StopTexts};

/// The tokens of a prompt, ready for the model that encoded it.
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

/// What was generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation {
    /// Tokens of the prompt.
    pub input_tokens: usize,
    /// Tokens that the model decided on, the end-of-sequence token among them where there was one (it took a pass
    /// through the model like any other). As many as there were calls with a piece.
    pub output_tokens: usize,
    /// Why there are no more.
    pub finish: Finish,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Finish {
    /// The model ended it, or a stop text did.
    Stop,
    /// `max_tokens` or the context was reached.
    Length,
    /// The caller broke it off.
    Cancelled,
}

/// Text on its way from tokens to the caller.
struct Text<'a> {
    detokenizer: Detokenizer<'a>,
    stops: StopTexts<'a>,
}

impl Model {
    /// Makes a prompt of a system message, where there is one, and a user's message: by the model's chat template, or
    /// where it has none, of the two texts with an empty line between. Texts that name a special token become it, as
    /// in other servers.
    pub fn encode(&self, system: Option<&str>, user: &str) -> Result<Prompt, GenerateError> {
        self.encode_conversation(&Conversation { system, before: &[], user })
    }

    /// The same of a conversation of several turns; where the model has no chat template, of all its texts with an empty
    /// line between.
    pub fn encode_conversation(&self, conversation: &Conversation<'_>) -> Result<Prompt, GenerateError> {
        Ok(Prompt { tokens: self.chat.encode(&self.tokenizer, conversation)? })
    }

    /// Generates an answer. `on_piece` is called once for every token as soon as it is decided, with the text that is
    /// certain by then: it may be empty while a character or a stop text is incomplete. The pieces joined are the
    /// answer. To break from it ends the generation at once.
    pub fn generate(
        &self,
        prompt: &Prompt,
        sampling: &Sampling,
        on_piece: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation, GenerateError> {
        self.generate_while(prompt, sampling, &|| true, on_piece)
    }

    /// The same, for as long as `goes_on` says so: it is asked before every layer, so that a long prompt can be given up,
    /// too.
    pub fn generate_while(
        &self,
        prompt: &Prompt,
        sampling: &Sampling,
        goes_on: &dyn Fn() -> bool,
        on_piece: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation, GenerateError> {
        self.check(prompt)?;
        let mut sampler = Sampler::new(sampling)?;
        let room = self.info.context - prompt.tokens.len();
        let limit = sampling.max_tokens.map_or(room, |most| most.min(room));
        let done = |output_tokens, finish| Ok(Generation { input_tokens: prompt.tokens.len(), output_tokens, finish });
        if limit == 0 {
            return done(0, Finish::Length);
        }
        let mut text = Text { detokenizer: Detokenizer::new(&self.tokenizer), stops: StopTexts::new(&sampling.stop) };
        let mut session = self.transformer.session();
        if self.transformer.forward_while(&prompt.tokens, &mut session, goes_on).is_break() {
            return done(0, Finish::Cancelled);
        }
        for count in 1.. {
            let position = session.length();
            let token = sampler.pick(session.logits()).ok_or(GenerateError::NotFinite { position })?;
            let ended = sampling.at_end == AtEnd::Stop && self.end_tokens.contains(&token);
            // Nothing follows these, so what is held back comes with them.
            let passed = text.push((!ended).then_some(token), ended || count == limit).map_err(tokenizer_failed)?;
            let (Passed::More(piece) | Passed::Stopped(piece)) = &passed;
            let flow = on_piece(piece);
            if ended || matches!(passed, Passed::Stopped(_)) {
                return done(count, Finish::Stop);
            }
            if flow.is_break() {
                return done(count, Finish::Cancelled);
            }
            if count == limit {
                break;
            }
            if self.transformer.forward_while(&[token], &mut session, goes_on).is_break() {
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

impl Text<'_> {
    /// Takes a token, where it has text, and gives what is certain; all there is where it is the last.
    fn push(&mut self, token: Option<u32>, is_last: bool) -> Result<Passed, Box<dyn Error + Send + Sync>> {
        let mut piece = token.map(|token| self.detokenizer.push(token)).transpose()?.unwrap_or_default();
        if is_last {
            piece += &self.detokenizer.finish()?;
        }
        Ok(match self.stops.push(piece) {
            Passed::More(text) if is_last => Passed::More(text + &self.stops.finish()),
            passed => passed,
        })
    }
}

fn tokenizer_failed(cause: Box<dyn Error + Send + Sync>) -> GenerateError {
    GenerateError::Tokenizer { cause }
}
