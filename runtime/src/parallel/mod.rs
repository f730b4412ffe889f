//! The fork-join pool that every backend of the process shares.
//!
//! A region's caller works on it too, and never waits for a thread to wake: threads that come late find nothing left. Threads
//! spin for a while after their last piece, because a wake-up costs a hundred times as much as a hand-off to a thread
//! that is awake. The caller takes pieces from the first on, and threads that help it from the last back: where every region cuts
//! its work alike, a core finds what it wrote before in its own caches.
//!
//! Callers and helpers together are no more than the pool's threads where that is possible: with as many callers as threads,
//! such as two streams on two cores, each works alone, and none waits for a helper that has no core to run on. A thread that
//! finds callers enough sleeps at once, as its spinning would take a core from them; a caller that sees a free place from one
//! piece to the next calls it.

mod crew;
#[cfg(test)]
mod tests;

use crew::Crew;
use std::sync::OnceLock;
use thalweg_hal::kit::fork::generation;
use thalweg_hal::settings::{Setting, Values, Way};

/// Most threads of a pool.
pub const MAX_THREADS: usize = 4096;

/// Most threads that work on a CPU.
pub const THREADS: Setting = Setting {
    key: "threads",
    variable: "THALWEG_THREADS",
    way: Way::Option,
    values: Values::Range("a whole number from 1"),
    default: "one for each core that the process may use",
    about: "Most threads that work on a CPU, the calling one included. It holds for all contexts of the process: the first \
            context that sets it decides, and another number later is an error.",
    read_by: "the process",
};

/// What [`THREADS`] was called before; it is refused where it can be, and reported where not.
pub const FORMER_THREADS: &str = "THALWEG_NUM_THREADS";

/// A pool of threads for fork-join regions. In the child of a fork it starts threads of its own.
pub struct Pool {
    crew: Crew,
}

impl Pool {
    /// A pool that uses `threads` threads at most, the callers among them. Threads start with the first region.
    pub fn new(threads: usize) -> Pool {
        Pool {
            crew: Crew::new(threads.clamp(1, MAX_THREADS)),
        }
    }

    /// The pool of this process. Its size is [`THREADS`] if that is a positive number, or else the number of cores that the process
    /// may use.
    pub fn global() -> &'static Pool {
        static POOL: OnceLock<Pool> = OnceLock::new();
        POOL.get_or_init(|| {
            if std::env::var_os(FORMER_THREADS).is_some() {
                tracing::warn!("{FORMER_THREADS} is not read; set {}", THREADS.variable);
            }
            let asked = THREADS.from_env();
            let number = asked
                .as_deref()
                .and_then(|text| text.parse().ok())
                .filter(|&n| n > 0);
            if let (Some(text), None) = (&asked, number) {
                tracing::warn!(
                    "{} is {text:?}, not a positive number; every core is used",
                    THREADS.variable
                );
            }
            Pool::new(number.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)))
        })
    }

    /// Most threads that a region uses.
    pub fn threads(&self) -> usize {
        self.crew().threads()
    }

    /// Changes the number of threads for later regions; at least 1, at most [`MAX_THREADS`].
    pub fn set_threads(&self, threads: usize) {
        self.crew().set_threads(threads.clamp(1, MAX_THREADS));
    }

    /// Runs `body(i)` for every `i < count` and returns when all are done. Regions of higher `priority` get free threads
    /// first. `body` must not unwind.
    pub fn run(&'static self, count: usize, priority: i32, body: &(dyn Fn(usize) + Sync)) {
        self.crew().run(count, priority, body);
    }

    /// The threads of this process.
    fn crew(&self) -> &Crew {
        let (mut crew, now) = (&self.crew, generation());
        while !crew.is_of(now) {
            crew = crew.after_fork();
        }
        crew
    }
}

/// A program's own threads, which its backends can use in place of [`Pool::global`].
pub trait ForkJoin: Send + Sync + 'static {
    /// Most threads that a region uses, the caller among them; at least 1.
    fn threads(&self) -> usize;

    /// Runs `body(i)` once for every `i < count`, on any threads, and returns when all are done. `body` does not unwind. A region may
    /// begin inside a piece of another one. Where several regions want threads, those of higher `priority` come first.
    fn run(&self, count: usize, priority: i32, body: &(dyn Fn(usize) + Sync));
}

static LENT: OnceLock<Box<dyn ForkJoin>> = OnceLock::new();

/// Makes all backends of the process work on the program's own threads, so that two pools do not compete for the cores. Results do not
/// depend on who runs them: no bit follows from the number of threads.
///
/// # Errors
/// Gives `pool` back where one was lent before.
///
/// ```
/// use thalweg_runtime::parallel::{self, ForkJoin};
///
/// /// Two threads for each region, started anew: the shortest pool there is.
/// struct Pair;
///
/// impl ForkJoin for Pair {
///     fn threads(&self) -> usize {
///         2
///     }
///     fn run(&self, count: usize, _priority: i32, body: &(dyn Fn(usize) + Sync)) {
///         std::thread::scope(|scope| {
///             let half = scope.spawn(|| (count / 2..count).for_each(body));
///             (0..count / 2).for_each(body);
///             half.join().is_ok()
///         });
///     }
/// }
///
/// assert!(parallel::lend(Pair).is_ok());
/// assert_eq!(parallel::lent().map(ForkJoin::threads), Some(2));
/// ```
pub fn lend<P: ForkJoin>(pool: P) -> Result<(), Box<dyn ForkJoin>> {
    LENT.set(Box::new(pool))
}

/// The pool that was lent, if one was.
pub fn lent() -> Option<&'static dyn ForkJoin> {
    LENT.get().map(|pool| &**pool)
}
