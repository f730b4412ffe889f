use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_hal::DType;
use thalweg_hal::Status;
use thalweg_hal::backend::{Bound, Callback, Copy, Fill, Launch, Place, Region};
use thalweg_hal::ir::Kernel;
use thalweg_hal::kit::host_memory::HostChunk;
use thalweg_hal::library::{LibraryOp, Matmul};

const DOUBLE: &str = "kernel double outer=1 inner=0\np0 in f32 row contiguous\np1 out f32 row contiguous\n\
                      n0 = load p0\nn1 = add n0 n0\nn2 = store p1 n1\n";

fn region(chunk: &HostChunk, offset: u64, bytes: u64) -> Region<'_, Reference> {
    Region { chunk, offset, bytes }
}

fn compile(text: &str, options: &str) -> Result<Arc<Compiled>> {
    let kernel = Kernel::parse(text).unwrap();
    let info = kernel.verify().unwrap();
    Reference::new()
        .compile(&Source::Kernel(&kernel, &info), options)
        .map(Arc::new)
}

/// A launch of [`DOUBLE`] from the first four floats of `chunk` to the next four.
fn double<R>(kernel: &Arc<Compiled>, chunk: &HostChunk, then: impl FnOnce(Work<'_, Reference>) -> R) -> R {
    let bound = |offset| Bound {
        region: region(chunk, offset, 16),
        strides: &[],
        gather_stride: 0,
        gather_extent: 0,
    };
    then(Work::Launch(Launch {
        kernel,
        extents: &[4],
        bindings: &[bound(0), bound(16)],
        scalars: &[],
    }))
}

fn submit(stream: &Queue, work: Work<'_, Reference>) {
    // SAFETY: each test synchronises before what its work uses goes away.
    unsafe { Reference::new().submit(stream, &work, Tag::NONE) }.unwrap();
}

fn floats(chunk: &HostChunk) -> Vec<f32> {
    // SAFETY: every chunk here has 512 bytes at least, and its streams are idle.
    unsafe { std::slice::from_raw_parts(chunk.ptr().cast::<f32>(), 8) }.to_vec()
}

#[test]
fn work_runs_in_order_behind_the_callers_back() {
    let (stream, chunk) = (
        Reference::new().create_stream(0).unwrap(),
        Reference::new().reserve(512).unwrap(),
    );
    assert_eq!(chunk.ptr() as usize % 512, 0);
    static GATE: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn wait(_: *mut std::ffi::c_void) -> i32 {
        while !GATE.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        0
    }
    submit(
        &stream,
        Work::Callback(Callback {
            function: wait,
            data: std::ptr::null_mut(),
        }),
    );
    let event = Reference::new().create_event(true).unwrap();
    Reference::new().record(&event, &stream).unwrap();
    let pattern = [0, 0, 0x80, 0x3f, 0, 0, 0x80, 0x3f];
    submit(
        &stream,
        Work::Fill(Fill {
            region: region(&chunk, 0, 16),
            pattern,
            pattern_bytes: 4,
        }),
    );
    double(&compile(DOUBLE, "").unwrap(), &chunk, |work| {
        submit(&stream, work)
    });
    assert!(!Reference::new().is_idle(&stream).unwrap() && !Reference::new().query_event(&event).unwrap());
    GATE.store(true, Ordering::Release);
    Reference::new().synchronize(&stream).unwrap();
    assert!(Reference::new().query_event(&event).unwrap());
    assert_eq!(floats(&chunk), [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0]);
}

#[test]
fn copies_keep_to_their_rows() {
    let (stream, chunk) = (
        Reference::new().create_stream(0).unwrap(),
        Reference::new().reserve(512).unwrap(),
    );
    let all = region(&chunk, 0, 512);
    submit(
        &stream,
        Work::Fill(Fill {
            region: all,
            pattern: [0; 8],
            pattern_bytes: 1,
        }),
    );
    let mut host = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    let src = (Place::Host(host.as_mut_ptr().cast()), 12);
    let dst = (Place::Device(&Reference::new(), region(&chunk, 4, 508)), 16);
    submit(
        &stream,
        Work::Copy(Copy {
            dst,
            src,
            width: 8,
            rows: 2,
        }),
    );
    Reference::new().synchronize(&stream).unwrap();
    assert_eq!(floats(&chunk), [0.0, 1.0, 2.0, 0.0, 0.0, 4.0, 5.0, 0.0]);
}

#[test]
fn what_is_not_offered_is_refused() {
    let option = compile(DOUBLE, "unroll=4").map(|_| ()).unwrap_err();
    assert_eq!(
        option.message,
        "unknown compile option `unroll=4`; there are none"
    );
    let (batch, dtype) = (0, DType::F32);
    let op = LibraryOp::Matmul(Matmul {
        batch,
        operands: [dtype; 2],
        accumulate: dtype,
        output: dtype,
        epilogue: None,
    });
    let refused = Reference::new().supports(&Source::Library(&op)).unwrap_err();
    assert_eq!(refused.status, Status::Unsupported);
    assert_eq!(
        Reference::new().reserve(u64::MAX).map(|_| ()).unwrap_err().status,
        Status::OutOfMemory
    );
    let info = Reference::new().memory_info().unwrap();
    assert!(info.free > 0 && info.free <= info.total);
}
