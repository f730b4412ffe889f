//! Kernels on places at equal distances, as machine code.

use super::{Entry, Isa, Sum, Writer, arg, assembler, keep};
use crate::codegen::assembler::{
    AT_LEAST, Assembler, EQUAL, LESS, Label, RAX, RBP, RBX, RDI, RDX, RSI, Rm, UNEQUAL,
};
use crate::library::conv::points::{PART, PointArgs, PointFn, Rows};
use crate::library::conv::steps::LATER;
use crate::prefetch::LINE;
use std::mem::offset_of;
use std::sync::OnceLock;

/// Channels between two tests of a loop.
const UNROLL: i32 = 4;

const WEIGHTS: u8 = RAX;
const NEXT: u8 = 8;
const STEP: u8 = RDX;
const LEFT: u8 = RSI;
const LATER_AT: u8 = 10;
const AT: u8 = 9;
const TILES: u8 = 11;
/// Every third place.
const X: [u8; 5] = [RBX, RBP, 12, 13, 14];

/// For each number of places, the first instructions.
type Entries = Option<&'static [Entry]>;
/// Panels of one register, or parts of those of two up to two of them.
const SETS: usize = 1 + 4 * 64 / PART;

/// By instruction set, sum, and rows.
static POINTS: [[[OnceLock<Entries>; SETS]; Sum::ALL.len()]; 2] =
    [const { [const { [const { OnceLock::new() }; SETS] }; Sum::ALL.len()] }; 2];

/// The kernels for `index + 1` places, where there are some for the rows and the system lets memory be executed.
pub(in super::super) fn kernels<S>((sum, isa): (Sum, Isa), rows: Rows) -> Option<&'static [PointFn<S>]> {
    debug_assert_eq!(size_of::<S>(), 1 << sum.shift());
    let wide = isa == Isa::Avx512;
    let width = if wide { 64 } else { 32 };
    let Rows { bytes, panel } = rows;
    let set = match panel {
        1 if bytes == width => 0,
        2 if bytes.is_multiple_of(PART) && (bytes <= 2 * width || bytes == 4 * width) => bytes / PART,
        _ => return None,
    };
    let most = most(wide, bytes.div_ceil(width));
    if most == 0 {
        return None;
    }
    let entries = (*POINTS[usize::from(wide)][sum as usize][set].get_or_init(|| {
        let mut asm = assembler(wide);
        let starts: Vec<usize> = (1..=most)
            .map(|places| points(&mut asm, sum, places, rows))
            .collect();
        Some(&*keep(&asm.code, starts)?.leak())
    }))?;
    // SAFETY: the entries are functions of this type, which read nothing of `S` but its size.
    Some(unsafe { std::mem::transmute::<&'static [Entry], &'static [PointFn<S>]>(entries) })
}

/// Most places of a tile of so many vectors each.
fn most(wide: bool, vectors: usize) -> usize {
    match (wide, vectors) {
        (true, 4) => 6,
        (true, _) => 14,
        (false, 1) => 12,
        (false, 2) => 6,
        (false, _) => 0,
    }
}

fn at(base: u8, offset: i32) -> Rm {
    Rm::Base { base, offset }
}

/// Appends a kernel for tiles of `count` places; the position of its first instruction.
fn points(asm: &mut Assembler, sum: Sum, count: usize, rows: Rows) -> usize {
    asm.align(64);
    let entry = asm.code.len();
    let mut w = Writer { asm, sum };
    let (width, lane) = (w.asm.width(), w.lane());
    let vectors = rows.bytes.div_ceil(width as usize);
    let half = !rows.bytes.is_multiple_of(width as usize);
    let sums = count * vectors;
    let panel = rows.panel as i32 * width;
    let x = &X[..count.div_ceil(3)];
    x.iter().for_each(|&x| w.asm.push(x));
    for (to, from) in [
        (NEXT, arg!(PointArgs, next_panel)),
        (STEP, arg!(PointArgs, step)),
        (TILES, arg!(PointArgs, tiles)),
        (LATER_AT, arg!(PointArgs, later)),
        (x[0], arg!(PointArgs, x)),
    ] {
        w.asm.plain(0x8b, to, from);
    }
    let (mut tile, mut zero, mut begin) = <(Label, Label, Label)>::default();
    w.asm.align(32);
    w.asm.place(&mut tile);
    let three = Rm::Index {
        base: STEP,
        index: STEP,
        shift: 1,
        offset: 0,
    };
    w.asm.address_of(AT, three);
    for some in x.windows(2) {
        let next = Rm::Index {
            base: some[0],
            index: AT,
            shift: 0,
            offset: 0,
        };
        w.asm.address_of(some[1], next);
    }
    w.asm.plain(0x8b, WEIGHTS, arg!(PointArgs, weights));
    w.asm.plain(0x8b, LEFT, arg!(PointArgs, terms));
    let of_out = |w: &mut Writer<'_>, each: &dyn Fn(&mut Writer<'_>, u8, Rm)| {
        w.asm.plain(0x8b, AT, arg!(PointArgs, out));
        for i in 0..count {
            for vector in 0..vectors {
                w.asm.half = half && vector + 1 == vectors;
                each(w, (i * vectors + vector) as u8, at(AT, vector as i32 * width));
                w.asm.half = false;
            }
            w.asm.plain(0x03, AT, arg!(PointArgs, out_step));
        }
    };
    w.asm.compare_byte(arg!(PointArgs, accumulate), 0);
    w.asm.jump_if(EQUAL, &mut zero);
    of_out(&mut w, &|w, sum, from| w.load(sum, from));
    w.asm.jump(&mut begin);
    w.asm.place(&mut zero);
    (0..sums as u8).for_each(|sum| w.clear(sum));
    let lines = (LINE as i32 / width) as usize;
    of_out(&mut w, &|w, sum, to| {
        if (usize::from(sum) % vectors).is_multiple_of(lines) {
            w.asm.prefetch_to_write(to);
        }
    });
    w.asm.place(&mut begin);
    // One channel, whose weights are those of `channel` behind the address.
    let term = |w: &mut Writer<'_>, channel: i32| {
        let element = |i: usize| match i % 3 {
            0 => at(x[i / 3], channel * lane),
            shift => Rm::Index {
                base: x[i / 3],
                index: STEP,
                shift: shift as u8 - 1,
                offset: channel * lane,
            },
        };
        let elements: Vec<Rm> = (0..count).map(element).collect();
        w.add_places((WEIGHTS, NEXT), channel * panel, vectors, &elements);
    };
    let advance = |w: &mut Writer<'_>, channels: i32| {
        w.asm.add(WEIGHTS, channels * panel);
        x.iter()
            .for_each(|&x| w.asm.small(0, Rm::Reg(x), (channels * lane) as i8));
    };
    let (mut asking, mut quiet, mut rest, mut single, mut done) =
        <(Label, Label, Label, Label, Label)>::default();
    w.asm.small(5, Rm::Reg(LEFT), UNROLL as i8);
    w.asm.jump_if(LESS, &mut rest);
    w.asm.small(7, Rm::Reg(LATER_AT), 0);
    w.asm.jump_if(EQUAL, &mut quiet);
    for (asks, label) in [(true, &mut asking), (false, &mut quiet)] {
        w.asm.align(32);
        w.asm.place(label);
        for channel in 0..UNROLL {
            term(&mut w, channel);
            if asks && channel % 2 == 0 {
                w.asm.prefetch_second(at(LATER_AT, LATER as i32 * channel));
            }
        }
        advance(&mut w, UNROLL);
        if asks {
            w.asm.add(LATER_AT, LATER as i32 * UNROLL);
        }
        w.asm.small(5, Rm::Reg(LEFT), UNROLL as i8);
        w.asm.jump_if(AT_LEAST, label);
        if asks {
            w.asm.jump(&mut rest);
        }
    }
    w.asm.place(&mut rest);
    w.asm.small(0, Rm::Reg(LEFT), UNROLL as i8);
    w.asm.jump_if(EQUAL, &mut done);
    w.asm.place(&mut single);
    term(&mut w, 0);
    advance(&mut w, 1);
    w.asm.small(5, Rm::Reg(LEFT), 1);
    w.asm.jump_if(UNEQUAL, &mut single);
    w.asm.place(&mut done);
    of_out(&mut w, &|w, sum, to| w.store(sum, to));
    w.asm.plain(0x89, AT, arg!(PointArgs, out));
    w.asm.multiply(AT, STEP, count as i32);
    w.asm.plain(0x03, x[0], Rm::Reg(AT));
    w.asm.plain(0x2b, x[0], arg!(PointArgs, bytes));
    w.asm.small(5, Rm::Reg(TILES), 1);
    w.asm.jump_if(UNEQUAL, &mut tile);
    w.asm.vzeroupper();
    x.iter().rev().for_each(|&x| w.asm.pop(x));
    w.asm.ret();
    entry
}
