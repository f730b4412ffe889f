//! Maps whose parameters are all contiguous or single: the short way from a launch to its loops.

use super::Args;
use super::arena::Scratch;
use super::launch::{FETCH, SPLIT, STREAM, STRIDE, tasks};
use super::past;
use super::plan::{BLOCK, Home, Plan, Step, Value};
use super::program::Program;
use super::slots::NO_SLOT;
use crate::loops::LoopFn;
use crate::parallel::Parallel;
use crate::prefetch;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Values up to which the table of addresses stands on the stack.
const STACK_VALUES: usize = 40;
/// Fewest elements of a task.
const TASK: u64 = 16 << 10;

/// How a launch treats memory.
#[derive(Clone, Copy, Default)]
struct Habits {
    /// Outputs are written past the caches.
    stream: bool,
    /// Inputs are asked for ahead of time.
    fetch: bool,
    /// An output stands in the memory of an input.
    in_place: bool,
}

/// A kernel of one loop, from parameters to a parameter.
pub(super) struct Single {
    f: LoopFn,
    out: usize,
    from: [Source; 3],
}

/// Where an operand of a [`Single`] stands.
#[derive(Clone, Copy)]
enum Source {
    Param(u32),
    Scalar(u32),
    Constant(u32),
}

impl Single {
    /// The one loop of a plan that has no other.
    pub(super) fn of(plan: &Plan) -> Option<Single> {
        let mut f = None;
        let mut out = None;
        for step in &plan.row {
            match *step {
                Step::Loop { f: g, out, a, b, c } if f.is_none() => f = Some((g, out, [a, b, c])),
                Step::Store { param, value } if out.is_none() => out = Some((param as usize, value)),
                Step::Load { .. } | Step::Aim { .. } => {}
                _ => return None,
            }
        }
        let ((f, v, operands), (out, stored)) = (f?, out?);
        if v != stored || !plan.uniform.iter().all(|s| matches!(s, Step::Load { .. })) {
            return None;
        }
        let source = |v: Value| {
            let loaded = |s: &Step| match *s {
                Step::Load { param, out, .. } if out == v => Some(Source::Param(param)),
                _ => None,
            };
            match plan.homes[v as usize] {
                Home::Constant(i) => Some(Source::Constant(i)),
                Home::Scalar(i) => Some(Source::Scalar(i)),
                Home::Cell(_) | Home::Slot(_) | Home::Keep(_) => {
                    plan.uniform.iter().chain(&plan.row).find_map(loaded)
                }
            }
        };
        let [a, b, c] = operands;
        Some(Single {
            f,
            out,
            from: [source(a)?, source(b)?, source(c)?],
        })
    }

    #[inline(always)]
    fn place(
        program: &Program,
        source: Source,
        scalars: &[u64],
        address: &impl Fn(usize) -> *mut u8,
    ) -> *const u8 {
        match source {
            Source::Param(p) => address(p as usize).cast_const(),
            Source::Scalar(i) => (&raw const scalars[i as usize]).cast(),
            Source::Constant(i) => (&raw const program.parts[0].outer_again.pool[i as usize]).cast(),
        }
    }

    /// Runs the loop, unless there are too many elements or the output stands in the place of an input; whether it did.
    ///
    /// # Safety
    /// As [`Program::run`].
    #[inline(always)]
    pub(super) unsafe fn run(
        &self,
        program: &Program,
        extents: &[u64],
        scalars: &[u64],
        address: impl Fn(usize) -> *mut u8,
    ) -> bool {
        let total = extents.iter().fold(1u64, |n, &e| n.wrapping_mul(e));
        let to = address(self.out);
        let place = |source: Source| Single::place(program, source, scalars, &address);
        let (a, b, c) = (place(self.from[0]), place(self.from[1]), place(self.from[2]));
        let in_place = [a, b, c].contains(&to.cast_const());
        if total > BLOCK as u64 || total == 0 || in_place {
            return false;
        }
        // SAFETY: the caller of the launch vouches for as many elements of each parameter.
        unsafe { self.f.run(total as usize, to, a, b, c) };
        true
    }
}

pub(super) fn run(program: &Program, args: &Args<'_>, parallel: &dyn Parallel) {
    let total: u64 = args.extents.iter().product();
    let mut habits = Habits::default();
    for &(out, _) in &program.flat_outputs {
        let ptr = args.args[out].ptr;
        habits.in_place |= program
            .flat_inputs
            .iter()
            .any(|&(p, _)| args.args[p as usize].ptr == ptr);
    }
    let inputs: u64 = program.flat_inputs.iter().map(|&(_, size)| size as u64).sum();
    let outputs: u64 = program.flat_outputs.iter().map(|&(_, size)| size).sum();
    // What has few or narrow inputs leaves the last cache to its output.
    let moved = total * (inputs + outputs);
    habits.stream = !habits.in_place && total * outputs >= STREAM && moved >= 2 * STREAM;
    habits.fetch = total * program.widest_input >= FETCH;
    // Machine code does all parts at once.
    let parts = if program.generated.is_some() {
        1
    } else {
        program.parts.len()
    };
    for compiled in &program.parts[..parts] {
        let walk = Walk {
            program,
            plan: &compiled.outer_again,
            args,
            habits,
        };
        walk.split(total, parallel);
    }
}

struct Walk<'a> {
    program: &'a Program,
    plan: &'a Plan,
    args: &'a Args<'a>,
    habits: Habits,
}

impl Walk<'_> {
    /// Runs all elements, in tasks where that pays.
    #[inline(never)]
    fn split(&self, total: u64, parallel: &dyn Parallel) {
        if total <= 2 * TASK || parallel.threads() == 1 || self.program.cost(self.args.extents) < SPLIT {
            return self.run(0..total);
        }
        let tasks = tasks(total, parallel.threads()).min(total / TASK);
        // Whole blocks, so that tasks share no cache line.
        let at = |t: u64| {
            if t == tasks {
                total
            } else {
                total / tasks * t / BLOCK as u64 * BLOCK as u64
            }
        };
        parallel.run(tasks as usize, &|t| self.run(at(t as u64)..at(t as u64 + 1)));
    }

    fn run(&self, range: Range<u64>) {
        if let Some(map) = &self.program.generated {
            let n = (range.end - range.start) as usize;
            let params = self.args.args.len();
            let manner = (self.habits.fetch, self.habits.stream);
            // SAFETY: the caller of the launch vouches for the parameters and scalars.
            unsafe {
                map.run(
                    n,
                    params,
                    |p| self.at(p as u32, range.start),
                    self.args.scalars,
                    manner,
                )
            };
            if self.habits.stream {
                past::fence();
            }
            return;
        }
        let plan = self.plan;
        let values = plan.homes.len();
        let cells = plan.cells * 8;
        let slot_bytes = BLOCK * plan.widest + 128;
        let bare = plan.bare && !self.habits.stream && !self.habits.in_place;
        if values <= STACK_VALUES && bare && plan.cells <= 1 {
            let mut table = [const { MaybeUninit::<*mut u8>::uninit() }; STACK_VALUES];
            let mut cell = [0u64; 1];
            // SAFETY: the table has every value, and there are no slots.
            unsafe {
                self.blocks(
                    table.as_mut_ptr().cast(),
                    cell.as_mut_ptr().cast(),
                    std::ptr::null_mut(),
                    range,
                )
            };
            return;
        }
        let table = (values * 8 + cells).next_multiple_of(64);
        let scratch = Scratch::new(table + slot_bytes * plan.slots);
        // SAFETY: the scratch memory has room for values, cells and slots.
        unsafe {
            let start = scratch.start();
            self.blocks(start.cast(), start.add(values * 8), start.add(table), range);
        }
    }

    /// # Safety
    /// `table`, `cells` and `slots` have room for those of the plan.
    unsafe fn blocks(&self, table: *mut *mut u8, cells: *mut u8, slots: *mut u8, range: Range<u64>) {
        let plan = self.plan;
        let slot_bytes = BLOCK * plan.widest + 128;
        // SAFETY: the caller's promise.
        unsafe {
            for &(v, home) in &plan.fixed {
                *table.add(v as usize) = match home {
                    Home::Constant(i) => plan.pool.as_ptr().add(i as usize).cast_mut().cast(),
                    Home::Scalar(i) => self.args.scalars.as_ptr().add(i as usize).cast_mut().cast(),
                    Home::Cell(i) => cells.add(i as usize * 8),
                    Home::Slot(_) | Home::Keep(_) => std::ptr::null_mut(),
                };
            }
            if !plan.bare {
                for (v, home) in plan.homes.iter().enumerate() {
                    if let Home::Slot(i) = *home {
                        *table.add(v) = slots.add(i as usize * slot_bytes);
                    }
                }
            }
            self.steps(&plan.uniform, table, slots, 0, 1, 0);
            let loops = plan.row_loops.max(1);
            let block = if self.habits.fetch {
                STRIDE * loops.min(2)
            } else {
                BLOCK
            };
            let ask = if self.habits.fetch {
                block.div_ceil(loops)
            } else {
                0
            };
            let mut first = range.start;
            while first < range.end {
                let n = (range.end - first).min(block as u64);
                self.steps(&plan.row, table, slots, first, n as usize, ask);
                first += n;
            }
        }
        if self.habits.stream {
            past::fence();
        }
    }

    #[inline(always)]
    fn at(&self, param: u32, first: u64) -> *mut u8 {
        let p = param as usize;
        let stride = self.program.flat_bytes[p];
        self.args.args[p].ptr.wrapping_add(first as usize * stride)
    }

    /// # Safety
    /// As [`Walk::blocks`], for the elements `first..first + n`.
    unsafe fn steps(
        &self,
        steps: &[Step],
        table: *mut *mut u8,
        slots: *mut u8,
        first: u64,
        n: usize,
        ask: usize,
    ) {
        let value = |v: Value| {
            // SAFETY: the table has every value.
            unsafe { *table.add(v as usize) }
        };
        let point = |v: Value, to: *mut u8| {
            // SAFETY: the table has every value.
            unsafe { *table.add(v as usize) = to };
        };
        let slot_bytes = BLOCK * self.plan.widest + 128;
        let slot = |s: u32| slots.wrapping_add(s as usize * slot_bytes);
        let mut asked = 0;
        for step in steps {
            // SAFETY: blocks hold n elements, and the caller of the launch vouches for the parameters.
            unsafe {
                match *step {
                    Step::Loop { f, out, a, b, c } => {
                        if ask != 0 {
                            for &(p, size) in &self.program.flat_inputs {
                                let from = self
                                    .at(p, first)
                                    .wrapping_add((asked + 2 * ask * self.plan.row_loops.max(1)) * size);
                                prefetch::ask(from, ask * size);
                            }
                            asked += ask;
                        }
                        f.run(n, value(out), value(a), value(b), value(c));
                    }
                    Step::Load {
                        param,
                        out,
                        slot: own,
                        moved,
                        ..
                    } => {
                        let from = self.at(param, first);
                        if moved && self.habits.in_place && own != NO_SLOT {
                            slot(own).copy_from_nonoverlapping(
                                from,
                                n * self.program.sizes[param as usize] as usize,
                            );
                            point(out, slot(own));
                        } else {
                            point(out, from);
                        }
                    }
                    Step::Aim {
                        param,
                        value: v,
                        slot: own,
                    } => {
                        let held_back = self.habits.in_place || self.habits.stream;
                        point(
                            v,
                            if held_back {
                                slot(own)
                            } else {
                                self.at(param, first)
                            },
                        );
                    }
                    Step::Store { param, value: v } => {
                        let (to, from) = (self.at(param, first), value(v));
                        let bytes = n * self.program.sizes[param as usize] as usize;
                        if self.habits.stream {
                            past::stream(self.plan.isa, to, from, bytes);
                        } else if to != from {
                            to.copy_from(from, bytes);
                        }
                    }
                    Step::Rand { f, out, key, counter } => f(n, value(out), value(key), value(counter)),
                    // A flat kernel has none of these.
                    Step::LoadAt { .. } | Step::Index { .. } | Step::Reduce { .. } => {}
                }
            }
        }
    }
}
