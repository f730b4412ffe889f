//! Programs of products, and which launches share them.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::corpus::golden::compare;
use crate::corpus::{with_convolution, with_strides};
use crate::{Dialect, MatmulConfig, Routine, Target};
use thalweg_hal::ir::Kernel;
use thalweg_hal::library::{Conv, LibraryOp, Matmul};
use thalweg_hal::{DType, Status};

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
        operands: [DType::F16; 2],
        accumulate: DType::F32,
        output: DType::F32,
        epilogue: Some(Kernel::parse(epilogue).unwrap()),
    };
    // Operands, the bias and the result.
    let strides = [
        &[5200, 80, 0, 1][..],
        &[5600, 0, 1, 70],
        &[0, 0, 1],
        &[4550, 70, 1],
    ];
    compare("product", "matmul", |target| {
        let config = MatmulConfig::candidates(target)[0];
        let routine = Routine::matmul(&op, config, target).unwrap();
        let plan = with_strides(&[2, 65, 70, 80], &strides, |launch| routine.plan(launch)).unwrap();
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
        operands: [DType::F32; 2],
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
        compare("product", name, |target| {
            let config = MatmulConfig::candidates(target)[0];
            let routine = Routine::library(&op, config, target).unwrap();
            let plan = with_convolution(&definition, &extents, |launch| routine.plan(launch)).unwrap();
            assert_eq!(plan.passes.len(), if name == "conv_grad_weight" { 2 } else { 1 });
            routine.render(&plan.variant).unwrap()
        });
    }
}

/// Strides, dilations and paddings are words: one program serves convolutions of every layer.
#[test]
fn convolutions_share_programs() {
    let text = |op: LibraryOp, extents: &[u64]| {
        let config = MatmulConfig::candidates(&Target::CUDA)[0];
        let routine = Routine::library(&op, config, &Target::CUDA).unwrap();
        let definition = op.definition().unwrap();
        let plan = with_convolution(&definition, extents, |launch| routine.plan(launch)).unwrap();
        routine.render(&plan.variant).unwrap().text
    };
    let conv = |stride: i64, dilation: i64, padding: i64| Conv {
        spatial: 2,
        stride: [stride, stride, 0],
        dilation: [dilation, 1, 0],
        padding: [padding, 1, 0],
        operands: [DType::F32; 2],
        accumulate: DType::F32,
        output: DType::F32,
        epilogue: None,
    };
    let wrap: [fn(Conv) -> LibraryOp; 3] = [
        LibraryOp::Conv,
        LibraryOp::ConvGradInput,
        LibraryOp::ConvGradWeight,
    ];
    for of in wrap {
        let extents = [2, 3, 4, 14, 14, 8, 3, 3];
        assert_eq!(
            text(of(conv(2, 1, 1)), &extents),
            text(of(conv(3, 2, 0)), &extents)
        );
    }
}

#[test]
fn configurations_that_do_not_fit() {
    let op = Matmul {
        batch: 0,
        operands: [DType::F32; 2],
        accumulate: DType::F32,
        output: DType::F32,
        epilogue: None,
    };
    let tiled = |item_m| MatmulConfig::Tiled {
        m: 64,
        n: 64,
        k: 16,
        item_m,
        item_n: 4,
    };
    assert!(Routine::matmul(&op, tiled(4), &Target::CUDA).is_ok());
    for bad in [0, 3, 128] {
        let error = Routine::matmul(&op, tiled(bad), &Target::CUDA).unwrap_err();
        assert_eq!(error.status, Status::InvalidArgument);
    }
    let small = Target {
        max_group_size: 64,
        ..Target::CUDA
    };
    let candidates = MatmulConfig::candidates(&small);
    assert!(!candidates.is_empty() && !candidates.contains(&tiled(4)));
    let cpu = Target {
        dialect: Dialect::OpenClC,
        cpu: true,
        ..Target::CUDA
    };
    assert!(matches!(
        MatmulConfig::candidates(&cpu)[0],
        MatmulConfig::Panel { .. }
    ));
}
