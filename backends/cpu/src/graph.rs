//! Graphs: nodes with their addresses resolved, run as one piece of a stream's work.

use crate::device::CpuDevice;
use crate::kernel::Prepared;
use crate::parallel::Parallel;
use crate::stream::run_borrowed;
use parking_lot::RwLock;
use std::sync::Arc;
use thalweg_hal::backend::{GraphNode, OwnedTag, Work};
use thalweg_hal::kit::replay::OwnedWork;
use thalweg_hal::{Error, Result};

#[derive(Clone)]
enum Step {
    Launch(Arc<Prepared>),
    Move(Arc<OwnedWork<CpuDevice>>),
}

impl Step {
    fn new(work: &Work<'_, CpuDevice>) -> Result<Step> {
        Ok(match work {
            Work::Launch(launch) => Step::Launch(Arc::new(Prepared::new(launch))),
            other => Step::Move(Arc::new(OwnedWork::new(other)?)),
        })
    }

    fn cost(&self) -> u64 {
        match self {
            Step::Launch(prepared) => prepared.cost(),
            // A copy or fill in a graph is queued unless all else is cheap and it is small itself.
            // SAFETY: only sizes are read, no memory is touched.
            Step::Move(work) => unsafe {
                work.with(|work| match work {
                    Work::Copy(copy) => copy.width.saturating_mul(copy.rows) / 8,
                    Work::Fill(fill) => fill.region.bytes / 8,
                    _ => 0,
                })
            },
        }
    }
}

/// The nodes in launch order: they come in an order that keeps every dependency.
#[derive(Clone)]
pub struct Plan {
    steps: Vec<Step>,
    tags: Arc<[OwnedTag]>,
    /// Nanoseconds on one core, roughly.
    pub(crate) cost: u64,
}

impl Plan {
    /// # Safety
    /// The memory of every node is valid.
    pub(crate) unsafe fn run(&self, parallel: &dyn Parallel) -> Result<()> {
        for (step, tag) in self.steps.iter().zip(&*self.tags) {
            // SAFETY: the caller vouches for the memory.
            unsafe {
                match step {
                    Step::Launch(prepared) => prepared.run(parallel),
                    Step::Move(work) => work
                        .with(|work| run_borrowed(work, parallel))
                        .map_err(|error| Error::new(error.status, format!("{tag}: {}", error.message)))?,
                }
            }
        }
        Ok(())
    }
}

/// An executable graph.
pub struct CpuGraph {
    plan: RwLock<Arc<Plan>>,
}

impl CpuGraph {
    pub(crate) fn new(nodes: &[GraphNode<'_, CpuDevice>]) -> Result<CpuGraph> {
        let steps = nodes
            .iter()
            .map(|node| Step::new(&node.work))
            .collect::<Result<Vec<_>>>()?;
        let cost = steps.iter().map(Step::cost).fold(0, u64::saturating_add);
        let tags = nodes.iter().map(|node| node.tag.to_owned()).collect();
        Ok(CpuGraph {
            plan: RwLock::new(Arc::new(Plan { steps, tags, cost })),
        })
    }

    /// Launches in flight keep the arguments they were launched with.
    pub(crate) fn update(&self, node: usize, work: &Work<'_, CpuDevice>) -> Result<()> {
        let step = Step::new(work)?;
        let mut guard = self.plan.write();
        let plan = Arc::make_mut(&mut guard);
        let count = plan.steps.len();
        let place = plan
            .steps
            .get_mut(node)
            .ok_or_else(|| Error::invalid_argument(format!("node {node} of a graph of {count} nodes")))?;
        *place = step;
        plan.cost = plan.steps.iter().map(Step::cost).fold(0, u64::saturating_add);
        Ok(())
    }

    pub(crate) fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.plan.read())
    }
}
