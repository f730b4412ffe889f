//! `thalweg plugins`, and the command line itself.
#![allow(clippy::unwrap_used, reason = "a test")]

mod place;

use place::Place;
use std::fs;

#[test]
fn locked_files_verify_until_they_change() {
    let place = Place::new();
    let plugin = place.plain_c();
    let dir = place.plugins();
    let run = place.run(&["plugins", "lock", &dir]);
    let lock = "DIR/plugins/thalweg-plugins.lock allows 1 plugin\n  libthalweg_plainc.so\n";
    assert_eq!((run.out.as_str(), run.code), (lock, Some(0)));
    let run = place.run(&["plugins", "verify", "."]);
    let good = "DIR/plugins/libthalweg_plainc.so: as locked\n1 plugin as locked\n";
    assert_eq!((run.out.as_str(), run.code), (good, Some(0)));
    let devices = place.run(&["devices", "--backend-path", &dir]);
    assert!(devices.out.contains("\nplainc:0  "), "{}", devices.out);
    let doctor = place.run(&["doctor", "--backend-path", &dir]);
    assert!(
        doctor
            .out
            .contains("lock      ok      listed in thalweg-plugins.lock with this sha256"),
        "{}",
        doctor.out
    );

    let mut bytes = fs::read(&plugin).unwrap();
    bytes.push(0);
    place.write("plugins/libthalweg_plainc.so", bytes);
    place.write("plugins/libthalweg_new.so", "new");
    let run = place.run(&["plugins", "verify", &dir]);
    assert_eq!(run.code, Some(1));
    let lines: Vec<&str> = run.out.lines().collect();
    assert!(
        lines[0].starts_with("DIR/plugins/libthalweg_new.so: libthalweg_new.so is not listed in "),
        "{}",
        run.out
    );
    assert!(
        lines[1].contains("libthalweg_plainc.so has changed since it was locked (sha256 "),
        "{}",
        run.out
    );
    assert_eq!(lines[2], "2 of 2 plugins not as locked");
    let run = place.run(&["plugins", "verify", "libthalweg_plainc.so"]);
    assert!(
        run.code == Some(1) && run.out.ends_with("\n1 of 1 plugin not as locked\n"),
        "{}",
        run.out
    );
    let devices = place.run(&["devices", "--backend-path", &dir]);
    assert!(
        devices
            .out
            .contains("plainc  refused: libthalweg_plainc.so has changed"),
        "{}",
        devices.out
    );

    // A file that is locked again leaves the others as they are.
    assert_eq!(
        place.run(&["plugins", "lock", "libthalweg_plainc.so"]).code,
        Some(0)
    );
    assert_eq!(
        place.run(&["plugins", "verify", "libthalweg_plainc.so"]).code,
        Some(0)
    );
    assert_eq!(place.run(&["plugins", "verify", "."]).code, Some(1));
}

#[test]
fn what_cannot_be_locked_or_verified_says_why() {
    let place = Place::new();
    let dir = place.plugins();
    let error = |args: &[&str]| {
        let run = place.run(args);
        assert_eq!(
            (run.code, run.out.as_str(), run.err.lines().count()),
            (Some(1), "", 1),
            "{run:?}"
        );
        run.err
    };
    let text =
        "error: DIR/plugins has no thalweg-plugins.lock; `thalweg plugins lock DIR/plugins` writes one\n";
    assert_eq!(error(&["plugins", "verify", &dir]), text);
    place.write("plugins/notes.txt", "");
    let text = error(&["plugins", "lock", "notes.txt"]);
    assert!(
        text.contains("is not the file of a plugin (libthalweg_NAME.so)"),
        "{text}"
    );
    let text = error(&["plugins", "lock", "none"]);
    assert!(
        text.starts_with("error: cannot read none: No such file"),
        "{text}"
    );
    let run = place.run(&["plugins", "lock", &dir]);
    assert_eq!(run.code, Some(1));
    assert!(run.out.contains("no plugin was found"), "{}", run.out);
    let text = error(&["plugins", "verify", "notes.txt"]);
    assert_eq!(
        text,
        "error: DIR/plugins/notes.txt is neither a plugin nor listed in thalweg-plugins.lock\n"
    );
}

#[test]
fn bad_arguments_are_one_line() {
    let place = Place::new();
    for (args, text) in [
        (
            &["devics"] as &[&str],
            "error: unrecognized subcommand 'devics' (a similar subcommand exists: 'devices'); `thalweg --help` lists what there is\n",
        ),
        (
            &["devices", "--jsn"],
            "error: unexpected argument '--jsn' found (a similar argument exists: '--json'); `thalweg devices --help` lists what there is\n",
        ),
        (
            &["plugins", "lock"],
            "error: the following required arguments were not provided: <DIR|FILE>...; `thalweg plugins --help` lists what there is\n",
        ),
        (
            &["doctor", "--backend-path"],
            "error: a value is required for '--backend-path <DIR>' but none was supplied; `thalweg doctor --help` lists what there is\n",
        ),
    ] {
        let run = place.run(args);
        assert_eq!(
            (run.code, run.out.as_str(), run.err.as_str()),
            (Some(2), "", text)
        );
    }
    let run = place.run::<&str>(&[]);
    assert!(
        run.code == Some(2) && run.err.contains("Usage: thalweg"),
        "{run:?}"
    );
}

#[test]
fn versions_and_help() {
    let place = Place::new();
    let run = place.run(&["--version"]);
    let text = concat!("thalweg ", env!("CARGO_PKG_VERSION"), " (thalweg-hal 2.1)\n");
    assert_eq!((run.out.as_str(), run.code), (text, Some(0)));
    for command in ["devices", "doctor", "conform", "plugins"] {
        let run = place.run(&[command, "--help"]);
        assert!(
            run.code == Some(0) && run.out.contains("Usage: thalweg"),
            "{run:?}"
        );
    }
}
