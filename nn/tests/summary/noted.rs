//! Values that code notes.

use super::{context, data, model, scalars, steps, train, values};
use std::path::Path;
use thalweg::{Mode, Tensor, fori_loop, jit};
use thalweg_nn::callback::{Callback, RunContext, SummaryCollector};
use thalweg_nn::summary::{self, Record};
use thalweg_nn::{Dense, Layer, Model, Module, loss, optim::Sgd};
use thalweg_summary::Data;

/// Op by op and compiled, a network notes the same values, in the order of the calls.
#[test]
fn both_modes_note_the_same_bits() {
    let [eager, graph] = [Mode::Eager, Mode::Graph].map(|mode| {
        let folder = tempfile::tempdir().unwrap();
        train(mode, 3, SummaryCollector::to(folder.path()).collect_freq(3)).unwrap();
        let mut values = values(folder.path());
        // Times differ.
        values.retain(|tag, _| !tag.starts_with("_hparams_"));
        values
    });
    assert_eq!(eager, graph);
    assert_eq!(steps(&graph, "spread"), [1, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30]);
    let largest = scalars(&graph, "largest");
    for ((_, data), largest) in graph["spread"].iter().zip(largest) {
        let Data::Histogram(histogram) = data else {
            panic!()
        };
        assert_eq!((histogram.max as f32, histogram.count), (largest, 12.0));
    }
}

/// Without a collector nothing is noted, and evaluation and prediction note nothing with one.
#[test]
fn evaluation_notes_nothing() {
    struct Predict;
    impl Callback for Predict {
        fn step_end(&mut self, run: &mut RunContext<'_>) -> thalweg_nn::Result<()> {
            summary::scalar(
                "of a callback",
                &Tensor::scalar(run.cur_step_num as f32, run.model.context()),
            );
            Ok(())
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let cx = context(Mode::Graph);
    let mut model = model(&cx).validate(data());
    model.train(1, &data(), ()).unwrap();
    model
        .train(
            1,
            &data(),
            (SummaryCollector::to(folder.path()).collect_freq(100), Predict),
        )
        .unwrap();
    let values = values(folder.path());
    // The second call of `train` begins with step 11, and none is due.
    assert_eq!(steps(&values, "largest"), [0_i64; 0]);
    assert_eq!(steps(&values, "of a callback"), (11..=20).collect::<Vec<_>>());
    assert_eq!(scalars(&values, "of a callback")[9], 20.0);
}

#[test]
fn a_record_takes_what_plain_code_notes() {
    let folder = tempfile::tempdir().unwrap();
    let cx = context(Mode::Eager);
    summary::scalar("nobody", &Tensor::scalar(1.0_f32, &cx));
    let mut record = Record::to(folder.path()).unwrap();
    let busy = Record::to(folder.path().join("other")).err().unwrap().to_string();
    assert!(busy.starts_with("summary: one is being written, into "), "{busy}");
    for step in [3, 5] {
        record.step(step).unwrap();
        let x = Tensor::from_slice(&[1.0_f32, 2.0, step as f32, f32::NAN], [2, 2], &cx);
        summary::tensor("x", &x);
        summary::histogram("x/spread", &x);
        summary::image("x/picture", &x.reshape([1, 1, 2, 2]));
        summary::scalar("x/first", &x.select(0, 0).select(0, 0));
    }
    record.finish().unwrap();
    let values = values(folder.path());
    for tag in ["x", "x/spread", "x/picture", "x/first"] {
        assert_eq!(steps(&values, tag), [3, 5], "{tag}");
    }
    assert_eq!(values.len(), 4);
    let Data::Histogram(histogram) = &values["x/spread"][1].1 else {
        panic!()
    };
    assert_eq!((histogram.count, histogram.sum, histogram.max), (3.0, 8.0, 5.0));
}

#[test]
fn what_cannot_be_shown_is_an_error_of_the_step() {
    let cx = context(Mode::Eager);
    let refused = |note: &dyn Fn()| {
        let folder = tempfile::tempdir().unwrap();
        let mut record = Record::to(folder.path()).unwrap();
        note();
        let message = record.step(1).unwrap_err().to_string();
        // The record goes on.
        record.finish().unwrap();
        message
    };
    let x = Tensor::from_slice(&[1.0_f32, 2.0], 2, &cx);
    let message = refused(&|| summary::scalar("a", &x));
    assert!(
        message.starts_with("summary: a: a scalar of shape") && message.contains("reduce it"),
        "{message}"
    );
    let message = refused(&|| summary::image("b", &x));
    assert!(message.contains("it takes [height, width]"), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    // An error on the way to a tensor is told as it is.
    let message = refused(&|| summary::tensor("c", &x.reshape([3, 5])));
    assert!(message.starts_with("reshape: "), "{message}");
    let traced = |x: &Tensor| {
        summary::scalar("d", &x.sum());
        x * 2.0
    };
    let message = refused(&|| _ = jit(traced).call(&x));
    assert!(
        message.starts_with("summary: d: it was noted in a traced function"),
        "{message}"
    );
}

/// A network that notes in the body of a loop.
#[derive(Clone, Module)]
struct Loops {
    dense: Dense,
}

impl Layer for Loops {
    fn forward(&self, x: &Tensor) -> Tensor {
        fori_loop(0..40, self.dense.forward(x), |turn, x| {
            summary::scalar("turn", turn);
            x * 0.5
        })
    }
}

#[test]
fn the_body_of_a_compiled_loop_has_no_values() {
    let collect = |mode: Mode, folder: &Path| {
        let cx = context(mode);
        let net = Loops {
            dense: Dense::new(2, 1, &cx).unwrap(),
        };
        let mut model = Model::new(net, loss::mse, Sgd::new(0.1), &cx);
        model.train(1, &data(), SummaryCollector::to(folder))
    };
    let folder = tempfile::tempdir().unwrap();
    let message = collect(Mode::Graph, folder.path()).unwrap_err().to_string();
    assert!(message.starts_with("summary: turn: it was noted in"), "{message}");
    let folder = tempfile::tempdir().unwrap();
    collect(Mode::Eager, folder.path()).unwrap();
    let turns = scalars(&values(folder.path()), "turn");
    assert_eq!(turns[..40], (0..40).map(|turn| turn as f32).collect::<Vec<_>>());
    assert_eq!(turns.len(), 80);
}
