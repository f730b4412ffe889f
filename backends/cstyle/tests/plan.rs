//! How launches are spread.
#![allow(clippy::unwrap_used, reason = "a test")]

#[allow(dead_code, reason = "the corpus serves the compile gate too")]
mod corpus;

use corpus::{Fill, attention, parameters, with_attention, with_convolution, with_launch};
use thalweg_cstyle::{Dialect, MatmulConfig, Plan, Routine, Target};
use thalweg_hal::ir::Kernel;
use thalweg_hal::library::{Conv, LibraryOp, Matmul, Sort};
use thalweg_hal::{DType, Status};

fn plan(text: &str, extents: &[u64], fill: Fill) -> Plan {
    let kernel = Kernel::parse(text).unwrap();
    let routine = Routine::new(&kernel, &Target::CUDA).unwrap();
    with_launch(&kernel, extents, fill, |launch| routine.plan(launch)).unwrap()
}

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
        dtype: DType::F32,
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

/// A sort's plan and its source.
fn sort(dtype: DType, descending: bool, extents: &[u64]) -> thalweg_hal::Result<(Plan, String)> {
    let op = Sort {
        batch: extents.len() as u32 - 1,
        descending,
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

/// An attention's plan on a target.
fn attend(target: &Target, dtype: DType, extents: [u64; 6], step: i64) -> Plan {
    let op = attention(dtype, true, None);
    let config = MatmulConfig::candidates(target)[0];
    let routine = Routine::library(&LibraryOp::Attention(op.clone()), config, target).unwrap();
    with_attention(&op, &extents, step, |launch| routine.plan(launch)).unwrap()
}

const CPU: Target = Target {
    dialect: Dialect::OpenClC,
    cpu: true,
    ..Target::CUDA
};

/// Lengths and widths are words up to the width of a tile; wider values take several tiles.
#[test]
fn attentions_share_programs() {
    let variant = |extents| attend(&Target::CUDA, DType::F32, extents, 1).variant;
    let plain = variant([2, 3, 200, 64, 300, 64]);
    assert_eq!(plain, variant([1, 9, 77, 33, 2000, 5]));
    assert_ne!(plain, variant([2, 3, 200, 128, 300, 64]));
    assert_ne!(plain, variant([2, 3, 1, 64, 300, 64]));
    assert_ne!(
        plain,
        attend(&Target::CUDA, DType::F32, [2, 3, 200, 64, 300, 64], 2).variant
    );
    assert_eq!(
        variant([2, 3, 200, 128, 300, 64]),
        variant([2, 3, 200, 1000, 300, 999])
    );
    let groups = |target: &Target, extents| attend(target, DType::F32, extents, 1).passes[0].grid.groups;
    assert_eq!(groups(&Target::CUDA, [2, 3, 130, 64, 300, 64]), 6 * 3);
    assert_eq!(groups(&Target::CUDA, [2, 3, 130, 300, 300, 64]), 6 * 3 * 3);
    assert_eq!(groups(&Target::CUDA, [2, 3, 16, 64, 300, 64]), 6);
    // A processor's work-items share what there is, at least eight queries each.
    assert_eq!(groups(&CPU, [1, 1, 128, 64, 300, 64]), 16);
    assert_eq!(groups(&CPU, [1, 1, 65_536, 64, 300, 64]), 256);
}

#[test]
fn attention_of_nothing() {
    for target in [Target::CUDA, CPU] {
        for nothing in [[0, 3, 4, 5, 6, 7], [2, 3, 0, 5, 6, 7], [2, 3, 4, 0, 6, 7]] {
            assert!(attend(&target, DType::F32, nothing, 1).passes.is_empty());
        }
        // Without keys zeros are stored.
        for some in [[2, 3, 4, 5, 0, 7], [2, 3, 4, 5, 6, 0]] {
            assert_eq!(attend(&target, DType::F32, some, 1).passes.len(), 1);
        }
    }
}

/// Local memory stays below what every device has, and a group's work-items cover a tile, whatever their number.
#[test]
fn tiles_of_attention_fit() {
    for (max_group_size, queries) in [(64, 1), (64, 200), (128, 200), (300, 1), (1024, 200)] {
        let target = Target {
            max_group_size,
            ..Target::CUDA
        };
        for (dtype, size) in [(DType::F32, 4), (DType::F64, 8)] {
            let op = attention(dtype, true, None);
            let config = MatmulConfig::candidates(&target)[0];
            let routine = Routine::library(&LibraryOp::Attention(op), config, &target).unwrap();
            let plan = attend(&target, dtype, [1, 1, queries, 128, 300, 64], 1);
            let text = routine.render(&plan.variant).unwrap().text;
            let of = |name: &str| -> u64 {
                let (_, rest) = text.split_once(&format!("TL_{name} = ")).unwrap();
                rest.split([',', ' ']).next().unwrap().parse().unwrap()
            };
            let [rows, keys] = ["ROWS", "KEYS"].map(of);
            let elements = rows * (keys + 1) + of("LEFT") + of("RIGHT") + 3 * rows;
            assert!(
                elements * size <= 32 * 1024,
                "{elements} elements of {size} bytes"
            );
            let group = u64::from(plan.passes[0].grid.group_size);
            assert!(group <= u64::from(max_group_size));
            assert_eq!(of("ACROSS") * of("DOWN"), group);
            assert_eq!(of("SHARE") * rows, group);
            assert_eq!(of("OWN_ROWS") * of("DOWN"), rows);
            assert_eq!(of("OWN_KEYS") * of("ACROSS"), keys);
        }
    }
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

#[test]
fn configurations_that_do_not_fit() {
    let op = Matmul {
        batch: 0,
        dtype: DType::F32,
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
