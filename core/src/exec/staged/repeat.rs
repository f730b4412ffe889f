//! A loop whose number of runs is known.

use super::super::read;
use super::{Piece, Place, value};
use crate::engine::Lane;
use crate::error::Result;
use crate::error::tag::OpTag;
use crate::error::tag::hal_tag;
use crate::hal::{self, DType};
use crate::types::layout::Layout;
use crate::types::shape::{Axes, Shape};
use crate::value::{Repr, Shared, Storage, Tensor, Value};

/// As [`Control::Repeat`](crate::graph::Control::Repeat).
#[derive(Debug)]
pub(super) struct Repeat {
    pub(super) body: Piece,
    pub(super) trips: usize,
    pub(super) start: i64,
    pub(super) carries: usize,
    pub(super) slices: usize,
    pub(super) reverse: bool,
}

impl Repeat {
    pub(super) fn run(&self, place: &Place<'_>, mut operands: Vec<Tensor>) -> Result<Vec<Tensor>> {
        let captured = operands.split_off(self.carries + self.slices);
        let slices = operands.split_off(self.carries);
        let mut carries = operands;
        let mut parts: Vec<Part> = self.body.graph.outputs()[self.carries..]
            .iter()
            .map(|&id| {
                let ty = self.body.graph.node(id).ty;
                Part::new(place, self.trips, ty.shape, ty.dtype)
            })
            .collect::<Result<_>>()?;
        for run in 0..self.trips {
            let at = if self.reverse { self.trips - 1 - run } else { run };
            let index = self.start.wrapping_add(at as i64) as u64;
            let mut inputs = vec![Tensor::constant(Shape::SCALAR, DType::I64, index)];
            inputs.append(&mut carries);
            inputs.extend(slices.iter().map(|slice| one(slice, at)));
            inputs.extend(captured.iter().cloned());
            carries = self.body.run(place, &inputs)?;
            for (part, made) in parts.iter_mut().zip(carries.drain(self.carries..)) {
                part.put(place, at, &made)?;
            }
        }
        for part in parts {
            carries.push(part.done(place)?);
        }
        Ok(carries)
    }
}

/// Slice `at` along axis 0.
fn one(tensor: &Tensor, at: usize) -> Tensor {
    match &tensor.repr {
        Repr::Value(value) => {
            let stride = value.layout.strides().first().copied().unwrap_or(0);
            let mut layout = value.layout.without(Axes::one(0));
            layout.offset = value.layout.offset.wrapping_add_signed(stride * at as i64);
            Tensor::from_value(Value {
                storage: value.storage.clone(),
                layout,
                dtype: value.dtype,
            })
        }
        Repr::Constant(constant) => {
            let shape = constant.ty.shape.without(Axes::one(0));
            Tensor::constant(shape, constant.ty.dtype, constant.bits)
        }
        Repr::Lazy(_) | Repr::Failed(_) => tensor.clone(),
    }
}

/// The parts of all runs, one after the other.
struct Part {
    buffer: hal::Buffer,
    shape: Shape,
    dtype: DType,
    bytes: u64,
    // The epoch before the first copy.
    begun: u64,
}

impl Part {
    fn new(place: &Place<'_>, trips: usize, part: Shape, dtype: DType) -> Result<Part> {
        let engine = place.context.engine();
        let lane: &Lane = match place.scoped {
            Some(lane) => lane,
            None => engine.default_lane()?,
        };
        let shape = part.inserted(0, trips);
        let tag = hal_tag(&place.tag.unwrap_or(OpTag::NONE));
        Ok(Part {
            buffer: engine.alloc(&lane.stream, (shape.elements() * dtype.size()) as u64, tag)?,
            shape,
            dtype,
            bytes: (part.elements() * dtype.size()) as u64,
            begun: engine.written(None).epoch(),
        })
    }

    fn put(&mut self, place: &Place<'_>, at: usize, made: &Tensor) -> Result<()> {
        if self.bytes == 0 {
            return Ok(());
        }
        let tag = place.tag.unwrap_or(OpTag::NONE);
        let made = read::contiguous(value(place.context, made, tag)?, tag)?;
        let lane: &Lane = match place.scoped {
            Some(lane) => lane,
            None => place.context.engine().default_lane()?,
        };
        made.storage.wait_on(place.scoped, lane)?;
        let from = made.layout.offset * self.dtype.size() as u64;
        let copy = hal::Copy::tagged(
            hal::Place::buffer(&self.buffer, at as u64 * self.bytes),
            hal::Place::buffer(&made.storage.buffer, from),
            self.bytes,
            hal_tag(&tag),
        );
        lane.stream.copy(&copy)?;
        match place.context.engine().has_failures() {
            false => Ok(()),
            true => Ok(made.storage.trusted()?),
        }
    }

    fn done(self, place: &Place<'_>) -> Result<Tensor> {
        let engine = place.context.engine();
        let tag = place.tag.unwrap_or(OpTag::NONE);
        let lane: &Lane = match place.scoped {
            Some(lane) => lane,
            None => engine.default_lane()?,
        };
        let written = engine.written(place.scoped);
        if engine.has_failures()
            && let Some(failure) = engine.failure(lane, (self.begun, written.epoch()))
        {
            return Err(failure.into());
        }
        Ok(Tensor::from_value(Value {
            storage: Shared::new(Storage {
                _listed: engine.list(&tag, &self.buffer),
                buffer: self.buffer,
                context: place.context.clone(),
                written,
            }),
            layout: Layout::contiguous(self.shape),
            dtype: self.dtype,
        }))
    }
}
