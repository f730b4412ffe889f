//! From a kernel and a variant to source.

mod attention;
mod axis;
mod columns;
mod fold;
mod generic;
mod matmul;
mod pairs;
mod panel;
mod program;
mod rows;
mod sort;
mod taps;
mod walk;

pub(crate) use program::Text;
#[cfg(test)]
pub(crate) use program::preamble;
use program::sanitized;

use crate::axis::AxisOp;
use crate::body::Body;
use crate::routine::{Kind, Source};
use crate::space::GONE;
use crate::variant::{Form, Step, Variant};
use crate::{Dialect, Target, scalar};
use thalweg_hal::DType;
use thalweg_hal::ir::{Level, Node, NodeId, Role};

/// Writes the program of a variant.
pub(crate) fn kernel(body: &Body, kind: &Kind, variant: &Variant, target: &Target) -> Source {
    let mut writer = Writer {
        body,
        variant,
        target,
        text: Text::default(),
        uniform: uniform(body),
        stored: stored(body),
    };
    let passes = match variant.form {
        Form::Rows { split: true, .. } => body.depth() + 1,
        Form::Sort { long: true } => 3,
        Form::Product { split: true, .. } | Form::Axis { split: true } => 2,
        // The base is copied first.
        Form::Axis { split: false } => 1 + u32::from(matches!(kind, Kind::Axis(AxisOp::Scatter(_)))),
        Form::Generic => return generic::program(target),
        Form::Map
        | Form::Columns { .. }
        | Form::Rows { split: false, .. }
        | Form::Sort { long: false }
        | Form::Attention { .. }
        | Form::Product { split: false, .. } => 1,
    };
    let name = sanitized(&body.kernel.name);
    let entries: Vec<String> = (0..passes).map(|pass| format!("tl_{name}_{pass}")).collect();
    let by_value = writer.words_by_value();
    writer.head(by_value);
    if let Kind::Sort(op) = kind {
        writer.sort_head(op);
    }
    if let Kind::Attention(op) = kind {
        writer.attention_head(op);
    }
    for (pass, entry) in (0..).zip(&entries) {
        writer.open(entry, by_value);
        match variant.form {
            Form::Map => writer.map(),
            Form::Rows { by_group, split } => writer.rows(by_group, split.then_some(pass)),
            Form::Columns { rows } => writer.rows_side_by_side(rows),
            Form::Axis { split } => {
                if let Kind::Axis(op) = kind {
                    writer.along_axis(op, split, pass);
                }
            }
            Form::Sort { long } => writer.sort(long, pass),
            Form::Attention { .. } => {
                if let Kind::Attention(op) = kind {
                    writer.attention(op);
                }
            }
            // Written above.
            Form::Generic => {}
            Form::Product { config, split, .. } => {
                if let Kind::Product(roles, _) = kind
                    && let Some(product) = writer.product(roles, split)
                {
                    writer.write_product(&product, config, pass);
                }
            }
        }
        writer.text.close();
    }
    Source {
        text: writer.text.into_string(),
        entries,
        pointers: body.kernel.params.len(),
        words_by_value: by_value,
    }
}

/// Whether each node is the same at every point: nothing in it is loaded or an index.
fn uniform(body: &Body) -> Vec<bool> {
    let mut uniform: Vec<bool> = Vec::with_capacity(body.kernel.nodes.len());
    for node in &body.kernel.nodes {
        let own = match node {
            Node::Load { .. }
            | Node::LoadAt { .. }
            | Node::Index { .. }
            | Node::Reduce { .. }
            | Node::Store { .. } => false,
            Node::Const { .. }
            | Node::Scalar { .. }
            | Node::Op { .. }
            | Node::Cast { .. }
            | Node::Rand { .. } => true,
        };
        uniform.push(own && node.args().all(|arg| uniform[arg.index()]));
    }
    uniform
}

/// Whether each node's value is stored as it is.
fn stored(body: &Body) -> Vec<bool> {
    let mut stored = vec![false; body.kernel.nodes.len()];
    for node in &body.kernel.nodes {
        if let Node::Store { value, .. } = node {
            stored[value.index()] = true;
        }
    }
    stored
}

struct Writer<'a> {
    body: &'a Body,
    variant: &'a Variant,
    target: &'a Target,
    text: Text,
    uniform: Vec<bool>,
    stored: Vec<bool>,
}

/// Where element-level nodes are evaluated.
struct Point<'a> {
    /// Index along the last axis.
    last: &'a str,
    /// The lane at which parameters with unit steps were loaded into `x`, and are stored from `y`.
    lane: Option<&'a str>,
    /// Where two points are written side by side: which of them this is, and the nodes that each has a value of.
    pair: Option<(usize, &'a [bool])>,
}

impl<'a> Point<'a> {
    /// A point whose parameters are reached in memory.
    fn at(last: &'a str) -> Point<'a> {
        Point {
            last,
            lane: None,
            pair: None,
        }
    }

    /// What the name of a node's value ends in.
    fn suffix(&self, node: usize) -> String {
        match self.pair {
            Some((which, own)) if own[node] => format!("_{which}"),
            _ => String::new(),
        }
    }
}

impl Writer<'_> {
    /// Whether a node is computed at every point of a walk.
    fn at_points(&self, node: usize) -> bool {
        match self.variant.form {
            Form::Map => !self.uniform[node],
            Form::Rows { .. }
            | Form::Columns { .. }
            | Form::Axis { .. }
            | Form::Sort { .. }
            | Form::Attention { .. }
            | Form::Generic
            | Form::Product { .. } => self.body.info.levels[node] == Level::Element,
        }
    }

    /// Whether a parameter's address moves with the walk.
    fn moves(&self, param: usize) -> bool {
        self.variant.form == Form::Map || self.body.kernel.params[param].level == Level::Element
    }

    /// Element offset of a parameter at a point; `None` outside of walks.
    fn offset(&self, param: usize, point: Option<&Point<'_>>) -> String {
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
    fn name_of(&self, letter: char, node: usize, point: Option<&Point<'_>>) -> String {
        let suffix = point.map(|point| point.suffix(node)).unwrap_or_default();
        format!("{letter}{node}{suffix}")
    }

    /// One node as a statement.
    fn node(&mut self, i: usize, point: Option<&Point<'_>>) {
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
                self.text.line(format!("const f32 {wide} = {value};"));
                scalar::rounded(dtype, wide)
            }
            None => match self.value(i, point) {
                Some(value) => value,
                None => return,
            },
        };
        let register = scalar::register(dtype);
        self.text.line(format!("const {register} {name} = {value};"));
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
        self.text.line(format!("{to} = {element};"));
    }

    /// What the last step of a node rounds to f16 or bf16.
    fn unrounded(&self, i: usize, point: Option<&Point<'_>>) -> Option<String> {
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
                let element = match point.and_then(|point| point.lane) {
                    Some(lane) if self.packs(p) => format!("x{p}[{lane}]"),
                    _ => format!("p{p}[{}]", self.offset(p, point)),
                };
                scalar::loaded(body.param(param).dtype, &element)
            }
            Node::LoadAt { param, index } => {
                let (p, index, dtype) = (param as usize, name(index), body.param(param).dtype);
                let inside = self.name_of('g', i, point);
                self.text.line(format!(
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
        let home = self.variant.homes[axis];
        if home == GONE {
            return "(i64)0".into();
        }
        if self.variant.form != Form::Map && axis < self.body.outer() {
            let side_by_side = !self.variant.row_steps.is_empty() && home + 1 == self.variant.outer;
            return if side_by_side {
                format!("(i64)(r{home} + v)")
            } else {
                format!("(i64)r{home}")
            };
        }
        match point {
            Some(point) if home + 1 == self.variant.inner => format!("(i64)({})", point.last),
            _ => format!("(i64)d{home}"),
        }
    }

    /// Whether a parameter is moved in packs where points are packed.
    fn packs(&self, param: usize) -> bool {
        self.body.touched[param] && self.moves(param) && self.variant.steps[param] == Step::Unit
    }

    /// Whether a parameter's elements may be assumed to be reached through it alone.
    fn restrict(&self) -> &'static str {
        if self.variant.in_place { "" } else { " TL_RESTRICT" }
    }

    fn is_output(&self, param: usize) -> bool {
        self.body.kernel.params[param].role == Role::Out
    }

    fn is_cuda(&self) -> bool {
        self.target.dialect == Dialect::CudaC
    }
}
