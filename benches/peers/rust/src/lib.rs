//! Peers that are Rust crates, behind a C interface: `worker.py` prepares inputs, takes the time and checks the answers.

mod burn;
mod candle;

use std::ffi::{CStr, c_char};
use std::slice;

// The constants of `cases.py` and `networks.py`.
const K: f64 = 1.7;
const MU: f64 = 0.3;
const CHUNK: usize = 1_000_000;
const EPS: f64 = 1e-5;
const RATE: f64 = 1e-3;
const HEADS: usize = 6;
const STAGES: [(usize, usize); 4] = [(64, 1), (128, 2), (256, 2), (512, 2)];

/// An array of the caller.
#[repr(C)]
pub struct Array {
    values: *const f32,
    sizes: *const usize,
    rank: usize,
}

struct Input<'a> {
    values: &'a [f32],
    sizes: &'a [usize],
}

/// A result as its sizes and its values; indices fit into f32.
trait Answer {
    fn read(&self) -> (Vec<usize>, Vec<f32>);
}

/// A computation on inputs that it holds.
pub trait Work {
    fn run(&mut self, times: usize);
    fn answer(&self) -> Option<(Vec<usize>, Vec<f32>)>;
}

struct Repeated<T, F> {
    compute: F,
    result: Option<T>,
}

impl<T: Answer, F: FnMut() -> T> Work for Repeated<T, F> {
    fn run(&mut self, times: usize) {
        for _ in 0..times {
            // A result is gone before the next begins, as where a caller does not keep it.
            self.result = None;
            self.result = Some((self.compute)());
        }
    }

    fn answer(&self) -> Option<(Vec<usize>, Vec<f32>)> {
        self.result.as_ref().map(T::read)
    }
}

fn work<T: Answer + 'static>(compute: impl FnMut() -> T + 'static) -> Box<dyn Work> {
    Box::new(Repeated {
        compute,
        result: None,
    })
}

/// The targets of a training step.
fn classes(rows: usize) -> impl Iterator<Item = u32> {
    (0..rows as u32).map(|row| row * 7 % 10)
}

/// Null where the library cannot do the op. The inputs of a network are followed by its parameters, in the order of `networks.py`.
///
/// # Safety
/// The strings end in zero, `arrays` has `count` entries, and each is as large as its sizes say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prepare(
    library: *const c_char,
    op: *const c_char,
    arrays: *const Array,
    count: usize,
) -> *mut Box<dyn Work> {
    // SAFETY: as the caller promises.
    let (library, op, arrays) = unsafe {
        (
            CStr::from_ptr(library),
            CStr::from_ptr(op),
            slice::from_raw_parts(arrays, count),
        )
    };
    let inputs = arrays.iter().map(|array| {
        // SAFETY: as the caller promises.
        unsafe {
            let sizes = slice::from_raw_parts(array.sizes, array.rank);
            let values = slice::from_raw_parts(array.values, sizes.iter().product());
            Input { values, sizes }
        }
    });
    let inputs: Vec<_> = inputs.collect();
    let prepare = match library.to_bytes() {
        b"burn" => self::burn::prepare,
        b"candle" => self::candle::prepare,
        _ => return std::ptr::null_mut(),
    };
    let work = prepare(&op.to_string_lossy(), &inputs);
    work.map_or(std::ptr::null_mut(), |work| Box::into_raw(Box::new(work)))
}

/// Computes `times` times.
///
/// # Safety
/// `work` comes from [`prepare`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn run(work: *mut Box<dyn Work>, times: usize) {
    // SAFETY: as the caller promises.
    unsafe { &mut *work }.run(times);
}

/// Writes the sizes of the last result, and its values if there is a place for them, and returns the rank.
///
/// # Safety
/// `work` comes from [`prepare`] and has run; `sizes` has room for 8, `values` is null or has room for the result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(work: *const Box<dyn Work>, sizes: *mut usize, values: *mut f32) -> usize {
    // SAFETY: as the caller promises.
    let (shape, data) = unsafe { &*work }.answer().unwrap_or_default();
    // SAFETY: as the caller promises.
    unsafe {
        sizes.copy_from_nonoverlapping(shape.as_ptr(), shape.len());
        if !values.is_null() {
            values.copy_from_nonoverlapping(data.as_ptr(), data.len());
        }
    }
    shape.len()
}

/// Ends what [`prepare`] began.
///
/// # Safety
/// `work` comes from [`prepare`] and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn finish(work: *mut Box<dyn Work>) {
    // SAFETY: as the caller promises.
    drop(unsafe { Box::from_raw(work) });
}
