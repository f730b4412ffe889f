//! Numbers as bytes, and the heap in which they lie.

use serde::Serialize;

/// Where bytes lie in a part of the heap. In the first one they begin at a multiple of eight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Place {
    pub(crate) at: usize,
    pub(crate) bytes: usize,
}

/// Bytes behind the index.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    /// What the page needs for its first frame.
    pub(crate) bytes: Vec<u8>,
    /// What it needs when a reader looks closer. It comes last, so that the first frame does not wait for it.
    pub(crate) late: Vec<u8>,
}

impl Heap {
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Place {
        self.pad();
        let at = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        Place {
            at,
            bytes: bytes.len(),
        }
    }

    pub(crate) fn put_late(&mut self, bytes: &[u8]) -> Place {
        let at = self.late.len();
        self.late.extend_from_slice(bytes);
        Place {
            at,
            bytes: bytes.len(),
        }
    }

    pub(crate) fn floats(&mut self, values: impl Iterator<Item = f64>) -> Place {
        self.pad();
        let at = self.bytes.len();
        self.bytes.extend(values.flat_map(f64::to_le_bytes));
        Place {
            at,
            bytes: self.bytes.len() - at,
        }
    }

    pub(crate) fn words(&mut self, values: &[u32]) -> Place {
        self.pad();
        let at = self.bytes.len();
        self.bytes
            .extend(values.iter().flat_map(|value| value.to_le_bytes()));
        Place {
            at,
            bytes: self.bytes.len() - at,
        }
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }
}

/// Appends `value` as LEB128.
pub(crate) fn number(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Appends `value` in zigzag form, so that small ones of either sign are short.
pub(crate) fn signed(bytes: &mut Vec<u8>, value: i64) {
    number(bytes, ((value << 1) ^ (value >> 63)) as u64);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads what [`number`] wrote, as the page does.
    pub(crate) fn read(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let (first, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            shift += 7;
            if first & 0x80 == 0 {
                return value;
            }
        }
    }

    pub(crate) fn read_signed(bytes: &mut &[u8]) -> i64 {
        let value = read(bytes);
        (value >> 1) as i64 ^ -((value & 1) as i64)
    }

    proptest! {
        #[test]
        fn numbers_come_back(values in prop::collection::vec(any::<(u64, i64)>(), 0..50)) {
            let mut bytes = Vec::new();
            for (value, other) in &values {
                number(&mut bytes, *value);
                signed(&mut bytes, *other);
            }
            let mut rest = &bytes[..];
            for (value, other) in &values {
                prop_assert_eq!((read(&mut rest), read_signed(&mut rest)), (*value, *other));
            }
            prop_assert!(rest.is_empty());
        }
    }

    #[test]
    fn what_is_put_begins_at_a_multiple_of_eight() {
        let mut heap = Heap::default();
        assert_eq!(heap.put(b"abc"), Place { at: 0, bytes: 3 });
        assert_eq!(heap.words(&[1, 2, 3]), Place { at: 8, bytes: 12 });
        assert_eq!(heap.floats([0.5].into_iter()), Place { at: 24, bytes: 8 });
        assert_eq!(heap.bytes[24..], 0.5_f64.to_le_bytes());
    }
}
