//! Files of prints.

use crate::error::{Error, Result};
use crate::exec::effects::Printout;
use crate::record::frames::{Cut, Frames};
use crate::record::prints::MAGIC;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// A file that [`print_file_path`](crate::context::ContextBuilder::print_file_path) named. It gives its prints in order, as far as it is
/// whole.
///
/// ```
/// use thalweg::observe::{PrintFile, PrintItem, print};
/// use thalweg::{Context, Tensor};
/// # let path = std::env::temp_dir().join(format!("thalweg-doc-prints-{}", std::process::id()));
/// let cx = Context::builder().device_target("cpu").print_file_path(&path).build()?;
/// print(("the answer is", &Tensor::scalar(42_i64, &cx)));
/// let prints: Vec<_> = PrintFile::open(&path)?.collect();
/// assert_eq!(prints[0].items[0], PrintItem::Text("the answer is".to_owned()));
/// assert_eq!(prints[0].to_string(), "the answer is\nTensor(shape=[], dtype=Int64, value= 42)\n");
/// # std::fs::remove_file(&path).ok();
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Debug)]
pub struct PrintFile {
    frames: Frames<BufReader<File>>,
}

impl PrintFile {
    /// Opens it.
    ///
    /// # Errors
    /// The file cannot be read; it is no file of prints.
    pub fn open(path: impl AsRef<Path>) -> Result<PrintFile> {
        let path = path.as_ref();
        let frames = File::open(path)
            .and_then(|file| Frames::new(BufReader::new(file), MAGIC, "file of prints", u32::MAX))
            .map_err(|error| Error::File {
                path: path.to_owned(),
                error,
            })?;
        Ok(PrintFile { frames })
    }

    /// Why there are no more prints, once [`Iterator::next`] gave none; `None` for a file that is whole.
    pub fn cut(&self) -> Option<&Cut> {
        self.frames.cut()
    }
}

impl Iterator for PrintFile {
    type Item = Printout;

    fn next(&mut self) -> Option<Printout> {
        let payload = self.frames.next()?;
        let printout = Printout::decode(&payload);
        if printout.is_none() {
            self.frames.refuse(&payload, "a record is malformed");
        }
        printout
    }
}
