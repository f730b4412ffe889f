//! The table of ops by name.

use crate::context::{Context, Precision};
use crate::hal::DType;
use crate::hal::ir::Mixed;
use crate::ops::NamedOp;
use crate::tensor::Tensor;
use std::collections::HashSet;

#[test]
fn no_name_occurs_twice() {
    let mut names = HashSet::new();
    for op in NamedOp::all() {
        assert!(names.insert(op.name()), "{}", op.name());
        assert_eq!(
            NamedOp::find(op.name()).map(NamedOp::operands),
            Some(op.operands())
        );
    }
    assert!(NamedOp::find("no such op").is_none());
}

/// A row says what the op does: what may not run in 16 bits returns f32.
#[test]
fn mixed_precision_treats_each_op_as_its_row_says() {
    let cx = Context::builder().device_target("cpu");
    let cx = (cx.precision_mode(Precision::AllowMixPrecisionFp16).build()).unwrap();
    let x = Tensor::from_slice(&[0.25_f32, 0.75], [2], &cx).cast(DType::F16);
    let mut judged = 0;
    for op in NamedOp::all() {
        let operands = [&x, &x];
        let result = op.call(&operands[..op.operands()]).unwrap();
        let wanted = match op.mixed() {
            Mixed::Full => DType::F32,
            Mixed::Narrow | Mixed::Kept => DType::F16,
        };
        match result.dtype() {
            Ok(dtype) if dtype.is_float() => {
                assert_eq!(dtype, wanted, "{}", op.name());
                judged += 1;
            }
            // Truth values, and ops of integers alone.
            Ok(DType::Bool) => assert_ne!(op.mixed(), Mixed::Full, "{}", op.name()),
            other => assert!(op.name().starts_with("bitwise_"), "{}: {other:?}", op.name()),
        }
    }
    assert!(judged > 50, "{judged} ops of floats");
}
