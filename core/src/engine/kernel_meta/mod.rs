//! Files about kernels that ran: what the backend made of them, and which calls they come from.

mod describe;
mod files;

use super::debug::{DebugLevel, chosen};
use crate::error::KernelMetaError;
use crate::hal::{self, Kernel, KernelPart};
use crate::lower::{Origin, Source};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most launches of a kernel that its files name.
const MAX_USES: usize = 64;

/// A launch of a kernel.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    /// Outer extents, then inner ones.
    pub(crate) extents: Box<[u64]>,
    /// The calls that it computes.
    pub(crate) origin: Origin,
}

/// Kernels of a device about which files are written.
#[derive(Debug, Default)]
pub(super) struct KernelMeta {
    known: Mutex<HashMap<Arc<Source>, Known>>,
    broken: AtomicBool,
}

/// What is known about a kernel.
#[derive(Debug, Default)]
struct Known {
    /// Why it is optimised at a level that asks for one that is not.
    optimised: Option<String>,
    uses: Vec<Use>,
}

/// A kernel with one of its programs, as files tell it.
struct Told<'a> {
    level: DebugLevel,
    target: &'a str,
    source: &'a Source,
    known: &'a Known,
    program: u32,
    /// `key=value`, from the backend.
    facts: Vec<(String, String)>,
}

/// A text that a backend shows of a program, or why it shows none.
pub(crate) fn text(kernel: &Kernel, program: u32, part: KernelPart) -> hal::Result<String> {
    let bytes = kernel.inspect(program, part)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The facts of a program; none for one that is not there yet.
pub(crate) fn facts(kernel: &Kernel, program: u32) -> Vec<(String, String)> {
    let text = text(kernel, program, KernelPart::Facts).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// What a file with the source of a program ends in.
pub(crate) fn extension(facts: &[(String, String)]) -> &str {
    let found = facts.iter().find(|(key, _)| key == "extension");
    found.map_or("source", |(_, extension)| extension)
}

impl KernelMeta {
    /// Compiles a kernel as the level asks, and notes where that cannot be done.
    pub(super) fn compile(
        &self,
        source: &Arc<Source>,
        compile: impl Fn(&str) -> hal::Result<Kernel>,
    ) -> hal::Result<Kernel> {
        if chosen().is_none_or(|(level, _)| level.optimises()) {
            return compile("");
        }
        match compile("optimise=off") {
            Err(error) if error.status() == hal::Status::Unsupported => {
                let kernel = compile("")?;
                let mut known = self.known.lock();
                known.entry(Arc::clone(source)).or_default().optimised = Some(error.to_string());
                Ok(kernel)
            }
            other => other,
        }
    }

    /// Writes the files of a kernel that was launched.
    pub(super) fn write(&self, target: &str, source: &Arc<Source>, kernel: &Kernel, launch: Use) {
        let Some((level, folder)) = chosen() else { return };
        if self.broken.load(Ordering::Relaxed) {
            return;
        }
        let mut known = self.known.lock();
        let known = known.entry(Arc::clone(source)).or_default();
        if known.uses.len() < MAX_USES {
            known.uses.push(launch);
        }
        if let Err(error) = self.programs(level, folder, target, source, kernel, known)
            && !self.broken.swap(true, Ordering::Relaxed)
        {
            tracing::warn!("{error}; no more is written there, and the program goes on");
        }
    }

    fn programs(
        &self,
        level: DebugLevel,
        folder: &Path,
        target: &str,
        source: &Source,
        kernel: &Kernel,
        known: &Known,
    ) -> Result<(), KernelMetaError> {
        let programs = kernel.programs().unwrap_or(0);
        for program in 0..u32::try_from(programs).unwrap_or(u32::MAX) {
            let facts = facts(kernel, program);
            if facts.is_empty() {
                // It is made by a later launch.
                continue;
            }
            let told = Told {
                level,
                target,
                source,
                known,
                program,
                facts,
            };
            told.write(folder, kernel)?;
        }
        Ok(())
    }
}
