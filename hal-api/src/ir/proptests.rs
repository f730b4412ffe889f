//! Strategies for kernels.

use super::arbitrary::{RandomKernel, random_kernel};
use super::{Access, Kernel, Level, Node, NodeId, Param, ReduceOp, Role, ScalarOp};
use crate::dtype::DType;
use proptest::prelude::*;
use proptest::sample::select;

fn any_node() -> impl Strategy<Value = Node> {
    let id = || prop_oneof![0u32..40, any::<u32>()].prop_map(NodeId);
    let dtype = || select(&DType::ALL[..]);
    let index = || prop_oneof![0u32..8, any::<u32>()];
    prop_oneof![
        (
            dtype(),
            prop_oneof![
                any::<u64>(),
                any::<u32>().prop_map(u64::from),
                any::<u8>().prop_map(u64::from)
            ]
        )
            .prop_map(|(dtype, bits)| Node::Const { dtype, bits }),
        index().prop_map(|index| Node::Scalar { index }),
        index().prop_map(|param| Node::Load { param }),
        (index(), id()).prop_map(|(param, index)| Node::LoadAt { param, index }),
        index().prop_map(|axis| Node::Index { axis }),
        (select(ScalarOp::ALL), id(), id(), id()).prop_map(|(op, a, b, c)| {
            let args = match op.arity() {
                1 => [a, a, a],
                2 => [a, b, a],
                _ => [a, b, c],
            };
            Node::Op { op, args }
        }),
        (dtype(), id()).prop_map(|(dtype, arg)| Node::Cast { dtype, arg }),
        (id(), id()).prop_map(|(key, counter)| Node::Rand { key, counter }),
        (select(ReduceOp::ALL), id()).prop_map(|(op, arg)| Node::Reduce { op, arg }),
        (index(), id()).prop_map(|(param, value)| Node::Store { param, value }),
    ]
}

/// Kernels that have a text form, most of them ill formed.
pub(crate) fn any_kernel() -> impl Strategy<Value = Kernel> {
    let dtype = || select(&DType::ALL[..]);
    let param = (
        dtype(),
        select(Role::ALL),
        select(Level::ALL),
        select(Access::ALL),
    )
        .prop_map(|(dtype, role, level, access)| Param {
            dtype,
            role,
            level,
            access,
        });
    let parts = (
        "[A-Za-z0-9_.:-]{1,128}",
        0u32..=8,
        0u32..=8,
        prop::collection::vec(param, 0..6),
        prop::collection::vec(dtype(), 0..4),
        prop::collection::vec(any_node(), 0..40),
    );
    parts.prop_map(|(name, outer, inner, params, scalars, nodes)| Kernel {
        name,
        outer,
        inner,
        params,
        scalars,
        nodes,
    })
}

/// Well-formed kernels.
pub(crate) fn good_kernel(options: RandomKernel) -> impl Strategy<Value = Kernel> {
    any::<u64>().prop_map(move |seed| random_kernel(&mut splitmix(seed), &options))
}

/// Steele et al., "Fast splittable pseudorandom number generators".
fn splitmix(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

proptest! {
    #[test]
    fn random_kernels_are_well_formed(kernel in good_kernel(RandomKernel::default())) {
        prop_assert!(kernel.verify().is_ok(), "{:?}\n{}", kernel.verify(), kernel.to_text());
        prop_assert_eq!(Kernel::parse(&kernel.to_text()), Ok(kernel));
    }

    #[test]
    fn options_are_kept(seed: u64, outer in 0u32..3, inner in 0u32..3, nodes in 8usize..60) {
        let options = RandomKernel {
            dtypes: vec![DType::F32, DType::I64],
            ops: vec![ScalarOp::Add, ScalarOp::Lt],
            reduces: vec![ReduceOp::Max],
            max_outer: outer,
            max_inner: inner,
            max_nodes: nodes,
            max_params: 4,
            gather: false,
            rand: false,
        };
        let kernel = random_kernel(&mut splitmix(seed), &options);
        let info = kernel.verify();
        prop_assert!(info.is_ok(), "{:?}\n{}", info, kernel.to_text());
        prop_assert!(kernel.outer <= outer && kernel.inner <= inner && kernel.params.len() <= 4);
        prop_assert!(kernel.nodes.len() <= nodes);
        prop_assert!(kernel.params.iter().map(|p| p.dtype).chain(kernel.scalars).all(|d| options.dtypes.contains(&d)));
        for node in &kernel.nodes {
            match node {
                Node::Op { op, .. } => prop_assert!(options.ops.contains(op)),
                Node::Reduce { op, .. } => prop_assert_eq!(*op, ReduceOp::Max),
                Node::LoadAt { .. } | Node::Rand { .. } => prop_assert!(false),
                _ => {}
            }
        }
        for dtype in info.unwrap().dtypes.into_iter().flatten() {
            prop_assert!(options.dtypes.contains(&dtype) || dtype == DType::Bool);
        }
    }

    #[test]
    fn verify_judges_any_kernel(kernel in any_kernel()) {
        if let Ok(info) = kernel.verify() {
            prop_assert_eq!(info.dtypes.len(), kernel.nodes.len());
            prop_assert_eq!(info.levels.len(), kernel.nodes.len());
        }
    }
}

#[test]
fn random_kernels_cover_the_ir() {
    let mut seen = std::collections::HashSet::new();
    let mut next = splitmix(7);
    for _ in 0..500 {
        let kernel = random_kernel(&mut next, &RandomKernel::default());
        seen.extend(kernel.nodes.iter().map(|node| match node {
            Node::Op { op, .. } => op.name().to_owned(),
            Node::Reduce { op, .. } => format!("reduce {op}"),
            other => format!("{:?}", std::mem::discriminant(other)),
        }));
    }
    assert_eq!(
        seen.len(),
        ScalarOp::ALL.len() + ReduceOp::ALL.len() + 8,
        "{seen:?}"
    );
}
