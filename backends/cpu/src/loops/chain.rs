//! Chains of f32 ops that hold their value in registers.
//!
//! A chain is walked in groups of vectors: a group runs through all links before the next one is read, so what lies between
//! two links is neither stored nor loaded. Every link computes the bits of the loop that it stands for. The chains are a fixed
//! set, those of common rows, each compiled as one loop for AVX2 and one for AVX-512.

/// Hands the patterns to a macro: each is one compiled loop.
macro_rules! with_patterns {
    ($go:ident) => {
        $go! {
            /// The greatest of a row.
            Greatest: [Load, Greatest];
            /// The place of the greatest.
            GreatestPlace: [Load, GreatestPlace];
            /// The exponentials of softmax, kept, and their sum.
            Exponentials: [Load, SubSingle, Exp, Store, Sum];
            /// The same, not kept: log-sum-exp.
            ExponentialSum: [Load, SubSingle, Exp, Sum];
            /// The end of softmax.
            Shares: [Load, DivSingle, Store];
            /// The end of softmax, from the start.
            SharesAgain: [Load, SubSingle, Exp, DivSingle, Store];
            /// The distances of log-softmax, kept, and the sum of their exponentials.
            DistancesExponentials: [Load, SubSingle, Store, Exp, Sum];
            /// The end of log-softmax.
            Shifted: [Load, SubSingle, Store];
            /// The end of log-softmax, from the start.
            ShiftedAgain: [Load, SubSingle, SubSingle, Store];
            /// The sum of a row.
            Total: [Load, Sum];
            /// Distances from a mean, kept, and the sum of their squares.
            Distances: [Load, SubSingle, Store, Square, Sum];
            /// The same, not kept.
            Squares: [Load, SubSingle, Square, Sum];
            /// The sum of weighted squares of distances.
            WeightedSquares: [Load, SubSingle, Square, MulSingle, Sum];
            /// The sum of squares.
            SquaresTotal: [Load, Square, Sum];
            /// The end of a normalization by scale alone.
            Scaled: [Load, MulSingle, Mul, Store];
            /// The end of a normalization by scale and shift.
            Affine: [Load, MulSingle, Mul, Add, Store];
            /// The same, from the start.
            AffineAgain: [Load, SubSingle, MulSingle, Mul, Add, Store];
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod gathered;
#[cfg(target_arch = "x86_64")]
mod vector;
#[cfg(target_arch = "x86_64")]
mod walk;

use crate::isa::Isa;

/// What a link does to the value in hand. `…Single`: the operand is one value instead of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Code {
    /// Takes a block in hand.
    Load,
    /// Writes a block.
    Store,
    SubSingle,
    DivSingle,
    MulSingle,
    /// The product with itself.
    Square,
    /// With the elements of a block.
    Mul,
    Add,
    Exp,
    /// Takes the value into a reduction.
    Sum,
    Greatest,
    /// The place of the greatest; of equal ones, the first.
    GreatestPlace,
}

/// One link: what it does, and with which value; of reductions, which one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) code: Code,
    pub(crate) value: u32,
}

macro_rules! patterns {
    ($($(#[$doc:meta])* $name:ident: [$($code:ident),*];)*) => {
        /// The chains that there are.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Pattern {
            $($(#[$doc])* $name,)*
        }

        impl Pattern {
            /// The pattern of some links.
            pub(crate) fn of(links: &[Link]) -> Option<Pattern> {
                $(
                    let codes = [$(Code::$code),*];
                    if links.iter().map(|link| link.code).eq(codes) {
                        return Some(Pattern::$name);
                    }
                )*
                None
            }
        }

        #[cfg(target_arch = "x86_64")]
        impl Chain<'_> {
            /// # Safety
            /// As [`Chain::run`].
            #[inline]
            unsafe fn dispatch(&self, fetches: &[Fetch]) {
                // SAFETY: the caller's promise.
                unsafe {
                    match self.pattern {
                        $(Pattern::$name => walk::$name::run(self, fetches),)*
                    }
                }
            }
        }
    };
}

/// Whether plans for an instruction set may have chains.
pub(crate) fn available(isa: Isa) -> bool {
    isa >= Isa::Avx2
}

impl Code {
    /// Whether it has no operand.
    pub(crate) fn is_unary(self) -> bool {
        matches!(self, Code::Exp | Code::Square)
    }

    /// Whether it takes the value into a reduction.
    pub(crate) fn reduces(self) -> bool {
        matches!(self, Code::Sum | Code::Greatest | Code::GreatestPlace)
    }
}

/// Memory that a chain asks for while it runs.
#[derive(Clone, Copy)]
pub(crate) struct Fetch {
    pub(crate) from: *const u8,
    /// Lines to be asked for.
    pub(crate) lines: usize,
    pub(crate) written: bool,
}

/// Most links of a chain.
pub(crate) const MOST_LINKS: usize = 6;

/// A chain and what it runs over.
pub(crate) struct Chain<'a> {
    /// One for which [`available`] holds.
    pub(crate) isa: Isa,
    pub(crate) pattern: Pattern,
    /// Where the value or the state of each link stands.
    pub(crate) places: &'a [*mut u8],
    /// Elements.
    pub(crate) n: usize,
    /// Place in its row of the first of them.
    pub(crate) first: i64,
}

impl Chain<'_> {
    /// Runs the chain. Elements begin at a multiple of 256 of their row where there are sums.
    ///
    /// # Safety
    /// The machine has the chain's instruction set. Every value of a link has `n` elements, or one where the link says so; a
    /// reduction has a state. The places are as many as the pattern has links. Nothing is written that a later element reads.
    #[inline]
    pub(crate) unsafe fn run(&self, fetches: &[Fetch]) {
        // SAFETY: the caller's promise.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            self.dispatch(fetches);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (self.isa, self.pattern, self.places, self.n, self.first, fetches);
    }
}

with_patterns!(patterns);

#[cfg(test)]
mod tests;
