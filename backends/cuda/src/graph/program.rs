//! Programs as graphs of the driver, which runs nodes side by side that do not wait for each other.

use super::executable::Executable;
use super::nodes::Watch;
use super::step::Step;
use super::{build, name};
use crate::activity::{self, What};
use crate::device::CudaDevice;
use crate::stream::{CuStream, Order};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::Arc;
use thalweg_hal::backend::{OwnedTag, Region, Tag};
use thalweg_hal::kit::profile::{Recorder, Submission};
use thalweg_hal::kit::program::{self, Program};
use thalweg_hal::tables::LogLevel;
use thalweg_hal::{Error, Result};

/// Programs of fewer nodes are submitted one by one.
const FEW: usize = 4;
/// Most executable graphs of a program: launches of one wait for each other, and runs take turns with a few sets of buffers.
const MOST: usize = 4;
/// Runs that changed addresses before another executable graph is made.
const MOVES: u32 = 8;
/// Runs one by one after a graph could not be made, before the next attempt.
const REST: u32 = 64;

/// What a node takes from a run.
struct Uses {
    slots: SmallVec<[usize; 4]>,
    arguments: SmallVec<[usize; 2]>,
}

/// What an executable graph was last launched with, or a run is given.
#[derive(Clone, Default)]
struct Given {
    // Addresses of the slots.
    slots: SmallVec<[u64; 8]>,
    arguments: SmallVec<[u64; 4]>,
    // Where scratch memory starts.
    scratch: u64,
}

struct Kept {
    executable: Arc<Executable>,
    given: Given,
}

#[derive(Default)]
struct State {
    // The latest used is the last.
    kept: Vec<Kept>,
    moves: u32,
    rest: u32,
}

/// How a program runs on a device.
pub(crate) struct ProgramGraph {
    name: OwnedTag,
    uses: Box<[Uses]>,
    state: Mutex<State>,
}

/// What records a run whose nodes are traced.
pub(crate) type Trace<'a> = (&'a Arc<Recorder>, &'a Submission);

/// Why a run was not launched as a graph.
enum Refused {
    /// The run itself is refused.
    Run(Error),
    /// The driver does not make or launch the graph; nothing of the run was queued.
    Graph(Error),
}

impl ProgramGraph {
    /// Whether a program is large enough for a graph.
    pub(crate) fn is_for(program: &Program<CudaDevice>) -> bool {
        program.nodes.len() >= FEW
    }

    /// What is known of a program before its first run.
    pub(crate) fn new(program: &Program<CudaDevice>) -> ProgramGraph {
        let uses = |node: &program::Node<CudaDevice>| Uses {
            slots: node.slots(),
            arguments: match &node.step {
                program::Step::Launch { given, .. } => given.iter().map(|&(_, argument)| argument).collect(),
                program::Step::Copy { .. } | program::Step::Fill { .. } => SmallVec::new(),
            },
        };
        ProgramGraph {
            name: name(program.nodes.iter().map(|node| node.tag.clone())),
            uses: program.nodes.iter().map(uses).collect(),
            state: Mutex::default(),
        }
    }

    /// Launches a run. False where the driver makes no graph of it, or where its nodes cannot be traced: then nothing was queued.
    ///
    /// # Errors
    /// What a node's launch cannot be planned or compiled for, and that the device is lost.
    ///
    /// # Safety
    /// As [`thalweg_hal::backend::Device::run_program`].
    pub(crate) unsafe fn launch(
        &self,
        device: &CudaDevice,
        stream: &CuStream,
        program: &Program<CudaDevice>,
        slots: &[Region<'_, CudaDevice>],
        (arguments, trace): (&[u64], Option<Trace<'_>>),
        tag: Option<Tag<'_>>,
    ) -> Result<bool> {
        let run = Run {
            device,
            program,
            slots,
            arguments,
            trace,
        };
        let mut state = self.state.lock();
        if state.rest > 0 {
            state.rest -= 1;
            return Ok(false);
        }
        if trace.is_some() {
            state.kept.retain(|kept| kept.executable.parts.is_some());
        }
        let mut order = stream.order()?;
        let was_lost = device.context.is_lost();
        // SAFETY: the caller vouches for the memory of every node.
        let error = match unsafe { self.queue(&mut state, &mut order, &run) } {
            Ok(executable) => {
                let raw = self.name.raw();
                // SAFETY: `raw` borrows from the name, which lives through the call.
                let own = unsafe { Tag::new(Some(&raw)) };
                order.done(tag.unwrap_or(own), Some(executable));
                return Ok(true);
            }
            Err(Refused::Run(error) | Refused::Graph(error)) if device.context.is_lost() => {
                return Err(if was_lost { error } else { order.suspects(&error) });
            }
            Err(Refused::Run(error)) => return Err(error),
            Err(Refused::Graph(error)) => error,
        };
        state.kept.clear();
        state.rest = REST;
        let text = format!("{} is submitted node by node: {error}", self.name);
        device.host.log(LogLevel::Warn, "cuda", &text);
        Ok(false)
    }

    /// # Safety
    /// As [`ProgramGraph::launch`].
    unsafe fn queue(
        &self,
        state: &mut State,
        order: &mut Order<'_>,
        run: &Run<'_>,
    ) -> Result<Arc<Executable>, Refused> {
        let kept = match state.take(run) {
            Some(kept) => self.update(kept, order, run)?,
            None => None,
        };
        let kept = match kept {
            Some(kept) => kept,
            None => {
                state.moves = 0;
                run.build(order)?
            }
        };
        let executable = Arc::clone(&kept.executable);
        // SAFETY: the caller vouches for the memory of every node.
        let launch = || unsafe { (run.device.context.api.graph_launch)(executable.raw, order.raw()) };
        let code = match (run.trace, &executable.parts) {
            (None, _) => launch(),
            (Some(trace), Some(parts)) if parts.are_all() => {
                activity::trace(trace, What::Graph(Arc::clone(parts)), launch)
            }
            (Some(_), Some(_) | None) => {
                let why = "CUPTI does not tell of its nodes, which are traced one by one";
                return Err(Refused::Graph(Error::unsupported(why)));
            }
        };
        (run.device.context)
            .check("cuGraphLaunch", code)
            .map_err(Refused::Graph)?;
        state.kept.push(kept);
        Ok(executable)
    }

    /// Brings a graph to what a run is given; none where the driver cannot change it.
    fn update(&self, mut kept: Kept, order: &mut Order<'_>, run: &Run<'_>) -> Result<Option<Kept>, Refused> {
        let executable = &*kept.executable;
        let given = run.given(order, executable.scratch_bytes)?;
        let (moved, found) = (given.scratch != kept.given.scratch, &kept.given);
        for (index, (node, uses)) in run.program.nodes.iter().zip(&self.uses).enumerate() {
            let other = uses
                .slots
                .iter()
                .any(|&slot| found.slots[slot] != given.slots[slot])
                || (uses.arguments.iter()).any(|&at| found.arguments[at] != given.arguments[at])
                || moved && executable.nodes[index].scratch_bytes > 0;
            if !other {
                continue;
            }
            let step = run.step(node)?;
            if !(executable.set(index, &step, given.scratch)).map_err(Refused::Run)? {
                return Ok(None);
            }
        }
        kept.given = given;
        Ok(Some(kept))
    }
}

impl State {
    /// The graph that has least to change for a run, unless another one is to be made.
    fn take(&mut self, run: &Run<'_>) -> Option<Kept> {
        let moves = |kept: &Kept| {
            let pairs = kept.given.slots.iter().zip(run.addresses());
            pairs.filter(|(at, slot)| *at != slot).count()
        };
        let (at, least) = (self.kept.iter().map(moves).enumerate()).min_by_key(|&(_, moves)| moves)?;
        if least > 0 {
            self.moves += 1;
            if self.moves > MOVES && self.kept.len() < MOST {
                return None;
            }
        }
        Some(self.kept.remove(at))
    }
}

/// A run of a program.
struct Run<'a> {
    device: &'a CudaDevice,
    program: &'a Program<CudaDevice>,
    slots: &'a [Region<'a, CudaDevice>],
    arguments: &'a [u64],
    trace: Option<Trace<'a>>,
}

impl Run<'_> {
    fn addresses(&self) -> impl Iterator<Item = u64> {
        self.slots.iter().map(|slot| slot.chunk.at(slot.offset))
    }

    /// What it is given, with scratch memory of the stream.
    fn given(&self, order: &mut Order<'_>, scratch_bytes: u64) -> Result<Given, Refused> {
        let scratch = match scratch_bytes {
            0 => 0,
            bytes => order.scratch(bytes).map_err(Refused::Graph)?,
        };
        Ok(Given {
            slots: self.addresses().collect(),
            arguments: self.arguments.iter().copied().collect(),
            scratch,
        })
    }

    /// A node's work, planned; an error names the node.
    fn step(&self, node: &program::Node<CudaDevice>) -> Result<Step, Refused> {
        node.with(self.device, self.slots, self.arguments, |work| {
            Step::new(self.device, work)
        })
        .map_err(|error| {
            let text = format!("{}: {}", node.tag, error.message);
            Refused::Run(Error::new(error.status, text))
        })
    }

    fn build(&self, order: &mut Order<'_>) -> Result<Kept, Refused> {
        let nodes = &self.program.nodes;
        let steps: Vec<Step> = nodes
            .iter()
            .map(|node| self.step(node))
            .collect::<Result<_, _>>()?;
        let pairs: Vec<(&Step, &[u32])> = (steps.iter().zip(nodes))
            .map(|(step, node)| (step, &*node.dependencies))
            .collect();
        let watch = self.trace.map(|_| Watch::new());
        let scratch = |bytes| order.scratch(bytes);
        let built = build::executable(self.device, &pairs, scratch, watch.as_ref());
        let mut executable = built.map_err(Refused::Graph)?;
        executable.parts = watch.and_then(|watch| watch.parts(self.program)).map(Arc::new);
        let given = Given {
            slots: self.addresses().collect(),
            arguments: self.arguments.iter().copied().collect(),
            scratch: executable.scratch,
        };
        Ok(Kept {
            executable: Arc::new(executable),
            given,
        })
    }
}
