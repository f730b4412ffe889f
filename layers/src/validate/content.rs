//! What lies in memory: bytes that were written, canaries behind buffers, host memory that is in use.

use super::Validate;
use super::code::Code;
use super::report::{Fault, Report};
use super::shadow::{Check, State};
use super::site::SiteId;
use super::work::{EMPTY, Touch};
use crate::layer::Place as Layered;
use std::ffi::c_void;
use thalweg_hal::Status;
use thalweg_hal::tables::{CallbackArgs, Copy, Fill, Packet, PacketKind, Place, StreamArgs};

/// The bytes of a buffer that were written, as ranges in order that do not touch.
#[derive(Debug, Default)]
pub(super) struct Written(Vec<(u64, u64)>);

impl Written {
    pub(super) fn add(&mut self, start: u64, end: u64) {
        let first = self.0.partition_point(|&(_, before)| before < start);
        let behind = self.0.partition_point(|&(from, _)| from <= end);
        let joined = self.0[first..behind].iter();
        let range = joined.fold((start, end), |all, own| (all.0.min(own.0), all.1.max(own.1)));
        self.0.splice(first..behind, [range]);
    }

    /// The first byte of a range that was not written.
    fn gap(&self, start: u64, end: u64) -> Option<u64> {
        let range = self.0.iter().find(|&&(_, behind)| behind > start);
        match range {
            Some(&(from, behind)) if from <= start => (behind < end).then_some(behind),
            _ => (start < end).then_some(start),
        }
    }

    /// Whether no byte of a range was written.
    fn lacks(&self, start: u64, end: u64) -> bool {
        start < end && !self.0.iter().any(|&(from, behind)| from < end && start < behind)
    }
}

impl State {
    /// Finds reads of bytes that nobody has written, and notes what is written. In a `list` the packets' order is not known, so
    /// reads of a buffer that it writes are left out.
    pub(super) fn fresh(&mut self, touched: &[Touch], list: bool, site: impl Fn(usize) -> SiteId) -> Check {
        let written = |buffer: u64| touched.iter().any(|other| other.writes && other.buffer == buffer);
        for (at, touch) in touched.iter().enumerate().filter(|(_, touch)| !touch.writes) {
            let Ok(buffer) = self.buffers.find(touch.buffer) else {
                continue;
            };
            let (start, end) = (touch.region.start, touch.region.end);
            let fresh = buffer.written.as_ref().and_then(|known| match touch.exact {
                true => known.gap(start, end),
                // Of bytes that lie apart, or that are gathered, some may be read.
                false => known.lacks(start, end).then_some(start),
            });
            if let Some(first) = fresh.filter(|_| !(list && written(touch.buffer))) {
                let (site, maker) = (site(at), buffer.site);
                let text = format!(
                    "{} reads bytes {start}..{end} of buffer {:#x}{}, of which byte {first} was never written; write it first",
                    self.sites.text(site),
                    touch.buffer,
                    self.sites.maker(maker)
                );
                let fault = if list { Fault::Core } else { Fault::Program };
                let report = Report::program(Code::Fresh, Status::InvalidArgument, text);
                return Err(report.at(site, maker).of(fault));
            }
        }
        for touch in touched.iter().filter(|touch| touch.writes) {
            if let Ok(buffer) = self.buffers.find_mut(touch.buffer)
                && let Some(known) = &mut buffer.written
            {
                known.add(touch.region.start, touch.region.end);
            }
        }
        Ok(())
    }

    /// The host memory that a submission reads and nothing under way writes: address, bytes, site.
    pub(super) fn host_reads(
        &self,
        touched: &[Touch],
        site: impl Fn(usize) -> SiteId,
    ) -> Vec<(u64, u64, SiteId)> {
        let span = |(at, touch): (usize, &Touch)| {
            let base = match touch.buffer {
                0 => 0,
                handle => self.buffers.find(handle).ok()?.import?,
            };
            let region = touch.region.moved(base);
            let written = |other: &Touch| other.writes && other.buffer == touch.buffer;
            let calm = !self.host.is_written(&region, &self.done) && !touched.iter().any(written);
            (!touch.writes && calm && region.grid.is_none())
                .then(|| (region.start, region.end - region.start, site(at)))
        };
        touched.iter().enumerate().filter_map(span).collect()
    }
}

/// Host memory that work reads, as it was when the work was submitted.
pub(super) struct Held {
    layer: &'static Validate,
    spans: Vec<(u64, u64, SiteId, u64)>,
}

/// # Safety
/// The bytes are readable.
unsafe fn digest(address: u64, bytes: u64) -> u64 {
    // SAFETY: the caller vouches for them.
    let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, bytes as usize) };
    (bytes.iter()).fold(0xcbf2_9ce4_8422_2325, |state, &byte| {
        (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Held {
    /// # Safety
    /// The host memory is readable until the work that reads it is done, as the contract asks.
    pub(super) unsafe fn new(layer: &'static Validate, reads: Vec<(u64, u64, SiteId)>) -> Option<Box<Held>> {
        // SAFETY: the caller vouches for the memory.
        let spans =
            (reads.into_iter()).map(|(at, bytes, site)| (at, bytes, site, unsafe { digest(at, bytes) }));
        let spans: Vec<_> = spans.collect();
        (!spans.is_empty()).then(|| Box::new(Held { layer, spans }))
    }

    /// Looks again behind the work.
    pub(super) fn watch(self: Box<Held>, place: &Layered<Validate>, stream: u64) {
        let args = CallbackArgs {
            stream,
            function: Some(look_again),
            data: Box::into_raw(self).cast(),
        };
        // SAFETY: the function takes what it is given, and is called once.
        let code = unsafe { (place.next.stream.callback)(place.next.api.context, &raw const args) };
        if code != 0 {
            // SAFETY: what is below has refused, so it never calls the function.
            drop(unsafe { Box::from_raw(args.data.cast::<Held>()) });
        }
    }
}

unsafe extern "C" fn look_again(data: *mut c_void) -> i32 {
    // SAFETY: `watch` has made it, and it is called once.
    let held = unsafe { Box::from_raw(data.cast::<Held>()) };
    for &(at, bytes, site, before) in &held.spans {
        // SAFETY: the program keeps the memory until the stream has passed the work, which it learns behind this callback.
        if unsafe { digest(at, bytes) } != before {
            let (what, warn) = {
                let state = held.layer.state.lock();
                (state.sites.text(site), state.options.warn)
            };
            let text = format!(
                "{what} reads {bytes} bytes of host memory that changed meanwhile; leave them alone until the stream has passed it"
            );
            held.layer
                .tell(&Report::program(Code::Changed, Status::LaunchFailed, text).at(site, 0));
            return if warn { 0 } else { Status::LaunchFailed as i32 };
        }
    }
    0
}

/// Bytes of a canary.
pub(super) const CANARY: u64 = 64;
const BYTE: u8 = 0xc5;

/// Work on the canary behind a buffer's bytes.
pub(super) struct Canary {
    pub(super) device: u64,
    pub(super) buffer: u64,
    pub(super) bytes: u64,
}

impl Canary {
    /// Puts it there before any work of a stream, or of the device if that is 0.
    pub(super) fn set(&self, place: &Layered<Validate>, stream: u64) -> Result<(), i32> {
        let fill = Fill {
            buffer: self.buffer,
            offset: self.bytes,
            bytes: CANARY,
            pattern: BYTE.into(),
            pattern_bytes: 1,
            reserved: 0,
        };
        let packet = Packet {
            kind: PacketKind::Fill as u32,
            fill: &raw const fill,
            ..EMPTY
        };
        match stream {
            0 => self.alone(place, &packet),
            stream => submit(place, stream, &packet),
        }
    }

    /// Whether it is as it was. Its buffer has no work under way.
    fn is_sound(&self, place: &Layered<Validate>) -> Result<bool, i32> {
        let mut found = [BYTE; CANARY as usize];
        let end = |buffer: u64, host: *mut c_void, offset: u64| Place {
            buffer,
            host,
            offset,
            pitch: 0,
        };
        let copy = Copy {
            dst: end(0, found.as_mut_ptr().cast(), 0),
            src: end(self.buffer, std::ptr::null_mut(), self.bytes),
            width: CANARY,
            rows: 1,
        };
        let packet = Packet {
            kind: PacketKind::Copy as u32,
            copy: &raw const copy,
            ..EMPTY
        };
        self.alone(place, &packet)?;
        Ok(found == [BYTE; CANARY as usize])
    }

    /// The report of one that has changed.
    pub(super) fn broken(&self, place: &Layered<Validate>, maker: &str) -> Option<Report> {
        // A device that cannot answer says so itself.
        if self.is_sound(place).unwrap_or(true) {
            return None;
        }
        let text = format!(
            "the bytes behind the buffer {:#x}{maker} of {} bytes have changed; keep kernels and copies inside of buffers",
            self.buffer, self.bytes
        );
        Some(Report::plugin(Code::Canary, text))
    }

    /// Does one packet on a stream of its own, to the end.
    fn alone(&self, place: &Layered<Validate>, packet: &Packet) -> Result<(), i32> {
        let (context, table) = (place.next.api.context, place.next.stream);
        let mut properties = std::mem::MaybeUninit::uninit();
        let ordinal = (place.layer.state.lock().devices.find(self.device)).map_or(0, |device| device.ordinal);
        // SAFETY: all arguments live through the calls, and the packet's memory until the stream has ended.
        unsafe {
            answer((place.next.device.properties)(
                context,
                ordinal,
                properties.as_mut_ptr(),
            ))?;
            let args = StreamArgs {
                device: self.device,
                priority: properties.assume_init().priority_low,
                reserved: 0,
            };
            let mut stream = 0;
            answer((table.create)(context, &raw const args, &raw mut stream))?;
            let done = submit(place, stream, packet);
            let waited = answer((table.synchronize)(context, stream));
            answer((table.destroy)(context, stream)).and(waited).and(done)
        }
    }
}

fn submit(place: &Layered<Validate>, stream: u64, packet: &Packet) -> Result<(), i32> {
    // SAFETY: the packet lives through the call; the caller keeps what it points to.
    answer(unsafe { (place.next.stream.submit)(place.next.api.context, stream, packet, 1) })
}

fn answer(code: i32) -> Result<(), i32> {
    match code {
        0 => Ok(()),
        code => Err(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_found_between_what_was_written() {
        let mut written = Written::default();
        assert_eq!(written.gap(0, 8), Some(0));
        assert!(written.lacks(0, 8) && !written.lacks(4, 4));
        written.add(8, 16);
        written.add(32, 40);
        assert_eq!(written.gap(8, 16), None);
        assert_eq!(written.gap(8, 20), Some(16));
        assert_eq!(written.gap(4, 12), Some(4));
        assert!(!written.lacks(0, 9) && written.lacks(16, 32));
        written.add(16, 32);
        assert_eq!(written.0, [(8, 40)]);
        written.add(0, 4);
        written.add(2, 50);
        assert_eq!(written.0, [(0, 50)]);
        assert_eq!(written.gap(0, 64), Some(50));
    }
}
