//! Comma-separated values, by RFC 4180.

use std::borrow::Cow;

/// One line, ended. A field with a comma, a quote or a line break is quoted.
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

fn quoted(field: &str) -> Cow<'_, str> {
    if field.contains([',', '"', '\n', '\r']) {
        Cow::Owned(format!("\"{}\"", field.replace('"', "\"\"")))
    } else {
        Cow::Borrowed(field)
    }
}

/// A number, or nothing where there is none.
pub(crate) fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_need_it_are_quoted() {
        assert_eq!(line(["plain", "a,b", "say \"hi\"", ""]), "plain,\"a,b\",\"say \"\"hi\"\"\",\n");
    }
}
