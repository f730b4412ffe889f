//! Programs: packets whose memory is named by slots, checked once and run in one call that makes their memory too.

use super::{Context, Packet, Tag};

/// A scalar of a packet that each run is given.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ProgramScalar {
    /// Index of the packet, a launch.
    pub packet: u32,
    /// Which of its scalars.
    pub scalar: u32,
    /// Index of the argument of a run whose bits it has.
    pub argument: u32,
    /// 0.
    pub reserved: u32,
}

/// A packet that waits for an earlier one, beyond what their bytes ask for.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ProgramDependency {
    /// Index of the packet that waits.
    pub packet: u32,
    /// Index of an earlier packet.
    pub earlier: u32,
}

/// What an input or a bound slot holds.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ProgramInput {
    /// Buffer handle.
    pub buffer: u64,
    /// Byte that the packets' offsets count from.
    pub offset: u64,
}

/// Arguments of [`ProgramTable::create`].
///
/// Slots are numbered from 0: first the inputs, then the outputs, then the scratch buffers, then the bound slots. Where a packet
/// names a buffer, it says the slot's number plus 1. Offsets count from the place in the buffer that an input or a bound slot
/// holds, and from the start of outputs and scratch buffers.
///
/// Packets are launches, fills, and copies from slot to slot: the address and the life of host memory are no program's business,
/// so copies of host memory and between devices are submitted to the stream before and after. No packet writes an input. A bound
/// slot that a packet writes shares no byte that the packets reach with another slot: [`Status::Overlap`](crate::Status::Overlap)
/// otherwise, here, from [`ProgramTable::rebind`] and from a run.
///
/// Packets may run at once, as far as their bytes allow: each waits for the earlier ones that wrote what it touches, and for
/// those that read what it writes. Dependencies that are given come on top of these. They never take one away.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ProgramArgs {
    /// Device handle.
    pub device: u64,
    /// The work, in an order that keeps every dependency.
    pub packets: *const Packet,
    /// Number of packets.
    pub packet_count: usize,
    /// More dependencies.
    pub dependencies: *const ProgramDependency,
    /// Number of these.
    pub dependency_count: usize,
    /// Number of inputs.
    pub input_count: usize,
    /// Bytes of each output.
    pub outputs: *const u64,
    /// Number of outputs.
    pub output_count: usize,
    /// Bytes of each scratch buffer.
    pub scratch: *const u64,
    /// Number of scratch buffers.
    pub scratch_count: usize,
    /// What the bound slots hold, until [`ProgramTable::rebind`]. A run while a buffer of these is freed is
    /// [`Status::InvalidHandle`](crate::Status::InvalidHandle).
    pub bound: *const ProgramInput,
    /// Number of bound slots.
    pub bound_count: usize,
    /// Scalars that each run is given; the packets' own bits of these are not read.
    pub scalars: *const ProgramScalar,
    /// Number of such scalars.
    pub scalar_count: usize,
    /// Number of arguments of a run.
    pub argument_count: usize,
    /// Numbers of the inputs that are constants: every run is given the same places, whose bytes do not change from the first run
    /// on until the program is destroyed. So a backend may keep another form of them, such as packed weights.
    pub constants: *const u32,
    /// Number of such inputs.
    pub constant_count: usize,
}

/// Arguments of [`ProgramTable::rebind`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ProgramRebindArgs {
    /// Program handle.
    pub program: u64,
    /// Number of a bound slot.
    pub slot: u64,
    /// What it holds from now on.
    pub input: ProgramInput,
}

/// Arguments of [`ProgramTable::run`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ProgramRunArgs {
    /// Program handle.
    pub program: u64,
    /// Stream handle.
    pub stream: u64,
    /// The inputs.
    pub inputs: *const ProgramInput,
    /// Number of inputs.
    pub input_count: usize,
    /// Bits of the arguments, zero-extended.
    pub arguments: *const u64,
    /// Number of arguments.
    pub argument_count: usize,
    /// Where the handles of the outputs go.
    pub outputs: *mut u64,
    /// Number of outputs.
    pub output_count: usize,
    /// Where the whole run comes from; null where the packets' own tags say that.
    pub tag: *const Tag,
    /// May be null. Written when the status is `OutOfMemory`: the bytes of the buffer that could not be made.
    pub missing: *mut u64,
}

/// Programs. Kernels may be released before their program.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ProgramTable {
    /// Checks the packets and keeps them.
    pub create: unsafe extern "C" fn(context: Context, args: *const ProgramArgs, out: *mut u64) -> i32,
    /// Gives a bound slot another buffer for later runs. Those that have begun keep the old one, which a run uses until its call
    /// returns. When it fails, nothing changes.
    pub rebind: unsafe extern "C" fn(context: Context, args: *const ProgramRebindArgs) -> i32,
    /// Makes outputs and scratch buffers, submits the packets, gives the scratch buffers back and writes the outputs' handles,
    /// which are then the caller's as those of [`MemoryTable::alloc`](super::MemoryTable::alloc) are. When it fails, no output is
    /// left.
    pub run: unsafe extern "C" fn(context: Context, args: *const ProgramRunArgs) -> i32,
    /// Frees a program; runs that were submitted go on.
    pub destroy: unsafe extern "C" fn(context: Context, program: u64) -> i32,
}
