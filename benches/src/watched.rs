//! What a recording costs an op: of its call, of its run, of the kernel that it launched.

use crate::overhead::{self, CALLS, Round};
use crate::tensors;
use std::path::{Path, PathBuf};
use std::time::Instant;
use thalweg::hal::{self, ProfileKinds};
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

/// Turns in which each variant is measured once: what disturbs the machine for a while disturbs all of them.
const TURNS: usize = 40;
/// Room for the records of a turn, which nobody takes out before its end.
const ROOM: u64 = 1 << 14;

/// The same op while nothing, one kind or everything is recorded, and a launch without and with a record of the backend's.
///
/// # Errors
/// The temporary folder cannot be written; those of the op.
pub fn costs(cx: &Context, round: Round) -> Result<Costs> {
    let (folder, device) = (Folder::new(), cx.device());
    let (mut add, mut launch) = (tensors::eager(cx)?, overhead::launch(device)?);
    let off = None::<Kinds>;
    let kinds: [Option<Kinds>; 4] = [
        off,
        Some(|profile| profile.kernels(false).memory(false)),
        Some(|profile| profile.ops(false).memory(false)),
        Some(|profile| profile.memory(true)),
    ];
    let (mut ops, mut launches) = ([const { Vec::new() }; 4], [const { Vec::new() }; 2]);
    for _ in 0..TURNS {
        for (rounds, kinds) in ops.iter_mut().zip(kinds) {
            let running = kinds
                .map(|kinds| kinds(Profile::to(&folder)).start(cx))
                .transpose()?;
            rounds.push(once(&mut add)?);
            running.map(Profile::finish).transpose()?;
        }
        launches[0].push(once(&mut launch)?);
        let mut profile = device.profile_start(ProfileKinds::WORK, ROOM)?;
        launches[1].push(once(&mut launch)?);
        profile.stop()?;
    }
    let [without, op, runs, all] = ops.map(|rounds| round.of(rounds));
    let [launch, launched] = launches.map(|rounds| round.of(rounds));
    let kernel = launched - launch;
    Ok(Costs {
        without,
        op: op - without,
        run: runs - without - kernel,
        kernel,
        all: all - without,
    })
}

/// What is recorded.
type Kinds = fn(ProfileBuilder) -> ProfileBuilder;

/// The mean of a round of calls, in nanoseconds, behind some that are not measured.
fn once(call: &mut dyn FnMut() -> hal::Result<()>) -> Result<f64> {
    (0..CALLS / 4).try_for_each(|_| call())?;
    let start = Instant::now();
    (0..CALLS).try_for_each(|_| call())?;
    Ok(start.elapsed().as_nanos() as f64 / CALLS as f64)
}
