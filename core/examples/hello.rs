//! The first tensor: `cargo run --example hello [TARGET]`, with `cpu`, `cuda:1`, … or `auto`.
#![expect(clippy::print_stdout, reason = "an example shows its result")]

use thalweg::{Context, Tensor, jit, value_and_grad};

fn main() -> thalweg::Result<()> {
    let cx = Context::new(&std::env::args().nth(1).unwrap_or("auto".into()))?;
    println!("on {}, {}", cx.device().target(), cx.device().properties().name);

    let x = Tensor::from_slice(&[0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0], [2, 3], &cx);
    println!("rows of squares sum to {}", (&x - 1.0).square().sum_axes(1));

    // One kernel, compiled at the first call.
    let energy = jit(|x: &Tensor| ((x - 1.0).square() * 0.5).sum());
    println!("energy: {}", energy.call(&x).item::<f32>()?);

    let (value, slope) = value_and_grad(|x: &Tensor| (x * x * x).sum()).call(&x);
    println!("the cubes sum to {value} and grow by\n{slope}");

    // A wrong op says so where a value is read.
    let wrong = x.matmul(&x);
    if let Err(error) = wrong.to_vec::<f32>() {
        println!("{error}");
    }
    Ok(())
}
