//! Elements that are read at computed places.

use super::{Binding, Emitter};
use crate::graph::{NodeId, Op};
use crate::hal::DType;
use crate::hal::ir::{self, Level, MAX_SCALARS, Role, ScalarOp};
use crate::lower::view::{Affine, View};
use crate::lower::{Given, Scalar};

impl Emitter<'_> {
    pub(super) fn gather(&mut self, from: NodeId, axis: usize, view: &View, index: ir::NodeId) -> ir::NodeId {
        let (base, layout) = self.lowering.resolve(from);
        let (slot, _) = self.lowering.buffer(base);
        let mut address = Affine::constant(layout.offset as i64);
        for at in (0..layout.shape.len()).filter(|&at| at != axis && layout.shape[at] != 1) {
            if let Some(term) = &view.axes[at] {
                address.add(term, layout.strides()[at]);
            }
        }
        let param = self.bind(
            Binding {
                slot,
                dtype: self.lowering.graph.dtype(from),
                role: Role::In,
                address,
                gather: (layout.strides()[axis], layout.shape[axis] as u64),
            },
            Level::Row,
        );
        self.push(ir::Node::LoadAt { param, index })
    }

    /// The elements of a padded node: those of its operand, and the padding where a place is outside of that. Extents and strides are
    /// launch arguments, so that one kernel serves all of them.
    pub(super) fn padded(&mut self, id: NodeId, view: &View) -> ir::NodeId {
        let node = self.lowering.graph.node(id);
        let (Op::Pad { low, shape, bits }, [from]) = (&node.op, &node.inputs[..]) else {
            return self.load(id, view);
        };
        let dtype = self.lowering.graph.dtype(*from);
        let (base, layout) = self.lowering.resolve(*from);
        let (slot, _) = self.lowering.buffer(base);
        let mut address = Affine::constant(layout.offset as i64);
        let (mut place, mut extent) = (None, 1);
        let mut inside: Option<ir::NodeId> = None;
        for (axis, at) in view.axes.iter().enumerate() {
            // The selection reads such a node from a buffer.
            let Some(at) = at else { return self.load(id, view) };
            let (count, low) = (layout.shape[axis], low[axis]);
            // Of an axis with one element, the stride may be any number.
            let stride = if count > 1 { layout.strides()[axis] } else { 0 };
            let (before, behind) = (low > 0, low + count < shape[axis]);
            if !before && !behind {
                address.add(at, stride);
                continue;
            }
            let mut at = at.clone();
            at.offset -= low as i64;
            let index = self.index(&at);
            extent += (count as i64 - 1) * stride;
            let along = match stride {
                1 => index,
                _ => {
                    let stride = self.number(stride);
                    self.op(ScalarOp::Mul, &[index, stride])
                }
            };
            place = Some(place.map_or(along, |place| self.op(ScalarOp::Add, &[place, along])));
            if before {
                let zero = self.constant(DType::I64, 0);
                let bound = self.op(ScalarOp::Le, &[zero, index]);
                inside = Some(self.both(inside, bound));
            }
            if behind {
                let end = self.number(count as i64);
                let bound = self.op(ScalarOp::Lt, &[index, end]);
                inside = Some(self.both(inside, bound));
            }
        }
        let (Some(place), Some(inside)) = (place, inside) else {
            return self.load(id, view);
        };
        let param = self.bind(
            Binding {
                slot,
                dtype,
                role: Role::In,
                address,
                gather: (1, extent as u64),
            },
            Level::Row,
        );
        // Nothing is read there, and the value is 0.
        let outside = self.constant(DType::I64, u64::MAX);
        let index = self.op(ScalarOp::Select, &[inside, place, outside]);
        let value = self.push(ir::Node::LoadAt { param, index });
        if *bits == 0 {
            return value;
        }
        let padding = self.constant(dtype, *bits);
        self.op(ScalarOp::Select, &[inside, value, padding])
    }

    fn both(&mut self, inside: Option<ir::NodeId>, bound: ir::NodeId) -> ir::NodeId {
        inside.map_or(bound, |inside| self.op(ScalarOp::And, &[inside, bound]))
    }

    /// A number that the launch gives, where values leave room for it.
    fn number(&mut self, number: i64) -> ir::NodeId {
        let (lowering, loads) = (self.lowering, &self.selection.loads);
        let is_value = |id: &&NodeId| match lowering.graph.node(**id).op {
            Op::Input(at) => matches!(lowering.given[at as usize], Given::Scalar(_)),
            _ => false,
        };
        let values = loads.iter().filter(is_value).count();
        let sizes = self.scalars.iter().filter(|of| matches!(of, Scalar::Bits(_)));
        if values + sizes.count() >= MAX_SCALARS {
            return self.constant(DType::I64, number as u64);
        }
        self.kernel.scalars.push(DType::I64);
        self.scalars.push(Scalar::Bits(number as u64));
        let index = self.scalars.len() as u32 - 1;
        self.push(ir::Node::Scalar { index })
    }
}
