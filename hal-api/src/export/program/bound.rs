//! Slots whose buffers are the program's own from run to run, and what is reached of memory that a program does not make.

use super::super::objects::{Buffer, Instance, Owner};
use crate::backend::{Backend, Device};
use crate::status::{Error, Result};
use crate::tables::ProgramInput;
use parking_lot::RwLock;
use std::sync::Arc;

/// What the packets reach of an input or a bound slot, in bytes from its origin.
#[derive(Clone, Copy, Default)]
pub(super) struct Reach {
    low: i64,
    high: i64,
    // Of the origin; 0 where nothing is reached.
    alignment: u64,
    written: bool,
}

impl Reach {
    pub(super) fn widen(&mut self, start: i64, end: i64, written: bool, alignment: u64) {
        (self.low, self.high) = match self.alignment {
            0 => (start, end),
            _ => (self.low.min(start), self.high.max(end)),
        };
        self.alignment = self.alignment.max(alignment);
        self.written |= written;
    }

    /// Whether all of it lies in a buffer of `bytes` bytes, from byte `offset` on.
    #[inline(always)]
    pub(super) fn fits(&self, offset: u64, bytes: u64) -> bool {
        offset <= bytes
            // A buffer has fewer than 2^62 bytes, and reaches are bounded likewise.
            && offset as i64 + self.low >= 0
            && offset as i64 + self.high <= bytes as i64
            // Sizes are powers of two.
            && offset & self.alignment.saturating_sub(1) == 0
    }

    #[cold]
    pub(super) fn misses(&self, what: &str, offset: u64, bytes: u64) -> Error {
        Error::out_of_bounds(format!(
            "{what} starts at byte {offset} of a buffer of {bytes} bytes; the program reaches {} bytes before and {} \
             behind, from a multiple of {}",
            self.low.min(0).unsigned_abs(),
            self.high.max(0),
            self.alignment.max(1)
        ))
    }

    /// Chunk, first byte and the byte behind the last of what is reached.
    fn of<D: Device>(&self, buffer: &Buffer<D>, offset: u64) -> (usize, i64, i64) {
        let origin = (buffer.offset + offset) as i64;
        (buffer.chunk as usize, origin + self.low, origin + self.high)
    }
}

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
            written: reach.iter().any(|reach| reach.written),
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
        let own = reach.of(buffer, input.offset);
        for (other, (its, place)) in self.reach.iter().zip(held).enumerate() {
            // A run refuses a buffer that was freed.
            let Some(buffer) = instance.buffers.get(place.buffer) else {
                continue;
            };
            if other != at && (reach.written || its.written) && meet(own, its.of(buffer, place.offset)) {
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
            if !bound.written {
                continue;
            }
            let own = bound.of(instance.buffer(place.buffer)?, place.offset);
            for (input, (given, reach)) in inputs.iter().zip(reaches).enumerate() {
                if meet(own, reach.of(instance.buffer(given.buffer)?, given.offset)) {
                    return Err(clash(self.first + at, &format!("input {input}")));
                }
            }
        }
        Ok(())
    }
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
