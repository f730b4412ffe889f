//! What the matrix product must know of an element type: how it accumulates, and which kernels this processor runs.

use super::bytes::{ExcessFn, Signs};
use super::code::{self, Sum};
use super::halves;
use super::pack::{PackFn, pack_plain};
use super::tile::{self, TileSet};
use super::{Operands, Whole};
use crate::isa::Isa;
use crate::math::f16_to_f32;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use std::ops::Range;
use thalweg_hal::f8::{F8E4M3, F8E5M2};

/// The kernels of one element type.
#[derive(Clone, Copy)]
pub(crate) struct Kernels<T: Element> {
    pub(crate) tiles: TileSet<T::Acc>,
    /// Packing of A and of B.
    pub(crate) pack: [PackFn<T>; 2],
    /// Accumulators of an element of A that is packed; B's have one.
    pub(crate) a_words: usize,
    /// Steps of k in an element that is packed.
    pub(crate) step: usize,
    /// What sums begin with, where packing has changed A.
    pub(crate) excess: Option<ExcessFn>,
    /// Signs of bytes, if the machine sums the products of four at once.
    pub(crate) fours: Option<Signs>,
    /// Packed steps of k of a panel of B are a multiple of this; those behind the last one are zeros.
    pub(crate) multiple: usize,
    /// Rounds rows of contiguous sums.
    pub(crate) narrow: NarrowFn<T>,
    /// What computes a block, in place of tiles.
    pub(crate) block: Option<BlockFn<T>>,
}

/// Computes a block of C of at least one term, as [`super::block`] does.
pub(crate) type BlockFn<T> =
    unsafe fn(&Kernels<T>, &Operands<T>, Whole<<T as Stored>::Acc>, usize, Range<usize>, Range<usize>);

/// Rounds sums: to the first element, with the step to the next row, from the first sum, with the sums to the next row, rows and columns.
pub(crate) type NarrowFn<T> =
    unsafe fn((*mut <T as Element>::Out, isize), (*const <T as Stored>::Acc, usize), [usize; 2]);

/// [`Element::narrow_row`] of each row.
#[inline(always)]
unsafe fn narrow_rows<T: Element>(
    (to, to_row): (*mut T::Out, isize),
    (from, pitch): (*const T::Acc, usize),
    [rows, columns]: [usize; 2],
) {
    for row in 0..rows {
        // SAFETY: the caller's memory has these rows.
        unsafe {
            let to = to.offset(row as isize * to_row);
            let from = std::slice::from_raw_parts(from.add(row * pitch), columns);
            T::narrow_row(std::slice::from_raw_parts_mut(to, columns), from);
        }
    }
}

/// That of the instruction set.
pub(crate) fn narrow<T: Element>(isa: Isa) -> NarrowFn<T> {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2<T: Element>(to: (*mut T::Out, isize), from: (*const T::Acc, usize), extents: [usize; 2]) {
        // SAFETY: same contract.
        unsafe { narrow_rows::<T>(to, from, extents) }
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn avx512<T: Element>(
        to: (*mut T::Out, isize),
        from: (*const T::Acc, usize),
        extents: [usize; 2],
    ) {
        // SAFETY: same contract.
        unsafe { narrow_rows::<T>(to, from, extents) }
    }
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => avx512::<T>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => avx2::<T>,
        _ => narrow_rows::<T>,
    }
}

/// A number in memory.
pub(crate) trait Stored: Copy + Send + Sync + 'static {
    /// What sums are kept in. Integers keep them modulo 2^32 or 2^64, whose low bits are the wrapping sum.
    type Acc: Copy + Send + Sync + 'static;
    /// No summand.
    const ZERO: Self::Acc;
    /// Memory holds `Acc` itself, so kernels may read it without conversion.
    const DIRECT: bool;
}

/// Numbers by their bits alone, for code that leaves arithmetic to kernels: those of 16 bits have sums of 32.
macro_rules! words {
    ($($t:ty: $acc:ty;)*) => {$(
        impl Stored for $t {
            type Acc = $acc;
            const ZERO: $acc = 0;
            const DIRECT: bool = size_of::<$t>() == size_of::<$acc>();
        }
    )*};
}
words! {
    u16: u32;
    u32: u32;
    u64: u64;
}

/// An element of a matrix.
pub(crate) trait Element: Stored {
    /// An element of the result.
    type Out: Copy + Send + Sync + 'static;
    /// An element of the result is a sum as it is, so kernels may write C.
    const SUMS: bool;
    /// Exact conversion.
    fn widen(self) -> Self::Acc;
    /// Converts a row of contiguous elements, in a function that enables AVX2 and F16C.
    ///
    /// # Safety
    /// There are `count` of them, and room for as many sums.
    #[inline(always)]
    unsafe fn widen_row(to: *mut Self::Acc, from: *const Self, count: usize) {
        for i in 0..count {
            // SAFETY: the caller's promise.
            unsafe { to.add(i).write((*from.add(i)).widen()) }
        }
    }
    /// Rounding (or wrapping) conversion.
    fn narrow(acc: Self::Acc) -> Self::Out;
    /// Sum, wrapping for integers.
    fn add(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// Rounds a row of contiguous sums.
    #[inline(always)]
    fn narrow_row(dst: &mut [Self::Out], src: &[Self::Acc]) {
        for (d, &s) in dst.iter_mut().zip(src) {
            *d = Self::narrow(s);
        }
    }
}

/// An element whose kernels follow from its type, for both operands alike.
pub(crate) trait Uniform: Element {
    /// The kernels for an instruction set that this processor has, with each element widened while it is packed: machine code of our own
    /// where `codegen` and the system allow it.
    fn kernels(isa: Isa, codegen: bool) -> Kernels<Self>;

    /// The packing of [`Uniform::kernels`].
    fn packing(isa: Isa, codegen: bool) -> PackFn<Self>;

    /// Those of the op `matmul`, which may sum several products at once.
    fn products(isa: Isa, codegen: bool) -> Kernels<Self> {
        Self::kernels(isa, codegen)
    }
}

/// The choice by instruction set: machine code of our own, or else what the compiler makes of AVX-512 tiles and packing, AVX2 tiles, tiles
/// for any processor.
macro_rules! kernels {
    ($sum:ident, $avx512:ident, $pack512:ident, $avx2:ident, $plain:ident) => {
        fn kernels(isa: Isa, codegen: bool) -> Kernels<Self> {
            let tiles = match isa {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 => tile::$avx512,
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => tile::$avx2,
                _ => tile::$plain,
            };
            Kernels {
                tiles: codegen
                    .then(|| code::tiles(Sum::$sum, isa))
                    .flatten()
                    .unwrap_or(tiles),
                pack: [Self::packing(isa, codegen); 2],
                a_words: 1,
                step: 1,
                multiple: 1,
                fours: None,
                excess: None,
                narrow: narrow::<Self>(isa),
                block: None,
            }
        }

        fn packing(isa: Isa, codegen: bool) -> PackFn<Self> {
            let pack: PackFn<Self> = match isa {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 => super::pack::$pack512::<Self>,
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => super::pack::pack_avx2::<Self>,
                _ => pack_plain::<Self>,
            };
            codegen
                .then(|| code::packing(isa))
                .flatten()
                .unwrap_or(pack)
        }
    };
}

macro_rules! float {
    ($t:ty, $sum:ident, $avx512:ident, $avx2:ident, $plain:ident) => {
        impl Stored for $t {
            type Acc = $t;
            const ZERO: $t = 0.0;
            const DIRECT: bool = true;
        }
        impl Element for $t {
            type Out = $t;
            const SUMS: bool = true;
            #[inline(always)]
            fn widen(self) -> $t {
                self
            }
            #[inline(always)]
            fn narrow(acc: $t) -> $t {
                acc
            }
            #[inline(always)]
            fn add(a: $t, b: $t) -> $t {
                a + b
            }
        }
        impl Uniform for $t {
            kernels!($sum, $avx512, pack_avx2, $avx2, $plain);
        }
    };
}
float!(f32, F32, F32_AVX512, F32_AVX2, F32_PLAIN);
float!(f64, F64, F64_AVX512, F64_AVX2, F64_PLAIN);

/// [`Element::widen_row`] of f16 by the instruction for it.
macro_rules! f16_row {
    () => {
        #[cfg(target_arch = "x86_64")]
        #[inline(always)]
        unsafe fn widen_row(to: *mut f32, from: *const Self, count: usize) {
            // SAFETY: the caller's promise.
            unsafe { super::pack::widen_f16(to, from.cast(), count) }
        }
    };
}

macro_rules! half_float {
    ($t:ty $(= $row:ident)?, |$x:ident| $widen:expr, $narrow_row:expr $(, $products:item)?) => {
        impl Stored for $t {
            type Acc = f32;
            const ZERO: f32 = 0.0;
            const DIRECT: bool = false;
        }
        impl Element for $t {
            type Out = $t;
            const SUMS: bool = false;
            #[inline(always)]
            fn widen(self) -> f32 {
                let $x = self;
                $widen
            }
            #[inline(always)]
            fn narrow(acc: f32) -> $t {
                <$t>::from_f32(acc)
            }
            #[inline(always)]
            fn add(a: f32, b: f32) -> f32 {
                a + b
            }
            #[inline(always)]
            fn narrow_row(dst: &mut [Self], src: &[f32]) {
                $narrow_row(dst, src);
            }
            $($row!();)?
        }
        impl Uniform for $t {
            kernels!(F32, F32_AVX512, pack_avx512, F32_AVX2, F32_PLAIN);
            $($products)?
        }
    };
}
// The conversion of the crate asks the processor for its instructions each time.
half_float!(
    f16 = f16_row,
    |x| f16_to_f32(x.to_bits()),
    |dst: &mut [f16], src| dst.convert_from_f32_slice(src)
);
half_float!(
    bf16,
    |x| x.to_f32(),
    narrow_bf16,
    fn products(isa: Isa, codegen: bool) -> Kernels<Self> {
        halves::kernels(isa, isa.sums_halves_fast(), codegen)
    }
);

/// Rounds as `bf16::from_f32` does, without branches.
#[inline(always)]
fn narrow_bf16(dst: &mut [bf16], src: &[f32]) {
    for (d, s) in dst.iter_mut().zip(src) {
        let bits = s.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        let quiet = bits >> 16 | 0x40;
        *d = bf16::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 {
            quiet
        } else {
            rounded
        } as u16);
    }
}

/// An element of 16 bits whose products are given as they are summed.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Wide<T>(pub(crate) T);

macro_rules! summed_float {
    ($($t:ty $(= $row:ident)?, |$x:ident| $widen:expr $(, $products:item)?;)*) => {$(
        impl Stored for $t {
            type Acc = f32;
            const ZERO: f32 = 0.0;
            const DIRECT: bool = false;
        }
        impl Element for $t {
            type Out = f32;
            const SUMS: bool = true;
            #[inline(always)]
            fn widen(self) -> f32 {
                let $x = self;
                $widen
            }
            #[inline(always)]
            fn narrow(acc: f32) -> f32 {
                acc
            }
            #[inline(always)]
            fn add(a: f32, b: f32) -> f32 {
                a + b
            }
            $($row!();)?
        }
        impl Uniform for $t {
            kernels!(F32, F32_AVX512, pack_avx512, F32_AVX2, F32_PLAIN);
            $($products)?
        }
    )*};
}
summed_float! {
    F8E4M3, |x| x.to_f32();
    F8E5M2, |x| x.to_f32();
    Wide<f16> = f16_row, |x| f16_to_f32(x.0.to_bits());
    Wide<bf16>, |x| x.0.to_f32(), fn products(isa: Isa, codegen: bool) -> Kernels<Self> { halves::kernels(isa, isa.sums_halves_fast(), codegen) };
}

macro_rules! integer {
    ($acc:ty, $sum:ident, $avx512:ident, $avx2:ident, $plain:ident, $($t:ty)*) => {$(
        impl Stored for $t {
            type Acc = $acc;
            const ZERO: $acc = 0;
            const DIRECT: bool = size_of::<$t>() == size_of::<$acc>();
        }
        impl Element for $t {
            type Out = $t;
            const SUMS: bool = Self::DIRECT;
            #[inline(always)]
            fn widen(self) -> $acc {
                self as $acc
            }
            #[inline(always)]
            fn narrow(acc: $acc) -> $t {
                acc as $t
            }
            #[inline(always)]
            fn add(a: $acc, b: $acc) -> $acc {
                a.wrapping_add(b)
            }
        }
        impl Uniform for $t {
            kernels!($sum, $avx512, pack_avx2, $avx2, $plain);
        }
    )*};
}
integer!(i32, I32, I32_AVX512, I32_AVX2, I32_PLAIN, i32);
integer!(i64, I64, I64_AVX512, I64_PLAIN, I64_PLAIN, i64);

impl<T: Element> Kernels<T> {
    /// Columns of a tile of C.
    pub(crate) fn columns(&self) -> usize {
        self.tiles.nr
    }

    /// Packed steps of a panel of B for `k` terms.
    pub(crate) fn lanes(&self, k: usize) -> usize {
        k.div_ceil(self.step).next_multiple_of(self.multiple)
    }

    /// Multiply-adds in the time of one of vectors: AMX does 1,024 of bytes a cycle, AVX-512 128.
    pub(crate) fn speed(&self) -> usize {
        if self.block.is_some() { 8 } else { 1 }
    }

    /// Most columns of a block of C. The packing of A is spread over them.
    pub(crate) fn most_columns(&self) -> usize {
        if self.block.is_some() { 512 } else { 1024 }
    }

    /// Most rows of a block of C for products of `k` terms: its rows of A stay in L2. Each block packs B, unless that was done before.
    pub(crate) fn most_rows(&self, k: usize) -> usize {
        if self.block.is_some() {
            return 1024;
        }
        let longest = super::longest_block(k.div_ceil(self.step)).max(1);
        (super::ROWS * super::KC / (longest * self.a_words)).min(super::MOST_ROWS)
    }
}
