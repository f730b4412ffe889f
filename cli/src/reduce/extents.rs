//! Graphs with smaller extents.

use super::trial::Trial;
use std::collections::BTreeSet;
use std::error::Error;
use thalweg::Shape;
use thalweg::graph::{Graph, NodeId, Op, Type};
use thalweg::tensor::tag::OpTag;

/// Which extents become another number.
#[derive(Clone, Copy)]
enum Which {
    /// All that are this number.
    All(usize),
    /// That of one axis of an input.
    One(NodeId, usize),
}

/// Each extent as small as is found by bisection: those of one number together, then each axis of each input.
pub(super) fn smaller(graph: Graph, trial: &mut Trial<'_>) -> Result<Graph, Box<dyn Error>> {
    let mut best = graph;
    let numbers: BTreeSet<usize> = (best.inputs().iter())
        .flat_map(|&input| best.shape(input).to_vec())
        .collect();
    for number in numbers.into_iter().rev() {
        best = bisected(best, Which::All(number), number, trial)?;
    }
    for input in best.inputs().to_vec() {
        for axis in 0..best.shape(input).len() {
            let extent = best.shape(input)[axis];
            best = bisected(best, Which::One(input, axis), extent, trial)?;
        }
    }
    Ok(best)
}

fn bisected(
    graph: Graph,
    which: Which,
    extent: usize,
    trial: &mut Trial<'_>,
) -> Result<Graph, Box<dyn Error>> {
    let (mut low, mut high, mut best) = (0, extent, None);
    while high - low > 1 && !trial.is_over() {
        // 1 is good enough for most.
        let middle = if low == 0 && high == extent {
            1
        } else {
            low + (high - low) / 2
        };
        match resized(&graph, which, middle) {
            Some(smaller) if trial.holds(&smaller)? => (best, high) = (Some(smaller), middle),
            _ => low = middle,
        }
    }
    Ok(best.unwrap_or(graph))
}

/// The graph with other extents; `None` where no such graph is valid.
fn resized(graph: &Graph, which: Which, to: usize) -> Option<Graph> {
    let changed = |shape: &Shape| -> Option<Shape> {
        let new = |&extent: &usize| match which {
            Which::All(number) if extent == number => to,
            _ => extent,
        };
        Shape::new(&shape.iter().map(new).collect::<Vec<_>>()).ok()
    };
    let mut small = Graph::new();
    for (node, id) in graph.nodes().iter().zip((0..).map(NodeId)) {
        if let Op::Input(_) = node.op {
            let mut extents = changed(&node.ty.shape)?.to_vec();
            if let Which::One(input, axis) = which
                && input == id
            {
                extents[axis] = to;
            }
            small.input(Type::new(Shape::new(&extents).ok()?, node.ty.dtype));
            continue;
        }
        let operand = || {
            Some((
                graph.shape(*node.inputs.first()?),
                *small.shape(*node.inputs.first()?),
            ))
        };
        let op = match &node.op {
            Op::Full { dtype, bits, shape } => Op::Full {
                dtype: *dtype,
                bits: *bits,
                shape: changed(shape)?,
            },
            Op::Index { axis, shape } => Op::Index {
                axis: *axis,
                shape: changed(shape)?,
            },
            Op::Expand(shape) => {
                let (old, new) = operand()?;
                Op::Expand(expanded(shape, changed(shape)?, old, &new)?)
            }
            Op::Reshape(shape) => Op::Reshape(reshaped(shape, changed(shape)?, operand()?.1)?),
            Op::Slice { start, step, shape } => {
                let (old, new) = operand()?;
                let mut extents = changed(shape)?.to_vec();
                for (axis, extent) in extents.iter_mut().enumerate() {
                    // The whole axis stays the whole axis.
                    if shape[axis] == old[axis] {
                        *extent = new[axis];
                    }
                }
                Op::Slice {
                    start: *start,
                    step: step.clone(),
                    shape: Shape::new(&extents).ok()?,
                }
            }
            Op::Pad { low, shape, bits } => {
                let (old, new) = operand()?;
                let axes = shape.iter().zip(old.iter()).zip(new.iter());
                let extents: Vec<usize> = axes.map(|((all, old), new)| all - old + new).collect();
                Op::Pad {
                    low: *low,
                    shape: Shape::new(&extents).ok()?,
                    bits: *bits,
                }
            }
            Op::ConvGradInput(attributes, shape) => Op::ConvGradInput(*attributes, changed(shape)?),
            Op::ConvGradWeight(attributes, shape) => Op::ConvGradWeight(*attributes, changed(shape)?),
            other => other.clone(),
        };
        small.push(op, &node.inputs, OpTag::NONE).ok()?;
    }
    graph.outputs().iter().for_each(|&output| small.output(output));
    Some(small)
}

/// What an operand is repeated to: axes that are not repeated follow it.
fn expanded(before: &Shape, after: Shape, old: &Shape, new: &Shape) -> Option<Shape> {
    let mut extents = after.to_vec();
    let added = extents.len().checked_sub(old.len())?;
    for (axis, (old, new)) in old.iter().zip(new.iter()).enumerate() {
        if before[added + axis] == *old {
            extents[added + axis] = *new;
        }
    }
    Shape::new(&extents).ok()
}

/// A shape of as many elements as the operand has: one extent gives way where there are others.
fn reshaped(before: &Shape, after: Shape, operand: Shape) -> Option<Shape> {
    let elements = operand.elements();
    if after.elements() == elements {
        return Some(after);
    }
    [after, *before].into_iter().find_map(|shape| {
        (0..shape.len()).find_map(|axis| {
            let mut extents = shape.to_vec();
            let others: usize = extents
                .iter()
                .enumerate()
                .filter(|(at, _)| *at != axis)
                .map(|(_, extent)| extent)
                .product();
            let fits = others > 0 && elements > 0 && elements.is_multiple_of(others);
            extents[axis] = elements.checked_div(others)?;
            fits.then(|| Shape::new(&extents).ok()).flatten()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(graph: &str, which: Which, to: usize) -> Option<String> {
        Some(resized(&Graph::parse(graph).unwrap(), which, to)?.to_text())
    }

    #[test]
    fn shapes_follow_those_of_the_inputs() {
        let graph = "graph main\n%0: f32[4,6] = input\n%1: f32[6] = input\n%2: f32[4,6] = expand %1\n\
                     %3: f32[4,6] = add %0 %2\n%4: f32[24] = reshape %3\n\
                     %5: f32[26] = pad %4 low=[1] bits=0x0\n%6: f32[4,3] = slice %3 start=[0,1] step=[1,2]\n\
                     return %5 %6\n";
        let graph = Graph::parse(graph).map_or_else(|error| panic!("{error}"), |graph| graph.to_text());
        let rows = text(&graph, Which::All(4), 1).unwrap();
        for line in [
            "%0: f32[1,6] = input",
            "%2: f32[1,6] = expand %1",
            "%4: f32[6] = reshape %3",
            "%5: f32[8] = pad %4",
            "%6: f32[1,3] = slice %3",
        ] {
            assert!(rows.contains(line), "{rows}");
        }
        // The other elements are not there any more.
        assert_eq!(text(&graph, Which::All(6), 1), None);
        // An operand alone does not fit to the other.
        assert_eq!(text(&graph, Which::One(NodeId(0), 1), 2), None);
        assert_eq!(text(&graph, Which::One(NodeId(0), 0), 2), None);
    }

    #[test]
    fn an_axis_of_one_input_is_smaller_where_no_other_has_it() {
        let graph = "graph main\n%0: f32[8,8] = input\n%1: f32[8,8] = input\n%2: f32[8,8] = matmul %0 %1 accumulate=f32\n\
                     %3: f32[64] = reshape %2\nreturn %3\n";
        let rows = text(graph, Which::One(NodeId(0), 0), 1).unwrap();
        assert!(
            rows.contains("%2: f32[1,8] = matmul") && rows.contains("%3: f32[8] = reshape"),
            "{rows}"
        );
        assert_eq!(text(graph, Which::One(NodeId(0), 1), 1), None);
        let all = text(graph, Which::All(8), 1).unwrap();
        assert!(
            all.contains("%2: f32[1,1] = matmul") && all.contains("%3: f32[1] = reshape"),
            "{all}"
        );
    }
}
