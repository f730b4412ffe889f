//! Random tensors from keys.

use super::create::refused_on;
use super::formula::widened;
use super::operand::IntoOperand;
use super::promotion::{cast, expanded};
use crate::composite::composite_in;
use crate::context::Context;
use crate::graph::{Op, Type};
use crate::hal::DType;
use crate::hal::ir::ScalarOp;
use crate::tensor::failure::Refusal;
use crate::tensor::shape::{IntoShape, Shape};
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply, apply_in, lazy};
use std::f64::consts::PI;

/// First counter of the words that keys are derived from; draws use those below.
const DERIVED: u64 = 1 << 63;

/// What random numbers are drawn with. A key always gives the same numbers, so each draw takes a key of its own: the next of a
/// context ([`Key::next`]) or one derived from another ([`Key::fold_in`]).
///
/// Word w of a key is word `w % 4` of Philox4x32-10 (Salmon et al., SC'11) with the counter `w / 4`. Element i of a draw uses the
/// words from `i * n` on, n being one for numbers of up to 32 bits. Words, uniform numbers, truth values, integers and
/// permutations have the same bits on every device; normal numbers pass through its `log`, `sqrt` and `cos`.
///
/// ```
/// use thalweg::{Context, DType};
/// use thalweg::random::Key;
/// let cx = Context::new("cpu")?;
/// let key = Key::new(7, &cx);
/// let noise = key.uniform([2, 3], DType::F32);
/// assert_eq!(noise.to_vec::<f32>()?, key.uniform([2, 3], DType::F32).to_vec::<f32>()?);
/// assert_ne!(noise.to_vec::<f32>()?, key.fold_in(1).uniform([2, 3], DType::F32).to_vec::<f32>()?);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone)]
pub struct Key {
    tensor: Tensor,
    context: Option<Context>,
}

/// What a draw is called and made of.
struct Draw {
    name: &'static str,
    dtype: DType,
    /// Words of one element.
    words: u64,
    tag: OpTag,
}

impl Draw {
    fn new(name: &'static str, dtype: DType, words: u64, tag: OpTag) -> Draw {
        Draw {
            name,
            dtype,
            words,
            tag,
        }
    }
}

impl Key {
    /// The key of a number.
    pub fn new(number: u64, cx: &Context) -> Key {
        Key {
            tensor: Tensor::constant(Shape::SCALAR, DType::U64, number),
            context: Some(cx.clone()),
        }
    }

    /// The next key of a context. A traced function cannot take one, as it would have the same numbers at each call: give it a
    /// key as an argument, see [`Key::from_tensor`].
    #[track_caller]
    pub fn next(cx: &Context) -> Key {
        let tag = OpTag::new("random");
        if lazy::tracing() == 0 {
            return Key::new(cx.next_key(), cx);
        }
        let refusal = Refusal::new("a traced function would draw the same numbers at each call")
            .help("give it `Tensor::scalar(cx.next_key(), &cx)` as an argument and use `Key::from_tensor`");
        Key {
            tensor: refused_on(cx, refusal, tag),
            context: None,
        }
    }

    /// The key of a u64 tensor of one element, as a traced function gets it.
    #[track_caller]
    pub fn from_tensor(number: &Tensor) -> Key {
        let tag = OpTag::new("key");
        let tensor = match number.ty() {
            Ok(Type {
                shape,
                dtype: DType::U64,
            }) if shape.elements() == 1 => apply(Op::Reshape(Shape::SCALAR), &[number], tag),
            Ok(ty) => {
                let refusal = Refusal::new(format!("a key of {} {}, it takes one u64", ty.dtype, ty.shape));
                Tensor::refused(tag, refusal, &[number])
            }
            Err(_) => number.clone(),
        };
        Key {
            tensor,
            context: number.context().cloned(),
        }
    }

    /// Another key, a different one for each `number` below 2^62.
    #[track_caller]
    pub fn fold_in(&self, number: u64) -> Key {
        let tag = OpTag::new("fold_in");
        let number = Tensor::constant(Shape::SCALAR, DType::U64, number);
        let context = self.context.as_ref();
        let tensor = composite_in(
            context,
            "fold_in",
            &(),
            [&self.tensor, &number],
            tag,
            |[key, number]| {
                let first = (number << 1) + DERIVED;
                let word = |counter: &Tensor| cast(&apply(Op::Rand, &[key, counter], tag), DType::U64, tag);
                word(&first) | (word(&(first + 1)) << 32)
            },
        );
        Key {
            tensor,
            context: self.context.clone(),
        }
    }

    /// A draw: `make` gets a function from i to word i of each element, as u32 vectors of all elements in row-major order, and
    /// up to two numbers as such vectors.
    fn draw<const N: usize>(
        &self,
        draw: Draw,
        shape: Result<Shape, Refusal>,
        numbers: [Result<(DType, u64), Refusal>; N],
        make: impl Fn(&dyn Fn(u64) -> Tensor, &[Tensor]) -> Tensor,
    ) -> Tensor {
        let Draw {
            name,
            dtype,
            words,
            tag,
        } = draw;
        if self.tensor.ty().is_err() {
            return self.tensor.clone();
        }
        let refused = |refusal| Tensor::refused(tag, refusal, &[&self.tensor]);
        let shape = match shape {
            Ok(shape) => shape,
            Err(refusal) => return refused(refusal),
        };
        let flat = Shape::of(&[shape.elements()]);
        let mut given = Vec::with_capacity(2);
        for number in numbers {
            match number {
                Ok((dtype, bits)) => given.push(Tensor::constant(flat, dtype, bits)),
                Err(refusal) => return refused(refusal),
            }
        }
        let context = self.context.as_ref();
        let unused = Tensor::constant(flat, DType::Bool, 0);
        let [first, second] = [0, 1].map(|at| given.get(at).unwrap_or(&unused));
        let inputs = [&self.tensor, first, second];
        composite_in(
            context,
            name,
            &(shape, dtype),
            inputs,
            tag,
            |[key, first, second]| {
                let index = apply_in(context, Op::Index { axis: 0, shape: flat }, &[], tag);
                let counter = cast(&index, DType::U64, tag) * words;
                let key = expanded(key, flat, tag);
                let word = |at: u64| apply(Op::Rand, &[&key, &(&counter + at)], tag);
                let result = make(&word, &[first.clone(), second.clone()]);
                apply(Op::Reshape(shape), &[&result], tag)
            },
        )
    }

    /// Random words, as u32.
    #[track_caller]
    pub fn bits(&self, shape: impl IntoShape) -> Tensor {
        self.draw(
            Draw::new("bits", DType::U32, 1, OpTag::new("bits")),
            shape.into_shape(),
            [],
            |word, _| word(0),
        )
    }

    /// Numbers of a float dtype, evenly spread over `0..1`, 1 not included: multiples of 2^-53 for f64, 2^-24 for f32, 2^-11 for
    /// f16, 2^-8 for bf16.
    ///
    /// # Errors
    /// A dtype that is no float.
    #[track_caller]
    pub fn uniform(&self, shape: impl IntoShape, dtype: DType) -> Tensor {
        let words = if dtype == DType::F64 { 2 } else { 1 };
        let shape = float_shape(shape, dtype);
        self.draw(
            Draw::new("uniform", dtype, words, OpTag::new("uniform")),
            shape,
            [],
            |word, _| match dtype {
                DType::F64 => unit_f64(&word(0), &word(1), 0),
                DType::F16 => cast(&(word(0) >> 21), dtype, OpTag::NONE) * 2_f64.powi(-11),
                DType::BF16 => cast(&(word(0) >> 24), dtype, OpTag::NONE) * 2_f64.powi(-8),
                _ => unit_f32(&word(0)),
            },
        )
    }

    /// Numbers of a float dtype with the normal distribution, mean 0 and variance 1: `√(-2 ln u) cos(2π v)` of two uniform ones (Box
    /// and Muller 1958), which reaches to ±6.6 in f32 and narrower, and ±8.5 in f64.
    ///
    /// # Errors
    /// A dtype that is no float.
    #[track_caller]
    pub fn normal(&self, shape: impl IntoShape, dtype: DType) -> Tensor {
        let (wide, tag) = (widened(dtype), OpTag::new("normal"));
        let words = if wide == DType::F64 { 4 } else { 2 };
        self.draw(
            Draw::new("normal", dtype, words, tag),
            float_shape(shape, dtype),
            [],
            |word, _| {
                // The first is above 0, so that its logarithm is finite.
                let (first, second) = match wide {
                    DType::F64 => (unit_f64(&word(0), &word(1), 1), unit_f64(&word(2), &word(3), 0)),
                    _ => (
                        (cast(&word(0), wide, tag) + 1.0) * 2_f64.powi(-32),
                        unit_f32(&word(1)),
                    ),
                };
                cast(
                    &((first.log() * -2.0).sqrt() * (second * (2.0 * PI)).cos()),
                    dtype,
                    tag,
                )
            },
        )
    }

    /// Truth values that are true with probability `p`, to 2^-32.
    ///
    /// # Errors
    /// A `p` outside of 0 to 1.
    #[track_caller]
    pub fn bernoulli(&self, p: f64, shape: impl IntoShape) -> Tensor {
        let tag = OpTag::new("bernoulli");
        let bound = match (0.0..=1.0).contains(&p) {
            true => Ok((DType::U64, (p * 2_f64.powi(32)).round() as u64)),
            false => Err(Refusal::new(format!("probability {p}, it takes 0 to 1"))),
        };
        self.draw(
            Draw::new("bernoulli", DType::Bool, 1, tag),
            shape.into_shape(),
            [bound],
            |word, given| cast(&word(0), DType::U64, tag).lt(&given[0]),
        )
    }

    /// Integers from `low` to `high`, which is not included, as i64. The values are the remainders of 64 random bits, so that
    /// some are more likely than others by up to `(high - low) / 2^64`.
    ///
    /// # Errors
    /// An empty range.
    #[track_caller]
    pub fn randint(&self, low: i64, high: i64, shape: impl IntoShape) -> Tensor {
        let tag = OpTag::new("randint");
        let range = match high.checked_sub(low) {
            Some(..=0) => Err(Refusal::new(format!("integers from {low} to {high}"))),
            _ if low >= high => Err(Refusal::new(format!("integers from {low} to {high}"))),
            _ => Ok((DType::U64, high.wrapping_sub(low) as u64)),
        };
        let numbers = [range, Ok((DType::I64, low as u64))];
        self.draw(
            Draw::new("randint", DType::I64, 2, tag),
            shape.into_shape(),
            numbers,
            |word, given| {
                let rest = apply(
                    Op::Map(ScalarOp::Rem),
                    &[&word64(&word(0), &word(1)), &given[0]],
                    tag,
                );
                cast(&rest, DType::I64, tag) + &given[1]
            },
        )
    }

    /// 0, 1, … `count - 1` in random order, as i64: the order of 64 random bits each.
    #[track_caller]
    pub fn permutation(&self, count: usize) -> Tensor {
        let tag = OpTag::new("permutation");
        let shape = count.into_shape();
        let bits = self.draw(
            Draw::new("permutation", DType::U64, 2, tag),
            shape,
            [],
            |word, _| word64(&word(0), &word(1)),
        );
        apply(
            Op::ArgSort {
                axis: 0,
                descending: false,
                count,
            },
            &[&bits],
            tag,
        )
    }
}

fn float_shape(shape: impl IntoShape, dtype: DType) -> Result<Shape, Refusal> {
    match dtype.is_float() {
        true if dtype.is_storage() => {
            Err(Refusal::new(format!("no random numbers of {dtype}")).help("draw f32 or bf16 and cast them"))
        }
        true => shape.into_shape(),
        false => Err(Refusal::new(format!("{dtype} is no float")).help("use `randint` or `bernoulli`")),
    }
}

/// 64 bits, low word first.
fn word64(low: &Tensor, high: &Tensor) -> Tensor {
    let wide = |word: &Tensor| word.cast(DType::U64);
    wide(low) | (wide(high) << 32)
}

fn unit_f32(word: &Tensor) -> Tensor {
    (word >> 8).cast(DType::F32) * 2_f64.powi(-24)
}

/// `(m + more) / 2^53` of the 53 bits m.
fn unit_f64(low: &Tensor, high: &Tensor, more: u64) -> Tensor {
    ((word64(low, high) >> 11) + more).cast(DType::F64) * 2_f64.powi(-53)
}

impl Tensor {
    /// [`Key::uniform`] with the next key of the context: numbers in `0..1`.
    ///
    /// # Errors
    /// As there; inside `jit`.
    #[track_caller]
    pub fn rand(shape: impl IntoShape, dtype: DType, cx: &Context) -> Tensor {
        OpTag::new("rand").scope(|| Key::next(cx).uniform(shape, dtype))
    }

    /// [`Key::normal`] with the next key of the context: mean 0, variance 1.
    ///
    /// # Errors
    /// As there; inside `jit`.
    #[track_caller]
    pub fn randn(shape: impl IntoShape, dtype: DType, cx: &Context) -> Tensor {
        OpTag::new("randn").scope(|| Key::next(cx).normal(shape, dtype))
    }

    /// [`Key::randint`] with the next key of the context: i64 in `low..high`.
    ///
    /// # Errors
    /// As there; inside `jit`.
    #[track_caller]
    pub fn randint(low: i64, high: i64, shape: impl IntoShape, cx: &Context) -> Tensor {
        OpTag::new("randint").scope(|| Key::next(cx).randint(low, high, shape))
    }

    /// [`Key::permutation`] with the next key of the context: `0..count` in random order.
    ///
    /// # Errors
    /// Inside `jit`.
    #[track_caller]
    pub fn randperm(count: usize, cx: &Context) -> Tensor {
        OpTag::new("randperm").scope(|| Key::next(cx).permutation(count))
    }

    /// `self`, with elements set to 0 with probability `p` and the others divided by `1 - p`, so that the mean stays
    /// (Srivastava et al. 2014). The same key drops the same elements.
    ///
    /// # Errors
    /// A `p` outside of 0 to 1; a dtype that is no float.
    #[track_caller]
    pub fn dropout(&self, p: f64, key: &Key) -> Tensor {
        let tag = OpTag::new("dropout");
        let Ok(ty) = self.ty() else { return self.clone() };
        if !ty.dtype.is_float() {
            return Tensor::refused(tag, Refusal::new(format!("{} is no float", ty.dtype)), &[self]);
        }
        tag.scope(|| {
            let kept = key.bernoulli(1.0 - p, ty.shape);
            let factor = if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 };
            kept.where_cond((self * factor).into_operand(), 0.0)
        })
    }
}
