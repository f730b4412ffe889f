//! Programs: all nodes of a run as one piece of a stream's work.

mod plan;
mod shared;

use crate::device::CpuDevice;
use crate::parallel::{Parallel, Serial};
use crate::profile::Probe;
use crate::step;
use crate::stream::{CpuStream, INLINE_NS, Threads, address};
use plan::Plan;
use shared::RunForms;
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg_hal::Result;
use thalweg_hal::backend::{OwnedTag, Region, Tag};
use thalweg_hal::kit::program::Program;
use thalweg_hal::kit::queue::Job;

/// First address of each slot.
type Slots = SmallVec<[*mut u8; 6]>;

/// A run that outlives the call it came with.
struct Run<P> {
    program: Arc<Program<CpuDevice>>,
    slots: Slots,
    arguments: SmallVec<[u64; 4]>,
    tag: Option<OwnedTag>,
    probe: P,
    // The node that failed.
    at: AtomicUsize,
}

// SAFETY: the addresses are of memory that the caller of `Device::run_program` keeps valid until the work is done.
unsafe impl<P: Probe + Send> Send for Run<P> {}
// SAFETY: as above.
unsafe impl<P: Probe> Sync for Run<P> {}

/// Notes the node that panics.
struct Blame<'a> {
    at: &'a AtomicUsize,
    node: u32,
}

impl Drop for Blame<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.at.store(self.node as usize, Ordering::Relaxed);
        }
    }
}

/// What to call node `at` of a run.
fn describe(program: &Program<CpuDevice>, at: usize, tag: Option<&OwnedTag>) -> String {
    let own = program.nodes.get(at).map(|node| &node.tag);
    tag.or(own).map(ToString::to_string).unwrap_or_default()
}

/// Runs the nodes of a program one by one, from `moment` on; `before` is called with the number of each before it runs.
///
/// # Safety
/// The memory behind the slots is valid, as far as the program reaches.
#[inline(always)]
unsafe fn each<P: Probe>(
    (program, plan, of_run): (&Program<CpuDevice>, &Plan, Option<&RunForms>),
    slots: impl Fn(usize) -> *mut u8,
    arguments: &[u64],
    parallel: &dyn Parallel,
    before: impl Fn(usize),
    (probe, mut moment): (&P, u64),
) {
    for (index, node) in program.nodes.iter().enumerate() {
        before(index);
        let kept = || plan.kept(program, index, &slots, of_run);
        // SAFETY: the caller vouches for the memory.
        unsafe { step::run(&node.step, &slots, kept, arguments, parallel) };
        moment = probe.node(node, moment);
    }
}

impl<P: Probe> Run<P> {
    /// Runs the program; the caller of [`CpuStream::submit_program`] vouches for the memory until the stream has passed the work.
    fn go(&self, threads: &Threads) {
        let (plan, slots) = (Plan::of(&self.program), &self.slots[..]);
        let of_run = plan.shared.begin();
        let of_run = of_run.as_ref();
        if plan.waves.is_empty() {
            let before = |index| self.at.store(index, Ordering::Relaxed);
            // SAFETY: as above.
            unsafe {
                each(
                    (&self.program, plan, of_run),
                    |slot| slots[slot],
                    &self.arguments,
                    threads,
                    before,
                    (&self.probe, self.probe.now()),
                )
            };
        } else {
            let start = self.probe.now();
            (plan.waves.iter()).fold(start, |moment, wave| {
                self.wave((plan, of_run), wave, threads, moment)
            });
        }
    }

    /// Runs nodes that do not wait for each other, from `moment` on; when they end.
    fn wave(
        &self,
        (plan, of_run): (&Plan, Option<&RunForms>),
        wave: &[u32],
        threads: &Threads,
        moment: u64,
    ) -> u64 {
        let node = |at: u32, start: u64, parallel: &dyn Parallel| {
            let _blame = Blame {
                at: &self.at,
                node: at,
            };
            let (node, slots) = (&self.program.nodes[at as usize], |slot: usize| self.slots[slot]);
            let kept = || plan.kept(&self.program, at as usize, slots, of_run);
            // SAFETY: as in `go`.
            unsafe { step::run(&node.step, slots, kept, &self.arguments, parallel) };
            self.probe.node(node, start)
        };
        match wave {
            [single] => node(*single, moment, threads),
            many => {
                threads.run(many.len(), &|at| {
                    node(many[at], self.probe.now(), &Serial);
                });
                self.probe.now()
            }
        }
    }
}

impl CpuStream {
    /// Runs a program at once when it is cheap and the stream is idle, and queues it otherwise.
    ///
    /// # Safety
    /// As `Device::run_program`.
    #[inline]
    pub(crate) unsafe fn submit_program<P: Probe>(
        &self,
        program: &Arc<Program<CpuDevice>>,
        slots: &[Region<'_, CpuDevice>],
        arguments: &[u64],
        tag: Option<Tag<'_>>,
        probe: &P,
    ) -> Result<()> {
        let plan = Plan::of(program);
        if plan.cost <= INLINE_NS
            && let Some(inline) = self.queue.try_inline()
        {
            let at = Cell::new(0);
            inline.run(
                || {
                    let slots = |slot: usize| address(&slots[slot]);
                    // SAFETY: the caller vouches for the memory.
                    unsafe {
                        each(
                            (program, plan, None),
                            slots,
                            arguments,
                            &self.threads,
                            |index| at.set(index),
                            (probe, probe.at_once()),
                        );
                    }
                    Ok(())
                },
                || describe(program, at.get(), tag.map(Tag::to_owned).as_ref()),
            );
            return Ok(());
        }
        self.queue_program(
            program,
            slots.iter().map(address).collect(),
            arguments,
            tag,
            probe,
        )
    }

    #[cold]
    fn queue_program<P: Probe>(
        &self,
        program: &Arc<Program<CpuDevice>>,
        slots: Slots,
        arguments: &[u64],
        tag: Option<Tag<'_>>,
        probe: &P,
    ) -> Result<()> {
        let job = Arc::new(Run {
            program: Arc::clone(program),
            slots,
            arguments: arguments.into(),
            tag: tag.map(Tag::to_owned),
            probe: probe.keep(),
            at: AtomicUsize::new(0),
        });
        let (failed, threads) = (Arc::clone(&job), self.threads);
        self.queue.push(Job {
            run: Box::new(move || {
                job.go(&threads);
                Ok(())
            }),
            describe: Box::new(move || {
                let at = failed.at.load(Ordering::Relaxed);
                describe(&failed.program, at, failed.tag.as_ref())
            }),
        })
    }
}
