//! Files that are written, and how texts stand in them.

use crate::error::{Error, Result};
use std::fmt::{self, Display};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file that is written; an error names it.
pub(crate) struct Out {
    path: PathBuf,
    to: BufWriter<File>,
}

impl Out {
    /// Makes `folder` if there is none, and the file in it anew.
    pub(crate) fn new(folder: &Path, name: &str) -> Result<Out> {
        fs::create_dir_all(folder).map_err(Error::writing(folder))?;
        let path = folder.join(name);
        let file = File::create(&path).map_err(Error::writing(&path))?;
        Ok(Out {
            to: BufWriter::with_capacity(1 << 20, file),
            path,
        })
    }

    pub(crate) fn write(&mut self, text: fmt::Arguments<'_>) -> Result<()> {
        self.to.write_fmt(text).map_err(Error::writing(&self.path))
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.to.write_all(bytes).map_err(Error::writing(&self.path))
    }

    /// Writes what is still in memory.
    pub(crate) fn finish(mut self) -> Result<PathBuf> {
        self.to.flush().map_err(Error::writing(&self.path))?;
        Ok(self.path)
    }
}

/// Nanoseconds as microseconds with three decimals.
#[derive(Clone, Copy)]
pub(crate) struct Micros(pub(crate) u64);

impl Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// A cell of a table with commas, in quotes where it needs them.
pub(crate) struct Cell<'a>(pub(crate) &'a str);

impl Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.contains([',', '"', '\n', '\r']) {
            write!(f, "\"{}\"", self.0.replace('"', "\"\""))
        } else {
            f.write_str(self.0)
        }
    }
}

/// A number, or nothing.
pub(crate) struct Maybe<T>(pub(crate) Option<T>);

impl<T: Display> Display for Maybe<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |value| value.fmt(f))
    }
}

/// A text of JSON.
pub(crate) fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        assert_eq!(Micros(1_234_567).to_string(), "1234.567");
        assert_eq!(Micros(7).to_string(), "0.007");
        assert_eq!(Cell("conv2d").to_string(), "conv2d");
        assert_eq!(Cell("a,\"b\"").to_string(), "\"a,\"\"b\"\"\"");
        assert_eq!(json("a\"\n\u{1}é"), "\"a\\\"\\n\\u0001é\"");
        assert_eq!(format!("{}{}", Maybe(Some(3)), Maybe::<u8>(None)), "3");
    }
}
