//! A program's packets, checked.

use super::super::objects::{Instance, Kernel, Owner};
use super::super::{arg, array};
use super::Input;
use crate::backend::Backend;
use crate::ir::{Level, Role};
use crate::kit::checks::{self, Extents, Footprint, Signature, Slot, overlaps, reach};
use crate::kit::program::{Operand, Step, Touch};
use crate::status::{Error, Result};
use crate::tables::{self, Packet, PacketKind, ProgramScalar};
use std::sync::Arc;

/// A program while its packets are checked.
pub(super) struct Draft<'a, B: Backend> {
    pub(super) instance: &'a Instance<B>,
    pub(super) owner: Owner<B::Device>,
    pub(super) inputs: Vec<Input>,
    pub(super) made: Vec<u64>,
    pub(super) most: Vec<u64>,
    // What each node touches of what the runs make.
    pub(super) touches: Vec<Vec<Touch>>,
}

impl<B: Backend> Draft<'_, B> {
    /// The number of a slot from where a packet names a buffer.
    fn slot(&self, handle: u64) -> Result<usize> {
        let count = self.inputs.len() + self.made.len();
        match usize::try_from(handle) {
            Ok(number) if (1..=count).contains(&number) => Ok(number - 1),
            _ => Err(Error::invalid_argument(format!(
                "slot {handle} of a program of {count} slots, which are named from 1 on"
            ))),
        }
    }

    /// # Safety
    /// The pointers of the packet are null or valid.
    pub(super) unsafe fn step(
        &mut self,
        packet: &Packet,
        given: &[&ProgramScalar],
    ) -> Result<Option<Step<B::Device>>> {
        // SAFETY: the caller vouches for the pointers.
        unsafe {
            if packet.kind == PacketKind::Launch as u32 {
                self.launch(arg(packet.launch)?, given).map(Some)
            } else if !given.is_empty() {
                Err(Error::invalid_argument("only launches have scalars"))
            } else if packet.kind == PacketKind::Fill as u32 {
                self.fill(arg(packet.fill)?)
            } else {
                Err(Error::invalid_argument(format!(
                    "a packet of kind {}; a program has launches and fills",
                    packet.kind
                )))
            }
        }
    }

    fn fill(&mut self, fill: &tables::Fill) -> Result<Option<Step<B::Device>>> {
        let pattern = checks::pattern(fill)?;
        let slot = self.slot(fill.buffer)?;
        let Some(&bytes) = slot
            .checked_sub(self.inputs.len())
            .and_then(|made| self.made.get(made))
        else {
            return Err(Error::invalid_argument("fill: a program writes no input"));
        };
        if fill.offset.checked_add(fill.bytes).is_none_or(|end| end > bytes) {
            return Err(Error::out_of_bounds(format!(
                "fill: {} bytes at {} of a buffer of {bytes} bytes",
                fill.bytes, fill.offset
            )));
        }
        if fill.bytes == 0 {
            return Ok(None);
        }
        self.touches.push(vec![Touch {
            slot,
            start: fill.offset,
            end: fill.offset + fill.bytes,
            written: true,
        }]);
        Ok(Some(Step::Fill {
            slot,
            offset: fill.offset,
            bytes: fill.bytes,
            pattern,
            pattern_bytes: fill.pattern_bytes,
        }))
    }

    /// # Safety
    /// The pointers of the launch are null or valid.
    unsafe fn launch(
        &mut self,
        launch: &tables::Launch,
        given: &[&ProgramScalar],
    ) -> Result<Step<B::Device>> {
        let kernel: &Kernel<B::Device> = self.instance.kernel(launch.kernel)?;
        let signature = &*kernel.signature;
        let name = signature.name.as_str();
        if !kernel.owner.is(self.owner) {
            return Err(Error::invalid_handle(format!(
                "{name}: the kernel was compiled for another device"
            )));
        }
        // SAFETY: the caller vouches for the arrays.
        let (all, bindings, scalars) = unsafe {
            (
                array(launch.extents, launch.extent_count)?,
                array(launch.bindings, launch.binding_count)?,
                array(launch.scalars, launch.scalar_count)?,
            )
        };
        let extents = Extents::new(all, signature)?;
        if bindings.len() != signature.slots.len() || scalars.len() != signature.scalars.len() {
            return Err(Error::invalid_argument(format!(
                "{name}: {} bindings and {} scalars, the kernel takes {} and {}",
                bindings.len(),
                scalars.len(),
                signature.slots.len(),
                signature.scalars.len()
            )));
        }
        let mut scalars: Box<[u64]> = scalars.into();
        let given = given
            .iter()
            .map(|place| self.scalar(signature, &mut scalars, place))
            .collect::<Result<_>>()?;
        checks::scalars(signature, &scalars)?;
        // SAFETY: the caller vouches for the strides.
        let operands = unsafe { self.operands(signature, &extents, bindings)? };
        Ok(Step::Launch {
            kernel: Arc::clone(&kernel.kernel),
            extents: all.into(),
            operands,
            scalars,
            given,
        })
    }

    fn scalar(
        &mut self,
        signature: &Signature,
        scalars: &mut [u64],
        place: &ProgramScalar,
    ) -> Result<(usize, usize)> {
        let (scalar, argument) = (place.scalar as usize, place.argument as usize);
        match (signature.scalars.get(scalar), self.most.get_mut(argument)) {
            (Some(&dtype), Some(most)) => {
                *most = (*most).min(checks::most_bits(dtype));
                scalars[scalar] = 0;
                Ok((scalar, argument))
            }
            _ => Err(Error::invalid_argument(format!(
                "{}: scalar {scalar} is argument {argument}; there are {} scalars and {} arguments",
                signature.name,
                scalars.len(),
                self.most.len()
            ))),
        }
    }

    /// # Safety
    /// The strides of the bindings are null or valid.
    unsafe fn operands(
        &mut self,
        signature: &Signature,
        extents: &Extents<'_>,
        bindings: &[tables::Binding],
    ) -> Result<Box<[Operand]>> {
        let name = signature.name.as_str();
        let (mut operands, mut places, mut spans) = (Vec::new(), Vec::new(), Vec::new());
        let mut touches = Vec::new();
        for (index, (binding, slot)) in bindings.iter().zip(&signature.slots).enumerate() {
            let number = self.slot(binding.buffer)?;
            // SAFETY: the caller vouches for the strides.
            let strides = unsafe { strides(binding, slot, signature)? };
            let place = Footprint {
                base: number,
                offset: binding.offset,
                bytes: 0,
                strides,
                gather_stride: binding.gather_stride,
                gather_extent: binding.gather_extent,
            };
            let reached = reach(name, index, slot, extents, &place)?;
            let input = number < self.inputs.len();
            if input && slot.role == Role::Out {
                return Err(Error::invalid_argument(format!(
                    "{name}: parameter {index} is an input of the program, which writes none"
                )));
            }
            spans.push(match reached {
                Some((start, end)) if input => {
                    self.inputs[number].widen(start, end, slot.dtype.size() as u64)?;
                    // Nothing that is written lies in an input.
                    None
                }
                Some((start, end)) => {
                    let bytes = self.made[number - self.inputs.len()];
                    if start < 0 || end > i128::from(bytes) {
                        return Err(Error::out_of_bounds(format!(
                            "{name}: parameter {index} reaches bytes {start}..{end} of a buffer of {bytes} bytes"
                        )));
                    }
                    let (start, end) = (start as u64, end as u64);
                    touches.push(Touch {
                        slot: number,
                        start,
                        end,
                        written: slot.role == Role::Out,
                    });
                    Some((start, end))
                }
                None => None,
            });
            operands.push(Operand {
                slot: number,
                offset: binding.offset,
                strides: strides.into(),
                gather_stride: binding.gather_stride,
                gather_extent: binding.gather_extent,
            });
            places.push(place);
        }
        overlaps(name, &signature.slots, extents, &places, &spans)?;
        self.touches.push(touches);
        Ok(operands.into())
    }
}

/// # Safety
/// The strides are null or one for each axis of the parameter's level.
unsafe fn strides<'a>(binding: &tables::Binding, slot: &Slot, signature: &Signature) -> Result<&'a [i64]> {
    if binding.strides.is_null() {
        return Ok(&[]);
    }
    let axes = match slot.level {
        Level::Row => signature.outer,
        Level::Element => signature.outer + signature.inner,
    };
    // SAFETY: the caller vouches for them.
    unsafe { array(binding.strides, axes) }
}
