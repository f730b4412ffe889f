//! The command line.

use crate::text;
use clap::{ArgAction, Parser, Subcommand};
use std::io;
use std::path::{Path, PathBuf, absolute};
use std::process::ExitCode;
use thalweg::loader::{ABI, LoaderOptions};

/// What hardware there is, why some of it cannot be used, and whether a backend keeps the contract.
#[derive(Parser)]
#[command(name = "thalweg", version = version())]
pub(crate) struct Args {
    /// Print what the loader does to standard error; twice for more
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// This process is the child of one that waits for it
    #[arg(long, global = true, hide = true)]
    pub(crate) guarded: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

fn version() -> &'static str {
    use std::sync::LazyLock;
    static VERSION: LazyLock<String> =
        LazyLock::new(|| format!("{} (thalweg-hal {ABI})", env!("CARGO_PKG_VERSION")));
    VERSION.as_str()
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the devices that can be used, and why everything else that was found cannot
    ///
    /// Ends with 0 when at least one device can be used, with 1 when there is none.
    Devices(Devices),
    /// Look into everything that decides which devices there are: machine, environment, folders, every step of each backend
    ///
    /// Backends whose trial ended badly in an earlier run are tried again. Ends with 0 when at least one device can be used.
    Doctor(Search),
    /// Hold a backend to the contract and report what passes, what fails, and what it costs
    ///
    /// Ends with 0 when the backend is conformant.
    Conform(Conform),
    /// Lock the content of plugin files, or check it against the lock
    Plugins(Plugins),
    /// Show where the time of a recorded program goes, and write its timeline and tables
    ///
    /// Writes trace.json (for ui.perfetto.dev), op_table.csv, op_table.json, kernels.csv, step_trace.csv, memory.csv,
    /// stacks.collapsed and speedscope.json (for speedscope.app). `THALWEG_PROFILE=DIR PROGRAM` records any program.
    Trace(Trace),
    /// Show recorded programs and trainings in a browser: timeline, ops, memory, scalars, histograms, images, runs side by side
    ///
    /// Each DIR is a run, as `THALWEG_PROFILE=DIR PROGRAM` records it, or has what `SummaryCollector` notes, in it or below it. The page follows programs that still run. It listens on this machine
    /// alone, and needs no network. Ctrl-C ends it.
    View(View),
    /// Show a file of prints, which the option print_file_path names
    ///
    /// A file that was cut or damaged is shown as far as it is whole, and a line on standard error says so. Ends with 0 when it is whole.
    Print(Print),
    /// Compare two dumps of values: the first op that differs, its line, and how the error grows
    ///
    /// Dumps of one device have to be equal bit for bit, those of two devices as far as their dtypes allow. Ends with 0 when they are.
    Diff(Diff),
    /// Do the work of a captured program again, without the program, or that of a graph in text
    ///
    /// `THALWEG_LAYERS=capture PROGRAM` captures any program. Prints times of kernels; compares with what the program read back
    /// (--check), or two devices op by op (--against, --compare). Ends with 0 when nothing that was compared differs.
    Replay(Replay),
    /// Make a capture or a graph in text smaller as long as a command still finds what is wrong
    ///
    /// Of a capture it drops packets, cuts programs and kernels, shrinks extents and replaces contents; of a graph it drops nodes.
    /// Each candidate must make the command end with 0. Ends with 0 when a smaller file was written.
    Reduce(Reduce),
    /// Show the last launches and errors of programs that the flight recorder watched, also of one that was killed
    ///
    /// Writes order.csv and memory.csv beside each record. `THALWEG_RDR_ENABLE=1 PROGRAM` records any program.
    Rdr(Rdr),
}

#[derive(clap::Args)]
pub(crate) struct Diff {
    /// A folder of dumped values, or one around such folders
    #[arg(value_name = "A")]
    pub(crate) a: PathBuf,
    /// Another one
    #[arg(value_name = "B")]
    pub(crate) b: PathBuf,
    /// Write the errors along the network as one file for a browser
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct Print {
    /// The file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[derive(clap::Args)]
pub(crate) struct Rdr {
    /// The folder of `THALWEG_RDR_PATH`, or one in it
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) from: PathBuf,
}

#[derive(clap::Args)]
pub(crate) struct Search {
    /// Look for backends in this folder before all others; may be given several times
    #[arg(long = "backend-path", value_name = "DIR", value_delimiter = ':')]
    folders: Vec<PathBuf>,
}

impl Search {
    /// The loader's options. A folder that is named here is meant, even as a relative path.
    pub(crate) fn options(&self) -> io::Result<LoaderOptions> {
        Ok(LoaderOptions {
            folders: self.folders.iter().map(absolute).collect::<io::Result<_>>()?,
            ..LoaderOptions::default()
        })
    }

    /// The arguments that another process of this program needs for the same search.
    pub(crate) fn to_args(&self) -> impl Iterator<Item = &std::ffi::OsStr> {
        let flag = std::ffi::OsStr::new("--backend-path");
        self.folders
            .iter()
            .flat_map(move |folder| [flag, folder.as_os_str()])
    }
}

#[derive(clap::Args)]
pub(crate) struct Devices {
    /// Print JSON
    ///
    /// An object with `schema` (1), `thalweg`, `abi`, `devices` and `unusable`; cli/README.md of the sources says what each
    /// field means. Fields may be added; those that are there keep their meaning.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) search: Search,
}

#[derive(clap::Args)]
pub(crate) struct Conform {
    /// A plugin's file, or the target of a backend that the search finds: `./libthalweg_acme.so`, `cpu`
    #[arg(value_name = "PATH|TARGET", required_unless_present = "list")]
    pub(crate) subject: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Run only cases whose `group/name` fits; `*` stands for any text
    #[arg(long, value_name = "GLOB")]
    pub(crate) filter: Option<String>,
    /// List the cases instead of running them
    #[arg(long)]
    pub(crate) list: bool,
    /// A TOML file of cases that are known to fail: `[[ignore]]` with `case` (a glob) and `reason`
    #[arg(long, value_name = "FILE")]
    pub(crate) ignore: Option<PathBuf>,
    /// Run the cases that only compute in this many processes at once; worth it where kernels are compiled slowly
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub(crate) jobs: std::num::NonZeroUsize,
    #[command(flatten)]
    pub(crate) search: Search,
    /// Run the cases whose numbers come on standard input, and write their rows as JSON lines.
    #[arg(long, hide = true)]
    pub(crate) work: bool,
}

#[derive(clap::Args)]
pub(crate) struct Trace {
    /// The folder that the profile was written to, also one with a folder for each rank; or a recording. May be given several times.
    #[arg(required = true, value_name = "DIR")]
    pub(crate) from: Vec<PathBuf>,
    /// Write the files into this folder instead of DIR; it is made if there is none
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Sort the ops by device time, host time, calls, mean or max device time of a call, or name
    #[arg(long, value_name = "KEY", default_value = "device", value_parser = ["device", "host", "calls", "mean", "max", "name"])]
    sort: String,
    /// Show so many ops
    #[arg(long, value_name = "NUMBER", default_value = "20")]
    pub(crate) top: usize,
    /// First cut recordings at their last whole frame, and close a trace.json that was cut
    #[arg(long)]
    pub(crate) repair: bool,
}

impl Trace {
    pub(crate) fn sort(&self) -> thalweg_observe::Sort {
        // The parser knows the same names, which a test compares.
        self.sort.parse().unwrap_or_default()
    }
}

#[derive(clap::Args)]
pub(crate) struct View {
    /// The folder of a profile or of summaries, also one with a folder for each rank or run; several are shown side by side
    #[arg(required = true, value_name = "DIR")]
    pub(crate) from: Vec<PathBuf>,
    /// Listen on this address or name; 0.0.0.0 lets other machines read what the programs recorded
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// Listen on this port; 0 takes a free one
    #[arg(long, value_name = "NUMBER", default_value = "8080")]
    pub(crate) port: u16,
    /// Write the page into one file, with all that it shows, instead of serving it
    #[arg(long, value_name = "FILE.html", conflicts_with_all = ["host", "port", "text"])]
    pub(crate) export: Option<PathBuf>,
    /// Draw steps, ops, figures and scalars in the terminal instead
    #[arg(long, conflicts_with_all = ["host", "port"])]
    pub(crate) text: bool,
}

#[derive(clap::Args)]
pub(crate) struct Replay {
    /// The capture, or a graph in text, whose inputs are drawn
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Do all of its work on this device instead of those that were captured: `cpu`, `opencl:1`
    #[arg(long, value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// Do it so many times; times are the least of all
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub(crate) times: std::num::NonZeroUsize,
    /// Compare the bits of what the program read back with what it read
    #[arg(long, conflicts_with_all = ["against", "compare"])]
    pub(crate) check: bool,
    /// Do it on this device too, packet by packet, and show the differences by op
    #[arg(long, value_name = "TARGET")]
    pub(crate) against: Option<String>,
    /// Do another capture of the same work beside it, packet by packet, and show the differences by op
    #[arg(long, value_name = "FILE2")]
    pub(crate) compare: Option<PathBuf>,
    /// How far floats may be apart, as a part of an output's largest magnitude, instead of what their dtype asks for
    #[arg(long, value_name = "PART", value_parser = part)]
    pub(crate) tolerance: Option<f64>,
    /// End with 0 when there is a difference, and with 1 when there is none: for `thalweg reduce`
    #[arg(long)]
    pub(crate) differs: bool,
    /// List the packets and the kernels, or the nodes, instead of doing them
    #[arg(long, conflicts_with_all = ["check", "against", "compare"])]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) search: Search,
}

fn part(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number >= 0.0);
    number.ok_or_else(|| "write a number from 0, such as 1e-3".to_owned())
}

#[derive(clap::Args)]
pub(crate) struct Reduce {
    /// The capture, or a graph in text
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// What still finds what is wrong: a command of the shell, with `{}` for the candidate's file
    ///
    /// As `--while 'thalweg replay {} --target acme --against cpu --differs'`.
    #[arg(long = "while", value_name = "COMMAND")]
    pub(crate) command: String,
    /// Write the smaller file here; usually FILE with `.reduced` behind it
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Begin nothing new after so many seconds
    #[arg(long, value_name = "NUMBER", default_value = "60")]
    pub(crate) seconds: u64,
}

#[derive(clap::Args)]
pub(crate) struct Plugins {
    #[command(subcommand)]
    pub(crate) task: PluginTask,
}

#[derive(Subcommand)]
pub(crate) enum PluginTask {
    /// Install plugins where all of your programs find them: those of an archive or a folder, or one file
    ///
    /// Each is judged as when it is loaded, and checked against the sums that come with it. Either all of them are installed or
    /// none. They are locked: from then on the folder loads these files with this content only.
    Install {
        /// An archive (.tar.gz), a folder with plugins, or the file of one plugin
        #[arg(value_name = "FILE|FOLDER")]
        from: PathBuf,
        /// Install into this folder; it is made if there is none
        #[arg(long, value_name = "DIR")]
        to: Option<PathBuf>,
        /// The SHA-256 sum that the archive or the file must have, from a place that you trust
        #[arg(long, value_name = "SUM")]
        sha256: Option<String>,
    },
    /// Remove an installed plugin, and its line in the lock
    Remove {
        /// The targets of the plugins: `cuda`
        #[arg(required = true, value_name = "TARGET")]
        targets: Vec<String>,
        /// Remove them from this folder
        #[arg(long, value_name = "DIR")]
        from: Option<PathBuf>,
    },
    /// List the plugin files of all folders that are searched, and whether each is sound; loads none
    ///
    /// Ends with 0 when all of them are.
    List(Search),
    /// Print the folders that are searched for plugins, in this order
    Path(Search),
    /// Write down the sums of plugins; from then on their folder loads these files with this content only
    Lock {
        /// A folder stands for all plugins in it and is locked anew; a file is added to the lock of its folder
        #[arg(required = true, value_name = "DIR|FILE")]
        paths: Vec<PathBuf>,
    },
    /// Check plugins against the lock of their folder
    ///
    /// Ends with 1 when a file is not the locked one, is not listed, or is gone.
    Verify {
        /// A folder stands for all plugins in it
        #[arg(required = true, value_name = "DIR|FILE")]
        paths: Vec<PathBuf>,
    },
}

/// Reads the command line. A wrong one is one line on standard error and the exit code 2.
pub(crate) fn parse() -> Result<Args, ExitCode> {
    Args::try_parse().map_err(|error| {
        let rendered = error.render().to_string();
        // Help and version are no errors; a call without a command gets the help.
        if !rendered.starts_with("error:") {
            // Nothing can be done where the text cannot be written.
            let _ = error.print();
            return ExitCode::from(u8::from(error.use_stderr()) * 2);
        }
        eprintln!("{}", one_line(&rendered));
        ExitCode::from(2)
    })
}

/// clap's text without its line breaks, its tips in brackets, and the place of the help.
fn one_line(rendered: &str) -> String {
    let paragraphs = rendered.split("\n\n").map(text::squeeze);
    let usage = |text: &String| text.starts_with("Usage:") || text.starts_with("For more information");
    let mut parts = paragraphs.filter(|text| !usage(text) && !text.is_empty());
    let error = parts.next().unwrap_or_default();
    let tips: String = parts
        .map(|tip| format!(" ({})", tip.trim_start_matches("tip: ")))
        .collect();
    let command = std::env::args().nth(1).filter(|name| {
        [
            "devices", "doctor", "conform", "plugins", "trace", "view", "diff", "print", "replay", "reduce",
            "rdr",
        ]
        .contains(&name.as_str())
    });
    let command = command.map_or_else(String::new, |name| format!(" {name}"));
    format!("{error}{tips}; `thalweg{command} --help` lists what there is")
}

/// Whether a text that may be a file or a target is a file.
pub(crate) fn is_path(subject: &str) -> bool {
    subject.contains('/') || Path::new(subject).extension().is_some() || Path::new(subject).exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn traces_are_sorted_by_what_the_library_knows() {
        for (name, sort) in thalweg_observe::Sort::ALL {
            let args = Args::try_parse_from(["thalweg", "trace", "out", "--sort", name]).unwrap();
            let Command::Trace(trace) = args.command else {
                panic!("another command")
            };
            assert_eq!(trace.sort(), sort);
        }
    }

    #[test]
    fn files_and_targets() {
        assert!(
            ["./acme", "libthalweg_acme.so", "/x/y", "Cargo.toml"]
                .into_iter()
                .all(is_path)
        );
        assert!(!["cpu", "cuda:1", "acme_one"].into_iter().any(is_path));
    }
}
