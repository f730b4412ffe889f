//! Windows of what is padded.

use super::{Write, check, shape};
use crate::graph::Op;
use crate::hal::ir::ReduceOp;
use crate::lower::Step;
use crate::tensor::shape::Axes;

/// Windows over both axes of images of 6 by 7, padded to 8 by `width`.
fn pool(w: &mut Write, op: ReduceOp, bits: u64, width: usize) -> [crate::graph::NodeId; 2] {
    let x = w.input(&[2, 6, 7]);
    let pad = Op::Pad {
        low: shape(&[0, 1, 1]),
        shape: shape(&[2, 8, width]),
        bits,
    };
    let padded = w.op(pad, &[x]);
    let windows = |axis| Op::Window {
        axis,
        size: 3,
        step: 2,
        dilation: 1,
    };
    let down = w.op(windows(1), &[padded]);
    let both = w.op(windows(2), &[down]);
    let axes: Axes = (3..5).collect();
    [padded, w.op(Op::Reduce { op, axes }, &[both])]
}

#[test]
fn a_reduction_of_windows_needs_no_padded_copy() {
    let least = u64::from(f32::NEG_INFINITY.to_bits());
    for (op, bits) in [(ReduceOp::Max, least), (ReduceOp::Sum, 0), (ReduceOp::ArgMin, 0)] {
        // The last windows end in the padding, before it, and beyond what is there on that side.
        for width in [9, 8, 11] {
            let mut w = Write::default();
            let [_, out] = pool(&mut w, op, bits, width);
            w.0.output(out);
            let program = check(&w.0);
            assert!(matches!(program.steps[..], [Step::Launch { .. }]), "{program:#?}");
        }
    }
}

#[test]
fn what_is_padded_for_others_too_is_read_from_its_buffer() {
    let mut w = Write::default();
    let [padded, out] = pool(&mut w, ReduceOp::Max, 0, 9);
    w.0.output(padded);
    w.0.output(out);
    // Padding, the copy, and the reduction.
    assert_eq!(check(&w.0).steps.len(), 3);
}
