//! Random kernels on random launches.

use super::harness::{Rng, check, random_case};
use thalweg_hal::ir::arbitrary::{RandomKernel, random_kernel};

fn fuzz(seeds: std::ops::Range<u64>, options: &RandomKernel, extents: impl Fn(&mut Rng, usize) -> u64) {
    for seed in seeds {
        let mut rng = Rng(seed);
        let kernel = random_kernel(&mut || rng.next(), options);
        let rank = (kernel.outer + kernel.inner) as usize;
        let extents: Vec<u64> = (0..rank).map(|axis| extents(&mut rng, axis)).collect();
        check(&random_case(kernel, extents, &mut rng));
    }
}

#[test]
fn small_extents() {
    fuzz(0..1500, &RandomKernel::default(), |rng, _| rng.below(6));
}

#[test]
fn extents_around_vectors_and_blocks() {
    let options = RandomKernel {
        max_outer: 1,
        max_inner: 1,
        max_nodes: 16,
        ..RandomKernel::default()
    };
    fuzz(2000..2150, &options, |rng, _| {
        [1, 15, 33, 64, 70, 130, 257][rng.below(7) as usize]
    });
}

#[test]
fn large_extents() {
    let options = RandomKernel {
        max_outer: 2,
        max_inner: 0,
        max_nodes: 12,
        ..RandomKernel::default()
    };
    fuzz(3000..3040, &options, |rng, axis| {
        if axis == 0 {
            rng.below(40)
        } else {
            500 + rng.below(700)
        }
    });
}
