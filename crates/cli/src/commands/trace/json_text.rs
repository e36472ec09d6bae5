//! Writes JSON directly into bytes, without building values for millions of events.

use std::io::Write as _;

use ergometer_trace::{Stat, StatValue};

/// Writes a string.
pub(super) fn text(out: &mut Vec<u8>, text: &str) {
    // Writing into memory cannot fail.
    let _ = serde_json::to_writer(out, text);
}

/// Writes an integer.
pub(super) fn number(out: &mut Vec<u8>, number: impl std::fmt::Display) {
    let _ = write!(out, "{number}");
}

/// Writes stats as an object. A repeated name gets a list of its values.
pub(super) fn stats(out: &mut Vec<u8>, stats: &[Stat<'_>]) {
    /// More stats than this are sorted by name first, so that a hostile event takes n log n time.
    const FEW: usize = 64;
    out.push(b'{');
    if stats.len() <= FEW {
        let mut is_first = true;
        for (place, stat) in stats.iter().enumerate() {
            if stats[..place].iter().any(|earlier| earlier.name == stat.name) {
                continue;
            }
            member(out, std::mem::take(&mut is_first), &stats[place..]);
        }
    } else {
        let mut sorted: Vec<Stat<'_>> = stats.to_vec();
        sorted.sort_by(|left, right| left.name.cmp(&right.name));
        for (number, group) in sorted.chunk_by(|left, right| left.name == right.name).enumerate() {
            member(out, number == 0, group);
        }
    }
    out.push(b'}');
}

/// Writes the first stat, with all stats of the same name.
fn member(out: &mut Vec<u8>, is_first: bool, stats: &[Stat<'_>]) {
    let Some((first, rest)) = stats.split_first() else { return };
    if !is_first {
        out.push(b',');
    }
    text(out, &first.name);
    out.push(b':');
    let mut others = rest.iter().filter(|other| other.name == first.name).peekable();
    if others.peek().is_none() {
        value(out, &first.value);
        return;
    }
    out.push(b'[');
    value(out, &first.value);
    for other in others {
        out.push(b',');
        value(out, &other.value);
    }
    out.push(b']');
}

fn value(out: &mut Vec<u8>, value: &StatValue<'_>) {
    match value {
        StatValue::Double(number) if number.is_finite() => {
            let _ = serde_json::to_writer(out, number);
        }
        StatValue::Double(other) => text(out, &other.to_string()),
        StatValue::Unsigned(bits) => number(out, bits),
        StatValue::Signed(bits) => number(out, bits),
        StatValue::Text(characters) | StatValue::Reference(Ok(characters)) => text(out, characters),
        StatValue::Reference(Err(missing)) => {
            let _ = write!(out, "{{\"missing_reference\":{missing}}}");
        }
        StatValue::Bytes(bytes) => {
            out.extend_from_slice(b"{\"base64\":\"");
            base64(out, bytes);
            out.extend_from_slice(b"\"}");
        }
        StatValue::Absent => out.extend_from_slice(b"null"),
    }
}

/// Writes base64 (RFC 4648) with padding.
fn base64(out: &mut Vec<u8>, bytes: &[u8]) {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for group in bytes.chunks(3) {
        let [first, second, third] = [0, 1, 2].map(|place| u32::from(group.get(place).copied().unwrap_or(0)));
        let bits = first << 16 | second << 8 | third;
        for place in 0..4 {
            let sign = SIGNS[(bits >> (18 - 6 * place) & 63) as usize];
            out.push(if place > group.len() { b'=' } else { sign });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(name: &'static str, value: StatValue<'static>) -> Stat<'static> {
        Stat { name: name.into(), value }
    }

    fn written(list: &[Stat<'_>]) -> String {
        let mut out = Vec::new();
        stats(&mut out, list);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_of_every_kind_are_written() {
        let list = [
            stat("zero", StatValue::Unsigned(0)),
            stat("most", StatValue::Unsigned(u64::MAX)),
            stat("least", StatValue::Signed(i64::MIN)),
            stat("half", StatValue::Double(0.5)),
            stat("odd", StatValue::Double(f64::NEG_INFINITY)),
            stat("a \"b\"\n", StatValue::Text("c\\d".into())),
            stat("bytes", StatValue::Bytes(b"any")),
            stat("gone", StatValue::Reference(Err(-7))),
            stat("none", StatValue::Absent),
        ];
        let expected = r#"{"zero":0,"most":18446744073709551615,"least":-9223372036854775808,"half":0.5,"odd":"-inf","a \"b\"\n":"c\\d","bytes":{"base64":"YW55"},"gone":{"missing_reference":-7},"none":null}"#;
        assert_eq!(written(&list), expected);
        serde_json::from_str::<serde_json::Value>(expected).unwrap();
    }

    #[test]
    fn a_repeated_name_becomes_a_list() {
        let few = [("a", 1), ("b", 2), ("a", 3)].map(|(name, number)| stat(name, StatValue::Unsigned(number)));
        assert_eq!(written(&few), r#"{"a":[1,3],"b":2}"#);
        let many: Vec<Stat> = (0..100).map(|number| stat("a", StatValue::Unsigned(number))).collect();
        let read: serde_json::Value = serde_json::from_str(&written(&many)).unwrap();
        assert_eq!(read["a"].as_array().map(Vec::len), Some(100));
        assert_eq!(written(&[]), "{}");
    }

    #[test]
    fn base64_is_padded() {
        let shown = |bytes: &[u8]| {
            let mut out = Vec::new();
            base64(&mut out, bytes);
            String::from_utf8(out).unwrap()
        };
        // The examples of RFC 4648, section 10.
        let all = ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|text| shown(text.as_bytes()));
        assert_eq!(all, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]);
        assert_eq!(shown(&[0xfb, 0xff, 0xfe]), "+//+");
    }
}
