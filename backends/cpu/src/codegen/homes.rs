//! Where values stand besides registers: on the stack, in the code, and in the memory of a row.
//!
//! A value of the launch has one slot of the stack. A value of a row has one in the frame of each row that is walked at the same time;
//! `rbp` has the frame of the present row.

use super::assembler::{Extra, RBP, Rm};
use super::body::Sink;
use super::narrow::Kind;
use super::opcodes::{BROADCAST, KEEP, LOAD, LOAD_MASK, MASKED_LOAD, MOVE, STORE_MASK};
use super::registers::{OUT, Registers, TAIL_MASK, TAIL_VECTOR};
use super::ssa::Id;
use super::uses::NEVER;

/// Where a value stands besides a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    None,
    /// A constant at a position in the code.
    Pool(usize),
    /// On the stack.
    Slot(u32),
    /// In the frame of a row.
    Row(u32),
    /// Elements whose address a register holds.
    Elements(u8),
    /// The same of elements of one or two bytes.
    Narrow(u8, Kind),
}

impl Registers<'_> {
    /// Gives a value that a register has its slot.
    pub(super) fn put(&mut self, id: Id, register: u8) {
        if let Some(to) = self.stacked(id) {
            self.asm.vector(KEEP, register, 0, to, Extra::default());
        }
    }

    /// Where the first lane of a value stands that is the same for a row.
    pub(super) fn single(&self, id: Id) -> Option<Rm> {
        match self.homes[id as usize] {
            Home::Pool(at) => Some(Rm::Pool { at, each: false }),
            Home::Slot(_) | Home::Row(_) => self.stacked(id),
            Home::None | Home::Elements(_) | Home::Narrow(..) => None,
        }
    }

    /// Where a value stands on the stack.
    fn stacked(&self, id: Id) -> Option<Rm> {
        match self.homes[id as usize] {
            Home::Slot(slot) => Some(self.slot(slot)),
            Home::Row(slot) => Some(Rm::Base {
                base: RBP,
                offset: slot as i32 * self.asm.width(),
            }),
            Home::None | Home::Pool(_) | Home::Elements(_) | Home::Narrow(..) => None,
        }
    }

    /// The register with the address of the elements that a reduction takes.
    pub(super) fn argument(&self, reduce: u32) -> u8 {
        let takes = |&&(sink, _): &&(Sink, Id)| sink == Sink::Reduce(reduce);
        let Some(&(_, id)) = self.sinks.iter().find(takes) else {
            return OUT;
        };
        let keeps = |&(sink, other): &(Sink, Id)| match sink {
            Sink::Keep(kept) if other == id => Some(self.bases.kept[kept as usize]),
            Sink::Keep(_) | Sink::Reduce(_) | Sink::Store(_) => None,
        };
        match self.homes[id as usize] {
            Home::Elements(base) => base,
            Home::None | Home::Pool(_) | Home::Slot(_) | Home::Row(_) | Home::Narrow(..) => {
                self.sinks.iter().find_map(keeps).unwrap_or(OUT)
            }
        }
    }

    pub(super) fn slot(&self, slot: u32) -> Rm {
        Rm::Stack(slot as i32 * self.asm.width())
    }

    /// Writes a value to its slot; it gets one where it has no home.
    pub(super) fn write_home(&mut self, id: Id) {
        if self.homes[id as usize] == Home::None {
            self.homes[id as usize] = Home::Slot(self.slots);
            self.slots += 1;
            self.most_slots = self.most_slots.max(self.slots);
        }
        let Some(to) = self.stacked(id) else {
            return;
        };
        let register = self.held[id as usize];
        if self.is_mask(id) {
            self.asm.vex(STORE_MASK, register, 0, to, None, false, false);
        } else {
            self.asm.vector(KEEP, register, 0, to, Extra::default());
        }
    }

    /// The elements at hand.
    pub(super) fn element(&self, base: u8, copy: usize) -> Rm {
        let offset = self.manner.offset + copy as i32 * self.asm.width();
        Rm::Element { base, offset }
    }

    /// Reads a value from its home.
    pub(super) fn read(&mut self, id: Id, to: u8) {
        if let Some(from) = self.stacked(id) {
            return match self.is_mask(id) {
                true => self.asm.vex(LOAD_MASK, to, 0, from, None, false, false),
                false => self.asm.vector(MOVE, to, 0, from, Extra::default()),
            };
        }
        match self.homes[id as usize] {
            Home::Pool(at) => {
                let from = Rm::Pool { at, each: false };
                self.asm.vector(BROADCAST, to, 0, from, Extra::default());
            }
            Home::Elements(base) => {
                let from = self.element(base, self.body.copy(id));
                match (self.manner.masked, self.asm.wide) {
                    (true, false) => self
                        .asm
                        .vector(MASKED_LOAD, to, TAIL_VECTOR, from, Extra::default()),
                    (masked, _) => {
                        let extra = Extra {
                            mask: if masked { TAIL_MASK } else { 0 },
                            zero: masked,
                            ..Extra::default()
                        };
                        self.asm.vector(LOAD, to, 0, from, extra);
                    }
                }
            }
            Home::Narrow(base, kind) => self.read_narrow((id, to), base, kind),
            Home::None | Home::Slot(_) | Home::Row(_) => debug_assert!(false, "value {id} is nowhere"),
        }
    }

    /// Where an instruction may read the value in memory.
    pub(super) fn memory(&mut self, id: Id, at: u32) -> Option<Rm> {
        if self.held[id as usize] != OUT || self.is_mask(id) {
            return None;
        }
        let home = self.homes[id as usize];
        match home {
            Home::Pool(at) => Some(Rm::Pool {
                at,
                each: self.asm.wide,
            }),
            Home::Slot(_) | Home::Row(_) => self.stacked(id),
            Home::Elements(base) if !self.manner.masked && self.uses.next(id, at) == NEVER => {
                Some(self.element(base, self.body.copy(id)))
            }
            Home::Elements(_) | Home::Narrow(..) | Home::None => None,
        }
    }
}
