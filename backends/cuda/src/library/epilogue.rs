//! Which epilogues are one of cuBLASLt's.

use thalweg_hal::DType;
use thalweg_hal::ir::{Kernel, Level, Node, NodeId, ScalarOp};

/// Whether an epilogue adds its second input, an element for each sum, and stores that in the input's dtype: one addition in
/// the sum's dtype, rounded once when it is stored. Other epilogues of the library are none of the IR's: `max` hands NaN
/// on and orders zeros, which the library does not promise of its `relu`; its `gelu` is an approximation of unstated precision, while
/// the IR's functions have bounds. A product that is rounded to f16 before its bias is added is not the library's either,
/// which adds in f32.
pub(super) fn adds_bias(epilogue: &Kernel) -> bool {
    let [sum, bias, out] = &epilogue.params[..] else {
        return false;
    };
    let node = |id: NodeId| epilogue.nodes[id.index()];
    // The node behind the conversion from one dtype to another; the node itself where they are the same.
    let converted = |id: NodeId, from: DType, to: DType| match node(id) {
        Node::Cast { dtype, arg } if from != to && dtype == to => Some(node(arg)),
        same if from == to => Some(same),
        _ => None,
    };
    let mut stores = epilogue.nodes.iter().filter_map(|node| match *node {
        Node::Store { value, .. } => Some(value),
        _ => None,
    });
    let (Some(stored), None) = (stores.next(), stores.next()) else {
        return false;
    };
    let Some(Node::Op {
        op: ScalarOp::Add,
        args: [x, y, _],
    }) = converted(stored, sum.dtype, out.dtype)
    else {
        return false;
    };
    let is_sum = |id: NodeId| matches!(node(id), Node::Load { param: 0 });
    let is_bias = |id: NodeId| {
        matches!(
            converted(id, bias.dtype, sum.dtype),
            Some(Node::Load { param: 1 })
        )
    };
    (is_sum(x) && is_bias(y) || is_bias(x) && is_sum(y))
        && bias.dtype == out.dtype
        && bias.level == Level::Row
        && epilogue.scalars.is_empty()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn adds(sum: &str, bias: &str, out: &str, nodes: &[&str]) -> bool {
        let mut text = format!(
            "kernel epilogue outer=2 inner=0\np0 in {sum} row contiguous\np1 in {bias} row strided\n\
             p2 out {out} row strided\n"
        );
        for (i, node) in nodes.iter().enumerate() {
            text.push_str(&format!("n{i} = {node}\n"));
        }
        adds_bias(&Kernel::parse(&text).unwrap())
    }

    #[test]
    fn a_bias_is_added_in_the_dtype_of_the_sum() {
        let plain = ["load p0", "load p1", "add n0 n1", "store p2 n2"];
        assert!(adds("f32", "f32", "f32", &plain));
        assert!(adds("f64", "f64", "f64", &plain));
        let turned = ["load p0", "load p1", "add n1 n0", "store p2 n2"];
        assert!(adds("f32", "f32", "f32", &turned));
        let narrow = [
            "load p0",
            "load p1",
            "cast f32 n1",
            "add n0 n2",
            "cast f16 n3",
            "store p2 n4",
        ];
        assert!(adds("f32", "f16", "f16", &narrow));
    }

    #[test]
    fn what_is_more_than_a_bias_is_refused() {
        // What becomes of the sum: truncated, rounded on the way, added twice.
        let truncated = [
            "load p0",
            "load p1",
            "add n0 n1",
            "cast i32 n2",
            "cast f32 n3",
            "store p2 n4",
        ];
        assert!(!adds("f32", "f32", "f32", &truncated));
        let through_f16 = [
            "load p0",
            "load p1",
            "add n0 n1",
            "cast f16 n2",
            "cast bf16 n3",
            "store p2 n4",
        ];
        assert!(!adds("f32", "bf16", "bf16", &through_f16));
        let twice = ["load p0", "load p1", "add n0 n1", "add n2 n1", "store p2 n3"];
        assert!(!adds("f32", "f32", "f32", &twice));
        // What becomes of the bias, and of the sum before it.
        let whole = [
            "load p0",
            "load p1",
            "cast i32 n1",
            "cast f32 n2",
            "add n0 n3",
            "store p2 n4",
        ];
        assert!(!adds("f32", "f32", "f32", &whole));
        let rounded = ["load p0", "load p1", "cast f16 n0", "add n2 n1", "store p2 n3"];
        assert!(!adds("f32", "f16", "f16", &rounded));
        let wide = ["load p0", "load p1", "cast f32 n1", "add n0 n2", "store p2 n3"];
        assert!(!adds("f32", "f16", "f32", &wide));
        let other = ["load p0", "load p1", "mul n0 n1", "store p2 n2"];
        assert!(!adds("f32", "f32", "f32", &other));
    }
}
