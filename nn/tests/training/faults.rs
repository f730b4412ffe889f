//! Faults at every call of a training: each is a typed error that names the op, weights are those before the failed step, and the
//! training that goes on has the bits of one without faults.

use super::{Net, loader, model, weights};
use std::path::Path;
use thalweg::hal::{Backend, DeviceOptions, Runtime};
use thalweg::host::set_config;
use thalweg::loader::{LoaderOptions, Registry};
use thalweg::{Context, Mode, Tensor};
use thalweg_nn::{Model, Trained};

fn backend() -> Backend {
    let options = LoaderOptions {
        layers: vec!["fault".into()],
        ..LoaderOptions::default()
    };
    Runtime::new(Registry::new(options)).backend("cpu").unwrap()
}

fn open(backend: &Backend, rules: &str, mode: Mode) -> Context {
    set_config("layer.fault", Some(rules));
    let cx = Context::on(backend.open(&DeviceOptions::new(0)).unwrap());
    cx.set_seed(3);
    cx.set_mode(mode);
    cx
}

/// A model with its first batch; only the steps are made to fail, so the rules count from there.
fn ready(backend: &Backend, mode: Mode) -> (Context, Model<Net>, Tensor, Tensor) {
    let cx = open(backend, "", mode);
    let batch = loader().prefetch(0).epoch(0, 0, &cx).next().unwrap().unwrap();
    let model = model(&cx);
    weights(&model);
    (cx, model, batch.x, batch.y)
}

/// Sets the rules, which a device reads when it is opened, for all devices of the backend.
fn set(backend: &Backend, rules: &str) {
    set_config("layer.fault", Some(rules));
    drop(backend.open(&DeviceOptions::new(0)).unwrap());
}

/// Two steps, each made to fail first. The number of errors.
fn steps(backend: &Backend, rules: &str, mode: Mode, clean: &[Vec<(String, Vec<u8>)>]) -> usize {
    let (cx, mut model, x, y) = ready(backend, mode);
    let mut errors = 0;
    for wanted in clean {
        let before = weights(&model);
        set(backend, rules);
        let step = model.train_step(&x, &y);
        set(backend, "");
        if let Err(error) = step {
            let text = error.to_string();
            assert!(
                text.contains("made to fail by the layer fault"),
                "{rules}: {text}"
            );
            assert!(!text.contains("work: made to fail"), "{rules}: {text}");
            errors += 1;
            let _ = cx.device().synchronize();
            assert_eq!(weights(&model), before, "weights after {rules}: {text}");
            model.train_step(&x, &y).unwrap();
        }
        assert_eq!(&weights(&model), wanted, "{rules}");
    }
    errors
}

fn sweep(step: u64) -> usize {
    let backend = backend();
    let mut errors = 0;
    for mode in [Mode::Eager, Mode::Graph] {
        let (_cx, mut model, x, y) = ready(&backend, mode);
        let clean: Vec<_> = (0..2)
            .map(|_| {
                model.train_step(&x, &y).unwrap();
                weights(&model)
            })
            .collect();
        for kind in ["alloc", "submit", "compile"] {
            for burst in [1, 3] {
                let (mut quiet, mut number) = (0, 1);
                while quiet < 4 {
                    let rules: Vec<_> = (number..number + burst)
                        .map(|at| format!("{kind}@{at}"))
                        .collect();
                    let seen = steps(&backend, &rules.join(","), mode, &clean);
                    errors += seen;
                    quiet = if seen > 0 { 0 } else { quiet + 1 };
                    number += step;
                }
            }
        }
    }
    errors
}

#[test]
fn some_steps_fail() {
    let errors = sweep(17);
    assert!(errors >= 10, "{errors} errors");
}

/// `cargo nextest run -p thalweg-nn --run-ignored only every_call_of_a_step`.
#[test]
#[ignore = "minutes: `--run-ignored only`"]
fn every_call_of_a_step_fails() {
    println!("{} errors", sweep(1));
}

/// What is saved while calls fail is whole or not there, and the file before it stays.
#[test]
fn a_checkpoint_under_faults_is_whole_or_the_one_before() {
    let backend = backend();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let mut errors = 0;
    for number in 1..40 {
        let (_cx, mut model, x, y) = ready(&backend, Mode::Graph);
        model.train_step(&x, &y).unwrap();
        model.save(&path).unwrap();
        let kept = std::fs::read(&path).unwrap();
        model.train_step(&x, &y).unwrap();
        let now = weights(&model);
        set(&backend, &format!("submit@{number},later@{number}"));
        let saved = model.save(&path);
        set(&backend, "");
        match saved {
            Ok(()) => assert_loads(&path, &now),
            Err(error) => {
                assert!(
                    error.to_string().contains("made to fail by the layer fault"),
                    "{error}"
                );
                assert_eq!(std::fs::read(&path).unwrap(), kept);
                errors += 1;
            }
        }
        let files = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(files, 1, "nothing is left beside the file");
    }
    assert!(errors >= 5, "{errors} errors");
}

fn assert_loads(path: &Path, wanted: &[(String, Vec<u8>)]) {
    let cx = Context::new("cpu").unwrap();
    let mut model = model(&cx);
    model.load(path).unwrap();
    assert_eq!(weights(&model), wanted);
}
