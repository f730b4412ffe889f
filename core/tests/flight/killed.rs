//! Flights of processes that are killed.

use crate::{OPS, command, only};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

/// A number that differs from run to run.
fn random(below: u64) -> u64 {
    use std::hash::BuildHasher;
    std::hash::RandomState::new().hash_one(0) % below
}

/// Kills the program at a random moment.
fn kill(asked: &str, folder: &Path) {
    let on = [
        ("THALWEG_RDR_ENABLE", "1"),
        ("THALWEG_RDR_PATH", folder.to_str().unwrap()),
    ];
    let mut child: Child = command(asked, &on).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines
        .find(|line| line.as_ref().unwrap().contains("ready"))
        .unwrap()
        .unwrap();
    std::thread::sleep(Duration::from_micros(random(20_000)));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_last_lines_of_the_log_are_those_before_the_last_launch() {
    for round in 0..10 {
        let folder = tempfile::tempdir().unwrap();
        kill("logs", folder.path());
        let flight = only(folder.path());
        let numbers: Vec<u64> = (flight.log.lines())
            .map(|line| {
                assert!(
                    line.starts_with("[WARNING] ") && line.ends_with("\\nof the program"),
                    "{line}"
                );
                let text = line.rsplit_once("line ").unwrap().1;
                text.trim_end_matches("\\nof the program").parse().unwrap()
            })
            .collect();
        assert!(
            numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]),
            "round {round}"
        );
        // The program tells a line before each launch.
        let last = numbers.last().map_or(0, |last| last + 1);
        assert!(
            (flight.launched..=flight.launched + 1).contains(&last),
            "{last} {flight}"
        );
        let shown = flight.to_string();
        let shown: Vec<&str> = shown
            .lines()
            .filter(|line| line.starts_with("log  [WARNING]"))
            .collect();
        assert_eq!(shown.len(), numbers.len().min(10));
    }
}

#[test]
fn what_is_killed_is_good_to_the_last_launch() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..100 {
        kill("for ever", folder.path());
        let flight = only(folder.path());
        assert!(
            flight.status.is_none() && flight.torn <= 1,
            "round {round}: {flight}"
        );
        // What is torn is a launch, or an event of memory.
        let launched = flight.launched as usize;
        let kept = (launched - flight.torn).min(4096)..=launched.min(4096);
        assert!(kept.contains(&flight.launches.len()), "round {round}: {flight}");
        for launch in &flight.launches {
            assert_eq!(launch.op, OPS[launch.number as usize % 3], "round {round}");
        }
        assert!(flight.to_string().contains("was killed"), "{flight}");
        fs::remove_dir_all(&flight.folder).unwrap();
    }
}
