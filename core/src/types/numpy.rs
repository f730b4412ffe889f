//! How NumPy's files begin.

use super::shape::Shape;
use crate::hal::DType;

/// The first bytes of such a file.
pub(crate) const MAGIC: &[u8] = b"\x93NUMPY";

/// The header of a row-major array: NumPy's own bytes.
///
/// # Errors
/// A dtype that NumPy has not.
pub(crate) fn header(shape: &Shape, dtype: DType) -> Result<Vec<u8>, String> {
    let descr = dtype
        .facts()
        .numpy
        .ok_or_else(|| format!("NumPy has no type for {dtype}; cast the tensor to f16 or bf16 first"))?;
    let extents: Vec<String> = shape.iter().map(ToString::to_string).collect();
    let tuple = match &extents[..] {
        [one] => format!("({one},)"),
        all => format!("({})", all.join(", ")),
    };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple}, }}");
    // NumPy leaves room for the first extent to grow in place, and aligns the data to 64 bytes.
    if let Some(first) = extents.first() {
        text.extend(std::iter::repeat_n(' ', 21_usize.saturating_sub(first.len())));
    }
    let unpadded = MAGIC.len() + 4 + text.len() + 1;
    text.extend(std::iter::repeat_n(' ', unpadded.next_multiple_of(64) - unpadded));
    text.push('\n');
    // Eight axes of twenty digits are far from 65,535.
    let length = (text.len() as u16).to_le_bytes();
    Ok([MAGIC, &[1, 0], &length, text.as_bytes()].concat())
}
