//! The fork-join pool that every backend of the process shares.
//!
//! A region's caller works on it too, and never waits for a thread to wake: threads that come late find nothing left. Threads
//! spin for a while after their last piece, because a wake-up costs a hundred times as much as a hand-off to a thread
//! that is awake.
//!
//! Callers and helpers together are no more than the pool's threads where that is possible: with as many callers as threads,
//! such as two streams on two cores, each works alone, and none waits for a helper that has no core to run on. A thread that
//! finds callers enough sleeps at once, as its spinning would take a core from them; a caller that sees a free place from one
//! piece to the next calls it.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use thalweg_hal::kit::fork::generation;
use thalweg_hal::kit::lock::{Condvar, Mutex};
use thalweg_hal::settings::{Setting, Values, Way};

/// Most threads of a pool.
pub const MAX_THREADS: usize = 4096;

/// How long an idle thread looks for work before it sleeps.
const SPIN: Duration = Duration::from_micros(100);

struct Region<'a> {
    body: &'a (dyn Fn(usize) + Sync),
    count: usize,
    priority: i32,
    next: AtomicUsize,
    // Threads inside, the caller not among them. Grows under the list's lock only.
    helpers: AtomicUsize,
}

impl Region<'_> {
    /// Takes pieces while there are any and `stays` holds.
    fn work(&self, mut stays: impl FnMut() -> bool) {
        while stays() {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.count {
                return;
            }
            (self.body)(index);
        }
    }
}

thread_local! {
    /// Whether this thread is at work on a region already.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

// A region on its caller's stack. It is in the list, or has helpers, only while the caller is inside `run`.
struct Entry(*const Region<'static>);

// SAFETY: a region is shared by reference between threads; everything in it is `Sync`.
unsafe impl Send for Entry {}

#[derive(Default)]
struct State {
    regions: Vec<Entry>,
    sleeping: usize,
    spawned: usize,
}

/// A pool of threads for fork-join regions. In the child of a fork it starts threads of its own.
pub struct Pool {
    crew: Crew,
}

/// The threads of one process.
struct Crew {
    // The process that they belong to, and what a child of it goes on with.
    generation: u64,
    next: OnceLock<Box<Crew>>,
    state: Mutex<State>,
    wake: Condvar,
    posted: AtomicUsize,
    threads: AtomicUsize,
    // Threads at work on regions: callers, but for those inside another region, and helpers.
    busy: AtomicUsize,
    failed: AtomicBool,
}

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
        self.crew()
            .threads
            .store(threads.clamp(1, MAX_THREADS), Ordering::Relaxed);
    }

    /// Runs `body(i)` for every `i < count` and returns when all are done. Regions of higher `priority` get free threads
    /// first. `body` must not unwind.
    pub fn run(&'static self, count: usize, priority: i32, body: &(dyn Fn(usize) + Sync)) {
        self.crew().run(count, priority, body);
    }

    /// The threads of this process.
    fn crew(&self) -> &Crew {
        let (mut crew, now) = (&self.crew, generation());
        while crew.generation != now {
            crew = crew.next.get_or_init(|| Box::new(Crew::new(crew.threads())));
        }
        crew
    }
}

impl Crew {
    fn new(threads: usize) -> Crew {
        Crew {
            generation: generation(),
            next: OnceLock::new(),
            state: Mutex::default(),
            wake: Condvar::new(),
            posted: AtomicUsize::new(0),
            threads: AtomicUsize::new(threads),
            busy: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
        }
    }

    fn threads(&self) -> usize {
        self.threads.load(Ordering::Relaxed)
    }

    /// As [`Pool::run`].
    fn run(&'static self, count: usize, priority: i32, body: &(dyn Fn(usize) + Sync)) {
        let helpers = self.threads().min(count) - usize::from(count > 0);
        if helpers == 0 {
            (0..count).for_each(body);
            return;
        }
        let region = Region {
            body,
            count,
            priority,
            next: AtomicUsize::new(0),
            helpers: AtomicUsize::new(0),
        };
        // SAFETY: only the lifetime changes; `Withdraw` takes the entry out and waits for helpers before `region` ends.
        let entry =
            unsafe { std::mem::transmute::<*const Region<'_>, *const Region<'static>>(&raw const region) };
        let outermost = !INSIDE.replace(true);
        let others = match outermost {
            true => self.busy.fetch_add(1, Ordering::Relaxed),
            false => self.busy.load(Ordering::Relaxed).saturating_sub(1),
        };
        self.post(
            entry,
            helpers,
            helpers.min(self.threads().saturating_sub(1 + others)),
        );
        let withdraw = Withdraw {
            crew: self,
            region: entry,
            outermost,
        };
        let mut free = 0_u32;
        region.work(|| {
            let few = region.helpers.load(Ordering::Relaxed) < helpers;
            match few && self.busy.load(Ordering::Relaxed) < self.threads() {
                true => free += 1,
                false => free = 0,
            }
            // Once is nothing: another caller may be between two regions. Who was called needs time to come.
            if free > 1 && free.is_power_of_two() {
                self.call();
            }
            true
        });
        drop(withdraw);
    }

    /// Makes one thread look for a region that wants helpers.
    #[cold]
    fn call(&self) {
        let state = self.state.lock();
        self.posted.fetch_add(1, Ordering::Release);
        if state.sleeping > 0 {
            self.wake.notify_one();
        }
    }

    /// Lists a region that could have `most` helpers, and wakes `free` threads for it.
    fn post(&'static self, region: *const Region<'static>, most: usize, free: usize) {
        let mut state = self.state.lock();
        state.regions.push(Entry(region));
        self.posted.fetch_add(1, Ordering::Release);
        while state.spawned < most && !self.failed.load(Ordering::Relaxed) {
            let name = format!("thalweg-{}", state.spawned + 1);
            match std::thread::Builder::new().name(name).spawn(|| self.serve()) {
                Ok(_) => state.spawned += 1,
                Err(error) => {
                    tracing::warn!(
                        "no thread for the pool, going on with {}: {error}",
                        state.spawned + 1
                    );
                    self.failed.store(true, Ordering::Relaxed);
                }
            }
        }
        for _ in 0..free.min(state.sleeping) {
            self.wake.notify_one();
        }
    }

    /// The region that wants a helper most, entered.
    fn enter(&self, state: &State) -> Option<*const Region<'static>> {
        let limit = self.threads() - 1;
        if self.busy.load(Ordering::Relaxed) > limit {
            return None;
        }
        let wanted = state.regions.iter().map(|entry| entry.0).filter(|&region| {
            // SAFETY: a region in the list is alive.
            let region = unsafe { &*region };
            region.next.load(Ordering::Relaxed) < region.count
                && region.helpers.load(Ordering::Relaxed) < limit
        });
        // SAFETY: as above.
        let region = wanted.max_by_key(|&region| unsafe { (*region).priority })?;
        // SAFETY: as above.
        unsafe { (*region).helpers.fetch_add(1, Ordering::Relaxed) };
        self.busy.fetch_add(1, Ordering::Relaxed);
        Some(region)
    }

    fn serve(&self) {
        INSIDE.set(true);
        // One too many leaves after its piece.
        let stays = || self.busy.load(Ordering::Relaxed) <= self.threads();
        let mut seen = 0;
        let mut since = Instant::now();
        // Whether there were callers enough at the last look.
        let mut spare = false;
        loop {
            let posted = self.posted.load(Ordering::Acquire);
            if posted != seen {
                while let Some(region) = { self.enter(&self.state.lock()) } {
                    // SAFETY: the caller of `run` waits until `helpers` is back to 0.
                    unsafe {
                        (*region).work(stays);
                        self.busy.fetch_sub(1, Ordering::Relaxed);
                        (*region).helpers.fetch_sub(1, Ordering::Release);
                    }
                }
                (seen, since) = (posted, Instant::now());
                spare = self.busy.load(Ordering::Relaxed) >= self.threads();
                continue;
            }
            // A pause takes up to 60 ns, so every one is followed by a look.
            for _ in 0..64 {
                if spare || self.posted.load(Ordering::Acquire) != seen {
                    break;
                }
                std::hint::spin_loop();
            }
            if spare || since.elapsed() > SPIN {
                let mut state = self.state.lock();
                if self.posted.load(Ordering::Acquire) == seen {
                    state.sleeping += 1;
                    self.wake.wait(&mut state);
                    state.sleeping -= 1;
                    spare = false;
                }
            }
        }
    }
}

struct Withdraw {
    crew: &'static Crew,
    region: *const Region<'static>,
    outermost: bool,
}

impl Drop for Withdraw {
    fn drop(&mut self) {
        let crew = self.crew;
        if self.outermost {
            INSIDE.set(false);
        }
        // A piece has forked: the helpers and what they have locked are the parent's.
        if crew.generation != generation() {
            return;
        }
        if self.outermost {
            crew.busy.fetch_sub(1, Ordering::Relaxed);
        }
        let mut state = crew.state.lock();
        state.regions.retain(|entry| entry.0 != self.region);
        drop(state);
        // SAFETY: the region lives until `run` returns.
        let region = unsafe { &*self.region };
        let mut looks = 0_u32;
        while region.helpers.load(Ordering::Acquire) > 0 {
            looks += 1;
            if looks < 10_000 {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn every_piece_runs_once_from_many_callers() {
        let pool: &'static Pool = Box::leak(Box::new(Pool::new(3)));
        std::thread::scope(|scope| {
            for caller in 0..4_usize {
                scope.spawn(move || {
                    for round in 0..500 {
                        let count = (round * 7 + caller) % 40;
                        let hits: Vec<AtomicU64> = (0..count).map(|_| AtomicU64::new(0)).collect();
                        pool.run(count, caller as i32, &|i| {
                            hits[i].fetch_add(1, Ordering::Relaxed);
                        });
                        assert!(hits.iter().all(|hit| hit.load(Ordering::Relaxed) == 1));
                    }
                });
            }
        });
    }

    #[test]
    fn helpers_leave_when_there_are_callers_enough() {
        const THREADS: usize = 4;
        const PIECES: usize = 200;
        let pool: &'static Pool = Box::leak(Box::new(Pool::new(THREADS)));
        pool.run(THREADS, 0, &|_| std::thread::sleep(Duration::from_millis(1)));
        let entered = std::sync::Barrier::new(THREADS);
        // From when every caller is inside its region until the last piece of one of them begins.
        let full = AtomicBool::new(false);
        let helped = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let caller = std::thread::current().id();
                    let first = std::sync::Once::new();
                    pool.run(PIECES, 0, &|piece| {
                        if piece == PIECES - 1 {
                            full.store(false, Ordering::SeqCst);
                        }
                        if std::thread::current().id() == caller {
                            first.call_once(|| {
                                if entered.wait().is_leader() {
                                    full.store(true, Ordering::SeqCst);
                                }
                            });
                        } else if full.load(Ordering::SeqCst) {
                            helped.fetch_add(1, Ordering::SeqCst);
                        }
                        std::thread::sleep(Duration::from_micros(20));
                    });
                });
            }
        });
        // A helper that looked before the last caller came may take one more piece.
        assert!(helped.into_inner() < THREADS);
        assert_eq!(pool.crew().busy.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_helper_comes_when_a_caller_has_left() {
        let pool: &'static Pool = Box::leak(Box::new(Pool::new(2)));
        let (begun, left) = (AtomicBool::new(false), AtomicBool::new(false));
        let helped = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let caller = std::thread::current().id();
                pool.run(100_000, 0, &|_| {
                    begun.store(true, Ordering::SeqCst);
                    if std::thread::current().id() != caller && left.load(Ordering::SeqCst) {
                        helped.store(true, Ordering::SeqCst);
                    }
                    // The rest is nothing once a helper was there.
                    if !helped.load(Ordering::SeqCst) {
                        std::thread::sleep(Duration::from_micros(20));
                    }
                });
            });
            scope.spawn(|| {
                while !begun.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                pool.run(50, 0, &|_| std::thread::sleep(Duration::from_micros(20)));
                left.store(true, Ordering::SeqCst);
            });
        });
        assert!(helped.into_inner());
    }

    #[test]
    fn regions_nest_and_several_threads_take_part() {
        let pool: &'static Pool = Box::leak(Box::new(Pool::new(2)));
        let threads = Mutex::new(std::collections::HashSet::new());
        let total = AtomicU64::new(0);
        pool.run(8, 0, &|_| {
            threads.lock().insert(std::thread::current().id());
            std::thread::sleep(Duration::from_millis(2));
            pool.run(4, 0, &|i| {
                total.fetch_add(i as u64, Ordering::Relaxed);
            });
        });
        assert_eq!(total.into_inner(), 8 * 6);
        assert_eq!(threads.lock().len(), 2);
        pool.set_threads(1);
        let caller = std::thread::current().id();
        pool.run(100, 0, &|_| assert_eq!(std::thread::current().id(), caller));
    }
}
