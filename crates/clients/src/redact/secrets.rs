//! The secrets of a client, and their removal from text that a server sent.
//!
//! A server may repeat a key in an error, in an answer or in a tool call, and it may encode the key before: whole or in
//! part, once or several times. Whatever is written to a file passes through [`Secrets::redact`] first.

use std::borrow::Cow;
use std::fmt::{self, Write};

use regex::{Captures, Regex, RegexBuilder};

use super::REDACTED;

/// Shorter values are not secrets: they would be found by chance in any text.
const SHORTEST: usize = 6;

/// Longer values are searched in parts of this many characters, which keeps the patterns small.
const PART: usize = 256;

/// The start of a secret before a cut is replaced if it has this many characters. Cut text ends with [`CUT`].
const SHORTEST_START: usize = 4;

/// The mark of every text that was cut.
const CUT: char = '…';

/// The start of a secret at the end of a text is replaced if it has this many characters: an answer may end, or its
/// connection drop, within a secret.
const SHORTEST_LAST: usize = 8;

/// The end of a text, before which an error may have closed its quotation.
const END: &str = "[`'\")\\]}]*\\z";

/// The group of what follows the start of a secret.
const AFTER: &str = "after";

/// The size in memory that a pattern may have. A part takes at most a tenth of it.
const PATTERN_BYTES: usize = 64 << 20;

/// Values that must not appear in any file.
///
/// ```
/// # use ergometer_clients::redact::Secrets;
/// let secrets = Secrets::new(["sk-a/b+c\"d"]);
/// assert_eq!(secrets.redact("your key is SK-A/B+C\"D"), "your key is <redacted>");
/// assert_eq!(secrets.redact("?key=sk-a%2fb%2Bc%22d"), "?key=<redacted>");
/// ```
#[derive(Clone, Default)]
pub struct Secrets(Vec<Regex>);

impl Secrets {
    /// The secrets with these values. Values under 6 characters are ignored.
    #[must_use]
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut values: Vec<&str> = values.into_iter().map(str::trim).filter(|value| value.len() >= SHORTEST).collect();
        // A value that contains another is replaced first, as a whole.
        values.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
        values.dedup();
        Self(values.into_iter().flat_map(patterns).collect())
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

    /// The text with every secret replaced: as it is, in other case, and with any of its characters encoded for JSON,
    /// URLs, forms or HTML. If the text was cut within a secret, so that `…` or the end of the text follows its start, the
    /// start is replaced.
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for pattern in &self.0 {
            // The pattern of a start also matches what follows it, which stays.
            let replacement = |found: &Captures<'_>| {
                let after = found.name(AFTER).map_or("", |after| after.as_str());
                format!("{REDACTED}{after}")
            };
            if let Cow::Owned(redacted) = pattern.replace_all(&text, replacement) {
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

/// The patterns for a value and for its start.
fn patterns(value: &str) -> Vec<Regex> {
    let is_key = is_key(value);
    let of_part = |part: Vec<char>| {
        let last = is_key.then(|| start_pattern(&part, SHORTEST_LAST, END)).flatten();
        [pattern(&part), start_pattern(&part, SHORTEST_START, &CUT.to_string()), last]
    };
    parts(value).into_iter().flat_map(of_part).flatten().collect()
}

/// Whether a value is a single key. Others start with words of ordinary answers, such as `Digest username=…`.
fn is_key(value: &str) -> bool {
    // Base64 may end with `=`.
    !value.trim_end_matches('=').contains(|letter: char| letter.is_whitespace() || letter == '=')
}

/// A value in parts of at most about [`PART`] characters, none of them short.
fn parts(value: &str) -> Vec<Vec<char>> {
    let characters: Vec<char> = value.chars().collect();
    let number = characters.len().div_ceil(PART).max(1);
    characters.chunks(characters.len().div_ceil(number).max(1)).map(<[char]>::to_vec).collect()
}

/// A pattern for these characters, each of them as it is or encoded.
fn pattern(characters: &[char]) -> Option<Regex> {
    let pattern: String = characters.iter().map(|&character| encodings(character)).collect();
    // Only a pattern over the limit is an error, and parts are far below it.
    RegexBuilder::new(&pattern).case_insensitive(true).size_limit(PATTERN_BYTES).build().ok()
}

/// A pattern for the start of these characters, at least `shortest` of them, before a cut, which may be within the encoding
/// of a character. What follows the cut is the group [`AFTER`].
fn start_pattern(characters: &[char], shortest: usize, after: &str) -> Option<Regex> {
    let encoded: Vec<String> = characters.iter().map(|&character| encodings(character)).collect();
    let (start, rest) = encoded.split_at(shortest.min(encoded.len()));
    let mut pattern = start.concat();
    for next in rest {
        pattern.push_str("(?:");
        pattern.push_str(next);
    }
    pattern.push_str(&")?".repeat(rest.len()));
    pattern.push_str(r"(?:\\+(?:u[0-9a-f]{0,3})?|%(?:25)*[0-9a-f]?|&(?:amp;)*#?x?[0-9a-z]{0,5})?");
    let _ = write!(pattern, "(?<{AFTER}>{after})");
    // Every optional character is one group deeper than the one before.
    let depth = u32::try_from(10 + 2 * PART).unwrap_or(u32::MAX);
    RegexBuilder::new(&pattern).case_insensitive(true).size_limit(PATTERN_BYTES).nest_limit(depth).build().ok()
}

/// A pattern for a character as it is and in the encodings of JSON, URLs, forms and HTML. An encoding applied twice
/// encodes its own `\`, `%` or `&` again.
fn encodings(character: char) -> String {
    let mut units = [0; 2];
    let mut bytes = [0; 4];
    let mut pattern = format!(r"(?:\\*(?:{}|", regex::escape(character.encode_utf8(&mut bytes)));
    // Writing to a string cannot fail.
    for unit in character.encode_utf16(&mut units) {
        let _ = write!(pattern, r"\\*u{unit:04x}");
    }
    pattern.push_str(")|");
    for byte in character.encode_utf8(&mut bytes).bytes() {
        let _ = write!(pattern, "%(?:25)*{byte:02x}");
    }
    let code = u32::from(character);
    let _ = write!(pattern, "|&(?:amp;)*(?:#0*{code};|#x0*{code:x};");
    let names: &[&str] = match character {
        '&' => &["amp;"],
        '<' => &["lt;"],
        '>' => &["gt;"],
        '"' => &["quot;"],
        '\'' => &["apos;"],
        _ => &[],
    };
    for name in names {
        let _ = write!(pattern, "|{name}");
    }
    pattern.push(')');
    if character == ' ' {
        pattern.push_str(r"|\+");
    }
    pattern.push(')');
    pattern
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
            // A part of the characters, in several encodings, or twice.
            String::from("%73k-a%22b/c+d%20e<f%3e%C3%A9"),
            String::from(r"sk-a\u0022b\/c\u002Bd e\u003cf\u003e\u00e9"),
            String::from("&#115;k-a&#34;b&#x2F;c+d e&#060;f&gt;&#xE9;"),
            String::from("sk-a%2522b%2fc%252Bd+e%253Cf%3E%25C3%25A9"),
            String::from("sk-a&amp;quot;b/c+d e&amp;amp;lt;f&gt;é"),
            json!(json!(key).to_string()).to_string(),
        ];
        for form in forms {
            let found = secrets.redact(&form).into_owned();
            assert!(found.contains(REDACTED) && !found.to_lowercase().contains("sk-a"), "{form}: {found}");
        }
        assert!(matches!(secrets.redact("nothing of the kind"), Cow::Borrowed(_)));
        assert!(!format!("{secrets:?}").contains("sk-"));
    }

    #[test]
    fn a_character_beyond_the_basic_plane_is_found_in_json() {
        let secrets = Secrets::new(["a🦀bcdef"]);
        assert_eq!(secrets.redact(r"x a\ud83e\uDD80bcdef"), "x <redacted>");
    }

    fn random_letters(count: usize) -> String {
        let mut state = 1_u32;
        let letter = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from(b'a' + u8::try_from((state >> 24) % 26).unwrap())
        };
        std::iter::repeat_with(letter).take(count).collect()
    }

    #[test]
    fn a_long_secret_leaves_no_part() {
        let key = random_letters(20_000);
        let secrets = Secrets::new([key.as_str()]);
        let redacted = secrets.redact(&key).into_owned();
        assert_eq!(redacted.replace(REDACTED, ""), "");
    }

    #[test]
    fn the_start_of_a_secret_before_a_cut_is_replaced() {
        let key = "sk-é\"0123456789";
        let secrets = Secrets::new([key]);
        for (form, expected) in [
            ("your key is sk-é\"01…", "your key is <redacted>…"),
            ("SK-é…: retried", "<redacted>…: retried"),
            (r"sk-é\…", "<redacted>…"),
            (r"sk-\u00e9\u00…", "<redacted>…"),
            ("sk-%C3%a9%2…", "<redacted>…"),
            ("sk-&#233;&quo…", "<redacted>…"),
            ("sk-…", "sk-…"),
            ("sk-é\"01 and more", "sk-é\"01 and more"),
        ] {
            assert_eq!(secrets.redact(form), expected, "{form}");
        }
        let whole = format!("{key}…");
        assert_eq!(secrets.redact(&whole), "<redacted>…");
        let long = random_letters(300);
        let secrets = Secrets::new([long.as_str()]);
        for end in [4, 77, 149, 154, 299] {
            assert_eq!(secrets.redact(&format!("{}…", &long[..end])).replace(REDACTED, ""), "…", "{end}");
        }
    }

    #[test]
    fn the_start_of_a_secret_at_the_end_of_a_text_is_replaced() {
        let key = "sk-é\"0123456789";
        let secrets = Secrets::new([key]);
        for (form, expected) in [
            ("your key is sk-é\"012", "your key is <redacted>"),
            ("your key is SK-É\"012345678", "your key is <redacted>"),
            ("your key is sk-é\"01", "your key is sk-é\"01"),
            ("your key is sk-é\"0123456 or", "your key is sk-é\"0123456 or"),
            (r#"not JSON: `{"key": "sk-\u00e9\"012`"#, r#"not JSON: `{"key": "<redacted>`"#),
            ("sk-%C3%a9%22012%3", "<redacted>"),
        ] {
            assert_eq!(secrets.redact(form), expected, "{form}");
        }
        let list = Secrets::new(["Digest username=\"me\"", "session=0123456789"]);
        for ordinary in ["a Digest username", "a session=012"] {
            assert_eq!(list.redact(ordinary), ordinary, "a list of parameters starts with ordinary words");
        }
        for length in 8..key.chars().count() {
            let start: String = key.chars().take(length).collect();
            assert_eq!(secrets.redact(&start), REDACTED, "{start}");
        }
    }

    #[test]
    fn a_secret_within_another_is_replaced_with_it() {
        let secrets = Secrets::new(["password", "user:password"]);
        assert_eq!(secrets.redact("user:password and password"), "<redacted> and <redacted>");
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

    /// An ASCII character in one of the encodings that a server may choose for it.
    fn encoded(character: char, choice: u8) -> String {
        match choice % 8 {
            0 => character.to_uppercase().collect(),
            1 => format!("%{:02X}", u32::from(character)),
            2 => format!("%25{:02x}", u32::from(character)),
            3 => format!("\\u{:04x}", u32::from(character)),
            4 => format!("&#{};", u32::from(character)),
            5 => format!("&#X{:X};", u32::from(character)),
            6 => format!("\\{character}"),
            _ => character.to_string(),
        }
    }

    proptest! {
        #[test]
        fn any_mixture_of_encodings_is_found(key in "[!-~]{6,20}", choices in prop::collection::vec(any::<u8>(), 20)) {
            let text: String = key.chars().zip(choices).map(|(character, choice)| encoded(character, choice)).collect();
            let redacted = Secrets::new([key.as_str()]).redact(&text).into_owned();
            prop_assert!(redacted.contains(REDACTED), "{} in {}", key, text);
        }

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
