//! Copies and fills.

use crate::api::driver::DevicePtr;
use crate::device::CudaDevice;
use crate::memory::is_pinned;
use crate::stage::{self, Way};
use crate::stream::{CuStream, Order};
use cudarc::driver::sys::{CUDA_MEMCPY2D, CUmemorytype};
use std::sync::Arc;
use thalweg_hal::backend::{Copy, Fill, Place, Tag};
use thalweg_hal::{Error, Result};

/// An address of one address space for hosts and devices, and the bytes between rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End(pub(crate) DevicePtr, pub(crate) u64);

/// Widths and pitches of a copy with what can be joined joined.
pub(crate) fn joined(width: u64, rows: u64, to: u64, from: u64) -> (u64, u64) {
    if rows == 1 || (to == width && from == width) {
        (width * rows, 1)
    } else {
        (width, rows)
    }
}

/// Bytes from the first of a copy's to one past its last.
pub(crate) fn span(pitch: u64, (width, rows): (u64, u64)) -> u64 {
    rows.saturating_sub(1) * pitch + width
}

/// Queues a copy whose ends the driver reaches: device memory of the stream's device, and pinned memory.
///
/// # Safety
/// Both ends live until the stream has passed the copy.
pub(crate) unsafe fn enqueue(
    device: &CudaDevice,
    order: &Order<'_>,
    to: End,
    from: End,
    (width, rows): (u64, u64),
) -> Result<()> {
    let (width, rows) = joined(width, rows, to.1, from.1);
    let api = order.context().api;
    if rows == 1 || to.1.max(from.1) > device.info.max_pitch {
        for row in 0..rows {
            let (at, source) = (to.0 + row * to.1, from.0 + row * from.1);
            // SAFETY: the caller vouches for both ends.
            let code = unsafe { (api.copy_async)(at, source, width as usize, order.raw()) };
            order.check("cuMemcpyAsync", code)?;
        }
        return Ok(());
    }
    let copy = CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_UNIFIED,
        srcHost: std::ptr::null(),
        srcDevice: from.0,
        srcArray: std::ptr::null_mut(),
        srcPitch: from.1 as usize,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_UNIFIED,
        dstHost: std::ptr::null_mut(),
        dstDevice: to.0,
        dstArray: std::ptr::null_mut(),
        dstPitch: to.1 as usize,
        WidthInBytes: width as usize,
        Height: rows as usize,
    };
    // SAFETY: as above.
    let code = unsafe { (api.copy_2d_async)(&raw const copy, order.raw()) };
    order.check("cuMemcpy2DAsync", code)
}

/// Queues a copy.
///
/// # Safety
/// As [`thalweg_hal::backend::Device::submit`].
pub(crate) unsafe fn copy(
    device: &CudaDevice,
    stream: &CuStream,
    copy: &Copy<'_, CudaDevice>,
    tag: Tag<'_>,
) -> Result<()> {
    let mut order = stream.order()?;
    let ((width, rows), to, from) = copy.joined();
    // SAFETY: the caller vouches for both ends.
    unsafe {
        match (&copy.dst.0, &copy.src.0) {
            (Place::Device(here, target), Place::Device(there, source)) => {
                let ends = (
                    End(target.chunk.at(target.offset), to),
                    End(source.chunk.at(source.offset), from),
                );
                if Arc::ptr_eq(&here.context, &there.context) {
                    enqueue(device, &order, ends.0, ends.1, (width, rows))?;
                } else {
                    peer(&order, (here, ends.0), (there, ends.1), (width, rows))?;
                }
            }
            (Place::Device(_, region), Place::Host(memory)) => {
                let end = End(region.chunk.at(region.offset), to);
                let host = (*memory, from);
                with_host(device, &mut order, Way::ToDevice, host, end, (width, rows), tag)?;
            }
            (Place::Host(memory), Place::Device(_, region)) => {
                let end = End(region.chunk.at(region.offset), from);
                let host = (*memory, to);
                with_host(device, &mut order, Way::ToHost, host, end, (width, rows), tag)?;
            }
            (Place::Host(_), Place::Host(_)) => {
                return Err(Error::invalid_argument(
                    "copy: neither end is a buffer of the device",
                ));
            }
        }
    }
    order.done(tag, None);
    Ok(())
}

/// # Safety
/// As [`enqueue`].
unsafe fn with_host(
    device: &CudaDevice,
    order: &mut Order<'_>,
    way: Way,
    host: (*mut u8, u64),
    end: End,
    (width, rows): (u64, u64),
    tag: Tag<'_>,
) -> Result<()> {
    // SAFETY: the caller vouches for both ends.
    unsafe {
        if is_pinned(order.context(), host.0, span(host.1, (width, rows))) {
            let memory = End(host.0 as u64, host.1);
            return match way {
                Way::ToDevice => enqueue(device, order, end, memory, (width, rows)),
                Way::ToHost => {
                    order.belongings.pinned_written = true;
                    enqueue(device, order, memory, end, (width, rows))
                }
            };
        }
        stage::copy(device, order, way, host, (end.0, end.1), (width, rows), tag)
    }
}

type Peer<'a> = (&'a CudaDevice, End);

/// Queues a copy between devices: directly where they reach each other, by the driver through the host where not.
///
/// # Safety
/// As [`enqueue`].
unsafe fn peer(order: &Order<'_>, to: Peer<'_>, from: Peer<'_>, (width, rows): (u64, u64)) -> Result<()> {
    for row in 0..rows {
        // SAFETY: the caller vouches for both ends.
        let code = unsafe {
            (order.context().api.copy_peer_async)(
                to.1.0 + row * to.1.1,
                to.0.context.raw,
                from.1.0 + row * from.1.1,
                from.0.context.raw,
                width as usize,
                order.raw(),
            )
        };
        order.check("cuMemcpyPeerAsync", code)?;
    }
    Ok(())
}

/// Queues a fill.
///
/// # Safety
/// As [`thalweg_hal::backend::Device::submit`].
pub(crate) unsafe fn fill(stream: &CuStream, fill: &Fill<'_, CudaDevice>, tag: Tag<'_>) -> Result<()> {
    let order = stream.order()?;
    let api = order.context().api;
    let (at, raw) = (fill.region.chunk.at(fill.region.offset), order.raw());
    let count = (fill.region.bytes / u64::from(fill.pattern_bytes)) as usize;
    let [b0, b1, b2, b3, b4, b5, b6, b7] = fill.pattern;
    let (low, high) = (
        u32::from_le_bytes([b0, b1, b2, b3]),
        u32::from_le_bytes([b4, b5, b6, b7]),
    );
    // SAFETY: the caller vouches for the region; buffers and offsets are aligned to the pattern.
    unsafe {
        match fill.pattern_bytes {
            1 => order.check("cuMemsetD8Async", (api.set_8_async)(at, b0, count, raw))?,
            2 => {
                let pattern = u16::from_le_bytes([b0, b1]);
                order.check("cuMemsetD16Async", (api.set_16_async)(at, pattern, count, raw))?;
            }
            4 => order.check("cuMemsetD32Async", (api.set_32_async)(at, low, count, raw))?,
            _ if low == high => {
                order.check("cuMemsetD32Async", (api.set_32_async)(at, low, 2 * count, raw))?;
            }
            // Columns of four bytes in rows of eight.
            _ => {
                for (half, word) in [(0, low), (4, high)] {
                    let code = (api.set_2d_32_async)(at + half, 8, word, 1, count, raw);
                    order.check("cuMemsetD2D32Async", code)?;
                }
            }
        }
    }
    order.done(tag, None);
    Ok(())
}
