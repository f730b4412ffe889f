//! The program `soak`, for seconds.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../../tests/tests/plugins/mod.rs"]
mod plugins;

use std::process::Command;

/// Exit code, standard output and standard error.
fn soak(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_soak"))
        .args(arguments)
        .env_remove("THALWEG_LAYERS")
        .env_remove("THALWEG_BACKEND_PATH")
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn every_turn_does_its_work_and_memory_is_flat() {
    // It lies beside the program, which finds it there.
    plugins::built("thalweg_reference");
    let (code, out, err) = soak(&["--seconds", "8", "--seed", "7"]);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert!(
        out.ends_with("every result and figure was right, and memory is flat\n"),
        "{out}"
    );
    // Each figure of a turn but its peak: rounds, programs, ops, steps, saves, faults, refused.
    let figures = |turn: &str| -> Vec<u64> {
        let row = out
            .lines()
            .find_map(|line| line.strip_prefix(&format!("| {turn} | ")));
        let words = row.unwrap_or_else(|| panic!("no {turn} in {out}")).split(" | ");
        words.take(7).map(|word| word.parse().unwrap()).collect()
    };
    let faults = |turn: &[u64]| turn[5];
    for turn in ["plain", "faults", "validate", "all"] {
        let figures = figures(turn);
        assert!(
            figures
                .iter()
                .enumerate()
                .all(|(at, &figure)| at == 5 || figure > 0),
            "{turn}: {out}"
        );
    }
    assert!(faults(&figures("faults")) > 0, "{out}");
    assert_eq!((faults(&figures("plain")), faults(&figures("validate"))), (0, 0));
    // The same work in every turn.
    let per_round = |turn: &str| {
        (
            figures(turn)[1] / figures(turn)[0],
            figures(turn)[4] / figures(turn)[0],
        )
    };
    assert_eq!(per_round("plain"), per_round("faults"));
}

#[test]
fn a_time_that_is_none_is_an_error() {
    let (code, _, err) = soak(&["--seconds", "0"]);
    assert_eq!(
        (code, err.as_str()),
        (Some(1), "error: the time is 0; ask for some\n")
    );
    let (code, _, err) = soak(&["--minutes", "1", "--seconds", "1"]);
    assert!(
        code == Some(2) && err.contains("cannot be used with"),
        "{code:?} {err}"
    );
}
