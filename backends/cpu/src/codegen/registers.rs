//! Instructions of a body as machine code, with a register for each value.
//!
//! A body has no branch, so one walk suffices: a value gets a register where it is defined, and where none is free the value whose
//! next use is farthest goes to the stack.

use super::assembler::{Assembler, Code, Extra, RAX, RDX, RSI, Rm};
use super::lower::Body;
use super::opcodes::{
    BLEND, BLEND_BY_VECTOR, BROADCAST, COMPARE, FMA132, FMA213, FMA231, KEEP, LOAD, LOAD_MASK, MASKED_LOAD,
    MASKED_STORE, MOVE, STORE, STORE_MASK, STREAM, binary_code, commutes, lane_mask_code, mask_code,
    predicate, unary_code,
};
use super::ssa::{Id, NONE, Op, Unary};
use super::uses::{NEVER, Uses};

/// Where a value stands besides a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    None,
    /// A constant at a position in the code.
    Pool(usize),
    /// On the stack.
    Slot(u32),
    /// Elements of a parameter whose address a register holds.
    Param(u8),
}

/// No register.
const OUT: u8 = u8::MAX;

/// How a body treats memory.
#[derive(Clone, Copy, Default)]
pub(super) struct Manner {
    /// Bytes from the present elements on.
    pub(super) offset: i32,
    /// Only the lanes of the mask exist.
    pub(super) masked: bool,
    /// Stores go past the caches.
    pub(super) stream: bool,
}

/// The register that holds the mask of a tail: of AVX-512 and of AVX2.
pub(super) const TAIL_MASK: u8 = 7;
pub(super) const TAIL_VECTOR: u8 = 15;

/// A body that is made into code, as often as there are loops.
pub(super) struct Registers<'a> {
    pub(super) asm: &'a mut Assembler,
    body: &'a Body,
    /// Of each parameter, the register of its address.
    bases: Vec<u8>,
    uses: Uses,
    homes: Vec<Home>,
    /// Register of each value.
    held: Vec<u8>,
    /// Value in each register.
    vectors: [Id; 32],
    masks: [Id; 8],
    usable: u32,
    pinned: u32,
    pinned_masks: u8,
    fixed_slots: u32,
    slots: u32,
    pub(super) most_slots: u32,
    manner: Manner,
}

impl<'a> Registers<'a> {
    /// `pool` has the position of each constant, `bases` the register of each parameter's address.
    pub(super) fn new(
        asm: &'a mut Assembler,
        body: &'a Body,
        uses: Uses,
        pool: &[usize],
        bases: Vec<u8>,
    ) -> Registers<'a> {
        let count = body.insts.len();
        let mut homes = vec![Home::None; count];
        let mut fixed_slots = 0;
        for (i, inst) in body.insts.iter().enumerate().filter(|(i, _)| uses.live[*i]) {
            homes[i] = match inst.op {
                Op::Const(_) => Home::Pool(pool[i]),
                Op::Load(param) => Home::Param(bases[param as usize]),
                _ if uses.uniform[i] => {
                    fixed_slots += 1;
                    Home::Slot(fixed_slots - 1)
                }
                _ => Home::None,
            };
        }
        Registers {
            asm,
            body,
            bases,
            uses,
            homes,
            held: vec![OUT; count],
            vectors: [NONE; 32],
            masks: [NONE; 8],
            usable: 0,
            pinned: 0,
            pinned_masks: 0,
            fixed_slots,
            slots: fixed_slots,
            most_slots: fixed_slots,
            manner: Manner::default(),
        }
    }

    /// Whether a value has an instruction in each loop.
    fn is_computed(&self, i: usize) -> bool {
        self.uses.live[i] && !self.uses.uniform[i] && !matches!(self.body.insts[i].op, Op::Load(_))
    }

    /// Instructions for one vector of elements.
    pub(super) fn weight(&self) -> usize {
        let computed = (0..self.body.insts.len()).filter(|&i| self.is_computed(i));
        computed.count() + self.body.stores.len()
    }

    /// Bytes of a vector.
    fn width(&self) -> i32 {
        if self.asm.wide { 64 } else { 32 }
    }

    fn start(&mut self, manner: Manner) {
        self.manner = manner;
        self.usable = match (self.asm.wide, manner.masked) {
            (true, _) => u32::MAX,
            (false, true) => (1 << TAIL_VECTOR) - 1,
            (false, false) => 0xffff,
        };
        self.vectors = [NONE; 32];
        self.masks = [NONE; 8];
        self.held.fill(OUT);
        self.uses.restart();
        self.slots = self.fixed_slots;
        for home in &mut self.homes {
            // What the body before put on the stack.
            if matches!(*home, Home::Slot(slot) if slot >= self.fixed_slots) {
                *home = Home::None;
            }
        }
    }

    /// The values that are the same for all elements, on the stack. `rsi` has the table of parameters, `rdx` the scalars.
    pub(super) fn uniforms(&mut self) {
        for i in 0..self.body.insts.len() {
            let Home::Slot(_) = self.homes[i] else { continue };
            let manner = self.manner;
            self.start(manner);
            match self.body.insts[i].op {
                Op::Scalar(index) => self.broadcast(
                    i,
                    Rm::Base {
                        base: RDX,
                        offset: 8 * index as i32,
                    },
                ),
                Op::Single(param) => {
                    self.asm.load(RAX, RSI, 8 * param as i32);
                    self.broadcast(i, Rm::Base { base: RAX, offset: 0 });
                }
                _ => self.inst(i),
            }
            self.write_home(i as Id);
        }
    }

    fn broadcast(&mut self, i: usize, from: Rm) {
        self.asm.vector(BROADCAST, 0, 0, from, Extra::default());
        self.hold(i as Id, 0);
    }

    /// The code of the whole body.
    pub(super) fn body(&mut self, manner: Manner) {
        self.start(manner);
        for i in 0..self.body.insts.len() {
            if self.is_computed(i) {
                self.inst(i);
            }
        }
        for k in 0..self.body.stores.len() {
            let (param, id) = self.body.stores[k];
            let from = self.register(id);
            self.unpin();
            let to = self.element(self.bases[param as usize]);
            let extra = Extra {
                mask: if self.manner.masked { TAIL_MASK } else { 0 },
                ..Extra::default()
            };
            match (self.manner.masked, self.asm.wide) {
                (true, false) => self
                    .asm
                    .vector(MASKED_STORE, from, TAIL_VECTOR, to, Extra::default()),
                _ if self.manner.stream => self.asm.vector(STREAM, from, 0, to, extra),
                _ => self.asm.vector(STORE, from, 0, to, extra),
            }
            self.release(id, (self.body.insts.len() + k) as u32);
        }
    }

    fn is_mask(&self, id: Id) -> bool {
        self.asm.wide && self.body.insts[id as usize].op.is_mask()
    }

    fn hold(&mut self, id: Id, register: u8) {
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
    fn release(&mut self, id: Id, at: u32) {
        if self.uses.next(id, at) == NEVER {
            self.drop_held(id);
        }
    }

    fn unpin(&mut self) {
        (self.pinned, self.pinned_masks) = (0, 0);
    }

    /// The elements at hand.
    fn element(&self, base: u8) -> Rm {
        let offset = self.manner.offset;
        Rm::Element { base, offset }
    }

    fn slot(&self, slot: u32) -> Rm {
        Rm::Stack(slot as i32 * self.width())
    }

    /// Writes a value to its slot; it gets one where it has no home.
    fn write_home(&mut self, id: Id) {
        if self.homes[id as usize] == Home::None {
            self.homes[id as usize] = Home::Slot(self.slots);
            self.slots += 1;
            self.most_slots = self.most_slots.max(self.slots);
        }
        let Home::Slot(slot) = self.homes[id as usize] else {
            return;
        };
        let (to, register) = (self.slot(slot), self.held[id as usize]);
        if self.is_mask(id) {
            self.asm.vex(STORE_MASK, register, 0, to, None, false, false);
        } else {
            self.asm.vector(KEEP, register, 0, to, Extra::default());
        }
    }

    /// A free register for a value or a mask, pinned. The value with the farthest use makes room.
    fn allocate(&mut self, mask: bool, at: u32) -> u8 {
        let (usable, pinned) = match mask {
            true => (0x7e, u32::from(self.pinned_masks)),
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

    /// Reads a value from its home.
    fn read(&mut self, id: Id, to: u8) {
        match self.homes[id as usize] {
            Home::Pool(at) => {
                let from = Rm::Pool { at, each: false };
                self.asm.vector(BROADCAST, to, 0, from, Extra::default());
            }
            Home::Slot(slot) if self.is_mask(id) => {
                self.asm
                    .vex(LOAD_MASK, to, 0, self.slot(slot), None, false, false);
            }
            Home::Slot(slot) => self.asm.vector(MOVE, to, 0, self.slot(slot), Extra::default()),
            Home::Param(base) => {
                let from = self.element(base);
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
            Home::None => debug_assert!(false, "value {id} is nowhere"),
        }
    }

    /// The register of a value, pinned.
    fn register(&mut self, id: Id) -> u8 {
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

    /// Where an instruction may read the value in memory.
    fn memory(&mut self, id: Id, at: u32) -> Option<Rm> {
        if self.held[id as usize] != OUT || self.is_mask(id) {
            return None;
        }
        let home = self.homes[id as usize];
        match home {
            Home::Pool(at) => Some(Rm::Pool {
                at,
                each: self.asm.wide,
            }),
            Home::Slot(slot) => Some(self.slot(slot)),
            Home::Param(base) if !self.manner.masked && self.uses.next(id, at) == NEVER => {
                Some(self.element(base))
            }
            Home::Param(_) | Home::None => None,
        }
    }

    /// A value in a register or in memory.
    fn operand(&mut self, id: Id, at: u32) -> Rm {
        match self.memory(id, at) {
            Some(rm) => rm,
            None => Rm::Reg(self.register(id)),
        }
    }

    /// One instruction that is not defined by its home.
    fn inst(&mut self, i: usize) {
        let inst = self.body.insts[i];
        let (op, [a, b, c]) = (inst.op, inst.args);
        let at = i as u32;
        let plain = Extra::default();
        let finish = |this: &mut Self| {
            inst.operands().for_each(|id| this.release(id, at));
            // Operands are read before the result is written.
            this.unpin();
            let register = this.allocate(this.is_mask(i as Id), at);
            this.hold(i as Id, register);
            this.unpin();
            register
        };
        match op {
            Op::Const(_) | Op::Scalar(_) | Op::Single(_) | Op::Load(_) => {}
            Op::Unary(op @ (Unary::ShiftLeft(_) | Unary::ShiftRight(_))) => {
                let from = self.register(a);
                let to = finish(self);
                let (code, imm) = unary_code(op);
                // The field of the result tells the two apart; the result stands where others have an operand.
                let which = if matches!(op, Unary::ShiftLeft(_)) { 6 } else { 4 };
                self.asm
                    .vector(code, which, to, Rm::Reg(from), Extra { imm, ..plain });
            }
            Op::Unary(op) => {
                let from = self.operand(a, at);
                let to = finish(self);
                let (code, imm) = unary_code(op);
                self.asm.vector(code, to, 0, from, Extra { imm, ..plain });
            }
            Op::Binary(op) => {
                let swap = commutes(op) && self.held[a as usize] == OUT;
                let (a, b) = if swap { (b, a) } else { (a, b) };
                let v = self.register(a);
                let rm = self.operand(b, at);
                let to = finish(self);
                self.asm.vector(binary_code(op), to, v, rm, plain);
            }
            Op::Compare(op) => {
                let swap = self.held[a as usize] == OUT;
                let (a, b) = if swap { (b, a) } else { (a, b) };
                let v = self.register(a);
                let rm = self.operand(b, at);
                let to = finish(self);
                let (straight, swapped) = predicate(op);
                let imm = Some(if swap { swapped } else { straight });
                self.asm.vector(COMPARE, to, v, rm, Extra { imm, ..plain });
            }
            Op::Logic(op) => {
                let (a, b) = (self.register(a), self.register(b));
                let to = finish(self);
                if self.asm.wide {
                    self.asm.vex(mask_code(op), to, a, Rm::Reg(b), None, true, false);
                } else {
                    self.asm.vector(lane_mask_code(op), to, a, Rm::Reg(b), plain);
                }
            }
            Op::Select => {
                let (mask, no) = (self.register(a), self.register(c));
                let yes = self.operand(b, at);
                let to = finish(self);
                if self.asm.wide {
                    self.asm.vector(BLEND, to, no, yes, Extra { mask, ..plain });
                } else {
                    let imm = Some(mask << 4);
                    self.asm
                        .vector(BLEND_BY_VECTOR, to, no, yes, Extra { imm, ..plain });
                }
            }
            Op::Fma => self.fma(i as Id, [a, b, c]),
        }
    }

    /// One of its operands is overwritten: one that has no other use, or a copy.
    fn fma(&mut self, id: Id, [a, b, c]: [Id; 3]) {
        let at = id;
        let once = |x: Id| usize::from(x == a) + usize::from(x == b) + usize::from(x == c) == 1;
        let in_memory = [c, b, a].into_iter().find_map(|x| {
            let rm = if once(x) { self.memory(x, at) } else { None };
            rm.map(|rm| (x, rm))
        });
        let (a, b) = if in_memory.is_some_and(|(x, _)| x == a) {
            (b, a)
        } else {
            (a, b)
        };
        // Values that may be overwritten, and those that the instruction reads then.
        let choices: &[(Id, Code, Id, Id)] = match in_memory {
            Some((x, _)) if x == c => &[(a, FMA213, b, c), (b, FMA213, a, c)],
            Some(_) => &[(a, FMA132, c, b), (c, FMA231, a, b)],
            None => &[(c, FMA231, a, b), (a, FMA213, b, c), (b, FMA213, a, c)],
        };
        let last =
            (choices.iter()).find(|&&(x, ..)| self.held[x as usize] != OUT && self.uses.next(x, at) == NEVER);
        let absent = choices.iter().find(|&&(x, ..)| self.held[x as usize] == OUT);
        let &(over, code, v, rm) = last.or(absent).unwrap_or(&choices[0]);
        let owned = last.is_some();
        if owned {
            self.register(over);
        }
        let v = self.register(v);
        let rm = match in_memory {
            Some((_, rm)) => rm,
            None => Rm::Reg(self.register(rm)),
        };
        let to = if owned {
            self.held[over as usize]
        } else {
            let to = self.allocate(false, 0);
            match self.held[over as usize] {
                OUT => self.read(over, to),
                from => self.asm.vector(MOVE, to, 0, Rm::Reg(from), Extra::default()),
            }
            to
        };
        self.asm.vector(code, to, v, rm, Extra::default());
        [a, b, c].into_iter().for_each(|x| self.release(x, at));
        self.hold(id, to);
        self.unpin();
    }
}
