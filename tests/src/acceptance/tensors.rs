//! What tensors compute.

use super::{Failure, Outcome, equal, expect};
use thalweg::ops::{ConvOptions, Padding};
use thalweg::{Context, DType, Device, Mode, Tensor, fori_loop, grad, jit};

/// `x + x` a few times in a loop, and the gradient of it, in both modes and compiled.
///
/// # Errors
/// What differs.
pub fn a7_and_a8(device: &Device) -> Outcome {
    fn doubled(x: &Tensor, start: i64, end: i64) -> Tensor {
        fori_loop(start..end, x.clone(), |_, x| &x + &x)
    }
    for mode in [Mode::Eager, Mode::Graph] {
        let cx = Context::on(device.clone());
        cx.set_mode(mode);
        let ones = Tensor::ones([10], DType::F32, &cx);
        for (start, end, expected) in [(0, 3, 8.0), (3, 0, 1.0), (2, 5, 8.0), (0, 10, 1024.0)] {
            let what = |of: &str| format!("{of} of the loop from {start} to {end}, {mode:?}");
            let values = doubled(&ones, start, end).to_vec::<f32>()?;
            equal(&what("value"), values, vec![expected; 10])?;
            let compiled = jit(move |x: &Tensor| doubled(x, start, end)).call(&ones);
            equal(
                &what("compiled value"),
                compiled.to_vec::<f32>()?,
                vec![expected; 10],
            )?;
            let slope = move |x: &Tensor| grad(move |x: &Tensor| doubled(x, start, end).sum()).call(x);
            equal(
                &what("gradient"),
                slope(&ones).to_vec::<f32>()?,
                vec![expected; 10],
            )?;
            let compiled = jit(slope).call(&ones).to_vec::<f32>()?;
            equal(&what("compiled gradient"), compiled, vec![expected; 10])?;
        }
    }
    Ok(())
}

/// Convolution of ones by ones, padded to the same extents: each element counts its neighbours in all channels.
///
/// # Errors
/// What differs.
pub fn a14(device: &Device) -> Outcome {
    let results = [Mode::Eager, Mode::Graph].map(|mode| -> Result<Vec<f32>, Failure> {
        let cx = Context::on(device.clone());
        cx.set_mode(mode);
        let (x, weight) = ones(&cx);
        Ok(same(&x, &weight).to_vec::<f32>()?)
    });
    let [eager, recorded] = results;
    let (eager, recorded) = (eager?, recorded?);
    let cx = Context::on(device.clone());
    let compiled = jit(|operands: &(Tensor, Tensor)| same(&operands.0, &operands.1)).call(&ones(&cx));
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<u32>>();
    equal("bits of eager and recorded", bits(&recorded), bits(&eager))?;
    equal(
        "bits of eager and compiled",
        bits(&compiled.to_vec::<f32>()?),
        bits(&eager),
    )?;
    equal("elements", eager.len(), 4 * 25)?;
    for (at, &found) in eager.iter().enumerate() {
        let (row, column) = (at % 25 / 5, at % 5);
        let edges = usize::from(row % 4 == 0) + usize::from(column % 4 == 0);
        let expected = [27.0, 18.0, 12.0][edges];
        expect(found == expected, || {
            format!("element {at} is {found}, expected {expected}")
        })?;
    }
    Ok(())
}

fn ones(cx: &Context) -> (Tensor, Tensor) {
    (
        Tensor::ones([1, 3, 5, 5], DType::F32, cx),
        Tensor::ones([4, 3, 3, 3], DType::F32, cx),
    )
}

fn same(x: &Tensor, weight: &Tensor) -> Tensor {
    x.conv2d(weight, None, ConvOptions::new().padding(Padding::Same))
}
