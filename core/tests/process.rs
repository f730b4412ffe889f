//! What a process does around tensors: it forks, threads end, it ends itself.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::cell::RefCell;
use std::panic::AssertUnwindSafe;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use thalweg::{Context, DType, Mode, Stream, Tensor, jit};

const CHILD: &str = "THALWEG_TEST_PROCESS";

/// Runs the rest of a test in a process of its own, with four threads in the pool; `true` there.
fn apart(test: &str) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .env("THALWEG_THREADS", "4")
        .output()
        .unwrap();
    let (out, said) = (
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr),
    );
    assert!(run.status.success(), "{}: {out}{said}", run.status);
    assert!(!said.contains("panicked"), "{said}");
    false
}

/// Ops of every kind, long enough for all threads.
fn work(cx: &Context) -> Vec<f32> {
    let x = Tensor::arange(0, 1 << 20, 1, cx).cast(DType::F32) * 1e-6;
    let y = x.exp().reshape([1024, 1024]);
    let product = y.matmul(&y).sum_axes(0);
    let sorted = x.index(..5000).sin().sort(0, false);
    let traced = jit(|x: &Tensor| (x * 2.0).sum());
    let mut results = product.to_vec::<f32>().unwrap();
    results.extend(sorted.to_vec::<f32>().unwrap());
    results.push(traced.call(&x).item().unwrap());
    let side = Stream::new(cx.device()).unwrap();
    let on = side.enter();
    results.push((&x + 1.0).sum().item().unwrap());
    drop(on);
    results
}

/// Forks; what the child's `body` says, or `None` where it hangs or crashes.
fn in_child(body: impl FnOnce() -> bool) -> Option<bool> {
    // SAFETY: this process has no other thread that is inside a call; the child ends without destructors.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let good = std::panic::catch_unwind(AssertUnwindSafe(body)).unwrap_or(false);
        // SAFETY: ends the process.
        unsafe { libc::_exit(if good { 10 } else { 11 }) };
    }
    let begun = Instant::now();
    let mut status = 0;
    while begun.elapsed() < Duration::from_secs(60) {
        // SAFETY: the child is this process's own; `status` lives through the call.
        if unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == child {
            return match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
                (true, 10) => Some(true),
                (true, 11) => Some(false),
                _ => None,
            };
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    // SAFETY: the child is this process's own.
    unsafe { libc::kill(child, libc::SIGKILL) };
    None
}

#[test]
fn a_forked_child_computes() {
    if !apart("a_forked_child_computes") {
        return;
    }
    let cx = Context::new("cpu").unwrap();
    let before = work(&cx);
    let kept = Tensor::arange(0, 1 << 20, 1, &cx) + 1;
    cx.device().synchronize().unwrap();
    for _ in 0..6 {
        let child = in_child(|| {
            let grandchild = in_child(|| work(&cx) == before);
            work(&cx) == before
                && kept.sum().item::<i64>().unwrap() == (1 << 19) * ((1 << 20) + 1)
                && grandchild == Some(true)
        });
        assert_eq!(child, Some(true));
    }
    assert_eq!(work(&cx), before);
}

#[test]
fn work_that_was_under_way_is_an_error_in_the_child_and_not_in_the_parent() {
    if !apart("work_that_was_under_way_is_an_error_in_the_child_and_not_in_the_parent") {
        return;
    }
    let cx = Context::new("cpu").unwrap();
    let side = Stream::new(cx.device()).unwrap();
    let (release, gate) = std::sync::mpsc::channel::<()>();
    side.callback(move || {
        gate.recv().ok();
    })
    .unwrap();
    let child = in_child(|| {
        let error = side.synchronize().unwrap_err().to_string();
        let told = error.contains("was under way when the process forked");
        told && side.synchronize().is_ok() && !work(&cx).is_empty()
    });
    assert_eq!(child, Some(true));
    release.send(()).unwrap();
    side.synchronize().unwrap();
}

static LATE_ONES: AtomicUsize = AtomicUsize::new(0);

/// Computes when its thread ends.
struct Late(Context, f32);

impl Drop for Late {
    fn drop(&mut self) {
        let results = work(&self.0);
        assert!(
            results.last() == Some(&self.1),
            "other bits at the end of a thread"
        );
        let bad = Tensor::ones([2], DType::F32, &self.0) + Tensor::ones([3], DType::F32, &self.0);
        assert!(bad.shape().is_err());
        LATE_ONES.fetch_add(1, Ordering::SeqCst);
    }
}

thread_local! {
    static LATE: RefCell<Option<Late>> = const { RefCell::new(None) };
}

#[test]
fn thread_local_destructors_compute() {
    if !apart("thread_local_destructors_compute") {
        return;
    }
    for mode in [Mode::Eager, Mode::Graph] {
        // Its destructor comes after those of all thread-local values that ops use, or before them.
        for first in [true, false] {
            let thread = std::thread::spawn(move || {
                let cx = Context::builder()
                    .device_target("cpu")
                    .mode(mode)
                    .build()
                    .unwrap();
                if first {
                    LATE.set(None);
                }
                let last = *work(&cx).last().unwrap();
                LATE.set(Some(Late(cx, last)));
            });
            thread.join().unwrap();
        }
        // A thread that computes for the first time at its end.
        let cx = Context::builder()
            .device_target("cpu")
            .mode(mode)
            .build()
            .unwrap();
        let last = *work(&cx).last().unwrap();
        std::thread::spawn(move || LATE.set(Some(Late(cx, last))))
            .join()
            .unwrap();
    }
}

extern "C" fn at_exit() {
    let cx = Context::new("cpu").unwrap();
    let sum = work(&cx).len() as f32 + Tensor::ones([7], DType::F32, &cx).sum().item::<f32>().unwrap();
    // SAFETY: ends the process with what the test looks for.
    unsafe { libc::_exit(if sum == 6033.0 { 42 } else { 1 }) };
}

#[test]
fn an_exit_handler_computes() {
    if std::env::var_os(CHILD).is_some() {
        work(&Context::new("cpu").unwrap());
        // SAFETY: the function takes nothing and does not unwind.
        unsafe { libc::atexit(at_exit) };
        std::process::exit(0);
    }
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "an_exit_handler_computes", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    assert_eq!(
        run.status.code(),
        Some(42),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
}
