//! The threads of a process that work on regions.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use thalweg_hal::kit::fork::generation;
use thalweg_hal::kit::lock::{Condvar, Mutex};

/// How long an idle thread looks for work before it sleeps.
const SPIN: Duration = Duration::from_micros(100);

/// How many threads one wakes: a call of the system for each would keep the caller of a region from its work for as long as many pieces
/// take, where there are many cores. Each thread that comes wakes as many again.
const FAN: usize = 2;

struct Region<'a> {
    body: &'a (dyn Fn(usize) + Sync),
    count: usize,
    priority: i32,
    // Pieces that were taken: by the caller from the first on, by helpers from the last back. So each has its part of memory, and the same
    // one from region to region, as far as they come in time.
    taken: AtomicUsize,
    of_helpers: AtomicUsize,
    // Threads inside, the caller not among them. Grows under the list's lock only.
    helpers: AtomicUsize,
}

impl Region<'_> {
    /// Takes pieces while there are any and `stays` holds; `next` has their numbers.
    fn work(&self, mut stays: impl FnMut() -> bool, mut next: impl FnMut() -> usize) {
        while stays() {
            if self.taken.fetch_add(1, Ordering::Relaxed) >= self.count {
                return;
            }
            (self.body)(next());
        }
    }

    /// The number of a piece that a helper has taken: the last that no helper has.
    fn last_left(&self) -> usize {
        self.count - 1 - self.of_helpers.fetch_add(1, Ordering::Relaxed)
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
    spawned: usize,
}

/// The threads of one process.
pub(super) struct Crew {
    // The process that they belong to, and what a child of it goes on with.
    generation: u64,
    next: OnceLock<Box<Crew>>,
    state: Mutex<State>,
    wake: Condvar,
    // Threads that sleep; changes under the lock only.
    sleeping: AtomicUsize,
    posted: AtomicUsize,
    threads: AtomicUsize,
    // Threads at work on regions: callers, but for those inside another region, and helpers.
    busy: AtomicUsize,
    failed: AtomicBool,
}

impl Crew {
    pub(super) fn new(threads: usize) -> Crew {
        Crew {
            generation: generation(),
            next: OnceLock::new(),
            state: Mutex::default(),
            wake: Condvar::new(),
            sleeping: AtomicUsize::new(0),
            posted: AtomicUsize::new(0),
            threads: AtomicUsize::new(threads),
            busy: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
        }
    }

    /// Whether its threads are those of this process, which the number of forks names.
    pub(super) fn is_of(&self, generation: u64) -> bool {
        self.generation == generation
    }

    /// The threads of a child of this process.
    pub(super) fn after_fork(&self) -> &Crew {
        self.next.get_or_init(|| Box::new(Crew::new(self.threads())))
    }

    pub(super) fn threads(&self) -> usize {
        self.threads.load(Ordering::Relaxed)
    }

    pub(super) fn set_threads(&self, threads: usize) {
        self.threads.store(threads, Ordering::Relaxed);
    }

    /// Threads at work on regions.
    #[cfg(test)]
    pub(super) fn busy(&self) -> usize {
        self.busy.load(Ordering::SeqCst)
    }

    /// As [`Pool::run`](super::Pool::run).
    pub(super) fn run(&'static self, count: usize, priority: i32, body: &(dyn Fn(usize) + Sync)) {
        let helpers = self.threads().min(count) - usize::from(count > 0);
        if helpers == 0 {
            (0..count).for_each(body);
            return;
        }
        let region = Region {
            body,
            count,
            priority,
            taken: AtomicUsize::new(0),
            of_helpers: AtomicUsize::new(0),
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
        let (mut free, mut own) = (0_u32, 0);
        let stays = || {
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
        };
        region.work(stays, || {
            own += 1;
            own - 1
        });
        drop(withdraw);
    }

    /// Makes one thread look for a region that wants helpers.
    #[cold]
    fn call(&self) {
        let _state = self.state.lock();
        self.posted.fetch_add(1, Ordering::Release);
        self.rouse(1);
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
        self.rouse(free.min(FAN));
    }

    /// Wakes so many of the threads that sleep.
    fn rouse(&self, most: usize) {
        for _ in 0..most.min(self.sleeping.load(Ordering::Relaxed)) {
            self.wake.notify_one();
        }
    }

    /// Wakes threads for a region that this one has come to, while it has pieces and there are cores for more. Without the lock: what
    /// comes between a thread's last look and its sleep is missed, and then the threads that are awake do the work.
    fn pass_on(&self, region: &Region<'_>) {
        let left = region.count.saturating_sub(region.taken.load(Ordering::Relaxed));
        let free = self.threads().saturating_sub(self.busy.load(Ordering::Relaxed));
        self.rouse(FAN.min(left.saturating_sub(1)).min(free));
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
            region.taken.load(Ordering::Relaxed) < region.count
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
                        self.pass_on(&*region);
                        (*region).work(stays, || (*region).last_left());
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
                    self.sleeping.fetch_add(1, Ordering::Relaxed);
                    self.wake.wait(&mut state);
                    self.sleeping.fetch_sub(1, Ordering::Relaxed);
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
