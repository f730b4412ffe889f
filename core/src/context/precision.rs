//! The precision modes by name.

use crate::error::failure::Refusal;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

macro_rules! modes {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// In which precision the ops of a context compute: the eight modes of the field. An op takes its operands in the dtype that
        /// the mode says and gives its result in that, where nothing else is said; so results, gradients included, are the same eagerly
        /// and in graphs. f64 and integers never change.
        ///
        /// *Matrix ops* are products of matrices, convolutions and attention. *Full ops* are sums, products, means, variances and norms
        /// along axes, running sums, exponentials, logarithms, powers, softmax, normalisation, distances and losses. These are the lists
        /// of PyTorch's automatic mixed precision. Operands of other ops are promoted to the widest. What moves or chooses elements
        /// keeps their dtype.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
        pub enum Precision { $($(#[$doc])* $name,)* }

        impl Precision {
            /// Every mode.
            pub const ALL: &[Precision] = &[$(Precision::$name),*];

            /// The name in options.
            pub const fn name(self) -> &'static str {
                match self { $(Precision::$name => $text,)* }
            }
        }
    };
}

modes! {
    /// Every op computes in the dtype of its operands.
    #[default]
    MustKeepOriginDtype = "must_keep_origin_dtype";
    /// Arithmetic on f16 and bf16 is done in f32 and gives f32.
    ForceFp32 = "force_fp32";
    /// Arithmetic on f32 and bf16 is done in f16 and gives f16.
    ForceFp16 = "force_fp16";
    /// Matrix ops on f32 take f16 and sum in f32; their results are f32 again.
    AllowFp32ToFp16 = "allow_fp32_to_fp16";
    /// Matrix ops on f32 take bf16 and sum in f32; their results are f32 again.
    AllowFp32ToBf16 = "allow_fp32_to_bf16";
    /// As [`Precision::AllowMixPrecisionFp16`].
    AllowMixPrecision = "allow_mix_precision";
    /// Matrix ops take and give f16, full ops take and give f32.
    AllowMixPrecisionFp16 = "allow_mix_precision_fp16";
    /// Matrix ops take and give bf16, full ops take and give f32.
    AllowMixPrecisionBf16 = "allow_mix_precision_bf16";
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Precision {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Precision, Refusal> {
        let found = Precision::ALL.iter().find(|mode| mode.name() == text);
        found.copied().ok_or_else(|| {
            let names: Vec<&str> = Precision::ALL.iter().map(|mode| mode.name()).collect();
            Refusal::new(format!("there is no precision mode {text:?}"))
                .help(format!("it is one of {}", names.join(", ")))
        })
    }
}

/// Whether any context of the process has a mode that changes something.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// From now on contexts may have modes.
pub(super) fn activate() {
    ACTIVE.store(true, Ordering::Relaxed);
}

/// Whether a context may have a mode.
#[inline]
pub(crate) fn is_active() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}
