//! Attention, as one op and as the steps that it is lowered to.

use super::axis::open;
use super::place::{Place, each};
use super::{least, narrow_epsilon, slack};
use crate::kit::{Case, Check, Stop};
use crate::rig::Device;
use crate::rig::run::{Argument, Job, POISON};
use crate::rig::values::{Random, float, from_bytes, from_float, show};
use crate::{check, fail};
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, Role};
use thalweg_hal::library::{Attention, LibraryOp};
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

/// What the scores are masked with, beside causality.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mask {
    None,
    Bool,
    /// Numbers, some of them -inf.
    Added,
}

/// How operands lie in memory.
#[derive(Clone, Copy)]
enum Layout {
    Rows,
    /// Positions before heads.
    Positions,
    /// In any way.
    Random,
}

/// Which batch axes and positions share what.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Share {
    Nothing,
    /// Keys and values, along the last batch axis.
    Heads,
    /// The mask, along the queries.
    Queries,
    /// The mask, along the first batch axis.
    Batch,
}

/// What operands hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    Moderate,
    /// Scores of some 1e4.
    Huge,
    /// One key is NaN.
    Nan,
    /// Every third query sees nothing.
    Hidden,
    /// Keys hold infinity at places where some queries hold the opposite sign.
    Infinite,
}

/// What a launch is about.
#[derive(Clone, Copy)]
struct Kind {
    dtype: DType,
    causal: bool,
    mask: Mask,
    layout: Layout,
    share: Share,
    values: Values,
}

impl Kind {
    fn of(dtype: DType) -> Kind {
        Kind {
            dtype,
            causal: false,
            mask: Mask::None,
            layout: Layout::Rows,
            share: Share::Nothing,
            values: Values::Moderate,
        }
    }
}

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
    }
    let plain = Kind::of(DType::F32);
    let causal = Kind {
        causal: true,
        ..plain
    };
    add("f32.long".into(), vec![plain, causal], LONG, by_op);
    add("f32.empty".into(), vec![plain, causal], EMPTY, by_op);
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
    add("f32.hidden".into(), hidden.clone(), SMALL, by_op);
    add("f32.hidden.lowered".into(), hidden, SMALL, by_steps);
    let nan = vec![
        Kind {
            values: Values::Nan,
            ..causal
        },
        holding(Values::Nan, Mask::Bool),
        holding(Values::Nan, Mask::None),
    ];
    add("f32.nan".into(), nan, SMALL, by_op);
    let infinite = vec![holding(Values::Infinite, Mask::None)];
    add("f32.infinite".into(), infinite, SMALL, by_op);
    for dtype in [DType::F32, DType::BF16] {
        let huge = Kind {
            dtype,
            values: Values::Huge,
            ..plain
        };
        add(format!("{dtype}.huge"), vec![huge], SMALL, by_op);
    }
    cases.push(Case::new(
        "library",
        "attention.same_bits_every_time",
        |subject| {
            let device = open(subject, DType::F32)?;
            device.need(Capability::Deterministic)?;
            let shape = (&[3_u64][..], [200, 300, 64, 64]);
            let problem = Problem::new(Kind::of(DType::F32), &shape, 1);
            let (job, kernel) = (problem.job(), device.compile_library(&problem.op())?);
            let first = job.run_compiled(&device, kernel)?;
            for round in 0..5 {
                check!(
                    job.run_compiled(&device, kernel)? == first,
                    "other bits in round {round}"
                );
            }
            Ok(())
        },
    ));
    cases
}

/// An operand or the output: `[b.., row, column]`.
struct Tensor {
    dtype: DType,
    first: u64,
    /// 0 along axes that are shared.
    strides: Vec<i64>,
    values: Vec<u64>,
}

impl Tensor {
    fn new(dtype: DType, extents: &[u64], layout: Layout, shared: &[usize], random: &mut Random) -> Tensor {
        let own: Vec<usize> = (0..extents.len()).filter(|axis| !shared.contains(axis)).collect();
        let lengths: Vec<u64> = own.iter().map(|&axis| extents[axis]).collect();
        let place = match layout {
            Layout::Random => Place::random(&lengths, |_| true, random),
            Layout::Rows | Layout::Positions => {
                let mut order: Vec<usize> = (0..own.len()).collect();
                if matches!(layout, Layout::Positions) && own.len() > 2 {
                    order.swap(own.len() - 3, own.len() - 2);
                }
                let (mut strides, mut step) = (vec![0; own.len()], 1);
                for &axis in order.iter().rev() {
                    strides[axis] = step;
                    step *= lengths[axis].max(1) as i64;
                }
                Place {
                    extents: lengths,
                    strides,
                    first: 0,
                    len: step as u64,
                }
            }
        };
        let mut strides = vec![0; extents.len()];
        for (&axis, &stride) in own.iter().zip(&place.strides) {
            strides[axis] = stride;
        }
        Tensor {
            dtype,
            first: place.first,
            strides,
            values: vec![0; place.len as usize],
        }
    }

    fn filled(mut self, mut value: impl FnMut() -> f64) -> Tensor {
        let dtype = self.dtype;
        self.values
            .iter_mut()
            .for_each(|bits| *bits = from_float(dtype, value()));
        self
    }

    fn at(&self, batch: &[u64], row: u64, column: u64) -> usize {
        let index = batch.iter().chain([&row, &column]);
        let steps = index.zip(&self.strides).map(|(&i, &stride)| i as i64 * stride);
        (self.first as i64 + steps.sum::<i64>()) as usize
    }

    fn get(&self, batch: &[u64], row: u64, column: u64) -> f64 {
        float(self.dtype, self.values[self.at(batch, row, column)])
    }

    /// With the strides of rows and columns at these two axes of those behind the batch, of `axes`.
    fn argument(&self, axes: usize, places: [usize; 2]) -> Argument {
        let batch = self.strides.len() - 2;
        let mut strides = self.strides[..batch].to_vec();
        strides.resize(batch + axes, 0);
        for (at, place) in places.into_iter().enumerate() {
            strides[batch + place] = self.strides[batch + at];
        }
        Argument::of(self.dtype, &self.values).strided(self.dtype, self.first, &strides)
    }
}

/// A launch with its operands.
struct Problem {
    kind: Kind,
    batch: Vec<u64>,
    lengths: [u64; 4],
    /// Queries, keys, values and the mask, if there is one.
    operands: Vec<Tensor>,
    out: Tensor,
    scale: f64,
}

fn accumulator(dtype: DType) -> DType {
    if dtype == DType::F64 { dtype } else { DType::F32 }
}

impl Problem {
    fn new(kind: Kind, (batch, lengths): &(&[u64], [u64; 4]), seed: u64) -> Problem {
        let mut random = Random::new(seed);
        let [queries, keys, depth, width] = *lengths;
        let Kind {
            dtype,
            mask,
            layout,
            share,
            values,
            ..
        } = kind;
        let axes = batch.len();
        let with = |rows: u64, columns: u64| [batch, &[rows, columns][..]].concat();
        let heads: Vec<usize> = match share {
            Share::Heads if axes > 0 => vec![axes - 1],
            _ => Vec::new(),
        };
        let size = if values == Values::Huge { 100.0 } else { 2.0 };
        let mut tensor = |extents: Vec<u64>, shared: &[usize]| {
            let tensor = Tensor::new(dtype, &extents, layout, shared, &mut random);
            tensor.filled(|| (random.unit() - 0.5) * size)
        };
        let mut operands = vec![
            tensor(with(queries, depth), &[]),
            tensor(with(keys, depth), &heads),
            tensor(with(keys, width), &heads),
        ];
        let out = tensor(with(queries, width), &[]);
        let accumulate = accumulator(dtype);
        if mask != Mask::None {
            let shared = match share {
                Share::Queries => vec![axes],
                Share::Batch if axes > 0 => vec![0],
                _ => Vec::new(),
            };
            let of = if mask == Mask::Bool {
                DType::Bool
            } else {
                accumulate
            };
            let mut own = Tensor::new(of, &with(queries, keys), layout, &shared, &mut random);
            own.values.iter_mut().for_each(|bits| {
                let seen = random.below(8) != 0;
                *bits = match (mask, seen) {
                    (Mask::Added, true) => from_float(of, (random.unit() - 0.5) * 4.0),
                    (Mask::Added, false) => from_float(of, f64::NEG_INFINITY),
                    _ => u64::from(seen),
                };
            });
            if values == Values::Hidden {
                let none = match mask {
                    Mask::Added => from_float(of, f64::NEG_INFINITY),
                    Mask::None | Mask::Bool => 0,
                };
                each(&with(queries, keys), |at| {
                    if at[axes] % 3 == 0 {
                        let place = own.at(&at[..axes], at[axes], at[axes + 1]);
                        own.values[place] = none;
                    }
                });
            }
            operands.push(own);
        }
        each(&with(keys, depth), |at| {
            let (batch, j, d) = (&at[..axes], at[axes], at[axes + 1]);
            let value = match values {
                Values::Nan if j == keys / 2 => f64::NAN,
                Values::Infinite if j % 5 == 1 && d == 0 => f64::INFINITY,
                _ => return,
            };
            let place = operands[1].at(batch, j, d);
            operands[1].values[place] = from_float(dtype, value);
        });
        // Scores are -inf where keys are infinite.
        if values == Values::Infinite {
            each(&with(queries, 1), |at| {
                let place = operands[0].at(&at[..axes], at[axes], 0);
                operands[0].values[place] = from_float(dtype, -0.5);
            });
        }
        Problem {
            kind,
            batch: batch.to_vec(),
            lengths: *lengths,
            operands,
            out,
            scale: float(
                accumulate,
                from_float(accumulate, 1.0 / (depth.max(1) as f64).sqrt()),
            ),
        }
    }

    fn attention(&self) -> Attention {
        Attention {
            batch: self.batch.len() as u32,
            causal: self.kind.causal,
            mask: self.operands.get(3).map(|mask| mask.dtype),
            dtype: self.kind.dtype,
            accumulate: accumulator(self.kind.dtype),
        }
    }

    fn op(&self) -> LibraryOp {
        LibraryOp::Attention(self.attention())
    }

    fn extents(&self, behind: &[u64]) -> Vec<u64> {
        [&self.batch[..], behind].concat()
    }

    fn room(&self) -> Argument {
        let dtype = self.out.dtype;
        Argument::room(dtype, self.out.values.len()).strided(dtype, self.out.first, &self.out.strides)
    }

    /// The launch of the op.
    fn job(&self) -> Job {
        let [queries, keys, depth, width] = self.lengths;
        // The rig wants a kernel to read roles and access classes from.
        let mut form = Kernel::new("attention", self.batch.len() as u32 + 2, 2);
        for operand in &self.operands {
            form.param(operand.dtype, Role::In, Level::Element, Access::Strided);
        }
        form.param(self.out.dtype, Role::Out, Level::Row, Access::Strided);
        // Behind the batch come the query, the column, the key and the depth.
        let places = [[0, 3], [2, 3], [2, 1], [0, 2]];
        let operands = self.operands.iter().zip(places);
        Job {
            kernel: form,
            extents: self.extents(&[queries, width, keys, depth]),
            arguments: (operands.map(|(operand, places)| operand.argument(4, places)))
                .chain([self.room()])
                .collect(),
            scalars: vec![from_float(accumulator(self.kind.dtype), self.scale)],
        }
    }

    /// Compares what the output's buffer holds with a computation in f64.
    fn check(&self, found: &[u64], what: &str) -> Check {
        let [queries, keys, depth, width] = self.lengths;
        let (dtype, accumulate) = (self.kind.dtype, accumulator(self.kind.dtype));
        let [q, k, v, mask @ ..] = &self.operands[..] else {
            fail!("too few operands")
        };
        let epsilon = narrow_epsilon(accumulate);
        let mut touched = vec![false; found.len()];
        let mut wrong = None;
        each(&self.extents(&[queries]), |at| {
            let (batch, i) = (&at[..self.batch.len()], at[self.batch.len()]);
            let (mut scores, mut off) = (Vec::with_capacity(keys as usize), 0.0_f64);
            for j in 0..keys {
                let (mut sum, mut size) = (0.0, 0.0);
                for d in 0..depth {
                    let product = q.get(batch, i, d) * k.get(batch, j, d);
                    (sum, size) = (sum + product, size + product.abs());
                }
                let mut score = sum * self.scale;
                let mut rounding = size * self.scale * slack(accumulate, depth) + score.abs() * epsilon;
                for mask in mask {
                    if mask.dtype == DType::Bool {
                        if mask.values[mask.at(batch, i, j)] == 0 {
                            score = f64::NEG_INFINITY;
                        }
                    } else {
                        score += mask.get(batch, i, j);
                        rounding += score.abs() * epsilon;
                    }
                }
                if self.kind.causal && j > i {
                    score = f64::NEG_INFINITY;
                }
                if score.is_finite() {
                    off = off.max(rounding);
                }
                scores.push(score);
            }
            let peak = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - peak).exp()).collect();
            let nothing = scores.iter().all(|&score| score == f64::NEG_INFINITY);
            let all: f64 = weights.iter().sum();
            for e in 0..width {
                let (mut sum, mut size) = (0.0, 0.0);
                for (j, weight) in (0..).zip(&weights) {
                    let part = weight * v.get(batch, j, e);
                    (sum, size) = (sum + part, size + part.abs());
                }
                let (sum, size) = if nothing {
                    (0.0, 0.0)
                } else {
                    (sum / all, size / all)
                };
                let place = self.out.at(batch, i, e);
                touched[place] = true;
                let bits = found[place];
                let value = float(dtype, bits);
                // Weights may be rounded to the dtype.
                let relative = 4.0 * off + 2.0 * slack(accumulate, keys) + narrow_epsilon(dtype);
                let near = size * relative + sum.abs() * narrow_epsilon(dtype) + least(dtype);
                let right = match (nothing, sum.is_nan()) {
                    (true, _) => value == 0.0,
                    (_, true) => value.is_nan(),
                    _ => (value - sum).abs() <= near,
                };
                if !right && wrong.is_none() {
                    let shown = show(dtype, bits);
                    wrong = Some(format!("{batch:?}, [{i}, {e}] is {shown}, expected {sum}"));
                }
            }
        });
        if let Some(wrong) = wrong {
            fail!("{what}: {wrong}");
        }
        let poison = from_bytes(dtype, &vec![POISON; dtype.size()])[0];
        let between = found.iter().zip(&touched);
        check!(
            between
                .into_iter()
                .all(|(&bits, &touched)| touched || bits == poison),
            "{what}: memory between the output's elements was written"
        );
        Ok(())
    }
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
