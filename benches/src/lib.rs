//! What the benches share: cases that call a backend through the ABI, and the machine's limits probed beside them.

pub mod cases;
pub mod checks;
pub mod convolutions;
pub mod functions;
pub mod indexed;
pub mod int8;
pub mod kernels;
pub mod layers;
pub mod limits;
pub mod networks;
pub mod overhead;
pub mod pools;
pub mod recorded;
mod resnet;
pub mod tensors;
pub mod watched;
mod zoo;

use std::time::{Duration, Instant};

/// The median of the times of `run`, called for at least `budget` and nine times, after two calls that do not count.
pub fn median(budget: Duration, run: impl FnMut()) -> Duration {
    let times = times(budget, run);
    times[times.len() / 2]
}

/// The least of the times of `run`, called as by [`median`].
pub fn least(budget: Duration, run: impl FnMut()) -> Duration {
    times(budget, run)[0]
}

/// The times of `run` in order, at least nine.
fn times(budget: Duration, mut run: impl FnMut()) -> Vec<Duration> {
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
    times
}
