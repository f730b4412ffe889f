//! `thalweg rdr` over the records of programs that were killed. This test runs itself as such a program.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use thalweg::{Context, Tensor};

const CHILD: &str = "FLYING_PROGRAM";

/// The program: ops until it is killed.
#[test]
#[ignore = "other tests run it"]
fn program() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    assert!(thalweg::init().unwrap());
    let cx = Context::new("cpu").unwrap();
    tracing::warn!("told in good time");
    let x = Tensor::from_slice(&[0.1_f32, -0.3], 2, &cx);
    println!("ready");
    loop {
        assert!(x.exp().tanh().shape().is_ok());
    }
}

/// Runs the program and kills it.
fn killed(path: &Path) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["program", "--exact", "--ignored", "--nocapture"])
        .env(CHILD, "1")
        .env("MS_RDR_ENABLE", "1")
        .env("MS_RDR_PATH", path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines
        .find(|line| line.as_ref().unwrap().contains("ready"))
        .unwrap()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    child.kill().unwrap();
    child.wait().unwrap();
}

fn rdr(arguments: &[&str], folder: &Path) -> (bool, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .arg("rdr")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    (
        status.success(),
        String::from_utf8(stdout).unwrap(),
        String::from_utf8(stderr).unwrap(),
    )
}

#[test]
fn what_was_killed_is_shown_and_written() {
    let folder = tempfile::tempdir().unwrap();
    killed(folder.path());
    let (good, out, err) = rdr(&[], folder.path());
    assert!(good && err.is_empty(), "{err}");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].contains("rank_0/rdr/"), "{out}");
    assert!(lines[1].ends_with("rank 0) was killed"), "{out}");
    assert!(lines[2].contains(" launches, the last "), "{out}");
    let last: Vec<&str> = out.lines().filter(|line| line.contains("  cpu:0  ")).collect();
    assert_eq!(last.len(), 10, "{out}");
    assert!(
        last.iter().all(|line| line.contains("cli/tests/rdr.rs:")),
        "{out}"
    );
    let order = fs::read_to_string(Path::new(lines[0]).join("order.csv"))
        .or_else(|_| fs::read_to_string(folder.path().join(lines[0]).join("order.csv")));
    let order = order.unwrap();
    let ops: Vec<&str> = order
        .lines()
        .skip(1)
        .map(|line| line.split(',').nth(6).unwrap())
        .collect();
    assert!(
        ops.len() >= 10
            && ops
                .windows(2)
                .all(|pair| pair == ["exp", "tanh"] || pair == ["tanh", "exp"]),
        "{ops:?}"
    );
    let told: Vec<&str> = out
        .lines()
        .filter(|line| line.starts_with("log  [WARNING] "))
        .collect();
    assert!(
        matches!(told[..], [line] if line.ends_with("told in good time")),
        "{out}"
    );
    // The last lines of both are the same launches.
    let number = |line: &str| line.split_whitespace().next().unwrap().to_owned();
    assert_eq!(
        number(last[9]),
        order.lines().last().unwrap().split(',').next().unwrap()
    );
    // A second program lies beside the first.
    std::thread::sleep(std::time::Duration::from_secs(1));
    killed(folder.path());
    let (good, out, _) = rdr(&[folder.path().to_str().unwrap()], Path::new("/"));
    assert!(good);
    assert_eq!(
        out.lines().filter(|line| line.ends_with("was killed")).count(),
        2,
        "{out}"
    );
}

#[test]
fn a_folder_without_a_record_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let (good, out, err) = rdr(&[], folder.path());
    assert!(!good && out.is_empty());
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(err.contains("has no record of the flight recorder"), "{err}");
    fs::create_dir(folder.path().join("one")).unwrap();
    fs::write(folder.path().join("one/ring.tw"), "nothing").unwrap();
    let (good, _, err) = rdr(&["one"], folder.path());
    assert!(
        !good && err.contains("this is no file of a flight recorder"),
        "{err}"
    );
}
