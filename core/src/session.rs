//! The session of the process: what holds for all of its contexts, from its start to its end.
//!
//! A program needs none. One that has its options in a file or in the environment begins with [`Runtime::init`], before its first
//! context, and ends with [`Runtime::shutdown`].
//!
//! ```
//! use thalweg::{Context, DType, Precision, Runtime, SessionOptions, Tensor};
//! Runtime::init(SessionOptions::from_toml("precision_mode = \"force_fp16\"\ngraph_run_mode = 0")?)?;
//! let cx = Context::new("cpu")?;
//! assert_eq!(cx.precision(), Precision::ForceFp16);
//! let x = Tensor::ones([3], DType::F32, &cx);
//! assert!(thalweg::grad(|x: &Tensor| x.sum()).call(&x).to_vec::<f32>().is_err());
//! Runtime::shutdown()?;
//! assert_eq!(x.exp().to_vec::<f32>().unwrap_err().status(), Some(thalweg::hal::Status::Unavailable));
//! # Ok::<(), thalweg::Error>(())
//! ```

mod keys;
mod options;
mod profiling;

pub use options::{GraphRunMode, SessionOptions};

use crate::context;
use crate::engine::open;
use crate::error::{Result, SessionError};
use crate::hal;
use crate::record::environment;
use crate::value;
use parking_lot::Mutex;

/// The session of the process. It has no value: there is one in a process.
///
/// What is below tensors, [`hal::Runtime`], is not part of it: its devices stay open as long as the process.
#[derive(Debug)]
pub enum Runtime {}

/// The options of the session that runs.
static SESSION: Mutex<Option<SessionOptions>> = Mutex::new(None);

impl Runtime {
    /// Begins the session, before the first context. Nothing is opened. A second call with the same options does nothing.
    ///
    /// # Errors
    /// Options that are not allowed, by themselves or together; other options than the session has; options that come after the first
    /// context; a session that was shut down. Where a profile is asked for, those of [`ProfileError`](crate::observe::ProfileError).
    pub fn init(options: SessionOptions) -> Result<()> {
        options.check()?;
        let mut session = SESSION.lock();
        open::check()?;
        // Before there is a session, contexts are made with the defaults.
        let holds = match &*session {
            Some(options) => Some(options.clone()),
            None => environment::has_begun().then(SessionOptions::default),
        };
        if let Some(holds) = holds {
            holds.same(&options)?;
            *session = Some(holds);
            return Ok(());
        }
        if options.profiling_mode {
            profiling::begin(&options)?;
        }
        context::set_precision_of_process(options.precision_mode);
        value::set_gradients(options.graph_run_mode == GraphRunMode::Train);
        *session = Some(options);
        Ok(())
    }

    /// Ends the session: waits for all work of all devices, writes its profile to the end, and refuses later ops with an error whose
    /// [status](crate::Error::status) is [`Status::Unavailable`](hal::Status::Unavailable). Values that are computed can still be read;
    /// ops that were recorded and not run are not. A process has one session. A second call does nothing.
    ///
    /// # Errors
    /// The first error of the work that was under way, and that of the profile's file. The session has ended then too.
    pub fn shutdown() -> Result<()> {
        let session = SESSION.lock();
        let first = open::close();
        drop(session);
        if !first {
            return Ok(());
        }
        let waited = hal::synchronize();
        let written = environment::end();
        waited?;
        written?;
        Ok(())
    }
}

impl SessionOptions {
    /// Whether `late` asks for the same.
    fn same(&self, late: &SessionOptions) -> Result<(), SessionError> {
        let mut pairs = self.texts().into_iter().zip(late.texts());
        match pairs.find(|(mine, other)| mine != other) {
            None => Ok(()),
            Some(((key, set), (_, value))) => Err(SessionError::Late { key, value, set }),
        }
    }
}
