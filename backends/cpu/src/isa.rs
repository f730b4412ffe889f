//! Instruction sets that loops are compiled for.

use std::sync::OnceLock;

/// An instruction set; every one computes the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Isa {
    /// What the target guarantees (SSE2 on x86-64).
    Baseline,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ and VL on top of [`Isa::Avx2`].
    Avx512,
}

impl Isa {
    /// Every instruction set, the least first.
    pub const ALL: [Isa; 3] = [Isa::Baseline, Isa::Avx2, Isa::Avx512];

    /// Whether this machine has it.
    pub fn is_available(self) -> bool {
        self <= Isa::detect()
    }

    /// The best of this machine.
    pub fn detect() -> Isa {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(probe)
    }
}

#[cfg(target_arch = "x86_64")]
fn probe() -> Isa {
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2");
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    match (avx2, avx512) {
        (true, true) => Isa::Avx512,
        (true, false) => Isa::Avx2,
        (false, _) => Isa::Baseline,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn probe() -> Isa {
    Isa::Baseline
}

/// A loop that is compiled once per instruction set: `versions! { Name: fn(args) }` defines, for a trait `Name` whose
/// method `run` is `#[inline(always)]`, a function `pick` that returns the version for an [`Isa`].
macro_rules! versions {
    ($(#[$doc:meta])* $name:ident, $pick:ident, $fn:ident($($arg:ident: $ty:ty),*)) => {
        $(#[$doc])*
        pub(crate) type $fn = unsafe fn($($arg: $ty),*);

        $(#[$doc])*
        pub(crate) trait $name {
            /// # Safety
            /// Pointers are valid for the elements that the loop touches.
            unsafe fn run($($arg: $ty),*);
        }

        /// The version of `L` for `isa`.
        pub(crate) fn $pick<L: $name>(isa: $crate::isa::Isa) -> $fn {
            unsafe fn baseline<L: $name>($($arg: $ty),*) {
                // SAFETY: the caller's promise is passed on.
                unsafe { L::run($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2")]
            unsafe fn avx2<L: $name>($($arg: $ty),*) {
                // SAFETY: the caller's promise is passed on.
                unsafe { L::run($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,avx512f,avx512bw,avx512dq,avx512vl")]
            unsafe fn avx512<L: $name>($($arg: $ty),*) {
                // SAFETY: the caller's promise is passed on.
                unsafe { L::run($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            match isa {
                $crate::isa::Isa::Baseline => baseline::<L>,
                $crate::isa::Isa::Avx2 => avx2::<L>,
                $crate::isa::Isa::Avx512 => avx512::<L>,
            }
            #[cfg(not(target_arch = "x86_64"))]
            match isa {
                $crate::isa::Isa::Baseline | $crate::isa::Isa::Avx2 | $crate::isa::Isa::Avx512 => baseline::<L>,
            }
        }
    };
}
pub(crate) use versions;
