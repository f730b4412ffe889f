//! Joins the loops of a list into chains: what one loop writes for the next one alone stays in registers.

use super::build::Draft;
use super::plan::{Along, Plan, Step, Value};
use super::slots::{Tables, values};
use crate::loops::{Code, Link, Pattern, Reduction};
use smallvec::SmallVec;

/// Puts chains in the place of loops and reductions.
pub(super) fn fuse(plan: &mut Plan, drafts: &[Draft]) {
    let results: Vec<Value> = plan.reduces.iter().map(|r| r.result).collect();
    // Steps that use each value.
    let mut uses = vec![0usize; drafts.len()];
    let tables = Tables {
        results: &results,
        chains: &[],
    };
    let phases = plan.phases.iter().flat_map(|p| p.element.iter().chain(&p.row));
    for step in plan.uniform.iter().chain(&plan.row).chain(phases) {
        let mut seen = SmallVec::<[Value; 3]>::new();
        values(step, &tables, |v, defines| {
            if !defines && !seen.contains(&v) {
                seen.push(v);
                uses[v as usize] += 1;
            }
        });
    }
    let kinds = plan.reduces.iter().map(|r| match (plan.along, r.loops) {
        // Across blocks a reduction has a value for each lane.
        (Along::Outer, _) => None,
        (Along::Inner, Reduction::Fold { link, .. } | Reduction::Best { link, .. }) => link,
    });
    let mut fuser = Fuser {
        drafts,
        uses,
        reduces: kinds.collect(),
        rows: !plan.phases.is_empty(),
        done: Vec::new(),
        open: None,
        chains: Vec::new(),
    };
    if plan.along == Along::Outer {
        plan.row = fuser.list(std::mem::take(&mut plan.row));
    }
    for phase in &mut plan.phases {
        phase.element = fuser.list(std::mem::take(&mut phase.element));
        if plan.along == Along::Outer {
            phase.row = fuser.list(std::mem::take(&mut phase.row));
        }
    }
    plan.chains = fuser.chains;
}

/// A chain that may go on.
struct Open {
    links: Vec<Link>,
    /// What it has in hand.
    hand: Value,
    /// Of what it computed: the value, the number of times that the next link took it from the hand, and the number of links
    /// up to it.
    made: Vec<(Value, usize, usize)>,
    /// Whether it ends in a reduction.
    reduces: bool,
    /// The steps that it stands for.
    steps: Vec<Step>,
}

struct Fuser<'a> {
    drafts: &'a [Draft],
    uses: Vec<usize>,
    /// The link of each reduction that a chain may have.
    reduces: Vec<Option<Code>>,
    /// Whether the plan has phases.
    rows: bool,
    done: Vec<Step>,
    open: Option<Open>,
    chains: Vec<(Pattern, Box<[Link]>)>,
}

impl Fuser<'_> {
    fn list(&mut self, steps: Vec<Step>) -> Vec<Step> {
        for step in steps {
            match step {
                // These point values at memory or fill them from it, which may as well happen before the chain: outputs that
                // stand in the memory of an input are written at the end of a list.
                Step::Load { .. } | Step::Aim { .. } => self.done.push(step),
                Step::Loop { out, .. } => self.operate(step, out),
                Step::Reduce { reduce, arg } => self.reduce(step, reduce, arg),
                Step::LoadAt { .. }
                | Step::Index { .. }
                | Step::Rand { .. }
                | Step::Store { .. }
                | Step::Chain { .. } => {
                    self.close();
                    self.done.push(step);
                }
            }
        }
        self.close();
        std::mem::take(&mut self.done)
    }

    fn operate(&mut self, step: Step, out: Value) {
        let made = self.drafts[out as usize].made;
        let Some((mut made, code)) = made.and_then(|made| Some((made, made.code?))) else {
            self.close();
            return self.done.push(step);
        };
        let in_hand =
            |value: Value| (self.open.as_ref()).is_some_and(|open| open.hand == value && !open.reduces);
        if made.commutes && !in_hand(made.hand) && in_hand(made.operand) {
            std::mem::swap(&mut made.hand, &mut made.operand);
        }
        let goes_on = |open: &Open| open.hand == made.hand && !open.reduces;
        if !self.open.as_ref().is_some_and(goes_on) {
            self.close();
        }
        let open = self.open.get_or_insert_with(|| Open::from(made.hand));
        open.take(1);
        open.links.push(Link {
            code,
            value: made.operand,
        });
        open.go_on(out, step);
    }

    fn reduce(&mut self, step: Step, reduce: u32, arg: Value) {
        let Some(code) = self.reduces[reduce as usize] else {
            self.close();
            return self.done.push(step);
        };
        let fits = |open: &&mut Open| open.hand == arg && !open.reduces;
        if self.open.as_mut().filter(fits).is_none() {
            self.close();
            self.open = Some(Open::from(arg));
        }
        if let Some(open) = &mut self.open {
            open.take(1);
            open.links.push(Link { code, value: reduce });
            open.reduces = true;
            open.steps.push(step);
        }
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let mut links = Vec::new();
        let mut stores = open
            .made
            .iter()
            .filter(|&&(v, taken, _)| self.uses[v as usize] > taken)
            .peekable();
        for (at, link) in open.links.iter().enumerate() {
            links.push(*link);
            while let Some(&(value, _, _)) = stores.next_if(|made| made.2 == at + 1) {
                links.push(Link {
                    code: Code::Store,
                    value,
                });
            }
        }
        let Some(pattern) = Pattern::of(&links).filter(|_| self.rows) else {
            return self.done.extend(open.steps);
        };
        self.done.push(Step::Chain {
            chain: self.chains.len() as u32,
        });
        self.chains.push((pattern, links.into_boxed_slice()));
    }
}

impl Open {
    fn from(hand: Value) -> Open {
        Open {
            links: vec![Link {
                code: Code::Load,
                value: hand,
            }],
            hand,
            made: Vec::new(),
            reduces: false,
            steps: Vec::new(),
        }
    }

    /// Counts uses of what is in hand that need no memory.
    fn take(&mut self, uses: usize) {
        if let Some(last) = self.made.last_mut() {
            last.1 += uses;
        }
    }

    fn go_on(&mut self, out: Value, step: Step) {
        self.hand = out;
        self.made.push((out, 0, self.links.len()));
        self.steps.push(step);
    }
}
