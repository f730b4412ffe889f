//! Rows with reductions as machine code: what a launch gives it.

use super::arena::Scratch;
use super::launch::{FETCH, Launch};
use super::past::fence;
use super::space::MAX_AXES;
use crate::codegen::Rows;
use crate::loops::SEGMENT;
use crate::parallel::Parallel;
use crate::prefetch::LINE;
use smallvec::SmallVec;
use std::ops::Range;

/// Bytes from what is worked on to what is asked for, at least.
const AHEAD: usize = 4096;

/// Whether the code runs a launch along the inner space.
pub(super) fn fits(code: &Rows, launch: &Launch<'_>) -> bool {
    (1..=SEGMENT as u64).contains(&launch.lanes.total) && code.walked.iter().all(|&p| launch.flat[p])
}

/// Runs a launch that fits.
pub(super) fn run(code: &Rows, launch: &Launch<'_>, threads: usize, parallel: &dyn Parallel) {
    launch.split(launch.other.total, threads, parallel, &|rows| {
        // SAFETY: the caller of the launch vouches for the parameters and scalars.
        unsafe { task(code, launch, rows) };
    });
}

/// # Safety
/// The parameters have the elements of the rows.
unsafe fn task(code: &Rows, launch: &Launch<'_>, range: Range<u64>) {
    let (args, other) = (launch.args, &launch.other);
    let n = launch.lanes.total as usize;
    let last = other.rank - 1;
    let size = |p: usize| usize::from(launch.sizes[p]);
    let row_step = |p: usize| other.of(p)[last] as isize * size(p) as isize;
    let kept = (4 * n).next_multiple_of(LINE) + LINE;
    let group = code.group(n);
    let scratch = Scratch::new(kept * code.kept * group);
    // What is far is asked for so many rows before.
    let ahead = |p: usize| -> isize {
        let bytes = launch
            .lanes
            .total
            .saturating_mul(other.total)
            .saturating_mul(size(p) as u64);
        let step = row_step(p);
        match step {
            0 => 0,
            _ if bytes < FETCH => 0,
            _ => step * AHEAD.div_ceil(step.unsigned_abs()).max(group) as isize,
        }
    };
    let params = args.args.len();
    let mut steps: SmallVec<[isize; 16]> = (0..params).map(row_step).collect();
    steps.extend((0..code.kept).map(|_| kept as isize));
    steps.extend(code.ahead.iter().map(|&p| row_step(p)));
    let ahead: SmallVec<[isize; 4]> = code.ahead.iter().map(|&p| ahead(p)).collect();
    let lined = |&p: &usize| {
        let whole = |bytes: usize| bytes.is_multiple_of(LINE);
        let steps = other
            .of(p)
            .iter()
            .all(|&step| whole(step.unsigned_abs() as usize * size(p)));
        whole(args.args[p].ptr.addr()) && steps && whole(4 * n)
    };
    let stream = launch.stream && code.outputs.iter().all(lined);

    let mut addresses: SmallVec<[*mut u8; 16]> = SmallVec::from_elem(std::ptr::null_mut(), steps.len());
    let mut index = [0; MAX_AXES];
    let mut row = range.start;
    while row < range.end {
        other.place(row, &mut index);
        let rows = (other.extents[last] - index[last]).min(range.end - row);
        for (p, arg) in args.args.iter().enumerate() {
            let offset = other.offset(p, &index) as isize * size(p) as isize;
            addresses[p] = arg.ptr.wrapping_offset(offset);
        }
        for k in 0..code.kept {
            addresses[params + k] = scratch.start().wrapping_add(k * kept * group);
        }
        for (k, (&p, &ahead)) in code.ahead.iter().zip(&ahead).enumerate() {
            addresses[params + code.kept + k] = addresses[p].wrapping_offset(ahead);
        }
        // SAFETY: the caller's promise; kept values have a row each.
        unsafe { code.run((rows as usize, n), &mut addresses, &steps, args.scalars, stream) };
        row += rows;
    }
    if stream {
        fence();
    }
}
