//! Views, joins, padding, sequences.

use super::{everywhere, integers, read, refusal, values};
use crate::hal::DType;
use crate::ops::{ELLIPSIS, NEW_AXIS, PadMode, step};
use crate::{Context, Tensor};

/// 0, 1, 2, … of a shape.
fn counting<const N: usize>(shape: [usize; N], cx: &Context) -> Tensor {
    let numbers: Vec<i32> = (0..shape.iter().product::<usize>() as i32).collect();
    Tensor::from_slice(&numbers, shape, cx)
}

#[test]
fn views_take_the_right_elements() {
    everywhere(|cx| {
        let x = counting([2, 3, 4], cx);
        assert_eq!(integers(&x.permute([2, 0, 1]).index(1)), [1, 5, 9, 13, 17, 21]);
        let reordered = (0..24)
            .map(|at| (at / 4 % 2) * 12 + (at / 8) * 4 + at % 4)
            .step_by(5);
        assert_eq!(
            integers(&x.transpose(0, 1).reshape([-1]).index(step(.., 5))),
            reordered.collect::<Vec<i64>>()
        );
        assert_eq!(integers(&x.index((.., step(.., -2), -1))), [11, 3, 23, 15]);
        assert_eq!(
            read(&x.index((1, NEW_AXIS, ELLIPSIS, 1..3))),
            (vec![1, 3, 2], vec![13., 14., 17., 18., 21., 22.])
        );
        assert_eq!(
            integers(&x.narrow(2, -2, 2).select(0, 1)),
            [14, 15, 18, 19, 22, 23]
        );
        assert_eq!(integers(&x.index(0).t()), [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]);
        assert_eq!(
            integers(&x.select(2, 0).unsqueeze(1).expand([2, 2, 3])),
            [0, 4, 8, 0, 4, 8, 12, 16, 20, 12, 16, 20]
        );
        assert_eq!(integers(&x.flip([0, 2]).index((0, 0))), [15, 14, 13, 12]);
        assert!(refusal(x.narrow(0, 1, 2)).starts_with("narrow: 2 elements from 1 on along axis 0"));
        assert!(refusal(x.select(0, 2)).starts_with("select: index 2 of axis 0"));
    });
}

#[test]
fn joins_and_parts() {
    everywhere(|cx| {
        let x = counting([2, 3], cx);
        let y = x.cast(DType::F32) + 10;
        let joined = Tensor::concat(&[&x, &y], 1);
        assert_eq!(
            read(&joined),
            (
                vec![2, 6],
                vec![0., 1., 2., 10., 11., 12., 3., 4., 5., 13., 14., 15.]
            )
        );
        assert_eq!(
            read(&Tensor::stack(&[x.clone(), x.clone()], -1)),
            (
                vec![2, 3, 2],
                vec![0., 0., 1., 1., 2., 2., 3., 3., 4., 4., 5., 5.]
            )
        );
        let parts = joined.split(4, 1);
        assert_eq!(
            parts
                .iter()
                .map(|part| part.shape().unwrap().to_vec())
                .collect::<Vec<_>>(),
            [[2, 4], [2, 2]]
        );
        assert_eq!(values(&parts[1]), [11., 12., 14., 15.]);
        assert_eq!(joined.chunk(4, 1).len(), 3);
        assert_eq!(values(&joined.split_sizes(&[1, 0, 5], 1)[0]), [0., 3.]);
        assert_eq!(
            integers(&x.tile(&[2, 1, 2])),
            [
                0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5, 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5
            ]
        );
        assert_eq!(integers(&x.tile(&[2])), [0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5]);
        assert_eq!(
            integers(&x.repeat_interleave(2, 0)),
            [0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5]
        );
        assert_eq!(integers(&x.repeat_interleave(2, -1).index(0)), [0, 0, 1, 1, 2, 2]);
        assert_eq!(integers(&x.roll(1, 1)), [2, 0, 1, 5, 3, 4]);
        assert_eq!(integers(&x.roll(-7, 0)), [3, 4, 5, 0, 1, 2]);
        let many: Vec<Tensor> = (0..200).map(|at| x.index((at % 2, ..)) + at).collect();
        assert_eq!(integers(&Tensor::concat(&many, 0)).len(), 600);
        assert!(refusal(Tensor::concat(&[&x, &x.t()], 0)).starts_with("concat: "));
        assert!(refusal(Tensor::concat::<Tensor>(&[], 0)).starts_with("concat: no tensors"));
        assert!(x.split_sizes(&[1, 1], 1).iter().all(|part| part.shape().is_err()));
    });
}

#[test]
fn padding_modes_are_those_of_numpy() {
    everywhere(|cx| {
        let x = counting([4], cx);
        let pad = |mode| integers(&x.pad(&[(2, 3)], mode));
        // numpy.pad(np.arange(4), (2, 3), …)
        assert_eq!(pad(PadMode::Constant(7.into())), [7, 7, 0, 1, 2, 3, 7, 7, 7]);
        assert_eq!(pad(PadMode::Reflect), [2, 1, 0, 1, 2, 3, 2, 1, 0]);
        assert_eq!(pad(PadMode::Replicate), [0, 0, 0, 1, 2, 3, 3, 3, 3]);
        assert_eq!(pad(PadMode::Circular), [2, 3, 0, 1, 2, 3, 0, 1, 2]);
        let y = counting([2, 2], cx);
        assert_eq!(
            integers(&y.pad(&[(1, 0), (0, 1)], PadMode::Reflect)),
            [2, 3, 2, 0, 1, 0, 2, 3, 2]
        );
        assert_eq!(
            integers(&y.pad(&[(0, 1)], PadMode::Replicate)),
            [0, 1, 2, 3, 2, 3]
        );
        assert!(refusal(x.pad(&[(4, 0)], PadMode::Reflect)).contains("at most 3"));
        assert!(refusal(x.pad(&[(0, 0), (1, 1)], PadMode::Circular)).contains("2 axes"));
        assert!(
            refusal(x.pad(&[(1, 1)], PadMode::Constant(0.5.into()))).contains("0.5 is no element of i32")
        );
    });
}

#[test]
fn sequences_and_matrices() {
    everywhere(|cx| {
        assert_eq!(integers(&Tensor::arange(2, 11, 3, cx)), [2, 5, 8]);
        assert_eq!(integers(&Tensor::arange(3, 0, -1, cx)), [3, 2, 1]);
        assert_eq!(read(&Tensor::arange(0, 0, 1, cx)), (vec![0], vec![]));
        let halves = Tensor::arange(0, 1.5, 0.5, cx);
        assert_eq!(
            (halves.dtype().unwrap(), values(&halves)),
            (DType::F32, vec![0.0, 0.5, 1.0])
        );
        assert!(refusal(Tensor::arange(0, 1, 0, cx)).starts_with("arange: "));
        let line = Tensor::linspace(0.1, 0.7, 7, DType::F64, cx);
        let line = values(&line);
        assert!(
            (line[0], line[6]) == (0.1, 0.7) && (line[3] - 0.4).abs() < 1e-15,
            "{line:?}"
        );
        assert_eq!(values(&Tensor::linspace(5.0, 6.0, 1, DType::F32, cx)), [5.0]);
        assert_eq!(integers(&Tensor::eye(2, 3, DType::U8, cx)), [1, 0, 0, 0, 1, 0]);
        let x = counting([3, 4], cx);
        // numpy.tril and friends.
        assert_eq!(integers(&x.tril(0)), [0, 0, 0, 0, 4, 5, 0, 0, 8, 9, 10, 0]);
        assert_eq!(integers(&x.triu(1)), [0, 1, 2, 3, 0, 0, 6, 7, 0, 0, 0, 11]);
        assert_eq!(integers(&x.tril(-1)), [0, 0, 0, 0, 4, 0, 0, 0, 8, 9, 0, 0]);
        assert_eq!(integers(&x.diag(0)), [0, 5, 10]);
        assert_eq!(integers(&x.diag(2)), [2, 7]);
        assert_eq!(integers(&x.diag(-1)), [4, 9]);
        assert_eq!(read(&x.diag(7)), (vec![0], vec![]));
        assert_eq!(integers(&x.trace()), [15]);
        assert_eq!(integers(&counting([2], cx).diag(-1)), [0, 0, 0, 0, 0, 0, 0, 1, 0]);
        let cube = counting([2, 3, 2], cx);
        assert_eq!(
            read(&cube.diagonal(0, 0, 2)),
            (vec![3, 2], vec![0., 7., 2., 9., 4., 11.])
        );
        let grid = Tensor::meshgrid(&[&counting([2], cx), &(counting([3], cx) + 5)]);
        assert_eq!(integers(&grid[0]), [0, 0, 0, 1, 1, 1]);
        assert_eq!(integers(&grid[1]), [5, 6, 7, 5, 6, 7]);
        assert!(refusal(x.diagonal(0, 1, -1)).contains("twice"));
    });
}
