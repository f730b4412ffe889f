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

mod dumping;
mod keys;
mod options;
mod profiling;

pub use options::{GraphRunMode, SessionOptions};

use crate::context::{self, DebugLevel, Defaults};
use crate::dump;
use crate::engine::{debug, open};
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
    /// context; a session that was shut down. Where a profile or a dump is asked for, those of
    /// [`ProfileError`](crate::observe::ProfileError) and [`DumpError`](crate::DumpError).
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
        if options.op_debug_level != DebugLevel::Off {
            debug::choose(Some(options.op_debug_level))?;
        }
        if options.profiling_mode {
            profiling::begin(&options)?;
        }
        if options.enable_dump || options.enable_dump_debug {
            dumping::begin(&options).inspect_err(|_| {
                // The profile of a session that does not begin; its error is not the one that matters.
                let _ = environment::end();
            })?;
        }
        context::set_defaults(Defaults {
            precision: options.precision_mode,
            exception_dump: options.enable_exception_dump,
            implmode: options.implmode()?,
        });
        value::set_gradients(options.graph_run_mode == GraphRunMode::Train);
        *session = Some(options);
        Ok(())
    }

    /// Ends the session: waits for all work of all devices, writes the profile and the dump of the process to the end, and refuses later
    /// ops with an error whose [status](crate::Error::status) is [`Status::Unavailable`](hal::Status::Unavailable). Values that are computed can still be read;
    /// ops that were recorded and not run are not. A process has one session. A second call does nothing.
    ///
    /// # Errors
    /// The first error of the work that was under way, that of the profile's file, and the first of the dump. The session has ended
    /// then too.
    pub fn shutdown() -> Result<()> {
        let session = SESSION.lock();
        let first = open::close();
        drop(session);
        if !first {
            return Ok(());
        }
        let waited = hal::synchronize();
        let dumped = dump::environment::end();
        let profiled = environment::end();
        waited?;
        profiled?;
        dumped?;
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
