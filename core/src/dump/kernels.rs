//! Which calls are dumped.

use super::pattern::Pattern;
use crate::error::DumpError;
use crate::options::by_name::{WrongOption, near, one_line, wrong};
use crate::types::call::CallInfo;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

const KEY: &str = "kernels";
const REGEX: &str = "name-regex(";
/// Most names that are kept for messages.
const NAMES: usize = 1000;

/// What an entry of the list is for.
#[derive(Debug)]
enum Kernel {
    /// The call of a name.
    Name(String),
    /// Calls of ops whose name has this in it; capitals are small letters.
    Op(String),
    Matching(Pattern),
}

#[derive(Debug)]
struct Entry {
    text: String,
    kernel: Kernel,
    found: AtomicBool,
}

/// The entries of a list, and which of them calls were found for.
#[derive(Debug)]
pub(super) struct Kernels {
    // `None` for every call.
    entries: Option<Vec<Entry>>,
    known: Mutex<BTreeSet<String>>,
}

impl Kernels {
    pub(super) fn all() -> Kernels {
        Kernels {
            entries: None,
            known: Mutex::default(),
        }
    }

    /// # Errors
    /// An entry that is empty, or an expression that is none.
    pub(super) fn of(texts: &[String]) -> Result<Kernels, WrongOption> {
        let entries: Vec<Entry> = texts.iter().map(|text| entry(text)).collect::<Result<_, _>>()?;
        Ok(Kernels {
            entries: Some(entries),
            known: Mutex::default(),
        })
    }

    /// Whether an entry is for the call.
    pub(super) fn has(&self, call: &CallInfo) -> bool {
        let Some(entries) = &self.entries else {
            return true;
        };
        let mut any = false;
        for entry in entries.iter().filter(|entry| entry.kernel.is(call)) {
            entry.found.store(true, Ordering::Relaxed);
            any = true;
        }
        if entries.iter().any(|entry| !entry.found.load(Ordering::Relaxed)) {
            let mut known = self.known.lock();
            if known.len() < NAMES {
                known.extend([call.name.clone(), call.op.to_owned()]);
            }
        }
        any
    }

    /// The first entry that no call was found for, when an iteration is over.
    pub(super) fn missing(&self, iteration: u64) -> Option<DumpError> {
        let mut entries = self.entries.iter().flatten();
        let missing = entries.find(|entry| !entry.found.load(Ordering::Relaxed))?;
        let known = self.known.lock();
        let like = |name: &&String| match missing.kernel {
            Kernel::Op(_) => !name.contains('/'),
            Kernel::Name(_) | Kernel::Matching(_) => name.contains('/'),
        };
        let names = known.iter().filter(like).map(String::as_str).take(20);
        Some(DumpError::Kernels {
            entry: one_line(&missing.text),
            iteration,
            near: near(&missing.text, names),
        })
    }
}

fn entry(text: &str) -> Result<Entry, WrongOption> {
    let regex = text.strip_prefix(REGEX).and_then(|rest| rest.strip_suffix(')'));
    let kernel = match regex {
        Some(regex) => Pattern::parse(regex).map(Kernel::Matching).map_err(|why| {
            wrong(
                KEY,
                text,
                &one_line(&format!("it is no regular expression: {why}")),
            )
        })?,
        None if text.is_empty() => {
            return Err(wrong(
                KEY,
                "[\"\"]",
                "an entry is a name, a part of an op's name, or name-regex(…)",
            ));
        }
        None if text.starts_with(REGEX) => return Err(wrong(KEY, text, "the expression ends with `)`")),
        None if text.contains('/') => Kernel::Name(text.to_owned()),
        None => Kernel::Op(text.to_lowercase()),
    };
    Ok(Entry {
        text: text.to_owned(),
        kernel,
        found: AtomicBool::new(false),
    })
}

impl Kernel {
    fn is(&self, call: &CallInfo) -> bool {
        match self {
            Kernel::Name(name) => call.name == *name,
            Kernel::Op(part) => call.op.to_lowercase().contains(part),
            Kernel::Matching(pattern) => pattern.matches(&call.name),
        }
    }
}
