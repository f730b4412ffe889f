//! Attention, as one op and as the steps that it is lowered to.

mod problem;

use super::axis::open;
use super::stays;
use crate::kit::{Case, Check, Stop};
use crate::rig::run::{Argument, Job};
use crate::rig::values::{Random, from_bytes, from_float};
use crate::rig::{Device, Subject};
use crate::{check, fail};
use problem::{Kind, Layout, Mask, Problem, Share, Tensor, Values, accumulator};
use thalweg_hal::DType;
use thalweg_hal::library::LibraryOp;
use thalweg_hal::tables::Capability;

const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

/// Batch, then queries, keys, depth and width.
type Shape = (&'static [u64], [u64; 4]);

const PLAIN: &[Shape] = &[
    (&[], [1, 1, 1, 1]),
    (&[2], [5, 7, 3, 9]),
    (&[2, 3], [1, 77, 16, 16]),
    (&[3], [64, 64, 64, 64]),
    (&[1], [130, 300, 64, 64]),
];
const LONG: &[Shape] = &[(&[2], [130, 600, 64, 40]), (&[1], [257, 515, 24, 64])];
const WIDE: &[Shape] = &[
    (&[1], [33, 70, 128, 128]),
    (&[1], [20, 90, 256, 256]),
    (&[2], [3, 66, 300, 129]),
    (&[1], [70, 70, 3, 270]),
];
const EMPTY: &[Shape] = &[
    (&[2], [3, 0, 4, 5]),
    (&[2], [0, 3, 4, 5]),
    (&[2], [70, 65, 0, 5]),
    (&[2], [3, 3, 4, 0]),
    (&[0], [3, 3, 4, 5]),
    (&[2, 0], [3, 3, 4, 5]),
    (&[1], [70, 0, 64, 64]),
];
const SMALL: &[Shape] = &[(&[2], [5, 7, 3, 9]), (&[1, 2], [70, 66, 8, 17])];

type Way = fn(&Device, &Problem) -> Result<Vec<u8>, Stop>;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name: String, kinds: Vec<Kind>, shapes: &'static [Shape], way: Way| {
        let dtype = kinds.first().map_or(DType::F32, |kind| kind.dtype);
        cases.push(Case::new(
            "library",
            format!("attention.{name}"),
            move |subject| {
                let device = open(subject, dtype)?;
                for &kind in &kinds {
                    for (seed, shape) in (0..).zip(shapes) {
                        attend(&device, kind, shape, seed, way)?;
                    }
                }
                Ok(())
            },
        ));
    };
    let masks = |plain: Kind| -> Vec<Kind> {
        let all = [(false, Mask::Bool), (false, Mask::Added)].into_iter();
        let all = all.chain([Mask::None, Mask::Bool, Mask::Added].map(|mask| (true, mask)));
        all.map(|(causal, mask)| Kind {
            causal,
            mask,
            ..plain
        })
        .collect()
    };
    for dtype in FLOATS {
        let plain = Kind::of(dtype);
        add(format!("{dtype}"), vec![plain], PLAIN, by_op);
        add(format!("{dtype}.masks"), masks(plain), SMALL, by_op);
        add(format!("{dtype}.wide"), vec![plain], WIDE, by_op);
        let some = masks(plain).into_iter().chain([plain]).collect();
        add(format!("{dtype}.lowered"), some, SMALL, by_steps);
        let causal = Kind {
            causal: true,
            ..plain
        };
        add(format!("{dtype}.long"), vec![plain, causal], LONG, by_op);
        add(format!("{dtype}.empty"), vec![plain, causal], EMPTY, by_op);
        // Keys and queries that are opposite, and that do not matter.
        let scaled = [-1.0, 0.0].map(|factor| Kind { factor, ..plain });
        let scaled = scaled.into_iter().chain(scaled.map(|kind| Kind {
            mask: Mask::Added,
            ..kind
        }));
        add(format!("{dtype}.scales"), scaled.collect(), SMALL, by_op);
        for (name, values, masks) in [
            ("hidden", Values::Hidden, vec![Mask::Bool, Mask::Added]),
            ("nan", Values::Nan, vec![Mask::Bool, Mask::None]),
            ("infinite", Values::Infinite, vec![Mask::None]),
        ] {
            let kind = |mask| Kind {
                values,
                mask,
                ..plain
            };
            let mut kinds: Vec<Kind> = masks.into_iter().map(kind).collect();
            if values == Values::Nan {
                kinds.push(Kind { values, ..causal });
            }
            add(format!("{dtype}.{name}"), kinds, SMALL, by_op);
        }
    }
    let plain = Kind::of(DType::F32);
    let laid = |layout| Kind { layout, ..plain };
    const HEADS: &[Shape] = &[(&[2, 3], [9, 70, 5, 8]), (&[2, 2], [65, 40, 33, 12])];
    add(
        "f32.positions".into(),
        vec![laid(Layout::Positions)],
        HEADS,
        by_op,
    );
    for dtype in [DType::F32, DType::F16] {
        // Several seeds of one shape.
        const SHAPE: Shape = (&[2, 3], [9, 33, 5, 8]);
        const SCATTERED: &[Shape] = &[SHAPE; 8];
        let kind = Kind {
            dtype,
            layout: Layout::Random,
            mask: Mask::Added,
            ..plain
        };
        add(format!("{dtype}.scattered"), vec![kind], SCATTERED, by_op);
    }
    let shared = |share, mask, causal| Kind {
        share,
        mask,
        causal,
        ..plain
    };
    let all = vec![
        shared(Share::Heads, Mask::None, true),
        shared(Share::Queries, Mask::Bool, false),
        shared(Share::Queries, Mask::Added, true),
        shared(Share::Batch, Mask::Bool, false),
        shared(Share::Batch, Mask::Added, false),
    ];
    add("f32.shared".into(), all, HEADS, by_op);
    let holding = |values, mask| Kind {
        values,
        mask,
        ..plain
    };
    let hidden = vec![
        holding(Values::Hidden, Mask::Bool),
        holding(Values::Hidden, Mask::Added),
    ];
    add("f32.hidden.lowered".into(), hidden, SMALL, by_steps);
    for dtype in [DType::F32, DType::BF16] {
        let huge = Kind {
            dtype,
            values: Values::Huge,
            ..plain
        };
        add(format!("{dtype}.huge"), vec![huge], SMALL, by_op);
    }
    for dtype in FLOATS {
        let case = move |subject: &Subject| {
            let device = open(subject, dtype)?;
            let shape: Shape = (&[2], [70, 130, 64, 40]);
            let problem = Problem::new(Kind::of(dtype), &shape, 2);
            let found = by_op(&device, &problem)?;
            let spread = problem.spread();
            check!(
                by_op(&device, &spread)? == found,
                "other bits where operands are spread in memory"
            );
            Ok(())
        };
        cases.push(Case::new("library", format!("attention.{dtype}.spread"), case));
    }
    cases.push(Case::new(
        "library",
        "attention.same_bits_every_time",
        |subject| {
            let device = open(subject, DType::F32)?;
            device.need(Capability::Deterministic)?;
            let shape: Shape = (&[3], [200, 300, 64, 64]);
            let problem = Problem::new(Kind::of(DType::F32), &shape, 1);
            stays(&device, &problem.job(), device.compile_library(&problem.op())?)
        },
    ));
    cases
}

/// The op itself.
fn by_op(device: &Device, problem: &Problem) -> Result<Vec<u8>, Stop> {
    let kernel = device.compile_library(&problem.op())?;
    let found = problem.job().run_compiled(device, kernel)?;
    Ok(found.into_iter().next_back().unwrap_or_default())
}

/// The three steps that it is lowered to; the products by their definition where there is no op.
fn by_steps(device: &Device, problem: &Problem) -> Result<Vec<u8>, Stop> {
    let steps = problem.attention().lowered()?;
    let [queries, keys, depth, width] = problem.lengths;
    let dtype = problem.kind.dtype;
    let accumulate = accumulator(dtype);
    let mut random = Random::new(0);
    let mut between = |dtype: DType| {
        Tensor::new(
            dtype,
            &problem.extents(&[queries, keys]),
            Layout::Rows,
            &[],
            &mut random,
        )
    };
    let (mut scores, mut weights) = (between(accumulate), between(dtype));
    let room = |tensor: &Tensor| {
        Argument::room(tensor.dtype, tensor.values.len()).strided(tensor.dtype, 0, &tensor.strides)
    };
    let multiply = |op: &LibraryOp, extents: Vec<u64>, arguments: Vec<Argument>| {
        let job = Job {
            kernel: op.definition()?,
            extents,
            arguments,
            scalars: Vec::new(),
        };
        let mut found = match device.compile_library(op) {
            Ok(kernel) => job.run_compiled(device, kernel)?,
            Err(Stop::Unsupported(_)) => job.run(device)?,
            Err(stop) => return Err(stop),
        };
        Ok::<_, Stop>(found.remove(2))
    };
    let [q, k, v, mask @ ..] = &problem.operands[..] else {
        fail!("too few operands")
    };
    let found = multiply(
        &steps.scores,
        problem.extents(&[queries, keys, depth]),
        vec![q.argument(3, [0, 2]), k.argument(3, [1, 2]), room(&scores)],
    )?;
    scores.values = from_bytes(accumulate, &found);
    let mut arguments = vec![scores.argument(2, [0, 1])];
    arguments.extend(mask.iter().map(|mask| mask.argument(2, [0, 1])));
    arguments.push(room(&weights));
    let job = Job {
        kernel: steps.weights,
        extents: problem.extents(&[queries, keys]),
        arguments,
        scalars: vec![from_float(accumulate, problem.scale)],
    };
    let found = job.run(device)?;
    weights.values = from_bytes(dtype, &found[found.len() - 1]);
    multiply(
        &steps.output,
        problem.extents(&[queries, width, keys]),
        vec![weights.argument(3, [0, 2]), v.argument(3, [2, 1]), problem.room()],
    )
}

fn attend(device: &Device, kind: Kind, shape: &Shape, seed: u64, way: Way) -> Check {
    let problem = Problem::new(kind, shape, seed);
    let found = way(device, &problem)?;
    let what = format!(
        "{:?}, batch {:?}, {:?} (queries, keys, depth, width)",
        problem.attention(),
        shape.0,
        shape.1
    );
    problem.check(&from_bytes(kind.dtype, &found), &what)
}
