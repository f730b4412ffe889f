//! What the stand-in has in place of matrix instructions, with fragments where PTX describes them.

use super::standin;
use half::{bf16, f16};
use libloading::{Library, Symbol};
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;

const SOURCE: &str = concat!(
    include_str!("../../../backends/cstyle/src/prelude/cuda.cu"),
    include_str!("../../../backends/cstyle/src/prelude/cuda_f16.cu"),
    include_str!("../../../backends/cstyle/src/prelude/cuda_matrix.cu"),
    "/* end of helpers */\n",
    include_str!("matrix.cu"),
);

type Program = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    i32,
    *const c_void,
    *const c_void,
) -> u32;

/// A program of the stand-in for NVRTC as a library.
fn compiled() -> Library {
    // SAFETY: functions have the types of the stand-in's sources, and pointers are valid during a call.
    unsafe {
        let nvrtc = Library::new(standin().join("libnvrtc.so.13")).unwrap();
        let create: Symbol<'_, Create> = nvrtc.get(b"nvrtcCreateProgram").unwrap();
        let compile: Symbol<'_, unsafe extern "C" fn(Program, i32, *const *const c_char) -> u32> =
            nvrtc.get(b"nvrtcCompileProgram").unwrap();
        let size: Symbol<'_, unsafe extern "C" fn(Program, *mut usize) -> u32> =
            nvrtc.get(b"nvrtcGetCUBINSize").unwrap();
        let code: Symbol<'_, unsafe extern "C" fn(Program, *mut u8) -> u32> =
            nvrtc.get(b"nvrtcGetCUBIN").unwrap();
        let log: Symbol<'_, unsafe extern "C" fn(Program, *mut c_char) -> u32> =
            nvrtc.get(b"nvrtcGetProgramLog").unwrap();
        let (source, option) = (CString::new(SOURCE).unwrap(), c"--gpu-architecture=sm_90");
        let mut program = ptr::null_mut();
        let name = c"matrix.cu".as_ptr();
        assert_eq!(
            create(
                &raw mut program,
                source.as_ptr(),
                name,
                0,
                ptr::null(),
                ptr::null()
            ),
            0
        );
        if compile(program, 1, &option.as_ptr()) != 0 {
            let mut text = vec![0; 1 << 20];
            log(program, text.as_mut_ptr());
            panic!("{:?}", CStr::from_ptr(text.as_ptr()));
        }
        let mut length = 0;
        size(program, &raw mut length);
        let mut bytes = vec![0; length];
        code(program, bytes.as_mut_ptr());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("matrix.so");
        // A mark and the length stand before the library.
        std::fs::write(&file, &bytes[16..]).unwrap();
        Library::new(file).unwrap()
    }
}

/// Runs an entry as one warp.
fn product<T>(library: &Library, entry: &str, a: &[T], b: &[T]) -> Vec<f32> {
    let mut c = vec![f32::NAN; 16 * 8];
    // SAFETY: the entry reads 256 and 128 elements and writes 128, and takes pointers to its arguments.
    unsafe {
        let run: Symbol<'_, unsafe extern "C" fn(u32, u32, *mut *mut c_void)> =
            library.get(format!("standin_run_{entry}").as_bytes()).unwrap();
        let (mut left, mut right, mut out) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
        let mut arguments = [
            (&raw mut left).cast(),
            (&raw mut right).cast(),
            (&raw mut out).cast(),
        ];
        run(1, 32, arguments.as_mut_ptr());
    }
    c
}

/// Small integers, whose sums are exact.
fn value(at: usize) -> f32 {
    (at * 37 % 17) as f32 - 8.0
}

fn expected(rows: usize) -> Vec<f32> {
    let row = |i: usize| {
        (0..8).map(move |j| {
            let sum: f32 = (0..16).map(|k| value(i * 16 + k) * value(1000 + k * 8 + j)).sum();
            if i < rows { sum } else { 0.0 }
        })
    };
    (0..16).flat_map(row).collect()
}

#[repr(align(16))]
struct Aligned<T, const N: usize>([T; N]);

#[test]
fn products_of_small_matrices() {
    let library = compiled();
    let halves = |of: fn(f32) -> u16| {
        let a = Aligned::<u16, 256>(std::array::from_fn(|at| of(value(at))));
        let b = Aligned::<u16, 128>(std::array::from_fn(|at| of(value(1000 + at))));
        (a, b)
    };
    let (a, b) = halves(|value| f16::from_f32(value).to_bits());
    assert_eq!(product(&library, "product_f16", &a.0, &b.0), expected(12));
    let (a, b) = halves(|value| bf16::from_f32(value).to_bits());
    assert_eq!(product(&library, "product_bf16", &a.0, &b.0), expected(16));
    // What lies behind the digits of TF32 does not count.
    let a: Vec<f32> = (0..256)
        .map(|at| value(at) * (1.0 + f32::EPSILON * 2048.0))
        .collect();
    let b: Vec<f32> = (1000..1128).map(value).collect();
    assert_eq!(product(&library, "product_tf32", &a, &b), expected(16));
}
