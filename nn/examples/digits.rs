//! Trains LeNet-5 on handwritten digits on a device that is picked when the program runs.
#![allow(clippy::print_stdout, reason = "an example prints")]

use clap::Parser;
use thalweg::hal;
use thalweg::loader::Outcome;
use thalweg::ops::{ConvOptions, PoolOptions};
use thalweg::{Context, DType, Mode, Tensor};
use thalweg_nn::callback::{BestCheckpoint, Better, Callback, LossMonitor, ProgressBar, RunContext};
use thalweg_nn::data::{Column, Dataset, Loader};
use thalweg_nn::metrics::Accuracy;
use thalweg_nn::optim::Adam;
use thalweg_nn::schedule::Cosine;
use thalweg_nn::{Conv2d, Dense, Layer, Model, Module, digits, loss};

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
    /// Stops after so many steps.
    #[arg(long)]
    steps: Option<u64>,
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
        println!(
            "epoch {:2} of {}  {:4.1} s  loss {loss:.4}  test loss {:.4}  test accuracy {:.2} %",
            run.cur_epoch_num,
            run.epoch_num,
            run.epoch_time.as_secs_f64(),
            run.metrics["loss"],
            run.metrics["accuracy"] * 100.0
        );
        Ok(())
    }
}

/// Stops after a number of steps.
struct Steps(u64);

impl Callback for Steps {
    fn step_end(&mut self, run: &mut RunContext<'_>) -> thalweg_nn::Result<()> {
        if run.cur_step_num >= self.0 {
            run.request_stop();
        }
        Ok(())
    }
}

/// Digits side by side, and below each what it was read as.
fn show(images: &[f32], read: &[i64], right: &[i64]) {
    let drawn: Vec<String> = images.chunks(784).map(digits::draw).collect();
    let mut columns: Vec<_> = drawn.iter().map(|text| text.lines()).collect();
    for _ in 0..14 {
        let row: Vec<&str> = columns
            .iter_mut()
            .map(|lines| lines.next().unwrap_or(""))
            .collect();
        let row: String = row.iter().map(|part| format!("{part:28}")).collect();
        println!("{}", row.trim_end());
    }
    let said = read.iter().zip(right).map(|(read, right)| {
        let verdict = if read == right {
            String::new()
        } else {
            format!(", wrong: {right}")
        };
        format!("{:28}", format!("       this is a {read}{verdict}"))
    });
    println!("{}", said.collect::<String>().trim_end());
}

/// The file that a backend was loaded from, or `embedded`.
fn backend(name: &str) -> String {
    let rows = hal::runtime().registry().candidates().into_iter();
    let mut loaded = rows.filter(|row| row.target == name && matches!(row.outcome, Outcome::Loaded { .. }));
    let path = loaded.find_map(|row| row.path);
    path.map_or("embedded".into(), |path| path.display().to_string())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::parse();
    let cx = Context::new(&options.device_target)?;
    cx.set_seed(options.seed);
    cx.set_mode(if options.eager { Mode::Eager } else { Mode::Graph });
    let (target, device) = (cx.device().target(), &cx.device().properties().name);
    println!(
        "device: {target}, {device}; backend: {}",
        backend(cx.device().backend().name())
    );

    let (train, test) = digits::load()?;
    println!(
        "LeNet-5 on {} digits, tested on {} others\n",
        train.len(),
        test.len()
    );
    let steps = options.epochs * train.len().div_ceil(options.batch.max(1)) as u64;
    let tests = Loader::new(test.clone(), 500);
    let model = || -> thalweg::Result<Model<LeNet5>> {
        let model = Model::new(LeNet5::new(&cx)?, loss::cross_entropy, Adam::w(options.lr), &cx);
        Ok(model.metric(Accuracy::new()))
    };
    let mut trained = model()?
        .schedule(Cosine { steps, end: 1e-5 })
        .validate(tests.clone());
    let path = options.out.join("lenet5.safetensors");
    let begun = std::time::Instant::now();
    let callbacks = (
        ProgressBar::new().transient(),
        LossMonitor::every(100),
        options.steps.map(Steps),
        BestCheckpoint::new(&path, "accuracy", Better::Higher),
        Report,
    );
    let train = Loader::new(train, options.batch).shuffle(options.seed);
    trained.train(options.epochs, &train, callbacks)?;
    println!(
        "\ntrained in {:.1} s; the best weights are in {}",
        begun.elapsed().as_secs_f64(),
        path.display()
    );
    println!("\n{}", cx.device().memory_summary()?);

    let mut best = model()?;
    best.load(&path)?;
    let accuracy = best.eval(&tests)?["accuracy"] * 100.0;
    println!(
        "reloaded after step {}: test accuracy {accuracy:.2} %\n",
        best.steps()
    );
    let shown = test.collect(&[0, 1, 2, 3])?;
    let read = best
        .predict(&shown.x.clone().place(&cx)?)
        .argmax_axes(1)
        .cast(DType::I64)
        .to_vec::<i64>()?;
    if let (Column::F32(images), Column::I64(right)) = (shown.x.data, shown.y.data) {
        show(&images, &read, &right);
    }
    Ok(())
}
