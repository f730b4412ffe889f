//! What the first release build of a user's program costs.

use crate::Result;
use crate::process::cargo;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// Most CPU seconds; the README states some less, because machines differ.
const MOST: f64 = 200.0;
/// Crates that took less are counted, but not listed.
const SHORT: f64 = 0.5;
/// Names the file that [`measured`] writes to.
const LOG: &str = "THALWEG_XTASK_COMPILERS";
/// The kernel counts a process's time in these parts of a second.
const TICKS: f64 = 100.0;

/// Builds the README's program in a folder of its own, and prints the CPU seconds of each crate.
pub(crate) fn run(root: &Path) -> Result<()> {
    let readme = fs::read_to_string(root.join("README.md"))?;
    let user = User::with(root, program(&readme).ok_or("the README has no block of Rust")?)?;
    let log = build(&user)?;
    let costs = costs(&log);
    let total: f64 = costs.iter().map(|(_, seconds)| seconds).sum();
    for (name, seconds) in costs.iter().filter(|(_, seconds)| *seconds >= SHORT) {
        println!("{seconds:6.1}  {name}");
    }
    println!("{total:6.1}  CPU seconds; at most {MOST}");
    match total > MOST {
        true => Err(format!("the first build took {total:.0} CPU seconds, on a quiet machine?").into()),
        false => Ok(()),
    }
}

/// A program of a user: a crate in a folder of its own, which ends with this value.
pub(crate) struct User {
    pub(crate) folder: PathBuf,
}

impl User {
    pub(crate) fn with(root: &Path, program: &str) -> Result<User> {
        let folder = std::env::temp_dir().join(format!("thalweg-user-{}", std::process::id()));
        fs::create_dir_all(folder.join("src"))?;
        let user = User { folder };
        fs::write(user.folder.join("src/main.rs"), program)?;
        let core = root.join("core");
        let manifest = format!(
            "[package]\nname = \"first\"\nedition = \"2024\"\n\n[dependencies]\nthalweg.path = {core:?}\n\n[workspace]\n"
        );
        fs::write(user.folder.join("Cargo.toml"), manifest)?;
        // The versions of the workspace.
        fs::copy(root.join("Cargo.lock"), user.folder.join("Cargo.lock"))?;
        Ok(user)
    }

    /// Cargo for the program, with its own folder of what is built.
    pub(crate) fn cargo(&self, args: &[&str]) -> Command {
        let mut cargo = cargo(&self.folder, args);
        cargo.env("CARGO_TARGET_DIR", self.folder.join("target"));
        cargo
    }
}

impl Drop for User {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).ok();
    }
}

/// What [`measured`] noted, a line a call of the compiler.
fn build(user: &User) -> Result<String> {
    let log = user.folder.join("compilers");
    let status = user
        .cargo(&["build", "--release"])
        .env("RUSTC_WRAPPER", std::env::current_exe()?)
        .env(LOG, &log)
        .status()?;
    match status.success() {
        true => Ok(fs::read_to_string(log)?),
        false => Err("the program of the README does not build".into()),
    }
}

/// The first block of Rust.
fn program(readme: &str) -> Option<&str> {
    let (_, rest) = readme.split_once("```rust\n")?;
    Some(rest.split_once("```")?.0)
}

/// The crates with the seconds of all calls for them, the longest first.
fn costs(log: &str) -> Vec<(&str, f64)> {
    let mut costs = BTreeMap::<&str, f64>::new();
    for (name, seconds) in log.lines().filter_map(|line| line.split_once(' ')) {
        *costs.entry(name).or_default() += seconds.parse().unwrap_or(0.0);
    }
    let mut costs: Vec<_> = costs.into_iter().collect();
    costs.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    costs
}

/// Runs the compiler in Cargo's stead and notes its CPU time, where this process was started for that.
pub(crate) fn measured() -> Option<Result<ExitStatus>> {
    let log = PathBuf::from(std::env::var_os(LOG)?);
    let mut args = std::env::args_os().skip(1);
    let compiler = args.next()?;
    Some(compile(&log, compiler, args.collect()))
}

fn compile(log: &Path, compiler: OsString, args: Vec<OsString>) -> Result<ExitStatus> {
    let status = Command::new(compiler).args(&args).status()?;
    let name = args.iter().skip_while(|arg| *arg != "--crate-name").nth(1);
    // Cargo asks the compiler for its version, too.
    if let Some(name) = name.and_then(|name| name.to_str()).filter(|&name| name != "___") {
        let seconds =
            children(&fs::read_to_string("/proc/self/stat")?).ok_or("/proc/self/stat has other fields")?;
        let line = format!("{name} {seconds}\n");
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)?
            .write_all(line.as_bytes())?;
    }
    Ok(status)
}

/// CPU seconds of the children that a process waited for.
fn children(stat: &str) -> Option<f64> {
    // The name of the program stands in brackets and may have any characters.
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks = fields.split(' ').skip(13).take(2).map(str::parse::<u64>);
    Some(ticks.sum::<std::result::Result<u64, _>>().ok()? as f64 / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_summed_by_crate() {
        let log = "syn 1.5\nlibc 0.25\nsyn 0.75\n";
        assert_eq!(costs(log), [("syn", 2.25), ("libc", 0.25)]);
    }

    #[test]
    fn the_time_of_children_is_read() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 100 2 0 0 11 12 150 25 20 0 1 0 99 1 2";
        assert_eq!(children(stat), Some(1.75));
        assert_eq!(children("7 (a)"), None);
    }

    #[test]
    fn the_program_is_the_first_block() {
        assert_eq!(
            program("a\n```rust\nfn main() {}\n```\nb"),
            Some("fn main() {}\n")
        );
        assert_eq!(program("```text\na\n```"), None);
    }
}
