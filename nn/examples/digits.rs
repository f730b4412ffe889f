//! Trains LeNet-5 on handwritten digits on a device that is picked when the program runs.
#![allow(clippy::print_stdout, reason = "an example prints")]

use clap::Parser;
use thalweg::ops::{ClassLossOptions, ConvOptions, PoolOptions};
use thalweg::{Context, DType, Mode, Tensor};
use thalweg_nn::callback::{
    BestCheckpoint, Better, Callback, LossMonitor, ProgressBar, RunContext, TimeMonitor,
};
use thalweg_nn::data::{Dataset, Loader};
use thalweg_nn::metrics::Accuracy;
use thalweg_nn::optim::Adam;
use thalweg_nn::schedule::Cosine;
use thalweg_nn::{Conv2d, Dense, Layer, Model, Module, Trained, digits};

/// Trains LeNet-5 on 8,000 handwritten digits and tests it on 2,000 others.
#[derive(Parser)]
struct Options {
    /// Where to run: auto, cpu, opencl:0, cuda:1, or a plugin's name.
    #[arg(long, default_value = "auto")]
    device_target: String,
    /// Runs op by op instead of as one compiled graph a step.
    #[arg(long)]
    eager: bool,
    /// Passes over the digits.
    #[arg(long, default_value_t = 15)]
    epochs: u64,
    /// Digits a step.
    #[arg(long, default_value_t = 32)]
    batch: usize,
    /// Learning rate at the start; it falls along a cosine.
    #[arg(long, default_value_t = 2e-3)]
    lr: f64,
    /// Starts weights and order of samples.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder of the checkpoint.
    #[arg(long, default_value = "target/digits")]
    out: std::path::PathBuf,
}

/// LeNet-5 (LeCun et al., 1998) with ReLU and max pooling.
#[derive(Clone, Module)]
struct LeNet5 {
    conv1: Conv2d,
    conv2: Conv2d,
    fc1: Dense,
    fc2: Dense,
    fc3: Dense,
}

impl LeNet5 {
    fn new(cx: &Context) -> thalweg::Result<LeNet5> {
        Ok(LeNet5 {
            conv1: Conv2d::new(1, 6, [5, 5], ConvOptions::new().padding(2), cx)?,
            conv2: Conv2d::new(6, 16, [5, 5], ConvOptions::new(), cx)?,
            fc1: Dense::new(400, 120, cx)?,
            fc2: Dense::new(120, 84, cx)?,
            fc3: Dense::new(84, 10, cx)?,
        })
    }
}

impl Layer for LeNet5 {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.conv1.forward(x).relu().max_pool2d(PoolOptions::new(2));
        let x = self
            .conv2
            .forward(&x)
            .relu()
            .max_pool2d(PoolOptions::new(2))
            .flatten_axes(1, -1);
        self.fc3
            .forward(&self.fc2.forward(&self.fc1.forward(&x).relu()).relu())
    }
}

/// Prints a line after each epoch.
struct Report;

impl Callback for Report {
    fn epoch_end(&mut self, run: &mut RunContext<'_>) -> thalweg_nn::Result<()> {
        let loss = run.loss_value()?.unwrap_or(f64::NAN);
        let accuracy = run.metrics.get("accuracy").copied().unwrap_or(f64::NAN);
        println!(
            "epoch {:2}  loss {loss:.4}  test accuracy {:.2} %",
            run.cur_epoch_num,
            accuracy * 100.0
        );
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::parse();
    let cx = Context::new(&options.device_target)?;
    cx.set_seed(options.seed);
    cx.set_mode(if options.eager { Mode::Eager } else { Mode::Graph });
    println!("{} ({})", cx.device().target(), cx.device().properties().name);

    let (train, test) = digits::load()?;
    let steps = options.epochs * train.len().div_ceil(options.batch.max(1)) as u64;
    let loss = |output: &Tensor, target: &Tensor| output.cross_entropy(target, ClassLossOptions::new());
    let tests = Loader::new(test.clone(), 500);
    let mut model = Model::new(LeNet5::new(&cx)?, loss, Adam::w(options.lr), &cx)
        .metric(Accuracy::new())
        .schedule(Cosine { steps, end: 1e-5 })
        .validate(tests.clone());
    let path = options.out.join("lenet5.safetensors");
    let train = Loader::new(train, options.batch).shuffle(options.seed);
    let begun = std::time::Instant::now();
    let callbacks: [Box<dyn Callback>; 5] = [
        Box::new(ProgressBar::new()),
        Box::new(LossMonitor::every(100)),
        Box::new(TimeMonitor::new()),
        Box::new(BestCheckpoint::new(&path, "accuracy", Better::Higher)),
        Box::new(Report),
    ];
    model.train(options.epochs, &train, callbacks)?;
    println!(
        "trained in {:.1} s; best weights in {}\n",
        begun.elapsed().as_secs_f64(),
        path.display()
    );
    println!("{}", cx.device().memory_summary()?);

    let mut best = Model::new(LeNet5::new(&cx)?, loss, Adam::w(options.lr), &cx).metric(Accuracy::new());
    best.load(&path)?;
    println!(
        "reloaded after step {}: test accuracy {:.2} %",
        best.steps(),
        best.eval(&tests)?["accuracy"] * 100.0
    );
    let shown = test.collect(&[0, 1, 2])?;
    let batch = Loader::new(test, 3)
        .prefetch(0)
        .epoch(0, 0, &cx)
        .next()
        .ok_or("no digits")??;
    let predicted = best
        .predict(&batch.x)
        .argmax_axes(1)
        .cast(DType::I64)
        .to_vec::<i64>()?;
    if let thalweg_nn::data::Column::F32(images) = shown.x.0 {
        for (image, digit) in images.chunks(784).zip(predicted) {
            println!("{}this is a {digit}", digits::draw(image));
        }
    }
    best.synchronize()?;
    Ok(())
}
