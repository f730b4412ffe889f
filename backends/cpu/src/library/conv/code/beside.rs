//! Kernels on channels that lie side by side, as machine code.

use super::{Entry, Isa, Sum, Writer, arg, assembler, keep};
use crate::codegen::assembler::{AT_LEAST, Assembler, Label, RAX, RBP, RBX, RCX, RDI, RDX, RSI, Rm, UNEQUAL};
use crate::library::conv::beside::{MOST_COLUMNS, MOST_ROWS, MOST_STEP, STRIP, StripArgs, Strips, Window};
use std::mem::offset_of;
use std::sync::OnceLock;

/// For each number of rows in use, and of positions.
type Entries = Option<&'static [[Entry; STRIP]]>;
/// Sums of single numbers, which come first.
const SUMS: usize = Sum::I64 as usize + 1;

/// By instruction set, sum, window, and the order of its sums.
static STRIPS: [OnceLock<Entries>; 2 * SUMS * MOST_COLUMNS * MOST_ROWS * MOST_STEP * 2] =
    [const { OnceLock::new() }; _];

/// Where the kernels of a window are, if it has code.
fn cell((sum, wide): (Sum, bool), window: Window) -> Option<&'static OnceLock<Entries>> {
    let at = [
        (usize::from(wide), 2),
        (sum as usize, SUMS),
        (window.columns.checked_sub(1)?, MOST_COLUMNS),
        (window.rows.checked_sub(1)?, MOST_ROWS),
        (window.step.checked_sub(1)?, MOST_STEP),
        (window.by_rows.into(), 2),
    ];
    let exists = at.iter().all(|&(index, count)| index < count);
    exists.then(|| &STRIPS[at.iter().fold(0, |all, (index, count)| all * count + index)])
}

/// The kernels of a window that has code, where the system lets memory be executed.
pub(in super::super) fn strips<S>((sum, isa): (Sum, Isa), window: Window) -> Option<Strips<S>> {
    debug_assert_eq!(size_of::<S>(), 1 << sum.shift());
    let wide = isa == Isa::Avx512;
    let rows = window.rows;
    let entries = (*cell((sum, wide), window)?.get_or_init(|| {
        let mut asm = assembler(wide);
        let each = (1..=rows).flat_map(|used| (1..=STRIP).map(move |positions| (used, positions)));
        let starts: Vec<usize> = each
            .map(|(used, positions)| strip(&mut asm, sum, window, used, positions))
            .collect();
        let (by_rows, _) = keep(&asm.code, starts)?.leak().as_chunks::<STRIP>();
        Some(by_rows)
    }))?;
    // SAFETY: the entries are functions of this type, which read nothing of `S` but its size.
    Some(unsafe { std::mem::transmute::<&'static [[Entry; STRIP]], Strips<S>>(entries) })
}

/// Appends a kernel for `positions` that meet `used` rows of a window; the position of its first instruction.
fn strip(asm: &mut Assembler, sum: Sum, window: Window, used: usize, positions: usize) -> usize {
    const TABLE: u8 = RAX;
    const WEIGHTS: u8 = RCX;
    const X: u8 = RDX;
    const OUT: u8 = RSI;
    const OUT_AT: u8 = 8;
    const OUT_STEP: u8 = 9;
    const AT: u8 = 10;
    const LEFT: u8 = 11;
    const STRIPS: u8 = RBX;
    const FAR: u8 = RBP;
    let Window {
        columns,
        rows,
        step,
        by_rows,
    } = window;
    asm.align(64);
    let entry = asm.code.len();
    let mut w = Writer { asm, sum };
    let (width, long) = (w.asm.width(), sum.is_long());
    // Those that are open at once, and the weights that they meet before others.
    let (sums, held) = match by_rows {
        true => (positions, columns),
        false => (columns.div_ceil(step), used * columns),
    };
    let others = sums + 1 + usize::from(sum.product().is_some());
    let holds = held + others <= if w.asm.wide { 32 } else { 16 };
    let x = (sums + if holds { held } else { 0 }) as u8;
    let weight_at = |column: usize, row: usize| Rm::Base {
        base: WEIGHTS,
        offset: match by_rows {
            true => (row * columns + column) as i32 * width,
            false => (column * rows + row) as i32 * width,
        },
    };
    let weight_in = |column: usize, row: usize| match by_rows {
        true => (sums + column) as u8,
        false => (sums + column * used + row) as u8,
    };
    w.asm.push(STRIPS);
    w.asm.push(FAR);
    for (to, from) in [
        (TABLE, arg!(StripArgs, table)),
        (OUT, arg!(StripArgs, out)),
        (OUT_STEP, arg!(StripArgs, out_step)),
        (STRIPS, arg!(StripArgs, strips)),
    ] {
        w.asm.plain(0x8b, to, from);
    }
    w.asm.plain(0x33, FAR, Rm::Reg(FAR));
    let (mut strip, mut vector, mut whole) = <(Label, Label, Label)>::default();
    w.asm.align(32);
    w.asm.place(&mut strip);
    w.asm.plain(0x8b, WEIGHTS, arg!(StripArgs, weights));
    w.asm.plain(0x8b, LEFT, arg!(StripArgs, channels));
    w.asm.copy(X, FAR);
    w.asm.place(&mut vector);
    w.asm.small(7, Rm::Reg(LEFT), width as i8);
    w.asm.jump_if(AT_LEAST, &mut whole);
    // The last vector ends with the last channel, and some of its channels are computed twice.
    for at in [X, OUT] {
        w.asm.plain(0x03, at, Rm::Reg(LEFT));
        w.asm.small(5, Rm::Reg(at), width as i8);
    }
    w.asm.plain(0x33, LEFT, Rm::Reg(LEFT));
    w.asm.small(0, Rm::Reg(LEFT), width as i8);
    w.asm.place(&mut whole);
    w.asm.copy(OUT_AT, OUT);
    let met = (positions - 1) * step + columns;
    let in_order: Vec<(usize, usize)> = match by_rows {
        true => (0..used)
            .flat_map(|row| (0..met).map(move |at| (at, row)))
            .collect(),
        false => (0..met)
            .flat_map(|at| (0..used).map(move |row| (at, row)))
            .collect(),
    };
    for (at, row) in in_order {
        if holds && at == 0 && (by_rows || row == 0) {
            let rows = if by_rows { row..row + 1 } else { 0..used };
            for (column, row) in (0..columns).flat_map(|column| rows.clone().map(move |row| (column, row))) {
                w.load(weight_in(column, row), weight_at(column, row));
            }
        }
        w.asm.load(AT, TABLE, (8 * (at * used + row)) as i32);
        let element = Rm::Index {
            base: AT,
            index: X,
            shift: 0,
            offset: 0,
        };
        w.load(x, element);
        // The positions that meet it.
        let first = (at + 1).saturating_sub(columns).div_ceil(step);
        for position in first..positions.min(at / step + 1) {
            let (column, to) = (at - position * step, (position % sums) as u8);
            if (column, row) == (0, 0) {
                w.clear(to);
            }
            let weight = match holds {
                true => Rm::Reg(weight_in(column, row)),
                false => weight_at(column, row),
            };
            match sum.product() {
                None => w.asm.lanes(sum.code(), to, x, weight, long, width),
                Some(product) => {
                    w.asm.lanes(product, x + 1, x, weight, long, width);
                    w.asm.lanes(sum.code(), to, to, Rm::Reg(x + 1), long, 0);
                }
            }
            if (column, row) == (columns - 1, used - 1) {
                let out = Rm::Base {
                    base: OUT_AT,
                    offset: 0,
                };
                w.store(to, out);
                w.asm.plain(0x03, OUT_AT, Rm::Reg(OUT_STEP));
            }
        }
    }
    w.asm.add(WEIGHTS, (columns * rows) as i32 * width);
    w.asm.small(0, Rm::Reg(X), width as i8);
    w.asm.small(0, Rm::Reg(OUT), width as i8);
    w.asm.small(5, Rm::Reg(LEFT), width as i8);
    w.asm.jump_if(UNEQUAL, &mut vector);
    w.asm.plain(0x2b, OUT, arg!(StripArgs, channels));
    w.asm.plain(0x03, OUT, arg!(StripArgs, next_out));
    w.asm.plain(0x03, FAR, arg!(StripArgs, next));
    w.asm.small(5, Rm::Reg(STRIPS), 1);
    w.asm.jump_if(UNEQUAL, &mut strip);
    w.asm.vzeroupper();
    w.asm.pop(FAR);
    w.asm.pop(STRIPS);
    w.asm.ret();
    entry
}
