//! Turns HTTP and socket errors into failures of a counted kind.

use std::error::Error;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use ergometer_diagnostics::{Hint, hint, option};
use http::StatusCode;
use http::header::{DATE, HeaderMap, LOCATION, RETRY_AFTER};

use super::pool::TooManyInterim;
use crate::error::LONGEST_CAUSE;
use crate::redact::redact_url;
use crate::{FailureKind, RequestError};

/// Timeout for reading the body of an error response.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// How much of the body of an error response is read, in bytes.
const LONGEST_BODY: usize = LONGEST_CAUSE * 4;

/// The stage at which a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// While connecting.
    Connect,
    /// Before the response head arrived.
    Head,
    /// After the response head arrived.
    Body,
}

/// The failure for an error of reqwest.
pub(crate) fn request_error(error: &reqwest::Error, stage: Stage) -> RequestError {
    if error.is_connect() && error.is_timeout() {
        return timed_out();
    }
    failure(error, if error.is_connect() { Stage::Connect } else { stage })
}

/// The failure for a connect timeout.
pub(crate) fn timed_out() -> RequestError {
    RequestError::new(FailureKind::TimeoutConnect, "no connection within the connect timeout")
}

/// The failure for an error. The kind follows from the types of the error and its sources, never from their text.
pub(crate) fn failure(error: &(dyn Error + 'static), stage: Stage) -> RequestError {
    let mut of_system = causes(error).filter_map(|error| error.downcast_ref::<io::Error>());
    if let Some(error) = find::<rustls::Error>(error) {
        let (cause, hint) = tls_cause(error);
        let cause = format!("no TLS connection: {cause}");
        return RequestError { hint: Some(hint), ..RequestError::new(FailureKind::Tls, cause) };
    }
    if stage == Stage::Connect {
        let timeout = |error: &io::Error| (error.kind() == io::ErrorKind::TimedOut).then(timed_out);
        if let Some(failure) = of_system.find_map(|error| own_limit(error).or_else(|| timeout(error))) {
            return failure;
        }
    }
    if let Some(flood) = find::<TooManyInterim>(error) {
        return RequestError::new(FailureKind::Malformed, flood.to_string());
    }
    let (kind, what) = match stage {
        Stage::Connect => (FailureKind::Connect, "no connection"),
        // Wrong chunk lengths and wrong trailers; a body that is too short is `UnexpectedEof`.
        Stage::Body
            if find::<io::Error>(error).is_some_and(|error| {
                matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData)
            }) =>
        {
            (FailureKind::Malformed, "the response is not HTTP")
        }
        Stage::Body => (FailureKind::Truncated, "the response is incomplete"),
        Stage::Head if find::<hyper::Error>(error).is_some_and(hyper::Error::is_parse) => {
            (FailureKind::Malformed, "the response is not HTTP")
        }
        Stage::Head => (FailureKind::Disconnected, "the connection was closed without a response"),
    };
    RequestError::new(kind, format!("{what}: {}", innermost(error)))
}

/// The failure for a limit of this machine, which is not the server's fault.
fn own_limit(error: &io::Error) -> Option<RequestError> {
    if error.kind() == io::ErrorKind::AddrNotAvailable {
        let cause = "this machine has no local port left for connections to the server";
        return Some(RequestError::new(FailureKind::Ports, cause).with_hint(fewer_connections()));
    }
    if !is_out_of_descriptors(error) {
        return None;
    }
    let cause = "this process reached its limit of open files, and each connection needs one";
    let hint = Hint::text("raise the limit (`ulimit -n 65536`)").and(fewer_connections());
    Some(RequestError::new(FailureKind::Descriptors, cause).with_hint(hint))
}

fn fewer_connections() -> Hint {
    hint!(
        "have fewer requests in flight, limit connections with ",
        option("connections").value("N"),
        ", or share one with ",
        option("http").value("2")
    )
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

/// What is wrong with a certificate or a handshake, and what to do about it.
fn tls_cause(error: &rustls::Error) -> (String, Hint) {
    use rustls::CertificateError as Certificate;
    let trust = hint!(
        "trust the certificates of a file with ",
        option("ca").value("FILE"),
        " or any certificate with ",
        option("insecure"),
        ", or use http://"
    );
    match error {
        // The error of the last trust anchor is reported, which often only says that its key is of another type.
        rustls::Error::InvalidCertificate(
            Certificate::UnknownIssuer
            | Certificate::BadSignature
            | Certificate::UnsupportedSignatureAlgorithmForPublicKeyContext { .. },
        ) => (String::from("the server's certificate is not signed by a trusted authority"), trust),
        rustls::Error::InvalidCertificate(Certificate::Other(_)) => {
            let create = Hint::text(
                "create a self-signed certificate with `openssl req -x509 … -addext basicConstraints=critical,CA:FALSE`",
            );
            (format!("the server's certificate is not valid for a server ({error})"), create.and(trust))
        }
        // A certificate does not help a server without TLS.
        rustls::Error::InvalidMessage(_) => {
            let hint = hint!("if the server uses plain HTTP, pass ", option("base-url"), " with http://");
            (String::from("the server does not speak TLS"), hint)
        }
        other => (other.to_string(), trust),
    }
}

/// The first error of this type among an error and its sources.
fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    causes(error).find_map(|error| error.downcast_ref())
}

/// An error and its sources, including those inside I/O errors.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        inner.map_or_else(|| error.source(), |inner| Some(inner))
    })
}

/// The text of the innermost source. Outer errors repeat the address, and for a proxy also its password.
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

/// The failure for a response whose status is not success.
pub(crate) async fn status_error(
    status: StatusCode,
    headers: &HeaderMap,
    parts: impl AsyncFnMut() -> Option<Bytes>,
) -> RequestError {
    let body = tokio::time::timeout(BODY_TIMEOUT, body_start(parts)).await.unwrap_or_default();
    let message = error_message(&body);
    let mut cause = format!("the server answered {status}");
    if !message.is_empty() {
        cause = format!("{cause}: {message}");
    }
    let retry_after = retry_after(headers);
    if let Some(wait) = retry_after {
        cause = format!("{cause} (retry after {} s)", wait.as_secs_f64());
    }
    let mut hint = None;
    if status.is_redirection() {
        let target = headers.get(LOCATION).and_then(|target| target.to_str().ok()).map(redact_url);
        cause = format!("{cause}, a redirect to {}", target.as_deref().unwrap_or("no address"));
        // RFC 9110, 15.4: only 307 and 308 keep method and body; the others turn a POST into a GET.
        hint = Some(hint!(
            "if you trust the target, pass it as ",
            option("base-url"),
            "; redirects are followed only within one origin, and a POST only with status 307 or 308"
        ));
    } else if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        hint = Some(hint!(
            "put the API key into an environment variable and pass the name of the variable with ",
            option("api-key-env").value("NAME")
        ));
    }
    let error = RequestError::new(FailureKind::HttpStatus(status.as_u16()), cause);
    RequestError { hint, retry_after, ..error }
}

/// The start of a body, up to the first read error.
async fn body_start(mut parts: impl AsyncFnMut() -> Option<Bytes>) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(bytes) = parts().await {
        body.extend_from_slice(&bytes);
        if body.len() >= LONGEST_BODY {
            break;
        }
    }
    body
}

/// The message in an error body of OpenAI, Ollama, TGI or FastAPI; for other bodies the whole body.
pub(crate) fn error_message(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let found = serde_json::from_str::<serde_json::Value>(&text).ok().and_then(|value| message(&value));
    let text = found.unwrap_or_else(|| {
        let mut words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if body.len() >= LONGEST_BODY {
            // The rest of the body was not read.
            words.push('…');
        }
        words
    });
    match text.char_indices().nth(LONGEST_CAUSE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The message in a JSON error object.
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

/// The wait that the server asks for. A date is compared with the server's own `Date` header, so clocks need not agree.
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
    fn error_messages_are_found_in_every_format() {
        let forms = [
            r#"{"error":{"message":"too long","type":"x","code":400}}"#,
            r#"{"error":"too long"}"#,
            r#"{"object":"error","message":"too long"}"#,
            r#"{"detail":[{"loc":["body"],"msg":"too long"}]}"#,
            r#"{"detail":"too long"}"#,
            "too\n  long",
        ];
        for form in forms {
            assert_eq!(error_message(form.as_bytes()), "too long", "{form}");
        }
        assert_eq!(error_message(b"\xff{"), "\u{fffd}{");
        assert_eq!(error_message("é".repeat(3000).as_bytes()).chars().count(), LONGEST_CAUSE + 1);
    }

    #[test]
    fn limits_of_this_machine_have_their_own_kinds() {
        let kind = |number: i32, stage: Stage| {
            let inner = io::Error::other(io::Error::from_raw_os_error(number));
            failure(&inner, stage).kind
        };
        assert_eq!(kind(24, Stage::Connect), FailureKind::Descriptors, "EMFILE");
        assert_eq!(kind(23, Stage::Connect), FailureKind::Descriptors, "ENFILE");
        let ports = io::Error::from(io::ErrorKind::AddrNotAvailable);
        let failure = failure(&ports, Stage::Connect);
        assert_eq!(failure.kind, FailureKind::Ports);
        assert!(failure.hint.is_some() && failure.kind.is_transient());
        assert_eq!(kind(111, Stage::Connect), FailureKind::Connect, "refused");
        assert_eq!(kind(24, Stage::Head), FailureKind::Disconnected, "there is a connection already");
    }

    #[test]
    fn the_wait_is_read_from_either_header() {
        let headers = |name: &'static str, value: &str| {
            HeaderMap::from_iter([(http::header::HeaderName::from_static(name), value.parse().unwrap())])
        };
        assert_eq!(retry_after(&headers("retry-after", "3")), Some(Duration::from_secs(3)));
        assert_eq!(retry_after(&headers("retry-after-ms", "250")), Some(Duration::from_millis(250)));
        let mut dated = headers("retry-after", "Fri, 31 Dec 1999 23:59:59 GMT");
        assert_eq!(retry_after(&dated), None, "no Date header to compare with");
        dated.insert(DATE, "Fri, 31 Dec 1999 23:59:50 GMT".parse().unwrap());
        assert_eq!(retry_after(&dated), Some(Duration::from_secs(9)));
        for nothing in ["", "-1", "soon", "nan"] {
            assert_eq!(retry_after(&headers("retry-after", nothing)), None, "{nothing}");
        }
    }
}
