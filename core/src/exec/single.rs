//! The short way of a program that is one launch into one new buffer.

use super::executable::{Argument, Executable, Output, Source, Step};
use super::lane::Written;
use crate::context::Context;
use crate::error::Result;
use crate::hal::{self, Buffer, Kernel};
use crate::lower::Scalar;
use crate::tensor::layout::Layout;
use crate::tensor::tag::OpTag;
use crate::tensor::{Repr, Storage, Tensor, Value, hal_tag};
use smallvec::SmallVec;
use std::sync::Arc;

/// One launch, its result contiguous or not in a buffer of its own. It does what the [`Executable`] does that it is of.
#[derive(Debug)]
pub(super) struct Single {
    kernel: Arc<Kernel>,
    extents: SmallVec<[u64; 4]>,
    arguments: SmallVec<[Argument; 4]>,
    scalars: SmallVec<[Scalar; 2]>,
    bytes: u64,
    layout: Layout,
    dtype: hal::DType,
}

impl Executable {
    /// The short way, where it is one.
    pub(super) fn into_single(self) -> std::result::Result<Single, Executable> {
        let one = self.arena == 0 && self.steps.len() == 1 && self.own.len() == 1 && self.outputs.len() == 1;
        let made = matches!(
            self.outputs.first(),
            Some(Output {
                source: Source::Made(_),
                ..
            })
        );
        if !(one && made && matches!(self.steps.first(), Some(Step::Launch { .. }))) {
            return Err(self);
        }
        let (bytes, output) = (self.own[0], &self.outputs[0]);
        let (layout, dtype) = (output.layout, output.ty.dtype);
        match self.steps.into_iter().next() {
            Some(Step::Launch {
                kernel,
                extents,
                arguments,
                scalars,
                ..
            }) => Ok(Single {
                kernel,
                extents: extents.into_iter().collect(),
                arguments: arguments.into_iter().collect(),
                scalars: scalars.into_iter().collect(),
                bytes,
                layout,
                dtype,
            }),
            Some(Step::Fill { .. }) | None => unreachable!("the only step was a launch"),
        }
    }
}

impl Single {
    /// Submits it for operands that it was planned for: values and constants.
    #[inline]
    pub(super) fn run(&self, context: &Context, inputs: &[&Tensor], tag: OpTag) -> Tensor {
        match self.submit(context, inputs, tag) {
            Ok((buffer, written)) => {
                let storage = Storage {
                    _listed: context.engine().list(tag, self.bytes),
                    buffer,
                    context: context.clone(),
                    written,
                };
                Tensor {
                    repr: Repr::Value(Value {
                        storage: Arc::new(storage),
                        layout: self.layout,
                        dtype: self.dtype,
                    }),
                    history: None,
                }
            }
            Err(error) => Tensor::of_error(tag, *error, Some(context)),
        }
    }

    #[inline]
    fn submit(
        &self,
        context: &Context,
        inputs: &[&Tensor],
        tag: OpTag,
    ) -> Result<(Buffer, Written), Box<crate::Error>> {
        let engine = context.engine();
        let scoped = engine.scoped_lane();
        let lane = match &scoped {
            Some(lane) => lane,
            None => engine.default_lane().map_err(boxed)?,
        };
        let tag = hal_tag(tag);
        let made = engine.alloc(&lane.stream, self.bytes, tag).map_err(Box::new)?;
        let mut bound = SmallVec::<[hal::Arg<'_>; 4]>::new();
        for argument in &self.arguments {
            let (buffer, base) = match argument.source {
                Source::Made(_) => (&made, 0),
                Source::Input(input) => {
                    let Repr::Value(value) = &inputs[input as usize].repr else {
                        unreachable!("a constant is bound as a scalar");
                    };
                    value.storage.wait_on(scoped.as_ref(), lane).map_err(boxed)?;
                    (
                        &value.storage.buffer,
                        value.layout.offset * value.dtype.size() as u64,
                    )
                }
            };
            bound.push(argument.bind(buffer, base));
        }
        let mut scalars = SmallVec::<[u64; 4]>::new();
        for scalar in &self.scalars {
            scalars.push(match *scalar {
                Scalar::Bits(bits) => bits,
                Scalar::Argument(input) => match &inputs[input as usize].repr {
                    Repr::Constant(constant) => constant.bits,
                    Repr::Value(_) | Repr::Lazy(_) | Repr::Failed(_) => {
                        unreachable!("a value is bound as a buffer")
                    }
                },
            });
        }
        let launch = hal::Launch::new(&self.kernel, &self.extents, &bound)
            .scalars(&scalars)
            .tag(tag);
        lane.stream.launch(&launch).map_err(boxed)?;
        drop(bound);
        Ok((made, Written::by(scoped.as_ref(), lane)))
    }
}

#[cold]
fn boxed(error: hal::Error) -> Box<crate::Error> {
    Box::new(error.into())
}
