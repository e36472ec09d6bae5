//! The secrets of a client, and their removal from text that a server sent.
//!
//! A server may repeat a key in an error, in an answer or in a tool call, and it may encode the key before. Whatever is
//! written to a file passes through [`Secrets::redact`] first.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};

use super::REDACTED;

/// Shorter values are not secrets: they would be found by chance in any text.
const SHORTEST: usize = 6;

/// Values that must not appear in any file.
///
/// ```
/// # use ergometer_clients::redact::Secrets;
/// let secrets = Secrets::new(["sk-a/b+c\"d"]);
/// assert_eq!(secrets.redact("your key is SK-A/B+C\"D"), "your key is <redacted>");
/// assert_eq!(secrets.redact("?key=sk-a%2fb%2Bc%22d"), "?key=<redacted>");
/// ```
#[derive(Clone, Default)]
pub struct Secrets(Vec<Arc<AhoCorasick>>);

impl Secrets {
    /// The secrets with these values. Values under 6 characters are ignored.
    #[must_use]
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let values = values.into_iter().map(str::trim).filter(|value| value.len() >= SHORTEST);
        let patterns: BTreeSet<String> = values.flat_map(encodings).collect();
        if patterns.is_empty() {
            return Self::default();
        }
        let built =
            AhoCorasick::builder().ascii_case_insensitive(true).match_kind(MatchKind::LeftmostLongest).build(patterns);
        // Patterns of a few kilobytes are far below the limits of the automaton.
        Self(built.ok().map(Arc::new).into_iter().collect())
    }

    /// These secrets and others.
    #[must_use]
    pub fn and(&self, others: &Self) -> Self {
        Self(self.0.iter().chain(&others.0).cloned().collect())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text with every secret replaced: as it is, in other case, and in the usual encodings.
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for patterns in &self.0 {
            if patterns.is_match(&*text) {
                let mut redacted = String::with_capacity(text.len());
                patterns.replace_all_with(&text, &mut redacted, |_, _, redacted| {
                    redacted.push_str(REDACTED);
                    true
                });
                text = Cow::Owned(redacted);
            }
        }
        text
    }

    /// Replaces every secret in a text.
    pub fn redact_in(&self, text: &mut String) {
        if let Cow::Owned(redacted) = self.redact(text) {
            *text = redacted;
        }
    }

    /// Replaces every secret in the texts and names of a JSON value.
    pub fn redact_json(&self, value: &mut serde_json::Value) {
        use serde_json::Value;
        match value {
            Value::String(text) => self.redact_in(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_json(item)),
            Value::Object(fields) => {
                fields.values_mut().for_each(|field| self.redact_json(field));
                if fields.keys().any(|name| matches!(self.redact(name), Cow::Owned(_))) {
                    let renamed = std::mem::take(fields).into_iter();
                    *fields = renamed.map(|(name, field)| (self.redact(&name).into_owned(), field)).collect();
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

impl fmt::Debug for Secrets {
    /// Does not show them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "Secrets(none)" } else { "Secrets(..)" })
    }
}

/// A value as it is and in the encodings of JSON, URLs, forms and HTML.
fn encodings(value: &str) -> Vec<String> {
    let escaped = |kept: &str| -> String {
        let escape = |byte: u8| {
            let is_kept = byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte);
            if is_kept { char::from(byte).to_string() } else { format!("%{byte:02x}") }
        };
        value.bytes().map(escape).collect()
    };
    let json = serde_json::Value::from(value).to_string();
    let json = json.trim_matches('"').to_owned();
    let html = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    vec![
        value.to_owned(),
        json.replace('/', "\\/"),
        json,
        // Everything, the unreserved characters of RFC 3986, those of JavaScript's `encodeURIComponent` and `encodeURI`.
        escaped(""),
        escaped("-._~"),
        // Python's `quote` keeps the slash.
        escaped("-._~/"),
        escaped("-._~!*'()"),
        escaped("-._~!*'();/?:@&=+$,#"),
        // Forms.
        escaped("-._*").replace("%20", "+"),
        html.replace('"', "&quot;").replace('\'', "&#39;"),
        html.replace('"', "&#34;").replace('\'', "&#x27;"),
        html,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn secrets_are_found_in_any_case_and_encoding() {
        let key = "sk-a\"b/c+d e<f>é";
        let secrets = Secrets::new([key]);
        let forms = [
            key.to_owned(),
            key.to_ascii_uppercase(),
            json!(key).to_string(),
            String::from("sk-a%22b%2Fc%2Bd%20e%3Cf%3E%C3%A9"),
            String::from("sk-a%22b%2fc%2bd+e%3cf%3e%c3%a9"),
            String::from("sk-a%22b/c%2Bd%20e%3Cf%3E%C3%A9"),
            String::from("sk-a&quot;b/c+d e&lt;f&gt;é"),
        ];
        for form in forms {
            let found = secrets.redact(&form).into_owned();
            assert!(found.contains(REDACTED) && !found.to_lowercase().contains("sk-a"), "{form}: {found}");
        }
        assert!(matches!(secrets.redact("nothing of the kind"), Cow::Borrowed(_)));
        assert!(!format!("{secrets:?}").contains("sk-"));
    }

    #[test]
    fn short_values_are_no_secrets() {
        assert!(Secrets::new(["key", "  x  ", ""]).is_empty());
        assert_eq!(Secrets::default().redact("anything"), "anything");
    }

    #[test]
    fn json_is_redacted_in_values_and_names() {
        let secrets = Secrets::new(["hunter2hunter2"]);
        let mut value = json!({"a": ["x hunter2hunter2", 1], "hunter2hunter2": {"b": "HUNTER2HUNTER2"}});
        secrets.redact_json(&mut value);
        assert_eq!(value, json!({"a": ["x <redacted>", 1], "<redacted>": {"b": "<redacted>"}}));
    }

    proptest! {
        #[test]
        fn a_secret_never_survives(key in "[!-~]{6,20}", before in "[ -~]{0,9}", after in "[ -~]{0,9}") {
            let secrets = Secrets::new([key.as_str()]);
            let text = format!("{before}{key}{after}");
            let redacted = secrets.redact(&text).to_lowercase();
            // The key may be part of what stands in its place.
            prop_assume!(!REDACTED.contains(&key.to_lowercase()));
            prop_assert!(redacted.contains(REDACTED));
            prop_assert!(!redacted.replace(REDACTED, "\u{0}").contains(&key.to_lowercase()), "{}", redacted);
        }
    }
}
