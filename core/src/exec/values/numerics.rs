//! Whether a run made something that is no number.

use super::super::evaluate::lowered;
use super::super::executable::{Executable, Values};
use super::super::read;
use super::flags::{Mark, with_flags};
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
    /// The values that have flags, by their number among those that are stored.
    flags: Vec<(usize, Mark)>,
}

impl Recipe {
    /// Runs the program.
    ///
    /// # Errors
    /// The first op that makes a NaN or an infinity out of numbers.
    pub(super) fn check(&self, run: &Run<'_>) -> Result<Values> {
        let flagged = self.flagged(run.context)?;
        if flagged.flags.is_empty() {
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
        let flags: Vec<(usize, Mark)> = (0..program.stored.len())
            .filter(can_be)
            .map(|at| (at, mark(at)))
            .filter(|(_, mark)| *mark != Mark::Never)
            .collect();
        let stored = program.stored.len();
        let program = with_flags(context, &graph, program, &flags)?;
        let flagged = Arc::new(Flagged {
            executable: Executable::compile_traced(context.engine(), &program, self.how.captured)?,
            flags,
        });
        let mut state = self.checked.lock();
        state.marks.resize(stored, Mark::NotFinite);
        state.flagged = Some(Arc::clone(&flagged));
        Ok(flagged)
    }

    /// Values hold what is no number without an op that made it: the next runs ask less of them.
    fn excuse(&self, flagged: &Flagged, raised: &[u8]) {
        let mut state = self.checked.lock();
        for (&(at, mark), _) in flagged
            .flags
            .iter()
            .zip(raised)
            .filter(|(_, raised)| **raised != 0)
        {
            if let Some(known) = state.marks.get_mut(at) {
                *known = mark.excused().max(*known);
            }
        }
        let old = state.flagged.take();
        drop(state);
        drop(old);
    }
}
