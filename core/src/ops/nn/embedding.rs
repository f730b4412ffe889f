//! Rows of a table.

use crate::graph::Op;
use crate::hal::DType;
use crate::ops::checked::{checked, composite_of};
use crate::ops::index::inside;
use crate::ops::{cast, expanded};
use crate::tensor::failure::Refusal;
use crate::tensor::shape::Shape;
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply};

impl Tensor {
    /// The rows of this table `[rows, d]` at `indices` (any integer dtype and shape `[..]`): `[.., d]`. An index outside gives a row
    /// of zeros, as no device can stop in a kernel. Rows at `padding` get no gradient.
    #[must_use]
    #[track_caller]
    pub fn embedding(&self, indices: &Tensor, padding: impl Into<Option<usize>>) -> Tensor {
        let tag = OpTag::new("embedding");
        let padding = padding.into();
        checked(tag, [self, indices], [], |[table, index], []| {
            let [height, width] = *table.shape else {
                return Err(Refusal::new(format!(
                    "table {}: it is [rows, width]",
                    table.shape
                )));
            };
            if !index.dtype.is_integer() {
                return Err(Refusal::new(format!("indices of {}", index.dtype)).help("cast them to i64"));
            }
            let count = index.shape.elements();
            let flat = Shape::checked(&[count, width])?;
            let out = Shape::checked(&[&*index.shape, &[width]].concat())?;
            Ok(composite_of(
                "embedding",
                &padding,
                [self, indices],
                [],
                tag,
                |[table, indices], []| {
                    let indices = cast(indices, DType::I64, tag);
                    let indices = apply(inside(0, height, 0, None), &[&indices], tag);
                    let column = indices.reshape([count, 1]);
                    let index = expanded(&column, flat, tag);
                    let rows = apply(Op::Gather { axis: 0 }, &[table, &index], tag);
                    let rows = match padding {
                        Some(padding) if rows.history.is_some() => {
                            column.eq(padding as i64).where_cond(rows.detach(), &rows)
                        }
                        _ => rows,
                    };
                    rows.reshape(out)
                },
            ))
        })
    }
}
