//! The limits of the machine: reading memory, adding in place, fused multiply-adds. Probed with the widest vectors there are.

use std::sync::OnceLock;
use std::time::Duration;
use thalweg::hal::{Buffer, Device, Result};
use thalweg::parallel::Pool;

/// Most bytes that the probes of memory walk over.
pub const FAR: usize = 400 << 20;

/// Memory of a device that the host can reach, filled.
pub struct Memory {
    buffer: Buffer,
    ptr: usize,
    len: usize,
}

impl Memory {
    /// `bytes` bytes of a device's pool, every page touched.
    ///
    /// # Errors
    /// Those of an allocation and a mapping.
    pub fn new(device: &Device, bytes: usize) -> Result<Memory> {
        let buffer = device.alloc(bytes as u64)?;
        buffer.fill(&device.default_stream()?, 1.0_f32)?;
        device.synchronize()?;
        let ptr = buffer.map()?.as_ptr() as usize;
        Ok(Memory {
            buffer,
            ptr,
            len: bytes / 4,
        })
    }

    /// The buffer itself.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Reads the first `bytes` bytes on `threads` threads, or everything where that is less.
    pub fn read(&self, bytes: usize, threads: usize) {
        self.split(bytes, threads, |ptr, len| {
            // SAFETY: the range lies in the buffer, which is initialised, and nobody writes to it meanwhile.
            std::hint::black_box(sum(unsafe { std::slice::from_raw_parts(ptr, len) }));
        });
    }

    /// Adds `other` to this memory, in place, on `threads` threads.
    pub fn add(&self, other: &Memory, threads: usize) {
        let shift = other.ptr.wrapping_sub(self.ptr);
        self.split(self.len * 4, threads, |ptr, len| {
            let from = (ptr as usize).wrapping_add(shift) as *const f32;
            // SAFETY: both ranges lie in their buffers of one length, which do not overlap, and each thread has its own.
            unsafe {
                accumulate(
                    std::slice::from_raw_parts_mut(ptr, len),
                    std::slice::from_raw_parts(from, len),
                )
            };
        });
    }

    fn split(&self, bytes: usize, threads: usize, body: impl Fn(*mut f32, usize) + Sync) {
        const PIECES: usize = 64;
        let piece = self.len.min(bytes / 4) / PIECES;
        Pool::global().set_threads(threads);
        Pool::global().run(PIECES, 0, &|i| {
            body((self.ptr as *mut f32).wrapping_add(i * piece), piece)
        });
    }
}

macro_rules! widest {
    ($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)? $body:block) => {
        $(#[$doc])*
        fn $name($($arg: $type),*) $(-> $result)? {
            #[inline(always)]
            fn plain($($arg: $type),*) $(-> $result)? $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
                fn avx512($($arg: $type),*) $(-> $result)? { plain($($arg),*) }
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($arg: $type),*) $(-> $result)? { plain($($arg),*) }
                if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512dq")
                {
                    // SAFETY: the instructions were detected.
                    return unsafe { avx512($($arg),*) };
                }
                if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                    // SAFETY: the instructions were detected.
                    return unsafe { avx2($($arg),*) };
                }
            }
            plain($($arg),*)
        }
    };
}

widest! {
    fn sum(data: &[f32]) -> f32 {
        let mut lanes = [0.0_f32; 128];
        let (chunks, rest) = data.as_chunks::<128>();
        for chunk in chunks {
            for (lane, value) in lanes.iter_mut().zip(chunk) {
                *lane += value;
            }
        }
        lanes.iter().chain(rest).sum()
    }
}

widest! {
    fn accumulate(to: &mut [f32], from: &[f32]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to += from;
        }
    }
}

const STEPS: usize = 20_000;

/// Fused multiply-adds in twelve independent chains of vectors; floating-point operations done.
#[cfg(target_arch = "x86_64")]
fn multiply_add() -> usize {
    use std::arch::x86_64::{
        _mm256_fmadd_ps, _mm256_set1_ps, _mm512_fmadd_ps, _mm512_reduce_add_ps, _mm512_set1_ps,
    };
    #[target_feature(enable = "avx512f")]
    fn wide() -> usize {
        let (a, b) = (
            _mm512_set1_ps(std::hint::black_box(0.999)),
            _mm512_set1_ps(std::hint::black_box(0.001)),
        );
        let mut chains = [_mm512_set1_ps(1.0); 12];
        for _ in 0..STEPS {
            for chain in &mut chains {
                *chain = _mm512_fmadd_ps(*chain, a, b);
            }
        }
        std::hint::black_box(chains.map(|chain| _mm512_reduce_add_ps(chain)));
        STEPS * 12 * 16 * 2
    }
    #[target_feature(enable = "avx2,fma")]
    fn narrow() -> usize {
        let (a, b) = (
            _mm256_set1_ps(std::hint::black_box(0.999)),
            _mm256_set1_ps(std::hint::black_box(0.001)),
        );
        let mut chains = [_mm256_set1_ps(1.0); 12];
        for _ in 0..STEPS {
            for chain in &mut chains {
                *chain = _mm256_fmadd_ps(*chain, a, b);
            }
        }
        std::hint::black_box(chains);
        STEPS * 12 * 8 * 2
    }
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the instructions were detected.
        unsafe { wide() }
    } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the instructions were detected.
        unsafe { narrow() }
    } else {
        portable()
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn multiply_add() -> usize {
    portable()
}

fn portable() -> usize {
    let (a, b) = (std::hint::black_box(0.999_f32), std::hint::black_box(0.001_f32));
    let mut lanes = [1.0_f32; 48];
    for _ in 0..STEPS {
        for lane in &mut lanes {
            *lane = *lane * a + b;
        }
    }
    std::hint::black_box(lanes);
    STEPS * 48 * 2
}

/// One round of f32 multiply-adds on `threads` threads; floating-point operations done.
pub fn multiply_add_round(threads: usize) -> usize {
    static WORK: OnceLock<usize> = OnceLock::new();
    Pool::global().set_threads(threads);
    Pool::global().run(threads, 0, &|_| {
        multiply_add();
    });
    *WORK.get_or_init(multiply_add) * threads
}

/// Floating-point operations per second that `threads` threads reach together with f32 multiply-adds.
pub fn flops(threads: usize) -> f64 {
    let work = multiply_add_round(threads);
    let time = crate::median(Duration::from_millis(60), || {
        multiply_add_round(threads);
    });
    work as f64 / time.as_secs_f64()
}

/// Whether this process may use AMX, for which it asks.
fn may_use_amx() -> bool {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    {
        static ALLOWED: OnceLock<bool> = OnceLock::new();
        // SAFETY: a request for the registers (`ARCH_REQ_XCOMP_PERM`), which an older system refuses.
        let ask = || unsafe { libc::syscall(libc::SYS_arch_prctl, 0x1023, 18) } == 0;
        let listed = || std::arch::x86_64::__cpuid_count(7, 0).edx & 1 << 25 != 0;
        *ALLOWED.get_or_init(|| listed() && ask())
    }
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    false
}

/// A function that multiplies into four independent squares of AMX, whose rows have `$steps` elements along k; operations done.
macro_rules! squares {
    ($name:ident, $dot:literal, $steps:literal) => {
        #[cfg(target_arch = "x86_64")]
        unsafe fn $name() -> usize {
            // Eight registers of 16 rows of 64 bytes.
            let mut configuration = [0_u8; 64];
            configuration[0] = 1;
            for register in 0..8 {
                configuration[16 + 2 * register] = 64;
                configuration[48 + register] = 16;
            }
            // SAFETY: the process may use the registers.
            unsafe {
                std::arch::asm!(
                    "ldtilecfg [{configuration}]",
                    "2:",
                    concat!($dot, " tmm0, tmm4, tmm6"),
                    concat!($dot, " tmm1, tmm4, tmm7"),
                    concat!($dot, " tmm2, tmm5, tmm6"),
                    concat!($dot, " tmm3, tmm5, tmm7"),
                    "dec {steps}",
                    "jnz 2b",
                    "tilerelease",
                    configuration = in(reg) configuration.as_ptr(),
                    steps = inout(reg) STEPS => _,
                    options(nostack),
                );
            }
            STEPS * 4 * 16 * 16 * $steps * 2
        }
        #[cfg(not(target_arch = "x86_64"))]
        unsafe fn $name() -> usize {
            portable()
        }
    };
}
squares!(multiply_byte_squares, "tdpbusd", 64);
squares!(multiply_half_squares, "tdpbf16ps", 32);

/// Products of bytes by AMX, or else in twelve independent chains of vectors; operations done. Without AVX512-VNNI or AVX-VNNI, products of
/// 16 bits.
#[cfg(target_arch = "x86_64")]
fn multiply_bytes() -> usize {
    use std::arch::asm;
    use std::arch::x86_64::{
        _mm256_add_epi32, _mm256_dpbusd_avx_epi32, _mm256_madd_epi16, _mm256_set1_epi32, _mm512_dpbusd_epi32,
        _mm512_set1_epi32,
    };
    /// A function that does `$step` on chains of registers, of `$lanes` products each.
    macro_rules! chains {
        ($name:ident, $features:literal, $class:ident, $lanes:literal, $set:ident, |$sum:ident, $a:ident, $b:ident| $step:expr) => {
            #[target_feature(enable = $features)]
            fn $name() -> usize {
                let ($a, $b) = (
                    $set(std::hint::black_box(0x0102_0304)),
                    $set(std::hint::black_box(0x0506_0708)),
                );
                let mut chains = [$set(0); 12];
                for _ in 0..STEPS {
                    for $sum in &mut chains {
                        *$sum = $step;
                        // SAFETY: it does nothing, but the compiler cannot multiply instead of adding the same again.
                        unsafe {
                            asm!(
                                "/* {0} */",
                                inout($class) * $sum,
                                options(nomem, nostack, preserves_flags)
                            )
                        };
                    }
                }
                std::hint::black_box(chains);
                STEPS * 12 * $lanes * 2
            }
        };
    }
    chains!(
        wide,
        "avx512f,avx512vnni",
        zmm_reg,
        64,
        _mm512_set1_epi32,
        |sum, a, b| _mm512_dpbusd_epi32(*sum, a, b)
    );
    chains!(
        narrow,
        "avx2,avxvnni",
        ymm_reg,
        32,
        _mm256_set1_epi32,
        |sum, a, b| _mm256_dpbusd_avx_epi32(*sum, a, b)
    );
    chains!(pairs, "avx2", ymm_reg, 16, _mm256_set1_epi32, |sum, a, b| {
        _mm256_add_epi32(*sum, _mm256_madd_epi16(a, b))
    });
    if may_use_amx() {
        // SAFETY: the process may use the registers.
        unsafe { multiply_byte_squares() }
    } else if is_x86_feature_detected!("avx512vnni") {
        // SAFETY: the instructions were detected.
        unsafe { wide() }
    } else if is_x86_feature_detected!("avxvnni") {
        // SAFETY: the instructions were detected.
        unsafe { narrow() }
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: the instructions were detected.
        unsafe { pairs() }
    } else {
        portable()
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn multiply_bytes() -> usize {
    portable()
}

/// Products of bf16 in twelve independent chains of vectors; operations done. Without AVX512-BF16, those of f32.
fn multiply_halves() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm512_dpbf16_ps, _mm512_setzero_ps};

        #[target_feature(enable = "avx512f,avx512bf16")]
        fn wide() -> usize {
            // SAFETY: vectors of one size, whose bits are any numbers.
            let [a, b] = [0x3f80_bf80_u32, 0x3f00_3f80]
                .map(|pair| unsafe { std::mem::transmute([std::hint::black_box(pair); 16]) });
            let mut chains = [_mm512_setzero_ps(); 12];
            for _ in 0..STEPS {
                for chain in &mut chains {
                    *chain = _mm512_dpbf16_ps(*chain, a, b);
                }
            }
            std::hint::black_box(chains);
            STEPS * 12 * 32 * 2
        }
        if is_x86_feature_detected!("avx512bf16") && is_x86_feature_detected!("avx512f") {
            // SAFETY: the instructions were detected.
            return unsafe { wide() };
        }
    }
    multiply_add()
}

/// Operations per second that `threads` threads reach together with `round`, which says how many it does.
fn together(threads: usize, round: fn() -> usize, work: &OnceLock<usize>) -> f64 {
    let work = *work.get_or_init(round) * threads;
    let time = crate::median(Duration::from_millis(60), || {
        Pool::global().set_threads(threads);
        Pool::global().run(threads, 0, &|_| {
            round();
        });
    });
    work as f64 / time.as_secs_f64()
}

/// Operations per second that `threads` threads reach together with products of bytes that are summed in 32 bits.
pub fn dots(threads: usize) -> f64 {
    static WORK: OnceLock<usize> = OnceLock::new();
    together(threads, multiply_bytes, &WORK)
}

/// Operations per second that `threads` threads reach together with products of bf16 that are summed in f32, or with those of f32 where
/// these are faster.
pub fn half_dots(threads: usize) -> f64 {
    static WORK: OnceLock<usize> = OnceLock::new();
    together(threads, multiply_halves, &WORK).max(flops(threads))
}

/// Operations per second that `threads` threads reach together with squares of bf16 by AMX.
pub fn half_squares(threads: usize) -> f64 {
    static WORK: OnceLock<usize> = OnceLock::new();
    let round = || match may_use_amx() {
        // SAFETY: the process may use the registers.
        true => unsafe { multiply_half_squares() },
        false => multiply_halves(),
    };
    together(threads, round, &WORK)
}

/// Seconds in which `threads` threads read `bytes` bytes again and again: of the first ones of `memory`, so that they lie in the caches that
/// the operands of a case lie in.
pub fn reading(memory: &Memory, bytes: f64, threads: usize) -> f64 {
    let read = (bytes as usize).min(memory.len * 4);
    let time = crate::median(Duration::from_millis(150), || memory.read(read, threads));
    time.as_secs_f64() * bytes / read as f64
}
