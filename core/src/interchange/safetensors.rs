//! Files of named tensors in the format of Hugging Face's safetensors.
//!
//! [`Archive::open`] reads the header; a tensor is read when it is asked for. [`Archive::map`] maps the file instead: on devices that
//! share the host's memory a tensor then lies in the file itself, so that loading costs no copy and memory that other processes share.
//!
//! ```
//! use thalweg::{Context, Tensor, interchange::safetensors::{Archive, save}};
//! let cx = Context::new("cpu")?;
//! let folder = tempfile::tempdir().unwrap();
//! let path = folder.path().join("model.safetensors");
//! let weight = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
//! save(&path, &[("weight", &weight)], &[("step", "7")])?;
//! let file = Archive::open(&path)?;
//! assert_eq!(file.metadata()["step"], "7");
//! assert_eq!(file.tensor("weight", &cx)?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
//! # Ok::<(), thalweg::Error>(())
//! ```

use super::file::{failed, replace};
use super::malformed;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::hal::DType;
use crate::tensor::Tensor;
use crate::tensor::shape::Shape;
use memmap2::{MmapMut, MmapOptions};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Longest header, as in the format's own implementation.
const MAX_HEADER: u64 = 100_000_000;
const METADATA: &str = "__metadata__";

/// What a header says of a tensor. A dtype that tensors have not is an error only when the tensor is asked for.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [u64; 2],
}

/// A file whose tensors are read when they are asked for.
///
/// The file may be replaced, as [`save`] does: the archive keeps the one that it has opened. One that is changed in place is an
/// error of [`Archive::tensor`], where its length or the time of its last change show it.
#[derive(Debug)]
pub struct Archive {
    path: PathBuf,
    source: Source,
    /// Byte at which the tensors begin.
    data: u64,
    entries: BTreeMap<String, Entry>,
    metadata: BTreeMap<String, String>,
}

/// Where the bytes of tensors come from.
#[derive(Debug)]
enum Source {
    /// The file, and its length and last change when it was opened.
    File(File, (u64, Option<SystemTime>)),
    Map(Arc<MmapMut>),
}

/// What shows that a file is another.
fn state(file: &File) -> std::io::Result<(u64, Option<SystemTime>)> {
    let meta = file.metadata()?;
    Ok((meta.len(), meta.modified().ok()))
}

impl Archive {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// The file cannot be read; the header is none, names a tensor twice, or its tensors do not cover the file exactly and without
    /// overlap.
    pub fn open(path: impl AsRef<Path>) -> Result<Archive> {
        let path = path.as_ref();
        let file = File::open(path).map_err(failed(path))?;
        let state = state(&file).map_err(failed(path))?;
        let mut first = [0; 8];
        if state.0 >= 8 {
            file.read_exact_at(&mut first, 0).map_err(failed(path))?;
        }
        let size = header_size(path, &first, state.0)?;
        let mut header = vec![0; size];
        file.read_exact_at(&mut header, 8).map_err(failed(path))?;
        Archive::new(path, &header, state.0, Source::File(file, state))
    }

    /// Maps a file and reads its header. On devices that share the host's memory the tensors lie in the file.
    ///
    /// # Errors
    /// As [`Archive::open`]; the file cannot be mapped.
    ///
    /// # Safety
    /// Nobody writes to the file in place or shortens it while the archive or a tensor of it is in use. What is written may show in
    /// the tensors, and the system ends a process that touches a mapped page which is gone.
    pub unsafe fn map(path: impl AsRef<Path>) -> Result<Archive> {
        let path = path.as_ref();
        let file = File::open(path).map_err(failed(path))?;
        // SAFETY: the caller vouches for the file.
        let map = unsafe { MmapOptions::new().map_copy(&file) }.map_err(failed(path))?;
        let map = Arc::new(map);
        // The file may have got another length since it was opened; what counts is what is mapped.
        let (bytes, length): (&[u8], u64) = (&map, map.len() as u64);
        let first = bytes.first_chunk().copied().unwrap_or_default();
        let size = header_size(path, &first, length)?;
        Archive::new(path, &bytes[8..8 + size], length, Source::Map(Arc::clone(&map)))
    }

    fn new(path: &Path, header: &[u8], length: u64, source: Source) -> Result<Archive> {
        let refuse = |message: String| malformed("safetensors", Some(path), message);
        let data = 8 + header.len() as u64;
        let header: Header =
            serde_json::from_slice(header).map_err(|error| refuse(format!("header: {error}")))?;
        check(&header.entries, length - data).map_err(refuse)?;
        Ok(Archive {
            path: path.to_owned(),
            source,
            data,
            entries: header.entries,
            metadata: header.metadata,
        })
    }

    /// The names of the tensors in order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// The texts beside the tensors.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// Shape and dtype of a tensor, without reading it.
    ///
    /// # Errors
    /// There is none by this name; its dtype is none of tensors'; more than 8 axes.
    pub fn describe(&self, name: &str) -> Result<(Shape, DType)> {
        let refuse =
            |message: String| malformed("safetensors", Some(&self.path), format!("{name}: {message}"));
        let entry = self
            .entries
            .get(name)
            .ok_or_else(|| refuse(format!("there is no such tensor among {}", self.entries.len())))?;
        let dtype =
            dtype(&entry.dtype).ok_or_else(|| refuse(format!("tensors have no type {}", entry.dtype)))?;
        let shape = Shape::checked(&entry.shape).map_err(|refusal| refuse(refusal.message))?;
        Ok((shape, dtype))
    }

    /// A tensor on the device of `cx`.
    ///
    /// # Errors
    /// As [`Archive::describe`]; the file was changed in place since it was opened; memory does not suffice.
    pub fn tensor(&self, name: &str, cx: &Context) -> Result<Tensor> {
        let (shape, dtype) = self.describe(name)?;
        let [from, to] = self.entries[name]
            .data_offsets
            .map(|at| (self.data + at) as usize);
        let (file, opened) = match &self.source {
            Source::File(file, opened) => (file, opened),
            Source::Map(map) => {
                let bytes = &map[from..to];
                // SAFETY: the map holds the bytes, and who made it vouches that nobody writes them.
                return match unsafe { Tensor::from_host(bytes.as_ptr().cast_mut(), map, shape, dtype, cx) } {
                    Some(tensor) => Ok(tensor),
                    None => Tensor::from_le_bytes(bytes.to_vec(), shape, dtype, cx),
                };
            }
        };
        let mut bytes = vec![0; to - from];
        let read = file.read_exact_at(&mut bytes, from as u64);
        if state(file).map_err(failed(&self.path))? != *opened {
            let message = "the file was changed in place since it was opened; open it again";
            return Err(malformed("safetensors", Some(&self.path), message));
        }
        read.map_err(failed(&self.path))?;
        Tensor::from_le_bytes(bytes, shape, dtype, cx)
    }
}

/// The length of the header of a file of `length` bytes that begins with `first`.
fn header_size(path: &Path, first: &[u8; 8], length: u64) -> Result<usize> {
    let refuse = |message: String| malformed("safetensors", Some(path), message);
    if length < 8 {
        return Err(refuse("it is too short for a header".into()));
    }
    let size = u64::from_le_bytes(*first);
    let fits = size <= MAX_HEADER && size <= length - 8;
    usize::try_from(size)
        .ok()
        .filter(|_| fits)
        .ok_or_else(|| refuse(format!("a header of {size} bytes in a file of {length}")))
}

#[derive(Default)]
struct Header {
    entries: BTreeMap<String, Entry>,
    metadata: BTreeMap<String, String>,
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Header, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from names to tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Header, A::Error> {
                let mut header = Header::default();
                let mut described = false;
                while let Some(name) = map.next_key::<String>()? {
                    if name == METADATA && !described {
                        header.metadata = map.next_value()?;
                        described = true;
                        continue;
                    }
                    let entry = map.next_value()?;
                    if name == METADATA || header.entries.insert(name.clone(), entry).is_some() {
                        return Err(A::Error::custom(format_args!("{name:?} comes twice")));
                    }
                }
                Ok(header)
            }
        }
        deserializer.deserialize_map(Visit)
    }
}

/// Whether the tensors cover `length` bytes exactly.
fn check(entries: &BTreeMap<String, Entry>, length: u64) -> std::result::Result<(), String> {
    let mut ranges: Vec<(&String, &Entry)> = entries.iter().collect();
    ranges.sort_by_key(|(_, entry)| entry.data_offsets);
    let mut end = 0;
    for (name, entry) in ranges {
        let [from, to] = entry.data_offsets;
        if from != end || to < from || to > length {
            return Err(format!(
                "{name:?} lies at {from} to {to}, where {end} to at most {length} is left"
            ));
        }
        end = to;
        let elements = (entry.shape.iter()).try_fold(1_u64, |all, &extent| all.checked_mul(extent as u64));
        let bytes =
            dtype(&entry.dtype).map(|dtype| elements.and_then(|n| n.checked_mul(dtype.size() as u64)));
        if bytes.is_some_and(|bytes| bytes != Some(to - from)) {
            let Entry { dtype, shape, .. } = entry;
            return Err(format!("{name:?} is {dtype} {shape:?} in {} bytes", to - from));
        }
    }
    if end != length {
        return Err(format!("{} bytes belong to no tensor", length - end));
    }
    Ok(())
}

fn dtype(name: &str) -> Option<DType> {
    DType::ALL
        .into_iter()
        .find(|dtype| dtype.facts().safetensors == name)
}

/// Writes tensors and texts to a file, which appears whole or not at all. The same tensors give the same bytes; no more than one
/// tensor at a time is copied to the host.
///
/// # Errors
/// The first error on the way to a tensor; a name that comes twice or is `__metadata__`; the file cannot be written.
pub fn save(
    path: impl AsRef<Path>,
    tensors: &[(impl AsRef<str>, &Tensor)],
    metadata: &[(impl AsRef<str>, impl AsRef<str>)],
) -> Result<()> {
    let path = path.as_ref();
    let refuse = |message: String| -> Error { malformed("safetensors", Some(path), message) };
    let mut order = Vec::new();
    for (name, tensor) in tensors {
        order.push((name.as_ref(), *tensor, tensor.shape()?, tensor.dtype()?));
    }
    // Widest first, so that every tensor is aligned; the data begins at a multiple of 8.
    order.sort_by_key(|&(name, _, _, dtype)| (std::cmp::Reverse(dtype.size()), name));
    let mut header = serde_json::Map::new();
    if !metadata.is_empty() {
        let texts = metadata.iter();
        let texts = texts.map(|(key, value)| (key.as_ref().to_owned(), value.as_ref().into()));
        let texts: BTreeMap<String, serde_json::Value> = texts.collect();
        header.insert(METADATA.into(), texts.into_iter().collect());
    }
    let mut at = 0_u64;
    for &(name, _, shape, dtype) in &order {
        let end = at + (shape.elements() * dtype.size()) as u64;
        let entry = serde_json::json!({
            "dtype": dtype.facts().safetensors, "shape": shape.to_vec(), "data_offsets": [at, end],
        });
        if name == METADATA || header.insert(name.to_owned(), entry).is_some() {
            return Err(refuse(format!("the name {name:?} comes twice")));
        }
        at = end;
    }
    let mut text = serde_json::to_vec(&header).map_err(|error| refuse(error.to_string()))?;
    text.resize(text.len().next_multiple_of(8), b' ');
    replace(path, |file| {
        let mut write = |bytes: &[u8]| file.write_all(bytes).map_err(failed(path));
        write(&(text.len() as u64).to_le_bytes())?;
        write(&text)?;
        for (_, tensor, ..) in &order {
            write(&tensor.to_le_bytes()?)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests;
