//! The command line of `targets`: nothing is measured here.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::process::Command;

/// Exit code, standard output and standard error.
fn targets(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_targets"))
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn help_is_usage() {
    let (code, out, err) = targets(&["--help"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    for part in [
        "Usage: targets",
        "--target",
        "--json <FILE>",
        "--least",
        "[FILTERS]...",
    ] {
        assert!(out.contains(part), "{part} is not in\n{out}");
    }
}

#[test]
fn what_is_no_option_is_an_error() {
    for (arguments, part) in [
        (&["--lest"] as &[&str], "unexpected argument '--lest'"),
        (&["overhead", "--targte", "cpu"], "unexpected argument '--targte'"),
        (&["--json"], "a value is required for '--json <FILE>'"),
    ] {
        let (code, out, err) = targets(arguments);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
        assert!(err.contains(part), "{err}");
    }
}

/// Also beside filters that fit, and before anything is measured.
#[test]
fn a_filter_that_fits_nothing_lists_the_names() {
    for arguments in [
        &["matmull"] as &[&str],
        &["energy", "matmull"],
        &["overhead", "matmull"],
    ] {
        let (code, out, err) = targets(arguments);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
        assert!(
            err.contains("no case has \"matmull\" in its name; there are "),
            "{err}"
        );
        for name in [
            "overhead",
            "in_place",
            "energy_1e8",
            "matmul_64",
            "gemv_4096",
            "resnet18_b1",
            "lenet5_step_b64",
        ] {
            assert!(err.contains(name), "{name} is not in {err}");
        }
    }
}
