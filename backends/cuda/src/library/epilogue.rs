//! Which epilogues a product of the library may have.

use thalweg_hal::ir::{Access, Kernel, Node, NodeId, Role, ScalarOp};

/// Whether an epilogue is `sum + x` with one further input, nothing rounded on the way: every parameter has the sum's dtype. So a map
/// after the product, or the library's bias where `x` is one, adds what eager code adds to what eager code sums. Other epilogues of
/// the library are none of the IR's: `max` hands NaN on and orders zeros, which its `relu` does not promise; its `gelu` is an
/// approximation of unstated precision.
pub(super) fn adds(epilogue: &Kernel) -> bool {
    let [sum, x, out] = &epilogue.params[..] else {
        return false;
    };
    let dtypes = x.dtype == sum.dtype && out.dtype == sum.dtype;
    let roles = sum.role == Role::In && x.role == Role::In && out.role == Role::Out;
    let strided = x.access == Access::Strided && out.access == Access::Strided;
    let node = |id: NodeId| epilogue.nodes.get(id.index()).copied();
    let loads = |id: NodeId, from: u32| node(id) == Some(Node::Load { param: from });
    let Some(&Node::Store { param: 2, value }) = epilogue.nodes.last() else {
        return false;
    };
    let Some(Node::Op {
        op: ScalarOp::Add,
        args: [a, b, _],
    }) = node(value)
    else {
        return false;
    };
    dtypes
        && roles
        && strided
        && epilogue.scalars.is_empty()
        && epilogue.nodes.len() == 4
        && (loads(a, 0) && loads(b, 1) || loads(a, 1) && loads(b, 0))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn is_sum(dtypes: [&str; 3], nodes: &[&str]) -> bool {
        let [sum, x, out] = dtypes;
        let mut text = format!(
            "kernel epilogue outer=2 inner=0\np0 in {sum} row contiguous\np1 in {x} row strided\n\
             p2 out {out} row strided\n"
        );
        for (i, node) in nodes.iter().enumerate() {
            text.push_str(&format!("n{i} = {node}\n"));
        }
        adds(&Kernel::parse(&text).unwrap())
    }

    #[test]
    fn one_addition_in_the_dtype_of_the_sum() {
        for dtype in ["f32", "f64"] {
            let sums = [
                ["load p0", "load p1", "add n0 n1", "store p2 n2"],
                ["load p0", "load p1", "add n1 n0", "store p2 n2"],
                ["load p1", "load p0", "add n1 n0", "store p2 n2"],
            ];
            assert!(sums.iter().all(|nodes| is_sum([dtype; 3], nodes)), "{dtype}");
        }
    }

    #[test]
    fn what_is_more_or_less_is_none() {
        let f32s = ["f32"; 3];
        for nodes in [
            &["load p0", "load p1", "mul n0 n1", "store p2 n2"][..],
            &["load p0", "load p1", "sub n0 n1", "store p2 n2"],
            &["load p0", "load p1", "add n0 n0", "store p2 n2"],
            &["load p0", "load p1", "add n1 n1", "store p2 n2"],
            &["load p0", "load p1", "store p2 n0"],
            &["load p0", "load p1", "add n0 n1", "add n2 n1", "store p2 n3"],
            &["load p0", "load p1", "add n0 n1", "neg n2", "store p2 n3"],
            &[
                "load p0",
                "load p1",
                "cast f16 n1",
                "cast f32 n2",
                "add n0 n3",
                "store p2 n4",
            ],
        ] {
            assert!(!is_sum(f32s, nodes), "{nodes:?}");
        }
        let narrow = [
            "load p0",
            "load p1",
            "cast f32 n1",
            "add n0 n2",
            "cast f16 n3",
            "store p2 n4",
        ];
        assert!(!is_sum(["f32", "f16", "f16"], &narrow));
        let scalar = "kernel epilogue outer=2 inner=0\np0 in f32 row contiguous\np1 out f32 row strided\ns0 f32\n\
                      n0 = load p0\nn1 = scalar s0\nn2 = add n0 n1\nn3 = store p1 n2\n";
        assert!(!adds(&Kernel::parse(scalar).unwrap()));
    }
}
