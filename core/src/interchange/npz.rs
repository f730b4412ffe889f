//! Files of several named arrays as `numpy.savez` and `numpy.savez_compressed` write them.
//!
//! ```
//! use std::io::Cursor;
//! use thalweg::{Context, Tensor, interchange::npz::{Archive, Compression, encode}};
//! let cx = Context::new("cpu")?;
//! let x = Tensor::from_slice(&[1_i64, 2, 3], 3, &cx);
//! let bytes = encode(&[("x", &x)], Compression::Deflated)?;
//! let mut archive = Archive::new(Cursor::new(bytes))?;
//! assert_eq!(archive.names(), ["x"]);
//! assert_eq!(archive.tensor("x", &cx)?.to_vec::<i64>()?, [1, 2, 3]);
//! # Ok::<(), thalweg::Error>(())
//! ```

use super::file::{failed, replace};
use super::{malformed, npy};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek, Write};
use std::path::{Path, PathBuf};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

/// Bytes that are set aside before they are seen: how many an array has is but a claim.
const RESERVE: u64 = 1 << 24;

/// How arrays lie in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// As they are: `numpy.savez`.
    #[default]
    Stored,
    /// By deflate: `numpy.savez_compressed`.
    Deflated,
}

/// A file of arrays, each of which is read when it is asked for.
pub struct Archive<R> {
    zip: ZipArchive<R>,
    path: Option<PathBuf>,
}

impl<R: Read + Seek> std::fmt::Debug for Archive<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Archive({:?}, {} arrays)", self.path, self.zip.len())
    }
}

impl Archive<BufReader<File>> {
    /// The archive in a file.
    ///
    /// # Errors
    /// The file cannot be read or is no archive.
    pub fn open(path: impl AsRef<Path>) -> Result<Archive<BufReader<File>>> {
        let path = path.as_ref();
        let file = File::open(path).map_err(failed(path))?;
        let zip = ZipArchive::new(BufReader::new(file))
            .map_err(|error| malformed("npz", Some(path), error.to_string()))?;
        let path = Some(path.to_owned());
        Ok(Archive { zip, path })
    }
}

impl<R: Read + Seek> Archive<R> {
    /// The archive that a reader gives.
    ///
    /// # Errors
    /// It is no archive.
    pub fn new(reader: R) -> Result<Archive<R>> {
        let zip = ZipArchive::new(reader).map_err(|error| malformed("npz", None, error.to_string()))?;
        Ok(Archive { zip, path: None })
    }

    /// The names of the arrays, in the file's order.
    pub fn names(&self) -> Vec<String> {
        let name = |name: Cow<'_, str>| name.strip_suffix(".npy").unwrap_or(&name).to_owned();
        // A name in an encoding that cannot be read names nothing that can be asked for.
        self.zip.file_names().flatten().map(name).collect()
    }

    /// An array on the device of `cx`.
    ///
    /// # Errors
    /// There is none by this name; as [`npy::decode`]; the file cannot be read.
    pub fn tensor(&mut self, name: &str, cx: &Context) -> Result<Tensor> {
        let path = self.path.clone();
        let error = |message: String| malformed("npz", path.as_deref(), format!("{name}: {message}"));
        let full = format!("{name}.npy");
        let at = self
            .zip
            .index_for_name(&full)
            .or_else(|| self.zip.index_for_name(name));
        let Some(at) = at else {
            let names = self.names();
            let shown = names.iter().take(8).cloned().collect::<Vec<_>>().join(", ");
            let more = if names.len() > 8 { ", …" } else { "" };
            return Err(error(format!("there is no such array; found: {shown}{more}")));
        };
        let mut entry = self
            .zip
            .by_index(at)
            .map_err(|failure| error(failure.to_string()))?;
        let length = entry.size();
        npy::from_reader(&mut entry, length, RESERVE, cx, error)
    }
}

/// An archive of the arrays in memory. The same arrays give the same bytes.
///
/// # Errors
/// The first error on the way to a tensor; a name that comes twice.
pub fn encode(arrays: &[(&str, &Tensor)], compression: Compression) -> Result<Vec<u8>> {
    let mut bytes = Cursor::new(Vec::new());
    write_to(&mut bytes, None, arrays, compression)?;
    Ok(bytes.into_inner())
}

/// Writes an archive to a file, which appears whole or not at all.
///
/// # Errors
/// As [`encode`]; the file cannot be written.
pub fn write(path: impl AsRef<Path>, arrays: &[(&str, &Tensor)], compression: Compression) -> Result<()> {
    let path = path.as_ref();
    replace(path, |file| write_to(file, Some(path), arrays, compression))
}

fn write_to(
    to: impl Write + Seek,
    path: Option<&Path>,
    arrays: &[(&str, &Tensor)],
    compression: Compression,
) -> Result<()> {
    let error = |message: String| -> Error { malformed("npz", path, message) };
    let method = match compression {
        Compression::Stored => CompressionMethod::Stored,
        Compression::Deflated => CompressionMethod::Deflated,
    };
    let mut zip = ZipWriter::new(to);
    for (name, tensor) in arrays {
        let bytes = npy::encode(tensor)?;
        let options = SimpleFileOptions::default()
            .compression_method(method)
            .large_file(bytes.len() as u64 > u64::from(u32::MAX));
        zip.start_file(format!("{name}.npy"), options)
            .map_err(|failure| error(failure.to_string()))?;
        zip.write_all(&bytes)
            .map_err(|failure| error(format!("{name}: {failure}")))?;
    }
    zip.finish().map_err(|failure| error(failure.to_string()))?;
    Ok(())
}
