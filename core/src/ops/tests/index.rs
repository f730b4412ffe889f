//! Gather, scatter, sort, masks.

use super::{everywhere, integers, read, refusal, values};
use crate::grad::grad;
use crate::hal::DType;
use crate::{Context, Tensor};

fn matrix(cx: &Context) -> Tensor {
    Tensor::from_slice(&[0.0, 1.0, 2.0, 10.0, 11.0, 12.0], [2, 3], cx)
}

fn indices<const N: usize>(numbers: &[i64], shape: [usize; N], cx: &Context) -> Tensor {
    Tensor::from_slice(numbers, shape, cx)
}

#[test]
fn gathers() {
    everywhere(|cx| {
        let x = matrix(cx);
        let index = indices(&[2, 0, -1, 1], [2, 2], cx);
        assert_eq!(
            read(&x.gather(1, &index)),
            (vec![2, 2], vec![2.0, 0.0, 12.0, 11.0])
        );
        assert_eq!(values(&x.gather(0, &indices(&[1, 0], [1, 2], cx))), [10.0, 1.0]);
        assert_eq!(
            values(&x.gather(0, &indices(&[2, 0, 7], [1, 3], cx).cast(DType::U8))),
            [0.0, 1.0, 0.0]
        );
        assert_eq!(
            read(&x.index_select(1, &indices(&[-1, 0, 0, 3], [4], cx))).1,
            [2.0, 0.0, 0.0, 0.0, 12.0, 10.0, 10.0, 0.0]
        );
        assert_eq!(
            values(&x.take(&indices(&[5, -6, 3], [3, 1], cx))),
            [12.0, 0.0, 10.0]
        );
        assert_eq!(
            integers(&indices(&[1, 3, 0], [3], cx).one_hot(3)),
            [0, 1, 0, 0, 0, 0, 1, 0, 0]
        );
        let slope = grad(|x: &Tensor| {
            (x.gather(1, &index) * Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0], [2, 2], cx)).sum()
        });
        assert_eq!(values(&slope.call(&x)), [2.0, 0.0, 1.0, 0.0, 4.0, 3.0]);
        assert!(refusal(x.gather(1, &x)).starts_with("gather: indices of f64"));
        assert!(
            refusal(x.gather(1, &indices(&[0; 3], [3, 1], cx)))
                .starts_with("gather: indices of the shape [3, 1]")
        );
        assert!(refusal(x.index_select(2, &indices(&[0], [1], cx))).contains("axis 2"));
    });
}

#[test]
fn scatters() {
    everywhere(|cx| {
        let x = matrix(cx);
        let index = indices(&[2, 2, 0, 5], [2, 2], cx);
        let source = Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0], [2, 2], cx);
        assert_eq!(
            values(&x.scatter(1, &index, &source)),
            [0.0, 1.0, 2.0, 3.0, 11.0, 12.0]
        );
        assert_eq!(
            values(&x.scatter_add(1, &index, &source)),
            [0.0, 1.0, 5.0, 13.0, 11.0, 12.0]
        );
        assert_eq!(
            values(&x.scatter_max(1, &index, &source)),
            [0.0, 1.0, 2.0, 10.0, 11.0, 12.0]
        );
        assert_eq!(
            values(&x.scatter_min(1, &index, 0.5)),
            [0.0, 1.0, 0.5, 0.5, 11.0, 12.0]
        );
        // Fewer columns than the base has.
        assert_eq!(
            values(&x.scatter(0, &indices(&[-1], [1, 1], cx), -1)),
            [0.0, 1.0, 2.0, -1.0, 11.0, 12.0]
        );
        // One index for each row, expanded along it.
        let row = indices(&[1, 1, -2], [3, 1], cx).expand([3, 3]);
        let nine = Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], [3, 3], cx);
        assert_eq!(
            values(&x.scatter_add(0, &row, &nine)),
            [7.0, 9.0, 11.0, 15.0, 18.0, 21.0]
        );
        assert_eq!(
            values(&x.gather(0, &row.narrow(1, 0, 2))),
            [10.0, 11.0, 10.0, 11.0, 0.0, 1.0]
        );
        let rows = Tensor::from_slice(&[1.0, 1.0, 1.0, 2.0, 2.0, 2.0], [2, 3], cx);
        assert_eq!(
            values(&x.index_add(0, &indices(&[1, 1], [2], cx), &rows)),
            [0.0, 1.0, 2.0, 13.0, 14.0, 15.0]
        );
        assert_eq!(
            values(&x.index_copy(0, &indices(&[1, 0], [2], cx), &rows)),
            [2.0, 2.0, 2.0, 1.0, 1.0, 1.0]
        );
        let slope = grad(|s: &Tensor| (x.scatter_add(1, &index, s) * &x).sum());
        assert_eq!(values(&slope.call(&source)), [2.0, 2.0, 10.0, 0.0]);
        assert!(
            refusal(x.scatter(1, &index, x.index((.., 0..1)))).starts_with("scatter: indices of the shape")
        );
        assert!(refusal(x.index_add(0, &index, &rows)).starts_with("index_add: "));
    });
}

#[test]
fn order() {
    everywhere(|cx| {
        let x = Tensor::from_slice(&[3.0_f32, f32::NAN, -1.0, 3.0, 0.0, -0.0], [6], cx);
        let (sorted, at) = x.sort_with_indices(0, false);
        assert_eq!(values(&sorted)[..5], [-1.0, 0.0, 0.0, 3.0, 3.0]);
        assert_eq!(integers(&at)[..1], [2]);
        assert_eq!(integers(&at)[3..], [0, 3, 1]);
        assert_eq!(integers(&x.argsort(0, true))[..2], [0, 3]);
        let m = Tensor::from_slice(&[5_i16, 1, 9, 2, 8, 4], [2, 3], cx);
        let (values_of, at) = m.topk(2, 1, true);
        assert_eq!(
            (integers(&values_of), integers(&at)),
            (vec![9, 5, 8, 4], vec![2, 0, 1, 2])
        );
        assert_eq!(integers(&m.sort(0, true)), [5, 8, 9, 2, 1, 4]);
        assert_eq!(integers(&m.median(1)), [5, 4]);
        assert_eq!(integers(&m.median(0)), [2, 1, 4]);
        assert!(values(&x.median(0))[0].is_nan());
        assert!(refusal(m.topk(4, 1, true).0).starts_with("topk: 4 of 3"));
        let sorted = Tensor::from_slice(&[1.0, 2.0, 2.0, 5.0], [4], cx);
        let wanted = Tensor::from_slice(&[0.0, 1.0, 2.0, 3.0, 5.0, 9.0], [2, 3], cx);
        assert_eq!(
            read(&sorted.searchsorted(&wanted, false)),
            (vec![2, 3], vec![0.0, 0.0, 1.0, 3.0, 3.0, 4.0])
        );
        assert_eq!(integers(&sorted.searchsorted(&wanted, true)), [0, 1, 3, 3, 4, 4]);
        let slope = grad(|x: &Tensor| (x.sort(0, false) * Tensor::arange(0, 3.0, 1, cx)).sum());
        assert_eq!(
            values(&slope.call(&Tensor::from_slice(&[2.0_f32, 0.0, 1.0], [3], cx))),
            [2.0, 0.0, 1.0]
        );
    });
}

#[test]
fn masks() {
    everywhere(|cx| {
        let x = matrix(cx);
        let odd = (&x % 2).eq(1);
        assert_eq!(
            values(&x.masked_fill(&odd, -1)),
            [0.0, -1.0, 2.0, 10.0, -1.0, 12.0]
        );
        assert_eq!(values(&x.masked_select(&odd)), [1.0, 11.0]);
        assert_eq!(
            values(&x.masked_select(&odd.index((.., 1..2)))),
            [0.0, 1.0, 2.0, 10.0, 11.0, 12.0]
        );
        assert_eq!(read(&x.masked_select(&x.gt(99))), (vec![0], vec![]));
        assert_eq!(read(&odd.nonzero()), (vec![2, 2], vec![0.0, 1.0, 1.0, 1.0]));
        assert_eq!(read(&Tensor::scalar(1, cx).nonzero()).0, [1, 0]);
        assert!(refusal(x.masked_select(&x)).starts_with("masked_select: a mask of f64"));
        let slope = grad(|x: &Tensor| (x.masked_select(&odd) * 3.0).sum());
        assert_eq!(values(&slope.call(&x)), [0.0, 3.0, 0.0, 0.0, 3.0, 0.0]);
        let v = Tensor::from_slice(&[3_u8, 1, 3, 0, 1, 3], [2, 3], cx);
        assert_eq!(integers(&v.unique()), [0, 1, 3]);
        let (values_of, inverse, counts) = v.unique_counts();
        assert_eq!(
            (integers(&values_of), read(&inverse).0),
            (vec![0, 1, 3], vec![2, 3])
        );
        assert_eq!(
            (integers(&inverse), integers(&counts)),
            (vec![2, 1, 2, 0, 1, 2], vec![1, 2, 3])
        );
        assert_eq!(integers(&v.bincount(0)), [1, 2, 0, 3]);
        assert_eq!(integers(&v.bincount(6)), [1, 2, 0, 3, 0, 0]);
        assert_eq!(read(&Tensor::zeros([0], DType::F32, cx).unique()).0, [0]);
    });
}
