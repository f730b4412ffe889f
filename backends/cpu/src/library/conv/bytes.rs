//! Convolutions of 8-bit integers: a lane of 32 bits holds four channels where the machine sums the products of such lanes at once, else
//! two as 16 bits. Planes and packed weights consist of such lanes, so tiles and lines are those of 32 bits. Where channels are neighbours,
//! four of them are a lane as they lie. Sums are exact modulo 2³², so all ways give the same bits.

mod lanes;
pub(super) mod squares;
mod tiles;

use super::geometry::{AXES, Axis, Pass};
use super::operands::{Gathered, Sizes, Weights};
use super::planes::PlaneFn;
use super::tile::Tiles;
use super::words::{ConvKernels, Word};
use super::{Launch, code, forward};
use crate::isa::Isa;
use crate::library::gemm::code::Sum;
use crate::library::gemm::{Byte, Signs};
use crate::library::matmul::MatDType;
use std::ops::Range;

/// How channels come into lanes.
#[derive(Clone, Copy)]
pub(super) struct Channels {
    /// Channels of a lane. Those behind the last one meet weights of zero.
    pub(super) each: usize,
    /// Copies a plane.
    pub(super) plane: PlaneFn<Byte>,
    /// Packs weights of some rows, as [`lanes::pack`].
    pub(super) pack: PackLanesFn,
    /// The lane of the weights of some channels.
    pub(super) lane: unsafe fn(src: *const Byte, channel: isize, count: usize) -> i32,
    /// What stands for an element of zero in planes. Other than zero, it was added to each element, and sums begin at as many times the
    /// weights, taken off.
    pub(super) zero: i32,
    /// The elements of a lane are neighbours in the operand, which is read where it lies; see [`Channels::beside`].
    pub(super) is_beside: bool,
    /// What computes tiles by AMX, in place of vectors.
    #[cfg(target_arch = "x86_64")]
    pub(super) squares: Option<squares::SquareFn>,
}

/// Packs the weights of a group and some rows: `dst[((block * taps + tap) * together + lane) * pitch + row]` for the lanes of each block of
/// `together`, zeros from the last row to the pitch.
pub(super) type PackLanesFn = unsafe fn(&Pick<'_>, pitch: usize, dst: *mut i32);

/// Weights that are packed.
pub(super) struct Pick<'a> {
    pub(super) weights: &'a Weights<Byte>,
    pub(super) pass: &'a Pass,
    pub(super) group: usize,
    pub(super) rows: Range<usize>,
    /// Lanes of channels, and how many of them follow one another with a tap.
    pub(super) lanes: Range<usize>,
    pub(super) together: usize,
}

impl Channels {
    /// The same for an operand whose channels are neighbours, if whole lanes of them may be read as they are.
    fn beside(self, x: &Gathered<u8>) -> Channels {
        let are_lanes = self.each == 4 && self.zero == 0 && x.channels.is_multiple_of(self.each);
        Channels {
            is_beside: are_lanes && x.channel == 1 && x.spatial[AXES - 1] != 1,
            ..self
        }
    }

    /// Whether sums begin with other numbers than zero.
    pub(super) fn starts(&self) -> bool {
        self.zero != 0
    }

    /// Writes what the sums of `pitch` rows begin with, from `terms` packed weights of each.
    ///
    /// # Safety
    /// `packed` holds the weights, and `starts` has room for the rows.
    pub(super) unsafe fn start(&self, packed: *const i32, terms: usize, pitch: usize, starts: *mut i32) {
        // SAFETY: the caller's contract.
        let starts = unsafe {
            starts.write_bytes(0, pitch);
            std::slice::from_raw_parts_mut(starts, pitch)
        };
        for term in 0..terms {
            // SAFETY: the caller's contract.
            let weights = unsafe { std::slice::from_raw_parts(packed.add(term * pitch), pitch) };
            for (start, weights) in starts.iter_mut().zip(weights) {
                *start -= weights
                    .to_ne_bytes()
                    .iter()
                    .map(|&byte| 128 * i32::from(byte.cast_signed()))
                    .sum::<i32>();
            }
        }
    }
}

/// The kernels for elements and weights of these signs, whose channels are lanes of 32 bits.
pub(super) fn kernels(signs: Signs, launch: &Launch, isa: Isa, codegen: bool) -> ConvKernels<u32> {
    let pass = Pass {
        axes: launch.windows.map(|window| Axis::forward(&window)),
    };
    let base =
        u32::kernels(MatDType::I32, isa, codegen, false).unwrap_or_else(|| unreachable!("i32 has words"));
    #[cfg(target_arch = "x86_64")]
    if let Some(kernels) = by_squares(signs, base, isa)
        && forward::takes_squares(&kernels.sizes(&launch.sizes), &pass)
    {
        return kernels;
    }
    fours(signs, base, isa, codegen)
        .filter(|kernels| forward::takes(kernels, &kernels.sizes(&launch.sizes), &pass))
        .map(|kernels| where_it_lies(kernels, &launch.gathered, &launch.sizes, &pass))
        .unwrap_or_else(|| pairs(signs, base, isa, codegen))
}

/// The same kernels, for an operand that is read where it lies, if it may.
pub(super) fn where_it_lies(
    kernels: ConvKernels<u32>,
    x: &Gathered<u8>,
    sizes: &Sizes,
    pass: &Pass,
) -> ConvKernels<u32> {
    let suits = forward::reads_where_it_lies(&kernels.sizes(sizes), pass);
    ConvKernels {
        bytes: kernels
            .bytes
            .map(|bytes| if suits { bytes.beside(x) } else { bytes }),
        ..kernels
    }
}

/// Lanes of four, which AMX multiplies with any signs.
#[cfg(target_arch = "x86_64")]
pub(super) fn by_squares(signs: Signs, base: ConvKernels<u32>, isa: Isa) -> Option<ConvKernels<u32>> {
    if !isa.sums_squares() {
        return None;
    }
    Some(ConvKernels {
        bytes: Some(Channels {
            each: 4,
            plane: lanes::plane::<4, false>(isa),
            pack: lanes::pack::<4, false>,
            lane: lanes::lane::<4, false>,
            zero: 0,
            is_beside: false,
            squares: Some(squares::kernel(signs)),
        }),
        ..base
    })
}

/// Lanes of four, whose instruction multiplies unsigned by signed bytes. Of two signed operands, elements are raised by 128. Two
/// unsigned ones would need the sums of each window.
pub(super) fn fours(
    signs: Signs,
    base: ConvKernels<u32>,
    isa: Isa,
    codegen: bool,
) -> Option<ConvKernels<u32>> {
    let (sum, zero) = match (signs.a, signs.b) {
        (false, true) => (Sum::Fours, 0),
        (true, false) => (Sum::FoursSwapped, 0),
        (true, true) => (Sum::Fours, i32::from_ne_bytes([128; 4])),
        (false, false) => return None,
    };
    // The compiler's kernels stand for their number.
    let tiles = Tiles {
        steps: base.tiles.steps,
        ..tiles::pairs(base.tiles, isa)
    };
    Some(ConvKernels {
        tiles: codegen.then(|| code::tiles(tiles, sum, isa))??,
        bytes: Some(Channels {
            each: 4,
            plane: lanes::plane::<4, false>(isa),
            pack: lanes::pack::<4, false>,
            lane: lanes::lane::<4, false>,
            zero,
            is_beside: false,
            #[cfg(target_arch = "x86_64")]
            squares: None,
        }),
        ..base
    })
}

pub(super) fn pairs(signs: Signs, base: ConvKernels<u32>, isa: Isa, codegen: bool) -> ConvKernels<u32> {
    let compiled = tiles::pairs(base.tiles, isa);
    let written = codegen.then(|| code::tiles(compiled, Sum::Pairs, isa)).flatten();
    let tiles = written.unwrap_or(compiled);
    ConvKernels {
        tiles,
        bytes: Some(Channels {
            each: 2,
            plane: match signs.a {
                true => lanes::plane::<2, true>(isa),
                false => lanes::plane::<2, false>(isa),
            },
            pack: match signs.b {
                true => lanes::pack::<2, true>,
                false => lanes::pack::<2, false>,
            },
            lane: match signs.b {
                true => lanes::lane::<2, true>,
                false => lanes::lane::<2, false>,
            },
            zero: 0,
            is_beside: false,
            #[cfg(target_arch = "x86_64")]
            squares: None,
        }),
        ..base
    }
}
