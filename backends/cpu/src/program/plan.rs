//! How a program runs: what may run at once, and which form each node reads.

use super::shared::{RunForms, Shared};
use crate::device::CpuDevice;
use crate::step::{self, Kept};
use smallvec::SmallVec;
use thalweg_hal::kit::program::Program;

/// Nodes that cost less than this hardly split, and so run beside each other.
const SMALL_NS: u64 = 12_000;
/// What a wave must save, in nanoseconds, to be worth a region.
const WORTH_NS: u64 = 3_000;
/// How far ahead a wave looks for nodes: those nearby find their operands in the cache.
const AHEAD: usize = 32;

/// How a program runs.
pub(super) struct Plan {
    /// Nanoseconds on one core, roughly.
    pub(super) cost: u64,
    /// Nodes by number: what comes together may run at once. Empty where each node runs alone.
    pub(super) waves: Vec<SmallVec<[u32; 1]>>,
    /// By node: the form of a constant that it reads. Empty where there is none.
    forms: Box<[Option<usize>]>,
    /// Forms that each run makes.
    pub(super) shared: Shared,
}

impl Plan {
    #[inline]
    pub(super) fn of(program: &Program<CpuDevice>) -> &Plan {
        let plan = program.plan.get_or_init(|| Box::new(Plan::new(program)));
        match plan.downcast_ref() {
            Some(plan) => plan,
            None => unreachable!("this backend alone makes plans of its programs"),
        }
    }

    /// The form that a node reads.
    #[inline]
    pub(super) fn kept<'a>(
        &self,
        program: &'a Program<CpuDevice>,
        node: usize,
        slots: impl Fn(usize) -> *mut u8,
        of_run: Option<&'a RunForms>,
    ) -> Option<Kept<'a>> {
        if let Some(&Some(form)) = self.forms.get(node) {
            let made = program.made.get()?.get(form)?;
            return Some((slots(program.forms_at + form), made));
        }
        of_run?.kept(&self.shared, node)
    }

    fn new(program: &Program<CpuDevice>) -> Plan {
        let nodes = &program.nodes;
        let mut forms = vec![None; if program.forms.is_empty() { 0 } else { nodes.len() }];
        for (at, form) in program.forms.iter().enumerate() {
            forms[form.node as usize] = Some(at);
        }
        let shared = Shared::of(nodes, |node| forms.get(node).is_some_and(Option::is_some));
        let costs: Vec<u64> = nodes.iter().map(|node| step::cost(&node.step)).collect();
        let mut waves = waves(program, &costs);
        if waves.len() == nodes.len() {
            waves = Vec::new();
        }
        Plan {
            cost: costs.iter().fold(0, |sum, &cost| sum.saturating_add(cost)),
            waves,
            forms: forms.into(),
            shared,
        }
    }
}

fn waves(program: &Program<CpuDevice>, costs: &[u64]) -> Vec<SmallVec<[u32; 1]>> {
    let nodes = &program.nodes;
    let small = |at: usize| costs[at] < SMALL_NS;
    let mut done = vec![false; nodes.len()];
    let mut waves = Vec::new();
    for first in 0..nodes.len() {
        if done[first] {
            continue;
        }
        let mut wave: SmallVec<[u32; 1]> = SmallVec::from_slice(&[first as u32]);
        if small(first) {
            let ready = |&at: &usize| {
                let mut before = nodes[at].dependencies.iter();
                !done[at] && small(at) && before.all(|&before| done[before as usize])
            };
            let last = nodes.len().min(first + AHEAD);
            wave.extend((first + 1..last).filter(ready).map(|at| at as u32));
            let of = |at: &u32| costs[*at as usize];
            let longest = wave.iter().map(of).max().unwrap_or(0);
            if wave.iter().map(of).sum::<u64>() - longest < WORTH_NS {
                wave.truncate(1);
            }
            // The longest starts first.
            wave.sort_by_key(|at| std::cmp::Reverse(of(at)));
        }
        for &at in &wave {
            done[at as usize] = true;
        }
        waves.push(wave);
    }
    waves
}
