//! Reductions and running reductions.

use super::{everywhere, integers, read, refusal, ulps, values};
use crate::hal::DType;
use crate::ops::PoolOptions;
use crate::tensor::Tensor;

#[test]
fn sums_run_over_the_axes_asked_for() {
    everywhere(|cx| {
        let numbers: Vec<f32> = (0..24).map(|n| n as f32).collect();
        let x = Tensor::from_slice(&numbers, [2, 3, 4], cx);
        assert_eq!(read(&x.sum()), (vec![], vec![276.0]));
        assert_eq!(read(&x.sum_axes([0, -1])), (vec![3], vec![60.0, 92.0, 124.0]));
        assert_eq!(
            read(&x.sum_keepdims(1)),
            (
                vec![2, 1, 4],
                vec![12.0, 15.0, 18.0, 21.0, 48.0, 51.0, 54.0, 57.0]
            )
        );
        assert_eq!(read(&x.sum_axes([])).0, [2, 3, 4]);
        assert_eq!(read(&x.mean_axes([1, 2])), (vec![2], vec![5.5, 17.5]));
        assert_eq!(
            read(&x.max_axes(-1)),
            (vec![2, 3], vec![3.0, 7.0, 11.0, 15.0, 19.0, 23.0])
        );
        assert_eq!(integers(&x.argmax()), [23]);
        assert_eq!(read(&x.argmin_keepdims(1)), (vec![2, 1, 4], vec![0.0; 8]));
        assert_eq!(
            values(&x.transpose(0, 2).sum_axes([1, 2])),
            [60.0, 66.0, 72.0, 78.0]
        );
        assert!(refusal(x.sum_axes(3)).starts_with("sum: axis 3"));
        assert!(refusal(x.sum_axes([1, -2])).contains("twice"));
    });
}

#[test]
fn dtypes_of_sums_follow_pytorch() {
    everywhere(|cx| {
        for (dtype, sum, mean) in [
            (DType::U8, DType::I64, DType::F32),
            (DType::Bool, DType::I64, DType::F32),
            (DType::I32, DType::I64, DType::F32),
            (DType::U64, DType::U64, DType::F32),
            (DType::F16, DType::F16, DType::F16),
            (DType::F64, DType::F64, DType::F64),
        ] {
            let x = Tensor::ones([300], dtype, cx);
            assert_eq!(
                (x.sum().dtype().unwrap(), values(&x.sum())),
                (sum, vec![300.0]),
                "{dtype}"
            );
            assert_eq!(
                (x.mean().dtype().unwrap(), values(&x.mean())),
                (mean, vec![1.0]),
                "{dtype}"
            );
            assert_eq!(x.cumsum(0).dtype().unwrap(), sum);
        }
        // In f16 the sum would stop at 2048.
        let x = Tensor::ones([4000], DType::F16, cx);
        assert_eq!(values(&x.sum()), [4000.0]);
    });
}

#[test]
fn nothing_and_nan() {
    everywhere(|cx| {
        let none = Tensor::zeros([2, 0], DType::F32, cx);
        assert_eq!(values(&none.sum_axes(1)), [0.0, 0.0]);
        assert_eq!(values(&none.prod()), [1.0]);
        assert!(values(&none.mean())[0].is_nan());
        assert_eq!(values(&none.logsumexp_axes(1)), [f64::NEG_INFINITY; 2]);
        assert_eq!((integers(&none.any()), integers(&none.all())), (vec![0], vec![1]));
        assert_eq!(read(&none.max_axes(0)).0, [0]);
        assert!(refusal(none.max_axes(1)).starts_with("max: nothing to choose from"));
        assert!(refusal(none.argmin()).starts_with("argmin: nothing to choose from"));
        let x = Tensor::from_slice(&[1.0_f32, f32::NAN, 3.0, f32::NAN], [4], cx);
        assert!(values(&x.max())[0].is_nan());
        assert_eq!(integers(&x.argmax()), [1]);
        assert_eq!(integers(&x.count_nonzero()), [4]);
        assert_eq!(integers(&x.all()), [1]);
        let one = Tensor::scalar(5_i32, cx);
        assert_eq!(
            (
                integers(&one.sum()),
                integers(&one.argmax()),
                integers(&one.cumsum(0))
            ),
            (vec![5], vec![0], vec![5])
        );
    });
}

#[test]
fn moments_norms_and_exponentials() {
    everywhere(|cx| {
        let x = Tensor::from_slice(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0], [2, 3], cx);
        // NumPy's x.var(axis=1, ddof=…).
        assert_eq!(values(&x.var_axes(1, 0)), [1.5555555555555556, 99.55555555555556]);
        assert_eq!(
            values(&x.var_axes(1, 1)),
            [2.3333333333333335, 149.33333333333334]
        );
        assert_eq!(values(&x.std(0)), [117.25_f64.sqrt()]);
        assert!(values(&x.var_keepdims(0, 2))[0].is_infinite());
        assert_eq!(values(&x.norm(2.0)), [1365_f64.sqrt()]);
        assert_eq!(values(&x.norm_axes(0, 1.0)), [9.0, 18.0, 36.0]);
        assert_eq!(
            read(&x.norm_keepdims(1, f64::INFINITY)),
            (vec![2, 1], vec![4.0, 32.0])
        );
        assert_eq!(values(&x.norm_axes(1, 0.0)), [3.0, 3.0]);
        let cube = values(&x.norm(3.0))[0];
        assert!(ulps(cube, 37449_f64.cbrt(), DType::F64) <= 4.0, "{cube}");
        let large = values(&(&x + 1000.0).logsumexp_axes(1));
        let wanted = [(1_f64.exp() + 2_f64.exp() + 4_f64.exp()).ln() + 1000.0, 1032.0];
        assert!(
            large
                .iter()
                .zip(wanted)
                .all(|(got, wanted)| (got - wanted).abs() < 1e-6),
            "{large:?}"
        );
    });
}

#[test]
fn running_reductions() {
    everywhere(|cx| {
        let x = Tensor::from_slice(&[1_i32, 5, 2, -3, 4, 0], [2, 3], cx);
        assert_eq!(integers(&x.cumsum(1)), [1, 6, 8, -3, 1, 1]);
        assert_eq!(integers(&x.cumsum(0)), [1, 5, 2, -2, 9, 2]);
        assert_eq!(integers(&x.cumprod(-1)), [1, 5, 10, -3, -12, 0]);
        assert_eq!(integers(&x.cummax(1)), [1, 5, 5, -3, 4, 4]);
        assert_eq!(integers(&x.cummin(1)), [1, 1, 1, -3, -3, -3]);
        assert_eq!(x.cummax(1).dtype().unwrap(), DType::I32);
        assert!(refusal(x.cumsum(2)).starts_with("cumsum: axis 2"));
    });
}

#[test]
fn places_of_extremes_take_both_zeros_for_one() {
    // NumPy and PyTorch: argmin([0, -0, 0]) is 0, argmax([-0, 0]) is 0.
    everywhere(|cx| {
        for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
            let x = Tensor::from_slice(&[0.0_f32, -0.0, 0.0, -0.0, 0.0, -1.0], [2, 3], cx).cast(dtype);
            assert_eq!(integers(&x.argmin_axes(1)), [0, 2], "{dtype}");
            assert_eq!(integers(&x.argmax_axes(1)), [0, 0], "{dtype}");
            assert_eq!(integers(&(-&x).argmax_axes(0)), [0, 0, 1], "{dtype}");
            let nan = Tensor::from_slice(&[1.0_f32, f32::NAN, -5.0], 3, cx).cast(dtype);
            assert_eq!(integers(&nan.argmin()), [1], "{dtype}");
        }
        let x = Tensor::from_slice(&[-0.0_f32, 0.0, 0.0, -0.0], [1, 1, 4], cx);
        let (_, places) = x.max_pool1d_with_indices(PoolOptions::new(2));
        assert_eq!(integers(&places), [0, 2]);
    });
}
