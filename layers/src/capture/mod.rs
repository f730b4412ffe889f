//! The layer `capture`: writes what crosses the border to one file, from which `thalweg replay` does it again.
//!
//! [`captured`](crate::captured) is the form of the file. A record is written when its call has succeeded, in one write of the system,
//! so that a process that is killed leaves all that it has done.

mod calls;
mod options;
mod packets;
mod sink;

pub use options::OPTIONS;

use crate::captured::{Backend, Call, Record};
use crate::forward::Tables;
use crate::layer::{Layer, Places};
use crate::next::Next;
use options::{Keep, Options};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use thalweg_hal::kit::lock::Mutex;
use thalweg_hal::tables::{BackendInfo, LogLevel};
use thalweg_hal::{Host, Result};

/// The state of the layer over one backend.
pub struct Capture {
    host: Host,
    backend: Backend,
    /// The number of the backend in the file, and what is kept of contents.
    begun: OnceLock<(u32, Keep)>,
    /// Axes of each parameter's level, by kernel: strides are as many.
    kernels: Mutex<HashMap<u64, Arc<[usize]>>>,
}

impl Layer for Capture {
    const NAME: &'static str = "capture";
    const TABLES: &'static Tables = &calls::TABLES;

    fn start(host: Host, next: &Next) -> Result<Capture> {
        Options::of(host)?;
        Ok(Capture {
            host,
            backend: backend(next),
            begun: OnceLock::new(),
            kernels: Mutex::default(),
        })
    }

    fn places() -> &'static Places<Capture> {
        static PLACES: Places<Capture> = Places::new();
        &PLACES
    }
}

fn backend(next: &Next) -> Backend {
    let mut info = BackendInfo {
        name: [0; 32],
        version: [0; 32],
        driver: [0; 128],
    };
    // SAFETY: the function and its own context; `info` is writable.
    let code = unsafe { (next.core.info)(next.api.context, &raw mut info) };
    if code != 0 {
        return Backend::default();
    }
    Backend {
        name: text(&info.name),
        version: text(&info.version),
        driver: text(&info.driver),
    }
}

/// The text before the first zero byte.
fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

impl Capture {
    /// Opens the file when the first device is opened.
    fn begin(&self) -> Result<()> {
        let options = Options::of(self.host)?;
        let _alone = self.kernels.lock();
        if self.begun.get().is_none() {
            let number = sink::open(&options.path, &self.backend)?;
            // Nobody else sets it while the lock is held.
            let _ = self.begun.set((number, options.keep));
        }
        Ok(())
    }

    /// Writes a call. A file that takes no more ends the capture, and not the program.
    fn note(&self, call: impl FnOnce() -> Call) {
        let Some(&(backend, _)) = self.begun.get() else {
            return;
        };
        let record = Record {
            backend,
            call: call(),
        };
        if let Err(error) = sink::write(&record) {
            let text = format!("the capture ends here: {error}");
            self.host.log(LogLevel::Error, Self::NAME, &text);
        }
    }
}
