//! How this thread computes with floats: a library that was built with `-ffast-math` turns subnormal numbers off when it is
//! loaded, and with that the bits of every result.

/// The control words of the floating-point units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Float {
    vector: u64,
    scalar: u16,
}

/// Runs `body`, after which this thread computes with floats as before.
pub(crate) fn kept<R>(body: impl FnOnce() -> R) -> R {
    let before = Float::now();
    let result = body();
    if before.restore() {
        tracing::warn!("a backend changed how floats are rounded or flushed to zero, which was put back");
    }
    result
}

#[cfg(target_arch = "x86_64")]
impl Float {
    /// Bits of what has happened, not of how to compute.
    const FLAGS: u32 = 0x3f;

    pub(crate) fn now() -> Float {
        let (mut vector, mut scalar) = (0_u32, 0_u16);
        // SAFETY: both write one number to where they are told to.
        unsafe {
            std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut vector, options(nostack, preserves_flags));
            std::arch::asm!("fnstcw [{}]", in(reg) &raw mut scalar, options(nostack, preserves_flags));
        }
        Float {
            vector: u64::from(vector & !Float::FLAGS),
            scalar,
        }
    }

    /// Puts back what has changed since, and says whether something had.
    pub(crate) fn restore(self) -> bool {
        if self == Float::now() {
            return false;
        }
        let (vector, scalar) = (self.vector as u32, self.scalar);
        // SAFETY: the numbers were read from the same registers.
        unsafe {
            std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const vector, options(nostack, preserves_flags));
            std::arch::asm!("fldcw [{}]", in(reg) &raw const scalar, options(nostack, preserves_flags));
        }
        true
    }
}

#[cfg(target_arch = "aarch64")]
impl Float {
    pub(crate) fn now() -> Float {
        let vector: u64;
        // SAFETY: it reads a register.
        unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) vector, options(nomem, nostack, preserves_flags)) };
        Float { vector, scalar: 0 }
    }

    /// Puts back what has changed since, and says whether something had.
    pub(crate) fn restore(self) -> bool {
        if self == Float::now() {
            return false;
        }
        // SAFETY: the number was read from the same register.
        unsafe {
            std::arch::asm!("msr fpcr, {}", in(reg) self.vector, options(nomem, nostack, preserves_flags))
        };
        true
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
impl Float {
    pub(crate) fn now() -> Float {
        Float { vector: 0, scalar: 0 }
    }

    /// Nothing is known of this processor's control words.
    pub(crate) fn restore(self) -> bool {
        false
    }
}
