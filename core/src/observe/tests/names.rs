//! Names of what a call is made of.

use super::{alone, numbers, profiled};
use crate::composite::composite;
use crate::context::{Context, Mode};
use crate::error::tag::OpTag;
use crate::tensor::Tensor;
use crate::value::Repr;
use crate::{grad, jit};
use parking_lot::Mutex;
use std::collections::HashSet;

/// The name that the node of a recorded op has.
fn name(tensor: &Tensor) -> String {
    match &tensor.repr {
        Repr::Lazy(lazy) => format!("{}.{}-{}", lazy.tag.name(), lazy.op.name(), lazy.tag.primitive),
        Repr::Value(_) | Repr::Constant(_) | Repr::Failed(_) => "it has a value".to_owned(),
    }
}

/// An op of two primitives; their names go to `seen`.
fn twice(x: &Tensor, seen: &Mutex<Vec<String>>) -> Tensor {
    let tag = OpTag::new("twice");
    composite("observe::tests::names::twice", &(), [x], tag, |[x]| {
        let once = x.exp();
        let twice = once.exp();
        seen.lock().extend([name(&once), name(&twice)]);
        twice
    })
}

#[test]
fn primitives_of_a_call_have_the_same_names_in_every_mode() {
    let _alone = alone();
    let cx = Context::new("cpu").unwrap();
    let wanted = ["Default/twice-op2.exp-1", "Default/twice-op2.exp-2"];
    for mode in [Mode::Eager, Mode::Graph] {
        cx.set_mode(mode);
        let x = numbers(&cx);
        let seen = Mutex::default();
        let run = || {
            crate::observe::restart_calls();
            twice(&x.abs(), &seen).to_vec::<f32>().unwrap();
        };
        profiled(&cx, run);
        assert_eq!(*seen.lock(), wanted, "{mode:?}");
    }
    let (x, seen) = (numbers(&cx), Mutex::default());
    let graph = jit(|x: &Tensor| twice(&x.abs(), &seen)).graph(&x).unwrap();
    assert_eq!(*seen.lock(), wanted);
    let names: Vec<String> = graph.nodes().iter().map(|node| node.name()).collect();
    assert_eq!(names[1..], ["Default/abs-op1", wanted[0], wanted[1]]);
}

#[test]
fn no_two_nodes_of_calls_and_their_gradients_have_one_name() {
    let cx = Context::new("cpu").unwrap();
    let x = numbers(&cx);
    let loss = grad(|x: &Tensor| ((x * x + 1.0).log_softmax(-1) * x.gelu()).sum());
    let graph = jit(|x: &Tensor| loss.call(x)).graph(&x).unwrap();
    let mut names = HashSet::new();
    for node in graph.nodes().iter().filter(|node| node.tag.call > 0) {
        assert!(
            names.insert(node.name()),
            "{} twice in\n{}",
            node.name(),
            graph.to_text()
        );
    }
    let has = |wanted: &str| names.iter().any(|name| name.starts_with(wanted));
    assert!(has("Default/log_softmax-op3."), "{names:#?}");
    assert!(has("Gradients/Default/log_softmax-op3."), "{names:#?}");
}
