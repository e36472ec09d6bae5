//! Parses metrics in the Prometheus text format and in `OpenMetrics`.
//!
//! Each line is a comment or a sample; any other line is an error, as in Prometheus itself. No input makes the parser
//! panic.

use std::borrow::Cow;
use std::str::FromStr;

/// A line with a sample or a declaration.
#[derive(Debug, Clone, PartialEq)]
pub enum Line<'a> {
    /// A value.
    Sample(Sample<'a>),
    /// The name of a declared metric family, with or without samples.
    Family(&'a str),
}

/// One value of one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample<'a> {
    /// The metric's name.
    pub name: Cow<'a, str>,
    /// Names and values of its labels, in order.
    pub labels: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// The value.
    pub value: f64,
    /// Its timestamp as written: milliseconds since the epoch in Prometheus' format, seconds in
    /// `OpenMetrics`.
    pub time: Option<f64>,
}

impl Sample<'_> {
    /// The value of a label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| label == name).map(|(_, value)| &**value)
    }
}

/// A line that is neither a comment nor a sample.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {number} is not a metric: `{start}`")]
pub struct Malformed {
    /// The line number, from 1.
    pub number: usize,
    /// The start of the line.
    pub start: String,
}

/// Parses a text line by line.
///
/// ```
/// use ergometer_telemetry::exposition::{Line, lines};
/// let Some(Ok(Line::Sample(sample))) = lines("node_power_watts{chassis=\"1\"} 312.5\n").next() else { panic!() };
/// assert_eq!((&*sample.name, sample.label("chassis"), sample.value), ("node_power_watts", Some("1"), 312.5));
/// ```
pub fn lines(text: &str) -> impl Iterator<Item = Result<Line<'_>, Malformed>> {
    let numbered = (1_usize..).zip(text.lines());
    let trimmed = numbered.map(|(number, line)| (number, line.trim_matches([' ', '\t', '\r'])));
    // Ignore everything after the end marker.
    let content = trimmed.take_while(|(_, line)| *line != "# EOF");
    content.filter_map(|(number, line)| {
        if line.is_empty() {
            return None;
        }
        if let Some(comment) = line.strip_prefix('#') {
            return family(comment).map(|name| Ok(Line::Family(name)));
        }
        let malformed = || Malformed { number, start: start(line) };
        Some(sample(line).map(Line::Sample).ok_or_else(malformed))
    })
}

/// The start of a line, for an error. The mark lets the start of a secret be found and redacted.
fn start(line: &str) -> String {
    match line.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// The name in a `TYPE` comment; `None` for other comments.
fn family(comment: &str) -> Option<&str> {
    let mut words = comment.split([' ', '\t']).filter(|word| !word.is_empty());
    (words.next() == Some("TYPE")).then(|| words.next()).flatten()
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let mut rest = Rest(line);
    let mut name: Cow<'_, str> = Cow::Borrowed(rest.name());
    let mut labels = Vec::new();
    rest.skip_space();
    if rest.take('{') {
        loop {
            rest.skip_space();
            if rest.take('}') {
                break;
            }
            // A metric name with special characters is quoted and comes before the labels.
            let (label, is_quoted) = match rest.quoted() {
                Some(label) => (label, true),
                None => (Cow::Borrowed(rest.name()), false),
            };
            rest.skip_space();
            if rest.take('=') {
                rest.skip_space();
                let value = rest.quoted()?;
                if label.is_empty() {
                    return None;
                }
                labels.push((label, value));
            } else if is_quoted && name.is_empty() {
                name = label;
            } else {
                return None;
            }
            rest.skip_space();
            if !rest.take(',') && !rest.0.starts_with('}') {
                return None;
            }
        }
    }
    if name.is_empty() {
        return None;
    }
    let mut words = rest.0.split([' ', '\t']).filter(|word| !word.is_empty());
    let value = number(words.next()?)?;
    // A timestamp and an exemplar may follow.
    let time = match words.next() {
        None => None,
        Some(word) if word.starts_with('#') => None,
        Some(time) => {
            let time = number(time)?;
            if words.next().is_some_and(|word| !word.starts_with('#')) {
                return None;
            }
            Some(time)
        }
    };
    Some(Sample { name, labels, value, time })
}

/// A number, `NaN`, `Inf` or `-Inf`, in any case.
fn number(word: &str) -> Option<f64> {
    f64::from_str(word).ok()
}

/// The part of a line that is not parsed yet.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn skip_space(&mut self) {
        self.0 = self.0.trim_start_matches([' ', '\t']);
    }

    fn take(&mut self, wanted: char) -> bool {
        let rest = self.0.strip_prefix(wanted);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// The name of a metric or a label; empty if the text does not start with one.
    fn name(&mut self) -> &'a str {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
        let end = self.0.find(|c| !is_part(c)).unwrap_or(self.0.len());
        let end = if self.0.starts_with(|c: char| c.is_ascii_digit()) { 0 } else { end };
        let (name, rest) = self.0.split_at(end);
        self.0 = rest;
        name
    }

    /// A complete quoted string, with the escapes `\n`, `\"` and `\\` resolved.
    fn quoted(&mut self) -> Option<Cow<'a, str>> {
        let text = self.0.strip_prefix('"')?;
        let mut escaped = false;
        let end = text.find(|c: char| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        })?;
        let (inside, after) = text.split_at(end);
        self.0 = after.strip_prefix('"')?;
        Some(if inside.contains('\\') { Cow::Owned(unescaped(inside)) } else { Cow::Borrowed(inside) })
    }
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, if character == '\\' { characters.next() } else { None }) {
            ('\\', Some('n')) => plain.push('\n'),
            ('\\', Some(escaped @ ('\\' | '"'))) => plain.push(escaped),
            // An unknown escape is kept unchanged.
            (one, other) => plain.extend([one].into_iter().chain(other)),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn samples(text: &str) -> Vec<Sample<'_>> {
        let sample = |line| if let Line::Sample(sample) = line { Some(sample) } else { None };
        lines(text).filter_map(|line| sample(line.unwrap())).collect()
    }

    fn values(text: &str) -> Vec<(String, f64)> {
        samples(text).into_iter().map(|sample| (sample.name.into_owned(), sample.value)).collect()
    }

    #[test]
    fn parses_all_forms_of_lines() {
        let text = "# HELP a_total What it counts, in \"words\"\n# TYPE a_total counter\na_total 3\n\n  b{} 1e3\r\n\
                    c{l=\"x\"}-0.5\nd { l = \"x\" , m = \"y\" , } 7 1395066363000\ne:f 12.5 1520879607.789\n#comment\n# \n";
        let named: Vec<(String, f64)> = values(text);
        let expected = [("a_total", 3.0), ("b", 1000.0), ("c", -0.5), ("d", 7.0), ("e:f", 12.5)];
        assert_eq!(named, expected.map(|(name, value)| (name.to_owned(), value)));
        let families: Vec<Line<'_>> = lines(text).flatten().filter(|line| matches!(line, Line::Family(_))).collect();
        assert_eq!(families, [Line::Family("a_total")]);
        let labelled = samples(text);
        assert_eq!((labelled[3].label("m"), labelled[3].label("n")), (Some("y"), None));
        let times: Vec<Option<f64>> = labelled.iter().map(|sample| sample.time).collect();
        assert_eq!(times, [None, None, None, Some(1_395_066_363_000.0), Some(1_520_879_607.789)]);
    }

    #[test]
    fn parses_labels_with_quotes_braces_newlines_and_unicode() {
        let text = r#"a{path="C:\\DIR\\",error="no \"x\"\nfound }, {=",n="é 🦀",odd="\q"} 1"#;
        let labels = samples(text).remove(0).labels;
        let values: Vec<&str> = labels.iter().map(|(_, value)| &**value).collect();
        assert_eq!(values, [r"C:\DIR\", "no \"x\"\nfound }, {=", "é 🦀", r"\q"]);
        let quoted = samples(r#"{"a.b",l="x"} 4"#).remove(0);
        assert_eq!((&*quoted.name, quoted.label("l"), quoted.value), ("a.b", Some("x"), 4.0));
    }

    #[test]
    fn parses_nan_infinity_and_exemplars() {
        let found = values("a NaN\nb +Inf\nc -Inf\nd 1.0 # {trace=\"x\"} 0.5\ne 2 3 # {trace=\"x\"} 0.5 1.1\n");
        assert!(found[0].1.is_nan());
        assert_eq!((found[1].1, found[2].1, found[3].1, found[4].1), (f64::INFINITY, f64::NEG_INFINITY, 1.0, 2.0));
    }

    #[test]
    fn ignores_text_after_the_end_marker() {
        assert_eq!(values("a 1\n# EOF\n<html>\n").len(), 1);
    }

    #[test]
    fn an_invalid_line_is_an_error_with_its_number() {
        let wrong = [
            "<!DOCTYPE html>",
            "{\"detail\":\"Not Found\"}",
            "[]",
            "a",
            "a b",
            "a{ 1",
            "a{l} 1",
            "a{l=x} 1",
            "a{l=\"x} 1",
            "a{l=\"x\"",
            "1a 2",
            "a 1 2 3",
            "a{,} 1",
            "{} 1",
            "a{=\"x\"} 1",
            "a{\"x\"} 1",
            "a 1 x",
        ];
        for line in wrong {
            let text = format!("ok 1\n{line}\n");
            let found: Result<Vec<Line<'_>>, Malformed> = lines(&text).collect();
            assert_eq!(found.unwrap_err().number, 2, "{line}");
        }
        let long = "<".repeat(500);
        assert!(lines(&long).next().unwrap().unwrap_err().to_string().len() < 80);
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let text = String::from_utf8_lossy(&bytes);
            let _ = lines(&text).count();
        }

        #[test]
        fn text_like_metrics_parses_without_a_panic(text in r#"([a-z:_]{0,3}[{]?[a-z="\\, #}]{0,9}[ 0-9.eNaIinf+-]{0,6}\n?){0,9}"#) {
            let _ = lines(&text).count();
        }

        #[test]
        fn formatted_samples_parse_back(
            name in "[a-zA-Z_:][a-zA-Z0-9_:]{0,9}",
            labels in prop::collection::vec(("[a-zA-Z_][a-zA-Z0-9_]{0,5}", any::<String>()), 0..4),
            value in any::<f64>().prop_filter("compared by value", |value| !value.is_nan()),
        ) {
            // Only the line break `\n` has an escape.
            let escaped = |text: &str| text.replace('\\', r"\\").replace('\n', r"\n").replace('"', "\\\"");
            let labels: Vec<_> = labels.into_iter().map(|(name, text)| (name, text.replace('\r', ""))).collect();
            let written: Vec<String> = labels.iter().map(|(name, text)| format!("{name}=\"{}\"", escaped(text))).collect();
            let line = format!("{name}{{{}}} {value}", written.join(","));
            let found = samples(&line).remove(0);
            prop_assert_eq!(&*found.name, name.as_str());
            prop_assert_eq!(found.value, value);
            let read: Vec<_> = found.labels.into_iter().map(|(name, text)| (name.into_owned(), text.into_owned())).collect();
            prop_assert_eq!(read, labels);
        }
    }
}
