//! Programs of scans and scatters, and how their launches are spread.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::corpus::golden::{TARGETS, compare};
use crate::corpus::with_strides;
use crate::{MatmulConfig, Plan, Routine, Source, Target};
use thalweg_hal::DType;
use thalweg_hal::ir::ReduceOp;
use thalweg_hal::library::{LibraryOp, Scan, Scatter};

fn scan(rows: u64, n: u64, target: &Target) -> (Plan, Source) {
    let op = LibraryOp::Scan(Scan {
        batch: 1,
        op: ReduceOp::Sum,
        exclusive: true,
        dtype: DType::F16,
        accumulate: DType::F32,
        output: DType::F32,
    });
    let step = n as i64;
    run(&op, &[rows, n, n], &[&[step, 0, 1], &[step, 1]], target)
}

fn run(op: &LibraryOp, extents: &[u64], strides: &[&[i64]], target: &Target) -> (Plan, Source) {
    let routine = Routine::library(op, MatmulConfig::candidates(target)[0], target).unwrap();
    let plan = with_strides(extents, strides, |launch| routine.plan(launch)).unwrap();
    let source = routine.render(&plan.variant).unwrap();
    assert_eq!(source.entries.len(), plan.passes.len());
    (plan, source)
}

/// Many rows, and few long ones, which are cut.
#[test]
fn scans() {
    for (name, rows, n) in [("scan", 1000, 500), ("scan_split", 3, 1 << 20)] {
        compare("axis", name, |target| scan(rows, n, target).1);
    }
}

/// Updates of slices, of which the last wins or all are summed.
#[test]
fn scatters() {
    for (name, combine) in [("scatter", None), ("scatter_sum", Some(ReduceOp::Sum))] {
        let op = LibraryOp::Scatter(Scatter {
            batch: 1,
            combine,
            dtype: DType::F32,
            accumulate: DType::F32,
            index: DType::I32,
        });
        let strides: [&[i64]; 4] = [&[70, 1], &[30, 0], &[0, 0, 1], &[70, 1]];
        compare("axis", name, |target| run(&op, &[5, 70, 30], &strides, target).1);
    }
}

/// A piece's sum is kept for the second pass; few elements are not worth one.
#[test]
fn long_rows_are_cut() {
    for target in TARGETS {
        let (plan, _) = scan(3, 1 << 20, &target);
        assert_eq!((plan.passes.len(), plan.scratch_bytes), (2, 8 * 3 * 64));
        for (rows, n) in [(3, 1000), (300, 1 << 20)] {
            let (plan, _) = scan(rows, n, &target);
            assert_eq!((plan.passes.len(), plan.scratch_bytes), (1, 0));
        }
    }
}
