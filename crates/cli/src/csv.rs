//! Writes comma-separated values (RFC 4180).

use std::borrow::Cow;

/// One line with its line break. A field with a comma, a quote or a line break is quoted.
pub(crate) fn line<S: AsRef<str>>(fields: impl IntoIterator<Item = S>) -> String {
    let mut line = String::new();
    for (index, field) in fields.into_iter().enumerate() {
        if index > 0 {
            line.push(',');
        }
        line.push_str(&quoted(field.as_ref()));
    }
    line.push('\n');
    line
}

/// Quotes a field. A field that a spreadsheet would run as a formula gets an apostrophe: names come from datasets and
/// models.
fn quoted(field: &str) -> Cow<'_, str> {
    let is_formula = field.starts_with(['=', '@', '\t', '+', '-']) && field.parse::<f64>().is_err() && field != "-";
    if is_formula {
        return Cow::Owned(format!("\"'{}\"", field.replace('"', "\"\"")));
    }
    if field.contains([',', '"', '\n', '\r']) {
        Cow::Owned(format!("\"{}\"", field.replace('"', "\"\"")))
    } else {
        Cow::Borrowed(field)
    }
}

/// A number; empty for `None`.
pub(crate) fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_need_it_are_quoted() {
        assert_eq!(line(["=cmd()", "-1.5", "+3e4", "-x", "-"]), "\"'=cmd()\",-1.5,+3e4,\"'-x\",-\n");
        assert_eq!(line(["plain", "a,b", "say \"hi\"", ""]), "plain,\"a,b\",\"say \"\"hi\"\"\",\n");
    }
}
