use super::*;
use crate::ir::KernelDesc;
use crate::status::Status;
use proptest::prelude::*;

fn conv(spatial: u32, epilogue: Option<Kernel>) -> Conv {
    let only = |value: i64| std::array::from_fn(|axis| if axis < spatial as usize { value } else { 0 });
    Conv {
        spatial,
        stride: only(2),
        dilation: only(1),
        padding: only(-3),
        operands: [DType::BF16; 2],
        accumulate: DType::F32,
        output: DType::BF16,
        fast: spatial > 1,
        epilogue,
    }
}

fn relu(outer: u32) -> Kernel {
    Kernel::parse(&format!(
        "kernel relu outer={outer} inner=0
p0 in f32 row contiguous
p1 out f32 row strided
s0 f32
n0 = load p0
n1 = scalar s0
n2 = max n0 n1
n3 = store p1 n2"
    ))
    .unwrap()
}

fn ops() -> Vec<LibraryOp> {
    let mut ops = vec![
        LibraryOp::Matmul(Matmul {
            batch: 2,
            operands: [DType::F32; 2],
            accumulate: DType::F32,
            output: DType::F32,
            epilogue: Some(relu(4)),
        }),
        LibraryOp::Sort(Sort {
            batch: 7,
            descending: true,
            indices: true,
            part: true,
            dtype: DType::F16,
        }),
        LibraryOp::Sort(Sort {
            batch: 0,
            descending: false,
            indices: false,
            part: false,
            dtype: DType::F64,
        }),
    ];
    for mask in [None, Some(DType::Bool), Some(DType::F32)] {
        ops.push(LibraryOp::Attention(Attention {
            batch: 2,
            causal: mask.is_none(),
            mask,
            dtype: DType::BF16,
            accumulate: DType::F32,
        }));
    }
    for spatial in 1..=3 {
        ops.push(LibraryOp::Conv(conv(spatial, Some(relu(3 + spatial)))));
        ops.push(LibraryOp::ConvGradInput(conv(spatial, None)));
        ops.push(LibraryOp::ConvGradWeight(conv(spatial, None)));
    }
    for combine in [
        None,
        Some(ReduceOp::Sum),
        Some(ReduceOp::Prod),
        Some(ReduceOp::Max),
        Some(ReduceOp::Min),
    ] {
        ops.push(LibraryOp::Scatter(Scatter {
            batch: 1,
            combine,
            dtype: DType::I32,
            accumulate: DType::I32,
            index: DType::I64,
        }));
        ops.push(LibraryOp::Scan(Scan {
            batch: 0,
            op: combine.unwrap_or(ReduceOp::Sum),
            exclusive: combine.is_none(),
            dtype: DType::U8,
            accumulate: DType::U32,
            output: DType::U64,
        }));
    }
    ops
}

fn desc_of<R>(op: &LibraryOp, with: impl FnOnce(&mut LibraryDesc) -> R) -> R {
    let owned = op.encode();
    let epilogue: Option<KernelDesc> = owned.epilogue();
    with(&mut owned.desc(epilogue.as_ref()))
}

fn decode(desc: &LibraryDesc) -> Result<LibraryOp> {
    // SAFETY: the epilogue is null or that of an op which lives through the call.
    unsafe { LibraryOp::decode(desc) }
}

#[test]
fn ops_survive_the_abi() {
    for op in ops() {
        assert_eq!(desc_of(&op, |desc| decode(desc)).unwrap(), op);
    }
}

#[test]
fn launches_follow_the_definition() {
    for op in ops() {
        let signature = op.signature().unwrap();
        match op.definition() {
            Ok(kernel) => {
                kernel.verify().unwrap();
                assert_eq!(signature.name, op.name());
                assert_eq!(signature.slots.len(), kernel.params.len());
            }
            Err(error) => {
                assert_eq!(error.status, Status::Unsupported);
                assert!(matches!(op, LibraryOp::Sort(_) | LibraryOp::Attention(_)));
            }
        }
    }
    let conv = LibraryOp::Conv(conv(2, Some(relu(5))));
    let signature = conv.signature().unwrap();
    assert_eq!((signature.outer, signature.inner), (5, 3));
    assert_eq!(signature.scalars[..4], [DType::I64; 4]);
    assert_eq!(signature.scalars[4..], [DType::F32]);
    let gathers: Vec<bool> = signature.slots.iter().map(|slot| slot.gathers).collect();
    assert_eq!(gathers, [true, false, false]);
}

#[test]
fn a_sort_is_two_kernels() {
    for dtype in DType::ALL {
        let sort = Sort {
            batch: 1,
            descending: dtype == DType::Bool,
            indices: dtype.size() < 4,
            part: dtype.is_float(),
            dtype,
        };
        if dtype.is_storage() {
            assert_eq!(sort.lowered().unwrap_err().status, Status::InvalidArgument);
            assert!(LibraryOp::Sort(sort).signature().is_err());
            continue;
        }
        for kernel in sort.lowered().unwrap() {
            kernel.verify().unwrap();
        }
    }
    let many = Sort {
        batch: 8,
        descending: false,
        indices: true,
        part: false,
        dtype: DType::F32,
    };
    assert_eq!(many.lowered().unwrap_err().status, Status::InvalidArgument);
}

#[test]
fn an_attention_is_three_kernels() {
    for op in ops() {
        let LibraryOp::Attention(op) = op else { continue };
        let steps = op.lowered().unwrap();
        steps.weights.verify().unwrap();
        for product in [steps.scores, steps.output] {
            product.definition().unwrap().verify().unwrap();
        }
    }
}

#[test]
fn what_breaks_a_rule_is_refused() {
    let refused = |op: LibraryOp, text: &str| {
        let error = desc_of(&op, |desc| decode(desc)).unwrap_err();
        assert_eq!(error.status, Status::InvalidArgument, "{}", error.message);
        assert!(error.message.contains(text), "{}", error.message);
    };
    refused(LibraryOp::Conv(conv(0, None)), "0 spatial axes");
    refused(LibraryOp::Conv(conv(4, None)), "4 spatial axes");
    refused(
        LibraryOp::Conv(Conv {
            stride: [1, 0, 0],
            ..conv(2, None)
        }),
        "spatial axis 1 has stride 0",
    );
    refused(
        LibraryOp::ConvGradInput(Conv {
            padding: [0, 0, 1],
            ..conv(2, None)
        }),
        "spatial axis 2, which is not there",
    );
    refused(LibraryOp::Conv(conv(2, Some(relu(4)))), "map over the outer axes");
    let scatter = Scatter {
        batch: 0,
        combine: Some(ReduceOp::ArgMax),
        dtype: DType::F32,
        accumulate: DType::F32,
        index: DType::I64,
    };
    refused(LibraryOp::Scatter(scatter.clone()), "cannot combine by argmax");
    refused(
        LibraryOp::Scatter(Scatter {
            index: DType::F32,
            ..scatter.clone()
        }),
        "the index is f32",
    );
    refused(
        LibraryOp::Scatter(Scatter {
            combine: None,
            dtype: DType::F16,
            ..scatter.clone()
        }),
        "set, not accumulated",
    );
    refused(
        LibraryOp::Scatter(Scatter { batch: 8, ..scatter }),
        "8 batch axes",
    );
    refused(
        LibraryOp::Scan(Scan {
            batch: 0,
            op: ReduceOp::Sum,
            exclusive: false,
            dtype: DType::F16,
            accumulate: DType::F16,
            output: DType::F16,
        }),
        "does not accumulate",
    );
    let attention = Attention {
        batch: 6,
        causal: false,
        mask: None,
        dtype: DType::F16,
        accumulate: DType::F32,
    };
    assert!(LibraryOp::Attention(attention.clone()).signature().is_ok());
    let broken = |change: fn(&mut Attention), text: &str| {
        let mut op = attention.clone();
        change(&mut op);
        refused(LibraryOp::Attention(op.clone()), text);
        assert_eq!(op.lowered().unwrap_err().status, Status::InvalidArgument);
    };
    broken(|op| op.batch = 7, "7 batch axes");
    broken(|op| op.dtype = DType::I32, "of i32 with sums in f32");
    broken(|op| op.dtype = DType::F8E5M2, "of f8e5m2 with sums in f32");
    broken(|op| op.accumulate = DType::F16, "of f16 with sums in f16");
    broken(
        |op| op.mask = Some(DType::F16),
        "a mask of f16; it is bool or f32",
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn no_descriptor_panics(
        op in 0_u32..10,
        count in 0_u32..10,
        dtypes in prop::array::uniform8(prop_oneof![4 => 0_u32..14, 1 => any::<u32>()]),
        attributes in prop::array::uniform24(prop_oneof![6 => Just(0_i64), 3 => -2_i64..9, 1 => any::<i64>()]),
    ) {
        let desc = LibraryDesc { op, dtype_count: count, dtypes, attributes, epilogue: std::ptr::null() };
        if let Ok(op) = decode(&desc) {
            prop_assert_eq!(desc_of(&op, |desc| decode(desc)).unwrap(), op);
        }
    }

    #[test]
    fn no_change_of_a_descriptor_panics(
        op in prop::sample::select(ops()),
        at in 0_usize..33,
        value in prop_oneof![2 => -3_i64..15, 1 => any::<i64>()],
    ) {
        desc_of(&op, |desc| {
            match at {
                0..8 => desc.dtypes[at] = value as u32,
                8..32 => desc.attributes[at - 8] = value,
                _ => desc.op = value as u32,
            }
            match decode(desc) {
                Ok(found) => assert_eq!(desc_of(&found, |desc| decode(desc)).unwrap(), found),
                Err(error) => assert!(matches!(
                    error.status,
                    Status::InvalidArgument | Status::Unsupported | Status::CompileFailed
                ), "{}", error.message),
            }
        });
    }
}
