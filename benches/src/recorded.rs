//! Whether the times that a profile has of kernels are those of a clock around the calls.

use crate::cases::Case;
use crate::median;
use crate::overhead::Round;
use std::time::Duration;
use thalweg::hal::{Device, ProfileKind, ProfileKinds, Result};

/// Time of a turn with a profile and of one without.
const BUDGET: Duration = Duration::from_millis(60);
/// Pairs of turns.
const PAIRS: usize = 7;
/// Records that a turn may leave.
const ROOM: u64 = 1 << 18;

/// A case, as both clocks have it: medians over pairs of turns, in milliseconds.
pub struct Times {
    /// Of the case.
    pub name: String,
    /// From the call to its end, as criterion measures, while no profile runs.
    pub called: f64,
    /// Of its kernels, as a profile has them.
    pub recorded: f64,
    /// The median of the pairs' ratios, recorded to called.
    pub ratio: f64,
}

/// Measures a case, each run of which submits the same kernels.
///
/// # Errors
/// Those of the calls.
///
/// # Panics
/// When a run fails.
#[expect(clippy::expect_used, reason = "a bench that fails ends")]
pub fn times(device: &Device, case: &mut Case) -> Result<Times> {
    let (mut called, mut recorded, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        let without = median(BUDGET, || (case.run)().expect("a case runs")).as_secs_f64() * 1e3;
        let profile = device.profile_start(ProfileKinds::NONE.with(ProfileKind::Launch), ROOM)?;
        let mut runs = 0;
        median(BUDGET, || {
            runs += 1;
            (case.run)().expect("a case runs");
        });
        let mut records = Vec::new();
        profile.drain(&mut records)?;
        let of_a_run = (records.len() / runs).max(1);
        let sums = records.chunks_exact(of_a_run).map(|run| {
            let times = run
                .iter()
                .map(|record| record.end_ns.saturating_sub(record.start_ns));
            times.sum::<u64>() as f64 * 1e-6
        });
        let with = Round::Median.of(sums.collect());
        called.push(without);
        recorded.push(with);
        ratios.push(with / without);
    }
    Ok(Times {
        name: case.name.clone(),
        called: Round::Median.of(called),
        recorded: Round::Median.of(recorded),
        ratio: Round::Median.of(ratios),
    })
}
