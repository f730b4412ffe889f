//! Updates at indices along one axis.

use super::desc::{LibraryDesc, OwnedLibrary, count};
use super::{cast, epilogue, index, input, joins, neutral, output, refuse, verified, whole};
use crate::dtype::DType;
use crate::ir::{Kernel, Level, MAX_RANK, Node, ReduceOp, ScalarOp};
use crate::status::Result;

pub(super) const NAME: &str = "scatter";

/// `out[b.., d] = base[b.., d]`, combined with every `updates[b.., m]` whose `index[b.., m]` is d.
///
/// Index space: outer `[b.., d]` with `batch` batch axes, inner `[m]`; the axis of the indices is the last one, whatever its
/// strides. Parameters: 0 base (row level, strided), 1 updates (row level, strided with stride 0 along d, gathered along m:
/// gather stride and extent are those of m), 2 index (element level, strided with stride 0 along d), 3 the output (row level,
/// strided), which may be base in place. Row updates (one index for a whole slice) are an index with stride 0 along the
/// batch axes.
///
/// An index outside the extent of d is skipped. Without `combine` the update with the greatest m wins. Sums and products of
/// floats may be combined in any order that depends on extents and indices alone, and the sign of a zero sum is not specified.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scatter {
    /// Batch axes, `0..=MAX_RANK - 1`.
    pub batch: u32,
    /// How updates and base combine: `Sum`, `Prod`, `Max` or `Min`; `None` sets.
    pub combine: Option<ReduceOp>,
    /// Dtype of base, updates and output.
    pub dtype: DType,
    /// Dtype in which they combine: `dtype` itself, or a wider one that the reduction takes.
    pub accumulate: DType,
    /// Dtype of the indices: i32 or i64.
    pub index: DType,
}

impl Scatter {
    pub(super) fn definition(&self) -> Result<Kernel> {
        if self.batch as usize > MAX_RANK - 1 {
            return refuse(
                NAME,
                format!("{} batch axes, at most {} are possible", self.batch, MAX_RANK - 1),
            );
        }
        if !matches!(self.index, DType::I32 | DType::I64) {
            return refuse(NAME, format!("the index is {}, not i32 or i64", self.index));
        }
        let mut kernel = Kernel::new(NAME, self.batch + 1, 1);
        let base = input(&mut kernel, self.dtype, Level::Row);
        let updates = input(&mut kernel, self.dtype, Level::Row);
        let indices = input(&mut kernel, self.index, Level::Element);
        let (d, m) = (index(&mut kernel, self.batch), index(&mut kernel, self.batch + 1));
        let at = kernel.load(indices);
        let at = cast(&mut kernel, self.index, DType::I64, at);
        let hit = kernel.op(ScalarOp::Eq, &[at, d]);
        let old = kernel.load(base);
        let result = match self.combine {
            None if self.accumulate != self.dtype => {
                return refuse(
                    NAME,
                    format!("{} is set, not accumulated in {}", self.dtype, self.accumulate),
                );
            }
            None => {
                let nowhere = whole(&mut kernel, -1);
                let place = kernel.op(ScalarOp::Select, &[hit, m, nowhere]);
                let last = kernel.reduce(ReduceOp::Max, place);
                let update = kernel.push(Node::LoadAt {
                    param: updates,
                    index: last,
                });
                let any = kernel.op(ScalarOp::Lt, &[nowhere, last]);
                kernel.op(ScalarOp::Select, &[any, update, old])
            }
            Some(op) => {
                let Some(join) = joins(op) else {
                    return refuse(NAME, format!("it cannot combine by {op}"));
                };
                epilogue::accumulates(NAME, op, self.accumulate)?;
                let update = kernel.push(Node::LoadAt {
                    param: updates,
                    index: m,
                });
                let update = cast(&mut kernel, self.dtype, self.accumulate, update);
                let nothing = neutral(&mut kernel, op, self.accumulate);
                let update = kernel.op(ScalarOp::Select, &[hit, update, nothing]);
                let all = kernel.reduce(op, update);
                let old = cast(&mut kernel, self.dtype, self.accumulate, old);
                let result = kernel.op(join, &[old, all]);
                cast(&mut kernel, self.accumulate, self.dtype, result)
            }
        };
        output(&mut kernel, self.dtype, result);
        verified(NAME, kernel)
    }

    pub(super) fn encode(&self, code: u32, epilogue: Option<&Kernel>) -> OwnedLibrary {
        let combine = self.combine.map_or(0, ReduceOp::code);
        OwnedLibrary::new(
            code,
            &[self.dtype, self.accumulate, self.index],
            &[self.batch.into(), combine.into()],
            epilogue,
        )
    }

    pub(super) fn decode(desc: &LibraryDesc, name: &str) -> Result<Scatter> {
        let fields = desc.fields::<3>(name, 2)?;
        let [dtype, accumulate, index] = fields.dtypes;
        let combine = match fields.attributes[1] {
            0 => None,
            code => Some(super::reduction(name, code)?),
        };
        Ok(Scatter {
            batch: count(name, "batch axes", fields.attributes[0])?,
            combine,
            dtype,
            accumulate,
            index,
        })
    }
}
