//! Programs: all nodes of a run as one piece of a stream's work.

use crate::device::CpuDevice;
use crate::exec::{Arg, Args};
use crate::kernel::CpuKernel;
use crate::memory;
use crate::parallel::{Parallel, Serial};
use crate::profile::Probe;
use crate::stream::{COPY_BYTES_PER_NS, CpuStream, INLINE_NS, Threads};
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use thalweg_hal::Result;
use thalweg_hal::backend::{OwnedTag, Region, Tag};
use thalweg_hal::kit::program::{self, End, Form, Node, Operand, Program, Step};
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

/// How a program runs.
struct Plan {
    /// Nanoseconds on one core, roughly.
    cost: u64,
    /// Nodes by number: what comes together may run at once.
    waves: Vec<SmallVec<[u32; 1]>>,
    /// By node: the form that it reads. Empty where there is none.
    forms: Box<[Option<usize>]>,
}

/// A form of a constant: its memory, and whether it has been made.
type Kept<'a> = (*mut u8, &'a OnceLock<()>);

/// Nodes that cost less than this do not split, and so run beside each other.
const SMALL_NS: u64 = 12_000;
/// What a wave must save, in nanoseconds, to be worth a region.
const WORTH_NS: u64 = 3_000;
/// How far ahead a wave looks for nodes: those nearby find their operands in the cache.
const AHEAD: usize = 32;

fn cost(node: &Node<CpuDevice>) -> u64 {
    match &node.step {
        Step::Launch { kernel, extents, .. } => kernel.cost(extents),
        Step::Copy { width, rows, .. } => width.saturating_mul(*rows) / COPY_BYTES_PER_NS,
        Step::Fill { bytes, .. } => bytes / COPY_BYTES_PER_NS,
    }
}

impl Plan {
    #[inline]
    fn of(program: &Program<CpuDevice>) -> &Plan {
        let plan = program.plan.get_or_init(|| Box::new(Plan::new(program)));
        match plan.downcast_ref() {
            Some(plan) => plan,
            None => unreachable!("this backend alone makes plans of its programs"),
        }
    }

    /// The form that a node reads.
    #[inline]
    fn kept<'a>(
        &self,
        program: &'a Program<CpuDevice>,
        node: usize,
        slots: impl Fn(usize) -> *mut u8,
    ) -> Option<Kept<'a>> {
        let form = (*self.forms.get(node)?)?;
        let made = program.made.get()?.get(form)?;
        Some((slots(program.forms_at + form), made))
    }

    fn new(program: &Program<CpuDevice>) -> Plan {
        let nodes = &program.nodes;
        let mut forms = vec![None; if program.forms.is_empty() { 0 } else { nodes.len() }];
        for (at, form) in program.forms.iter().enumerate() {
            forms[form.node as usize] = Some(at);
        }
        let costs: Vec<u64> = nodes.iter().map(cost).collect();
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
        Plan {
            cost: costs.iter().fold(0, |sum, &cost| sum.saturating_add(cost)),
            waves,
            forms: forms.into(),
        }
    }
}

#[inline]
fn argument(operand: &Operand, ptr: *mut u8) -> Arg<'_> {
    Arg {
        ptr,
        strides: &operand.strides,
        gather_stride: operand.gather_stride,
        gather_extent: operand.gather_extent,
    }
}

/// The forms of constants that nodes read faster.
pub(crate) fn forms(nodes: &[Node<CpuDevice>], constant: &dyn Fn(usize) -> bool) -> Vec<Form> {
    let form = |(node, of): (u32, &Node<CpuDevice>)| {
        let Step::Launch {
            kernel,
            extents,
            operands,
            scalars,
            ..
        } = &of.step
        else {
            return None;
        };
        let CpuKernel::Library(library) = &**kernel else {
            return None;
        };
        let args: Vec<Arg<'_>> = (operands.iter())
            .map(|operand| argument(operand, std::ptr::null_mut()))
            .collect();
        let wanted = library.wanted(&Args {
            extents,
            args: &args,
            scalars,
        })?;
        let operand = &operands[wanted.operand];
        constant(operand.slot).then(|| Form {
            node,
            input: operand.slot,
            bytes: wanted.bytes,
            key: std::iter::once(operand.offset).chain(wanted.key).collect(),
        })
    };
    (0..).zip(nodes).filter_map(form).collect()
}

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

/// Runs a node now.
///
/// # Safety
/// The memory behind the slots is valid, as far as the node reaches.
#[inline]
unsafe fn run(
    node: &Node<CpuDevice>,
    slots: impl Fn(usize) -> *mut u8,
    kept: Option<Kept<'_>>,
    given_to_run: &[u64],
    parallel: &dyn Parallel,
) {
    match &node.step {
        Step::Launch {
            kernel,
            extents,
            operands,
            scalars,
            given,
        } => {
            let mut place = SmallVec::new();
            let scalars = match given.is_empty() {
                true => scalars,
                false => program::scalars(scalars, given, given_to_run, &mut place),
            };
            let address = |at: usize| {
                let operand = &operands[at];
                slots(operand.slot).wrapping_add(operand.offset as usize)
            };
            if let CpuKernel::Program(program) = &**kernel {
                // SAFETY: the caller vouches for the memory.
                if unsafe { program.run_single(extents, scalars, address) } {
                    return;
                }
            }
            // Filled in place: what is collected would be moved, with its room for operands.
            let mut args = SmallVec::<[Arg<'_>; 8]>::new();
            for (at, operand) in operands.iter().enumerate() {
                args.push(argument(operand, address(at)));
            }
            let args = Args {
                extents,
                args: &args,
                scalars,
            };
            // SAFETY: the caller vouches for the memory; what outputs may share was checked with the program. A form has the bytes
            // that the kernel wanted, and who comes first alone writes them.
            unsafe {
                match (&**kernel, kept) {
                    (CpuKernel::Program(program), _) => program.run_loops(&args, parallel),
                    (CpuKernel::Library(library), Some((form, made))) => {
                        made.get_or_init(|| library.prepare(&args, form));
                        library.run(&args, form, parallel);
                    }
                    (CpuKernel::Library(library), None) => library.run(&args, std::ptr::null(), parallel),
                }
            }
        }
        Step::Copy {
            dst,
            src,
            width,
            rows,
        } => {
            let end = |end: &End| {
                let first = slots(end.slot).wrapping_add(end.offset as usize);
                (first, end.pitch as usize)
            };
            let (dst, (src, from)) = (end(dst), end(src));
            // SAFETY: the caller vouches for the memory.
            unsafe {
                memory::copy(
                    dst,
                    (src.cast_const(), from),
                    *width as usize,
                    *rows as usize,
                    parallel,
                )
            };
        }
        Step::Fill {
            slot,
            offset,
            bytes,
            pattern,
            pattern_bytes,
        } => {
            let to = slots(*slot).wrapping_add(*offset as usize);
            // SAFETY: the caller vouches for the memory.
            unsafe { memory::fill(to, *bytes as usize, *pattern, *pattern_bytes as usize, parallel) };
        }
    }
}

impl<P: Probe> Run<P> {
    /// Runs the nodes one by one.
    fn line(&self, plan: &Plan, threads: &Threads) {
        let (slots, nodes) = (&self.slots[..], &self.program.nodes[..]);
        let slots = |slot: usize| slots[slot];
        let mut moment = self.probe.now();
        for (index, node) in nodes.iter().enumerate() {
            self.at.store(index, Ordering::Relaxed);
            let kept = plan.kept(&self.program, index, slots);
            // SAFETY: as in `wave`.
            unsafe { run(node, slots, kept, &self.arguments, threads) };
            moment = self.probe.node(node, moment);
        }
    }

    /// Runs nodes that do not wait for each other, from `moment` on; when they end.
    fn wave(&self, wave: &[u32], threads: &Threads, moment: u64) -> u64 {
        let node = |at: u32, start: u64, parallel: &dyn Parallel| {
            let _blame = Blame {
                at: &self.at,
                node: at,
            };
            let (node, slots) = (&self.program.nodes[at as usize], |slot: usize| self.slots[slot]);
            let kept = Plan::of(&self.program).kept(&self.program, at as usize, slots);
            // SAFETY: the caller of `submit_program` vouches for the memory until the stream has passed the work.
            unsafe { run(node, slots, kept, &self.arguments, parallel) };
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
        let base = |region: &Region<'_, CpuDevice>| region.chunk.base().wrapping_add(region.offset as usize);
        let plan = Plan::of(program);
        if plan.cost <= INLINE_NS
            && let Some(inline) = self.queue.try_inline()
        {
            let at = Cell::new(0);
            inline.run(
                || {
                    let mut moment = probe.at_once();
                    for (index, node) in program.nodes.iter().enumerate() {
                        at.set(index);
                        let slots = |slot: usize| base(&slots[slot]);
                        let kept = plan.kept(program, index, slots);
                        // SAFETY: the caller vouches for the memory.
                        unsafe { run(node, slots, kept, arguments, &Serial) };
                        moment = probe.node(node, moment);
                    }
                    Ok(())
                },
                || describe(program, at.get(), tag.map(Tag::to_owned).as_ref()),
            );
            return Ok(());
        }
        self.queue_program(program, slots.iter().map(base).collect(), arguments, tag, probe)
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
                let plan = Plan::of(&job.program);
                if plan.waves.len() == job.program.nodes.len() {
                    job.line(plan, &threads);
                } else {
                    let start = job.probe.now();
                    (plan.waves.iter()).fold(start, |moment, wave| job.wave(wave, &threads, moment));
                }
                Ok(())
            }),
            describe: Box::new(move || {
                describe(
                    &failed.program,
                    failed.at.load(Ordering::Relaxed),
                    failed.tag.as_ref(),
                )
            }),
        })
    }
}
