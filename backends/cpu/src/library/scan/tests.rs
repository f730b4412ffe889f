//! Against a loop over one lane after the other, with the same bits for every layout and number of threads.

use super::lanes::join;
use super::*;
use crate::parallel::Turns;
use half::{bf16, f16};
use thalweg_hal::ir::ReduceOp;

/// Memory whose first element lies `shift` elements beyond a line.
fn room(len: usize, shift: usize) -> (Vec<f32>, usize) {
    let memory = vec![f32::NAN; len + 64];
    let first = memory.as_ptr().align_offset(LINE) + shift;
    (memory, first)
}

/// The place of an element; lanes that go back start at their end.
fn place(strides: [i64; 2], len: usize, lane: usize, i: usize) -> usize {
    let start = if strides[1] < 0 {
        (1 - len as i64) * strides[1]
    } else {
        0
    };
    (start + lane as i64 * strides[0] + i as i64 * strides[1]) as usize
}

/// Elements of memory that `lanes` lie in.
fn span(strides: [i64; 2], [lanes, len]: [usize; 2]) -> usize {
    lanes * strides[0] as usize + len * strides[1].unsigned_abs() as usize
}

/// Scans matrices of `extents`, of which the second axis lies `x.0` and `out.0` apart and the first `x.1` and `out.1`.
fn check(
    op: ReduceOp,
    exclusive: bool,
    extents: [usize; 2],
    [x, out]: [[i64; 2]; 2],
    shift: usize,
    threads: usize,
) {
    let scan = Scan {
        batch: 1,
        op,
        exclusive,
        dtype: DType::F32,
        accumulate: DType::F32,
        output: DType::F32,
    };
    let kernel = ScanKernel::compile(&LibraryOp::Scan(scan.clone()), &scan, Isa::detect()).expect("compiles");
    let [lanes, len] = extents;
    let ((mut from, first_from), (mut to, first_to)) =
        (room(span(x, extents), 0), room(span(out, extents), shift));
    for lane in 0..lanes {
        for i in 0..len {
            from[first_from + place(x, len, lane, i)] = ((lane * 31 + i * 17) % 97) as f32 / 64.0 - 0.7;
        }
    }
    let arg = |ptr: *mut f32, strides| Arg {
        ptr: ptr.cast(),
        strides,
        gather_stride: 0,
        gather_extent: 0,
    };
    let held = len - len.min(3);
    let strides = ([x[0], 0, x[1]], out);
    let args = Args {
        extents: &[lanes as u64, len as u64, held as u64],
        args: &[
            arg(from[first_from + place(x, len, 0, 0)..].as_mut_ptr(), &strides.0),
            arg(to[first_to + place(out, len, 0, 0)..].as_mut_ptr(), &strides.1),
        ],
        scalars: &[],
    };
    // SAFETY: both sides have the elements.
    unsafe { kernel.run(&args, &Turns(threads)) };
    for lane in 0..lanes {
        let mut sum = nothing::<f32>(&scan);
        for i in 0..len {
            let value = from[first_from + place(x, len, lane, i)];
            let next = match op {
                _ if i >= held => sum,
                ReduceOp::Sum => join::<f32, 1>(sum, value),
                _ => join::<f32, 3>(sum, value),
            };
            let got = to[first_to + place(out, len, lane, i)];
            let expected = if exclusive { sum } else { next };
            assert_eq!(
                got.to_bits(),
                expected.to_bits(),
                "{extents:?} lane {lane}, element {i}"
            );
            sum = next;
        }
    }
    let written = to.iter().filter(|value| !value.is_nan()).count();
    assert_eq!(written, lanes * len, "{extents:?} {out:?}");
}

#[test]
fn lanes_of_every_layout() {
    // Lanes and elements of each, with few and many of either.
    let shapes = [[1, 70], [5, 33], [64, 19], [200, 65], [4100, 7], [9, 4000]];
    for (at, [lanes, len]) in shapes.into_iter().enumerate() {
        for threads in [1, 3] {
            let by = lanes as i64;
            let whole = |elements: usize| elements.next_multiple_of(16) as i64;
            // Side by side in rows without and with gaps, whole lines and none; lines of their own; and neither.
            let rows = [by, by + 3, whole(lanes) + 16];
            for row in rows {
                for shift in [0, 1] {
                    let (op, exclusive) = if at % 2 == 0 {
                        (ReduceOp::Sum, shift == 1)
                    } else {
                        (ReduceOp::Max, shift == 0)
                    };
                    check(op, exclusive, [lanes, len], [[1, row], [1, row]], shift, threads);
                }
            }
            let line = whole(len);
            check(
                ReduceOp::Sum,
                false,
                [lanes, len],
                [[line, 1], [line, 1]],
                0,
                threads,
            );
            check(
                ReduceOp::Sum,
                true,
                [lanes, len],
                [[line + 1, 1], [line + 1, 1]],
                0,
                threads,
            );
            // The last element of a lane is the first of a line of memory in one of these.
            for line in [line, line + 1] {
                for shift in [0, (16 - len % 16) % 16] {
                    let strides = [[line, -1], [line, -1]];
                    check(ReduceOp::Sum, false, [lanes, len], strides, shift, threads);
                }
            }
            check(
                ReduceOp::Max,
                false,
                [lanes, len],
                [[line, 1], [1, by]],
                0,
                threads,
            );
        }
    }
}

/// Scans `lanes` of `len` elements whose first 3 from the end do not exist, and compares with `next` of one after the other.
fn check_type<T: Copy + Default + PartialEq + std::fmt::Debug>(
    scan: &Scan,
    isa: Isa,
    [lanes, len]: [usize; 2],
    [x, out]: [[i64; 2]; 2],
    of: impl Fn(usize) -> T,
    nothing: T,
    next: impl Fn(T, T) -> T,
) {
    let kernel = ScanKernel::compile(&LibraryOp::Scan(scan.clone()), scan, isa).expect("compiles");
    let memory = |strides| vec![T::default(); span(strides, [lanes, len])];
    let (mut from, mut to) = (memory(x), memory(out));
    for lane in 0..lanes {
        for i in 0..len {
            from[place(x, len, lane, i)] = of(lane * 31 + i * 17);
        }
    }
    let held = len - len.min(3);
    let strides = ([x[0], 0, x[1]], out);
    let arg = |ptr: *mut T, strides| Arg {
        ptr: ptr.cast(),
        strides,
        gather_stride: 0,
        gather_extent: 0,
    };
    let args = Args {
        extents: &[lanes as u64, len as u64, held as u64],
        args: &[
            arg(from[place(x, len, 0, 0)..].as_mut_ptr(), &strides.0),
            arg(to[place(out, len, 0, 0)..].as_mut_ptr(), &strides.1),
        ],
        scalars: &[],
    };
    // SAFETY: both sides have the elements.
    unsafe { kernel.run(&args, &Turns(2)) };
    for lane in 0..lanes {
        let mut sum = nothing;
        for i in 0..len {
            let before = sum;
            if i < held {
                sum = next(sum, of(lane * 31 + i * 17));
            }
            let expected = if scan.exclusive { before } else { sum };
            let got = to[place(out, len, lane, i)];
            assert_eq!(got, expected, "{scan:?} {isa:?}: lane {lane}, element {i}");
        }
    }
}

#[test]
fn every_type_in_every_layout() {
    // Lines, lanes side by side, both of which take several turns, and neither.
    let layouts = [
        ([5, 1300], [[1300, 1], [1300, 1]]),
        ([5, 2100], [[2100, -1], [2100, -1]]),
        ([3, 50], [[50, 1], [50, -1]]),
        ([150, 40], [[1, 150], [1, 151]]),
        ([2100, 3], [[1, 2100], [1, 2100]]),
        ([70, 45], [[90, 2], [1, 70]]),
        ([70, 45], [[1, 70], [135, 3]]),
    ];
    let isas = Isa::ALL.into_iter().filter(|isa| isa.is_available());
    for ((isa, exclusive), (extents, strides)) in isas.flat_map(|isa| {
        [(isa, false), (isa, true)]
            .into_iter()
            .flat_map(move |first| layouts.map(|layout| (first, layout)))
    }) {
        let scan = |op: ReduceOp, dtype: DType| Scan {
            batch: 1,
            op,
            exclusive,
            dtype,
            // Small integers do not accumulate in themselves.
            accumulate: if op.rounds() && dtype.size() < 4 {
                DType::I64
            } else {
                dtype
            },
            output: dtype,
        };
        macro_rules! integers {
            ($($t:ident $dtype:ident),*) => {$(
                let of = |at: usize| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as $t | 1;
                let check = |op, nothing, next: fn($t, $t) -> $t| {
                    check_type(&scan(op, DType::$dtype), isa, extents, strides, of, nothing, next)
                };
                check(ReduceOp::Sum, 0, $t::wrapping_add);
                check(ReduceOp::Prod, 1, $t::wrapping_mul);
                check(ReduceOp::Max, $t::MIN, |a, b| a.max(b));
                check(ReduceOp::Min, $t::MAX, |a, b| a.min(b));
            )*};
        }
        integers!(i64 I64, i32 I32, i16 I16, i8 I8, u64 U64, u32 U32, u16 U16, u8 U8);
        macro_rules! halves {
            ($($t:ident $dtype:ident),*) => {$(
                let of = |at: usize| $t::from_f32((at % 97) as f32 / 64.0 - 0.7);
                let check = |op, nothing, next: fn($t, $t) -> $t| {
                    check_type(&scan(op, DType::$dtype), isa, extents, strides, of, nothing, next)
                };
                check(ReduceOp::Max, $t::NEG_INFINITY, |a, b| if a > b { a } else { b });
                check(ReduceOp::Min, $t::INFINITY, |a, b| if a < b { a } else { b });
            )*};
        }
        halves!(f16 F16, bf16 BF16);
        let of = |at: usize| u8::from(at % 89 == 88);
        let check = |op, nothing, next: fn(u8, u8) -> u8| {
            check_type(&scan(op, DType::Bool), isa, extents, strides, of, nothing, next)
        };
        check(ReduceOp::Max, 0, |a, b| a | b);
        check(ReduceOp::Min, 1, |a, b| a & b);
    }
}
