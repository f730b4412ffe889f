//! Elements on their way to the host.

use super::executable::{Executable, arg};
use crate::error::Result;
use crate::error::tag::OpTag;
use crate::graph::Type;
use crate::hal::ir::{Access, Kernel, Level, Role};
use crate::hal::{DType, Element};
use crate::lower::{Argument, Launch, Local, Origin, Output, Program, Slot, Source, Step};
use crate::record::recording::SpanKind;
use crate::record::{flight, span, switch};
use crate::types::layout::Layout;
use crate::value::{Tensor, Value};
use std::sync::Arc;

/// The program that copies elements of a layout to row-major order.
fn copy(layout: &Layout, dtype: DType, tag: OpTag) -> Program {
    let shape = layout.shape;
    let mut kernel = Kernel::new("contiguous", shape.len() as u32, 0);
    let from = kernel.param(dtype, Role::In, Level::Row, Access::Strided);
    let to = kernel.param(dtype, Role::Out, Level::Row, Access::Contiguous);
    let element = kernel.load(from);
    kernel.store(to, element);
    let argument = |slot, strides| Argument {
        slot,
        offset: 0,
        strides,
        gather: (0, 0),
    };
    Program {
        locals: vec![Local {
            bytes: (shape.elements() * dtype.size()) as u64,
        }],
        steps: vec![Step::Launch {
            source: Arc::new(Source::Kernel(kernel)),
            launch: Launch {
                extents: shape.iter().map(|&extent| extent as u64).collect(),
                arguments: vec![
                    argument(Slot::Input(0), Some(layout.strides().to_vec())),
                    argument(Slot::Local(0), None),
                ],
                scalars: Vec::new(),
            },
            tag,
        }],
        origins: vec![Origin::of(tag)],
        outputs: vec![Output {
            slot: Slot::Local(0),
            layout: Layout::contiguous(shape),
            ty: Type::new(shape, dtype),
            tag,
        }],
        stored: Vec::new(),
    }
}

/// The same elements, row-major without gaps.
///
/// # Errors
/// No memory for a copy.
pub(crate) fn contiguous(value: Value, tag: OpTag) -> Result<Value> {
    if value.layout.is_contiguous() {
        return Ok(value);
    }
    let context = value.storage.context.clone();
    let engine = context.engine();
    let executable = Executable::compile(engine, &copy(&value.layout, value.dtype, tag))?;
    let value = Tensor::from_value(value);
    let args = [arg(&value)];
    let mut values = executable.run(&context, engine.scoped_lane().as_ref(), &args, Some(tag))?;
    values
        .pop()
        .ok_or_else(|| crate::error::failure::Refusal::new("the program has no output").into())
}

/// The elements in row-major order; waits for the stream that writes them.
///
/// # Errors
/// The first error that sticks to the stream.
#[track_caller]
pub(crate) fn download<T: Element>(value: Value, tag: OpTag) -> Result<Vec<T>> {
    let value = contiguous(value, tag)?;
    let offset = value.layout.offset * size_of::<T>() as u64;
    read(&value, offset, value.layout.shape.elements(), tag)
}

/// The bytes of the elements in row-major order; waits for the stream that writes them.
///
/// # Errors
/// As [`download`].
pub(crate) fn download_bytes(value: Value, tag: OpTag) -> Result<Vec<u8>> {
    let value = contiguous(value, tag)?;
    let size = value.dtype.size();
    let offset = value.layout.offset * size as u64;
    read(&value, offset, value.layout.shape.elements() * size, tag)
}

/// Waits for `len` elements from byte `offset` of a value's buffer.
#[track_caller]
fn read<T: Element>(value: &Value, offset: u64, len: usize, tag: OpTag) -> Result<Vec<T>> {
    let (storage, _wait) = (&value.storage, span::begin(SpanKind::Wait, tag.op, 0));
    let stream = storage.stream()?;
    let submit = || storage.buffer.download_at(stream, offset, len);
    let read = match switch::seen() {
        None => submit(),
        Some(on) => {
            let engine = storage.context.engine();
            engine.recorded_work(on, stream, tag.of_record(), submit)
        }
    };
    // What failed before is told to who reads.
    let good = |read| storage.settle().map(|()| read);
    Ok(read.and_then(good).inspect_err(|error| flight::failed(error))?)
}

/// The bits of all elements in row-major order; waits for the stream that writes them.
///
/// # Errors
/// As [`download`].
pub(crate) fn elements(value: Value, tag: OpTag) -> Result<Vec<u64>> {
    fn widened<T: Element + Into<u64>>(value: Value, tag: OpTag) -> Result<Vec<u64>> {
        Ok(download::<T>(value, tag)?.into_iter().map(T::into).collect())
    }
    match value.dtype.size() {
        1 => widened::<u8>(value, tag),
        2 => widened::<u16>(value, tag),
        4 => widened::<u32>(value, tag),
        _ => download(value, tag),
    }
}

/// The bits of the only element.
///
/// # Errors
/// As [`download`].
pub(crate) fn bits(value: Value, tag: OpTag) -> Result<u64> {
    Ok(elements(value, tag)?.first().copied().unwrap_or_default())
}
