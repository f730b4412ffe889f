//! Profiles: when the work of a device ran, and its memory, as its backend measures it.

use super::device::Device;
use super::error::Result;
use super::tag::Tag;
use crate::said::text;
use thalweg_hal::Status;
use thalweg_hal::tables::{
    ProfileCounter, ProfileCountersArgs, ProfileDrainArgs, ProfileKind, ProfileRecord, ProfileStartArgs,
    ProfileTable,
};

/// A set of [`ProfileKind`]s.
///
/// ```
/// use thalweg_runtime::hal::{ProfileKind, ProfileKinds};
/// let kinds = ProfileKinds::MEMORY.with(ProfileKind::Launch);
/// assert!(kinds.has(ProfileKind::Free) && !kinds.has(ProfileKind::Copy));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileKinds(u64);

impl ProfileKinds {
    /// Nothing.
    pub const NONE: ProfileKinds = ProfileKinds(0);
    /// Launches, copies, fills, waits and callbacks.
    pub const WORK: ProfileKinds = ProfileKinds::NONE
        .with(ProfileKind::Launch)
        .with(ProfileKind::Copy)
        .with(ProfileKind::Fill)
        .with(ProfileKind::Wait)
        .with(ProfileKind::Callback);
    /// What the pool hands out, gets back, reserves and releases.
    pub const MEMORY: ProfileKinds = ProfileKinds::NONE
        .with(ProfileKind::Alloc)
        .with(ProfileKind::Free)
        .with(ProfileKind::Reserve)
        .with(ProfileKind::Release);
    /// Work and memory.
    pub const ALL: ProfileKinds = ProfileKinds(ProfileKinds::WORK.0 | ProfileKinds::MEMORY.0);

    /// The set with `kind` too.
    #[must_use]
    pub const fn with(self, kind: ProfileKind) -> ProfileKinds {
        ProfileKinds(self.0 | kind.bit())
    }

    /// Whether `kind` is in the set.
    pub const fn has(self, kind: ProfileKind) -> bool {
        self.0 & kind.bit() != 0
    }
}

/// What a hardware counter of a device says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HardwareCounter {
    /// What is counted: `instructions`, `cache misses`, ….
    pub name: String,
    /// What one is; empty for a plain number.
    pub unit: String,
    /// How many since the profile was started, or since the first question in it.
    pub value: u64,
}

/// A profile of a device that runs. Dropping it ends it.
///
/// Records are pulled: the backend keeps up to the capacity that [`Device::profile_start`] was given, drops what does not fit, and
/// counts it. Take them out often enough. Work has a record when it has ended, so synchronise before the last [`Profile::drain`].
/// Times of all devices and of [`thalweg_hal::clock`] count from the same moment.
///
/// ```
/// use thalweg_runtime::hal::{self, Buffer, ProfileKind, ProfileKinds};
/// let device = hal::device("cpu")?;
/// let stream = device.default_stream()?;
/// let mut profile = device.profile_start(ProfileKinds::ALL, 10_000)?;
/// device.correlate(7);
/// let numbers = Buffer::from_slice(&stream, &[1.0_f32; 1000])?;
/// stream.synchronize()?;
/// profile.stop()?;
///
/// let mut records = Vec::new();
/// assert_eq!(profile.drain(&mut records)?, 0, "none was lost");
/// let copy = records.iter().find(|record| record.kind == ProfileKind::Copy as u32).unwrap();
/// assert_eq!((copy.correlation, copy.bytes), (7, numbers.size()));
/// assert!(copy.queued_ns <= copy.start_ns && copy.start_ns <= copy.end_ns);
/// # Ok::<(), thalweg_runtime::Error>(())
/// ```
#[derive(Debug)]
pub struct Profile {
    device: Device,
    table: &'static ProfileTable,
    running: bool,
}

impl Device {
    /// Whether its backend can be asked for profiles at all. One load; a device of such a backend may still answer
    /// [`Device::profile_start`] with [`Status::Unsupported`].
    #[inline]
    pub fn has_profiles(&self) -> bool {
        self.tables().profile.is_some()
    }

    /// Records what is submitted to the device from now on, up to `capacity` records between two calls of [`Profile::drain`].
    ///
    /// # Errors
    /// [`Status::Unsupported`] on a device whose work is not measured; [`Status::InvalidArgument`] while another profile of it
    /// runs, for a capacity of 0, and for no kinds.
    #[track_caller]
    pub fn profile_start(&self, kinds: ProfileKinds, capacity: u64) -> Result<Profile> {
        let tag = Tag::new("profile_start");
        let Some(table) = self.tables().profile else {
            return Err(self.refuse(Status::Unsupported, NOT_MEASURED, &tag));
        };
        let args = ProfileStartArgs {
            device: self.handle(),
            kinds: kinds.0,
            capacity,
        };
        // SAFETY: the arguments live through the call.
        let code = unsafe { (table.start)(self.context(), &raw const args) };
        self.check(code, &tag)?;
        Ok(Profile {
            device: self.clone(),
            table,
            running: true,
        })
    }

    /// What this thread submits from now on carries `id` in its records, until the next call; 0 is no id. Holds for all devices of
    /// the backend. Does nothing where there are no profiles.
    #[inline]
    pub fn correlate(&self, id: u64) {
        if let Some(table) = self.tables().profile {
            // SAFETY: plain call of a table. It fails for a backend that was shut down, which takes no work to carry an id.
            unsafe { (table.correlate)(self.context(), id) };
        }
    }

    /// What the hardware's counters say since the profile was started, or since the first question in it.
    ///
    /// # Errors
    /// [`Status::Unsupported`] and why where there are none.
    #[track_caller]
    pub fn hardware_counters(&self) -> Result<Vec<HardwareCounter>> {
        let tag = Tag::new("hardware_counters");
        let Some(table) = self.tables().profile else {
            return Err(self.refuse(Status::Unsupported, NOT_MEASURED, &tag));
        };
        let mut raw = Vec::<ProfileCounter>::new();
        loop {
            let mut count = 0;
            let args = ProfileCountersArgs {
                device: self.handle(),
                out: raw.as_mut_ptr(),
                capacity: raw.capacity(),
                count: &raw mut count,
            };
            // SAFETY: the buffer has the capacity that is passed, and lives through the call, as `count` does.
            let code = unsafe { (table.counters)(self.context(), &raw const args) };
            self.check(code, &tag)?;
            // A backend that lies about the number must not make the host allocate without bound.
            const MOST: usize = 1 << 16;
            if count > raw.capacity() && raw.capacity() < MOST {
                raw.reserve(count.min(MOST));
                continue;
            }
            // SAFETY: the backend wrote as many as there are, as far as they fit.
            unsafe { raw.set_len(count.min(raw.capacity())) };
            break;
        }
        let counter = |raw: &ProfileCounter| HardwareCounter {
            name: text(&raw.name),
            unit: text(&raw.unit),
            value: raw.value,
        };
        Ok(raw.iter().map(counter).collect())
    }
}

const NOT_MEASURED: &str = "not measured by this backend, which has no profile table";

impl Profile {
    /// Its device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Appends the records that are there, in no particular order, and returns how many were dropped since the last call. After
    /// [`Profile::stop`] there may be some, until another profile of the device is started.
    ///
    /// # Errors
    /// What the backend returns.
    #[track_caller]
    pub fn drain(&self, out: &mut Vec<ProfileRecord>) -> Result<u64> {
        // Work that goes on meanwhile must not keep this call for ever.
        const MOST: usize = 1 << 20;
        const STEP: usize = 4096;
        let (first, mut lost) = (out.len(), 0);
        while out.len() - first < MOST {
            out.reserve(STEP);
            let (mut written, mut more, capacity) = (0, 0, out.capacity() - out.len());
            let args = ProfileDrainArgs {
                device: self.device.handle(),
                out: out.spare_capacity_mut().as_mut_ptr().cast(),
                capacity,
                written: &raw mut written,
                lost: &raw mut more,
            };
            // SAFETY: the spare room has the capacity that is passed; all of it lives through the call.
            let code = unsafe { (self.table.drain)(self.device.context(), &raw const args) };
            self.device.check(code, &Tag::new("profile_drain"))?;
            // SAFETY: the backend wrote as many records as it says; more than there is room for it cannot have written.
            unsafe { out.set_len(out.len() + written.min(capacity)) };
            lost += more;
            if written < capacity {
                break;
            }
        }
        Ok(lost)
    }

    /// Ends the profile. Work that was submitted before is still recorded when it ends. Does nothing the second time.
    ///
    /// # Errors
    /// What the backend returns.
    #[track_caller]
    pub fn stop(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.running) {
            return Ok(());
        }
        // SAFETY: plain call of a table.
        let code = unsafe { (self.table.stop)(self.device.context(), self.device.handle()) };
        self.device.check(code, &Tag::new("profile_stop"))
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            tracing::error!("{error}");
        }
    }
}
