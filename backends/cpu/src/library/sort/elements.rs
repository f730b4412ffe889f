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

/// How elements become keys.
trait Kind {
    type Bits: Bits;
    /// The key, and whether the element does not come back from it.
    fn key(x: Self::Bits, order: &Order) -> (<Self::Bits as Bits>::Key, bool);
    fn element(key: <Self::Bits as Bits>::Key, order: &Order) -> Self::Bits;
}

struct Integers<B>(PhantomData<B>);
struct Floats<B>(PhantomData<B>);

impl<B: Bits> Kind for Integers<B> {
    type Bits = B;
    #[inline(always)]
    fn key(x: B, order: &Order) -> (B::Key, bool) {
        (x.flipped(order.flip).key(), false)
    }
    #[inline(always)]
    fn element(key: B::Key, order: &Order) -> B {
        B::of_key(key).flipped(order.flip)
    }
}

impl<B: Bits> Kind for Floats<B> {
    type Bits = B;
    #[inline(always)]
    fn key(x: B, order: &Order) -> (B::Key, bool) {
        let (key, odd) = x.float(order);
        (key.key(), odd)
    }
    #[inline(always)]
    fn element(key: B::Key, order: &Order) -> B {
        B::of_key(key).of_float(order)
    }
}

/// Calls `one` for each of `count` elements, `step` apart.
#[inline(always)]
fn each<B>(x: *const B, step: isize, count: usize, mut one: impl FnMut(usize, *const B)) {
    if step == 1 {
        (0..count).for_each(|at| one(at, x.wrapping_add(at)));
    } else {
        (0..count).for_each(|at| one(at, x.wrapping_offset(at as isize * step)));
    }
}

impl<K: Kind> Read for K {
    #[inline(always)]
    unsafe fn run(x: *const u8, step: isize, keys: *mut u8, count: usize, order: &Order, odd: *mut bool) {
        let (keys, mut found) = (keys.cast::<<K::Bits as Bits>::Key>(), false);
        // SAFETY: the caller vouches for the elements, and has room for the keys.
        unsafe {
            each(x.cast::<K::Bits>(), step, count, |at, x| {
                let (key, odd) = K::key(*x, order);
                found |= odd;
                keys.add(at).write(key);
            });
            odd.write(found);
        }
    }
}

impl<K: Kind> Write for K {
    #[inline(always)]
    unsafe fn run(keys: *const u8, values: *mut u8, step: isize, count: usize, order: &Order) {
        let keys = keys.cast::<<K::Bits as Bits>::Key>();
        // SAFETY: the caller vouches for keys and elements.
        each(values.cast::<K::Bits>(), step, count, |at, to| unsafe {
            to.cast_mut().write(K::element(*keys.add(at), order));
        });
    }
}

impl<K: Kind> Skip for K {
    #[inline(always)]
    unsafe fn run(x: *const u8, step: isize, blocks: usize, order: &Order, bound: *const u8, to: *mut usize) {
        let x = x.cast::<K::Bits>();
        // SAFETY: the caller vouches for the elements, the bound and the result.
        unsafe {
            let bound = *bound.cast::<<K::Bits as Bits>::Key>();
            let mut passed = 0;
            while passed < blocks {
                let mut below = false;
                let first = x.wrapping_offset((passed * BLOCK) as isize * step);
                each(first, step, BLOCK, |_, x| below |= K::key(*x, order).0 < bound);
                if below {
                    break;
                }
                passed += 1;
            }
            to.write(passed);
        }
    }
}

/// The bits of a zero and of a NaN of any size, whose keys other elements have too: those do not come back.
pub(super) const ODD: [u64; 2] = [0, u64::MAX];

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

    /// A row of one element of these bits.
    pub(super) fn one(&self, bits: &u64) -> Source {
        Source {
            x: std::ptr::from_ref(bits).cast(),
            step: 0,
            size: self.size,
            length: 1,
        }
    }

    /// The bits of an element.
    ///
    /// # Safety
    /// It is readable.
    pub(super) unsafe fn raw(&self, x: *const u8) -> u64 {
        // SAFETY: the caller vouches for it.
        unsafe {
            match self.size {
                1 => x.read().into(),
                2 => x.cast::<u16>().read().into(),
                4 => x.cast::<u32>().read().into(),
                _ => x.cast::<u64>().read(),
            }
        }
    }

    /// Writes an element of these bits.
    ///
    /// # Safety
    /// It is writable.
    pub(super) unsafe fn put(&self, to: *mut u8, raw: u64) {
        // SAFETY: the caller vouches for it.
        unsafe {
            match self.size {
                1 => to.write(raw as u8),
                2 => to.cast::<u16>().write(raw as u16),
                4 => to.cast::<u32>().write(raw as u32),
                _ => to.cast::<u64>().write(raw),
            }
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
