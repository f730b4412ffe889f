//! A register for each value of a section, and the memory that values stand in.
//!
//! A section has no branch, so one walk suffices: a value gets a register where it is defined, and where none is free the value whose
//! next use is farthest goes to the stack.

use super::assembler::{Assembler, Code, Extra, RAX, RDX, RSI, Rm};
use super::body::{Body, Level, Sink};
use super::homes::Home;
use super::opcodes::{BROADCAST, BROADCAST_BYTE, MASKED_STORE, STORE, STREAM};
use super::quotients::Quotients;
use super::reductions::Gathered;
use super::ssa::{Id, NONE, Op};
use super::uses::{NEVER, Uses};

/// Registers of masks that values get.
pub(super) const MASKS: u32 = 0x7e;
/// No register.
pub(super) const OUT: u8 = u8::MAX;

/// How a body treats memory.
#[derive(Clone, Copy, Default)]
pub(super) struct Manner {
    /// Bytes from the present elements on.
    pub(super) offset: i32,
    /// Only the lanes of the mask exist.
    pub(super) masked: bool,
    /// Stores go past the caches.
    pub(super) stream: bool,
    /// Which vector it is of those that reductions gather apart.
    pub(super) part: u8,
    /// Vectors beside the first, side by side.
    pub(super) more: u8,
}

/// The register that holds the mask of a tail: of AVX-512 and of AVX2.
pub(super) const TAIL_MASK: u8 = 7;
pub(super) const TAIL_VECTOR: u8 = 15;

/// The registers of a section's memory.
#[derive(Clone, Default)]
pub(super) struct Bases {
    /// Of each parameter that is walked, and of each value that is kept.
    pub(super) params: Vec<u8>,
    pub(super) kept: Vec<u8>,
}

/// A body that is made into code, section by section, and each as often as there are loops.
pub(super) struct Registers<'a> {
    pub(super) asm: &'a mut Assembler,
    pub(super) body: &'a Body,
    pub(super) bases: Bases,
    pub(super) uses: Uses,
    pub(super) sinks: Vec<(Sink, Id)>,
    pub(super) gathered: Gathered,
    pub(super) quotients: Option<Quotients>,
    pub(super) homes: Vec<Home>,
    /// Register of each value.
    pub(super) held: Vec<u8>,
    /// Value in each register.
    vectors: [Id; 32],
    masks: [Id; 8],
    usable: u32,
    /// Registers that no value gets.
    pub(super) reserved: u32,
    /// Vectors that the present loops compute side by side, and the registers of values that are the same for all.
    pub(super) abreast: usize,
    pub(super) settled: Vec<(Id, u8)>,
    pinned: u32,
    pinned_masks: u8,
    fixed_slots: u32,
    /// Slots of the frame of a row.
    pub(super) row_slots: u32,
    pub(super) slots: u32,
    pub(super) most_slots: u32,
    pub(super) manner: Manner,
}

impl<'a> Registers<'a> {
    /// `pool` has the position of each constant.
    pub(super) fn new(asm: &'a mut Assembler, body: &'a Body, pool: &[usize]) -> Registers<'a> {
        let count = body.insts.len();
        let stays = body.stays();
        let mut homes = vec![Home::None; count];
        let (mut fixed_slots, mut row_slots) = (0, 0);
        for (i, inst) in body.insts.iter().enumerate().filter(|(i, _)| body.needed[*i]) {
            homes[i] = match inst.op {
                Op::Const(_) => Home::Pool(pool[i]),
                _ if stays[i] => Home::None,
                _ => match body.levels[i] {
                    Level::Element => Home::None,
                    Level::Launch => {
                        fixed_slots += 1;
                        Home::Slot(fixed_slots - 1)
                    }
                    Level::Row(_) => {
                        row_slots += 1;
                        Home::Row(row_slots - 1)
                    }
                },
            };
        }
        Registers {
            asm,
            body,
            bases: Bases::default(),
            uses: Uses::of(&body.insts, &[], |_| false),
            sinks: Vec::new(),
            gathered: Gathered::default(),
            quotients: None,
            homes,
            held: vec![OUT; count],
            vectors: [NONE; 32],
            masks: [NONE; 8],
            usable: 0,
            reserved: 0,
            abreast: 1,
            settled: Vec::new(),
            pinned: 0,
            pinned_masks: 0,
            fixed_slots,
            row_slots,
            slots: fixed_slots,
            most_slots: fixed_slots,
            manner: Manner::default(),
        }
    }

    /// Slots of the stack that nothing else takes; the number of the first.
    pub(super) fn fixed(&mut self, slots: u32) -> u32 {
        let first = self.fixed_slots;
        self.fixed_slots += slots;
        self.most_slots = self.most_slots.max(self.fixed_slots);
        first
    }

    /// Goes on with a section, whose memory `bases` hold.
    pub(super) fn enter(&mut self, section: usize, bases: Bases) {
        let body = self.body;
        let before = |i: usize| {
            let kept = body.kept.iter();
            kept.clone()
                .position(|&(id, by)| body.alike(id, i as Id) && by < section)
        };
        for (i, inst) in body.insts.iter().enumerate() {
            if body.levels[i] == Level::Element {
                self.homes[i] = match (inst.op, before(i)) {
                    (Op::Load(param), _) => {
                        let base = bases.params[param as usize];
                        match body.kind(param) {
                            Some(kind) => Home::Narrow(base, kind),
                            None => Home::Elements(base),
                        }
                    }
                    (_, Some(kept)) => Home::Elements(bases.kept[kept]),
                    _ => Home::None,
                };
            }
        }
        self.sinks.clone_from(&body.sections[section].sinks);
        let sinks: Vec<Id> = self.sinks.iter().map(|&(_, id)| id).collect();
        let homes = &self.homes;
        let computes = |i: usize| body.levels[i] == Level::Element && homes[i] == Home::None;
        self.uses = Uses::of(&body.insts, &sinks, computes);
        self.bases = bases;
    }

    /// Instructions for one vector of elements.
    pub(super) fn weight(&self) -> usize {
        let all = self.uses.computed.iter().filter(|&&computed| computed).count() + self.sinks.len();
        all / self.body.copies
    }

    pub(super) fn start(&mut self, manner: Manner) {
        self.manner = manner;
        self.usable = match (self.asm.wide, manner.masked) {
            (true, _) => u32::MAX,
            (false, true) => (1 << TAIL_VECTOR) - 1,
            (false, false) => 0xffff,
        };
        self.usable &= !self.reserved;
        self.vectors = [NONE; 32];
        self.masks = [NONE; 8];
        self.held.fill(OUT);
        for &(id, register) in &self.settled {
            self.usable &= !(1 << register);
            self.held[id as usize] = register;
        }
        self.uses.restart();
        self.slots = self.fixed_slots;
        for home in &mut self.homes {
            // What the body before put on the stack.
            if matches!(*home, Home::Slot(slot) if slot >= self.fixed_slots) {
                *home = Home::None;
            }
        }
    }

    /// The values of a level above elements; those that others need, on the stack. `rsi` has the table of parameters, `rdx` the scalars.
    pub(super) fn values(&mut self, level: Level) {
        let body = self.body;
        let of_level = |i: usize| body.levels[i] == level && body.needed[i];
        let inside = |i: usize| of_level(i) && !matches!(body.insts[i].op, Op::Const(_) | Op::Reduced(_));
        let all = (0..body.insts.len()).filter(|&i| inside(i)).map(|i| i as Id);
        let ends: Vec<Id> = all
            .clone()
            .filter(|&id| self.homes[id as usize] != Home::None)
            .collect();
        self.uses = Uses::of(&body.insts, &ends, inside);
        self.reserved = 0;
        self.settled.clear();
        self.start(Manner::default());
        for id in all {
            match body.insts[id as usize].op {
                Op::Scalar(index) => {
                    let offset = 8 * index as i32;
                    self.broadcast(BROADCAST, id, Rm::Base { base: RDX, offset });
                }
                Op::Single(param) | Op::Row(param) => {
                    self.asm.load(RAX, RSI, 8 * param as i32);
                    let from = Rm::Base { base: RAX, offset: 0 };
                    match body.kind(param).filter(|kind| kind.is_half()) {
                        None => self.broadcast(BROADCAST, id, from),
                        Some(kind) => {
                            let to = self.allocate(false, 0);
                            self.repeat_half(to, from, kind);
                            self.hold(id, to);
                            self.unpin();
                        }
                    }
                }
                Op::SingleByte(param) => {
                    self.asm.load(RAX, RSI, 8 * param as i32);
                    self.broadcast(BROADCAST_BYTE, id, Rm::Base { base: RAX, offset: 0 });
                }
                _ => self.inst(id as usize),
            }
            if ends.binary_search(&id).is_ok() {
                self.write_home(id);
            }
        }
    }

    fn broadcast(&mut self, code: Code, id: Id, from: Rm) {
        let to = self.allocate(false, 0);
        self.asm.vector(code, to, 0, from, Extra::default());
        self.hold(id, to);
        self.unpin();
    }

    /// The code of the section for one vector and those beside it.
    pub(super) fn section(&mut self, manner: Manner) {
        self.start(manner);
        self.count_elements();
        let copies = self.body.copies;
        let present = |i: &usize| i % copies <= usize::from(manner.more);
        for i in (0..self.body.insts.len()).filter(present) {
            if self.uses.computed[i] {
                self.inst(i);
            }
        }
        for k in (0..self.sinks.len()).filter(present) {
            let (sink, id) = self.sinks[k];
            let at = (self.body.insts.len() + k) as u32;
            let copy = k % copies;
            match sink {
                Sink::Reduce(reduce) => self.take((reduce, copy as u8), id, at),
                Sink::Keep(kept) => self.write((id, copy), self.bases.kept[kept as usize], false),
                Sink::Store(param) => {
                    let base = self.bases.params[param as usize];
                    match self.body.kind(param) {
                        Some(kind) => self.write_narrow((id, copy), base, kind, manner.stream),
                        None => self.write((id, copy), base, manner.stream),
                    }
                }
            }
            self.unpin();
            self.release(id, at);
        }
    }

    /// Writes a vector of elements.
    fn write(&mut self, (id, copy): (Id, usize), base: u8, stream: bool) {
        let from = self.register(id);
        let to = self.element(base, copy);
        let extra = Extra {
            mask: if self.manner.masked { TAIL_MASK } else { 0 },
            ..Extra::default()
        };
        match (self.manner.masked, self.asm.wide) {
            (true, false) => self
                .asm
                .vector(MASKED_STORE, from, TAIL_VECTOR, to, Extra::default()),
            _ if stream => self.asm.vector(STREAM, from, 0, to, extra),
            _ => self.asm.vector(STORE, from, 0, to, extra),
        }
    }

    pub(super) fn is_mask(&self, id: Id) -> bool {
        self.asm.wide && self.body.insts[id as usize].op.is_mask()
    }

    pub(super) fn hold(&mut self, id: Id, register: u8) {
        self.held[id as usize] = register;
        if self.is_mask(id) {
            self.masks[register as usize] = id;
        } else {
            self.vectors[register as usize] = id;
        }
    }

    fn drop_held(&mut self, id: Id) {
        let register = std::mem::replace(&mut self.held[id as usize], OUT);
        if register == OUT {
        } else if self.is_mask(id) {
            self.masks[register as usize] = NONE;
        } else {
            self.vectors[register as usize] = NONE;
        }
    }

    /// Frees the register of a value that has no use after `at`.
    pub(super) fn release(&mut self, id: Id, at: u32) {
        if self.is_last(id, at) {
            self.drop_held(id);
        }
    }

    pub(super) fn unpin(&mut self) {
        (self.pinned, self.pinned_masks) = (0, 0);
    }

    /// A free register for a value or a mask, pinned. The value with the farthest use makes room.
    pub(super) fn allocate(&mut self, mask: bool, at: u32) -> u8 {
        let (usable, pinned) = match mask {
            true => (MASKS, u32::from(self.pinned_masks)),
            false => (self.usable, self.pinned),
        };
        let holders: &[Id] = if mask { &self.masks } else { &self.vectors };
        let mut farthest = (0, OUT, NONE);
        for (register, &id) in holders.iter().enumerate() {
            if usable & !pinned & 1 << register == 0 {
                continue;
            }
            if id == NONE {
                farthest = (NEVER, register as u8, NONE);
                break;
            }
            let next = self.uses.next(id, at);
            if farthest.1 == OUT || next > farthest.0 {
                farthest = (next, register as u8, id);
            }
        }
        let (next, register, id) = farthest;
        debug_assert_ne!(register, OUT, "all registers are pinned");
        if id != NONE {
            if next != NEVER && self.homes[id as usize] == Home::None {
                self.write_home(id);
            }
            self.drop_held(id);
        }
        match mask {
            true => self.pinned_masks |= 1 << register,
            false => self.pinned |= 1 << register,
        }
        register
    }

    /// The register of a value, pinned.
    pub(super) fn register(&mut self, id: Id) -> u8 {
        let register = self.held[id as usize];
        if register == OUT {
            // What is used last stays; a position before all uses changes no order.
            let register = self.allocate(self.is_mask(id), 0);
            self.read(id, register);
            self.hold(id, register);
            return register;
        }
        match self.is_mask(id) {
            true => self.pinned_masks |= 1 << register,
            false => self.pinned |= 1 << register,
        }
        register
    }

    /// A value in a register or in memory.
    pub(super) fn operand(&mut self, id: Id, at: u32) -> Rm {
        match self.memory(id, at) {
            Some(rm) => rm,
            None => Rm::Reg(self.register(id)),
        }
    }
}
