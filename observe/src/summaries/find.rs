//! Where summaries are.

use crate::error::{Error, Result};
use crate::find::DEPTH;
use std::fs;
use std::path::{Path, PathBuf};

const LINEAGE: &str = "lineage.json";
const LANDSCAPE: &str = "landscape.json";

/// A folder with the summaries of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folder {
    /// Where it lies in the folder that was searched; empty for that one itself.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Event files, in the order in which they were written.
    pub(crate) events: Vec<PathBuf>,
    pub(crate) lineage: Option<PathBuf>,
    pub(crate) landscape: Option<PathBuf>,
    /// What was refused.
    pub(crate) notes: Vec<String>,
}

impl Folder {
    /// All files of it.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        (self.events.iter()).chain(&self.lineage).chain(&self.landscape)
    }

    fn is_empty(&self) -> bool {
        self.files().next().is_none() && self.notes.is_empty()
    }
}

/// The folders below `root` that have summaries, in the order of their paths. A file has none. Links out of `root` are refused, because
/// they may lead to what was never meant to be shown.
///
/// # Errors
/// [`Error::Read`] for a folder that cannot be read.
pub(crate) fn folders(root: &Path) -> Result<Vec<Folder>> {
    let mut found = Vec::new();
    if root.is_dir() {
        let inside = fs::canonicalize(root).map_err(Error::reading(root))?;
        search(root, root, &inside, DEPTH, &mut found)?;
    }
    Ok(found)
}

fn search(root: &Path, path: &Path, inside: &Path, depth: usize, found: &mut Vec<Folder>) -> Result<()> {
    let mut folder = Folder {
        name: path
            .strip_prefix(root)
            .unwrap_or(path)
            .to_string_lossy()
            .into_owned(),
        path: path.to_owned(),
        ..Folder::default()
    };
    let mut below = Vec::new();
    for entry in fs::read_dir(path).map_err(Error::reading(path))? {
        let entry = entry.map_err(Error::reading(path))?;
        // A link to a folder may lead back.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            below.push(entry.path());
        } else {
            folder.add(entry.path(), inside);
        }
    }
    folder.events.sort();
    below.sort();
    if !folder.is_empty() {
        found.push(folder);
    }
    if depth > 0 {
        for path in &below {
            search(root, path, inside, depth - 1, found)?;
        }
    }
    Ok(())
}

impl Folder {
    fn add(&mut self, path: PathBuf, inside: &Path) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let (events, lineage, landscape) = (name.contains("tfevents"), name == LINEAGE, name == LANDSCAPE);
        if !(events || lineage || landscape) {
            return;
        }
        match fs::canonicalize(&path) {
            Ok(whole) if !whole.starts_with(inside) => {
                self.notes.push(Error::Outside { path }.to_string());
            }
            Ok(whole) if !whole.is_file() => {}
            Ok(_) if events => self.events.push(path),
            Ok(_) if lineage => self.lineage = Some(path),
            Ok(_) => self.landscape = Some(path),
            Err(source) => self.notes.push(Error::Read { path, source }.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn folders_inside_folders_are_runs() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = |name: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        };
        file("b/events.out.tfevents.2");
        file("b/events.out.tfevents.1");
        file("a/deep/lineage.json");
        file("c/notes.txt");
        file("d/e/f/g/h/lineage.json");
        fs::write(outside.path().join("secret"), "").unwrap();
        symlink(
            outside.path().join("secret"),
            root.path().join("b/landscape.json"),
        )
        .unwrap();
        symlink(root.path().join("b"), root.path().join("loop")).unwrap();
        let found = folders(root.path()).unwrap();
        let names: Vec<&str> = found.iter().map(|folder| folder.name.as_str()).collect();
        assert_eq!(names, ["a/deep", "b"]);
        let b = &found[1];
        assert!(b.events.is_sorted() && b.events.len() == 2 && b.landscape.is_none());
        assert!(b.notes[0].contains("a link out of the folder"), "{:?}", b.notes);
        assert!(folders(&root.path().join("c/notes.txt")).unwrap().is_empty());
    }
}
