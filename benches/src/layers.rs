//! What a layer costs: the same calls without and with it, in turns.

use crate::networks;
use crate::overhead::{self, CALLS, Round};
use std::time::Instant;
use thalweg::Context;
use thalweg::hal::{Device, Runtime};
use thalweg::loader::{LoaderOptions, Registry};

/// Rounds of each, whose least counts.
const ROUNDS: usize = 5;
/// Steps of a round.
const STEPS: usize = 20;

/// Nanoseconds without and with the layer.
pub type Pair = [f64; 2];

/// The costs of calls under the layer.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// A launch of an empty kernel.
    pub launch: Pair,
    /// A launch of `a + b` on one element.
    pub add: Pair,
    /// One kernel of a prebuilt graph.
    pub graph: Pair,
    /// An allocation of 512 bytes and its end.
    pub alloc: Pair,
    /// A compiled training step of LeNet-5 on 64 images.
    pub step: Pair,
}

/// Measures on `device` and on the same one under the layer `name`.
///
/// # Errors
/// Those of the calls.
pub fn costs(name: &str, target: &str, device: &Device) -> thalweg::Result<Costs> {
    let options = LoaderOptions {
        layers: vec![name.into()],
        ..LoaderOptions::default()
    };
    let under = Runtime::new(Registry::new(options)).device(target)?;
    let devices = [device, &under];
    let paired = |cost: &dyn Fn(&Device) -> thalweg::hal::Result<f64>| -> thalweg::Result<Pair> {
        let mut least = [f64::INFINITY; 2];
        for _ in 0..ROUNDS {
            for (device, least) in devices.iter().zip(&mut least) {
                *least = least.min(cost(device)?);
            }
        }
        Ok(least)
    };
    Ok(Costs {
        launch: paired(&|device| Round::Median.nanoseconds(CALLS, overhead::launch(device)?))?,
        add: paired(&|device| Round::Median.nanoseconds(CALLS, overhead::launch_add(device)?))?,
        graph: paired(&|device| overhead::node(device, Round::Median))?,
        alloc: paired(&|device| Round::Median.nanoseconds(CALLS, overhead::alloc(device, 512)?))?,
        step: steps(devices)?,
    })
}

fn steps(devices: [&Device; 2]) -> thalweg::Result<Pair> {
    let mut least = [f64::INFINITY; 2];
    let mut cases = Vec::new();
    for device in devices {
        let cx = Context::on(device.clone());
        cases.push(networks::cases(&cx, |name| name == "lenet5_step_b64")?);
    }
    for round in 0..ROUNDS {
        for (case, least) in cases.iter_mut().flatten().zip(&mut least) {
            let begun = Instant::now();
            for _ in 0..STEPS {
                (case.run)()?;
            }
            // The first round compiles.
            if round > 0 {
                *least = least.min(begun.elapsed().as_nanos() as f64 / STEPS as f64);
            }
        }
    }
    Ok(least)
}
