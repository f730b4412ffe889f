//! Programs of sorts, and how their launches are spread.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::corpus::golden::compare;
use crate::corpus::{Fill, parameters, with_launch};
use crate::{MatmulConfig, Plan, Routine, Target};
use thalweg_hal::ir::Kernel;
use thalweg_hal::library::{LibraryOp, Sort};
use thalweg_hal::{DType, Status};

/// Rows that fit local memory, and longer ones, whose passes share three entries.
#[test]
fn sorts() {
    let op = Sort {
        batch: 1,
        descending: true,
        indices: true,
        part: false,
        dtype: DType::F16,
    };
    let form = parameters(&op);
    for (name, extents, passes) in [("sort_short", [300, 70], 1), ("sort_long", [3, 50_000], 6)] {
        compare("sort", name, |target| {
            let config = MatmulConfig::candidates(target)[0];
            let routine = Routine::library(&LibraryOp::Sort(op.clone()), config, target).unwrap();
            let plan = with_launch(&form, &extents, Fill::Plain, |launch| routine.plan(launch)).unwrap();
            assert_eq!(plan.passes.len(), passes);
            let source = routine.render(&plan.variant).unwrap();
            let words = format!("i64 at[{}]; }} tl_words", plan.words.len());
            assert!(source.text.contains(&words), "{words}");
            assert_eq!(plan.scratch_bytes > 0, source.text.contains("char *scratch"));
            source
        });
    }
}

/// A sort's plan and its source.
fn sort(dtype: DType, descending: bool, extents: &[u64]) -> thalweg_hal::Result<(Plan, String)> {
    let op = Sort {
        batch: extents.len() as u32 - 1,
        descending,
        indices: true,
        part: false,
        dtype,
    };
    let form = parameters(&op);
    let config = MatmulConfig::candidates(&Target::CUDA)[0];
    let routine = Routine::library(&LibraryOp::Sort(op), config, &Target::CUDA)?;
    let plan = with_launch(&form, extents, Fill::Plain, |launch| routine.plan(launch))?;
    let source = routine.render(&plan.variant)?;
    assert!(plan.passes.iter().all(|pass| pass.entry < source.entries.len()));
    Ok((plan, source.text))
}

#[test]
fn long_rows_are_sorted_digit_by_digit() {
    for (dtype, rounds) in [
        (DType::Bool, 2),
        (DType::F16, 2),
        (DType::F32, 4),
        (DType::I64, 8),
    ] {
        let (plan, _) = sort(dtype, false, &[3, 100_000]).unwrap();
        assert_eq!(plan.passes.len(), 3 * rounds);
        for (index, pass) in plan.passes.iter().enumerate() {
            assert_eq!((pass.entry, pass.round), (index % 3, Some(index as u64 / 3)));
            let words = pass.words(&plan.words);
            assert_eq!(words.last().copied(), pass.round);
            assert_eq!(words[..words.len() - 1], plan.words[..plan.words.len() - 1]);
        }
        // The elements and their indices once, and the counts.
        let elements = (dtype.size() as u64 + 4) * 300_000;
        assert!(
            (elements..elements + elements / 2).contains(&plan.scratch_bytes),
            "{plan:?}"
        );
    }
}

#[test]
fn short_rows_are_sorted_by_one_group() {
    let (plan, _) = sort(DType::F32, false, &[1000, 2048]).unwrap();
    assert_eq!((plan.passes.len(), plan.scratch_bytes), (1, 0));
    assert_eq!(plan.passes[0].grid.groups, 1000);
    // As many rows as fit.
    let (plan, _) = sort(DType::F32, false, &[1000, 100]).unwrap();
    assert_eq!(plan.passes[0].grid.groups, 50);
    for nothing in [[0, 5], [5, 0], [0, 5000]] {
        assert!(sort(DType::F32, false, &nothing).unwrap().0.passes.is_empty());
    }
}

/// Directions, signs and lengths are words.
#[test]
fn sorts_share_programs() {
    let text = |dtype, descending, n| sort(dtype, descending, &[2, n]).unwrap().1;
    for n in [100, 10_000] {
        assert_eq!(text(DType::F32, false, n), text(DType::F32, true, n));
        assert_eq!(text(DType::I32, false, n), text(DType::U32, true, n + 1));
        assert_ne!(text(DType::I32, false, n), text(DType::F32, false, n));
    }
}

#[test]
fn rows_of_indices_beyond_32_bits() {
    assert!(sort(DType::U8, false, &[(1 << 32) - 1]).is_ok());
    let error = sort(DType::U8, false, &[1 << 32]).unwrap_err();
    assert_eq!(error.status, Status::Unsupported);
    assert!(error.message.contains("4294967296 elements"), "{error}");
}

/// A kernel's routine does not write the program of a sort.
#[test]
fn variants_belong_to_their_routine() {
    let (plan, _) = sort(DType::F32, false, &[3, 100]).unwrap();
    let text = "kernel copy outer=1 inner=0\np0 in f32 row contiguous\np1 out f32 row contiguous\n\
                n0 = load p0\nn1 = store p1 n0";
    let routine = Routine::new(&Kernel::parse(text).unwrap(), &Target::CUDA).unwrap();
    let error = routine.render(&plan.variant).unwrap_err();
    assert_eq!(error.status, Status::Internal);
    assert!(error.message.starts_with("copy: "), "{error}");
}
