//! From the nodes of a kernel to instructions.

use super::body::{Body, Level, Range, Section, Sink};
use super::narrow::{Kind, Narrow};
use super::reductions::finds_place;
use super::scalars::{packed, rounded, scalar, whole, wrapped};
use super::ssa::{Binary, Compare, Id, Inst, Op, Recorder, Unary, Value};
use crate::exec::Phases;
use crate::math::{self, Lanes};
use thalweg_hal::DType;
use thalweg_hal::ir::{self, Access, Info, Kernel, Node, NodeId, Param, ReduceOp, Role, ScalarOp};

/// Most instructions of a body.
const MOST: usize = 4096;

/// The body of a map on f32 whose parameters are all contiguous or single; `None` where a node has no instructions.
pub(super) fn map(kernel: &Kernel, info: &Info, wide: bool) -> Option<Body> {
    let params_fit = (kernel.params.iter())
        .all(|p| p.access != Access::Strided && (p.role == Role::In || p.access == Access::Contiguous));
    if kernel.inner != 0 || !params_fit {
        return None;
    }
    let load = |p: u32| match (kernel.params[p as usize].access, kernel.params[p as usize].dtype) {
        (Access::Contiguous, _) => Op::Load(p),
        (_, DType::I8 | DType::U8) => Op::SingleByte(p),
        (Access::Strided | Access::Broadcast, _) => Op::Single(p),
    };
    let nodes = Nodes::lower(kernel, info, wide, load)?;
    let mut section = Section::default();
    for (node, &id) in kernel.nodes.iter().zip(&nodes.ids) {
        if let Node::Store { param, .. } = *node {
            section.sinks.push((Sink::Store(param), id));
        }
    }
    nodes.body(vec![section], Vec::new(), Vec::new())
}

/// The body of a kernel on f32 with reductions, whose elements stand one after the other in each row.
pub(super) fn rows(kernel: &Kernel, info: &Info, wide: bool, phases: &Phases) -> Option<Body> {
    let load = |p: u32| {
        let param = kernel.params[p as usize];
        match (param.access, param.level) {
            (Access::Broadcast, _) if is_byte(param.dtype) => Op::SingleByte(p),
            (Access::Broadcast, _) => Op::Single(p),
            (_, ir::Level::Row) => Op::Row(p),
            (_, ir::Level::Element) => Op::Load(p),
        }
    };
    let nodes = Nodes::lower(kernel, info, wide, load)?;
    let mut kept: Vec<(Id, usize)> = Vec::new();
    let is_new = |kept: &[(Id, usize)], id: Id| kept.iter().all(|&(other, _)| other != id);
    let mut sections = Vec::new();
    let (_, before_last) = phases.members.split_last()?;
    let is_store = |&i: &usize| matches!(kernel.nodes[i], Node::Store { .. });
    let stores_early = before_last.iter().flatten().any(is_store);
    for (p, members) in phases.members.iter().enumerate() {
        let mut sinks = Vec::new();
        for &i in members {
            let id = nodes.ids[i];
            match kernel.nodes[i] {
                Node::Reduce { arg, .. } => {
                    let reduce = nodes.reduces.iter().position(|&(node, _)| node == i)?;
                    let arg = nodes.ids[arg.index()];
                    sinks.push((Sink::Reduce(reduce as u32), arg));
                    // The place of the greatest is looked for in memory after the walk, among f32.
                    let loaded = match nodes.insts[arg as usize].op {
                        Op::Load(param) => Kind::of(kernel.params[param as usize].dtype).is_none(),
                        _ => false,
                    };
                    if finds_place(nodes.reduces[reduce].1) && !loaded && is_new(&kept, arg) {
                        sinks.push((Sink::Keep(kept.len() as u32), arg));
                        kept.push((arg, p));
                    }
                }
                Node::Store { param, .. } => sinks.push((Sink::Store(param), id)),
                _ => {
                    if !phases.kept[i] {
                        continue;
                    }
                    // Masks have no memory, and what is loaded again may have been overwritten.
                    let is_loaded = matches!(nodes.insts[id as usize].op, Op::Load(_));
                    if is_loaded && !stores_early {
                        continue;
                    }
                    if is_loaded || !info.dtypes[i].is_some_and(is_float) {
                        return None;
                    }
                    if is_new(&kept, id) {
                        sinks.push((Sink::Keep(kept.len() as u32), id));
                        kept.push((id, p));
                    }
                }
            }
        }
        // What is looked for would be overwritten.
        let looks = |&(sink, _): &(Sink, Id)| match sink {
            Sink::Reduce(r) => finds_place(nodes.reduces[r as usize].1),
            Sink::Keep(_) | Sink::Store(_) => false,
        };
        let stores = |(sink, _): &(Sink, Id)| matches!(sink, Sink::Store(_));
        if sinks.iter().any(looks) && sinks.iter().any(stores) {
            return None;
        }
        // Memory is read before it is written.
        sinks.sort_by_key(|&(sink, _)| match sink {
            Sink::Reduce(_) => 0,
            Sink::Keep(_) => 1,
            Sink::Store(_) => 2,
        });
        sections.push(Section { sinks });
    }
    let stores = (kernel.nodes.iter().enumerate()).filter_map(|(i, node)| match *node {
        Node::Store { param, .. } if !phases.element[i] => Some((param, nodes.ids[i])),
        _ => None,
    });
    let row_stores = stores.collect();
    nodes.body(sections, kept, row_stores)
}

/// The instructions of a kernel's nodes.
struct Nodes {
    insts: Vec<Inst>,
    /// Value of each node; of a store, what it stores.
    ids: Vec<Id>,
    /// Nodes that are reductions.
    reduces: Vec<(usize, ReduceOp)>,
    /// Values that have bounds.
    ranges: Vec<(Id, Range)>,
    narrow: Vec<Narrow>,
}

fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}

fn is_byte(dtype: DType) -> bool {
    matches!(dtype, DType::I8 | DType::U8 | DType::Bool)
}

/// Whether a parameter has an element for each point that is walked.
fn is_walked(kernel: &Kernel, p: &Param) -> bool {
    p.access != Access::Broadcast && (kernel.inner == 0 || p.level == ir::Level::Element)
}

/// Whether a value is an element less the greatest of its row: never above zero, unless it is no number.
fn is_below_peak(kernel: &Kernel, value: NodeId) -> bool {
    let node = |id: NodeId| kernel.nodes[id.index()];
    match node(value) {
        Node::Op {
            op: ScalarOp::Sub,
            args: [x, peak, _],
        } => matches!(node(peak), Node::Reduce { op: ReduceOp::Max, arg } if arg == x),
        _ => false,
    }
}

impl Nodes {
    fn lower(kernel: &Kernel, info: &Info, wide: bool, load: impl Fn(u32) -> Op) -> Option<Nodes> {
        // Bytes alone are less work where a vector has more of them.
        let floats = { kernel.params.iter() }.any(|p| is_float(p.dtype) && is_walked(kernel, p));
        let fits = |p: &Param| match (p.dtype, p.role) {
            (DType::F32, _) | (DType::I32 | DType::F16 | DType::BF16, Role::In) => true,
            (DType::F16 | DType::BF16, Role::Out) => is_walked(kernel, p) || p.level == ir::Level::Row,
            // Places of a row are written as they are.
            (DType::I64, Role::Out) => kernel.inner > 0 && p.level == ir::Level::Row,
            (DType::I8 | DType::U8, Role::In) if p.access == Access::Broadcast => wide,
            (DType::I8 | DType::U8 | DType::Bool, Role::In) => wide && floats && is_walked(kernel, p),
            (DType::I8 | DType::U8 | DType::Bool, Role::Out) => wide && is_walked(kernel, p),
            _ => false,
        };
        if !kernel.params.iter().all(fits) {
            return None;
        }
        let narrow = (kernel.params.iter().enumerate()).filter_map(|(p, param)| {
            let kind = Kind::of(param.dtype)?;
            let param_is_there = kind.is_half() || is_walked(kernel, param);
            param_is_there.then_some(Narrow {
                param: p as u32,
                kind,
            })
        });
        let narrow: Vec<Narrow> = narrow.collect();
        let recorder = Recorder::new(wide);
        let mut ids: Vec<Id> = Vec::with_capacity(kernel.nodes.len());
        let (mut reduces, mut ranges) = (Vec::new(), Vec::new());
        for (i, node) in kernel.nodes.iter().enumerate() {
            let of = |id: NodeId| recorder.value(ids[id.index()]);
            let value = match *node {
                Node::Store { value, .. } => {
                    let stored = match info.dtypes[value.index()] {
                        Some(DType::Bool) => {
                            let [one, zero] = [1, 0].map(|bits| recorder.constant(bits));
                            Value::choose(of(value), one, zero).id
                        }
                        // Such are moved as they are.
                        Some(DType::F16 | DType::BF16)
                            if matches!(kernel.nodes[value.index()], Node::Load { .. }) =>
                        {
                            return None;
                        }
                        Some(dtype @ (DType::F16 | DType::BF16)) => packed(of(value), dtype).id,
                        _ => ids[value.index()],
                    };
                    ids.push(stored);
                    continue;
                }
                Node::Reduce { op, arg }
                    if info.dtypes[arg.index()] == Some(DType::F32)
                        || info.dtypes[arg.index()].is_some_and(is_float)
                            && matches!(op, ReduceOp::Max | ReduceOp::Min) =>
                {
                    reduces.push((i, op));
                    recorder.push(Op::Reduced(reduces.len() as u32 - 1), &[])
                }
                Node::Load { param } => {
                    let op = load(param);
                    let value = recorder.push(op, &[]);
                    match (kernel.params[param as usize].dtype, op) {
                        (DType::Bool, _) => {
                            let number = value.unary(Unary::Float);
                            number.compare(Compare::Unequal, number.splat(0.0))
                        }
                        (_, Op::Load(_)) => value,
                        (dtype, _) => wrapped(value, dtype),
                    }
                }
                Node::Cast { arg, .. } if info.dtypes[i] == info.dtypes[arg.index()] => of(arg),
                Node::Cast { arg, .. } => match (info.dtypes[arg.index()]?, info.dtypes[i]?) {
                    (DType::I32 | DType::I8 | DType::U8, DType::F32) => of(arg).unary(Unary::Float),
                    (DType::I8 | DType::U8, DType::I32) => of(arg),
                    (DType::I8 | DType::U8, to @ (DType::F16 | DType::BF16)) => {
                        rounded(of(arg).unary(Unary::Float), to)
                    }
                    (DType::F16 | DType::BF16, DType::F32) => of(arg),
                    (from, to @ (DType::F16 | DType::BF16)) if is_float(from) => rounded(of(arg), to),
                    (DType::Bool, to) if is_float(to) => {
                        let [one, zero] = [1.0_f32, 0.0].map(|number| recorder.constant(number.to_bits()));
                        Value::choose(of(arg), one, zero)
                    }
                    (from, DType::Bool) if is_float(from) => {
                        of(arg).compare(Compare::Unequal, of(arg).splat(0.0))
                    }
                    (from, to) if wide && is_float(from) => whole(of(arg), to)?,
                    _ => return None,
                },
                Node::Op { op, args }
                    if matches!(info.dtypes[i], Some(DType::I32 | DType::I8 | DType::U8)) =>
                {
                    let [a, b, _] = args.map(of);
                    let value = match op {
                        ScalarOp::Add => a.binary(Binary::IntAdd, b),
                        ScalarOp::Sub => a.binary(Binary::IntSub, b),
                        ScalarOp::Mul => a.binary(Binary::IntMul, b),
                        _ => return None,
                    };
                    wrapped(value, info.dtypes[i]?)
                }
                _ if !info.dtypes[i].is_some_and(|dtype| is_float(dtype) || dtype == DType::Bool) => {
                    return None;
                }
                Node::Const {
                    dtype: DType::F32,
                    bits,
                } => recorder.constant(bits as u32),
                Node::Const {
                    dtype: DType::BF16,
                    bits,
                } => recorder.constant((bits as u32) << 16),
                Node::Const {
                    dtype: DType::F16,
                    bits,
                } => recorder.constant(math::f16_to_f32(bits as u16).to_bits()),
                Node::Scalar { index } if info.dtypes[i].is_some_and(is_float) => {
                    let value = recorder.push(Op::Scalar(index), &[]);
                    match info.dtypes[i] {
                        Some(DType::BF16) => value.unary(Unary::ShiftLeft(16)),
                        Some(DType::F16) => {
                            let low = value.with_bits(Binary::And, 0xffff);
                            let both = low.binary(Binary::Or, low.unary(Unary::ShiftLeft(16)));
                            both.unary(Unary::FromF16)
                        }
                        _ => value,
                    }
                }
                Node::Op { op, args } => {
                    let dtype = info.dtypes[args[op.arity() - 1].index()]?;
                    if !is_float(dtype) && dtype != DType::Bool {
                        return None;
                    }
                    match op {
                        _ if dtype == DType::F16 || dtype == DType::BF16 => {
                            let value = scalar(op, DType::F32, args.map(of))?;
                            if op.rounds() { rounded(value, dtype) } else { value }
                        }
                        ScalarOp::Exp if is_below_peak(kernel, args[0]) => {
                            let value = math::exp32_below_one(of(args[0]));
                            ranges.push((value.id, Range::Unit));
                            value
                        }
                        _ => {
                            let value = scalar(op, dtype, args.map(of))?;
                            if matches!(op, ScalarOp::Exp | ScalarOp::Abs) {
                                ranges.push((value.id, Range::Positive));
                            }
                            value
                        }
                    }
                }
                _ => return None,
            };
            if recorder.len() > MOST {
                return None;
            }
            ids.push(value.id);
        }
        Some(Nodes {
            insts: recorder.finish(),
            ids,
            reduces,
            ranges,
            narrow,
        })
    }

    /// `None` where a store might overwrite memory that another one stores as it was.
    fn body(
        self,
        sections: Vec<Section>,
        kept: Vec<(Id, usize)>,
        row_stores: Vec<(u32, Id)>,
    ) -> Option<Body> {
        let Nodes {
            insts,
            reduces,
            ranges,
            narrow,
            ..
        } = self;
        let moved = |&(_, id): &(Sink, Id)| matches!(insts[id as usize].op, Op::Load(_));
        for section in &sections {
            let stores = || {
                section
                    .sinks
                    .iter()
                    .filter(|(sink, _)| matches!(sink, Sink::Store(_)))
            };
            if stores().count() > 1 && stores().any(moved) {
                return None;
            }
        }
        let mut levels: Vec<Level> = Vec::with_capacity(insts.len());
        for inst in &insts {
            let operands = inst.operands().map(|id| levels[id as usize]).max();
            levels.push(match inst.op {
                Op::Load(_) => Level::Element,
                Op::Row(_) => Level::Row(0),
                Op::Reduced(r) => {
                    let feeds = |s: &Section| s.sinks.iter().any(|&(sink, _)| sink == Sink::Reduce(r));
                    // One that nothing needs is in no section.
                    Level::Row(sections.iter().position(feeds).map_or(0, |p| p as u32 + 1))
                }
                _ => operands.unwrap_or(Level::Launch),
            });
        }
        let mut needed = vec![false; insts.len()];
        let sinks = sections.iter().flat_map(|s| &s.sinks).map(|&(_, id)| id);
        sinks
            .chain(row_stores.iter().map(|&(_, id)| id))
            .for_each(|id| needed[id as usize] = true);
        for (i, inst) in insts.iter().enumerate().rev() {
            if needed[i] {
                inst.operands().for_each(|id| needed[id as usize] = true);
            }
        }
        let range = |id: Id| {
            let known = ranges.iter().find(|&&(other, _)| other == id);
            known.map_or(Range::Any, |&(_, range)| range)
        };
        Some(Body {
            reduces: reduces.into_iter().map(|(_, op)| op).collect(),
            ranges: (0..insts.len()).map(|i| range(i as Id)).collect(),
            insts,
            levels,
            needed,
            sections,
            kept,
            row_stores,
            narrow,
            copies: 1,
        })
    }
}
