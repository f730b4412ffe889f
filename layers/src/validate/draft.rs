//! The list of a program, while it is made.

use super::code::Code;
use super::program::{Program, Use, Uses};
use super::refusal::{arrays, is_zero, overflows, pointer, refusal, reserved, unreadable};
use super::region::Region;
use super::report::{Fault, Report};
use super::shadow::{Check, Kind, State};
use super::site::SiteId;
use super::work::grid;
use thalweg_hal::ir::Role;
use thalweg_hal::kit::args::array;
use thalweg_hal::kit::checks::{Signature, Slot};
use thalweg_hal::kit::packet::{self, Memory, ORIGIN, Site, Slots};
use thalweg_hal::tables::{Binding, Copy, Fill, Packet, ProgramArgs, ProgramScalar};
use thalweg_hal::{Error, Result, Status};

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
            let last = uses[slot].list.iter().rfind(|one| one.writes);
            last.map_or(0, |one| one.site)
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
}
