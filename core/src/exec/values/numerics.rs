//! Whether a run made something that is no number.

use super::super::evaluate::lowered;
use super::super::executable::{Executable, Inputs, Values};
use super::super::read;
use super::covered::uncovered;
use super::flags::{Mark, Marked, with_flags};
use super::{Recipe, Run};
use crate::context::Context;
use crate::error::failure::Refusal;
use crate::error::tag::OpTag;
use crate::error::{Error, Result};
use crate::graph::{Op, rewrite};
use std::sync::Arc;

/// What is kept for checking a program.
#[derive(Default)]
pub(super) struct State {
    /// By value that the program stores; empty until it was compiled with flags.
    marks: Vec<Mark>,
    flagged: Option<Arc<Flagged>>,
}

/// The program with flags as its last output.
struct Flagged {
    executable: Executable,
    marked: Vec<Marked>,
}

impl Recipe {
    /// Runs the program.
    ///
    /// # Errors
    /// The first op that makes a NaN or an infinity out of numbers.
    pub(super) fn check(&self, run: &Run<'_>) -> Result<Values> {
        let flagged = self.flagged(run.context)?;
        if flagged.marked.is_empty() {
            return run.submit(run.plain);
        }
        let mut values = run.submit(&flagged.executable)?;
        let flags = values
            .pop()
            .ok_or_else(|| Error::from(Refusal::new("the program has no flags")))?;
        let raised = read::download_bytes(flags, OpTag::uncounted("check_numerics"))?;
        if raised.iter().all(|&raised| raised == 0) {
            return Ok(values);
        }
        match self.first(run)? {
            Some(error) => Err(Error::Numerics(Box::new(error))),
            None => {
                self.excuse(&flagged, &raised);
                Ok(values)
            }
        }
    }

    fn flagged(&self, context: &Context) -> Result<Arc<Flagged>> {
        let marks = {
            let state = self.checked.lock();
            if let Some(flagged) = &state.flagged {
                return Ok(Arc::clone(flagged));
            }
            state.marks.clone()
        };
        let graph = rewrite(&self.graph);
        let program = lowered(context, &graph, &self.given)?;
        let mark = |at: usize| marks.get(at).copied().unwrap_or(Mark::NotFinite);
        let can_be = |at: &usize| {
            let node = graph.node(program.stored[*at].node);
            node.ty.dtype.is_float() && node.ty.shape.elements() > 0 && !matches!(node.op, Op::Full { .. })
        };
        let candidates: Vec<usize> = (0..program.stored.len()).filter(can_be).collect();
        let node = |at: usize| program.stored[at].node;
        // A flag that was raised for another reason covers nothing any more.
        let uncovered = match marks.iter().all(|mark| *mark == Mark::NotFinite) {
            true => uncovered(&graph, candidates.iter().map(|&at| node(at))),
            false => vec![true; graph.nodes().len()],
        };
        let marked: Vec<Marked> = (candidates.into_iter())
            .filter(|&at| mark(at) != Mark::Never && uncovered[node(at).index()])
            .map(|at| Marked::new(at, mark(at), graph.shape(node(at)).elements()))
            .collect();
        let stored = program.stored.len();
        let program = with_flags(context, &graph, program, &marked)?;
        let flagged = Arc::new(Flagged {
            executable: self.in_place(
                context,
                Executable::compile_traced(context.engine(), &program, Inputs::captured(self.how.captured))?,
            ),
            marked,
        });
        let mut state = self.checked.lock();
        state.marks.resize(stored, Mark::NotFinite);
        state.flagged = Some(Arc::clone(&flagged));
        Ok(flagged)
    }

    /// Values hold what is no number without an op that made it: the next runs ask less of them.
    fn excuse(&self, flagged: &Flagged, raised: &[u8]) {
        let mut state = self.checked.lock();
        let mut rest = raised;
        for marked in &flagged.marked {
            let (own, later) = rest.split_at(marked.parts.min(rest.len()));
            rest = later;
            if own.iter().any(|&raised| raised != 0)
                && let Some(known) = state.marks.get_mut(marked.stored)
            {
                *known = marked.mark.excused().max(*known);
            }
        }
        let old = state.flagged.take();
        drop(state);
        drop(old);
    }
}
