//! Finds the secrets within a value: the credentials after a scheme (`Bearer`), the parts of a list, and the values of
//! cookies and parameters.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

use super::{Secrets, is_secret_name};

/// Shorter parts of a value are not secrets of their own: they would be found by chance in ordinary answers.
const SHORTEST_PART: usize = 8;

/// The longest names of schemes, such as `AWS4-HMAC-SHA256`. A longer first word may be a secret itself.
const LONGEST_SCHEME: usize = 16;

/// The whole value without `Bearer` or `Basic`, and the password of `Basic`.
pub(crate) fn whole_secrets(value: &str) -> Vec<String> {
    let value = value.trim();
    let Some((scheme, credentials)) = split_scheme(value) else { return vec![value.to_owned()] };
    if scheme.eq_ignore_ascii_case("bearer") {
        vec![credentials.to_owned()]
    } else if scheme.eq_ignore_ascii_case("basic") {
        [Some(credentials.to_owned()), password(credentials)].into_iter().flatten().collect()
    } else {
        vec![value.to_owned()]
    }
}

/// The secrets in a value with the name of a secret: also each part of at least 8 characters that is separated by white
/// space, `,` or `;`. Of a part `name=value`, the value is the secret.
pub(crate) fn secrets_in(value: &str) -> Vec<String> {
    let mut secrets = whole_secrets(value);
    let list = split_scheme(value.trim()).map_or(value, |(_, credentials)| credentials);
    let parts = list.split(|letter: char| letter.is_whitespace() || matches!(letter, ',' | ';')).map(secret_of_part);
    secrets.extend(parts.filter(|part| part.len() >= SHORTEST_PART).map(str::to_owned));
    secrets
}

/// The secrets of request parameters: all texts and numbers under the name of a secret, at any depth.
pub(crate) fn secrets_of_parameters(parameters: &Map<String, Value>) -> Secrets {
    let mut found = Vec::new();
    collect_fields(parameters, false, &mut found);
    Secrets::new(found.iter().map(String::as_str))
}

fn collect_fields(fields: &Map<String, Value>, is_secret: bool, found: &mut Vec<String>) {
    let names_a_secret = fields.get("name").and_then(Value::as_str).is_some_and(is_secret_name);
    for (name, field) in fields {
        collect(field, is_secret || is_secret_name(name) || (names_a_secret && name == "value"), found);
    }
}

fn collect(value: &Value, is_secret: bool, found: &mut Vec<String>) {
    match value {
        Value::String(text) if is_secret => found.extend(secrets_in(text)),
        Value::Number(number) if is_secret => found.push(number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| collect(item, is_secret, found)),
        Value::Object(fields) => collect_fields(fields, is_secret, found),
        Value::String(_) | Value::Number(_) | Value::Null | Value::Bool(_) => {}
    }
}

/// The scheme of a value and the rest, if its first word may be a scheme (RFC 9110, 11.1).
fn split_scheme(value: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = value.split_once(char::is_whitespace)?;
    let is_scheme = scheme.len() <= LONGEST_SCHEME
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    is_scheme.then(|| (scheme, rest.trim()))
}

/// The value of a part `name=value`, or the whole part. `=` may also be the padding of Base64.
fn secret_of_part(part: &str) -> &str {
    let value = part.split_once('=').map(|(_, value)| value.trim_matches('"'));
    value.filter(|value| value.len() >= SHORTEST_PART).unwrap_or_else(|| part.trim_matches('"'))
}

/// The password in the credentials of `Basic`.
fn password(credentials: &str) -> Option<String> {
    let decoded = String::from_utf8(BASE64_STANDARD.decode(credentials.trim()).ok()?).ok()?;
    decoded.split_once(':').map(|(_, password)| password.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn redacted(value: &str, text: &str) -> String {
        Secrets::new(secrets_in(value).iter().map(String::as_str)).redact(text).into_owned()
    }

    #[test]
    fn a_key_is_found_after_any_scheme_and_in_cookies() {
        const KEY: &str = "sk-0123456789";
        for value in [
            "sk-0123456789",
            "Token sk-0123456789",
            "bearer sk-0123456789",
            "BEARER  sk-0123456789",
            "Token token=\"sk-0123456789\", v=1",
            "session=sk-0123456789; a=b",
            "a=b;session=sk-0123456789",
            "Digest username=me, response=sk-0123456789",
            "AWS4-HMAC-SHA256 Credential=a/b,Signature=sk-0123456789",
            "one,sk-0123456789",
        ] {
            assert_eq!(redacted(value, &format!("it is {KEY}.")), "it is <redacted>.", "{value}");
        }
        assert_eq!(redacted("basic bWU6c2VjcmV0cGFzcw==", "me:secretpass"), "me:<redacted>");
        assert_eq!(redacted("Custom bWU6c2VjcmV0cGFzcw==", "bWU6c2VjcmV0cGFzcw=="), "<redacted>");
        assert_eq!(redacted("bearer hunter2", "hunter2"), "<redacted>");
    }

    #[test]
    fn schemes_and_names_are_ordinary_words() {
        const ORDINARY: &str = "a Token of this session=1: b, Signature, username";
        for value in [
            "Token sk-0123456789",
            "session=sk-0123456789; a=b; b=1",
            "Signature username=\"sk-0123456789\"",
            "Bearer sk-0123456789",
        ] {
            assert_eq!(redacted(value, ORDINARY), ORDINARY, "{value}");
        }
    }

    #[test]
    fn parameters_with_names_of_secrets_are_secrets() {
        let parameters = json!({
            "api_key": "sk-0123456789", "temperature": 0.25, "user": "ordinary-user", "max_tokens": 123_456,
            "extra": {"password": 12_345_678, "list": [{"name": "hf-token", "value": "hf_abcdefgh"}]},
            "auth": "Token 9876543210",
        });
        let secrets = secrets_of_parameters(parameters.as_object().unwrap());
        assert_eq!(
            secrets.redact("sk-0123456789 0.25 ordinary-user 123456 12345678 hf_abcdefgh hf-token, 9876543210"),
            "<redacted> 0.25 ordinary-user 123456 <redacted> <redacted> hf-token, <redacted>"
        );
    }
}
