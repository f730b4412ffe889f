//! Where and how ops run.

use crate::error::Result;
use crate::exec::Engine;
use crate::hal::{self, Device, Stream};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// When ops run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// At once.
    #[default]
    Eager,
    /// When a value is read, all that it needs as one compiled graph.
    Graph,
}

/// A device and how ops run on it. Clones are the same context.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    engine: Arc<Engine>,
    mode: AtomicU8,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context({}, {:?})", self.device().target(), self.mode())
    }
}

impl Context {
    /// A context on the device that `target` names: `cpu`, `cuda:1`, a plugin's name, or `auto`.
    ///
    /// # Errors
    /// As [`hal::device`].
    pub fn new(target: &str) -> Result<Context> {
        Ok(Context::on(hal::device(target)?))
    }

    /// A context on an open device.
    pub fn on(device: Device) -> Context {
        Context(Arc::new(Inner {
            engine: Engine::of(device),
            mode: AtomicU8::new(Mode::Eager as u8),
        }))
    }

    /// The best device that is there.
    ///
    /// # Errors
    /// As [`hal::device`].
    pub fn auto() -> Result<Context> {
        Context::new("auto")
    }

    /// Its device.
    #[inline]
    pub fn device(&self) -> &Device {
        self.0.engine.device()
    }

    /// What runs its ops, shared by all contexts of the device.
    #[inline]
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.0.engine
    }

    /// When ops run.
    #[inline]
    pub fn mode(&self) -> Mode {
        match self.0.mode.load(Ordering::Relaxed) {
            0 => Mode::Eager,
            _ => Mode::Graph,
        }
    }

    /// Changes when later ops run.
    pub fn set_mode(&self, mode: Mode) {
        self.0.mode.store(mode as u8, Ordering::Relaxed);
    }

    /// The stream that ops of this thread run on.
    ///
    /// # Errors
    /// As [`Device::current_stream`].
    pub fn stream(&self) -> Result<Stream> {
        Ok(self.device().current_stream()?)
    }
}
