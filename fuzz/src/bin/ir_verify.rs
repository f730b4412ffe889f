//! Any description decodes or is refused; one that verifies survives both of its forms.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_hal::Str;
use thalweg_hal::ir::{Kernel, KernelDesc, NodeDesc, ParamDesc, decode, encode};

/// Numbers taken from the front of the input; 0 when it is used up.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u32 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        u32::from(*first)
    }

    /// Small mostly, so that references hit; any 32 bits after an escape.
    fn number(&mut self) -> u32 {
        match self.byte() {
            255 => (0..4).fold(0, |n, _| n << 8 | self.byte()),
            small => small,
        }
    }

    fn node(&mut self) -> NodeDesc {
        let (group, code) = (self.byte() % 4, self.byte());
        let op = if group == 3 { self.number() } else { group << 8 | code };
        let desc = NodeDesc { op, dtype: self.number(), a: self.number(), b: self.number(), ..NodeDesc::default() };
        let (c, reserved) = (self.number(), self.number());
        let imm = u64::from(self.number()) << 32 | u64::from(self.number());
        NodeDesc { c, reserved, imm, ..desc }
    }
}

fuzz_target!(|data: &[u8]| {
    let mut bytes = Bytes(data);
    let (outer, inner) = (bytes.number(), bytes.number());
    let name = if bytes.byte() == 0 { "fuzz" } else { "a b" };
    let params: Vec<ParamDesc> = (0..bytes.byte() % 80)
        .map(|_| ParamDesc { dtype: bytes.number(), role: bytes.number(), level: bytes.number(), access: bytes.number() })
        .collect();
    let scalars: Vec<u32> = (0..bytes.byte() % 80).map(|_| bytes.number()).collect();
    let mut nodes = Vec::new();
    while !bytes.0.is_empty() {
        nodes.push(bytes.node());
    }
    let desc = KernelDesc {
        name: Str::new(name),
        outer,
        inner,
        params: params.as_ptr(),
        param_count: params.len(),
        scalars: scalars.as_ptr(),
        scalar_count: scalars.len(),
        nodes: nodes.as_ptr(),
        node_count: nodes.len(),
    };
    // SAFETY: the vectors outlive the call.
    let Ok(kernel) = (unsafe { decode(&desc) }) else { return };
    let verified = kernel.verify();
    let owned = encode(&kernel);
    // SAFETY: `owned` outlives the call.
    assert_eq!(unsafe { decode(&owned.desc()) }.as_ref(), Ok(&kernel));
    if let Ok(info) = verified {
        assert_eq!(info.dtypes.len(), kernel.nodes.len());
        assert_eq!(Kernel::parse(&kernel.to_text()), Ok(kernel));
    }
});
