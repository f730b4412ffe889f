//! Programs of kernels, and how their launches are spread.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::corpus::golden::{OPENCL_GPU, TARGETS, body, compare};
use crate::corpus::{Fill, with_launch};
use crate::{Plan, Routine, Target};
use thalweg_hal::Status;
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

const GATHER: &str = "kernel gather outer=2 inner=0
p0 in bf16 row strided
p1 in i32 row strided
p2 out bf16 row strided
s0 bf16
n0 = load p1
n1 = cast i64 n0
n2 = loadat p0 n1
n3 = scalar s0
n4 = mul n2 n3
n5 = store p2 n4";

const SWISH: &str = "kernel swish outer=1 inner=0
p0 in f16 row contiguous
p1 in bf16 row contiguous
p2 out f16 row contiguous
p3 out bf16 row contiguous
s0 f16
n0 = load p0
n1 = scalar s0
n2 = neg n0
n3 = exp n2
n4 = add n3 n1
n5 = div n0 n4
n6 = load p1
n7 = cast bf16 n5
n8 = max n6 n7
n9 = lt n6 n8
n10 = select n9 n6 n8
n11 = store p2 n5
n12 = store p3 n10";

const TRANSPOSE: &str = "kernel transpose outer=2 inner=0
p0 in f32 row strided
p1 out f32 row contiguous
n0 = load p0
n1 = store p1 n0";

const NOISE: &str = "kernel noise outer=1 inner=0
p0 out u32 row contiguous
s0 u64
n0 = scalar s0
n1 = index 0
n2 = cast u64 n1
n3 = rand n0 n2
n4 = store p0 n3";

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

const SUM_DOWN: &str = "kernel sum_down outer=1 inner=1
p0 in f32 element strided
p1 out f32 row contiguous
n0 = load p0
n1 = sum n0
n2 = store p1 n1";

const COPY: &str = "kernel copy outer=2 inner=0
p0 in f32 row strided
p1 out f32 row strided
n0 = load p0
n1 = store p1 n0";

const SUM: &str = "kernel sum outer=1 inner=1
p0 in f32 element contiguous
p1 out f32 row contiguous
n0 = load p0
n1 = sum n0
n2 = store p1 n1";

fn launch_of(text: &str, extents: &[u64], fill: Fill, target: &Target) -> (Routine, Plan) {
    let kernel = Kernel::parse(text).unwrap();
    let routine = Routine::new(&kernel, target).unwrap();
    let plan = with_launch(&kernel, extents, fill, |launch| routine.plan(launch)).unwrap();
    (routine, plan)
}

fn plan(text: &str, extents: &[u64], fill: Fill) -> Plan {
    let kernel = Kernel::parse(text).unwrap();
    let routine = Routine::new(&kernel, &Target::CUDA).unwrap();
    with_launch(&kernel, extents, fill, |launch| routine.plan(launch)).unwrap()
}

#[test]
fn kernels() {
    let cases: [(&str, &str, &[u64], Fill); 12] = [
        ("map", ADD, &[100_000], Fill::Plain),
        ("map_in_place", ADD, &[100_000], Fill::InPlace),
        ("map_strided", GATHER, &[300, 70], Fill::Shifted),
        ("map_wide", GATHER, &[300, 70], Fill::Huge),
        ("map_halves", SWISH, &[100_000], Fill::Plain),
        ("transpose", TRANSPOSE, &[300, 70], Fill::Shifted),
        ("philox", NOISE, &[1000], Fill::Plain),
        ("rows_short", SOFTMAX, &[1000, 10], Fill::Plain),
        ("rows", SOFTMAX, &[1000, 1024], Fill::Plain),
        ("rows_split", SOFTMAX, &[2, 1 << 20], Fill::Plain),
        ("argmax", ARGMAX, &[100, 30, 40], Fill::Shifted),
        ("columns", SUM_DOWN, &[1000, 400], Fill::Shifted),
    ];
    for (name, text, extents, fill) in cases {
        compare("kernel", name, |target| {
            let (routine, plan) = launch_of(text, extents, fill, target);
            routine.render(&plan.variant).unwrap()
        });
    }
}

/// The struct of the source has as many words as the plan, in every program of the corpus.
#[test]
fn words_fit() {
    for (text, extents) in [
        (ADD, &[100_000_u64][..]),
        (GATHER, &[300, 70]),
        (SOFTMAX, &[2, 1 << 20]),
        (ARGMAX, &[9, 8, 7]),
    ] {
        for target in TARGETS {
            for fill in [Fill::Plain, Fill::Shifted, Fill::InPlace, Fill::Huge] {
                let (routine, plan) = launch_of(text, extents, fill, &target);
                let source = routine.render(&plan.variant).unwrap();
                assert!(source.words_by_value);
                let words = format!("i64 at[{}]; }} tl_words", plan.words.len());
                assert!(
                    source.text.contains(&words),
                    "{words} is not in\n{}",
                    body(&source)
                );
                assert_eq!(source.entries.len(), plan.passes.len());
                assert_eq!(plan.scratch_bytes > 0, source.text.contains("char *scratch"));
                for entry in &source.entries {
                    assert_eq!(source.text.matches(&format!(" {entry}(")).count(), 1, "{entry}");
                }
            }
        }
    }
}

/// More words than the device takes as arguments go through a pointer.
#[test]
fn many_words() {
    let target = Target {
        argument_bytes: 64,
        ..OPENCL_GPU
    };
    let (routine, plan) = launch_of(GATHER, &[300, 70], Fill::Shifted, &target);
    let source = routine.render(&plan.variant).unwrap();
    assert!(!source.words_by_value && source.text.contains("TL_GLOBAL const i64 *words"));
}

#[test]
fn shapes_share_programs() {
    let variant = |extents: &[u64], fill| plan(COPY, extents, fill).variant;
    assert_eq!(variant(&[64, 64], Fill::Plain), variant(&[1000, 4], Fill::Plain));
    // One axis of one index, or strides without gaps, is the same as one axis.
    assert_eq!(variant(&[1, 4096], Fill::Plain), variant(&[64, 64], Fill::Plain));
    assert_ne!(variant(&[64, 64], Fill::Shifted), variant(&[64, 64], Fill::Plain));
    assert_ne!(variant(&[64, 64], Fill::InPlace), variant(&[64, 64], Fill::Plain));
    assert_eq!(
        variant(&[65, 33], Fill::Shifted),
        variant(&[40, 90], Fill::Shifted)
    );
}

#[test]
fn nothing_to_do() {
    assert!(plan(COPY, &[0, 5], Fill::Plain).passes.is_empty());
    assert!(plan(SUM, &[0, 5], Fill::Plain).passes.is_empty());
    // A sum over nothing is still stored.
    assert_eq!(plan(SUM, &[3, 0], Fill::Plain).passes.len(), 1);
}

#[test]
fn long_rows_are_split() {
    assert_eq!(plan(SUM, &[5000, 5000], Fill::Plain).passes.len(), 1);
    let split = plan(SUM, &[1, 10_000_000], Fill::Plain);
    assert_eq!(split.passes.len(), 2);
    assert!(split.passes[0].grid.groups > 500 && split.passes[1].grid.groups == 1);
    assert_eq!(split.scratch_bytes, 8 * split.passes[0].grid.groups);
}

/// A loop's step beyond the end stays within 32 bits where indices do.
#[test]
fn steps_beyond_the_end_do_not_wrap() {
    const LARGEST: u64 = (1 << 31) - (1 << 26);
    let lanes = "kernel copy outer=1 inner=0\np0 in f64 row contiguous\np1 out f64 row contiguous\n\
                 n0 = load p0\nn1 = store p1 n0";
    for plan in [
        plan(COPY, &[1, LARGEST], Fill::Plain),
        plan(COPY, &[1 << 15, (1 << 16) - (1 << 11) - 1], Fill::Shifted),
        plan(lanes, &[LARGEST], Fill::Plain),
        plan(SUM, &[1 << 27, 3], Fill::Plain),
    ] {
        for pass in &plan.passes {
            let step = pass.grid.groups * u64::from(pass.grid.group_size);
            assert!(LARGEST - 1 + step < 1 << 31, "{pass:?} of {:?}", plan.variant);
        }
    }
}

/// Rows stay in registers where their packs fit them, and where a later walk needs what an earlier one had.
#[test]
fn rows_that_are_kept() {
    let keeps = |text: &str, extents: &[u64], fill| {
        let (routine, plan) = launch_of(text, extents, fill, &Target::CUDA);
        let source = routine.render(&plan.variant).unwrap();
        let walks = body(&source).matches("TL_LOAD(").count();
        (body(&source).contains("const f32 n3 = h3[t][v];"), walks)
    };
    for length in [128, 1000, 4096] {
        assert_eq!(
            keeps(SOFTMAX, &[1000, length], Fill::Plain),
            (true, 1),
            "{length}"
        );
    }
    assert_eq!(keeps(SOFTMAX, &[1000, 1024], Fill::InPlace), (true, 1));
    // Too long, no whole packs, rows that do not begin at one.
    assert_eq!(keeps(SOFTMAX, &[1000, 4100], Fill::Plain), (false, 3));
    assert_eq!(keeps(SOFTMAX, &[1000, 1023], Fill::Plain), (false, 0));
    assert!(!keeps(SOFTMAX, &[1000, 10], Fill::Plain).0);
    assert_eq!(keeps(SUM, &[1000, 1024], Fill::Plain), (false, 1));
    // Halves are computed two in a word.
    let halves = "kernel softmax outer=1 inner=1
p0 in f16 element contiguous
p1 out f32 element contiguous
n0 = load p0
n1 = cast f32 n0
n2 = max n1
n3 = sub n1 n2
n4 = exp n3
n5 = sum n4
n6 = div n4 n5
n7 = store p1 n6";
    assert_eq!(keeps(halves, &[1000, 1024], Fill::Plain), (false, 3));
}

#[test]
fn f64_needs_the_device() {
    let kernel = Kernel::parse(&SUM.replace("f32", "f64")).unwrap();
    let target = Target {
        fp64: false,
        ..Target::CUDA
    };
    let error = Routine::new(&kernel, &target).unwrap_err();
    assert_eq!(error.status, Status::Unsupported);
    assert!(error.message.contains("f64"), "{error}");
}
