//! The project's own tasks: `cargo xtask --help`.
#![allow(clippy::print_stdout, reason = "a command prints")]

mod attack;
mod audit;
mod ci;
mod cuda_gate;
mod debug_build;
mod demo;
mod dist;
mod dtype;
mod first_build;
mod floors;
mod gpu_kit;
mod guide;
mod header;
mod layering;
mod lines;
mod msrv;
mod new_backend;
mod new_op;
mod package;
mod perf;
mod plugins;
mod process;
mod prose;
mod settings;
mod soak;
mod source;
mod state;
mod suite;
mod summaries;
mod views;

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[derive(Parser)]
#[command(about, version)]
struct Args {
    #[command(subcommand)]
    task: Task,
}

/// What tests and checks may do without.
const NEEDS: [&str; 6] = ["opencl", "cuda", "compiler", "machine", "python", "browser"];

#[derive(Subcommand)]
enum Task {
    /// Build the plugins, then run every test and documentation example.
    ///
    /// Tests that this machine cannot run are listed with the reason, and count as skipped.
    Test {
        /// Fail when tests are skipped for want of this: opencl, cuda, compiler, machine; may be repeated.
        #[arg(long, value_name = "WHAT", value_parser = NEEDS)]
        require: Vec<String>,
    },
    /// Run every test that does harm on purpose, and print what was tried and what survived.
    Attack,
    /// Work for a long time with faults and checks in turns, and look at every result and figure.
    ///
    /// Prints figures each minute and a table at the end. Fails when a result or a figure is wrong, or when memory grows.
    Soak {
        /// How long.
        #[arg(long, default_value = "60")]
        minutes: u64,
        /// What the first round draws its work from.
        #[arg(long, default_value = "1")]
        seed: u32,
    },
    /// Run every check, with the time that each takes.
    Ci {
        /// Run this step only; may be repeated.
        #[arg(long, value_name = "STEP")]
        only: Vec<String>,
        /// Fail when something is skipped for want of this: opencl, cuda, compiler, machine, python, browser; may be repeated.
        #[arg(long, value_name = "WHAT", value_parser = NEEDS)]
        require: Vec<String>,
    },
    /// Build in release mode, list the devices, train LeNet-5 on handwritten digits.
    Demo {
        /// Train on the embedded CPU backend and on the plugin, and compare the bits.
        #[arg(long)]
        compare: bool,
        /// Options of the training program, such as `--device-target opencl --epochs 3`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Build the plugins and put them into `backends/` beside the executables.
    Plugins {
        /// Optimised.
        #[arg(long)]
        release: bool,
    },
    /// Start a new backend as a copy of the reference backend.
    NewBackend {
        /// What users will ask for: a-z, 0-9 and _.
        name: String,
    },
    /// Write hal-api/include/thalweg.h from the Rust tables.
    Header {
        /// Write nothing; fail when the committed header is not what would be written.
        #[arg(long)]
        check: bool,
    },
    /// Pack the plugins for users, install the archive into a folder, and check it there.
    Dist,
    /// Pack every crate that users get, and build the packages from their content.
    Package,
    /// Check licences, versions, number and known flaws of the dependencies.
    Audit {
        /// A clone of RustSec's advisory-db, to look at all of its advisories.
        #[arg(long, value_name = "DIR")]
        database: Option<PathBuf>,
    },
    /// Write docs/settings.md from the rows that the code reads.
    Settings {
        /// Write nothing; fail when the committed page is not what would be written.
        #[arg(long)]
        check: bool,
    },
    /// Check the documents: no sentence over 35 words, links that lead somewhere, a map of at most 160 lines.
    Prose,
    /// Run the marked shell blocks of docs/guide and compare what they print with the page.
    Guide {
        /// Use the command and the plugins that are built.
        #[arg(long)]
        no_build: bool,
    },
    /// Compile CUDA sources of many kernels with NVRTC and ptxas from PyPI; no GPU is needed.
    CudaGate,
    /// Open the page of `thalweg view`, and the files of `thalweg trace` in Perfetto's UI and speedscope, in Chromium without a screen.
    Views {
        /// Only say how long the page of ten million kernels takes to open, served and as a file. Needs a quiet machine.
        #[arg(long)]
        large: bool,
    },
    /// Trains with a collector, and reads its event files with TensorBoard.
    Summaries,
    /// Train LeNet-5 under a profile, and draw docs/pictures/view.png from it.
    Picture,
    /// Pack command, plugins, tests and benches, prebuilt, with a script that runs them all on another machine's GPU.
    GpuKit,
    /// List the files that name the newest dtype; fail when they are too many or the recipe does not tell them.
    Dtype,
    /// Check which crate knows which, which module of core, and what state is global.
    Layering,
    /// Measure our cases and the peers' in turns, at each instruction set, and keep the results of this model of processor.
    ///
    /// It prints the time of the best peer over ours, with the geometric mean, and fails nothing. Peers come from
    /// benches/peers/setup.sh; those that are missing are named.
    Perf(perf::Options),
    /// Build the program of the README as a user does first, and print the CPU seconds of each crate.
    ///
    /// Fails when they are more than a bound that is little over what the README states. Needs a quiet machine.
    FirstBuild,
    /// Compare a debug build of a user's program with its release build: a product of 512³ and a softmax of 1024².
    ///
    /// Fails when one takes more than 1.5 times as long. Needs a quiet machine.
    DebugBuild,
    /// List long files; fail on files over 500 lines.
    Lines,
}

/// The folder of the workspace.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Cargo's build folder.
fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}

/// The files of the project, relative to its folder: what git tracks or would track.
fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    let names = String::from_utf8(output.stdout)?;
    let mut files: Vec<_> = names.split_terminator('\0').map(PathBuf::from).collect();
    files.retain(|file| root.join(file).is_file());
    files.sort();
    files.dedup();
    Ok(files)
}

fn main() -> ExitCode {
    if let Some(compiled) = first_build::measured() {
        return match compiled {
            Ok(status) => ExitCode::from(status.code().map_or(1, |code| code as u8)),
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let root = root();
    let result = match Args::parse().task {
        Task::Test { require } => suite::run(&root, &require).map(|_| ()),
        Task::Attack => attack::run(&root),
        Task::Soak { minutes, seed } => soak::run(&root, minutes, seed),
        Task::Ci { only, require } => ci::run(&root, &only, &require),
        Task::Demo { compare, options } => demo::run(&root, compare, &options),
        Task::Plugins { release } => {
            plugins::place(&root, release).map(|folder| println!("{}", folder.display()))
        }
        Task::NewBackend { name } => new_backend::run(&root, &name),
        Task::Header { check } => header::run(&root, check),
        Task::Dist => dist::run(&root),
        Task::Package => package::run(&root),
        Task::Audit { database } => audit::run(&root, database.as_deref()).map(|left_out| {
            for suite::Skip { what, why, .. } in left_out {
                println!("SKIPPED: {what} ({why})");
            }
        }),
        Task::Settings { check } => settings::run(&root, check),
        Task::Prose => prose::run(&root),
        Task::Guide { no_build } => guide::run(&root, !no_build),
        Task::CudaGate => ci::run(&root, &["cuda-gate".to_owned()], &[]),
        Task::Views { large: true } => views::large(&root),
        Task::Views { large: false } => ci::run(&root, &["views".to_owned()], &[]),
        Task::Summaries => ci::run(&root, &["summaries".to_owned()], &[]),
        Task::Picture => views::picture(&root),
        Task::GpuKit => gpu_kit::run(&root),
        Task::Dtype => dtype::run(&root),
        Task::Layering => layering::run(&root),
        Task::Perf(options) => perf::run(&root, &options),
        Task::FirstBuild => first_build::run(&root),
        Task::DebugBuild => debug_build::run(&root),
        Task::Lines => lines::run(&root),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
