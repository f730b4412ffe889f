//! What the benches share: cases that call a backend through the ABI, and the machine's limits probed beside them.

pub mod cases;
pub mod kernels;
pub mod limits;
pub mod overhead;

use std::time::{Duration, Instant};

/// The median of the times of `run`, called for at least `budget` and nine times, after two calls that do not count.
pub fn median(budget: Duration, mut run: impl FnMut()) -> Duration {
    run();
    run();
    let start = Instant::now();
    let mut times = Vec::new();
    while times.len() < 9 || start.elapsed() < budget {
        let begin = Instant::now();
        run();
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    times[times.len() / 2]
}
