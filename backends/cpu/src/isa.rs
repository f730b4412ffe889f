//! Instruction sets that loops are compiled for: what the machine has, and which one a device uses.

use std::sync::OnceLock;
use thalweg_hal::settings::{Setting, Values, Way};
use thalweg_hal::{Error, Host, Result};

/// The instruction set that a device uses.
pub const ISA: Setting = Setting {
    key: "cpu.isa",
    variable: "THALWEG_CPU_ISA",
    way: Way::Config,
    values: Values::OneOf(&["best", "avx512", "avx2", "baseline"]),
    default: "best",
    about: "The instruction set of the CPU's kernels. `best` is the best one of the processor, and one that the processor lacks is an \
            error. Every one computes the same bits; for products of bf16 see `cpu.amx_bf16`. It is read when the device is opened.",
    read_by: "backend cpu",
};

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

    /// The lesser of two.
    pub(crate) const fn least(self, other: Isa) -> Isa {
        if (self as u8) < other as u8 { self } else { other }
    }

    /// `baseline`, `avx2`, `avx512`.
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Baseline => "baseline",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
    }

    /// Bits of its registers.
    pub const fn bits(self) -> u64 {
        match self {
            Isa::Baseline => 128,
            Isa::Avx2 => 256,
            Isa::Avx512 => 512,
        }
    }

    /// Whether this machine has it.
    pub fn is_available(self) -> bool {
        self <= Isa::detect()
    }

    /// The best of this machine.
    pub fn detect() -> Isa {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(probe)
    }

    /// Whether this machine sums the products of four bytes at once in its registers: AVX512-VNNI or AVX-VNNI.
    pub(crate) fn sums_bytes(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return match self {
            Isa::Baseline => false,
            Isa::Avx2 => is_x86_feature_detected!("avxvnni"),
            Isa::Avx512 => is_x86_feature_detected!("avx512vnni"),
        };
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Whether this machine sums the products of two bf16 at once in its registers: AVX512-BF16.
    pub(crate) fn sums_halves(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self == Isa::Avx512 && is_x86_feature_detected!("avx512bf16");
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Whether that is faster than two fused multiply-adds: on processors of AMD. Those of Intel take as long for it as for three.
    pub(crate) fn sums_halves_fast(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self.sums_halves() && is_of_amd();
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Whether this machine multiplies squares of bytes, and lets this process do it: AMX-INT8.
    pub(crate) fn sums_squares(self) -> bool {
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        return self == Isa::Avx512 && may_use_amx();
        #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
        false
    }

    /// The one that is set, or the best.
    ///
    /// # Errors
    /// A word that [`ISA`] does not take, and an instruction set that this machine lacks.
    pub fn chosen(host: Host) -> Result<Isa> {
        let word = ISA.word(host)?;
        match Isa::ALL.into_iter().find(|isa| isa.name() == word) {
            None => Ok(Isa::detect()),
            Some(isa) if isa.is_available() => Ok(isa),
            Some(isa) => Err(isa.missing()),
        }
    }

    /// The error of asking for it where the machine lacks it.
    pub(crate) fn missing(self) -> Error {
        let has: Vec<_> = (Isa::ALL.into_iter().filter(|isa| isa.is_available()))
            .map(Isa::name)
            .collect();
        Error::unsupported(format!(
            "{} is `{}`, which this processor lacks; it has {}: set one of them, or `best`",
            ISA.key,
            self.name(),
            has.join(", ")
        ))
    }
}

#[cfg(target_arch = "x86_64")]
fn probe() -> Isa {
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("popcnt")
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

/// Instructions for narrow types that this machine has, whatever device uses them.
pub(crate) fn narrow() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    let found = [
        ("avx512_bf16", is_x86_feature_detected!("avx512bf16")),
        ("avx512_vnni", is_x86_feature_detected!("avx512vnni")),
        ("avx_vnni", is_x86_feature_detected!("avxvnni")),
        ("amx", has_amx()),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let found = [("", false); 0];
    let names = found.into_iter().filter(|(_, there)| *there);
    names.map(|(name, _)| name).collect()
}

/// Whether the processor reads one long row from memory as fast as it can, unasked: those of AMD do. Others may stop at the end of a page.
pub(crate) fn follows_pages() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_of_amd();
    #[cfg(not(target_arch = "x86_64"))]
    true
}

/// Whether the processor is one of AMD. Virtual machines take microseconds to say so.
pub(crate) fn is_of_amd() -> bool {
    #[cfg(target_arch = "x86_64")]
    fn found() -> bool {
        std::arch::x86_64::__cpuid(0).ecx == u32::from_le_bytes(*b"cAMD")
    }
    #[cfg(not(target_arch = "x86_64"))]
    fn found() -> bool {
        false
    }
    static AMD: OnceLock<bool> = OnceLock::new();
    *AMD.get_or_init(found)
}

/// Bytes of the first cache of data; 32 KiB where the processor does not say.
pub(crate) fn first_cache() -> usize {
    #[cfg(target_arch = "x86_64")]
    fn found() -> Option<usize> {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        const OF_AMD: u32 = 0x8000_0005;
        const CACHES: u32 = 4;
        if is_of_amd() {
            let listed = __cpuid(0x8000_0000).eax >= OF_AMD;
            return listed.then(|| (__cpuid(OF_AMD).ecx as usize >> 24) << 10);
        }
        let last = __cpuid(0).eax;
        let mut caches = (0..8)
            .filter(|_| last >= CACHES)
            .map(|i| __cpuid_count(CACHES, i));
        // Data, and the first level.
        let first = caches.find(|of| of.eax & 0xff == 1 << 5 | 1)?;
        let field = |shift: u32, bits: u32| (first.ebx as usize >> shift & ((1 << bits) - 1)) + 1;
        Some(field(22, 10) * field(12, 10) * field(0, 12) * (first.ecx as usize + 1))
    }
    #[cfg(not(target_arch = "x86_64"))]
    fn found() -> Option<usize> {
        None
    }
    static FIRST_CACHE: OnceLock<usize> = OnceLock::new();
    *FIRST_CACHE.get_or_init(|| found().filter(|&bytes| bytes > 0).unwrap_or(32 << 10))
}

/// Whether the processor has AMX with tiles of bf16 and int8, and the system saves its registers.
#[cfg(target_arch = "x86_64")]
fn has_amx() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};

    /// AMX-BF16, AMX-TILE and AMX-INT8 of leaf 7.
    const AMX: u32 = 1 << 22 | 1 << 24 | 1 << 25;
    /// XTILECFG and XTILEDATA.
    const TILES: u64 = 3 << 17;

    #[target_feature(enable = "xsave")]
    unsafe fn saved() -> u64 {
        // SAFETY: the caller has found XSAVE switched on.
        unsafe { _xgetbv(0) }
    }
    let switched_on = __cpuid(1).ecx & 1 << 27 != 0;
    let listed = __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & AMX == AMX;
    // SAFETY: OSXSAVE says that the instruction may be used.
    switched_on && listed && unsafe { saved() } & TILES == TILES
}

/// Asks the system for the registers of AMX, which are saved only for processes that do. Their threads then need larger stacks for
/// signals; the request fails where a thread has a smaller one.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn may_use_amx() -> bool {
    /// `ARCH_REQ_XCOMP_PERM`, and the number of XTILEDATA.
    const REQUEST: [libc::c_long; 2] = [0x1023, 18];
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    *ALLOWED.get_or_init(|| {
        // SAFETY: a request that changes nothing else.
        has_amx() && unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST[0], REQUEST[1]) } == 0
    })
}

/// A loop that is compiled once per instruction set: `versions! { Name: fn(args) }` defines, for a trait `Name` whose
/// method `run` is `#[inline(always)]`, a function `pick` that returns the version for an [`Isa`].
macro_rules! versions {
    ($(#[$doc:meta])* $name:ident, $pick:ident, $fn:ident($($arg:ident: $ty:ty),*)) => {
        $(#[$doc])*
        pub(crate) type $fn = unsafe fn($($arg: $ty),*);

        $(#[$doc])*
        pub(crate) trait $name {
            /// The widest set that it is compiled for. A wider one of the machine runs that version.
            const WIDEST: $crate::isa::Isa = $crate::isa::Isa::Avx512;
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
            // What a constant rules out is not compiled.
            #[cfg(target_arch = "x86_64")]
            if const { matches!(L::WIDEST, $crate::isa::Isa::Avx512) } {
                if isa == $crate::isa::Isa::Avx512 {
                    return avx512::<L>;
                }
            }
            #[cfg(target_arch = "x86_64")]
            if const { !matches!(L::WIDEST, $crate::isa::Isa::Baseline) } {
                if isa != $crate::isa::Isa::Baseline {
                    return avx2::<L>;
                }
            }
            let _ = isa;
            baseline::<L>
        }
    };
}
pub(crate) use versions;

#[cfg(test)]
mod tests {
    use super::first_cache;

    #[test]
    fn first_cache_is_as_the_system_says() {
        assert!((8 << 10..=1 << 20).contains(&first_cache()), "{}", first_cache());
        let of = |name: &str| {
            std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index0/{name}")).ok()
        };
        if let (Some(kind), Some(size)) = (of("type"), of("size"))
            && cfg!(target_arch = "x86_64")
            && kind.trim() == "Data"
        {
            assert_eq!(size.trim(), format!("{}K", first_cache() >> 10));
        }
    }
}
