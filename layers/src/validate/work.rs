//! Packets against what is known of their buffers, and the order of what they touch.

use super::code::Code;
use super::order::{Access, Actor, Race};
use super::refusal::{arrays, overflows, refusal, reserved, unreadable};
use super::region::{Grid, Region};
use super::report::Report;
use super::shadow::{Buffer, Check, Kind, State};
use super::site::SiteId;
use super::table::{Missing, Table};
use std::cell::Cell;
use thalweg_hal::ir::{Access as Layout, Level, Role};
use thalweg_hal::kit::args::array;
use thalweg_hal::kit::checks::{Signature, Slot};
use thalweg_hal::kit::packet::{self, Memory, Site};
use thalweg_hal::tables::{self, Binding, Launch, Packet, Tag};
use thalweg_hal::{Error, Result, Status};

/// Bytes of a buffer, or of host memory, that work touches.
#[derive(Debug)]
pub(super) struct Touch {
    /// Buffer, or 0 for the host's memory, whose bytes are addresses.
    pub(super) buffer: u64,
    pub(super) region: Region,
    pub(super) writes: bool,
    /// Whether every byte of the region is touched.
    pub(super) exact: bool,
}

/// A packet without work.
pub(super) const EMPTY: Packet = Packet {
    kind: 0,
    reserved: 0,
    tag: std::ptr::null(),
    launch: std::ptr::null(),
    copy: std::ptr::null(),
    fill: std::ptr::null(),
};

/// A submission: its stream and number.
pub(super) type Ticket = (Actor, u64);

/// What a launch touches of a strided parameter, where that is not every byte between the first and the last.
pub(super) fn grid(
    slot: &Slot,
    signature: &Signature,
    extents: &[u64],
    (offset, strides): (u64, &[i64]),
    (start, end): (u64, u64),
) -> Option<Box<Grid>> {
    if slot.access != Layout::Strided || slot.gathers {
        return None;
    }
    let extents = match slot.level {
        Level::Row => &extents[..signature.outer],
        Level::Element => extents,
    };
    let size = slot.dtype.size() as u64;
    let axes: Vec<(u64, i64)> = (extents.iter().zip(strides))
        .filter(|&(&extent, &stride)| extent > 1 && stride != 0)
        .map(|(&extent, &stride)| (extent, stride.wrapping_mul(size as i64)))
        .collect();
    let bytes = axes
        .iter()
        .fold(size, |all, &(extent, _)| all.saturating_mul(extent));
    (bytes < end - start).then(|| Box::new(Grid { offset, size, axes }))
}

/// The bytes of one end of a copy.
fn rows(start: u64, end: u64, (rows, width, pitch): (u64, u64, u64)) -> Region {
    let grid = (rows > 1 && pitch > width).then(|| {
        Box::new(Grid {
            offset: start,
            size: width,
            axes: vec![(rows, pitch as i64)],
        })
    });
    Region { start, end, grid }
}

/// Buffers as the packets of a device's stream see them.
struct Buffers<'s> {
    table: &'s Table<Buffer>,
    device: u64,
    launch: Option<(&'s Signature, &'s [u64])>,
    touched: &'s mut Vec<Touch>,
    missing: Cell<Option<(u64, Missing)>>,
}

impl<'a> Memory<'a> for Buffers<'_> {
    type Found = u64;

    const HOST: bool = true;

    #[inline]
    fn find(&self, handle: u64) -> Result<(u64, Site)> {
        match self.table.find(handle) {
            Ok(buffer) => Ok((
                handle,
                Site {
                    base: handle as usize,
                    shift: 0,
                    bytes: Some(buffer.bytes),
                    own: buffer.device == self.device,
                    writable: true,
                },
            )),
            Err(missing) => {
                self.missing.set(Some((handle, missing)));
                Err(Error::invalid_handle("the buffer is missing"))
            }
        }
    }

    #[inline]
    fn bind(
        &mut self,
        buffer: u64,
        binding: &Binding,
        strides: &'a [i64],
        slot: &Slot,
        span: Option<(u64, u64)>,
    ) -> Result<()> {
        if let (Some((start, end)), Some((signature, extents))) = (span, self.launch) {
            let grid = grid(slot, signature, extents, (binding.offset, strides), (start, end));
            self.touched.push(Touch {
                buffer,
                exact: grid.is_none() && !slot.gathers,
                region: Region { start, end, grid },
                writes: slot.role == Role::Out,
            });
        }
        Ok(())
    }
}

impl State {
    /// Checks a launch on a device and adds what it touches.
    ///
    /// # Safety
    /// The pointers of the launch are null or valid.
    unsafe fn check_launch(
        &self,
        device: u64,
        launch: &Launch,
        site: SiteId,
        touched: &mut Vec<Touch>,
    ) -> Check {
        let what = || self.sites.text(site);
        let kernel = (self.kernels.find(launch.kernel))
            .map_err(|missing| self.missing(&what(), Kind::Kernel, launch.kernel, missing))?;
        if kernel.device != device {
            return State::same_device(&what(), (Kind::Kernel, Kind::Stream), (kernel.device, device));
        }
        let Some(signature) = kernel.signature.as_deref() else {
            return Ok(());
        };
        // SAFETY: the caller vouches for the pointers.
        unsafe {
            let Ok(extents) = array(launch.extents, launch.extent_count) else {
                return arrays(&what(), launch);
            };
            let mut memory = Buffers {
                table: &self.buffers,
                device,
                launch: Some((signature, extents)),
                touched,
                missing: Cell::new(None),
            };
            match packet::launch(signature, launch, &mut memory) {
                Ok(_) => Ok(()),
                Err(error) => Err(match memory.missing.get() {
                    Some((handle, missing)) => self.missing(&what(), Kind::Buffer, handle, missing),
                    None => match arrays(&what(), launch) {
                        Ok(()) => refusal(&what(), &error, overflows(launch)),
                        Err(report) => report,
                    },
                }
                .at(site, 0)),
            }
        }
    }

    /// Checks a packet for a device and adds what it touches.
    ///
    /// # Safety
    /// The pointers of the packet are null or valid.
    unsafe fn check_packet(
        &self,
        device: u64,
        packet: &Packet,
        site: SiteId,
        touched: &mut Vec<Touch>,
    ) -> Check {
        let what = || self.sites.text(site);
        // SAFETY: the caller vouches for the pointers.
        let kind = match unsafe { packet::Kind::of(packet) } {
            Ok(kind) => kind,
            Err(error) => return Err(unreadable(&what(), packet, &error).at(site, 0)),
        };
        if packet.reserved != 0 {
            return Err(reserved(&what(), packet.reserved).at(site, 0));
        }
        match kind {
            // SAFETY: as above.
            packet::Kind::Launch(launch) => unsafe { self.check_launch(device, launch, site, touched) },
            packet::Kind::Copy(copy) => self.check_copy(device, copy, site, touched),
            packet::Kind::Fill(fill) => self.check_fill(device, fill, site, touched),
        }
    }

    fn check_copy(&self, device: u64, copy: &tables::Copy, site: SiteId, touched: &mut Vec<Touch>) -> Check {
        let memory = Buffers {
            table: &self.buffers,
            device,
            launch: None,
            touched: &mut Vec::new(),
            missing: Cell::new(None),
        };
        match packet::copy(copy, &memory) {
            Ok(None) => Ok(()),
            Ok(Some(ends)) => {
                for ((buffer, reach), (place, writes)) in
                    ends.into_iter().zip([(&copy.dst, true), (&copy.src, false)])
                {
                    let start = match buffer {
                        Some(_) => place.offset,
                        None => (place.host as u64).wrapping_add(place.offset),
                    };
                    let shape = (copy.rows, copy.width, place.pitch);
                    let region = rows(start, start.saturating_add(reach), shape);
                    touched.push(Touch {
                        buffer: buffer.unwrap_or(0),
                        exact: region.grid.is_none(),
                        region,
                        writes,
                    });
                }
                Ok(())
            }
            Err(error) => Err(self.refused(&error, memory.missing.get(), site)),
        }
    }

    fn check_fill(&self, device: u64, fill: &tables::Fill, site: SiteId, touched: &mut Vec<Touch>) -> Check {
        if fill.reserved != 0 {
            return Err(reserved(&self.sites.text(site), fill.reserved).at(site, 0));
        }
        let memory = Buffers {
            table: &self.buffers,
            device,
            launch: None,
            touched: &mut Vec::new(),
            missing: Cell::new(None),
        };
        match packet::fill(fill, &memory) {
            Ok(None) => Ok(()),
            Ok(Some((buffer, _))) => {
                touched.push(Touch {
                    buffer,
                    region: Region::dense(fill.offset, fill.offset + fill.bytes),
                    writes: true,
                    exact: true,
                });
                Ok(())
            }
            Err(error) => Err(self.refused(&error, memory.missing.get(), site)),
        }
    }

    #[cold]
    fn refused(&self, error: &Error, missing: Option<(u64, Missing)>, site: SiteId) -> Report {
        let what = self.sites.text(site);
        match missing {
            Some((handle, missing)) => self.missing(&what, Kind::Buffer, handle, missing),
            None => {
                let overflows = error.status == Status::InvalidArgument && error.message.contains("2^63");
                refusal(&what, error, overflows)
            }
        }
        .at(site, 0)
    }

    /// Checks a launch and orders what it touches. Returns the submission, unless nothing was noted of it.
    ///
    /// # Safety
    /// The pointers are null or valid.
    pub(super) unsafe fn launch(
        &mut self,
        stream: u64,
        launch: &Launch,
        tag: *const Tag,
    ) -> (Option<Ticket>, Check) {
        // SAFETY: the caller vouches for the pointers.
        let site = unsafe { self.sites.of(tag) };
        let device = match self.streams.find(stream) {
            Ok(stream) => stream.device,
            Err(missing) => {
                let what = self.sites.text(site);
                return (None, Err(self.missing(&what, Kind::Stream, stream, missing)));
            }
        };
        let mut touched = std::mem::take(&mut self.scratch);
        // SAFETY: as above.
        let checked = unsafe { self.check_launch(device, launch, site, &mut touched) };
        let checked = checked.and_then(|()| self.content(&touched, false, |_| site));
        let answer = match checked {
            Ok(()) => {
                let (ticket, race) = self.order(stream, &touched, |_| site);
                (ticket, race.map_or(Ok(()), Err))
            }
            wrong => (None, wrong),
        };
        touched.clear();
        self.scratch = touched;
        answer
    }

    /// As [`State::launch`] for several packets.
    ///
    /// # Safety
    /// The pointers of the packets are null or valid.
    pub(super) unsafe fn submit(&mut self, stream: u64, packets: &[Packet]) -> (Option<Ticket>, Check) {
        let device = match self.streams.find(stream) {
            Ok(stream) => stream.device,
            Err(missing) => return (None, Err(self.missing("submit", Kind::Stream, stream, missing))),
        };
        let (mut touched, mut sites) = (Vec::new(), Vec::new());
        for (index, packet) in packets.iter().enumerate() {
            let before = touched.len();
            // SAFETY: the caller vouches for the pointers.
            let checked = unsafe {
                let site = self.sites.of(packet.tag);
                let checked = self.check_packet(device, packet, site, &mut touched);
                sites.extend(std::iter::repeat_n(site, touched.len() - before));
                checked.and_then(|()| self.content(&touched[before..], false, |_| site))
            };
            if let Err(report) = checked {
                let text = match packets.len() {
                    1 => report.text,
                    _ => format!("packet {index}: {}", report.text),
                };
                return (None, Err(Report { text, ..report }));
            }
        }
        let (ticket, race) = self.order(stream, &touched, |at| sites[at]);
        (ticket, race.map_or(Ok(()), Err))
    }

    /// Looks at the contents that a submission is to touch, if that is asked for.
    #[inline]
    pub(super) fn content(&mut self, touched: &[Touch], list: bool, site: impl Fn(usize) -> SiteId) -> Check {
        if !self.looks() {
            return Ok(());
        }
        let reads = self.host_reads(touched, &site);
        self.held.extend(reads);
        self.fresh(touched, list, site)
    }

    /// Notes accesses of a stream's next submission and returns the first race.
    pub(super) fn order(
        &mut self,
        stream: u64,
        touched: &[Touch],
        site: impl Fn(usize) -> SiteId,
    ) -> (Option<Ticket>, Option<Report>) {
        let State {
            streams,
            buffers,
            done,
            host,
            ..
        } = self;
        let Ok(own) = streams.find_mut(stream) else {
            return (None, None);
        };
        own.epoch += 1;
        let ticket = (own.actor, own.epoch);
        let mut first = None;
        for (at, touch) in touched.iter().enumerate() {
            let mut access = Access {
                actor: own.actor,
                epoch: own.epoch,
                writes: touch.writes,
                region: touch.region.clone(),
                site: site(at),
            };
            let race = match buffers.find_mut(touch.buffer) {
                Ok(buffer) => match buffer.import {
                    None => buffer.accesses.add(access, &own.clock, done),
                    Some(address) => {
                        access.region = access.region.moved(address);
                        host.add(access, &own.clock, done)
                    }
                },
                Err(_) => host.add(access, &own.clock, done),
            };
            if first.is_none() {
                first = race.map(|race| (at, race));
            }
        }
        let report = first.map(|(at, race)| self.race(stream, &touched[at], site(at), race));
        (Some(ticket), report)
    }

    #[cold]
    fn race(&self, stream: u64, touch: &Touch, site: SiteId, race: Race) -> Report {
        let (code, verb, other) = match (race.writes, touch.writes) {
            (true, false) => (Code::ReadAfterWrite, "reads", "writes"),
            (false, true) => (Code::WriteAfterRead, "writes", "reads"),
            (_, _) => (Code::WriteAfterWrite, "writes", "writes"),
        };
        let memory = match self.buffers.find(touch.buffer) {
            Ok(buffer) => format!("buffer {:#x}{}", touch.buffer, self.sites.maker(buffer.site)),
            Err(_) => "host memory".to_owned(),
        };
        let earlier = (self.streams.iter())
            .find(|(_, other)| other.actor == race.actor)
            .map_or(0, |(handle, _)| handle);
        let text = format!(
            "{} on stream {stream:#x} {verb} bytes {}..{} of {memory}, of which {} on stream {earlier:#x} {other} bytes {}..{}, \
             and no event orders them; record an event on stream {earlier:#x} behind the first and let stream {stream:#x} wait \
             for it",
            self.sites.text(site),
            touch.region.start,
            touch.region.end,
            self.sites.text(race.site),
            race.bytes.0,
            race.bytes.1,
        );
        Report::program(code, Status::InvalidArgument, text).at(race.site, site)
    }
}
