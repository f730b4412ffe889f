use super::*;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use thalweg_hal::kit::lock::Mutex;

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

/// The caller has pieces from the first on, a helper those from the last back, and they meet.
#[test]
fn pieces_go_from_both_ends() {
    const PIECES: usize = 40;
    let pool: &'static Pool = Box::leak(Box::new(Pool::new(2)));
    let caller = std::thread::current().id();
    let (mut both, mut rounds) = (0, 0);
    while both < 3 && rounds < 1000 {
        let of: [Mutex<Vec<usize>>; 2] = Default::default();
        pool.run(PIECES, 0, &|piece| {
            let helps = std::thread::current().id() != caller;
            of[usize::from(helps)].lock().push(piece);
            std::thread::sleep(Duration::from_micros(20));
        });
        let [own, helped] = of.each_ref().map(|list| std::mem::take(&mut *list.lock()));
        assert_eq!(own, (0..own.len()).collect::<Vec<_>>());
        assert_eq!(helped, (own.len()..PIECES).rev().collect::<Vec<_>>());
        both += usize::from(!helped.is_empty());
        rounds += 1;
    }
    assert!(both > 0, "no helper came in {rounds} regions");
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
                let begun = AtomicUsize::new(0);
                pool.run(PIECES, 0, &|_| {
                    if begun.fetch_add(1, Ordering::SeqCst) == PIECES - 1 {
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
    assert_eq!(pool.crew().busy(), 0);
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

#[test]
fn all_threads_come_although_each_wakes_few() {
    const THREADS: usize = 9;
    let pool: &'static Pool = Box::leak(Box::new(Pool::new(THREADS)));
    for _ in 0..3 {
        let seen = Mutex::new(std::collections::HashSet::new());
        pool.run(THREADS, 0, &|_| {
            seen.lock().insert(std::thread::current().id());
            // Nobody has a second piece before all have their first.
            let begun = std::time::Instant::now();
            while seen.lock().len() < THREADS && begun.elapsed() < Duration::from_secs(20) {
                std::thread::sleep(Duration::from_micros(50));
            }
        });
        assert_eq!(seen.lock().len(), THREADS);
        // All sleep again.
        std::thread::sleep(Duration::from_millis(20));
    }
}
