//! Who writes lines: host, user, program, process and thread.

use std::path::Path;

/// The name of the machine, for names of files.
pub(super) fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    part_of_name(name.trim(), "localhost")
}

/// The name of the user, for names of files; the number where the environment has none.
pub(super) fn user() -> String {
    let name = ["USER", "LOGNAME"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok());
    // SAFETY: the call has no arguments and cannot fail.
    let number = || unsafe { libc::getuid() }.to_string();
    part_of_name(&name.unwrap_or_default(), &number())
}

/// The name of the program's file.
pub(super) fn program() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&path).file_name().unwrap_or_default();
    part_of_name(&name.to_string_lossy(), "program")
}

/// The number that the system has for this thread.
pub(super) fn thread() -> i64 {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) }
}

/// A text without what names of files and fields of lines cannot have, or another where nothing is left.
fn part_of_name(text: &str, otherwise: &str) -> String {
    let allowed = |c: &char| c.is_alphanumeric() || ['-', '_', '.'].contains(c);
    let name: String = text.chars().filter(allowed).take(64).collect();
    match name.trim_matches('.').is_empty() {
        true => otherwise.to_owned(),
        false => name,
    }
}
