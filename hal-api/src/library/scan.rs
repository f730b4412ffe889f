//! Cumulative reductions.

use super::desc::{LibraryDesc, OwnedLibrary, count, flag};
use super::{cast, epilogue, index, input, joins, neutral, output, reduction, refuse, verified};
use crate::dtype::DType;
use crate::ir::{Kernel, Level, MAX_RANK, ReduceOp, ScalarOp};
use crate::status::Result;

pub(super) const NAME: &str = "scan";

/// `out[b.., i]` is the reduction of `x[b.., j]` over all `j <= i`, or over all `j < i` when it is exclusive.
///
/// Index space: outer `[b.., i]` with `batch` batch axes, inner `[j]`; both axes have the extent of the scanned axis.
/// Parameters: 0 x (element level, strided with stride 0 along i), 1 the output (row level, strided). A scan from the other
/// end is negative strides. Sums and products of floats may be combined in any order that depends on the extents alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scan {
    /// Batch axes, `0..=MAX_RANK - 1`.
    pub batch: u32,
    /// `Sum`, `Prod`, `Max` or `Min`.
    pub op: ReduceOp,
    /// Leaves `j = i` out, so that the first result is that of a reduction over nothing.
    pub exclusive: bool,
    /// Dtype of x.
    pub dtype: DType,
    /// Dtype of the partial results; the reduction takes it.
    pub accumulate: DType,
    /// Dtype of the output.
    pub output: DType,
}

impl Scan {
    pub(super) fn definition(&self) -> Result<Kernel> {
        if self.batch as usize > MAX_RANK - 1 {
            return refuse(
                NAME,
                format!("{} batch axes, at most {} are possible", self.batch, MAX_RANK - 1),
            );
        }
        if joins(self.op).is_none() {
            return refuse(NAME, format!("there is no cumulative {}", self.op));
        }
        epilogue::accumulates(NAME, self.op, self.accumulate)?;
        let mut kernel = Kernel::new(NAME, self.batch + 1, 1);
        let x = input(&mut kernel, self.dtype, Level::Element);
        let (i, j) = (index(&mut kernel, self.batch), index(&mut kernel, self.batch + 1));
        let before = if self.exclusive {
            ScalarOp::Lt
        } else {
            ScalarOp::Le
        };
        let taken = kernel.op(before, &[j, i]);
        let value = kernel.load(x);
        let value = cast(&mut kernel, self.dtype, self.accumulate, value);
        let nothing = neutral(&mut kernel, self.op, self.accumulate);
        let value = kernel.op(ScalarOp::Select, &[taken, value, nothing]);
        let result = kernel.reduce(self.op, value);
        let result = cast(&mut kernel, self.accumulate, self.output, result);
        output(&mut kernel, self.output, result);
        verified(NAME, kernel)
    }

    pub(super) fn encode(&self, code: u32, epilogue: Option<&Kernel>) -> OwnedLibrary {
        OwnedLibrary::new(
            code,
            &[self.dtype, self.accumulate, self.output],
            &[
                self.batch.into(),
                self.op.code().into(),
                i64::from(self.exclusive),
            ],
            epilogue,
        )
    }

    pub(super) fn decode(desc: &LibraryDesc, name: &str) -> Result<Scan> {
        let fields = desc.fields::<3>(name, 3)?;
        let [dtype, accumulate, output] = fields.dtypes;
        Ok(Scan {
            batch: count(name, "batch axes", fields.attributes[0])?,
            op: reduction(name, fields.attributes[1])?,
            exclusive: flag(name, "exclusive", fields.attributes[2])?,
            dtype,
            accumulate,
            output,
        })
    }
}
