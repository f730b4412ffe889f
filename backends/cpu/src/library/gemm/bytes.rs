//! Products of 8-bit integers: lanes of 32 bits hold four elements along k where the machine sums the products of such lanes at
//! once, else two as 16 bits. AMX sums whole rows and columns. Sums are exact modulo 2³², so all ways give the same bits.

mod pack;
mod sums;

use super::code::{self, Sum};
use super::element::{Element, Kernels, Stored, narrow};
use super::lanes::lanes;
use super::squares;
use crate::isa::Isa;
pub(crate) use sums::{ExcessFn, Pairs as PairLanes};
#[cfg(target_arch = "x86_64")]
pub(crate) use sums::{Pairs256, Pairs512};

/// An element of an operand of 8 bits, whose [`Signs`] say what it is.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Byte(pub(crate) u8);

impl Stored for Byte {
    type Acc = i32;
    const ZERO: i32 = 0;
    const DIRECT: bool = false;
}

impl Element for Byte {
    type Out = i32;
    const SUMS: bool = true;
    fn widen(self) -> i32 {
        self.0.into()
    }
    fn narrow(acc: i32) -> i32 {
        acc
    }
    fn add(a: i32, b: i32) -> i32 {
        a.wrapping_add(b)
    }
}

/// Whether the elements of A and of B are signed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Signs {
    pub a: bool,
    pub b: bool,
}

/// How many products an instruction sums, where the machine has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// Two, of 16 bits.
    Pairs,
    /// Four, in lanes of a register.
    Fours,
    /// Those of whole rows and columns.
    Squares,
}

impl Way {
    #[cfg(test)]
    pub(crate) const ALL: [Way; 3] = [Way::Pairs, Way::Fours, Way::Squares];

    /// Whether this machine has it beside an instruction set.
    pub(crate) fn is_available(self, isa: Isa) -> bool {
        match self {
            Way::Pairs => true,
            Way::Fours => isa.sums_bytes(),
            Way::Squares => isa.sums_squares(),
        }
    }

    /// The fastest of them.
    fn best(isa: Isa) -> Way {
        let ways = [Way::Squares, Way::Fours];
        (ways.into_iter().find(|way| way.is_available(isa))).unwrap_or(Way::Pairs)
    }
}

impl Signs {
    /// The kernels, and those of the transposed product.
    pub(crate) fn kernels(self, isa: Isa, codegen: bool) -> [Kernels<Byte>; 2] {
        self.kernels_by(isa, Way::best(isa), codegen)
    }

    /// The same, by a way that is available.
    pub(crate) fn kernels_by(self, isa: Isa, way: Way, codegen: bool) -> [Kernels<Byte>; 2] {
        let transposed = Signs { a: self.b, b: self.a };
        [self, transposed].map(|signs| signs.one(isa, way, codegen))
    }

    /// The kernels by a way that is available. The instruction for four multiplies unsigned by signed bytes. Two signed ones are made unequal
    /// by adding 128 to A, which sums begin without. Two unsigned ones would need the same of each row, and are summed by pairs instead.
    fn one(self, isa: Isa, way: Way, codegen: bool) -> Kernels<Byte> {
        #[cfg(target_arch = "x86_64")]
        if way == Way::Squares {
            return squares::bytes(self, sums::UNSIGNED_AVX512);
        }
        let fours = match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 if way == Way::Fours => Some((
                sums::UNSIGNED_AVX512,
                sums::SIGNED_AVX512,
                sums::excess_avx512 as ExcessFn,
            )),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 if way == Way::Fours => Some((
                sums::UNSIGNED_AVX2,
                sums::SIGNED_AVX2,
                sums::excess_avx2 as ExcessFn,
            )),
            _ => None,
        };
        if let (Some((unsigned, signed, excess)), true) = (fours, self.a || self.b) {
            let (sum, tiles) = match self.a && !self.b {
                true => (Sum::FoursSwapped, signed),
                false => (Sum::Fours, unsigned),
            };
            return Kernels {
                tiles: codegen.then(|| code::tiles(sum, isa)).flatten().unwrap_or(tiles),
                pack: match self.a && self.b {
                    true => [lanes::<Byte, 0x80>(isa), lanes::<Byte, 0>(isa)],
                    false => [lanes::<Byte, 0>(isa); 2],
                },
                a_words: 1,
                step: 4,
                excess: (self.a && self.b).then_some(excess),
                multiple: 1,
                fours: Some(self),
                narrow: narrow::<Byte>(isa),
                block: None,
            };
        }
        let tiles = match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => sums::PAIRS_AVX512,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => sums::PAIRS_AVX2,
            _ => sums::PAIRS_PLAIN,
        };
        Kernels {
            tiles: codegen
                .then(|| code::tiles(Sum::Pairs, isa))
                .flatten()
                .unwrap_or(tiles),
            pack: [self.a, self.b].map(|signed| pack::pairs(isa, signed)),
            a_words: 1,
            step: 2,
            excess: None,
            multiple: 1,
            fours: None,
            narrow: narrow::<Byte>(isa),
            block: None,
        }
    }
}
