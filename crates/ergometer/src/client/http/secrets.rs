//! What every request carries: the headers of the user, and the key from the environment. A secret goes over an encrypted
//! line or to this machine, or not at all.

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use super::{BaseUrl, HttpError};
use crate::redact::is_secret_name;

/// The headers of every request to this address.
pub(super) fn headers(base: &BaseUrl, lines: &[String], api_key_env: Option<&str>) -> Result<HeaderMap, HttpError> {
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(':').ok_or_else(|| HttpError::Header(no_header()))?;
        let name: HeaderName = name.trim().parse().map_err(|_| HttpError::Header(no_header()))?;
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
            HttpError::Key(format!(
                "the environment variable {variable} of --api-key-env is not set. hint: export {variable}=…"
            ))
        })?;
        check_line(base, "the API key")?;
        let wrong = |_| HttpError::Key(format!("the key in {variable} has characters that no header may have"));
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", key.trim())).map_err(wrong)?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    Ok(headers)
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
    fn what_is_no_header_is_told_without_its_value() {
        for wrong in ["hunter2", "na me: hunter2", "X-A: hunter2\u{7f}"] {
            let error = of("http://localhost", &[wrong], None).unwrap_err();
            assert!(error.contains("--header") && !error.contains("hunter2"), "{error}");
        }
        assert!(of("http://localhost", &[], Some("ERGOMETER_NO_SUCH_KEY")).unwrap_err().contains("is not set"));
    }
}
