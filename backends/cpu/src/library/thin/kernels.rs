//! Kernels of products of few rows, for vectors of as many lanes on every instruction set: sums run in one order on all of them.

use super::code::{self, Elements};
use crate::isa::Isa;
#[cfg(target_arch = "x86_64")]
use crate::library::gemm::{F32x8, F64x4, Pair};
use crate::library::gemm::{Lanes, Vector};

/// Adds dot products to the lanes of their sums.
pub(super) type ColumnsFn<S> = unsafe extern "C" fn(&Columns<S>);

/// A row of A and as many columns of B as the kernel is made for.
#[repr(C)]
pub(super) struct Columns<S> {
    pub(super) a: *const S,
    pub(super) b: *const u8,
    /// Bytes from column to column.
    pub(super) b_col: isize,
    /// Terms in steps of the lanes of a sum; at least one.
    pub(super) steps: usize,
    /// Those of each sum.
    pub(super) lanes: *mut S,
}

/// Adds rows of B, each times its elements of A, to runs of sums, term by term. It changes what it is given.
pub(super) type RowsFn<S> = unsafe extern "C" fn(&mut Rows<S>);

#[repr(C)]
pub(super) struct Rows<S> {
    pub(super) sums: *mut S,
    /// Bytes from the sums of a row of A to those of the next.
    pub(super) pitch: usize,
    /// Of A, and the bytes from one to the next.
    pub(super) rows: usize,
    pub(super) a: *const S,
    pub(super) a_row: isize,
    pub(super) b: *const u8,
    /// Bytes from row to row.
    pub(super) b_row: isize,
    /// Of [`ROWS`] rows of B; at least one.
    pub(super) blocks: usize,
    /// Columns, a multiple of the lanes of a sum of columns; at least one.
    pub(super) width: usize,
}

/// Most columns whose sums are under way.
pub(super) const MOST_COLUMNS: usize = 8;
/// Rows of B that are added at once.
pub(super) const ROWS: usize = 8;

/// The kernels of one type of elements on one instruction set.
#[derive(Clone, Copy)]
pub(crate) struct Kernels<S> {
    /// Columns that are summed before the next ones, at most [`MOST_COLUMNS`].
    pub(super) group: usize,
    /// Columns that are taken at once.
    pub(super) columns: usize,
    pub(super) whole: ColumnsFn<S>,
    /// For one column.
    pub(super) single: ColumnsFn<S>,
    /// For one row of A, and for any number; the second of each may ask for the next rows of B.
    pub(super) rows: [[RowsFn<S>; 2]; 2],
}

#[inline(always)]
unsafe fn columns<V: Vector, const COLUMNS: usize>(t: &Columns<V::Lane>) {
    // SAFETY: the caller has the terms of one row and of the columns, and lanes for each sum.
    unsafe {
        let mut sums = [[V::zero(); 2]; COLUMNS];
        let lanes = |j: usize, half: usize| t.lanes.add((2 * j + half) * V::LANES);
        for (j, sums) in sums.iter_mut().enumerate() {
            *sums = [V::load(lanes(j, 0)), V::load(lanes(j, 1))];
        }
        for step in 0..t.steps {
            for half in 0..2 {
                let l = (2 * step + half) * V::LANES;
                let factor = V::load(t.a.add(l));
                for (j, sums) in sums.iter_mut().enumerate() {
                    let column: *const V::Lane = t.b.offset(j as isize * t.b_col).cast();
                    sums[half] = sums[half].mul_add(factor, V::load(column.add(l)));
                }
            }
        }
        for (j, sums) in sums.iter().enumerate() {
            sums[0].store(lanes(j, 0));
            sums[1].store(lanes(j, 1));
        }
    }
}

#[inline(always)]
unsafe fn rows<V: Vector>(t: &Rows<V::Lane>) {
    // SAFETY: the caller has the columns, and sums for them.
    unsafe {
        for block in 0..t.blocks {
            for j in (0..t.width).step_by(V::LANES) {
                for row in 0..t.rows {
                    let to = t.sums.byte_add(row * t.pitch).add(j);
                    let a = t.a.byte_offset(row as isize * t.a_row);
                    let mut sum = V::load(to);
                    for i in block * ROWS..(block + 1) * ROWS {
                        let b: *const V::Lane = t.b.offset(i as isize * t.b_row).cast();
                        sum = sum.mul_add(V::splat(a.add(i)), V::load(b.add(j)));
                    }
                    sum.store(to);
                }
            }
        }
    }
}

/// What the compiler makes of them, where there is no machine code.
macro_rules! kernels {
    ($($(#[$attribute:meta])* $name:ident, $s:ty: $v:ty;)*) => {$(
        fn $name() -> Kernels<$s> {
            $(#[$attribute])*
            unsafe extern "C" fn whole(t: &Columns<$s>) {
                // SAFETY: same contract.
                unsafe { columns::<$v, 4>(t) }
            }
            $(#[$attribute])*
            unsafe extern "C" fn single(t: &Columns<$s>) {
                // SAFETY: same contract.
                unsafe { columns::<$v, 1>(t) }
            }
            $(#[$attribute])*
            unsafe extern "C" fn any(t: &mut Rows<$s>) {
                // SAFETY: same contract.
                unsafe { rows::<$v>(t) }
            }
            Kernels {
                group: MOST_COLUMNS,
                columns: 4,
                whole,
                single,
                rows: [[any; 2]; 2],
            }
        }
    )*};
}
kernels! {
    plain_f32, f32: Lanes<f32, 16>;
    plain_f64, f64: Lanes<f64, 8>;
}
#[cfg(target_arch = "x86_64")]
kernels! {
    #[target_feature(enable = "avx2,fma")] avx2_f32, f32: Pair<F32x8>;
    #[target_feature(enable = "avx2,fma")] avx2_f64, f64: Pair<F64x4>;
}

/// Numbers that sums are kept in.
pub(crate) trait Sums: Copy {
    /// How they lie in memory.
    const ELEMENTS: Elements;
    const MINUS_ZERO: Self;
    /// Adds the lanes of each of `count` sums, by halves.
    ///
    /// # Safety
    /// There are as many, and room for their totals.
    unsafe fn totals(lanes: *const Self, to: *mut Self, count: usize);
    /// What the compiler makes of the kernels.
    fn compiled(isa: Isa) -> Kernels<Self>;

    /// The kernels for matrices of such numbers.
    fn kernels(isa: Isa, codegen: bool) -> Kernels<Self> {
        let written = codegen.then(|| code::kernels(isa, Self::ELEMENTS)).flatten();
        written.unwrap_or_else(|| Self::compiled(isa))
    }
}

macro_rules! sums {
    ($($s:ty: $elements:ident, [$($half:literal)*], $avx2:ident, $plain:ident;)*) => {$(
        impl Sums for $s {
            const ELEMENTS: Elements = Elements::$elements;
            const MINUS_ZERO: $s = -0.0;
            unsafe fn totals(lanes: *const $s, to: *mut $s, count: usize) {
                for i in 0..count {
                    // SAFETY: the caller's promise.
                    let lanes = unsafe { *lanes.cast::<[$s; 128 / size_of::<$s>()]>().add(i) };
                    $(let lanes: [$s; $half] = std::array::from_fn(|i| lanes[i] + lanes[i + $half]);)*
                    // SAFETY: as above.
                    unsafe { to.add(i).write(lanes[0]) }
                }
            }
            fn compiled(isa: Isa) -> Kernels<$s> {
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 | Isa::Avx512 => $avx2(),
                    _ => $plain(),
                }
            }
        }
    )*};
}
sums! {
    f32: F32, [16 8 4 2 1], avx2_f32, plain_f32;
    f64: F64, [8 4 2 1], avx2_f64, plain_f64;
}
