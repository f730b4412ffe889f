//! Tensors: what an op and a compiled function cost, and the energy of many numbers.

use crate::cases::{Case, Limit};
use crate::overhead::nanoseconds;
use std::sync::Arc;
use thalweg::hal::Stream;
use thalweg::{Context, DType, Result, Tensor, jit};

/// Numbers whose energy is computed.
const NUMBERS: usize = 100_000_000;
/// Numbers of a chunk.
const CHUNK: usize = 1_000_000;

fn number(value: f32, cx: &Context) -> Tensor {
    Tensor::from_slice(&[value], 1, cx)
}

fn cost(tensor: Tensor) -> thalweg::hal::Result<()> {
    std::hint::black_box(tensor);
    Ok(())
}

/// `a + b` on tensors of one element, in nanoseconds: the op, its result and the end of that.
///
/// # Errors
/// Those of the op.
pub fn eager(cx: &Context) -> Result<f64> {
    let (a, b) = (number(1.0, cx), number(2.0, cx));
    assert_eq!((&a + &b).item::<f32>()?, 3.0);
    Ok(nanoseconds(2000, || cost(&a + &b))?)
}

/// A call of a compiled function of one op on one element, in nanoseconds, with its result and the end of that.
///
/// # Errors
/// Those of the op.
pub fn call(cx: &Context) -> Result<f64> {
    let x = number(1.0, cx);
    let double = jit(|x: &Tensor| x + x);
    assert_eq!(double.call(&x).item::<f32>()?, 2.0);
    Ok(nanoseconds(2000, || cost(double.call(&x)))?)
}

/// Energies by compiled functions: of numbers on the device; of chunks that are views of host memory, which the CPU reads in place; of
/// chunks that are copied from host memory. Chunks come in a plain loop, and in one that changes between two streams.
///
/// # Errors
/// Those of the ops.
pub fn energies(cx: &Context) -> Result<Vec<Case>> {
    let limit = || Limit::Bytes(4.0 * NUMBERS as f64);
    let data: Arc<[f32]> = (0..NUMBERS).map(|i| (i % 1000) as f32 * 1e-3).collect();
    let expected: f64 = data.iter().map(|&x| 0.5 * (f64::from(x) - 1.0).powi(2)).sum();
    let right = move |sum: f64| {
        assert!(
            ((sum - expected) / expected).abs() < 1e-4,
            "the energy is {sum}, expected {expected}"
        );
    };
    let energy = |x: &Tensor| ((x - 1.0) * (x - 1.0) * 0.5).sum();
    let resident = {
        let (compiled, x) = (jit(energy), Tensor::from_slice(&data, NUMBERS, cx));
        let run = move || {
            right(f64::from(compiled.call(&x).item::<f32>().map_err(hal_error)?));
            Ok(())
        };
        Case {
            name: "energy_jit".into(),
            limit: limit(),
            run: Box::new(run),
        }
    };
    let mut cases = vec![resident];
    for (name, lanes, copied) in [
        ("energy_chunked", 0, false),
        ("energy_chunked_streams", 2, false),
        ("energy_copied", 0, true),
        ("energy_copied_streams", 2, true),
    ] {
        let (compiled, data, cx) = (jit(energy), Arc::clone(&data), cx.clone());
        let streams: Vec<Stream> = (0..lanes)
            .map(|_| Stream::new(cx.device()))
            .collect::<thalweg::hal::Result<_>>()?;
        let whole = (!copied).then(|| Tensor::from_vec(data.to_vec(), NUMBERS, &cx));
        let run = move || {
            let mut total = Tensor::zeros((), DType::F32, &cx);
            for (index, chunk) in data.chunks_exact(CHUNK).enumerate() {
                let _on = streams.get(index % lanes.max(1)).map(Stream::enter);
                let chunk = match &whole {
                    Some(whole) => whole.narrow(0, (index * CHUNK) as i64, CHUNK),
                    None => Tensor::from_slice(chunk, CHUNK, &cx),
                };
                total = &total + &compiled.call(&chunk);
            }
            right(f64::from(total.item::<f32>().map_err(hal_error)?));
            Ok(())
        };
        cases.push(Case {
            name: name.into(),
            limit: limit(),
            run: Box::new(run),
        });
    }
    Ok(cases)
}

/// The error of the device behind that of a tensor.
fn hal_error(error: thalweg::Error) -> thalweg::hal::Error {
    match error {
        thalweg::Error::Hal(error) => error,
        other => panic!("{other}"),
    }
}
