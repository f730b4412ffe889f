//! One small call over and over, for tools that count instructions.
//!
//! ```text
//! cargo build --release -p thalweg-benches --bin calls
//! valgrind --tool=callgrind --toggle-collect='*calls::repeated*' target/release/calls launch --count 1000
//! ```
#![expect(
    clippy::print_stdout,
    reason = "how often it was called is what the program says"
)]

use clap::{Parser, ValueEnum};
use std::process::ExitCode;
use thalweg::hal::{self, Device};
use thalweg::observe::Profile;
use thalweg::{Context, Error};
use thalweg_benches::{overhead, tensors, watched};

/// Repeats one small call. Under callgrind, divide what `repeated` includes by the count.
#[derive(Parser)]
#[command(name = "calls")]
struct Options {
    /// What is called.
    case: Case,
    /// How often.
    #[arg(long, default_value_t = 1000)]
    count: usize,
    /// Where to run: cpu, opencl:0, or a plugin's name.
    #[arg(long, default_value = "cpu")]
    target: String,
    /// What is recorded meanwhile, into a folder of the system's for temporary files.
    #[arg(long, value_enum, default_value = "off")]
    recorded: Recorded,
}

#[derive(Clone, Copy, ValueEnum)]
enum Case {
    /// A launch of an empty kernel.
    Launch,
    /// A launch of `a + b`, one element.
    LaunchAdd,
    /// A prebuilt graph of a thousand empty kernels.
    Graph,
    /// An allocation of 512 bytes and its end.
    Alloc,
    /// `a + b` on tensors of one element.
    Eager,
    /// A compiled function of one op on one element.
    Jit,
}

/// What is recorded meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Recorded {
    /// Nothing.
    Off,
    /// Calls of ops.
    Ops,
    /// Runs and kernels.
    Kernels,
    /// Both, and memory.
    All,
}

/// The part that is counted.
#[inline(never)]
fn repeated(count: usize, call: &mut dyn FnMut() -> hal::Result<()>) -> hal::Result<()> {
    (0..count).try_for_each(|_| call())
}

fn measure(count: usize, mut call: impl FnMut() -> hal::Result<()>) -> Result<(), Error> {
    // What the first calls do is done once.
    (0..100).try_for_each(|_| call())?;
    Ok(repeated(count, &mut call)?)
}

fn run(options: &Options) -> Result<(), Error> {
    let device: Device = hal::device(&options.target)?;
    let cx = Context::on(device.clone());
    let folder = watched::Folder::new();
    let profile = Profile::to(&folder);
    let _profile = match options.recorded {
        Recorded::Off => None,
        Recorded::Ops => Some(profile.kernels(false).start(&cx)?),
        Recorded::Kernels => Some(profile.ops(false).start(&cx)?),
        Recorded::All => Some(profile.memory(true).start(&cx)?),
    };
    let count = &options.count;
    match options.case {
        Case::Launch => measure(*count, overhead::launch(&device)?),
        Case::LaunchAdd => measure(*count, overhead::launch_add(&device)?),
        Case::Graph => measure(*count, overhead::graph(&device)?),
        Case::Alloc => measure(*count, overhead::alloc(&device, 512)?),
        Case::Eager => measure(*count, tensors::eager(&cx)?),
        Case::Jit => measure(*count, tensors::call(&cx)?),
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(()) => {
            println!("{} calls", options.count);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
