//! Kernels on lines as machine code.

use super::{Entry, Isa, Sum, Writer, arg, assembler, keep};
use crate::codegen::assembler::{Assembler, GREATER, Label, RAX, RCX, RDI, RDX, RSI, Rm, UNEQUAL};
use crate::library::conv::lines::{LinesArgs, LinesFn, MOST_ROWS};
use std::mem::offset_of;
use std::sync::OnceLock;

/// For each number of lines, the first instructions.
type Entries = Option<&'static [Entry]>;

/// By instruction set and width, sum, and rows of taps.
static LINES: [[[OnceLock<Entries>; MOST_ROWS]; Sum::ALL.len()]; 3] =
    [const { [const { [const { OnceLock::new() }; MOST_ROWS] }; Sum::ALL.len()] }; 3];

/// The kernels for `index + 1` lines of `rows` rows of taps and registers of `lanes` lanes, where the system lets memory be executed.
pub(in super::super) fn kernels<S>(
    (sum, isa): (Sum, Isa),
    lanes: usize,
    rows: usize,
) -> Option<&'static [LinesFn<S>]> {
    debug_assert_eq!(size_of::<S>(), 1 << sum.shift());
    let (wide, half) = (isa == Isa::Avx512, lanes * size_of::<S>() == 32);
    let form = if wide { 1 + usize::from(half) } else { 0 };
    let entries = (*LINES[form][sum as usize][rows - 1].get_or_init(|| {
        let mut asm = assembler(wide);
        asm.half = wide && half;
        // A register for each line and each row of taps, one of x, and one for products that are not added at once.
        let others = rows + 1 + usize::from(sum.product().is_some());
        let registers = if wide { 32 } else { 16 };
        let starts = (1..=registers - others).map(|high| lines(&mut asm, sum, high, rows));
        let starts: Vec<usize> = starts.collect();
        Some(&*keep(&asm.code, starts)?.leak())
    }))?;
    // SAFETY: the entries are functions of this type, which read nothing of `S` but its size.
    Some(unsafe { std::mem::transmute::<&'static [Entry], &'static [LinesFn<S>]>(entries) })
}

/// Appends a kernel for `high` lines of `rows` rows of taps; the position of its first instruction.
fn lines(asm: &mut Assembler, sum: Sum, high: usize, rows: usize) -> usize {
    const WEIGHTS: u8 = RAX;
    const OFFSETS: u8 = RCX;
    const LINE: u8 = RDX;
    const X: u8 = RSI;
    const THREE_LINES: u8 = 8;
    const LEFT: u8 = 9;
    const AT: u8 = 10;
    const OUT: u8 = RAX;
    const OUT_LINE: u8 = RCX;
    let index = |base: u8, index: u8, shift: u8| Rm::Index {
        base,
        index,
        shift,
        offset: 0,
    };
    asm.align(64);
    let entry = asm.code.len();
    let mut w = Writer { asm, sum };
    let lane = w.lane();
    let (weights, x, spare) = (high as u8, (high + rows) as u8, (high + rows + 1) as u8);
    for (to, from) in [
        (X, arg!(LinesArgs, x)),
        (LINE, arg!(LinesArgs, x_line)),
        (LEFT, arg!(LinesArgs, columns)),
        (OFFSETS, arg!(LinesArgs, offsets)),
        (WEIGHTS, arg!(LinesArgs, weights)),
    ] {
        w.asm.plain(0x8b, to, from);
    }
    w.asm.shift(LINE, true, sum.shift());
    w.asm.address_of(THREE_LINES, index(LINE, LINE, 1));
    (0..high as u8).for_each(|line| w.clear(line));
    let mut column = Label::default();
    w.asm.align(32);
    w.asm.place(&mut column);
    let mut next = Label::default();
    let base = |base: u8, offset: i32| Rm::Base { base, offset };
    w.asm.plain32(0x8b, AT, base(OFFSETS, 0));
    w.asm.address_of(AT, index(X, AT, sum.shift()));
    for row in 0..rows {
        w.spread(weights + row as u8, base(WEIGHTS, row as i32 * lane));
    }
    let last = high + rows - 1;
    for line in 0..last {
        if line > 0 && line % 4 == 0 {
            w.asm.address_of(AT, index(AT, LINE, 2));
        }
        let mut skip = Label::default();
        if line + 1 < rows {
            w.asm.small(7, arg!(LinesArgs, above), line as i8);
            w.asm.jump_if(GREATER, &mut skip);
        }
        if line >= high {
            let behind = last - 1 - line;
            w.asm.small(7, arg!(LinesArgs, below), behind as i8);
            w.asm.jump_if(GREATER, &mut next);
        }
        let from = match line % 4 {
            0 => base(AT, 0),
            1 => index(AT, LINE, 0),
            2 => index(AT, LINE, 1),
            _ => index(AT, THREE_LINES, 0),
        };
        w.load(x, from);
        for row in 0..rows {
            if (row..row + high).contains(&line) {
                w.multiply_add_weight((line - row) as u8, weights + row as u8, x, spare);
            }
        }
        w.asm.place(&mut skip);
    }
    w.asm.place(&mut next);
    w.asm.add(OFFSETS, 4);
    w.asm.add(WEIGHTS, rows as i32 * lane);
    w.asm.small(5, Rm::Reg(LEFT), 1);
    w.asm.jump_if(UNEQUAL, &mut column);
    w.asm.plain(0x8b, OUT, arg!(LinesArgs, out));
    w.asm.plain(0x8b, OUT_LINE, arg!(LinesArgs, out_line));
    w.asm.shift(OUT_LINE, true, sum.shift());
    for line in 0..high as u8 {
        w.store(line, base(OUT, 0));
        w.asm.plain(0x03, OUT, Rm::Reg(OUT_LINE));
    }
    w.asm.vzeroupper();
    w.asm.ret();
    entry
}
