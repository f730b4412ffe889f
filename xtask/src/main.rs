//! The project's own tasks: `cargo xtask --help`.
#![allow(clippy::print_stdout, reason = "a command prints")]

mod header;

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[derive(Parser)]
#[command(about, version)]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Write hal-api/include/thalweg.h from the Rust tables.
    Header {
        /// Write nothing; fail when the committed header is not what would be written.
        #[arg(long)]
        check: bool,
    },
}

/// The folder of the workspace.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

fn main() -> ExitCode {
    let result = match Args::parse().task {
        Task::Header { check } => header::run(&root(), check),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
