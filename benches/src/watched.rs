//! What a recording costs an op: of its call, of its run, of the kernel that it launched.

use crate::overhead::{CALLS, Round};
use crate::tensors;
use std::path::{Path, PathBuf};
use thalweg::observe::{Profile, ProfileBuilder};
use thalweg::{Context, Result};

/// Nanoseconds that records add to `a + b` on one element.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// The op while nothing is recorded.
    pub without: f64,
    /// The record of its call.
    pub op: f64,
    /// The record of its run, without that of the kernel.
    pub run: f64,
    /// The record of its kernel, as the backend makes it.
    pub kernel: f64,
    /// All records: call, run, kernel, and the memory of the result taken and given back.
    pub all: f64,
}

impl Costs {
    /// Of all records the mean.
    pub fn record(&self) -> f64 {
        self.all / 5.0
    }
}

/// A folder of this process for recordings, which goes when it is dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// One that is not there yet.
    #[must_use]
    pub fn new() -> Folder {
        let name = format!("thalweg-benches-{}", std::process::id());
        Folder(std::env::temp_dir().join(name))
    }
}

impl Default for Folder {
    fn default() -> Folder {
        Folder::new()
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left to the system.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The same op while nothing, one kind or everything is recorded.
///
/// # Errors
/// The temporary folder cannot be written; those of the op.
pub fn costs(cx: &Context, round: Round) -> Result<Costs> {
    let (folder, mut add) = (Folder::new(), tensors::eager(cx)?);
    let mut with = |profile: &dyn Fn(ProfileBuilder) -> ProfileBuilder| -> Result<f64> {
        let running = profile(Profile::to(&folder)).start(cx)?;
        let ns = round.nanoseconds(CALLS, &mut add)?;
        running.finish()?;
        Ok(ns)
    };
    let op = with(&|profile| profile.kernels(false).memory(false))?;
    let runs = with(&|profile| profile.ops(false).memory(false))?;
    let all = with(&|profile| profile.memory(true))?;
    let without = round.nanoseconds(CALLS, &mut add)?;
    let kernel = kernel(cx, round)?;
    Ok(Costs {
        without,
        op: op - without,
        run: runs - without - kernel,
        kernel,
        all: all - without,
    })
}

/// What a record of a kernel adds to a launch.
fn kernel(cx: &Context, round: Round) -> Result<f64> {
    let [without, with] = crate::overhead::recorded(cx.device(), round)?.launch;
    Ok(with - without)
}
