//! The kernels of products as machine code, written once for a process and kind: they run at full speed in debug builds, and cost
//! nobody the compilation of some hundred functions.

mod ahead;
mod panels;
mod sums;
mod turned;

use super::Element;
use super::pack::{PackFn, Panel};
use super::tile::{TileFn, TileSet};
use crate::codegen::assembler::{Assembler, Code, Map, Prefix, Rm};
use crate::codegen::opcodes::{ADD_I32, ADD_I64, DOT_BYTES, DOT_HALVES, FMA231, MULTIPLY, MULTIPLY_PAIRS};
use crate::codegen::pages::Pages;
use crate::isa::Isa;
use panels::Panels;
use std::sync::OnceLock;
pub(in crate::library) use sums::times;
use sums::{Form, tile};
pub(in crate::library) use turned::transpose;

/// How products of lanes are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::library) enum Sum {
    F32,
    F64,
    I32,
    /// With AVX-512 alone.
    I64,
    /// Lanes of two numbers of 16 bits.
    Pairs,
    /// Lanes of four bytes, with the instruction for them. Bytes of A are unsigned, those of B signed.
    Fours,
    /// The same, with the signs of A and B the other way round.
    FoursSwapped,
    /// Lanes of two numbers of bf16, with the instruction for them.
    Halves,
    /// F32, with zeros for numbers below the least normal one. Only convolutions have such kernels.
    Flushed,
}

impl Sum {
    pub(in crate::library) const ALL: [Sum; 9] = [
        Sum::F32,
        Sum::F64,
        Sum::I32,
        Sum::I64,
        Sum::Pairs,
        Sum::Fours,
        Sum::FoursSwapped,
        Sum::Halves,
        Sum::Flushed,
    ];

    /// Whether lanes have 64 bits.
    pub(in crate::library) fn is_long(self) -> bool {
        matches!(self, Sum::F64 | Sum::I64)
    }

    /// Bytes of a lane, as a shift.
    pub(in crate::library) fn shift(self) -> u8 {
        if self.is_long() { 3 } else { 2 }
    }

    /// Whether the sums may begin with a row of other numbers than zero.
    fn starts(self) -> bool {
        self == Sum::Fours
    }

    /// Whether the instruction takes B before A.
    fn swaps(self) -> bool {
        self == Sum::FoursSwapped
    }

    /// What multiplies, where that is an instruction of its own.
    pub(in crate::library) fn product(self) -> Option<Code> {
        match self {
            Sum::F32 | Sum::F64 | Sum::Fours | Sum::FoursSwapped | Sum::Halves | Sum::Flushed => None,
            Sum::I32 | Sum::I64 => Some(MULTIPLY),
            Sum::Pairs => Some(MULTIPLY_PAIRS),
        }
    }

    /// What adds a product to a sum, or multiplies and adds.
    pub(in crate::library) fn code(self) -> Code {
        match self {
            Sum::F32 | Sum::F64 | Sum::Flushed => FMA231,
            Sum::I32 | Sum::Pairs => ADD_I32,
            Sum::I64 => ADD_I64,
            Sum::Fours | Sum::FoursSwapped => DOT_BYTES,
            Sum::Halves => DOT_HALVES,
        }
    }

    /// What adds sums, and its bit for 64.
    pub(in crate::library) fn add(self) -> (Code, bool) {
        match self {
            Sum::F32 | Sum::Halves | Sum::Flushed => (Code(Map::M0F, Prefix::None, 0x58), false),
            Sum::F64 => (Code(Map::M0F, Prefix::P66, 0x58), true),
            Sum::I32 | Sum::Pairs | Sum::Fours | Sum::FoursSwapped => (ADD_I32, false),
            Sum::I64 => (ADD_I64, true),
        }
    }

    /// What fills a vector with one lane, and its bit for 64.
    pub(in crate::library) fn broadcast(self, wide: bool) -> (Code, bool) {
        match self.is_long() {
            false => (Code(Map::M0F38, Prefix::P66, 0x18), false),
            true => (Code(Map::M0F38, Prefix::P66, 0x19), wide),
        }
    }

    /// Whether the instruction set has the instructions.
    pub(in crate::library) fn exists(self, isa: Isa) -> bool {
        match (self, isa) {
            (_, Isa::Baseline) | (Sum::I64, Isa::Avx2) => false,
            (Sum::Fours | Sum::FoursSwapped, isa) => isa.sums_bytes(),
            (Sum::Halves, isa) => isa == Isa::Avx512 && isa.sums_halves(),
            (
                Sum::F32 | Sum::F64 | Sum::I32 | Sum::I64 | Sum::Pairs | Sum::Flushed,
                Isa::Avx2 | Isa::Avx512,
            ) => true,
        }
    }
}

/// Vectors of a row of a tile.
const VECTORS: usize = 2;

/// Most rows of a tile: the sums, a row of B and a few numbers of A fill the registers.
const fn most_rows(wide: bool) -> usize {
    if wide { 14 } else { 6 }
}

/// The first instruction of a function, which stays as long as the process.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(in crate::library) struct Entry(*const u8);
// SAFETY: an address of code that nothing writes.
unsafe impl Send for Entry {}
// SAFETY: as above.
unsafe impl Sync for Entry {}

/// The micro-kernels by height, for each form.
type Heights = [&'static [Entry]; 4];

/// Micro-kernels, by instruction set and sum.
static TILES: [[OnceLock<Option<Heights>>; Sum::ALL.len()]; 2] =
    [const { [const { OnceLock::new() }; Sum::ALL.len()] }; 2];

/// Functions that pack elements of 4 and of 8 bytes, by instruction set.
static PANELS: [OnceLock<Option<[Entry; 2]>>; 2] = [const { OnceLock::new() }; 2];

/// Code for a function of the C convention of Unix.
pub(in crate::library) const fn runs(isa: Isa) -> bool {
    cfg!(all(target_arch = "x86_64", unix)) && !matches!(isa, Isa::Baseline)
}

/// Makes code executable for as long as the process lives.
pub(in crate::library) fn keep(code: &[u8], entries: impl IntoIterator<Item = usize>) -> Option<Vec<Entry>> {
    let pages = Box::leak(Box::new(Pages::new(code)?));
    Some(entries.into_iter().map(|at| Entry(pages.at(at))).collect())
}

/// Where code that begins with [`MXCSR_FLUSHING`](super::MXCSR_FLUSHING) has it.
pub(in crate::library) const FLUSHING: Rm = Rm::Pool { at: 0, each: false };
/// Where a function keeps MXCSR as it was.
pub(in crate::library) const USUAL: Rm = Rm::Stack(-8);

/// Loads MXCSR, or stores it.
pub(in crate::library) fn control(asm: &mut Assembler, store: bool, rm: Rm) {
    let code = Code(Map::M0F, Prefix::None, 0xae);
    asm.vex(code, 2 + u8::from(store), 0, rm, None, false, false);
}

pub(in crate::library) fn assembler(wide: bool) -> Assembler {
    Assembler {
        code: Vec::with_capacity(1 << 16),
        wide,
        half: false,
    }
}

/// The micro-kernels of sums whose lanes are `S`; `None` where there is no such instruction, or the system refuses memory that may be
/// executed.
pub(super) fn tiles<S>(sum: Sum, isa: Isa) -> Option<TileSet<S>> {
    debug_assert_eq!(size_of::<S>(), 1 << sum.shift());
    if !runs(isa) || !sum.exists(isa) || sum == Sum::Flushed {
        return None;
    }
    let wide = isa == Isa::Avx512;
    let heights = (*TILES[usize::from(wide)][sum as usize].get_or_init(|| {
        let mut asm = assembler(wide);
        let forms = [
            (Form::Packed, VECTORS),
            (Form::Strided, VECTORS),
            (Form::Copying, VECTORS),
            (Form::Strided, VECTORS / 2),
        ];
        let starts = forms.map(|(form, vectors)| {
            let rows = 1..=most_rows(wide);
            rows.map(|rows| tile(&mut asm, sum, rows, vectors, form))
                .collect::<Vec<_>>()
        });
        let entries: &'static [Entry] = keep(&asm.code, starts.concat())?.leak();
        Some([0, 1, 2, 3].map(|form| &entries[form * most_rows(wide)..][..most_rows(wide)]))
    }))?;
    // SAFETY: the entries are functions of this type, which reads nothing of `S` but its size.
    let functions = heights
        .map(|entries| unsafe { std::mem::transmute::<&'static [Entry], &'static [TileFn<S>]>(entries) });
    let [packed, strided, copying, narrow] = functions;
    Some(TileSet {
        nr: VECTORS * usize::from(isa.bits() as u16) / 8 / size_of::<S>(),
        packed,
        strided,
        narrow,
        copying,
    })
}

/// The function that packs elements which are accumulators.
pub(super) fn packing<T: Element>(isa: Isa) -> Option<PackFn<T>> {
    let packs = |wide| match wide {
        true => pack::<T, true> as PackFn<T>,
        false => pack::<T, false>,
    };
    (runs(isa) && T::DIRECT)
        .then(|| isa == Isa::Avx512)
        .filter(|&wide| panels(wide).is_some())
        .map(packs)
}

fn panels(wide: bool) -> Option<[Entry; 2]> {
    *PANELS[usize::from(wide)].get_or_init(|| {
        let mut asm = assembler(wide);
        asm.code.extend_from_slice(&[0xff; 32]);
        asm.code.extend_from_slice(&[0; 32]);
        let starts = [2, 3].map(|shift| {
            let panels = Panels {
                asm: &mut asm,
                shift,
                masks: 0,
            };
            panels.function()
        });
        let entries = keep(&asm.code, starts)?;
        Some([entries[0], entries[1]])
    })
}

unsafe fn pack<T: Element, const WIDE: bool>(p: &Panel<T>) {
    if let Some(entries) = panels(WIDE) {
        let Entry(start) = entries[usize::from(size_of::<T>() == 8)];
        // SAFETY: code of this type; the caller has the panel.
        unsafe { std::mem::transmute::<*const u8, unsafe extern "C" fn(&Panel<T>)>(start)(p) };
    }
}
