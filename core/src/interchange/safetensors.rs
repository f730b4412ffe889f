//! Files of named tensors in the format of Hugging Face's safetensors.
//!
//! [`Archive::open`] maps the file and reads its header; a tensor is read when it is asked for. On devices that share the host's
//! memory it lies in the mapped file itself, so that loading costs no copy and memory that other processes share.
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
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
/// The file may be replaced, as [`save`] does, but must not be shortened in place while tensors of it are in use: the system ends a
/// process that touches a mapped page which is gone.
#[derive(Debug)]
pub struct Archive {
    path: PathBuf,
    map: Arc<MmapMut>,
    /// Byte at which the tensors begin.
    data: u64,
    entries: BTreeMap<String, Entry>,
    metadata: BTreeMap<String, String>,
}

impl Archive {
    /// Maps a file and reads its header.
    ///
    /// # Errors
    /// The file cannot be read or mapped; the header is none, names a tensor twice, or its tensors do not cover the file exactly
    /// and without overlap.
    pub fn open(path: impl AsRef<Path>) -> Result<Archive> {
        let path = path.as_ref();
        let refuse = |message: String| malformed("safetensors", Some(path), message);
        let file = File::open(path).map_err(failed(path))?;
        // SAFETY: the mapping is private, so that nobody else's writes through it are seen; that the file keeps its length is asked
        // of the user.
        let map = unsafe { MmapOptions::new().map_copy(&file) }.map_err(failed(path))?;
        // The file may have got another length since it was opened; what counts is what is mapped.
        let (bytes, length): (&[u8], u64) = (&map, map.len() as u64);
        let (size, rest) = bytes
            .split_first_chunk::<8>()
            .ok_or_else(|| refuse("it is too short for a header".into()))?;
        let size = u64::from_le_bytes(*size);
        let header = usize::try_from(size)
            .ok()
            .filter(|_| size <= MAX_HEADER)
            .and_then(|size| rest.get(..size))
            .ok_or_else(|| refuse(format!("a header of {size} bytes in a file of {length}")))?;
        let header: Header =
            serde_json::from_slice(header).map_err(|error| refuse(format!("header: {error}")))?;
        let data = 8 + size;
        check(&header.entries, length - data).map_err(refuse)?;
        Ok(Archive {
            path: path.to_owned(),
            map: Arc::new(map),
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
    /// As [`Archive::describe`]; memory does not suffice.
    pub fn tensor(&self, name: &str, cx: &Context) -> Result<Tensor> {
        let (shape, dtype) = self.describe(name)?;
        let [from, to] = self.entries[name]
            .data_offsets
            .map(|at| (self.data + at) as usize);
        let bytes = &self.map[from..to];
        // SAFETY: the map holds the bytes, whose pages are private, and nobody writes them.
        match unsafe { Tensor::from_host(bytes.as_ptr().cast_mut(), &self.map, shape, dtype, cx) } {
            Some(tensor) => Ok(tensor),
            None => Tensor::from_le_bytes(bytes.to_vec(), shape, dtype, cx),
        }
    }
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
