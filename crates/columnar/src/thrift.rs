//! Walks a struct in the Thrift compact protocol, which Parquet uses for its footer and its page headers.
//!
//! A walk checks that every list and every text fits into the bytes that are left. It does not allocate.
//! <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>

/// Structs of Parquet are at most eight levels deep.
const DEEPEST: usize = 16;

const STOP: u8 = 0;
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;
const UUID: u8 = 13;

/// What a walk reports, with the numbers of the fields that lead to it. The elements of a list have the number of the
/// list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item {
    /// An integer.
    Integer(i64),
    /// The end of a struct.
    End,
}

/// Why a walk stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThriftError {
    /// The bytes end within the struct.
    EndsEarly,
    /// A type does not exist, or structs are nested too deeply.
    Invalid,
}

/// Walks the struct at the start of these bytes and returns its length.
pub(crate) fn walk_struct(bytes: &[u8], take: &mut impl FnMut(&[i16], Item)) -> Result<usize, ThriftError> {
    let mut walk = Walk { bytes, at: 0, path: [0; DEEPEST], take };
    walk.value(STRUCT, 0)?;
    Ok(walk.at)
}

struct Walk<'a, F> {
    bytes: &'a [u8],
    at: usize,
    path: [i16; DEEPEST],
    take: &'a mut F,
}

impl<F: FnMut(&[i16], Item)> Walk<'_, F> {
    fn value(&mut self, kind: u8, depth: usize) -> Result<(), ThriftError> {
        match kind {
            // The type of a boolean field is its value.
            TRUE | FALSE => Ok(()),
            BYTE => self.skip(1),
            I16 | I32 | I64 => {
                let value = zigzag(self.varint()?);
                (self.take)(&self.path[..depth], Item::Integer(value));
                Ok(())
            }
            DOUBLE => self.skip(8),
            UUID => self.skip(16),
            BINARY => {
                let length = self.varint()?;
                self.skip(length)
            }
            LIST | SET => {
                let head = self.byte()?;
                let length = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
                self.elements(length, &[head & 15], depth)
            }
            MAP => {
                let length = self.varint()?;
                let kinds = if length == 0 { 0 } else { self.byte()? };
                self.elements(length, &[kinds >> 4, kinds & 15], depth)
            }
            STRUCT => self.fields(depth),
            _ => Err(ThriftError::Invalid),
        }
    }

    fn fields(&mut self, depth: usize) -> Result<(), ThriftError> {
        if depth >= DEEPEST {
            return Err(ThriftError::Invalid);
        }
        let mut number: i16 = 0;
        loop {
            let head = self.byte()?;
            if head == STOP {
                (self.take)(&self.path[..depth], Item::End);
                return Ok(());
            }
            number = match head >> 4 {
                0 => i16::try_from(zigzag(self.varint()?)).map_err(|_| ThriftError::Invalid)?,
                step => number.checked_add(i16::from(step)).ok_or(ThriftError::Invalid)?,
            };
            self.path[depth] = number;
            self.value(head & 15, depth + 1)?;
        }
    }

    /// The elements of a list, or the keys and values of a map. Each takes at least one byte.
    fn elements(&mut self, length: u64, kinds: &[u8], depth: usize) -> Result<(), ThriftError> {
        if length > self.left() {
            return Err(ThriftError::EndsEarly);
        }
        for _ in 0..length {
            for &kind in kinds {
                match kind {
                    // In a list, a boolean is a byte.
                    TRUE | FALSE => self.skip(1)?,
                    kind => self.value(kind, depth)?,
                }
            }
        }
        Ok(())
    }

    fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    fn skip(&mut self, length: u64) -> Result<(), ThriftError> {
        if length > self.left() {
            return Err(ThriftError::EndsEarly);
        }
        self.at += usize::try_from(length).map_err(|_| ThriftError::EndsEarly)?;
        Ok(())
    }

    fn byte(&mut self) -> Result<u8, ThriftError> {
        let byte = *self.bytes.get(self.at).ok_or(ThriftError::EndsEarly)?;
        self.at += 1;
        Ok(byte)
    }

    fn varint(&mut self) -> Result<u64, ThriftError> {
        varint(self.bytes, &mut self.at)
    }
}

/// An integer of at most 64 bits, seven in each byte.
pub(crate) fn varint(bytes: &[u8], at: &mut usize) -> Result<u64, ThriftError> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at).ok_or(ThriftError::EndsEarly)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(ThriftError::Invalid)
}

fn zigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Items = Vec<(Vec<i16>, Item)>;

    fn walked(bytes: &[u8]) -> Result<(Items, usize), ThriftError> {
        let mut items = Vec::new();
        let length = walk_struct(bytes, &mut |path: &[i16], item| items.push((path.to_vec(), item)))?;
        Ok((items, length))
    }

    #[test]
    fn integers_are_reported_with_their_path() {
        // 1: i32 -1, 2: binary "ab", 3: list of two structs {1: i64 300}, 20: true.
        let bytes =
            [0x15, 0x01, 0x18, 0x02, b'a', b'b', 0x19, 0x2c, 0x16, 0xd8, 0x04, 0, 0x16, 0xd8, 0x04, 0, 0x01, 40, 0];
        let (items, length) = walked(&[&bytes[..], b"rest"].concat()).unwrap();
        assert_eq!(length, bytes.len());
        let inner = [(vec![3, 1], Item::Integer(300)), (vec![3], Item::End)];
        let expected = [&[(vec![1], Item::Integer(-1))][..], &inner, &inner, &[(vec![], Item::End)]].concat();
        assert_eq!(items, expected);
        for cut in 0..bytes.len() {
            assert_eq!(walked(&bytes[..cut]).unwrap_err(), ThriftError::EndsEarly, "{cut}");
        }
    }

    #[test]
    fn lengths_that_do_not_fit_are_errors() {
        // A list of 2^31 structs, a text of 2^40 bytes, and structs in structs without end.
        assert_eq!(walked(&[0x19, 0xfc, 0x80, 0x80, 0x80, 0x80, 0x08, 0]).unwrap_err(), ThriftError::EndsEarly);
        let text = [0x18, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0];
        assert_eq!(walked(&text).unwrap_err(), ThriftError::EndsEarly);
        assert_eq!(walked(&[0x1c; 1000]).unwrap_err(), ThriftError::Invalid);
        assert_eq!(walked(&[0x1e, 0]).unwrap_err(), ThriftError::Invalid);
    }
}
