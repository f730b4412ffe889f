//! Neighbouring points of a pack two by two: values of f16 and bf16 are halves of a word where an op takes both at once.

use super::walk::Work;
use crate::scalar;
use crate::write::{Point, Writer};
use thalweg_hal::DType;
use thalweg_hal::ir::{Node, NodeId, ScalarOp};

/// How a value of f16 or bf16 comes about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Both at once, in a word.
    Pair,
    /// Each as f32, to be rounded.
    Rounded,
    /// One way or the other, as others need it: nothing is rounded.
    Either,
    /// Each as f32; other dtypes too.
    Single,
}

/// What others need of each node: both in a word, each as f32.
struct Needs {
    pair: Vec<bool>,
    single: Vec<bool>,
}

impl Writer<'_> {
    /// Whether a parameter is f16 or bf16.
    pub(super) fn is_half(&self, param: usize) -> bool {
        scalar::is_half(self.body.kernel.params[param].dtype)
    }

    /// Whether any value of a walk is f16 or bf16.
    pub(super) fn has_halves(&self, work: &Work<'_>) -> bool {
        let mut dtypes = work.nodes.iter().map(|&i| match self.body.kernel.nodes[i] {
            Node::Store { value, .. } => self.body.info.dtypes[value.index()],
            _ => self.body.info.dtypes[i],
        });
        dtypes.any(|dtype| dtype.is_some_and(scalar::is_half))
    }

    /// What is done at the points of a pack whose parameters are in `x` and `y`.
    pub(super) fn pairs(&mut self, row: &str, work: &Work<'_>) {
        let mut own = vec![false; self.body.kernel.nodes.len()];
        work.nodes.iter().for_each(|&i| own[i] = true);
        let needs = self.needs(work);
        let point = |which, last, lane| Point {
            last,
            lane: Some(lane),
            pack: "",
            pair: Some((which, own.as_slice())),
        };
        let points = [point(0, "k0", "v"), point(1, "k1", "v + 1")];
        for i in (0..own.len()).filter(|&i| needs.pair[i] && !own[i]) {
            self.pair(i, format!("tl_pair_{}(n{i}, n{i})", self.half(i)));
        }
        self.line("TL_UNROLL");
        self.open(format!("for (i32 v = 0; v < {}; v += 2)", self.variant.lanes));
        self.line("const idx k0 = j + v, k1 = k0 + 1;");
        for &i in work.nodes {
            self.within(i, |writer| writer.node_of_pair(i, &points, &needs));
        }
        for (point, lane) in points.iter().zip(["[v]", "[v + 1]"]) {
            self.reduce(point, row, lane, work.reductions);
        }
        self.close();
    }

    /// What the nodes of a walk and its reductions need of each node.
    fn needs(&self, work: &Work<'_>) -> Needs {
        let nodes = &self.body.kernel.nodes;
        let mut needs = Needs {
            pair: vec![false; nodes.len()],
            single: vec![false; nodes.len()],
        };
        for reduction in work.reductions {
            needs.single[reduction.arg] = true;
        }
        for &i in work.nodes.iter().rev() {
            let (pair, single) = match self.way(i) {
                Way::Pair => (true, false),
                Way::Either => (needs.pair[i], needs.single[i]),
                Way::Rounded | Way::Single => (false, true),
            };
            for arg in nodes[i].args().map(NodeId::index) {
                let half = self.body.info.dtypes[arg].is_some_and(scalar::is_half);
                needs.pair[arg] |= pair && half;
                needs.single[arg] |= single || !half;
            }
        }
        needs
    }

    fn way(&self, i: usize) -> Way {
        let body = self.body;
        let half = |id: NodeId| scalar::is_half(body.dtype(id));
        match body.kernel.nodes[i] {
            Node::Load { param } | Node::Store { param, .. }
                if self.is_half(param as usize) && self.packs(param as usize) =>
            {
                Way::Pair
            }
            Node::Op { op, args } if half(args[op.arity() - 1]) => match op {
                ScalarOp::Add | ScalarOp::Sub | ScalarOp::Mul | ScalarOp::Max | ScalarOp::Min => Way::Pair,
                ScalarOp::Neg | ScalarOp::Abs | ScalarOp::Select => Way::Either,
                _ if self.unrounded(i, None).is_some() => Way::Rounded,
                _ => Way::Single,
            },
            Node::Cast { .. } if self.unrounded(i, None).is_some() => Way::Rounded,
            _ => Way::Single,
        }
    }

    /// The dtype of a half.
    fn half(&self, i: usize) -> DType {
        self.body.info.dtypes[i].unwrap_or(DType::F16)
    }

    /// Both values of a node, in a word.
    fn pair(&mut self, i: usize, value: String) {
        self.line(format!("const u32 h{i} = {value};"));
    }

    /// One node as statements for both points.
    fn node_of_pair(&mut self, i: usize, points: &[Point<'_>; 2], needs: &Needs) {
        let nodes = &self.body.kernel.nodes;
        let dtype = self.half(i);
        let both = |name: &dyn Fn(&Point<'_>) -> String| points.each_ref().map(name).join(", ");
        match self.way(i) {
            Way::Pair => {
                let value = match nodes[i] {
                    Node::Store { param, value } => {
                        self.line(format!("y{param}[v / 2] = h{};", value.0));
                        return;
                    }
                    Node::Load { param } => format!("x{param}[v / 2]"),
                    Node::Op { op, args: [a, b, _] } => {
                        format!("tl_{}_{dtype}x2(h{}, h{})", op.name(), a.0, b.0)
                    }
                    _ => return,
                };
                self.pair(i, value);
                self.single_of_pair(i, points, needs);
            }
            Way::Either => {
                if let Node::Op { op, args: [a, b, c] } = nodes[i]
                    && needs.pair[i]
                {
                    let value = match op {
                        ScalarOp::Select => {
                            let which = both(&|point| self.name_of('n', a.index(), Some(point)));
                            format!("tl_select_x2({which}, h{}, h{})", b.0, c.0)
                        }
                        _ => format!("tl_{}_x2(h{})", op.name(), a.0),
                    };
                    self.pair(i, value);
                }
                if needs.single[i] {
                    points.iter().for_each(|point| self.node(i, Some(point)));
                }
            }
            Way::Rounded => {
                for point in points {
                    if let Some(value) = self.unrounded(i, Some(point)) {
                        let wide = self.name_of('z', i, Some(point));
                        self.line(format!("const f32 {wide} = {value};"));
                    }
                }
                // bf16 is rounded to f32 by one instruction; f16 takes two, but one of them rounds a pair.
                let through_pair = needs.single[i] && dtype == DType::F16;
                if needs.pair[i] || through_pair {
                    let wide = both(&|point| self.name_of('z', i, Some(point)));
                    self.pair(i, format!("tl_pair_{dtype}({wide})"));
                }
                if through_pair {
                    self.single_of_pair(i, points, needs);
                } else if needs.single[i] {
                    for point in points {
                        let (name, wide) = (
                            self.name_of('n', i, Some(point)),
                            self.name_of('z', i, Some(point)),
                        );
                        let value = scalar::rounded(dtype, wide);
                        self.line(format!("const f32 {name} = {value};"));
                    }
                }
            }
            Way::Single => {
                points.iter().for_each(|point| self.node(i, Some(point)));
                if needs.pair[i] {
                    let values = both(&|point| self.name_of('n', i, Some(point)));
                    self.pair(i, format!("tl_pair_{dtype}({values})"));
                }
            }
        }
    }

    /// Each value of a word, where one needs it.
    fn single_of_pair(&mut self, i: usize, points: &[Point<'_>; 2], needs: &Needs) {
        if needs.single[i] {
            for (point, part) in points.iter().zip(["low", "high"]) {
                let name = self.name_of('n', i, Some(point));
                let dtype = self.half(i);
                self.line(format!("const f32 {name} = tl_{part}_{dtype}(h{i});"));
            }
        }
    }
}
