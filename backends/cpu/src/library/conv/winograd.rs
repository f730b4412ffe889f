//! Transforms of Winograd's convolutions of three by three taps (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016).
//!
//! A tile of the result is `A' [(G w G') * (B' x B)] A`: its elements and taps are transformed, multiplied element by element, summed over
//! channels, and the sums transformed back. Registers run along channels or rows, so every lane does the same.

use crate::isa::Isa;
use crate::library::gemm::{Lanes, Vector};

/// Taps along an axis.
pub(super) const TAPS: usize = 3;

/// The transforms of tiles of one size.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// Positions of a tile of the result along an axis.
    pub(super) positions: usize,
    /// Transforms what tiles of a line take from.
    pub(super) elements: unsafe fn(&Elements),
    /// Transforms the taps of a panel of rows, channel by channel.
    pub(super) weights: unsafe fn(&Taps),
    /// Transforms the sums of tiles of a line to the result.
    pub(super) sums: unsafe fn(&Sums),
}

impl Form {
    /// Elements of a tile along an axis, and of its transform.
    pub(super) const fn side(&self) -> usize {
        self.positions + TAPS - 1
    }

    /// Elements of a tile.
    pub(super) const fn area(&self) -> usize {
        self.side() * self.side()
    }
}

/// `to[e][t][c]` is element e of the transform of tile t in channel c.
pub(super) struct Elements {
    /// The first tile's first element; channels are neighbours.
    pub(super) from: *const f32,
    /// From an element to the next one along a line, and from line to line.
    pub(super) step: usize,
    pub(super) line: usize,
    /// Tiles.
    pub(super) count: usize,
    pub(super) to: *mut f32,
    /// From a tile to the next; as many channels are transformed, whole registers at every instruction set.
    pub(super) channels: usize,
    /// From one element of the transform to the next.
    pub(super) apart: usize,
}

/// `to[e][c][row]` is element e of the transform of the taps of a row and channel.
pub(super) struct Taps {
    /// `[tap][channel][row]`
    pub(super) from: *const f32,
    pub(super) channels: usize,
    /// Rows, whole registers.
    pub(super) width: usize,
    /// Whether the taps along each axis come in the opposite order.
    pub(super) reversed: [bool; 2],
    pub(super) to: *mut f32,
    /// From one element of the transform to the next.
    pub(super) apart: usize,
}

/// `to[line][position][row]` is the result of tiles beside each other.
pub(super) struct Sums {
    /// `[e][tile][row]`
    pub(super) from: *const f32,
    /// From one element of the transform to the next.
    pub(super) apart: usize,
    /// Tiles.
    pub(super) count: usize,
    /// Rows, whole registers.
    pub(super) width: usize,
    pub(super) to: *mut f32,
    /// From one line of the result to the next.
    pub(super) line: usize,
}

/// The transforms along one axis, from `TAPS` taps and `A` elements to `M` positions.
trait Axis<const M: usize, const A: usize> {
    unsafe fn elements<V: Vector<Lane = f32>>(d: [V; A]) -> [V; A];
    unsafe fn weights<V: Vector<Lane = f32>>(g: [V; TAPS]) -> [V; A];
    unsafe fn sums<V: Vector<Lane = f32>>(s: [V; A]) -> [V; M];
}

/// `a * b + c` with a number for `b`.
#[inline(always)]
unsafe fn fma<V: Vector<Lane = f32>>(a: V, b: f32, c: V) -> V {
    // SAFETY: the caller enables the instruction set.
    unsafe { c.mul_add(a, V::splat(&raw const b)) }
}

#[inline(always)]
unsafe fn plus<V: Vector<Lane = f32>>(a: V, b: V) -> V {
    // SAFETY: the caller enables the instruction set.
    unsafe { a.add(b) }
}

#[inline(always)]
unsafe fn minus<V: Vector<Lane = f32>>(a: V, b: V) -> V {
    // SAFETY: the caller enables the instruction set.
    unsafe { fma(b, -1.0, a) }
}

#[inline(always)]
unsafe fn times<V: Vector<Lane = f32>>(a: V, b: f32) -> V {
    // SAFETY: the caller enables the instruction set.
    unsafe { fma(a, b, V::zero()) }
}

/// Points 0, 1, -1 and infinity.
struct Two;

impl Axis<2, 4> for Two {
    #[inline(always)]
    unsafe fn elements<V: Vector<Lane = f32>>([a, b, c, d]: [V; 4]) -> [V; 4] {
        // SAFETY: the caller enables the instruction set.
        unsafe { [minus(a, c), plus(b, c), minus(c, b), minus(b, d)] }
    }

    #[inline(always)]
    unsafe fn weights<V: Vector<Lane = f32>>([a, b, c]: [V; TAPS]) -> [V; 4] {
        // SAFETY: the caller enables the instruction set.
        unsafe {
            let (outer, inner) = (times(plus(a, c), 0.5), times(b, 0.5));
            [a, plus(outer, inner), minus(outer, inner), c]
        }
    }

    #[inline(always)]
    unsafe fn sums<V: Vector<Lane = f32>>([a, b, c, d]: [V; 4]) -> [V; 2] {
        // SAFETY: the caller enables the instruction set.
        unsafe { [plus(a, plus(b, c)), minus(minus(b, c), d)] }
    }
}

/// Points 0, 1, -1, 2, -2 and infinity.
struct Four;

impl Axis<4, 6> for Four {
    #[inline(always)]
    unsafe fn elements<V: Vector<Lane = f32>>([a, b, c, d, e, f]: [V; 6]) -> [V; 6] {
        // SAFETY: the caller enables the instruction set.
        unsafe {
            let (even, odd) = (fma(c, -4.0, e), fma(b, -4.0, d));
            let (apart, across) = (minus(e, c), minus(d, b));
            [
                fma(a, 4.0, fma(c, -5.0, e)),
                plus(even, odd),
                minus(even, odd),
                fma(across, 2.0, apart),
                fma(across, -2.0, apart),
                fma(b, 4.0, fma(d, -5.0, f)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn weights<V: Vector<Lane = f32>>([a, b, c]: [V; TAPS]) -> [V; 6] {
        // SAFETY: the caller enables the instruction set.
        unsafe {
            let outer = times(plus(a, c), -1.0 / 6.0);
            let far = fma(a, 1.0 / 24.0, times(c, 1.0 / 6.0));
            [
                times(a, 0.25),
                fma(b, -1.0 / 6.0, outer),
                fma(b, 1.0 / 6.0, outer),
                fma(b, 1.0 / 12.0, far),
                fma(b, -1.0 / 12.0, far),
                c,
            ]
        }
    }

    #[inline(always)]
    unsafe fn sums<V: Vector<Lane = f32>>([a, b, c, d, e, f]: [V; 6]) -> [V; 4] {
        // SAFETY: the caller enables the instruction set.
        unsafe {
            let (near, across) = (plus(b, c), minus(b, c));
            let (far, beyond) = (plus(d, e), minus(d, e));
            [
                plus(a, plus(near, far)),
                fma(beyond, 2.0, across),
                fma(far, 4.0, near),
                plus(fma(beyond, 8.0, across), f),
            ]
        }
    }
}

#[inline(always)]
unsafe fn elements<V: Vector<Lane = f32>, F: Axis<M, A>, const M: usize, const A: usize>(t: &Elements) {
    // SAFETY: the caller vouches for the elements of each tile, for whole registers of channels, for the room, and the instruction set.
    unsafe {
        for tile in 0..t.count {
            let from = t.from.add(tile * M * t.step);
            let to = t.to.add(tile * t.channels);
            for c in (0..t.channels).step_by(V::LANES) {
                let mut across = [[V::zero(); A]; A];
                for j in 0..A {
                    let mut column = [V::zero(); A];
                    for (i, element) in column.iter_mut().enumerate() {
                        *element = V::load(from.add(i * t.line + j * t.step + c));
                    }
                    for (row, element) in across.iter_mut().zip(F::elements(column)) {
                        row[j] = element;
                    }
                }
                for (i, row) in across.into_iter().enumerate() {
                    for (j, element) in F::elements(row).into_iter().enumerate() {
                        element.store(to.add((i * A + j) * t.apart + c));
                    }
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn weights<V: Vector<Lane = f32>, F: Axis<M, A>, const M: usize, const A: usize>(t: &Taps) {
    let order = |reversed: bool, tap: usize| if reversed { TAPS - 1 - tap } else { tap };
    // SAFETY: the caller vouches for the taps of whole registers of rows, for the room, and the instruction set.
    unsafe {
        for at in (0..t.channels * t.width).step_by(V::LANES) {
            let mut across = [[V::zero(); TAPS]; A];
            for j in 0..TAPS {
                let mut column = [V::zero(); TAPS];
                for (i, tap) in column.iter_mut().enumerate() {
                    let index = order(t.reversed[0], i) * TAPS + order(t.reversed[1], j);
                    *tap = V::load(t.from.add(index * t.channels * t.width + at));
                }
                for (row, element) in across.iter_mut().zip(F::weights(column)) {
                    row[j] = element;
                }
            }
            for (i, row) in across.into_iter().enumerate() {
                for (j, element) in F::weights(row).into_iter().enumerate() {
                    element.store(t.to.add((i * A + j) * t.apart + at));
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn sums<V: Vector<Lane = f32>, F: Axis<M, A>, const M: usize, const A: usize>(t: &Sums) {
    // SAFETY: the caller vouches for the sums of whole registers of rows, for the room, and the instruction set.
    unsafe {
        for tile in 0..t.count {
            for at in (0..t.width).step_by(V::LANES) {
                let from = t.from.add(tile * t.width + at);
                let mut across = [[V::zero(); A]; M];
                for j in 0..A {
                    let mut column = [V::zero(); A];
                    for (i, sum) in column.iter_mut().enumerate() {
                        *sum = V::load(from.add((i * A + j) * t.apart));
                    }
                    for (row, sum) in across.iter_mut().zip(F::sums(column)) {
                        row[j] = sum;
                    }
                }
                for (i, row) in across.into_iter().enumerate() {
                    let to = t.to.add(i * t.line + tile * M * t.width + at);
                    for (j, position) in F::sums(row).into_iter().enumerate() {
                        position.store(to.add(j * t.width));
                    }
                }
            }
        }
    }
}

macro_rules! forms {
    ($name:ident, $vector:ty $(, #[$feature:meta])?) => {
        static $name: [Form; 2] = {
            $(#[$feature])?
            unsafe fn of_elements<F: Axis<M, A>, const M: usize, const A: usize>(t: &Elements) {
                // SAFETY: same contract.
                unsafe { elements::<$vector, F, M, A>(t) }
            }
            $(#[$feature])?
            unsafe fn of_weights<F: Axis<M, A>, const M: usize, const A: usize>(t: &Taps) {
                // SAFETY: same contract.
                unsafe { weights::<$vector, F, M, A>(t) }
            }
            $(#[$feature])?
            unsafe fn of_sums<F: Axis<M, A>, const M: usize, const A: usize>(t: &Sums) {
                // SAFETY: same contract.
                unsafe { sums::<$vector, F, M, A>(t) }
            }
            const fn form<F: Axis<M, A>, const M: usize, const A: usize>() -> Form {
                const { assert!(M + TAPS - 1 == A) };
                Form {
                    positions: M,
                    elements: of_elements::<F, M, A>,
                    weights: of_weights::<F, M, A>,
                    sums: of_sums::<F, M, A>,
                }
            }
            [form::<Four, 4, 6>(), form::<Two, 2, 4>()]
        };
    };
}

forms!(PLAIN, Lanes<f32, 4>);
#[cfg(target_arch = "x86_64")]
forms!(AVX2, crate::library::gemm::F32x8, #[target_feature(enable = "avx2,fma")]);
#[cfg(target_arch = "x86_64")]
forms!(
    AVX512,
    crate::library::gemm::F32x16,
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
);

/// The forms of an instruction set that the processor has, those of larger tiles first.
pub(super) fn forms(isa: Isa) -> &'static [Form; 2] {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => &AVX512,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => &AVX2,
        _ => &PLAIN,
    }
}
