//! One print: its texts and tensors, as text and as a record of a file.

use crate::hal::DType;
use crate::types::shape::Shape;
use crate::types::text;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A part of a [`Printout`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PrintItem {
    /// A text.
    Text(String),
    /// A tensor, whole.
    Tensor {
        /// Element type.
        dtype: DType,
        /// Extents.
        shape: Shape,
        /// The elements, row-major, each little-endian.
        bytes: Vec<u8>,
    },
}

impl fmt::Display for PrintItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrintItem::Text(text) => f.write_str(text),
            PrintItem::Tensor { dtype, shape, bytes } => f.write_str(&text::array(*shape, *dtype, bytes)),
        }
    }
}

/// One call of [`print`](crate::observe::print). As text, each item has lines of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Printout {
    /// When it was printed.
    pub time: SystemTime,
    /// What was printed, in order.
    pub items: Vec<PrintItem>,
}

impl fmt::Display for Printout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.items.iter().try_for_each(|item| writeln!(f, "{item}"))
    }
}

const TEXT: u8 = 0;
const TENSOR: u8 = 1;

impl Printout {
    pub(super) fn now(items: Vec<PrintItem>) -> Printout {
        Printout {
            time: SystemTime::now(),
            items,
        }
    }

    /// The payload of a record: nanoseconds since 1970, then the items. Numbers are little-endian.
    pub(super) fn encode(&self) -> Vec<u8> {
        let since = self.time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut out = (since.as_nanos() as u64).to_le_bytes().to_vec();
        for item in &self.items {
            let bytes = match item {
                PrintItem::Text(text) => {
                    out.push(TEXT);
                    text.as_bytes()
                }
                PrintItem::Tensor { dtype, shape, bytes } => {
                    out.push(TENSOR);
                    out.extend(dtype.code().to_le_bytes());
                    out.push(shape.len() as u8);
                    let extents = shape.iter().map(|&extent| extent as u64);
                    out.extend(extents.flat_map(u64::to_le_bytes));
                    bytes
                }
            };
            out.extend((bytes.len() as u64).to_le_bytes());
            out.extend(bytes);
        }
        out
    }

    /// From the payload of a record; `None` for one that no version of this program wrote.
    pub(crate) fn decode(payload: &[u8]) -> Option<Printout> {
        let mut input = Input(payload);
        let time = UNIX_EPOCH.checked_add(Duration::from_nanos(u64::from_le_bytes(input.take()?)))?;
        let mut items = Vec::new();
        while !input.0.is_empty() {
            items.push(input.item()?);
        }
        Some(Printout { time, items })
    }
}

/// What is left of a payload.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(u64::from_le_bytes(self.take()?)).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn item(&mut self) -> Option<PrintItem> {
        match self.take()? {
            [TEXT] => Some(PrintItem::Text(String::from_utf8(self.bytes()?.to_vec()).ok()?)),
            [TENSOR] => {
                let dtype = DType::from_code(u32::from_le_bytes(self.take()?))?;
                let [rank] = self.take()?;
                let extent = |_| usize::try_from(u64::from_le_bytes(self.take()?)).ok();
                let extents: Vec<usize> = (0..rank).map(extent).collect::<Option<_>>()?;
                let shape = Shape::checked(&extents).ok()?;
                let bytes = self.bytes()?.to_vec();
                let whole = shape.elements().checked_mul(dtype.size()) == Some(bytes.len());
                whole.then_some(PrintItem::Tensor { dtype, shape, bytes })
            }
            _ => None,
        }
    }
}
