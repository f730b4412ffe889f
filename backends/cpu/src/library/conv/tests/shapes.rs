//! Sizes and windows for all directions.

use super::window;
use crate::library::conv::geometry::{AXES, Window};
use crate::library::conv::operands::Sizes;

/// Sizes and windows: one that many threads share, one with strides, one with many groups, and one of three axes.
pub(super) fn shapes() -> Vec<(Sizes, [Window; AXES])> {
    let sizes = |samples, groups, rows, channels| Sizes {
        samples,
        groups,
        rows,
        channels,
    };
    let flat = window(1, 1, 1, 1, 0);
    let apart = |window: Window, dilation: i64| Window { dilation, ..window };
    vec![
        (
            sizes(2, 1, 29, 19),
            [flat, window(30, 30, 3, 1, 1), window(33, 33, 3, 1, 1)],
        ),
        (
            sizes(1, 1, 16, 3),
            [flat, window(61, 31, 7, 2, 3), window(61, 31, 7, 2, 3)],
        ),
        (
            sizes(3, 50, 1, 1),
            [flat, window(17, 17, 3, 1, 1), window(17, 17, 3, 1, 1)],
        ),
        (
            sizes(2, 2, 7, 5),
            [
                window(9, 5, 3, 2, 1),
                window(8, 8, 3, 1, 1),
                window(7, 6, 2, 1, 0),
            ],
        ),
        // No channel at all: every sum is empty.
        (
            sizes(2, 1, 5, 0),
            [flat, window(9, 9, 3, 1, 1), window(9, 9, 3, 1, 1)],
        ),
        // One channel a group: lines below a register, strides, other taps, two rows, blocks of a plane, three axes.
        (
            sizes(2, 9, 1, 1),
            [flat, window(7, 7, 3, 1, 1), window(7, 7, 3, 1, 1)],
        ),
        (
            sizes(1, 5, 2, 1),
            [flat, window(29, 15, 3, 2, 1), window(37, 19, 3, 2, 1)],
        ),
        (
            sizes(1, 6, 1, 1),
            [flat, window(14, 14, 5, 1, 2), window(14, 14, 5, 1, 2)],
        ),
        (
            sizes(1, 3, 2, 1),
            [flat, window(120, 120, 3, 1, 1), window(113, 113, 3, 1, 1)],
        ),
        (
            sizes(1, 3, 1, 1),
            [
                window(4, 4, 3, 1, 1),
                window(9, 9, 3, 1, 1),
                window(10, 10, 3, 1, 1),
            ],
        ),
        // Registers along rows: narrow lines, one element a position, strides, more tiles than sums are kept for, three axes.
        (
            sizes(1, 1, 70, 40),
            [flat, window(7, 7, 3, 1, 1), window(7, 7, 3, 1, 1)],
        ),
        (
            sizes(2, 1, 33, 19),
            [flat, window(20, 20, 1, 1, 0), window(21, 21, 1, 1, 0)],
        ),
        (
            sizes(1, 2, 32, 11),
            [flat, window(14, 7, 3, 2, 1), window(15, 8, 3, 2, 1)],
        ),
        (
            sizes(1, 1, 64, 50),
            [flat, window(27, 27, 3, 1, 1), window(28, 28, 3, 1, 1)],
        ),
        // More channels than are added together, with whole and with other panels of rows, strides, and more taps than have bits.
        (
            sizes(2, 1, 96, 70),
            [flat, window(9, 9, 3, 1, 1), window(10, 10, 3, 1, 1)],
        ),
        (
            sizes(1, 1, 64, 130),
            [flat, window(11, 6, 1, 2, 0), window(13, 7, 2, 2, 1)],
        ),
        (
            sizes(1, 1, 64, 24),
            [flat, window(16, 6, 1, 3, 0), window(13, 5, 1, 3, 0)],
        ),
        (
            sizes(1, 1, 20, 8),
            [flat, window(12, 12, 9, 1, 4), window(11, 11, 9, 1, 4)],
        ),
        (
            sizes(1, 1, 48, 9),
            [
                window(4, 4, 3, 1, 1),
                window(6, 6, 3, 1, 1),
                window(9, 9, 3, 1, 1),
            ],
        ),
        // Taps that lie apart, along the last axis and along two, with strides; as far as most of the operand, which is more than stays near.
        (
            sizes(3, 1, 20, 12),
            [flat, flat, apart(window(40, 40, 3, 1, 4), 4)],
        ),
        (
            sizes(2, 2, 9, 11),
            [
                flat,
                apart(window(14, 7, 3, 2, 2), 2),
                apart(window(17, 8, 3, 2, 3), 4),
            ],
        ),
        (
            sizes(1, 1, 16, 130),
            [
                flat,
                apart(window(40, 40, 3, 1, 21), 21),
                apart(window(40, 40, 3, 1, 21), 21),
            ],
        ),
        // Lines below a register and other lines behind them.
        (
            sizes(2, 33, 1, 1),
            [flat, window(14, 7, 3, 2, 1), window(14, 7, 3, 2, 1)],
        ),
    ]
}
