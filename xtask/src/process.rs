//! Commands that are run.

use crate::Result;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
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

/// Runs a command to its end and returns what it printed, which is shown too, line by line as it comes.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    match passed_on(command)? {
        (text, true) => Ok(text),
        (_, false) => Err(format!("`{}` failed", shown(command)).into()),
    }
}

/// As [`capture`], with whether the command ended well.
pub(crate) fn passed_on(command: &mut Command) -> Result<(String, bool)> {
    let shown = shown(command);
    println!("$ {shown}");
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{shown}: {error}"))?;
    let mut text = String::new();
    if let Some(out) = child.stdout.take() {
        let (mut out, mut line) = (BufReader::new(out), Vec::new());
        while out.read_until(b'\n', &mut line)? > 0 {
            let read = String::from_utf8_lossy(&line);
            print!("{read}");
            text += &read;
            line.clear();
        }
    }
    Ok((text, child.wait()?.success()))
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
