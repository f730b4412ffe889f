//! The folders that are shown.

use crate::error::{Error, Result};
use crate::find;
use crate::page::columns::Heap;
use crate::page::data::Data;
use crate::page::run::RunIndex;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// Folders with recordings, one for each run.
#[derive(Clone, Debug)]
pub struct Source {
    folders: Vec<PathBuf>,
}

impl Source {
    /// Each of `folders` is a run; a folder may hold one recording for each rank. It may still be empty: the program may begin later.
    ///
    /// # Errors
    /// [`Error::NotThere`] for a folder that does not exist.
    pub fn new(folders: &[PathBuf]) -> Result<Source> {
        if let Some(missing) = folders.iter().find(|folder| !folder.exists()) {
            return Err(Error::NotThere {
                path: missing.clone(),
            });
        }
        Ok(Source {
            folders: folders.to_vec(),
        })
    }

    /// A text that changes when a recording does. It looks at names, sizes and times alone.
    pub fn state(&self) -> String {
        let mut hasher = DefaultHasher::new();
        for folder in &self.folders {
            for path in recordings(folder).unwrap_or_default() {
                let about = fs::metadata(&path);
                let modified = about.as_ref().ok().and_then(|about| about.modified().ok());
                (path, about.map(|about| about.len()).ok(), modified).hash(&mut hasher);
            }
        }
        format!("{:016x}", hasher.finish())
    }

    /// Reads all recordings. What cannot be read of a run is shown in its place.
    pub fn read(&self) -> Data {
        // What is written while it is read is read again later.
        let state = self.state();
        let mut heap = Heap::default();
        let names = names(&self.folders);
        let mut runs = Vec::new();
        for (folder, name) in self.folders.iter().zip(names) {
            let run = recordings(folder).and_then(|paths| RunIndex::read(&paths, &mut heap));
            runs.push(match run {
                Ok(run) => RunIndex { name, ..run },
                Err(error) => RunIndex {
                    name,
                    error: error.to_string(),
                    ..RunIndex::default()
                },
            });
        }
        Data::new(state, &runs, &heap)
    }
}

/// The recordings of a folder. A link that leads out of it is refused, because it may lead to what was never meant to be shown.
fn recordings(folder: &Path) -> Result<Vec<PathBuf>> {
    let found = find::recordings(folder)?;
    let root = find::folder(folder);
    let root = fs::canonicalize(root).map_err(Error::reading(root))?;
    for path in &found {
        let whole = fs::canonicalize(path).map_err(Error::reading(path))?;
        if !whole.starts_with(&root) {
            return Err(Error::Outside { path: path.clone() });
        }
    }
    Ok(found)
}

/// Names for people: the last part of each path, or all of it where two end alike.
fn names(folders: &[PathBuf]) -> Vec<String> {
    let short = |folder: &PathBuf| {
        let whole = fs::canonicalize(folder).unwrap_or_else(|_| folder.clone());
        let name = find::folder(&whole).file_name().map(|name| name.to_string_lossy().into_owned());
        name.unwrap_or_else(|| folder.display().to_string())
    };
    let all: Vec<String> = folders.iter().map(short).collect();
    let alike = |name: &String| all.iter().filter(|other| *other == name).count() > 1;
    (folders.iter().zip(&all))
        .map(|(folder, name)| {
            if alike(name) {
                folder.display().to_string()
            } else {
                name.clone()
            }
        })
        .collect()
}
