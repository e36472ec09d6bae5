//! What went wrong with a request over HTTP, as one of the kinds that are counted.

use std::error::Error;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::{DATE, HeaderMap, LOCATION, RETRY_AFTER};

use crate::error::LONGEST_CAUSE;
use crate::redact::redact_url;
use crate::{FailureKind, RequestError};

/// How long the body of an error may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// How far an exchange had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// There was no connection yet.
    Connect,
    /// Nothing of the answer was there.
    Head,
    /// The head of the answer was there.
    Body,
}

/// The kind and the cause of an error of reqwest.
pub(crate) fn request_error(error: &reqwest::Error, stage: Stage) -> RequestError {
    if error.is_connect() && error.is_timeout() {
        return timed_out();
    }
    failure(error, if error.is_connect() { Stage::Connect } else { stage })
}

/// That no connection came about in time.
pub(crate) fn timed_out() -> RequestError {
    RequestError::new(FailureKind::TimeoutConnect, "no connection in time")
}

/// The kind and the cause of an error. Its types say what it is, never its words.
pub(crate) fn failure(error: &(dyn Error + 'static), stage: Stage) -> RequestError {
    let mut of_system = causes(error).filter_map(|error| error.downcast_ref::<io::Error>());
    if let Some(error) = find::<rustls::Error>(error) {
        return RequestError::new(FailureKind::Tls, format!("no trusted connection: {}", tls_cause(error)));
    }
    if stage == Stage::Connect {
        let told = |error: &io::Error| (error.kind() == io::ErrorKind::TimedOut).then(timed_out);
        if let Some(failure) = of_system.find_map(|error| own_limit(error).or_else(|| told(error))) {
            return failure;
        }
    }
    let (kind, what) = match stage {
        Stage::Connect => (FailureKind::Connect, "no connection"),
        Stage::Body => (FailureKind::Truncated, "the answer broke off"),
        Stage::Head if find::<hyper::Error>(error).is_some_and(hyper::Error::is_parse) => {
            (FailureKind::Malformed, "the answer is not HTTP")
        }
        Stage::Head => (FailureKind::Disconnected, "the connection was closed without an answer"),
    };
    RequestError::new(kind, format!("{what}: {}", innermost(error)))
}

/// Where it is this machine that has no more to give, and nothing is wrong with the server.
fn own_limit(error: &io::Error) -> Option<RequestError> {
    if error.kind() == io::ErrorKind::AddrNotAvailable {
        let cause = "this machine has no port left towards the server. hint: fewer requests in flight, fewer new connections (--connections N waits for one), or --http 2, where many share one";
        return Some(RequestError::new(FailureKind::Ports, cause));
    }
    if !is_out_of_descriptors(error) {
        return None;
    }
    let cause = "this process may open no more files, and each connection is one. hint: raise the limit (`ulimit -n 65536`), fewer requests in flight, --connections N, or --http 2, where many share one";
    Some(RequestError::new(FailureKind::Descriptors, cause))
}

#[cfg(unix)]
fn is_out_of_descriptors(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let limits = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|number| limits.contains(&number))
}

#[cfg(not(unix))]
fn is_out_of_descriptors(error: &io::Error) -> bool {
    /// WSAEMFILE.
    const NO_MORE_SOCKETS: i32 = 10_024;
    error.raw_os_error() == Some(NO_MORE_SOCKETS)
}

/// What is wrong with a certificate or a handshake, for people.
fn tls_cause(error: &rustls::Error) -> String {
    use rustls::CertificateError as Certificate;
    match error {
        // Of the anchors that were tried the last one tells: often that it has another kind of key.
        rustls::Error::InvalidCertificate(
            Certificate::UnknownIssuer
            | Certificate::BadSignature
            | Certificate::UnsupportedSignatureAlgorithmForPublicKeyContext { .. },
        ) => String::from("nobody we trust has signed the server's certificate"),
        // What the verifier says about the kind of certificate it is has no words of its own.
        rustls::Error::InvalidCertificate(Certificate::Other(_)) => format!(
            "the server's certificate cannot be one of a server ({error}). hint: one that signs itself is made by `openssl req -x509 … -addext basicConstraints=critical,CA:FALSE`"
        ),
        rustls::Error::InvalidMessage(_) => String::from("the server does not speak TLS. hint: is it http://?"),
        other => other.to_string(),
    }
}

/// An error of this type among the causes.
fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    causes(error).find_map(|error| error.downcast_ref())
}

/// An error and its causes, those inside of I/O errors included.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        inner.map_or_else(|| error.source(), |inner| Some(inner))
    })
}

/// What the last of the causes says: the ones before it repeat where, and the address of a proxy with its password.
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    match last.downcast_ref::<io::Error>().map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused) => String::from("connection refused"),
        Some(io::ErrorKind::ConnectionReset) => String::from("connection reset"),
        _ => last.to_string(),
    }
}

/// What an answer with another status than success says.
pub(crate) async fn status_error(
    status: StatusCode,
    headers: &HeaderMap,
    parts: impl AsyncFnMut() -> Option<Bytes>,
) -> RequestError {
    let body = tokio::time::timeout(BODY_TIMEOUT, beginning(parts)).await.unwrap_or_default();
    let said = said(&body);
    let mut cause = format!("the server answered {status}");
    if !said.is_empty() {
        cause = format!("{cause}: {said}");
    }
    let retry_after = retry_after(headers);
    if let Some(asked) = retry_after {
        cause = format!("{cause} (asks for {} s of peace)", asked.as_secs_f64());
    }
    if status.is_redirection() {
        let target = headers.get(LOCATION).and_then(|target| target.to_str().ok()).map(redact_url);
        cause = format!("{cause}, and points to {}", target.as_deref().unwrap_or("nowhere"));
        // RFC 9110, 15.4: only these two keep a request as it is; with the others it becomes one without a body.
        cause += ". hint: a redirect is followed within one origin, and for a question only if it is 307 or 308; give the address it points to as --base-url if you trust it";
    } else if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        cause += ". hint: --api-key-env NAME sends the key in that environment variable";
    }
    let error = RequestError::new(FailureKind::HttpStatus(status.as_u16()), cause);
    RequestError { retry_after, ..error }
}

/// The first part of a body; what cannot be read is left out.
async fn beginning(mut parts: impl AsyncFnMut() -> Option<Bytes>) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(bytes) = parts().await {
        body.extend_from_slice(&bytes);
        if body.len() >= LONGEST_CAUSE * 4 {
            break;
        }
    }
    body
}

/// The message of an error's body, as servers write it: OpenAI, Ollama, TGI, FastAPI; else the body itself.
pub(crate) fn said(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let found = serde_json::from_str::<serde_json::Value>(&text).ok().and_then(|value| message(&value));
    let text = found.unwrap_or_else(|| text.split_whitespace().collect::<Vec<_>>().join(" "));
    match text.char_indices().nth(LONGEST_CAUSE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The message in an error object.
pub(crate) fn message(value: &serde_json::Value) -> Option<String> {
    use serde_json::Value;
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Object(fields) => ["error", "message", "detail", "msg"]
            .iter()
            .find_map(|name| fields.get(*name).and_then(message).filter(|text| !text.is_empty())),
        Value::Array(items) => items.iter().find_map(message),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// How long the server wants to be left alone. A date counts from the server's own, so that no two clocks have to agree.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let milliseconds = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
    if let Some(milliseconds) = milliseconds("retry-after-ms") {
        return Some(Duration::from_millis(milliseconds));
    }
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let now = headers.get(DATE).and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
    let then = httpdate::parse_http_date(text).ok()?;
    Some(then.duration_since(now?).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_of_an_error_is_found_in_every_form() {
        let forms = [
            r#"{"error":{"message":"too long","type":"x","code":400}}"#,
            r#"{"error":"too long"}"#,
            r#"{"object":"error","message":"too long"}"#,
            r#"{"detail":[{"loc":["body"],"msg":"too long"}]}"#,
            r#"{"detail":"too long"}"#,
            "too\n  long",
        ];
        for form in forms {
            assert_eq!(said(form.as_bytes()), "too long", "{form}");
        }
        assert_eq!(said(b"\xff{"), "\u{fffd}{");
        assert_eq!(said("é".repeat(3000).as_bytes()).chars().count(), LONGEST_CAUSE + 1);
    }

    #[test]
    fn what_this_machine_lacks_is_not_the_servers_failure() {
        let kind = |number: i32, stage: Stage| {
            let inner = io::Error::other(io::Error::from_raw_os_error(number));
            failure(&inner, stage).kind
        };
        assert_eq!(kind(24, Stage::Connect), FailureKind::Descriptors, "EMFILE");
        assert_eq!(kind(23, Stage::Connect), FailureKind::Descriptors, "ENFILE");
        let ports = io::Error::from(io::ErrorKind::AddrNotAvailable);
        let failure = failure(&ports, Stage::Connect);
        assert_eq!(failure.kind, FailureKind::Ports);
        assert!(failure.cause.contains("hint: ") && failure.kind.is_transient());
        assert_eq!(kind(111, Stage::Connect), FailureKind::Connect, "refused");
        assert_eq!(kind(24, Stage::Head), FailureKind::Disconnected, "there is a connection already");
    }

    #[test]
    fn how_long_to_wait_is_taken_from_either_header() {
        let headers = |name: &'static str, value: &str| {
            HeaderMap::from_iter([(http::header::HeaderName::from_static(name), value.parse().unwrap())])
        };
        assert_eq!(retry_after(&headers("retry-after", "3")), Some(Duration::from_secs(3)));
        assert_eq!(retry_after(&headers("retry-after-ms", "250")), Some(Duration::from_millis(250)));
        let mut dated = headers("retry-after", "Fri, 31 Dec 1999 23:59:59 GMT");
        assert_eq!(retry_after(&dated), None, "whose clock?");
        dated.insert(DATE, "Fri, 31 Dec 1999 23:59:50 GMT".parse().unwrap());
        assert_eq!(retry_after(&dated), Some(Duration::from_secs(9)));
        for nothing in ["", "-1", "soon", "nan"] {
            assert_eq!(retry_after(&headers("retry-after", nothing)), None, "{nothing}");
        }
    }
}
