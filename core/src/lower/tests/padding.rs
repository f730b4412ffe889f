//! Windows of what is padded.

use super::{Write, check, shape};
use crate::graph::{NodeId, Op};
use crate::hal::ir::{ReduceOp, ScalarOp};
use crate::lower::{Source, Step};
use crate::tensor::shape::Axes;
use std::sync::Arc;

/// Windows over the last axes of `x`, padded by one before each and to `to` in all; the first axis is another.
fn windows(w: &mut Write, x: NodeId, op: ReduceOp, bits: u64, to: &[usize]) -> [NodeId; 2] {
    let planes = w.0.shape(x)[0];
    let ones = vec![1; to.len()];
    let pad = Op::Pad {
        low: shape(&[&[0], &ones[..]].concat()),
        shape: shape(&[&[planes], to].concat()),
        bits,
    };
    let padded = w.op(pad, &[x]);
    let mut all = padded;
    for axis in 1..=to.len() as u8 {
        let windows = Op::Window {
            axis,
            size: 3,
            step: 2,
            dilation: 1,
        };
        all = w.op(windows, &[all]);
    }
    let axes: Axes = (to.len() + 1..2 * to.len() + 1).collect();
    [padded, w.op(Op::Reduce { op, axes }, &[all])]
}

/// Windows over both axes of images of 6 by 7, padded to 8 by `width`.
fn pool(w: &mut Write, op: ReduceOp, bits: u64, width: usize) -> [NodeId; 2] {
    let x = w.input(&[2, 6, 7]);
    windows(w, x, op, bits, &[8, width])
}

/// The kernel of a maximum over images of these extents, with one element around them.
fn kernel(extents: &[usize]) -> Arc<Source> {
    let mut w = Write::default();
    let x = w.input(extents);
    let to: Vec<usize> = extents[1..].iter().map(|extent| extent + 2).collect();
    let [_, out] = windows(&mut w, x, ReduceOp::Max, 0xff80_0000, &to);
    w.0.output(out);
    let program = check(&w.0);
    let [Step::Launch { source, .. }] = &program.steps[..] else {
        panic!("{program:#?}")
    };
    Arc::clone(source)
}

#[test]
fn images_of_any_size_share_a_kernel() {
    for [image, others @ ..] in [
        [&[2, 40][..], &[2, 41], &[3, 5]],
        [&[2, 6, 7], &[3, 9, 8], &[2, 12, 5]],
        [&[2, 6, 7, 8], &[2, 9, 5, 4], &[5, 4, 4, 5]],
    ] {
        let first = kernel(image);
        for other in others {
            assert_eq!(kernel(other), first, "{image:?} {other:?}");
        }
    }
}

#[test]
fn images_of_one_line() {
    for extents in [&[2, 1, 7][..], &[2, 7, 1], &[1, 5, 5]] {
        kernel(extents);
    }
}

#[test]
fn what_repeats_is_padded_too() {
    for axis in 1..3 {
        let mut w = Write::default();
        let mut narrow = [2, 6, 7];
        narrow[axis] = 1;
        let x = w.input(&narrow);
        let wide = w.op(Op::Expand(shape(&[2, 6, 7])), &[x]);
        let [_, out] = windows(&mut w, wide, ReduceOp::Sum, 0, &[8, 9]);
        w.0.output(out);
        assert_eq!(check(&w.0).steps.len(), 1);
    }
}

#[test]
fn many_padded_inputs_stay_within_the_limits_of_a_kernel() {
    let mut w = Write::default();
    let mut sum = None;
    for _ in 0..20 {
        let x = w.input(&[2, 3, 4, 5]);
        let [_, out] = windows(&mut w, x, ReduceOp::Sum, 0, &[5, 6, 7]);
        sum = Some(sum.map_or(out, |sum| w.map(ScalarOp::Add, &[sum, out])));
    }
    w.0.output(sum.unwrap());
    check(&w.0);
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
