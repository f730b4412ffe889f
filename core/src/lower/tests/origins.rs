//! Which ops a step says it computes.

use super::judge::Cpu;
use super::random::{cases, graph};
use super::{Write, f32s};
use crate::graph::{Graph, Node, NodeId, Op, rewrite};
use crate::hal::ir::ScalarOp;
use crate::lower::{Given, Program, lower};
use crate::tensor::tag::OpTag;
use crate::types::layout::Layout;
use std::collections::BTreeSet;

/// The graph twice, on the same inputs, with every node as a call of its own: what is computed twice becomes one.
fn twice(of: &Graph) -> Graph {
    let mut graph = Graph::new();
    let mut call = 0;
    let inputs: Vec<NodeId> = of
        .inputs()
        .iter()
        .map(|&id| graph.input(of.node(id).ty))
        .collect();
    for _ in 0..2 {
        let mut moved: Vec<NodeId> = Vec::new();
        for node in of.nodes() {
            if let Op::Input(at) = node.op {
                moved.push(inputs[at as usize]);
                continue;
            }
            call += 1;
            let tag = OpTag {
                call,
                ..OpTag::new("op")
            };
            let operands: Vec<NodeId> = node.inputs.iter().map(|input| moved[input.index()]).collect();
            moved.push(graph.push(node.op.clone(), &operands, tag).unwrap());
        }
        of.outputs().iter().for_each(|id| graph.output(moved[id.index()]));
    }
    graph
}

fn lowered(graph: &Graph, cpu: &Cpu) -> Program {
    let given: Vec<Given> = (graph.inputs().iter())
        .map(|&id| Given::Buffer(Layout::contiguous(graph.node(id).ty.shape)))
        .collect();
    lower(graph, &given, cpu).unwrap()
}

/// The calls that the steps of a program compute.
fn told(program: &Program) -> BTreeSet<u32> {
    assert_eq!(program.steps.len(), program.origins.len());
    let parts = program.origins.iter().flat_map(|origin| &origin.parts);
    parts.map(|part| part.tag.call).collect()
}

/// The nodes of which outputs need an element.
fn needed(graph: &Graph) -> Vec<&Node> {
    let mut needed = vec![false; graph.nodes().len()];
    graph.outputs().iter().for_each(|id| needed[id.index()] = true);
    for (at, node) in graph.nodes().iter().enumerate().rev() {
        if needed[at] && node.ty.shape.elements() > 0 {
            node.inputs.iter().for_each(|input| needed[input.index()] = true);
        }
    }
    let all = graph.nodes().iter().zip(needed);
    all.filter(|(_, needed)| *needed).map(|(node, _)| node).collect()
}

/// Whether something computes the elements of a node.
fn is_work(node: &Node) -> bool {
    !node.op.is_view() && !matches!(node.op, Op::Input(_)) && node.ty.shape.elements() > 0
}

#[test]
fn every_call_that_is_live_is_in_a_step() {
    let mut calls = 0;
    for seed in 0..cases(300) {
        let Some(graph) = graph(seed) else { continue };
        let rewritten = rewrite(&twice(&graph));
        let live: BTreeSet<u32> = (needed(&rewritten).into_iter())
            .filter(|node| is_work(node))
            .flat_map(|node| node.tags().map(|tag| tag.call))
            .collect();
        for cpu in [Cpu::None, Cpu::Plain, Cpu::All] {
            let program = lowered(&rewritten, &cpu);
            let told = told(&program);
            let missing = &live - &told;
            assert!(
                missing.is_empty(),
                "seed {seed}: {missing:?} of\n{}",
                rewritten.to_text()
            );
            for origin in &program.origins {
                assert!(!origin.parts.is_empty(), "seed {seed}");
            }
        }
        calls += live.len();
    }
    assert!(calls > 1000, "{calls}");
}

#[test]
fn equal_calls_are_in_one_step_and_the_first_has_the_cost() {
    let mut w = Write::default();
    let x = w.0.input(f32s(&[4, 8]));
    let tag = |call| OpTag {
        call,
        ..OpTag::new("exp")
    };
    let first = w.0.push(Op::Map(ScalarOp::Exp), &[x], tag(1)).unwrap();
    let second = w.0.push(Op::Map(ScalarOp::Exp), &[x], tag(2)).unwrap();
    let sum =
        w.0.push(Op::Map(ScalarOp::Add), &[first, second], tag(3))
            .unwrap();
    w.0.output(sum);
    let program = lowered(&rewrite(&w.0), &Cpu::All);
    let [origin] = &program.origins[..] else {
        panic!("{program:#?}")
    };
    let parts: Vec<(u32, u64)> = origin
        .parts
        .iter()
        .map(|part| (part.tag.call, part.cost))
        .collect();
    // A function costs eight quick ops; it and a sum are two operations an element; 32 elements go in and out.
    assert_eq!(parts, [(1, 8 * 32), (2, 0), (3, 32)]);
    assert_eq!((origin.flops, origin.bytes), (64, 2 * 32 * 4));
}
