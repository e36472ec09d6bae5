//! Reads the wire format of protocol buffers: iterates over the fields of a message.
//!
//! Messages and fields are spans of the file, with offsets from its start. Nothing is copied, and nothing recurses.

use std::fmt;

/// A range of the file's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    /// The bytes of this span.
    pub(crate) fn bytes(self, file: &[u8]) -> &[u8] {
        file.get(self.start..self.end).unwrap_or_default()
    }
}

/// Damage in a file: the reason and the position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// The offset in the uncompressed file.
    pub offset: u64,
    /// The reason.
    pub fault: Fault,
}

/// A violation of the wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A field is longer than the rest of its message.
    PastTheEnd {
        /// The length of the field.
        claimed: u64,
        /// The length of the rest of the message.
        left: u64,
    },
    /// An integer has more than ten bytes.
    EndlessNumber,
    /// A field has an unknown wire type.
    WireType(u8),
    /// A field has the number zero, which is invalid.
    FieldZero,
}

impl fmt::Display for Damage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fault {
            Fault::PastTheEnd { claimed, left } => {
                let bytes = if claimed == 1 { "byte" } else { "bytes" };
                write!(formatter, "a field claims {claimed} {bytes}, but ")?;
                match left {
                    0 => formatter.write_str("none is left")?,
                    1 => formatter.write_str("only 1 is left")?,
                    _ => write!(formatter, "only {left} are left")?,
                }
            }
            Fault::EndlessNumber => formatter.write_str("an integer is longer than ten bytes")?,
            Fault::WireType(kind) => write!(formatter, "a field has the unknown wire type {kind}")?,
            Fault::FieldZero => formatter.write_str("a field has the number zero")?,
        }
        write!(formatter, " (byte {})", self.offset)
    }
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    Varint(u64),
    Fixed64(u64),
    Span(Span),
    Fixed32(u32),
}

/// A field of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) number: u64,
    pub(crate) value: Value,
}

impl Field {
    /// The value as a signed integer (two's complement).
    pub(crate) fn signed(self) -> Option<i64> {
        match self.value {
            Value::Varint(bits) => Some(bits.cast_signed()),
            _ => None,
        }
    }

    pub(crate) fn span(self) -> Option<Span> {
        match self.value {
            Value::Span(span) => Some(span),
            _ => None,
        }
    }
}

/// An iterator over the fields of a message, in the order of the file. It ends after the first damage.
pub(crate) struct Fields<'a> {
    /// The file up to the end of the message.
    bytes: &'a [u8],
    at: usize,
    cut: Option<Field>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(file: &'a [u8], message: Span) -> Self {
        Self { bytes: file.get(..message.end).unwrap_or(file), at: message.start, cut: None }
    }

    /// The offset of the next field.
    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// The field that claims more bytes than there are, with the bytes that are there.
    pub(crate) fn cut(&self) -> Option<Field> {
        self.cut
    }

    fn read(&mut self) -> Result<Field, Damage> {
        let start = self.at;
        let tag = self.varint()?;
        let number = tag >> 3;
        if number == 0 {
            return Err(damage(start, Fault::FieldZero));
        }
        let value = match (tag & 7) as u8 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.array(start)?)),
            2 => {
                let length = self.varint()?;
                let rest = Span { start: self.at, end: self.bytes.len() };
                let span = self
                    .span(start, length)
                    .inspect_err(|_| self.cut = Some(Field { number, value: Value::Span(rest) }))?;
                Value::Span(span)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.array(start)?)),
            other => return Err(damage(start, Fault::WireType(other))),
        };
        Ok(Field { number, value })
    }

    fn varint(&mut self) -> Result<u64, Damage> {
        let start = self.at;
        varint(self.bytes, &mut self.at).ok_or_else(|| {
            let left = self.bytes.len() - start;
            let fault = if left < 10 {
                Fault::PastTheEnd { claimed: left as u64 + 1, left: left as u64 }
            } else {
                Fault::EndlessNumber
            };
            damage(start, fault)
        })
    }

    fn span(&mut self, field: usize, length: u64) -> Result<Span, Damage> {
        let left = self.bytes.len() - self.at;
        match usize::try_from(length) {
            Ok(length) if length <= left => {
                let span = Span { start: self.at, end: self.at + length };
                self.at = span.end;
                Ok(span)
            }
            _ => Err(damage(field, Fault::PastTheEnd { claimed: length, left: left as u64 })),
        }
    }

    fn array<const N: usize>(&mut self, field: usize) -> Result<[u8; N], Damage> {
        let span = self.span(field, N as u64)?;
        let mut array = [0; N];
        array.copy_from_slice(span.bytes(self.bytes));
        Ok(array)
    }
}

impl Iterator for Fields<'_> {
    type Item = Result<Field, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            self.at = self.bytes.len();
        }
        Some(field)
    }
}

fn damage(offset: usize, fault: Fault) -> Damage {
    Damage { offset: offset as u64, fault }
}

/// Reads the integer at `at` and moves `at` past it. `None` if it does not end within ten bytes or the slice. Bits
/// beyond 64 are dropped, as in protocol buffers.
#[inline]
pub(crate) fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let first = *bytes.get(*at)?;
    if first < 0x80 {
        *at += 1;
        return Some(u64::from(first));
    }
    long_varint(bytes, at)
}

/// Reads a longer integer. Times take five to seven bytes, so it loads eight bytes at once and packs their groups of
/// seven bits.
#[inline]
fn long_varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    const STOP: u64 = 0x8080_8080_8080_8080;
    if let Some(eight) = bytes.get(*at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*eight);
        let stops = !word & STOP;
        if stops != 0 {
            *at += stops.trailing_zeros() as usize / 8 + 1;
            let value = word & (stops ^ (stops - 1)) & !STOP;
            let value = (value & 0x007f_007f_007f_007f) | ((value & 0x7f00_7f00_7f00_7f00) >> 1);
            let value = (value & 0x0000_3fff_0000_3fff) | ((value & 0x3fff_0000_3fff_0000) >> 2);
            return Some((value & 0x0000_0000_0fff_ffff) | ((value & 0x0fff_ffff_0000_0000) >> 4));
        }
    }
    let mut value = 0;
    for (index, &byte) in (0_u32..10).zip(bytes.get(*at..)?) {
        value |= u64::from(byte & 0x7f).checked_shl(7 * index).unwrap_or(0);
        if byte < 0x80 {
            *at += index as usize + 1;
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encode(mut value: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while value >= 0x80 {
            bytes.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        bytes.push((value & 0x7f) as u8);
        bytes
    }

    fn read(bytes: &[u8]) -> Vec<Result<Field, Damage>> {
        Fields::new(bytes, Span { start: 0, end: bytes.len() }).collect()
    }

    proptest! {
        #[test]
        fn integers_read_back_at_any_offset(value: u64, shift in 0_u32..64, behind in 0_usize..12) {
            let value = value >> shift;
            let mut bytes = encode(value);
            let length = bytes.len();
            bytes.resize(length + behind, 0xff);
            let mut at = 0;
            prop_assert_eq!(varint(&bytes, &mut at), Some(value));
            prop_assert_eq!(at, length);
        }

        #[test]
        fn reading_any_bytes_stops_at_the_first_damage(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let fields = read(&bytes);
            prop_assert!(fields.iter().rev().skip(1).all(Result::is_ok));
        }
    }

    #[test]
    fn damage_has_its_offset() {
        assert_eq!(read(&[]), []);
        assert_eq!(read(&[0x08, 0x05]), [Ok(Field { number: 1, value: Value::Varint(5) })]);
        let past = Fault::PastTheEnd { claimed: 9, left: 1 };
        assert_eq!(read(&[0x08, 0x05, 0x12, 0x09, 0x00])[1], Err(Damage { offset: 2, fault: past }));
        assert_eq!(read(&[0x0b]), [Err(Damage { offset: 0, fault: Fault::WireType(3) })]);
        assert_eq!(read(&[0x00]), [Err(Damage { offset: 0, fault: Fault::FieldZero })]);
        assert_eq!(read(&[0xff; 12]), [Err(Damage { offset: 0, fault: Fault::EndlessNumber })]);
        assert!(matches!(read(&[0x08, 0x80])[0], Err(Damage { offset: 1, fault: Fault::PastTheEnd { .. } })));
        assert!(matches!(
            read(&[0x09, 1, 2, 3])[0],
            Err(Damage { offset: 0, fault: Fault::PastTheEnd { claimed: 8, left: 3 } })
        ));
    }

    #[test]
    fn a_negative_number_takes_ten_bytes() {
        let bytes: Vec<u8> = [&[0x08][..], &encode((-6_881_979_970_812_349_320_i64).cast_unsigned())].concat();
        assert_eq!(bytes.len(), 11);
        assert_eq!(read(&bytes)[0].unwrap().signed(), Some(-6_881_979_970_812_349_320));
    }
}
