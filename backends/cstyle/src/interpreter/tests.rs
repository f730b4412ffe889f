//! The program that interprets kernels.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::corpus::golden::OPENCL_CPU;
use crate::corpus::{Fill, with_launch};
use crate::{Routine, Target};
use thalweg_hal::ir::Kernel;

const ADD: &str = "kernel add outer=1 inner=0
p0 in f32 row contiguous
p1 in f16 row contiguous
p2 out f32 row contiguous
n0 = load p0
n1 = load p1
n2 = cast f32 n1
n3 = add n0 n2
n4 = store p2 n3";

const SOFTMAX: &str = "kernel softmax outer=1 inner=1
p0 in f32 element contiguous
p1 out f32 element contiguous
n0 = load p0
n1 = max n0
n2 = sub n0 n1
n3 = exp n2
n4 = sum n3
n5 = div n3 n4
n6 = store p1 n5";

const ARGMAX: &str = "kernel argmax outer=1 inner=2
p0 in i32 element strided
p1 out i64 row contiguous
n0 = load p0
n1 = argmax n0
n2 = store p1 n1";

/// A kernel is words for the program that interprets it; the program is the same for every kernel.
#[test]
fn interpreted() {
    let mut sources = Vec::new();
    for (text, extents) in [
        (ADD, &[100_000_u64][..]),
        (SOFTMAX, &[3, 70]),
        (ARGMAX, &[9, 8, 7]),
    ] {
        let kernel = Kernel::parse(text).unwrap();
        let routine = Routine::interpreted(&kernel, &OPENCL_CPU).unwrap();
        let plan = with_launch(&kernel, extents, Fill::Shifted, |launch| routine.plan(launch)).unwrap();
        assert!(plan.variant.is_interpreted() && plan.passes.len() == 1);
        let source = routine.render(&plan.variant).unwrap();
        assert!(source.pointers > kernel.params.len() && !source.words_by_value);
        sources.push(source);
        assert!(
            !Routine::interpreted(&kernel, &Target::CUDA).is_ok_and(|routine| {
                let launched = with_launch(&kernel, extents, Fill::Plain, |launch| routine.plan(launch));
                launched.unwrap().variant.is_interpreted()
            })
        );
    }
    assert!(sources.iter().all(|source| *source == sources[0]));
}
