//! A micro-kernel as machine code: tiles of C, one below the other, whose sums stay in registers.
//!
//! k runs in sections. Each begins with asking for rows of C and for some of the memory that is needed next, and goes on in groups of four
//! steps; the steps that are left come at the end. Where nothing is needed next, there is one section.

use super::super::tile::TileArgs;
use super::Sum;
use super::ahead::{LINE, place, stack};
use crate::codegen::assembler::{
    AT_MOST, Assembler, EQUAL, Label, RAX, RBP, RBX, RCX, RDI, RDX, RSI, Rm, UNEQUAL,
};
use crate::codegen::opcodes::{LOAD, MOVE, STORE, XOR};
use std::mem::offset_of;

/// What a micro-kernel reads, and what else it does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A is packed.
    Packed,
    /// A has any strides.
    Strided,
    /// A is packed; B is copied on the way.
    Copying,
}

/// Rows of B that the copying kernels ask for ahead of time, a multiple of 3.
const AHEAD_SHIFT: u8 = 3;
/// Steps of k between two tests of a loop.
pub(super) const UNROLL: i32 = 4;

/// Registers that may be used for anything; the arguments' address is in `RDI`.
const FREE: [u8; 13] = [RAX, RCX, RDX, RSI, 8, 9, 10, 11, RBX, RBP, 12, 13, 14];
/// Those of them that the caller keeps.
const SAVED: [u8; 5] = [RBX, RBP, 12, 13, 14];

/// Offset of a field of the arguments.
macro_rules! arg {
    ($($field:tt)*) => { Rm::Base { base: RDI, offset: offset_of!(TileArgs<f32>, $($field)*) as i32 } };
}

/// `[base + (index << shift)]`.
pub(in crate::library) fn times(base: u8, index: u8, shift: u8) -> Rm {
    Rm::Index {
        base,
        index,
        shift,
        offset: 0,
    }
}

/// Gives out registers.
#[derive(Default)]
struct Pick {
    taken: usize,
}

impl Pick {
    fn next(&mut self) -> u8 {
        self.taken += 1;
        FREE[self.taken - 1]
    }
}

/// Writes one micro-kernel.
pub(super) struct Tile<'a> {
    pub(super) asm: &'a mut Assembler,
    pub(super) sum: Sum,
    pub(super) rows: i32,
    /// Vectors of a row.
    pub(super) vectors: i32,
    form: Form,
    /// Registers for the count of a loop and for what lasts a few instructions.
    pub(super) count: u8,
    pub(super) temps: [u8; 2],
    /// Steps of k that are left.
    pub(super) left: u8,
    /// Row 0 of A, and row 9.
    a: [u8; 2],
    /// 1, 3, 5 and 7 times the step between rows of A.
    steps: [u8; 4],
    /// The step between columns of A.
    a_k: u8,
    /// A row of B, the step between rows, and thrice the step.
    b: u8,
    b_k: [u8; 2],
    /// Where B is copied to, and the row of B that is asked for.
    copy: u8,
    ahead: u8,
}

/// Appends a micro-kernel of `rows` rows of `vectors` vectors; the position of its first instruction.
pub(super) fn tile(asm: &mut Assembler, sum: Sum, rows: usize, vectors: usize, form: Form) -> usize {
    asm.align(64);
    let entry = asm.code.len();
    let mut pick = Pick::default();
    let mut new = || pick.next();
    let mut tile = Tile {
        sum,
        rows: rows as i32,
        vectors: vectors as i32,
        form,
        count: new(),
        temps: [new(), new()],
        left: new(),
        a: [new(), 0],
        b: new(),
        b_k: [new(), 0],
        steps: [0; 4],
        a_k: 0,
        copy: 0,
        ahead: 0,
        asm,
    };
    match form {
        Form::Packed => tile.b_k[1] = new(),
        Form::Copying => (tile.b_k[1], tile.copy, tile.ahead) = (new(), new(), new()),
        Form::Strided => {
            tile.a_k = new();
            // Only those that a height needs, so that others need not be kept.
            for (step, from) in tile.steps.iter_mut().zip([2, 4, 6, 8]) {
                if rows >= from {
                    *step = new();
                }
            }
            if rows > 9 {
                tile.a[1] = new();
            }
        }
    }
    let taken = FREE[..pick.taken].to_vec();
    let saved: Vec<u8> = SAVED.into_iter().filter(|r| taken.contains(r)).collect();
    saved.iter().for_each(|&r| tile.asm.push(r));
    tile.steps_of_operands();
    tile.plan();
    let mut next = Label::default();
    tile.asm.place(&mut next);
    tile.addresses();
    tile.begin();
    tile.first();
    tile.sections();
    tile.results();
    if form != Form::Copying {
        tile.go_on();
        tile.asm.jump_if(UNEQUAL, &mut next);
    }
    tile.asm.vzeroupper();
    saved.iter().rev().for_each(|&r| tile.asm.pop(r));
    tile.asm.ret();
    entry
}

impl Tile<'_> {
    /// Bytes of a lane, as a shift.
    pub(super) fn shift(&self) -> u8 {
        self.sum.shift()
    }

    fn lane(&self) -> i32 {
        1 << self.shift()
    }

    fn acc(&self, row: i32, vector: i32) -> u8 {
        (row * self.vectors + vector) as u8
    }

    /// The register of a vector of B, and those behind them.
    fn of_b(&self, vector: i32) -> u8 {
        (self.rows * self.vectors + vector) as u8
    }

    /// `to = the argument`, of elements, in bytes.
    fn bytes_of(&mut self, to: u8, arg: Rm) {
        self.asm.plain(0x8b, to, arg);
        self.asm.shift(to, true, self.shift());
    }

    /// What is the same for all tiles.
    fn steps_of_operands(&mut self) {
        let [b_k, thrice] = self.b_k;
        self.bytes_of(b_k, arg!(b_k));
        if self.form != Form::Copying {
            for (field, to) in [(arg!(a), place::A), (arg!(tiles), place::TILES)] {
                let temp = self.temps[0];
                self.asm.plain(0x8b, temp, field);
                self.asm.plain(0x89, temp, stack(to));
            }
        }
        match self.form {
            Form::Packed | Form::Copying => self.asm.address_of(thrice, times(b_k, b_k, 1)),
            Form::Strided => {
                let [one, three, five, seven] = self.steps;
                self.bytes_of(self.a_k, arg!(a_k));
                if one != 0 {
                    self.bytes_of(one, arg!(a_row));
                }
                if three != 0 {
                    self.asm.address_of(three, times(one, one, 1));
                }
                if five != 0 {
                    self.asm.address_of(five, times(one, one, 2));
                }
                if seven != 0 {
                    self.asm.address_of(seven, times(three, one, 2));
                }
            }
        }
    }

    /// Where a tile begins.
    fn addresses(&mut self) {
        let ([a, far], [_, thrice]) = (self.a, self.b_k);
        self.asm.plain(0x8b, self.left, arg!(kc));
        self.asm.plain(0x8b, self.b, arg!(b));
        match self.form {
            Form::Packed => self.asm.plain(0x8b, a, stack(place::A)),
            Form::Copying => {
                self.asm.plain(0x8b, a, arg!(a));
                self.asm.plain(0x8b, self.copy, arg!(copy));
                self.asm.copy(self.ahead, thrice);
                self.asm.shift(self.ahead, true, AHEAD_SHIFT);
                self.asm.plain(0x03, self.ahead, Rm::Reg(self.b));
            }
            Form::Strided => {
                self.asm.plain(0x8b, a, stack(place::A));
                if far != 0 {
                    let one = self.steps[0];
                    self.asm.address_of(far, times(a, one, 3));
                    self.asm.plain(0x03, far, Rm::Reg(one));
                }
            }
        }
    }

    /// Goes on to the next tile; equal if there is none.
    fn go_on(&mut self) {
        let temp = self.temps[0];
        self.bytes_of(temp, arg!(a_tile));
        self.asm.plain(0x01, temp, stack(place::A));
        self.asm.small(5, stack(place::TILES), 1);
    }

    /// What sums begin with.
    fn first(&mut self) {
        let (mut zero, mut done) = <(Label, Label)>::default();
        if self.sum.starts() {
            let temp = self.temps[0];
            self.asm.plain(0x8b, temp, arg!(start));
            self.asm.plain(0x85, temp, Rm::Reg(temp));
            self.asm.jump_if(EQUAL, &mut zero);
            for row in 0..self.rows {
                for vector in 0..self.vectors {
                    let (to, offset) = (self.acc(row, vector), vector * self.asm.width());
                    if row == 0 {
                        self.asm.lanes(
                            LOAD,
                            to,
                            0,
                            Rm::Base { base: temp, offset },
                            false,
                            self.asm.width(),
                        );
                    } else {
                        self.asm
                            .lanes(MOVE, to, 0, Rm::Reg(self.acc(0, vector)), false, 0);
                    }
                }
            }
            self.asm.jump(&mut done);
            self.asm.place(&mut zero);
        }
        for sum in 0..(self.rows * self.vectors) as u8 {
            self.asm.lanes(XOR, sum, sum, Rm::Reg(sum), false, 0);
        }
        self.asm.place(&mut done);
    }

    fn sections(&mut self) {
        let (count, [temp, _], left) = (self.count, self.temps, self.left);
        let (mut section, mut whole, mut rest, mut group, mut single, mut next) =
            <(Label, Label, Label, Label, Label, Label)>::default();
        self.asm.place(&mut section);
        self.fetch();
        self.asm.plain(0x8b, count, stack(place::SECTION));
        self.asm.compare(count, left);
        self.asm.jump_if(AT_MOST, &mut whole);
        self.asm.copy(count, left);
        self.asm.place(&mut whole);
        self.asm.plain(0x2b, left, Rm::Reg(count));
        self.asm.copy(temp, count);
        self.asm.small(4, Rm::Reg(temp), (UNROLL - 1) as i8);
        self.asm.shift(count, false, 2);
        self.asm.jump_if(EQUAL, &mut rest);
        self.asm.align(32);
        self.asm.place(&mut group);
        for step in 0..UNROLL {
            self.step(step);
        }
        self.advance(UNROLL);
        self.asm.small(5, Rm::Reg(count), 1);
        self.asm.jump_if(UNEQUAL, &mut group);
        self.asm.place(&mut rest);
        self.asm.plain(0x85, temp, Rm::Reg(temp));
        self.asm.jump_if(EQUAL, &mut next);
        self.asm.place(&mut single);
        self.step(0);
        self.advance(1);
        self.asm.small(5, Rm::Reg(temp), 1);
        self.asm.jump_if(UNEQUAL, &mut single);
        self.asm.place(&mut next);
        self.asm.plain(0x85, left, Rm::Reg(left));
        self.asm.jump_if(UNEQUAL, &mut section);
    }

    /// One step of k, `step` steps behind the addresses.
    fn step(&mut self, step: i32) {
        let width = self.asm.width();
        for vector in 0..self.vectors {
            let (to, offset) = (self.of_b(vector), vector * width);
            let from = self.row_of_b(self.b, step, offset);
            self.asm.lanes(LOAD, to, 0, from, false, width);
            if self.form == Form::Copying {
                let offset = (step * self.vectors + vector) * width;
                let copy = Rm::Base {
                    base: self.copy,
                    offset,
                };
                self.asm.lanes(STORE, to, 0, copy, false, width);
            }
        }
        if self.form == Form::Copying {
            for offset in (0..self.vectors * width).step_by(LINE as usize) {
                let far = self.row_of_b(self.ahead, step, offset);
                self.asm.prefetch(far);
            }
        }
        let (spare, sum) = (self.of_b(self.vectors), self.sum);
        for row in 0..self.rows {
            let a = self.of_a(row, step);
            // Two registers in turn, where there are two.
            let lanes = if sum.product().is_none() {
                spare + (row & 1) as u8
            } else {
                spare
            };
            let (broadcast, long) = sum.broadcast(self.asm.wide);
            self.asm.lanes(broadcast, lanes, 0, a, long, self.lane());
            for vector in 0..self.vectors {
                let (to, b) = (self.acc(row, vector), self.of_b(vector));
                let (first, second) = if sum.swaps() { (b, lanes) } else { (lanes, b) };
                match sum.product() {
                    None => self
                        .asm
                        .lanes(sum.code(), to, first, Rm::Reg(second), sum.is_long(), 0),
                    Some(product) => {
                        let part = spare + 1;
                        self.asm
                            .lanes(product, part, first, Rm::Reg(second), sum.is_long(), 0);
                        self.asm
                            .lanes(sum.code(), to, to, Rm::Reg(part), sum.is_long(), 0);
                    }
                }
            }
        }
        if self.form == Form::Strided {
            self.advance_strided();
        }
    }

    /// `step` rows of B behind a register.
    fn row_of_b(&self, base: u8, step: i32, offset: i32) -> Rm {
        let step = if self.form == Form::Strided { 0 } else { step };
        Rm::steps(base, self.b_k, step, offset)
    }

    /// An element of A.
    fn of_a(&self, row: i32, step: i32) -> Rm {
        if self.form != Form::Strided {
            let offset = (step * self.rows + row) * self.lane();
            return Rm::Base {
                base: self.a[0],
                offset,
            };
        }
        let (base, row) = if row < 9 {
            (self.a[0], row)
        } else {
            (self.a[1], row - 9)
        };
        let [one, three, five, seven] = self.steps;
        let (index, shift) = match row {
            0 => return Rm::Base { base, offset: 0 },
            1 => (one, 0),
            2 => (one, 1),
            3 => (three, 0),
            4 => (one, 2),
            5 => (five, 0),
            6 => (three, 1),
            7 => (seven, 0),
            _ => (one, 3),
        };
        Rm::Index {
            base,
            index,
            shift,
            offset: 0,
        }
    }

    fn advance_strided(&mut self) {
        self.asm.plain(0x03, self.b, Rm::Reg(self.b_k[0]));
        self.asm.plain(0x03, self.a[0], Rm::Reg(self.a_k));
        if self.a[1] != 0 {
            self.asm.plain(0x03, self.a[1], Rm::Reg(self.a_k));
        }
    }

    fn advance(&mut self, steps: i32) {
        if self.form == Form::Strided {
            return;
        }
        self.asm.add(self.a[0], steps * self.rows * self.lane());
        let mut rows_of_b = vec![self.b];
        if self.form == Form::Copying {
            self.asm.add(self.copy, steps * self.vectors * self.asm.width());
            rows_of_b.push(self.ahead);
        }
        for row in rows_of_b {
            let next = Rm::Index {
                base: row,
                index: self.b_k[0],
                shift: if steps == 1 { 0 } else { 2 },
                offset: 0,
            };
            self.asm.address_of(row, next);
        }
    }

    fn results(&mut self) {
        let (c, step) = (self.temps[0], self.temps[1]);
        self.asm.plain(0x8b, c, stack(place::C));
        self.bytes_of(step, arg!(c_row));
        let (mut plain, mut end) = <(Label, Label)>::default();
        let beside = self.count;
        self.asm.compare_byte(arg!(accumulate), 0);
        self.asm.jump_if(EQUAL, &mut plain);
        self.asm.plain(0x8b, beside, arg!(beside));
        for adds in [true, false] {
            for row in 0..self.rows {
                for vector in 0..self.vectors {
                    let (sum, offset) = (self.acc(row, vector), vector * self.asm.width());
                    let there = Rm::Base { base: c, offset };
                    if adds {
                        let (add, long) = self.sum.add();
                        let added = Rm::Index {
                            base: c,
                            index: beside,
                            shift: 0,
                            offset,
                        };
                        self.asm.lanes(add, sum, sum, added, long, self.asm.width());
                    }
                    self.asm.lanes(STORE, sum, 0, there, false, self.asm.width());
                }
                self.asm.plain(0x03, c, Rm::Reg(step));
            }
            if adds {
                self.asm.jump(&mut end);
                self.asm.place(&mut plain);
            }
        }
        self.asm.place(&mut end);
        self.asm.plain(0x89, c, stack(place::C));
    }
}
