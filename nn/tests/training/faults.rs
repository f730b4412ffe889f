//! Faults at every call of a training: each is a typed error that names the op, weights are those before the failed step, and the
//! training that goes on has the bits of one without faults.

use super::{Net, loader, model, weights};
use std::path::Path;
use thalweg::hal::{Backend, DeviceOptions, Runtime};
use thalweg::host::set_config;
use thalweg::loader::{LoaderOptions, Registry};
use thalweg::{Context, Mode, Tensor};
use thalweg_nn::data::Column;
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

/// The weights after each of two steps without faults.
fn clean(backend: &Backend, mode: Mode) -> Vec<Vec<(String, Vec<u8>)>> {
    let (_cx, mut model, x, y) = ready(backend, mode);
    let step = |_| {
        model.train_step(&x, &y).unwrap();
        weights(&model)
    };
    (0..2).map(step).collect()
}

/// The rules for so many calls of a kind in turn.
fn burst_of(kind: &str, first: u64, calls: u64) -> String {
    let rules: Vec<_> = (first..first + calls).map(|at| format!("{kind}@{at}")).collect();
    rules.join(",")
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
        let clean = clean(&backend, mode);
        for kind in ["alloc", "submit", "compile"] {
            for burst in [1, 3] {
                let (mut quiet, mut number) = (0, 1);
                while quiet < 4 {
                    let seen = steps(&backend, &burst_of(kind, number, burst), mode, &clean);
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
    println!("{} errors, {} found later", sweep(1), sweep_later(1));
}

/// How a failure is found that no call of the step told.
#[derive(Clone, Copy, Debug)]
enum Found {
    /// By reading weights.
    Read,
    /// By a wait of somebody who asks for nothing.
    Wait,
    /// After another step on top.
    Step,
}

/// Names and bytes of all parameters and states, each or its error.
fn read(model: &Model<Net>) -> Vec<(String, thalweg_nn::Result<Vec<u8>>)> {
    let bytes = |tensor| Ok(Column::of(&tensor)?.to_le_bytes());
    let named = model.named().into_iter();
    named.map(|(name, tensor)| (name, bytes(tensor))).collect()
}

/// Two steps whose work fails after it was accepted. Once that is found, a weight is the one before the step or an error, until a
/// checkpoint is loaded. The number of faults that were seen.
fn later_steps(
    backend: &Backend,
    rules: &str,
    (mode, found): (Mode, Found),
    clean: &[Vec<(String, Vec<u8>)>],
    path: &Path,
) -> usize {
    let (cx, mut model, x, y) = ready(backend, mode);
    let device = cx.device().clone();
    let mut faults = 0;
    for wanted in clean {
        model.save(path).unwrap();
        let before = weights(&model);
        set(backend, rules);
        let mut step = model.train_step(&x, &y).map(|_| ());
        set(backend, "");
        match found {
            Found::Read => {}
            Found::Wait => step = step.and(model.synchronize()),
            Found::Step => step = step.and(model.train_step(&x, &y).map(|_| ())),
        }
        let mut errors: Vec<String> = step.err().into_iter().map(|error| error.to_string()).collect();
        let first = read(&model).into_iter();
        errors.extend(first.filter_map(|(_, read)| Some(read.err()?.to_string())));
        for text in &errors {
            assert!(
                text.contains("made to fail by the layer fault (later@"),
                "{rules}, {found:?}: {text}"
            );
            assert!(!text.contains("work: made to fail"), "{rules}: {text}");
        }
        if errors.is_empty() {
            if !matches!(found, Found::Step) {
                assert_eq!(&weights(&model), wanted, "{rules}, {found:?}");
            }
        } else {
            faults += 1;
            let _ = device.synchronize();
            for ((name, now), (_, before)) in read(&model).into_iter().zip(before) {
                match now {
                    Ok(now) => assert_eq!(now, before, "{name} after {rules}, {mode:?}, {found:?}"),
                    Err(error) => {
                        let text = error.to_string();
                        assert!(text.contains("made to fail by the layer fault (later@"), "{text}");
                        assert!(text.contains("load a checkpoint"), "{text}");
                    }
                }
            }
        }
        model.load(path).unwrap();
        model.train_step(&x, &y).unwrap();
        assert_eq!(
            &weights(&model),
            wanted,
            "again, after {rules}, {mode:?}, {found:?}"
        );
    }
    drop((model, x, y, cx));
    device.synchronize().unwrap();
    let stats = device.memory_stats().unwrap();
    assert_eq!((stats.allocated, stats.live), (0, 0), "after {rules}");
    faults
}

fn sweep_later(step: u64) -> usize {
    let backend = backend();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let mut faults = 0;
    for mode in [Mode::Eager, Mode::Graph] {
        let clean = clean(&backend, mode);
        for found in [Found::Read, Found::Wait, Found::Step] {
            for burst in [1, 3] {
                let (mut quiet, mut number) = (0, 1);
                while quiet < 4 {
                    let rules = burst_of("later", number, burst);
                    let seen = later_steps(&backend, &rules, (mode, found), &clean, &path);
                    faults += seen;
                    quiet = if seen > 0 { 0 } else { quiet + 1 };
                    number += step;
                }
            }
        }
    }
    faults
}

#[test]
fn what_fails_later_leaves_weights_before_the_step_or_errors() {
    let faults = sweep_later(17);
    assert!(faults >= 10, "{faults} faults");
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
