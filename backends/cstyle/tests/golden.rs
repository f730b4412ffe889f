//! Sources of representative kernels as files: a refactoring must not change them. `THALWEG_GOLDEN=write` writes them.
//!
//! `NAME.cpu.cl` is OpenCL C for a processor. `NAME.gpu` is OpenCL C and CUDA C for GPUs: lines of both, and those of one after
//! `@opencl` or `@cuda`. Every character of every dialect is compared.
#![allow(clippy::unwrap_used, reason = "a test")]

#[allow(dead_code, reason = "the corpus serves the compile gate too")]
mod corpus;

use corpus::dialects::{apart, together};
use corpus::{Fill, attention, parameters, with_attention, with_convolution, with_launch};
use std::path::Path;
use thalweg_cstyle::{Dialect, MatmulConfig, Plan, Routine, Source, Target};
use thalweg_hal::DType;
use thalweg_hal::ir::Kernel;
use thalweg_hal::library::{Conv, LibraryOp, Matmul, Sort};

const OPENCL_GPU: Target = Target {
    dialect: Dialect::OpenClC,
    fp64: true,
    cpu: false,
    max_group_size: 1024,
    argument_bytes: 1024,
};
const OPENCL_CPU: Target = Target {
    cpu: true,
    ..OPENCL_GPU
};
const TARGETS: [Target; 3] = [OPENCL_CPU, OPENCL_GPU, Target::CUDA];

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

fn launch_of(text: &str, extents: &[u64], fill: Fill, target: &Target) -> (Routine, Plan) {
    let kernel = Kernel::parse(text).unwrap();
    let routine = Routine::new(&kernel, target).unwrap();
    let plan = with_launch(&kernel, extents, fill, |launch| routine.plan(launch)).unwrap();
    (routine, plan)
}

/// Without the helpers, which are files of their own.
fn body(source: &Source) -> &str {
    source.text.split_once("/* end of helpers */\n").unwrap().1
}

/// Compares what `render` writes for every target with the files of `name`.
fn compare(name: &str, render: impl Fn(&Target) -> Source) {
    let sources = TARGETS.map(|target| render(&target));
    let [cpu, opencl, cuda] = sources.each_ref().map(body);
    let gpu = together(opencl, cuda);
    assert_eq!(apart(&gpu), [opencl, cuda], "{name}: marks lose something");
    for (file, found) in [(format!("{name}.cpu.cl"), cpu), (format!("{name}.gpu"), &gpu)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden")
            .join(&file);
        if std::env::var_os("THALWEG_GOLDEN").is_some_and(|value| value == "write") {
            std::fs::write(&path, found).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == expected,
            "{file} differs; if that is meant, run the test with THALWEG_GOLDEN=write\n{found}"
        );
    }
}

/// A difference between dialects is declared, whichever has it, and nothing of either is lost.
#[test]
fn dialects_stand_together() {
    let (opencl, cuda) = ("a\nb\nc\n}\n", "a\nx\ny\nc\nz\n}\n");
    let both = "a\n@opencl\nb\n@cuda\nx\ny\n@both\nc\n@cuda\nz\n@both\n}\n";
    assert_eq!(together(opencl, cuda), both);
    assert_eq!(apart(both), [opencl, cuda]);
    assert_eq!(together(opencl, opencl), opencl);
    for other in ["a\nb\nc\n", "a\nb\n}\n", "", "a\nb\nc \n}\n", "a\nb\nc\n}\n}\n"] {
        let text = together(opencl, other);
        assert!(text.contains('@'), "{text}");
        assert_eq!(apart(&text), [opencl, other]);
    }
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
        compare(name, |target| {
            let (routine, plan) = launch_of(text, extents, fill, target);
            routine.render(&plan.variant).unwrap()
        });
    }
}

#[test]
fn products() {
    let epilogue = "kernel bias_relu outer=3 inner=0
p0 in f32 row contiguous
p1 in f32 row strided
p2 out f32 row strided
s0 f32
n0 = load p0
n1 = load p1
n2 = add n0 n1
n3 = scalar s0
n4 = max n2 n3
n5 = store p2 n4";
    let op = Matmul {
        batch: 1,
        dtype: DType::F16,
        accumulate: DType::F32,
        output: DType::F32,
        epilogue: Some(Kernel::parse(epilogue).unwrap()),
    };
    let definition = LibraryOp::Matmul(op.clone()).definition().unwrap();
    compare("matmul", |target| {
        let config = MatmulConfig::candidates(target)[0];
        let routine = Routine::matmul(&op, config, target).unwrap();
        let extents = [2, 65, 70, 80];
        let plan = with_launch(&definition, &extents, Fill::Plain, |launch| routine.plan(launch)).unwrap();
        routine.render(&plan.variant).unwrap()
    });
}

/// A convolution of stride 2 and the gradients of it, in one piece and with sums that are cut.
#[test]
fn convolutions() {
    let op = Conv {
        spatial: 2,
        stride: [2, 1, 0],
        dilation: [1, 3, 0],
        padding: [1, 0, 0],
        dtype: DType::F32,
        accumulate: DType::F32,
        output: DType::F32,
        epilogue: None,
    };
    let cases = [
        ("conv", LibraryOp::Conv(op.clone()), [2, 1, 6, 14, 14, 4, 3, 3]),
        (
            "conv_grad_input",
            LibraryOp::ConvGradInput(op.clone()),
            [2, 1, 4, 28, 28, 6, 3, 3],
        ),
        (
            "conv_grad_weight",
            LibraryOp::ConvGradWeight(op),
            [1, 6, 4, 3, 3, 50, 14, 14],
        ),
    ];
    for (name, op, extents) in cases {
        let definition = op.definition().unwrap();
        compare(name, |target| {
            let config = MatmulConfig::candidates(target)[0];
            let routine = Routine::library(&op, config, target).unwrap();
            let plan = with_convolution(&definition, &extents, |launch| routine.plan(launch)).unwrap();
            assert_eq!(plan.passes.len(), if name == "conv_grad_weight" { 2 } else { 1 });
            routine.render(&plan.variant).unwrap()
        });
    }
}

/// Rows that fit local memory, and longer ones, whose passes share three entries.
#[test]
fn sorts() {
    let op = Sort {
        batch: 1,
        descending: true,
        dtype: DType::F16,
    };
    let form = parameters(&op);
    for (name, extents, passes) in [("sort_short", [300, 70], 1), ("sort_long", [3, 50_000], 6)] {
        compare(name, |target| {
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

/// Many queries, whose blocks of keys end where causality does, and one under a mask that is added.
#[test]
fn attentions() {
    let cases = [
        (
            "attention",
            attention(DType::F16, true, Some(false)),
            [2, 3, 200, 64, 300, 64],
        ),
        (
            "attention_decode",
            attention(DType::F32, false, Some(true)),
            [2, 3, 1, 128, 300, 128],
        ),
    ];
    for (name, op, extents) in cases {
        compare(name, |target| {
            let config = MatmulConfig::candidates(target)[0];
            let routine = Routine::library(&LibraryOp::Attention(op.clone()), config, target).unwrap();
            let plan = with_attention(&op, &extents, 1, |launch| routine.plan(launch)).unwrap();
            assert_eq!((plan.passes.len(), plan.scratch_bytes), (1, 0));
            let source = routine.render(&plan.variant).unwrap();
            let words = format!("i64 at[{}]; }} tl_words", plan.words.len());
            assert!(source.text.contains(&words), "{words}");
            source
        });
    }
}

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
        assert!(plan.variant.is_generic() && plan.passes.len() == 1);
        let source = routine.render(&plan.variant).unwrap();
        assert!(source.pointers > kernel.params.len() && !source.words_by_value);
        sources.push(source);
        assert!(
            !Routine::interpreted(&kernel, &Target::CUDA).is_ok_and(|routine| {
                let launched = with_launch(&kernel, extents, Fill::Plain, |launch| routine.plan(launch));
                launched.unwrap().variant.is_generic()
            })
        );
    }
    assert!(sources.iter().all(|source| *source == sources[0]));
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
