//! What handles name.

use super::program::{Forms, Program};
use crate::backend::{Backend, Device, Properties};
use crate::kit::checks::Signature;
use crate::kit::magazine::Magazine;
use crate::kit::pool::{Fence, Pool, Source};
use crate::kit::slots::Slots;
use crate::status::{Error, Result};
use crate::tables::ProfileKind;
use parking_lot::{Mutex, RwLock};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// A backend with everything that it has handed out. Lives as long as the process.
pub(super) struct Instance<B: Backend> {
    pub(super) backend: B,
    pub(super) devices: Slots<Arc<Open<B::Device>>>,
    pub(super) buffers: Slots<Buffer<B::Device>>,
    pub(super) streams: Slots<Arc<Stream<B::Device>>>,
    pub(super) events: Slots<Event<B::Device>>,
    pub(super) kernels: Slots<Kernel<B::Device>>,
    pub(super) programs: Slots<Program<B::Device>>,
    /// [`DOWN`], and for each profile that runs [`PROFILE`].
    pub(super) state: AtomicU32,
    fences: Arc<Streams<B::Device>>,
    next_stream: AtomicU64,
}

/// Bit of [`Instance::state`]: the backend was shut down.
pub(super) const DOWN: u32 = 1;
/// What each running profile adds to [`Instance::state`].
pub(super) const PROFILE: u32 = 2;

/// The streams of all devices, by the id that fences carry: a copy between devices leaves the fence of its stream on
/// both. A stream that is gone has passed everything.
pub(super) struct Streams<D: Device>(RwLock<HashMap<u64, Arc<Stream<D>>>>);

impl<D: Device> Streams<D> {
    fn of(&self, owner: Owner<D>) -> Vec<Arc<Stream<D>>> {
        let all = self.0.read();
        let mut own: Vec<_> = (all.values())
            .filter(|entry| entry.owner.is(owner))
            .cloned()
            .collect();
        own.sort_by_key(|entry| entry.id);
        own
    }

    // The lock keeps the stream's device open meanwhile.
    fn judge(&self, fence: Fence, done: impl FnOnce(&D, &D::Stream) -> bool) -> bool {
        let all = self.0.read();
        all.get(&fence.stream)
            .is_none_or(|entry| done(&entry.owner.get().device, &entry.stream))
    }

    fn passed(&self, fence: Fence) -> bool {
        self.judge(fence, |device, stream| device.passed(stream, fence.position))
    }

    fn known_passed(&self, fence: Fence) -> bool {
        self.judge(fence, |device, stream| {
            device.known_passed(stream, fence.position)
        })
    }

    /// Waits until every fence is passed or its device is lost.
    fn wait(&self, fences: &[Fence]) {
        for &fence in fences {
            while !self.judge(fence, |device, stream| {
                device.passed(stream, fence.position) || device.status().is_err()
            }) {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    }
}

/// An open device.
pub(super) struct Open<D: Device> {
    pub(super) device: D,
    pub(super) properties: Properties,
    pub(super) pool: Mutex<Pool<D::Chunk>>,
    pub(super) magazine: Magazine,
    pub(super) streams: Arc<Streams<D>>,
    pub(super) retired: Mutex<Retired<D>>,
    pub(super) forms: Mutex<Forms>,
}

/// Imported memory that was freed while streams still used it.
pub(super) struct Retired<D: Device> {
    list: Vec<(Imported<D>, SmallVec<[Fence; 2]>)>,
    /// The length at which the list is judged again: twice what was left the last time.
    next: usize,
}

impl<D: Device> Retired<D> {
    const FEWEST: usize = 8;

    pub(super) fn new() -> Retired<D> {
        Retired {
            list: Vec::new(),
            next: Retired::<D>::FEWEST,
        }
    }
}

/// A stream. It must not outlive its device, which `Instance::close` sees to.
pub(super) struct Stream<D: Device> {
    pub(super) id: u64,
    pub(super) owner: Owner<D>,
    pub(super) stream: D::Stream,
}

/// The device that an object belongs to.
pub(super) struct Owner<D: Device>(NonNull<Open<D>>);

impl<D: Device> Clone for Owner<D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Device> Copy for Owner<D> {}

// SAFETY: a shared reference to a `Sync` value in all but name.
unsafe impl<D: Device> Send for Owner<D> {}
// SAFETY: as above.
unsafe impl<D: Device> Sync for Owner<D> {}

impl<D: Device> Owner<D> {
    pub(super) fn new(open: &Open<D>) -> Owner<D> {
        Owner(NonNull::from(open))
    }

    #[inline(always)]
    pub(super) fn is(self, other: Owner<D>) -> bool {
        self.0 == other.0
    }

    pub(super) fn is_open(self, open: &Open<D>) -> bool {
        std::ptr::eq(self.0.as_ptr(), open)
    }

    #[inline]
    pub(super) fn get<'a>(self) -> &'a Open<D> {
        // SAFETY: `Instance::close` removes every object of a device before it drops the device, and the tables' contract
        // forbids closing a device while another call uses an object of it.
        unsafe { self.0.as_ref() }
    }
}

/// A buffer: a range of the pool, or imported memory.
pub(super) struct Buffer<D: Device> {
    pub(super) owner: Owner<D>,
    pub(super) chunk: *const D::Chunk,
    pub(super) offset: u64,
    // Bytes that were asked for; a parked range is handed out again for another number.
    bytes: AtomicU64,
    pub(super) origin: Origin<D>,
    // Where streams may still use it. All work may have run to its end inside `submit`: then `used` is false.
    used: AtomicBool,
    uses: Mutex<SmallVec<[Fence; 2]>>,
}

// SAFETY: `chunk` points into the pool or the import, both `Send` and `Sync`.
unsafe impl<D: Device> Send for Buffer<D> {}
// SAFETY: as above.
unsafe impl<D: Device> Sync for Buffer<D> {}

pub(super) enum Origin<D: Device> {
    Pool { block: u32, size: u64 },
    Imported(Imported<D>),
}

/// Imported host memory; dropping hands it back to the host.
pub(super) struct Imported<D: Device> {
    pub(super) chunk: Option<Box<D::Chunk>>,
    pub(super) release: Option<unsafe extern "C" fn(*mut c_void)>,
    pub(super) data: *mut c_void,
}

// SAFETY: the contract of `ImportArgs` lets `release` be called from any thread.
unsafe impl<D: Device> Send for Imported<D> {}
// SAFETY: nothing is reached through a shared reference.
unsafe impl<D: Device> Sync for Imported<D> {}

impl<D: Device> Drop for Imported<D> {
    fn drop(&mut self) {
        self.chunk = None;
        if let Some(release) = self.release {
            // SAFETY: the host vouches for function and data, and the device no longer uses the memory.
            unsafe { release(self.data) };
        }
    }
}

pub(super) struct Event<D: Device> {
    pub(super) owner: Owner<D>,
    pub(super) event: D::Event,
    pub(super) timing: bool,
}

pub(super) struct Kernel<D: Device> {
    pub(super) owner: Owner<D>,
    pub(super) kernel: Arc<D::Kernel>,
    pub(super) signature: Arc<Signature>,
}

impl<D: Device> Buffer<D> {
    pub(super) fn new(
        owner: Owner<D>,
        chunk: *const D::Chunk,
        offset: u64,
        bytes: u64,
        origin: Origin<D>,
    ) -> Self {
        Buffer {
            owner,
            chunk,
            offset,
            bytes: AtomicU64::new(bytes),
            origin,
            used: AtomicBool::new(false),
            uses: Mutex::new(SmallVec::new()),
        }
    }

    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Hands the same range out for another number of bytes.
    #[inline]
    pub(super) fn reuse(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Remembers that `stream` uses the buffer up to `position`.
    pub(super) fn mark(&self, stream: u64, position: u64) {
        let mut uses = self.uses.lock();
        match uses.iter_mut().find(|fence| fence.stream == stream) {
            Some(fence) => fence.position = fence.position.max(position),
            None => uses.push(Fence { stream, position }),
        }
        self.used.store(true, Ordering::Relaxed);
    }

    /// Whether it is known that no stream uses it any more.
    #[inline]
    pub(super) fn is_unused(&self, open: &Open<D>) -> bool {
        if !self.used.load(Ordering::Relaxed) {
            return true;
        }
        let mut uses = self.uses.lock();
        uses.retain(|fence| !open.known_passed(*fence));
        self.used.store(!uses.is_empty(), Ordering::Relaxed);
        uses.is_empty()
    }

    fn fences(&self) -> SmallVec<[Fence; 2]> {
        self.uses.lock().clone()
    }

    /// What is left of a buffer that was removed: where it came from, and who may still use it.
    pub(super) fn into_parts(self) -> (Origin<D>, SmallVec<[Fence; 2]>) {
        (self.origin, self.uses.into_inner())
    }
}

impl<D: Device> Source for Open<D> {
    type Chunk = D::Chunk;

    fn reserve(&self, bytes: u64) -> Result<D::Chunk> {
        let chunk = self.device.reserve(bytes)?;
        self.memory_event(ProfileKind::Reserve, 0, 0, bytes);
        Ok(chunk)
    }

    fn released(&self, bytes: u64) {
        self.memory_event(ProfileKind::Release, 0, 0, bytes);
    }

    fn passed(&self, fence: Fence) -> bool {
        self.streams.passed(fence)
    }

    fn known_passed(&self, fence: Fence) -> bool {
        self.streams.known_passed(fence)
    }
}

impl<D: Device> Open<D> {
    /// Waits until every stream of the device has passed the point that it has reached now, and every stream of another
    /// one what it does with memory that was freed here.
    pub(super) fn wait(&self) {
        let mut fences = self.pool.lock().fences();
        fences.extend(self.streams.of(Owner::new(self)).iter().map(|entry| Fence {
            stream: entry.id,
            position: self.device.position(&entry.stream),
        }));
        self.streams.wait(&fences);
    }

    /// Gives imported memory back, or keeps it until no stream uses it any more.
    pub(super) fn retire(&self, imported: Imported<D>, mut fences: SmallVec<[Fence; 2]>) {
        fences.retain(|fence| !self.known_passed(*fence));
        if fences.is_empty() {
            return drop(imported);
        }
        let mut retired = self.retired.lock();
        retired.list.push((imported, fences));
        let many = retired.list.len() >= retired.next;
        drop(retired);
        if many {
            self.release_retired();
        }
    }

    /// Gives imported memory back that no stream uses any more. Neither backends nor the host's functions run under the lock.
    pub(super) fn release_retired(&self) {
        let list = std::mem::take(&mut self.retired.lock().list);
        let mut known = HashMap::new();
        let (left, done): (Vec<_>, Vec<_>) = list.into_iter().partition(|(_, fences)| {
            (fences.iter()).any(|fence| !*known.entry(*fence).or_insert_with(|| self.passed(*fence)))
        });
        let mut retired = self.retired.lock();
        retired.list.extend(left);
        retired.next = (2 * retired.list.len()).max(Retired::<D>::FEWEST);
        drop(retired);
        drop(done);
    }

    /// Waits for every stream; the first error that sticks to one of them.
    pub(super) fn synchronize(&self) -> Result<()> {
        let streams = self.streams.of(Owner::new(self));
        let results: Vec<_> = streams
            .iter()
            .map(|entry| self.device.synchronize(&entry.stream))
            .collect();
        self.release_retired();
        results.into_iter().collect()
    }
}

macro_rules! lookups {
    ($($name:ident($field:ident) -> $kind:ident, $what:literal;)*) => {
        impl<B: Backend> Instance<B> {
            $(
                #[inline]
                pub(super) fn $name(&self, handle: u64) -> Result<&$kind<B::Device>> {
                    self.$field.get(handle).ok_or_else(|| stale($what, handle))
                }
            )*
        }
    };
}

lookups! {
    buffer(buffers) -> Buffer, "buffer";
    event(events) -> Event, "event";
    kernel(kernels) -> Kernel, "kernel";
    program(programs) -> Program, "program";
}

#[cold]
pub(super) fn stale(what: &str, handle: u64) -> Error {
    Error::invalid_handle(format!(
        "no {what} has the handle {handle:#x}; it was destroyed or never created"
    ))
}

pub(super) fn full(what: &str) -> Error {
    Error::out_of_memory(format!("no handle is left for another {what}"))
}

impl<B: Backend> Instance<B> {
    pub(super) fn new(backend: B) -> Instance<B> {
        Instance {
            backend,
            devices: Slots::new(),
            buffers: Slots::new(),
            streams: Slots::new(),
            events: Slots::new(),
            kernels: Slots::new(),
            programs: Slots::new(),
            state: AtomicU32::new(0),
            fences: Arc::new(Streams(RwLock::new(HashMap::new()))),
            next_stream: AtomicU64::new(1),
        }
    }

    #[inline]
    pub(super) fn device(&self, handle: u64) -> Result<&Arc<Open<B::Device>>> {
        self.devices.get(handle).ok_or_else(|| stale("device", handle))
    }

    #[inline]
    pub(super) fn stream(&self, handle: u64) -> Result<&Arc<Stream<B::Device>>> {
        self.streams.get(handle).ok_or_else(|| stale("stream", handle))
    }

    /// Gives the ranges that are parked for reuse back to the pool.
    pub(super) fn unpark(&self, open: &Open<B::Device>) {
        for slot in open.magazine.drain() {
            // SAFETY: what the magazine keeps was parked, and it gives each out once.
            unsafe { self.unpark_one(open, slot) };
        }
    }

    /// Gives a parked range back to the pool.
    ///
    /// # Safety
    /// `slot` comes from [`Found::park`](crate::kit::slots::Found::park) and was not used since.
    #[cold]
    pub(super) unsafe fn unpark_one(&self, open: &Open<B::Device>, slot: u32) {
        // SAFETY: the caller's promise.
        if let Some(buffer) = unsafe { self.buffers.remove_parked(slot) }
            && let (Origin::Pool { block, .. }, _) = buffer.into_parts()
        {
            open.pool.lock().free(block, &[], open);
        }
    }

    /// What fences of a device's memory are judged by.
    pub(super) fn streams(&self) -> Arc<Streams<B::Device>> {
        Arc::clone(&self.fences)
    }

    /// A handle for a new stream of a device.
    pub(super) fn add_stream(
        &self,
        open: &Open<B::Device>,
        stream: <B::Device as Device>::Stream,
    ) -> Result<u64> {
        let stream = Arc::new(Stream {
            id: self.next_stream.fetch_add(1, Ordering::Relaxed),
            owner: Owner::new(open),
            stream,
        });
        let handle = (self.streams.insert(Arc::clone(&stream))).ok_or_else(|| full("stream"))?;
        self.fences.0.write().insert(stream.id, stream);
        Ok(handle)
    }

    /// Waits for a stream's work and ends it.
    pub(super) fn remove_stream(&self, handle: u64) -> Result<()> {
        let stream = (self.streams.remove(handle)).ok_or_else(|| stale("stream", handle))?;
        let open = stream.owner.get();
        let result = open.device.synchronize(&stream.stream);
        let entry = self.fences.0.write().remove(&stream.id);
        drop(entry);
        open.release_retired();
        result
    }

    /// Waits for a device's work and for what streams of others do with its memory, removes all that belongs to it, and
    /// drops it.
    pub(super) fn close(&self, handle: u64) -> Result<()> {
        let open = Arc::clone(self.device(handle)?);
        self.stop_profile(&open);
        let synchronized = open.synchronize();
        let owner = Owner::new(&open);
        let mut fences = open.pool.lock().fences();
        fences.extend((open.retired.lock().list.iter()).flat_map(|(_, fences)| fences));
        for buffer in self.buffers.handles(|buffer| buffer.owner.is(owner)) {
            fences.extend(self.buffers.get(buffer).into_iter().flat_map(Buffer::fences));
        }
        self.fences.wait(&fences);
        fn clear<T>(slots: &Slots<T>, mine: impl FnMut(&T) -> bool) {
            for handle in slots.handles(mine) {
                drop(slots.remove(handle));
            }
        }
        clear(&self.programs, |program| program.owner.is(owner));
        clear(&self.events, |event| event.owner.is(owner));
        clear(&self.kernels, |kernel| kernel.owner.is(owner));
        clear(&self.streams, |stream| stream.owner.is(owner));
        let ended: Vec<_> = (self.fences.0.write())
            .extract_if(|_, entry| entry.owner.is(owner))
            .collect();
        drop(ended);
        self.unpark(&open);
        clear(&self.buffers, |buffer| buffer.owner.is(owner));
        let retired = std::mem::take(&mut open.retired.lock().list);
        drop(retired);
        self.devices.remove(handle);
        synchronized
    }
}
