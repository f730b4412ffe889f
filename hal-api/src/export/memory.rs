//! The memory table.

use super::objects::{Buffer, Imported, Instance, Origin, Owner, full, stale};
use super::{arg, enter, put, writable};
use crate::backend::{Backend, Device, Tag};
use crate::kit::pool::Pool;
use crate::status::{Error, Result};
use crate::tables::{AllocArgs, Context, ImportArgs, MemoryInfo, MemoryStatistics, MemoryTable};
use parking_lot::Mutex;
use smallvec::SmallVec;
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
        reset_peaks: reset_peaks::<B>,
        set_limit: set_limit::<B>,
        info: info::<B>,
    }
}

unsafe extern "C" fn alloc<B: Backend>(context: Context, args: *const AllocArgs, out: *mut u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let args = arg(args)?;
            writable(out)?;
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
            let range = open
                .pool
                .lock()
                .alloc(args.bytes, stream, &**open)
                .map_err(|error| {
                    let op = Tag::new(args.tag.as_ref()).op();
                    let op = if op.is_empty() { "allocation" } else { op };
                    Error::new(error.status, format!("{op}: {}", error.message))
                })?;
            let buffer = Buffer {
                owner: Owner::new(open),
                chunk: range.chunk,
                offset: range.offset,
                bytes: args.bytes,
                origin: Origin::Pool(range.block),
                uses: Mutex::new(SmallVec::new()),
            };
            match instance.buffers.insert(buffer) {
                Some(handle) => put(out, handle),
                None => {
                    open.pool.lock().free(range.block, &[], &**open);
                    Err(full("buffer"))
                }
            }
        })
    }
}

unsafe extern "C" fn free<B: Backend>(context: Context, buffer: u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let buffer = instance
                .buffers
                .remove(buffer)
                .ok_or_else(|| stale("buffer", buffer))?;
            let open = buffer.owner.get();
            let uses = buffer.uses.into_inner();
            match buffer.origin {
                Origin::Pool(block) => open.pool.lock().free(block, &uses, open),
                Origin::Imported(imported) => {
                    open.retired.lock().push((imported, uses.into_vec()));
                    open.release_retired();
                }
            }
            Ok(())
        })
    }
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
            let buffer = Buffer {
                owner: Owner::new(open),
                chunk: &raw const *chunk,
                offset: 0,
                bytes: args.bytes,
                origin: Origin::Imported(Imported {
                    chunk: Some(chunk),
                    release: args.release,
                    data: args.data,
                }),
                uses: Mutex::new(SmallVec::new()),
            };
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
    unsafe { enter::<B>(context, |instance| put(out, instance.buffer(buffer)?.bytes)) }
}

unsafe extern "C" fn trim<B: Backend>(context: Context, device: u64, out: *mut u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let open = instance.device(device)?;
            open.release_retired();
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
            put(out, open.pool.lock().statistics(&**open))
        })
    }
}

fn with_pool<B: Backend>(
    instance: &Instance<B>,
    device: u64,
    run: impl FnOnce(&mut Pool<<B::Device as Device>::Chunk>),
) -> Result<()> {
    run(&mut instance.device(device)?.pool.lock());
    Ok(())
}

unsafe extern "C" fn reset_peaks<B: Backend>(context: Context, device: u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            with_pool(instance, device, |pool| pool.reset_peaks())
        })
    }
}

unsafe extern "C" fn set_limit<B: Backend>(context: Context, device: u64, bytes: u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            with_pool(instance, device, |pool| pool.set_limit(bytes))
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
