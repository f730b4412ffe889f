use super::*;
use crate::ir::proptests::any_kernel;
use crate::ir::{MAX_NODES, MAX_RANK};
use crate::status::Status;
use proptest::prelude::*;

fn refused(desc: &KernelDesc) -> (Status, String) {
    // SAFETY: each test keeps what its description points to alive.
    let error = unsafe { decode(desc) }.unwrap_err();
    (error.status, error.message)
}

fn with_node(node: NodeDesc) -> (Status, String) {
    let owned = Owned {
        nodes: vec![node],
        ..encode(&Kernel::new("k", 1, 1))
    };
    refused(&owned.desc())
}

#[test]
fn unknown_values_are_refused() {
    let node = NodeDesc {
        op: OP_CAST,
        dtype: 1,
        ..NodeDesc::default()
    };
    for op in [0, 9, 0x100, 0x1ff, 0x200, 0x207, 0x300, u32::MAX] {
        assert_eq!(
            with_node(NodeDesc { op, ..node }),
            (Status::Unsupported, format!("n0: unknown opcode {op:#x}"))
        );
    }
    let invalid = |text: &str| (Status::InvalidArgument, text.to_owned());
    assert_eq!(
        with_node(NodeDesc { dtype: 16, ..node }),
        invalid("n0: unknown dtype code 16")
    );
    for odd in [
        NodeDesc { reserved: 1, ..node },
        NodeDesc { imm: 1, ..node },
        NodeDesc { b: 1, ..node },
    ] {
        assert_eq!(
            with_node(odd),
            invalid("n0: a field that the op does not use is not 0")
        );
    }

    let good = ParamDesc {
        dtype: 1,
        role: 1,
        level: 1,
        access: 1,
    };
    for (bad, text) in [
        (ParamDesc { dtype: 0, ..good }, "p1: unknown dtype code 0"),
        (ParamDesc { role: 3, ..good }, "p1: unknown role code 3"),
        (ParamDesc { level: 0, ..good }, "p1: unknown level code 0"),
        (ParamDesc { access: 4, ..good }, "p1: unknown access code 4"),
    ] {
        let owned = Owned {
            params: vec![good, bad],
            ..encode(&Kernel::new("k", 1, 1))
        };
        assert_eq!(refused(&owned.desc()), invalid(text));
    }
}

#[test]
fn nothing_is_read_beyond_the_limits() {
    let owned = encode(&Kernel::new("k", 1, 1));
    // A dangling pointer would crash if it were read.
    let far = std::ptr::without_provenance::<u8>(16);
    let good = owned.desc();
    for desc in [
        KernelDesc {
            nodes: far.cast(),
            node_count: MAX_NODES + 1,
            ..good
        },
        KernelDesc {
            params: far.cast(),
            param_count: usize::MAX,
            ..good
        },
        KernelDesc {
            scalars: far.cast(),
            scalar_count: 65,
            ..good
        },
        KernelDesc {
            name: Str { ptr: far, len: 129 },
            ..good
        },
        KernelDesc {
            outer: MAX_RANK as u32 + 1,
            ..good
        },
        KernelDesc {
            inner: u32::MAX,
            ..good
        },
        KernelDesc {
            nodes: std::ptr::null(),
            node_count: 1,
            ..good
        },
        KernelDesc {
            nodes: std::ptr::without_provenance(17),
            node_count: 1,
            ..good
        },
        KernelDesc {
            name: Str {
                ptr: std::ptr::null(),
                len: 1,
            },
            ..good
        },
        KernelDesc {
            name: Str {
                ptr: b"\xff".as_ptr(),
                len: 1,
            },
            ..good
        },
    ] {
        assert_eq!(refused(&desc).0, Status::InvalidArgument, "{desc:?}");
    }
}

proptest! {
    #[test]
    fn decode_undoes_encode(kernel in any_kernel()) {
        let owned = encode(&kernel);
        // SAFETY: `owned` is alive.
        prop_assert_eq!(unsafe { decode(&owned.desc()) }, Ok(kernel));
    }
}
