//! What it costs a training to be observed: LeNet-5 with nothing, with a profile of kernels and steps, with a profile of everything, and
//! with that, summaries, saved graphs, the flight recorder and the log at once, in turns. Every step is recorded:
//! `cargo run --release -p thalweg-benches --bin observed [--steps 200]`.
#![expect(clippy::print_stdout, reason = "the figures are what the program is for")]

use clap::{Parser, ValueEnum};
use std::fmt::Display;
use std::process::{Command, ExitCode};
use std::time::Instant;
use thalweg::observe::ProfileOptions;
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

/// Measures a training of LeNet-5 with and without what observes it.
#[derive(Parser)]
#[command(name = "observed")]
struct Options {
    /// Steps of an epoch.
    #[arg(long, default_value_t = 200)]
    steps: usize,
    /// Where to run.
    #[arg(long, default_value = "cpu")]
    target: String,
    /// Trains once in this process, observed like this below `folder`, and prints nanoseconds a step.
    #[arg(long, hide = true, requires = "folder")]
    once: Option<Observed>,
    #[arg(long, hide = true)]
    folder: Option<String>,
}

/// What observes a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Observed {
    Nothing,
    /// A profile of kernels and steps.
    Kernels,
    /// A profile of kernels, steps, ops and memory.
    Profile,
    /// That, and all other files.
    All,
}

impl Observed {
    const EACH: [(Observed, &str); 4] = [
        (Observed::Nothing, "nothing"),
        (Observed::Kernels, "a profile of kernels and steps"),
        (Observed::Profile, "a profile of everything"),
        (Observed::All, "that, summaries, graphs, recorder, log"),
    ];

    /// A profile of every step.
    fn profile(self, folder: &str) -> Result<Profiler, Error> {
        let mut options = ProfileOptions::default();
        options.output_path = format!("{folder}/profile");
        options.profile_stop_step = u64::MAX;
        match self {
            Observed::Nothing => {}
            Observed::Kernels => {
                let traces = r#"{"enable_profiling": true, "profiling_options": {"task_trace": "on"}}"#;
                options.profiling_options = ProfileOptions::from_json(traces)?.profiling_options;
                options.enable_profiling = true;
            }
            Observed::Profile | Observed::All => (options.profile, options.profile_memory) = (true, true),
        }
        Ok(Profiler::with(options))
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match (options.once, &options.folder) {
        (Some(observed), Some(folder)) => once(&options, observed, folder),
        _ => turns(&options),
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
    let mut least = [f64::INFINITY; Observed::EACH.len()];
    for _ in 0..TURNS {
        for (least, (observed, _)) in least.iter_mut().zip(Observed::EACH) {
            *least = least.min(child(options, observed, &folder)?);
            let _ = std::fs::remove_dir_all(&folder);
        }
    }
    println!(
        "LeNet-5, {BATCH} images, observed by{:>14}{:>9}",
        "ms a step", "times"
    );
    for (ns, (_, name)) in least.iter().zip(Observed::EACH) {
        println!("{name:<40}{:>9.3}{:>9.3}", ns * 1e-6, ns / least[0]);
    }
    Ok(())
}

fn child(options: &Options, observed: Observed, folder: &Folder) -> Result<f64, Error> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--steps", &options.steps.to_string()]);
    command.args(["--target", &options.target, "--once"]);
    command.arg(
        observed
            .to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned()),
    );
    command.arg("--folder").arg(folder.as_ref());
    if observed == Observed::All {
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

fn once(options: &Options, observed: Observed, folder: &str) -> Result<(), Error> {
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
    let profile = observed.profile(folder)?;
    if observed == Observed::All {
        let summaries = SummaryCollector::to(format!("{folder}/summaries"));
        model.train(EPOCHS, &data, (summaries, profile, StepTimes::new(), &mut least))?;
    } else {
        model.train(EPOCHS, &data, (profile, &mut least))?;
    }
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
