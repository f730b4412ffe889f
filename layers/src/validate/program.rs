//! Programs: lists of packets over slots, and what a run of them touches.

use super::code::Code;
use super::content::Written;
use super::order::{Access, Clock};
use super::refusal::{pointer, refusal};
use super::region::Region;
use super::report::{Fault, Report};
use super::shadow::{Buffer, Check, Kind, State};
use super::site::SiteId;
use super::work::{Ticket, Touch};
use thalweg_hal::Status;
use thalweg_hal::kit::args::array;
use thalweg_hal::kit::packet::{ORIGIN, Reach};
use thalweg_hal::tables::{ProgramInput, ProgramRebindArgs, ProgramRunArgs};

/// A program.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) device: u64,
    pub(super) site: SiteId,
    pub(super) inputs: usize,
    pub(super) arguments: usize,
    /// Bytes of each output, and what writes it last.
    pub(super) outputs: Box<[(u64, SiteId)]>,
    /// Outputs and scratch buffers.
    pub(super) made: usize,
    /// What is done to each slot.
    pub(super) slots: Box<[Uses]>,
    pub(super) bound: Vec<ProgramInput>,
}

/// What a program does to a slot.
#[derive(Clone, Debug, Default)]
pub(super) struct Uses {
    pub(super) reach: Reach,
    pub(super) list: Vec<Use>,
}

/// What one packet does to it.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub(super) region: Region,
    pub(super) writes: bool,
    /// Whether every byte is touched.
    pub(super) exact: bool,
    pub(super) site: SiteId,
}

/// Most uses that are kept of a slot. Of more, races are not found.
const KEPT: usize = 64;

impl Uses {
    /// The bytes that are written; `None` where not all uses are known.
    fn written(&self) -> Option<Written> {
        let mut all = Written::default();
        let writes = self.list.iter().filter(|one| one.writes);
        writes.for_each(|one| all.add(one.region.start, one.region.end));
        (self.list.len() < KEPT).then_some(all)
    }

    pub(super) fn add(&mut self, new: Use) {
        let joins = |old: &Use| {
            (old.writes, old.exact) == (new.writes, new.exact)
                && match (&old.region.grid, &new.region.grid) {
                    (None, None) => old.region.start <= new.region.end && new.region.start <= old.region.end,
                    _ => old.region == new.region,
                }
        };
        if let Some(old) = self.list.iter_mut().find(|old| joins(old)) {
            old.region.start = old.region.start.min(new.region.start);
            old.region.end = old.region.end.max(new.region.end);
        } else if self.list.len() < KEPT {
            self.list.push(new);
        }
    }
}

impl State {
    /// Whether a bound slot may hold a place in a buffer.
    pub(super) fn check_bound(&self, program: &Program, at: usize, input: &ProgramInput) -> Check {
        let what = self.sites.text(program.site);
        let buffer = self.buffer(&what, input.buffer)?;
        State::same_device(
            &what,
            (Kind::Buffer, Kind::Program),
            (buffer.device, program.device),
        )?;
        let number = program.inputs + program.made + at;
        let reach = &program.slots[number].reach;
        match reach.fits(input.offset, buffer.bytes) {
            true => Ok(()),
            false => {
                let error = reach.misses(&format!("bound slot {number}"), input.offset, buffer.bytes);
                Err(refusal(&what, &error, false))
            }
        }
    }

    /// Checks that a bound slot may hold another place.
    pub(super) fn check_rebind(&self, args: &ProgramRebindArgs) -> Check {
        let program = self.program("rebind", args.program)?;
        let first = (program.inputs + program.made) as u64;
        let at = args
            .slot
            .checked_sub(first)
            .and_then(|at| usize::try_from(at).ok());
        match at.filter(|&at| at < program.bound.len()) {
            Some(at) => self.check_bound(program, at, &args.input),
            None => {
                let text = format!("rebind: slot {} is not bound; name a bound slot", args.slot);
                Err(Report::program(Code::Mismatch, Status::InvalidArgument, text))
            }
        }
    }

    /// Notes what a bound slot holds from now on.
    pub(super) fn rebind(&mut self, args: &ProgramRebindArgs) {
        if let Ok(program) = self.programs.find_mut(args.program) {
            let first = (program.inputs + program.made) as u64;
            let at = args.slot.wrapping_sub(first) as usize;
            if let Some(bound) = program.bound.get_mut(at) {
                *bound = args.input;
            }
        }
    }

    /// Asks for a program.
    pub(super) fn program(&self, what: &str, handle: u64) -> std::result::Result<&Program, Report> {
        (self.programs.find(handle)).map_err(|missing| self.missing(what, Kind::Program, handle, missing))
    }

    /// Checks a run and orders what it touches.
    ///
    /// # Safety
    /// The pointers of the arguments are null or valid.
    pub(super) unsafe fn run(&mut self, args: &ProgramRunArgs) -> (Option<Ticket>, Check) {
        // SAFETY: the caller vouches for the pointers.
        let given = unsafe { array(args.inputs, args.input_count) };
        let inputs = match given {
            Ok(inputs) => inputs,
            Err(error) => return (None, Err(pointer("run", &error))),
        };
        let mut touched = std::mem::take(&mut self.scratch);
        let mut sites = std::mem::take(&mut self.scratch_sites);
        let checked = self.check_run(args, inputs, &mut touched, &mut sites);
        let checked = checked.and_then(|()| self.content(&touched, true, |at| sites[at]));
        let answer = match checked {
            Ok(()) => {
                let (ticket, race) = self.order(args.stream, &touched, |at| sites[at]);
                (ticket, race.map_or(Ok(()), |report| Err(report.of(Fault::Core))))
            }
            wrong => (None, wrong),
        };
        touched.clear();
        sites.clear();
        (self.scratch, self.scratch_sites) = (touched, sites);
        answer
    }

    fn check_run(
        &self,
        args: &ProgramRunArgs,
        inputs: &[ProgramInput],
        touched: &mut Vec<Touch>,
        sites: &mut Vec<SiteId>,
    ) -> Check {
        let program = self.program("run", args.program)?;
        let stream = self.stream("run", args.stream)?;
        if stream.device != program.device {
            let what = self.sites.text(program.site);
            let (kinds, devices) = ((Kind::Program, Kind::Stream), (program.device, stream.device));
            return State::same_device(&what, kinds, devices);
        }
        let own = (program.inputs, program.arguments, program.outputs.len());
        if own != (inputs.len(), args.argument_count, args.output_count) {
            let text = format!(
                "{}: a run has {} inputs, {} arguments and {} outputs, the program {}, {} and {}; pass as many",
                self.sites.text(program.site),
                inputs.len(),
                args.argument_count,
                args.output_count,
                own.0,
                own.1,
                own.2
            );
            let report = Report::program(Code::Mismatch, Status::InvalidArgument, text);
            return Err(report.at(program.site, 0).of(Fault::Core));
        }
        let bound = (program.inputs + program.made..).zip(&program.bound);
        for (slot, input) in (0..).zip(inputs).chain(bound) {
            let buffer = match self.buffers.find(input.buffer) {
                Ok(buffer) => buffer,
                Err(missing) => {
                    let what = self.sites.text(program.site);
                    let report = self.missing(&what, Kind::Buffer, input.buffer, missing);
                    let code = match slot >= program.inputs {
                        true => Code::BoundFreed,
                        false => report.code,
                    };
                    return Err(Report { code, ..report }.of(Fault::Core));
                }
            };
            let uses = &program.slots[slot];
            if buffer.device != program.device || !uses.reach.fits(input.offset, buffer.bytes) {
                return Err(self.misplaced(program, slot, input, buffer));
            }
            for one in &uses.list {
                touched.push(Touch {
                    buffer: input.buffer,
                    region: one.region.moved(input.offset.wrapping_sub(ORIGIN)),
                    writes: one.writes,
                    exact: one.exact,
                });
                sites.push(one.site);
            }
        }
        Ok(())
    }

    #[cold]
    fn misplaced(&self, program: &Program, slot: usize, input: &ProgramInput, buffer: &Buffer) -> Report {
        let what = self.sites.text(program.site);
        let (kinds, devices) = ((Kind::Buffer, Kind::Program), (buffer.device, program.device));
        if let Err(report) = State::same_device(&what, kinds, devices) {
            return report.of(Fault::Core);
        }
        let reach = &program.slots[slot].reach;
        let error = reach.misses(&format!("slot {slot}"), input.offset, buffer.bytes);
        refusal(&what, &error, false).at(program.site, 0).of(Fault::Core)
    }

    /// Notes the buffers that a run has made.
    pub(super) fn add_outputs(
        &mut self,
        args: &ProgramRunArgs,
        ticket: Option<Ticket>,
        made: &[u64],
    ) -> Check {
        let Ok(program) = self.programs.find(args.program) else {
            return Ok(());
        };
        let (device, first) = (program.device, program.site);
        let outputs = program.outputs.clone();
        let written: Vec<Option<Written>> = match self.looks() {
            true => (0..outputs.len())
                .map(|at| program.slots[program.inputs + at].written())
                .collect(),
            false => Vec::new(),
        };
        let mut twice = Ok(());
        let mut written = written.into_iter();
        for (&handle, &(bytes, site)) in made.iter().zip(&outputs) {
            let site = if site == 0 { first } else { site };
            let mut buffer = Buffer {
                written: written.next().flatten(),
                ..Buffer::new(device, bytes, site)
            };
            if let Some((actor, epoch)) = ticket {
                let access = Access {
                    actor,
                    epoch,
                    writes: true,
                    region: Region::dense(0, bytes),
                    site,
                };
                buffer.accesses.add(access, &Clock::default(), &self.done);
            }
            let added = self.add_buffer("run", handle, buffer);
            twice = twice.and(added);
        }
        twice
    }
}
