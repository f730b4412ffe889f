//! Dot products of bytes as machine code, written once for a process and kind.

use super::super::code::at;
use super::Dots;
use crate::codegen::assembler::{Assembler, Extra, Label, RAX, RCX, RDI, RDX, RSI, Rm, UNEQUAL};
use crate::codegen::opcodes::{
    ADD_I32, ADD_NEIGHBOURS, BROADCAST, DOT_BYTES, LOAD, NEXT_HALF, NEXT_QUARTER, STORE, XOR,
};
use crate::isa::Isa;
use crate::library::gemm::code::{Entry, assembler, keep, runs, times};
use std::mem::{offset_of, transmute};
use std::sync::OnceLock;

/// How the elements of two operands are multiplied by an instruction whose first operand is unsigned and whose second is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// A and then B.
    Straight,
    /// B and then A.
    Swapped,
    /// A has 128 added to each element, and elements of B are summed as well.
    Biased,
}

/// Columns of a call.
pub(super) const COLUMNS: usize = 4;
/// Where the code has bytes of one.
const ONES: Rm = Rm::Pool { at: 0, each: false };

/// Bytes of a column that are asked for ahead of time.
const AHEAD: i32 = 512;

/// Rows of A of a call, the most first: their sums stay in registers.
const fn rows(wide: bool) -> [usize; 3] {
    if wide { [4, 2, 1] } else { [2, 2, 1] }
}

/// Writes the sums of the lanes of four registers; the first registers are lost.
fn total(asm: &mut Assembler, mut lanes: [u8; COLUMNS], to: Rm) {
    if asm.wide {
        let half = 31;
        let extra = Extra {
            imm: Some(1),
            ..Extra::default()
        };
        for (lanes, to) in lanes.iter_mut().zip(0..) {
            asm.vector(NEXT_HALF, *lanes, 0, Rm::Reg(half), extra);
            asm.lanes(ADD_I32, to, *lanes, Rm::Reg(half), false, 0);
            *lanes = to;
        }
    }
    let [a, b, c, d] = lanes;
    asm.vex(ADD_NEIGHBOURS, 0, a, Rm::Reg(b), None, true, false);
    asm.vex(ADD_NEIGHBOURS, 1, c, Rm::Reg(d), None, true, false);
    asm.vex(ADD_NEIGHBOURS, 0, 0, Rm::Reg(1), None, true, false);
    asm.vex(NEXT_QUARTER, 0, 0, Rm::Reg(1), Some(1), true, false);
    asm.vex(ADD_I32, 0, 0, Rm::Reg(1), None, false, false);
    asm.vex(STORE, 0, 0, to, None, false, false);
}

/// Writes the dot products of rows of A and [`COLUMNS`] columns of B.
fn function(asm: &mut Assembler, order: Order, rows: i32) -> usize {
    const B: u8 = RSI;
    const B_COL: [u8; 2] = [9, 10];
    const A: u8 = RAX;
    const A_ROW: [u8; 2] = [RCX, 8];
    const COUNT: u8 = RDX;
    const TO: u8 = 11;
    macro_rules! arg {
        ($field:ident) => {
            at(RDI, offset_of!(Dots, $field) as i32)
        };
    }
    asm.align(64);
    let entry = asm.code.len();
    let (width, columns) = (asm.width(), COLUMNS as i32);
    let summed = rows + i32::from(order == Order::Biased);
    let sum = |row: i32, column: i32| (row * columns + column) as u8;
    let ones = (summed * columns) as u8;
    let (b, a) = (ones + 1, |row: i32| ones + 2 + row as u8);
    for (registers, step) in [(B_COL, arg!(b_col)), (A_ROW, arg!(a_row))] {
        asm.plain(0x8b, registers[0], step);
        asm.address_of(registers[1], times(registers[0], registers[0], 1));
    }
    asm.plain(0x8b, A, arg!(a));
    asm.plain(0x8b, B, arg!(b));
    asm.plain(0x8b, TO, arg!(to));
    asm.plain(0x8b, COUNT, arg!(steps));
    if order == Order::Biased {
        asm.lanes(BROADCAST, ones, 0, ONES, false, 0);
    }
    for sum in 0..(summed * columns) as u8 {
        asm.lanes(XOR, sum, sum, Rm::Reg(sum), false, 0);
    }
    let mut step = Label::default();
    asm.align(32);
    asm.place(&mut step);
    for row in 0..rows {
        asm.lanes(LOAD, a(row), 0, Rm::steps(A, A_ROW, row, 0), false, 0);
    }
    for column in 0..columns {
        let from = |offset| Rm::steps(B, B_COL, column, offset);
        asm.prefetch(from(AHEAD));
        asm.lanes(LOAD, b, 0, from(0), false, 0);
        for row in 0..rows {
            let (first, second) = match order {
                Order::Swapped => (b, a(row)),
                Order::Straight | Order::Biased => (a(row), b),
            };
            asm.lanes(DOT_BYTES, sum(row, column), first, Rm::Reg(second), false, 0);
        }
        if order == Order::Biased {
            asm.lanes(DOT_BYTES, sum(rows, column), ones, Rm::Reg(b), false, 0);
        }
    }
    asm.add(A, width);
    asm.add(B, width);
    asm.small(5, Rm::Reg(COUNT), 1);
    asm.jump_if(UNEQUAL, &mut step);
    for row in 0..summed {
        let lanes: [u8; COLUMNS] = std::array::from_fn(|column| sum(row, column as i32));
        total(asm, lanes, at(TO, row * columns * 4));
    }
    asm.vzeroupper();
    asm.ret();
    entry
}

/// The kernels, by instruction set and order.
static KERNELS: [[OnceLock<Option<[Entry; 3]>>; 3]; 2] = [const { [const { OnceLock::new() }; 3] }; 2];

type DotsFn = unsafe extern "C" fn(&Dots);

/// The kernels of one order.
#[derive(Clone, Copy)]
pub(super) struct Kernels {
    /// With the rows of each, the most first and then fewer, down to one.
    pub(super) by_rows: [(usize, DotsFn); 3],
    /// Terms of a step.
    pub(super) width: usize,
}

/// `None` where there is no such instruction, or the system refuses memory that may be executed.
pub(super) fn kernels(isa: Isa, order: Order) -> Option<Kernels> {
    if !runs(isa) || !isa.sums_bytes() {
        return None;
    }
    let wide = isa == Isa::Avx512;
    let rows = rows(wide);
    let entries = (*KERNELS[usize::from(wide)][order as usize].get_or_init(|| {
        let mut asm = assembler(wide);
        asm.code.extend([1; 4]);
        let starts = rows.map(|rows| function(&mut asm, order, rows as i32));
        keep(&asm.code, starts)?.try_into().ok()
    }))?;
    // SAFETY: code of this type.
    let functions = entries.map(|entry| unsafe { transmute::<Entry, DotsFn>(entry) });
    Some(Kernels {
        by_rows: std::array::from_fn(|at| (rows[at], functions[at])),
        width: isa.bits() as usize / 8,
    })
}
