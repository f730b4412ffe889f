//! Kernels on an operand whose channels are neighbours, as machine code.

use super::{Sum, Writer, arg};
use crate::codegen::assembler::{
    AT_MOST, Assembler, CARRY, EQUAL, GREATER, Label, RAX, RBP, RBX, RCX, RDI, RDX, RSI, Rm, UNEQUAL,
};
use crate::library::conv::steps::{ASKED, LATER, Place, Step, StepArgs};
use crate::prefetch::LINE;
use std::mem::offset_of;

/// Channels between two tests of a loop.
const UNROLL: i32 = 4;

const WEIGHTS: u8 = RAX;
const NEXT: u8 = 8;
/// Minus the bytes of the channels that are left.
const LEFT: u8 = RDX;
const STEP: u8 = RSI;
const LATER_AT: u8 = 10;
/// What a step needs before its loop.
const BIT: u8 = RCX;
const END: u8 = RDX;
const PLACE: u8 = 11;
const AT: u8 = 9;
/// The elements of each place.
const X: [u8; 6] = [RBX, RBP, 12, 13, 14, 15];

fn at(base: u8, offset: usize) -> Rm {
    Rm::Base {
        base,
        offset: offset as i32,
    }
}

/// Appends a kernel for `count` places and `vectors` vectors of each, two a panel; the position of its first instruction.
pub(super) fn steps(asm: &mut Assembler, sum: Sum, count: usize, vectors: usize) -> usize {
    const { assert!(LATER * UNROLL as usize == 2 * LINE) };
    asm.align(64);
    let entry = asm.code.len();
    let mut w = Writer { asm, sum };
    let (width, lane) = (w.asm.width(), w.lane());
    let sums = count * vectors;
    let panel = vectors.min(2) as i32 * width;
    let x = &X[..count];
    x.iter().for_each(|&x| w.asm.push(x));
    for (to, from) in [
        (WEIGHTS, arg!(StepArgs, weights)),
        (NEXT, arg!(StepArgs, next_panel)),
        (STEP, arg!(StepArgs, steps)),
        (LATER_AT, arg!(StepArgs, later)),
    ] {
        w.asm.plain(0x8b, to, from);
    }
    let of_out = |w: &mut Writer<'_>, each: &dyn Fn(&mut Writer<'_>, u8, Rm)| {
        w.asm.plain(0x8b, PLACE, arg!(StepArgs, places));
        for i in 0..count {
            let place = i * size_of::<Place<f32>>() + offset_of!(Place<f32>, out);
            w.asm.plain(0x8b, AT, at(PLACE, place));
            w.asm.plain(0x03, AT, arg!(StepArgs, out));
            for vector in 0..vectors {
                each(w, (i * vectors + vector) as u8, at(AT, vector * width as usize));
            }
        }
    };
    let (mut zero, mut begin) = <(Label, Label)>::default();
    w.asm.compare_byte(arg!(StepArgs, accumulate), 0);
    w.asm.jump_if(EQUAL, &mut zero);
    of_out(&mut w, &|w, sum, from| w.load(sum, from));
    w.asm.jump(&mut begin);
    w.asm.place(&mut zero);
    (0..sums as u8).for_each(|sum| w.clear(sum));
    w.asm.place(&mut begin);

    // One channel: its weights are those of `channel` behind the address, its elements `back` channels before what is left.
    let term = |w: &mut Writer<'_>, channel: i32, back: i32| {
        let element = |&base: &u8| Rm::Index {
            base,
            index: LEFT,
            shift: 0,
            offset: (channel - back) * lane,
        };
        let elements: Vec<Rm> = x.iter().map(element).collect();
        w.add_places((WEIGHTS, NEXT), channel * panel, vectors, &elements);
    };
    let mut step = Label::default();
    w.asm.align(32);
    w.asm.place(&mut step);
    w.asm.plain(0x8b, AT, arg!(StepArgs, asked));
    for line in 0..ASKED {
        w.asm.prefetch_to_write(at(AT, LINE * line));
    }
    w.asm.plain(0x03, AT, arg!(StepArgs, asked_step));
    w.asm.plain(0x89, AT, arg!(StepArgs, asked));
    let (mut meets, mut next) = <(Label, Label)>::default();
    w.asm.plain(0x8b, BIT, at(STEP, offset_of!(Step, bit)));
    w.asm.plain(0x8b, AT, arg!(StepArgs, meets));
    w.asm.test_bit(AT, BIT);
    w.asm.jump_if(CARRY, &mut meets);
    w.asm.plain(0x03, WEIGHTS, at(STEP, offset_of!(Step, weights)));
    w.asm.jump(&mut next);
    w.asm.place(&mut meets);
    // The elements of each place, or zeros.
    w.asm.plain(0x8b, END, at(STEP, offset_of!(Step, end)));
    w.asm.plain(0x8b, PLACE, arg!(StepArgs, places));
    for (i, &x) in x.iter().enumerate() {
        let place = i * size_of::<Place<f32>>();
        w.asm
            .plain(0x8b, AT, at(PLACE, place + offset_of!(Place<f32>, meets)));
        w.asm
            .plain(0x8b, x, at(PLACE, place + offset_of!(Place<f32>, at)));
        w.asm.plain(0x03, x, Rm::Reg(END));
        w.asm.test_bit(AT, BIT);
        w.asm.copy_unless_carry(x, arg!(StepArgs, zeros));
    }
    w.asm.plain(0x8b, LEFT, at(STEP, offset_of!(Step, back)));
    let group = (UNROLL * lane) as i8;
    let advance = |w: &mut Writer<'_>, channels: i32| w.asm.add(WEIGHTS, channels * panel);
    let (mut asking, mut quiet, mut rest, mut single) = <(Label, Label, Label, Label)>::default();
    w.asm.small(0, Rm::Reg(LEFT), group);
    w.asm.jump_if(GREATER, &mut rest);
    w.asm.small(7, Rm::Reg(LATER_AT), 0);
    w.asm.jump_if(EQUAL, &mut quiet);
    for (asks, label) in [(true, &mut asking), (false, &mut quiet)] {
        w.asm.align(32);
        w.asm.place(label);
        for channel in 0..UNROLL {
            term(&mut w, channel, UNROLL);
            if asks && channel % 2 == 0 {
                w.asm.prefetch_second(at(LATER_AT, LATER * channel as usize));
            }
        }
        advance(&mut w, UNROLL);
        if asks {
            w.asm.add(LATER_AT, LATER as i32 * UNROLL);
        }
        w.asm.small(0, Rm::Reg(LEFT), group);
        w.asm.jump_if(AT_MOST, label);
        if asks {
            w.asm.jump(&mut rest);
        }
    }
    w.asm.place(&mut rest);
    w.asm.small(5, Rm::Reg(LEFT), group);
    w.asm.jump_if(EQUAL, &mut next);
    w.asm.place(&mut single);
    term(&mut w, 0, 0);
    advance(&mut w, 1);
    w.asm.small(0, Rm::Reg(LEFT), lane as i8);
    w.asm.jump_if(UNEQUAL, &mut single);
    w.asm.place(&mut next);
    w.asm.add(STEP, size_of::<Step>() as i32);
    w.asm.plain(0x3b, STEP, arg!(StepArgs, last));
    w.asm.jump_if(UNEQUAL, &mut step);
    of_out(&mut w, &|w, sum, to| w.store(sum, to));
    w.asm.vzeroupper();
    x.iter().rev().for_each(|&x| w.asm.pop(x));
    w.asm.ret();
    entry
}
