//! What every request carries: the headers of the user, and the key from the environment. A secret goes over an encrypted
//! line or to this machine, or not at all.

use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use super::{BaseUrl, HttpError};
use crate::redact::is_secret_name;

/// Headers that say how a request is framed, or what we say ourselves.
const RESERVED: [&str; 7] =
    ["accept-encoding", "connection", "content-length", "content-type", "host", "transfer-encoding", "x-request-id"];

/// The headers of every request to this address.
pub(super) fn headers(base: &BaseUrl, lines: &[String], api_key_env: Option<&str>) -> Result<HeaderMap, HttpError> {
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(':').ok_or_else(|| HttpError::Header(no_header()))?;
        let name: HeaderName = name.trim().parse().map_err(|_| HttpError::Header(no_header()))?;
        if RESERVED.contains(&name.as_str()) {
            return Err(HttpError::Header(format!("--header {name}: this one is set by the request itself")));
        }
        let mut content: HeaderValue = value
            .trim()
            .parse()
            .map_err(|_| HttpError::Header(format!("--header {name}: its value has characters no header may have")))?;
        if is_secret_name(name.as_str()) {
            check_line(base, &format!("--header {name}"))?;
            content.set_sensitive(true);
        }
        headers.append(name, content);
    }
    if let Some(variable) = api_key_env {
        let key = std::env::var(variable).ok().filter(|key| !key.trim().is_empty()).ok_or_else(|| {
            // Who takes the option for the key itself must not see it in a log.
            let is_name = variable.len() <= 40
                && variable.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
            HttpError::Key(if is_name {
                format!("the environment variable {variable} of --api-key-env is not set, or empty. hint: export {variable}=…")
            } else {
                String::from(
                    "no such environment variable, or it is empty: --api-key-env takes the name of one, not the key. hint: export OPENAI_API_KEY=… and --api-key-env OPENAI_API_KEY",
                )
            })
        })?;
        check_line(base, "the API key")?;
        let wrong = |_| HttpError::Key(format!("the key in {variable} has characters that no header may have"));
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", key.trim())).map_err(wrong)?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    Ok(headers)
}

/// What of headers must not be told: their values as the user gave them, but for what is too short to be a secret.
pub(super) fn values<'a>(headers: impl Iterator<Item = &'a HeaderValue>) -> Arc<[String]> {
    let whole = headers.filter_map(|value| value.to_str().ok());
    let bare = whole.map(|value| ["Bearer ", "Basic "].iter().find_map(|way| value.strip_prefix(way)).unwrap_or(value));
    bare.filter(|value| value.len() >= 6).map(str::to_owned).collect()
}

/// The value is not repeated: it may be the secret.
fn no_header() -> String {
    String::from("--header takes `Name: value`")
}

fn check_line(base: &BaseUrl, what: &str) -> Result<(), HttpError> {
    if base.is_encrypted() || base.is_loopback() {
        return Ok(());
    }
    Err(HttpError::Key(format!(
        "{what} would go over plain HTTP to {}, where anyone on the way can read it. hint: use https://, or a tunnel to this machine (ssh -L)",
        base.host()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(base: &str, lines: &[&str], variable: Option<&str>) -> Result<HeaderMap, String> {
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        headers(&BaseUrl::parse(base).unwrap(), &lines, variable).map_err(|error| error.to_string())
    }

    #[test]
    fn secrets_stay_off_plain_lines() {
        let secret = ["X-Api-Key: hunter2"];
        assert!(of("http://127.0.0.1:8000", &secret, None).unwrap()["x-api-key"].is_sensitive());
        assert!(of("https://h", &secret, None).is_ok());
        let error = of("http://h", &secret, None).unwrap_err();
        assert!(error.contains("over plain HTTP to h") && !error.contains("hunter2"), "{error}");
        // PATH is set wherever tests run.
        assert!(of("http://h", &[], Some("PATH")).unwrap_err().contains("plain HTTP"));
        let headers = of("http://localhost", &[], Some("PATH")).unwrap();
        assert!(
            headers[AUTHORIZATION].is_sensitive() && headers[AUTHORIZATION].to_str().unwrap().starts_with("Bearer ")
        );
        assert!(of("http://h", &["X-Tag: a: b"], None).unwrap()["x-tag"] == "a: b");
    }

    #[test]
    fn of_a_secret_its_bare_value_is_known() {
        let [key, proxy, short] = ["Bearer hunter2", "Basic bWU6aHVudGVyMg==", "Basic x"].map(HeaderValue::from_static);
        assert_eq!(*values([&key, &proxy, &short].into_iter()), ["hunter2", "bWU6aHVudGVyMg=="]);
    }

    #[test]
    fn what_is_no_header_is_told_without_its_value() {
        for wrong in ["hunter2", "na me: hunter2", "X-A: hunter2\u{7f}"] {
            let error = of("http://localhost", &[wrong], None).unwrap_err();
            assert!(error.contains("--header") && !error.contains("hunter2"), "{error}");
        }
        assert!(of("http://localhost", &[], Some("ERGOMETER_NO_SUCH_KEY")).unwrap_err().contains("is not set"));
        let pasted = of("http://localhost", &[], Some("sk-hunter2")).unwrap_err();
        assert!(pasted.contains("not the key") && !pasted.contains("hunter2"), "{pasted}");
        assert!(of("http://localhost", &["Content-Length: 3"], None).unwrap_err().contains("by the request itself"));
    }
}
