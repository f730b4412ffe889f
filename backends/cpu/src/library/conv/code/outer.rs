//! Outer products as machine code.

use super::{Sum, Writer, arg};
use crate::codegen::assembler::{
    Assembler, EQUAL, Label, RAX, RBP, RBX, RCX, RDI, RDX, RSI, RSP, Rm, UNEQUAL,
};
use crate::library::conv::tile::OuterArgs;
use std::mem::offset_of;

/// Appends a kernel of outer products for `lines` lines of `taps` taps; the position of its first instruction.
pub(super) fn outer(asm: &mut Assembler, sum: Sum, lines: i32, taps: i32) -> usize {
    const LINES: [u8; 12] = [RAX, RCX, RDX, RBX, RBP, RSI, 8, 9, 10, 11, 12, 13];
    const SAVED: [u8; 6] = [RBX, RBP, 12, 13, 14, 15];
    /// Bytes from a line's first position.
    const AT: u8 = 14;
    const Y: u8 = 15;
    /// Places below the stack pointer, which a function that calls none may use.
    const LIMIT: Rm = below(8);
    const LEFT: Rm = below(16);
    const LINE: Rm = below(24);
    const ARGS: Rm = below(32);
    asm.align(64);
    let entry = asm.code.len();
    let mut w = Writer { asm, sum };
    let (width, lane, shift) = (w.asm.width(), w.lane(), sum.shift());
    let sums = (lines * taps) as u8;
    let (row, spare) = (sums, sums + 1);
    let of_lines = &LINES[..lines as usize];
    SAVED.iter().for_each(|&r| w.asm.push(r));
    w.asm.plain(0x8b, AT, arg!(OuterArgs, x));
    w.asm.plain(0x8b, Y, arg!(OuterArgs, offsets));
    for (&line, i) in of_lines.iter().zip(0..) {
        w.asm.plain32(
            0x8b,
            line,
            Rm::Base {
                base: Y,
                offset: 4 * i,
            },
        );
        let at = Rm::Index {
            base: AT,
            index: line,
            shift,
            offset: 0,
        };
        w.asm.address_of(line, at);
    }
    w.asm.plain(0x89, RDI, ARGS);
    w.asm.plain(0x8b, AT, arg!(OuterArgs, high));
    w.asm.plain(0x89, AT, LEFT);
    w.asm.plain(0x8b, AT, arg!(OuterArgs, line));
    w.asm.shift(AT, true, shift);
    w.asm.plain(0x89, AT, LINE);
    w.asm.plain(0x8b, AT, arg!(OuterArgs, wide));
    w.asm.plain(0x8b, Y, arg!(OuterArgs, step));
    w.asm.multiply_by(AT, Y);
    w.asm.shift(AT, true, shift);
    w.asm.plain(0x89, AT, LIMIT);
    w.asm.plain(0x8b, Y, arg!(OuterArgs, y));
    (0..sums).for_each(|sum| w.clear(sum));
    let (mut high, mut wide, mut end) = <(Label, Label, Label)>::default();
    // The step, in bytes.
    w.asm.plain(0x8b, RDI, arg!(OuterArgs, step));
    w.asm.shift(RDI, true, shift);
    w.asm.place(&mut high);
    w.asm.plain(0x33, AT, Rm::Reg(AT));
    w.asm.align(32);
    w.asm.place(&mut wide);
    w.load(row, Rm::Base { base: Y, offset: 0 });
    for (&line, i) in of_lines.iter().zip(0..) {
        for tap in 0..taps {
            let to = i * taps + tap;
            let from = Rm::Index {
                base: line,
                index: AT,
                shift: 0,
                offset: tap * lane,
            };
            if w.spreads() {
                w.multiply_add_spread(to as u8, row, from);
                continue;
            }
            let alone = sum.product().is_none();
            let factor = spare + u8::from(alone && to % 2 == 1);
            w.spread(factor, from);
            w.multiply_add(to as u8, row, factor, spare + 1);
        }
    }
    w.asm.add(Y, width);
    w.asm.plain(0x03, AT, Rm::Reg(RDI));
    w.asm.plain(0x3b, AT, LIMIT);
    w.asm.jump_if(UNEQUAL, &mut wide);
    of_lines.iter().for_each(|&line| w.asm.plain(0x03, line, LINE));
    w.asm.small(5, LEFT, 1);
    w.asm.jump_if(UNEQUAL, &mut high);
    // What is in use of the sums.
    let [to, pitch, used] = [RAX, RCX, RDX];
    w.asm.plain(0x8b, RDI, ARGS);
    w.asm.plain(0x8b, to, arg!(OuterArgs, sums));
    w.asm.plain(0x8b, pitch, arg!(OuterArgs, pitch));
    w.asm.shift(pitch, true, shift);
    w.asm.plain(0x8b, used, arg!(OuterArgs, used));
    for line in 0..lines {
        for tap in 0..taps {
            let (sum, there) = (
                (line * taps + tap) as u8,
                Rm::Base {
                    base: to,
                    offset: tap * width,
                },
            );
            let (add, long) = w.sum.add();
            w.asm.lanes(add, sum, sum, there, long, width);
            w.store(sum, there);
        }
        if line + 1 < lines {
            w.asm.plain(0x03, to, Rm::Reg(pitch));
            w.asm.small(5, Rm::Reg(used), 1);
            w.asm.jump_if(EQUAL, &mut end);
        }
    }
    w.asm.place(&mut end);
    w.asm.vzeroupper();
    SAVED.iter().rev().for_each(|&r| w.asm.pop(r));
    w.asm.ret();
    entry
}

const fn below(bytes: i32) -> Rm {
    Rm::Base {
        base: RSP,
        offset: -bytes,
    }
}
