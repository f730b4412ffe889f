//! Which way the registers of a tile run.

use super::direct;
use crate::library::conv::geometry::Pass;
use crate::library::conv::operands::Sizes;
use crate::library::conv::steps::StepFn;
use crate::library::conv::tile::TapFn;
use crate::library::conv::words::ConvKernels;
use crate::library::gemm::Stored;

/// What the lanes of a tile's registers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Along {
    /// Neighbouring places of a plane, those of the padding between lines too; weights are broadcast.
    Positions,
    /// Rows of the result; elements of the planes are broadcast, so no place of the padding is computed.
    Rows,
    /// The same, of an operand or a copy whose channels are neighbours.
    Direct,
    /// Both, as squares: places of the padding are computed too.
    Squares,
}

/// Most rows of a tile whose registers run along them.
pub(super) const WIDEST: usize = 32;
/// Terms whose products take as long as a tile's way from registers to lines of the result.
const TURN: f64 = 12.0;
/// What is left of the speed where planes are copied that rows would read in place.
const COPIED: f64 = 0.8;
/// How much faster tiles of steps are than others.
const STEPS: f64 = 1.1;
/// Positions of a line below which tiles that end with the line would be too low.
const LOW: usize = 10;

/// Whose neighbours in memory are channels rather than places.
#[derive(Clone, Copy, Default)]
pub(in super::super) struct Channels {
    pub(in super::super) of_operand: bool,
    pub(in super::super) of_result: bool,
}

impl Channels {
    /// Of a launch whose operand and result have these strides from channel to channel and along the last axis.
    pub(in super::super) fn new<T: Stored>(
        kernels: &ConvKernels<T>,
        operand: [isize; 2],
        result: [isize; 2],
    ) -> Channels {
        let are_beside = |[channel, place]: [isize; 2]| channel == 1 && place != 1;
        Channels {
            of_operand: kernels.reads_channels() && are_beside(operand),
            of_result: T::DIRECT && are_beside(result),
        }
    }
}

/// The tiles of a pass.
pub(super) struct Shape<S: 'static> {
    pub(super) along: Along,
    /// Lanes of a tile.
    pub(super) width: usize,
    /// Kernels for `index + 1` of what is broadcast.
    pub(super) kernels: &'static [TapFn<S>],
    /// Kernels for `index + 1` places of one panel of rows, and of two at once.
    pub(super) steps: [&'static [StepFn<S>]; 2],
    /// Of a copy of the operand.
    pub(super) copied: bool,
    /// Each tap along the last axis gets planes of its own, whose lines follow one another without padding.
    pub(super) spread: bool,
    /// The rows of a position are neighbours in the result.
    pub(super) result_beside: bool,
}

impl<S> Shape<S> {
    /// The shape with the least idle lanes; along rows where channels are neighbours in the operand, or in the result and there are enough of
    /// them.
    pub(super) fn new<T: Stored<Acc = S>>(
        kernels: &ConvKernels<T>,
        sizes: &Sizes,
        pass: &Pass,
        channels: Channels,
    ) -> Shape<S> {
        let tiles = &kernels.tiles;
        if kernels.by_squares() {
            return Shape {
                along: Along::Squares,
                width: WIDEST,
                kernels: &[],
                steps: [&[]; 2],
                copied: false,
                spread: false,
                result_beside: false,
            };
        }
        let (wide, high) = (tiles.wide, tiles.high);
        let heights = sizes.rows.div_ceil(sizes.rows.div_ceil(high.1.len()));
        let (width, set) = if heights <= wide.1.len() { wide } else { high };
        let [_, lines, line] = pass.count();
        let places = (lines - 1) * (line + pass.axes[2].span) + line;
        let used = (lines * line) as f64 / places.next_multiple_of(width) as f64;
        let used = if pass.is_plain() { used * COPIED } else { used };
        let terms = (sizes.channels * pass.taps()) as f64;
        let turned = terms / (terms + TURN);
        let rows = broadest(tiles.rows, sizes.rows);
        let of_rows =
            |(width, _): (usize, _)| turned * sizes.rows as f64 / sizes.rows.next_multiple_of(width) as f64;
        let beside = channels.of_result && sizes.rows >= rows.0;
        let by_channels = beside || of_rows(rows) > used;
        let lies = channels.of_operand && direct::suits(pass, sizes.channels, false);
        let pays = kernels.bytes.is_none()
            && (beside || STEPS * of_rows(rows) > used)
            && !pass.is_plain()
            && direct::suits(pass, sizes.channels, true);
        if kernels.reads_channels() && (lies || pays) {
            let [one, two, four] = tiles.steps;
            return Shape {
                along: Along::Direct,
                width: rows.0,
                kernels: &[],
                steps: match rows.0 == tiles.rows[0].0 {
                    true => [one, &[]],
                    false => [two, four],
                },
                copied: !lies,
                spread: false,
                result_beside: channels.of_result,
            };
        }
        if !by_channels {
            return Shape {
                along: Along::Positions,
                width,
                kernels: set,
                steps: [&[]; 2],
                copied: false,
                spread: false,
                result_beside: false,
            };
        }
        let (width, kernels) = rows;
        Shape {
            along: Along::Rows,
            width,
            kernels,
            steps: [&[]; 2],
            copied: false,
            spread: line < LOW && pass.axes[2].span > 0,
            result_beside: channels.of_result,
        }
    }
}

/// Rows of a tile of packed weights that all launches read alike.
pub(in super::super) fn packed_rows<T: Stored>(kernels: &ConvKernels<T>, rows: usize) -> usize {
    match kernels.by_squares() {
        true => WIDEST,
        false => broadest(kernels.tiles.rows, rows).0,
    }
}

/// The tiles along rows that leave the fewest lanes idle: they follow from the number of rows alone.
fn broadest<S>(
    [narrow, broad]: [(usize, &'static [TapFn<S>]); 2],
    rows: usize,
) -> (usize, &'static [TapFn<S>]) {
    if rows.next_multiple_of(narrow.0) < rows.next_multiple_of(broad.0) {
        narrow
    } else {
        broad
    }
}
