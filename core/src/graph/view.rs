//! Ops that move no element.

use super::{Op, Type};
use crate::types::layout::Layout;

/// Where the elements of a view lie; `None` for an op that is no view of this layout.
pub(crate) fn view_layout(op: &Op, layout: &Layout, ty: Type) -> Option<Layout> {
    match op {
        Op::Permute(axes) => Some(layout.permuted(axes)),
        Op::Expand(shape) => Some(layout.expanded(*shape)),
        Op::Reshape(shape) => layout.reshaped(*shape),
        Op::Slice { start, step, shape } => Some(layout.sliced(start, step, *shape)),
        Op::Window {
            axis, step, dilation, ..
        } => Some(layout.windowed(usize::from(*axis), ty.shape, *step, *dilation)),
        Op::Indices { .. } => Some(*layout),
        _ => None,
    }
}
