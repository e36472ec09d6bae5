//! Splits the definition of an external sensor, `KIND[KEY=VALUE,…]:TARGET`, into its parts.
//!
//! A value in '…' or "…" may contain anything except that quote. A backslash has no special meaning. Errors name the
//! position and never quote the target, which may contain a password.

use super::spec::SpecError;

/// The parts of a definition.
#[derive(Debug, PartialEq)]
pub(super) struct Definition<'a> {
    pub(super) kind: &'a str,
    pub(super) options: Vec<KeyValue<'a>>,
    pub(super) target: &'a str,
}

/// One option of a definition.
#[derive(Debug, PartialEq)]
pub(super) struct KeyValue<'a> {
    pub(super) key: &'a str,
    pub(super) value: &'a str,
}

impl<'a> Definition<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, SpecError> {
        let end = text.find(['[', ':']).ok_or(SpecError::NoColon)?;
        let (kind, rest) = text.split_at(end);
        let mut reader = Reader { whole: text, rest };
        let options = if reader.take('[') { reader.options(end + 1)? } else { Vec::new() };
        if !reader.take(':') {
            return Err(SpecError::NoColonAfterBracket { at: reader.at() });
        }
        let target = reader.rest.trim();
        if target.is_empty() { Err(SpecError::NoTarget) } else { Ok(Self { kind: kind.trim(), options, target }) }
    }
}

struct Reader<'a> {
    whole: &'a str,
    rest: &'a str,
}

impl<'a> Reader<'a> {
    /// The position of the rest, in characters from 1.
    fn at(&self) -> usize {
        let read = self.whole.len() - self.rest.len();
        self.whole[..read].chars().count() + 1
    }

    fn take(&mut self, wanted: char) -> bool {
        let rest = self.rest.strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn until(&mut self, end: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn options(&mut self, opened_at: usize) -> Result<Vec<KeyValue<'a>>, SpecError> {
        let mut options = Vec::new();
        self.rest = self.rest.trim_start();
        if self.take(']') {
            return Ok(options);
        }
        loop {
            self.rest = self.rest.trim_start();
            let at = self.at();
            let end = self.rest.find(['=', ',', ']']).ok_or(SpecError::Unclosed { at: opened_at })?;
            let key = self.until(end).trim();
            if !self.take('=') || key.is_empty() {
                return Err(SpecError::NoKeyAndValue { at });
            }
            self.rest = self.rest.trim_start();
            options.push(KeyValue { key, value: self.value(opened_at)? });
            self.rest = self.rest.trim_start();
            if self.take(']') {
                return Ok(options);
            }
            if !self.take(',') {
                return Err(SpecError::AfterQuote { at: self.at() });
            }
        }
    }

    fn value(&mut self, opened_at: usize) -> Result<&'a str, SpecError> {
        let at = self.at();
        for quote in ['\'', '"'] {
            if self.take(quote) {
                let end = self.rest.find(quote).ok_or(SpecError::UnclosedQuote { at, quote })?;
                let value = self.until(end);
                self.take(quote);
                return Ok(value);
            }
        }
        let end = self.rest.find([',', ']']).ok_or(SpecError::Unclosed { at: opened_at })?;
        Ok(self.until(end).trim_end())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_bracket_is_optional_and_the_target_is_unchanged() {
        let definition = Definition::parse("command:curl -s http://[::1]/x,y=z | jq '.a[0]'").unwrap();
        assert_eq!((definition.kind, definition.options.len()), ("command", 0));
        assert_eq!(definition.target, "curl -s http://[::1]/x,y=z | jq '.a[0]'");
        let definition = Definition::parse(r#"csv[ time = 1 , value="a],'b\" ]:/x"#).unwrap();
        let found: Vec<_> = definition.options.iter().map(|option| (option.key, option.value)).collect();
        assert_eq!(found, [("time", "1"), ("value", r"a],'b\")]);
        assert!(Definition::parse("csv[]:/x").unwrap().options.is_empty());
    }

    proptest! {
        #[test]
        fn quoted_values_are_parsed_back(
            values in prop::collection::vec(("[a-z]{1,8}", any::<String>()), 0..5),
            target in "[^ \t\r\n][ -~]{0,20}[!-~]",
        ) {
            // A quoted value cannot contain both kinds of quotes.
            let values: Vec<(String, String)> = values
                .into_iter()
                .map(|(key, value)| if value.contains('\'') { (key, value.replace('"', "")) } else { (key, value) })
                .collect();
            let quoted = |value: &str| if value.contains('\'') { format!("\"{value}\"") } else { format!("'{value}'") };
            let options: Vec<String> = values.iter().map(|(key, value)| format!("{key}={}", quoted(value))).collect();
            let text = format!("csv[{}]:{target}", options.join(","));
            let definition = Definition::parse(&text).unwrap();
            let found: Vec<(String, String)> =
                definition.options.iter().map(|option| (option.key.to_owned(), option.value.to_owned())).collect();
            prop_assert_eq!(found, values);
            prop_assert_eq!(definition.target, target.trim());
        }

        #[test]
        fn no_text_causes_a_panic(text in any::<String>(), inside in any::<String>()) {
            let _ = Definition::parse(&text);
            let _ = Definition::parse(&format!("csv[{inside}]:x"));
        }
    }
}
