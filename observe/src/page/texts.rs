//! Logs, saved graphs and manifests in the page: their texts, as they are.

use crate::page::columns::{Heap, Place};
use crate::written::{Part, Written, tail};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Most bytes of the logs of a run; the last lines are kept.
const LOGS: u64 = 8 << 20;
/// Most bytes of its graphs, and of its manifests.
const OTHERS: u64 = 16 << 20;

/// A text of a file.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Text {
    /// Where the file lies in the folder of the run.
    name: String,
    /// Whether its begin is left out.
    cut: bool,
    text: Place,
}

/// The texts of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Texts {
    pub(crate) logs: Vec<Text>,
    pub(crate) graphs: Vec<Text>,
    pub(crate) dumps: Vec<Text>,
    /// What is not shown.
    pub(crate) notes: Vec<String>,
}

impl Texts {
    pub(crate) fn read(root: &Path, written: &Written, heap: &mut Heap) -> Texts {
        let mut reader = Reader {
            root,
            heap,
            notes: written.notes.clone(),
        };
        // The last ones count, of a log in parts of lines.
        let logs = reader.last(&written.logs, LOGS, true, "of the log");
        Texts {
            logs,
            graphs: reader.last(&written.graphs, OTHERS, false, "of graphs"),
            dumps: reader.last(&written.dumps, OTHERS, false, "of dumps"),
            notes: reader.notes,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.logs.is_empty() && self.graphs.is_empty() && self.dumps.is_empty()
    }
}

struct Reader<'a> {
    root: &'a Path,
    heap: &'a mut Heap,
    notes: Vec<String>,
}

impl Reader<'_> {
    /// The last files up to so many bytes; the first of them in part, where that has a meaning.
    fn last(&mut self, files: &[PathBuf], most: u64, in_part: bool, what: &str) -> Vec<Text> {
        let mut rest = most;
        let (mut texts, mut left_out) = (Vec::new(), 0);
        for path in files.iter().rev() {
            let part = match tail(path, rest) {
                Ok(part) if part.cut && !in_part => {
                    left_out += 1;
                    continue;
                }
                Ok(part) => part,
                Err(error) => {
                    self.notes.push(format!("{}: {error}", path.display()));
                    continue;
                }
            };
            let Part { bytes, cut } = part;
            rest -= bytes.len() as u64;
            if bytes.is_empty() && cut {
                left_out += 1;
                continue;
            }
            let name = path.strip_prefix(self.root).unwrap_or(path);
            texts.push(Text {
                name: name.display().to_string(),
                cut,
                text: self.heap.put(&bytes),
            });
        }
        if left_out > 0 {
            let size = most >> 20;
            self.notes.push(format!(
                "{left_out} files {what} have no room in the page, which takes {size} MiB of them"
            ));
        }
        texts.reverse();
        texts
    }
}
