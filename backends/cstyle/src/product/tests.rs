//! Programs of products, and which launches share them.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::corpus::golden::{OPENCL_GPU, body, compare};
use crate::corpus::{with_convolution, with_strides};
use crate::variant::Step;
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
        fast: false,
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

fn product_of(dtype: DType) -> Matmul {
    Matmul {
        batch: 0,
        operands: [dtype; 2],
        accumulate: DType::F32,
        output: dtype,
        epilogue: None,
    }
}

/// Packs are copied where rows or columns begin on 16 bytes. How operands lie is no reason for other tiles, so an element is
/// summed alike.
#[test]
fn halves_are_copied_in_packs_where_they_lie_so() {
    let config = MatmulConfig::candidates(&Target::CUDA)[0];
    let routine = Routine::matmul(&product_of(DType::BF16), config, &Target::CUDA).unwrap();
    let with = |extents: [u64; 3], strides: [[i64; 3]; 2]| {
        let [left, right] = &strides;
        let all = [&left[..], right, &[extents[1] as i64, 1]];
        let plan = with_strides(&extents, &all, |launch| routine.plan(launch)).unwrap();
        let source = routine.render(&plan.variant).unwrap();
        (body(&source).to_owned(), plan.passes[0].grid.groups)
    };
    let copies = |text: &str| text.contains("tl_copy_16");
    let extents = [2048, 1024, 256];
    let (text, groups) = with(extents, [[256, 0, 1], [0, 1, 1024]]);
    assert!(text.contains("tl_mma_bf16(") && copies(&text) && !text.contains("kept_"));
    for strides in [
        [[1, 0, 2048], [0, 256, 1]],
        [[264, 0, 1], [0, 1, 1032]],
        [[257, 0, 1], [0, 1, 1025]],
    ] {
        let (text, other) = with(extents, strides);
        assert_eq!(other, groups);
        assert_eq!(copies(&text), strides[0][0] != 257);
    }
    assert!(!copies(&with([2048, 1024, 250], [[250, 0, 1], [0, 250, 1]]).0));
}

/// Small results have more groups.
#[test]
fn tiles_by_extents() {
    let groups = |dtype, [m, n]: [u64; 2]| {
        let config = MatmulConfig::candidates(&Target::CUDA)[0];
        let routine = Routine::matmul(&product_of(dtype), config, &Target::CUDA).unwrap();
        let strides = [&[64, 0, 1][..], &[0, 1, n as i64], &[n as i64, 1]];
        let plan = with_strides(&[m, n, 64], &strides, |launch| routine.plan(launch)).unwrap();
        plan.passes[0].grid.groups
    };
    for dtype in [DType::F16, DType::F32] {
        assert_eq!(groups(dtype, [2048, 1152]), 16 * 9);
        assert_eq!(groups(dtype, [2048, 1024]), 32 * 16);
        assert_eq!(groups(dtype, [1024, 1024]), 16 * 16);
        assert_eq!(groups(dtype, [512, 512]), 8 * 8);
        assert_eq!(groups(dtype, [64, 32768]), 256);
        assert_eq!(groups(dtype, [32768, 64]), 256);
        assert_eq!(groups(dtype, [64, 16384]), 256);
    }
}

/// Long sums of few tiles are cut until three tiles of 64 × 64 are there for each of 132 multiprocessors.
#[test]
fn pieces_by_tiles() {
    let pieces = |target: &Target, [m, n, k]: [u64; 3]| {
        let config = MatmulConfig::candidates(target)[0];
        let routine = Routine::matmul(&product_of(DType::F32), config, target).unwrap();
        let (depth, width) = (k as i64, n as i64);
        let strides = [&[depth, 0, 1][..], &[0, 1, width], &[width, 1]];
        let plan = with_strides(&[m, n, k], &strides, |launch| routine.plan(launch)).unwrap();
        match plan.passes.len() {
            1 => 1,
            _ => plan.scratch_bytes / (4 * m * n),
        }
    };
    for (extents, ours) in [
        ([512, 392, 4608], 7),
        ([256, 1568, 2304], 3),
        ([128, 6272, 1152], 2),
        ([64, 25088, 576], 1),
        // A piece has 256 points, and a sum no more pieces than this.
        ([512, 392, 600], 2),
        ([512, 392, 500], 1),
        ([64, 64, 1 << 20], 128),
    ] {
        assert_eq!(pieces(&Target::CUDA, extents), ours, "{extents:?}");
    }
    assert_eq!(pieces(&OPENCL_GPU, [512, 392, 4608]), 1);
}

/// Tensor cores take halves with sums of f32; tiles ahead without them f32.
#[test]
fn others_than_halves_are_tiled() {
    let text = |operands, accumulate, output| {
        let op = Matmul {
            operands,
            accumulate,
            output,
            ..product_of(DType::F32)
        };
        let config = MatmulConfig::candidates(&Target::CUDA)[0];
        let routine = Routine::matmul(&op, config, &Target::CUDA).unwrap();
        let strides = [&[64, 0, 1][..], &[0, 1, 64], &[64, 1]];
        let plan = with_strides(&[64, 64, 64], &strides, |launch| routine.plan(launch)).unwrap();
        body(&routine.render(&plan.variant).unwrap()).to_owned()
    };
    for (operands, accumulate, output) in [
        ([DType::I8; 2], DType::I32, DType::I32),
        ([DType::F64; 2], DType::F64, DType::F64),
        ([DType::F16, DType::BF16], DType::F32, DType::F32),
        ([DType::F8E4M3; 2], DType::F32, DType::F32),
    ] {
        let text = text(operands, accumulate, output);
        assert!(
            !text.contains("tl_mma_") && !text.contains("tl_placed"),
            "{operands:?}"
        );
    }
    let text = text([DType::F32; 2], DType::F32, DType::F32);
    assert!(!text.contains("tl_mma_f16(") && text.contains("tl_placed<"));
}

/// Bytes of shared memory that a source declares.
fn shared_bytes(text: &str, index: usize) -> usize {
    let declared = |line: &str| {
        let rest = line.trim().strip_prefix("TL_LOCAL ")?;
        let rest = rest.strip_prefix("__align__(16) ").unwrap_or(rest);
        let (dtype, rest) = rest.split_once(' ')?;
        let (_, count) = rest.strip_suffix("];")?.split_once('[')?;
        let bytes = match dtype {
            "u16" => 2,
            "f32" => 4,
            "idx" => index,
            other => panic!("{other} in {line}"),
        };
        Some(bytes * count.parse::<usize>().unwrap())
    };
    text.lines().filter_map(declared).sum()
}

/// A program gets 48 KB of shared memory without asking: tiles and records of any convolution have room there.
#[test]
fn shared_memory_suffices() {
    let wrap: [fn(Conv) -> LibraryOp; 3] = [
        LibraryOp::Conv,
        LibraryOp::ConvGradInput,
        LibraryOp::ConvGradWeight,
    ];
    let mut most = 0;
    for (of, dtype, last) in wrap
        .into_iter()
        .flat_map(|of| [DType::F16, DType::F32].map(|dtype| (of, dtype)))
        .flat_map(|(of, dtype)| [3, 9].map(|last| (of, dtype, last)))
    {
        let op = of(Conv {
            spatial: 3,
            stride: [2; 3],
            dilation: [1; 3],
            padding: [1; 3],
            operands: [dtype; 2],
            accumulate: DType::F32,
            output: dtype,
            fast: false,
            epilogue: None,
        });
        let extents = [200, 3, 400, 14, 14, 14, 8, 3, 3, last];
        let config = MatmulConfig::candidates(&Target::CUDA)[0];
        let routine = Routine::library(&op, config, &Target::CUDA).unwrap();
        let definition = op.definition().unwrap();
        let plan = with_convolution(&definition, &extents, |launch| routine.plan(launch)).unwrap();
        for (wide, step) in [
            (false, Step::Unit),
            (true, Step::Unit),
            (false, Step::Any),
            (true, Step::Any),
        ] {
            let mut variant = plan.variant.clone();
            variant.wide = wide;
            variant.steps[1] = step;
            let text = routine.render(&variant).unwrap().text;
            let bytes = shared_bytes(&text, if wide { 8 } else { 4 });
            assert!(bytes <= 48 << 10, "{bytes} B: {op:?}, wide {wide}, {step:?}");
            most = most.max(bytes);
        }
    }
    assert!(
        most > 40 << 10,
        "{most} B: the large programs are not among these"
    );
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
        fast: false,
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
