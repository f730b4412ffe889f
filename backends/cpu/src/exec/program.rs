//! A kernel that is ready to run.

use super::build::build;
use super::chosen::Chosen;
use super::flat::{self, Single};
use super::gathered::{self, Gathered};
use super::indexed::Indexed;
use super::launch::Launch;
use super::lines::Lines;
use super::long::Long;
use super::padded::Padded;
use super::phases::{Part, Phases, parts};
use super::plan::{Along, BLOCK, Plan};
use super::space::Space;
use super::still::Still;
use super::stored::Stored;
use crate::codegen::{Map, Rows};
use crate::isa::Isa;
use crate::parallel::Parallel;
use std::sync::OnceLock;
use thalweg_hal::ir::{self, Access, Kernel, Level, Node, Role};
use thalweg_hal::{Error, Result};

/// A compiled kernel. It has no state: one program may run on many threads at once.
pub struct Program {
    pub(super) kernel: Kernel,
    pub(super) parts: Vec<Compiled>,
    /// Bytes of an element of each parameter.
    pub(super) sizes: Vec<u8>,
    /// Bit set of axes that an index asks for.
    pub(super) pinned: u32,
    /// Parameters in the order in which they decide on the walk of a map.
    pub(super) priority: Vec<usize>,
    /// A map whose parameters are all contiguous or single.
    pub(super) flat: bool,
    /// Then: bytes between neighbours of each parameter.
    pub(super) flat_bytes: Vec<usize>,
    /// Then: inputs that are not single, and the bytes of their elements.
    pub(super) flat_inputs: Vec<(u32, usize)>,
    /// Then: the one loop of a kernel that has no other.
    pub(super) single: Option<Single>,
    /// Then: the same as machine code, where there is that.
    pub(super) generated: Option<Map>,
    /// A kernel with reductions as machine code, where there is that.
    pub(super) coded: Option<Rows>,
    /// The instruction set of such code.
    generates: Option<Isa>,
    /// A map as machine code along lines of neighbours.
    lines: Lines,
    /// The phases of a kernel with reductions as machine code, made when a row is longer than a segment.
    long: OnceLock<Long>,
    /// The same for rows with parameters that stand still along lines, as in the first such launch.
    lined: OnceLock<Long>,
    /// A map that gathers lines as machine code, for the strides of the first such launch.
    gathered: OnceLock<Option<Gathered>>,
    /// The same map with indices as parameters.
    indexed: Option<Box<Indexed>>,
    /// The same kernel with its padded inputs padded before.
    padded: Option<Box<Padded>>,
    /// What its phases are, where windows may go in one pass.
    pub(super) chosen: Option<Chosen>,
    /// The same as a map, and what reduces its elements.
    stored: Option<Box<Stored>>,
    /// Outputs and the bytes of their elements.
    pub(super) flat_outputs: Vec<(usize, u64)>,
    /// Bytes of an element of the widest input.
    pub(super) widest_input: u64,
    row_cost: Cost,
    element_cost: Cost,
}

/// Picoseconds per point of a space.
#[derive(Clone, Copy, Default)]
struct Cost(u64);

/// One part of a kernel, compiled for each way to walk it.
pub(super) struct Compiled {
    pub(super) part: Part,
    pub(super) outer_again: Plan,
    /// These exist where there are reductions.
    pub(super) outer_keep: Option<Plan>,
    pub(super) inner_keep: Option<Plan>,
    /// Where something would be kept.
    pub(super) inner_again: Option<Plan>,
}

/// One buffer of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Arg<'a> {
    /// The element at index 0 on every axis.
    pub ptr: *mut u8,
    /// Elements between neighbours on each axis of the parameter's level; empty for contiguous and broadcast ones.
    pub strides: &'a [i64],
    /// Elements between two indices of [`Node::LoadAt`].
    pub gather_stride: i64,
    /// Indices of [`Node::LoadAt`] from here on read 0.
    pub gather_extent: u64,
}

// SAFETY: a launch hands the addresses to several threads; what they may do with them is the launch's contract.
unsafe impl Sync for Arg<'_> {}

/// What a launch is given.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    /// Extents of the outer axes, then of the inner ones.
    pub extents: &'a [u64],
    /// One per parameter.
    pub args: &'a [Arg<'a>],
    /// One per scalar: the low bytes are the value's memory.
    pub scalars: &'a [u64],
}

impl Program {
    /// Whether parameter `at` is an output.
    pub(crate) fn writes(&self, at: usize) -> bool {
        self.kernel
            .params
            .get(at)
            .is_none_or(|param| param.role == Role::Out)
    }

    /// How it runs, as lines `key=value`.
    pub(crate) fn facts(&self) -> String {
        let form = match (self.flat, &self.single, &self.generated) {
            _ if self.coded.is_some() => "machine code for rows",
            (_, None, Some(_)) => "machine code",
            (_, Some(_), Some(_)) => "machine code, and one loop for few elements",
            (true, Some(_), None) => "one loop",
            (true, None, None) => "blocks of contiguous elements",
            (false, _, None) => "blocks of rows",
        };
        format!("form={form}\nparts={}\n", self.parts.len())
    }

    /// Compiles a kernel for an instruction set, which this machine must have.
    pub fn compile(kernel: &Kernel, isa: Isa) -> Result<Program> {
        if !isa.is_available() {
            return Err(isa.missing());
        }
        let info = kernel
            .verify()
            .map_err(|e| Error::compile_failed(format!("kernel {}: {e}", kernel.name)))?;
        let mut compiled = Vec::new();
        for part in parts(kernel, &info) {
            let plan = |along, keep| build(kernel, &info, &part, along, keep, isa);
            let outer_again = plan(Along::Outer, false)?;
            let (mut outer_keep, mut inner_keep, mut inner_again) = (None, None, None);
            if !outer_again.phases.is_empty() {
                outer_keep = Some(plan(Along::Outer, true)?);
                let keep = plan(Along::Inner, true)?;
                inner_again = (!keep.kept.is_empty())
                    .then(|| plan(Along::Inner, false))
                    .transpose()?;
                inner_keep = Some(keep);
            }
            compiled.push(Compiled {
                part,
                outer_again,
                outer_keep,
                inner_keep,
                inner_again,
            });
        }
        let params = &kernel.params;
        let plain = |n: &Node| !matches!(n, Node::Index { .. } | Node::LoadAt { .. } | Node::Reduce { .. });
        let flat = kernel.inner == 0
            && params.iter().all(|p| p.access != Access::Strided)
            && kernel.nodes.iter().all(plain);
        let pinned = kernel.nodes.iter().fold(0, |bits, n| match n {
            Node::Index { axis } => bits | 1 << axis,
            _ => bits,
        });
        let mut priority: Vec<usize> = (0..params.len()).collect();
        priority.sort_by_key(|&p| (params[p].role == Role::In, params[p].level == Level::Row));
        let (mut row_cost, mut element_cost) = (Cost(0), Cost(0));
        for (i, node) in kernel.nodes.iter().enumerate() {
            let size = info.dtypes[i].map_or(4, |d| d.size() as u64);
            let cost = match info.levels[i] {
                Level::Row => &mut row_cost,
                Level::Element => &mut element_cost,
            };
            cost.0 += picoseconds(node, size);
        }
        Ok(Program {
            sizes: params.iter().map(|p| p.dtype.size() as u8).collect(),
            flat_bytes: params
                .iter()
                .map(|p| {
                    if p.access == Access::Broadcast {
                        0
                    } else {
                        p.dtype.size()
                    }
                })
                .collect(),
            flat_inputs: (0..params.len())
                .filter(|&p| params[p].role == Role::In && params[p].access != Access::Broadcast)
                .map(|p| (p as u32, params[p].dtype.size()))
                .collect(),
            single: match &compiled[..] {
                [only] if flat => Single::of(&only.outer_again),
                _ => None,
            },
            generated: None,
            lines: Lines::default(),
            coded: None,
            generates: None,
            long: OnceLock::new(),
            lined: OnceLock::new(),
            gathered: OnceLock::new(),
            indexed: Indexed::of(kernel, &info).map(Box::new),
            padded: Padded::of(kernel, &info, isa).map(Box::new),
            chosen: match &compiled[..] {
                [only] => Chosen::of(kernel, &info, &only.part),
                _ => None,
            },
            stored: Stored::of(kernel, &info, isa).map(Box::new),
            flat_outputs: (0..params.len())
                .filter(|&p| params[p].role == Role::Out)
                .map(|p| (p, params[p].dtype.size() as u64))
                .collect(),
            widest_input: params
                .iter()
                .filter(|p| p.role == Role::In)
                .map(|p| p.dtype.size() as u64)
                .max()
                .unwrap_or(0),
            kernel: kernel.clone(),
            parts: compiled,
            pinned,
            priority,
            flat,
            row_cost,
            element_cost,
        })
    }

    /// Makes machine code of a kernel for an instruction set, which this machine must have. It stays as it is where that has none.
    #[must_use]
    pub fn generate(mut self, isa: Isa) -> Program {
        self.generates = isa.is_available().then_some(isa);
        self.padded = self.padded.map(|padded| Box::new(padded.generate(isa)));
        if self.flat && isa.is_available() {
            let info = self.kernel.verify().ok();
            self.generated = info.and_then(|info| Map::new(&self.kernel, &info, isa));
        }
        if let ([only], true) = (&self.parts[..], isa.is_available())
            && only.inner_keep.is_some()
            && let Ok(info) = self.kernel.verify()
        {
            let phases = Phases::new(&self.kernel, &info, &only.part, Along::Inner, true);
            self.coded = Rows::new(&self.kernel, &info, &phases, isa);
        }
        let function = |node: &Node| matches!(node, Node::Op { op, .. } if op.cost().is_function());
        if self.generated.is_some() && self.kernel.nodes.iter().any(function) {
            // A loop alone is the shorter way to few elements, but not to a function's.
            self.single = None;
        }
        self
    }

    /// Machine code of the phases of a part, unless the program has none.
    pub(super) fn long(&self, part: &Part) -> Option<&Long> {
        let isa = self.generates?;
        Some(self.long.get_or_init(|| Long::new(&self.kernel, part, isa, None)))
    }

    /// Machine code of the phases of a part whose rows have these lanes, where the parameters of some stand still along lines.
    pub(super) fn lined(&self, part: &Part, lanes: &Space) -> Option<&Long> {
        let isa = self.generates?;
        let still = Some(Long::still(&self.kernel, lanes)?);
        let lined = self
            .lined
            .get_or_init(|| Long::new(&self.kernel, part, isa, still));
        (lined.still == still && lined.covers(lanes)).then_some(lined)
    }

    /// Machine code for the lines of a launch that gathers them and computes something of them.
    pub(super) fn gathered<'a>(&'a self, launch: &Launch<'_>, still: &Still<'_>) -> Option<&'a Gathered> {
        let isa = self.generates.filter(|_| still.computes())?;
        let moving = gathered::moving(launch)?;
        let make = || Gathered::new(&self.kernel, launch.plan, still, moving, isa);
        let made = self.gathered.get_or_init(make).as_ref();
        made.filter(|code| code.suits(moving))
    }

    /// Whether it runs as machine code made for it.
    #[cfg(test)]
    pub(crate) fn is_generated(&self) -> bool {
        self.generated.is_some() || self.coded.is_some()
    }

    /// Whether it has run along lines as machine code.
    #[cfg(test)]
    pub(super) fn has_lines(&self) -> bool {
        self.lines.is_made()
    }

    /// Whether it has run with its indices as parameters.
    #[cfg(test)]
    pub(super) fn has_indexed(&self) -> bool {
        self.indexed.as_ref().is_some_and(|indexed| indexed.is_made())
    }

    /// Whether it has run over gathered lines as machine code.
    #[cfg(test)]
    pub(super) fn has_gathered(&self) -> bool {
        self.gathered.get().is_some_and(Option::is_some)
    }

    /// Whether it has run as a map and what reduces its elements.
    #[cfg(test)]
    pub(super) fn is_split(&self) -> bool {
        self.stored.as_ref().is_some_and(|stored| stored.is_made())
    }

    /// Estimated nanoseconds on one core.
    #[inline]
    pub fn cost(&self, extents: &[u64]) -> u64 {
        if let Some(padded) = &self.padded {
            return padded.cost(extents);
        }
        let (outer, inner) = extents.split_at((self.kernel.outer as usize).min(extents.len()));
        let product = |e: &[u64]| e.iter().fold(1u64, |a, &b| a.saturating_mul(b));
        let rows = product(outer);
        let elements = if self.kernel.inner == 0 {
            0
        } else {
            rows.saturating_mul(product(inner))
        };
        let (row, element) = (self.row_cost.0, self.element_cost.0);
        let picoseconds = rows
            .saturating_mul(row)
            .saturating_add(elements.saturating_mul(element));
        picoseconds / 1000 + 20
    }

    /// Runs a kernel of one loop, or one with machine code, over a few elements; its parameters stand where `address` says. Whether
    /// it was one.
    ///
    /// # Safety
    /// As [`Program::run`].
    #[inline]
    pub unsafe fn run_single(
        &self,
        extents: &[u64],
        scalars: &[u64],
        address: impl Fn(usize) -> *mut u8,
    ) -> bool {
        match (&self.single, &self.generated) {
            // SAFETY: the caller's promise.
            (Some(single), _) => unsafe { single.run(self, extents, scalars, address) },
            (None, Some(map)) => {
                let total = extents.iter().fold(1u64, |n, &e| n.saturating_mul(e));
                if total > BLOCK as u64 {
                    return false;
                }
                // SAFETY: the caller's promise.
                unsafe { map.run(total as usize, self.sizes.len(), address, scalars, (false, false)) };
                true
            }
            (None, None) => false,
        }
    }

    /// Runs the kernel and returns when it is done.
    ///
    /// # Safety
    /// There is one argument per parameter and one scalar per scalar of the kernel, extents and strides for each axis;
    /// every element that the launch reaches is valid; an output shares memory with an input only as the IR allows, and
    /// with a parameter that is gathered from never.
    pub unsafe fn run(&self, args: &Args<'_>, parallel: &dyn Parallel) {
        // SAFETY: the caller's promise.
        unsafe {
            if !self.run_single(args.extents, args.scalars, |p| args.args[p].ptr) {
                self.run_loops(args, parallel);
            }
        }
    }

    /// [`Program::run`] for what [`Program::run_single`] does not take.
    ///
    /// # Safety
    /// As [`Program::run`].
    #[inline]
    pub unsafe fn run_loops(&self, args: &Args<'_>, parallel: &dyn Parallel) {
        if let Some(padded) = &self.padded
            // SAFETY: the caller's promise.
            && unsafe { padded.run(&self.kernel, args, parallel) }
        {
            return;
        }
        if let Some(stored) = &self.stored
            // SAFETY: the caller's promise.
            && unsafe { stored.run(self, args, parallel) }
        {
            return;
        }
        if let (Some(indexed), Some(isa)) = (&self.indexed, self.generates)
            // SAFETY: the caller's promise.
            && unsafe { indexed.run(isa, args, parallel) }
        {
            return;
        }
        match self.flat {
            true => flat::run(self, args, parallel),
            false
                if self
                    .generates
                    .is_some_and(|isa| self.lines.run(self, isa, args, parallel)) => {}
            false => self.launch(args, parallel),
        }
    }
}

impl Program {
    /// Runs a map along lines as machine code; whether it did.
    ///
    /// # Safety
    /// As [`Program::run`].
    pub(super) unsafe fn run_lines(&self, args: &Args<'_>, parallel: &dyn Parallel) -> bool {
        (self.generates).is_some_and(|isa| self.lines.run(self, isa, args, parallel))
    }
}

/// A rough cost of one element of a node.
fn picoseconds(node: &Node, size: u64) -> u64 {
    match node {
        Node::Const { .. } | Node::Scalar { .. } => 0,
        Node::Load { .. } | Node::Store { .. } => size * 30,
        Node::LoadAt { .. } => 1000,
        Node::Index { .. } | Node::Cast { .. } => size * 12,
        Node::Reduce { .. } => size * 10,
        Node::Rand { .. } => 1500,
        Node::Op { op, .. } => match op.cost() {
            ir::Cost::Step => size * 12,
            ir::Cost::Quotient => size * 90,
            ir::Cost::Function => size * size * 40,
            ir::Cost::LongFunction => size * size * 80,
            ir::Cost::Power => size * size * 150,
            ir::Cost::Remainder => 8000,
        },
    }
}
