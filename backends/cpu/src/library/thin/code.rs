//! The kernels as machine code, written once for a process and kind.

use super::kernels::{Columns, ColumnsFn, Kernels, MOST_COLUMNS, ROWS, Rows, RowsFn};
use super::squares::Squared;
use crate::codegen::assembler::{
    Assembler, Code, Extra, Label, RAX, RBP, RBX, RCX, RDI, RDX, RSI, Rm, UNEQUAL,
};
use crate::codegen::opcodes::{FMA231, FROM_F16, LEFT, LOAD, LOAD_WORDS, SHIFT, STORE};
use crate::isa::Isa;
use crate::library::gemm::MXCSR_FLUSHING;
use crate::library::gemm::code::{Entry, FLUSHING, Sum, USUAL, assembler, control, keep, runs, times};
use std::mem::{offset_of, transmute};
use std::sync::OnceLock;

/// The elements of B; those of A and the sums are f64 for f64 and f32 for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elements {
    F32,
    F64,
    F16,
    /// Rows are summed by pairs, as products of many rows are.
    Bf16,
    /// The same, widened to f32. Columns are those of f32.
    Bf16Widened,
}

impl Elements {
    /// Those of squares; `None` where there are none.
    pub(super) fn squared(self, isa: Isa) -> Option<Squared> {
        Some(match self {
            Elements::F32 => Squared::F32,
            Elements::F64 => Squared::F64,
            Elements::F16 => Squared::F16,
            Elements::Bf16 if isa.sums_halves_fast() => Squared::Pairs,
            Elements::Bf16 => Squared::PairsApart,
            Elements::Bf16Widened => return None,
        })
    }

    fn size(self) -> i32 {
        match self {
            Elements::F64 => 8,
            Elements::F32 | Elements::Bf16Widened => 4,
            Elements::F16 | Elements::Bf16 => 2,
        }
    }

    fn sum(self) -> Sum {
        match self {
            Elements::F64 => Sum::F64,
            _ => Sum::F32,
        }
    }

    /// Columns that are summed at once. More than one of halves are slower from memory.
    fn columns(self, wide: bool) -> i32 {
        match (self.is_direct(), wide) {
            (false, _) => 1,
            (true, false) => 3,
            (true, true) => 4,
        }
    }

    /// Whether they are lanes as they lie in memory.
    fn is_direct(self) -> bool {
        matches!(self, Elements::F32 | Elements::F64 | Elements::Bf16Widened)
    }

    /// Whether of two rows of B the odd one comes first, and numbers below the least normal one are zeros.
    pub(super) fn in_pairs(self) -> bool {
        matches!(self, Elements::Bf16 | Elements::Bf16Widened)
    }
}

/// Bytes of the lanes of a sum.
const LANES: i32 = 128;
const LINE: i32 = 64;

pub(super) const fn at(base: u8, offset: i32) -> Rm {
    Rm::Base { base, offset }
}

/// [`Rm::steps`] for 0 to 7 times, where `fourth` is four steps from `base`.
fn row([base, fourth]: [u8; 2], steps: [u8; 2], times: i32, offset: i32) -> Rm {
    Rm::steps(if times < 4 { base } else { fourth }, steps, times % 4, offset)
}

struct Writer<'a> {
    asm: &'a mut Assembler,
    elements: Elements,
}

impl Writer<'_> {
    /// Bytes of B for a vector of sums.
    fn narrow(&self, bytes: i32) -> i32 {
        (bytes >> self.elements.sum().shift()) * self.elements.size()
    }

    /// `to` = a vector of B.
    fn value(&mut self, to: u8, from: Rm) {
        let code = match self.elements {
            Elements::F32 | Elements::F64 | Elements::Bf16Widened => LOAD,
            Elements::F16 => FROM_F16,
            Elements::Bf16 => LOAD_WORDS,
        };
        self.asm.lanes(code, to, 0, from, false, 0);
        if self.elements == Elements::Bf16 {
            let extra = Extra {
                imm: Some(16),
                ..Extra::default()
            };
            self.asm.vector(SHIFT, LEFT, to, Rm::Reg(to), extra);
        }
    }

    fn multiply_add(&mut self, sum: u8, factor: u8, value: Rm) {
        let long = self.elements == Elements::F64;
        self.asm.lanes(FMA231, sum, factor, value, long, 0);
    }

    /// Moves two vectors.
    fn two(&mut self, code: Code, registers: [u8; 2], base: u8) {
        for (register, offset) in registers.into_iter().zip([0, self.asm.width()]) {
            self.asm.lanes(code, register, 0, at(base, offset), false, 0);
        }
    }

    fn repeat(&mut self, to: u8, from: Rm) {
        let (code, long) = self.elements.sum().broadcast(self.asm.wide);
        self.asm.lanes(code, to, 0, from, long, 0);
    }

    /// Adds dot products of a row of A and `columns` columns of B to the lanes of their sums.
    fn columns(&mut self, columns: i32) -> usize {
        const A: u8 = RAX;
        const B: [u8; 2] = [RSI, 8];
        const B_COL: [u8; 2] = [9, 10];
        const COUNT: u8 = 11;
        macro_rules! arg {
            ($field:ident) => {
                at(RDI, offset_of!(Columns<f32>, $field) as i32)
            };
        }
        self.asm.align(64);
        let entry = self.asm.code.len();
        let width = self.asm.width();
        let parts = 0..LANES / width;
        let sum = |j: i32, part: i32| (j * (LANES / width) + part) as u8;
        let [value, factor] = [14, 15];
        self.asm.plain(0x8b, B_COL[0], arg!(b_col));
        self.asm.address_of(B_COL[1], times(B_COL[0], B_COL[0], 1));
        self.asm.plain(0x8b, A, arg!(a));
        self.asm.plain(0x8b, B[0], arg!(b));
        self.asm.address_of(B[1], times(B[0], B_COL[0], 2));
        let each_sum = |this: &mut Self, code: Code| {
            this.asm.plain(0x8b, COUNT, arg!(lanes));
            for (j, part) in (0..columns).flat_map(|j| parts.clone().map(move |part| (j, part))) {
                let place = at(COUNT, j * LANES + part * width);
                this.asm.lanes(code, sum(j, part), 0, place, false, 0);
            }
        };
        each_sum(self, LOAD);
        self.asm.plain(0x8b, COUNT, arg!(steps));
        let mut step = Label::default();
        self.asm.align(32);
        self.asm.place(&mut step);
        for part in parts.clone() {
            self.asm.lanes(LOAD, factor, 0, at(A, part * width), false, 0);
            for j in 0..columns {
                let mut from = row(B, B_COL, j, self.narrow(part * width));
                if !self.elements.is_direct() {
                    self.value(value, from);
                    from = Rm::Reg(value);
                }
                self.multiply_add(sum(j, part), factor, from);
            }
        }
        self.asm.add(A, LANES);
        let bytes = self.narrow(LANES);
        B.into_iter().for_each(|b| self.asm.add(b, bytes));
        self.asm.small(5, Rm::Reg(COUNT), 1);
        self.asm.jump_if(UNEQUAL, &mut step);
        each_sum(self, STORE);
        self.asm.vzeroupper();
        self.asm.ret();
        entry
    }

    /// Adds [`ROWS`] rows of B at a time, times the elements of one row of A, or of `several`, to runs of sums.
    fn rows(&mut self, several: bool, asks: bool) -> usize {
        const SUMS: u8 = RAX;
        const A: u8 = RCX;
        const COUNT: u8 = RDX;
        const ROW: u8 = RSI;
        const B: [u8; 2] = [8, 9];
        const B_ROW: [u8; 2] = [10, 11];
        const NEXT: [u8; 2] = [RBX, RBP];
        const TO: u8 = 12;
        const BLOCKS: u8 = 13;
        const FIRST: u8 = 14;
        const SAVED: [u8; 5] = [RBX, RBP, 12, 13, 14];
        macro_rules! arg {
            ($field:ident) => {
                at(RDI, offset_of!(Rows<f32>, $field) as i32)
            };
        }
        self.asm.align(64);
        let entry = self.asm.code.len();
        let (width, count) = (self.asm.width(), ROWS as i32);
        let lane = 1 << self.elements.sum().shift();
        // AVX2 has half the rows of B in registers at a time.
        let together = if self.asm.wide { count } else { count / 2 };
        let (repeated, [sum, next]) = (2, [0, 1]);
        let odd_first = i32::from(self.elements.in_pairs());
        let value = |i: i32, vector: i32| 3 + (i % together * 2 + vector) as u8;
        let factor = |i: i32| 3 + (i % together) as u8;
        SAVED.iter().for_each(|&r| self.asm.push(r));
        if self.elements.in_pairs() {
            control(self.asm, true, USUAL);
            control(self.asm, false, FLUSHING);
        }
        self.asm.plain(0x8b, B_ROW[0], arg!(b_row));
        self.asm.address_of(B_ROW[1], times(B_ROW[0], B_ROW[0], 1));
        self.asm.plain(0x8b, BLOCKS, arg!(blocks));
        self.asm.plain(0x8b, FIRST, arg!(b));
        let mut block = Label::default();
        self.asm.place(&mut block);
        for first in (0..count).step_by(together as usize) {
            let rows = first..first + together;
            let mut columns = Label::default();
            self.asm.copy(B[0], FIRST);
            self.asm.address_of(B[1], times(B[0], B_ROW[0], 2));
            self.asm.address_of(NEXT[0], times(B[0], B_ROW[0], 3));
            self.asm.address_of(NEXT[1], times(B[1], B_ROW[0], 3));
            self.asm.plain(0x8b, SUMS, arg!(sums));
            self.asm.plain(0x8b, A, arg!(a));
            self.asm.plain(0x8b, COUNT, arg!(width));
            if !several {
                for i in rows.clone() {
                    self.repeat(factor(i), at(A, i * lane));
                }
            }
            self.asm.align(32);
            self.asm.place(&mut columns);
            if asks {
                let offsets = (0..self.narrow(2 * width)).step_by(LINE as usize);
                for (i, offset) in rows
                    .clone()
                    .flat_map(|i| offsets.clone().map(move |offset| (i, offset)))
                {
                    self.asm.prefetch_second(row(NEXT, B_ROW, i, offset));
                }
            }
            if several {
                let mut each = Label::default();
                for (i, vector) in rows.clone().flat_map(|i| [(i, 0), (i, 1)]) {
                    let offset = self.narrow(vector * width);
                    self.value(value(i, vector), row(B, B_ROW, i, offset));
                }
                self.asm.copy(TO, SUMS);
                self.asm.plain(0x8b, A, arg!(a));
                self.asm.plain(0x8b, ROW, arg!(rows));
                self.asm.place(&mut each);
                self.two(LOAD, [sum, next], TO);
                for i in rows.clone().map(|i| i ^ odd_first) {
                    self.repeat(repeated, at(A, i * lane));
                    self.multiply_add(sum, repeated, Rm::Reg(value(i, 0)));
                    self.multiply_add(next, repeated, Rm::Reg(value(i, 1)));
                }
                self.two(STORE, [sum, next], TO);
                self.asm.plain(0x03, TO, arg!(pitch));
                self.asm.plain(0x03, A, arg!(a_row));
                self.asm.small(5, Rm::Reg(ROW), 1);
                self.asm.jump_if(UNEQUAL, &mut each);
            } else {
                self.two(LOAD, [sum, next], SUMS);
                let ordered = rows.clone().map(|i| i ^ odd_first);
                for (i, vector) in ordered.flat_map(|i| [(i, 0), (i, 1)]) {
                    let mut from = row(B, B_ROW, i, self.narrow(vector * width));
                    if !self.elements.is_direct() {
                        let read = (if self.asm.wide { 16 } else { 8 }) + (i % together) as u8;
                        self.value(read, from);
                        from = Rm::Reg(read);
                    }
                    self.multiply_add([sum, next][vector as usize], factor(i), from);
                }
                self.two(STORE, [sum, next], SUMS);
            }
            self.asm.add(SUMS, 2 * width);
            let bytes = self.narrow(2 * width);
            B.into_iter().chain(NEXT).for_each(|b| self.asm.add(b, bytes));
            self.asm.sub(COUNT, 2 * width / lane);
            self.asm.jump_if(UNEQUAL, &mut columns);
        }
        self.asm.address_of(FIRST, times(FIRST, B_ROW[0], 3));
        self.asm.plain(0x8b, A, arg!(a));
        self.asm.add(A, count * lane);
        self.asm.plain(0x89, A, arg!(a));
        self.asm.small(5, Rm::Reg(BLOCKS), 1);
        self.asm.jump_if(UNEQUAL, &mut block);
        if self.elements.in_pairs() {
            control(self.asm, false, USUAL);
        }
        self.asm.vzeroupper();
        SAVED.iter().rev().for_each(|&r| self.asm.pop(r));
        self.asm.ret();
        entry
    }
}

/// The kernels, by instruction set and elements.
static KERNELS: [[OnceLock<Option<Vec<Entry>>>; 5]; 2] = [const { [const { OnceLock::new() }; 5] }; 2];

/// The kernels whose sums are `S`; `None` where there is no such instruction, or the system refuses memory that may be executed.
pub(super) fn kernels<S>(isa: Isa, elements: Elements) -> Option<Kernels<S>> {
    debug_assert_eq!(size_of::<S>(), 1 << elements.sum().shift());
    if !runs(isa) {
        return None;
    }
    let wide = isa == Isa::Avx512;
    let columns = elements.columns(wide);
    let entries = KERNELS[usize::from(wide)][elements as usize].get_or_init(|| {
        let mut asm = assembler(wide);
        asm.code.extend(MXCSR_FLUSHING.to_le_bytes());
        let mut writer = Writer {
            asm: &mut asm,
            elements,
        };
        let mut starts = vec![writer.columns(columns), writer.columns(1)];
        for (several, asks) in [(false, false), (false, !wide), (true, false), (true, true)] {
            starts.push(writer.rows(several, asks));
        }
        keep(&asm.code, starts)
    });
    let entries = entries.as_ref()?;
    // SAFETY: code of these types, which reads nothing of `S` but its size.
    let [whole, single] = [0, 1].map(|at| unsafe { transmute::<Entry, ColumnsFn<S>>(entries[at]) });
    // SAFETY: as above.
    let rows = [2, 3, 4, 5].map(|at| unsafe { transmute::<Entry, RowsFn<S>>(entries[at]) });
    Some(Kernels {
        group: if wide { MOST_COLUMNS } else { 6 },
        columns: columns as usize,
        whole,
        single,
        rows: [[rows[0], rows[1]], [rows[2], rows[3]]],
    })
}
