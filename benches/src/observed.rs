//! What it costs a training to be observed: LeNet-5 with nothing, with a profile of kernels and steps, with a profile of everything, and
//! with that, summaries, saved graphs, the flight recorder and the log at once. Every step is recorded:
//! `cargo run --release -p thalweg-benches --bin observed [--steps 12] [--rounds 300]`.
//!
//! Profiles begin and end between the epochs of one training, so each is compared with the epochs before and after it. A flight recorder
//! and a log stay until their process ends, so all together is compared with trainings in processes of their own.
#![expect(clippy::print_stdout, reason = "the figures are what the program is for")]

use clap::Parser;
use std::fmt::Display;
use std::process::{Command, ExitCode};
use std::time::Instant;
use thalweg::observe::{Profile, ProfileOptions};
use thalweg::{Context, Mode};
use thalweg_benches::networks::lenet;
use thalweg_benches::overhead::Round;
use thalweg_benches::watched::Folder;
use thalweg_nn::callback::{Callback, Profiler, RunContext, StepTimes, SummaryCollector};
use thalweg_nn::data::{Loader, Rows, Samples};
use thalweg_nn::{Model, loss, optim::Adam};

type Error = Box<dyn std::error::Error>;

/// Images of a step.
const BATCH: usize = 64;
/// Epochs of a training in a process of its own. The first compiles and does not count.
const EPOCHS: u64 = 12;
/// Steps of an epoch of them.
const STEPS: usize = 100;
/// Pairs of such trainings.
const TURNS: usize = 6;

/// Measures a training of LeNet-5 with and without what observes it.
#[derive(Parser)]
#[command(name = "observed")]
struct Options {
    /// Steps of an epoch.
    #[arg(long, default_value_t = 12)]
    steps: usize,
    /// Rounds of four epochs: with nothing, with a profile of kernels and steps, with nothing, with a profile of everything.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Where to run.
    #[arg(long, default_value = "cpu")]
    target: String,
    /// Trains in this process, observed by all that there is below `folder` or by nothing, and prints nanoseconds a step.
    #[arg(long, hide = true, requires = "folder")]
    once: Option<bool>,
    #[arg(long, hide = true)]
    folder: Option<String>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match (options.once, &options.folder) {
        (Some(all), Some(folder)) => once(&options, all, folder),
        _ => profiles(&options).and_then(|()| all(&options)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn profiles(options: &Options) -> Result<(), Error> {
    let folder = Folder::new();
    let mut epochs = Epochs::new(folder.as_ref().to_string_lossy());
    train(options, 2 + 4 * options.rounds, &mut epochs)?;
    println!(
        "LeNet-5, {BATCH} images, observed by{:>15}{:>9}  95 %",
        "ms a step", "times"
    );
    let (steps, ns) = (options.steps as f64, &epochs.ns);
    let alone: Vec<_> = ns.iter().copied().step_by(2).collect();
    println!("{:<42}{:>9.3}", "nothing", ms(&alone, steps));
    for (name, first) in [
        ("a profile of kernels and steps", 1),
        ("a profile of everything", 3),
    ] {
        let at = (first..ns.len() - 1).step_by(4);
        let ratios = at
            .clone()
            .map(|at| 2.0 * ns[at] / (ns[at - 1] + ns[at + 1]))
            .collect();
        row(name, ms(&at.map(|at| ns[at]).collect::<Vec<_>>(), steps), ratios);
    }
    let ends = epochs.ends.into_iter().skip(4).step_by(4);
    println!(
        "To begin and to end the last kind of profile takes {:.1} ms.",
        Round::Median.of(ends.collect()) * 1e-6
    );
    Ok(())
}

/// The median of `epochs`, in milliseconds a step.
fn ms(epochs: &[f64], steps: f64) -> f64 {
    Round::Median.of(epochs.to_vec()) / steps * 1e-6
}

/// Prints the median of `ratios`, and its 95 % interval: the order statistics at `n / 2 ± 0.98 √n` (H. A. David and H. N. Nagaraja, Order
/// Statistics, 7.1).
fn row(name: &str, ms: f64, mut ratios: Vec<f64>) {
    ratios.sort_by(f64::total_cmp);
    let half = 0.98 * (ratios.len() as f64).sqrt();
    let middle = ratios.len() as f64 / 2.0;
    let (low, high) = ((middle - half).floor(), (middle + half).ceil());
    let (low, high) = (low.max(0.0) as usize, (high as usize).min(ratios.len() - 1));
    println!(
        "{name:<42}{ms:>9.3}{:>9.3}  {:.3}–{:.3}",
        Round::Median.of(ratios.clone()),
        ratios[low],
        ratios[high]
    );
}

fn all(options: &Options) -> Result<(), Error> {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        without.push(child(options, false)?);
        with.push(child(options, true)?);
    }
    println!("{:<42}{:>9.3}", "nothing, in a process", ms(&without, 1.0));
    let ratios = with.iter().zip(&without).map(|(with, without)| with / without);
    row(
        "everything, summaries, graphs, recorder, log",
        ms(&with, 1.0),
        ratios.collect(),
    );
    Ok(())
}

fn child(options: &Options, all: bool) -> Result<f64, Error> {
    let folder = Folder::new();
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--steps", &STEPS.to_string()]);
    command.args(["--target", &options.target, "--once", &all.to_string()]);
    command.arg("--folder").arg(folder.as_ref());
    if all {
        let below = |name: &str| folder.as_ref().join(name);
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

fn once(options: &Options, all: bool, folder: &str) -> Result<(), Error> {
    thalweg::init()?;
    let mut least = Least {
        begun: Instant::now(),
        epoch: f64::INFINITY,
    };
    if all {
        let summaries = SummaryCollector::to(format!("{folder}/summaries"));
        let mut profile = ProfileOptions::default();
        profile.output_path = format!("{folder}/profile");
        profile.profile_stop_step = u64::MAX;
        (profile.profile, profile.profile_memory) = (true, true);
        train(
            options,
            EPOCHS,
            (summaries, Profiler::with(profile), StepTimes::new(), &mut least),
        )?;
    } else {
        train(options, EPOCHS, &mut least)?;
    }
    println!("{}", least.epoch / options.steps as f64);
    Ok(())
}

fn train(options: &Options, epochs: u64, callbacks: impl Callback) -> Result<(), Error> {
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
    model.train(epochs, &data, callbacks)?;
    Ok(())
}

/// Epochs with nothing, with a profile of kernels and steps, with nothing, with a profile of everything, in turns. The first compiles and
/// does not count.
struct Epochs {
    folder: String,
    profile: Option<Profile>,
    begun: Instant,
    /// Nanoseconds of each epoch but the first, without those in which its profile began and ended.
    ns: Vec<f64>,
    /// Nanoseconds in which the profile of each epoch began and ended.
    ends: Vec<f64>,
}

impl Epochs {
    fn new(folder: impl Into<String>) -> Epochs {
        Epochs {
            folder: folder.into(),
            profile: None,
            begun: Instant::now(),
            ns: Vec::new(),
            ends: Vec::new(),
        }
    }
}

impl Callback for Epochs {
    fn epoch_begin(&mut self, run: &mut RunContext<'_>) -> thalweg_nn::Result<()> {
        let begun = Instant::now();
        let profile = Profile::to(&self.folder);
        let profile = match run.cur_epoch_num % 4 {
            3 => Some(profile.ops(false)),
            1 if run.cur_epoch_num > 1 => Some(profile.memory(true)),
            _ => None,
        };
        self.profile = profile
            .map(|profile| profile.start(run.model.context()))
            .transpose()?;
        self.begun = Instant::now();
        self.ends.push((self.begun - begun).as_nanos() as f64);
        Ok(())
    }

    fn epoch_end(&mut self, run: &mut RunContext<'_>) -> thalweg_nn::Result<()> {
        run.loss_value()?;
        if run.cur_epoch_num > 1 {
            self.ns.push(self.begun.elapsed().as_nanos() as f64);
        }
        let ending = Instant::now();
        if let Some(profile) = self.profile.take() {
            profile.finish()?;
        }
        if let Some(ends) = self.ends.last_mut() {
            *ends += ending.elapsed().as_nanos() as f64;
        }
        Ok(())
    }
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
