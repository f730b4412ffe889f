//! Arrays that stay in their file.

use super::read_header;
use crate::error::Result;
use crate::hal::DType;
use crate::interchange::file::failed;
use crate::interchange::malformed;
use crate::tensor::shape::Shape;
use memmap2::{Mmap, MmapOptions};
use std::fs::File;
use std::path::Path;

/// An array in a mapped file: its elements are read when they are asked for, so that it may be larger than memory.
///
/// The file may be replaced, as [`write`](super::write) does, but must neither be written nor shortened in place while it is in use:
/// what is written may show, and the system ends a process that touches a mapped page which is gone. [`read`](super::read) copies.
///
/// ```
/// use thalweg::{Context, Tensor, interchange::npy};
/// let path = std::env::temp_dir().join(format!("mapped-{}.npy", std::process::id()));
/// npy::write(&path, &Tensor::from_slice(&[1_u8, 2, 3, 4], [2, 2], &Context::new("cpu")?))?;
/// let array = npy::Mapped::open(&path)?;
/// assert_eq!(*array.shape(), [2, 2]);
/// assert_eq!(array.bytes(), [1, 2, 3, 4]);
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Debug)]
pub struct Mapped {
    map: Mmap,
    begin: usize,
    shape: Shape,
    dtype: DType,
}

impl Mapped {
    /// Maps a file and reads its header.
    ///
    /// # Errors
    /// The file cannot be read or mapped; as [`decode`](super::decode). Elements that do not lie as tensors have them are refused:
    /// big-endian ones, and those of several axes in Fortran order.
    pub fn open(path: impl AsRef<Path>) -> Result<Mapped> {
        let path = path.as_ref();
        let refuse = |message: String| malformed("npy", Some(path), message);
        let file = File::open(path).map_err(failed(path))?;
        // SAFETY: that nobody writes to the file or shortens it is asked of the user; a private mapping shows what others write
        // all the same. Bytes are read as numbers, for which all patterns are values.
        let map = unsafe { MmapOptions::new().map_copy_read_only(&file) }.map_err(failed(path))?;
        let (header, begin) = read_header(&mut &map[..]).map_err(refuse)?;
        if header.big_endian || (header.fortran && header.shape.len() > 1) {
            let how = "save numpy.ascontiguousarray of it, in the machine's byte order";
            return Err(refuse(format!(
                "its elements do not lie row by row, little-endian; {how}"
            )));
        }
        let bytes = header.shape.elements().checked_mul(header.dtype.size());
        let there = map.len() - begin as usize;
        if bytes != Some(there) {
            return Err(refuse(format!(
                "{} {} for {there} bytes",
                header.dtype, header.shape
            )));
        }
        Ok(Mapped {
            map,
            begin: begin as usize,
            shape: header.shape,
            dtype: header.dtype,
        })
    }

    /// The extents.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The little-endian bytes of the elements, row-major.
    pub fn bytes(&self) -> &[u8] {
        &self.map[self.begin..]
    }
}
