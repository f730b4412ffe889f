//! Files that are damaged, missing, or cannot be written.
#![allow(clippy::unwrap_used, reason = "a test")]

mod sample;

use proptest::prelude::*;
use sample::lenet;
use std::fs;
use std::path::Path;
use thalweg_observe::page::Source;
use thalweg_observe::repair::{self, Repair};
use thalweg_observe::{Error, Terminal, derive, find};

fn error(path: &Path) -> String {
    let found = find::recordings(path).and_then(|files| derive(&files, None));
    let text = found.unwrap_err().to_string();
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

#[test]
fn errors_are_one_line_and_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none");
    assert!(error(&path).contains("there is no such folder"));
    assert!(error(folder.path()).contains("THALWEG_PROFILE="));
    let file = folder.path().join("recording.tw");
    fs::write(&file, "PNG").unwrap();
    assert!(error(&file).ends_with("this is no recording"));
    fs::write(&file, b"THALWEG\x09").unwrap();
    assert!(error(&file).contains("version 9; this program reads version 1"));
    let sample = lenet(0);
    sample.save(folder.path());
    // The place of the output is a file.
    let error = derive(std::slice::from_ref(&file), Some(&file)).unwrap_err();
    assert!(matches!(error, Error::Write { .. }), "{error}");
}

#[test]
fn a_full_disk_is_an_error_with_the_files_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = lenet(0).save(folder.path());
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    // What is written to this device finds no space.
    for name in ["trace.json", "kernels.csv", "op_table.csv", "speedscope.json"] {
        fs::remove_dir_all(&out).unwrap();
        fs::create_dir(&out).unwrap();
        let path = out.join(name);
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        let error = derive(std::slice::from_ref(&file), Some(&out))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(&path.display().to_string()) && error.lines().count() == 1,
            "{error}"
        );
        assert!(error.contains("No space left"), "{error}");
    }
}

#[test]
fn recordings_of_ranks_are_found_below_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..2 {
        lenet(rank).save(&folder.path().join(format!("output/profile/rank_{rank}/profiler")));
    }
    let found = find::recordings(folder.path()).unwrap();
    assert_eq!(found.len(), 2);
    assert!(found[0].to_string_lossy().contains("rank_0"));
    assert_eq!(find::folder(&found[0]), found[0].parent().unwrap());
}

#[test]
fn a_cut_recording_is_good_up_to_the_cut_and_can_be_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let whole = lenet(0).file(7);
    let file = folder.path().join("recording.tw");
    for cut in [whole.len() - 1, whole.len() - 7, whole.len() / 2, 300, 20, 8] {
        fs::write(&file, &whole[..cut]).unwrap();
        let before = derive(std::slice::from_ref(&file), None).unwrap();
        let repairs = repair::repair(folder.path()).unwrap();
        let kept = fs::metadata(&file).unwrap().len();
        let expected = if kept == cut as u64 {
            Repair::Whole { path: file.clone() }
        } else {
            let lost = cut as u64 - kept;
            Repair::Cut {
                path: file.clone(),
                kept,
                lost,
            }
        };
        assert_eq!(repairs, [expected]);
        let after = derive(std::slice::from_ref(&file), None).unwrap();
        assert_eq!(after.ops, before.ops);
        let cuts = |notes: &[String]| notes.iter().any(|note| note.contains("--repair"));
        assert!(
            !cuts(&after.notes) && cuts(&before.notes) == (kept < cut as u64),
            "{:?}",
            before.notes
        );
    }
}

#[test]
fn a_cut_timeline_is_closed_behind_its_last_whole_event() {
    let folder = tempfile::tempdir().unwrap();
    let file = lenet(0).save(folder.path());
    derive(&[file], Some(folder.path())).unwrap();
    let path = folder.path().join("trace.json");
    let whole = fs::read(&path).unwrap();
    assert_eq!(
        repair::timeline(&path).unwrap(),
        Repair::Whole { path: path.clone() }
    );
    let events = |bytes: &[u8]| serde_json::from_slice::<Vec<serde_json::Value>>(bytes).unwrap();
    let all = events(&whole);
    for cut in 0..whole.len() - 2 {
        // Every byte of the last lines, and some of those before.
        if cut % 97 != 0 && cut + 300 < whole.len() {
            continue;
        }
        fs::write(&path, &whole[..cut]).unwrap();
        let repaired = repair::timeline(&path).unwrap();
        assert!(matches!(repaired, Repair::Cut { .. }), "{cut}: {repaired:?}");
        let kept = events(&fs::read(&path).unwrap());
        assert_eq!(&kept[..], &all[..kept.len()]);
        let lines = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
        assert!(
            kept.len() + 1 >= lines,
            "{cut}: {} events of {lines} lines",
            kept.len()
        );
    }
    fs::write(&path, "{\"traceEvents\":[]}").unwrap();
    assert!(matches!(repair::timeline(&path), Err(Error::Format { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Wrong numbers, times that run backwards, names that are missing: no panic, and the parts sum up.
    #[test]
    fn any_records_are_taken(order in prop::collection::vec(any::<prop::sample::Index>(), 1..150), shift in prop_oneof![Just(0), any::<u64>()]) {
        let folder = tempfile::tempdir().unwrap();
        let mut sample = lenet(0);
        let from = std::mem::take(&mut sample.records);
        sample.records = order.iter().map(|at| at.get(&from).clone()).collect();
        for (at, record) in sample.records.iter_mut().enumerate() {
            use thalweg::observe::recording::Record;
            match record {
                Record::Command(command) if at % 3 == 0 => command.end = command.end.wrapping_add(shift),
                Record::Op(op) if at % 3 == 0 => op.start = op.start.wrapping_sub(shift),
                Record::Memory(memory) if at % 2 == 0 => memory.bytes = shift,
                Record::Span(span) if at % 2 == 0 => span.start = span.start.wrapping_add(shift),
                Record::Program(program) => program.nodes.truncate(at % 7),
                _ => {}
            }
        }
        let file = sample.save(folder.path());
        let summary = derive(&[file], Some(folder.path())).unwrap();
        for row in &summary.steps {
            let parts = [row.data, row.forward, row.backward, row.update, row.communication, row.other, row.idle];
            prop_assert_eq!(parts.iter().sum::<u64>(), row.time());
        }
        let text = fs::read(folder.path().join("trace.json")).unwrap();
        prop_assert!(serde_json::from_slice::<Vec<serde_json::Value>>(&text).is_ok());
        let page = Source::new(&[folder.path().to_owned()]).unwrap().read();
        prop_assert_eq!((page.runs(), page.errors().len()), (1, 0));
        prop_assert!(!Terminal::read(folder.path()).unwrap().to_string().is_empty());
    }
}
