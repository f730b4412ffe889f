//! Against a loop over one lane after the other, with the same bits for every layout and number of threads.

use super::*;

/// As many threads, one after the other.
struct Threads(usize);

impl Parallel for Threads {
    fn threads(&self) -> usize {
        self.0
    }
    fn run(&self, n: usize, body: &(dyn Fn(usize) + Sync)) {
        (0..n).for_each(body);
    }
}

/// Memory whose first element lies `shift` elements beyond a line.
fn room(len: usize, shift: usize) -> (Vec<f32>, usize) {
    let memory = vec![f32::NAN; len + 64];
    let first = memory.as_ptr().align_offset(LINE) + shift;
    (memory, first)
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
    let span = |strides: [i64; 2]| lanes * strides[0] as usize + len * strides[1] as usize;
    let ((mut from, first_from), (mut to, first_to)) = (room(span(x), 0), room(span(out), shift));
    for lane in 0..lanes {
        for i in 0..len {
            let at = first_from + lane * x[0] as usize + i * x[1] as usize;
            from[at] = ((lane * 31 + i * 17) % 97) as f32 / 64.0 - 0.7;
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
            arg(from[first_from..].as_mut_ptr(), &strides.0),
            arg(to[first_to..].as_mut_ptr(), &strides.1),
        ],
        scalars: &[],
    };
    // SAFETY: both sides have the elements.
    unsafe { kernel.run(&args, &Threads(threads)) };
    for lane in 0..lanes {
        let mut sum = nothing::<f32>(&scan);
        for i in 0..len {
            let value = from[first_from + lane * x[0] as usize + i * x[1] as usize];
            let next = match op {
                _ if i >= held => sum,
                ReduceOp::Sum => join::<f32, 1>(sum, value),
                _ => join::<f32, 3>(sum, value),
            };
            let got = to[first_to + lane * out[0] as usize + i * out[1] as usize];
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
