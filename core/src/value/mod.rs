//! Tensors as data: what they hold, who owns it, how they were computed.

mod history;
pub(crate) mod lazy;
mod level;
mod saves;
mod shared;

pub use history::no_grad;
pub(crate) use history::{
    AnyRule, Edge, Gradients, History, Many, Origin, Saved, is_first_order, is_recording, record_back,
    record_many, record_op, record_with,
};
pub(crate) use level::{Level, has_gradients, set_gradients};
pub(crate) use saves::{Saves, saves};
pub(crate) use shared::Shared;

use crate::context::Context;
use crate::engine::{Lane, Listed, Written};
use crate::error::failure::{Failure, Refusal};
use crate::error::tag::OpTag;
use crate::error::{Error, Result};
use crate::graph::Type;
use crate::hal::{self, Buffer, DType, Stream};
use crate::record;
use crate::types::layout::Layout;
use crate::types::shape::Shape;
use lazy::Lazy;
use std::sync::Arc;

/// An array of up to 8 axes on a device. It never changes; clones and views share memory.
#[derive(Clone)]
pub struct Tensor {
    pub(crate) repr: Repr,
    /// How it was computed from values that gradients are wanted for.
    pub(crate) history: Option<Arc<History>>,
}

#[derive(Clone)]
pub(crate) enum Repr {
    /// Elements in a buffer, perhaps not yet computed.
    Value(Value),
    /// An op that was recorded and not run.
    Lazy(Arc<Lazy>),
    /// One element everywhere, in no buffer and on no device: the scalars of formulas.
    Constant(Constant),
    /// The first error.
    Failed(Arc<Failure>),
}

/// Elements in a buffer.
#[derive(Clone)]
pub(crate) struct Value {
    pub(crate) storage: Shared,
    pub(crate) layout: Layout,
    pub(crate) dtype: DType,
}

/// Memory and who writes it.
pub(crate) struct Storage {
    // Dropped before the context, which keeps the device open for it.
    pub(crate) buffer: Buffer,
    pub(crate) context: Context,
    /// When and on which stream it was written; others wait for that before they read.
    pub(crate) written: Written,
    /// Names it among what holds memory while it lives.
    pub(crate) _listed: Option<Box<Listed>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Constant {
    pub(crate) ty: Type,
    pub(crate) bits: u64,
}

impl Tensor {
    pub(crate) fn from_value(value: Value) -> Tensor {
        Tensor {
            repr: Repr::Value(value),
            history: None,
        }
    }

    pub(crate) fn from_lazy(lazy: Lazy) -> Tensor {
        Tensor {
            repr: Repr::Lazy(Arc::new(lazy)),
            history: None,
        }
    }

    /// One element everywhere, as bits.
    /// Elements from one index of each axis to the next, where its memory is there.
    pub(crate) fn strides(&self) -> Option<&[i64]> {
        match &self.repr {
            Repr::Value(value) => Some(value.layout.strides()),
            _ => None,
        }
    }

    pub(crate) fn constant(shape: Shape, dtype: DType, bits: u64) -> Tensor {
        Tensor {
            repr: Repr::Constant(Constant {
                ty: Type::new(shape, dtype),
                bits,
            }),
            history: None,
        }
    }

    pub(crate) fn failed(failure: Failure) -> Tensor {
        record::failure::note(&failure);
        Tensor {
            repr: Repr::Failed(Arc::new(failure)),
            history: None,
        }
    }

    /// The tensor of an op that was refused before any operand was looked at.
    pub(crate) fn refused(tag: OpTag, refusal: Refusal, operands: &[&Tensor]) -> Tensor {
        let known = operands.iter().find_map(|operand| operand.ty().ok());
        Tensor::failed(Failure {
            op: tag.op.to_owned(),
            refusal,
            location: tag.location(),
            device: operands
                .iter()
                .find_map(|operand| operand.context())
                .map(|cx| cx.device().target().to_owned()),
            dtype: known.map(|ty| ty.dtype),
            source: None,
        })
    }

    /// Shape and dtype, or the first error.
    #[inline]
    pub(crate) fn ty(&self) -> std::result::Result<Type, &Arc<Failure>> {
        match &self.repr {
            Repr::Value(value) => Ok(Type::new(value.layout.shape, value.dtype)),
            Repr::Lazy(lazy) => Ok(lazy.ty),
            Repr::Constant(constant) => Ok(constant.ty),
            Repr::Failed(failure) => Err(failure),
        }
    }

    /// Extents, outermost first.
    ///
    /// # Errors
    /// The first error on the way to this tensor.
    pub fn shape(&self) -> Result<Shape> {
        Ok(self.ty().map_err(Arc::clone)?.shape)
    }

    /// Element type.
    ///
    /// # Errors
    /// The first error on the way to this tensor.
    pub fn dtype(&self) -> Result<DType> {
        Ok(self.ty().map_err(Arc::clone)?.dtype)
    }

    /// Number of axes.
    ///
    /// # Errors
    /// The first error on the way to this tensor.
    pub fn rank(&self) -> Result<usize> {
        Ok(self.shape()?.len())
    }

    /// Number of elements.
    ///
    /// # Errors
    /// The first error on the way to this tensor.
    pub fn elements(&self) -> Result<usize> {
        Ok(self.shape()?.elements())
    }

    /// The tensor itself, or the first error on the way to it. Does not wait for the device.
    ///
    /// # Errors
    /// The first error on the way to this tensor.
    pub fn ok(self) -> Result<Tensor> {
        match &self.repr {
            Repr::Failed(failure) => Err(failure.clone().into()),
            _ => Ok(self),
        }
    }

    /// The context of its device; `None` for a scalar that met no tensor yet, and for a tensor that carries an error.
    pub fn context(&self) -> Option<&Context> {
        match &self.repr {
            Repr::Value(value) => Some(&value.storage.context),
            Repr::Lazy(lazy) => lazy.context.as_ref(),
            Repr::Constant(_) | Repr::Failed(_) => None,
        }
    }
}

impl Tensor {
    /// The tensor of an op that failed on the device.
    pub(crate) fn of_error(tag: OpTag, error: Error, context: Option<&Context>) -> Tensor {
        if let Error::Tensor(failure) = error {
            return Tensor {
                repr: Repr::Failed(failure),
                history: None,
            };
        }
        Tensor::failed(Failure {
            op: tag.op.to_owned(),
            refusal: Refusal::new(error.to_string()),
            location: tag.location(),
            device: context.map(|context| context.device().target().to_owned()),
            dtype: None,
            source: Some(Arc::new(error)),
        })
    }
}

impl Storage {
    /// Later work of `lane`, the record of `scoped` or of the default stream, waits until the memory is written.
    #[inline]
    pub(crate) fn wait_on(&self, scoped: Option<&Arc<Lane>>, lane: &Lane) -> hal::Result<()> {
        match (&self.written.lane, scoped) {
            (None, None) => Ok(()),
            (Some(writer), Some(reader)) if Arc::ptr_eq(writer, reader) => Ok(()),
            (Some(writer), _) => (self.context.engine()).order(lane, writer, self.written.epoch()),
            (None, Some(_)) => {
                let engine = self.context.engine();
                engine.order(lane, engine.default_lane()?, self.written.epoch())
            }
        }
    }

    /// Whether no failure is known that it may be wrong by.
    ///
    /// # Errors
    /// The first such failure.
    #[cold]
    pub(crate) fn trusted(&self) -> hal::Result<()> {
        let (engine, epoch) = (self.context.engine(), self.written.epoch());
        if epoch == 0 {
            return Ok(());
        }
        let failure = match &self.written.lane {
            Some(lane) => engine.failure(lane, (epoch, epoch)),
            None => engine.failure(engine.default_lane()?, (epoch, epoch)),
        };
        failure.map_or(Ok(()), Err)
    }

    /// Ends a wait for the stream that wrote it: whether all is good that it was computed from.
    ///
    /// # Errors
    /// The first failure, of that stream or of one that it waited for.
    pub(crate) fn settle(&self) -> hal::Result<()> {
        let engine = self.context.engine();
        match &self.written.lane {
            Some(lane) => engine.settle(lane)?,
            None if self.written.epoch() == 0 => return Ok(()),
            None => engine.settle(engine.default_lane()?)?,
        }
        match engine.has_failures() {
            false => Ok(()),
            true => self.trusted(),
        }
    }

    /// The stream that wrote it.
    pub(crate) fn stream(&self) -> hal::Result<&Stream> {
        match &self.written.lane {
            Some(lane) => Ok(&lane.stream),
            None => Ok(match self.written.epoch() {
                0 => self.context.engine().copies()?,
                _ => &self.context.engine().default_lane()?.stream,
            }),
        }
    }
}
