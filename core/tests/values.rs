//! Values that are watched, the birth of what is no number, and indices outside of their axes.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "values/images.rs"]
mod images;
#[path = "values/indices.rs"]
mod indices;
#[path = "values/numerics.rs"]
mod numerics;
#[path = "values/random.rs"]
mod random;
#[path = "values/watched.rs"]
mod watched;

use std::sync::{Arc, Mutex};
use thalweg::observe::{Port, Selector, Watch};
use thalweg::{Context, DType, Tensor};

/// A value as it was delivered: name, port, line, bits of its elements.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    name: String,
    op: &'static str,
    port: Port,
    line: u32,
    bits: Vec<u64>,
}

/// The bits of the elements of a tensor.
fn bits(tensor: &Tensor) -> Vec<u64> {
    match tensor.dtype().unwrap() {
        DType::F32 => tensor
            .to_vec::<f32>()
            .unwrap()
            .iter()
            .map(|x| u64::from(x.to_bits()))
            .collect(),
        DType::F64 => tensor
            .to_vec::<f64>()
            .unwrap()
            .iter()
            .map(|x| x.to_bits())
            .collect(),
        DType::Bool => tensor
            .to_vec::<bool>()
            .unwrap()
            .iter()
            .map(|x| u64::from(*x))
            .collect(),
        DType::I64 => tensor
            .to_vec::<i64>()
            .unwrap()
            .iter()
            .map(|x| *x as u64)
            .collect(),
        other => panic!("{other}"),
    }
}

/// Watches what `selector` selects; the values are kept.
fn watch(cx: &Context, selector: Selector) -> (Watch, Arc<Mutex<Vec<Seen>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let watch = cx.watch(selector, move |value| {
        let call = value.call();
        sink.lock().unwrap().push(Seen {
            name: call.name.clone(),
            op: call.op,
            port: value.port(),
            line: call.location.map_or(0, std::panic::Location::line),
            bits: bits(value.tensor().unwrap()),
        });
    });
    (watch, seen)
}

/// What was delivered since the last call.
fn taken(seen: &Arc<Mutex<Vec<Seen>>>) -> Vec<Seen> {
    std::mem::take(&mut *seen.lock().unwrap())
}
