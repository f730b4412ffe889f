//! Elements of arrays.

use crate::wire::{Fields, Malformed, Message};

macro_rules! elements {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $bytes:literal;)*) => {
        /// What elements are.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Element {
            $($(#[$doc])* $name,)*
        }

        impl Element {
            const ALL: &[Element] = &[$(Element::$name),*];

            /// The code in files.
            pub(crate) const fn code(self) -> i64 {
                match self {
                    $(Element::$name => $code,)*
                }
            }

            /// Bytes of an element.
            pub const fn size(self) -> usize {
                match self {
                    $(Element::$name => $bytes,)*
                }
            }
        }
    };
}

elements! {
    /// Floats of 32 bits.
    F32 = 1, 4;
    /// Floats of 64 bits.
    F64 = 2, 8;
    /// Integers of 32 bits.
    I32 = 3, 4;
    /// Bytes.
    U8 = 4, 1;
    /// Integers of 16 bits.
    I16 = 5, 2;
    /// Integers of 8 bits.
    I8 = 6, 1;
    /// Integers of 64 bits.
    I64 = 9, 8;
    /// Truths, a byte each.
    Bool = 10, 1;
    /// Floats of 16 bits with 8 of exponent.
    Bf16 = 14, 2;
    /// Natural numbers of 16 bits.
    U16 = 17, 2;
    /// Floats of 16 bits.
    F16 = 19, 2;
    /// Natural numbers of 32 bits.
    U32 = 22, 4;
    /// Natural numbers of 64 bits.
    U64 = 23, 8;
}

/// Elements, row-major and little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// What they are.
    pub element: Element,
    /// Extents.
    pub shape: Vec<u64>,
    /// Their bytes.
    pub bytes: Vec<u8>,
}

impl Array {
    /// A number.
    pub fn scalar(value: f32) -> Array {
        Array {
            element: Element::F32,
            shape: Vec::new(),
            bytes: value.to_le_bytes().to_vec(),
        }
    }

    pub(crate) fn encode(&self) -> Message {
        Message::new()
            .int(1, self.element.code())
            .message(2, shape(&self.shape))
            .bytes(4, &self.bytes)
    }

    /// The texts of a tensor of texts; none of other tensors.
    pub(crate) fn texts(bytes: &[u8]) -> Result<Vec<&[u8]>, Malformed> {
        let mut texts = Vec::new();
        for field in Fields::new(bytes) {
            if let (8, text) = field? {
                texts.push(text.bytes()?);
            }
        }
        Ok(texts)
    }

    /// Elements; `None` where they are of a kind that this crate does not have, such as texts.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Array>, Malformed> {
        let mut array = Array {
            element: Element::F32,
            shape: Vec::new(),
            bytes: Vec::new(),
        };
        for field in Fields::new(bytes) {
            match field? {
                (1, code) => {
                    let code = code.int()?;
                    let found = Element::ALL.iter().find(|element| element.code() == code);
                    let Some(element) = found else { return Ok(None) };
                    array.element = *element;
                }
                (2, shape) => array.shape = extents(shape.bytes()?)?,
                (4, content) => array.bytes = content.bytes()?.to_vec(),
                // The form of numbers alone, as other writers have it.
                (5, number) => match number.bytes() {
                    Ok(packed) => array.bytes.extend(packed),
                    Err(_) => array.bytes.extend(number.float()?.to_le_bytes()),
                },
                _ => {}
            }
        }
        Ok(Some(array))
    }
}

/// Extents as a message.
pub(crate) fn shape(extents: &[u64]) -> Message {
    Message::new().each(extents, |shape, &extent| {
        shape.message(2, Message::new().int(1, extent as i64))
    })
}

pub(crate) fn extents(shape: &[u8]) -> Result<Vec<u64>, Malformed> {
    let mut extents = Vec::new();
    for field in Fields::new(shape) {
        let (2, extent) = field? else { continue };
        let mut size = 0;
        for field in Fields::new(extent.bytes()?) {
            if let (1, number) = field? {
                size = u64::try_from(number.int()?).map_err(|_| "a tensor has a negative extent")?;
            }
        }
        extents.push(size);
    }
    Ok(extents)
}
