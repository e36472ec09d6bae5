//! Replaces secrets in the user's input, so that they are never stored or shown.
//!
//! In doubt, a value is replaced: text that cannot be parsed is replaced as a whole, and a name that may be the name of
//! a secret counts as one. The result is for display and records only, not for use in a request.

mod credentials;
mod name;
mod secrets;
mod url;

use std::borrow::Cow;

use serde_json::Value;

pub(crate) use credentials::{secrets_in, secrets_of_parameters, whole_secrets};
pub use name::is_secret_name;
pub use secrets::Secrets;
pub use url::redact_url;

/// The replacement for a secret.
pub const REDACTED: &str = "<redacted>";

/// A header `K: V` as `K: <redacted>`, whatever its name, since any header may carry a secret. A line that is not a
/// header is replaced as a whole.
#[must_use]
pub fn redact_header(header: &str) -> String {
    // RFC 9110, section 5.6.2, lists the characters of a header name.
    let is_name = |name: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        !name.is_empty() && name.bytes().all(allowed)
    };
    match header.split_once(':') {
        Some((name, _)) if is_name(name.trim()) => format!("{}: {REDACTED}", name.trim()),
        _ => REDACTED.to_owned(),
    }
}

/// The value of a parameter, replaced if its name is the name of a secret. In a URL, only the secrets are replaced.
///
/// ```
/// # use ergometer_clients::redact::redact_parameter;
/// assert_eq!(redact_parameter("api_key", "sk-123"), "<redacted>");
/// assert_eq!(redact_parameter("max_tokens", "64"), "64");
/// assert_eq!(redact_parameter("proxy", "http://me:pw@host:3128"), "http://<redacted>@host:3128");
/// ```
#[must_use]
pub fn redact_parameter<'a>(name: &str, value: &'a str) -> Cow<'a, str> {
    if is_secret_name(name) { Cow::Borrowed(REDACTED) } else { redact_text(value) }
}

/// Replaces the secrets in a JSON value, at any depth: values with the name of a secret, the values of `headers`,
/// `{"name": .., "value": ..}` pairs, and secrets in URLs. Null and booleans stay, because they contain no secret and
/// show whether one is set.
pub fn redact_json(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(redacted) = redact_text(text) {
                *text = redacted;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact_json),
        Value::Object(fields) => {
            let names_a_secret = fields.get("name").and_then(Value::as_str).is_some_and(is_secret_name);
            for (name, field) in fields {
                if is_secret_name(name) || (names_a_secret && name == "value") {
                    redact_value(field);
                } else if matches!(name.to_ascii_lowercase().as_str(), "header" | "headers") {
                    redact_headers(field);
                } else {
                    redact_json(field);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Redacts headers in each accepted form: one line, a list of lines, or an object by name.
fn redact_headers(headers: &mut Value) {
    match headers {
        Value::String(line) => *line = redact_header(line),
        Value::Array(lines) => lines.iter_mut().for_each(redact_headers),
        Value::Object(fields) => fields.values_mut().for_each(redact_value),
        Value::Null | Value::Bool(_) => {}
        Value::Number(_) => redact_value(headers),
    }
}

fn redact_value(value: &mut Value) {
    if !matches!(value, Value::Null | Value::Bool(_)) {
        *value = Value::String(REDACTED.to_owned());
    }
}

/// Redacts a text that consists of a URL; other text is unchanged.
fn redact_text(text: &str) -> Cow<'_, str> {
    let is_url = text.contains("://") && !text.trim().contains(char::is_whitespace);
    if is_url { Cow::Owned(redact_url(text)) } else { Cow::Borrowed(text) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn headers_keep_their_name_only() {
        for (header, expected) in [
            ("Authorization: Bearer sk-1", "Authorization: <redacted>"),
            ("X-Trace:abc:def", "X-Trace: <redacted>"),
            (" Accept : x", "Accept: <redacted>"),
            ("Bearer sk-1", "<redacted>"),
            ("Bearer sk-1: x", "<redacted>"),
            (": x", "<redacted>"),
            ("", "<redacted>"),
        ] {
            assert_eq!(redact_header(header), expected, "{header}");
        }
    }

    #[test]
    fn json_is_redacted_at_any_depth() {
        let mut value = json!({
            "model": "tiny", "max_tokens": 64, "api_key": "sk-1", "token": null, "use_auth": true,
            "base_url": "https://me:pw@host/v1?key=sk-2", "password": 1234,
            "headers": {"X-Org": "secret-org", "Accept": "json"}, "header": ["A: b", "oops"],
            "client": [{"accessToken": {"value": "sk-3"}}, {"name": "hf-token", "value": "hf_4"},
                       {"name": "seed", "value": 7}],
            "prompt": "see https://a.example/?b=c please", "credentials": ["a", "b"],
        });
        redact_json(&mut value);
        assert_eq!(
            value,
            json!({
                "model": "tiny", "max_tokens": 64, "api_key": "<redacted>", "token": null, "use_auth": true,
                "base_url": "https://<redacted>@host/v1?key=<redacted>", "password": "<redacted>",
                "headers": {"X-Org": "<redacted>", "Accept": "<redacted>"}, "header": ["A: <redacted>", "<redacted>"],
                "client": [{"accessToken": "<redacted>"}, {"name": "hf-token", "value": "<redacted>"},
                           {"name": "seed", "value": 7}],
                "prompt": "see https://a.example/?b=c please", "credentials": "<redacted>",
            })
        );
    }

    /// A JSON value with the marked secret in places where secrets are.
    fn with_secret() -> impl Strategy<Value = Value> {
        const SECRET: &str = "MARKED";
        let leaf = prop_oneof![
            Just(json!({"apiKey": SECRET})),
            Just(json!({"x": 1, "HF_TOKEN": [SECRET, {"y": SECRET}]})),
            Just(json!({"headers": [format!("A: {SECRET}"), SECRET]})),
            Just(json!(format!("http://u:{SECRET}@h/?a={SECRET}#{SECRET}"))),
            Just(json!({"name": "db-password", "value": SECRET})),
            "[a-z_]{0,9}".prop_map(|text| json!(text)),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map("[a-z]{1,6}", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_marked_secret_never_survives(mut value in with_secret()) {
            redact_json(&mut value);
            prop_assert!(!value.to_string().contains("MARKED"), "{}", value);
            let once = value.clone();
            redact_json(&mut value);
            prop_assert_eq!(value, once, "redacting again changes nothing");
        }

        #[test]
        fn a_header_keeps_no_value(name in "[A-Za-z-]{0,9}", between in ".{0,5}") {
            let redacted = redact_header(&format!("{name}:{between}MARKED"));
            prop_assert!(!redacted.contains("MARKED"));
        }
    }
}
