//! Values in files: what is dumped, by whom, and what happens when it cannot be.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "dump/environment.rs"]
mod environment;
#[path = "dump/exception.rs"]
mod exception;
#[path = "dump/files.rs"]
mod files;
#[path = "dump/keys.rs"]
mod keys;
#[path = "dump/overflow.rs"]
mod overflow;
#[path = "dump/reader.rs"]
mod reader;

use std::path::Path;
use thalweg::interchange::{npy, safetensors};
use thalweg::observe::{self, DumpOptions};
use thalweg::{Context, Tensor};

/// A context of its own.
fn cx() -> Context {
    Context::new("cpu").unwrap()
}

/// Everything into a folder.
fn options(folder: &Path) -> DumpOptions {
    DumpOptions::to(folder.to_str().unwrap())
}

/// A network with names and more than one kernel.
fn network(x: &Tensor) -> Tensor {
    let _scope = observe::scope("head");
    let hidden = x.matmul(&x.t()).relu() + 1.0;
    hidden.softmax(1).sum_axes(0)
}

fn input(cx: &Context) -> Tensor {
    Tensor::from_slice(&[0.5_f32, -1.25, 2.0, 0.25, 3.0, -0.125], [2, 3], cx)
}

/// The bytes of a tensor's elements.
fn bytes(tensor: &Tensor) -> Vec<u8> {
    if let Ok(file) = npy::encode(tensor) {
        let header = usize::from(u16::from_le_bytes([file[8], file[9]]));
        return file[10 + header..].to_vec();
    }
    // NumPy has no type for it.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    safetensors::save(&path, &[("x", tensor)], &[("", ""); 0]).unwrap();
    let file = std::fs::read(path).unwrap();
    let header = u64::from_le_bytes(file[..8].try_into().unwrap());
    file[8 + header as usize..].to_vec()
}

/// Dumps what `run` computes.
fn dumped(cx: &Context, options: &DumpOptions, run: impl FnOnce()) {
    let dump = cx.dump(options).unwrap();
    observe::restart_calls();
    run();
    dump.finish().unwrap();
}
