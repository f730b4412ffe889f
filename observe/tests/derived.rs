//! What is derived from recordings, compared with their records.
#![allow(clippy::unwrap_used, reason = "a test")]

mod sample;

use sample::{BEGIN, STEP, STEPS, Sample, lenet};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use thalweg::observe::recording::{Command, Record, WHOLE};
use thalweg_observe::{OpRow, Report, Sort, Summary, derive};

/// The summary and the folder of files of some recordings.
fn derived(samples: &[Sample]) -> (Summary, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<PathBuf> = (samples.iter().enumerate())
        .map(|(at, sample)| sample.save(&folder.path().join(format!("rank_{at}"))))
        .collect();
    let summary = derive(&files, Some(folder.path())).unwrap();
    (summary, folder)
}

/// The rows of a table with commas; cells with commas are in quotes.
fn table(folder: &Path, name: &str) -> Vec<BTreeMap<String, String>> {
    let text = fs::read_to_string(folder.join(name)).unwrap();
    let cells = |line: &str| {
        let (mut cells, mut quoted) = (vec![String::new()], false);
        for c in line.chars() {
            match c {
                '"' => quoted = !quoted,
                ',' if !quoted => cells.push(String::new()),
                c => cells.last_mut().unwrap().push(c),
            }
        }
        assert!(!quoted, "{line}");
        cells
    };
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let head = cells(lines.next().unwrap());
    lines
        .map(|line| {
            let cells = cells(line);
            assert_eq!(cells.len(), head.len(), "{line}");
            head.iter().cloned().zip(cells).collect()
        })
        .collect()
}

/// Microseconds with three decimals as nanoseconds.
fn nanos(cell: &str) -> u64 {
    cell.replace('.', "").parse().unwrap()
}

fn time(command: &Command) -> u64 {
    command.end - command.start
}

fn row<'a>(summary: &'a Summary, scope: &str, name: &str) -> &'a OpRow {
    (summary.ops.iter())
        .find(|row| row.scope == scope && row.name == name)
        .unwrap_or_else(|| panic!("{scope}/{name} in {:#?}", summary.ops))
}

#[test]
fn shares_sum_to_kernels() {
    let sample = lenet(0);
    let kernels: u64 = sample.commands().map(time).sum();
    let (summary, folder) = derived(&[lenet(0)]);
    assert_eq!(summary.device_time, kernels);
    assert_eq!(summary.ops.iter().map(|row| row.device.own).sum::<u64>(), kernels);
    let rows = table(folder.path(), "kernels.csv");
    assert_eq!(rows.len(), sample.commands().count());
    assert_eq!(
        rows.iter().map(|row| nanos(&row["duration_us"])).sum::<u64>(),
        kernels
    );
    assert!((summary.ops.iter().map(|row| row.share).sum::<f64>() - 1.0).abs() < 1e-9);
}

#[test]
fn ops_have_the_times_of_their_kernels() {
    let (summary, _folder) = derived(&[lenet(0)]);
    // Node 0 takes 300 µs, of which 97 % are the convolution's.
    let conv = row(&summary, "Default/conv1", "conv2d");
    assert_eq!((conv.calls, conv.estimated), (STEPS, true));
    assert_eq!((conv.device.own, conv.device.min), (291_000 * STEPS, 291_000));
    assert_eq!(conv.line, "src/net.rs:44");
    assert_eq!(conv.flops_per_s.map(|rate| (rate / 1e9).round()), Some(20.0));
    // Two calls: 3 % of node 0 and all of node 1.
    let relu = row(&summary, "Default/conv1", "relu");
    assert_eq!((relu.calls, relu.device.own), (2 * STEPS, 109_000 * STEPS));
    assert_eq!((relu.device.min, relu.device.max), (9_000, 100_000));
    // One call in two kernels: a third of 201 µs and 200 µs and 4 ns.
    let backward = row(&summary, "Gradients/Default/fc", "matmul");
    assert_eq!((backward.calls, backward.device.min), (STEPS, 67_000 + 200_004));
    let function = row(&summary, "", "train_step");
    assert_eq!((function.calls, function.host.mean), (STEPS, 40_000));
    assert_eq!(function.device.own, 0);
    let whole = lenet(0)
        .commands()
        .filter(|one| one.correlation > 100)
        .map(time)
        .sum::<u64>();
    assert_eq!(function.device.total, whole);
    let copy = row(&summary, "", "copy");
    assert_eq!(
        (copy.calls, copy.device.own, copy.bytes_per_s.is_some()),
        (1, 5_000, true)
    );
}

#[test]
fn calls_inside_calls_are_not_counted_twice() {
    let (summary, _folder) = derived(&[lenet(0)]);
    let (outer, inner) = (row(&summary, "", "softmax, \"last\""), row(&summary, "", "exp"));
    assert_eq!((inner.calls, inner.host.own, inner.host.p50), (3, 3_000, 1_000));
    assert_eq!((outer.host.total, outer.host.own), (8_000, 5_000));
    assert_eq!(inner.shapes, "f32[3], f32[3]");
    assert_eq!(inner.device.own, 3 * 277);
}

#[test]
fn kernels_and_gaps_sum_to_the_step() {
    let (summary, folder) = derived(&[lenet(0)]);
    assert_eq!(summary.steps.len() as u64, STEPS);
    let step = summary.steps[1];
    assert_eq!((step.step, step.start, step.time()), (2, 2 * STEP, 1_500_000));
    assert_eq!(step.data, 100_000);
    // All of node 0 and 1, and two thirds of node 2.
    assert_eq!(step.forward, 300_000 + 100_000 + 134_000);
    // From node 2's last third to the end of node 3, with node 4 beside it.
    assert_eq!(step.backward, 67_000 + 300_000);
    assert_eq!(step.update, 50_005);
    for row in &summary.steps {
        let parts = [
            row.data,
            row.forward,
            row.backward,
            row.update,
            row.communication,
            row.other,
            row.idle,
        ];
        assert_eq!(parts.iter().sum::<u64>(), row.time());
    }
    let rows = table(folder.path(), "step_trace.csv");
    assert_eq!(nanos(&rows[1]["backward_us"]), step.backward);
    assert_eq!(rows[3]["step"], "4");
}

#[test]
fn work_that_ends_behind_its_step_counts_for_it() {
    let mut sample = lenet(0);
    // Everything of step 2 runs 1.2 ms later than it was submitted: into step 3.
    for record in &mut sample.records {
        if let Record::Command(command) = record
            && command.correlation == 102
        {
            command.start += 1_200_000;
            command.end += 1_200_000;
        }
    }
    let (summary, _folder) = derived(&[sample]);
    let (second, third) = (summary.steps[1], summary.steps[2]);
    assert_eq!(second.time(), 1_090_005 + 1_200_000);
    assert_eq!(third.start, second.end);
    let busy = second.forward + second.backward + second.update;
    assert_eq!(busy, 300_000 + 100_000 + 201_000 + 300_000 + 50_005);
}

#[test]
fn memory_has_owners_at_its_peak() {
    let (summary, folder) = derived(&[lenet(0)]);
    let peak = &summary.memory[0];
    assert_eq!(
        (peak.bytes, peak.step, peak.device.as_str()),
        (4_000_000, Some(4), "cpu:0")
    );
    assert_eq!(
        (peak.owners.len(), peak.owners[0].name.as_str()),
        (1, "train_step")
    );
    let rows = table(folder.path(), "memory.csv");
    assert_eq!(rows.len(), 1 + 2 * STEPS as usize);
    assert_eq!(
        (rows[0]["event"].as_str(), rows[0]["reserved"].as_str()),
        ("reserve", "67108864")
    );
    let freed = rows.last().unwrap();
    assert_eq!((freed["event"].as_str(), freed["in_use"].as_str()), ("free", "0"));
    assert_eq!(freed["op"], "train_step");
}

#[test]
fn the_timeline_has_an_event_a_line_and_times_to_the_nanosecond() {
    let (_, folder) = derived(&[lenet(0)]);
    let text = fs::read_to_string(folder.path().join("trace.json")).unwrap();
    let all: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(text.lines().count(), all.len() + 2);
    for line in text.lines().skip(1).take(all.len()) {
        let event: serde_json::Value = serde_json::from_str(line.trim_end_matches(',')).unwrap();
        assert!(event["ph"].is_string());
    }
    let kernels: Vec<_> = all.iter().filter(|event| event["cat"] == "kernel").collect();
    assert_eq!(kernels.len(), lenet(0).commands().count() - 1);
    let conv = kernels.iter().find(|event| event["name"] == "conv2d").unwrap();
    let start = STEP + 120_000;
    assert_eq!(conv["ts"], start as f64 / 1e3);
    assert!(text.contains(&format!("\"ts\":{}.000,\"dur\":300.000,", start / 1000)));
    assert_eq!(
        conv["args"]["ops"],
        serde_json::json!(["Default/conv1/conv2d-op1 ~97 %", "Default/conv1/relu-op2 ~3 %"])
    );
    let run = (all.iter()).find(|event| event["bind_id"] == conv["bind_id"] && event["flow_out"] == true);
    assert_eq!(run.unwrap()["name"], "run train_step");
    let instant = all.iter().find(|event| event["ph"] == "i").unwrap();
    assert_eq!((&instant["name"], &instant["s"]), (&"half".into(), &"t".into()));
}

#[test]
fn overlapping_work_of_a_row_gets_lanes() {
    let mut sample = lenet(0);
    let end = sample.records.pop().unwrap();
    for at in 0..3 {
        sample.records.push(Record::Command(Command {
            stream: 1,
            start: BEGIN + 10 * STEP + at * 10,
            end: BEGIN + 10 * STEP + 100,
            ..Command::default()
        }));
    }
    sample.records.push(end);
    let (_, folder) = derived(&[sample]);
    let text = fs::read_to_string(folder.path().join("trace.json")).unwrap();
    for name in [
        "default stream\"",
        "default stream, lane 1",
        "default stream, lane 2",
        "default stream, row 1",
    ] {
        assert!(text.contains(name), "{name}");
    }
    assert!(!text.contains("lane 3"));
}

#[test]
fn stacks_sum_to_the_times() {
    let (summary, folder) = derived(&[lenet(0)]);
    let text = fs::read_to_string(folder.path().join("stacks.collapsed")).unwrap();
    let sum = |root: &str| -> u64 {
        let lines = text.lines().filter(|line| line.starts_with(root));
        lines
            .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
            .sum()
    };
    assert_eq!(sum("device cpu:0"), summary.device_time);
    assert_eq!(sum("host"), 8_000);
    assert!(
        text.contains("device cpu:0, rank 0;Default;conv1;conv2d (src/net.rs:44);conv2d 1164000\n"),
        "{text}"
    );
    let speedscope = fs::read_to_string(folder.path().join("speedscope.json")).unwrap();
    let speedscope: serde_json::Value = serde_json::from_str(&speedscope).unwrap();
    assert_eq!(speedscope["profiles"][0]["endValue"], summary.device_time);
}

#[test]
fn ranks_are_side_by_side() {
    let (one, _folder) = derived(&[lenet(0)]);
    let (two, folder) = derived(&[lenet(0), lenet(1)]);
    assert_eq!(two.device_time, 2 * one.device_time);
    let calls = |summary: &Summary| row(summary, "Default/conv1", "conv2d").calls;
    assert_eq!(calls(&two), 2 * calls(&one));
    assert_eq!(two.steps.len(), 8);
    // The second began 1 ms after the first.
    assert_eq!((two.steps[4].rank, two.steps[4].start), (1, STEP + 1_000_000));
    let text = fs::read_to_string(folder.path().join("trace.json")).unwrap();
    assert!(text.contains("lenet (rank 0, process 4711)") && text.contains("lenet (rank 1, process 4712)"));
}

#[test]
fn what_is_lost_stands_in_every_output() {
    let mut sample = lenet(0);
    let source = sample.text("main");
    sample.records.push(Record::Lost { source, count: 12 });
    let (summary, folder) = derived(&[sample]);
    assert_eq!(summary.lost, 12);
    for name in [
        "op_table.csv",
        "kernels.csv",
        "step_trace.csv",
        "memory.csv",
        "trace.json",
    ] {
        let text = fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(text.contains("lost 12 events"), "{name}");
    }
    let json = fs::read_to_string(folder.path().join("op_table.json")).unwrap();
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&json).unwrap()["lost"],
        12
    );
    let text = Report::new(&summary, Sort::Device, 3).to_string();
    assert!(text.contains("12 events of main are lost"), "{text}");
}

#[test]
fn counts_that_a_file_makes_up_do_not_overflow() {
    let mut sample = lenet(0);
    for text in ["one", "another"] {
        // Sources whose names are not there have one name.
        let source = sample.text(text) + 1000;
        sample.records.push(Record::Lost {
            source,
            count: u64::MAX,
        });
    }
    let (summary, _folder) = derived(&[sample]);
    assert_eq!(summary.lost, u64::MAX);
}

#[test]
fn the_report_reads_like_a_table() {
    let (summary, _folder) = derived(&[lenet(0)]);
    let text = Report::new(&summary, Sort::Device, 4).to_string();
    let expected = "\
4 steps  mean 1.50 ms, longest 1.50 ms (step 4); the middle one:
step 3  1.50 ms   data 0.10  forward 0.53  backward 0.37  update 0.05  other 0.01  idle 0.45
op                           calls  device ms   share  mean µs  host ms  where
";
    let lines: Vec<&str> = text.lines().collect();
    for (found, wanted) in lines.iter().zip(expected.lines()).take(3) {
        assert_eq!(
            found.split_whitespace().collect::<Vec<_>>(),
            wanted.split_whitespace().collect::<Vec<_>>()
        );
    }
    assert!(lines[3].starts_with("Gradients/Default/conv1/conv2d "), "{text}");
    assert!(
        lines[4].contains("~1.164") && lines[4].ends_with("src/net.rs:44"),
        "{text}"
    );
    assert!(lines[7].starts_with("… 6 more ops"), "{text}");
    assert!(
        text.contains("memory  peak 4.0 MB of cpu:0 at step 4: train_step 4.0 MB\n"),
        "{text}"
    );
    let by_name = Report::new(&summary, Sort::Name, 50).to_string();
    assert!(by_name.lines().nth(3).unwrap().starts_with("copy"), "{by_name}");
}

#[test]
fn commands_may_come_before_their_run() {
    let (expected, _folder) = derived(&[lenet(0)]);
    let mut sample = lenet(0);
    // Runs are written when their call has returned.
    let (runs, mut others): (Vec<_>, Vec<_>) =
        (sample.records.into_iter()).partition(|record| matches!(record, Record::Run(_)));
    let last = others.len() - 1;
    others.splice(last..last, runs);
    sample.records = others;
    let (found, _folder) = derived(&[sample]);
    assert_eq!(found, expected);
}

#[test]
fn runs_that_never_come_hold_up_nothing() {
    let mut sample = lenet(0);
    sample
        .records
        .retain(|record| !matches!(record, Record::Run(run) if run.correlation == 102));
    let (summary, folder) = derived(&[sample]);
    let kernels: u64 = lenet(0).commands().map(time).sum();
    assert_eq!(summary.device_time, kernels);
    assert_eq!(summary.ops.iter().map(|row| row.device.own).sum::<u64>(), kernels);
    assert_eq!(
        table(folder.path(), "kernels.csv").len(),
        lenet(0).commands().count()
    );
    assert_eq!(row(&summary, "", "kernel").device.own, 1_151_005 + 4);
}

#[test]
fn a_device_that_measures_whole_runs_splits_them_by_work() {
    let mut sample = lenet(0);
    sample
        .records
        .retain(|record| !matches!(record, Record::Command(command) if command.correlation > 100));
    let end = sample.records.pop().unwrap();
    sample.records.push(Record::Command(Command {
        correlation: 101,
        node: WHOLE,
        stream: 1,
        start: BEGIN + STEP,
        end: BEGIN + STEP + 1_000_000,
        ..Command::default()
    }));
    sample.records.push(end);
    let (summary, _folder) = derived(&[sample]);
    // Each of the six nodes moves 4,000 bytes; the first has 6 of the 18 million operations.
    let first = 1e6 * 6_004_000.0 / 18_024_200.0 * 0.97;
    let conv = row(&summary, "Default/conv1", "conv2d");
    assert!((conv.device.own as f64 - first).abs() < 2.0, "{conv:?} {first}");
    assert!(conv.estimated && row(&summary, "Update", "adam").estimated);
    let whole = row(&summary, "", "train_step");
    assert_eq!((whole.device.own, whole.device.total), (0, 1_000_000));
}

#[test]
fn points_bound_forward_and_backward() {
    let mut sample = lenet(0);
    for text in ["fp_point fc", "bp_point fc"] {
        let name = sample.text(text);
        sample.records.push(Record::Mark {
            thread: 0,
            time: BEGIN,
            name,
        });
    }
    let (summary, _folder) = derived(&[sample]);
    let step = summary.steps[1];
    // Forward begins with node 2; backward ends with the last gradient of `fc`, in node 4.
    assert_eq!((step.forward, step.other), (134_000, 400_000));
    assert_eq!(step.backward, 67_000 + 300_000);
}

/// A device of a backend without the table of profiles.
#[test]
fn a_device_that_is_not_measured_is_noted() {
    let mut sample = lenet(0);
    let why = sample.text("not measured by this backend, which has no profile table");
    for record in &mut sample.records {
        if let Record::Device(device) = record {
            device.unmeasured = why;
        }
    }
    // The text stands before what refers to it.
    let text = sample.records.pop().unwrap();
    sample.records.insert(1, text);
    let (summary, _) = derived(&[sample]);
    let note = "cpu:0 is not measured: not measured by this backend, which has no profile table";
    assert!(
        summary.notes.iter().any(|line| line.contains(note)),
        "{:?}",
        summary.notes
    );
}
