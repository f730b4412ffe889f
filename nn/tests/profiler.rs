//! The callback that records a training.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs::File;
use std::ops::RangeInclusive;
use std::path::Path;
use thalweg::observe::recording::{Reader, Record, SpanKind};
use thalweg::observe::{ProfileOptions, Schedule};
use thalweg::{Context, Mode};
use thalweg_nn::callback::{Callback, Profiler, StepTimes};
use thalweg_nn::data::{Loader, Rows, Samples};
use thalweg_nn::{Dense, Model, loss, optim::Adam};

/// Three epochs of four steps; the bits of the weights.
fn train(callbacks: impl Callback) -> thalweg_nn::Result<Vec<u32>> {
    let cx = Context::new("cpu")?;
    cx.set_seed(1);
    cx.set_mode(Mode::Graph);
    let x: Vec<f32> = (0..40).map(|at| at as f32 / 20.0 - 1.0).collect();
    let y: Vec<f32> = x.iter().map(|x| 3.0 * x).collect();
    let data = Loader::new(Samples::new(Rows::new(x, &[1])?, Rows::new(y, &[1])?)?, 10).shuffle(1);
    let mut model = Model::new(Dense::new(1, 1, &cx)?, loss::mse, Adam::new(0.1), &cx);
    model.train(3, &data, callbacks)?;
    let weights = model.net().weight.to_vec::<f32>()?;
    Ok(weights.iter().map(|value| value.to_bits()).collect())
}

/// The numbers of the steps of a recording, and whether it ends as it should.
fn steps(folder: &Path) -> (Vec<u64>, bool) {
    let (mut steps, mut ended) = (Vec::new(), false);
    for record in Reader::new(File::open(folder.join("recording.tw")).unwrap()).unwrap() {
        match record {
            Record::Span(span) if span.kind == SpanKind::Step => steps.push(span.number),
            Record::End { .. } => ended = true,
            _ => {}
        }
    }
    (steps, ended)
}

/// One test, because a process has one profile at a time.
#[test]
fn the_asked_steps_are_recorded_and_no_bit_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let plain = train(()).unwrap();

    assert_eq!(
        train(Profiler::to(path("some")).steps(2..=5).memory(true)).unwrap(),
        plain
    );
    assert_eq!(steps(&path("some/rank_0")), (vec![2, 3, 4, 5], true));

    // The first ten, with what is before them.
    let whole = Profiler::to(path("a_{r}/all"));
    assert_eq!(train(whole).unwrap(), plain);
    assert_eq!(steps(&path("a_0/all")), ((1..=10).collect(), true));

    let cycles = Schedule {
        wait: 1,
        warmup: 1,
        active: 2,
        repeat: 2,
        skip_first: 1,
    };
    let (ready, heard) = std::sync::mpsc::channel();
    let profiler = Profiler::to(path("cycles")).schedule(cycles);
    train(profiler.on_trace_ready(move |folder| ready.send(folder.to_owned()).unwrap())).unwrap();
    let folders: Vec<_> = heard.try_iter().collect();
    assert_eq!(folders.len(), 2);
    assert_eq!(steps(&folders[0]), (vec![4, 5], true));
    assert_eq!(steps(&folders[1]), (vec![8, 9], true));

    // Nothing is asked for.
    train(Profiler::with(ProfileOptions::default())).unwrap();

    let refused = |profiler: Profiler| {
        let message = train(profiler).unwrap_err().to_string();
        assert_eq!(message.lines().count(), 1, "{message}");
        message
    };
    assert!(refused(Profiler::new().steps(RangeInclusive::new(4, 3))).contains("stop_step is 3"));
    let point =
        r#"{"enable_profiling": true, "profiling_options": {"training_trace": "on", "fp_point": "conv"}}"#;
    let options = ProfileOptions::from_json(point).unwrap();
    assert!(refused(Profiler::with(options)).contains("fp_point is conv; the network has no such part"));
    std::fs::write(path("file"), "").unwrap();
    assert!(refused(Profiler::to(path("file"))).contains("name a folder that can be written"));
    // A step takes part in the next training as if nothing had been.
    assert_eq!(train(Profiler::to(path("last"))).unwrap(), plain);
}

#[test]
fn the_times_of_an_epoch_are_kept() {
    let mut times = StepTimes::new();
    train(&mut times).unwrap();
    assert_eq!(times.epochs().len(), 3);
    for epoch in times.epochs() {
        assert_eq!((epoch.steps, epoch.samples), (4, 40));
        assert!(!epoch.compute.is_zero());
    }
}
