//! A function that walks rows: sections with their reductions, and between them the values of a row.
//!
//! It is called as `f(call)`, and takes the rows of [`Call`] in groups: each section walks the rows of a group before the next section
//! does. What a section gathers in a row comes late, after a reduction over lanes and what follows from it, and the processor walks other
//! rows meanwhile.

use super::assembler::{
    AT_MOST, Assembler, EQUAL, Extra, GREATER, LESS, Label, RAX, RBP, RBX, RCX, RDI, RDX, RSI, RSP, Rm,
    UNEQUAL,
};
use super::body::{Body, Level, Sink};
use super::function::{
    Function, SAVED, STACK, constants, epilogue, groups, mask_of_rest, most_abreast, step, walk,
};
use super::opcodes::LOAD;
use super::quotients::Divisor;
use super::reductions::Constants;
use super::registers::{Bases, Manner, Registers, TAIL_VECTOR};
use super::ssa::Op;
use super::uses::Uses;
use crate::loops::{CHUNK, LANES};
use std::mem::offset_of;

/// What the function is given.
#[repr(C)]
pub(super) struct Call {
    /// Of the elements of a row.
    pub(super) bytes: usize,
    /// Counted down to 0.
    pub(super) rows: usize,
    /// Of each parameter in the present row, then of each value that is kept, then what is asked for ahead of time.
    pub(super) addresses: *mut *mut u8,
    /// Bytes from a row to the next of each of them.
    pub(super) steps: *const isize,
    pub(super) scalars: *const u64,
    /// Whether outputs, whose rows begin with a line, go past the caches.
    pub(super) stream: usize,
    /// Rows of a group: no more than [`RowFunction::together`].
    pub(super) group: usize,
    /// Rows of the present group.
    pub(super) taken: usize,
    /// Those of them that the present section has before it.
    pub(super) left: usize,
}

/// Registers for addresses in a section. `rbx` has the call; `rsi` is last, because it has the table of addresses before.
const BASES: [u8; 10] = [8, 9, 10, 11, 12, 13, 14, 15, RDX, RSI];
/// Bytes of 16 elements, those of all lanes.
const GROUP: i32 = 4 * LANES as i32;
/// Most inputs that are asked for ahead of time.
pub(super) const MOST_AHEAD: usize = 3;
/// Most rows of a group, and bytes of the stack that their frames take.
const MOST_TOGETHER: usize = 8;
const FRAMES: usize = STACK as usize / 2;

/// The function of a body, and the inputs whose next rows it asks for.
pub(super) struct RowFunction {
    pub(super) function: Function,
    pub(super) ahead: Vec<u32>,
    /// Most rows of a group.
    pub(super) together: usize,
}

/// The memory of a section.
struct Walked {
    params: Vec<u32>,
    /// Those of them that are read.
    read: Vec<u32>,
    kept: Vec<u32>,
    weight: usize,
}

impl Walked {
    fn of(body: &Body, section: usize) -> Walked {
        let sinks = &body.sections[section].sinks;
        let ids: Vec<u32> = sinks.iter().map(|&(_, id)| id).collect();
        let before = |i: usize| {
            body.kept
                .iter()
                .position(|&(id, by)| id as usize == i && by < section)
        };
        let computes = |i: usize| {
            body.levels[i] == Level::Element
                && before(i).is_none()
                && !matches!(body.insts[i].op, Op::Load(_))
        };
        let uses = Uses::of(&body.insts, &ids, computes);
        let mut reads = ids.clone();
        let computed = body
            .insts
            .iter()
            .zip(&uses.computed)
            .filter(|(_, computed)| **computed);
        reads.extend(computed.flat_map(|(inst, _)| inst.operands()));
        let mut walked = Walked {
            params: Vec::new(),
            read: Vec::new(),
            kept: Vec::new(),
            weight: uses.computed.iter().filter(|&&c| c).count() + sinks.len(),
        };
        let add = |list: &mut Vec<u32>, value: u32| {
            if !list.contains(&value) {
                list.push(value);
            }
        };
        for id in reads {
            match (body.insts[id as usize].op, before(id as usize)) {
                (Op::Load(param), _) => {
                    add(&mut walked.params, param);
                    add(&mut walked.read, param);
                }
                (_, Some(kept)) => add(&mut walked.kept, kept as u32),
                _ => {}
            }
        }
        for &(sink, _) in sinks {
            match sink {
                Sink::Store(param) => add(&mut walked.params, param),
                Sink::Keep(kept) => add(&mut walked.kept, kept),
                Sink::Reduce(_) => {}
            }
        }
        walked
    }

    fn registers(&self) -> usize {
        self.params.len() + self.kept.len()
    }
}

fn of_call(offset: usize) -> Rm {
    Rm::Base {
        base: RBX,
        offset: offset as i32,
    }
}

/// Begins a group of rows.
fn begin_group(asm: &mut Assembler) {
    let mut fits = Label::default();
    asm.load(RAX, RBX, offset_of!(Call, rows) as i32);
    asm.plain(0x3b, RAX, of_call(offset_of!(Call, group)));
    asm.jump_if(AT_MOST, &mut fits);
    asm.load(RAX, RBX, offset_of!(Call, group) as i32);
    asm.place(&mut fits);
    asm.plain(0x89, RAX, of_call(offset_of!(Call, taken)));
}

/// Lets entries of the table of addresses, which `rsi` has, go on by a row.
fn next_row(asm: &mut Assembler, entries: &[usize]) {
    asm.load(RDX, RBX, offset_of!(Call, steps) as i32);
    for &entry in entries {
        let offset = 8 * entry as i32;
        asm.load(RAX, RDX, offset);
        asm.plain(0x01, RAX, Rm::Base { base: RSI, offset });
    }
}

/// Adds the rows of the group to entries of the table, or subtracts them; `rdx` has the steps.
fn skip_group(asm: &mut Assembler, entries: &[usize], back: bool) {
    asm.load(RCX, RBX, offset_of!(Call, taken) as i32);
    for &entry in entries {
        let offset = 8 * entry as i32;
        asm.load(RAX, RDX, offset);
        asm.multiply_by(RAX, RCX);
        let opcode = if back { 0x29 } else { 0x01 };
        asm.plain(opcode, RAX, Rm::Base { base: RSI, offset });
    }
}

/// The function of a body, which asks for so many inputs at most; `None` where it needs more registers or more of the stack than
/// there are.
pub(super) fn row_function(body: &Body, params: usize, wide: bool, asks: usize) -> Option<RowFunction> {
    // Frames may leave too little of the stack for what else a body puts there.
    [MOST_TOGETHER, 1]
        .into_iter()
        .find_map(|most| in_groups(body, params, wide, asks, most))
}

/// The same with at most so many rows in a group.
fn in_groups(body: &Body, params: usize, wide: bool, asks: usize, most: usize) -> Option<RowFunction> {
    let mut asm = Assembler {
        code: Vec::with_capacity(8192),
        wide,
        half: false,
    };
    let plain = body;
    let body = &plain.interleaved(most_abreast(plain));
    let pool = constants(&mut asm, body);
    let extra = Constants::write(&mut asm.code);
    let masks = asm.code.len();
    if !wide {
        asm.code.extend_from_slice(&[0xff; GROUP as usize]);
        asm.code.extend_from_slice(&[0; GROUP as usize]);
    }
    asm.code.resize(asm.code.len().next_multiple_of(64), 0xcc);
    let entry = asm.code.len();

    asm.push(RBP);
    asm.copy(RBP, RSP);
    SAVED.iter().for_each(|&r| asm.push(r));
    asm.and(RSP, -64);
    let frame = asm.sub(RSP, 0);
    asm.copy(RBX, RDI);
    asm.load(RSI, RBX, offset_of!(Call, addresses) as i32);
    asm.load(RDX, RBX, offset_of!(Call, scalars) as i32);
    let mut registers = Registers::new(&mut asm, body, &pool);
    let parts = if wide { 1 } else { 2 };
    let totals = registers.fixed(parts * body.reduces.len() as u32);
    let caller = registers.fixed(1);
    let caller = registers.slot(caller);
    registers.asm.plain(0x89, RBP, caller);
    let width = registers.asm.width();
    let frame_bytes = registers.row_slots as i32 * width;
    let grouped = plain.sections.len() > 1;
    let together = match grouped {
        true => (FRAMES / usize::max(1, frame_bytes as usize)).clamp(1, most),
        false => 1,
    };
    let frames = registers.fixed(together as u32 * registers.row_slots);
    let frames = registers.slot(frames);
    registers.values(Level::Launch);

    let sections: Vec<Walked> = (0..plain.sections.len()).map(|s| Walked::of(plain, s)).collect();
    // The next rows are asked for while the processor has most to do.
    let heavy = (0..sections.len()).max_by_key(|&s| sections[s].weight)?;
    let mut ahead: Vec<u32> = sections.iter().flat_map(|s| &s.read).copied().collect();
    ahead.sort_unstable();
    ahead.dedup();
    ahead.retain(|&p| body.kind(p).is_none());
    let most = BASES.len() - usize::from(!body.narrow.is_empty());
    let free = most.checked_sub(sections[heavy].registers())?;
    ahead.truncate(free.min(asks));

    let of_rows = plain.insts.iter().filter_map(|inst| match inst.op {
        Op::Row(param) => Some(param as usize),
        _ => None,
    });
    let of_rows: Vec<usize> = of_rows.collect();
    let stored = body.row_stores.iter().map(|&(param, _)| param as usize);
    let stored: Vec<usize> = stored.collect();
    let kept = params..params + body.kept.len();
    let all = || (0..kept.end + ahead.len()).filter(|e| !kept.contains(e));

    let mut group = Label::default();
    registers.asm.place(&mut group);
    begin_group(registers.asm);
    for (s, walked) in sections.iter().enumerate() {
        let mut bases = Bases {
            params: vec![0; params],
            kept: vec![0; body.kept.len()],
        };
        // Where there are narrow elements, `rsi` has their place.
        let least = usize::from(!body.narrow.is_empty());
        let mut free = BASES[..BASES.len() - least].iter().copied();
        let mut loads = Vec::new();
        for &p in &walked.params {
            bases.params[p as usize] = free.next()?;
            loads.push((bases.params[p as usize], p));
        }
        for &k in &walked.kept {
            bases.kept[k as usize] = free.next()?;
            loads.push((bases.kept[k as usize], params as u32 + k));
        }
        let mut entries: Vec<usize> = loads.iter().map(|&(_, entry)| entry as usize).collect();
        let mut fetches = Vec::new();
        if s == heavy {
            for (a, _) in ahead.iter().enumerate() {
                let base = free.next()?;
                fetches.push(base);
                loads.push((base, (kept.end + a) as u32));
                entries.push(kept.end + a);
            }
        }
        let mut row = Label::default();
        let asm = &mut *registers.asm;
        asm.load(RAX, RBX, offset_of!(Call, taken) as i32);
        asm.plain(0x89, RAX, of_call(offset_of!(Call, left)));
        asm.address_of(RBP, frames);
        asm.place(&mut row);
        asm.load(RSI, RBX, offset_of!(Call, addresses) as i32);
        if s == 0 {
            registers.values(Level::Row(0));
            entries.extend(&of_rows);
        }
        for (base, entry) in loads {
            registers.asm.load(base, RSI, 8 * entry as i32);
        }
        registers.enter(s, bases);
        let sinks = &plain.sections[s].sinks;
        let reduces: Vec<_> = (sinks.iter())
            .filter_map(|&(sink, _)| match sink {
                Sink::Reduce(r) => Some((r, body.reduces[r as usize])),
                Sink::Keep(_) | Sink::Store(_) => None,
            })
            .collect();
        let stores = sinks.iter().any(|&(sink, _)| matches!(sink, Sink::Store(_)));
        registers.begin(&reduces, totals, extra)?;
        let divisor = registers.divisor(!walked.read.is_empty());
        let mut elements = Elements {
            registers: &mut registers,
            fetches,
            masks,
        };
        match divisor {
            None => elements.walk(stores),
            Some(divisor) => elements.divide(divisor, extra),
        }
        registers.finish();
        registers.asm.load(RSI, RBX, offset_of!(Call, addresses) as i32);
        registers.values(Level::Row(s as u32 + 1));
        if s + 1 == sections.len() {
            store_row(&mut registers)?;
            entries.extend(&stored);
        }
        entries.sort_unstable();
        entries.dedup();
        if !grouped {
            entries = all().collect();
        }
        let asm = &mut *registers.asm;
        next_row(asm, &entries);
        if grouped {
            asm.add(RBP, frame_bytes);
        }
        asm.small(5, of_call(offset_of!(Call, left)), 1);
        asm.jump_if(UNEQUAL, &mut row);
        if grouped {
            skip_group(asm, &entries, true);
        }
    }
    if grouped {
        let all: Vec<usize> = all().collect();
        skip_group(registers.asm, &all, false);
    }
    let most_slots = registers.most_slots;
    asm.load(RAX, RBX, offset_of!(Call, taken) as i32);
    asm.plain(0x29, RAX, of_call(offset_of!(Call, rows)));
    asm.jump_if(UNEQUAL, &mut group);
    asm.plain(0x8b, RBP, caller);
    epilogue(&mut asm);
    let bytes = most_slots as i32 * if wide { 64 } else { 32 };
    asm.patch(frame, bytes);
    (bytes <= STACK).then_some(RowFunction {
        function: Function {
            code: asm.code,
            entry,
        },
        ahead,
        together,
    })
}

/// Writes the values of a row; `rsi` has the table of addresses.
fn store_row(registers: &mut Registers<'_>) -> Option<()> {
    let body = registers.body;
    for &(param, id) in &body.row_stores {
        let from = registers.single(id)?;
        registers.asm.load(RAX, RSI, 8 * param as i32);
        let to = Rm::Base { base: RAX, offset: 0 };
        match (body.is_place(id), body.kind(param)) {
            (true, _) => {
                registers.asm.plain(0x8b, RDX, from);
                registers.asm.plain(0x89, RDX, to);
            }
            (false, None) => {
                registers.asm.plain32(0x8b, RDX, from);
                registers.asm.plain32(0x89, RDX, to);
            }
            (false, Some(_)) => {
                registers.asm.plain32(0x8b, RDX, from);
                registers.asm.store_word(RDX, to);
            }
        }
    }
    Some(())
}

/// The code that walks the elements of a row in a section.
struct Elements<'r, 'a> {
    registers: &'r mut Registers<'a>,
    /// Registers of what is asked for.
    fetches: Vec<u8>,
    /// Where the masks of AVX2 stand.
    masks: usize,
}

impl Elements<'_, '_> {
    /// A walk with quotients by a value of the row, and the same with divisions.
    fn divide(&mut self, divisor: Divisor, constants: Constants) {
        let (mut slow, mut end) = <(Label, Label)>::default();
        self.registers.begin_quotients(divisor, constants, &mut slow);
        self.walk(true);
        self.registers.end_quotients(&mut slow);
        self.registers.asm.jump(&mut end);
        self.registers.asm.place(&mut slow);
        self.walk(true);
        self.registers.asm.place(&mut end);
    }

    fn walk(&mut self, stores: bool) {
        let r = &mut *self.registers;
        r.settle();
        r.asm.load(RDI, RBX, offset_of!(Call, bytes) as i32);
        r.asm.plain(0x33, RCX, Rm::Reg(RCX));
        let (mut past, mut rest) = <(Label, Label)>::default();
        if stores {
            let stream = Rm::Base {
                base: RBX,
                offset: offset_of!(Call, stream) as i32,
            };
            r.asm.compare_byte(stream, 0);
            r.asm.jump_if(UNEQUAL, &mut past);
        }
        self.whole(false);
        self.registers.asm.place(&mut rest);
        self.rest();
        if self.registers.gathered.has_sums() {
            self.registers.flush(true);
        }
        if stores {
            let mut end = Label::default();
            self.registers.asm.jump(&mut end);
            self.registers.asm.place(&mut past);
            self.whole(true);
            self.registers.asm.jump(&mut rest);
            self.registers.asm.place(&mut end);
        }
    }

    /// Whole chunks where there are sums, and groups of vectors.
    fn whole(&mut self, stream: bool) {
        let step = step(self.registers);
        let (mut chunk, mut done) = <(Label, Label)>::default();
        if self.registers.gathered.has_sums() {
            let asm = &mut *self.registers.asm;
            asm.place(&mut chunk);
            let offset = 4 * CHUNK as i32;
            asm.address_of(RAX, Rm::Base { base: RCX, offset });
            asm.compare(RAX, RDI);
            asm.jump_if(GREATER, &mut done);
            let mut inner = Label::default();
            asm.place(&mut inner);
            groups(self.registers, (&self.fetches, 0), step, stream);
            let asm = &mut *self.registers.asm;
            asm.add(RCX, step);
            asm.compare(RCX, RAX);
            asm.jump_if(LESS, &mut inner);
            self.registers.flush(false);
            self.registers.asm.jump(&mut chunk);
            self.registers.asm.place(&mut done);
        }
        let fetches = self.fetches.clone();
        let group = |registers: &mut Registers<'_>, step: i32| groups(registers, (&fetches, 0), step, stream);
        if step != GROUP {
            walk(self.registers, step, |r| group(r, step));
        }
        if stream {
            walk(self.registers, GROUP, |r| group(r, GROUP));
        }
    }

    /// What is left: whole vectors, and the last.
    fn rest(&mut self) {
        let fetches = self.fetches.clone();
        walk(self.registers, GROUP, |r| groups(r, (&fetches, 0), GROUP, false));
        let mut end = Label::default();
        let r = &mut *self.registers;
        let masked = |offset: i32, part: u8| Manner {
            offset,
            masked: true,
            part,
            ..Manner::default()
        };
        if r.asm.wide {
            mask_of_rest(r.asm, RAX, &mut end);
            r.section(masked(0, 0));
        } else {
            r.asm.plain(0x2b, RDI, Rm::Reg(RCX));
            r.asm.jump_if(EQUAL, &mut end);
            let at = self.masks + GROUP as usize;
            for part in 0..2 {
                let offset = 32 * i32::from(part);
                r.asm.address_of(RAX, Rm::Pool { at, each: false });
                r.asm.plain(0x2b, RAX, Rm::Reg(RDI));
                let from = Rm::Base { base: RAX, offset };
                r.asm.vector(LOAD, TAIL_VECTOR, 0, from, Extra::default());
                r.section(masked(offset, part));
            }
        }
        r.asm.place(&mut end);
    }
}

const _: () = assert!((CHUNK * 4).is_multiple_of(4 * GROUP as usize));
