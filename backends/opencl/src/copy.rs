//! Copies and fills of one device.

use crate::api::RawMem;
use crate::device::OpenClDevice;
use crate::launch::{launch, set_buffer};
use crate::peer;
use crate::profile::Origin;
use crate::program::Entry;
use crate::stream::ClStream;
use std::sync::Arc;
use thalweg_cstyle::Grid;
use thalweg_hal::backend::{Copy, Fill, Place, Region};
use thalweg_hal::{Error, Result};

/// Copies of at most this many rows are queued row by row; more go to a kernel.
const FEW_ROWS: u64 = 4;
/// Work-items of a group of the kernel.
const GROUP: u32 = 64;
/// Most groups of the kernel; a group takes rows in turn.
const MOST_GROUPS: u64 = 1024;

/// Copies rows in units of 1, 4 and 16 bytes. The rectangle copies of OpenCL demand one pitch for both ends when they lie in
/// one buffer, which two ranges of a pool do not have.
const SOURCE: &str = "\
#define ROWS(T, NAME) \\
kernel void NAME(global uchar *to, global const uchar *from, ulong to_at, ulong from_at, ulong to_pitch, \\
                 ulong from_pitch, ulong width, ulong rows) { \\
    for (ulong row = get_group_id(0); row < rows; row += get_num_groups(0)) { \\
        global T *out = (global T *)(to + to_at + row * to_pitch); \\
        global const T *in = (global const T *)(from + from_at + row * from_pitch); \\
        for (ulong at = get_local_id(0); at < width; at += get_local_size(0)) out[at] = in[at]; \\
    } \\
}
ROWS(uchar, rows_1)
ROWS(uint, rows_4)
ROWS(uint4, rows_16)
";

/// The kernels that copy rows.
pub(crate) struct Rows {
    entries: [(u64, Entry); 3],
}

impl Rows {
    /// Builds them.
    pub(crate) fn new(device: &OpenClDevice) -> Result<Rows> {
        let program = Arc::new(device.builder.build("copy of rows", SOURCE)?);
        let entry = |unit, name| Ok((unit, Entry::new(&program, name)?));
        Ok(Rows {
            entries: [entry(16, "rows_16")?, entry(4, "rows_4")?, entry(1, "rows_1")?],
        })
    }
}

/// One end in a buffer: where it starts, and the bytes between its rows.
#[derive(Clone, Copy)]
struct End {
    mem: RawMem,
    offset: u64,
    pitch: u64,
}

impl End {
    fn new(region: &Region<'_, OpenClDevice>, pitch: u64) -> End {
        End {
            mem: region.chunk.mem().raw(),
            offset: region.chunk.skew() + region.offset,
            pitch,
        }
    }
}

/// Queues a copy.
///
/// # Safety
/// As [`thalweg_hal::backend::Device::submit`].
pub(crate) unsafe fn copy(
    device: &OpenClDevice,
    stream: &ClStream,
    copy: &Copy<'_, OpenClDevice>,
    origin: Origin<'_>,
) -> Result<()> {
    let ((width, rows), to_pitch, from_pitch) = copy.joined();
    // SAFETY: the caller vouches for both ends.
    unsafe {
        match (&copy.dst.0, &copy.src.0) {
            (Place::Device(to_device, to), Place::Device(from_device, from)) => {
                if !Arc::ptr_eq(&to_device.context, &from_device.context) {
                    let ends = ((*to_device, to, to_pitch), (*from_device, from, from_pitch));
                    return peer::copy(stream, ends, width, rows, origin);
                }
                let (to, from) = (End::new(to, to_pitch), End::new(from, from_pitch));
                within(device, stream, to, from, (width, rows), origin)
            }
            (Place::Host(to), Place::Device(_, from)) => read(
                device,
                stream,
                (*to, to_pitch),
                End::new(from, from_pitch),
                (width, rows),
                origin,
            ),
            (Place::Device(_, to), Place::Host(from)) => write(
                device,
                stream,
                End::new(to, to_pitch),
                (*from, from_pitch),
                (width, rows),
                origin,
            ),
            (Place::Host(_), Place::Host(_)) => Err(Error::invalid_argument(
                "copy: neither end is a buffer of the device",
            )),
        }
    }
}

/// # Safety
/// As [`copy`].
unsafe fn within(
    device: &OpenClDevice,
    stream: &ClStream,
    to: End,
    from: End,
    (width, rows): (u64, u64),
    origin: Origin<'_>,
) -> Result<()> {
    let order = stream.order();
    if rows <= FEW_ROWS {
        for row in 0..rows {
            let (at, source) = (to.offset + row * to.pitch, from.offset + row * from.pitch);
            order.submit(origin, "clEnqueueCopyBuffer", |queue, event| {
                // SAFETY: the caller vouches for both ends, which do not overlap.
                unsafe {
                    (device.api.copy)(
                        queue,
                        from.mem,
                        to.mem,
                        source as usize,
                        at as usize,
                        width as usize,
                        0,
                        std::ptr::null(),
                        event,
                    )
                }
            })?;
        }
        return order.flush();
    }
    let numbers = [to.offset, from.offset, to.pitch, from.pitch, width];
    let kernels = device.rows()?;
    let fits = |unit: u64| numbers.iter().all(|number| number.is_multiple_of(unit));
    let (unit, entry) = match kernels.entries.iter().find(|(unit, _)| fits(*unit)) {
        Some((unit, entry)) => (*unit, entry),
        None => return Err(Error::internal("no unit fits a copy of rows")),
    };
    let grid = Grid {
        groups: rows.min(MOST_GROUPS),
        group_size: GROUP.min(device.info.max_group),
    };
    entry.with(|kernel| {
        set_buffer(kernel, 0, to.mem)?;
        set_buffer(kernel, 1, from.mem)?;
        let last = [to.offset, from.offset, to.pitch, from.pitch, width / unit, rows];
        for (index, number) in (2..).zip(last) {
            // SAFETY: a number of 8 bytes, read by the call.
            unsafe { kernel.set(index, 8, (&raw const number).cast())? };
        }
        // SAFETY: all arguments are set, and the caller vouches for both ends.
        unsafe { launch(device.api, kernel, grid, &order, origin) }
    })?;
    order.flush()
}

/// # Safety
/// As [`copy`].
unsafe fn read(
    device: &OpenClDevice,
    stream: &ClStream,
    (to, pitch): (*mut u8, u64),
    from: End,
    (width, rows): (u64, u64),
    origin: Origin<'_>,
) -> Result<()> {
    let (offset, bytes) = (from.offset as usize, width as usize);
    // SAFETY: the caller vouches for both ends until the stream has passed the copy.
    unsafe {
        if rows == 1 {
            return stream.submit(origin, "clEnqueueReadBuffer", |queue, event| {
                (device.api.read)(
                    queue,
                    from.mem,
                    0,
                    offset,
                    bytes,
                    to.cast(),
                    0,
                    std::ptr::null(),
                    event,
                )
            });
        }
        let (first, zero, region) = rectangle(from, width, rows);
        stream.submit(origin, "clEnqueueReadBufferRect", |queue, event| {
            (device.api.read_rect)(
                queue,
                from.mem,
                0,
                &raw const first,
                &raw const zero,
                &raw const region,
                from.pitch as usize,
                0,
                pitch as usize,
                0,
                to.cast(),
                0,
                std::ptr::null(),
                event,
            )
        })
    }
}

/// # Safety
/// As [`copy`].
unsafe fn write(
    device: &OpenClDevice,
    stream: &ClStream,
    to: End,
    (from, pitch): (*mut u8, u64),
    (width, rows): (u64, u64),
    origin: Origin<'_>,
) -> Result<()> {
    let (offset, bytes) = (to.offset as usize, width as usize);
    // SAFETY: the caller vouches for both ends until the stream has passed the copy.
    unsafe {
        if rows == 1 {
            return stream.submit(origin, "clEnqueueWriteBuffer", |queue, event| {
                (device.api.write)(
                    queue,
                    to.mem,
                    0,
                    offset,
                    bytes,
                    from.cast(),
                    0,
                    std::ptr::null(),
                    event,
                )
            });
        }
        let (first, zero, region) = rectangle(to, width, rows);
        stream.submit(origin, "clEnqueueWriteBufferRect", |queue, event| {
            (device.api.write_rect)(
                queue,
                to.mem,
                0,
                &raw const first,
                &raw const zero,
                &raw const region,
                to.pitch as usize,
                0,
                pitch as usize,
                0,
                from.cast(),
                0,
                std::ptr::null(),
                event,
            )
        })
    }
}

/// Origin in the buffer, origin in host memory, and extent of a rectangle. The origin is an offset as column, row and
/// slice; the driver multiplies it out again.
fn rectangle(end: End, width: u64, rows: u64) -> ([usize; 3], [usize; 3], [usize; 3]) {
    let first = [
        (end.offset % end.pitch) as usize,
        (end.offset / end.pitch) as usize,
        0,
    ];
    (first, [0; 3], [width as usize, rows as usize, 1])
}

/// Queues a fill.
///
/// # Safety
/// As [`thalweg_hal::backend::Device::submit`].
pub(crate) unsafe fn fill(
    device: &OpenClDevice,
    stream: &ClStream,
    fill: &Fill<'_, OpenClDevice>,
    origin: Origin<'_>,
) -> Result<()> {
    let end = End::new(&fill.region, 0);
    stream.submit(origin, "clEnqueueFillBuffer", |queue, event| {
        // SAFETY: the pattern is read by the call, and the caller vouches for the region.
        unsafe {
            (device.api.fill)(
                queue,
                end.mem,
                fill.pattern.as_ptr().cast(),
                fill.pattern_bytes as usize,
                end.offset as usize,
                fill.region.bytes as usize,
                0,
                std::ptr::null(),
                event,
            )
        }
    })
}
