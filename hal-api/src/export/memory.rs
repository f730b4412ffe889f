//! The memory table.

use super::objects::{Buffer, Imported, Instance, Open, Origin, Owner, full, stale};
use super::profile::note_buffers;
use super::{arg, enter, enter_profiled, optional, put, writable};
use crate::backend::{Backend, Device, Tag};
use crate::kit::magazine;
use crate::kit::pool::GRANULARITY;
use crate::status::{Error, Result, Status};
use crate::tables::{
    self, AllocArgs, Context, ImportArgs, MemoryInfo, MemoryRange, MemoryStatistics, MemoryTable, ProfileKind,
};
use std::collections::HashMap;
use std::ffi::c_void;

pub(super) const fn table<B: Backend>() -> MemoryTable {
    MemoryTable {
        alloc: alloc::<B>,
        free: free::<B>,
        import: import::<B>,
        map: map::<B>,
        size: size::<B>,
        trim: trim::<B>,
        statistics: statistics::<B>,
        ranges: ranges::<B>,
        reset_peaks: reset_peaks::<B>,
        set_limit: set_limit::<B>,
        info: info::<B>,
    }
}

unsafe extern "C" fn alloc<B: Backend>(context: Context, args: *const AllocArgs, out: *mut u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter_profiled::<B>(
            context,
            move |instance| alloc_in::<B, false>(instance, arg(args)?, out),
            move |instance| alloc_in::<B, true>(instance, arg(args)?, out),
        )
    }
}

/// # Safety
/// The tag and `out` are null or valid.
#[inline(always)]
unsafe fn alloc_in<B: Backend, const PROFILED: bool>(
    instance: &Instance<B>,
    args: &AllocArgs,
    out: *mut u64,
) -> Result<()> {
    writable(out)?;
    // SAFETY: the caller vouches for it.
    let tag = unsafe { optional(args.tag)? };
    let open = instance.device(args.device)?;
    let stream = match args.stream {
        0 => 0,
        handle => {
            let stream = instance.stream(handle)?;
            if !stream.owner.is_open(open) {
                return Err(Error::invalid_handle("the stream belongs to another device"));
            }
            stream.id
        }
    };
    let (handle, _, uncounted) = obtain(instance, Owner::new(open), args.bytes, stream, || tag.copied())?;
    count(open, uncounted);
    if PROFILED {
        note_buffers(instance, open, ProfileKind::Alloc, (args.stream, None), [handle]);
    }
    // SAFETY: the caller vouches for it.
    unsafe { put(out, handle) }
}

/// A buffer, its handle, and the bytes that [`count`] is still to be told of.
type Obtained<'a, B> = (u64, &'a Buffer<<B as Backend>::Device>, u64);

/// A buffer of `bytes` bytes for the stream with the id `stream`. Its bytes raise the peak when they are counted, so that those of
/// a request of which another part fails leave no mark.
#[inline(always)]
pub(super) fn obtain<B: Backend>(
    instance: &Instance<B>,
    owner: Owner<B::Device>,
    bytes: u64,
    stream: u64,
    tag: impl FnOnce() -> Option<tables::Tag>,
) -> Result<Obtained<'_, B>> {
    match reuse(instance, owner.get(), bytes) {
        Some(made) => Ok(made),
        None => fresh(instance, owner, bytes, stream, tag().as_ref()),
    }
}

/// Counts bytes that were obtained.
#[inline(always)]
pub(super) fn count<D: Device>(open: &Open<D>, uncounted: u64) {
    if uncounted > 0 {
        open.magazine.count(uncounted);
    }
}

/// Gives buffers back that were obtained in vain, of whose bytes `uncounted` were not counted.
#[cold]
pub(super) fn withdraw<B: Backend>(
    instance: &Instance<B>,
    open: &Open<B::Device>,
    buffers: &[u64],
    uncounted: u64,
) {
    let mut bytes = 0;
    for &handle in buffers {
        if let Some(buffer) = instance.buffers.remove(handle)
            && let (Origin::Pool { block, size }, uses) = buffer.into_parts()
        {
            open.pool.lock().free(block, &uses, open);
            bytes += size;
        }
    }
    open.magazine.uncount(bytes.saturating_sub(uncounted));
}

/// A range of the pool.
#[cold]
fn fresh<'a, B: Backend>(
    instance: &'a Instance<B>,
    owner: Owner<B::Device>,
    bytes: u64,
    stream: u64,
    tag: Option<&tables::Tag>,
) -> Result<Obtained<'a, B>> {
    let open = owner.get();
    let mut range = open.pool.lock().alloc(bytes, stream, open);
    if range.is_err() && open.pool.lock().may_fit(bytes) {
        // Others go on meanwhile, and free what this one may get.
        open.wait();
        instance.unpark(open);
        range = open.pool.lock().alloc_at_last(bytes, stream, open);
    }
    let range = range.map_err(|error| {
        if error.status == Status::OutOfMemory {
            open.pool.lock().count_failure();
        }
        // SAFETY: the caller of the table vouches for the tag's texts.
        let op = unsafe { Tag::new(tag) }.op();
        let op = if op.is_empty() { "allocation" } else { op };
        Error::new(error.status, format!("{op}: {}", error.message))
    })?;
    let origin = Origin::Pool {
        block: range.block,
        size: range.size,
    };
    let buffer = Buffer::new(owner, range.chunk, range.offset, bytes, origin);
    if let Some(fence) = range.fence {
        buffer.mark(fence.stream, fence.position);
    }
    let Some(handle) = instance.buffers.insert(buffer) else {
        let fences = range.fence.as_slice();
        open.pool.lock().free(range.block, fences, open);
        return Err(full("buffer"));
    };
    Ok((handle, instance.buffer(handle)?, range.size))
}

/// A parked range of the right size, handed out again.
#[inline(always)]
fn reuse<'a, B: Backend>(
    instance: &'a Instance<B>,
    open: &Open<B::Device>,
    bytes: u64,
) -> Option<Obtained<'a, B>> {
    if bytes > magazine::LARGEST {
        return None;
    }
    let size = bytes.max(1).next_multiple_of(GRANULARITY);
    let (slot, uncounted) = open.magazine.take(size)?;
    // SAFETY: what the magazine keeps was parked, and it gives each out once.
    let (handle, buffer) = unsafe { instance.buffers.revive(slot)? };
    buffer.reuse(bytes);
    Some((handle, buffer, uncounted))
}

unsafe extern "C" fn free<B: Backend>(context: Context, buffer: u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter_profiled::<B>(
            context,
            move |instance| give_back::<B, false>(instance, buffer, 0),
            move |instance| give_back::<B, true>(instance, buffer, 0),
        )
    }
}

/// Frees a buffer. While a profile runs, that is recorded under the handle of a stream.
#[inline(always)]
pub(super) fn give_back<B: Backend, const PROFILED: bool>(
    instance: &Instance<B>,
    buffer: u64,
    stream: u64,
) -> Result<()> {
    let found = (instance.buffers.find(buffer)).ok_or_else(|| stale("buffer", buffer))?;
    let open = found.value().owner.get();
    if PROFILED && let Origin::Pool { size, .. } = found.value().origin {
        open.memory_event(ProfileKind::Free, stream, buffer, size);
    }
    match found.value().origin {
        Origin::Pool { size, .. } if size <= magazine::LARGEST && found.value().is_unused(open) => {
            let slot = found.park();
            if !open.magazine.keep(slot, size) {
                open.magazine.uncount(size);
                // SAFETY: the slot was parked above, and the magazine did not take it.
                unsafe { instance.unpark_one(open, slot) };
            }
            Ok(())
        }
        Origin::Pool { .. } | Origin::Imported(_) => release(instance, open, buffer),
    }
}

/// Frees a buffer that is not parked.
#[cold]
fn release<B: Backend>(instance: &Instance<B>, open: &Open<B::Device>, buffer: u64) -> Result<()> {
    let removed = instance
        .buffers
        .remove(buffer)
        .ok_or_else(|| stale("buffer", buffer))?;
    match removed.into_parts() {
        (Origin::Pool { block, size }, uses) => {
            open.magazine.uncount(size);
            open.pool.lock().free(block, &uses, open);
        }
        (Origin::Imported(imported), uses) => {
            open.retire(imported, uses);
        }
    }
    Ok(())
}

unsafe extern "C" fn import<B: Backend>(context: Context, args: *const ImportArgs, out: *mut u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let args = arg(args)?;
            writable(out)?;
            let open = instance.device(args.device)?;
            if args.ptr.is_null() || args.bytes > isize::MAX as u64 {
                return Err(Error::invalid_argument(
                    "imported memory is null or longer than the address space",
                ));
            }
            let chunk = Box::new(open.device.import(args.ptr.cast(), args.bytes)?);
            let base = &raw const *chunk;
            let imported = Imported {
                chunk: Some(chunk),
                release: args.release,
                data: args.data,
            };
            let buffer = Buffer::new(Owner::new(open), base, 0, args.bytes, Origin::Imported(imported));
            put(
                out,
                instance.buffers.insert(buffer).ok_or_else(|| full("buffer"))?,
            )
        })
    }
}

unsafe extern "C" fn map<B: Backend>(context: Context, buffer: u64, out: *mut *mut c_void) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let buffer = instance.buffer(buffer)?;
            // A chunk lives as long as its buffers, and the offset lies inside it.
            let base = buffer.owner.get().device.map(&*buffer.chunk)?;
            put(out, base.add(buffer.offset as usize).cast())
        })
    }
}

unsafe extern "C" fn size<B: Backend>(context: Context, buffer: u64, out: *mut u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe { enter::<B>(context, |instance| put(out, instance.buffer(buffer)?.bytes())) }
}

unsafe extern "C" fn trim<B: Backend>(context: Context, device: u64, out: *mut u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let open = instance.device(device)?;
            open.release_retired();
            instance.unpark(open);
            put(out, open.pool.lock().trim(&**open))
        })
    }
}

unsafe extern "C" fn statistics<B: Backend>(
    context: Context,
    device: u64,
    out: *mut MemoryStatistics,
) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let open = instance.device(device)?;
            let hits = open.magazine.hits();
            instance.unpark(open);
            let figures = open.pool.lock().statistics(&**open);
            let max_allocated = open.magazine.peak();
            let (allocations, frees) = (figures.allocations + hits, figures.frees + hits);
            put(
                out,
                MemoryStatistics {
                    max_allocated,
                    allocations,
                    frees,
                    ..figures
                },
            )
        })
    }
}

unsafe extern "C" fn ranges<B: Backend>(
    context: Context,
    device: u64,
    out: *mut MemoryRange,
    capacity: usize,
    len: *mut usize,
) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            writable(len)?;
            if capacity > 0 {
                writable(out)?;
            }
            let open = instance.device(device)?;
            instance.unpark(open);
            let owner = Owner::new(open);
            let buffers: HashMap<u32, u64> = instance
                .buffers
                .find_all(|handle, buffer| match buffer.origin {
                    Origin::Pool { block, .. } if buffer.owner.is(owner) => Some((block, handle)),
                    Origin::Pool { .. } | Origin::Imported(_) => None,
                })
                .into_iter()
                .collect();
            let ranges = open.pool.lock().ranges(&**open);
            for (at, (block, range)) in ranges.iter().take(capacity).enumerate() {
                let buffer = buffers.get(block).copied().unwrap_or(0);
                // SAFETY: the host vouches for room for `capacity` ranges.
                out.add(at).write(MemoryRange { buffer, ..*range });
            }
            put(len, ranges.len())
        })
    }
}

unsafe extern "C" fn reset_peaks<B: Backend>(context: Context, device: u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let open = instance.device(device)?;
            open.magazine.reset_peak();
            open.pool.lock().reset_peak();
            Ok(())
        })
    }
}

unsafe extern "C" fn set_limit<B: Backend>(context: Context, device: u64, bytes: u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            instance.device(device)?.pool.lock().set_limit(bytes);
            Ok(())
        })
    }
}

unsafe extern "C" fn info<B: Backend>(context: Context, device: u64, out: *mut MemoryInfo) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            put(out, instance.device(device)?.device.memory_info()?)
        })
    }
}
