//! Copies between the device and host memory that is not pinned: piece by piece through pinned memory, with the host's part in
//! order of the stream and beside the transfers. The driver by itself would hold up the caller.

use crate::api::driver::DevicePtr;
use crate::context::Context;
use crate::copy::{End, enqueue, span};
use crate::device::CudaDevice;
use crate::gate::{Mark, Release};
use crate::memory::{Pinned, is_imported, is_pageable};
use crate::stream::Order;
use std::sync::Arc;
use thalweg_hal::backend::Tag;
use thalweg_hal::{Host, Result};

/// Bytes of a piece.
pub(crate) const PIECE: u64 = 4 << 20;
/// Pieces that are under way at a time.
const SLOTS: usize = 2;
/// Bytes that one thread copies; more are shared out.
const SHARE: usize = 1 << 20;
/// Copies of at most this many bytes to the device are put into memory of the driver's by the caller, which is the quickest.
const SMALL: u64 = 64 << 10;

#[derive(Default)]
struct Slot {
    // The last transfer from the slot to the device.
    sent: Option<Mark>,
    // What the host reaches when it has emptied the slot.
    emptied: Option<u32>,
}

/// Pinned memory of a stream.
pub(crate) struct Stage {
    memory: Arc<Pinned>,
    slots: [Slot; SLOTS],
    next: usize,
}

impl Stage {
    fn new(context: &Arc<Context>) -> Result<Stage> {
        Ok(Stage {
            memory: Arc::new(Pinned::new(context, PIECE as usize * SLOTS)?),
            slots: Default::default(),
            next: 0,
        })
    }
}

/// A part of a copy that fits into a slot: rows of `width` bytes, without gaps in the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    host: u64,
    device: u64,
    width: u64,
    rows: u64,
}

/// Cuts a copy into pieces. `host` and `device` are the bytes between rows.
fn pieces(width: u64, rows: u64, host: u64, device: u64) -> Vec<Piece> {
    let mut all = Vec::new();
    let piece = |row: u64, column: u64, width, rows| Piece {
        host: row * host + column,
        device: row * device + column,
        width,
        rows,
    };
    if width > PIECE {
        for row in 0..rows {
            for column in (0..width).step_by(PIECE as usize) {
                all.push(piece(row, column, PIECE.min(width - column), 1));
            }
        }
    } else {
        let together = PIECE / width;
        for row in (0..rows).step_by(together as usize) {
            all.push(piece(row, 0, width, together.min(rows - row)));
        }
    }
    all
}

/// Host memory of a copy that is under way.
#[derive(Clone, Copy)]
struct HostEnd {
    address: *mut u8,
    pitch: u64,
}

// SAFETY: the caller of `copy` keeps the memory until the stream has passed it.
unsafe impl Send for HostEnd {}
// SAFETY: as above.
unsafe impl Sync for HostEnd {}

/// The host's part of one piece.
struct Step {
    piece: Piece,
    slot: usize,
    // Before the slot may be touched.
    after: Option<Mark>,
    // Dropped when the host's part is done, or will never be.
    _release: Release,
}

/// Where a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    ToDevice,
    ToHost,
}

/// Queues a copy between host memory that is not pinned and the device. Rows have no gaps when there is one.
///
/// # Safety
/// Both ends live until the stream has passed the copy.
pub(crate) unsafe fn copy(
    device: &CudaDevice,
    order: &mut Order<'_>,
    way: Way,
    (memory, pitch): (*mut u8, u64),
    there: (DevicePtr, u64),
    (width, rows): (u64, u64),
    tag: Tag<'_>,
) -> Result<()> {
    // The driver takes the bytes before it returns; the host's side must have nothing left to write to them.
    let at_once = way == Way::ToDevice && width * rows <= SMALL && rows == 1;
    let in_order = || order.host_is_idle() && !order.belongings.waited;
    if at_once && in_order() && is_pageable(order.context(), memory, width) {
        let (to, from) = (End(there.0, 0), End(memory as u64, 0));
        // SAFETY: the caller vouches for both ends.
        return unsafe { enqueue(device, order, to, from, (width, 1)) };
    }
    let mut stage = match order.belongings.stage.take() {
        Some(stage) => stage,
        None => Stage::new(order.context())?,
    };
    let end = HostEnd {
        address: memory,
        pitch,
    };
    // SAFETY: the caller vouches for both ends.
    let result = unsafe { queue(device, order, &mut stage, way, end, there, (width, rows), tag) };
    order.belongings.stage = Some(stage);
    if result.is_err() {
        // The memory is the caller's again.
        order.wait_for_host();
    }
    result
}

/// # Safety
/// As [`copy`].
#[allow(clippy::too_many_arguments, reason = "both ends of a copy and where it runs")]
unsafe fn queue(
    device: &CudaDevice,
    order: &mut Order<'_>,
    stage: &mut Stage,
    way: Way,
    end: HostEnd,
    (there, pitch): (DevicePtr, u64),
    (width, rows): (u64, u64),
    tag: Tag<'_>,
) -> Result<()> {
    let host = device.host;
    // What the stream itself does may write the host's memory, of which a part may be pinned.
    let written = order.belongings.waited || order.belongings.pinned_written;
    let written = written || is_imported(end.address, span(end.pitch, (width, rows)));
    let before = match way {
        Way::ToDevice if written => Some(order.mark()?),
        Way::ToDevice | Way::ToHost => None,
    };
    if before.is_some() {
        order.belongings.host_is_behind();
    }
    let host_part = |order: &Order<'_>, step: Step, memory: &Arc<Pinned>, before: Option<Mark>| {
        let memory = Arc::clone(memory);
        order.job(tag, move || {
            // The whole of both, not the pointer in them, which no thread may take.
            let (end, step) = (&end, &step);
            for mark in before.iter().chain(&step.after) {
                mark.wait()?;
            }
            // SAFETY: the slot is the host's now, and the caller vouches for its memory.
            unsafe { carry(host, way, *end, memory.at(step.slot * PIECE as usize), step.piece) };
            Ok(())
        })
    };
    let mut before = before;
    let mut last = None;
    for piece in pieces(width, rows, end.pitch, pitch) {
        let index = stage.next;
        stage.next = (stage.next + 1) % SLOTS;
        let slot = &mut stage.slots[index];
        let at = stage.memory.device() + index as u64 * PIECE;
        let (far, near) = (End(there + piece.device, pitch), End(at, piece.width));
        let release = order.ticket()?;
        let ticket = release.number();
        last = Some(ticket);
        let step = |after| Step {
            piece,
            slot: index,
            after,
            _release: release,
        };
        // Piece by piece: the driver's queue holds about a thousand commands, and while it is full the host's part of those in it
        // must go on.
        match way {
            Way::ToDevice => {
                host_part(order, step(slot.sent.take()), &stage.memory, before.take())?;
                order.wait_for_ticket(ticket)?;
                // SAFETY: the caller vouches for the device's end; the slot is ours.
                unsafe { enqueue(device, order, far, near, (piece.width, piece.rows))? };
                slot.sent = Some(order.mark()?);
                slot.emptied = None;
            }
            Way::ToHost => {
                if let Some(number) = slot.emptied.replace(ticket) {
                    order.wait_for_ticket(number)?;
                }
                // SAFETY: as above.
                unsafe { enqueue(device, order, near, far, (piece.width, piece.rows))? };
                let after = Some(order.mark()?);
                host_part(order, step(after), &stage.memory, before.take())?;
            }
        }
    }
    if let (Way::ToHost, Some(last)) = (way, last) {
        order.wait_for_ticket(last)?;
    }
    Ok(())
}

/// # Safety
/// The piece lies in the host's memory, the slot is nobody else's.
unsafe fn carry(host: Host, way: Way, end: HostEnd, slot: *mut u8, piece: Piece) {
    let slot = HostEnd {
        address: slot,
        pitch: piece.width,
    };
    let (end, slot) = (&end, &slot);
    let move_bytes = |row: u64, column: usize, bytes: usize| {
        let outside = (piece.host + row * end.pitch) as usize + column;
        let inside = (row * slot.pitch) as usize + column;
        // SAFETY: the caller vouches for both.
        unsafe {
            let (outside, inside) = (end.address.add(outside), slot.address.add(inside));
            match way {
                Way::ToDevice => inside.copy_from_nonoverlapping(outside, bytes),
                Way::ToHost => outside.copy_from_nonoverlapping(inside, bytes),
            }
        }
    };
    if piece.rows > 1 {
        (0..piece.rows).for_each(|row| move_bytes(row, 0, piece.width as usize));
        return;
    }
    let width = piece.width as usize;
    if width <= SHARE {
        return move_bytes(0, 0, width);
    }
    host.parallel_for(width.div_ceil(SHARE), 0, &|share| {
        let column = share * SHARE;
        move_bytes(0, column, SHARE.min(width - column));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_copy_once() {
        for (width, rows, host, device) in [
            (1, 1, 1, 1),
            (PIECE, 1, PIECE, PIECE),
            (3 * PIECE + 7, 2, 4 * PIECE, 5 * PIECE),
            (1000, 100_000, 1001, 1024),
            (PIECE - 1, 3, PIECE, PIECE),
        ] {
            let all = pieces(width, rows, host, device);
            let mut covered = 0;
            for piece in &all {
                assert!(piece.width * piece.rows <= PIECE && piece.rows > 0);
                let (row, column) = (piece.host / host, piece.host % host);
                assert_eq!(piece.device, row * device + column);
                assert!(column + piece.width <= width && row + piece.rows <= rows);
                assert_eq!(covered, row * width + column, "in order, without gaps");
                covered += piece.width * piece.rows;
            }
            assert_eq!(covered, width * rows);
        }
    }
}
