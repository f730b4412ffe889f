//! What is said of the hardware beside times.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(dead_code, reason = "samples serve other tests too")]

mod sample;

use sample::{BEGIN, Sample, lenet};
use std::fs;
use std::path::PathBuf;
use thalweg::observe::Metric;
use thalweg::observe::recording::Record;
use thalweg_observe::{OpRow, Report, Sort, Summary, derive};

/// The summary and the folder of files of a recording.
fn derived(sample: &Sample) -> (Summary, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file: PathBuf = sample.save(folder.path());
    (derive(&[file], Some(folder.path())).unwrap(), folder)
}

/// A recording that was asked for a metric, with counters and what cannot be counted.
fn measured(
    metric: Metric,
    counters: &[(&str, f64)],
    unavailable: Option<&str>,
) -> (Summary, tempfile::TempDir) {
    let mut sample = lenet(0);
    let mut marks = vec![format!("ai_core_metrics {metric} cpu:0")];
    marks.extend(unavailable.map(|why| format!("ai_core_metrics unavailable cpu:0 {why}")));
    let last = sample.records.pop().unwrap();
    for mark in marks {
        let name = sample.text(&mark);
        let (thread, time) = (0, BEGIN);
        sample.records.push(Record::Mark { thread, time, name });
    }
    for (name, value) in counters {
        let (name, time) = (sample.text(name), BEGIN);
        let value = *value;
        sample.records.push(Record::Counter { time, name, value });
    }
    sample.records.push(last);
    derived(&sample)
}

fn value(summary: &Summary) -> Result<Vec<(&'static str, f64)>, String> {
    assert_eq!(summary.metrics.len(), 1);
    summary.metrics[0].value.clone()
}

#[test]
fn metrics_are_parts_of_what_the_device_can_do() {
    let (summary, _) = measured(Metric::PipeUtilization, &[], None);
    let parts = value(&summary).unwrap();
    assert_eq!(
        parts.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        ["compute", "copy", "wait"]
    );
    assert!(
        (parts.iter().map(|(_, part)| part).sum::<f64>() - 1.0).abs() < 1e-9,
        "{parts:?}"
    );
    assert!(parts.iter().all(|(_, part)| (0.0..=1.0).contains(part)) && parts[0].1 > 0.1);
    let report = Report::new(&summary, Sort::Device, 5).to_string();
    assert!(report.contains("metric  cpu:0 PipeUtilization: "), "{report}");

    let (summary, folder) = measured(
        Metric::ArithmeticUtilization,
        &[("cpu:0 peak flop/s", 1e12)],
        None,
    );
    let conv = |row: &&OpRow| (&*row.scope, &*row.name) == ("Default/conv1", "conv2d");
    let conv = summary.ops.iter().find(conv).unwrap();
    let part = conv.flops_of_peak.unwrap();
    assert!((part - conv.flops_per_s.unwrap() / 1e12).abs() < 1e-12 && conv.bytes_of_peak.is_none());
    assert!(summary.metrics[0].estimated && value(&summary).unwrap()[0].1 < part.max(1.0));
    assert!(Report::new(&summary, Sort::Device, 5).to_string().contains(": ~"));
    let kernels = fs::read_to_string(folder.path().join("kernels.csv")).unwrap();
    let (head, first) = kernels.split_once('\n').unwrap();
    assert!(head.ends_with(",flops_of_peak,bytes_of_peak"), "{head}");
    // 6 million operations in 300 µs, and no peak of bytes.
    let conv = first.lines().find(|line| line.contains("conv2d,")).unwrap();
    assert!(conv.ends_with(",6000000,4000,0.0200,"), "{conv}");

    let counters = [
        ("cpu:0 first cache reads", 200.0),
        ("cpu:0 first cache misses", 50.0),
    ];
    let (summary, _) = measured(Metric::MemoryL0, &counters, None);
    assert_eq!(value(&summary).unwrap(), [("of reads are served", 0.75)]);
}

#[test]
fn what_cannot_be_measured_is_unavailable_and_never_0() {
    let why = "no hardware counters of cycles: a virtual machine";
    let (summary, _) = measured(Metric::MemoryL0, &[], Some(why));
    assert_eq!(value(&summary), Err(why.to_owned()));
    let report = Report::new(&summary, Sort::Device, 5).to_string();
    assert!(
        report.contains(&format!("metric  cpu:0 MemoryL0: unavailable: {why}\n")),
        "{report}"
    );
    let (summary, _) = measured(Metric::ResourceConflictRatio, &[("cpu:0 cycles", 7.0)], None);
    assert_eq!(
        value(&summary),
        Err("the processor does not count stalled cycles".to_owned())
    );
    let (summary, _) = measured(Metric::Memory, &[], None);
    assert!(value(&summary).unwrap_err().contains("are not known"));
}
