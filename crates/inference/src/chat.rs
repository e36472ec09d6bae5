//! Renders a conversation as a prompt with the model's chat template, as transformers does.
//!
//! `strftime_now` stays undefined. Templates that use it then write a fixed date, so a prompt is the same every day.

use std::error::Error as StdError;
use std::path::Path;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, context};
use serde::Deserialize;

use crate::config::parse_json;
use crate::error::{GenerateError, ModelError};
use crate::files::File;
use crate::python_methods::call_method;
use crate::tokenizer::{Specials, Tokenizer};

/// The fields of `tokenizer_config.json` that affect prompts.
#[derive(Default, Deserialize)]
struct TokenizerConfig {
    chat_template: Option<RawTemplate>,
    bos_token: Option<RawToken>,
    eos_token: Option<RawToken>,
}

/// A template, or several named templates.
#[derive(Deserialize)]
#[serde(untagged)]
enum RawTemplate {
    One(String),
    Named(Vec<NamedTemplate>),
}

#[derive(Deserialize)]
struct NamedTemplate {
    name: String,
    template: String,
}

/// A token as text, or as an object with the text and its properties.
#[derive(Deserialize)]
#[serde(untagged)]
enum RawToken {
    Text(String),
    Described { content: String },
}

/// The messages of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Conversation<'a> {
    /// The system message.
    pub system: Option<&'a str>,
    /// Earlier turns, oldest first.
    pub before: &'a [Exchange<'a>],
    /// The user message to answer.
    pub user: &'a str,
}

/// An earlier turn of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange<'a> {
    /// The user message.
    pub user: &'a str,
    /// The answer of the model.
    pub assistant: &'a str,
}

impl<'a> Conversation<'a> {
    /// Role and text of each message, in order.
    fn messages(&self) -> impl Iterator<Item = (&'static str, &'a str)> {
        let before = self.before.iter().flat_map(|turn| [("user", turn.user), ("assistant", turn.assistant)]);
        self.system.map(|text| ("system", text)).into_iter().chain(before).chain([("user", self.user)])
    }

    /// All texts, separated by empty lines.
    fn plain(&self) -> String {
        self.messages().map(|(_, text)| text).collect::<Vec<_>>().join("\n\n")
    }
}

/// The chat template of a model and its special tokens.
pub(crate) struct Chat {
    /// Holds the template under [`NAME`]; `None` if the model has no template.
    environment: Option<Environment<'static>>,
    begin: Option<String>,
    end: Option<String>,
}

/// The text of a prompt, or the error of the template.
type RenderResult = Result<String, Box<dyn StdError + Send + Sync>>;

/// The name of the template. minijinja escapes HTML only in templates with an HTML file name.
const NAME: &str = "chat_template";

impl Chat {
    /// Reads `tokenizer_config.json` and `chat_template.jinja`. If both contain a template, it uses
    /// `chat_template.jinja`.
    pub(crate) fn load(config: Option<&File>, template: Option<&File>) -> Result<Self, ModelError> {
        let raw = config.map(|file| parse_json::<TokenizerConfig>(&file.path, &file.bytes)).transpose()?;
        let TokenizerConfig { chat_template, bos_token, eos_token } = raw.unwrap_or_default();
        let source = match (template, config, chat_template.and_then(RawTemplate::into_default)) {
            (Some(file), ..) => Some((file.path.as_path(), String::from_utf8_lossy(&file.bytes).into_owned())),
            (None, Some(file), Some(source)) => Some((file.path.as_path(), source)),
            _ => None,
        };
        Ok(Self {
            environment: source.map(|(path, source)| compile(path, source)).transpose()?,
            begin: bos_token.map(RawToken::into_text),
            end: eos_token.map(RawToken::into_text),
        })
    }

    /// The text of the end-of-sequence token, if `tokenizer_config.json` names one.
    pub(crate) fn end(&self) -> Option<&str> {
        self.end.as_deref()
    }

    /// The tokens of the rendered messages. Without a template, the texts are separated by empty lines. A text that is
    /// too long for the context is not tokenized.
    pub(crate) fn encode(
        &self,
        tokenizer: &Tokenizer,
        conversation: &Conversation<'_>,
        context: Option<usize>,
    ) -> Result<Vec<u32>, GenerateError> {
        let (text, specials) = match self.render_all(conversation) {
            Some(rendered) => (rendered.map_err(|cause| GenerateError::Template { cause })?, Specials::InText),
            None => (conversation.plain(), Specials::Added),
        };
        if let Some(context) = context
            && text.len() > tokenizer.most_bytes(context)
        {
            let (bytes, most) = (text.len(), tokenizer.most_bytes(context));
            return Err(GenerateError::TooManyBytes { bytes, most, context });
        }
        tokenizer.encode(&text, specials).map_err(|cause| GenerateError::Tokenizer { cause })
    }

    /// Renders the messages. Some templates, such as those of the demo models, ignore earlier turns. They get the whole
    /// conversation as one message, so that no turn is lost.
    fn render_all(&self, conversation: &Conversation<'_>) -> Option<RenderResult> {
        let rendered = self.render(conversation)?;
        let alone = Conversation { before: &[], ..*conversation };
        if conversation.before.is_empty()
            || !matches!((&rendered, self.render(&alone)), (Ok(all), Some(Ok(last))) if *all == last)
        {
            return Some(rendered);
        }
        let text = Conversation { system: None, ..*conversation }.plain();
        self.render(&Conversation { user: &text, ..alone })
    }

    /// Renders the messages, or returns `None` if the model has no template.
    pub(crate) fn render(&self, conversation: &Conversation<'_>) -> Option<RenderResult> {
        let environment = self.environment.as_ref()?;
        let messages: Vec<_> =
            conversation.messages().map(|(role, content)| context!(role => role, content => content)).collect();
        // transformers also passes `tools` and `documents` as none, and some templates rely on it.
        let variables = context! {
            messages => messages,
            add_generation_prompt => true,
            bos_token => self.begin.as_deref().unwrap_or_default(),
            eos_token => self.end.as_deref().unwrap_or_default(),
            tools => (),
            documents => (),
        };
        Some(environment.get_template(NAME).and_then(|template| template.render(variables)).map_err(Into::into))
    }
}

impl RawTemplate {
    fn into_default(self) -> Option<String> {
        match self {
            Self::One(template) => Some(template),
            Self::Named(templates) => {
                templates.into_iter().find(|named| named.name == "default").map(|named| named.template)
            }
        }
    }
}

impl RawToken {
    fn into_text(self) -> String {
        match self {
            Self::Text(text) | Self::Described { content: text } => text,
        }
    }
}

fn compile(path: &Path, source: String) -> Result<Environment<'static>, ModelError> {
    let broken = |cause: Error| ModelError::Template { path: path.to_owned(), cause: cause.into() };
    // The same settings as in transformers.
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(broken)?;
    let mut environment = Environment::new();
    environment.set_syntax(syntax);
    environment.set_unknown_method_callback(call_method);
    environment.add_function("raise_exception", |message: String| -> Result<String, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_template_owned(NAME, source).map_err(broken)?;
    Ok(environment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::borrow::Cow;

    fn file(bytes: Vec<u8>) -> File {
        File { path: "file".into(), bytes: Cow::Owned(bytes) }
    }

    fn chat(config: &Value) -> Chat {
        Chat::load(Some(&file(serde_json::to_vec(config).unwrap())), None).unwrap()
    }

    fn conversation<'a>(system: Option<&'a str>, user: &'a str) -> Conversation<'a> {
        Conversation { system, before: &[], user }
    }

    fn render(config: &Value, system: Option<&str>) -> String {
        chat(config).render(&conversation(system, "Hi <b>")).unwrap().unwrap()
    }

    #[test]
    fn the_template_gets_messages_and_special_tokens() {
        let template = "{{ bos_token }}{% for message in messages %}\n  {%- if message.role == 'system' %}\nS {% endif %}\n\
            [{{ message['content'] | trim }}]{% endfor %}{% if add_generation_prompt and tools is none %}=>{% endif %}";
        let config = json!({"chat_template": template, "bos_token": {"content": "<s>", "special": true}});
        assert_eq!(render(&config, None), "<s>[Hi <b>]=>", "nothing is escaped");
        assert_eq!(render(&config, Some(" Be brief. ")), "<s>S [Be brief.][Hi <b>]=>");
    }

    #[test]
    fn earlier_turns_are_rendered_in_order() {
        let template = "{% for message in messages %}{{ message.role[0] }}:{{ message.content }};{% endfor %}";
        let before = [Exchange { user: "a?", assistant: "b" }, Exchange { user: "c?", assistant: "d" }];
        let turns = Conversation { system: Some("S"), before: &before, user: "e?" };
        let rendered = chat(&json!({"chat_template": template})).render(&turns).unwrap().unwrap();
        assert_eq!(rendered, "s:S;u:a?;a:b;u:c?;a:d;u:e?;");
        // This template uses the last message only.
        let last = chat(&json!({"chat_template": "[{{ messages[-1].content }}]"}));
        assert_eq!(last.render_all(&turns).unwrap().unwrap(), "[a?\n\nb\n\nc?\n\nd\n\ne?]");
        assert_eq!(last.render_all(&conversation(Some("S"), "e?")).unwrap().unwrap(), "[e?]");
    }

    #[test]
    fn the_template_file_wins_over_the_default_of_several_templates() {
        let named =
            json!({"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]});
        assert_eq!(render(&named, None), "d");
        let config = file(serde_json::to_vec(&named).unwrap());
        let both = Chat::load(Some(&config), Some(&file(b"jinja".to_vec()))).unwrap();
        assert_eq!(both.render(&conversation(None, "")).unwrap().unwrap(), "jinja");
    }

    #[test]
    fn a_model_without_template_has_none() {
        assert!(chat(&json!({"eos_token": "</s>"})).render(&conversation(None, "Hi")).is_none());
        assert!(Chat::load(None, None).unwrap().render(&conversation(None, "Hi")).is_none());
        assert_eq!(chat(&json!({"eos_token": "</s>"})).end(), Some("</s>"));
    }

    #[test]
    fn a_template_can_reject_messages_and_a_broken_one_is_an_error() {
        let refusing = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}";
        let refused = chat(&json!({"chat_template": refusing}))
            .render(&conversation(Some("Be brief."), "Hi"))
            .unwrap()
            .unwrap_err();
        assert!(refused.to_string().contains("no system role"), "{refused}");
        let broken = file(serde_json::to_vec(&json!({"chat_template": "{% for %}"})).unwrap());
        assert!(matches!(Chat::load(Some(&broken), None), Err(ModelError::Template { .. })));
    }
}
