//! Launches of attention with their operands, and what they are compared with.

use super::super::place::{Place, each};
use super::super::{least, narrow_epsilon, slack};
use super::Shape;
use crate::kit::Check;
use crate::rig::run::{Argument, Job, POISON};
use crate::rig::values::{Random, float, from_bytes, from_float, show};
use crate::{check, fail};
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, Role};
use thalweg_hal::library::{Attention, LibraryOp};

/// What the scores are masked with, beside causality.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mask {
    None,
    Bool,
    /// Numbers, some of them -inf.
    Added,
}

/// How operands lie in memory.
#[derive(Clone, Copy)]
pub(super) enum Layout {
    Rows,
    /// Positions before heads.
    Positions,
    /// In any way.
    Random,
}

/// Which batch axes and positions share what.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
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
pub(super) enum Values {
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
pub(super) struct Kind {
    pub(super) dtype: DType,
    pub(super) causal: bool,
    pub(super) mask: Mask,
    pub(super) layout: Layout,
    pub(super) share: Share,
    pub(super) values: Values,
    /// Of the usual scale.
    pub(super) factor: f64,
}

impl Kind {
    pub(super) fn of(dtype: DType) -> Kind {
        Kind {
            dtype,
            causal: false,
            mask: Mask::None,
            layout: Layout::Rows,
            share: Share::Nothing,
            values: Values::Moderate,
            factor: 1.0,
        }
    }
}

/// An operand or the output: `[b.., row, column]`.
pub(super) struct Tensor {
    pub(super) dtype: DType,
    pub(super) first: u64,
    /// 0 along axes that are shared.
    pub(super) strides: Vec<i64>,
    pub(super) values: Vec<u64>,
}

impl Tensor {
    pub(super) fn new(
        dtype: DType,
        extents: &[u64],
        layout: Layout,
        shared: &[usize],
        random: &mut Random,
    ) -> Tensor {
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

    pub(super) fn filled(mut self, mut value: impl FnMut() -> f64) -> Tensor {
        let dtype = self.dtype;
        self.values
            .iter_mut()
            .for_each(|bits| *bits = from_float(dtype, value()));
        self
    }

    pub(super) fn at(&self, batch: &[u64], row: u64, column: u64) -> usize {
        let index = batch.iter().chain([&row, &column]);
        let steps = index.zip(&self.strides).map(|(&i, &stride)| i as i64 * stride);
        (self.first as i64 + steps.sum::<i64>()) as usize
    }

    /// The same numbers with one after each, and one before all.
    fn spread(&self) -> Tensor {
        Tensor {
            dtype: self.dtype,
            first: self.first * 2 + 1,
            strides: self.strides.iter().map(|stride| stride * 2).collect(),
            values: { self.values.iter() }.flat_map(|&value| [0, value]).collect(),
        }
    }

    /// The matrix of a batch index, row by row.
    fn matrix(&self, batch: &[u64], rows: u64, columns: u64) -> Vec<f64> {
        let row = |row| (0..columns).map(move |column| (row, column));
        { (0..rows).flat_map(row) }
            .map(|(row, column)| float(self.dtype, self.values[self.at(batch, row, column)]))
            .collect()
    }

    /// With the strides of rows and columns at these two axes of those behind the batch, of `axes`.
    pub(super) fn argument(&self, axes: usize, places: [usize; 2]) -> Argument {
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
pub(super) struct Problem {
    pub(super) kind: Kind,
    pub(super) batch: Vec<u64>,
    pub(super) lengths: [u64; 4],
    /// Queries, keys, values and the mask, if there is one.
    pub(super) operands: Vec<Tensor>,
    pub(super) out: Tensor,
    pub(super) scale: f64,
}

/// Sums of products and of their sizes; elements of `b` lie `step` apart. It is walked in builds that inline nothing, so without
/// iterators.
fn dot(a: &[f64], b: &[f64], step: usize, count: u64) -> (f64, f64) {
    let (mut sum, mut size, mut at) = (0.0, 0.0, 0);
    while at < count as usize {
        let product = a[at] * b[at * step];
        (sum, size, at) = (sum + product, size + product.abs(), at + 1);
    }
    (sum, size)
}

pub(super) fn accumulator(dtype: DType) -> DType {
    if dtype == DType::F64 { dtype } else { DType::F32 }
}

impl Problem {
    pub(super) fn new(kind: Kind, (batch, lengths): &Shape, seed: u64) -> Problem {
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
                from_float(accumulate, kind.factor / (depth.max(1) as f64).sqrt()),
            ),
        }
    }

    /// The same numbers with gaps between them.
    pub(super) fn spread(self) -> Problem {
        Problem {
            operands: self.operands.iter().map(Tensor::spread).collect(),
            ..self
        }
    }

    pub(super) fn attention(&self) -> Attention {
        Attention {
            batch: self.batch.len() as u32,
            causal: self.kind.causal,
            mask: self.operands.get(3).map(|mask| mask.dtype),
            dtype: self.kind.dtype,
            accumulate: accumulator(self.kind.dtype),
        }
    }

    pub(super) fn op(&self) -> LibraryOp {
        LibraryOp::Attention(self.attention())
    }

    pub(super) fn extents(&self, behind: &[u64]) -> Vec<u64> {
        [&self.batch[..], behind].concat()
    }

    pub(super) fn room(&self) -> Argument {
        let dtype = self.out.dtype;
        Argument::room(dtype, self.out.values.len()).strided(dtype, self.out.first, &self.out.strides)
    }

    /// The launch of the op.
    pub(super) fn job(&self) -> Job {
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
    pub(super) fn check(&self, found: &[u64], what: &str) -> Check {
        let [queries, keys, depth, width] = self.lengths;
        let (dtype, accumulate) = (self.kind.dtype, accumulator(self.kind.dtype));
        let [q, k, v, mask @ ..] = &self.operands[..] else {
            fail!("too few operands")
        };
        let epsilon = narrow_epsilon(accumulate);
        let mut touched = vec![false; found.len()];
        let mut wrong = None;
        let mut row = |batch: &[u64], i: u64, [q, k, v]: [&[f64]; 3]| {
            let (mut scores, mut off) = (Vec::with_capacity(keys as usize), 0.0_f64);
            for j in 0..keys {
                let (sum, size) = dot(&q[(i * depth) as usize..], &k[(j * depth) as usize..], 1, depth);
                let mut score = sum * self.scale;
                let mut rounding = size * self.scale.abs() * slack(self.kind.dtype, accumulate, depth)
                    + score.abs() * epsilon;
                for mask in mask {
                    if mask.dtype == DType::Bool {
                        if mask.values[mask.at(batch, i, j)] == 0 {
                            score = f64::NEG_INFINITY;
                        }
                    } else {
                        score += float(mask.dtype, mask.values[mask.at(batch, i, j)]);
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
            let nothing = depth == 0 || scores.iter().all(|&score| score == f64::NEG_INFINITY);
            let all: f64 = weights.iter().sum();
            for e in 0..width {
                let (sum, size) = if nothing {
                    (0.0, 0.0)
                } else {
                    let (sum, size) = dot(&weights, &v[e as usize..], width as usize, keys);
                    (sum / all, size / all)
                };
                let place = self.out.at(batch, i, e);
                touched[place] = true;
                let bits = found[place];
                let value = float(dtype, bits);
                // Weights may be rounded to the dtype.
                let relative = 4.0 * off + 2.0 * slack(dtype, accumulate, keys) + narrow_epsilon(dtype);
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
        };
        each(&self.batch, |batch| {
            let q = q.matrix(batch, queries, depth);
            let (k, v) = (k.matrix(batch, keys, depth), v.matrix(batch, keys, width));
            (0..queries).for_each(|i| row(batch, i, [&q, &k, &v]));
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
