//! What a collector writes while a model trains.
#![allow(clippy::unwrap_used, reason = "a test")]

mod collected;
mod faults;
mod landscape;
mod noted;

use std::collections::BTreeMap;
use std::path::Path;
use thalweg::{Context, Mode, Tensor};
use thalweg_nn::callback::Callback;
use thalweg_nn::data::{Loader, Rows, Samples};
use thalweg_nn::{Dense, Layer, Model, Module, loss, optim::Adam, summary};
use thalweg_summary::{Content, Data, Event, read_folder};

/// A network that notes a value of each kind.
#[derive(Clone, Module)]
struct Net {
    first: Dense,
    second: Dense,
}

impl Layer for Net {
    fn forward(&self, x: &Tensor) -> Tensor {
        let hidden = self.first.forward(x).tanh();
        summary::tensor("hidden", &hidden);
        summary::scalar("largest", &hidden.max_axes([0, 1]));
        summary::histogram("spread", &hidden);
        summary::image("picture", &hidden);
        self.second.forward(&hidden)
    }
}

fn context(mode: Mode) -> Context {
    let cx = Context::new("cpu").unwrap();
    cx.set_seed(3);
    cx.set_mode(mode);
    cx
}

/// 40 samples in batches of 4: ten steps an epoch.
fn data() -> Loader {
    let x: Vec<f32> = (0..80).map(|at| at as f32 / 40.0 - 1.0).collect();
    let y: Vec<f32> = x.chunks(2).map(|x| 3.0 * x[0] - x[1]).collect();
    let samples = Samples::new(Rows::new(x, &[2]).unwrap(), Rows::new(y, &[1]).unwrap()).unwrap();
    Loader::new(samples, 4).shuffle(1)
}

fn model(cx: &Context) -> Model<Net> {
    let net = Net {
        first: Dense::new(2, 3, cx).unwrap(),
        second: Dense::new(3, 1, cx).unwrap(),
    };
    Model::new(net, loss::mse, Adam::new(0.05), cx)
}

/// Trains, and returns the bits of the weights.
fn train(mode: Mode, epochs: u64, callbacks: impl Callback) -> thalweg_nn::Result<Vec<u32>> {
    let cx = context(mode);
    let mut model = model(&cx);
    model.train(epochs, &data(), callbacks)?;
    Ok(bits(&model))
}

fn bits(model: &Model<Net>) -> Vec<u32> {
    let net = model.net();
    [&net.first, &net.second]
        .into_iter()
        .flat_map(|dense| dense.weight.to_vec::<f32>().unwrap())
        .map(f32::to_bits)
        .collect()
}

fn events(folder: &Path) -> Vec<Event> {
    read_folder(folder).unwrap().collect::<Result<_, _>>().unwrap()
}

/// The values of each name with their steps, in the order of the files.
fn values(folder: &Path) -> BTreeMap<String, Vec<(i64, Data)>> {
    let mut found: BTreeMap<String, Vec<(i64, Data)>> = BTreeMap::new();
    for event in events(folder) {
        if let Content::Values(values) = event.content {
            for value in values {
                found.entry(value.tag).or_default().push((event.step, value.data));
            }
        }
    }
    found
}

/// The steps of a name.
fn steps(values: &BTreeMap<String, Vec<(i64, Data)>>, tag: &str) -> Vec<i64> {
    values
        .get(tag)
        .into_iter()
        .flatten()
        .map(|(step, _)| *step)
        .collect()
}

fn scalars(values: &BTreeMap<String, Vec<(i64, Data)>>, tag: &str) -> Vec<f32> {
    let number = |(_, data): &(i64, Data)| match data {
        Data::Scalar(number) => *number,
        Data::Histogram(_) | Data::Image(_) | Data::Tensor(_) | Data::Other => panic!("{tag} is no scalar"),
    };
    values.get(tag).into_iter().flatten().map(number).collect()
}
