//! What work runs on: a fresh device under the layer of a turn, faults while it is asked for, and the figures at its end.

use crate::Result;
use std::cell::Cell;
use std::fmt;
use thalweg::hal::{Backend, Device, DeviceOptions, MemoryStats, Runtime, Status};
use thalweg::host::set_config;
use thalweg::loader::{LoaderOptions, Registry};
use thalweg::{Context, Mode};

/// What stands between the work and the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Plain,
    Faults,
    Validate,
}

impl Turn {
    pub(crate) const ALL: [Turn; 3] = [Turn::Plain, Turn::Faults, Turn::Validate];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Turn::Plain => "plain",
            Turn::Faults => "faults",
            Turn::Validate => "validate",
        }
    }

    fn layers(self) -> Vec<String> {
        match self {
            Turn::Plain => Vec::new(),
            Turn::Faults => vec!["fault".into()],
            Turn::Validate => vec!["validate".into()],
        }
    }
}

/// What was done in a turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) rounds: u64,
    pub(crate) programs: u64,
    pub(crate) ops: u64,
    pub(crate) steps: u64,
    pub(crate) saves: u64,
    pub(crate) faults: u64,
    /// Allocations that a limit refused.
    pub(crate) refused: u64,
    /// The most bytes that a device had allocated.
    pub(crate) peak: u64,
}

/// A backend under the layer of a turn, opened once for the process.
pub(crate) struct Bench {
    pub(crate) turn: Turn,
    backend: Backend,
}

impl Bench {
    pub(crate) fn new(turn: Turn) -> Result<Bench> {
        Ok(Bench {
            turn,
            backend: backend("cpu", turn.layers())?,
        })
    }
}

/// A backend by its name.
pub(crate) fn backend(name: &str, layers: Vec<String>) -> Result<Backend> {
    let options = LoaderOptions {
        layers,
        ..LoaderOptions::default()
    };
    Ok(Runtime::new(Registry::new(options)).backend(name)?)
}

/// A result or a figure that is not what it must be.
#[derive(Debug)]
pub(crate) struct Wrong(pub(crate) String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

/// An error unless what was asked holds.
pub(crate) fn check(holds: bool, what: impl FnOnce() -> String) -> Result<()> {
    match holds {
        true => Ok(()),
        false => Err(Wrong(what()).into()),
    }
}

/// How often work is tried while calls fail, before it runs without faults.
const TRIES: usize = 4;

/// A device of its own for the works of a turn.
pub(crate) struct Rig<'b> {
    bench: &'b Bench,
    pub(crate) device: Device,
    seed: Cell<u64>,
    pub(crate) tally: Cell<Tally>,
}

impl<'b> Rig<'b> {
    pub(crate) fn new(bench: &'b Bench, seed: u32) -> Result<Rig<'b>> {
        set_config("layer.fault", None);
        Ok(Rig {
            bench,
            device: bench.backend.open(&DeviceOptions::new(0))?,
            seed: Cell::new(u64::from(seed)),
            tally: Cell::default(),
        })
    }

    pub(crate) fn injects(&self) -> bool {
        self.bench.turn == Turn::Faults
    }

    pub(crate) fn context(&self, mode: Mode) -> Context {
        let cx = Context::on(self.device.clone());
        cx.set_mode(mode);
        cx
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Tally)) {
        let mut tally = self.tally.get();
        change(&mut tally);
        self.tally.set(tally);
    }

    /// Sets which calls fail, for all devices of the backend: a device reads it when it is opened.
    pub(crate) fn set_faults(&self, rules: &str) -> Result<Device> {
        set_config("layer.fault", Some(rules));
        let opened = self.bench.backend.open(&DeviceOptions::new(0));
        set_config("layer.fault", None);
        Ok(opened?)
    }

    /// Runs `body`, in a turn of faults while some calls fail. `None` where a fault ended it.
    pub(crate) fn attempt<T>(&self, body: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
        if !self.injects() {
            return body().map(Some);
        }
        let seed = self.seed.get().wrapping_mul(6_364_136_223_846_793_005) | 1;
        self.seed.set(seed);
        let every = 4 + (seed >> 33) % 60;
        let seed = (seed >> 16) + 1;
        drop(self.set_faults(&format!(
            "seed={seed},every={every},kinds=alloc+submit+later+compile"
        ))?);
        let result = body();
        drop(self.set_faults("")?);
        // What stuck beside the first error is told here, once.
        while let Err(error) = self.device.synchronize() {
            self.injected(&error.to_string())?;
        }
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is::<Wrong>() => Err(error),
            Err(error) => {
                let text = error.to_string();
                self.injected(&text)?;
                check(!text.contains("work: made to fail"), || {
                    format!("an error names no op: {text}")
                })?;
                Ok(None)
            }
        }
    }

    /// Counts a fault; an error where it is none.
    pub(crate) fn injected(&self, text: &str) -> Result<()> {
        check(text.contains("made to fail by the layer fault"), || {
            format!("an error that is no fault: {text}")
        })?;
        self.count(|tally| tally.faults += 1);
        Ok(())
    }

    /// What `body` gives in the end: some attempts while calls fail, then one without.
    pub(crate) fn persist<T>(&self, body: impl Fn() -> Result<T>) -> Result<T> {
        if self.injects() {
            for _ in 0..TRIES {
                if let Some(value) = self.attempt(&body)? {
                    return Ok(value);
                }
            }
        }
        body()
    }

    /// Compares the figures of the device with what is left, which is nothing.
    pub(crate) fn end(self) -> Result<Tally> {
        self.device.synchronize()?;
        let stats = self.device.memory_stats()?;
        nothing_left(&stats)?;
        self.device.empty_cache()?;
        let reserved = self.device.memory_stats()?.reserved;
        check(reserved == 0, || {
            format!("{reserved} bytes are reserved after the cache was emptied")
        })?;
        let mut tally = self.tally.get();
        tally.peak = stats.max_allocated;
        Ok(tally)
    }
}

fn nothing_left(stats: &MemoryStats) -> Result<()> {
    let left = [stats.allocated, stats.live, stats.eager_free];
    check(left == [0; 3], || {
        let [bytes, buffers, waiting] = left;
        format!("{bytes} bytes in {buffers} buffers are left, and {waiting} wait to be free")
    })?;
    consistent(stats)
}

/// Figures that must hold at any time when the device is idle.
pub(crate) fn consistent(stats: &MemoryStats) -> Result<()> {
    let holds = stats.allocations.wrapping_sub(stats.frees) == stats.live
        && stats.allocated + stats.idle + stats.eager_free == stats.reserved
        && stats.allocated <= stats.max_allocated
        && stats.reserved <= stats.max_reserved;
    check(holds, || format!("the figures contradict each other: {stats:?}"))
}

/// Whether an error is for want of memory.
pub(crate) fn out_of_memory(error: &thalweg::Error) -> bool {
    error.status() == Some(Status::OutOfMemory)
}
