//! Elements of any dtype as keys: signed numbers of 32 or 64 bits that rise in the order of the sort.
//!
//! The order of integers of one size differs by bits that are flipped, that of floats of one size by what NaN is. NaN has the last key
//! of all, which no number has, and both zeros have one key.

use super::Source;
use crate::isa::{Isa, versions};
use half::{bf16, f16};
use std::marker::PhantomData;
use thalweg_hal::DType;

/// Elements that are compared before any of them is looked at.
pub(super) const BLOCK: usize = 32;
/// Keys that are read or written at once.
pub(super) const CHUNK: usize = 256;

/// The elements of a sort.
#[derive(Clone, Copy)]
pub(super) struct Elements {
    /// Bytes of an element.
    pub(super) size: usize,
    /// Writes the keys of elements, and whether there is one that does not come back from its key.
    pub(super) read: ReadFn,
    /// Writes the elements of keys.
    pub(super) write: WriteFn,
    skip: SkipFn,
    pub(super) order: Order,
    float: bool,
}

/// What the loops need to know of an order.
#[derive(Clone, Copy)]
pub(super) struct Order {
    /// Bits to flip: of an integer, or of the key of a number.
    flip: u64,
    /// The bits of infinity, where elements are floats.
    infinity: u64,
}

versions! {
    /// Writes the keys of `count` elements, and whether one of them does not come back from its key.
    Read, read_version, ReadFn(x: *const u8, step: isize, keys: *mut u8, count: usize, order: &Order, odd: *mut bool)
}

versions! {
    /// Writes the elements of `count` keys.
    Write, write_version, WriteFn(keys: *const u8, values: *mut u8, step: isize, count: usize, order: &Order)
}

versions! {
    /// Passes over whole blocks of [`BLOCK`] elements none of whose keys is below a bound, and writes how many.
    Skip, skip_version, SkipFn(x: *const u8, step: isize, blocks: usize, order: &Order, bound: *const u8, passed: *mut usize)
}

/// Bits of an element.
trait Bits: Copy {
    type Key: Copy + PartialOrd;
    /// The key before the first negative one.
    fn key(self) -> Self::Key;
    fn of_key(key: Self::Key) -> Self;
    fn flipped(self, flip: u64) -> Self;
    /// The key of a float, and whether it does not come back from it.
    fn float(self, order: &Order) -> (Self, bool);
    /// The float of a key.
    fn of_float(self, order: &Order) -> Self;
}

macro_rules! bits {
    ($($t:ty: $key:ty, $unsigned:ty;)*) => {$(
        impl Bits for $t {
            type Key = $key;
            #[inline(always)]
            fn key(self) -> $key {
                (self as $unsigned ^ 1 << (<$unsigned>::BITS - 1)) as $key
            }
            #[inline(always)]
            fn of_key(key: $key) -> $t {
                (key as $unsigned ^ 1 << (<$unsigned>::BITS - 1)) as $t
            }
            #[inline(always)]
            fn flipped(self, flip: u64) -> $t {
                self ^ flip as $t
            }
            #[inline(always)]
            fn float(self, order: &Order) -> ($t, bool) {
                const TOP: $t = 1 << (<$t>::BITS - 1);
                let nan = self & !TOP > order.infinity as $t;
                // Both zeros are one key.
                let bits = if self == TOP { 0 } else { self };
                let key = if bits & TOP == 0 { bits | TOP } else { !bits };
                (if nan { <$t>::MAX } else { key ^ order.flip as $t }, nan | (self == TOP))
            }
            #[inline(always)]
            fn of_float(self, order: &Order) -> $t {
                const TOP: $t = 1 << (<$t>::BITS - 1);
                let key = self ^ order.flip as $t;
                if key & TOP == 0 { !key } else { key ^ TOP }
            }
        }
    )*};
}
bits! {
    u8: i32, u32;
    u16: i32, u32;
    u32: i32, u32;
    u64: i64, u64;
}

struct Integers<B>(PhantomData<B>);
struct Floats<B>(PhantomData<B>);

/// Calls `one` for each of `count` elements, `step` apart.
#[inline(always)]
fn each<B>(x: *const B, step: isize, count: usize, mut one: impl FnMut(usize, *const B)) {
    if step == 1 {
        (0..count).for_each(|at| one(at, x.wrapping_add(at)));
    } else {
        (0..count).for_each(|at| one(at, x.wrapping_offset(at as isize * step)));
    }
}

impl<B: Bits> Read for Integers<B> {
    #[inline(always)]
    unsafe fn run(x: *const u8, step: isize, keys: *mut u8, count: usize, order: &Order, odd: *mut bool) {
        let keys = keys.cast::<B::Key>();
        // SAFETY: the caller vouches for the elements, and has room for the keys.
        unsafe {
            each(x.cast::<B>(), step, count, |at, x| {
                keys.add(at).write((*x).flipped(order.flip).key())
            });
            odd.write(false);
        }
    }
}

impl<B: Bits> Write for Integers<B> {
    #[inline(always)]
    unsafe fn run(keys: *const u8, values: *mut u8, step: isize, count: usize, order: &Order) {
        let keys = keys.cast::<B::Key>();
        // SAFETY: the caller vouches for keys and elements.
        each(values.cast::<B>(), step, count, |at, to| unsafe {
            to.cast_mut().write(B::of_key(*keys.add(at)).flipped(order.flip));
        });
    }
}

impl<B: Bits> Read for Floats<B> {
    #[inline(always)]
    unsafe fn run(x: *const u8, step: isize, keys: *mut u8, count: usize, order: &Order, odd: *mut bool) {
        let (keys, mut found) = (keys.cast::<B::Key>(), false);
        // SAFETY: the caller vouches for the elements, and has room for the keys.
        unsafe {
            each(x.cast::<B>(), step, count, |at, x| {
                let (key, odd) = (*x).float(order);
                found |= odd;
                keys.add(at).write(key.key());
            });
            odd.write(found);
        }
    }
}

impl<B: Bits> Write for Floats<B> {
    #[inline(always)]
    unsafe fn run(keys: *const u8, values: *mut u8, step: isize, count: usize, order: &Order) {
        let keys = keys.cast::<B::Key>();
        // SAFETY: the caller vouches for keys and elements.
        each(values.cast::<B>(), step, count, |at, to| unsafe {
            to.cast_mut().write(B::of_key(*keys.add(at)).of_float(order));
        });
    }
}

/// As [`Skip::run`], with the keys that `key` gives.
#[inline(always)]
unsafe fn passed<B: Bits>(
    (x, step, blocks): (*const B, isize, usize),
    bound: *const u8,
    passed: *mut usize,
    key: impl Fn(B) -> B::Key,
) {
    // SAFETY: the caller vouches for the elements, the bound and the result.
    unsafe {
        let bound = *bound.cast::<B::Key>();
        let mut at = 0;
        while at < blocks {
            let mut below = false;
            let first = x.wrapping_offset((at * BLOCK) as isize * step);
            each(first, step, BLOCK, |_, x| below |= key(*x) < bound);
            if below {
                break;
            }
            at += 1;
        }
        passed.write(at);
    }
}

impl<B: Bits> Skip for Integers<B> {
    #[inline(always)]
    unsafe fn run(x: *const u8, step: isize, blocks: usize, order: &Order, bound: *const u8, to: *mut usize) {
        let key = |x: B| x.flipped(order.flip).key();
        // SAFETY: the caller's promise.
        unsafe { passed::<B>((x.cast(), step, blocks), bound, to, key) };
    }
}

impl<B: Bits> Skip for Floats<B> {
    #[inline(always)]
    unsafe fn run(x: *const u8, step: isize, blocks: usize, order: &Order, bound: *const u8, to: *mut usize) {
        let key = |x: B| x.float(order).0.key();
        // SAFETY: the caller's promise.
        unsafe { passed::<B>((x.cast(), step, blocks), bound, to, key) };
    }
}

/// An element that does not come back from its key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Odd {
    Zero,
    Nan,
}

impl Elements {
    /// `None` for dtypes that have no order.
    pub(super) fn new(dtype: DType, descending: bool, isa: Isa) -> Option<Elements> {
        let all = if descending { u64::MAX } else { 0 };
        let integers = |top: u64| Order {
            flip: all ^ top,
            infinity: 0,
        };
        let floats = |infinity: u64| Order { flip: all, infinity };
        let order = match dtype {
            DType::F64 => floats(f64::INFINITY.to_bits()),
            DType::F32 => floats(f32::INFINITY.to_bits().into()),
            DType::F16 => floats(f16::INFINITY.to_bits().into()),
            DType::BF16 => floats(bf16::INFINITY.to_bits().into()),
            DType::I64 => integers(1 << 63),
            DType::I32 => integers(1 << 31),
            DType::I16 => integers(1 << 15),
            DType::I8 => integers(1 << 7),
            DType::U64 | DType::U32 | DType::U16 | DType::U8 | DType::Bool => integers(0),
            DType::F8E4M3 | DType::F8E5M2 => return None,
        };
        let float = dtype.is_float();
        let (read, write, skip) = match (dtype.size(), float) {
            (1, _) => moves::<Integers<u8>>(isa),
            (2, false) => moves::<Integers<u16>>(isa),
            (4, false) => moves::<Integers<u32>>(isa),
            (_, false) => moves::<Integers<u64>>(isa),
            (2, true) => moves::<Floats<u16>>(isa),
            (4, true) => moves::<Floats<u32>>(isa),
            (_, true) => moves::<Floats<u64>>(isa),
        };
        Some(Elements {
            size: dtype.size(),
            read,
            write,
            skip,
            order,
            float,
        })
    }

    /// Bits of a key that differ.
    pub(super) fn bits(&self) -> u32 {
        8 * self.size as u32
    }

    /// Whether keys have 64 bits.
    pub(super) fn is_long(&self) -> bool {
        self.size == 8
    }

    /// Writes the keys of `count` elements from `first` on; returns whether one of them does not come back from its key.
    ///
    /// # Safety
    /// The elements are readable, and there is room for the keys.
    pub(super) unsafe fn keys(&self, x: &Source, first: usize, keys: *mut u8, count: usize) -> bool {
        let mut odd = false;
        // SAFETY: the caller vouches for elements and keys.
        unsafe { (self.read)(x.at(first), x.step, keys, count, &self.order, &raw mut odd) };
        odd
    }

    /// How many of `blocks` blocks of elements from `first` on have no key below a bound, up to the first that has one.
    ///
    /// # Safety
    /// The elements are readable, and the bound is a key of theirs.
    pub(super) unsafe fn passed(&self, x: &Source, first: usize, blocks: usize, bound: *const u8) -> usize {
        let mut passed = 0;
        // SAFETY: the caller vouches for elements and bound.
        unsafe { (self.skip)(x.at(first), x.step, blocks, &self.order, bound, &raw mut passed) };
        passed
    }

    /// The bits of an element.
    ///
    /// # Safety
    /// It is readable.
    pub(super) unsafe fn raw(&self, x: *const u8) -> u64 {
        let mut raw = [0; 8];
        // SAFETY: the caller vouches for it; no element is larger.
        unsafe { raw.as_mut_ptr().copy_from_nonoverlapping(x, self.size) };
        u64::from_le_bytes(raw)
    }

    /// Writes an element of these bits.
    ///
    /// # Safety
    /// It is writable.
    pub(super) unsafe fn put(&self, to: *mut u8, raw: u64) {
        // SAFETY: the caller vouches for it; no element is larger.
        unsafe { to.copy_from_nonoverlapping(raw.to_le_bytes().as_ptr(), self.size) };
    }

    /// Whether elements of other bits have the same key.
    pub(super) fn odd(&self, raw: u64) -> Option<Odd> {
        let magnitude = raw & !(1 << (self.bits() - 1));
        match magnitude {
            _ if !self.float => None,
            0 => Some(Odd::Zero),
            bits if bits > self.order.infinity => Some(Odd::Nan),
            _ => None,
        }
    }
}

fn moves<B: Read + Write + Skip>(isa: Isa) -> (ReadFn, WriteFn, SkipFn) {
    (
        read_version::<B>(isa),
        write_version::<B>(isa),
        skip_version::<B>(isa),
    )
}
