//! What checks cost a step: the same step of the same network without and with them, in turns.

use crate::cases::Case;
use crate::networks;
use std::time::Instant;
use thalweg::Context;

/// Pairs of steps that are measured.
const PAIRS: usize = 200;

/// Networks whose steps are measured.
const NETWORKS: [&str; 3] = ["lenet5_step_b64", "encoder2_step_b8", "words_step_b8"];

/// A check's name, and what turns it on and off.
type Check = (&'static str, fn(&Context, bool));

const CHECKS: [Check; 2] = [
    ("check_indices", Context::check_indices),
    ("check_numerics", Context::check_numerics),
];

/// The cost of a check in a step of a network.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// The network.
    pub network: &'static str,
    /// The check.
    pub check: &'static str,
    /// The least milliseconds of a step without and with the check.
    pub least: [f64; 2],
    /// The median of how many times as long a step takes with the check as the one before it without.
    pub times: f64,
}

/// Measures all of them on the device of `cx`.
///
/// # Errors
/// Those of the ops.
pub fn costs(cx: &Context) -> thalweg::Result<Vec<Cost>> {
    let mut costs = Vec::new();
    for network in NETWORKS {
        for case in &mut networks::cases(cx, |name| name == network)? {
            for (check, set) in CHECKS {
                costs.push(cost(network, case, check, |on| set(cx, on))?);
            }
        }
    }
    Ok(costs)
}

fn cost(
    network: &'static str,
    case: &mut Case,
    check: &'static str,
    set: impl Fn(bool),
) -> thalweg::Result<Cost> {
    let mut step = |on: bool| -> thalweg::Result<f64> {
        set(on);
        let begun = Instant::now();
        (case.run)()?;
        let ms = begun.elapsed().as_secs_f64() * 1e3;
        set(false);
        Ok(ms)
    };
    // The first ones compile.
    for on in [false, true, false, true] {
        step(on)?;
    }
    let (mut least, mut times) = ([f64::INFINITY; 2], Vec::new());
    for _ in 0..PAIRS {
        let pair = [step(false)?, step(true)?];
        for (least, ms) in least.iter_mut().zip(pair) {
            *least = least.min(ms);
        }
        times.push(pair[1] / pair[0]);
    }
    times.sort_unstable_by(f64::total_cmp);
    Ok(Cost {
        network,
        check,
        least,
        times: times[PAIRS / 2],
    })
}
