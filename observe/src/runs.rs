//! The runs that commands and memory name, as far as they are needed again.

use foldhash::HashMap;
use thalweg::observe::recording::Run;

/// Runs of one generation. Records that name a run follow it soon, so two generations are kept.
const GENERATION: usize = 1 << 19;

/// A run, and in which step it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownRun {
    pub(crate) run: Run,
    /// Place in the list of steps.
    pub(crate) step: Option<u32>,
}

/// The last runs by their correlation.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    young: HashMap<u64, KnownRun>,
    old: HashMap<u64, KnownRun>,
}

impl Runs {
    pub(crate) fn add(&mut self, run: KnownRun) {
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(run.run.correlation, run);
    }

    pub(crate) fn get(&self, correlation: u64) -> Option<&KnownRun> {
        (self.young.get(&correlation)).or_else(|| self.old.get(&correlation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_runs_are_kept() {
        let mut runs = Runs::default();
        let total = 3 * GENERATION as u64;
        for correlation in 1..=total {
            let run = Run {
                correlation,
                ..Run::default()
            };
            runs.add(KnownRun { run, step: None });
        }
        assert!(runs.get(total - GENERATION as u64 + 1).is_some() && runs.get(total).is_some());
        assert!(runs.get(1).is_none());
        assert!(runs.young.len() + runs.old.len() <= 2 * GENERATION);
    }
}
