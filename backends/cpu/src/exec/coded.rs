//! Rows with reductions as machine code: what a launch gives it.

use super::arena::Scratch;
use super::launch::{FETCH, Launch};
use super::past::fence;
use super::space::MAX_AXES;
use super::transpose::transpose;
use crate::codegen::Rows;
use crate::loops::SEGMENT;
use crate::parallel::Parallel;
use crate::prefetch::LINE;
use smallvec::SmallVec;
use std::ops::Range;

/// Bytes from what is worked on to what is asked for, at least.
const AHEAD: usize = 4096;

/// Bytes of the sheets of a block of rows: a first-level cache has room for them.
const SHEETS: usize = 24 << 10;
/// Rows of a block with sheets: a line of the cache at least, and the most.
const SHEET_ROWS: [usize; 2] = [16, 512];

/// Whether a parameter's elements of a row stand apart, and those of neighbouring rows one after the other: blocks of it are
/// transposed to a sheet, or from one.
fn is_turned(launch: &Launch<'_>, p: usize) -> bool {
    let (lanes, other) = (&launch.lanes, &launch.other);
    let last = other.rank - 1;
    !launch.flat[p] && lanes.rank == 1 && other.of(p)[last] == 1 && other.extents[last] >= 4
}

/// Whether the code runs a launch along the inner space.
pub(super) fn fits(code: &Rows, launch: &Launch<'_>) -> bool {
    (1..=SEGMENT as u64).contains(&launch.lanes.total)
        && (code.walked.iter()).all(|&p| launch.flat[p] || is_turned(launch, p))
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
    let mut turned: SmallVec<[usize; 4]> = code.walked.iter().copied().collect();
    turned.retain(|&mut p| is_turned(launch, p));
    turned.sort_unstable();
    turned.dedup();
    let pitch = |p: usize| (n * size(p)).next_multiple_of(LINE) + LINE;
    let pitches: usize = turned.iter().map(|&p| pitch(p)).sum();
    let block = match SHEETS.checked_div(pitches) {
        Some(rows) => {
            let [least, most] = SHEET_ROWS;
            (rows / least * least).clamp(least, most)
        }
        None => usize::MAX,
    };
    let scratch = Scratch::new(kept * code.kept * group + pitches.saturating_mul(block));
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
            _ if bytes < FETCH || turned.contains(&p) => 0,
            _ => step * AHEAD.div_ceil(step.unsigned_abs()).max(group) as isize,
        }
    };
    let params = args.args.len();
    let mut steps: SmallVec<[isize; 16]> = (0..params).map(row_step).collect();
    for &p in &turned {
        steps[p] = pitch(p) as isize;
    }
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
    let stream = launch.stream && code.outputs.iter().all(|p| !turned.contains(p) && lined(p));

    let mut addresses: SmallVec<[*mut u8; 16]> = SmallVec::from_elem(std::ptr::null_mut(), steps.len());
    let mut index = [0; MAX_AXES];
    let mut row = range.start;
    while row < range.end {
        other.place(row, &mut index);
        let rows = (other.extents[last] - index[last])
            .min(range.end - row)
            .min(block as u64);
        for (p, arg) in args.args.iter().enumerate() {
            let offset = other.offset(p, &index) as isize * size(p) as isize;
            addresses[p] = arg.ptr.wrapping_offset(offset);
        }
        for k in 0..code.kept {
            addresses[params + k] = scratch.start().wrapping_add(k * kept * group);
        }
        let mut sheet = scratch.start().wrapping_add(code.kept * kept * group);
        let mut written: SmallVec<[(usize, *mut u8); 2]> = SmallVec::new();
        for &p in &turned {
            let from = std::mem::replace(&mut addresses[p], sheet);
            if code.outputs.contains(&p) {
                written.push((p, from));
            } else {
                let step = launch.lanes.of(p)[0] as isize;
                let to = (sheet, (pitch(p) / size(p)) as isize);
                // SAFETY: the caller's promise; the sheet has so many rows of `n` elements.
                unsafe { transpose(size(p), to, (from, step), rows as usize, n) };
            }
            sheet = sheet.wrapping_add(pitch(p) * block);
        }
        for (k, (&p, &ahead)) in code.ahead.iter().zip(&ahead).enumerate() {
            addresses[params + code.kept + k] = addresses[p].wrapping_offset(ahead);
        }
        // SAFETY: the caller's promise; kept values have a row each.
        unsafe { code.run((rows as usize, n), &mut addresses, &steps, args.scalars, stream) };
        for (p, to) in written {
            let step = launch.lanes.of(p)[0] as isize;
            // The code has gone on by the rows.
            let from = addresses[p].wrapping_offset(-(rows as isize) * steps[p]);
            let from = (from.cast_const(), (pitch(p) / size(p)) as isize);
            // SAFETY: as before.
            unsafe { transpose(size(p), (to, step), from, n, rows as usize) };
        }
        row += rows;
    }
    if stream {
        fence();
    }
}
