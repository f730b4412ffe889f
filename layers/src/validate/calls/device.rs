//! Devices.

use super::{Here, given};
use crate::forward;
use crate::layer::{Answer, enter};
use crate::validate::Validate;
use crate::validate::code::Code;
use crate::validate::content::Canary;
use crate::validate::options::Options;
use crate::validate::order::Clock;
use crate::validate::refusal::is_zero;
use crate::validate::report::Report;
use crate::validate::shadow::{Device, Kind, State};
use crate::validate::site::SiteId;
use crate::validate::table::Table;
use thalweg_hal::Status;
use thalweg_hal::tables::{Context, DeviceOptions, DeviceTable};

pub(super) const TABLE: DeviceTable = DeviceTable {
    open,
    close,
    synchronize,
    ..forward::device::table::<Validate>()
};

unsafe extern "C" fn open(context: Context, options: *const DeviceOptions, out: *mut u64) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        let read = Options::of(layer.host)?;
        {
            let mut state = layer.state.lock();
            // A report is logged once for each time that a device is opened.
            (state.options, state.seen) = (read, std::collections::HashSet::new());
        }
        // SAFETY: the contract of the tables; the arguments are handed on as they came.
        unsafe {
            layer.check(|_| is_zero("open", given("open", options)?.reserved))?;
            let below = |out| (place.next.device.open)(context, options, out);
            let handle = layer.number(place, "open", out, below)?;
            layer.check(|state| {
                let device = Device {
                    ordinal: (*options).ordinal,
                    ..Device::default()
                };
                let new = state.devices.insert(handle, device);
                State::once("open", Kind::Device, handle, new)
            })?;
            out.write(handle);
        }
        Ok(())
    })
}

/// The objects of a kind that a device leaves: how many, and the site that made the first that has one.
struct Left {
    kind: Kind,
    count: usize,
    site: SiteId,
}

fn left<T>(table: &mut Table<T>, kind: Kind, device: u64, of: impl Fn(&T) -> (u64, SiteId)) -> Left {
    let handles: Vec<u64> = (table.iter())
        .filter(|(_, object)| of(object).0 == device)
        .map(|(handle, _)| handle)
        .collect();
    let mut sites: Vec<SiteId> = Vec::new();
    for &handle in &handles {
        sites.extend(
            table
                .remove(handle, |object| of(object).1)
                .map(|object| of(&object).1),
        );
    }
    Left {
        kind,
        count: handles.len(),
        site: sites.into_iter().filter(|&site| site != 0).min().unwrap_or(0),
    }
}

impl State {
    /// Forgets what belongs to a device.
    fn close(&mut self, device: u64) -> Vec<Left> {
        let actors: Vec<u64> = (self.streams.iter())
            .filter(|(_, stream)| stream.device == device)
            .map(|(_, stream)| stream.actor)
            .collect();
        let all = vec![
            left(&mut self.buffers, Kind::Buffer, device, |one| {
                (one.device, one.site)
            }),
            left(&mut self.events, Kind::Event, device, |one| (one.device, 0)),
            left(&mut self.kernels, Kind::Kernel, device, |one| (one.device, 0)),
            left(&mut self.programs, Kind::Program, device, |one| {
                (one.device, one.site)
            }),
        ];
        // Streams end with their device: the runtime leaves each device's own to it.
        let _ = left(&mut self.streams, Kind::Stream, device, |one| (one.device, 0));
        actors.into_iter().for_each(|actor| self.done.end(actor));
        all
    }

    fn left(&self, left: &Left) -> Report {
        let (name, maker) = (left.kind.name(), self.sites.maker(left.site));
        let text = match left.count {
            1 => format!("a {name}{maker} is left when its device is closed; end it before"),
            count => {
                let first = maker.replacen("made", "the first made", 1);
                format!("{count} {name}s{first} are left when their device is closed; end them before")
            }
        };
        // Each kind is reported on its own, also where no site is known.
        Report::program(Code::Left, Status::InvalidArgument, text).at(left.site, left.kind as SiteId)
    }
}

unsafe extern "C" fn close(context: Context, device: u64) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        layer.check(|state| match state.devices.find(device) {
            Ok(_) => Ok(()),
            Err(missing) => Err(state.not_ended("close", Kind::Device, device, missing)),
        })?;
        let reports: Vec<Report> = {
            let mut state = layer.state.lock();
            let left = state.close(device);
            // It is unknown already where a warning let the call go on.
            let _ = state.devices.remove(device, |_| 0);
            let some = left.iter().filter(|left| left.count > 0);
            some.map(|left| state.left(left)).collect()
        };
        // SAFETY: the arguments are handed on as they came.
        let code = unsafe { (place.next.device.close)(context, device) };
        reports.iter().for_each(|report| layer.tell(report));
        layer.judge(place, "close", code)
    })
}

/// Looks at the canaries of a device whose buffers nothing uses.
fn look(place: Here, device: u64) -> Answer {
    let canaries: Vec<(Canary, String)> = {
        let state = place.layer.state.lock();
        let quiet = (state.buffers.iter()).filter(|(_, buffer)| {
            buffer.device == device && buffer.canary && !buffer.accesses.is_used(&state.done)
        });
        quiet
            .map(|(handle, buffer)| (buffer.canary(handle), state.sites.maker(buffer.site)))
            .collect()
    };
    let mut broken = canaries
        .iter()
        .filter_map(|(canary, maker)| canary.broken(place, maker));
    broken.try_for_each(|report| place.layer.found(report))
}

unsafe extern "C" fn synchronize(context: Context, device: u64) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        let mut clocks: Vec<Clock> = Vec::new();
        layer.check(|state| {
            let own = (state.streams.iter()).filter(|(_, stream)| stream.device == device);
            clocks = own.map(|(_, stream)| stream.now()).collect();
            state.device("synchronize", device)
        })?;
        // SAFETY: the arguments are handed on as they came.
        let code = unsafe { (place.next.device.synchronize)(context, device) };
        if code != Status::InvalidHandle as i32 {
            let mut state = layer.state.lock();
            clocks.iter().for_each(|clock| state.done.reach(clock));
        }
        if code == 0 {
            look(place, device)?;
        }
        layer.judge(place, "synchronize", code)
    })
}
