//! No element beside an operand is read or written: each lies between pages that may not be touched, once at either end.

use super::{Case, Rng, STRIPES, Threads, isas};
use crate::library::matmul::{After, Before, MatMut, MatRef, Problem, typed};
use half::{bf16, f16};
use std::ptr::null_mut;

/// Memory whose first or last byte is beside a page that may not be touched.
pub(super) struct Guarded {
    pages: *mut u8,
    bytes: usize,
    pub(super) start: *mut u8,
}

const PAGE: usize = 4096;

impl Guarded {
    pub(super) fn new<T: Copy>(values: &[T], at_end: bool) -> Self {
        let size = size_of_val(values);
        let inner = size.next_multiple_of(PAGE);
        let bytes = inner + 2 * PAGE;
        // SAFETY: a fresh mapping, of which the inner pages become usable; the values fit there.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let pages = libc::mmap(null_mut(), bytes, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(pages, libc::MAP_FAILED);
            let first = pages.cast::<u8>().add(PAGE);
            let usable = libc::PROT_READ | libc::PROT_WRITE;
            assert_eq!(libc::mprotect(first.cast(), inner, usable), 0);
            let start = first.add(if at_end { inner - size } else { 0 });
            start.copy_from_nonoverlapping(values.as_ptr().cast(), size);
            Self {
                pages: pages.cast(),
                bytes,
                start,
            }
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`.
        unsafe { libc::munmap(self.pages.cast(), self.bytes) };
    }
}

/// Steps between rows and between columns.
fn steps(by_columns: bool, rows: usize, cols: usize) -> (isize, isize) {
    match by_columns {
        true => (1, rows as isize),
        false => (cols as isize, 1),
    }
}

fn check<T: Case>(p: Problem, rng: &mut Rng) {
    let Problem { m, n, k, .. } = p;
    let a: Vec<T> = (0..m * k).map(|_| T::random(rng)).collect();
    let b: Vec<T> = (0..k * n).map(|_| T::random(rng)).collect();
    let c = vec![T::narrow(T::ZERO); m * n];
    for bits in 0..16 {
        let bit = |at: u32| bits >> at & 1 == 1;
        let (on_a, on_b, on_c) = (steps(bit(0), m, k), steps(bit(1), k, n), steps(bit(2), m, n));
        for (isa, codegen) in isas().flat_map(|isa| [true, false].map(|codegen| (isa, codegen))) {
            let operands = [Guarded::new(&a, bit(3)), Guarded::new(&b, bit(3))];
            let out = Guarded::new(&c, bit(3));
            let [a_ref, b_ref] =
                [(&operands[0], on_a), (&operands[1], on_b)].map(|(memory, (row, col))| MatRef {
                    ptr: memory.start,
                    batch_stride: 0,
                    row_stride: row,
                    col_stride: col,
                    packed: std::ptr::null(),
                });
            let result = MatMut {
                ptr: out.start,
                batch_stride: 0,
                row_stride: on_c.0,
                col_stride: on_c.1,
            };
            let kernels = T::kernels(isa, codegen);
            // SAFETY: the steps stay inside the operands; the machine has the instruction set.
            unsafe {
                let one = &Threads(1);
                let before = Before::of::<T>();
                for before in [STRIPES, Before { blocks: 0, ..before }, before] {
                    typed::<T>(
                        (isa, codegen),
                        [kernels; 2],
                        &p,
                        a_ref,
                        b_ref,
                        result,
                        one,
                        After::Nothing,
                        before,
                    );
                }
            };
            let last = (m - 1) as isize * on_c.0 + (n - 1) as isize * on_c.1;
            // SAFETY: an element of the result.
            let got = unsafe { *out.start.cast::<T::Out>().offset(last) };
            let at = |data: &[T], (row, col): (isize, isize), i: usize, j: usize| {
                data[i * row as usize + j * col as usize]
            };
            let row: Vec<T> = (0..k).map(|l| at(&a, on_a, m - 1, l)).collect();
            let column: Vec<T> = (0..k).map(|l| at(&b, on_b, l, n - 1)).collect();
            T::check(got, &row, &column);
        }
    }
}

#[test]
fn nothing_beside_the_operands_is_touched() {
    let mut rng = Rng(3);
    for round in 0..24 {
        let most = if round % 4 == 0 { 90 } else { 40 };
        let mut extent = || 1 + rng.below(most);
        let (m, n, k) = (extent(), extent(), extent());
        let p = Problem { batch: 1, m, n, k };
        check::<f32>(p, &mut rng);
        check::<f64>(p, &mut rng);
        check::<i32>(p, &mut rng);
        check::<bf16>(p, &mut rng);
    }
}

#[test]
fn nor_beside_those_of_few_rows() {
    let mut rng = Rng(5);
    for (m, n, k) in [(1, 70, 45), (2, 515, 133), (8, 515, 133), (515, 3, 133)] {
        let p = Problem { batch: 1, m, n, k };
        check::<f32>(p, &mut rng);
        check::<f64>(p, &mut rng);
        check::<bf16>(p, &mut rng);
        check::<f16>(p, &mut rng);
    }
}
