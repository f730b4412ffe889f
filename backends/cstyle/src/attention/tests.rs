//! Programs of attentions, and how their launches are spread.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::corpus::golden::compare;
use crate::corpus::{attention, with_attention};
use crate::{Dialect, MatmulConfig, Plan, Routine, Target};
use thalweg_hal::DType;
use thalweg_hal::library::LibraryOp;

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
        compare("attention", name, |target| {
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

/// An attention's plan on a target, and its source.
fn written(target: &Target, dtype: DType, extents: [u64; 6], step: i64) -> (Plan, String) {
    let op = attention(dtype, true, None);
    let config = MatmulConfig::candidates(target)[0];
    let routine = Routine::library(&LibraryOp::Attention(op.clone()), config, target).unwrap();
    let plan = with_attention(&op, &extents, step, |launch| routine.plan(launch)).unwrap();
    let text = routine.render(&plan.variant).unwrap().text;
    (plan, text)
}

fn attend(target: &Target, dtype: DType, extents: [u64; 6], step: i64) -> Plan {
    written(target, dtype, extents, step).0
}

/// A number that a source is compiled for.
fn constant(text: &str, name: &str) -> Option<u64> {
    let (_, rest) = text.split_once(&format!("TL_{name} = "))?;
    rest.split([',', ' ']).next()?.parse().ok()
}

const CPU: Target = Target {
    dialect: Dialect::OpenClC,
    cpu: true,
    ..Target::CUDA
};

/// Lengths and widths are words up to the width of a tile; wider values take several tiles.
#[test]
fn attentions_share_programs() {
    let variant = |extents| attend(&Target::CUDA, DType::F64, extents, 1).variant;
    let plain = variant([2, 3, 200, 64, 300, 64]);
    assert_eq!(plain, variant([1, 9, 77, 33, 2000, 5]));
    assert_ne!(plain, variant([2, 3, 200, 128, 300, 64]));
    assert_ne!(plain, variant([2, 3, 1, 64, 300, 64]));
    assert_ne!(
        plain,
        attend(&Target::CUDA, DType::F64, [2, 3, 200, 64, 300, 64], 2).variant
    );
    assert_eq!(
        variant([2, 3, 200, 128, 300, 64]),
        variant([2, 3, 200, 1000, 300, 999])
    );
    let groups = |target: &Target, extents| attend(target, DType::F64, extents, 1).passes[0].grid.groups;
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
            let plan = attend(&target, dtype, [1, 1, queries, 128, 300, 200], 1);
            let text = routine.render(&plan.variant).unwrap().text;
            let of = |name: &str| constant(&text, name).unwrap();
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

/// Matrix instructions multiply on CUDA, whatever the strides; f64 and deep heads have the other routine.
#[test]
fn attentions_by_matrix_instructions() {
    let copies = |dtype, depth, width, step| {
        let (_, text) = written(&Target::CUDA, dtype, [2, 3, 200, width, 300, depth], step);
        ["K_COPIES", "V_COPIES"].map(|name| constant(&text, name))
    };
    for dtype in [DType::F16, DType::BF16] {
        assert_eq!(copies(dtype, 64, 64, 1), [Some(1), Some(1)]);
        assert_eq!(copies(dtype, 64, 64, 2), [Some(0), Some(0)]);
        // Rows that do not begin on 16 bytes.
        assert_eq!(copies(dtype, 60, 72, 1), [Some(0), Some(1)]);
        assert_eq!(copies(dtype, 128, 300, 1), [Some(1), Some(0)]);
        assert_eq!(copies(dtype, 129, 64, 1), [None, None]);
        let few = attend(&Target::CUDA, dtype, [2, 3, 16, 64, 300, 64], 1);
        assert_eq!(
            few.variant,
            attend(&Target::CUDA, dtype, [2, 3, 1, 64, 300, 64], 1).variant
        );
        let small = Target {
            max_group_size: 64,
            ..Target::CUDA
        };
        for target in [small, CPU] {
            let (_, text) = written(&target, dtype, [2, 3, 200, 64, 300, 64], 1);
            assert_eq!(constant(&text, "K_COPIES"), None);
        }
    }
    assert_eq!(copies(DType::F32, 60, 66, 1), [Some(1), Some(0)]);
    assert_eq!(copies(DType::F64, 64, 64, 1), [None, None]);
    let groups = |extents| {
        attend(&Target::CUDA, DType::BF16, extents, 1).passes[0]
            .grid
            .groups
    };
    assert_eq!(groups([2, 3, 130, 64, 300, 64]), 6 * 2);
    assert_eq!(groups([2, 3, 64, 64, 300, 64]), 6);
    assert_eq!(groups([2, 3, 130, 300, 300, 64]), 6 * 3 * 3);
}

/// Blocks fit what a group has without asking for more, and the group's warps cover a tile.
#[test]
fn tiles_of_matrix_instructions_fit() {
    let lengths = [1, 16, 33, 64, 72, 96, 128];
    let all = { lengths.into_iter() }.flat_map(|depth| lengths.map(|width| (depth, width)));
    for (depth, width) in all.chain([(64, 1000)]) {
        for (dtype, size) in [(DType::F16, 2), (DType::F32, 4)] {
            let (plan, text) = written(&Target::CUDA, dtype, [2, 3, 200, width, 300, depth], 1);
            let of = |name: &str| constant(&text, name).unwrap();
            let [k_pitch, v_pitch] = ["K_PITCH", "V_PITCH"].map(of);
            assert!(of("STAGES") * of("KEYS") * (k_pitch + v_pitch) * size <= 48 << 10);
            for (pitch, length, name) in [(k_pitch, depth, "DEPTH"), (v_pitch, width.min(128), "COLUMNS")] {
                assert!(pitch * size / 16 % 2 == 1 && of(name) % 16 == 0);
                assert!(pitch >= of(name) && of(name) >= length);
            }
            let warps = u64::from(plan.passes[0].grid.group_size) / 32;
            assert_eq!(warps * of("BANDS") * 16, of("ROWS"));
            assert_eq!(of("COLUMNS") / 8 % of("TOGETHER"), 0);
        }
    }
}
