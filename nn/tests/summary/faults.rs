//! Folders and disks that fail.

use super::{context, data, model, train, values};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use thalweg::Mode;
use thalweg_nn::callback::{Callback, RunContext, SummaryCollector};
use thalweg_nn::summary::SummaryOptions;

fn refused(callbacks: impl Callback) -> String {
    let message = train(Mode::Graph, 1, callbacks).unwrap_err().to_string();
    assert_eq!(message.lines().count(), 1, "{message}");
    message
}

#[test]
fn what_cannot_begin_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("file"), "").unwrap();
    let message = refused(SummaryCollector::to(path("file")));
    assert!(
        message.ends_with("name a folder that can be written"),
        "{message}"
    );
    let message = refused(SummaryCollector::to("/proc/none"));
    assert!(
        message.ends_with("name a folder that can be written"),
        "{message}"
    );
    let message = refused((SummaryCollector::to(path("a")), SummaryCollector::to(path("b"))));
    assert!(message.ends_with("give a training one collector"), "{message}");
    let message = refused(SummaryCollector::to(path("c")).collect_freq(0));
    assert_eq!(
        message,
        "summary: collect_freq is 0; it takes a whole number from 1"
    );
    assert!(!path("c").exists());
    let message = refused(SummaryCollector::to(path("d")).histograms("("));
    assert!(
        message.contains("histogram_regular is (; it takes a regular expression"),
        "{message}"
    );
    let message = refused(SummaryCollector::to(path("d")).histograms("first.weights"));
    assert!(
        message.contains("no parameter begins so; near it are first.weight"),
        "{message}"
    );
    // What was refused leaves nothing behind.
    train(Mode::Graph, 1, SummaryCollector::to(path("e"))).unwrap();
    let other = std::thread::scope(|scope| {
        let held = thalweg_nn::summary::Record::to(path("f")).unwrap();
        let other = scope
            .spawn(|| refused(SummaryCollector::to(path("f"))))
            .join()
            .unwrap();
        held.finish().unwrap();
        other
    });
    assert!(other.contains("another training writes here"), "{other}");
}

/// Takes a folder away in the middle of a training.
struct Remove(PathBuf);

impl Callback for Remove {
    fn step_end(&mut self, run: &mut RunContext<'_>) -> thalweg_nn::Result<()> {
        if run.cur_step_num == 15 {
            fs::remove_dir_all(&self.0).unwrap();
        }
        Ok(())
    }
}

#[test]
fn a_folder_that_goes_costs_the_summary_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let plain = train(Mode::Graph, 4, ()).unwrap();
    let collector = SummaryCollector::to(&path).max_file_size(1000).export_npy();
    assert_eq!(train(Mode::Graph, 4, (collector, Remove(path))).unwrap(), plain);
}

/// The test that the next one runs in a process whose files end at 8 blocks.
const CHILD: &str = "SUMMARY_OF_A_FULL_DISK";

#[test]
fn a_full_disk_costs_the_summary_alone() {
    if let Some(folder) = std::env::var_os(CHILD) {
        let plain = train(Mode::Graph, 20, ()).unwrap();
        // The graph alone would fill it.
        let text =
            format!(r#"{{"summary_dir": {folder:?}, "collect_specified_data": {{"collect_graph": false}}}}"#);
        let collector = SummaryCollector::with(SummaryOptions::from_json(&text).unwrap());
        let collected = train(Mode::Graph, 20, collector).unwrap();
        assert_eq!(collected, plain);
        // All that was written before is there, and nothing behind it.
        let found = values(Path::new(&folder));
        let steps = super::steps(&found, "loss/auto");
        assert!(steps.len() > 1 && steps.len() < 20, "{steps:?}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let shell = "trap '' XFSZ; ulimit -f 8; exec \"$0\" --exact faults::a_full_disk_costs_the_summary_alone";
    let output = Command::new("sh")
        .args(["-c", shell])
        .arg(std::env::current_exe().unwrap())
        .env(CHILD, folder.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

/// A training that an error ends is told as one that failed, and the next can begin.
#[test]
fn a_training_that_fails_ends_its_record() {
    struct Fail;
    impl Callback for Fail {
        fn step_end(&mut self, run: &mut RunContext<'_>) -> thalweg_nn::Result<()> {
            let folder = tempfile::tempdir().unwrap();
            match run.cur_step_num {
                12 => run.model.save(folder.path()),
                _ => Ok(()),
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let mut collector = SummaryCollector::to(folder.path());
    let cx = context(Mode::Graph);
    let mut model = model(&cx);
    model.train(3, &data(), (&mut collector, Fail)).unwrap_err();
    model.train(1, &data(), &mut collector).unwrap();
    let found = values(folder.path());
    assert_eq!(super::steps(&found, "_hparams_/session_end_info").len(), 2);
    assert_eq!(super::steps(&found, "loss/auto"), [1, 10, 20]);
}

#[test]
fn the_rank_stands_in_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(r#"{{"summary_dir": "{}/rank_{{r}}"}}"#, folder.path().display());
    let options = SummaryOptions::from_json(&text).unwrap();
    train(Mode::Graph, 1, SummaryCollector::with(options)).unwrap();
    assert!(folder.path().join("rank_0/lineage.json").is_file());
}
