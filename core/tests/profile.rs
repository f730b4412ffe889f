//! Programs that the environment profiles, and that end in many ways. This test runs itself as such a program.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use thalweg::observe::recording::{Reader, Record};
use thalweg::{Context, DType, Tensor};

/// What the program below is asked for.
const ASKED: &str = "PROFILED_PROGRAM";

/// Turns of two ops that are under way when the program ends.
const LATE_OPS: std::ops::Range<u32> = 0..20;

/// The program: it does as it is asked.
#[test]
#[ignore = "other tests run it"]
fn program() {
    let Ok(asked) = std::env::var(ASKED) else { return };
    let cx = Context::new("cpu").unwrap();
    let x = Tensor::from_slice(&[1.0_f32, 2.0], 2, &cx);
    let once = || assert_eq!(x.square().to_vec::<f32>().unwrap(), [1.0, 4.0]);
    match asked.as_str() {
        "ten" => (0..10).for_each(|_| once()),
        "exit" => {
            (0..10).for_each(|_| once());
            std::process::exit(0);
        }
        "late" => {
            // Nobody waits for these.
            let x = Tensor::ones([2048, 512], DType::F32, &cx);
            drop(LATE_OPS.fold(x, |x, _| (x * 1.0).tanh()));
        }
        "panic" => {
            (0..10).for_each(|_| once());
            panic!("asked for");
        }
        _ => loop {
            once();
        },
    }
}

fn start(asked: &str, folder: &Path, more: &[(&str, &str)]) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["program", "--exact", "--ignored"])
        .env(ASKED, asked)
        .env("THALWEG_PROFILE", folder)
        .envs(more.iter().copied())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Number of ops of a file, whether it ended as it should, and whether it is whole.
fn read(file: &Path) -> (usize, bool, bool) {
    let mut reader = Reader::new(std::io::BufReader::new(std::fs::File::open(file).unwrap())).unwrap();
    let (mut ops, mut ended) = (0, false);
    for record in reader.by_ref() {
        assert!(!ended);
        match record {
            Record::Op(op) => {
                assert!(op.start <= op.end && op.place != 0);
                ops += 1;
            }
            Record::End { .. } => ended = true,
            _ => {}
        }
    }
    (ops, ended, reader.cut().is_none())
}

#[test]
fn the_environment_profiles_a_program_to_its_end() {
    for asked in ["ten", "exit", "panic"] {
        let folder = tempfile::tempdir().unwrap();
        start(asked, folder.path(), &[]).wait().unwrap();
        assert_eq!(
            read(&folder.path().join("rank_0/recording.tw")),
            (10, true, true),
            "{asked}"
        );
    }
}

/// What was submitted before the exit has its times.
#[test]
fn the_end_of_a_program_waits_for_its_devices() {
    let folder = tempfile::tempdir().unwrap();
    start("late", folder.path(), &[]).wait().unwrap();
    let file = std::fs::File::open(folder.path().join("rank_0/recording.tw")).unwrap();
    let (mut runs, mut commands) = (BTreeSet::new(), BTreeSet::new());
    for record in Reader::new(std::io::BufReader::new(file)).unwrap() {
        match record {
            Record::Run(run) if run.program != 0 => drop(runs.insert(run.correlation)),
            Record::Command(command) => drop(commands.insert(command.correlation)),
            _ => {}
        }
    }
    assert_eq!(runs.len(), 2 * LATE_OPS.len());
    let missing: Vec<_> = runs.difference(&commands).collect();
    assert!(
        missing.is_empty(),
        "{missing:?} of {} runs have no command",
        runs.len()
    );
}

#[test]
fn each_rank_has_a_folder() {
    for (variables, rank) in [
        (&[("RANK_ID", "2")][..], "rank_2"),
        (&[("RANK_ID", "2"), ("THALWEG_RANK", "5")], "rank_5"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        start("ten", folder.path(), variables).wait().unwrap();
        assert_eq!(
            read(&folder.path().join(rank).join("recording.tw")),
            (10, true, true)
        );
    }
    // A wrong rank costs the profile, and not the program.
    let folder = tempfile::tempdir().unwrap();
    let ended = start("ten", folder.path(), &[("THALWEG_RANK", "first")])
        .wait()
        .unwrap();
    assert!(ended.success());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_folder_that_cannot_be_made_costs_the_profile_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("taken");
    std::fs::write(&file, "").unwrap();
    assert!(start("ten", &file, &[]).wait().unwrap().success());
}

#[test]
fn a_program_that_is_killed_leaves_a_file_that_is_good_to_its_last_record() {
    let mut most = 0;
    for round in 0..20_u64 {
        let folder = tempfile::tempdir().unwrap();
        let mut program = start("endless", folder.path(), &[]);
        std::thread::sleep(Duration::from_millis(150 + round * 37 % 200));
        program.kill().unwrap();
        program.wait().unwrap();
        let file = folder.path().join("rank_0/recording.tw");
        if !file.exists() || std::fs::metadata(&file).unwrap().len() < 8 {
            // It was killed before it began.
            continue;
        }
        let (ops, ended, _) = read(&file);
        assert!(!ended);
        most = most.max(ops);
    }
    // What is written at least every 100 ms is there.
    assert!(most > 0);
}
