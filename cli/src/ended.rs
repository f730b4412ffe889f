//! How another process ended.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Signals by which a process dies of its own fault.
const FAULTS: [(i32, &str); 6] = [
    (4, "SIGILL"),
    (5, "SIGTRAP"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (11, "SIGSEGV"),
];

/// The signal of a fault that ended the process.
pub(crate) fn fault(status: ExitStatus) -> Option<&'static str> {
    let signal = status.signal()?;
    FAULTS
        .iter()
        .find(|(number, _)| *number == signal)
        .map(|(_, name)| *name)
}

/// `died of SIGSEGV`, `ended with exit code 3`.
pub(crate) fn text(status: ExitStatus) -> String {
    match (fault(status), status.signal()) {
        (Some(name), _) => format!("died of {name}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => format!("ended with exit code {}", status.code().unwrap_or(-1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends() {
        let of = |raw| text(ExitStatus::from_raw(raw));
        assert_eq!(
            [of(11), of(9), of(3 << 8)],
            [
                "died of SIGSEGV",
                "was ended by signal 9",
                "ended with exit code 3"
            ]
        );
        assert_eq!(
            (fault(ExitStatus::from_raw(7)), fault(ExitStatus::from_raw(9))),
            (Some("SIGBUS"), None)
        );
    }
}
