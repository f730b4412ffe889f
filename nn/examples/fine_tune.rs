//! Starts from a safetensors file: a network that reads digits learns to tell odd from even ones, with its first layers frozen.
#![expect(clippy::print_stdout, reason = "an example shows its result")]

use thalweg::{Context, Mode, Tensor};
use thalweg_nn::data::{Column, Dataset, HostBatch, Loader};
use thalweg_nn::{Dense, Flatten, Layer, Model, Module, Relu, Sequential, Trained};
use thalweg_nn::{checkpoint, digits, loss, metrics::Accuracy, optim::Adam};

#[derive(Clone, Module)]
struct Net {
    body: Sequential,
    head: Dense,
}

impl Layer for Net {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.head.forward(&self.body.forward(x))
    }
}

fn net(classes: usize, cx: &Context) -> thalweg::Result<Net> {
    Ok(Net {
        body: Sequential::new()
            .then(Flatten)
            .then(Dense::new(784, 64, cx)?)
            .then(Relu),
        head: Dense::new(64, classes, cx)?,
    })
}

fn odd(mut batch: HostBatch) -> thalweg::Result<HostBatch> {
    if let Column::I64(digits) = &mut batch.y.data {
        digits.iter_mut().for_each(|digit| *digit %= 2);
    }
    Ok(batch)
}

fn main() -> thalweg_nn::Result<()> {
    let cx = Context::new(&std::env::args().nth(1).unwrap_or("auto".into()))?;
    cx.set_seed(1);
    cx.set_mode(Mode::Graph);
    let (train, test) = digits::load()?;
    let tests = Loader::new(test.map(odd), 500);
    let file = std::env::temp_dir().join(format!("digits-{}.safetensors", std::process::id()));
    let mut reader = Model::new(net(10, &cx)?, loss::cross_entropy, Adam::new(1e-3), &cx);
    reader.train(3, &Loader::new(train.clone(), 64).shuffle(1), ())?;
    reader.save(&file)?;

    let mut tuned = net(2, &cx)?;
    let mut saved = checkpoint::load(&file, &cx)?;
    saved.tensors.retain(|name, _| name.starts_with("body."));
    println!("not in the file: {}", saved.fill(&mut tuned)?.join(", "));
    tuned.set_trainable(false, |path| path.starts_with("body."));
    let mut model = Model::new(tuned, loss::cross_entropy, Adam::new(1e-2), &cx).metric(Accuracy::new());
    println!("accuracy before {:.3}", model.eval(&tests)?["accuracy"]);
    model.train(2, &Loader::new(train.map(odd), 64).shuffle(2), ())?;
    println!("accuracy after {:.3}", model.eval(&tests)?["accuracy"]);
    std::fs::remove_file(file).ok();
    Ok(())
}
