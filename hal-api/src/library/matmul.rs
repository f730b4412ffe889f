//! The batched matrix product.

use super::desc::{LibraryDesc, OwnedLibrary, count};
use super::{cast, epilogue, input, refuse, verified};
use crate::dtype::DType;
use crate::ir::{Kernel, Level, MAX_RANK, ReduceOp, ScalarOp};
use crate::status::Result;

pub(super) const NAME: &str = "matmul";

/// `out[b.., i, j] = epilogue(sum over l of a[b.., i, l] * b[b.., l, j])`.
///
/// Index space: outer `[b.., m, n]` with `batch` batch axes, inner `[k]`. Parameters: 0 `a` and 1 `b` (element level,
/// strided: `a` has stride 0 along n, `b` along m, either may have stride 0 along a batch axis), the epilogue's further
/// inputs (row level), then the output (row level, strided). Transposed operands are strides.
///
/// Arithmetic: floats multiply and accumulate in `accumulate` with any order of k that depends on the extents alone, and
/// may be contracted; integers wrap in `accumulate`, so a sum is exact modulo 2³² in i32. Of f8e4m3 and f8e5m2 a sum may keep 13 bits of its greatest terms, as
/// tensor cores do, and which it keeps may depend on the operands' layout too.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Matmul {
    /// Batch axes, `0..=MAX_RANK - 2`.
    pub batch: u32,
    /// Dtypes of `a` and `b`. Products are in `accumulate`, so they may differ: u8 times i8 is summed in i32.
    pub operands: [DType; 2],
    /// Dtype of products and sums: that of the operands, f32 for floats of 16 and 8 bits, i32 for i8 and u8, i64/u64 for narrower integers.
    pub accumulate: DType,
    /// Dtype of the output when there is no epilogue.
    pub output: DType,
    /// A map over outer rank `batch + 2`: its input 0 is the sum (dtype `accumulate`), its other inputs are parameters of
    /// the launch, and it has one output.
    pub epilogue: Option<Kernel>,
}

impl Matmul {
    pub(super) fn definition(&self) -> Result<Kernel> {
        if self.batch as usize > MAX_RANK - 2 {
            return refuse(
                NAME,
                format!("{} batch axes, at most {} are possible", self.batch, MAX_RANK - 2),
            );
        }
        epilogue::accumulates(NAME, ReduceOp::Sum, self.accumulate)?;
        let mut kernel = Kernel::new(NAME, self.batch + 2, 1);
        let [a, b] = self.operands.map(|dtype| {
            let param = input(&mut kernel, dtype, Level::Element);
            let value = kernel.load(param);
            cast(&mut kernel, dtype, self.accumulate, value)
        });
        let product = kernel.op(ScalarOp::Mul, &[a, b]);
        let sum = kernel.reduce(ReduceOp::Sum, product);
        epilogue::finish(
            &mut kernel,
            self.epilogue.as_ref(),
            sum,
            self.accumulate,
            self.output,
        )?;
        verified(NAME, kernel)
    }

    pub(super) fn encode(&self, code: u32, epilogue: Option<&Kernel>) -> OwnedLibrary {
        OwnedLibrary::new(
            code,
            &[self.operands[0], self.operands[1], self.accumulate, self.output],
            &[self.batch.into()],
            epilogue,
        )
    }

    pub(super) fn decode(desc: &LibraryDesc, name: &str) -> Result<Matmul> {
        let fields = desc.fields::<4>(name, 1)?;
        let [a, b, accumulate, output] = fields.dtypes;
        Ok(Matmul {
            batch: count(name, "batch axes", fields.attributes[0])?,
            operands: [a, b],
            accumulate,
            output,
            epilogue: None,
        })
    }
}
