//! How a context is asked for: in code, by environment variables, or in a TOML file.

mod read;
#[cfg(test)]
mod tests;

use super::graphs::{SaveGraphs, Saves};
use super::implmode::{ImplMode, fast_ops, selected};
use super::recorder;
use super::{Context, DebugLevel, Mode, Precision, Settings, Size};
use crate::dump;
use crate::engine::debug;
use crate::engine::open;
use crate::error::failure::Refusal;
use crate::error::{Result, SessionError};
use crate::hal::{self, Stream, Target};
use crate::parallel::{ForkJoin, MAX_THREADS, Pool, lent};
use crate::record;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::OnceLock;

/// Options of a context. What is not set is left to the defaults: the best device, eager mode, no limit, seed 0, all cores, the
/// dtypes as they are, exact graphs.
///
/// ```
/// use thalweg::{Context, Mode};
/// let cx = Context::builder().device_target("cpu").mode(Mode::Graph).memory_limit("8 GiB").build()?;
/// assert_eq!(cx.mode(), Mode::Graph);
/// let error = Context::builder().memory_limit("8 bananas").build().unwrap_err();
/// assert!(error.to_string().starts_with("memory limit \"8 bananas\" is no size"));
/// # Context::builder().device_target("cpu").memory_limit(0).build()?;
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextBuilder {
    device_target: Option<String>,
    device_id: Option<i64>,
    mode: Option<Mode>,
    memory_limit: Option<Size>,
    seed: Option<u64>,
    deterministic: Option<bool>,
    streams: Option<usize>,
    threads: Option<usize>,
    layers: Option<Vec<String>>,
    precision_mode: Option<Precision>,
    fast_math: Option<bool>,
    op_select_implmode: Option<ImplMode>,
    optypelist_for_implmode: Option<Vec<String>>,
    check_numerics: Option<bool>,
    reserve_class_name_in_scope: Option<bool>,
    check_indices: Option<bool>,
    enable_exception_dump: Option<bool>,
    op_debug_level: Option<DebugLevel>,
    print_file_path: Option<PathBuf>,
    save_graphs: Option<SaveGraphs>,
    save_graphs_path: Option<PathBuf>,
    env_config_path: Option<PathBuf>,
}

/// The bytes of a limit.
fn limit_of(size: &Size) -> Result<u64, Refusal> {
    size.bytes().ok_or_else(|| {
        Refusal::new(format!("memory limit {:?} is no size", size.to_string()))
            .help("write a whole number and B, kB, MB, GB, KiB, MiB, GiB or TiB, as in `8 GiB`")
    })
}

impl FromStr for Mode {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Mode, Refusal> {
        match text {
            "eager" => Ok(Mode::Eager),
            "graph" => Ok(Mode::Graph),
            _ => Err(Refusal::new(format!("there is no mode {text:?}")).help("it is `eager` or `graph`")),
        }
    }
}

/// Most streams that a context is given.
const MAX_STREAMS: usize = 64;

/// The number of threads that an option set first: they are the process's.
static THREADS: OnceLock<usize> = OnceLock::new();

impl ContextBuilder {
    /// Nothing set.
    pub fn new() -> ContextBuilder {
        ContextBuilder::default()
    }

    /// `cpu`, `cuda:1`, a plugin's name, or `auto`. A device that is not there is an error; only `auto` chooses.
    #[must_use]
    pub fn device_target(mut self, target: impl Into<String>) -> ContextBuilder {
        self.device_target = Some(target.into());
        self
    }

    /// The device's number, where the target has none.
    #[must_use]
    pub fn device_id(mut self, id: i64) -> ContextBuilder {
        self.device_id = Some(id);
        self
    }

    /// When ops run.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> ContextBuilder {
        self.mode = Some(mode);
        self
    }

    /// Most memory that the device's pool reserves: bytes, or a text such as `8 GiB`; 0 for no limit. It is the device's, for all
    /// contexts.
    #[must_use]
    pub fn memory_limit(mut self, limit: impl Into<Size>) -> ContextBuilder {
        self.memory_limit = Some(limit.into());
        self
    }

    /// Seed of the context's random numbers.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> ContextBuilder {
        self.seed = Some(seed);
        self
    }

    /// Whether two runs of a program compute the same to the last bit, which they do unless this is false. Ops always give the same
    /// bits for the same operands, on any number of threads and streams; without determinism random numbers start from the
    /// system's entropy where no seed is set.
    #[must_use]
    pub fn deterministic(mut self, deterministic: bool) -> ContextBuilder {
        self.deterministic = Some(deterministic);
        self
    }

    /// How many streams [`Context::streams`] holds, 64 at most, for the program's own stream scopes; ops and compiled graphs run on
    /// the stream of the scope they are in.
    #[must_use]
    pub fn streams(mut self, streams: usize) -> ContextBuilder {
        self.streams = Some(streams);
        self
    }

    /// Most threads that work on a CPU, the calling one included. They are the process's, for all contexts: the first context that sets
    /// it decides, and another number later is an error. Without it `THALWEG_THREADS` or all cores.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> ContextBuilder {
        self.threads = Some(threads);
        self
    }

    /// Layers between the process and its backends, the first nearest to the program. They are the process's, for all contexts: set
    /// before the first device is asked for, and other ones later are an error. Without it those of `THALWEG_LAYERS`.
    #[must_use]
    pub fn layers(mut self, layers: impl IntoIterator<Item = impl Into<String>>) -> ContextBuilder {
        self.layers = Some(layers.into_iter().map(Into::into).collect());
        self
    }

    /// In which precision ops compute.
    ///
    /// ```
    /// use thalweg::{Context, DType, Tensor, context::Precision};
    /// let cx = Context::builder().device_target("cpu").precision_mode(Precision::AllowMixPrecision).build()?;
    /// let (x, w) = (Tensor::ones([2, 3], DType::F32, &cx), Tensor::ones([3, 4], DType::F32, &cx));
    /// let product = x.matmul(&w);
    /// assert_eq!(product.dtype()?, DType::F16);
    /// assert_eq!(product.softmax(1).dtype()?, DType::F32);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[must_use]
    pub fn precision_mode(mut self, mode: Precision) -> ContextBuilder {
        self.precision_mode = Some(mode);
        self
    }

    /// Whether the compiler of graphs may change bits: join constants across sums and products, round a product and a sum once, and
    /// multiply by the reciprocal of a constant instead of dividing. Convolutions may take Winograd's form. What runs eagerly stays
    /// exact. Off unless set, and then graphs give the bits of eager ops.
    #[must_use]
    pub fn fast_math(mut self, fast_math: bool) -> ContextBuilder {
        self.fast_math = Some(fast_math);
        self
    }

    /// By which form ops that have two compute in graphs: all of them, or those of [`ContextBuilder::optypelist_for_implmode`]. Without
    /// a mode `fast_math` decides.
    ///
    /// ```
    /// use thalweg::{Context, context::ImplMode};
    /// let cx = Context::builder().device_target("cpu").op_select_implmode(ImplMode::HighPerformance);
    /// assert!(cx.clone().optypelist_for_implmode(["div"]).build()?.fast_math());
    /// let error = cx.optypelist_for_implmode(["exp"]).build().unwrap_err().to_string();
    /// assert_eq!(error, "optypelist_for_implmode is exp; it takes ops that have two forms: add, sub, mul, div, conv");
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[must_use]
    pub fn op_select_implmode(mut self, mode: ImplMode) -> ContextBuilder {
        self.op_select_implmode = Some(mode);
        self
    }

    /// The ops that [`ContextBuilder::op_select_implmode`] is for, out of [`FastOps::names`](crate::graph::FastOps::names), wherever
    /// graphs have them, also as parts of other ops.
    #[must_use]
    pub fn optypelist_for_implmode(
        mut self,
        ops: impl IntoIterator<Item = impl Into<String>>,
    ) -> ContextBuilder {
        self.optypelist_for_implmode = Some(ops.into_iter().map(Into::into).collect());
        self
    }

    /// Whether an op that makes a NaN or an infinity out of finite numbers is an error: see [`Context::check_numerics`].
    #[must_use]
    pub fn check_numerics(mut self, on: bool) -> ContextBuilder {
        self.check_numerics = Some(on);
        self
    }

    /// Whether names of ops have the types of the parts of the network: `Default/conv1-Conv2d/conv2d-op1` rather than
    /// `Default/conv1/conv2d-op1`, which they are unless this is true. It is the process's, for all contexts: functions that are traced
    /// afterwards and steps that run afterwards have such names.
    #[must_use]
    pub fn reserve_class_name_in_scope(mut self, reserve: bool) -> ContextBuilder {
        self.reserve_class_name_in_scope = Some(reserve);
        self
    }

    /// Whether an index that its axis does not have is an error: see [`Context::check_indices`].
    #[must_use]
    pub fn check_indices(mut self, on: bool) -> ContextBuilder {
        self.check_indices = Some(on);
        self
    }

    /// Whether the inputs of a call that fails are written to files: see [`Context::enable_exception_dump`].
    #[must_use]
    pub fn enable_exception_dump(mut self, on: bool) -> ContextBuilder {
        self.enable_exception_dump = Some(on);
        self
    }

    /// What is written to `kernel_meta/` about each kernel that runs. It is the process's, for all contexts: the first context, or the
    /// session, decides, and another level later is an error. At [`DebugLevel::Checked`], indices are checked unless
    /// [`ContextBuilder::check_indices`] says otherwise.
    #[must_use]
    pub fn op_debug_level(mut self, level: DebugLevel) -> ContextBuilder {
        self.op_debug_level = Some(level);
        self
    }

    /// The file that [`print`](crate::observe::print) writes to instead of the screen; an empty path stands for the screen. `{r}` is
    /// replaced by the rank of the process. It is the process's, for all contexts, from the moment on in which the context is made. The first print makes
    /// the file. Where one of this name exists, it stays as it is, and the new one is `NAME.SECONDS`, seconds since 1970.
    /// `thalweg print FILE` shows it, [`PrintFile`](crate::observe::PrintFile) reads it.
    #[must_use]
    pub fn print_file_path(mut self, path: impl Into<PathBuf>) -> ContextBuilder {
        self.print_file_path = Some(path.into());
        self
    }

    /// Which stages of the graphs that are compiled are written to files: 0 or `false` none; 1 the graph as it was traced, the rewritten
    /// one and the program; 2 or `true` its kernels too, and their sources when it has run; 3 the graph after every pass too, and each graph for Graphviz. `0` unless it
    /// is set here or by the variable `THALWEG_SAVE_GRAPHS`.
    ///
    /// [`Graph::parse`](crate::graph::Graph::parse) reads each `.ir` file. Two runs of a program write the same bytes.
    ///
    /// ```
    /// use thalweg::{Context, Tensor, graph::Graph, jit};
    /// let folder = std::env::temp_dir().join(format!("thalweg-graphs-{}", std::process::id()));
    /// let cx = Context::builder().device_target("cpu").save_graphs(1).save_graphs_path(&folder).build()?;
    /// let half = jit(|x: &Tensor| (x * 0.5).sum()).named("half");
    /// half.call(&Tensor::from_slice(&[1.0_f32, 2.0], 2, &cx)).item::<f32>()?;
    /// let text = std::fs::read_to_string(folder.join("00_half_traced.ir")).unwrap();
    /// assert!(text.contains("mul %0 %1 # Default/mul-op1 "));
    /// assert_eq!(Graph::parse(&text)?.nodes().len(), 4);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[must_use]
    pub fn save_graphs(mut self, which: impl Into<SaveGraphs>) -> ContextBuilder {
        self.save_graphs = Some(which.into());
        self
    }

    /// The folder of the files of [`ContextBuilder::save_graphs`], the working directory unless it is set. It is made with the mode 0700.
    /// `{r}` in it is the rank of the process.
    #[must_use]
    pub fn save_graphs_path(mut self, folder: impl Into<PathBuf>) -> ContextBuilder {
        self.save_graphs_path = Some(folder.into());
        self
    }

    /// A file in JSON that says whether the flight recorder runs, which keeps the last launches, changes of memory and graphs of the
    /// process: `{"rdr": {"enable": true, "path": "/out", "mode": 1}}`. The first context of a process decides.
    /// [`observe::flight`](crate::observe::flight) reads what it leaves.
    #[must_use]
    pub fn env_config_path(mut self, file: impl Into<PathBuf>) -> ContextBuilder {
        self.env_config_path = Some(file.into());
        self
    }

    /// The context.
    ///
    /// # Errors
    /// A device that is not there, with the reason and what there is instead; a target and an id that contradict each other; a
    /// limit that is no size; a number of streams or threads that cannot be; another number of threads than an earlier context set; other
    /// layers than the process has; a folder for graphs or for the flight recorder that cannot be written; a configuration of dumps that
    /// says what is not allowed; a session that was shut down.
    pub fn build(self) -> Result<Context> {
        open::check()?;
        let limit = self.memory_limit.as_ref().map(limit_of).transpose()?;
        let streams = self.streams.unwrap_or(0);
        if streams > MAX_STREAMS {
            let text = format!("{streams} streams, at most {MAX_STREAMS} are possible");
            return Err(Refusal::new(text).into());
        }
        let set = |first: usize| match self.threads {
            Some(0) => Err(Refusal::new("0 threads, at least the calling one works")),
            Some(threads) if threads > MAX_THREADS => {
                let text = format!("{threads} threads, at most {MAX_THREADS} are possible");
                Err(Refusal::new(text))
            }
            Some(threads)
                if let Some(lent) = lent().map(ForkJoin::threads).filter(|&lent| lent != threads) =>
            {
                let text = format!("{threads} threads asked, the program lent a pool of {lent}");
                Err(Refusal::new(text).help("set the number of threads in that pool"))
            }
            Some(threads) if threads != first => {
                let text = format!("{threads} threads asked, an earlier context of this process set {first}");
                Err(Refusal::new(text).help("threads are shared by all contexts: set them once"))
            }
            _ => Ok(()),
        };
        dump::environment::begin()?;
        let prints = self.print_file_path.as_deref().map(print_file).transpose()?;
        // What can be refused is, before the limit or the threads, which all contexts share, change.
        set(THREADS.get().copied().or(self.threads).unwrap_or(1))?;
        let asked = self.device_target.as_deref().unwrap_or("auto");
        let target = match (Target::parse(asked)?, self.device_id) {
            (target, None) => target,
            (Target::Device { backend, id: None }, Some(id)) => Target::device(backend, id),
            (target, Some(id)) => {
                let text = format!("device_target {target} and device_id {id}");
                return Err(Refusal::new(text)
                    .help("give the number once, with a target other than auto")
                    .into());
            }
        };
        let target = target.to_string();
        let selected = selected(self.op_select_implmode, self.optypelist_for_implmode.as_deref());
        let fast = selected.and_then(|selected| fast_ops(self.fast_math, selected));
        let fast = fast.map_err(SessionError::from)?;
        debug::choose(self.op_debug_level)?;
        let saves = Saves::asked(self.save_graphs.as_ref(), self.save_graphs_path.as_deref())?;
        recorder::begin(self.env_config_path.as_deref())?;
        if let Some(layers) = &self.layers {
            hal::set_layers(layers)?;
        }
        if let Some(limit) = limit
            && asked != "auto"
        {
            // Before the device is opened, so that nothing is reserved beyond it.
            hal::set_memory_limit(&target, limit)?;
        }
        let device = hal::device(&target)?;
        if let Some(limit) = limit {
            hal::set_memory_limit(device.target(), limit)?;
        }
        if let Some(threads) = self.threads {
            set(*THREADS.get_or_init(|| threads))?;
            Pool::global().set_threads(threads);
        }
        let settings = Settings {
            precision: self
                .precision_mode
                .unwrap_or_else(|| super::defaults::of_process().precision),
            fast,
        };
        if settings.precision != Precision::default() {
            super::precision::activate();
        }
        if let Some(reserve) = self.reserve_class_name_in_scope {
            record::parts::reserve_classes(reserve);
        }
        if let Some(path) = prints {
            record::prints::direct(&path);
        }
        let streams = (0..streams)
            .map(|_| Stream::new(&device))
            .collect::<hal::Result<_>>()?;
        let cx = Context::with(device, settings, streams, saves);
        if let Some(mode) = self.mode {
            cx.set_mode(mode);
        }
        cx.check_numerics(self.check_numerics.unwrap_or(false));
        if let Some(on) = self.check_indices {
            cx.check_indices(on);
        }
        if let Some(on) = self.enable_exception_dump {
            cx.enable_exception_dump(on);
        }
        match (self.seed, self.deterministic) {
            (Some(seed), _) => cx.set_seed(seed),
            (None, Some(false)) => cx.set_seed(entropy()),
            (None, _) => {}
        }
        Ok(cx)
    }
}

/// The file of prints that an option names.
fn print_file(path: &Path) -> Result<PathBuf> {
    let path = record::environment::path_of_rank(path)?;
    match record::prints::check(&path) {
        Ok(()) => Ok(path),
        Err(error) => {
            let text = format!("print_file_path is {path:?}: {error}");
            Err(Refusal::new(text).help("name a file that can be made").into())
        }
    }
}

/// A number that is another one in every call and process.
fn entropy() -> u64 {
    use std::hash::BuildHasher;
    // The standard library seeds it from the system.
    std::hash::RandomState::new().hash_one(std::process::id())
}
