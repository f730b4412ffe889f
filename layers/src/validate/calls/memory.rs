//! Memory.

use super::{Here, failure, given};
use crate::forward;
use crate::layer::{Stop, enter};
use crate::validate::Validate;
use crate::validate::code::Code;
use crate::validate::content::{CANARY, Written};
use crate::validate::order::Access;
use crate::validate::region::Region;
use crate::validate::report::Report;
use crate::validate::shadow::{Buffer, Check, Kind, State};
use std::ffi::c_void;
use thalweg_hal::kit::args::arg;
use thalweg_hal::tables::{AllocArgs, Context, ImportArgs, MemoryStatistics, MemoryTable};

pub(super) const TABLE: MemoryTable = MemoryTable {
    alloc,
    free,
    import,
    map,
    size,
    trim,
    statistics,
    ..forward::memory::table::<Validate>()
};

unsafe extern "C" fn alloc(context: Context, args: *const AllocArgs, out: *mut u64) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        let mut site = 0;
        // SAFETY: the contract of the tables; the arguments are handed on as they came.
        unsafe {
            layer.check(|state| {
                let args = given("alloc", args)?;
                site = state.sites.of(args.tag);
                state.device("alloc", args.device)?;
                match args.stream {
                    0 => Ok(()),
                    handle => {
                        let device = state.stream("alloc", handle)?.device;
                        State::same_device("alloc", (Kind::Stream, Kind::Device), (device, args.device))
                    }
                }
            })?;
            let looks = layer.state.lock().looks();
            let longer = match arg(args) {
                Ok(args) if looks => args
                    .bytes
                    .checked_add(CANARY)
                    .map(|bytes| AllocArgs { bytes, ..*args }),
                _ => None,
            };
            let own = longer.as_ref().map_or(args, std::ptr::from_ref);
            let below = |out| (place.next.memory.alloc)(context, own, out);
            let handle = layer.number(place, "alloc", out, below)?;
            let mut buffer = Buffer::new((*args).device, (*args).bytes, site);
            if longer.is_some() {
                let canary = buffer.canary(handle);
                buffer.canary = canary.set(place, (*args).stream).is_ok();
                layer.state.lock().use_canary(&mut buffer, (*args).stream);
                (buffer.padding, buffer.written) = (CANARY, Some(Written::default()));
            }
            layer.check(|state| state.add_buffer("alloc", handle, buffer))?;
            out.write(handle);
        }
        Ok(())
    })
}

unsafe extern "C" fn import(context: Context, args: *const ImportArgs, out: *mut u64) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        // SAFETY: the contract of the tables; the arguments are handed on as they came.
        unsafe {
            layer.check(|state| state.device("import", given("import", args)?.device))?;
            let below = |out| (place.next.memory.import)(context, args, out);
            let handle = layer.number(place, "import", out, below)?;
            layer.check(|state| {
                let buffer = Buffer {
                    import: Some((*args).ptr as u64),
                    ..Buffer::new((*args).device, (*args).bytes, 0)
                };
                state.add_buffer("import", handle, buffer)
            })?;
            out.write(handle);
        }
        Ok(())
    })
}

unsafe extern "C" fn free(context: Context, buffer: u64) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        let (mut known, mut canary) = (None, None);
        // Before the call, because the backend may give the handle out again at once.
        layer.check(|state| match state.buffers.remove(buffer, |buffer| buffer.site) {
            Ok(object) => {
                if object.import.is_none() {
                    state.count((object.device, object.bytes), false);
                }
                if object.canary && !object.accesses.is_used(&state.done) {
                    canary = Some((object.canary(buffer), state.sites.maker(object.site)));
                }
                known = Some(object);
                Ok(())
            }
            Err(missing) => Err(state.not_ended("free", Kind::Buffer, buffer, missing)),
        })?;
        if let Some(report) = canary.and_then(|(canary, maker)| canary.broken(place, &maker)) {
            // The buffer ends all the same.
            layer.tell(&report);
        }
        // SAFETY: the arguments are handed on as they came.
        let code = unsafe { (place.next.memory.free)(context, buffer) };
        if code != 0
            && let Some(object) = known
        {
            let error = failure(place, code);
            let mut bytes = 0;
            // SAFETY: a plain call with a place to write to.
            let size = || unsafe { (place.next.memory.size)(context, buffer, &raw mut bytes) };
            layer.ended_in_vain("free", code, size)?;
            layer.check(|state| state.add_buffer("free", buffer, object))?;
            return Err(error.into());
        }
        layer.judge(place, "free", code)
    })
}

unsafe extern "C" fn map(context: Context, buffer: u64, out: *mut *mut c_void) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        layer.check(|state| state.buffer("map", buffer).map(|_| ()))?;
        // SAFETY: the contract of the tables; an address is written as a number of the same size.
        unsafe {
            let below = |out: *mut u64| (place.next.memory.map)(context, buffer, out.cast());
            let address = layer.number(place, "map", out.cast(), below)?;
            layer.check(|state| state.mapped(buffer, address))?;
            out.write(address as *mut c_void);
        }
        Ok(())
    })
}

impl State {
    /// Notes that a stream writes the canary of a buffer, unless that is done.
    fn use_canary(&mut self, buffer: &mut Buffer, stream: u64) {
        let State { streams, done, .. } = self;
        if let Ok(own) = streams.find_mut(stream) {
            own.epoch += 1;
            let access = Access {
                actor: own.actor,
                epoch: own.epoch,
                writes: true,
                region: Region::dense(buffer.bytes, buffer.bytes + CANARY),
                site: buffer.site,
            };
            buffer.accesses.add(access, &own.clock, done);
        }
    }
}

/// What every buffer of a pool is aligned to at least.
const ALIGNMENT: u64 = 16;

impl State {
    /// Notes where a buffer is mapped to.
    fn mapped(&mut self, handle: u64, address: u64) -> Check {
        let Ok(own) = self.buffers.find(handle) else {
            return Ok(());
        };
        let (bytes, pooled) = (own.bytes, own.import.is_none());
        if pooled && !address.is_multiple_of(ALIGNMENT) {
            let text = format!(
                "map: the backend maps the buffer {handle:#x} to {address:#x}; align buffers as the device says"
            );
            return Err(Report::plugin(Code::WrongAddress, text));
        }
        let end = address.saturating_add(bytes);
        let shares = |other: &Buffer| {
            other
                .mapped
                .is_some_and(|start| address < start.saturating_add(other.bytes) && start < end)
        };
        let clash = (self.buffers.iter())
            .find(|(other, buffer)| *other != handle && pooled && buffer.import.is_none() && shares(buffer));
        if let Some((other, _)) = clash {
            let text = format!(
                "map: the backend gave the buffers {handle:#x} and {other:#x} the same bytes; hand memory out once"
            );
            return Err(Report::plugin(Code::WrongAddress, text));
        }
        if let Ok(own) = self.buffers.find_mut(handle) {
            own.mapped = Some(address);
            // The host may write it.
            own.written = None;
        }
        Ok(())
    }
}

unsafe extern "C" fn size(context: Context, buffer: u64, out: *mut u64) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        let mut asked = None;
        layer.check(|state| {
            let own = state.buffer("size", buffer)?;
            asked = Some((own.bytes, own.padding));
            Ok(())
        })?;
        // SAFETY: the contract of the tables; the arguments are handed on as they came.
        unsafe {
            let bytes = layer.number(place, "size", out, |out| {
                (place.next.memory.size)(context, buffer, out)
            })?;
            let (bytes, asked) = match asked {
                Some((asked, padding)) => (bytes.wrapping_sub(padding), Some(asked)),
                None => (bytes, None),
            };
            if let Some(asked) = asked.filter(|&asked| asked != bytes) {
                let text = format!("size: a buffer of {asked} bytes has {bytes}; answer what was asked for");
                layer.found(Report::plugin(Code::WrongSize, text))?;
            }
            out.write(bytes);
        }
        Ok(())
    })
}

unsafe extern "C" fn trim(context: Context, device: u64, out: *mut u64) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        layer.check(|state| state.device("trim", device))?;
        // SAFETY: the contract of the tables; the arguments are handed on as they came.
        unsafe {
            let bytes = layer.number(place, "trim", out, |out| {
                (place.next.memory.trim)(context, device, out)
            })?;
            out.write(bytes);
        }
        Ok(())
    })
}

/// What the layer knows of a device's memory: changes so far, buffers alive, their bytes.
type Known = (u64, u64, u64);

/// What contradicts the calls so far, if nothing has changed meanwhile.
fn contradiction(figures: &MemoryStatistics, before: Known, after: Known) -> Option<String> {
    let (live, bytes) = (before.1, before.2);
    let calm = before == after;
    let contradictions = [
        (
            calm && figures.live < live,
            format!("{} buffers are alive, {live} were given out", figures.live),
        ),
        (
            calm && figures.allocated < bytes,
            format!("{} bytes are allocated, buffers have {bytes}", figures.allocated),
        ),
        (
            calm && figures.reserved < figures.allocated,
            format!(
                "{} bytes are reserved, {} allocated",
                figures.reserved, figures.allocated
            ),
        ),
        (
            figures.frees > figures.allocations,
            format!("{} frees of {} allocations", figures.frees, figures.allocations),
        ),
        (
            figures.max_reserved < figures.reserved || figures.idle > figures.reserved,
            "a peak is below its figure, or more is idle than reserved".to_owned(),
        ),
    ];
    (contradictions.into_iter()).find_map(|(wrong, text)| wrong.then_some(text))
}

unsafe extern "C" fn statistics(context: Context, device: u64, out: *mut MemoryStatistics) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        let known = |state: &State| {
            (state.devices.find(device))
                .map_or((0, 0, 0), |device| (device.changes, device.live, device.bytes))
        };
        let mut before = (0, 0, 0);
        layer.check(|state| {
            before = known(state);
            state.device("statistics", device)
        })?;
        // SAFETY: the arguments are handed on as they came.
        let code = unsafe { (place.next.memory.statistics)(context, device, out) };
        layer.judge(place, "statistics", code)?;
        let after = known(&layer.state.lock());
        // SAFETY: what is below has succeeded, so it has written there.
        let wrong = unsafe { out.as_ref() }.and_then(|figures| contradiction(figures, before, after));
        match wrong {
            Some(text) => {
                let text = format!("statistics: {text}; count what the pool does");
                layer.found(Report::plugin(Code::WrongStatistics, text))
            }
            None => Ok::<(), Stop>(()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_contradict_the_calls_are_told() {
        let good = MemoryStatistics {
            reserved: 4096,
            allocated: 1024,
            max_reserved: 4096,
            max_allocated: 1024,
            live: 2,
            allocations: 5,
            frees: 3,
            ..MemoryStatistics::default()
        };
        let told = |figures: MemoryStatistics, after| contradiction(&figures, (7, 2, 600), after).is_some();
        assert!(!told(good, (7, 2, 600)));
        for (what, figures) in [
            ("live", MemoryStatistics { live: 1, ..good }),
            (
                "allocated",
                MemoryStatistics {
                    allocated: 512,
                    ..good
                },
            ),
            (
                "reserved",
                MemoryStatistics {
                    reserved: 512,
                    ..good
                },
            ),
        ] {
            assert!(told(figures, (7, 2, 600)), "{what}");
            assert!(!told(figures, (8, 1, 100)), "{what} while others free");
        }
        assert!(told(MemoryStatistics { frees: 6, ..good }, (8, 1, 100)));
        assert!(told(MemoryStatistics { idle: 5000, ..good }, (8, 1, 100)));
    }
}
