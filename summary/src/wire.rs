//! The wire format of protocol buffers: fields of numbers, each a varint, fixed bytes, or bytes with their length.
//!
//! Format: <https://protobuf.dev/programming-guides/encoding/>.

/// A message that is written, field by field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message(Vec<u8>);

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;
const FIXED32: u32 = 5;

impl Message {
    pub(crate) fn new() -> Message {
        Message::default()
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn key(&mut self, field: u32, wire: u32) {
        self.raw_varint(u64::from(field << 3 | wire));
    }

    /// An integer; a negative one is written as its 64 bits.
    pub(crate) fn int(mut self, field: u32, value: i64) -> Message {
        self.key(field, VARINT);
        self.raw_varint(value as u64);
        self
    }

    pub(crate) fn double(mut self, field: u32, value: f64) -> Message {
        self.key(field, FIXED64);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn float(mut self, field: u32, value: f32) -> Message {
        self.key(field, FIXED32);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn bytes(mut self, field: u32, bytes: &[u8]) -> Message {
        self.key(field, BYTES);
        self.raw_varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    pub(crate) fn text(self, field: u32, text: &str) -> Message {
        self.bytes(field, text.as_bytes())
    }

    pub(crate) fn message(self, field: u32, message: Message) -> Message {
        self.bytes(field, &message.0)
    }

    /// One field for each of `items`.
    pub(crate) fn each<T>(
        self,
        items: impl IntoIterator<Item = T>,
        write: impl Fn(Message, T) -> Message,
    ) -> Message {
        items.into_iter().fold(self, write)
    }

    /// Numbers behind each other in one field.
    pub(crate) fn doubles(self, field: u32, values: &[f64]) -> Message {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.bytes(field, &bytes)
    }
}

/// The value of a field that is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Field<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// What is wrong with a message.
pub(crate) type Malformed = &'static str;

impl<'a> Field<'a> {
    pub(crate) fn int(self) -> Result<i64, Malformed> {
        match self {
            Field::Varint(value) => Ok(value as i64),
            Field::Fixed64(_) | Field::Fixed32(_) | Field::Bytes(_) => Err("a field is no integer"),
        }
    }

    pub(crate) fn double(self) -> Result<f64, Malformed> {
        match self {
            Field::Fixed64(bits) => Ok(f64::from_bits(bits)),
            Field::Varint(_) | Field::Fixed32(_) | Field::Bytes(_) => Err("a field is no double"),
        }
    }

    pub(crate) fn float(self) -> Result<f32, Malformed> {
        match self {
            Field::Fixed32(bits) => Ok(f32::from_bits(bits)),
            Field::Varint(_) | Field::Fixed64(_) | Field::Bytes(_) => Err("a field is no float"),
        }
    }

    pub(crate) fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Field::Bytes(bytes) => Ok(bytes),
            Field::Varint(_) | Field::Fixed64(_) | Field::Fixed32(_) => Err("a field has no bytes"),
        }
    }

    /// Text; bytes that are none become the character for that.
    pub(crate) fn text(self) -> Result<String, Malformed> {
        self.bytes()
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// Appends doubles: packed ones, or one alone.
    pub(crate) fn doubles(self, into: &mut Vec<f64>) -> Result<(), Malformed> {
        match self {
            Field::Fixed64(bits) => into.push(f64::from_bits(bits)),
            Field::Bytes(bytes) => {
                let (chunks, rest) = bytes.as_chunks::<8>();
                if !rest.is_empty() {
                    return Err("packed doubles are cut");
                }
                into.extend(chunks.iter().map(|chunk| f64::from_le_bytes(*chunk)));
            }
            Field::Varint(_) | Field::Fixed32(_) => return Err("a field has no doubles"),
        }
        Ok(())
    }
}

/// The fields of a message, with their numbers.
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields(bytes)
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for at in 0..10 {
            let (&byte, rest) = self.0.split_first().ok_or("a number is cut")?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number is longer than ten bytes")
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or("a field is cut")?;
        self.0 = rest;
        Ok(taken)
    }

    fn field(&mut self) -> Result<(u32, Field<'a>), Malformed> {
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).map_err(|_| "a field's number is too large")?;
        let field = match (key & 7) as u32 {
            VARINT => Field::Varint(self.varint()?),
            FIXED64 => {
                let bytes = self.take(8)?.first_chunk().ok_or("a field is cut")?;
                Field::Fixed64(u64::from_le_bytes(*bytes))
            }
            FIXED32 => {
                let bytes = self.take(4)?.first_chunk().ok_or("a field is cut")?;
                Field::Fixed32(u32::from_le_bytes(*bytes))
            }
            BYTES => {
                let length = usize::try_from(self.varint()?).map_err(|_| "a field is cut")?;
                Field::Bytes(self.take(length)?)
            }
            _ => return Err("a field is of a kind that does not exist"),
        };
        Ok((number, field))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Field<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_as_the_specification_shows_them() {
        // "Test1 with a = 150" and "Test2 with b = testing" of the specification.
        assert_eq!(Message::new().int(1, 150).into_bytes(), [0x08, 0x96, 0x01]);
        let text = Message::new().text(2, "testing").into_bytes();
        assert_eq!(text, b"\x12\x07testing");
        let all = Message::new()
            .int(1, -2)
            .double(2, 0.5)
            .float(300, 1.5)
            .message(4, Message::new().int(1, 3));
        let bytes = all.into_bytes();
        let read: Vec<_> = Fields::new(&bytes).collect::<Result<_, _>>().unwrap();
        let wanted = [
            (1, Field::Varint(-2_i64 as u64)),
            (2, Field::Fixed64(0.5_f64.to_bits())),
            (300, Field::Fixed32(1.5_f32.to_bits())),
            (4, Field::Bytes(&[8, 3])),
        ];
        assert_eq!(read, wanted);
        for cut in 1..bytes.len() {
            let (mut good, mut bad) = (0, 0);
            for field in Fields::new(&bytes[..cut]) {
                if field.is_ok() { good += 1 } else { bad += 1 }
            }
            assert!(good < 4 && bad <= 1, "{cut}");
        }
        for wrong in [
            &[0x0b][..],
            &[0xff; 11],
            &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        ] {
            assert!(Fields::new(wrong).next().unwrap().is_err());
        }
    }
}
