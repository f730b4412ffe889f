//! The format of the MNIST files.

use super::{Column, HostTensor, invalid};
use thalweg::Result;

/// Reads a file in the IDX format of the MNIST database: two zeros, a code of the element type, the rank, big-endian extents, and
/// big-endian elements.
///
/// ```
/// use thalweg_nn::data::{Column, read_idx};
/// let file = [0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 3, 7, 8, 9];
/// let tensor = read_idx(&file)?;
/// assert_eq!((tensor.shape, tensor.data), (vec![1, 3], Column::U8(vec![7, 8, 9])));
/// # Ok::<(), thalweg::Error>(())
/// ```
///
/// # Errors
/// Another beginning, a type that the format does not know, or a length that does not fit the extents.
pub fn read_idx(bytes: &[u8]) -> Result<HostTensor> {
    let [0, 0, kind, rank, rest @ ..] = bytes else {
        return Err(invalid(
            "an IDX file begins with two zeros, a type and a rank".into(),
        ));
    };
    let header = usize::from(*rank) * 4;
    let (extents, elements) = rest
        .split_at_checked(header)
        .ok_or_else(|| invalid(format!("the file ends in the header of {rank} extents")))?;
    let words = extents.as_chunks().0.iter().copied();
    let shape: Vec<usize> = words.map(|word| u32::from_be_bytes(word) as usize).collect();
    let data = match kind {
        0x08 => Column::U8(elements.to_vec()),
        0x09 => Column::I8(big_endian(elements, i8::from_be_bytes)),
        0x0b => Column::I16(big_endian(elements, i16::from_be_bytes)),
        0x0c => Column::I32(big_endian(elements, i32::from_be_bytes)),
        0x0d => Column::F32(big_endian(elements, f32::from_be_bytes)),
        0x0e => Column::F64(big_endian(elements, f64::from_be_bytes)),
        _ => return Err(invalid(format!("there is no IDX type {kind:#x}"))),
    };
    let count = shape
        .iter()
        .try_fold(data.dtype().size(), |all, &extent| all.checked_mul(extent));
    if count != Some(elements.len()) {
        return Err(invalid(format!(
            "{} bytes of {} for extents {shape:?}",
            elements.len(),
            data.dtype()
        )));
    }
    Ok(HostTensor { data, shape })
}

fn big_endian<T, const N: usize>(bytes: &[u8], from: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|bytes| from(*bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idx_files_are_checked() {
        let file = [0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6];
        let read = read_idx(&file).unwrap();
        assert_eq!(
            (read.shape, read.data),
            (vec![2, 3], vec![1_u8, 2, 3, 4, 5, 6].into())
        );
        let wide = [&[0, 0, 0x0d, 1, 0, 0, 0, 1][..], &1.5_f32.to_be_bytes()].concat();
        assert_eq!(read_idx(&wide).unwrap().data, Column::F32(vec![1.5]));
        for bad in [
            &file[..3],
            &file[..9],
            &file[..17],
            &wide[..10],
            &[0, 0, 7, 0],
            &[1, 0, 8, 0],
        ] {
            assert!(read_idx(bad).is_err(), "{bad:?}");
        }
        let huge = [&[0, 0, 8, 3][..], &[0xff; 12]].concat();
        assert!(read_idx(&huge).is_err());
    }
}
