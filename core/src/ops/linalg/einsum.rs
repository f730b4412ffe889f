//! Einstein summation: parsed, planned, and lowered to diagonals, sums, products and matrix products.

use super::diagonal::diagonal;
use super::equation::{Equation, Label};
use super::matmul::{output_of, product_dtype};
use super::order::{Split, order};
use crate::graph::Op;
use crate::hal::DType;
use crate::ops::cast;
use crate::ops::checked::{composite_slice, summed, wide};
use crate::ops::precision::{self, Class};
use crate::tensor::shape::Axes;
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply};

/// An operand and what its axes are called.
struct Term {
    tensor: Tensor,
    labels: Vec<Label>,
}

impl Tensor {
    /// The sum of products that an equation names, as in PyTorch: `"ij,jk->ik"` is a matrix product, `"ii->i"` a diagonal,
    /// `"...ij->...ji"` a transpose of each matrix. Letters name axes; those that are not in the output are summed. Without
    /// `->` the output is the ellipsis and then each letter that occurs once, in alphabetic order, capitals first. Axes of
    /// extent 1 broadcast.
    ///
    /// Several operands are contracted in pairs in the order of fewest multiplications. Dtypes as [`Tensor::matmul`].
    ///
    /// ```no_run
    /// # use thalweg::Tensor;
    /// # fn f(q: &Tensor, k: &Tensor) -> Tensor {
    /// Tensor::einsum("bhid,bhjd->bhij", &[q, k])
    /// # }
    /// ```
    #[must_use]
    #[track_caller]
    pub fn einsum(equation: &str, operands: &[&Tensor]) -> Tensor {
        let tag = OpTag::new("einsum");
        if let Some((adjusted, back)) = precision::adjusted_all(Class::Matrix, tag, operands) {
            let adjusted: Vec<&Tensor> = adjusted.iter().collect();
            let result = tag.scope(|| Tensor::einsum(equation, &adjusted));
            return if back {
                cast(&result, DType::F32, tag)
            } else {
                result
            };
        }
        let mut shapes = Vec::new();
        let mut dtype: Option<DType> = None;
        for operand in operands {
            let Ok(ty) = operand.ty() else {
                return (*operand).clone();
            };
            shapes.push(ty.shape);
            dtype = match product_dtype(dtype.unwrap_or(ty.dtype), ty.dtype) {
                Ok(dtype) => Some(dtype),
                Err(refusal) => return Tensor::refused(tag, refusal, operands),
            };
        }
        let parsed = match Equation::parse(equation, &shapes) {
            Ok(parsed) => parsed,
            Err(refusal) => return Tensor::refused(tag, refusal, operands),
        };
        // Sums over one operand's labels are not taken in a dtype for storage.
        let dtype = output_of(dtype.unwrap_or(DType::F32));
        composite_slice("einsum", &equation.to_owned(), operands, tag, |operands| {
            contract(&parsed, operands, dtype, tag)
        })
    }
}

fn contract(equation: &Equation, operands: &[Tensor], dtype: DType, tag: OpTag) -> Tensor {
    let terms: Vec<Term> = operands
        .iter()
        .zip(&equation.operands)
        .map(|(tensor, labels)| {
            let mut term = Term {
                tensor: cast(tensor, dtype, tag),
                labels: labels.clone(),
            };
            term.take_diagonals(tag);
            term.drop_broadcast(equation);
            term
        })
        .collect();
    let names: Vec<Vec<Label>> = terms.iter().map(|term| term.labels.clone()).collect();
    let split = order(&names, &equation.output, &equation.extents);
    let result = run(&split, &terms, equation, &[], dtype, tag);
    result.ordered(&equation.output)
}

/// The product of a set of terms, summed over all labels that neither the output nor `outside` names.
fn run(
    split: &Split,
    terms: &[Term],
    equation: &Equation,
    outside: &[Label],
    dtype: DType,
    tag: OpTag,
) -> Term {
    let wanted = |labels: &[Label]| -> Vec<Label> { [&equation.output, outside, labels].concat() };
    match split {
        Split::Term(at) => {
            let term = Term {
                tensor: terms[*at].tensor.clone(),
                labels: terms[*at].labels.clone(),
            };
            term.keep(&wanted(&[]), dtype, tag)
        }
        Split::Pair(left, right) => {
            let a = run(
                left,
                terms,
                equation,
                &wanted(&right.labels(terms.iter().map(|term| &*term.labels))),
                dtype,
                tag,
            );
            let b = run(
                right,
                terms,
                equation,
                &wanted(&left.labels(terms.iter().map(|term| &*term.labels))),
                dtype,
                tag,
            );
            pair(&a, &b, &wanted(&[]), dtype, tag)
        }
    }
}

/// The product of two terms, summed over the labels that are not `wanted`; each of those is in both.
fn pair(a: &Term, b: &Term, wanted: &[Label], dtype: DType, tag: OpTag) -> Term {
    let kept = |label: &Label| wanted.contains(label);
    let shared = |label: &Label| a.labels.contains(label) && b.labels.contains(label);
    let choose = |from: &Term, test: &dyn Fn(&Label) -> bool| -> Vec<Label> {
        from.labels.iter().copied().filter(|label| test(label)).collect()
    };
    let batch = choose(a, &|label| shared(label) && kept(label));
    let sums = choose(a, &|label| shared(label) && !kept(label));
    let rows = choose(a, &|label| !shared(label));
    let columns = choose(b, &|label| !shared(label));
    let labels = [&*batch, &rows, &columns].concat();
    if sums.is_empty() || (rows.is_empty() && columns.is_empty()) {
        let all = [&*labels, &sums].concat();
        let compute = if sums.is_empty() { dtype } else { wide(dtype) };
        let product = cast(&a.spread(&all), compute, tag) * cast(&b.spread(&all), compute, tag);
        let axes: Axes = (labels.len()..all.len()).collect();
        return Term {
            tensor: summed(&product, axes, dtype, tag),
            labels,
        };
    }
    let (left, rows_extents) = a.matrix(&batch, &rows, &sums);
    let (right, columns_extents) = b.matrix(&batch, &sums, &columns);
    let op = Op::Matmul {
        accumulate: wide(dtype),
        output: dtype,
    };
    let product = apply(op, &[&left, &right], tag);
    let batch_extents: Vec<usize> = batch.iter().map(|label| a.extent(*label)).collect();
    Term {
        tensor: product.reshape([batch_extents, rows_extents.0, columns_extents.1].concat()),
        labels,
    }
}

impl Term {
    fn extent(&self, label: Label) -> usize {
        let at = self.labels.iter().position(|&own| own == label);
        match (at, self.tensor.ty()) {
            (Some(at), Ok(ty)) => ty.shape[at],
            _ => 1,
        }
    }

    /// A label that names several axes goes along their diagonal.
    fn take_diagonals(&mut self, tag: OpTag) {
        let mut at = 0;
        while at < self.labels.len() {
            let label = self.labels[at];
            match self.labels[at + 1..].iter().position(|&other| other == label) {
                None => at += 1,
                Some(next) => {
                    let next = at + 1 + next;
                    self.tensor = diagonal(&self.tensor, at, next, tag);
                    self.labels.remove(next);
                    self.labels.remove(at);
                    self.labels.push(label);
                }
            }
        }
    }

    /// Axes of extent 1 whose label is wider elsewhere go.
    fn drop_broadcast(&mut self, equation: &Equation) {
        for at in (0..self.labels.len()).rev() {
            let label = self.labels[at];
            if self.extent(label) == 1 && equation.extents[usize::from(label)] != 1 {
                self.tensor = self.tensor.squeeze_axes(at as i32);
                self.labels.remove(at);
            }
        }
    }

    /// Sums over the labels that are not `wanted`.
    fn keep(self, wanted: &[Label], dtype: DType, tag: OpTag) -> Term {
        let gone: Axes = (0..self.labels.len())
            .filter(|&at| !wanted.contains(&self.labels[at]))
            .collect();
        Term {
            tensor: summed(&self.tensor, gone, dtype, tag),
            labels: self
                .labels
                .into_iter()
                .filter(|label| wanted.contains(label))
                .collect(),
        }
    }

    /// The tensor with its axes in the order of `labels`, which are all of its own.
    fn ordered(&self, labels: &[Label]) -> Tensor {
        let order: Vec<i32> = labels
            .iter()
            .filter_map(|label| self.labels.iter().position(|own| own == label))
            .map(|at| at as i32)
            .collect();
        self.tensor.permute(order)
    }

    /// The tensor with an axis for each of `labels`, 1 wide for those that it has not.
    fn spread(&self, labels: &[Label]) -> Tensor {
        let mut tensor = self.ordered(labels);
        for (at, label) in labels.iter().enumerate() {
            if !self.labels.contains(label) {
                tensor = tensor.unsqueeze(at as i32);
            }
        }
        tensor
    }

    /// As a batch of matrices, and the extents of rows and columns.
    fn matrix(
        &self,
        batch: &[Label],
        rows: &[Label],
        columns: &[Label],
    ) -> (Tensor, (Vec<usize>, Vec<usize>)) {
        let extents =
            |labels: &[Label]| -> Vec<usize> { labels.iter().map(|&label| self.extent(label)).collect() };
        let (batches, row, column) = (extents(batch), extents(rows), extents(columns));
        let shape = [
            batches.iter().product::<usize>(),
            row.iter().product(),
            column.iter().product(),
        ];
        let tensor = self.ordered(&[batch, rows, columns].concat()).reshape(shape);
        (tensor, (row, column))
    }
}
