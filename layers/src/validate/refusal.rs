//! Reports about packets that cannot be read or do not fit.

use super::code::Code;
use super::report::Report;
use super::shadow::Check;
use thalweg_hal::kit::args::array;
use thalweg_hal::tables::{Launch, Packet, PacketKind};
use thalweg_hal::{Error, Status};

/// A report of what the checks of packets say.
#[cold]
pub(super) fn refusal(what: &str, error: &Error, overflows: bool) -> Report {
    let (code, advice) = match error.status {
        Status::OutOfBounds => (
            Code::Outside,
            "make the buffer larger, or what reaches it smaller",
        ),
        Status::Overlap => (Code::Overlap, "copy one of them first"),
        Status::InvalidHandle => (Code::ForeignObject, "copy it to the stream's device first"),
        _ if overflows => (Code::Overflow, "check the products of the extents"),
        _ => (Code::Mismatch, "compare it with what the kernel takes"),
    };
    Report::program(code, error.status, format!("{what}: {}; {advice}", error.message))
}

/// Whether the extents of a launch have a product that does not fit.
///
/// # Safety
/// The extents are null or valid.
#[cold]
pub(super) unsafe fn overflows(launch: &Launch) -> bool {
    // SAFETY: the caller vouches for them.
    let extents = unsafe { array(launch.extents, launch.extent_count) }.unwrap_or_default();
    let points = (extents.iter()).try_fold(1_u64, |all, &extent| all.checked_mul(extent));
    points.is_none_or(|points| points > i64::MAX as u64) && !extents.contains(&0)
}

/// The report of a pointer that cannot be used.
#[cold]
pub(super) fn pointer(what: &str, error: &Error) -> Report {
    let text = format!("{what}: {}; pass a valid pointer", error.message);
    Report::program(Code::Pointer, Status::InvalidArgument, text)
}

/// The report of a field that must be 0.
#[cold]
pub(super) fn reserved(what: &str, value: u32) -> Report {
    let text = format!("{what}: a reserved field is {value}; set it to 0");
    Report::program(Code::Reserved, Status::InvalidArgument, text)
}

/// Asks whether a reserved field is 0.
#[inline]
pub(super) fn is_zero(what: &str, value: u32) -> Check {
    match value {
        0 => Ok(()),
        value => Err(reserved(what, value)),
    }
}

/// Asks whether the arrays of a launch can be read.
///
/// # Safety
/// They are null or valid.
pub(super) unsafe fn arrays(what: &str, launch: &Launch) -> Check {
    // SAFETY: the caller vouches for them.
    unsafe {
        array(launch.extents, launch.extent_count)
            .map(|_| ())
            .and_then(|()| array(launch.bindings, launch.binding_count).map(|_| ()))
            .and_then(|()| array(launch.scalars, launch.scalar_count).map(|_| ()))
            .map_err(|error| pointer(what, &error))
    }
}

/// The report of a packet whose kind or pointer cannot be used.
#[cold]
pub(super) fn unreadable(what: &str, packet: &Packet, error: &Error) -> Report {
    let known = [PacketKind::Launch, PacketKind::Copy, PacketKind::Fill];
    match known.iter().any(|&kind| kind as u32 == packet.kind) {
        true => pointer(what, error),
        false => Report::program(
            Code::UnknownCode,
            Status::InvalidArgument,
            format!("{what}: {}; use 1, 2 or 3", error.message),
        ),
    }
}
