//! Gradients of strided layers with a group for each channel: all phases of some planes of the result are computed to scratch memory, and
//! go to the result line by line. Each alone would write every second element, and all lines again.

use super::plan::GRAIN_OF_GROUPS;
use super::{Job, lines};
use crate::library::conv::geometry::{AXES, Pass};
use crate::library::conv::operands::{Gathered, Rows, Shared, Sizes, Weights};
use crate::library::conv::words::ConvKernels;
use crate::library::gemm::{Scratch, Stored};
use crate::parallel::Parallel;

/// Bytes of the planes that are computed before they go to the result.
const FINISHED: usize = 128 << 10;

/// Elements of a phase's line from which on it fills registers. Shorter ones go to the result element by element.
const LEAST: usize = 16;

/// Whether the passes over the phases of a result with such strides are taken together.
pub(in crate::library::conv) fn suits(passes: &[Pass], sizes: &Sizes, spatial: [isize; AXES]) -> bool {
    passes.len() > 1
        && (sizes.rows, sizes.channels, spatial[2]) == (1, 1, 1)
        && passes
            .iter()
            .all(|pass| lines::suits(sizes, pass) && pass.axes[2].count >= LEAST)
}

/// As [`super::run`] for each of the passes; `target` is the whole result.
///
/// # Safety
/// As there.
pub(in crate::library::conv) unsafe fn run<T: Stored>(
    kernels: &ConvKernels<T>,
    passes: &[Pass],
    (sizes, gathered, weights): (Sizes, Gathered<T>, Weights<T>),
    target: Rows<*mut T>,
    parallel: &dyn Parallel,
) {
    let positions = |pass: &Pass| pass.count().iter().product::<usize>();
    let plane: usize = passes.iter().map(positions).sum();
    let planes = sizes.samples * sizes.groups;
    if plane * planes == 0 {
        return;
    }
    // A job over planes of a phase, one behind the other.
    let job = |pass, ptr: *mut T| {
        let [_, lines, count] = Pass::count(pass);
        Job {
            sizes,
            gathered,
            weights,
            target: Rows {
                ptr,
                sample: (sizes.groups * positions(pass)) as isize,
                group: positions(pass) as isize,
                row: 0,
                spatial: [(lines * count) as isize, count as isize, 1],
            },
            pass,
        }
    };
    // SAFETY: the weights are the caller's.
    let planned: Vec<_> = (passes.iter())
        .map(|pass| unsafe { lines::Planned::new(kernels, &job(pass, std::ptr::null_mut())) })
        .collect();
    let work: usize = (passes.iter())
        .map(|pass| positions(pass).saturating_mul(pass.taps()))
        .sum();
    let useful = (parallel.threads())
        .min(work.saturating_mul(planes) / GRAIN_OF_GROUPS)
        .max(1);
    let most = match useful {
        1 => planes,
        _ => planes.div_ceil(4 * useful),
    };
    let together = (FINISHED / (plane * size_of::<T>())).clamp(1, most);
    let shared = Shared((kernels, &planned, target, &job));
    let shared = &shared;
    let body = |index: usize| {
        let (kernels, planned, target, job) = shared.0;
        let range = index * together..((index + 1) * together).min(planes);
        let scratch = Scratch::take(together * plane * size_of::<T>());
        let mut start: *mut T = scratch.start().cast();
        let mut phases = Vec::with_capacity(passes.len());
        for (pass, planned) in passes.iter().zip(planned) {
            let size = positions(pass);
            // SAFETY: the scratch memory has room for the planes of all phases; the operands are the caller's.
            unsafe {
                planned.planes(
                    kernels,
                    &job(pass, start.wrapping_sub(range.start * size)),
                    range.clone(),
                )
            };
            phases.push(start.cast_const());
            start = start.wrapping_add(together * size);
        }
        for (at, plane) in range.enumerate() {
            let (sample, group) = (plane / sizes.groups, plane % sizes.groups);
            let offset = sample as isize * target.sample + group as isize * target.group;
            let to = target.ptr.wrapping_offset(offset);
            // SAFETY: the planes are those of the result, and tasks have different ones.
            unsafe { put(passes, &phases, at, (to, target.spatial)) };
        }
    };
    let tasks = planes.div_ceil(together);
    match useful {
        1 => (0..tasks).for_each(body),
        _ => parallel.run(tasks, &body),
    }
}

/// Puts plane `at` of each phase into a plane of the result.
///
/// # Safety
/// Both are there.
unsafe fn put<T: Copy>(
    passes: &[Pass],
    phases: &[*const T],
    at: usize,
    (to, spatial): (*mut T, [isize; AXES]),
) {
    let place = |pass: &Pass| [pass.axes[0].first, pass.axes[1].first];
    let of_lines = passes
        .iter()
        .take_while(|pass| place(pass) == place(&passes[0]))
        .count();
    for (passes, phases) in passes.chunks(of_lines).zip(phases.chunks(of_lines)) {
        let [a, b, _] = &passes[0].axes;
        for i in 0..a.count {
            for j in 0..b.count {
                let line = (a.first + i * a.every) as isize * spatial[0]
                    + (b.first + j * b.every) as isize * spatial[1];
                let to = to.wrapping_offset(line);
                let from = |phase: usize| {
                    let count = passes[phase].axes[2].count;
                    let first = ((at * a.count + i) * b.count + j) * count;
                    // SAFETY: the caller's promise.
                    unsafe { std::slice::from_raw_parts(phases[phase].wrapping_add(first), count) }
                };
                let count: usize = passes.iter().map(|pass| pass.axes[2].count).sum();
                // SAFETY: the caller's promise: a line of the result has the elements of all phases.
                let to = unsafe { std::slice::from_raw_parts_mut(to, count) };
                match passes.len() {
                    1 => to.copy_from_slice(from(0)),
                    2 => interleave(to, from(0), from(1)),
                    phases => {
                        for phase in 0..phases {
                            to[phase..]
                                .iter_mut()
                                .step_by(phases)
                                .zip(from(phase))
                                .for_each(|(to, &from)| *to = from);
                        }
                    }
                }
            }
        }
    }
}

/// `even` has as many elements as `odd`, or one more.
fn interleave<T: Copy>(to: &mut [T], even: &[T], odd: &[T]) {
    let (pairs, rest) = to.as_chunks_mut::<2>();
    for ((pair, &even), &odd) in pairs.iter_mut().zip(even).zip(odd) {
        *pair = [even, odd];
    }
    if let ([last], [.., even]) = (rest, even) {
        *last = *even;
    }
}
