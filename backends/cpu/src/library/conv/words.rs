//! Elements as words: code that leaves arithmetic to kernels knows their bits alone, so that it is compiled for three sizes of them and
//! not for each dtype.

use super::bytes::Channels;
use super::code;
use super::operands::Sizes;
use super::pairs::Pairs;
use super::planes::{self, PlaneFn};
use super::steps::TOGETHER;
#[cfg(target_arch = "x86_64")]
use super::tile::x86;
use super::tile::{F32_PLAIN, F64_PLAIN, I32_PLAIN, I64_PLAIN, Tiles};
use super::winograd::{Form, forms};
use crate::isa::Isa;
use crate::library::gemm::code::Sum;
use crate::library::gemm::{Element, PackFn, Stored, Uniform};
use crate::library::matmul::MatDType;
use half::{bf16, f16};
use std::mem::transmute;

/// The kernels of elements.
#[derive(Clone, Copy)]
pub(super) struct ConvKernels<W: Stored> {
    pub(super) tiles: Tiles<W::Acc>,
    pub(super) plane: PlaneFn<W>,
    pub(super) pack: PackFn<W>,
    pub(super) widen: WidenFn<W>,
    pub(super) narrow: NarrowFn<W>,
    pub(super) plus: PlusFn<W>,
    /// Of integers of 8 bits, several of which are a word.
    pub(super) bytes: Option<Channels>,
    /// Of bf16, whose channels come in pairs.
    pub(super) pairs: Option<Pairs>,
    /// Of f32, where the fast form is asked for.
    pub(super) winograd: Option<&'static [Form; 2]>,
}

impl<W: Stored> ConvKernels<W> {
    /// What of a launch the kernels see: the channels, or lanes of them.
    pub(super) fn sizes(&self, sizes: &Sizes) -> Sizes {
        Sizes {
            channels: sizes.channels.div_ceil(self.each()),
            ..*sizes
        }
    }

    /// Channels of a lane.
    pub(super) fn each(&self) -> usize {
        match (self.bytes, self.pairs) {
            (Some(bytes), _) => bytes.each,
            (None, Some(Pairs::Joined)) => 2,
            (None, Some(Pairs::Apart) | None) => 1,
        }
    }

    /// Whether channels whose products with a tap are added one after another come the other way round.
    pub(super) fn reverses(&self) -> bool {
        self.pairs == Some(Pairs::Apart)
    }

    /// Channels whose products with a tap are added one after another. Elements that are sums already may lie with their channels as
    /// neighbours, and then long runs of them pay.
    pub(super) fn together(&self) -> usize {
        match (self.reads_channels(), self.reverses()) {
            (true, _) => TOGETHER,
            (false, true) => 2,
            (false, false) => 1,
        }
    }

    /// Whether elements or lanes of them are what sums are made of, so that they may be read where they lie.
    pub(super) fn reads_channels(&self) -> bool {
        W::DIRECT && self.bytes.is_none_or(|bytes| bytes.is_beside)
    }

    /// Bytes of an element of the gathered operand.
    pub(super) fn element(&self) -> usize {
        self.bytes.map_or(size_of::<W>(), |_| 1)
    }

    /// Whether AMX computes the tiles.
    pub(super) fn by_squares(&self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self.bytes.is_some_and(|bytes| bytes.squares.is_some());
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Accumulators behind packed weights of `height` rows that sums begin with.
    pub(super) fn starts(&self, height: usize) -> usize {
        match self.bytes {
            Some(bytes) if bytes.starts() => height.next_multiple_of(16),
            _ => 0,
        }
    }
}

/// Converts an element.
type WidenFn<W> = unsafe fn(*mut <W as Stored>::Acc, *const W);
/// Rounds sums to elements so many elements apart.
type NarrowFn<W> = unsafe fn(*mut W, isize, *const <W as Stored>::Acc, usize);
/// Adds sums to others.
type PlusFn<W> = unsafe fn(*mut <W as Stored>::Acc, *const <W as Stored>::Acc, usize);

unsafe fn widen<T: Element>(to: *mut T::Acc, from: *const T) {
    // SAFETY: the caller has both.
    unsafe { to.write((*from).widen()) };
}

unsafe fn narrow<T: Element<Out = T>>(to: *mut T, step: isize, sums: *const T::Acc, count: usize) {
    // SAFETY: the caller vouches for `count` sums and elements of the result.
    unsafe {
        if step == 1 {
            let line = std::slice::from_raw_parts_mut(to, count);
            T::narrow_row(line, std::slice::from_raw_parts(sums, count));
            return;
        }
        for k in 0..count {
            *to.offset(k as isize * step) = T::narrow(*sums.add(k));
        }
    }
}

unsafe fn plus<T: Element>(to: *mut T::Acc, from: *const T::Acc, count: usize) {
    for i in 0..count {
        // SAFETY: the caller vouches for `count` sums of both.
        unsafe { *to.add(i) = T::add(*to.add(i), *from.add(i)) };
    }
}

/// Words that are elements of some dtypes.
pub(super) trait Word: Stored {
    /// The kernels of a dtype for an instruction set that this processor has, if its elements are such words. Tiles and packing are machine
    /// code of our own where `codegen`. Where `fast`, they have the transforms of the fast form too.
    fn kernels(dtype: MatDType, isa: Isa, codegen: bool, fast: bool) -> Option<ConvKernels<Self>>;
}

/// Each with the sums, the tiles, the type whose copies are those of its words, and the one that computes.
macro_rules! words {
    ($($word:ident { $($dtype:ident: $sum:ident, $avx512:ident, $avx2:ident, $plain:ident, $copied:ty, $t:ty;)* })*) => {$(
        impl Word for $word {
            fn kernels(dtype: MatDType, isa: Isa, codegen: bool, fast: bool) -> Option<ConvKernels<Self>> {
                $(if dtype == MatDType::$dtype {
                    let (tiles, plane): (_, PlaneFn<$copied>) = match isa {
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx512 => (x86::$avx512, planes::x86::avx512::<$copied>),
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx2 => (words!(@avx2 $avx2), planes::x86::avx2::<$copied>),
                        _ => ($plain, planes::any::<$copied>),
                    };
                    let pack = <$copied>::packing(isa, codegen);
                    // SAFETY: the functions take addresses alone, and of structs of C's layout; words and sums have the size of the
                    // numbers that they stand for.
                    return Some(unsafe {
                        ConvKernels {
                            tiles: codegen.then(|| code::tiles(tiles, Sum::$sum, isa)).flatten().unwrap_or(tiles),
                            plane: transmute::<PlaneFn<$copied>, PlaneFn<$word>>(plane),
                            pack: transmute::<PackFn<$copied>, PackFn<$word>>(pack),
                            widen: transmute::<WidenFn<$t>, WidenFn<$word>>(widen::<$t>),
                            narrow: transmute::<NarrowFn<$t>, NarrowFn<$word>>(narrow::<$t>),
                            plus: transmute::<PlusFn<$t>, PlusFn<$word>>(plus::<$t>),
                            bytes: None,
                            pairs: None,
                            winograd: (fast && dtype == MatDType::F32).then(|| forms(isa)),
                        }
                    });
                })*
                None
            }
        }
    )*};
    (@avx2 I64_PLAIN) => { I64_PLAIN };
    (@avx2 $name:ident) => { x86::$name };
}
words! {
    u16 {
        F16: F32, F32_AVX512, F32_AVX2, F32_PLAIN, f16, f16;
        Bf16: F32, F32_AVX512, F32_AVX2, F32_PLAIN, bf16, bf16;
    }
    u32 {
        F32: F32, F32_AVX512, F32_AVX2, F32_PLAIN, f32, f32;
        I32: I32, I32_AVX512, I32_AVX2, I32_PLAIN, f32, i32;
    }
    u64 {
        F64: F64, F64_AVX512, F64_AVX2, F64_PLAIN, f64, f64;
        I64: I64, I64_AVX512, I64_PLAIN, I64_PLAIN, f64, i64;
    }
}

/// Evaluates an expression with the words and the kernels of a launch, or another one where there are none.
macro_rules! by_word {
    ($kernel:expr, $launch:expr, $kernels:ident => $go:expr, $other:expr) => {{
        use $crate::library::conv::words::Word;
        let (kernel, isa, codegen, fast): (&$crate::library::conv::ConvKernel, _, _, _) =
            ($kernel, $kernel.isa, $kernel.codegen, $kernel.op.fast);
        if let $crate::library::matmul::MatDType::Bytes(signs) = kernel.dtype {
            let $kernels = $crate::library::conv::bytes::kernels(signs, $launch, isa, codegen);
            $go
        } else if let Some($kernels) = u32::kernels(kernel.dtype, isa, codegen, fast) {
            $go
        } else if let Some($kernels) = u64::kernels(kernel.dtype, isa, codegen, fast) {
            $go
        } else if let Some(kernels) = u16::kernels(kernel.dtype, isa, codegen, fast) {
            let $kernels = $crate::library::conv::pairs::kernels(kernels, kernel, $launch);
            $go
        } else {
            $other
        }
    }};
}
pub(super) use by_word;
