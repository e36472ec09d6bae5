//! Builds the headers of every request: the user's headers and the API key. A secret is sent only over TLS or to this
//! machine.

use ergometer_diagnostics::{Hint, Message, hint, option};
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use super::{BaseUrl, HttpError};
use crate::redact::{Secrets, is_secret_name, secrets_in, whole_secrets};

/// Headers that the user cannot set, because the client sets them.
const RESERVED: [&str; 6] =
    ["accept-encoding", "connection", "content-length", "content-type", "host", "transfer-encoding"];

/// The headers of every request to this address.
pub(super) fn headers(base: &BaseUrl, lines: &[String], api_key_env: Option<&str>) -> Result<HeaderMap, HttpError> {
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(':').ok_or_else(|| HttpError::Header(no_header()))?;
        let name: HeaderName = name.trim().parse().map_err(|_| HttpError::Header(no_header()))?;
        if RESERVED.contains(&name.as_str()) {
            let text = format!("the header {name} cannot be set: the client sets it");
            return Err(HttpError::Header(Message::new(text).with_hint(hint!("leave it out of ", option("header")))));
        }
        let mut content: HeaderValue = value
            .trim()
            .parse()
            .map_err(|_| HttpError::Header(format!("the value of the header {name} has invalid characters").into()))?;
        if is_secret_name(name.as_str()) {
            check_confidential(base, &format!("the header {name}"))?;
            content.set_sensitive(true);
        }
        headers.append(name, content);
    }
    if let Some(variable) = api_key_env {
        let key = std::env::var(variable).ok().filter(|key| !key.trim().is_empty()).ok_or_else(|| {
            // A user may pass the key itself by mistake; it must not appear in a log.
            let is_name = variable.len() <= 40
                && variable.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
            HttpError::Key(if is_name {
                let text = format!("the environment variable {variable} is unset or empty");
                let export = format!("run `export {variable}=…`, or name another variable with ");
                Message::new(text).with_hint(hint!(export, option("api-key-env")))
            } else {
                let text = "the API key must be given as the name of an environment variable, not the key itself";
                let named = option("api-key-env").value("OPENAI_API_KEY");
                Message::new(text).with_hint(hint!("run `export OPENAI_API_KEY=…` and pass ", named))
            })
        })?;
        check_confidential(base, "the API key")?;
        let wrong = |_| HttpError::Key(Message::new(format!("the key in {variable} has invalid characters")));
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", key.trim())).map_err(wrong)?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    Ok(headers)
}

/// The secrets in header values. A value whose header has the name of a secret may also hold secrets as parts.
pub(super) fn values<'a>(headers: impl Iterator<Item = &'a HeaderValue>) -> Secrets {
    let texts = headers.filter_map(|value| Some((value.to_str().ok()?, value.is_sensitive())));
    let secrets: Vec<String> =
        texts.flat_map(|(text, is_named)| if is_named { secrets_in(text) } else { whole_secrets(text) }).collect();
    Secrets::new(secrets.iter().map(String::as_str))
}

/// Whether a header value is a secret wherever it appears. The name says so, or it looks like a key: other values, such as
/// the name of a model, are part of ordinary answers.
pub(super) fn is_secret(value: &HeaderValue) -> bool {
    let looks_like_a_key = |text: &str| {
        text.len() >= 12
            && !text.contains(char::is_whitespace)
            && text.contains(|letter: char| letter.is_ascii_digit())
            && text.contains(|letter: char| letter.is_ascii_alphabetic())
    };
    value.is_sensitive() || value.to_str().is_ok_and(looks_like_a_key)
}

/// The error does not repeat the text, which may be a secret.
fn no_header() -> Message {
    Message::new("a header is not of the form `Name: value`")
}

/// Checks that no other machine can read what is sent to this address.
fn check_confidential(base: &BaseUrl, what: &str) -> Result<(), HttpError> {
    if base.is_encrypted() || base.is_loopback() {
        return Ok(());
    }
    let text = format!("{what} would be sent over plain HTTP to {}, readable by anyone on the way", base.host());
    let hint = Hint::text("use https://, or a tunnel to this machine (ssh -L)");
    Err(HttpError::Key(Message::new(text).with_hint(hint)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn try_headers(base: &str, lines: &[&str], variable: Option<&str>) -> Result<HeaderMap, String> {
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        headers(&BaseUrl::parse(base).unwrap(), &lines, variable).map_err(|error| error.to_string())
    }

    #[test]
    fn secrets_are_not_sent_over_plain_http() {
        let secret = ["X-Api-Key: hunter2"];
        assert!(try_headers("http://127.0.0.1:8000", &secret, None).unwrap()["x-api-key"].is_sensitive());
        assert!(try_headers("https://h", &secret, None).is_ok());
        let error = try_headers("http://h", &secret, None).unwrap_err();
        assert!(error.contains("over plain HTTP to h") && !error.contains("hunter2"), "{error}");
        // PATH is set wherever tests run.
        assert!(try_headers("http://h", &[], Some("PATH")).unwrap_err().contains("plain HTTP"));
        let headers = try_headers("http://localhost", &[], Some("PATH")).unwrap();
        assert!(
            headers[AUTHORIZATION].is_sensitive() && headers[AUTHORIZATION].to_str().unwrap().starts_with("Bearer ")
        );
        assert!(try_headers("http://h", &["X-Tag: a: b"], None).unwrap()["x-tag"] == "a: b");
    }

    #[test]
    fn secrets_are_known_without_their_scheme() {
        let [key, proxy, short] = ["Bearer hunter2", "Basic bWU6aHVudGVyMg==", "Basic x"].map(HeaderValue::from_static);
        let secrets = values([&key, &proxy, &short].into_iter());
        assert_eq!(secrets.redact("Bearer hunter2, bWU6aHVudGVyMg=="), "Bearer <redacted>, <redacted>");
        let basic = HeaderValue::from_static("Basic bWU6c2VjcmV0cGFzcw==");
        assert_eq!(values([&basic].into_iter()).redact("me:secretpass"), "me:<redacted>");
    }

    #[test]
    fn parts_of_a_value_are_secrets_if_its_header_has_the_name_of_a_secret() {
        let lines =
            ["Authorization: Token sk-0123456789", "Cookie: session=id-0123456789; a=b", "X-Tag: ordinary words"];
        let headers = try_headers("http://localhost", &lines, None).unwrap();
        assert_eq!(
            values(headers.values()).redact("Token SK-0123456789; session=id-0123456789; words ordinary"),
            "<redacted>; session=<redacted>; words ordinary"
        );
    }

    #[test]
    fn ordinary_header_values_are_no_secrets_in_answers() {
        for (value, is_one) in
            [("production", false), ("sk-1234567890ab", true), ("2026-11-16", false), ("a b c d 1 2 3 4", false)]
        {
            assert_eq!(is_secret(&HeaderValue::from_static(value)), is_one, "{value}");
        }
        let mut named = HeaderValue::from_static("hunter");
        named.set_sensitive(true);
        assert!(is_secret(&named));
    }

    #[test]
    fn invalid_headers_are_rejected_without_showing_them() {
        for wrong in ["hunter2", "na me: hunter2", "X-A: hunter2\u{7f}"] {
            let error = try_headers("http://localhost", &[wrong], None).unwrap_err();
            assert!(error.contains("header") && !error.contains("hunter2"), "{error}");
        }
        assert!(try_headers("http://localhost", &[], Some("ERGOMETER_NO_SUCH_KEY")).unwrap_err().contains("is unset"));
        let pasted = try_headers("http://localhost", &[], Some("sk-hunter2")).unwrap_err();
        assert!(pasted.contains("not the key") && !pasted.contains("hunter2"), "{pasted}");
        assert!(
            try_headers("http://localhost", &["Content-Length: 3"], None).unwrap_err().contains("the client sets it")
        );
    }
}
