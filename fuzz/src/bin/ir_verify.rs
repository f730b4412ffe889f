//! Any description decodes or is refused; one that verifies survives both of its forms.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_hal::Str;
use thalweg_hal::ir::arbitrary::{RandomKernel, random_kernel};
use thalweg_hal::ir::{
    Kernel, KernelDesc, NodeDesc, OP_CAST, OP_CONST, OP_INDEX, OP_LOAD, OP_RAND, OP_REDUCE_OP, OP_SCALAR,
    OP_SCALAR_OP, ParamDesc, ReduceOp, ScalarOp, decode, encode,
};

/// Numbers taken from the front of the input; 0 when it is used up.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u32 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        u32::from(*first)
    }

    /// Any 32 bits after an escape, one byte otherwise.
    fn number(&mut self) -> u32 {
        match self.byte() {
            255 => (0..4).fold(0, |n, _| n << 8 | self.byte()),
            small => small,
        }
    }

    /// A code from 1 on, rarely an unknown one.
    fn code(&mut self, count: usize) -> u32 {
        match self.byte() {
            255 => self.number(),
            byte => byte % count as u32 + 1,
        }
    }

    /// A node of a known op with what the op uses, or anything after an escape.
    fn node(&mut self, at: u32) -> NodeDesc {
        let kind = self.byte();
        let zero = NodeDesc::default();
        if kind == 255 {
            let (op, dtype, reserved) = (self.number(), self.number(), self.number());
            let (a, b, c, imm) = (self.number(), self.number(), self.number(), self.number());
            return NodeDesc {
                op,
                dtype,
                a,
                b,
                c,
                reserved,
                imm: imm.into(),
            };
        }
        // Counted backwards, so that a removed node leaves the rest in place.
        let mut id = || at.wrapping_sub(self.number());
        match kind {
            64..128 => {
                let op = ScalarOp::ALL[kind as usize % ScalarOp::ALL.len()];
                let a = id();
                let b = if op.arity() > 1 { id() } else { a };
                let c = if op.arity() > 2 { id() } else { a };
                NodeDesc {
                    op: OP_SCALAR_OP + op.code(),
                    a,
                    b,
                    c,
                    ..zero
                }
            }
            128..160 => {
                let op = ReduceOp::ALL[kind as usize % ReduceOp::ALL.len()];
                NodeDesc {
                    op: OP_REDUCE_OP + op.code(),
                    a: id(),
                    ..zero
                }
            }
            _ => match kind % 8 + 1 {
                OP_CONST => NodeDesc {
                    op: OP_CONST,
                    dtype: self.code(13),
                    imm: self.number().into(),
                    ..zero
                },
                OP_CAST => NodeDesc {
                    op: OP_CAST,
                    a: id(),
                    dtype: self.code(13),
                    ..zero
                },
                op @ (OP_SCALAR | OP_LOAD | OP_INDEX) => NodeDesc {
                    op,
                    a: self.number(),
                    ..zero
                },
                OP_RAND => NodeDesc {
                    op: OP_RAND,
                    a: id(),
                    b: id(),
                    ..zero
                },
                op => NodeDesc {
                    op,
                    b: id(),
                    a: self.number(),
                    ..zero
                },
            },
        }
    }
}

/// Decodes and verifies; what verifies survives both of its forms.
fn judge(desc: &KernelDesc) {
    // SAFETY: the callers' vectors outlive the call.
    let Ok(kernel) = (unsafe { decode(desc) }) else {
        return;
    };
    let verified = kernel.verify();
    let owned = encode(&kernel);
    // SAFETY: `owned` outlives the call.
    assert_eq!(unsafe { decode(&owned.desc()) }.as_ref(), Ok(&kernel));
    if let Ok(info) = verified {
        assert_eq!(info.dtypes.len(), kernel.nodes.len());
        assert_eq!(Kernel::parse(&kernel.to_text()), Ok(kernel));
    }
}

/// A kernel from nothing.
fn built(bytes: &mut Bytes<'_>) {
    let (outer, inner) = (bytes.number(), bytes.number());
    let name = if bytes.byte() == 0 { "fuzz" } else { "a b" };
    let params: Vec<ParamDesc> = (0..bytes.byte() % 80)
        .map(|_| {
            let (dtype, role, level, access) = (bytes.code(13), bytes.code(2), bytes.code(2), bytes.code(3));
            ParamDesc {
                dtype,
                role,
                level,
                access,
            }
        })
        .collect();
    let scalars: Vec<u32> = (0..bytes.byte() % 80).map(|_| bytes.code(13)).collect();
    let mut nodes = Vec::new();
    while !bytes.0.is_empty() {
        nodes.push(bytes.node(nodes.len() as u32));
    }
    judge(&KernelDesc {
        name: Str::new(name),
        outer,
        inner,
        params: params.as_ptr(),
        param_count: params.len(),
        scalars: scalars.as_ptr(),
        scalar_count: scalars.len(),
        nodes: nodes.as_ptr(),
        node_count: nodes.len(),
    });
}

/// A well-formed kernel in which nodes are replaced.
fn damaged(bytes: &mut Bytes<'_>) {
    let edits: Vec<(u32, NodeDesc)> = (0..bytes.byte() % 4)
        .map(|_| {
            let at = bytes.byte();
            (at, bytes.node(at))
        })
        .collect();
    let mut next = || u64::from(bytes.byte() << 8 | bytes.byte());
    let kernel = random_kernel(&mut next, &RandomKernel::default());
    assert_eq!(kernel.verify().err(), None, "{}", kernel.to_text());
    let owned = encode(&kernel);
    let desc = owned.desc();
    // SAFETY: `owned` outlives the slice.
    let mut nodes = unsafe { std::slice::from_raw_parts(desc.nodes, desc.node_count) }.to_vec();
    for (at, node) in edits {
        if let Some(slot) = nodes.get_mut(at as usize) {
            *slot = node;
        }
    }
    judge(&KernelDesc {
        nodes: nodes.as_ptr(),
        ..desc
    });
}

fuzz_target!(|data: &[u8]| {
    let mut bytes = Bytes(data);
    if bytes.byte() % 2 == 0 {
        built(&mut bytes)
    } else {
        damaged(&mut bytes)
    }
});
