//! The folders that are shown.

use crate::error::{Error, Result};
use crate::find;
use crate::page::columns::Heap;
use crate::page::data::Data;
use crate::page::run::RunIndex;
use crate::page::summaries::SummaryIndex;
use crate::page::texts::Texts;
use crate::summaries::{self, Budget, Folder, Summaries};
use crate::written::Written;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// Folders with recordings, summaries, logs, saved graphs and dumps, one for each run.
#[derive(Clone, Debug)]
pub struct Source {
    folders: Vec<PathBuf>,
}

impl Source {
    /// Each of `folders` is a run; a folder may hold one recording for each rank, and summaries of runs in folders below it. It may still be
    /// empty: the program may begin later.
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

    /// A text that changes when a file does that is shown. It looks at names, sizes and times alone.
    pub fn state(&self) -> String {
        let mut hasher = DefaultHasher::new();
        for folder in &self.folders {
            let summaries = summaries::folders(folder).unwrap_or_default();
            let summaries = summaries.iter().flat_map(Folder::files).cloned();
            let written = Written::find(folder);
            for path in recordings(folder)
                .unwrap_or_default()
                .into_iter()
                .chain(summaries)
                .chain(written.files().cloned())
            {
                let about = fs::metadata(&path);
                let modified = about.as_ref().ok().and_then(|about| about.modified().ok());
                (path, about.map(|about| about.len()).ok(), modified).hash(&mut hasher);
            }
        }
        format!("{:016x}", hasher.finish())
    }

    /// Reads all that is shown. What cannot be read of a run is shown in its place.
    pub fn read(&self) -> Data {
        // What is written while it is read is read again later.
        let state = self.state();
        let mut heap = Heap::default();
        let found: Vec<Result<Vec<Folder>>> = (self.folders.iter())
            .map(|folder| summaries::folders(folder))
            .collect();
        let budget = Budget::of(found.iter().flatten().map(Vec::len).sum());
        let mut runs = Vec::new();
        for ((folder, name), found) in self.folders.iter().zip(names(&self.folders)).zip(found) {
            let (summaries, failed) = match found {
                Ok(found) => (self.summaries(&name, &found, budget, &mut heap), None),
                Err(error) => (Vec::new(), Some(error)),
            };
            let texts = Texts::read(folder, &Written::find(folder), &mut heap);
            let run = recordings(folder).and_then(|paths| RunIndex::read(&paths, &mut heap));
            let run = run.unwrap_or_else(|error| RunIndex {
                error: match (failed.unwrap_or(error), summaries.is_empty() && texts.is_empty()) {
                    (Error::NoRecording { .. }, false) => String::new(),
                    (Error::NoRecording { path }, true) => Error::Nothing { path }.to_string(),
                    (error, _) => error.to_string(),
                },
                ..RunIndex::default()
            });
            runs.push(RunIndex {
                name,
                folder: folder.display().to_string(),
                summaries,
                texts,
                ..run
            });
        }
        Data::new(state, &runs, &heap)
    }

    /// The summaries of a folder that is named `run`.
    fn summaries(&self, run: &str, found: &[Folder], budget: Budget, heap: &mut Heap) -> Vec<SummaryIndex> {
        let name = |folder: &Folder| match (folder.name.as_str(), self.folders.len()) {
            ("", _) => run.to_owned(),
            (inner, 1) => inner.to_owned(),
            (inner, _) => format!("{run}/{inner}"),
        };
        (found.iter())
            .map(|folder| SummaryIndex::new(name(folder), folder, &Summaries::read(folder, budget), heap))
            .collect()
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
        let name = find::folder(&whole)
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
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
