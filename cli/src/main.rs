//! The command `thalweg`: what hardware there is, why some of it cannot be used, and whether a backend keeps the contract.
//!
//! | call | what it does |
//! |---|---|
//! | `thalweg devices` | the devices, and why everything else cannot be used |
//! | `thalweg doctor` | machine, settings, folders, every step of each candidate, hints |
//! | `thalweg conform PATH\|TARGET` | holds a backend to the contract |
//! | `thalweg plugins lock\|verify` | writes and checks the sums of plugins |
//! | `thalweg trace DIR` | shows where the time of a recorded program goes, and writes its timeline and tables |
//! | `thalweg replay FILE` | does the work of a capture or of a graph in text, on any device, and compares |
//! | `thalweg reduce FILE` | makes a capture or a graph in text smaller as long as a command still finds what is wrong |
//! | `thalweg rdr [DIR]` | shows what the flight recorder of a program left, also of one that was killed |
//! | `thalweg view DIR` | shows the same in a browser, as one file, or in the terminal |
//! | `thalweg diff A B` | compares two dumps of values: the first op that differs |
//! | `thalweg print FILE` | shows what a program printed into a file |
//!
//! `cli/README.md` has the exit statuses and the fields of `--json`. A command that loads plugins runs in a child process (`guard`), so
//! a crash of a plugin is a row in the report.
#![forbid(unsafe_code)]

mod args;
mod conform;
mod devices;
mod diff;
mod doctor;
mod ended;
mod found;
mod guard;
mod plugins;
mod print;
mod rdr;
mod reduce;
mod replay;
mod text;
mod trace;
mod verbose;
mod view;

use args::Command;
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

/// What a command ends with: `false` for an answer that is no good news, such as no device at all.
type Outcome = Result<bool, Box<dyn Error>>;

fn main() -> ExitCode {
    let args = match args::parse() {
        Ok(args) => args,
        Err(code) => return code,
    };
    verbose::start(args.verbose);
    let mut out = io::BufWriter::new(io::stdout().lock());
    let loads = matches!(args.command, Command::Devices(_) | Command::Doctor(_));
    let outcome = if loads && !args.guarded {
        guard::run()
    } else {
        run(args.command, &mut out)
    };
    let flushed = outcome.and_then(|good| Ok(out.flush().map(|()| good)?));
    match flushed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // Who reads has read enough, as in `thalweg devices | head -1`.
        Err(error) if is_broken_pipe(error.as_ref()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", text::lines(&error.to_string(), "       "));
            for cause in text::causes(error.as_ref()) {
                eprintln!("  cause: {}", text::line(&cause));
            }
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command, out: &mut dyn Write) -> Outcome {
    match command {
        Command::Devices(args) => devices::run(&args, out),
        Command::Doctor(args) => doctor::run(&args, out),
        Command::Conform(args) => conform::run(&args, out),
        Command::Plugins(args) => plugins::run(&args, out),
        Command::Trace(args) => trace::run(&args, out),
        Command::Rdr(args) => rdr::run(&args, out),
        Command::View(args) => view::run(&args, out),
        Command::Diff(args) => diff::run(&args, out),
        Command::Print(args) => print::run(&args, out),
        Command::Replay(args) => replay::run(&args, out),
        Command::Reduce(args) => reduce::run(&args, out),
    }
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
