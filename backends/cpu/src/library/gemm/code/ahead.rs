//! What a micro-kernel asks for ahead of time, a little at the start of each section: in a burst it would stall the sums.

use super::super::tile::{Lines, TileArgs};
use super::sums::{Tile, UNROLL};
use crate::codegen::assembler::{EQUAL, Label, NOT_NEGATIVE, RDI, RSP, Rm, UNEQUAL};
use std::mem::offset_of;

/// Bytes of a cache line.
pub(super) const LINE: i32 = 64;

/// Places below the stack pointer, which a function that calls none may use.
pub(super) mod place {
    /// Steps of a section.
    pub(in super::super) const SECTION: i32 = -8;
    /// The row of C that is asked for next.
    pub(in super::super) const ROW: i32 = -16;
    /// The address, the runs and the runs of a section of the memory that is asked for.
    pub(in super::super) const LINES: [[i32; 3]; 2] = [[-24, -32, -40], [-48, -56, -64]];
    /// The tile of A and of C, and the tiles that are left.
    pub(in super::super) const A: i32 = -72;
    pub(in super::super) const C: i32 = -80;
    pub(in super::super) const TILES: i32 = -88;
}

impl Tile<'_> {
    /// Notes the section's length and what is asked for in each, the same for all tiles.
    pub(super) fn plan(&mut self) {
        let (count, [temp, any]) = (self.count, self.temps);
        self.asm.plain(0x8b, temp, arg(offset_of!(TileArgs<f32>, c)));
        self.asm.plain(0x89, temp, stack(place::C));
        self.asm.plain(0x33, any, Rm::Reg(any));
        for (which, [start, _, at_once]) in place::LINES.into_iter().enumerate() {
            self.asm
                .plain(0x8b, temp, of_lines(which, offset_of!(Lines, start)));
            self.asm.plain(0x89, temp, stack(start));
            self.asm
                .plain(0x8b, temp, of_lines(which, offset_of!(Lines, runs)));
            self.asm.plain(0x0b, any, Rm::Reg(temp));
            self.part(temp);
            self.asm.plain(0x89, temp, stack(at_once));
        }
        // Steps of a section: whole groups, an even part of all, which are one section without anything to ask for.
        let mut known = Label::default();
        self.asm.plain(0x8b, count, arg(offset_of!(TileArgs<f32>, kc)));
        self.asm.plain(0x85, any, Rm::Reg(any));
        self.asm.jump_if(EQUAL, &mut known);
        self.asm.small(0, Rm::Reg(count), (UNROLL - 1) as i8);
        self.asm.shift(count, false, 2);
        self.part(count);
        self.asm.shift(count, true, 2);
        self.asm.place(&mut known);
        self.asm.plain(0x89, count, stack(place::SECTION));
    }

    /// Notes what a tile asks for. Without anything but C, all its rows are asked for at once.
    pub(super) fn begin(&mut self) {
        let [temp, any] = self.temps;
        self.asm.plain(0x8b, temp, stack(place::C));
        self.asm.plain(0x89, temp, stack(place::ROW));
        self.asm.plain(0x33, any, Rm::Reg(any));
        for (which, [_, runs, _]) in place::LINES.into_iter().enumerate() {
            self.asm
                .plain(0x8b, temp, of_lines(which, offset_of!(Lines, runs)));
            self.asm.plain(0x89, temp, stack(runs));
            self.asm.plain(0x0b, any, Rm::Reg(temp));
        }
        let mut some = Label::default();
        self.asm.plain(0x85, any, Rm::Reg(any));
        self.asm.jump_if(UNEQUAL, &mut some);
        for _ in 1..self.parts() {
            self.fetch_c();
        }
        self.asm.place(&mut some);
    }

    /// Rows of C that a section asks for: with AVX2 a tile takes a quarter of the time for half of its rows.
    fn rows_at_once(&self) -> i32 {
        if self.asm.wide { 1 } else { 2 }
    }

    /// Most sections.
    fn parts(&self) -> i32 {
        (self.rows + self.rows_at_once() - 1) / self.rows_at_once()
    }

    /// Divides by the number of sections and rounds up; exact for what a block of k has.
    fn part(&mut self, of: u8) {
        let parts = self.parts();
        if parts > 1 {
            self.asm.small(0, Rm::Reg(of), (parts - 1) as i8);
            self.asm.multiply(of, of, (1 << 24) / parts + 1);
            self.asm.shift(of, false, 24);
        }
    }

    /// Asks for some rows of C.
    fn fetch_c(&mut self) {
        let [at, step] = self.temps;
        let (width, last) = (self.asm.width(), (self.vectors - 1) * self.asm.width());
        self.asm.plain(0x8b, at, stack(place::ROW));
        self.asm.plain(0x8b, step, arg(offset_of!(TileArgs<f32>, c_row)));
        for _ in 0..self.rows_at_once() {
            for offset in (0..self.vectors).map(|vector| vector * width) {
                // Vectors of half a line share it, but for the last one, which may begin the next.
                if offset % LINE == 0 || offset == last {
                    self.asm.prefetch(Rm::Base { base: at, offset });
                }
            }
            let next = Rm::Index {
                base: at,
                index: step,
                shift: self.shift(),
                offset: 0,
            };
            self.asm.address_of(at, next);
        }
        self.asm.plain(0x89, at, stack(place::ROW));
    }

    /// Asks for rows of C and for a part of what is needed next.
    pub(super) fn fetch(&mut self) {
        self.fetch_c();
        let (count, [at, bytes]) = (self.count, self.temps);
        for (which, [start, runs, at_once]) in place::LINES.into_iter().enumerate() {
            let (mut none, mut end, mut run, mut line) = <(Label, Label, Label, Label)>::default();
            self.asm.small(7, stack(runs), 0);
            self.asm.jump_if(EQUAL, &mut none);
            self.asm.plain(0x8b, count, stack(at_once));
            self.asm.plain(0x8b, at, stack(start));
            self.asm.place(&mut run);
            self.asm
                .plain(0x8b, bytes, of_lines(which, offset_of!(Lines, bytes)));
            self.asm.small(5, Rm::Reg(bytes), 1);
            self.asm.small(4, Rm::Reg(bytes), -(LINE as i8));
            self.asm.place(&mut line);
            self.asm.prefetch(Rm::Index {
                base: at,
                index: bytes,
                shift: 0,
                offset: 0,
            });
            self.asm.small(5, Rm::Reg(bytes), LINE as i8);
            self.asm.jump_if(NOT_NEGATIVE, &mut line);
            self.asm.plain(0x03, at, of_lines(which, offset_of!(Lines, step)));
            self.asm.small(5, stack(runs), 1);
            self.asm.jump_if(EQUAL, &mut end);
            self.asm.small(5, Rm::Reg(count), 1);
            self.asm.jump_if(UNEQUAL, &mut run);
            self.asm.place(&mut end);
            self.asm.plain(0x89, at, stack(start));
            self.asm.place(&mut none);
        }
    }
}

/// A field of the arguments.
fn arg(field: usize) -> Rm {
    Rm::Base {
        base: RDI,
        offset: field as i32,
    }
}

/// A field of the memory that is asked for.
fn of_lines(which: usize, field: usize) -> Rm {
    arg(offset_of!(TileArgs<f32>, next) + which * size_of::<Lines>() + field)
}

pub(super) fn stack(offset: i32) -> Rm {
    Rm::Base { base: RSP, offset }
}
