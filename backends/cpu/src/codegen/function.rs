//! A function around a body: its constants, its loops and its tail.
//!
//! It is called as `f(bytes, addresses, scalars, manner)`: bytes of the elements, the address of the first element of each
//! parameter, the launch's scalars, and [`Way`]. Elements are walked with `rcx` as offset in bytes.

use super::assembler::{
    AT_MOST, Assembler, Code, EQUAL, Extra, GREATER, Label, Map, Prefix, RAX, RBP, RBX, RCX, RDI, RDX, RSI,
    RSP, Rm,
};
use super::body::{Body, Level, Sink};
use super::opcodes::LOAD;
use super::registers::{Bases, Manner, Registers, TAIL_MASK, TAIL_VECTOR};
use super::ssa::Op;

/// How a call treats memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The elements are in a cache.
    Near = 0,
    /// Inputs are asked for ahead of time.
    Fetch = 1,
    /// And outputs, which begin with a vector, go past the caches.
    Stream = 2,
}

/// Registers for the addresses of parameters. The last holds the scalars at first.
const BASES: [u8; 11] = [RAX, RBX, 8, 9, 10, 11, 12, 13, 14, 15, RDX];
/// What the caller keeps.
pub(super) const SAVED: [u8; 5] = [RBX, 12, 13, 14, 15];
/// Bytes of a cache line.
pub(super) const LINE: i32 = 64;
/// Bytes between an element and those that are asked for while it is computed.
const AHEAD: i32 = 2048;
/// Instructions up to which a loop takes four lines at once, vector after vector.
pub(super) const SHORT: usize = 12;

/// Most bytes of the stack that a function takes: no more than the page that guards a stack, because it does not touch them in order.
pub(super) const STACK: i32 = 4096;

/// Code, and the offset of the function in it.
pub(super) struct Function {
    pub(super) code: Vec<u8>,
    pub(super) entry: usize,
}

/// For how many vectors a body is written side by side, at most. Long ones would take more than 150 µs to make: one of 87 instructions
/// takes 90.
pub(super) fn most_abreast(body: &Body) -> usize {
    const LONG: usize = 128;
    if body.insts.len() < LONG { 4 } else { 1 }
}

/// Bytes that a loop takes at once.
pub(super) fn step(registers: &Registers<'_>) -> i32 {
    match registers.weight() {
        weight if weight <= SHORT => 4 * LINE,
        _ => LINE.max(registers.abreast as i32 * registers.asm.width()),
    }
}

/// The function of a body; `None` where it has more parameters than there are registers.
pub(super) fn function(body: &Body, params: usize, wide: bool) -> Option<Function> {
    let mut asm = Assembler {
        code: Vec::with_capacity(4096),
        wide,
        half: false,
    };
    let width: i32 = if wide { 64 } else { 32 };

    let plain = body;
    let body = &plain.interleaved(most_abreast(plain));
    let pool = constants(&mut asm, body);
    let masks = asm.code.len();
    if !wide {
        asm.code.extend_from_slice(&[0xff; 32]);
        asm.code.extend_from_slice(&[0; 32]);
    }
    asm.code.resize(asm.code.len().next_multiple_of(64), 0xcc);
    let entry = asm.code.len();

    // Registers of the parameters that are walked.
    let mut bases = vec![0; params];
    let mut walked = Vec::new();
    let mut inputs = Vec::new();
    let loads = (plain.insts.iter().enumerate()).filter_map(|(i, inst)| match inst.op {
        Op::Load(param) if plain.needed[i] => Some(param),
        _ => None,
    });
    for param in loads {
        bases[param as usize] = *BASES.get(walked.len())?;
        // Fewer lines of narrow elements are read, and the processor asks for them.
        if plain.kind(param).is_none() {
            inputs.push(bases[param as usize]);
        }
        walked.push(param);
    }
    for &(sink, _) in &plain.sections[0].sinks {
        if let Sink::Store(param) = sink
            && !walked.contains(&param)
        {
            bases[param as usize] = *BASES.get(walked.len())?;
            walked.push(param);
        }
    }

    asm.push(RBP);
    asm.copy(RBP, RSP);
    SAVED.iter().for_each(|&r| asm.push(r));
    asm.and(RSP, -64);
    let frame = asm.sub(RSP, 0);
    let mut registers = Registers::new(&mut asm, body, &pool);
    registers.values(Level::Launch);
    let params = bases.clone();
    registers.enter(
        0,
        Bases {
            params,
            ..Bases::default()
        },
    );
    for &param in &walked {
        registers.asm.load(bases[param as usize], RSI, 8 * param as i32);
    }

    let near = |offset: i32, masked: bool| Manner {
        offset,
        masked,
        ..Manner::default()
    };
    let (mut fetch, mut stream, mut rest, mut end) = <(Label, Label, Label, Label)>::default();
    registers.settle();
    registers.asm.copy(RSI, RCX);
    registers.asm.plain(0x33, RCX, Rm::Reg(RCX));
    registers.asm.add(RSI, -(Way::Fetch as i32));
    registers.asm.jump_if(EQUAL, &mut fetch);
    registers.asm.jump_if(GREATER, &mut stream);
    let step = step(&registers);
    // Light ones wait for memory, and take no more of it at once.
    let far = if registers.weight() <= SHORT { LINE } else { step };
    if step > width {
        walk(&mut registers, step, |r| groups(r, (&[], 0), step, false));
    }
    registers.asm.place(&mut rest);
    walk(&mut registers, width, |r| r.section(near(0, false)));
    tail(registers.asm, masks, &mut end);
    registers.section(near(0, true));
    registers.asm.place(&mut end);
    epilogue(registers.asm);

    for (label, streams) in [(&mut fetch, false), (&mut stream, true)] {
        registers.asm.place(label);
        walk(&mut registers, far, |r| {
            groups(r, (&inputs, AHEAD), far, streams);
        });
        registers.asm.jump(&mut rest);
    }
    let bytes = registers.most_slots as i32 * width;
    asm.patch(frame, bytes);
    (bytes <= STACK).then_some(Function {
        code: asm.code,
        entry,
    })
}

pub(super) fn epilogue(asm: &mut Assembler) {
    asm.vzeroupper();
    asm.plain(
        0x8d,
        RSP,
        Rm::Base {
            base: RBP,
            offset: -8 * SAVED.len() as i32,
        },
    );
    SAVED.iter().rev().for_each(|&r| asm.pop(r));
    asm.pop(RBP);
    asm.ret();
}

/// The constants of a body at the beginning of the code: one of each, or a whole vector where instructions cannot repeat it.
pub(super) fn constants(asm: &mut Assembler, body: &Body) -> Vec<usize> {
    let copies = if asm.wide { 1 } else { 8 };
    let mut pool = vec![0; body.insts.len()];
    for (i, inst) in body.insts.iter().enumerate() {
        if let (Op::Const(bits), true) = (inst.op, body.needed[i]) {
            pool[i] = asm.code.len();
            (0..copies).for_each(|_| asm.code.extend_from_slice(&bits.to_le_bytes()));
        }
    }
    pool
}

/// Vectors of `step` bytes, and the lines that are asked for meanwhile, `ahead` bytes from where their registers point to.
pub(super) fn groups(registers: &mut Registers<'_>, (fetches, ahead): (&[u8], i32), step: i32, stream: bool) {
    let width = registers.asm.width();
    let vectors = (step / width) as usize;
    let abreast = registers.abreast.min(vectors);
    for first in (0..vectors).step_by(abreast) {
        let offset = first as i32 * width;
        let lines = (offset..offset + abreast as i32 * width).filter(|at| at % LINE == 0);
        for line in lines {
            for &base in fetches {
                let offset = ahead + line;
                registers.asm.prefetch(Rm::Element { base, offset });
            }
        }
        registers.section(Manner {
            offset,
            stream,
            part: first as u8,
            more: abreast as u8 - 1,
            ..Manner::default()
        });
    }
}

/// A loop that takes `step` bytes at once, as long as there are so many.
pub(super) fn walk<'a>(registers: &mut Registers<'a>, step: i32, body: impl FnOnce(&mut Registers<'a>)) {
    let (mut head, mut done) = <(Label, Label)>::default();
    registers.asm.sub(RDI, step);
    registers.asm.compare(RCX, RDI);
    registers.asm.jump_if(GREATER, &mut done);
    registers.asm.place(&mut head);
    body(registers);
    registers.asm.add(RCX, step);
    registers.asm.compare(RCX, RDI);
    registers.asm.jump_if(AT_MOST, &mut head);
    registers.asm.place(&mut done);
    registers.asm.add(RDI, step);
}

/// Makes the mask of the elements that are left, or jumps where there are none.
fn tail(asm: &mut Assembler, masks: usize, end: &mut Label) {
    if asm.wide {
        return mask_of_rest(asm, RSI, end);
    }
    asm.plain(0x2b, RDI, Rm::Reg(RCX));
    asm.jump_if(EQUAL, end);
    let from = Rm::Pool {
        at: masks + 32,
        each: false,
    };
    asm.address_of(RSI, from);
    asm.plain(0x2b, RSI, Rm::Reg(RDI));
    let from = Rm::Base { base: RSI, offset: 0 };
    asm.vector(LOAD, TAIL_VECTOR, 0, from, Extra::default());
}

/// The same with AVX-512, by way of a register.
pub(super) fn mask_of_rest(asm: &mut Assembler, by: u8, end: &mut Label) {
    asm.plain(0x2b, RDI, Rm::Reg(RCX));
    asm.jump_if(EQUAL, end);
    asm.shift(RDI, false, 2);
    // All ones, with the high bits cleared from bit rdi on.
    asm.plain(0xc7, 0, Rm::Reg(by));
    asm.code.extend_from_slice(&(-1_i32).to_le_bytes());
    let bzhi = Code(Map::M0F38, Prefix::None, 0xf5);
    asm.vex(bzhi, by, RDI, Rm::Reg(by), None, false, true);
    let to_mask = Code(Map::M0F, Prefix::None, 0x92);
    asm.vex(to_mask, TAIL_MASK, 0, Rm::Reg(by), None, false, false);
}
