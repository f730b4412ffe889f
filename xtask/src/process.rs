//! Commands that are run.

use crate::Result;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

/// A command in the folder of the workspace.
pub(crate) fn command(root: &Path, program: impl AsRef<OsStr>, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root).args(args);
    command
}

/// Cargo, as it was called.
pub(crate) fn cargo(root: &Path, args: &[&str]) -> Command {
    command(
        root,
        std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()),
        args,
    )
}

/// Runs a command to its end; a status other than 0 is an error that repeats the command.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    println!("$ {shown}");
    let status = command.status().map_err(|error| format!("{shown}: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{shown}` failed ({status})").into())
    }
}

/// Runs a command to its end and returns what it printed, which is shown too.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    println!("$ {shown}");
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("{shown}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    print!("{text}");
    if output.status.success() {
        Ok(text)
    } else {
        Err(format!("`{shown}` failed ({})", output.status).into())
    }
}

/// Whether a program can be started.
pub(crate) fn exists(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

/// A command as a person would write it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}
