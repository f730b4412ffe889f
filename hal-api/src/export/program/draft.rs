//! A program's packets, checked.

use super::super::objects::{Instance, Owner};
use crate::backend::Backend;
use crate::ir::Role;
use crate::kit::checks::{Slot, most_bits};
use crate::kit::packet::{self, Kind, Memory, ORIGIN, Reach, Site};
use crate::kit::program::{End, Operand, Step, Touch};
use crate::status::{Error, Result};
use crate::tables::{self, Binding, Packet, ProgramScalar};
use std::sync::Arc;

/// A program while its packets are checked.
pub(super) struct Draft<'a, B: Backend> {
    pub(super) instance: &'a Instance<B>,
    pub(super) owner: Owner<B::Device>,
    pub(super) inputs: Vec<Reach>,
    pub(super) made: Vec<u64>,
    pub(super) bound: Vec<Reach>,
    pub(super) most: Vec<u64>,
    // What each node touches of what is written.
    pub(super) touches: Vec<Vec<Touch>>,
}

impl<B: Backend> Draft<'_, B> {
    /// What is reached of a slot whose ends are not known: an input or a bound one.
    fn open(&mut self, number: usize) -> Option<&mut Reach> {
        let (inputs, made) = (self.inputs.len(), self.made.len());
        match number.checked_sub(inputs + made) {
            Some(bound) => self.bound.get_mut(bound),
            None => self.inputs.get_mut(number),
        }
    }

    /// Bytes that a node touches, in the numbers of [`Site::shift`], and what their start is a multiple of.
    fn touch(&mut self, slot: usize, span: (u64, u64), written: bool, alignment: u64) -> Option<Touch> {
        let is_input = slot < self.inputs.len();
        if let Some(reach) = self.open(slot) {
            let at = |byte: u64| byte as i64 - ORIGIN as i64;
            reach.widen(at(span.0), at(span.1), written, alignment);
        }
        // Nothing that is written lies in an input.
        (!is_input).then_some(Touch {
            slot,
            start: span.0,
            end: span.1,
            written,
        })
    }

    /// A packet's work; `None` where there is nothing to do.
    ///
    /// # Safety
    /// The pointers of the packet are null or valid.
    pub(super) unsafe fn step(
        &mut self,
        packet: &Packet,
        given: &[&ProgramScalar],
    ) -> Result<Option<Step<B::Device>>> {
        // SAFETY: the caller vouches for the pointers.
        match unsafe { Kind::of(packet)? } {
            // SAFETY: as above.
            Kind::Launch(launch) => unsafe { self.launch(launch, given).map(Some) },
            _ if !given.is_empty() => Err(Error::invalid_argument("only launches have scalars")),
            Kind::Copy(copy) => self.copy(copy),
            Kind::Fill(fill) => self.fill(fill),
        }
    }

    fn fill(&mut self, fill: &tables::Fill) -> Result<Option<Step<B::Device>>> {
        let Some(((slot, shift), pattern)) = packet::fill(fill, &Slots::of(self, &[]))? else {
            return Ok(None);
        };
        let start = shift + fill.offset;
        let touch = self.touch(slot, (start, start + fill.bytes), true, fill.pattern_bytes.into());
        self.touches.push(touch.into_iter().collect());
        Ok(Some(Step::Fill {
            slot,
            offset: fill.offset,
            bytes: fill.bytes,
            pattern,
            pattern_bytes: fill.pattern_bytes,
        }))
    }

    fn copy(&mut self, copy: &tables::Copy) -> Result<Option<Step<B::Device>>> {
        let Some(ends) = packet::copy(copy, &Slots::of(self, &[]))? else {
            return Ok(None);
        };
        let mut touches = Vec::new();
        let mut places = ends.into_iter().zip([(&copy.dst, true), (&copy.src, false)]);
        let mut end = || {
            let ((Some((slot, shift)), reach), (place, written)) = places.next()? else {
                return None;
            };
            let start = shift + place.offset;
            touches.extend(self.touch(slot, (start, start + reach), written, 1));
            Some(End {
                slot,
                offset: place.offset,
                pitch: place.pitch,
            })
        };
        let (Some(dst), Some(src)) = (end(), end()) else {
            return Err(Error::internal("a copy of a program without an end"));
        };
        self.touches.push(touches);
        Ok(Some(Step::Copy {
            dst,
            src,
            width: copy.width,
            rows: copy.rows,
        }))
    }

    /// # Safety
    /// The pointers of the launch are null or valid.
    unsafe fn launch(
        &mut self,
        launch: &tables::Launch,
        given: &[&ProgramScalar],
    ) -> Result<Step<B::Device>> {
        let kernel = self.instance.kernel_for(self.owner, launch)?;
        let signature = &kernel.signature;
        let mut memory = Slots::of(self, given);
        // SAFETY: the caller vouches for the pointers.
        let checked = unsafe { packet::launch(signature, launch, &mut memory)? };
        let (operands, touched) = (memory.operands, memory.touched);
        let mut touches = Vec::new();
        for (slot, span, written, alignment) in touched {
            touches.extend(self.touch(slot, span, written, alignment));
        }
        self.touches.push(touches);
        let mut scalars: Box<[u64]> = checked.scalars.into();
        let mut own = Vec::with_capacity(given.len());
        for place in given {
            let (scalar, argument) = (place.scalar as usize, place.argument as usize);
            let (Some(&dtype), Some(most)) = (signature.scalars.get(scalar), self.most.get_mut(argument))
            else {
                return Err(Error::invalid_argument(format!(
                    "{}: scalar {scalar} is argument {argument}; there are {} scalars and {} arguments",
                    signature.name,
                    scalars.len(),
                    self.most.len()
                )));
            };
            *most = (*most).min(most_bits(dtype));
            scalars[scalar] = 0;
            own.push((scalar, argument));
        }
        Ok(Step::Launch {
            kernel: Arc::clone(&kernel.kernel),
            extents: checked.extents.into(),
            operands: operands.into(),
            scalars,
            given: own.into(),
        })
    }
}

/// The slots of a draft, as one packet sees them.
struct Slots<'d> {
    all: packet::Slots<'d>,
    given: &'d [&'d ProgramScalar],
    operands: Vec<Operand>,
    // Slot, bytes, whether they are written, what they start at a multiple of.
    touched: Vec<(usize, (u64, u64), bool, u64)>,
}

impl<'d> Slots<'d> {
    fn of<B: Backend>(draft: &'d Draft<'_, B>, given: &'d [&'d ProgramScalar]) -> Slots<'d> {
        Slots {
            all: packet::Slots {
                inputs: draft.inputs.len(),
                made: &draft.made,
                bound: draft.bound.len(),
            },
            given,
            operands: Vec::new(),
            touched: Vec::new(),
        }
    }
}

impl<'a> Memory<'a> for Slots<'_> {
    /// The slot's number, and [`Site::shift`].
    type Found = (usize, u64);

    const HOST: bool = false;

    fn find(&self, handle: u64) -> Result<((usize, u64), Site)> {
        let (number, site) = self.all.find(handle)?;
        Ok(((number, site.shift), site))
    }

    fn bind(
        &mut self,
        (number, _): (usize, u64),
        binding: &Binding,
        strides: &'a [i64],
        slot: &Slot,
        span: Option<(u64, u64)>,
    ) -> Result<()> {
        let written = slot.role == Role::Out;
        let alignment = slot.dtype.size() as u64;
        self.touched
            .extend(span.map(|span| (number, span, written, alignment)));
        self.operands.push(Operand {
            slot: number,
            offset: binding.offset,
            strides: strides.into(),
            gather_stride: binding.gather_stride,
            gather_extent: binding.gather_extent,
        });
        Ok(())
    }

    fn counts(&self, scalar: usize) -> bool {
        !self.given.iter().any(|place| place.scalar as usize == scalar)
    }
}
