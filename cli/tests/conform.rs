//! `thalweg conform` as a user calls it.
#![allow(clippy::unwrap_used, reason = "a test")]

mod place;

use place::Place;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::Stdio;

#[test]
fn the_embedded_backend_keeps_the_contract() {
    let place = Place::new();
    let run = place.run(&["conform", "cpu:0", "--filter", "memory/*"]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{}", run.out);
    let lines: Vec<&str> = run.out.lines().collect();
    assert_eq!(lines[0], "conformance of cpu (embedded) (thalweg-hal 2.1)");
    assert!(
        lines[1].starts_with("memory ") && lines[1].ends_with(" passed"),
        "{}",
        run.out
    );
    assert_eq!(lines[2..], ["conformant"]);
}

#[test]
fn a_plugin_in_plain_c_is_judged_whole() {
    let place = Place::new();
    place.plain_c();
    let run = place.run(&["conform", "libthalweg_plainc.so"]);
    assert_eq!(run.code, Some(0), "{}{}", run.out, run.err);
    assert!(
        run.out
            .starts_with("conformance of libthalweg_plainc.so (thalweg-hal 2.1)\ncore "),
        "{}",
        run.out
    );
    assert!(run.out.contains(" ignored: it has no pool\n"), "{}", run.out);
    let lines: Vec<&str> = run.out.lines().collect();
    let [.., latency, verdict] = lines[..] else {
        panic!("{}", run.out)
    };
    assert!(
        latency.starts_with("latency ") && latency.contains("allocation "),
        "{latency}"
    );
    assert_eq!(verdict, "conformant");
}

/// Code that takes the process down when memory is asked for under a condition on its size `n`.
fn crash_if(condition: &str) -> String {
    format!(
        "#include <stdio.h>\n\
         void *__real_aligned_alloc(unsigned long a, unsigned long n);\n\
         void *__wrap_aligned_alloc(unsigned long a, unsigned long n) {{\n\
             if ({condition}) {{ printf(\"about to crash\"); fflush(stdout); __builtin_trap(); }}\n\
             return __real_aligned_alloc(a, n);\n\
         }}\n"
    )
}

const WRAP: &str = "-Wl,--wrap=aligned_alloc";

#[test]
fn a_crash_costs_one_case() {
    let place = Place::new();
    place.plain_c_with("plugins/libthalweg_plainc.so", &crash_if("n == 4096"), &[WRAP]);
    let run = place.run(&[
        "conform",
        "./libthalweg_plainc.so",
        "--json",
        "--filter",
        "memory/*",
    ]);
    assert_eq!(run.code, Some(1), "{}{}", run.out, run.err);
    // What a backend prints is no part of the report.
    assert!(run.err.contains("about to crash\n"), "{}", run.err);
    let report: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(report["conformant"], false);
    let rows = report["rows"].as_array().unwrap();
    let crashed: Vec<_> = rows.iter().filter(|row| row["outcome"] == "failed").collect();
    let reason = crashed[0]["reason"].as_str().unwrap();
    assert_eq!(reason, "the process died of SIGILL in this case");
    let passed = rows.iter().filter(|row| row["outcome"] == "passed").count();
    assert!(passed > crashed.len(), "{}", run.out);
    // Every case has its row, in the order of the list.
    let listed: Vec<String> = serde_json::from_str(
        &place
            .run(&["conform", "--list", "--json", "--filter", "memory/*"])
            .out,
    )
    .unwrap();
    let ran: Vec<_> = rows
        .iter()
        .map(|row| format!("memory/{}", row["name"].as_str().unwrap()))
        .collect();
    assert_eq!(ran, listed);
}

#[test]
fn a_backend_that_never_works_is_given_up() {
    let place = Place::new();
    place.plain_c_with("plugins/libthalweg_plainc.so", &crash_if("1"), &[WRAP]);
    let run = place.run(&["conform", "./libthalweg_plainc.so", "--filter", "memory/*"]);
    assert_eq!(run.code, Some(1));
    assert!(run.out.contains("not conformant: "), "{}", run.out);
    assert!(run.out.contains("died of SIGILL in this case"), "{}", run.out);
}

#[test]
fn cases_are_listed_and_exceptions_read() {
    let place = Place::new();
    let all = place.run(&["conform", "--list"]).out;
    assert!(all.lines().count() > 1000 && all.lines().all(|line| line.contains('/')));
    let some = place.run(&["conform", "--list", "--filter", "events/*"]).out;
    assert!(
        all.contains(&some) && some.lines().all(|line| line.starts_with("events/")),
        "{some}"
    );
    let first = some.lines().next().unwrap();
    place.write(
        "plugins/known.toml",
        format!("[[ignore]]\ncase = '{first}'\nreason = 'the clock stands'\n"),
    );
    let run = place.run(&["conform", "cpu", "--filter", "events/*", "--ignore", "known.toml"]);
    assert!(
        run.code == Some(0) && run.out.contains("    1 ignored: the clock stands\n"),
        "{}",
        run.out
    );
}

#[test]
fn what_cannot_be_judged_is_one_line() {
    let place = Place::new();
    place.write("plugins/libthalweg_acme.so", "no plugin\n");
    place.write("plugins/bad.toml", "[[ignore]]\ncase = 'x'\nreason = ''\n");
    for (args, text) in [
        (
            &["cuda:1"] as &[&str],
            "there is no target \"cuda\" (no libthalweg_cuda.so in any backend folder); found: cpu",
        ),
        (
            &["cpu:1"],
            "cpu has no device 1; the only one is 0; targets found: cpu",
        ),
        (
            &["cpu:x"],
            "\"cpu:x\" names no device; write a target and, where there are several, a number: `cpu`, `cuda:1`",
        ),
        (
            &["auto"],
            "`auto` names no backend to judge; name one, such as `cpu`, or a plugin's file",
        ),
        (
            &["./none.so"],
            "./none.so cannot be used: cannot read DIR/plugins/none.so: No such file or directory (os error 2)",
        ),
        (
            &["libthalweg_acme.so"],
            "libthalweg_acme.so cannot be used: not a shared library: the file does not start as an ELF file",
        ),
        (
            &["cpu", "--filter", "x"],
            "no case fits \"x\"; `thalweg conform --list` lists all, and `*` stands for any text",
        ),
        (
            &["cpu", "--ignore", "bad.toml"],
            "bad.toml: `x` is ignored without a reason",
        ),
    ] {
        let run = place.run(&[&["conform"], args].concat());
        assert_eq!(
            (run.code, run.out, run.err),
            (Some(1), String::new(), format!("error: {text}\n"))
        );
    }
}

/// A plugin that waits for a file before it gives 1 MiB.
fn waiting(place: &Place) {
    let code = format!(
        "#include <unistd.h>\n\
         void *__real_aligned_alloc(unsigned long a, unsigned long n);\n\
         void *__wrap_aligned_alloc(unsigned long a, unsigned long n) {{\n\
             while (n == 1 << 20 && access(\"{}\", F_OK)) usleep(1000);\n\
             return __real_aligned_alloc(a, n);\n\
         }}\n",
        place.path("go").display()
    );
    place.plain_c_with("plugins/libthalweg_plainc.so", &code, &[WRAP]);
}

/// Core, memory and errors.
const GROUPS: [&str; 4] = ["conform", "libthalweg_plainc.so", "--filter", "*or*/*"];

/// A group's line is there before the next group ends.
#[test]
fn groups_are_told_as_they_finish() {
    let place = Place::new();
    waiting(&place);
    let mut command = place.command(&GROUPS);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().map(Result::unwrap);
    assert_eq!(
        next().unwrap(),
        "conformance of libthalweg_plainc.so (thalweg-hal 2.1)"
    );
    assert!(next().unwrap().starts_with("core "));
    assert!(child.try_wait().unwrap().is_none());
    place.write("go", "");
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(rest.iter().any(|line| line.starts_with("memory ")), "{rest:?}");
    assert_eq!(rest.last().unwrap(), "conformant");
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

/// On a terminal there is a bar, which is gone at the end.
#[test]
fn a_terminal_has_a_bar() {
    let place = Place::new();
    waiting(&place);
    place.write("go", "");
    let (mut master, mut slave) = (0, 0);
    // SAFETY: both descriptors are written; name, settings and size may be null.
    let opened = unsafe {
        libc::openpty(
            &raw mut master,
            &raw mut slave,
            std::ptr::null_mut(),
            std::ptr::null(),
            std::ptr::null(),
        )
    };
    assert_eq!(opened, 0);
    // SAFETY: both are open and nobody else's.
    let (mut master, slave) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
    let mut command = place.command(&GROUPS);
    let child = command.stdout(Stdio::piped()).stderr(slave).spawn().unwrap();
    // Its end of the terminal goes with it.
    drop(command);
    // A terminal keeps some kilobytes only. One whose other end is closed is at its end with an error.
    let reader = std::thread::spawn(move || {
        let mut seen = Vec::new();
        let _ = master.read_to_end(&mut seen);
        seen
    });
    let output = child.wait_with_output().unwrap();
    let seen = reader.join().unwrap();
    let (out, seen) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(seen).unwrap(),
    );
    let words = out.lines().filter_map(|line| line.split(' ').next());
    let groups: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    assert_eq!(
        groups,
        ["conformance", "core", "memory", "errors", "conformant"],
        "{out}"
    );
    let drawn: Vec<&str> = seen.split("\r\x1b[K").filter(|part| !part.is_empty()).collect();
    assert!(
        drawn[0].starts_with('[')
            && drawn[0].contains(" cases, 0 failed, ")
            && drawn[0].ends_with(" left: core"),
        "{seen:?}"
    );
    assert!(
        drawn.last().unwrap().starts_with("[########################] "),
        "{seen:?}"
    );
    assert!(seen.ends_with("\r\x1b[K"), "{seen:?}");
}
