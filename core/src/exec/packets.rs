//! Steps as packets of a program.

use crate::error::tag::hal_tag;
use crate::hal::{self, Kernel, ProgramBuilder, ProgramOperand, ProgramScalar};
use crate::lower::{self, Scalar, Slot};

/// Numbers of arguments in the order of their first use.
#[derive(Default)]
pub(super) struct Numbers {
    pub(super) all: Vec<u32>,
    // By argument: its place in `all`.
    places: Vec<Option<u32>>,
}

impl Numbers {
    pub(super) fn add(&mut self, argument: u32) {
        let at = argument as usize;
        if self.places.len() <= at {
            self.places.resize(at + 1, None);
        }
        if self.places[at].is_none() {
            self.places[at] = Some(self.all.len() as u32);
            self.all.push(argument);
        }
    }

    pub(super) fn place(&self, argument: u32) -> u32 {
        match self.places.get(argument as usize) {
            Some(&Some(place)) => place,
            _ => unreachable!("every argument of a step was added"),
        }
    }
}

/// Adds a step to a program of the HAL.
pub(super) fn add<'a>(
    builder: &mut ProgramBuilder<'a>,
    step: &'a lower::Step,
    kernel: Option<&'a Kernel>,
    number: &dyn Fn(Slot, u64) -> (u32, u64),
    given: &Numbers,
) -> hal::Result<()> {
    match (step, kernel) {
        (lower::Step::Launch { launch, tag, .. }, Some(kernel)) => {
            let operand = |argument: &'a lower::Argument| {
                let (slot, offset) = number(argument.slot, argument.offset);
                ProgramOperand {
                    slot,
                    offset,
                    strides: argument.strides.as_deref(),
                    gather: argument.gather,
                }
            };
            let scalar = |scalar: &Scalar| match *scalar {
                Scalar::Bits(bits) => ProgramScalar::Bits(bits),
                Scalar::Argument(argument) => ProgramScalar::Argument(given.place(argument)),
            };
            let (operands, scalars) = (
                launch.arguments.iter().map(operand),
                launch.scalars.iter().map(scalar),
            );
            builder.launch(kernel, &launch.extents, operands, scalars, hal_tag(tag))
        }
        (lower::Step::Launch { .. }, None) => unreachable!("every launch has its kernel"),
        (
            &lower::Step::Fill {
                slot,
                offset,
                bytes,
                pattern,
                pattern_bytes,
                tag,
            },
            _,
        ) => {
            let (slot, offset) = number(slot, offset);
            builder.fill(slot, (offset, bytes), (pattern, pattern_bytes), hal_tag(&tag));
            Ok(())
        }
    }
}
