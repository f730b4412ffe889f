//! Elements that are read at computed places.

use super::{Binding, Emitter};
use crate::graph::NodeId;
use crate::hal::DType;
use crate::hal::ir::{self, Level, Role, ScalarOp};
use crate::lower::view::{Affine, View};

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

    /// The elements of a padded node: those of its operand, and the padding where a place is outside of that.
    pub(super) fn padded(&mut self, id: NodeId, low: &[usize], bits: u64, view: &View) -> ir::NodeId {
        let from = self.lowering.graph.node(id).inputs[0];
        let dtype = self.lowering.graph.dtype(from);
        let (base, layout) = self.lowering.resolve(from);
        let (slot, _) = self.lowering.buffer(base);
        let mut address = Affine::constant(layout.offset as i64);
        let (mut place, mut extent) = (Affine::default(), 1);
        let mut inside: Option<ir::NodeId> = None;
        for (axis, at) in view.axes.iter().enumerate() {
            // The selection reads such a node from a buffer.
            let Some(at) = at else { return self.load(id, view) };
            let mut at = at.clone();
            at.offset -= low[axis] as i64;
            let (stride, count) = (layout.strides()[axis], layout.shape[axis] as i64);
            let (least, most) = at.reach(&self.selection.space);
            if least >= 0 && most < count {
                if count > 1 {
                    address.add(&at, stride);
                }
                continue;
            }
            if count > 1 {
                place.add(&at, stride);
                extent += (count - 1) * stride;
            }
            let index = self.index(&at);
            let zero = self.constant(DType::I64, 0);
            let end = self.constant(DType::I64, count as u64);
            let bounds = [
                (least < 0, ScalarOp::Le, [zero, index]),
                (most >= count, ScalarOp::Lt, [index, end]),
            ];
            for (_, op, args) in bounds.into_iter().filter(|(needed, ..)| *needed) {
                let bound = self.op(op, &args);
                inside = Some(match inside {
                    Some(inside) => self.op(ScalarOp::And, &[inside, bound]),
                    None => bound,
                });
            }
        }
        let binding = |gather| Binding {
            slot,
            dtype,
            role: Role::In,
            address,
            gather,
        };
        let Some(inside) = inside else {
            let param = self.bind(binding((0, 0)), Level::Row);
            return self.push(ir::Node::Load { param });
        };
        let param = self.bind(binding((1, extent as u64)), Level::Row);
        let place = self.index(&place);
        // Nothing is read there, and the value is 0.
        let outside = self.constant(DType::I64, u64::MAX);
        let index = self.op(ScalarOp::Select, &[inside, place, outside]);
        let value = self.push(ir::Node::LoadAt { param, index });
        if bits == 0 {
            return value;
        }
        let padding = self.constant(dtype, bits);
        self.op(ScalarOp::Select, &[inside, value, padding])
    }
}
