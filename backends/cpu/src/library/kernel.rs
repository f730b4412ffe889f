//! Library ops of the contract in terms of this crate's routines.

use super::matmul::{self, MatDType, MatMut, MatRef, Problem};
use crate::exec::{Arg, Args, Program};
use crate::parallel::{Parallel, Serial};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;
use thalweg_hal::ir::{Access, Kernel, Node, Role};
use thalweg_hal::library::{LibraryOp, Matmul};
use thalweg_hal::{DType, Error, Result};

/// Floating-point operations per nanosecond of one core; an estimate for the decision to run inline.
const FLOPS_PER_NS: u64 = 100;

/// A compiled library op.
pub struct LibraryKernel {
    batch: usize,
    dtype: MatDType,
    element: usize,
    epilogue: Option<Epilogue>,
}

// The map runs in place on the result, block by block; every parameter but a broadcast one is strided, so that a block is
// a matter of addresses.
struct Epilogue {
    program: Program,
    // Element size and access class of each further input, as the launch declares it.
    inputs: Vec<(usize, Access)>,
    // It reads indices, so it runs over the whole result.
    whole: bool,
}

impl Epilogue {
    fn new(kernel: &Kernel) -> Result<Epilogue> {
        let mut strided = kernel.clone();
        for param in &mut strided.params {
            if param.access == Access::Contiguous {
                param.access = Access::Strided;
            }
        }
        Ok(Epilogue {
            program: Program::compile(&strided)?,
            inputs: (kernel
                .params
                .iter()
                .skip(1)
                .filter(|param| param.role == Role::In))
            .map(|param| (param.dtype.size(), param.access))
            .collect(),
            whole: kernel.nodes.iter().any(|node| matches!(node, Node::Index { .. })),
        })
    }
}

fn dtype_of(op: &Matmul) -> Result<MatDType> {
    let accumulates = |dtype: DType| op.accumulate == dtype;
    let dtype = match op.dtype {
        DType::F32 if accumulates(DType::F32) => MatDType::F32,
        DType::F64 if accumulates(DType::F64) => MatDType::F64,
        DType::F16 if accumulates(DType::F32) => MatDType::F16,
        DType::BF16 if accumulates(DType::F32) => MatDType::Bf16,
        DType::I32 if accumulates(DType::I32) => MatDType::I32,
        DType::U32 if accumulates(DType::U32) => MatDType::U32,
        DType::I64 if accumulates(DType::I64) => MatDType::I64,
        DType::U64 if accumulates(DType::U64) => MatDType::U64,
        other => {
            return Err(Error::unsupported(format!(
                "matmul of {other} accumulated in {}; lower it",
                op.accumulate
            )));
        }
    };
    if op.output != op.dtype {
        return Err(Error::unsupported(format!(
            "matmul of {} to {}; lower it",
            op.dtype, op.output
        )));
    }
    if let Some(epilogue) = &op.epilogue {
        // It runs in place on the result, so the result must have the accumulator's dtype before and after.
        let out = epilogue.params.last().map(|param| param.dtype);
        if op.accumulate != op.output || out != Some(op.output) {
            return Err(Error::unsupported(format!(
                "matmul with an epilogue from {} to {}; lower it",
                op.accumulate, op.output
            )));
        }
    }
    Ok(dtype)
}

fn not_offered(op: &LibraryOp) -> Error {
    Error::unsupported(format!("the CPU has no {} of its own; lower it", op.name()))
}

impl LibraryKernel {
    /// Why `op` is not offered, if it is not.
    pub fn supports(op: &LibraryOp) -> Result<()> {
        match op {
            LibraryOp::Matmul(matmul) => dtype_of(matmul).map(|_| ()),
            LibraryOp::Conv(_)
            | LibraryOp::ConvGradInput(_)
            | LibraryOp::ConvGradWeight(_)
            | LibraryOp::Scatter(_)
            | LibraryOp::Scan(_)
            | LibraryOp::Sort(_) => Err(not_offered(op)),
        }
    }

    /// Prepares `op`.
    pub fn compile(op: &LibraryOp) -> Result<LibraryKernel> {
        let LibraryOp::Matmul(matmul) = op else {
            return Err(not_offered(op));
        };
        let epilogue = matmul.epilogue.as_ref().map(Epilogue::new).transpose()?;
        Ok(LibraryKernel {
            batch: matmul.batch as usize,
            dtype: dtype_of(matmul)?,
            element: matmul.output.size(),
            epilogue,
        })
    }

    /// Nanoseconds on one core, roughly.
    pub fn cost(&self, extents: &[u64]) -> u64 {
        let flops = extents
            .iter()
            .fold(2_u64, |product, &extent| product.saturating_mul(extent));
        flops / FLOPS_PER_NS
    }

    /// Runs the op: parameters are `a`, `b`, the epilogue's further inputs, the output.
    ///
    /// # Safety
    /// As [`Program::run`].
    pub unsafe fn run(&self, args: &Args<'_>, parallel: &dyn Parallel) {
        let axes = self.batch;
        let ([m, n, k], [a, b, further @ .., out]) = (&args.extents[axes..], args.args) else {
            return;
        };
        let (result, batches) = (&args.extents[..axes + 2], &args.extents[..axes]);
        if result.contains(&0) {
            return;
        }
        let row_major: SmallVec<[i64; 8]> = (0..axes + 2)
            .map(|axis| extent(&result[axis + 1..]) as i64)
            .collect();
        let mut places: SmallVec<[Arg<'_>; 6]> = smallvec![*out];
        if let Some(epilogue) = &self.epilogue {
            places.extend(
                further
                    .iter()
                    .zip(&epilogue.inputs)
                    .map(|(arg, &(_, access))| match access {
                        Access::Contiguous => Arg {
                            strides: &row_major,
                            ..*arg
                        },
                        Access::Broadcast | Access::Strided => *arg,
                    }),
            );
        }
        // Batch axes from `first` on are one batch of the routine; those before it are walked here.
        let first = foldable(batches, &[a.strides, b.strides, out.strides]);
        let (walked, folded) = batches.split_at(first);
        let problem = Problem {
            batch: extent(folded) as usize,
            m: *m as usize,
            n: *n as usize,
            k: *k as usize,
        };
        let mut index: SmallVec<[u64; 8]> = smallvec![0; axes];
        loop {
            let place = |arg: &Arg<'_>| {
                arg.ptr
                    .wrapping_offset(offset(&index, arg.strides) * self.element as isize)
            };
            let step = |arg: &Arg<'_>| {
                if first < axes {
                    arg.strides[axes - 1] as isize
                } else {
                    0
                }
            };
            let stride = |arg: &Arg<'_>, axis: usize| arg.strides[axes + axis] as isize;
            let operand = |arg: &Arg<'_>, row: usize, col: usize| MatRef {
                ptr: place(arg),
                batch_stride: step(arg),
                row_stride: stride(arg, row),
                col_stride: stride(arg, col),
            };
            let (lhs, rhs) = (operand(a, 0, 2), operand(b, 2, 1));
            let target = MatMut {
                ptr: place(out),
                batch_stride: step(out),
                row_stride: stride(out, 0),
                col_stride: stride(out, 1),
            };
            let block = |batch: usize, rows: Range<usize>, cols: Range<usize>| {
                let mut at = index.clone();
                spread(batch as u64, folded, &mut at[first..]);
                at.extend([rows.start as u64, cols.start as u64]);
                // SAFETY: the block is finished and belongs to this call alone.
                unsafe { self.finish(&at, (rows.len(), cols.len()), &places, args.scalars) };
            };
            let blockwise = self.epilogue.as_ref().is_some_and(|epilogue| !epilogue.whole);
            let epilogue: Option<matmul::Epilogue<'_>> = if blockwise { Some(&block) } else { None };
            // SAFETY: the caller vouches for every operand.
            unsafe { matmul::matmul(self.dtype, &problem, lhs, rhs, target, parallel, epilogue) };
            if !advance(&mut index[..first], walked) {
                break;
            }
        }
        if let Some(epilogue) = self.epilogue.as_ref().filter(|epilogue| epilogue.whole) {
            places.push(*out);
            let args = Args {
                extents: result,
                args: &places,
                scalars: args.scalars,
            };
            // SAFETY: the caller vouches for the operands; the result is updated in place.
            unsafe { epilogue.program.run(&args, parallel) };
        }
    }

    /// Applies the epilogue to the block of `size` rows and columns at `at`.
    ///
    /// # Safety
    /// As [`Program::run`]; the block is finished and nobody else touches it.
    unsafe fn finish(&self, at: &[u64], size: (usize, usize), places: &[Arg<'_>], scalars: &[u64]) {
        let Some(epilogue) = &self.epilogue else { return };
        let mut extents: SmallVec<[u64; 8]> = smallvec![1; at.len() - 2];
        extents.extend([size.0 as u64, size.1 as u64]);
        let element = |index: usize| {
            if index == 0 {
                self.element
            } else {
                epilogue.inputs[index - 1].0
            }
        };
        let mut args: SmallVec<[Arg<'_>; 6]> = (places.iter().enumerate())
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
            epilogue.program.run(
                &Args {
                    extents: &extents,
                    args: &args,
                    scalars,
                },
                &Serial,
            )
        };
    }
}

fn extent(extents: &[u64]) -> u64 {
    extents.iter().product()
}

/// Elements from index 0 to `index`; 0 for a broadcast argument, which has no strides.
fn offset(index: &[u64], strides: &[i64]) -> isize {
    index
        .iter()
        .zip(strides)
        .map(|(&i, &stride)| i as isize * stride as isize)
        .sum()
}

/// The first of the last batch axes that all operands step through evenly.
fn foldable(batches: &[u64], strides: &[&[i64]]) -> usize {
    let even = |axis: usize| {
        strides
            .iter()
            .all(|s| s[axis - 1] == s[axis] * batches[axis] as i64)
    };
    let mut first = batches.len().saturating_sub(1);
    while first > 0 && even(first) {
        first -= 1;
    }
    first
}

fn spread(mut index: u64, extents: &[u64], out: &mut [u64]) {
    for (place, &extent) in out.iter_mut().zip(extents).rev() {
        (*place, index) = (index % extent, index / extent);
    }
}

fn advance(index: &mut [u64], extents: &[u64]) -> bool {
    for (place, &extent) in index.iter_mut().zip(extents).rev() {
        *place += 1;
        if *place < extent {
            return true;
        }
        *place = 0;
    }
    false
}
