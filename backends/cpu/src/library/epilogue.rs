//! A map that is applied to the result of a library op, in place and block by block.

#[cfg(test)]
mod tests;

use crate::codegen::Map;
use crate::exec::{Arg, Args, Program};
use crate::isa::Isa;
use crate::parallel::{Parallel, Serial};
use smallvec::{SmallVec, smallvec};
use std::sync::OnceLock;
use thalweg_hal::Result;
use thalweg_hal::ir::{Access, Kernel, Node, Role};

/// Neighbours that a call of machine code is worth.
const LEAST_RUN: usize = 16;

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

/// The map along runs of neighbours.
struct Runs {
    kernel: Kernel,
    isa: Isa,
    /// Whether machine code may be made.
    codegen: bool,
    /// Machine code, and the parameters that move along the runs in the first launch: a bit each. The others are single. Launches of
    /// other strides run the program.
    made: OnceLock<Option<(u64, Map)>>,
}

/// An epilogue with the arguments of one launch.
pub(super) struct Bound<'a> {
    epilogue: &'a Epilogue,
    /// Extents of the whole result.
    extents: &'a [u64],
    /// The result, then the further inputs.
    places: SmallVec<[Arg<'a>; 6]>,
    scalars: &'a [u64],
    /// Machine code for runs of neighbours, and the places that move along them.
    runs: Option<(u64, &'a Map)>,
}

impl Runs {
    /// Machine code for runs along which the parameters of `moving` are contiguous and the others single.
    fn along(&self, moving: u64) -> Option<&Map> {
        let made = self.made.get_or_init(|| {
            if !self.codegen {
                return None;
            }
            let mut kernel = self.kernel.clone();
            for (at, param) in kernel.params.iter_mut().enumerate() {
                let moves = param.role == Role::Out || moving >> at & 1 == 1;
                param.access = if moves {
                    Access::Contiguous
                } else {
                    Access::Broadcast
                };
            }
            let info = kernel.verify().ok()?;
            Some((moving, Map::new(&kernel, &info, self.isa)?))
        });
        made.as_ref().filter(|(of, _)| *of == moving).map(|(_, map)| map)
    }
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
            runs: Box::new(Runs {
                kernel: kernel.clone(),
                isa,
                codegen,
                made: OnceLock::new(),
            }),
        })
    }

    /// With the arguments of a launch over `extents`, whose row-major strides are `row_major`.
    pub(super) fn bind<'a>(
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
        let runs = moving(extents, &places).and_then(|moving| Some((moving, self.runs.along(moving)?)));
        Bound {
            epilogue: self,
            extents,
            places,
            scalars,
            runs,
        }
    }
}

/// The places that move by one element along the last axis with neighbours, a bit each; `None` where one moves otherwise, or the
/// result does not move.
fn moving(extents: &[u64], places: &[Arg<'_>]) -> Option<u64> {
    let axis = extents.iter().rposition(|&extent| extent != 1)?;
    let mut moving = 0;
    for (at, place) in places.iter().enumerate() {
        match stride(place, axis) {
            0 => {}
            1 if at < 64 => moving |= 1 << at,
            _ => return None,
        }
    }
    (moving & 1 == 1).then_some(moving)
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
            if !self.run_neighbours(extents, &args) {
                self.run(extents, &args, &Serial);
            }
        }
    }

    /// Runs machine code over the runs of neighbours of a block, if there is any and they are long enough; whether it did.
    ///
    /// # Safety
    /// As [`Program::run`].
    unsafe fn run_neighbours(&self, extents: &[u64], args: &[Arg<'_>]) -> bool {
        let Some((moving, map)) = self.runs else {
            return false;
        };
        let inputs = &args[..args.len() - 1];
        // The axes along which a run goes on, and its length.
        let (mut outer, mut run) = (extents.len(), 1);
        while outer > 0 {
            let axis = outer - 1;
            let goes_on = |(at, arg): (usize, &Arg<'_>)| {
                let wanted = if moving >> at & 1 == 1 { run } else { 0 };
                stride(arg, axis) == wanted
            };
            if extents[axis] != 1 && !inputs.iter().enumerate().all(goes_on) {
                break;
            }
            run *= extents[axis] as i64;
            outer -= 1;
        }
        if (run as usize) < LEAST_RUN {
            return false;
        }
        let element = |index: usize| match index {
            0 => self.epilogue.element,
            _ if index == inputs.len() => self.epilogue.element,
            _ => self.epilogue.inputs[index - 1].0,
        };
        let mut at: SmallVec<[u64; 8]> = smallvec![0; outer];
        for _ in 0..extents[..outer].iter().product::<u64>() {
            let address = |index: usize| {
                let bytes = offset(&at, args[index].strides) * element(index) as isize;
                args[index].ptr.wrapping_offset(bytes)
            };
            // SAFETY: the caller vouches for the block's elements of each parameter; those that do not move are single along a run.
            unsafe { map.run(run as usize, args.len(), address, self.scalars, (false, false)) };
            for axis in (0..outer).rev() {
                at[axis] += 1;
                if at[axis] < extents[axis] {
                    break;
                }
                at[axis] = 0;
            }
        }
        true
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
