//! Values that somebody looks at while programs run: watched ones, those that are no numbers, and indices outside of their axes.
//!
//! A program that is looked at keeps the graph that it was compiled from, before rewriting. What is looked at becomes outputs of further
//! executables of that graph. They are run for the same arguments, which nothing changes. Fusion changes no bit, so what they
//! compute is what the program itself computes.

mod calls;
mod covered;
mod dump;
mod exception;
mod first;
mod flags;
mod indices;
mod numerics;
mod statistics;
mod watch;

pub(crate) use dump::begin_dump;
pub use watch::Watched;
pub(crate) use watch::{Asked, Begun, Mode, begin};

use super::evaluate::{How, lowered, ordered};
use super::executable::{Arg, Executable, Inputs, Values};
use super::read;
use super::saved::Saving;
use crate::context::Context;
use crate::engine::Lane;
use crate::error::Result;
use crate::error::tag::OpTag;
use crate::graph::{Graph, NodeId, rewrite};
use crate::lower::{Given, Program};
use crate::types::element;
use crate::value::Value;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The elements of a value in row-major order; waits for them.
fn numbers(value: Value) -> Result<Vec<f64>> {
    let tag = OpTag::uncounted("watch");
    let dtype = value.dtype;
    Ok(element::numbers(dtype, &read::elements(value, tag)?))
}

/// What a program was compiled from.
pub(super) struct Recipe {
    /// Its number among compiled functions.
    number: u64,
    graph: Graph,
    given: Box<[Given]>,
    how: How,
    checked: Mutex<numerics::State>,
    indices: indices::State,
    watched: Mutex<Vec<Arc<watch::Passes>>>,
}

impl std::fmt::Debug for Recipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recipe({} nodes)", self.graph.nodes().len())
    }
}

/// A run of a program that is looked at.
pub(super) struct Run<'a> {
    pub(super) plain: &'a Executable,
    pub(super) context: &'a Context,
    pub(super) scoped: Option<&'a Arc<Lane>>,
    pub(super) args: &'a [Arg<'a>],
    /// The call that all of it belongs to, where it is one.
    pub(super) tag: Option<OpTag>,
}

impl Run<'_> {
    fn submit(&self, executable: &Executable) -> Result<Values> {
        executable.submit(self.context, self.scoped, self.args, self.tag)
    }
}

impl Recipe {
    pub(super) fn new(graph: Graph, given: &[Given], how: How) -> Recipe {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Recipe {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            graph,
            given: given.into(),
            how,
            checked: Mutex::default(),
            indices: indices::State::new(),
            watched: Mutex::default(),
        }
    }

    /// Runs the program and lets everybody see what they look for.
    pub(super) fn run(&self, run: &Run<'_>) -> Result<Values> {
        if watch::is_delivering() {
            return run.submit(run.plain);
        }
        let watchers = watch::of(run.context);
        if !watchers.is_empty() {
            self.watch(run, &watchers)?;
        }
        let values = self.checked_run(run);
        match run.context.dumps_exceptions() {
            true => self.guarded(run, values),
            false => values,
        }
    }

    /// Runs the program and checks what is to be checked.
    fn checked_run(&self, run: &Run<'_>) -> Result<Values> {
        let values = match run.context.checks_indices() {
            true => self.check_indices(run)?,
            false => None,
        };
        match (run.context.checks_numerics(), values) {
            (true, _) => self.check(run),
            (false, Some(values)) => Ok(values),
            (false, None) => run.submit(run.plain),
        }
    }

    /// The program once more, and how it is compiled.
    pub(super) fn program(&self, context: &Context) -> Result<(Program, How)> {
        let program = lowered(context, &rewrite(&self.graph), &self.given)?;
        Ok((ordered(context, program), self.how))
    }

    /// An executable of the graph with other outputs.
    fn executable(&self, context: &Context, outputs: &Graph) -> Result<Executable> {
        let program = lowered(context, &rewrite(outputs), &self.given)?;
        Executable::compile_traced(context.engine(), &program, Inputs::captured(self.how.captured))
    }

    /// An executable that runs in place of the plain one: the sources of its kernels are saved where those are asked for.
    fn in_place(&self, context: &Context, executable: Executable) -> Executable {
        Saving::of(context, self.how).sources(executable)
    }

    /// The values of some nodes.
    fn values(&self, run: &Run<'_>, nodes: &[NodeId]) -> Result<Values> {
        let mut graph = self.graph.without_outputs();
        nodes.iter().for_each(|&node| graph.output(node));
        run.submit(&self.executable(run.context, &graph)?)
    }
}
