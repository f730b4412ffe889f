//! Values of a kernel's nodes, and where in memory they are loaded from and stored to.

use super::{Point, Writer};
use crate::scalar;
use crate::variant::{DROPPED, Step};
use thalweg_hal::DType;
use thalweg_hal::ir::{Level, Node, NodeId};

impl Writer<'_> {
    /// Whether a node is computed at every point of a walk.
    pub(crate) fn at_points(&self, node: usize) -> bool {
        match self.variant.is_map() {
            true => !self.uniform[node],
            false => self.body.info.levels[node] == Level::Element,
        }
    }

    /// Whether a parameter's address moves with the walk.
    pub(crate) fn moves(&self, param: usize) -> bool {
        self.variant.is_map() || self.body.kernel.params[param].level == Level::Element
    }

    /// Element offset of a parameter at a point; `None` outside of walks.
    pub(crate) fn offset(&self, param: usize, point: Option<&Point<'_>>) -> String {
        let offset = self.offset_of_row(param, point);
        match self.variant.row_steps.get(param) {
            None | Some(Step::Zero) => offset,
            Some(Step::Unit) => format!("{offset} + v"),
            Some(Step::Any) => format!("{offset} + v * t{param}_{}", self.variant.outer - 1),
        }
    }

    /// Without what the row adds to the first of those that are walked side by side.
    fn offset_of_row(&self, param: usize, point: Option<&Point<'_>>) -> String {
        let base = (self.variant.outer > 0).then(|| format!("q{param}"));
        let Some(point) = point.filter(|_| self.moves(param)) else {
            return base.unwrap_or_else(|| "0".into());
        };
        let inner = self.variant.inner as usize;
        let base = if inner > 1 {
            Some(format!("u{param}"))
        } else {
            base
        };
        let along = match self.variant.steps[param] {
            Step::Zero => None,
            Step::Unit => Some(point.last.to_owned()),
            Step::Any => Some(format!("{} * s{param}_{}", point.last, inner - 1)),
        };
        match (base, along) {
            (Some(base), Some(along)) => format!("{base} + {along}"),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => "0".into(),
        }
    }

    /// Name of a node's value, or with another letter of what is beside it.
    pub(crate) fn name_of(&self, letter: char, node: usize, point: Option<&Point<'_>>) -> String {
        let suffix = point.map(|point| point.suffix(node)).unwrap_or_default();
        format!("{letter}{node}{suffix}")
    }

    /// One node as a statement.
    pub(crate) fn node(&mut self, i: usize, point: Option<&Point<'_>>) {
        self.within(i, |writer| writer.statement(i, point));
    }

    fn statement(&mut self, i: usize, point: Option<&Point<'_>>) {
        if let Node::Store { param, value } = self.body.kernel.nodes[i] {
            return self.store(param as usize, value.index(), point);
        }
        let dtype = self.body.info.dtypes[i].unwrap_or(DType::Bool);
        let name = self.name_of('n', i, point);
        // What is stored is rounded once, not as a value and then again as an element.
        let wide = self
            .unrounded(i, point)
            .filter(|_| self.is_cuda() && self.stored[i]);
        let value = match wide {
            Some(value) => {
                let wide = self.name_of('z', i, point);
                self.line(format!("const f32 {wide} = {value};"));
                scalar::rounded(dtype, wide)
            }
            None => match self.value(i, point) {
                Some(value) => value,
                None => return,
            },
        };
        let register = scalar::register(dtype);
        self.line(format!("const {register} {name} = {value};"));
    }

    fn store(&mut self, p: usize, value: usize, point: Option<&Point<'_>>) {
        let paired = point.is_some_and(|point| !point.suffix(value).is_empty());
        let wide = self.is_cuda() && !paired && self.unrounded(value, point).is_some();
        let value = self.name_of(if wide { 'z' } else { 'n' }, value, point);
        let element = scalar::stored(self.body.kernel.params[p].dtype, &value);
        let to = match point.and_then(|point| point.lane) {
            Some(lane) if self.packs(p) => format!("y{p}[{lane}]"),
            _ => format!("p{p}[{}]", self.offset(p, point)),
        };
        self.line(format!("{to} = {element};"));
    }

    /// What the last step of a node rounds to f16 or bf16.
    pub(crate) fn unrounded(&self, i: usize, point: Option<&Point<'_>>) -> Option<String> {
        let body = self.body;
        let name = |id: NodeId| self.name_of('n', id.index(), point);
        match body.kernel.nodes[i] {
            Node::Op { op, args } => {
                let dtype = body.dtype(args[op.arity() - 1]);
                let [a, b, c] = args.map(name);
                scalar::unrounded(op, dtype, [&a, &b, &c])
            }
            Node::Cast { dtype, arg } => scalar::unrounded_cast(body.dtype(arg), dtype, &name(arg)),
            _ => None,
        }
    }

    /// A node's value; `None` for stores, and for reductions, which are written by the walk over their argument.
    fn value(&mut self, i: usize, point: Option<&Point<'_>>) -> Option<String> {
        let body = self.body;
        let name = |id: NodeId| self.name_of('n', id.index(), point);
        Some(match body.kernel.nodes[i] {
            Node::Const { dtype, bits } => scalar::constant(dtype, bits),
            Node::Scalar { index } => {
                scalar::of_bits(body.kernel.scalars[index as usize], &format!("c{index}"))
            }
            Node::Load { param } => {
                let p = param as usize;
                let element = match point.and_then(|point| Some((point.pack, point.lane?))) {
                    Some((pack, lane)) if self.packs(p) => format!("x{p}{pack}[{lane}]"),
                    _ => format!("p{p}[{}]", self.offset(p, point)),
                };
                scalar::loaded(body.param(param).dtype, &element)
            }
            Node::LoadAt { param, index } => {
                let (p, index, dtype) = (param as usize, name(index), body.param(param).dtype);
                let inside = self.name_of('g', i, point);
                self.line(format!(
                    "const bool {inside} = {index} >= 0 && (u64){index} < ge{p};"
                ));
                let at = format!("{} + (idx){index} * gs{p}", self.offset(p, point));
                let element = scalar::loaded(dtype, &format!("p{p}[{at}]"));
                let zero = scalar::constant(dtype, 0);
                format!("{inside} ? {element} : {zero}")
            }
            Node::Index { axis } => self.index(axis as usize, point),
            Node::Op { op, args } => {
                let dtype = body.dtype(args[op.arity() - 1]);
                let [a, b, c] = args.map(name);
                scalar::op(op, dtype, [&a, &b, &c])
            }
            Node::Cast { dtype, arg } => scalar::cast(body.dtype(arg), dtype, &name(arg)),
            Node::Rand { key, counter } => format!("tl_philox({}, {})", name(key), name(counter)),
            Node::Store { .. } | Node::Reduce { .. } => return None,
        })
    }

    fn index(&self, axis: usize, point: Option<&Point<'_>>) -> String {
        let at = self.variant.axes[axis];
        if at == DROPPED {
            return "(i64)0".into();
        }
        if !self.variant.is_map() && axis < self.body.outer() {
            let side_by_side = !self.variant.row_steps.is_empty() && at + 1 == self.variant.outer;
            return if side_by_side {
                format!("(i64)(r{at} + v)")
            } else {
                format!("(i64)r{at}")
            };
        }
        match point {
            Some(point) if at + 1 == self.variant.inner => format!("(i64)({})", point.last),
            _ => format!("(i64)d{at}"),
        }
    }

    /// Whether a parameter is moved in packs where points are packed.
    pub(crate) fn packs(&self, param: usize) -> bool {
        self.body.touched[param] && self.moves(param) && self.variant.steps[param] == Step::Unit
    }
}
