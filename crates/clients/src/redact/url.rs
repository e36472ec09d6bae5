//! Redacts URLs: scheme, host, port, path and the names in the query stay.
//!
//! This is not a URL parser. It only finds the parts that may contain secrets, even in text that a parser would reject.
//! A part that may contain a secret and cannot be parsed is replaced as a whole.

use super::REDACTED;

/// A URL with its user and password, the values of its query, and its fragment replaced.
///
/// A URL without a scheme (`localhost:8000/v1?k=v`) is handled like one with a scheme. An `@` in the path counts as the
/// end of a password that contains a `/`, although this is unlikely: the host before it is replaced too.
///
/// ```
/// # use ergometer_clients::redact::redact_url;
/// let url = "https://me:pw@host:8000/v1?key=sk-1&n=2#top";
/// assert_eq!(redact_url(url), "https://<redacted>@host:8000/v1?key=<redacted>&n=<redacted>#<redacted>");
/// ```
#[must_use]
pub fn redact_url(url: &str) -> String {
    let url = url.trim();
    if url.contains(|character: char| character.is_whitespace() || character.is_control()) {
        return REDACTED.to_owned();
    }
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) => (&url[..scheme.len() + "://".len()], rest),
        // A later `://` is part of another component, such as a query value.
        Some((before, _)) if !before.contains(['/', '?', '#']) => return REDACTED.to_owned(),
        _ => ("", url),
    };
    let (rest, fragment) = split_at_first(rest, '#');
    let (rest, query) = split_at_first(rest, '?');
    let (user, rest) = match rest.rsplit_once('@') {
        Some((_, rest)) => (format!("{REDACTED}@"), rest),
        None => (String::new(), rest),
    };
    let (authority, path) = rest.split_at(rest.find(['/', '\\']).unwrap_or(rest.len()));
    if !is_authority(authority) {
        return format!("{scheme}{REDACTED}");
    }
    let query = query.map_or_else(String::new, |query| format!("?{}", redact_query(query)));
    let fragment = match fragment {
        None => String::new(),
        Some("") => "#".to_owned(),
        Some(_) => format!("#{REDACTED}"),
    };
    format!("{scheme}{user}{authority}{path}{query}{fragment}")
}

fn split_at_first(text: &str, separator: char) -> (&str, Option<&str>) {
    text.split_once(separator).map_or((text, None), |(before, after)| (before, Some(after)))
}

/// The names of a query with their values replaced. A part without a name may itself be a secret.
fn redact_query(query: &str) -> String {
    let part = |part: &str| match part.split_once('=') {
        _ if part.is_empty() => String::new(),
        Some((name, _)) => format!("{name}={REDACTED}"),
        None => REDACTED.to_owned(),
    };
    query.split('&').map(part).collect::<Vec<_>>().join("&")
}

/// Whether a text is a scheme: a letter, then letters, digits, `+`, `-` and `.` (RFC 3986, section 3.1).
fn is_scheme(scheme: &str) -> bool {
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Whether a text is a host with an optional port. `user:password` without `@` is not, because the password is not a
/// port.
fn is_authority(authority: &str) -> bool {
    let (host, port) = match authority.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((address, port)) if address.bytes().all(|byte| byte.is_ascii_hexdigit() || b":.%".contains(&byte)) => {
            match port.strip_prefix(':') {
                Some(port) => ("v6", Some(port)),
                None if port.is_empty() => ("v6", None),
                None => return false,
            }
        }
        Some(_) => return false,
        None => split_at_first(authority, ':'),
    };
    host.chars().all(|character| character.is_alphanumeric() || "-._~".contains(character))
        && port.is_none_or(|port| port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_the_secrets_of_urls_are_replaced() {
        for (url, expected) in [
            ("http://localhost:8000/v1", "http://localhost:8000/v1"),
            ("https://api.example.com/v1/", "https://api.example.com/v1/"),
            ("localhost:8000/v1", "localhost:8000/v1"),
            ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
            ("https://bücher.example/", "https://bücher.example/"),
            ("http+unix:///run/server.sock", "http+unix:///run/server.sock"),
            ("http://me@host/v1", "http://<redacted>@host/v1"),
            ("http://me:p@ss@host:80", "http://<redacted>@host:80"),
            ("http://me:p/a/s@host:80/v1", "http://<redacted>@host:80/v1"),
            ("me:pw@host/v1", "<redacted>@host/v1"),
            ("localhost:8000?key=x", "localhost:8000?key=<redacted>"),
            ("http://h/?a=1&b=2&c&=d&", "http://h/?a=<redacted>&b=<redacted>&<redacted>&=<redacted>&"),
            ("http://h/?sk-123", "http://h/?<redacted>"),
            ("http://h/#access_token=x", "http://h/#<redacted>"),
            ("http://h/?next=http://u:p@g/", "http://h/?next=<redacted>"),
            ("http://h/v1?#", "http://h/v1?#"),
            ("", ""),
        ] {
            assert_eq!(redact_url(url), expected, "{url}");
        }
    }

    #[test]
    fn invalid_urls_are_replaced() {
        for (url, expected) in [
            ("http://me:pw", "http://<redacted>"),
            ("http://me:p#w@host", "http://<redacted>"),
            ("http://me:p?w@host", "http://<redacted>"),
            ("http://host:123456/", "http://<redacted>"),
            ("http://[me:pw]/", "http://<redacted>"),
            ("me:pw://host", "<redacted>"),
            ("http://ho st/?key=x", "<redacted>"),
            ("Bearer sk-123", "<redacted>"),
            ("http://a\u{0}b/", "<redacted>"),
        ] {
            assert_eq!(redact_url(url), expected, "{url}");
        }
    }

    proptest! {
        #[test]
        fn a_marked_secret_never_survives(
            scheme in prop::option::of("[a-z]{1,5}"), noise in "[!-~]{0,6}", host in "[a-z.]{1,9}", path in "(/[a-z0-9]{0,4}){0,3}",
            place in 0..4)
        {
            let scheme = scheme.map_or_else(String::new, |scheme| format!("{scheme}://"));
            let secret = format!("MARKED{}", noise.replace(['#', '?', '/', '\\'], ""));
            let url = match place {
                0 => format!("{scheme}user:{secret}@{host}{path}"),
                1 => format!("{scheme}{host}{path}?a=b&c={}", secret.replace('&', "")),
                2 => format!("{scheme}{host}{path}#{secret}"),
                _ => format!("{scheme}{secret}@{host}:80{path}?{}", secret.replace(['=', '&'], "")),
            };
            let redacted = redact_url(&url);
            prop_assert!(!redacted.contains("MARKED"), "{} became {}", url, redacted);
        }

        #[test]
        fn random_text_never_panics(text in ".*") {
            let _ = redact_url(&text);
        }
    }
}
