//! Two-level segregated fit (Masmano, Ripoll, Crespo, Real: "TLSF: a new dynamic memory allocator for real-time
//! systems", ECRTS 2004): constant-time search of a free block that fits. Sizes are in units of the pool's granularity.

const SECOND_BITS: u32 = 4;
const SECOND: usize = 1 << SECOND_BITS;
// Enough for every size that 64 bits of bytes in units of 512 can have.
const FIRST: usize = 52;

/// No block.
pub(super) const NONE: u32 = u32::MAX;

/// Free lists by size class. The links live in the blocks, reached through the closures of each call.
pub(super) struct Bins {
    first: u64,
    second: [u16; FIRST],
    heads: [[u32; SECOND]; FIRST],
}

fn class(size: u64) -> (usize, usize) {
    let first = size.ilog2();
    if first < SECOND_BITS {
        return (0, size as usize);
    }
    (
        (first - SECOND_BITS + 1) as usize,
        (size >> (first - SECOND_BITS)) as usize - SECOND,
    )
}

impl Bins {
    pub(super) fn new() -> Box<Bins> {
        Box::new(Bins {
            first: 0,
            second: [0; FIRST],
            heads: [[NONE; SECOND]; FIRST],
        })
    }

    /// The head of the list that holds blocks of `size`.
    pub(super) fn head(&mut self, size: u64) -> &mut u32 {
        let (first, second) = class(size);
        &mut self.heads[first][second]
    }

    /// To be called after the head of `size`'s list has changed.
    pub(super) fn update(&mut self, size: u64) {
        let (first, second) = class(size);
        if self.heads[first][second] == NONE {
            self.second[first] &= !(1 << second);
        } else {
            self.second[first] |= 1 << second;
        }
        if self.second[first] == 0 {
            self.first &= !(1 << first);
        } else {
            self.first |= 1 << first;
        }
    }

    /// The head of a list all of whose blocks have at least `size`; [`NONE`] if there is none.
    pub(super) fn find(&self, size: u64) -> u32 {
        let (first, second) = class(size);
        // Lists above size's own hold larger blocks only; in its own the head may be too small, so it is not searched
        // unless the class is exact.
        let exact = first == 0 || size.trailing_zeros() >= size.ilog2() - SECOND_BITS;
        let from = if exact { second } else { second + 1 };
        let here = if from < SECOND {
            self.second[first] & (u16::MAX << from)
        } else {
            0
        };
        if here != 0 {
            return self.heads[first][here.trailing_zeros() as usize];
        }
        let above = if first + 1 < 64 {
            self.first & (u64::MAX << (first + 1))
        } else {
            0
        };
        if above == 0 {
            return NONE;
        }
        let first = above.trailing_zeros() as usize;
        self.heads[first][self.second[first].trailing_zeros() as usize]
    }

    /// Heads of all lists that are not empty.
    pub(super) fn heads(&self) -> impl Iterator<Item = u32> + '_ {
        self.heads.iter().flatten().copied().filter(|&head| head != NONE)
    }
}
