//! Convolution and its gradients.

mod beside;
mod bytes;
mod code;
mod forward;
mod geometry;
mod lines;
mod operands;
mod outer;
mod packed;
mod pairs;
mod planes;
mod points;
mod product;
mod steps;
#[cfg(test)]
mod tests;
mod tile;
mod weight;
mod winograd;
mod words;

use super::epilogue::{Bound, Epilogue, row_major};
use super::matmul::{MatDType, byte_sums, dtype_of, takes_epilogue};
use crate::exec::{Arg, Args, Program};
use crate::isa::Isa;
use crate::library::gemm::Stored;
use crate::parallel::Parallel;
use forward::Finished;
use geometry::{AXES, Axis, Pass, Window};
use operands::{Gathered, Rows, Sizes, Weights};
use smallvec::SmallVec;
use thalweg_hal::library::{Conv, LibraryOp};
use thalweg_hal::{Error, Result};
use words::{ConvKernels, by_word};

/// Extents beyond this are left to the op's definition, so that no sum of products of them overflows.
const MOST: u64 = 1 << 31;
/// Most phases of the strides of a gradient; beyond, the definition is as fast.
const PASSES: usize = 4096;

/// What is computed from what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// The result from input and weight.
    Forward,
    /// The input's gradient from the result's and the weight.
    GradInput,
    /// The weight's gradient from the input and the result's gradient.
    GradWeight,
}

/// A compiled convolution.
pub struct ConvKernel {
    isa: Isa,
    codegen: bool,
    op: Conv,
    direction: Direction,
    dtype: MatDType,
    epilogue: Option<Epilogue>,
    /// The op's definition, for launches with strides or extents that the kernels here do not take.
    definition: Program,
}

/// A launch in the terms of the routines; strides and extents have their missing spatial axes in front.
struct Launch {
    sizes: Sizes,
    windows: [Window; AXES],
    /// Of parameter 0.
    gathered: Gathered<u8>,
    /// Of w or dw.
    weights: Weights<u8>,
    /// Of the result or dy.
    rows: Rows<*mut u8>,
    out: *mut u8,
}

impl ConvKernel {
    pub(super) fn supports(name: &str, op: &Conv, direction: Direction) -> Result<()> {
        dtype(name, op, direction).map(|_| ())
    }

    pub(super) fn compile(
        library: &LibraryOp,
        op: &Conv,
        direction: Direction,
        (isa, codegen): (Isa, bool),
    ) -> Result<ConvKernel> {
        let epilogue = op.epilogue.as_ref();
        Ok(ConvKernel {
            isa,
            codegen,
            direction,
            dtype: dtype(library.name(), op, direction)?,
            epilogue: epilogue
                .map(|map| Epilogue::new(map, op.output.size(), isa, codegen))
                .transpose()?,
            definition: Program::compile(&library.definition()?, isa)?,
            op: op.clone(),
        })
    }

    /// How much longer products take than those of tiles: with one channel and one row a group, loads are what bounds them.
    pub(super) fn slowness(&self, extents: &[u64]) -> u64 {
        let channel = extents.get(3 + self.op.spatial as usize);
        match (extents.get(2), channel) {
            (Some(1), Some(1)) => 8,
            _ => 1,
        }
    }

    /// Runs the op. `prepared` is what [`ConvKernel::prepare`] wrote, or null.
    ///
    /// # Safety
    /// As [`Program::run`].
    pub(super) unsafe fn run(&self, args: &Args<'_>, prepared: *const u8, parallel: &dyn Parallel) {
        let result = &args.extents[..3 + self.op.spatial as usize];
        if result.contains(&0) {
            return;
        }
        // SAFETY: the caller vouches for the operands, and each routine was asked whether the launch suits it.
        unsafe {
            let done = self.launch(args).is_some_and(|launch| {
                if let Some(product) = self.product(&launch) {
                    self.multiply(&product, args, parallel);
                    return true;
                }
                by_word!(self, &launch, kernels =>
                    self.typed(&kernels, &launch, args, prepared, parallel), false)
            });
            if !done {
                self.definition.run(args, parallel);
            }
        }
    }

    /// Reads extents, strides and scalars; `None` where they are more general than the routines.
    fn launch(&self, args: &Args<'_>) -> Option<Launch> {
        let r = self.op.spatial as usize;
        let [first, second, .., out] = args.args else {
            return None;
        };
        if args.extents.iter().any(|&extent| extent > MOST) {
            return None;
        }
        let extent = |axis: usize| args.extents[axis] as usize;
        // Spatial axes of the result and of the inner space.
        let (near, far) = (3, 4 + r);
        let spatial = |arg: &Arg<'_>, from: usize| padded(r, 0, |i| arg.strides[from + i] as isize);
        let idle = |arg: &Arg<'_>, axes: &[usize], from: usize| {
            let still = |axis: usize| args.extents[axis] <= 1 || arg.strides[axis] == 0;
            axes.iter().all(|&axis| still(axis)) && (from..from + r).all(still)
        };
        let stride = |arg: &Arg<'_>, axis: usize| arg.strides[axis] as isize;
        // Axes of sample, group, row and channel.
        let [n, g, m, c] = match self.direction {
            Direction::Forward | Direction::GradInput => [0, 1, 2, near + r],
            Direction::GradWeight => [near + r, 0, 1, 2],
        };
        let (of_first, of_second) = match self.direction {
            Direction::Forward | Direction::GradInput => (idle(second, &[n], near), near + r + 1),
            Direction::GradWeight => (idle(second, &[c], near), far),
        };
        if !(idle(first, &[m], near) && idle(first, &[], far) && of_first) {
            return None;
        }
        let (gathered, extents) = gathered(args, first, r)?;
        let weight = if self.direction == Direction::GradWeight {
            out
        } else {
            second
        };
        let weight_taps = if self.direction == Direction::GradWeight {
            near
        } else {
            of_second
        };
        let taps = padded(r, 1, |i| extent(weight_taps + i));
        let outputs = match self.direction {
            Direction::Forward => padded(r, 1, |i| extent(near + i)),
            Direction::GradInput => extents,
            Direction::GradWeight => padded(r, 1, |i| extent(far + i)),
        };
        let inputs = match self.direction {
            Direction::Forward | Direction::GradWeight => extents,
            Direction::GradInput => padded(r, 1, |i| extent(near + i)),
        };
        let attribute = |values: &[i64; 3], missing: i64| padded(r, missing, |i| values[i]);
        let (strides, dilations, paddings) = (
            attribute(&self.op.stride, 1),
            attribute(&self.op.dilation, 1),
            attribute(&self.op.padding, 0),
        );
        let rows = match self.direction {
            Direction::Forward | Direction::GradInput => (out, near),
            Direction::GradWeight => (second, far),
        };
        Some(Launch {
            sizes: Sizes {
                samples: extent(n),
                groups: extent(g),
                rows: extent(m),
                channels: extent(c),
            },
            windows: std::array::from_fn(|i| Window {
                input: inputs[i],
                output: outputs[i],
                taps: taps[i],
                stride: strides[i],
                dilation: dilations[i],
                padding: paddings[i],
            }),
            gathered: Gathered {
                ptr: first.ptr,
                sample: stride(first, n),
                group: stride(first, g),
                channel: stride(first, c),
                channels: extent(c),
                spatial: gathered,
            },
            weights: Weights {
                ptr: weight.ptr,
                group: stride(weight, g),
                row: stride(weight, m),
                channel: stride(weight, c),
                channels: extent(c),
                taps: spatial(weight, weight_taps),
                extents: taps,
            },
            rows: Rows {
                ptr: rows.0.ptr,
                sample: stride(rows.0, n),
                group: stride(rows.0, g),
                row: stride(rows.0, m),
                spatial: spatial(rows.0, rows.1),
            },
            out: out.ptr,
        })
    }

    /// Runs the launch, if the routines can; `false` if nothing was done.
    unsafe fn typed<T: Stored>(
        &self,
        kernels: &ConvKernels<T>,
        launch: &Launch,
        args: &Args<'_>,
        prepared: *const u8,
        parallel: &dyn Parallel,
    ) -> bool {
        let sizes = kernels.sizes(&launch.sizes);
        let (gathered, weights) = (launch.gathered.cast::<T>(), launch.weights.cast::<T>());
        let rows = launch.rows;
        let result = &args.extents[..3 + self.op.spatial as usize];
        let (strides, scalars) = (row_major(result), &args.scalars[2 * self.op.spatial as usize..]);
        let [_, _, further @ .., out] = args.args else {
            return false;
        };
        // SAFETY: the caller vouches for the operands.
        let bound =
            (self.epilogue.as_ref()).map(|map| unsafe { map.bind(result, &strides, *out, further, scalars) });
        if self.direction == Direction::GradWeight {
            let pass = Pass {
                axes: launch.windows.map(|window| Axis::forward(&window)),
            };
            if !weight::fits(&pass, &sizes) {
                return false;
            }
            let job = weight::Job {
                sizes,
                x: gathered,
                dy: Rows {
                    ptr: rows.ptr.cast::<T>().cast_const(),
                    sample: rows.sample,
                    group: rows.group,
                    row: rows.row,
                    spatial: rows.spatial,
                },
                target: weights,
                out: launch.out.cast(),
                pass: &pass,
            };
            // SAFETY: the caller vouches for the operands.
            unsafe {
                if outer::suits(&job, &launch.windows) {
                    outer::run(kernels, &job, &launch.windows, parallel);
                } else {
                    weight::run(kernels, &job, parallel);
                }
                if let Some(bound) = bound {
                    bound.all(parallel);
                }
            }
            return true;
        }
        let Some(passes) = self.passes(&launch.windows) else {
            return false;
        };
        if !passes.iter().all(|pass| forward::fits(pass, &sizes)) {
            return false;
        }
        let blockwise = bound
            .as_ref()
            .filter(|bound| passes.len() == 1 && !bound.is_whole());
        let spatial = self.op.spatial as usize;
        let finish = |done: &Finished| finish(blockwise, spatial, done);
        let whole = Rows {
            ptr: rows.ptr.cast::<T>(),
            sample: rows.sample,
            group: rows.group,
            row: rows.row,
            spatial: rows.spatial,
        };
        if forward::phases::suits(&passes, &sizes, whole.spatial) {
            // SAFETY: the caller vouches for the operands.
            unsafe { forward::phases::run(kernels, &passes, (sizes, gathered, weights), whole, parallel) };
        } else {
            for pass in &passes {
                let job = forward::Job {
                    sizes,
                    gathered,
                    weights,
                    target: whole.of_phase(pass),
                    pass,
                };
                // SAFETY: the caller vouches for the operands.
                unsafe {
                    let finish = blockwise
                        .is_some()
                        .then_some(&finish as &(dyn Fn(&Finished) + Sync));
                    forward::run(kernels, &job, prepared.cast(), parallel, finish);
                }
            }
        }
        if let Some(bound) = bound.as_ref().filter(|_| blockwise.is_none()) {
            // SAFETY: the result is finished.
            unsafe { bound.all(parallel) };
        }
        true
    }

    /// The passes over the result: one, or for a gradient one for each phase of the strides, if they are not too many.
    fn passes(&self, windows: &[Window; AXES]) -> Option<Vec<Pass>> {
        if self.direction == Direction::Forward {
            let axes = windows.map(|window| Axis::forward(&window));
            return Some(vec![Pass { axes }]);
        }
        let phases = windows.map(|window| (window.stride as usize).min(window.input));
        if phases
            .iter()
            .fold(1, |all: usize, &phases| all.saturating_mul(phases))
            > PASSES
        {
            return None;
        }
        Some(Pass::backward(windows))
    }
}

/// The routine's dtype, or why there is none.
fn dtype(name: &str, op: &Conv, direction: Direction) -> Result<MatDType> {
    let epilogue = op.epilogue.as_ref();
    if direction == Direction::Forward
        && let Some(bytes) = byte_sums(op.operands, op.accumulate, op.output)
    {
        takes_epilogue(name, op.accumulate, op.output, epilogue)?;
        return Ok(bytes);
    }
    let [dtype, other] = op.operands;
    if dtype != other {
        return Err(Error::unsupported(format!(
            "{name} of {dtype} and {other} accumulated in {}; lower it",
            op.accumulate
        )));
    }
    dtype_of(name, dtype, op.accumulate, op.output, epilogue)
}

/// Applies the epilogue to a finished block.
fn finish(bound: Option<&Bound<'_>>, spatial: usize, done: &Finished) {
    let Some(bound) = bound else { return };
    let mut at: SmallVec<[u64; 8]> = SmallVec::new();
    at.extend([
        done.sample as u64,
        done.groups.start as u64,
        done.rows.start as u64,
    ]);
    at.extend(done.block.at[AXES - spatial..].iter().map(|&at| at as u64));
    let mut size: SmallVec<[u64; 8]> = SmallVec::new();
    size.extend([1, done.groups.len() as u64, done.rows.len() as u64]);
    size.extend(done.block.size[AXES - spatial..].iter().map(|&size| size as u64));
    // SAFETY: the block is finished and belongs to this call alone.
    unsafe { bound.block(&at, &size) };
}

/// Values of the `r` spatial axes behind those of axes that are missing.
fn padded<V: Copy>(r: usize, missing: V, of: impl Fn(usize) -> V) -> [V; AXES] {
    std::array::from_fn(|i| if i + r < AXES { missing } else { of(i + r - AXES) })
}

/// Spatial strides and extents of the gathered operand from the scalars, if its gather reaches every element that they name.
fn gathered(args: &Args<'_>, arg: &Arg<'_>, r: usize) -> Option<([isize; AXES], [usize; AXES])> {
    let scalar = |i: usize| args.scalars[i] as i64;
    let mut last = 0_i64;
    let mut empty = false;
    for i in 0..r {
        let (extent, stride) = (scalar(i), scalar(r + i));
        if !(0..=MOST as i64).contains(&extent) || stride < 0 {
            return None;
        }
        empty |= extent == 0;
        last = (extent - 1).max(0).checked_mul(stride)?.checked_add(last)?;
        // Elements apart, which the address arithmetic of the routines must hold.
        isize::try_from(stride)
            .ok()?
            .checked_mul(arg.gather_stride as isize)?;
    }
    if !empty && last.cast_unsigned() >= arg.gather_extent {
        return None;
    }
    Some((
        padded(r, 0, |i| scalar(r + i) as isize * arg.gather_stride as isize),
        padded(r, 1, |i| scalar(i) as usize),
    ))
}
