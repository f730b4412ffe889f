//! Sorting.

use super::desc::{LibraryDesc, OwnedLibrary, count, flag};
use super::{index, input, output, refuse, verified};
use crate::dtype::DType;
use crate::ir::{Access, Kernel, Level, MAX_RANK, Node, NodeId, ReduceOp, Role, ScalarOp};
use crate::kit::checks::{Signature, Slot};
use crate::status::Result;

pub(super) const NAME: &str = "sort";

/// The elements along the last axis in order, and where each of them was.
///
/// Index space: outer `[b.., n]` with `batch` batch axes, no inner one. Parameters, all at row level and strided: 0 x, 1 the
/// sorted elements, 2 their indices in x (i64) if they are wanted. The order is stable; `-0` and `+0` are equal, and NaN comes last
/// in either direction. The elements are the same bits with and without indices.
///
/// With `part`, n is how many elements of the order are wanted, and x has stride 0 along it: the elements of a row are reached by its
/// gather. A row with fewer than n elements leaves what lies behind them as it was.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sort {
    /// Batch axes, `0..=MAX_RANK - 1`.
    pub batch: u32,
    /// The greatest comes first.
    pub descending: bool,
    /// Whether the indices are wanted. A device may have the op with them alone.
    pub indices: bool,
    /// Whether the first elements of the order alone are wanted. A device may have the op for whole rows alone.
    pub part: bool,
    /// Dtype of the elements.
    pub dtype: DType,
}

impl Sort {
    /// The same in two kernels of the IR, for backends that have no sort. Both have inner `[n]`, and outer `[b.., n]`; the second one
    /// of a part has outer `[b.., k]`, of which k elements are wanted.
    ///
    /// 1. The rank of each element: parameters x (element level, strided with stride 0 along the outer n), x again (row
    ///    level, strided), the ranks (i64, row level, strided).
    /// 2. Elements by rank: parameters the ranks (element level, strided with stride 0 along the outer n), x (row level,
    ///    strided with stride 0 along n, gathered along n), the sorted elements and, if they are wanted, their indices (row level,
    ///    strided).
    ///
    /// # Errors
    /// `InvalidArgument` when there are too many batch axes, or for a dtype whose elements are not compared.
    pub fn lowered(&self) -> Result<[Kernel; 2]> {
        self.check()?;
        Ok([self.rank()?, self.permute()?])
    }

    fn rank(&self) -> Result<Kernel> {
        let mut kernel = Kernel::new("sort_rank", self.batch + 1, 1);
        let all = input(&mut kernel, self.dtype, Level::Element);
        let own = input(&mut kernel, self.dtype, Level::Row);
        let (i, j) = (index(&mut kernel, self.batch), index(&mut kernel, self.batch + 1));
        let (other, this) = (kernel.load(all), kernel.load(own));
        let order = if self.descending {
            [this, other]
        } else {
            [other, this]
        };
        let less = kernel.op(ScalarOp::Lt, &order);
        let equal = kernel.op(ScalarOp::Eq, &[other, this]);
        let (less, equal) = if self.dtype.is_float() {
            let nan = |kernel: &mut Kernel, x: NodeId| kernel.op(ScalarOp::Ne, &[x, x]);
            let (other_nan, this_nan) = (nan(&mut kernel, other), nan(&mut kernel, this));
            let other_number = kernel.op(ScalarOp::Not, &[other_nan]);
            let to_nan = kernel.op(ScalarOp::And, &[other_number, this_nan]);
            let both_nan = kernel.op(ScalarOp::And, &[other_nan, this_nan]);
            (
                kernel.op(ScalarOp::Or, &[less, to_nan]),
                kernel.op(ScalarOp::Or, &[equal, both_nan]),
            )
        } else {
            (less, equal)
        };
        let earlier = kernel.op(ScalarOp::Lt, &[j, i]);
        let tie = kernel.op(ScalarOp::And, &[equal, earlier]);
        let before = kernel.op(ScalarOp::Or, &[less, tie]);
        let one = kernel.cast(DType::I64, before);
        let rank = kernel.reduce(ReduceOp::Sum, one);
        output(&mut kernel, DType::I64, rank);
        verified(NAME, kernel)
    }

    fn permute(&self) -> Result<Kernel> {
        let mut kernel = Kernel::new("sort_permute", self.batch + 1, 1);
        let ranks = input(&mut kernel, DType::I64, Level::Element);
        let x = input(&mut kernel, self.dtype, Level::Row);
        let place = index(&mut kernel, self.batch);
        let rank = kernel.load(ranks);
        let here = kernel.op(ScalarOp::Eq, &[rank, place]);
        let from = kernel.reduce(ReduceOp::ArgMax, here);
        let value = kernel.push(Node::LoadAt {
            param: x,
            index: from,
        });
        output(&mut kernel, self.dtype, value);
        if self.indices {
            output(&mut kernel, DType::I64, from);
        }
        verified(NAME, kernel)
    }

    fn check(&self) -> Result<()> {
        if self.batch as usize > MAX_RANK - 1 {
            return refuse(
                NAME,
                format!("{} batch axes, at most {} are possible", self.batch, MAX_RANK - 1),
            );
        }
        if !ScalarOp::Lt.accepts().takes(self.dtype) {
            return refuse(NAME, format!("{} has no order; cast it", self.dtype));
        }
        Ok(())
    }

    pub(super) fn signature(&self) -> Result<Signature> {
        self.check()?;
        let slot = |dtype: DType, role: Role| Slot {
            dtype,
            role,
            level: Level::Row,
            access: Access::Strided,
            direct: true,
            gathers: false,
        };
        let x = Slot {
            direct: !self.part,
            gathers: self.part,
            ..slot(self.dtype, Role::In)
        };
        let mut slots = vec![x, slot(self.dtype, Role::Out)];
        if self.indices {
            slots.push(slot(DType::I64, Role::Out));
        }
        Ok(Signature {
            name: NAME.into(),
            outer: self.batch as usize + 1,
            inner: 0,
            slots,
            scalars: Vec::new(),
        })
    }

    pub(super) fn encode(&self, code: u32, epilogue: Option<&Kernel>) -> OwnedLibrary {
        OwnedLibrary::new(
            code,
            &[self.dtype],
            &[
                self.batch.into(),
                i64::from(self.descending),
                i64::from(self.indices),
                i64::from(self.part),
            ],
            epilogue,
        )
    }

    pub(super) fn decode(desc: &LibraryDesc, name: &str) -> Result<Sort> {
        let fields = desc.fields::<1>(name, 4)?;
        Ok(Sort {
            batch: count(name, "batch axes", fields.attributes[0])?,
            descending: flag(name, "descending", fields.attributes[1])?,
            indices: flag(name, "indices", fields.attributes[2])?,
            part: flag(name, "part", fields.attributes[3])?,
            dtype: fields.dtypes[0],
        })
    }
}
