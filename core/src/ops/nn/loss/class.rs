//! Losses of classes.

use super::Reduction;
use crate::graph::{Op, Type};
use crate::hal::DType;
use crate::ops::checked::{checked, composite_of, wide};
use crate::ops::index::inside;
use crate::ops::nn::softmax::peak;
use crate::ops::precision::{self, Class};
use crate::ops::{cast, expanded};
use crate::options;
use crate::tensor::failure::Refusal;
use crate::tensor::shape::Shape;
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply};

/// How classes count: alike, all of them, without smoothing, as a mean, unless said otherwise.
#[derive(Clone, Copy)]
pub struct ClassLossOptions<'a> {
    weight: Option<&'a Tensor>,
    ignore_index: i64,
    label_smoothing: f64,
    reduction: Reduction,
}

impl Default for ClassLossOptions<'_> {
    fn default() -> Self {
        ClassLossOptions {
            weight: None,
            ignore_index: -100,
            label_smoothing: 0.0,
            reduction: Reduction::Mean,
        }
    }
}

options! { ClassLossOptions<'a> {
    /// A weight for each class, `[c]`; a mean divides by the sum of the weights of the targets.
    weight: &'a Tensor,
    /// The target class that does not count; -100 unless said otherwise.
    ignore_index: i64,
    /// The part of each target that is spread evenly over all classes, 0 to 1. Szegedy et al., Rethinking the Inception
    /// Architecture for Computer Vision (2016).
    label_smoothing: f64,
    /// What becomes of the losses.
    reduction: Reduction,
} }

impl<'a> ClassLossOptions<'a> {
    /// The defaults.
    pub fn new() -> ClassLossOptions<'a> {
        ClassLossOptions::default()
    }

    fn key(&self) -> (i64, u64, Reduction) {
        (self.ignore_index, self.label_smoothing.to_bits(), self.reduction)
    }
}

impl Tensor {
    /// The cross entropy `ln Σ exp(x) - x[target]` of logits x `[n, c, space..]` or `[c]`, computed from the row's maximum on.
    /// Targets are classes, `[n, space..]` or `[]` of any integer dtype, or probabilities of x's shape, whose loss is
    /// `-Σ target·log_softmax(x)`. The result is a scalar, or of the targets' shape without reduction (without the classes); a mean
    /// over nothing is NaN. Keeps the dtype of x; f16 and bf16 are computed in f32. A class outside the range counts as if
    /// its logit were 0.
    ///
    /// ```no_run
    /// # use thalweg::{ops::ClassLossOptions, Tensor};
    /// # fn f(logits: &Tensor, classes: &Tensor) -> Tensor {
    /// logits.cross_entropy(classes, ClassLossOptions::new().label_smoothing(0.1))
    /// # }
    /// ```
    #[must_use]
    #[track_caller]
    pub fn cross_entropy(&self, target: &Tensor, options: ClassLossOptions<'_>) -> Tensor {
        let tag = OpTag::new("cross_entropy");
        let held = precision::adjusted(Class::Full, tag, [self, target]);
        let [this, target] = held.operands([self, target]);
        checked(tag, [this, target], [options.weight], |[x, y], [weight]| {
            let rows = Rows::new(x, weight)?;
            let probabilities = y.dtype.is_float() && y.shape == x.shape;
            if !probabilities {
                rows.check_classes(y)?;
            }
            let smoothing = options.label_smoothing;
            if !(0.0..=1.0).contains(&smoothing) {
                return Err(Refusal::new(format!("label smoothing {smoothing}: it is 0 to 1")));
            }
            let operands = [this, target];
            let name = if probabilities {
                "cross_entropy_probabilities"
            } else {
                "cross_entropy"
            };
            Ok(composite_of(
                name,
                &options.key(),
                operands,
                [options.weight],
                tag,
                |[x, y], [weight]| {
                    let wide = cast(x, rows.sum, tag);
                    let peak = peak(&wide, rows.axis);
                    let below = &wide - &peak;
                    let log_sum = below.exp().sum_keepdims(rows.axis).log();
                    let weight = weight.map(|weight| rows.spread(weight, tag));
                    let weight = weight.as_ref();
                    if probabilities {
                        return rows.by_probability(&(&log_sum - below), y, weight, options, tag);
                    }
                    // Takes elements of x itself, not of what was computed from it: that needs no second kernel.
                    let target = rows.classes(y, options.ignore_index, tag);
                    let losses = &log_sum - (cast(&rows.at(x, &target, tag), rows.sum, tag) - peak);
                    match smoothing == 0.0 {
                        true => rows.finish(losses, &target, weight, options, tag),
                        false => rows.smoothed(&losses, &(log_sum - below), &target, weight, options, tag),
                    }
                },
            ))
        })
    }

    /// `-x[target]` of logarithms of probabilities x `[n, c, space..]` or `[c]` with classes `[n, space..]` or `[]`; otherwise as
    /// [`Tensor::cross_entropy`] with classes, without label smoothing.
    #[must_use]
    #[track_caller]
    pub fn nll_loss(&self, target: &Tensor, options: ClassLossOptions<'_>) -> Tensor {
        let tag = OpTag::new("nll_loss");
        let held = precision::adjusted(Class::Full, tag, [self, target]);
        let [this, target] = held.operands([self, target]);
        checked(tag, [this, target], [options.weight], |[x, y], [weight]| {
            let rows = Rows::new(x, weight)?;
            rows.check_classes(y)?;
            if options.label_smoothing != 0.0 {
                return Err(Refusal::new("label smoothing").help("it needs the logits: use cross_entropy"));
            }
            let operands = [this, target];
            Ok(composite_of(
                "nll_loss",
                &options.key(),
                operands,
                [options.weight],
                tag,
                |[x, y], [weight]| {
                    let weight = weight.map(|weight| rows.spread(weight, tag));
                    let target = rows.classes(y, options.ignore_index, tag);
                    let losses = -cast(&rows.at(x, &target, tag), rows.sum, tag);
                    rows.finish(losses, &target, weight.as_ref(), options, tag)
                },
            ))
        })
    }
}

/// Rows of classes.
struct Rows {
    shape: Shape,
    axis: i32,
    classes: usize,
    dtype: DType,
    sum: DType,
}

impl Rows {
    fn new(x: Type, weight: Option<Type>) -> Result<Rows, Refusal> {
        if x.shape.is_empty() || !x.dtype.is_float() {
            return Err(Refusal::new(format!(
                "{} {}: it is [n, c, space..] or [c], of a float",
                x.dtype, x.shape
            )));
        }
        let axis = usize::from(x.shape.len() > 1);
        let classes = x.shape[axis];
        match weight {
            Some(weight) if *weight.shape != [classes] => {
                return Err(Refusal::new(format!(
                    "weights {} for {classes} classes",
                    weight.shape
                )));
            }
            _ => {}
        }
        if classes == 0 {
            return Err(Refusal::new(format!("no classes in {}", x.shape)));
        }
        Ok(Rows {
            shape: x.shape,
            axis: axis as i32,
            classes,
            dtype: x.dtype,
            sum: wide(x.dtype),
        })
    }

    fn check_classes(&self, y: Type) -> Result<(), Refusal> {
        let axis = self.axis as usize;
        let fits = y.shape.len() + 1 == self.shape.len()
            && y.shape[..axis] == self.shape[..axis]
            && y.shape[axis..] == self.shape[axis + 1..];
        if !fits || !y.dtype.is_integer() {
            return Err(
                Refusal::new(format!("targets {} {} for {}", y.dtype, y.shape, self.shape)).help(
                    "targets are integers of the shape without classes, or probabilities of the same shape",
                ),
            );
        }
        Ok(())
    }

    /// Classes as i64, with an axis of extent 1 in place of the classes. `ignore` is the class that does not count.
    fn classes(&self, y: &Tensor, ignore: i64, tag: OpTag) -> Tensor {
        let classes = cast(y, DType::I64, tag);
        let op = inside(self.axis as usize, self.classes, 0, Some(ignore));
        apply(op, &[&classes], tag).unsqueeze(self.axis)
    }

    /// The element of each row at its class.
    fn at(&self, x: &Tensor, target: &Tensor, tag: OpTag) -> Tensor {
        let op = Op::Gather {
            axis: self.axis as u8,
        };
        apply(op, &[x, target], tag)
    }

    /// A value for each class along the axis of classes.
    fn spread(&self, weight: &Tensor, tag: OpTag) -> Tensor {
        let behind = self.shape.len() - 1 - self.axis as usize;
        let weight = cast(weight, self.sum, tag);
        (0..behind).fold(weight, |weight, _| weight.unsqueeze(-1))
    }

    /// Losses with a part of that of every class.
    fn smoothed(
        &self,
        losses: &Tensor,
        every: &Tensor,
        target: &Tensor,
        weight: Option<&Tensor>,
        options: ClassLossOptions<'_>,
        tag: OpTag,
    ) -> Tensor {
        let smoothing = options.label_smoothing;
        let every = match weight {
            Some(weight) => every * weight,
            None => every.clone(),
        };
        let spread = every.sum_keepdims(self.axis) * (smoothing / self.classes as f64);
        let weights = self.weights(target, weight, options, tag);
        let losses = losses * &weights * (1.0 - smoothing) + spread;
        let losses = target.eq(options.ignore_index).where_cond(0.0, losses);
        self.reduced(&losses, Some(&weights), options.reduction, tag)
    }

    /// The weight of each target, 0 for those that do not count.
    fn weights(
        &self,
        target: &Tensor,
        weight: Option<&Tensor>,
        options: ClassLossOptions<'_>,
        tag: OpTag,
    ) -> Tensor {
        let ignored = target.eq(options.ignore_index);
        match weight {
            None => cast(&ignored.logical_not(), self.sum, tag),
            Some(weight) => {
                let every = expanded(weight, self.shape, tag);
                ignored.where_cond(0.0, self.at(&every, target, tag))
            }
        }
    }

    fn finish(
        &self,
        losses: Tensor,
        target: &Tensor,
        weight: Option<&Tensor>,
        options: ClassLossOptions<'_>,
        tag: OpTag,
    ) -> Tensor {
        let weights = self.weights(target, weight, options, tag);
        // A product would make NaN of an infinite loss that does not count.
        let ignored = target.eq(options.ignore_index);
        let losses = ignored.where_cond(0.0, losses);
        let losses = match weight {
            Some(_) => losses * &weights,
            None => losses,
        };
        self.reduced(&losses, Some(&weights), options.reduction, tag)
    }

    /// Losses `[n, 1, space..]` as the result; a mean divides by the sum of `weights`, or by their number.
    fn reduced(&self, losses: &Tensor, weights: Option<&Tensor>, reduction: Reduction, tag: OpTag) -> Tensor {
        let result = match (reduction, weights) {
            (Reduction::None, _) => losses.squeeze_axes(self.axis),
            (Reduction::Sum, _) => losses.sum(),
            (Reduction::Mean, Some(weights)) => losses.sum() / weights.sum(),
            (Reduction::Mean, None) => losses.mean(),
        };
        cast(&result, self.dtype, tag)
    }

    /// `every` is the loss of each class.
    fn by_probability(
        &self,
        every: &Tensor,
        y: &Tensor,
        weight: Option<&Tensor>,
        options: ClassLossOptions<'_>,
        tag: OpTag,
    ) -> Tensor {
        let smoothing = options.label_smoothing;
        let mut target = cast(y, self.sum, tag);
        if smoothing != 0.0 {
            target = target * (1.0 - smoothing) + smoothing / self.classes as f64;
        }
        let losses = match weight {
            Some(weight) => every * weight * target,
            None => every * target,
        };
        self.reduced(&losses.sum_keepdims(self.axis), None, options.reduction, tag)
    }
}
