//! Products and solvers.

use crate::case::Attributes;
use thalweg::Tensor;

pub(super) fn call(name: &str, inputs: &[Tensor], attributes: &Attributes) -> Option<Vec<Tensor>> {
    let a = inputs.first()?;
    let b = || &inputs[1];
    Some(vec![match name {
        "matmul" => a.matmul(b()),
        "bmm" => a.bmm(b()),
        "dot" => a.dot(b()),
        "vdot" => a.vdot(b()),
        "outer" => a.outer(b()),
        "linear" => a.linear(b(), inputs.get(2)),
        "addmm" => a.addmm(b(), &inputs[2], attributes.need("beta"), attributes.need("alpha")),
        "cross" => a.cross(b(), attributes.need("axis")),
        "tensordot" => {
            let axes = |key| attributes.list::<i32>(key).unwrap();
            a.tensordot(b(), axes("a"), axes("b"))
        }
        "einsum" => Tensor::einsum(
            attributes.text("equation").unwrap(),
            &inputs.iter().collect::<Vec<_>>(),
        ),
        "solve_triangular" => a.solve_triangular(b(), attributes.flag("upper"), attributes.flag("unit")),
        _ => return None,
    }])
}
