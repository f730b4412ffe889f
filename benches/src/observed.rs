//! What it costs a training to be observed: LeNet-5 with nothing, and with a profile, summaries, saved graphs, the flight recorder and
//! the log at once, in turns: `cargo run --release -p thalweg-benches --bin observed [--steps 200]`.
#![expect(clippy::print_stdout, reason = "the figures are what the program is for")]

use clap::Parser;
use std::fmt::Display;
use std::process::{Command, ExitCode};
use std::time::Instant;
use thalweg::{Context, Mode};
use thalweg_benches::networks::lenet;
use thalweg_benches::watched::Folder;
use thalweg_nn::callback::{Callback, Profiler, RunContext, StepTimes, SummaryCollector};
use thalweg_nn::data::{Loader, Rows, Samples};
use thalweg_nn::{Model, loss, optim::Adam};

type Error = Box<dyn std::error::Error>;

/// Images of a step.
const BATCH: usize = 64;
/// Epochs of a training. The first compiles and does not count.
const EPOCHS: u64 = 4;
/// Trainings of each kind.
const TURNS: usize = 5;

/// Measures a training of LeNet-5 with and without all that observes it.
#[derive(Parser)]
#[command(name = "observed")]
struct Options {
    /// Steps of an epoch.
    #[arg(long, default_value_t = 200)]
    steps: usize,
    /// Where to run.
    #[arg(long, default_value = "cpu")]
    target: String,
    /// Trains once in this process, with summaries and a profile below the folder that follows, if any, and prints nanoseconds a step.
    #[arg(long, hide = true, num_args = 0..=1)]
    once: Option<Option<String>>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match &options.once {
        Some(folder) => once(&options, folder.as_deref()),
        None => turns(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Each training is a process, because a flight recorder and a log stay until theirs ends.
fn turns(options: &Options) -> Result<(), Error> {
    let folder = Folder::new();
    let mut least = [f64::INFINITY; 2];
    for _ in 0..TURNS {
        least[0] = least[0].min(child(options, None)?);
        least[1] = least[1].min(child(options, Some(&folder))?);
        let _ = std::fs::remove_dir_all(&folder);
    }
    let [without, with] = least.map(|ns| ns * 1e-6);
    println!(
        "LeNet-5, {BATCH} images, ms a step: {without:.3} without, {with:.3} with everything, ratio {:.3}",
        with / without
    );
    Ok(())
}

fn child(options: &Options, folder: Option<&Folder>) -> Result<f64, Error> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--steps", &options.steps.to_string()]);
    command.args(["--target", &options.target, "--once"]);
    if let Some(folder) = folder {
        let below = |name: &str| folder.as_ref().join(name);
        command.arg(folder.as_ref());
        command.env("THALWEG_RDR_ENABLE", "1");
        command.env("THALWEG_RDR_PATH", below("rdr"));
        command.env("THALWEG_SAVE_GRAPHS", "2");
        command.env("THALWEG_SAVE_GRAPHS_PATH", below("graphs"));
        command.env("THALWEG_LOG_LEVEL", "1");
        command.env("THALWEG_LOG_TO_STDERR", "0");
        command.env("THALWEG_LOG_DIR", below("log"));
    }
    let output = command.output()?;
    let (out, err) = (
        String::from_utf8(output.stdout)?,
        String::from_utf8_lossy(&output.stderr),
    );
    match out.trim().parse() {
        Ok(ns) if output.status.success() => Ok(ns),
        _ => Err(failed(&err)),
    }
}

fn failed(why: &impl Display) -> Error {
    format!("a training failed: {why}").into()
}

fn once(options: &Options, folder: Option<&str>) -> Result<(), Error> {
    thalweg::init()?;
    let cx = Context::new(&options.target)?;
    cx.set_seed(1);
    cx.set_mode(Mode::Graph);
    let images = options.steps * BATCH;
    let pixels = (0..images * 28 * 28).map(|at| (at * 7919 % 251) as f32 / 250.0);
    let classes = (0..images as i64).map(|row| row * 7 % 10);
    let samples = Samples::new(
        Rows::new(pixels.collect::<Vec<f32>>(), &[1, 28, 28])?,
        Rows::new(classes.collect::<Vec<i64>>(), &[])?,
    )?;
    let data = Loader::new(samples, BATCH).shuffle(1);
    let mut model = Model::new(lenet(&cx)?, loss::cross_entropy, Adam::new(1e-3), &cx);
    let mut least = Least {
        begun: Instant::now(),
        epoch: f64::INFINITY,
    };
    match folder {
        None => model.train(EPOCHS, &data, &mut least)?,
        Some(folder) => {
            let summaries = SummaryCollector::to(format!("{folder}/summaries"));
            let profile = Profiler::to(format!("{folder}/profile"));
            model.train(EPOCHS, &data, (summaries, profile, StepTimes::new(), &mut least))?
        }
    };
    println!("{}", least.epoch / options.steps as f64);
    Ok(())
}

/// The epoch that took least, in nanoseconds, of those after the first.
struct Least {
    begun: Instant,
    epoch: f64,
}

impl Callback for Least {
    fn epoch_end(&mut self, run: &mut RunContext<'_>) -> thalweg_nn::Result<()> {
        run.loss_value()?;
        if run.cur_epoch_num > 1 {
            self.epoch = self.epoch.min(self.begun.elapsed().as_nanos() as f64);
        }
        self.begun = Instant::now();
        Ok(())
    }
}
