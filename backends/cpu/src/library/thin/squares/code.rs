//! Products with squares of B as machine code, written once for a process and kind.

use super::super::code::at;
use super::Squares;
use crate::codegen::assembler::{
    Assembler, Code, Extra, Label, RAX, RBP, RBX, RCX, RDI, RDX, RSI, Rm, UNEQUAL,
};
use crate::codegen::opcodes::{AND, FMA231, FROM_F16, LEFT, LOAD, SHIFT, STORE};
use crate::isa::Isa;
use crate::library::gemm::MXCSR_FLUSHING;
use crate::library::gemm::code::{
    Entry, FLUSHING, Sum, USUAL, assembler, control, keep, runs, times, transpose,
};
use std::mem::{offset_of, transmute};
use std::sync::OnceLock;

/// The elements of B, and how those of A are given to be multiplied by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::library::thin) enum Squared {
    F32,
    F64,
    /// Those of A as f32.
    F16,
    /// As they are, for the instruction that multiplies pairs.
    Pairs,
    /// The same sums by other instructions; those of A as f32.
    PairsApart,
}

impl Squared {
    const COUNT: usize = 5;

    /// Whether squares are faster than packed columns.
    pub(in crate::library::thin) fn serve(self, isa: Isa, [m, n, k]: [usize; 3]) -> bool {
        let most = match (self, isa) {
            (Squared::F16, Isa::Avx512) => 4,
            (Squared::F16, _) => 10,
            (Squared::F32 | Squared::F64 | Squared::Pairs | Squared::PairsApart, _) => 8,
        };
        // Sums of an instruction wait for one another longest where it takes pairs.
        let long = self != Squared::Pairs || k >= 256 && k.saturating_mul(n) >= 1 << 18;
        m <= most && n >= GROUP >> self.sum().shift() && long
    }

    fn sum(self) -> Sum {
        match self {
            Squared::F64 => Sum::F64,
            Squared::F32 | Squared::F16 | Squared::PairsApart => Sum::F32,
            Squared::Pairs => Sum::Halves,
        }
    }

    /// Terms of a lane of a square.
    fn terms(self) -> i32 {
        match self {
            Squared::Pairs | Squared::PairsApart => 2,
            Squared::F32 | Squared::F64 | Squared::F16 => 1,
        }
    }

    /// Bytes in memory of a lane of a square.
    fn bytes(self) -> i32 {
        match self {
            Squared::F64 => 8,
            Squared::F32 | Squared::Pairs | Squared::PairsApart => 4,
            Squared::F16 => 2,
        }
    }

    /// Bytes of what a lane is multiplied by.
    fn factors(self) -> i32 {
        match self {
            Squared::F64 | Squared::PairsApart => 8,
            Squared::F32 | Squared::F16 | Squared::Pairs => 4,
        }
    }
}

/// Columns of a group, in bytes of sums.
pub(super) const GROUP: usize = 64;
/// Bytes of a column that are asked for ahead of time: the columns are more than the hardware follows.
const AHEAD: i32 = 512;
/// The upper half of a lane.
const UPPER: u32 = 0xffff_0000;
/// Where the code has a vector of [`UPPER`], behind MXCSR.
const UPPERS: usize = 4;

struct Writer<'a> {
    asm: &'a mut Assembler,
    squared: Squared,
}

impl Writer<'_> {
    /// `sum += lanes * factor`, of which every lane takes the one in memory.
    fn multiply_add(&mut self, code: Code, sum: u8, lanes: u8, factor: Rm, spare: u8) {
        let long = self.squared == Squared::F64;
        if self.asm.wide {
            let extra = Extra {
                long,
                unit: 1 << self.squared.sum().shift(),
                each: true,
                ..Extra::default()
            };
            self.asm.vector(code, sum, lanes, factor, extra);
        } else {
            let (broadcast, wide) = self.squared.sum().broadcast(false);
            self.asm.lanes(broadcast, spare, 0, factor, wide, 0);
            self.asm.lanes(code, sum, lanes, Rm::Reg(spare), long, 0);
        }
    }

    /// Adds a lane of the square times its factors. Of two, the odd one comes first.
    fn add(&mut self, sum: u8, lane: u8, (base, offset): (u8, i32), [spare, other]: [u8; 2]) {
        if self.squared != Squared::PairsApart {
            let code = self.squared.sum().code();
            return self.multiply_add(code, sum, lane, at(base, offset), spare);
        }
        let upper = Rm::Pool {
            at: UPPERS,
            each: self.asm.wide,
        };
        self.asm.lanes(AND, other, lane, upper, false, 0);
        self.multiply_add(FMA231, sum, other, at(base, offset + 4), spare);
        let extra = Extra {
            imm: Some(16),
            ..Extra::default()
        };
        self.asm.vector(SHIFT, LEFT, other, Rm::Reg(lane), extra);
        self.multiply_add(FMA231, sum, other, at(base, offset), spare);
    }

    fn function(&mut self) -> usize {
        const B: [u8; 4] = [RSI, 8, 9, 10];
        const B_COL: [u8; 2] = [11, RBX];
        const A: u8 = RCX;
        const COUNT: u8 = RDX;
        const TO: u8 = 12;
        const FACTORS: u8 = 13;
        const ROW: u8 = RBP;
        const SAVED: [u8; 4] = [RBX, RBP, 12, 13];
        macro_rules! arg {
            ($field:ident) => {
                at(RDI, offset_of!(Squares<f32>, $field) as i32)
            };
        }
        self.asm.align(64);
        let entry = self.asm.code.len();
        let squared = self.squared;
        let shift = squared.sum().shift();
        let (width, columns) = (self.asm.width(), (GROUP >> shift) as i32);
        let lanes = width >> shift;
        SAVED.iter().for_each(|&r| self.asm.push(r));
        if squared == Squared::PairsApart {
            control(self.asm, true, USUAL);
            control(self.asm, false, FLUSHING);
        }
        self.asm.plain(0x8b, B_COL[0], arg!(b_col));
        self.asm.address_of(B_COL[1], times(B_COL[0], B_COL[0], 1));
        self.asm.plain(0x8b, B[0], arg!(b));
        self.asm.copy(RAX, B_COL[0]);
        self.asm.shift(RAX, true, 2);
        let bases = &B[..columns as usize / 4];
        for pair in bases.windows(2) {
            self.asm.address_of(pair[1], times(pair[0], RAX, 0));
        }
        self.asm.plain(0x8b, A, arg!(a));
        self.asm.plain(0x8b, COUNT, arg!(steps));
        let mut step = Label::default();
        self.asm.align(32);
        self.asm.place(&mut step);
        for group in 0..columns / lanes {
            for lane in 0..lanes {
                let column = group * lanes + lane;
                let from = |offset| Rm::steps(bases[column as usize / 4], B_COL, column % 4, offset);
                self.asm.prefetch(from(AHEAD));
                let load = if squared == Squared::F16 { FROM_F16 } else { LOAD };
                self.asm.lanes(load, lane as u8, 0, from(0), false, 0);
            }
            let square = transpose(self.asm, shift);
            let free: Vec<u8> = (0..if self.asm.wide { 32 } else { 16 })
                .filter(|register| !square.contains(register))
                .collect();
            let (sum, spare) = (free[0], [free[1], free[2]]);
            let mut each = Label::default();
            self.asm.plain(0x8b, TO, arg!(sums));
            self.asm.copy(FACTORS, A);
            self.asm.plain(0x8b, ROW, arg!(rows));
            self.asm.place(&mut each);
            let sums = at(TO, group * width);
            self.asm.lanes(LOAD, sum, 0, sums, false, 0);
            for (i, lane) in square.enumerate() {
                self.add(sum, lane, (FACTORS, i as i32 * squared.factors()), spare);
            }
            self.asm.lanes(STORE, sum, 0, sums, false, 0);
            self.asm.plain(0x03, TO, arg!(pitch));
            self.asm.plain(0x03, FACTORS, arg!(a_row));
            self.asm.small(5, Rm::Reg(ROW), 1);
            self.asm.jump_if(UNEQUAL, &mut each);
        }
        self.asm.add(A, lanes * squared.factors());
        bases
            .iter()
            .for_each(|&b| self.asm.add(b, lanes * squared.bytes()));
        self.asm.small(5, Rm::Reg(COUNT), 1);
        self.asm.jump_if(UNEQUAL, &mut step);
        if squared == Squared::PairsApart {
            control(self.asm, false, USUAL);
        }
        self.asm.vzeroupper();
        SAVED.iter().rev().for_each(|&r| self.asm.pop(r));
        self.asm.ret();
        entry
    }
}

/// The kernels, by instruction set and elements.
static KERNELS: [[OnceLock<Option<Entry>>; Squared::COUNT]; 2] =
    [const { [const { OnceLock::new() }; Squared::COUNT] }; 2];

/// A kernel whose sums are `S`.
#[derive(Clone, Copy)]
pub(in crate::library::thin) struct Kernel<S> {
    /// Adds products of rows of A and a group of columns of B to sums, term by term.
    pub(super) run: unsafe extern "C" fn(&Squares<S>),
    /// Those of a step.
    pub(super) terms: usize,
    /// Terms whose order within a sum is the kernel's own.
    pub(super) lane: usize,
    /// Whether A is given as it is stored, or as sums are.
    pub(super) stored: bool,
}

/// The kernel for these elements; `None` where there is no such instruction, or the system refuses memory that may be executed.
pub(in crate::library::thin) fn kernel<S>(isa: Isa, squared: Squared) -> Option<Kernel<S>> {
    debug_assert_eq!(size_of::<S>(), 1 << squared.sum().shift());
    if !runs(isa) || !squared.sum().exists(isa) {
        return None;
    }
    let wide = isa == Isa::Avx512;
    let entry = (*KERNELS[usize::from(wide)][squared as usize].get_or_init(|| {
        let mut asm = assembler(wide);
        asm.code.extend(MXCSR_FLUSHING.to_le_bytes());
        for _ in 0..8 {
            asm.code.extend(UPPER.to_le_bytes());
        }
        let mut writer = Writer {
            asm: &mut asm,
            squared,
        };
        let start = writer.function();
        keep(&asm.code, [start])?.first().copied()
    }))?;
    let lanes = (usize::from(isa.bits() as u16) / 8) >> squared.sum().shift();
    Some(Kernel {
        // SAFETY: code of this type, which reads nothing of `S` but its size.
        run: unsafe { transmute::<Entry, unsafe extern "C" fn(&Squares<S>)>(entry) },
        terms: lanes * squared.terms() as usize,
        lane: squared.terms() as usize,
        stored: squared == Squared::Pairs,
    })
}
