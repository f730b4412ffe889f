//! What programs wrote beside recordings: logs, saved graphs, dumps of values.

use crate::error::Error;
use crate::find::DEPTH;
use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Levels of logs, the least first. A file has the lines of its level and of those behind it.
const LEVELS: [&str; 5] = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];
/// The last lines of the log, in the folder of a flight recorder.
const TAIL: &str = "log.txt";
/// It ends a dump that is whole.
const MANIFEST: &str = "manifest.json";

/// Files of a folder, by what they hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    /// Files of the log with each line once, the oldest first.
    pub(crate) logs: Vec<PathBuf>,
    /// Saved graphs less single passes, and those of flight recorders.
    pub(crate) graphs: Vec<PathBuf>,
    /// Manifests of dumped values.
    pub(crate) dumps: Vec<PathBuf>,
    /// What was refused.
    pub(crate) notes: Vec<String>,
}

/// A text, whole or its end.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) bytes: Vec<u8>,
    /// Whether its begin is left out.
    pub(crate) cut: bool,
}

impl Written {
    /// What lies in a folder and in those below it. Folders that cannot be read are left out. Links out of it are refused, because they
    /// may lead to what was never meant to be shown.
    pub(crate) fn find(root: &Path) -> Written {
        let mut search = Search::default();
        if let (true, Ok(inside)) = (root.is_dir(), fs::canonicalize(root)) {
            search.folder(root, &inside, DEPTH);
        }
        let Search {
            mut written,
            logs,
            tails,
        } = search;
        let known: HashSet<&str> = logs.keys().map(|(_, pid)| pid.as_str()).collect();
        let tails = tails.into_iter().filter(|(pid, _)| !known.contains(pid.as_str()));
        let mut files: Vec<PathBuf> = tails.map(|(_, path)| path).collect();
        for levels in logs.into_values() {
            files.extend(levels.into_values().next().unwrap_or_default());
        }
        files.sort();
        written.logs = files;
        written.graphs.sort();
        written.dumps.sort();
        written
    }

    /// All of the files.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.logs.iter().chain(&self.graphs).chain(&self.dumps)
    }
}

/// The last `most` bytes of a file.
pub(crate) fn tail(path: &Path, most: u64) -> io::Result<Part> {
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let cut = bytes > most;
    if cut {
        file.seek(SeekFrom::Start(bytes - most))?;
    }
    let mut part = Part {
        bytes: Vec::new(),
        cut,
    };
    file.take(most).read_to_end(&mut part.bytes)?;
    Ok(part)
}

#[derive(Default)]
struct Search {
    written: Written,
    /// By folder and process: files by level.
    logs: BTreeMap<(PathBuf, String), BTreeMap<usize, Vec<PathBuf>>>,
    /// By process: what its flight recorder kept.
    tails: Vec<(String, PathBuf)>,
}

impl Search {
    fn folder(&mut self, path: &Path, inside: &Path, depth: usize) {
        let manifest = path.join(MANIFEST);
        if manifest.is_file() {
            // Its other files are values.
            self.file(manifest, inside);
            return;
        }
        let mut below = Vec::new();
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            match entry.file_type() {
                // A link to a folder may lead back.
                Ok(kind) if kind.is_dir() => below.push(entry.path()),
                Ok(_) => self.file(entry.path(), inside),
                Err(_) => {}
            }
        }
        if let Some(depth) = depth.checked_sub(1) {
            below.sort();
            below.iter().for_each(|path| self.folder(path, inside, depth));
        }
    }

    fn file(&mut self, path: PathBuf, inside: &Path) {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            return;
        };
        let log = of_log(name);
        if log.is_none() && name != TAIL && name != MANIFEST && !is_graph(name) {
            return;
        }
        match fs::canonicalize(&path) {
            Ok(whole) if !whole.starts_with(inside) => {
                self.written.notes.push(Error::Outside { path }.to_string());
                return;
            }
            Ok(whole) if whole.is_file() => {}
            Ok(_) | Err(_) => return,
        }
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        match log {
            Some((level, pid)) => {
                let levels = self.logs.entry((folder, pid.to_owned())).or_default();
                levels.entry(level).or_default().push(path);
            }
            None if name == TAIL => {
                let folder = folder.to_string_lossy();
                let pid = folder.rsplit('_').next().unwrap_or_default();
                self.tails.push((pid.to_owned(), path));
            }
            None if name == MANIFEST => self.written.dumps.push(path),
            None => self.written.graphs.push(path),
        }
    }
}

/// The level and the process of `thalweg.{host}.{user}.log.{LEVEL}.{time}.{pid}`.
fn of_log(name: &str) -> Option<(usize, &str)> {
    let (_, rest) = name.strip_prefix("thalweg.")?.split_once(".log.")?;
    let mut parts = rest.split('.');
    let (level, _, pid) = (parts.next()?, parts.next()?, parts.next()?);
    let level = LEVELS.iter().position(|known| *known == level)?;
    parts.next().is_none().then_some((level, pid))
}

/// Whether it is a stage of a saved graph: `{nn}_{function}_{stage}.ir`, or `graph_{n}.ir` of a flight recorder.
fn is_graph(name: &str) -> bool {
    let Some(stem) = name.strip_suffix(".ir") else {
        return false;
    };
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    stem.strip_prefix("graph_").is_some_and(number)
        || ["_traced", "_rewritten", "_program"]
            .iter()
            .any(|stage| stem.ends_with(stage))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn each_line_of_a_log_is_found_once() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = |name: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "text").unwrap();
        };
        for name in [
            "rank_0/logs/thalweg.host.me.log.WARNING.20261123-160000-000002.7",
            "rank_0/logs/thalweg.host.me.log.WARNING.20261123-160000-000001.7",
            "rank_0/logs/thalweg.host.me.log.ERROR.20261123-160000-000001.7",
            "rank_0/logs/thalweg.host.me.log.ERROR.20261123-160000-000001.8",
            "rank_0/logs/thalweg.host.me.log.NOTHING.20261123-160000-000001.8",
            "rank_0/rdr/1795449600_7/log.txt",
            "rank_0/rdr/1795449600_9/log.txt",
            "rank_0/rdr/1795449600_9/graph_3.ir",
            "graphs/00_step_traced.ir",
            "graphs/01_step_pass1_pruned.ir",
            "graphs/02_step_program.ir",
            "graphs/02_step_program.dot",
            "Net/device_0/iteration_0/manifest.json",
            "Net/device_0/iteration_0/log.txt",
            "Net/device_0/iteration_1/value.npy",
        ] {
            file(name);
        }
        fs::write(outside.path().join("log.txt"), "secret").unwrap();
        symlink(outside.path().join("log.txt"), root.path().join("log.txt")).unwrap();
        let found = Written::find(root.path());
        let names = |paths: &[PathBuf]| -> Vec<String> {
            let short = |path: &PathBuf| path.strip_prefix(root.path()).unwrap().display().to_string();
            paths.iter().map(short).collect()
        };
        assert_eq!(
            names(&found.logs),
            [
                "rank_0/logs/thalweg.host.me.log.ERROR.20261123-160000-000001.8",
                "rank_0/logs/thalweg.host.me.log.WARNING.20261123-160000-000001.7",
                "rank_0/logs/thalweg.host.me.log.WARNING.20261123-160000-000002.7",
                "rank_0/rdr/1795449600_9/log.txt",
            ]
        );
        assert_eq!(
            names(&found.graphs),
            [
                "graphs/00_step_traced.ir",
                "graphs/02_step_program.ir",
                "rank_0/rdr/1795449600_9/graph_3.ir"
            ]
        );
        assert_eq!(names(&found.dumps), ["Net/device_0/iteration_0/manifest.json"]);
        assert!(
            matches!(&found.notes[..], [note] if note.contains("a link out of the folder")),
            "{:?}",
            found.notes
        );
    }

    #[test]
    fn a_tail_is_the_end_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        fs::write(&path, "0123456789").unwrap();
        for (most, wanted, cut) in [
            (4, "6789", true),
            (10, "0123456789", false),
            (11, "0123456789", false),
        ] {
            let part = tail(&path, most).unwrap();
            assert_eq!((part.bytes.as_slice(), part.cut), (wanted.as_bytes(), cut));
        }
    }
}
