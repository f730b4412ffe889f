//! Matrix products by the stand-in's cuBLASLt, with what is fused to them.

use super::device;
use thalweg::{Context, DType, Tensor, jit};

fn numbers(shape: [usize; 2], seed: u64, dtype: DType, cx: &Context) -> Tensor {
    let mut state = seed;
    let data: Vec<f32> = (0..shape[0] * shape[1])
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect();
    Tensor::from_slice(&data, shape, cx).cast(dtype)
}

/// What could be fused to the library's product stays apart from it.
#[test]
fn a_product_is_the_same_bits_whatever_follows_it() {
    let cx = Context::on(device(0));
    for dtype in [DType::F32, DType::F16] {
        let (x, w) = (
            numbers([40, 300], 1, dtype, &cx),
            numbers([300, 60], 2, dtype, &cx),
        );
        let b = numbers([1, 60], 3, dtype, &cx).reshape([60]);
        let linear = |x: &Tensor| x.matmul(&w) + &b;
        let dense = |x: &Tensor| linear(x).relu();
        let gated = |x: &Tensor| linear(x).sigmoid() * x.matmul(&w);
        let other = numbers([40, 60], 4, dtype, &cx);
        let residual = |x: &Tensor| x.matmul(&w) + &other;
        let column = |x: &Tensor| x.matmul(&w) + other.narrow(1, 0, 1);
        let bits = |y: Tensor| y.cast(DType::F32).to_vec::<f32>().unwrap();
        assert_eq!(bits(jit(linear).call(&x)), bits(linear(&x)), "{dtype}, linear");
        assert_eq!(
            bits(jit(residual).call(&x)),
            bits(residual(&x)),
            "{dtype}, residual"
        );
        assert_eq!(bits(jit(column).call(&x)), bits(column(&x)), "{dtype}, column");
        assert_eq!(bits(jit(dense).call(&x)), bits(dense(&x)), "{dtype}, dense");
        assert_eq!(bits(jit(gated).call(&x)), bits(gated(&x)), "{dtype}, gated");
    }
}
