//! The CPU features that a plugin may ask for, by the names of `std::arch`.

use super::error::LoadError;

macro_rules! detector {
    ($macro:ident: $($name:tt)*) => {
        const NAMES: &[&str] = &[$($name),*];

        fn has(feature: &str) -> Option<bool> {
            match feature {
                $($name => Some(std::arch::$macro!($name)),)*
                _ => None,
            }
        }
    };
}

#[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
detector! { is_x86_feature_detected:
    "sse" "sse2" "sse3" "ssse3" "sse4.1" "sse4.2" "popcnt" "avx" "avx2" "fma" "f16c" "bmi1" "bmi2" "lzcnt" "movbe" "adx"
    "aes" "pclmulqdq" "sha" "gfni" "vaes" "vpclmulqdq" "avxvnni"
    "avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl" "avx512ifma" "avx512vbmi" "avx512vbmi2" "avx512vnni"
    "avx512bitalg" "avx512vpopcntdq" "avx512bf16" "avx512fp16"
}

#[cfg(target_arch = "aarch64")]
detector! { is_aarch64_feature_detected:
    "neon" "fp16" "dotprod" "bf16" "i8mm" "sve" "sve2" "lse" "rdm" "fcma" "fhm" "aes" "sha2" "sha3" "crc"
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64")))]
const NAMES: &[&str] = &[];

#[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64")))]
fn has(_: &str) -> Option<bool> {
    None
}

/// The features by which plugins may be built that this machine has.
pub fn present() -> impl Iterator<Item = &'static str> {
    NAMES.iter().copied().filter(|name| has(name) == Some(true))
}

/// Whether this machine has all of `features`.
///
/// # Errors
/// The first one that is absent or not known by name.
pub(super) fn check(features: &[String]) -> Result<(), LoadError> {
    for feature in features {
        match has(feature) {
            Some(true) => {}
            Some(false) => return Err(LoadError::CpuFeature(feature.clone())),
            None => return Err(LoadError::UnknownCpuFeature(feature.clone())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_asked_by_name() {
        let always = if cfg!(target_arch = "x86_64") {
            "sse2"
        } else {
            "neon"
        };
        assert_eq!(check(&[always.into()]), Ok(()));
        assert!(present().any(|name| name == always) && present().all(|name| check(&[name.into()]).is_ok()));
        assert_eq!(
            check(&["warp9".into()]),
            Err(LoadError::UnknownCpuFeature("warp9".into()))
        );
    }
}
