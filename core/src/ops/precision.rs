//! The precision in which ops compute, by the context's [`Precision`] mode.
//!
//! Which op is in which class follows the lists of PyTorch's automatic mixed precision (`torch.amp`, "CUDA ops that can autocast to
//! float16", "… to float32", "… promote to the widest input type"): products of matrices and convolutions gain from narrow operands
//! and lose little, sums, exponentials, norms and losses lose much.

use super::operand::Operand;
use super::promotion::cast;
pub(crate) use crate::context::is_active;
use crate::context::{Context, Precision};
use crate::hal::DType;
use crate::hal::ir::Mixed;
use crate::tensor::Tensor;
use crate::tensor::tag::OpTag;

/// How an op bears narrow numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Products of matrices, convolutions, attention.
    Matrix,
    /// Reductions by sums and products, exponentials, logarithms, powers, softmax, norms, distances, losses.
    Full,
    /// The rest of arithmetic.
    Other,
    /// What moves or chooses elements, which keep their dtype.
    Kept,
}

impl Class {
    /// The class of a scalar op or a reduction.
    pub(crate) const fn of(mixed: Mixed) -> Class {
        match mixed {
            Mixed::Narrow => Class::Other,
            Mixed::Full => Class::Full,
            Mixed::Kept => Class::Kept,
        }
    }
}

impl Precision {
    /// The dtype in which an op of `class` takes an operand of `dtype`.
    pub(crate) fn operand(self, class: Class, dtype: DType) -> DType {
        let narrow = matches!(dtype, DType::F16 | DType::BF16);
        let to = |low: DType| match class {
            Class::Matrix if narrow || dtype == DType::F32 => low,
            Class::Full if narrow => DType::F32,
            _ => dtype,
        };
        match self {
            _ if class == Class::Kept => dtype,
            Precision::MustKeepOriginDtype => dtype,
            Precision::ForceFp32 if narrow => DType::F32,
            Precision::ForceFp16 if narrow || dtype == DType::F32 => DType::F16,
            Precision::ForceFp32 | Precision::ForceFp16 => dtype,
            Precision::AllowFp32ToFp16 if class == Class::Matrix && dtype == DType::F32 => DType::F16,
            Precision::AllowFp32ToBf16 if class == Class::Matrix && dtype == DType::F32 => DType::BF16,
            Precision::AllowFp32ToFp16 | Precision::AllowFp32ToBf16 => dtype,
            Precision::AllowMixPrecision | Precision::AllowMixPrecisionFp16 => to(DType::F16),
            Precision::AllowMixPrecisionBf16 => to(DType::BF16),
        }
    }

    /// Whether a result goes back to the dtype that it has without the mode.
    const fn gives_back(self) -> bool {
        matches!(self, Precision::AllowFp32ToFp16 | Precision::AllowFp32ToBf16)
    }
}

fn mode<'a>(mut contexts: impl Iterator<Item = Option<&'a Context>>) -> Option<Precision> {
    // What an op is made of computes as the op says.
    if OpTag::is_under_way() {
        return None;
    }
    let mode = contexts.find_map(|context| context)?.precision();
    (mode != Precision::MustKeepOriginDtype).then_some(mode)
}

/// Operands in the precision of the mode; nothing where that changes none of them.
pub(crate) struct Held<const N: usize> {
    tensors: Option<[Tensor; N]>,
    back: bool,
}

/// The operands of an op that the user called, for the mode of their context.
#[inline]
pub(crate) fn adjusted<const N: usize>(class: Class, tag: OpTag, operands: [&Tensor; N]) -> Held<N> {
    match is_active() {
        false => Held {
            tensors: None,
            back: false,
        },
        true => adjust(class, tag, operands),
    }
}

#[cold]
fn adjust<const N: usize>(class: Class, tag: OpTag, operands: [&Tensor; N]) -> Held<N> {
    match adjusted_all(class, tag, &operands) {
        Some((tensors, back)) => Held {
            tensors: tensors.try_into().ok(),
            back,
        },
        None => Held {
            tensors: None,
            back: false,
        },
    }
}

impl<const N: usize> Held<N> {
    /// The operands to compute with.
    #[inline]
    pub(crate) fn operands<'a>(&'a self, given: [&'a Tensor; N]) -> [&'a Tensor; N] {
        match &self.tensors {
            Some(tensors) => tensors.each_ref(),
            None => given,
        }
    }

    /// The result to give to the user.
    pub(crate) fn result(&self, result: Tensor, tag: OpTag) -> Tensor {
        match self.back && result.dtype().is_ok_and(DType::is_float) {
            true => tag.scope(|| cast(&result, DType::F32, tag)),
            false => result,
        }
    }
}

/// As [`Held::operands`], of an operand that may be absent.
pub(crate) fn optional<'a>(held: &'a Option<Held<1>>, given: Option<&'a Tensor>) -> Option<&'a Tensor> {
    let (held, given) = (held.as_ref()?, given?);
    let [operand] = held.operands([given]);
    Some(operand)
}

/// As [`adjusted`], of any number of operands; the flag says whether the result goes back to f32.
pub(crate) fn adjusted_all(class: Class, tag: OpTag, operands: &[&Tensor]) -> Option<(Vec<Tensor>, bool)> {
    if !is_active() {
        return None;
    }
    let mode = mode(operands.iter().map(|operand| operand.context()))?;
    let adjust = |operand: &&Tensor| match operand.dtype() {
        Ok(dtype) => tag.scope(|| cast(operand, mode.operand(class, dtype), tag)),
        Err(_) => (*operand).clone(),
    };
    let changes = |operand: &&Tensor| {
        operand
            .dtype()
            .is_ok_and(|dtype| mode.operand(class, dtype) != dtype)
    };
    let any = operands.iter().any(changes);
    any.then(|| (operands.iter().map(adjust).collect(), mode.gives_back()))
}

/// As [`adjusted`], for operands that may be numbers.
#[inline]
pub(crate) fn adjusted_operands<'a, const N: usize>(
    class: Class,
    tag: OpTag,
    operands: [Operand<'a>; N],
) -> [Operand<'a>; N] {
    if !is_active() {
        return operands;
    }
    let contexts = operands
        .iter()
        .map(|operand| operand.tensor().and_then(Tensor::context));
    let Some(mode) = mode(contexts) else {
        return operands;
    };
    operands.map(|operand| {
        let wanted = operand.tensor().and_then(|tensor| {
            let dtype = tensor.dtype().ok()?;
            Some(mode.operand(class, dtype)).filter(|wanted| *wanted != dtype)
        });
        match (operand.tensor(), wanted) {
            (Some(tensor), Some(wanted)) => Operand::Owned(tag.scope(|| cast(tensor, wanted, tag))),
            _ => operand,
        }
    })
}
