//! Any bytes are an array of NumPy's, an archive of them, or refused; what is read is written and read back to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::Cursor;
use thalweg::interchange::{npy, npz};
use thalweg::{Result, Tensor};
use thalweg_fuzz::context;

/// Arrays of more bytes are not read back.
const MOST: usize = 1 << 20;

fn survives(tensor: Result<Tensor>) {
    let Ok(tensor) = tensor else { return };
    let (Ok(shape), Ok(dtype)) = (tensor.shape(), tensor.dtype()) else {
        panic!("a tensor that was read has an error: {:?}", tensor.ok().err());
    };
    if shape.elements() * dtype.size() > MOST {
        return;
    }
    // What turns axes needs a kernel.
    let Ok(bytes) = npy::encode(&tensor) else { return };
    let again = npy::decode(&bytes, context()).expect("what was written is read");
    assert_eq!(
        (again.shape().ok(), again.dtype().ok()),
        (Some(shape), Some(dtype))
    );
    assert_eq!(npy::encode(&again).ok(), Some(bytes));
}

fuzz_target!(|data: &[u8]| {
    survives(npy::decode(data, context()));
    let Ok(mut archive) = npz::Archive::new(Cursor::new(data)) else {
        return;
    };
    for name in archive.names() {
        survives(archive.tensor(&name, context()));
    }
});
