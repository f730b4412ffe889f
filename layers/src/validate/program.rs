//! Programs: lists of packets over slots, and what a run of them touches.

use super::code::Code;
use super::content::Written;
use super::order::{Access, Clock};
use super::region::Region;
use super::report::{Fault, Report};
use super::shadow::{Buffer, Check, Kind, State};
use super::site::SiteId;
use super::work::{Ticket, Touch, arrays, grid, is_zero, overflows, pointer, refusal, reserved, unreadable};
use thalweg_hal::ir::Role;
use thalweg_hal::kit::args::array;
use thalweg_hal::kit::checks::{Signature, Slot};
use thalweg_hal::kit::packet::{self, Memory, ORIGIN, Reach, Site, Slots};
use thalweg_hal::tables::{
    Binding, Copy, Fill, Packet, ProgramArgs, ProgramInput, ProgramRebindArgs, ProgramRunArgs, ProgramScalar,
};
use thalweg_hal::{Error, Result, Status};

/// A program.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) device: u64,
    pub(super) site: SiteId,
    inputs: usize,
    arguments: usize,
    /// Bytes of each output, and what writes it last.
    outputs: Box<[(u64, SiteId)]>,
    /// Outputs and scratch buffers.
    made: usize,
    /// What is done to each slot.
    slots: Box<[Uses]>,
    bound: Vec<ProgramInput>,
}

/// What a program does to a slot.
#[derive(Clone, Debug, Default)]
struct Uses {
    reach: Reach,
    list: Vec<Use>,
}

#[derive(Clone, Debug)]
struct Use {
    region: Region,
    writes: bool,
    /// Whether every byte is touched.
    exact: bool,
    site: SiteId,
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

    fn add(&mut self, new: Use) {
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

/// A program while its packets are checked.
struct Draft<'s> {
    state: &'s State,
    device: u64,
    slots: Slots<'s>,
    uses: Vec<Uses>,
    // Of each packet that is under way.
    site: SiteId,
    launch: Option<(&'s Signature, &'s [u64])>,
    given: &'s [ProgramScalar],
    packet: u32,
}

impl<'a> Memory<'a> for Draft<'_> {
    type Found = (usize, u64);

    const HOST: bool = false;

    fn find(&self, handle: u64) -> Result<((usize, u64), Site)> {
        let (number, site) = self.slots.find(handle)?;
        Ok(((number, site.shift), site))
    }

    fn bind(
        &mut self,
        (number, shift): (usize, u64),
        binding: &Binding,
        strides: &'a [i64],
        slot: &Slot,
        span: Option<(u64, u64)>,
    ) -> Result<()> {
        if let (Some((start, end)), Some((signature, extents))) = (span, self.launch) {
            let origin = binding.offset.wrapping_add(shift);
            let grid = grid(slot, signature, extents, (origin, strides), (start, end));
            let region = Region { start, end, grid };
            let exact = region.grid.is_none() && !slot.gathers;
            self.touch(
                number,
                (region, exact),
                slot.role == Role::Out,
                slot.dtype.size() as u64,
            );
        }
        Ok(())
    }

    fn counts(&self, scalar: usize) -> bool {
        !(self.given.iter()).any(|place| place.packet == self.packet && place.scalar as usize == scalar)
    }
}

impl Draft<'_> {
    fn touch(&mut self, number: usize, (region, exact): (Region, bool), writes: bool, alignment: u64) {
        let uses = &mut self.uses[number];
        let at = |byte: u64| byte as i64 - ORIGIN as i64;
        uses.reach
            .widen(at(region.start), at(region.end), writes, alignment);
        uses.add(Use {
            region,
            writes,
            exact,
            site: self.site,
        });
    }

    /// # Safety
    /// The pointers of the packet are null or valid.
    unsafe fn packet(&mut self, packet: &Packet) -> Check {
        let what = || self.state.sites.text(self.site);
        // SAFETY: the caller vouches for the pointers.
        let kind = match unsafe { packet::Kind::of(packet) } {
            Ok(kind) => kind,
            Err(error) => return Err(unreadable(&what(), packet, &error)),
        };
        if packet.reserved != 0 {
            return Err(reserved(&what(), packet.reserved));
        }
        match kind {
            // SAFETY: as above.
            packet::Kind::Launch(launch) => unsafe { self.launch(launch) },
            packet::Kind::Copy(copy) => self.copy(copy),
            packet::Kind::Fill(fill) => self.fill(fill),
        }
    }

    /// # Safety
    /// The pointers of the launch are null or valid.
    unsafe fn launch(&mut self, launch: &thalweg_hal::tables::Launch) -> Check {
        let state = self.state;
        let what = state.sites.text(self.site);
        let kernel = (state.kernels.find(launch.kernel))
            .map_err(|missing| state.missing(&what, Kind::Kernel, launch.kernel, missing))?;
        State::same_device(&what, (Kind::Kernel, Kind::Program), (kernel.device, self.device))?;
        let Some(signature) = kernel.signature.as_deref() else {
            return Ok(());
        };
        // SAFETY: the caller vouches for the pointers.
        unsafe {
            arrays(&what, launch)?;
            let extents = array(launch.extents, launch.extent_count).unwrap_or_default();
            let mut one = Draft {
                uses: std::mem::take(&mut self.uses),
                launch: Some((signature, extents)),
                ..*self
            };
            let checked = packet::launch(signature, launch, &mut one);
            self.uses = one.uses;
            match checked {
                Ok(_) => Ok(()),
                Err(error) => Err(refusal(&what, &error, overflows(launch))),
            }
        }
    }

    fn copy(&mut self, copy: &Copy) -> Check {
        let ends = packet::copy(copy, self).map_err(|error| self.refused(&error))?;
        for ((found, reach), (place, writes)) in
            (ends.into_iter().flatten()).zip([(&copy.dst, true), (&copy.src, false)])
        {
            if let Some((number, shift)) = found {
                let start = shift + place.offset;
                // Rows that lie apart count as all that lies between.
                self.touch(
                    number,
                    (Region::dense(start, start + reach), copy.rows == 1),
                    writes,
                    1,
                );
            }
        }
        Ok(())
    }

    fn fill(&mut self, fill: &Fill) -> Check {
        is_zero(&self.state.sites.text(self.site), fill.reserved)?;
        if let Some(((number, shift), _)) = packet::fill(fill, self).map_err(|error| self.refused(&error))? {
            let start = shift + fill.offset;
            let region = Region::dense(start, start + fill.bytes);
            self.touch(number, (region, true), true, fill.pattern_bytes.into());
        }
        Ok(())
    }

    #[cold]
    fn refused(&self, error: &Error) -> Report {
        refusal(
            &self.state.sites.text(self.site),
            error,
            error.message.contains("2^63"),
        )
    }
}

/// The most inputs and arguments of a program, as the export layer has it.
const MOST: usize = 1 << 24;

impl State {
    /// Checks the list of a program; returns what its runs touch.
    ///
    /// # Safety
    /// The pointers of the arguments are null or valid.
    pub(super) unsafe fn draft(&mut self, args: &ProgramArgs) -> std::result::Result<Program, Report> {
        let core = |report: Report| report.of(Fault::Core);
        // SAFETY: the caller vouches for the pointers.
        unsafe { self.checked_draft(args) }.map_err(core)
    }

    unsafe fn checked_draft(&mut self, args: &ProgramArgs) -> std::result::Result<Program, Report> {
        const WHAT: &str = "program";
        self.device(WHAT, args.device)?;
        let wrong = |error: Error| pointer(WHAT, &error);
        // SAFETY: the caller vouches for the pointers.
        let (packets, outputs, scratch, bound, scalars) = unsafe {
            (
                array(args.packets, args.packet_count).map_err(wrong)?,
                array(args.outputs, args.output_count).map_err(wrong)?,
                array(args.scratch, args.scratch_count).map_err(wrong)?,
                array(args.bound, args.bound_count).map_err(wrong)?,
                array(args.scalars, args.scalar_count).map_err(wrong)?,
            )
        };
        if args.input_count.max(args.argument_count) > MOST {
            let text = format!("{WHAT}: {} inputs; at most {MOST} are possible", args.input_count);
            return Err(Report::program(Code::Overflow, Status::InvalidArgument, text));
        }
        if let Some(place) = scalars.iter().find(|place| place.reserved != 0) {
            return Err(reserved(WHAT, place.reserved));
        }
        // SAFETY: as above.
        let sites: Vec<SiteId> = (packets.iter())
            .map(|packet| unsafe { self.sites.of(packet.tag) })
            .collect();
        let made = [outputs, scratch].concat();
        let slots = Slots {
            inputs: args.input_count,
            made: &made,
            bound: bound.len(),
        };
        let mut draft = Draft {
            state: self,
            device: args.device,
            slots,
            uses: vec![Uses::default(); args.input_count + made.len() + bound.len()],
            site: 0,
            launch: None,
            given: scalars,
            packet: 0,
        };
        for ((index, packet), &site) in (0..).zip(packets).zip(&sites) {
            (draft.site, draft.packet) = (site, index);
            // SAFETY: as above.
            unsafe { draft.packet(packet) }.map_err(|report| {
                let text = format!("packet {index}: {}", report.text);
                Report { text, ..report }.at(site, 0)
            })?;
        }
        let uses = draft.uses;
        let last_writer = |slot: usize| {
            let writers = uses[slot].list.iter().filter(|one| one.writes);
            writers.last().map_or(0, |one| one.site)
        };
        let program = Program {
            device: args.device,
            site: sites.iter().copied().find(|&site| site != 0).unwrap_or(0),
            inputs: args.input_count,
            arguments: args.argument_count,
            outputs: (outputs.iter().enumerate())
                .map(|(at, &bytes)| (bytes, last_writer(args.input_count + at)))
                .collect(),
            made: made.len(),
            slots: uses.into(),
            bound: bound.to_vec(),
        };
        for (at, input) in bound.iter().enumerate() {
            self.check_bound(&program, at, input)?;
        }
        Ok(program)
    }

    /// Whether a bound slot may hold a place in a buffer.
    fn check_bound(&self, program: &Program, at: usize, input: &ProgramInput) -> Check {
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
