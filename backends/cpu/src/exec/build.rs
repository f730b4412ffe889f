//! From a kernel's nodes to the steps of a plan.

use super::ends::Ends;
use super::phases::{Part, Phases};
use super::plan::{Along, Home, Kept, Phase, Plan, Reduce, Step, Value, held_size};
use super::slots;
use crate::isa::Isa;
use crate::loops::{self, Held};
use thalweg_hal::ir::{Info, Kernel, Node, NodeId, Role};
use thalweg_hal::{DType, Error, Result};

/// Compiles one part of a kernel for lanes along one of its spaces.
pub(super) fn build(
    kernel: &Kernel,
    info: &Info,
    part: &Part,
    along: Along,
    keep: bool,
    isa: Isa,
) -> Result<Plan> {
    let phases = Phases::new(kernel, info, part, along, keep);
    let count = kernel.nodes.len();
    let mut uses = vec![(0, 0); count];
    for node in &kernel.nodes {
        for arg in node.args() {
            uses[arg.index()].0 += 1;
            uses[arg.index()].1 += usize::from(matches!(node, Node::Store { .. }));
        }
    }
    let mut builder = Builder {
        kernel,
        info,
        isa,
        along,
        phases: &phases,
        ends: Ends::of(kernel, info, &phases, &uses),
        steps: Vec::new(),
        scalar: true,
        values: Vec::new(),
        pool: Vec::new(),
        uses,
        of_node: vec![NONE; count],
        raw_of_node: vec![NONE; count],
        reduces: Vec::new(),
        kept: Vec::new(),
    };
    builder.plan(part)
}

const NONE: Value = Value::MAX;

/// What is known of a value while a plan is built.
#[derive(Clone, Copy)]
pub(super) struct Draft {
    pub(super) home: Option<Home>,
    pub(super) size: usize,
    /// One value instead of a block.
    single: bool,
}

impl Draft {
    pub(super) fn is_single(self) -> bool {
        self.single
    }
}

pub(super) struct Builder<'a> {
    kernel: &'a Kernel,
    info: &'a Info,
    pub(super) isa: Isa,
    along: Along,
    phases: &'a Phases,
    ends: Ends,
    steps: Vec<Step>,
    /// Whether the present list works on single values.
    scalar: bool,
    values: Vec<Draft>,
    pool: Vec<u64>,
    /// Of each node: how many arguments name it, and how many of them are stores'.
    uses: Vec<(usize, usize)>,
    of_node: Vec<Value>,
    /// f16 and bf16 as they stand in memory.
    raw_of_node: Vec<Value>,
    reduces: Vec<Reduce>,
    kept: Vec<Kept>,
}

impl Builder<'_> {
    fn plan(&mut self, part: &Part) -> Result<Plan> {
        let count = self.kernel.nodes.len();
        let row_scalar = self.along == Along::Inner;
        for i in 0..count {
            if self.phases.needed[i] && self.phases.uniform[i] {
                self.node(i)?;
            }
        }
        let uniform = std::mem::take(&mut self.steps);

        let total = self.phases.members.len();
        let mut rows = Vec::new();
        let mut elements = Vec::new();
        let mut places = Vec::new();
        let mut fed = Vec::new();
        for phase in 0..=total {
            self.scalar = row_scalar;
            let members: Vec<usize> = (0..count).filter(|&i| self.is_row_member(i, phase)).collect();
            for i in members {
                self.node(i)?;
            }
            if phase == total {
                self.stores(
                    part.stores
                        .iter()
                        .copied()
                        .filter(|&s| !self.phases.element[s])
                        .collect(),
                )?;
            }
            rows.push(std::mem::take(&mut self.steps));
            if phase < total {
                let members = self.phases.members[phase].clone();
                let (alone, members): (Vec<usize>, Vec<usize>) =
                    members.into_iter().partition(|&i| self.phases.place[i]);
                self.scalar = true;
                for i in alone {
                    self.node(i)?;
                }
                places.push(std::mem::take(&mut self.steps));
                self.scalar = false;
                let first = self.reduces.len() as u32;
                for &i in &members {
                    let is_store = matches!(self.kernel.nodes[i], Node::Store { .. });
                    // A kept node has its value from the phase that computed it.
                    if !is_store {
                        self.node(i)?;
                    }
                }
                let stores = members.into_iter();
                self.stores(
                    stores
                        .filter(|&i| matches!(self.kernel.nodes[i], Node::Store { .. }))
                        .collect(),
                )?;
                elements.push(std::mem::take(&mut self.steps));
                fed.push((first..self.reduces.len() as u32).collect::<Vec<_>>());
            }
        }
        let mut rows = rows.into_iter();
        let row = rows.next().unwrap_or_default();
        let phases = elements
            .into_iter()
            .zip(places)
            .zip(fed)
            .zip(rows)
            .map(|(((element, place), reduces), row)| Phase {
                place,
                element,
                reduces,
                row,
            })
            .collect();
        let mut plan = Plan {
            isa: self.isa,
            along: self.along,
            uniform,
            row,
            phases,
            reduces: std::mem::take(&mut self.reduces),
            of_node: std::mem::take(&mut self.of_node).into_boxed_slice(),
            homes: Vec::new(),
            pool: std::mem::take(&mut self.pool).into_boxed_slice(),
            cells: 0,
            slots: 0,
            widest: 1,
            kept: std::mem::take(&mut self.kept),
            row_loops: 0,
            bare: false,
            fixed: Vec::new(),
        };
        slots::assign(&mut plan, &self.values);
        Ok(plan)
    }

    fn is_row_member(&self, i: usize, list: usize) -> bool {
        let p = self.phases;
        let computed = !matches!(self.kernel.nodes[i], Node::Store { .. } | Node::Reduce { .. });
        p.needed[i] && computed && !p.uniform[i] && !p.element[i] && p.row[i] == list
    }

    /// A value that is computed by a step of the present list.
    pub(super) fn value(&mut self, size: usize) -> Value {
        let home = None;
        self.values.push(Draft {
            home,
            size,
            single: self.scalar,
        });
        self.values.len() as Value - 1
    }

    fn constant(&mut self, bits: u64, size: usize) -> Value {
        let home = Some(Home::Constant(self.pool.len() as u32));
        self.pool.push(bits);
        self.values.push(Draft {
            home,
            size,
            single: true,
        });
        self.values.len() as Value - 1
    }

    pub(super) fn dtype(&self, i: usize) -> Result<DType> {
        self.info.dtypes[i].ok_or_else(|| Error::internal(format!("node {i} has no value")))
    }

    pub(super) fn of(&self, id: NodeId) -> Value {
        self.of_node[id.index()]
    }

    /// Whether a value must be read as a single one.
    pub(super) fn single(&self, v: Value) -> bool {
        !self.scalar && self.values[v as usize].single
    }

    /// The value as a block.
    pub(super) fn block(&mut self, v: Value) -> Value {
        if !self.single(v) {
            return v;
        }
        let size = self.values[v as usize].size;
        let out = self.value(size);
        self.emit(loops::fill(self.isa, size), out, [v, v, v]);
        out
    }

    pub(super) fn emit(&mut self, f: loops::LoopFn, out: Value, [a, b, c]: [Value; 3]) {
        self.steps.push(Step::Loop { f, out, a, b, c });
    }

    fn node(&mut self, i: usize) -> Result<()> {
        if self.ends.has_no_step(i) {
            return Ok(());
        }
        let out = match self.kernel.nodes[i] {
            Node::Const { dtype, bits } => self.const_node(i, dtype, bits),
            Node::Scalar { index } => {
                let dtype = self.dtype(i)?;
                self.values.push(Draft {
                    home: Some(Home::Scalar(index)),
                    size: dtype.size(),
                    single: true,
                });
                let raw = self.values.len() as Value - 1;
                self.widened(i, dtype, raw)
            }
            Node::Load { param } => {
                let dtype = self.dtype(i)?;
                let raw = self.value(dtype.size());
                let moved = self.stored_as_is(i);
                self.steps.push(Step::Load {
                    param,
                    out: raw,
                    slot: 0,
                    moved,
                    to: None,
                });
                self.widened(i, dtype, raw)
            }
            Node::LoadAt { param, index } => {
                let dtype = self.dtype(i)?;
                let raw = self.value(dtype.size());
                let index = self.of(index);
                let single = self.single(index);
                self.steps.push(Step::LoadAt {
                    param,
                    out: raw,
                    slot: 0,
                    index,
                    single,
                });
                self.widened(i, dtype, raw)
            }
            Node::Index { axis } => {
                let out = self.value(8);
                self.steps.push(Step::Index { axis, out });
                out
            }
            Node::Op { op, args } => match self.ends.at(i) {
                Some([index, extent]) => {
                    let (index, extent) = (self.of(index), self.of(extent));
                    self.two(
                        |isa, single| Some(loops::from_the_end(isa, single)),
                        8,
                        index,
                        extent,
                    )
                    .ok_or_else(|| Error::internal("no loop of indices"))?
                }
                None => self.op(i, op, args)?,
            },
            Node::Cast { dtype, arg } => self.cast(i, self.dtype(arg.index())?, dtype, self.of(arg)),
            Node::Rand { key, counter } => {
                let (key, counter) = (self.of(key), self.of(counter));
                let counter = self.block(counter);
                let f = loops::philox(self.isa, self.scalar || self.single(key));
                let out = self.value(4);
                self.steps.push(Step::Rand { f, out, key, counter });
                out
            }
            Node::Reduce { op, arg } => {
                let held = Held::of(self.dtype(arg.index())?);
                let v = self.of(arg);
                let arg = self.block(v);
                let reduce = self.reduces.len() as u32;
                self.steps.push(Step::Reduce { reduce, arg });
                let single = self.along == Along::Inner;
                let size = held_size(self.dtype(i)?);
                self.values.push(Draft {
                    home: None,
                    size,
                    single,
                });
                let result = self.values.len() as Value - 1;
                let loops = loops::reduction(self.isa, op, held);
                self.reduces.push(Reduce {
                    loops,
                    size: held.size(),
                    result,
                });
                result
            }
            Node::Store { .. } => return Err(Error::internal("a store has no value")),
        };
        self.of_node[i] = if self.phases.kept[i] { self.keep(out) } else { out };
        Ok(())
    }

    fn cast(&mut self, i: usize, from: DType, to: DType, mut v: Value) -> Value {
        if from == to {
            return v;
        }
        let mut held = Held::of(from);
        if let Some(f) = loops::load_f8(self.isa, from) {
            v = self.step(f, 4, v);
            held = Held::F32;
        }
        if let Some(f) = loops::store_f8(self.isa, to) {
            // An integer that f32 rounds is beyond the range.
            let single = match held {
                Held::F64 => Some(loops::odd(self.isa)),
                _ => loops::cast(self.isa, held, DType::F32),
            };
            let v = single.map_or(v, |single| self.step(single, 4, v));
            return self.step(f, 1, v);
        }
        // Packing for a store rounds anyway.
        let only_stored = self.users(i) == self.stores_of(i);
        let packed = only_stored && held == Held::F32 && matches!(to, DType::F16 | DType::BF16);
        match loops::cast(self.isa, held, to) {
            Some(f) if !packed => self.step(f, held_size(to), v),
            _ => v,
        }
    }

    /// A loop of one argument.
    fn step(&mut self, f: loops::LoopFn, size: usize, v: Value) -> Value {
        let out = self.value(size);
        self.emit(f, out, [v, v, v]);
        out
    }

    fn keep(&mut self, v: Value) -> Value {
        if self.values[v as usize].home.is_some() {
            return v;
        }
        let size = self.values[v as usize].size;
        let loaded = |s: &Step| matches!(*s, Step::Load { out, .. } if out == v);
        let kept = if self.steps.iter().any(loaded) {
            // A cast that changes no bits: what the load points at is not kept.
            let copy = self.value(size);
            self.emit(loops::copy(self.isa, size), copy, [v, v, v]);
            copy
        } else {
            v
        };
        self.values[kept as usize].home = Some(Home::Keep(self.kept.len() as u32));
        self.kept.push(Kept { value: kept, size });
        kept
    }

    fn const_node(&mut self, i: usize, dtype: DType, bits: u64) -> Value {
        let widened = match dtype {
            DType::F16 => u64::from(crate::math::f16_to_f32(bits as u16).to_bits()),
            DType::BF16 => u64::from(crate::math::bf16_to_f32(bits as u16).to_bits()),
            _ => return self.constant(bits, dtype.size()),
        };
        self.raw_of_node[i] = self.constant(bits, 2);
        self.constant(widened, 4)
    }

    /// The held form of a value as it stands in memory.
    fn widened(&mut self, i: usize, dtype: DType, raw: Value) -> Value {
        let Some(f) = loops::load_half(self.isa, dtype) else {
            return raw;
        };
        self.raw_of_node[i] = raw;
        let users = self.users(i);
        if users > 0 && users == self.stores_of(i) {
            return raw;
        }
        let out = self.value(4);
        self.emit(f, out, [raw, raw, raw]);
        out
    }

    /// Arguments that name the node.
    pub(super) fn users(&self, i: usize) -> usize {
        self.uses[i].0
    }

    /// Stores of the node's value.
    pub(super) fn stores_of(&self, i: usize) -> usize {
        self.uses[i].1
    }

    fn stored_as_is(&self, i: usize) -> bool {
        self.stores_of(i) > 0
    }

    /// The stores of a list, after everything that it computes.
    fn stores(&mut self, nodes: Vec<usize>) -> Result<()> {
        let mut stores = Vec::new();
        for i in nodes {
            let Node::Store { param, value } = self.kernel.nodes[i] else {
                continue;
            };
            let target = self.kernel.params[param as usize];
            debug_assert!(target.role == Role::Out);
            let raw = self.raw_of_node[value.index()];
            let v = match loops::store_half(self.isa, target.dtype) {
                Some(_) if raw != NONE => self.block(raw),
                Some(f) => {
                    let held = self.of(value);
                    let held = self.block(held);
                    let out = self.value(2);
                    self.emit(f, out, [held, held, held]);
                    out
                }
                None => {
                    let v = self.of(value);
                    self.block(v)
                }
            };
            self.aim(param, v);
            stores.push(Step::Store { param, value: v });
        }
        self.steps.append(&mut stores);
        Ok(())
    }

    /// Lets the step that computes `v` in the present list write to the output itself.
    fn aim(&mut self, param: u32, v: Value) {
        let aimed = |s: &Step| matches!(*s, Step::Aim { value, .. } if value == v);
        if self.scalar || self.values[v as usize].home.is_some() || self.steps.iter().any(aimed) {
            return;
        }
        for step in &mut self.steps {
            if let Step::Load { out, to, .. } = step
                && *out == v
            {
                *to = to.or(Some(param));
                return;
            }
        }
        let computes = |s: &Step| match *s {
            Step::Loop { out, .. }
            | Step::Rand { out, .. }
            | Step::Index { out, .. }
            | Step::LoadAt { out, .. } => out == v,
            Step::Load { .. } | Step::Aim { .. } | Step::Store { .. } | Step::Reduce { .. } => false,
        };
        if let Some(at) = self.steps.iter().position(computes) {
            self.steps.insert(
                at,
                Step::Aim {
                    param,
                    value: v,
                    slot: 0,
                },
            );
        }
    }
}
