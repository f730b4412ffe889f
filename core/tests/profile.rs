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

/// 100 programs are killed at random moments, some at a time.
#[test]
fn a_program_that_is_killed_leaves_a_file_that_is_good_to_its_last_record() {
    const AT_A_TIME: u64 = 10;
    let found: Vec<Option<usize>> = std::thread::scope(|scope| {
        let killers: Vec<_> = (0..AT_A_TIME)
            .map(|killer| {
                scope.spawn(move || {
                    (0..10)
                        .map(|round| killed(killer * 10 + round))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        killers
            .into_iter()
            .flat_map(|killer| killer.join().unwrap())
            .collect()
    });
    assert_eq!(found.len(), 100);
    // What is written at least every 100 ms is there.
    let with_ops = found.iter().flatten().filter(|ops| **ops > 0).count();
    assert!(with_ops >= 50, "{with_ops} of 100 files hold ops");
}

/// The ops in the file of a program that was killed; `None` for one that was killed before it began to record.
fn killed(seed: u64) -> Option<usize> {
    let folder = tempfile::tempdir().unwrap();
    let mut program = start("endless", folder.path(), &[]);
    let file = folder.path().join("rank_0/recording.tw");
    // From the moment at which there is a file on.
    let begun = std::time::Instant::now();
    while !file.exists() && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let random = seed
        .wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407)
        >> 33;
    std::thread::sleep(Duration::from_micros(random % 400_000));
    program.kill().unwrap();
    program.wait().unwrap();
    if !file.exists() || std::fs::metadata(&file).unwrap().len() < 8 {
        return None;
    }
    let (ops, ended, _) = read(&file);
    assert!(!ended);
    Some(ops)
}
