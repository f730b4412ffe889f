//! A layer of one's own: an affine map whose matrix is a product of two narrow ones, trained to one that has as low a rank.
#![expect(clippy::print_stdout, reason = "an example shows its result")]

use thalweg::{Context, DType, Mode, Tensor};
use thalweg_nn::data::{Column, Loader, Rows, Samples};
use thalweg_nn::{Layer, Model, Module, Parameter, init::Init, loss, module, optim::Adam};

/// `x · downᵀ · upᵀ + bias`.
#[derive(Clone, Module)]
struct LowRank {
    down: Parameter,
    up: Parameter,
    bias: Parameter,
}

impl Layer for LowRank {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.linear(&self.down, None).linear(&self.up, self.bias.value())
    }
}

impl LowRank {
    fn new(inputs: usize, outputs: usize, rank: usize, cx: &Context) -> thalweg::Result<LowRank> {
        Ok(LowRank {
            down: Parameter::new(Init::FanIn.tensor(&[rank, inputs], cx)?),
            up: Parameter::new(Init::FanIn.tensor(&[outputs, rank], cx)?),
            bias: Parameter::new(Init::Constant(0.0).tensor(&[outputs], cx)?),
        })
    }
}

fn main() -> thalweg_nn::Result<()> {
    let cx = Context::new(&std::env::args().nth(1).unwrap_or("auto".into()))?;
    cx.set_seed(1);
    cx.set_mode(Mode::Graph);
    let (teacher, layer) = (LowRank::new(16, 16, 2, &cx)?, LowRank::new(16, 16, 2, &cx)?);
    let x = Tensor::randn([256, 16], DType::F32, &cx);
    let rows = |tensor: &Tensor| Rows::new(Column::of(tensor)?, &[16]);
    let data = Loader::new(Samples::new(rows(&x)?, rows(&teacher.forward(&x))?)?, 32).shuffle(1);

    for entry in module::summary(&layer)? {
        println!("{:5} {} {}", entry.path, entry.dtype, entry.shape);
    }
    let mut model = Model::new(layer, loss::mse, Adam::new(0.01), &cx);
    println!("loss before {:.6}", model.eval(&data)?["loss"]);
    model.train(60, &data, ())?;
    println!("loss after {:.6}", model.eval(&data)?["loss"]);
    Ok(())
}
