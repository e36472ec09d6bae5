//! Reads JSON files: an array of objects, or an object that contains one such array, as `{"data": [...]}`.
//!
//! Opening a file keeps the position of each element, not its content; a row is read from the file on demand.

use std::fs::File;
use std::path::Path;
use std::sync::Mutex;

use ergometer_diagnostics::{Message, hint, option};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Deserializer;

use super::DatasetError;
use super::column_set::ColumnSet;
use super::error::incomplete;
use super::row::{Row, not_json, row_of};
use super::spans::{Span, Spans};
use super::table::{Rows, check_file};

/// The rows of a JSON file.
#[derive(Debug)]
pub(super) struct JsonRows {
    elements: Spans,
    columns: Vec<String>,
}

/// The byte offset of an error, and its message.
type Wrong = (usize, Message);

impl JsonRows {
    /// Opens a file. `field` names the array if there are several.
    pub(super) fn open(path: &Path, field: Option<&str>) -> Result<Self, DatasetError> {
        check_file(path)?;
        let read = |cause| DatasetError::Read { path: path.to_path_buf(), cause };
        let bytes = std::fs::read(path).map_err(read)?;
        let at_line = |(offset, what): Wrong| {
            let before = bytes.get(..offset).unwrap_or(&bytes);
            let line = before.split(|&byte| byte == b'\n').count() as u64;
            DatasetError::Line { path: path.to_path_buf(), line, what }
        };
        if let Err(error) = std::str::from_utf8(&bytes) {
            return Err(at_line((error.valid_up_to(), format!("not UTF-8: {error}").into())));
        }
        let mut scanner = Scanner { bytes: &bytes, place: 0 };
        if bytes.starts_with(b"\xef\xbb\xbf") {
            scanner.place = 3;
        }
        if scanner.peek().is_none() {
            return Err(DatasetError::Empty { path: path.to_path_buf() });
        }
        let elements = scanner.document(field).map_err(at_line)?;
        let (mut spans, mut columns) = (Vec::new(), ColumnSet::default());
        for (number, (start, end)) in (1..).zip(elements) {
            let wrong = |what: Message| at_line((start, what.at(format!("element {number}"))));
            columns.add(row_of(&bytes[start..end]).map_err(wrong)?.keys()).map_err(wrong)?;
            let length = u32::try_from(end - start).map_err(|_| at_line((start, Message::new("longer than 4 GiB"))))?;
            spans.push(Span { start: start as u64, length, number });
        }
        let file = File::open(path).map_err(read)?;
        let elements = Spans { path: path.to_path_buf(), file: Mutex::new(file), parts: spans };
        Ok(Self { elements, columns: columns.into_names() })
    }
}

impl Rows for JsonRows {
    fn count(&self) -> u64 {
        self.elements.count()
    }

    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn row(&self, index: u64) -> Result<Row, DatasetError> {
        row_of(&self.elements.read(index)?).map_err(|what| self.wrong(index, what))
    }

    fn wrong(&self, index: u64, what: Message) -> DatasetError {
        DatasetError::Row { path: self.elements.path.clone(), row: self.elements.number(index), what }
    }
}

/// Finds the start and end of values.
struct Scanner<'a> {
    bytes: &'a [u8],
    place: usize,
}

impl Scanner<'_> {
    /// The elements of the array of objects in the document.
    fn document(&mut self, field: Option<&str>) -> Result<Vec<(usize, usize)>, Wrong> {
        let elements = match (self.peek(), field) {
            (Some(b'['), None) => self.array()?,
            (Some(b'{'), _) => self.object(field)?,
            (_, Some(field)) => return Err(self.wrong(format!("not a JSON object, so it has no field `{field}`"))),
            _ => return Err(self.wrong("neither an array of objects nor an object that contains such an array")),
        };
        if self.peek().is_none() {
            return Ok(elements);
        }
        let hint = hint!(
            "to read JSON Lines, pass ",
            option("dataset").value("jsonl"),
            " ",
            option("dataset-param").value("path=FILE")
        );
        Err(self.wrong(Message::new("there is more text after the end of the JSON").with_hint(hint)))
    }

    fn array(&mut self) -> Result<Vec<(usize, usize)>, Wrong> {
        let mut elements = Vec::new();
        self.expect(b'[')?;
        if self.peek() == Some(b']') {
            self.place += 1;
            return Ok(elements);
        }
        loop {
            self.peek();
            let start = self.place;
            self.skip_value()?;
            elements.push((start, self.place));
            if self.peek() == Some(b']') {
                self.place += 1;
                return Ok(elements);
            }
            self.expect(b',')?;
        }
    }

    fn object(&mut self, field: Option<&str>) -> Result<Vec<(usize, usize)>, Wrong> {
        let start = self.place;
        let mut arrays: Vec<(String, Vec<(usize, usize)>)> = Vec::new();
        self.expect(b'{')?;
        if self.peek() == Some(b'}') {
            return Err(self.wrong(String::from("an empty object")));
        }
        loop {
            self.peek();
            let key: String = self.value()?;
            self.expect(b':')?;
            if self.peek() == Some(b'[') {
                let elements = self.array()?;
                let has_objects = elements.iter().all(|(start, _)| self.bytes.get(*start) == Some(&b'{'));
                if field.map_or(has_objects, |field| field == key) {
                    arrays.push((key, elements));
                }
            } else {
                self.skip_value()?;
            }
            if self.peek() == Some(b'}') {
                self.place += 1;
                break;
            }
            self.expect(b',')?;
        }
        let names: Vec<String> = arrays.iter().map(|(name, _)| name.clone()).collect();
        match (arrays.pop(), field, names.len()) {
            (Some((_, elements)), _, 1) => Ok(elements),
            (None, None, _) => Err((start, "an object without an array of objects inside".into())),
            (None, Some(field), _) => Err((start, format!("no array `{field}` in the object").into())),
            _ => {
                let names = names.join(", ");
                let hint = hint!("choose one with ", option("dataset-param").value("field=NAME"));
                Err((start, Message::new(format!("several arrays: {names}")).with_hint(hint)))
            }
        }
    }

    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        while self.bytes.get(self.place).is_some_and(u8::is_ascii_whitespace) {
            self.place += 1;
        }
        self.bytes.get(self.place).copied()
    }

    fn expect(&mut self, byte: u8) -> Result<(), Wrong> {
        match self.peek() {
            Some(found) if found == byte => {
                self.place += 1;
                Ok(())
            }
            Some(found) => Err(self.wrong(format!("not JSON: `{}` where `{}` should be", found as char, byte as char))),
            None => Err(self.wrong(incomplete("not JSON: the file ends in the middle"))),
        }
    }

    fn skip_value(&mut self) -> Result<(), Wrong> {
        if let Some(b'{' | b'[' | b'"') = self.peek() {
            return self.value::<IgnoredAny>().map(|_| ());
        }
        // A number or literal ends before the next comma or bracket.
        let rest = self.bytes.get(self.place..).unwrap_or_default();
        let is_end = |byte: &u8| matches!(byte, b',' | b']' | b'}') || byte.is_ascii_whitespace();
        let end = rest.iter().position(is_end).unwrap_or(rest.len());
        serde_json::from_slice::<IgnoredAny>(&rest[..end]).map_err(|error| self.wrong(not_json(&error)))?;
        self.place += end;
        Ok(())
    }

    /// Reads one object, array or string.
    fn value<T: DeserializeOwned>(&mut self) -> Result<T, Wrong> {
        let rest = self.bytes.get(self.place..).unwrap_or_default();
        let mut values = Deserializer::from_slice(rest).into_iter::<T>();
        match values.next() {
            Some(Ok(value)) => {
                self.place += values.byte_offset();
                Ok(value)
            }
            Some(Err(error)) if error.is_eof() => {
                Err((self.bytes.len(), incomplete("not JSON: the file ends in the middle")))
            }
            Some(Err(error)) => {
                let lines = rest.split_inclusive(|&byte| byte == b'\n').take(error.line().saturating_sub(1));
                let before: usize = lines.map(<[u8]>::len).sum();
                Err((self.place + before, not_json(&error).into()))
            }
            None => Err(self.wrong(incomplete("not JSON: the file ends in the middle"))),
        }
    }

    fn wrong(&self, what: impl Into<Message>) -> Wrong {
        (self.place, what.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(text: &[u8], field: Option<&str>) -> Result<JsonRows, DatasetError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        std::fs::write(&path, text).unwrap();
        JsonRows::open(&path, field)
    }

    #[test]
    fn an_array_or_an_array_inside_an_object_is_read() {
        let texts = [
            "\u{feff} [ {\"a\": \"]},\"} , {\"b\": [1, {}]} ]\n",
            "{\"version\": 1.5e3, \"note\": \"é\", \"tags\": [1, 2], \"data\": [{\"a\": \"]},\"},{\"b\": [1, {}]}]}",
        ];
        for text in texts {
            let rows = open(text.as_bytes(), None).unwrap();
            assert_eq!((rows.count(), rows.columns()), (2, &[String::from("a"), String::from("b")][..]));
            assert_eq!(rows.row(0).unwrap()["a"], "]},");
            assert_eq!(rows.row(1).unwrap()["b"][0], 1);
        }
        let rows = open(b"{\"train\":[{\"a\":1}],\"test\":[{\"a\":2}]}", Some("test")).unwrap();
        assert_eq!(rows.row(0).unwrap()["a"], 2);
    }

    #[test]
    fn errors_have_their_line() {
        let error = |text: &[u8], field| open(text, field).unwrap_err().to_string();
        assert!(error(b"", None).contains("has no queries"));
        assert!(error(b"[\n{\"a\":1},\n{\"a\"", None).contains("line 3: not JSON: the file ends in the middle"));
        assert!(error(b"[\n{\"a\":1}\n{\"a\":2}]", None).contains("line 3: not JSON: `{` where `,` should be"));
        assert!(error(b"[{\"a\":1},\n3]", None).contains("line 2: element 2: not a JSON object"));
        let wrong = error(b"[{\"a\":\n\n1x}]", None);
        assert!(wrong.contains("line 3: not JSON: expected") && !wrong.contains("at line"), "{wrong}");
        assert!(error(b"[{\"a\":1},]", None).contains("not JSON"));
        assert!(error(b"{\"a\":\xff}", None).contains("not UTF-8"));
        assert!(error(b"\"text\"", None).contains("neither an array"));
        assert!(error(b"{\"a\":1}", None).contains("without an array of objects"));
        assert!(error(b"{\"a\":1}\n{\"a\":2}", None).contains("without an array of objects"));
        assert!(error(b"{\"a\":[{}],\"b\":[{}]}", None).contains("several arrays: a, b"));
        assert!(error(b"{\"a\":[{}]}", Some("c")).contains("no array `c`"));
        assert!(error(b"[{\"a\":1}] [", None).contains("more text after the end"));
    }

    proptest::proptest! {
        #[test]
        fn random_text_never_panics(text in "[\\[\\]{}:,\"a1 \\\\\n]{0,40}") {
            let _ = open(text.as_bytes(), None);
        }
    }
}
