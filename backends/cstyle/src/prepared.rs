//! Launches that are planned and compiled.

use crate::{Plan, Variant};
use smallvec::SmallVec;
use thalweg_hal::{Error, Result};

/// A launch with everything but its queue: `P` are the programs of its variant, and `B` is what the driver calls a buffer.
#[derive(Clone, Debug)]
pub struct Prepared<P, B> {
    /// What its passes call.
    pub programs: P,
    /// How it runs.
    pub plan: Plan,
    /// One for each parameter. Their owners vouch for them until the stream has passed the launch.
    pub buffers: SmallVec<[B; 8]>,
}

impl<P, B> Prepared<P, B> {
    /// A planned launch on these buffers, with what it needs compiled; `None` when there is nothing to do. `compile` returns the
    /// programs of a variant and the number of their entries.
    ///
    /// # Errors
    /// Those of `compile`; `Internal` where a pass calls an entry that the programs lack.
    pub fn new(
        plan: Plan,
        buffers: SmallVec<[B; 8]>,
        compile: impl FnOnce(&Variant) -> Result<(P, usize)>,
    ) -> Result<Option<Prepared<P, B>>> {
        if plan.passes.is_empty() {
            return Ok(None);
        }
        let (programs, entries) = compile(&plan.variant)?;
        if let Some(pass) = plan.passes.iter().find(|pass| pass.entry >= entries) {
            return Err(Error::internal(format!(
                "a plan calls entry {} of a program of {entries} entries",
                pass.entry
            )));
        }
        Ok(Some(Prepared {
            programs,
            plan,
            buffers,
        }))
    }
}
