//! The folder of an iteration while it is written.

use super::item::Item;
use super::manifest::{Entry, Head, manifest, order_csv, overflow_csv, statistic_csv};
use super::names;
use super::options::{DumpOptions, Figure, FileFormat};
use crate::error::DumpError;
use crate::loader::lock::sha256;
use crate::types::call::CallInfo;
use crate::types::numpy;
use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use thalweg_hal::kit::file;

const MANIFEST: &str = "manifest.json";

/// Makes a folder and those around it, which nobody else may look into.
pub(super) fn make(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// The error of a file.
pub(super) fn unwritten(path: &Path) -> impl FnOnce(io::Error) -> DumpError {
    move |error| DumpError::Write {
        path: path.to_owned(),
        error: Arc::new(error),
    }
}

/// A folder that has no manifest yet.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    head: Head,
    entries: Vec<Entry>,
    calls: Vec<CallInfo>,
    /// How often a name was given.
    given: HashMap<String, u32>,
}

impl Folder {
    /// Makes the folder. What is there from an earlier run is no longer whole.
    pub(super) fn create(path: PathBuf, head: Head) -> Result<Folder, DumpError> {
        make(&path).map_err(unwritten(&path))?;
        let old = path.join(MANIFEST);
        match fs::remove_file(&old) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unwritten(&old)(error)),
            Ok(()) | Err(_) => {}
        }
        Ok(Folder {
            path,
            head,
            entries: Vec::new(),
            calls: Vec::new(),
            given: HashMap::new(),
        })
    }

    /// A call ran.
    pub(super) fn note(&mut self, call: CallInfo) {
        self.calls.push(call);
    }

    /// Writes a value.
    pub(super) fn write(&mut self, options: &DumpOptions, item: Item) -> Result<(), DumpError> {
        let elements = item.elements.as_deref();
        let hash = elements.filter(|_| options.has_figure(Figure::Hash)).map(sha256);
        let file = match elements.filter(|_| options.has_elements()) {
            Some(elements) => Some(self.write_elements(options, &item, elements)?),
            None => None,
        };
        self.entries.push(Entry::of(item, file, hash));
        Ok(())
    }

    /// Writes the elements; the name of the file and its sum.
    fn write_elements(
        &mut self,
        options: &DumpOptions,
        item: &Item,
        elements: &[u8],
    ) -> Result<(String, String), DumpError> {
        // NumPy has no type for floats of eight bits.
        let (format, header) = match options.file_format {
            FileFormat::Bin => (FileFormat::Bin, Vec::new()),
            FileFormat::Npy => match numpy::header(&item.shape, item.dtype) {
                Ok(header) => (FileFormat::Npy, header),
                Err(_) => (FileFormat::Bin, Vec::new()),
            },
        };
        let name = names::file(&self.stem(options, item), format.extension());
        let path = self.path.join(&name);
        let content = [&header, elements].concat();
        let written = fs::File::create(&path).and_then(|mut file| file.write_all(&content));
        written.map_err(unwritten(&path))?;
        Ok((name, sha256(&content)))
    }

    /// A name that no other value of the folder has.
    fn stem(&mut self, options: &DumpOptions, item: &Item) -> String {
        if options.is_async() {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            return names::stem_async(item, self.entries.len() as u64, now.as_micros());
        }
        let first = names::stem(item, 1);
        let turn = self.given.entry(first).or_default();
        *turn += 1;
        names::stem(item, *turn)
    }

    /// Writes the tables, and the manifest as the last file.
    pub(super) fn finish(self, options: &DumpOptions) -> Result<(), DumpError> {
        let write = |name: &str, text: &str| {
            let path = self.path.join(name);
            fs::write(&path, text).map_err(unwritten(&path))
        };
        if options.has_figures() {
            write("statistic.csv", &statistic_csv(options, &self.entries))?;
        }
        if let Some(rows) = overflow_csv(&self.entries) {
            write("overflow.csv", &rows)?;
        }
        write("execution_order.csv", &order_csv(&self.calls))?;
        let text = manifest(options, &self.head, &self.entries);
        let path = self.path.join(MANIFEST);
        file::replace(&path, |file| file.write_all(text.as_bytes())).map_err(unwritten(&path))
    }
}
