//! See what happened: a training whose loss, histograms, images and graph TensorBoard shows.
//!
//! ```sh
//! cargo run --release --example summaries -- runs/1
//! tensorboard --logdir runs
//! ```

#![allow(clippy::print_stdout, reason = "an example")]

use thalweg::ops::ConvOptions;
use thalweg::{Context, Mode, Tensor};
use thalweg_nn::callback::SummaryCollector;
use thalweg_nn::data::{Loader, Rows, Samples};
use thalweg_nn::{
    Conv2d, Dense, Flatten, Layer, Model, Module, loss, metrics::Accuracy, optim::Adam, summary,
};

/// A network that notes what its layers make.
#[derive(Clone, Module)]
struct Net {
    conv: Conv2d,
    head: Dense,
}

impl Layer for Net {
    fn forward(&self, x: &Tensor) -> Tensor {
        let features = self.conv.forward(x).relu();
        summary::histogram("features", &features);
        summary::tensor("mean_features", &features.mean_axes([0, 2, 3]));
        let scores = self.head.forward(&Flatten.forward(&features));
        summary::scalar("largest_score", &scores.max_axes([0, 1]));
        scores
    }
}

/// Bars that lie or stand in pictures of 8 by 8.
fn bars(count: usize) -> thalweg::Result<Samples> {
    let (mut pixels, mut classes) = (Vec::new(), Vec::new());
    for number in 0..count {
        let (place, class) = (number * 7 % 8, number % 2);
        pixels.extend((0..64).map(|at| {
            let on = if class == 0 { at / 8 } else { at % 8 };
            f32::from(u8::from(on == place)) * 0.8 + (at * (number + 3) % 11) as f32 / 55.0
        }));
        classes.push(class as i64);
    }
    Samples::new(Rows::new(pixels, &[1, 8, 8])?, Rows::new(classes, &[])?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or_else(|| "output/summary".to_owned());
    let file_size: u64 = arguments.next().map_or(Ok(1 << 30), |size| size.parse())?;
    let epochs: u64 = arguments.next().map_or(Ok(30), |epochs| epochs.parse())?;

    let cx = Context::new("cpu")?;
    cx.set_seed(1);
    cx.set_mode(Mode::Graph);
    let net = Net {
        conv: Conv2d::new(1, 4, [3, 3], ConvOptions::new(), &cx)?,
        head: Dense::new(4 * 6 * 6, 2, &cx)?,
    };
    let data = Loader::new(bars(160)?, 8).shuffle(1);
    let mut model = Model::new(net, loss::cross_entropy, Adam::new(1e-3), &cx)
        .metric(Accuracy::new())
        .validate(Loader::new(bars(40)?, 20));
    let collector = SummaryCollector::to(&folder)
        .max_file_size(file_size)
        .export_npy();
    model.train(epochs, &data, collector)?;
    println!("{} steps; tensorboard --logdir {folder}", model.steps());
    Ok(())
}
