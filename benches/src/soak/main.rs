//! Work of all kinds for a long time, with faults and checks in turns: `soak --minutes 60`.
//!
//! A round draws work from its seed: random programs (eager, recorded, compiled), training with checkpoints, streams, threads, memory
//! that runs out, devices that are lost. It does the work on a plain CPU backend, and then the same under the layer `fault` or
//! `validate`, which must give the same bits. Every other plain round is compared with the reference backend. A device is
//! opened for each turn and closed at its end, when nothing may be left.
#![expect(clippy::print_stdout, reason = "the figures are what the program is for")]

mod process;
mod program;
mod reports;
mod rig;
mod work;

use clap::Parser;
use process::{Process, Watch};
use program::{Dice, Program};
use rig::{Bench, Rig, Tally, Turn, check};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use thalweg::hal::{Backend, DeviceOptions};
use thalweg::{Context, DType, Mode};
use work::Work;

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// Works for a long time, with faults and checks in turns, and looks at every result and figure.
#[derive(Parser)]
#[command(name = "soak")]
struct Options {
    /// How long.
    #[arg(long, default_value = "60", conflicts_with = "seconds")]
    minutes: u64,
    /// How long, in seconds.
    #[arg(long)]
    seconds: Option<u64>,
    /// What the first round draws its work from; a round that went wrong names its own.
    #[arg(long, default_value = "1")]
    seed: u32,
    /// Does this kind of work only; may be repeated.
    #[arg(long, value_parser = work::NAMES)]
    work: Vec<String>,
    /// Does work under the layer of this turn only, beside the plain turn.
    #[arg(long, value_parser = ["plain", "faults", "validate"])]
    turn: Option<String>,
}

/// A result of the reference and one of the CPU may be so far apart: both compute in f64, with values from -1 to 1.
const APART: f64 = 1e-6;

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Everything that lives as long as the run.
struct Soak {
    benches: [Bench; 3],
    reference: Backend,
    folder: PathBuf,
    kinds: Vec<(&'static str, Work)>,
    /// The turns that follow a plain one, one a round.
    others: Vec<Turn>,
    tallies: [Tally; 3],
    compared: u64,
}

fn run(options: &Options) -> Result<()> {
    let total = Duration::from_secs(
        options
            .seconds
            .unwrap_or_else(|| options.minutes.saturating_mul(60)),
    );
    check(!total.is_zero(), || "the time is 0; ask for some".into())?;
    reports::collect()?;
    let folder = std::env::temp_dir().join(format!("thalweg-soak-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let [plain, faults, validate] = Turn::ALL.map(Bench::new);
    let asked = |name: &str| options.work.is_empty() || options.work.iter().any(|asked| asked == name);
    let turn = |turn: &Turn| match &options.turn {
        Some(asked) => turn.name() == asked,
        None => *turn != Turn::Plain,
    };
    let mut soak = Soak {
        benches: [plain?, faults?, validate?],
        reference: rig::backend("reference", Vec::new())
            .map_err(|error| format!("{error}; `cargo build -p thalweg-reference` builds the reference"))?,
        folder,
        kinds: work::all().filter(|(name, _)| asked(name)).collect(),
        others: Turn::ALL.into_iter().filter(turn).collect(),
        tallies: Default::default(),
        compared: 0,
    };
    let ended = soak.work(total, options.seed);
    std::fs::remove_dir_all(&soak.folder)?;
    ended
}

impl Soak {
    fn work(&mut self, total: Duration, seed: u32) -> Result<()> {
        let (begun, mut watch) = (Instant::now(), Watch::new(total));
        let period = Duration::from_secs(60).min(total / 4);
        let mut next = period;
        println!("{}", heading());
        for round in 0.. {
            let seed = seed.wrapping_add(round);
            let done = self.round(round, seed);
            done.map_err(|error| format!("{error}; `soak --seed {seed}` begins with this round"))?;
            let elapsed = begun.elapsed();
            let now = Process::now()?;
            watch.note(elapsed, now);
            if elapsed >= next || elapsed >= total {
                println!("{}", self.line(elapsed, now));
                next += period;
            }
            if elapsed >= total {
                break;
            }
        }
        println!("\n{}", self.table());
        for (third, process) in ["first", "second", "last"].into_iter().zip(watch.thirds()) {
            let Some(process) = process else { continue };
            println!(
                "{third} third: {:.2} MiB in use, {:.1} resident, {} threads, {} descriptors",
                mib(process.used),
                mib(process.resident),
                process.threads,
                process.descriptors
            );
        }
        match &watch.grown()[..] {
            [] => {
                println!("every result and figure was right, and memory is flat");
                Ok(())
            }
            grown => Err(grown.join("; ").into()),
        }
    }

    /// All kinds of work, plain and under a layer.
    fn round(&mut self, round: u32, seed: u32) -> Result<()> {
        let plain = self.turn(Turn::Plain, seed)?;
        if round.is_multiple_of(2) {
            self.compare(seed)?;
        }
        let other = self.others[round as usize % self.others.len()];
        let layered = self.turn(other, seed)?;
        for (((name, _), plain), layered) in self.kinds.iter().zip(&plain).zip(&layered) {
            check(plain == layered, || {
                format!("{name}: other bits in the turn {}", other.name())
            })?;
        }
        Ok(())
    }

    /// All kinds of work on a fresh device; the bits of each.
    fn turn(&mut self, turn: Turn, seed: u32) -> Result<Vec<Vec<u8>>> {
        let rig = Rig::new(&self.benches[turn as usize], seed)?;
        let mut bits = Vec::new();
        for (number, (name, work)) in (0..).zip(&self.kinds) {
            let folder = self.folder.join(name);
            std::fs::create_dir_all(&folder)?;
            let mut dice = Dice::new(seed.wrapping_mul(31).wrapping_add(number));
            let done = work(&rig, &mut dice, &folder);
            std::fs::remove_dir_all(&folder)?;
            bits.push(done.map_err(|error| format!("{name} in the turn {}: {error}", turn.name()))?);
        }
        let ended = rig.end();
        let done = ended.map_err(|error| format!("the end of the turn {}: {error}", turn.name()))?;
        let reports = reports::take();
        check(reports.is_empty(), || {
            format!("the turn {}: {}", turn.name(), reports.join("; "))
        })?;
        let tally = &mut self.tallies[turn as usize];
        *tally = Tally {
            rounds: tally.rounds + 1,
            programs: tally.programs + done.programs,
            ops: tally.ops + done.ops,
            steps: tally.steps + done.steps,
            saves: tally.saves + done.saves,
            faults: tally.faults + done.faults,
            refused: tally.refused + done.refused,
            peak: tally.peak.max(done.peak),
        };
        Ok(bits)
    }

    /// A program on the CPU and on the reference.
    fn compare(&mut self, seed: u32) -> Result<()> {
        let program = Program::new(&mut Dice::new(!seed));
        let rig = Rig::new(&self.benches[Turn::Plain as usize], seed)?;
        let found = program.compiled(&rig.context(Mode::Eager), DType::F64)?;
        let device = self.reference.open(&DeviceOptions::new(0))?;
        let expected = program.result(&Context::on(device), DType::F64)?;
        let worst = found
            .iter()
            .zip(&expected)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f64::max);
        check(found.len() == expected.len() && worst <= APART, || {
            format!("{worst:.1e} apart from the reference: {program:?}")
        })?;
        rig.end()?;
        self.compared += 1;
        Ok(())
    }

    fn all(&self) -> Tally {
        self.tallies.iter().fold(Tally::default(), |sum, tally| Tally {
            rounds: sum.rounds + tally.rounds,
            programs: sum.programs + tally.programs,
            ops: sum.ops + tally.ops,
            steps: sum.steps + tally.steps,
            saves: sum.saves + tally.saves,
            faults: sum.faults + tally.faults,
            refused: sum.refused + tally.refused,
            peak: sum.peak.max(tally.peak),
        })
    }

    fn line(&self, elapsed: Duration, now: Process) -> String {
        let all = self.all();
        format!(
            "{:>8.1} {:>9} {:>10} {:>8} {:>8} {:>8} {:>7.2} {:>9.1} {:>10.1} {:>7} {:>11}",
            elapsed.as_secs_f64() / 60.0,
            all.rounds,
            all.ops,
            all.steps,
            all.faults,
            all.refused,
            mib(now.used),
            mib(now.resident),
            mib(all.peak),
            now.threads,
            now.descriptors,
        )
    }

    fn table(&self) -> String {
        let mut text = "| turn | rounds | programs | ops | steps | saves | faults | refused | peak MiB |\n\
                        |---|---|---|---|---|---|---|---|---|\n"
            .to_owned();
        let all = self.all();
        let names = Turn::ALL.map(Turn::name).into_iter().chain(["all"]);
        for (name, tally) in names.zip(self.tallies.iter().chain([&all])) {
            let Tally {
                rounds,
                programs,
                ops,
                steps,
                saves,
                faults,
                refused,
                peak,
            } = tally;
            let peak = mib(*peak);
            text += &format!(
                "| {name} | {rounds} | {programs} | {ops} | {steps} | {saves} | {faults} | {refused} | {peak:.1} |\n"
            );
        }
        text + &format!("{} programs compared with the reference\n", self.compared)
    }
}

fn heading() -> String {
    format!(
        "{:>8} {:>9} {:>10} {:>8} {:>8} {:>8} {:>7} {:>9} {:>10} {:>7} {:>11}",
        "minutes",
        "rounds",
        "ops",
        "steps",
        "faults",
        "refused",
        "in use",
        "resident",
        "peak MiB",
        "threads",
        "descriptors"
    )
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
