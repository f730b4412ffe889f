//! How near to the definition a scalar op must come.

use thalweg_hal::DType;
use thalweg_hal::ir::{Rounding, ScalarOp};

/// How many units in the last place a result may be off. The rows of the ops have the limits that OpenCL C sets for
/// full-profile devices; f16 and bf16 compute in f32, so that one unit is left.
pub(super) fn tolerance(op: ScalarOp, dtype: DType) -> u64 {
    let single = match op.rounding() {
        Rounding::Exact => 0,
        Rounding::Ulps(count) => count.into(),
    };
    match dtype {
        DType::F16 | DType::BF16 => single.min(1),
        _ => single,
    }
}
