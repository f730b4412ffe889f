//! Graphs: launches planned and compiled beforehand, queued in one go.

use crate::device::OpenClDevice;
use crate::launch::Prepared;
use crate::stream::ClStream;
use parking_lot::RwLock;
use std::sync::Arc;
use thalweg_hal::backend::{GraphNode, OwnedTag, Tag, Work};
use thalweg_hal::kit::replay::OwnedWork;
use thalweg_hal::{Error, Result};

#[derive(Clone)]
enum Step {
    Launch(Box<Prepared>),
    Move(Arc<OwnedWork<OpenClDevice>>),
    // A launch over an empty space.
    Nothing,
}

impl Step {
    fn new(work: &Work<'_, OpenClDevice>) -> Result<Step> {
        Ok(match work {
            Work::Launch(launch) => match Prepared::new(launch)? {
                Some(prepared) => Step::Launch(Box::new(prepared)),
                None => Step::Nothing,
            },
            Work::Copy(_) | Work::Fill(_) | Work::Callback(_) => Step::Move(Arc::new(OwnedWork::new(work)?)),
        })
    }
}

type Steps = Vec<(Step, Arc<OwnedTag>)>;

/// An executable graph; its nodes come in an order that keeps every dependency.
pub(crate) struct ClGraph {
    steps: RwLock<Arc<Steps>>,
}

impl ClGraph {
    /// Prepares the nodes.
    pub(crate) fn new(nodes: &[GraphNode<'_, OpenClDevice>]) -> Result<ClGraph> {
        let step =
            |node: &GraphNode<'_, OpenClDevice>| Ok((Step::new(&node.work)?, Arc::new(node.tag.to_owned())));
        let steps: Steps = nodes.iter().map(step).collect::<Result<_>>()?;
        Ok(ClGraph {
            steps: RwLock::new(Arc::new(steps)),
        })
    }

    /// Changes one node. Launches that were queued keep what they were queued with.
    pub(crate) fn update(&self, node: usize, work: &Work<'_, OpenClDevice>) -> Result<()> {
        let step = Step::new(work)?;
        let mut guard = self.steps.write();
        let steps = Arc::make_mut(&mut guard);
        let count = steps.len();
        match steps.get_mut(node) {
            Some(place) => place.0 = step,
            None => {
                return Err(Error::invalid_argument(format!(
                    "node {node} of a graph of {count} nodes"
                )));
            }
        }
        Ok(())
    }

    /// Queues every node.
    ///
    /// # Safety
    /// As [`thalweg_hal::backend::Device::submit`] for every node.
    pub(crate) unsafe fn launch(&self, device: &OpenClDevice, stream: &ClStream) -> Result<()> {
        let steps = Arc::clone(&self.steps.read());
        let mut rest = steps.as_slice();
        while let [(step, tag), after @ ..] = rest {
            match step {
                Step::Nothing => rest = after,
                Step::Move(work) => {
                    let raw = tag.raw();
                    // SAFETY: the caller vouches for the memory; `raw` borrows from `tag`, which lives through the call.
                    unsafe { work.with(|work| device.queue_work(stream, work, Tag::new(Some(&raw))))? };
                    rest = after;
                }
                // Launches in a row share one turn at the queue.
                Step::Launch(_) => {
                    let mut order = stream.order();
                    while let [(Step::Launch(prepared), tag), after @ ..] = rest {
                        let raw = tag.raw();
                        // SAFETY: as above.
                        unsafe {
                            prepared.queue(device.api, &device.context, &mut order, Tag::new(Some(&raw)))?
                        };
                        rest = after;
                    }
                    order.flush()?;
                }
            }
        }
        Ok(())
    }
}
