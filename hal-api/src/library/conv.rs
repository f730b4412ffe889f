//! Convolution and its gradients.

use super::desc::{LibraryDesc, OwnedLibrary, count, flag};
use super::{cast, epilogue, index, input, refuse, verified, whole};
use crate::dtype::DType;
use crate::ir::{Kernel, Level, Node, NodeId, ReduceOp, ScalarOp};
use crate::status::Result;

/// Most spatial axes of a convolution.
pub const MAX_SPATIAL: usize = 3;

/// Bound of stride, dilation and the size of the padding.
const MOST: i64 = i32::MAX as i64;

/// The spatial axes, three numbers for each, and whether it is fast.
const ATTRIBUTES: usize = 2 + 3 * MAX_SPATIAL;

/// A convolution: what [`LibraryOp::Conv`](super::LibraryOp::Conv) and its two gradients share.
///
/// | op | result | outer | inner |
/// |---|---|---|---|
/// | `Conv` | `out[n, g, co, o..] = sum of x[n, g, ci, p..] * w[g, co, ci, k..]` | `[n, g, co, o..]` | `[ci, k..]` |
/// | `ConvGradInput` | `dx[n, g, ci, p..] = sum of dy[n, g, co, o..] * w[g, co, ci, k..]` | `[n, g, ci, p..]` | `[co, k..]` |
/// | `ConvGradWeight` | `dw[g, co, ci, k..] = sum of x[n, g, ci, p..] * dy[n, g, co, o..]` | `[g, co, ci, k..]` | `[n, o..]` |
///
/// with `p = o * stride + k * dilation - padding` along each of the r spatial axes; x is 0 where p is outside its extent, and
/// dy is 0 where no o fits. `g` are the groups: the channels of x are `g * ci`, those of the output `g * co`, and both pairs
/// of axes are strides of one axis. Padding after the last element is whatever the extents of o reach for.
///
/// Parameters: 0 the gathered operand (x, or dy for `ConvGradInput`), 1 the other one (w, or dy for `ConvGradWeight`), both at
/// element level and strided; the epilogue's further inputs (row level); the output (row level, strided). Strides of
/// parameter 1 and of the output are arbitrary. Parameter 0 is bound with its strides along n, g and its channels and 0 along
/// every other axis. Scalars, all i64, tell its r spatial extents, then its r spatial strides in elements, at least 0; its
/// gather stride is 1, and its gather extent is one more than the greatest sum of position times spatial stride. The
/// epilogue's scalars follow.
///
/// Arithmetic as [`Matmul`](super::Matmul)'s.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Conv {
    /// Number of spatial axes, `1..=MAX_SPATIAL`.
    pub spatial: u32,
    /// Step of the window along each axis, `1..=i32::MAX`; 0 for axes that there are not.
    pub stride: [i64; MAX_SPATIAL],
    /// Step between taps along each axis, `1..=i32::MAX`; 0 for axes that there are not.
    pub dilation: [i64; MAX_SPATIAL],
    /// Zeros before the first element along each axis; negative ones leave elements out. 0 for axes that there are not.
    pub padding: [i64; MAX_SPATIAL],
    /// Dtypes of the operands, in the order of the parameters. Products are in `accumulate`, so they may differ: u8 times i8 is summed in i32.
    pub operands: [DType; 2],
    /// Dtype of products and sums, as [`Matmul::accumulate`](super::Matmul::accumulate).
    pub accumulate: DType,
    /// Dtype of the output when there is no epilogue.
    pub output: DType,
    /// Whether a backend may compute it in a form that is faster and rounds otherwise, such as Winograd's. Then an infinite or NaN element
    /// may make more elements of the result NaN than those that it meets, errors are those of the element with the greatest products, and bits
    /// may depend on the extents. A backend may ignore it.
    pub fast: bool,
    /// A map over the outer axes: its input 0 is the sum (dtype `accumulate`), its other inputs are parameters of the launch,
    /// and it has one output.
    pub epilogue: Option<Kernel>,
}

/// What is computed from what.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    GradInput,
    GradWeight,
}

impl Direction {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Direction::Forward => "conv",
            Direction::GradInput => "conv_grad_input",
            Direction::GradWeight => "conv_grad_weight",
        }
    }
}

impl Conv {
    pub(super) fn forward(&self) -> Result<Kernel> {
        self.definition(Direction::Forward)
    }

    pub(super) fn grad_input(&self) -> Result<Kernel> {
        self.definition(Direction::GradInput)
    }

    pub(super) fn grad_weight(&self) -> Result<Kernel> {
        self.definition(Direction::GradWeight)
    }

    fn definition(&self, direction: Direction) -> Result<Kernel> {
        let name = direction.name();
        self.check(name)?;
        epilogue::accumulates(name, ReduceOp::Sum, self.accumulate)?;
        let r = self.spatial;
        let mut kernel = Kernel::new(name, 3 + r, 1 + r);
        let scalars: Vec<NodeId> = (0..2 * r).map(|_| kernel.scalar(DType::I64)).collect();
        let (extents, strides) = scalars.split_at(r as usize);
        let [first, second] = self
            .operands
            .map(|dtype| input(&mut kernel, dtype, Level::Element));
        let (zero, outside) = (whole(&mut kernel, 0), whole(&mut kernel, -1));
        let (mut inside, mut at) = (None, None);
        for axis in 0..r {
            // The axes of the positions that this axis's place follows from: in the outer space, in the inner one.
            let (outer, inner) = (index(&mut kernel, 3 + axis), index(&mut kernel, 4 + r + axis));
            let i = axis as usize;
            let (place, fits) = match direction {
                Direction::Forward => (self.tap(&mut kernel, i, outer, inner), None),
                Direction::GradWeight => (self.tap(&mut kernel, i, inner, outer), None),
                Direction::GradInput => {
                    let (place, fits) = self.untap(&mut kernel, i, outer, inner);
                    (place, Some(fits))
                }
            };
            let low = kernel.op(ScalarOp::Le, &[zero, place]);
            let high = kernel.op(ScalarOp::Lt, &[place, extents[i]]);
            for condition in [Some(low), Some(high), fits].into_iter().flatten() {
                inside = Some(match inside {
                    None => condition,
                    Some(before) => kernel.op(ScalarOp::And, &[before, condition]),
                });
            }
            let step = kernel.op(ScalarOp::Mul, &[place, strides[i]]);
            at = Some(match at {
                None => step,
                Some(before) => kernel.op(ScalarOp::Add, &[before, step]),
            });
        }
        let place = match (inside, at) {
            (Some(inside), Some(at)) => kernel.op(ScalarOp::Select, &[inside, at, outside]),
            _ => outside,
        };
        let a = kernel.push(Node::LoadAt {
            param: first,
            index: place,
        });
        let a = cast(&mut kernel, self.operands[0], self.accumulate, a);
        let b = kernel.load(second);
        let b = cast(&mut kernel, self.operands[1], self.accumulate, b);
        let product = kernel.op(ScalarOp::Mul, &[a, b]);
        let sum = kernel.reduce(ReduceOp::Sum, product);
        epilogue::finish(
            &mut kernel,
            self.epilogue.as_ref(),
            sum,
            self.accumulate,
            self.output,
        )?;
        verified(name, kernel)
    }

    /// `o * stride + k * dilation - padding`.
    fn tap(&self, kernel: &mut Kernel, axis: usize, o: NodeId, k: NodeId) -> NodeId {
        let (stride, dilation, padding) = self.constants(kernel, axis);
        let window = kernel.op(ScalarOp::Mul, &[o, stride]);
        let tap = kernel.op(ScalarOp::Mul, &[k, dilation]);
        let place = kernel.op(ScalarOp::Add, &[window, tap]);
        kernel.op(ScalarOp::Sub, &[place, padding])
    }

    /// The o of `o * stride + k * dilation - padding = p`, and whether it is whole.
    fn untap(&self, kernel: &mut Kernel, axis: usize, p: NodeId, k: NodeId) -> (NodeId, NodeId) {
        let (stride, dilation, padding) = self.constants(kernel, axis);
        let tap = kernel.op(ScalarOp::Mul, &[k, dilation]);
        let place = kernel.op(ScalarOp::Add, &[p, padding]);
        let window = kernel.op(ScalarOp::Sub, &[place, tap]);
        let o = kernel.op(ScalarOp::Div, &[window, stride]);
        let back = kernel.op(ScalarOp::Mul, &[o, stride]);
        (o, kernel.op(ScalarOp::Eq, &[back, window]))
    }

    fn constants(&self, kernel: &mut Kernel, axis: usize) -> (NodeId, NodeId, NodeId) {
        (
            whole(kernel, self.stride[axis]),
            whole(kernel, self.dilation[axis]),
            whole(kernel, self.padding[axis]),
        )
    }

    fn check(&self, name: &str) -> Result<()> {
        let spatial = self.spatial as usize;
        if !(1..=MAX_SPATIAL).contains(&spatial) {
            return refuse(name, format!("{spatial} spatial axes, not 1 to {MAX_SPATIAL}"));
        }
        for axis in 0..MAX_SPATIAL {
            let (stride, dilation, padding) = (self.stride[axis], self.dilation[axis], self.padding[axis]);
            if axis >= spatial {
                if (stride, dilation, padding) != (0, 0, 0) {
                    return refuse(
                        name,
                        format!("an attribute of spatial axis {axis}, which is not there"),
                    );
                }
            } else if !(1..=MOST).contains(&stride)
                || !(1..=MOST).contains(&dilation)
                || !(-MOST..=MOST).contains(&padding)
            {
                return refuse(
                    name,
                    format!(
                        "spatial axis {axis} has stride {stride}, dilation {dilation}, padding {padding}"
                    ),
                );
            }
        }
        Ok(())
    }

    pub(super) fn encode(&self, code: u32, epilogue: Option<&Kernel>) -> OwnedLibrary {
        let mut attributes = [0; ATTRIBUTES];
        attributes[0] = i64::from(self.spatial);
        attributes[1..4].copy_from_slice(&self.stride);
        attributes[4..7].copy_from_slice(&self.dilation);
        attributes[7..10].copy_from_slice(&self.padding);
        attributes[10] = i64::from(self.fast);
        let dtypes = [self.operands[0], self.operands[1], self.accumulate, self.output];
        OwnedLibrary::new(code, &dtypes, &attributes, epilogue)
    }

    pub(super) fn decode(desc: &LibraryDesc, name: &str) -> Result<Conv> {
        let fields = desc.fields::<4>(name, ATTRIBUTES)?;
        let [first, second, accumulate, output] = fields.dtypes;
        let triple = |first: usize| std::array::from_fn(|axis| fields.attributes[first + axis]);
        Ok(Conv {
            spatial: count(name, "spatial axes", fields.attributes[0])?,
            stride: triple(1),
            dilation: triple(4),
            padding: triple(7),
            operands: [first, second],
            accumulate,
            output,
            fast: flag(name, "fast", fields.attributes[10])?,
            epilogue: None,
        })
    }
}
