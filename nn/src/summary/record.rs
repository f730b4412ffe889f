//! The record of a thread: where noted values go.

use super::error::SummaryError;
use super::noted::{Entry, Kind, Noted};
use super::sink::Sink;
use super::values;
use crate::error::Result;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg::observe;
use thalweg_summary::{Content, Value};

/// Which values of networks a step collects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Due {
    /// Scalars, images and histograms.
    pub(crate) values: bool,
    /// Tensors.
    pub(crate) tensors: bool,
}

/// What the functions of the module reach.
struct Shared {
    folder: PathBuf,
    due: Due,
    entries: Vec<Entry>,
    /// The first name that was noted where there are no values.
    lost: Option<Arc<str>>,
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Mutex<Shared>>>> = const { RefCell::new(None) };
}

fn current() -> Option<Arc<Mutex<Shared>>> {
    CURRENT
        .try_with(|current| current.borrow().clone())
        .ok()
        .flatten()
}

/// Notes a value for the record of this thread, if there is one.
pub(crate) fn note(entry: Entry) {
    let Some(shared) = current() else { return };
    let mut shared = shared.lock();
    if observe::trace_number() == 0 {
        shared.entries.push(entry);
    } else {
        shared.lost.get_or_insert(entry.tag);
    }
}

/// Whether a step of this thread collects: `None` where there is no record.
pub(crate) fn due() -> Option<Due> {
    current().map(|shared| shared.lock().due)
}

/// Notes what a step noted, as far as it is due.
pub(crate) fn deliver(noted: Noted) {
    let Some(shared) = current() else { return };
    let mut shared = shared.lock();
    let due = shared.due;
    let wanted = |entry: &Entry| match entry.kind {
        Kind::Scalar | Kind::Image | Kind::Histogram => due.values,
        Kind::Tensor => due.tensors,
    };
    shared.entries.extend(noted.entries.into_iter().filter(wanted));
    if let Some(lost) = noted.lost {
        shared.lost.get_or_insert(lost);
    }
}

/// While it lives, what this thread notes goes into a folder. A thread has one at a time.
///
/// Values are written at the next [`step`](Record::step), and at the end. A disk that is full costs the record, not the program: the
/// log says so, and [`finish`](Record::finish) returns it.
pub struct Record {
    shared: Arc<Mutex<Shared>>,
    sink: Sink,
    step: u64,
    /// A record ends on the thread that it began on.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Record {
    /// Starts one, into this folder, which is made; `{r}` in it is the rank. The step is 0.
    ///
    /// # Errors
    /// The folder cannot be written; this thread has a record, or another program writes there.
    pub fn to(folder: impl AsRef<Path>) -> Result<Record> {
        Record::with(folder.as_ref(), None, false)
    }

    /// Starts one, with files up to `limit` bytes, and with tensors as files of NumPy where they are to be exported.
    pub(crate) fn with(folder: &Path, limit: Option<u64>, export: bool) -> Result<Record> {
        if let Some(running) = current() {
            let folder = running.lock().folder.clone();
            return Err(SummaryError::Running { folder }.into());
        }
        let folder = observe::path_of_rank(folder)?;
        let sink = Sink::create(&folder, limit, export)?;
        let shared = Arc::new(Mutex::new(Shared {
            folder,
            due: Due::default(),
            entries: Vec::new(),
            lost: None,
        }));
        CURRENT.with(|current| current.replace(Some(Arc::clone(&shared))));
        Ok(Record {
            shared,
            sink,
            step: 0,
            _not_send: std::marker::PhantomData,
        })
    }

    /// Writes what was noted, and goes to another step.
    ///
    /// # Errors
    /// What was noted cannot be shown in that way; computing it failed.
    pub fn step(&mut self, step: u64) -> Result<()> {
        self.flush()?;
        self.step = step;
        Ok(())
    }

    /// Goes to another step, which collects these values of networks.
    pub(crate) fn begin(&mut self, step: u64, due: Due) {
        self.step = step;
        self.shared.lock().due = due;
    }

    /// Writes what was noted.
    pub(crate) fn flush(&mut self) -> Result<()> {
        let (entries, lost) = {
            let mut shared = self.shared.lock();
            (std::mem::take(&mut shared.entries), shared.lost.take())
        };
        if let Some(tag) = lost {
            let why = "it was noted in a traced function, a loop, a branch or a checkpoint, which have no values then; \
                       return the tensor and note it outside";
            return Err(SummaryError::Value {
                tag: tag.to_string(),
                why: why.to_owned(),
            }
            .into());
        }
        let mut shown = Vec::with_capacity(entries.len());
        for entry in &entries {
            shown.push(values::of(entry)?);
            if entry.kind == Kind::Tensor {
                self.sink.export(&entry.tag, self.step, &entry.value)?;
            }
        }
        self.write(shown);
        Ok(())
    }

    /// Writes values of this step.
    pub(crate) fn write(&mut self, values: Vec<Value>) {
        if !values.is_empty() {
            self.sink.write(self.step, Content::Values(values));
        }
    }

    /// Where and how it is written.
    pub(crate) fn sink(&mut self) -> &mut Sink {
        &mut self.sink
    }

    /// Writes what was noted, and ends the record.
    ///
    /// # Errors
    /// As of [`step`](Record::step); the first error of the files.
    pub fn finish(mut self) -> Result<()> {
        self.flush()?;
        match self.sink.failure() {
            Some(error) => Err(SummaryError::File(error).into()),
            None => Ok(()),
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if let Err(error) = self.flush() {
            tracing::warn!("{error}");
        }
        // A thread at its very end has no record.
        let _ = CURRENT.try_with(|current| current.replace(None));
    }
}
