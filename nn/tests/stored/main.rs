//! Layers, optimizers, schedules, metrics and whole trainings against values of PyTorch and scikit-learn (`tests/data`).
#![allow(clippy::unwrap_used, reason = "a test")]

mod curves;
mod layers;
mod metrics;
mod rules;

use std::path::Path;
use thalweg::{Context, DType, Tensor};
use thalweg_nn::checkpoint::{self, Loaded};

/// A file of `tests/data`.
fn stored(name: &str, cx: &Context) -> Loaded {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    checkpoint::load(&folder.join(format!("{name}.safetensors")), cx).unwrap()
}

/// The tensors whose names begin so, without that beginning.
fn part(file: &Loaded, prefix: &str) -> Loaded {
    let rest = |(name, tensor): (&String, &Tensor)| {
        name.strip_prefix(prefix)
            .map(|rest| (rest.to_owned(), tensor.clone()))
    };
    Loaded {
        tensors: file.tensors.iter().filter_map(rest).collect(),
        ..file.clone()
    }
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.cast(DType::F64).to_vec().unwrap()
}

/// The greatest difference, relative to numbers above 1.
fn distance(found: &[f64], wanted: &[f64]) -> f64 {
    assert_eq!(found.len(), wanted.len());
    let pairs = found.iter().zip(wanted);
    let differences = pairs.map(|(found, wanted)| (found - wanted).abs() / wanted.abs().max(1.0));
    // NaN is no small difference.
    differences.fold(0.0, |most, one| if one <= most { most } else { one })
}

#[track_caller]
fn close(what: &str, found: &Tensor, wanted: &Tensor, tolerance: f64) {
    assert_eq!(found.shape().unwrap(), wanted.shape().unwrap(), "{what}");
    let distance = distance(&numbers(found), &numbers(wanted));
    assert!(distance <= tolerance, "{what}: off by {distance:e}");
}
