//! Folders of dumped values, as their `manifest.json` says.

use crate::error::{Error, Result};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::fs;
use std::path::{Path, PathBuf};
use thalweg::DType;

const MANIFEST: &str = "manifest.json";
/// The version of manifests.
const FORMAT: u32 = 1;
/// Folders in folders that are looked into.
const DEPTH: usize = 4;

/// The values of one iteration.
#[derive(Debug, Deserialize)]
pub(super) struct Dump {
    format: u32,
    #[serde(default)]
    pub(super) iteration: u64,
    #[serde(default)]
    pub(super) device: String,
    pub(super) values: Vec<Entry>,
    #[serde(skip)]
    folder: PathBuf,
}

/// A value.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Entry {
    pub(super) name: String,
    #[serde(default)]
    pub(super) line: Option<String>,
    pub(super) io: String,
    pub(super) slot: usize,
    dtype: String,
    pub(super) shape: Vec<usize>,
    file: Option<String>,
    sha256: Option<String>,
    #[serde(default)]
    pub(super) statistics: Map<String, Value>,
}

/// The dumps under a path, by iteration.
pub(super) fn read(path: &Path) -> Result<Vec<Dump>> {
    if !path.exists() {
        return Err(Error::NotThere {
            path: path.to_owned(),
        });
    }
    let folder = match path.is_file() {
        true => path.parent().unwrap_or(Path::new("")),
        false => path,
    };
    let mut found = Vec::new();
    find(folder, DEPTH, &mut found)?;
    if found.is_empty() {
        return Err(Error::NoDump {
            path: path.to_owned(),
        });
    }
    let mut dumps: Vec<Dump> = found.into_iter().map(manifest).collect::<Result<_>>()?;
    dumps.sort_by(|one, other| (one.iteration, &one.folder).cmp(&(other.iteration, &other.folder)));
    Ok(dumps)
}

fn unread(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    |source| Error::Read { path, source }
}

fn find(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<()> {
    if folder.join(MANIFEST).is_file() {
        found.push(folder.to_owned());
    }
    if depth == 0 {
        return Ok(());
    }
    for entry in fs::read_dir(folder).map_err(unread(folder))? {
        let entry = entry.map_err(unread(folder))?;
        // Links are not followed, which may lead in circles.
        if entry.file_type().map_err(unread(folder))?.is_dir() {
            find(&entry.path(), depth - 1, found)?;
        }
    }
    Ok(())
}

fn manifest(folder: PathBuf) -> Result<Dump> {
    let path = folder.join(MANIFEST);
    let text = fs::read_to_string(&path).map_err(unread(&path))?;
    let wrong = |why: String| Error::Format {
        path: path.clone(),
        why,
    };
    let mut dump: Dump = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if dump.format != FORMAT {
        let why = format!(
            "a manifest of version {}; this program reads version {FORMAT}",
            dump.format
        );
        return Err(wrong(why));
    }
    dump.folder = folder;
    Ok(dump)
}

impl Dump {
    /// The bytes of a value's elements; `None` where the dump has none.
    pub(super) fn elements(&self, entry: &Entry) -> Result<Option<Vec<u8>>> {
        let Some(name) = &entry.file else { return Ok(None) };
        let path = self.folder.join(name);
        let wrong = |why: String| Error::Format {
            path: path.clone(),
            why,
        };
        if Path::new(name).file_name() != Some(name.as_ref()) {
            return Err(wrong("a manifest names files of its own folder alone".to_owned()));
        }
        let (dtype, count) = (entry.dtype()?, entry.count());
        let bytes = count.and_then(|count| count.checked_mul(dtype.size()));
        let mut file = fs::read(&path).map_err(unread(&path))?;
        // Elements come last, also in the files of NumPy.
        match bytes.and_then(|bytes| file.len().checked_sub(bytes)) {
            Some(head) => Ok(Some(file.split_off(head))),
            None => Err(wrong(format!("{} bytes, too few for {}", file.len(), entry.ty()))),
        }
    }
}

impl Entry {
    pub(super) fn dtype(&self) -> Result<DType> {
        self.dtype.parse().map_err(|_| Error::Format {
            path: MANIFEST.into(),
            why: format!("{}: there is no dtype {:?}", self.name, self.dtype),
        })
    }

    fn count(&self) -> Option<usize> {
        self.shape
            .iter()
            .try_fold(1_usize, |count, &extent| count.checked_mul(extent))
    }

    /// `f32[2,10]`.
    pub(super) fn ty(&self) -> String {
        let extents: Vec<String> = self.shape.iter().map(ToString::to_string).collect();
        format!("{}[{}]", self.dtype, extents.join(","))
    }

    /// The sum of its elements, or of its file.
    pub(super) fn sum(&self) -> Option<&str> {
        let hash = self.statistics.get("hash").and_then(Value::as_str);
        hash.or(self.sha256.as_deref())
    }
}
