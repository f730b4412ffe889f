//! The device's clock beside the host's.

use crate::api::{Api, DeviceId, Event, RawEvent, RawQueue, codes};
use thalweg_hal::clock;

/// Markers of which the one that was queued most quickly is taken.
const TRIES: usize = 5;

/// How the device's clock is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// `clGetDeviceAndHostTimer`, of OpenCL 2.1.
    Timer,
    /// The moment at which a marker was queued.
    Marker,
}

/// The device's clock, as far as profiles need it.
pub(crate) struct DeviceClock {
    pub(crate) api: &'static Api,
    pub(crate) device: DeviceId,
    /// A queue of the device that measures time and that no stream holds up.
    pub(crate) queue: RawQueue,
    pub(crate) reading: Reading,
}

impl DeviceClock {
    /// A moment by the device's clock and by the host's.
    pub(crate) fn moment(&self) -> Option<(u64, u64)> {
        let timed = match self.reading {
            Reading::Timer => clock::together(|| self.timer()),
            Reading::Marker => None,
        };
        match timed {
            Some((device, host, _)) => Some((device, host)),
            // A driver may have the function and no such clock.
            None => self.marked(),
        }
    }

    /// By the marker that was queued most quickly.
    fn marked(&self) -> Option<(u64, u64)> {
        let tries = (0..TRIES).filter_map(|_| {
            let before = clock::now();
            let marker = self.marker()?;
            let width = clock::now() - before;
            // The driver reads the clock when it queues a command, and tells when the command has ended.
            marker.wait();
            let device = marker.time(codes::PROFILING_COMMAND_QUEUED).ok()?;
            (device > 0).then_some((width, device, before + width / 2))
        });
        let (_, device, host) = tries.min()?;
        Some((device, host))
    }

    fn timer(&self) -> Option<u64> {
        let (mut device, mut host) = (0, 0);
        // SAFETY: both places are writable. The device is of a version that has the function.
        let code = unsafe { self.api.get_timers?(self.device, &raw mut device, &raw mut host) };
        (code == codes::SUCCESS && device > 0).then_some(device)
    }

    fn marker(&self) -> Option<Event> {
        let mut event = RawEvent(std::ptr::null_mut());
        // SAFETY: an empty list; with a code of success the event is ours.
        unsafe {
            let code = (self.api.marker)(self.queue, 0, std::ptr::null(), &raw mut event);
            Event::own(self.api, "clEnqueueMarkerWithWaitList", event, code).ok()
        }
    }
}
