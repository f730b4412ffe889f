//! The library op in terms of the routine.

use super::{After, MatDType, MatMut, MatRef, Problem, Signs, adds, matmul};
use crate::exec::{Arg, Args};
use crate::isa::Isa;
use crate::library::epilogue::{Epilogue, offset, row_major};
use crate::parallel::Parallel;
use smallvec::{SmallVec, smallvec};
use std::ops::Range;
use thalweg_hal::ir::{Access, Kernel, Node, NodeId, Role, ScalarOp};
use thalweg_hal::library::Matmul;
use thalweg_hal::{DType, Error, Result};

/// A compiled matrix product.
pub struct MatmulKernel {
    pub(super) isa: Isa,
    pub(super) codegen: bool,
    pub(super) batch: usize,
    pub(super) dtype: MatDType,
    pub(super) element: usize,
    operand: usize,
    epilogue: Option<Epilogue>,
    /// How the epilogue reads what it adds, if it does nothing else.
    added: Option<Access>,
}

/// The routine's dtype of an op whose operands have one dtype, or why there is none.
pub(in crate::library) fn dtype_of(
    name: &str,
    dtype: DType,
    accumulate: DType,
    output: DType,
    epilogue: Option<&thalweg_hal::ir::Kernel>,
) -> Result<MatDType> {
    let accumulates = |dtype: DType| accumulate == dtype;
    let found = match dtype {
        DType::F32 if accumulates(DType::F32) => MatDType::F32,
        DType::F64 if accumulates(DType::F64) => MatDType::F64,
        DType::F16 if accumulates(DType::F32) => MatDType::F16,
        DType::BF16 if accumulates(DType::F32) => MatDType::Bf16,
        DType::I32 if accumulates(DType::I32) => MatDType::I32,
        DType::U32 if accumulates(DType::U32) => MatDType::I32,
        DType::I64 if accumulates(DType::I64) => MatDType::I64,
        DType::U64 if accumulates(DType::U64) => MatDType::I64,
        other => {
            return Err(Error::unsupported(format!(
                "{name} of {other} accumulated in {accumulate}; lower it"
            )));
        }
    };
    if output != dtype {
        return Err(Error::unsupported(format!(
            "{name} of {dtype} to {output}; lower it"
        )));
    }
    takes_epilogue(name, accumulate, output, epilogue)?;
    Ok(found)
}

pub(in crate::library) fn takes_epilogue(
    name: &str,
    accumulate: DType,
    output: DType,
    epilogue: Option<&thalweg_hal::ir::Kernel>,
) -> Result<()> {
    if let Some(epilogue) = epilogue {
        // It runs in place on the result, so elements must have the accumulator's size before and after.
        let out = epilogue.params.last().map(|param| param.dtype.size());
        if accumulate != output || out != Some(output.size()) {
            return Err(Error::unsupported(format!(
                "{name} with an epilogue from {accumulate} to {output}; lower it"
            )));
        }
    }
    Ok(())
}

/// The routine's dtype of operands of 8 bits whose sums are i32.
pub(in crate::library) fn byte_sums(
    operands: [DType; 2],
    accumulate: DType,
    output: DType,
) -> Option<MatDType> {
    let signed = |dtype: DType| match dtype {
        DType::I8 => Some(true),
        DType::U8 => Some(false),
        _ => None,
    };
    let signs = Signs {
        a: signed(operands[0])?,
        b: signed(operands[1])?,
    };
    ((accumulate, output) == (DType::I32, DType::I32)).then_some(MatDType::Bytes(signs))
}

fn dtype(op: &Matmul) -> Result<MatDType> {
    let [dtype, other] = op.operands;
    let found = match (dtype, op.accumulate, op.output) {
        _ if let Some(bytes) = byte_sums(op.operands, op.accumulate, op.output) => Some(bytes),
        _ if dtype != other => {
            return Err(Error::unsupported(format!(
                "matmul of {dtype} and {other} accumulated in {}; lower it",
                op.accumulate
            )));
        }
        (DType::F16, DType::F32, DType::F32) => Some(MatDType::F16Wide),
        (DType::BF16, DType::F32, DType::F32) => Some(MatDType::Bf16Wide),
        (DType::F8E4M3, DType::F32, DType::F32) => Some(MatDType::F8E4M3),
        (DType::F8E5M2, DType::F32, DType::F32) => Some(MatDType::F8E5M2),
        _ => None,
    };
    if let Some(found) = found {
        takes_epilogue("matmul", op.accumulate, op.output, op.epilogue.as_ref())?;
        return Ok(found);
    }
    dtype_of("matmul", dtype, op.accumulate, op.output, op.epilogue.as_ref())
}

impl MatmulKernel {
    pub(in crate::library) fn supports(op: &Matmul) -> Result<()> {
        dtype(op).map(|_| ())
    }

    /// With `amx_bf16`, products of bf16 use AMX where the machine has it.
    pub(in crate::library) fn compile(
        op: &Matmul,
        isa: Isa,
        (codegen, amx_bf16): (bool, bool),
    ) -> Result<MatmulKernel> {
        let dtype = match dtype(op)? {
            MatDType::Bf16 if amx_bf16 && isa.sums_squares() => MatDType::Bf16Amx,
            MatDType::Bf16Wide if amx_bf16 && isa.sums_squares() => MatDType::Bf16AmxWide,
            dtype => dtype,
        };
        let element = op.output.size();
        let epilogue = op.epilogue.as_ref();
        Ok(MatmulKernel {
            isa,
            codegen,
            batch: op.batch as usize,
            dtype,
            element,
            operand: op.operands[0].size(),
            added: epilogue.and_then(added),
            epilogue: epilogue
                .map(|map| Epilogue::new(map, element, isa, codegen))
                .transpose()?,
        })
    }

    /// Runs the op: parameters are `a`, `b`, the epilogue's further inputs, the output. `packed` is what
    /// [`MatmulKernel::prepare`] has made of `b`, or null.
    ///
    /// # Safety
    /// As [`crate::exec::Program::run`].
    pub(in crate::library) unsafe fn run(&self, args: &Args<'_>, packed: *const u8, parallel: &dyn Parallel) {
        let axes = self.batch;
        let ([m, n, k], [a, b, further @ .., out]) = (&args.extents[axes..], args.args) else {
            return;
        };
        let (result, batches) = (&args.extents[..axes + 2], &args.extents[..axes]);
        if result.contains(&0) {
            return;
        }
        let strides = row_major(result);
        let beside = match (self.added, further) {
            (Some(Access::Contiguous), [added]) if out.strides == &strides[..] => Some(added),
            (Some(Access::Strided), [added]) if out.strides == added.strides => Some(added),
            _ => None,
        };
        let beside = beside.map(|added| (added.ptr.addr() as isize).wrapping_sub(out.ptr.addr() as isize));
        // Batch axes from `first` on are one batch of the routine; those before it are walked here.
        let first = foldable(batches, &[a.strides, b.strides, out.strides]);
        let (walked, folded) = batches.split_at(first);
        let problem = Problem {
            batch: folded.iter().product::<u64>() as usize,
            m: *m as usize,
            n: *n as usize,
            k: *k as usize,
        };
        let stride = |arg: &Arg<'_>, axis: usize| arg.strides[axes + axis] as isize;
        let step = |arg: &Arg<'_>| match first < axes {
            true => arg.strides[axes - 1] as isize,
            false => 0,
        };
        let target = MatMut {
            ptr: out.ptr,
            batch_stride: step(out),
            row_stride: stride(out, 0),
            col_stride: stride(out, 1),
        };
        let beside = beside.filter(|_| adds((self.isa, self.codegen), self.dtype, &problem, &target));
        // SAFETY: the caller vouches for the operands.
        let bound = (self.epilogue.as_ref().filter(|_| beside.is_none()))
            .map(|map| unsafe { map.bind(result, &strides, *out, further, args.scalars) });
        let mut index: SmallVec<[u64; 8]> = smallvec![0; axes];
        loop {
            let place = |arg: &Arg<'_>, size: usize| {
                arg.ptr
                    .wrapping_offset(offset(&index, arg.strides) * size as isize)
            };
            let operand = |arg: &Arg<'_>, row: usize, col: usize, packed: *const u8| MatRef {
                ptr: place(arg, self.operand),
                batch_stride: step(arg),
                row_stride: stride(arg, row),
                col_stride: stride(arg, col),
                packed,
            };
            let (lhs, rhs) = (operand(a, 0, 2, std::ptr::null()), operand(b, 2, 1, packed));
            let target = MatMut {
                ptr: place(out, self.element),
                ..target
            };
            let block = |batch: usize, rows: Range<usize>, cols: Range<usize>| {
                let Some(bound) = &bound else { return };
                let mut at = index.clone();
                spread(batch as u64, folded, &mut at[first..]);
                at.extend([rows.start as u64, cols.start as u64]);
                let mut extents: SmallVec<[u64; 8]> = smallvec![1; axes];
                extents.extend([rows.len() as u64, cols.len() as u64]);
                // SAFETY: the block is finished and belongs to this call alone.
                unsafe { bound.block(&at, &extents) };
            };
            let blockwise = bound.as_ref().is_some_and(|bound| !bound.is_whole());
            let after = match beside {
                Some(beside) => After::Adds(beside),
                None if blockwise => After::Block(&block),
                None => After::Nothing,
            };
            // SAFETY: the caller vouches for every operand.
            unsafe {
                matmul(
                    (self.isa, self.codegen),
                    self.dtype,
                    &problem,
                    lhs,
                    rhs,
                    target,
                    parallel,
                    after,
                )
            };
            if !advance(&mut index[..first], walked) {
                break;
            }
        }
        if let Some(bound) = bound.filter(|bound| bound.is_whole()) {
            // SAFETY: the caller vouches for the operands; the result is updated in place.
            unsafe { bound.all(parallel) };
        }
    }
}

/// How an epilogue reads what it adds to the sum, if it does nothing else.
fn added(map: &Kernel) -> Option<Access> {
    let [sum, added, out] = &map.params[..] else {
        return None;
    };
    if [added.dtype, out.dtype] != [sum.dtype; 2] || added.role != Role::In {
        return None;
    }
    let param = |id: NodeId| match map.nodes[id.index()] {
        Node::Load { param } => Some(param),
        _ => None,
    };
    let stored = map.nodes.iter().find_map(|node| match *node {
        Node::Store { value, .. } => Some(map.nodes[value.index()]),
        _ => None,
    });
    match stored? {
        Node::Op {
            op: ScalarOp::Add,
            args: [a, b, _],
        } if [[Some(0), Some(1)], [Some(1), Some(0)]].contains(&[param(a), param(b)]) => Some(added.access),
        _ => None,
    }
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

/// The index of each axis at a place in row-major order.
pub(in crate::library) fn spread(mut index: u64, extents: &[u64], out: &mut [u64]) {
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
