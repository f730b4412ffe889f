//! Where and how ops run.

mod defaults;
mod graphs;
mod implmode;
mod options;
mod precision;
mod recorder;
mod settings;
mod size;
#[cfg(test)]
mod tests;

pub use crate::engine::debug::DebugLevel;
pub(crate) use defaults::{Defaults, set_defaults};
pub use graphs::SaveGraphs;
pub(crate) use graphs::{Level, Saves};
pub use implmode::ImplMode;
pub(crate) use implmode::{OP_SELECT_IMPLMODE, OPTYPELIST_FOR_IMPLMODE, Selected, op_list, selected};
pub use options::ContextBuilder;
pub use precision::Precision;
pub(crate) use precision::is_active;
pub(crate) use recorder::check_config;
pub(crate) use settings::{ENABLE_EXCEPTION_DUMP, PRECISION_MODE};
pub use size::Size;

use crate::dump;
use crate::engine::{Engine, debug, open};
use crate::error::Result;
use crate::graph::FastOps;
use crate::hal::{self, Device, Stream};
use crate::record::environment;
use crate::record::values::Looking;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

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
    seed: AtomicU64,
    keys: AtomicU64,
    settings: Settings,
    streams: Vec<Stream>,
    numerics: AtomicBool,
    indices: AtomicBool,
    exceptions: AtomicBool,
    looking: Mutex<Option<Looking>>,
    saves: Option<Saves>,
}

/// What stays as it was when the context was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Settings {
    pub(crate) precision: Precision,
    /// The ops that compute by their fast form in graphs.
    pub(crate) fast: FastOps,
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
    /// As [`hal::device`]; settings of the environment that are wrong, such as a folder that cannot be written or a configuration of dumps
    /// that says what is not allowed; the session was shut down.
    pub fn new(target: &str) -> Result<Context> {
        open::check()?;
        dump::environment::begin()?;
        debug::choose(None)?;
        let saves = Saves::asked(None, None)?;
        recorder::begin(None)?;
        Ok(Context::with(
            hal::device(target)?,
            Context::settings_of_process(),
            Vec::new(),
            saves,
        ))
    }

    fn settings_of_process() -> Settings {
        Settings {
            precision: defaults::of_process().precision,
            // Without options of its own there is nothing to contradict.
            fast: implmode::fast_ops(None, None).unwrap_or_default(),
        }
    }

    /// A context on an open device. What is wrong with settings of the environment is told in the log.
    pub fn on(device: Device) -> Context {
        let saves = Saves::asked(None, None).unwrap_or_else(|error| {
            tracing::error!("{error}; no graphs are saved");
            None
        });
        if let Err(error) = recorder::begin(None) {
            tracing::error!("{error}; nothing is recorded");
        }
        Context::with(device, Context::settings_of_process(), Vec::new(), saves)
    }

    fn with(device: Device, settings: Settings, streams: Vec<Stream>, saves: Option<Saves>) -> Context {
        environment::begin();
        if let Err(error) = dump::environment::begin() {
            tracing::error!("{error}; nothing is dumped");
        }
        let level = debug::choose(None).unwrap_or_else(|error| {
            tracing::error!("{error}");
            DebugLevel::Off
        });
        let cx = Context(Arc::new(Inner {
            engine: Engine::of(&device),
            mode: AtomicU8::new(Mode::Eager as u8),
            seed: AtomicU64::new(0),
            keys: AtomicU64::new(0),
            settings,
            streams,
            numerics: AtomicBool::new(false),
            indices: AtomicBool::new(false),
            exceptions: AtomicBool::new(false),
            looking: Mutex::default(),
            saves,
        }));
        cx.enable_exception_dump(defaults::of_process().exception_dump);
        cx.check_indices(level == DebugLevel::Checked);
        cx
    }

    /// A context with options: see [`ContextBuilder`].
    pub fn builder() -> ContextBuilder {
        ContextBuilder::new()
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

    /// What was set when it was made.
    #[inline]
    pub(crate) fn settings(&self) -> Settings {
        self.0.settings
    }

    /// Where the graphs go that are compiled for it; `None` for nowhere.
    pub(crate) fn saves(&self) -> Option<&Saves> {
        self.0.saves.as_ref()
    }

    /// The precision in which its ops compute.
    #[inline]
    pub fn precision(&self) -> Precision {
        self.0.settings.precision
    }

    /// Whether an op that makes a NaN or an infinity out of finite numbers is an error from now on, [`Error::Numerics`], with op, line,
    /// element and the ranges of its inputs. Off at first.
    ///
    /// Eager ops are looked at one by one. Of a compiled or recorded function, what is not finite in a value that a kernel stores raises
    /// a flag. The flags are read when it has run, so that a call waits for the device. Where one is raised, the same call runs
    /// again with every op watched. Infinities and NaN that come in from outside are no error. After two such calls
    /// the values that hold them are looked at no more.
    ///
    /// ```
    /// use thalweg::{Context, Tensor};
    /// let cx = Context::new("cpu")?;
    /// cx.check_numerics(true);
    /// let x = Tensor::from_slice(&[1.0_f32, -2.0], 2, &cx);
    /// let error = x.log().sum().item::<f32>().unwrap_err();
    /// let birth = error.numerics().expect("log made a NaN");
    /// assert_eq!((birth.op.as_str(), birth.index.as_slice()), ("log", [1].as_slice()));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// [`Error::Numerics`]: crate::Error::Numerics
    pub fn check_numerics(&self, on: bool) {
        self.check(&self.0.numerics, on);
    }

    /// Switches a check of values on or off.
    fn check(&self, which: &AtomicBool, on: bool) {
        let mut looking = self.0.looking.lock();
        which.store(on, Ordering::Relaxed);
        let any = self.checks_numerics() || self.checks_indices() || self.dumps_exceptions();
        if any && looking.is_none() {
            *looking = Some(Looking::begin());
        } else if !any {
            *looking = None;
        }
    }

    /// Whether an index that its axis does not have is an error from now on, [`Error::Index`], with op, line, index and axis. Off at
    /// first: then such an index reads 0, and what it would write is dropped.
    ///
    /// It holds for `gather`, `take`, `index_select`, `scatter` and their kin, `embedding`, `one_hot`, and the classes of losses. A
    /// flag for each list of indices is read when a function has run, so that a call waits for the device.
    ///
    /// ```
    /// use thalweg::{Context, Tensor};
    /// let cx = Context::new("cpu")?;
    /// let table = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let words = Tensor::from_slice(&[1_i64, 7], [2], &cx);
    /// assert_eq!(table.embedding(&words, None).to_vec::<f32>()?, [3.0, 4.0, 0.0, 0.0]);
    /// cx.check_indices(true);
    /// let error = table.embedding(&words, None).to_vec::<f32>().unwrap_err();
    /// assert!(error.to_string().starts_with("embedding: index 7 at [1] is outside of 0..2, axis 0"));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// [`Error::Index`]: crate::Error::Index
    pub fn check_indices(&self, on: bool) {
        self.check(&self.0.indices, on);
    }

    /// Whether the inputs of a call that fails on the device are written to files from now on; off at first. Each call of a program
    /// then waits for the device.
    ///
    /// The files lie in the working directory, in a folder `exception_dump_…` that the log names: a `manifest.json` with the error,
    /// inputs as npy, and outputs, which are unspecified and have no file. A lost device has no values any more, which the manifest
    /// says too. A process writes at most 16 such folders.
    ///
    /// ```
    /// let cx = thalweg::Context::new("cpu")?;
    /// cx.enable_exception_dump(true);
    /// assert!(cx.dumps_exceptions());
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn enable_exception_dump(&self, on: bool) {
        self.check(&self.0.exceptions, on);
    }

    /// Whether [`Context::enable_exception_dump`] is on.
    pub fn dumps_exceptions(&self) -> bool {
        self.0.exceptions.load(Ordering::Relaxed)
    }

    /// Whether [`Context::check_indices`] is on.
    pub fn checks_indices(&self) -> bool {
        self.0.indices.load(Ordering::Relaxed)
    }

    /// Whether [`Context::check_numerics`] is on.
    pub fn checks_numerics(&self) -> bool {
        self.0.numerics.load(Ordering::Relaxed)
    }

    /// Whether it is the same context.
    pub(crate) fn is(&self, other: &Context) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether its graphs may be computed in another order, with fewer roundings or by products with reciprocals: see
    /// [`ContextBuilder::fast_math`] and [`ContextBuilder::op_select_implmode`].
    pub fn fast_math(&self) -> bool {
        self.0.settings.fast != FastOps::NONE
    }

    /// The streams that [`ContextBuilder::streams`] asked for, to be entered one after the other; none where it was not asked.
    pub fn streams(&self) -> &[Stream] {
        &self.0.streams
    }

    /// The stream that ops of this thread run on.
    ///
    /// # Errors
    /// As [`Device::current_stream`].
    pub fn stream(&self) -> Result<Stream> {
        Ok(self.device().current_stream()?)
    }

    /// Starts the sequence of keys again at `seed`; it is 0 at first.
    pub fn set_seed(&self, seed: u64) {
        self.set_random_state(seed, 0);
    }

    /// The seed, and how many keys were taken since it was set: where [`Context::set_random_state`] goes on.
    pub fn random_state(&self) -> (u64, u64) {
        let (seed, keys) = (&self.0.seed, &self.0.keys);
        (seed.load(Ordering::Relaxed), keys.load(Ordering::Relaxed))
    }

    /// Goes on with the sequence of keys of `seed` behind the first `keys`.
    ///
    /// ```
    /// use thalweg::Context;
    /// let cx = Context::new("cpu")?;
    /// cx.next_key();
    /// let (seed, keys) = cx.random_state();
    /// let next = cx.next_key();
    /// cx.set_random_state(seed, keys);
    /// assert_eq!(cx.next_key(), next);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn set_random_state(&self, seed: u64, keys: u64) {
        self.0.seed.store(seed, Ordering::Relaxed);
        self.0.keys.store(keys, Ordering::Relaxed);
    }

    /// The next key for random numbers: the same sequence for the same seed.
    ///
    /// ```
    /// use thalweg::Context;
    /// let cx = Context::new("cpu")?;
    /// cx.set_seed(7);
    /// let keys = [cx.next_key(), cx.next_key()];
    /// cx.set_seed(7);
    /// assert_eq!(keys, [cx.next_key(), cx.next_key()]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn next_key(&self) -> u64 {
        // SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
        let count = self.0.keys.fetch_add(1, Ordering::Relaxed) + 1;
        let seed = self.0.seed.load(Ordering::Relaxed);
        let mut key = seed.wrapping_add(count.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        key ^ (key >> 31)
    }
}
