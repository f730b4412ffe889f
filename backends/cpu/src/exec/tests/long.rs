//! Rows longer than a segment, by loops and as machine code: every reduction, special numbers at borders, random kernels.

use super::super::long::Long;
use super::coded::{REDUCTIONS, distances, greatest, has_code, random_rows};
use super::harness::{Rng, check, random_case};
use super::shapes::{layer_norm, softmax};
use crate::exec::Program;
use crate::isa::Isa;
use crate::loops::SEGMENT;
use thalweg_hal::ir::Access;

const LENGTHS: [usize; 3] = [SEGMENT + 1, 2 * SEGMENT, 7 * SEGMENT + 77];

#[test]
fn every_reduction() {
    let mut rng = Rng(41);
    let mut kernels: Vec<_> = REDUCTIONS.map(distances).into();
    kernels.extend([
        softmax(1, Access::Contiguous),
        layer_norm(),
        greatest(false),
        greatest(true),
    ]);
    for kernel in kernels {
        let program = Program::compile(&kernel, Isa::detect())
            .expect("compiles")
            .generate(Isa::detect());
        let long = program.long(&program.parts[0].part);
        assert_eq!(
            long.is_some_and(Long::is_whole),
            has_code(),
            "{}",
            kernel.to_text()
        );
        for (rows, n) in [1, 2]
            .into_iter()
            .flat_map(|rows| LENGTHS.map(|n| (rows, n as u64)))
        {
            check(&random_case(kernel.clone(), vec![rows, n], &mut rng));
        }
    }
}

/// The greatest, and equals of it, in different segments and at their borders.
#[test]
fn places_in_segments() {
    let n = 4 * SEGMENT - 5;
    let borders = [0, 1, SEGMENT - 1, SEGMENT, 2 * SEGMENT - 1, 3 * SEGMENT, n - 1];
    let mut rng = Rng(42);
    for (first, special) in borders
        .into_iter()
        .flat_map(|b| [9.0, f32::NAN, -9.0].map(|s| (b, s)))
    {
        for computed in [false, true] {
            let mut case = random_case(greatest(computed), vec![1, n as u64], &mut rng);
            case.in_place.clear();
            let mut row: Vec<f32> = (0..n).map(|i| (i % 5) as f32 - 2.0).collect();
            row[first] = special;
            row[borders[rng.below(7) as usize]] = special;
            case.buffers[0].bytes = row.into_iter().flat_map(f32::to_le_bytes).collect();
            if computed {
                case.buffers[1].bytes = 0.5_f32.to_le_bytes().to_vec();
            }
            check(&case);
        }
    }
}

#[test]
fn random_kernels() {
    for seed in 0..16 {
        let mut rng = Rng(1000 + seed);
        let nodes = 2 + rng.below(14);
        let kernel = random_rows(&mut rng, nodes);
        let mut extents = vec![1; kernel.outer as usize];
        extents[0] = 1 + rng.below(2);
        extents.extend(vec![1; kernel.inner as usize - 1]);
        extents.push(LENGTHS[rng.below(3) as usize] as u64);
        check(&random_case(kernel, extents, &mut rng));
    }
}
