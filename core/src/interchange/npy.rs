//! Files of one array as `numpy.save` writes them.
//!
//! All dtypes of tensors have their NumPy type, but bf16, which NumPy lacks: it is written as a void of two bytes, `<V2`, as arrays
//! of the package `ml_dtypes` are, and such a void is read as bf16 (in Python: `numpy.load(file).view(ml_dtypes.bfloat16)`). Arrays
//! in Fortran order are read without a transposition in memory, big-endian ones are swapped. Complex numbers, texts, dates, objects
//! and records are refused, and so are floats of eight bits: `ml_dtypes` gives several of them one type string.
//!
//! ```
//! use thalweg::{Context, Tensor, interchange::npy};
//! let cx = Context::new("cpu")?;
//! let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
//! let bytes = npy::encode(&x)?;
//! assert!(bytes.starts_with(b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }"));
//! assert_eq!(npy::decode(&bytes, &cx)?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
//! # Ok::<(), thalweg::Error>(())
//! ```
//!
//! Format: NumPy enhancement proposal 1, versions 1.0 to 3.0.

#[cfg(feature = "mmap")]
mod mapped;

#[cfg(feature = "mmap")]
pub use mapped::Mapped;

use super::file::{failed, replace};
use super::malformed;
use crate::context::Context;
use crate::error::Result;
use crate::hal::DType;
use crate::tensor::Tensor;
use crate::tensor::shape::Shape;
use crate::types::numpy::{MAGIC, header};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

/// Longest header that is read.
const MAX_HEADER: usize = 1 << 16;

type Parsed<T> = std::result::Result<T, String>;

/// What a header says.
#[derive(Debug, PartialEq, Eq)]
struct Header {
    dtype: DType,
    big_endian: bool,
    fortran: bool,
    shape: Shape,
}

/// The array in `data` on the device of `cx`.
///
/// # Errors
/// It is no array in this format, ends early or goes on, has a type that tensors have not, or more than 8 axes.
pub fn decode(mut data: &[u8], cx: &Context) -> Result<Tensor> {
    let length = data.len() as u64;
    from_reader(&mut data, length, length, cx, |message| {
        malformed("npy", None, message)
    })
}

/// The array in a file; as [`decode`].
///
/// # Errors
/// As [`decode`]; the file cannot be read.
pub fn read(path: impl AsRef<Path>, cx: &Context) -> Result<Tensor> {
    let path = path.as_ref();
    let mut file = File::open(path).map_err(failed(path))?;
    let length = file.metadata().map_err(failed(path))?.len();
    from_reader(&mut file, length, length, cx, |message| {
        malformed("npy", Some(path), message)
    })
}

/// The tensor as a file of NumPy's format in memory. Waits for its value.
///
/// # Errors
/// The first error on the way to the tensor; a float of eight bits.
pub fn encode(tensor: &Tensor) -> Result<Vec<u8>> {
    let (shape, dtype) = (tensor.shape()?, tensor.dtype()?);
    let mut bytes = header(&shape, dtype).map_err(|message| malformed("npy", None, message))?;
    bytes.extend(tensor.to_le_bytes()?);
    Ok(bytes)
}

/// Writes the tensor to a file, which appears whole or not at all. Waits for its value.
///
/// # Errors
/// The first error on the way to the tensor; the file cannot be written.
pub fn write(path: impl AsRef<Path>, tensor: &Tensor) -> Result<()> {
    let path = path.as_ref();
    let bytes = encode(tensor)?;
    replace(path, |file| file.write_all(&bytes).map_err(failed(path)))
}

/// The array that a reader of at most `length` bytes gives, to its end: there an archive checks its sum. No more than `reserve`
/// bytes are set aside before they are read.
pub(super) fn from_reader(
    reader: &mut dyn Read,
    length: u64,
    reserve: u64,
    cx: &Context,
    error: impl Fn(String) -> crate::Error,
) -> Result<Tensor> {
    let (header, begin) = read_header(reader).map_err(&error)?;
    let elements = header.shape.elements();
    let bytes = (elements as u64).saturating_mul(header.dtype.size() as u64);
    let left = length.saturating_sub(begin);
    let short = |there: u64| error(format!("{} needs {bytes} bytes, {there} are there", header.shape));
    if bytes > left {
        return Err(short(left));
    }
    let mut data = Vec::new();
    data.try_reserve(bytes.min(reserve) as usize)
        .map_err(|failure| error(failure.to_string()))?;
    let got = (&mut *reader)
        .take(bytes)
        .read_to_end(&mut data)
        .map_err(|failure| error(failure.to_string()))?;
    if got as u64 != bytes {
        return Err(short(got as u64));
    }
    match reader
        .read(&mut [0])
        .map_err(|failure| error(failure.to_string()))?
    {
        0 => {}
        _ => return Err(error(format!("{} bytes behind the array", left - bytes))),
    }
    if header.big_endian {
        data.chunks_exact_mut(header.dtype.size())
            .for_each(<[u8]>::reverse);
    }
    if !header.fortran || header.shape.len() < 2 {
        return Tensor::from_le_bytes(data, header.shape, header.dtype, cx);
    }
    let turned: Vec<usize> = header.shape.iter().rev().copied().collect();
    let tensor = Tensor::from_le_bytes(data, Shape::of(&turned), header.dtype, cx)?;
    let axes: Vec<i32> = (0..turned.len() as i32).rev().collect();
    tensor.permute(&axes[..]).ok()
}

/// The header, and how many bytes were read.
fn read_header(reader: &mut dyn Read) -> Parsed<(Header, u64)> {
    let mut take = |count: usize| -> Parsed<Vec<u8>> {
        let mut bytes = vec![0; count];
        match reader.read_exact(&mut bytes) {
            Ok(()) => Ok(bytes),
            Err(_) => Err("it ends in the header".into()),
        }
    };
    let start = take(8)?;
    if !start.starts_with(MAGIC) {
        return Err("it does not begin with \\x93NUMPY".into());
    }
    let (length, size) = match start[6] {
        1 => {
            let bytes = take(2)?;
            (usize::from(u16::from_le_bytes([bytes[0], bytes[1]])), 2)
        }
        2 | 3 => {
            let bytes = take(4)?;
            (
                u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize,
                4,
            )
        }
        version => return Err(format!("version {version} of the format is not known")),
    };
    if length > MAX_HEADER {
        return Err(format!("a header of {length} bytes"));
    }
    let text = take(length)?;
    let text = std::str::from_utf8(&text).map_err(|_| "the header is no text".to_owned())?;
    Ok((parse_header(text)?, (8 + size + length) as u64))
}

fn parse_header(text: &str) -> Parsed<Header> {
    let mut rest = Text(text);
    let (mut descr, mut fortran, mut shape) = (None, None, None);
    rest.expect('{')?;
    while !rest.eat('}') {
        let key = rest.string()?;
        rest.expect(':')?;
        match key {
            "descr" => descr = Some(rest.descr()?),
            "fortran_order" => fortran = Some(rest.truth()?),
            "shape" => shape = Some(rest.tuple()?),
            other => return Err(format!("the header has a key {other:?}")),
        }
        if !rest.eat(',') {
            rest.expect('}')?;
            break;
        }
    }
    if !rest.0.trim().is_empty() {
        return Err(format!("{:?} behind the header", shorten(rest.0.trim())));
    }
    let missing = |key: &str| format!("the header has no {key}");
    let (dtype, big_endian) = dtype(descr.ok_or_else(|| missing("descr"))?)?;
    let shape = shape.ok_or_else(|| missing("shape"))?;
    Ok(Header {
        dtype,
        big_endian,
        fortran: fortran.ok_or_else(|| missing("fortran_order"))?,
        shape: Shape::checked(&shape).map_err(|refusal| refusal.message)?,
    })
}

fn shorten(text: &str) -> String {
    text.chars().take(40).collect()
}

/// What is left of a header, which is a dictionary in Python's syntax.
struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    fn eat(&mut self, c: char) -> bool {
        let text = self.0.trim_start();
        match text.strip_prefix(c) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, c: char) -> Parsed<()> {
        if self.eat(c) {
            return Ok(());
        }
        Err(format!(
            "expected {c:?} in the header, found {:?}",
            shorten(self.0.trim_start())
        ))
    }

    fn string(&mut self) -> Parsed<&'a str> {
        let quote = if self.eat('"') {
            '"'
        } else {
            self.expect('\'')?;
            '\''
        };
        let (inside, rest) = self
            .0
            .split_once(quote)
            .ok_or("a text in the header has no end")?;
        self.0 = rest;
        Ok(inside)
    }

    fn descr(&mut self) -> Parsed<&'a str> {
        if self.0.trim_start().starts_with('[') {
            return Err("records cannot become tensors; save each field by itself".into());
        }
        self.string()
    }

    fn truth(&mut self) -> Parsed<bool> {
        let text = self.0.trim_start();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = text.strip_prefix(word) {
                self.0 = rest;
                return Ok(value);
            }
        }
        Err(format!(
            "expected True or False in the header, found {:?}",
            shorten(text)
        ))
    }

    fn tuple(&mut self) -> Parsed<Vec<usize>> {
        let mut extents = Vec::new();
        self.expect('(')?;
        while !self.eat(')') {
            let text = self.0.trim_start();
            let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            let extent = text[..digits].parse::<usize>();
            extents.push(extent.map_err(|_| format!("{:?} is no extent", shorten(text)))?);
            self.0 = &text[digits..];
            // Python 2 marked long integers.
            self.eat('L');
            if !self.eat(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(extents)
    }
}

/// The dtype of a type string, and whether it is big-endian.
fn dtype(descr: &str) -> Parsed<(DType, bool)> {
    let refuse = || format!("tensors have no type for NumPy's {:?}", shorten(descr));
    let (order, kind) = descr.split_at_checked(1).ok_or_else(refuse)?;
    let named = |dtype: &DType| dtype.facts().numpy.is_some_and(|name| name[1..] == *kind);
    let dtype = match kind {
        "?" => DType::Bool,
        _ => DType::ALL.into_iter().find(named).ok_or_else(refuse)?,
    };
    match order {
        "<" => Ok((dtype, false)),
        ">" => Ok((dtype, dtype.size() > 1)),
        "=" => Ok((dtype, cfg!(target_endian = "big"))),
        "|" if dtype.size() == 1 || dtype == DType::BF16 => Ok((dtype, false)),
        _ => Err(refuse()),
    }
}

// The arrays that they read are stored in an archive.
#[cfg(test)]
#[cfg(feature = "npz")]
mod tests;
