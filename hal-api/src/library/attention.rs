//! Scaled dot-product attention.

use super::desc::{LibraryDesc, OwnedLibrary, count, flag};
use super::{LibraryOp, Matmul, cast, index, input, refuse, verified};
use crate::dtype::DType;
use crate::ir::{Access, Kernel, Level, MAX_RANK, Node, ReduceOp, Role, ScalarOp};
use crate::kit::checks::{Signature, Slot};
use crate::status::Result;

pub(super) const NAME: &str = "attention";

/// `out[b.., i, e] = sum over j of w[b.., i, j] * v[b.., j, e]`, where w is the softmax along j of the scores
/// `scale * sum over d of q[b.., i, d] * k[b.., j, d]`, masked. Vaswani et al., Attention Is All You Need (2017).
///
/// Index space: outer `[b.., i, e]` with `batch` batch axes, inner `[j, d]`. Scalar: scale, in `accumulate`. Parameters, all
/// strided: 0 q (element level, stride 0 along e and j), 1 k (element level, stride 0 along i and e), 2 v (element level, stride 0 along
/// i and d), the mask if there is one (element level, stride 0 along e and d), the output (row level). Heads that share keys and
/// values have stride 0 along a batch axis.
///
/// A query sees key j where the mask lets it, and j <= i where the op is causal, whatever the mask says. A row whose scores are
/// all -inf gives zeros, and so does a launch without keys or without depth, which reads nothing. Arithmetic: products, scores and sums are in `accumulate`, in any order of j
/// and d that depends on the extents alone; weights may be rounded to `dtype`, be divided by their sum before or after the sum over
/// j, and a value whose weight is 0 may be left out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attention {
    /// Batch axes, `0..=MAX_RANK - 2`.
    pub batch: u32,
    /// Query i sees keys 0 to i.
    pub causal: bool,
    /// Dtype of the mask, if there is one: bool, true where a query sees a key, or `accumulate`, added to the scores.
    pub mask: Option<DType>,
    /// Dtype of queries, keys, values and the output, which is a float.
    pub dtype: DType,
    /// Dtype of scores and sums: f64 for f64, f32 for the others.
    pub accumulate: DType,
}

/// An attention op in steps, for backends that have none.
#[derive(Clone, Debug)]
pub struct Steps {
    /// The products of queries and keys: outer `[b.., i, j]`, inner `[d]`; parameters q, k, the scores in `accumulate`.
    pub scores: LibraryOp,
    /// The weights: outer `[b.., i]`, inner `[j]`, scalar scale; parameters (element level, strided) the scores, the mask if there is
    /// one, the weights in `dtype`.
    pub weights: Kernel,
    /// What the weights gather: outer `[b.., i, e]`, inner `[j]`; parameters the weights, v, the output.
    pub output: LibraryOp,
}

impl Attention {
    /// The same in three steps, with scores and weights in memory. Without depth all scores are 0 times scale.
    ///
    /// # Errors
    /// `InvalidArgument` when an attribute or a dtype breaks a rule of the op.
    pub fn lowered(&self) -> Result<Steps> {
        self.check()?;
        let product = |output| {
            LibraryOp::Matmul(Matmul {
                batch: self.batch,
                operands: [self.dtype; 2],
                accumulate: self.accumulate,
                output,
                epilogue: None,
            })
        };
        Ok(Steps {
            scores: product(self.accumulate),
            weights: self.weights()?,
            output: product(self.dtype),
        })
    }

    fn weights(&self) -> Result<Kernel> {
        let mut kernel = Kernel::new("attention_weights", self.batch + 1, 1);
        let scores = input(&mut kernel, self.accumulate, Level::Element);
        let mask = (self.mask).map(|dtype| (dtype, input(&mut kernel, dtype, Level::Element)));
        kernel.scalars.push(self.accumulate);
        let scale = kernel.push(Node::Scalar { index: 0 });
        let product = kernel.load(scores);
        let mut score = kernel.op(ScalarOp::Mul, &[product, scale]);
        let float = |kernel: &mut Kernel, value: f64| {
            let bits = match self.accumulate {
                DType::F64 => value.to_bits(),
                _ => u64::from((value as f32).to_bits()),
            };
            let dtype = self.accumulate;
            kernel.push(Node::Const { dtype, bits })
        };
        let hidden = float(&mut kernel, f64::NEG_INFINITY);
        if let Some((dtype, mask)) = mask {
            let mask = kernel.load(mask);
            score = match dtype {
                DType::Bool => kernel.op(ScalarOp::Select, &[mask, score, hidden]),
                _ => kernel.op(ScalarOp::Add, &[score, mask]),
            };
        }
        if self.causal {
            let (i, j) = (index(&mut kernel, self.batch), index(&mut kernel, self.batch + 1));
            let seen = kernel.op(ScalarOp::Le, &[j, i]);
            score = kernel.op(ScalarOp::Select, &[seen, score, hidden]);
        }
        let peak = kernel.reduce(ReduceOp::Max, score);
        let nothing = kernel.op(ScalarOp::Eq, &[peak, hidden]);
        let (zero, one) = (float(&mut kernel, 0.0), float(&mut kernel, 1.0));
        let peak = kernel.op(ScalarOp::Select, &[nothing, zero, peak]);
        let below = kernel.op(ScalarOp::Sub, &[score, peak]);
        let power = kernel.op(ScalarOp::Exp, &[below]);
        let sum = kernel.reduce(ReduceOp::Sum, power);
        let sum = kernel.op(ScalarOp::Select, &[nothing, one, sum]);
        let weight = kernel.op(ScalarOp::Div, &[power, sum]);
        let weight = cast(&mut kernel, self.accumulate, self.dtype, weight);
        let out = kernel.param(self.dtype, Role::Out, Level::Element, Access::Strided);
        kernel.store(out, weight);
        verified(NAME, kernel)
    }

    fn check(&self) -> Result<()> {
        if self.batch as usize > MAX_RANK - 2 {
            return refuse(
                NAME,
                format!("{} batch axes, at most {} are possible", self.batch, MAX_RANK - 2),
            );
        }
        let sums = if self.dtype == DType::F64 {
            DType::F64
        } else {
            DType::F32
        };
        if !self.dtype.is_float() || self.dtype.is_storage() || self.accumulate != sums {
            return refuse(
                NAME,
                format!("of {} with sums in {}", self.dtype, self.accumulate),
            );
        }
        match self.mask {
            Some(mask) if mask != DType::Bool && mask != self.accumulate => refuse(
                NAME,
                format!("a mask of {mask}; it is bool or {}", self.accumulate),
            ),
            _ => Ok(()),
        }
    }

    pub(super) fn signature(&self) -> Result<Signature> {
        self.check()?;
        let slot = |dtype: DType, role: Role, level: Level| Slot {
            dtype,
            role,
            level,
            access: Access::Strided,
            direct: true,
            gathers: false,
        };
        let operand = |dtype| slot(dtype, Role::In, Level::Element);
        let mut slots = vec![operand(self.dtype); 3];
        slots.extend(self.mask.map(operand));
        slots.push(slot(self.dtype, Role::Out, Level::Row));
        Ok(Signature {
            name: NAME.into(),
            outer: self.batch as usize + 2,
            inner: 2,
            slots,
            scalars: vec![self.accumulate],
        })
    }

    pub(super) fn encode(&self, code: u32, epilogue: Option<&Kernel>) -> OwnedLibrary {
        let mask = self.mask.map_or(0, |dtype| dtype.code().into());
        OwnedLibrary::new(
            code,
            &[self.dtype, self.accumulate],
            &[self.batch.into(), i64::from(self.causal), mask],
            epilogue,
        )
    }

    pub(super) fn decode(desc: &LibraryDesc, name: &str) -> Result<Attention> {
        let fields = desc.fields::<2>(name, 3)?;
        let [dtype, accumulate] = fields.dtypes;
        let mask = match fields.attributes[2] {
            0 => None,
            code => match u32::try_from(code).ok().and_then(DType::from_code) {
                Some(dtype) => Some(dtype),
                None => return refuse(name, format!("unknown dtype code {code} of the mask")),
            },
        };
        Ok(Attention {
            batch: count(name, "batch axes", fields.attributes[0])?,
            causal: flag(name, "causal", fields.attributes[1])?,
            mask,
            dtype,
            accumulate,
        })
    }
}
