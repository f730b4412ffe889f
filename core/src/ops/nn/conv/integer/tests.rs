//! Convolutions of bytes against those of f64, which are exact.

use crate::context::Context;
use crate::hal::DType;
use crate::jit;
use crate::ops::ConvOptions;
use crate::tensor::Tensor;

/// Bytes of any size as i8 or u8.
fn bytes(dtype: DType, shape: &[usize], seed: i64, cx: &Context) -> Tensor {
    let count = shape.iter().product::<usize>() as i64;
    let numbers: Vec<i64> = (0..count).map(|i| (i * 89 + seed * 31 + i / 7) % 256).collect();
    let numbers = Tensor::from_slice(&numbers, shape, cx);
    match dtype {
        DType::I8 => (numbers - 128).cast(dtype),
        _ => numbers.cast(dtype),
    }
}

/// A tensor of the numbers of an operand, less its zero point.
fn real(x: &Tensor, zero: Option<&Tensor>, shape: &[usize]) -> Tensor {
    let x = x.cast(DType::F64);
    match zero {
        Some(zero) => x - zero.cast(DType::F64).reshape(shape),
        None => x,
    }
}

#[test]
fn zero_points_signs_groups_and_forms() {
    let cx = Context::new("cpu").unwrap();
    let options = ConvOptions::new;
    // Samples, channels of a group, outputs of a group, extent, taps, options with their groups.
    let cases = [
        (2, 5, 36, 19, 3, options().padding(1), 1),
        (1, 8, 33, 14, 3, options().padding(2).dilation(2).groups(2), 2),
        (2, 3, 16, 21, 5, options().stride(2).padding(2), 1),
        (1, 7, 40, 9, 1, options(), 1),
        (2, 1, 1, 12, 3, options().padding(1).groups(6), 6),
        (1, 6, 4, 11, 3, options().stride(3), 1),
    ];
    for (number, &(n, inputs, rows, side, taps, options, groups)) in cases.iter().enumerate() {
        let outputs = rows * groups;
        for (a, b) in [
            (DType::U8, DType::I8),
            (DType::I8, DType::I8),
            (DType::I8, DType::U8),
            (DType::U8, DType::U8),
        ] {
            let x = bytes(a, &[n, inputs * groups, side, side], 3, &cx);
            let w = bytes(b, &[outputs, inputs, taps, taps], 5, &cx);
            let x_zero = Tensor::scalar(100_i32, &cx).cast(a);
            let one = Tensor::scalar(7_i32, &cx).cast(b);
            let each = bytes(b, &[outputs], 11, &cx);
            for (x_zero, w_zero, of_w) in [
                (None, None, 1),
                (Some(&x_zero), None, 1),
                (None, Some(&one), 1),
                (Some(&x_zero), Some(&each), outputs),
            ] {
                let expected = real(&x, x_zero, &[])
                    .conv2d(&real(&w, w_zero, &[of_w, 1, 1, 1]), None, options)
                    .cast(DType::I64)
                    .to_vec::<i64>()
                    .unwrap();
                let body = |x: &Tensor| x.conv_integer(&w, x_zero, w_zero, options);
                for found in [body(&x), jit(body).call(&x)] {
                    let found = found.cast(DType::I64).to_vec::<i64>().unwrap();
                    assert!(
                        found == expected,
                        "case {number}, {a} {b} {:?}",
                        (x_zero.is_some(), of_w)
                    );
                }
            }
        }
    }
}
