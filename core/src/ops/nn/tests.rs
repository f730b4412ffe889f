//! That layers become one kernel, and refuse what does not fit.

use super::{
    AttentionOptions, ClassLossOptions, ConvOptions, InterpolateOptions, Padding, PoolOptions, Reduction,
};
use crate::context::Context;
use crate::hal::DType;
use crate::hal::library::LibraryOp;
use crate::jit;
use crate::lower::{Given, Support, lower};
use crate::random::Key;
use crate::tensor::Tensor;
use crate::tensor::layout::Layout;

/// A device with kernels alone.
struct Plain;

impl Support for Plain {
    fn library(&self, _: &LibraryOp) -> bool {
        false
    }

    fn channels_last(&self, _: DType) -> bool {
        false
    }
}

fn zeros(shape: &[usize], cx: &Context) -> Tensor {
    Tensor::zeros(shape, DType::F32, cx)
}

/// Steps of the program of a function of two tensors.
fn steps(a: &[usize], b: &[usize], body: impl Fn(&Tensor, &Tensor) -> Tensor) -> usize {
    let cx = Context::new("cpu").unwrap();
    let traced = jit(|operands: &(Tensor, Tensor)| body(&operands.0, &operands.1));
    let graph = traced.graph(&(zeros(a, &cx), zeros(b, &cx))).unwrap();
    let given: Vec<Given> = (graph.inputs().iter())
        .map(|&input| Given::Buffer(Layout::contiguous(*graph.shape(input))))
        .collect();
    lower(&graph, &given, &Plain).unwrap().steps.len()
}

#[test]
fn functions_of_rows_are_one_kernel() {
    let x = &[4, 6][..];
    assert_eq!(steps(x, &[], |x, _| x.softmax(-1)), 1, "softmax");
    assert_eq!(steps(x, &[], |x, _| x.log_softmax(0)), 1, "log_softmax");
    assert_eq!(
        steps(x, &[6], |x, w| x.layer_norm([6], w, w, 1e-5)),
        1,
        "layer_norm"
    );
    assert_eq!(steps(x, &[6], |x, w| x.rms_norm([6], w, 1e-5)), 1, "rms_norm");
    assert_eq!(
        steps(&[2, 4, 5], &[4], |x, w| x.group_norm(2, w, w, 1e-5)),
        1,
        "group_norm"
    );
    assert_eq!(steps(x, &[], |x, _| x.normalize(2.0, 1, 1e-12)), 1, "normalize");
    assert_eq!(
        steps(x, x, |x, y| x.cosine_similarity(y, 1, 1e-8)),
        1,
        "cosine_similarity"
    );
    assert_eq!(steps(&[3, 4], &[5, 4], |x, y| x.cdist(y, 2.0)), 1, "cdist");
    let each = ClassLossOptions::new().reduction(Reduction::None);
    let classes = |y: &Tensor| y.cast(DType::I64);
    assert_eq!(
        steps(x, &[4], |x, y| x.cross_entropy(&classes(y), each)),
        1,
        "cross_entropy"
    );
    assert_eq!(steps(x, x, |x, y| x.cross_entropy(y, each)), 1, "cross_entropy");
    assert_eq!(steps(x, x, |x, y| x.mse_loss(y, Reduction::Mean)), 1, "mse_loss");
    assert_eq!(
        steps(x, x, |x, y| x.binary_cross_entropy_with_logits(
            y,
            None,
            None,
            Reduction::Sum
        )),
        1
    );
}

#[test]
fn what_does_not_fit_is_refused_with_the_reason() {
    let cx = Context::new("cpu").unwrap();
    let z = |shape: &[usize]| zeros(shape, &cx);
    let image = z(&[1, 3, 5, 5]);
    let options = ConvOptions::new;
    let classes = Tensor::zeros([2], DType::I64, &cx);
    for (refused, part) in [
        (
            image.conv2d(&z(&[4, 2, 3, 3]), None, options()),
            "input [1, 3, 5, 5] has 3 channels",
        ),
        (
            image.conv2d(&z(&[4, 3, 3, 3]), &z(&[3]), options()),
            "bias [3] for 4 output channels",
        ),
        (
            image.conv2d(&z(&[4, 3, 9, 9]), None, options()),
            "span 9 elements",
        ),
        (
            image.conv2d(&z(&[4, 3, 3, 3]), None, options().stride([1, 2, 1])),
            "stride [1, 2, 1] for 2 spatial axes",
        ),
        (
            image.conv2d(&z(&[4, 3, 3, 3]), None, options().stride(0)),
            "at least 1",
        ),
        (
            image.conv2d(
                &z(&[4, 3, 3, 3]),
                None,
                options().stride(2).padding(Padding::Same),
            ),
            "\"same\" with stride 2",
        ),
        (
            image.conv1d(&z(&[4, 3, 3]), None, options()),
            "input [1, 3, 5, 5] has 4 axes",
        ),
        (image.max_pool2d(PoolOptions::new(2).padding(2)), "at most half"),
        (
            image.avg_pool2d(PoolOptions::new(2).dilation(2)),
            "dilated windows",
        ),
        (image.adaptive_avg_pool2d(0), "output size [0, 0]"),
        (image.softmax(4), "axis 4"),
        (
            image.layer_norm([4], None, None, 1e-5),
            "normalized shape [4] is not at the end",
        ),
        (image.group_norm(2, None, None, 1e-5), "3 channels in 2 groups"),
        (image.pixel_shuffle(2), "3 channels by squares of 2"),
        (
            image.interpolate(InterpolateOptions::size([1, 2, 3])),
            "size [1, 2, 3] for 2 spatial axes",
        ),
        (z(&[2, 3]).matmul(&z(&[2, 3])), "inner sizes differ"),
        (z(&[2, 3]).matmul(&z(&[])), "is a scalar"),
        (z(&[3]).dot(&z(&[4])), "different lengths"),
        (
            z(&[2, 3]).linear(&z(&[3, 2]), None),
            "input [2, 3] with weights [3, 2]",
        ),
        (z(&[4]).cross(&z(&[4]), 0), "along axis 0"),
        (
            Tensor::einsum("ij,jk", &[&z(&[2, 3]), &z(&[2, 3])]),
            "`j` is 3 and, in operand 1, 2",
        ),
        (
            z(&[2, 3]).solve_triangular(&z(&[3, 1]), false, false),
            "they are [.., n, n]",
        ),
        (z(&[2, 3]).embedding(&z(&[2]), None), "indices of f32"),
        (
            z(&[3, 4]).cross_entropy(&classes, ClassLossOptions::new()),
            "targets i64 [2] for [3, 4]",
        ),
        (z(&[2, 4]).mse_loss(&z(&[3]), Reduction::Mean), "do not broadcast"),
        (
            z(&[2, 4]).scaled_dot_product_attention(&z(&[2, 3]), &z(&[2, 4]), AttentionOptions::new()),
            "queries [2, 4], keys [2, 3]",
        ),
    ] {
        let text = match refused.ok() {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        assert!(text.contains(part), "{text:?} lacks {part:?}");
        assert!(text.contains("nn/tests.rs"), "{text}");
    }
}

#[test]
fn an_error_is_passed_on() {
    let cx = Context::new("cpu").unwrap();
    let failed = zeros(&[2, 3], &cx).matmul(&zeros(&[2, 3], &cx));
    let later = failed
        .softmax(0)
        .layer_norm([3], None, None, 1e-5)
        .linear(&failed, None);
    let error = later
        .ok()
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    assert!(
        error.starts_with("matmul: inner sizes differ: [2, 3] × [2, 3] (3 ≠ 2)"),
        "{error}"
    );
}

fn numbers(shape: &[usize], seed: f32, cx: &Context) -> Tensor {
    let count = shape.iter().product::<usize>();
    let values: Vec<f32> = (0..count)
        .map(|i| ((i as f32 + seed) * 12.9898).sin() * 2.0)
        .collect();
    Tensor::from_slice(&values, shape, cx)
}

#[test]
fn attention_has_the_same_bits_however_its_operands_lie() {
    let cx = Context::new("cpu").unwrap();
    for queries in [3, 20] {
        let (q, k) = (
            numbers(&[2, queries, 7], 0.0, &cx),
            numbers(&[2, 7, 270], 1.0, &cx),
        );
        let v = numbers(&[2, 270, 19], 2.0, &cx);
        let attend = |(q, k, v): &(Tensor, Tensor, Tensor)| {
            q.scaled_dot_product_attention(&(k.transpose(-1, -2) * 1.0), v, AttentionOptions::new())
        };
        let operands = (q, k, v);
        let (eager, compiled) = (attend(&operands), crate::jit(attend).call(&operands));
        let bits = |x: &Tensor| {
            x.to_vec::<f32>()
                .unwrap()
                .into_iter()
                .map(f32::to_bits)
                .collect::<Vec<_>>()
        };
        assert_eq!(bits(&eager), bits(&compiled), "{queries} queries");
    }
}

#[test]
fn attention_of_extreme_masks_and_scales() {
    let cx = Context::new("cpu").unwrap();
    let (q, k) = (numbers(&[2, 300, 4], 0.0, &cx), numbers(&[2, 300, 4], 1.0, &cx));
    let v = numbers(&[2, 300, 1], 2.0, &cx);
    let values = v.to_vec::<f32>().unwrap();
    let attend = |options: AttentionOptions<'_>| {
        q.scaled_dot_product_attention(&k, &v, options)
            .to_vec::<f32>()
            .unwrap()
    };
    let mean: f32 = values[..300].iter().sum::<f32>() / 300.0;
    // All keys are hidden alike by the least number, and none by a scale of 0.
    let least = Tensor::full([300, 300], f32::MIN, &cx);
    for options in [
        AttentionOptions::new().mask(&least),
        AttentionOptions::new().scale(0.0),
    ] {
        let out = attend(options);
        assert!((out[0] - mean).abs() < 1e-5, "{} for {mean}", out[0]);
    }
    // A query sees the last key alone, long after the first block of keys.
    let mut last = vec![f32::NEG_INFINITY; 300];
    last[299] = -1.0;
    let last = Tensor::from_slice(&last, [300], &cx);
    assert_eq!(attend(AttentionOptions::new().mask(&last))[5], values[299]);
    // Of a NaN among the keys that a query sees, the result is NaN; what is hidden does not matter.
    let mut none = vec![0.0_f32; 300];
    none[7] = f32::NAN;
    let none = Tensor::from_slice(&none, [300], &cx);
    let causal = attend(AttentionOptions::new().mask(&none).causal(true));
    assert!(causal[6].is_finite() && causal[7].is_nan() && causal[299].is_nan());
    // Scores of any size, also against what they are multiplied by.
    for scale in [1e4, -1e4, -0.5, 3.0] {
        let out = attend(AttentionOptions::new().scale(scale));
        let weights = (q.matmul(&k.transpose(-1, -2)) * scale).softmax(-1);
        let wanted = weights.matmul(&v).to_vec::<f32>().unwrap();
        for (found, wanted) in out.iter().zip(&wanted) {
            assert!(
                (found - wanted).abs() < 2e-3,
                "scale {scale}: {found} for {wanted}"
            );
        }
    }
}

#[test]
fn slopes_of_a_narrow_attention_sum_to_nothing() {
    let cx = Context::new("cpu").unwrap();
    let narrow = |values: &[f32], shape: &[usize]| Tensor::from_slice(values, shape, &cx).cast(DType::BF16);
    let (q, k) = (narrow(&[1.0], &[1, 1]), narrow(&[0.0, 0.84375], &[2, 1]));
    let v = narrow(&[100.0, 101.0], &[2, 1]);
    let mask = Tensor::zeros([1, 2], DType::F32, &cx);
    let slopes = crate::grad(|mask: &Tensor| {
        q.scaled_dot_product_attention(&k, &v, AttentionOptions::new().mask(mask).scale(1.0))
            .cast(DType::F32)
            .sum()
    })
    .call(&mask)
    .to_vec::<f32>()
    .unwrap();
    assert!((slopes[0] + slopes[1]).abs() < 1e-4, "{slopes:?}");
    assert!((slopes[1] - 0.21).abs() < 0.01, "{slopes:?}");
}

#[test]
fn dropout_takes_weights_and_scales_the_others() {
    let cx = Context::new("cpu").unwrap();
    let key = Key::new(3, &cx);
    let (q, k) = (
        Tensor::ones([64, 4], DType::F32, &cx),
        Tensor::ones([16, 4], DType::F32, &cx),
    );
    // The values are a unit matrix, so that the result is the weights themselves: 1/16 each.
    let values = Tensor::eye(16, 16, DType::F32, &cx);
    let weights = |p: f64| {
        let options = AttentionOptions::new().dropout(p, &key);
        q.scaled_dot_product_attention(&k, &values, options)
            .to_vec::<f32>()
            .unwrap()
    };
    assert!(weights(0.0).iter().all(|&weight| weight == 0.0625));
    assert!(weights(1.0).iter().all(|&weight| weight == 0.0));
    let half = weights(0.5);
    assert!(half.iter().all(|&weight| weight == 0.0 || weight == 0.125));
    let kept = half.iter().filter(|&&weight| weight != 0.0).count();
    // 1024 throws: six standard deviations are 96.
    assert!((416..=608).contains(&kept), "{kept} of 1024");
    assert_eq!(half, weights(0.5));
}

/// As PyTorch has them.
#[test]
fn the_first_place_of_a_window_without_a_maximum_is_inside() {
    let cx = Context::new("cpu").unwrap();
    let least = Tensor::from_slice(&[f32::NEG_INFINITY; 16], [1, 1, 4, 4], &cx);
    let near = PoolOptions::new(3).stride(2).padding(1);
    let indices = |options: PoolOptions| least.max_pool2d_with_indices(options).1.to_vec::<i64>().unwrap();
    assert_eq!(indices(near), [0, 1, 4, 5]);
    let far = PoolOptions::new(3).stride(1).padding(2).dilation(2);
    assert_eq!(indices(far), [0, 1, 0, 1, 4, 5, 4, 5, 0, 1, 0, 1, 4, 5, 4, 5]);
    // Dilated beyond the input, a window of padding alone has a place all the same.
    let small = Tensor::from_slice(&[2.0_f32], [1, 1, 1, 1], &cx);
    let beyond = PoolOptions::new(2).stride(1).padding(2).dilation(3);
    let (_, index) = small.max_pool2d_with_indices(beyond);
    assert!(index.to_vec::<i64>().unwrap().iter().all(|&index| index == 0));
}
