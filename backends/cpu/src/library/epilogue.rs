//! A map that is applied to the result of a library op, in place and block by block.

mod runs;

#[cfg(test)]
mod tests;

use crate::exec::{Arg, Args, Program};
use crate::isa::Isa;
use crate::parallel::{Parallel, Serial};
use runs::{Along, Runs};
use smallvec::{SmallVec, smallvec};
use thalweg_hal::Result;
use thalweg_hal::ir::{Access, Kernel, Node, Role};

/// A compiled epilogue. Every parameter but a broadcast one is strided, so that a block is a matter of addresses.
pub(super) struct Epilogue {
    program: Program,
    /// Element size and access class of each further input, as the launch declares it.
    inputs: Vec<(usize, Access)>,
    /// Element size of the result, which has the accumulator's dtype before and after.
    element: usize,
    /// It reads indices, so it runs over the whole result.
    whole: bool,
    runs: Box<Runs>,
}

/// An epilogue with the arguments of one launch.
pub(super) struct Bound<'a> {
    epilogue: &'a Epilogue,
    /// Extents of the whole result.
    extents: &'a [u64],
    /// The result, then the further inputs.
    places: SmallVec<[Arg<'a>; 6]>,
    scalars: &'a [u64],
    /// Machine code along neighbours.
    along: Option<Along<'a>>,
}

impl Epilogue {
    /// Compiles `kernel`, whose result has elements of `element` bytes; to machine code too where `codegen`.
    pub(super) fn new(kernel: &Kernel, element: usize, isa: Isa, codegen: bool) -> Result<Epilogue> {
        let mut strided = kernel.clone();
        for param in &mut strided.params {
            if param.access == Access::Contiguous {
                param.access = Access::Strided;
            }
        }
        Ok(Epilogue {
            program: Program::compile(&strided, isa)?,
            inputs: (kernel
                .params
                .iter()
                .skip(1)
                .filter(|param| param.role == Role::In))
            .map(|param| (param.dtype.size(), param.access))
            .collect(),
            element,
            whole: kernel.nodes.iter().any(|node| matches!(node, Node::Index { .. })),
            runs: Box::new(Runs::new(kernel, isa, codegen)),
        })
    }

    /// With the arguments of a launch over `extents`, whose row-major strides are `row_major`.
    ///
    /// # Safety
    /// The inputs are readable at every index of the launch.
    pub(super) unsafe fn bind<'a>(
        &'a self,
        extents: &'a [u64],
        row_major: &'a [i64],
        out: Arg<'a>,
        further: &[Arg<'a>],
        scalars: &'a [u64],
    ) -> Bound<'a> {
        let mut places: SmallVec<[Arg<'a>; 6]> = smallvec![out];
        places.extend(
            further
                .iter()
                .zip(&self.inputs)
                .map(|(arg, &(_, access))| match access {
                    Access::Contiguous => Arg {
                        strides: row_major,
                        ..*arg
                    },
                    Access::Broadcast | Access::Strided => *arg,
                }),
        );
        let along = match self.whole {
            true => None,
            // SAFETY: the caller vouches for the inputs.
            false => unsafe { self.runs.along(extents, &places, scalars) },
        };
        Bound {
            epilogue: self,
            extents,
            places,
            scalars,
            along,
        }
    }
}

/// Elements between neighbours along an axis; a broadcast argument has no strides.
fn stride(arg: &Arg<'_>, axis: usize) -> i64 {
    arg.strides.get(axis).copied().unwrap_or(0)
}

impl Bound<'_> {
    /// Whether it runs over the whole result at the end rather than over blocks.
    pub(super) fn is_whole(&self) -> bool {
        self.epilogue.whole
    }

    /// Applies it to the block of `extents` at `at`, both along every outer axis.
    ///
    /// # Safety
    /// As [`Program::run`]; the block is finished and nobody else touches it.
    pub(super) unsafe fn block(&self, at: &[u64], extents: &[u64]) {
        let element = |index: usize| match index {
            0 => self.epilogue.element,
            _ => self.epilogue.inputs[index - 1].0,
        };
        let mut args: SmallVec<[Arg<'_>; 6]> = (self.places.iter().enumerate())
            .map(|(index, arg)| {
                let bytes = offset(at, arg.strides) * element(index) as isize;
                Arg {
                    ptr: arg.ptr.wrapping_offset(bytes),
                    ..*arg
                }
            })
            .collect();
        args.push(args[0]);
        // SAFETY: the caller vouches for it.
        unsafe {
            let size = |index: usize| element(if index == self.places.len() { 0 } else { index });
            let along = self.along.as_ref();
            if !along.is_some_and(|along| along.block((at, extents), &args, size, self.scalars)) {
                self.run(extents, &args, &Serial);
            }
        }
    }

    /// Applies it to the whole result.
    ///
    /// # Safety
    /// As [`Program::run`]; the result is finished and nobody else touches it.
    pub(super) unsafe fn all(&self, parallel: &dyn Parallel) {
        let mut args = self.places.clone();
        args.push(args[0]);
        // SAFETY: the caller vouches for it.
        unsafe { self.run(self.extents, &args, parallel) }
    }

    /// # Safety
    /// As [`Program::run`].
    unsafe fn run(&self, extents: &[u64], args: &[Arg<'_>], parallel: &dyn Parallel) {
        let args = Args {
            extents,
            args,
            scalars: self.scalars,
        };
        // SAFETY: the caller vouches for it.
        unsafe { self.epilogue.program.run(&args, parallel) }
    }
}

/// Elements from index 0 to `index`; 0 for a broadcast argument, which has no strides.
pub(super) fn offset(index: &[u64], strides: &[i64]) -> isize {
    index
        .iter()
        .zip(strides)
        .map(|(&i, &stride)| i as isize * stride as isize)
        .sum()
}

/// Row-major strides of `extents`.
pub(super) fn row_major(extents: &[u64]) -> SmallVec<[i64; 8]> {
    (0..extents.len())
        .map(|axis| extents[axis + 1..].iter().product::<u64>() as i64)
        .collect()
}
