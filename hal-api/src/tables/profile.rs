//! Profiles: when the work of a device ran, and its memory.
//!
//! The table is optional. The host starts a profile, submits work, and takes the records when it likes: a backend never calls the
//! host. Records are kept in the backend, in bounded memory. When that is full, new records are dropped and counted.

use super::Context;

/// What a [`ProfileRecord`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[non_exhaustive]
pub enum ProfileKind {
    /// A launch of a kernel.
    Launch = 1,
    /// A copy.
    Copy = 2,
    /// A fill.
    Fill = 3,
    /// A stream waited for an event.
    Wait = 4,
    /// A callback of the host.
    Callback = 5,
    /// The pool handed a buffer out.
    Alloc = 6,
    /// A buffer was given back to the pool.
    Free = 7,
    /// The pool took memory from the device.
    Reserve = 8,
    /// The pool gave memory back to the device.
    Release = 9,
}

impl ProfileKind {
    /// Every kind of this version with its name.
    pub const ALL: [(ProfileKind, &'static str); 9] = [
        (ProfileKind::Launch, "launch"),
        (ProfileKind::Copy, "copy"),
        (ProfileKind::Fill, "fill"),
        (ProfileKind::Wait, "wait"),
        (ProfileKind::Callback, "callback"),
        (ProfileKind::Alloc, "alloc"),
        (ProfileKind::Free, "free"),
        (ProfileKind::Reserve, "reserve"),
        (ProfileKind::Release, "release"),
    ];

    /// The bit of the kind in [`ProfileStartArgs::kinds`].
    pub const fn bit(self) -> u64 {
        1 << self as u32
    }

    /// The kind of a code.
    pub const fn from_code(code: u32) -> Option<ProfileKind> {
        if code == 0 || code as usize > ProfileKind::ALL.len() {
            return None;
        }
        Some(ProfileKind::ALL[code as usize - 1].0)
    }

    /// `launch`, `copy`, ….
    pub const fn name(self) -> &'static str {
        ProfileKind::ALL[self as usize - 1].1
    }
}

/// Bits of [`ProfileRecord::flags`]: how the times were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[non_exhaustive]
pub enum ProfileFlag {
    /// Start and end are those of the command itself.
    Exact = 1 << 0,
    /// Start and end were taken before and after the command, and include what its queue did in between.
    Bracketed = 1 << 1,
}

impl ProfileFlag {
    /// The bit.
    pub const fn bit(self) -> u32 {
        self as u32
    }
}

/// Arguments of [`ProfileTable::start`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ProfileStartArgs {
    /// Device handle.
    pub device: u64,
    /// What is recorded: for each [`ProfileKind`] the bit `1 << code`; at least one.
    pub kinds: u64,
    /// Most records that are kept until they are drained; at least 1.
    pub capacity: u64,
}

/// One command of a device, or one change of its memory. Times are nanoseconds of the system's `CLOCK_MONOTONIC`, and
/// `queued_ns <= start_ns <= end_ns`. For memory all three are one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ProfileRecord {
    /// What the submitting thread gave to [`ProfileTable::correlate`] last; 0 if nothing.
    pub correlation: u64,
    /// Stream handle; 0 for memory that no stream asked for.
    pub stream: u64,
    /// Handle of the kernel that ran, or of the buffer that was handed out or given back; 0 if none or not known. It may be stale.
    pub object: u64,
    /// Bytes that were copied, filled, handed out, given back, taken or released; 0 for other kinds. Of a buffer they are the bytes
    /// that the pool counts, not those that were asked for; of a packet of several commands the first one has them all.
    pub bytes: u64,
    /// When the work was submitted.
    pub queued_ns: u64,
    /// When it began.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Index of the packet in its program or its call of [`StreamTable::submit`](super::StreamTable::submit); `u32::MAX` for work
    /// that was submitted alone.
    pub packet: u32,
    /// Which command of the packet, from 0: a packet may take several.
    pub command: u32,
    /// The row on which it ran: what overlaps has different rows. On a CPU the number of a thread, elsewhere 0.
    pub row: u32,
    /// A [`ProfileKind`] code.
    pub kind: u32,
    /// [`ProfileFlag`] bits.
    pub flags: u32,
    /// 0.
    pub reserved: u32,
}

/// Arguments of [`ProfileTable::drain`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ProfileDrainArgs {
    /// Device handle.
    pub device: u64,
    /// Where the records go.
    pub out: *mut ProfileRecord,
    /// Most records that fit there.
    pub capacity: usize,
    /// How many were written: fewer than `capacity` when no more were there.
    pub written: *mut usize,
    /// How many were dropped since the last call because the memory of the profile was full.
    pub lost: *mut u64,
}

/// A hardware counter. Texts are UTF-8, padded with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ProfileCounter {
    /// What is counted: `instructions`, `cache misses`, ….
    pub name: [u8; 48],
    /// What one is: `bytes`, `cycles`; empty for a plain number.
    pub unit: [u8; 16],
    /// How many since the profile was started, or since the first question in it.
    pub value: u64,
}

/// Arguments of [`ProfileTable::counters`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ProfileCountersArgs {
    /// Device handle.
    pub device: u64,
    /// Where the counters go.
    pub out: *mut ProfileCounter,
    /// Most counters that fit there.
    pub capacity: usize,
    /// How many counters there are, which may be more than `capacity`.
    pub count: *mut usize,
}

/// Profiles. A device has one at a time.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ProfileTable {
    /// Records what is submitted from now on. Records that an earlier profile has left are dropped, and work that was submitted
    /// before is not recorded. `Unsupported` and why on a device whose work is not measured; `InvalidArgument` while a profile
    /// runs.
    pub start: unsafe extern "C" fn(context: Context, args: *const ProfileStartArgs) -> i32,
    /// Ends the profile. Work that was submitted before is recorded when it ends, and can be drained until the next start. Does
    /// nothing when no profile runs.
    pub stop: unsafe extern "C" fn(context: Context, device: u64) -> i32,
    /// What this thread submits from now on carries `id`, on every device of the backend.
    pub correlate: unsafe extern "C" fn(context: Context, id: u64) -> i32,
    /// Takes records out, in no particular order. Work that still runs has none yet.
    pub drain: unsafe extern "C" fn(context: Context, args: *const ProfileDrainArgs) -> i32,
    /// The hardware's counters, which may begin with the first question in a profile; `Unsupported` and why where there are none.
    pub counters: unsafe extern "C" fn(context: Context, args: *const ProfileCountersArgs) -> i32,
}
