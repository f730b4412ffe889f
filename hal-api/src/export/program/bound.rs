//! Slots whose buffers are the program's own from run to run.

use super::super::objects::{Buffer, Instance, Owner};
use crate::backend::{Backend, Device};
use crate::kit::packet::Reach;
use crate::status::{Error, Result};
use crate::tables::ProgramInput;
use parking_lot::RwLock;
use std::sync::Arc;

/// The bound slots.
pub(super) struct Bound {
    // Number of the first.
    first: usize,
    reach: Box<[Reach]>,
    written: bool,
    held: RwLock<Arc<[ProgramInput]>>,
}

impl Bound {
    /// Slots that hold `held`.
    pub(super) fn new<B: Backend>(
        instance: &Instance<B>,
        owner: Owner<B::Device>,
        first: usize,
        reach: Vec<Reach>,
        held: &[ProgramInput],
    ) -> Result<Bound> {
        let bound = Bound {
            first,
            written: reach.iter().any(|reach| reach.is_written()),
            reach: reach.into(),
            held: RwLock::new(held.into()),
        };
        for (at, &input) in held.iter().enumerate() {
            bound.check(instance, owner, at, input, &held[..at])?;
        }
        Ok(bound)
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.reach.len()
    }

    /// What the slots hold now. Most programs have no bound slot, and their runs take no lock.
    #[inline]
    pub(super) fn held(&self) -> Option<Arc<[ProgramInput]>> {
        (!self.reach.is_empty()).then(|| Arc::clone(&self.held.read()))
    }

    /// Gives a slot another buffer.
    pub(super) fn rebind<B: Backend>(
        &self,
        instance: &Instance<B>,
        owner: Owner<B::Device>,
        slot: u64,
        input: ProgramInput,
    ) -> Result<()> {
        let place = usize::try_from(slot)
            .ok()
            .and_then(|slot| slot.checked_sub(self.first))
            .filter(|&at| at < self.count());
        let Some(at) = place else {
            return Err(Error::invalid_argument(format!(
                "slot {slot} is not bound; the program's bound slots are {}..{}",
                self.first,
                self.first + self.count()
            )));
        };
        let mut held = self.held.write();
        self.check(instance, owner, at, input, &held)?;
        // Runs that have begun keep what they found.
        Arc::make_mut(&mut held)[at] = input;
        Ok(())
    }

    /// Whether slot `at` may hold `input` while the others hold `held`.
    fn check<B: Backend>(
        &self,
        instance: &Instance<B>,
        owner: Owner<B::Device>,
        at: usize,
        input: ProgramInput,
        held: &[ProgramInput],
    ) -> Result<()> {
        let (number, reach) = (self.first + at, &self.reach[at]);
        let buffer = instance.buffer(input.buffer)?;
        if !buffer.owner.is(owner) {
            return Err(Error::invalid_handle(format!(
                "bound slot {number} lies on another device"
            )));
        }
        if !reach.fits(input.offset, buffer.bytes()) {
            return Err(reach.misses(&format!("bound slot {number}"), input.offset, buffer.bytes()));
        }
        if !self.written {
            return Ok(());
        }
        let own = of(reach, buffer, input.offset);
        for (other, (its, place)) in self.reach.iter().zip(held).enumerate() {
            // A run refuses a buffer that was freed.
            let Some(buffer) = instance.buffers.get(place.buffer) else {
                continue;
            };
            if other != at
                && (reach.is_written() || its.is_written())
                && meet(own, of(its, buffer, place.offset))
            {
                return Err(clash(number, &format!("slot {}", self.first + other)));
            }
        }
        Ok(())
    }

    /// Whether the inputs of a run keep clear of the bound slots that are written.
    #[inline]
    pub(super) fn check_run<B: Backend>(
        &self,
        instance: &Instance<B>,
        held: &[ProgramInput],
        inputs: &[ProgramInput],
        reaches: &[Reach],
    ) -> Result<()> {
        match self.written {
            true => self.compare(instance, held, inputs, reaches),
            false => Ok(()),
        }
    }

    fn compare<B: Backend>(
        &self,
        instance: &Instance<B>,
        held: &[ProgramInput],
        inputs: &[ProgramInput],
        reaches: &[Reach],
    ) -> Result<()> {
        for (at, (bound, place)) in self.reach.iter().zip(held).enumerate() {
            if !bound.is_written() {
                continue;
            }
            let own = of(bound, instance.buffer(place.buffer)?, place.offset);
            for (input, (given, reach)) in inputs.iter().zip(reaches).enumerate() {
                if meet(own, of(reach, instance.buffer(given.buffer)?, given.offset)) {
                    return Err(clash(self.first + at, &format!("input {input}")));
                }
            }
        }
        Ok(())
    }
}

/// Chunk, first byte and the byte behind the last of what is reached of a buffer.
fn of<D: Device>(reach: &Reach, buffer: &Buffer<D>, offset: u64) -> (usize, i64, i64) {
    let (start, end) = reach.from(buffer.offset + offset);
    (buffer.chunk as usize, start, end)
}

fn meet(one: (usize, i64, i64), other: (usize, i64, i64)) -> bool {
    // Where nothing is reached, nothing is shared.
    one.0 == other.0 && one.1.max(other.1) < one.2.min(other.2)
}

#[cold]
fn clash(number: usize, other: &str) -> Error {
    Error::overlap(format!(
        "bound slot {number} and {other} share bytes, and the program writes them; bind one slot where both are read \
         and written"
    ))
}
