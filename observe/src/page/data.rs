//! What the page gets: an index in JSON and columns of bytes behind it.

use crate::page::columns::Heap;
use crate::page::run::RunIndex;
use serde::Serialize;

/// The first bytes; the last of them is the version of the form. `web/data.js` knows the same.
const MAGIC: [u8; 8] = *b"TWPAGE\0\x04";

/// The magic, the length of the index, and where what comes late begins.
const HEAD: usize = 24;

/// All that the page shows, as it was read at one moment.
#[derive(Clone, Debug)]
pub struct Data {
    bytes: Vec<u8>,
    /// Where what comes late begins.
    late: usize,
    state: String,
    /// What cannot be shown.
    errors: Vec<String>,
    runs: usize,
}

#[derive(Serialize)]
struct Index<'a> {
    /// Version of the program that read it.
    thalweg: &'static str,
    /// What the recordings were when they were read; another text says that they have grown.
    state: &'a str,
    runs: &'a [RunIndex],
}

impl Data {
    pub(crate) fn new(state: String, runs: &[RunIndex], heap: &Heap) -> Data {
        let index = Index {
            thalweg: env!("CARGO_PKG_VERSION"),
            state: &state,
            runs,
        };
        // An index has texts, integers and floats alone, so it is never refused; floats that are not finite become null.
        let index = serde_json::to_vec(&index).unwrap_or_default();
        let front = (HEAD + index.len()).next_multiple_of(8);
        let late = front + heap.bytes.len();
        let mut bytes = Vec::with_capacity(late + heap.late.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&(index.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&(late as u64).to_le_bytes());
        bytes.extend_from_slice(&index);
        bytes.resize(front, 0);
        bytes.extend_from_slice(&heap.bytes);
        bytes.extend_from_slice(&heap.late);
        Data {
            bytes,
            late,
            errors: (runs.iter().filter(|run| !run.error.is_empty()))
                .map(|run| run.error.clone())
                .collect(),
            runs: runs.iter().filter(|run| run.shows()).count(),
            state,
        }
    }

    /// The bytes that the page reads.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What the recordings were when they were read; another text says that they have changed.
    pub fn state(&self) -> &str {
        &self.state
    }

    /// Why runs cannot be shown, a line each.
    pub fn errors(&self) -> &[String] {
        &self.errors
    }

    /// How many runs are shown.
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// The whole page as one file, with these data in it. It makes no request.
    pub fn to_html(&self) -> String {
        crate::page::html::page(Some(self.bytes.split_at(self.late)))
    }
}
