//! Joining neighbouring axes of a kernel's space that all parameters walk as one.

use crate::hal::ir::{Access, Kernel, Level, Node};

/// The space after folding.
pub(super) struct Folded {
    pub(super) extents: Vec<u64>,
    /// Of each parameter, over the axes of its level.
    pub(super) strides: Vec<Vec<i64>>,
}

/// Folds the space of `kernel` and sets the access class of each parameter. `strides` has one list a parameter, over all axes.
pub(super) fn fold(kernel: &mut Kernel, mut extents: Vec<u64>, mut strides: Vec<Vec<i64>>) -> Folded {
    let mut axis = 0;
    while axis + 1 < extents.len() {
        let indexed = (kernel.nodes.iter()).any(
            |node| matches!(node, Node::Index { axis: at } if (axis..axis + 2).contains(&(*at as usize))),
        );
        let border = axis + 1 == kernel.outer as usize;
        let together = |(strides, level): (&Vec<i64>, Level)| {
            (level == Level::Row && axis >= kernel.outer as usize)
                || strides[axis] == strides[axis + 1] * extents[axis + 1] as i64
        };
        let levels = kernel.params.iter().map(|param| param.level);
        if indexed || border || !strides.iter().zip(levels).all(together) {
            axis += 1;
            continue;
        }
        extents[axis] *= extents[axis + 1];
        extents.remove(axis + 1);
        for strides in &mut strides {
            strides.remove(axis);
        }
        for node in &mut kernel.nodes {
            if let Node::Index { axis: at } = node
                && *at as usize > axis
            {
                *at -= 1;
            }
        }
        if axis < kernel.outer as usize {
            kernel.outer -= 1;
        } else {
            kernel.inner -= 1;
        }
    }
    for (param, strides) in kernel.params.iter_mut().zip(&mut strides) {
        if param.level == Level::Row {
            strides.truncate(kernel.outer as usize);
        }
        let extents = &extents[..strides.len()];
        param.access = match () {
            () if is_contiguous(extents, strides) => Access::Contiguous,
            () if param.role == crate::hal::ir::Role::In && strides.iter().all(|&stride| stride == 0) => {
                Access::Broadcast
            }
            () => Access::Strided,
        };
    }
    Folded { extents, strides }
}

fn is_contiguous(extents: &[u64], strides: &[i64]) -> bool {
    let mut step = 1;
    for (&extent, &stride) in extents.iter().zip(strides).rev() {
        if extent != 1 && stride != step {
            return false;
        }
        step *= extent as i64;
    }
    true
}
