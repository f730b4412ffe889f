//! Captures: what crossed the border between a program and its backends, as one file.
//!
//! A file is frames ([`thalweg_hal::kit::frames`]) of one [`Record`] each, in the order in which the calls ended well. Calls that
//! failed are not in it, nor are questions. The first record is a [`Start`].
//!
//! Handles are those of the captured process. They are numbered for each backend and each kind of object on its own.
//! Integers are little-endian and of fixed width, texts and lists begin with a count of 8 bytes, and an enum with one byte.

mod access;
mod codec;
mod hash;
mod reader;
mod source;
#[cfg(test)]
mod tests;

pub use hash::hash;
pub(crate) use reader::seal;
pub use reader::{File, Refusal, write_file};
pub use source::Source;
pub(crate) use source::with_kernel;

/// The first bytes of a file. The last one is the version of the format.
pub const MAGIC: [u8; 8] = *b"THALCAP\x01";

/// Number of an object of the captured process.
pub type Handle = u64;

/// A call that succeeded.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Number of the backend in this file, from 0; 0 in records of no backend.
    pub backend: u32,
    /// The call.
    pub call: Call,
}

/// What a call did.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// Which process; the first record.
    Start(Start),
    /// A backend, before its first call.
    Backend(Backend),
    /// A device was opened.
    Open(Device),
    /// A device was closed.
    Close(Handle),
    /// Memory was taken.
    Alloc(Alloc),
    /// Host memory became a buffer.
    Import(Import),
    /// A buffer got a host address. What the host writes there is not captured.
    Map(Handle),
    /// A buffer was given back.
    Free(Handle),
    /// A stream was made.
    CreateStream(Stream),
    /// A stream ended.
    DestroyStream(Handle),
    /// An event was made.
    CreateEvent(Event),
    /// An event ended.
    DestroyEvent(Handle),
    /// An event was recorded.
    RecordEvent(Mark),
    /// A stream waits for an event.
    WaitEvent(Mark),
    /// The host waited for an event.
    AwaitEvent(Handle),
    /// The host waited for a stream.
    SynchronizeStream(Handle),
    /// The host waited for a device.
    SynchronizeDevice(Handle),
    /// A kernel was compiled.
    Compile(Kernel),
    /// A kernel was given back.
    Release(Handle),
    /// Packets were given to a stream.
    Submit(Submission),
    /// A program was made.
    CreateProgram(Program),
    /// A bound slot of a program got another buffer.
    Rebind(Rebind),
    /// A program ran.
    Run(Run),
    /// A program ended.
    DestroyProgram(Handle),
    /// What a copy to the host brought. It stands behind the copy, when that was done.
    Result(Answer),
}

/// Which process a capture is of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Start {
    /// Process.
    pub pid: u32,
    /// The program's file name.
    pub program: String,
    /// Version of the library.
    pub version: String,
    /// Seed of the stand-in values that fresh memory holds in replays; 0 where it holds what the device leaves there. A reduced
    /// file has one, because what its packets read may have been written by packets that are gone.
    pub fresh: u64,
}

/// A backend.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Backend {
    /// Its target name: `cpu`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Driver behind it.
    pub driver: String,
}

/// A device that was opened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Device {
    /// Its handle.
    pub device: Handle,
    /// Its number among those of the backend.
    pub ordinal: u32,
    /// Its name for people.
    pub name: String,
    /// Limit on its memory in bytes; 0 for none.
    pub memory_limit: u64,
    /// Bytes of a block of its pool; 0 for the backend's choice.
    pub block_size: u64,
}

/// Memory that was taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alloc {
    /// The buffer.
    pub buffer: Handle,
    /// On which device.
    pub device: Handle,
    /// How many bytes.
    pub bytes: u64,
    /// The stream that uses it first; 0 for none.
    pub stream: Handle,
}

/// Host memory that became a buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Import {
    /// The buffer.
    pub buffer: Handle,
    /// On which device.
    pub device: Handle,
    /// How many bytes.
    pub bytes: u64,
    /// What they held.
    pub contents: Contents,
}

/// Bytes that came from the host.
#[derive(Clone, Debug, PartialEq)]
pub enum Contents {
    /// The bytes, rows without gaps.
    Data(Vec<u8>),
    /// Their hash ([`hash`]) alone. A replay has zeros in their place.
    Hash(u64),
    /// Their hash, and the seed of the stand-in values that a replay has in their place.
    Seed {
        /// As above.
        hash: u64,
        /// Never 0.
        seed: u64,
    },
}

/// A stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stream {
    /// Its handle.
    pub stream: Handle,
    /// Its device.
    pub device: Handle,
    /// Its priority.
    pub priority: i32,
}

/// An event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    /// Its handle.
    pub event: Handle,
    /// Its device.
    pub device: Handle,
    /// 1 where it takes times.
    pub timing: u32,
}

/// An event and a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mark {
    /// The event.
    pub event: Handle,
    /// The stream.
    pub stream: Handle,
}

/// A kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// Its handle.
    pub kernel: Handle,
    /// Its device.
    pub device: Handle,
    /// What it was compiled from.
    pub source: Source,
    /// Options of the compiler.
    pub options: String,
}

/// Packets that were given to a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Submission {
    /// The stream.
    pub stream: Handle,
    /// In this order.
    pub packets: Vec<Packet>,
}

/// Where work comes from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tag {
    /// The op that the user wrote.
    pub op: String,
    /// Source file of the user's call.
    pub file: String,
    /// Line of the user's call; 0 if unknown.
    pub line: u32,
    /// Node of the graph; 0 if none.
    pub node: u32,
}

/// One piece of work.
#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    /// Where it comes from.
    pub tag: Tag,
    /// What it does.
    pub work: Work,
}

/// What a packet does. In a program buffers are slots, whose numbers count from 1.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Runs a kernel.
    Launch(Launch),
    /// Copies rows of bytes.
    Copy(Copy),
    /// Fills memory.
    Fill(Fill),
}

/// A launch of a kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Launch {
    /// The kernel.
    pub kernel: Handle,
    /// Outer extents, then inner ones.
    pub extents: Vec<u64>,
    /// One for each parameter.
    pub bindings: Vec<Binding>,
    /// Bits of the scalars.
    pub scalars: Vec<u64>,
}

/// One buffer argument of a launch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Binding {
    /// The buffer or slot.
    pub buffer: Handle,
    /// Byte of the element at index 0.
    pub offset: u64,
    /// Elements per axis; `None` where none were given.
    pub strides: Option<Vec<i64>>,
    /// Elements from one gather index to the next.
    pub gather_stride: i64,
    /// Number of gather indices.
    pub gather_extent: u64,
}

/// A copy.
#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
    /// Where to.
    pub dst: End,
    /// Where from.
    pub src: End,
    /// Bytes of a row.
    pub width: u64,
    /// How many rows.
    pub rows: u64,
}

/// One end of a copy.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// Memory of a device.
    Buffer(Part),
    /// Bytes that come from the host.
    From(Contents),
    /// Bytes that go to the host, as the answer of this number.
    To(u64),
}

/// A part of a buffer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    /// The buffer or slot.
    pub buffer: Handle,
    /// First byte.
    pub offset: u64,
    /// Bytes from one row to the next.
    pub pitch: u64,
}

/// A fill.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fill {
    /// The buffer or slot.
    pub buffer: Handle,
    /// First byte.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// The pattern.
    pub pattern: u64,
    /// How many bytes of it are repeated.
    pub pattern_bytes: u32,
}

/// A program, as [`ProgramArgs`](thalweg_hal::tables::ProgramArgs) says it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// Its handle.
    pub program: Handle,
    /// Its device.
    pub device: Handle,
    /// Its packets.
    pub packets: Vec<Packet>,
    /// Pairs of a packet and an earlier one that it waits for.
    pub dependencies: Vec<(u32, u32)>,
    /// Number of inputs.
    pub inputs: u64,
    /// Bytes of each output.
    pub outputs: Vec<u64>,
    /// Bytes of each scratch buffer.
    pub scratch: Vec<u64>,
    /// What bound slots hold at first.
    pub bound: Vec<Place>,
    /// Scalars that each run is given.
    pub given: Vec<Given>,
    /// Number of arguments of a run.
    pub arguments: u64,
    /// Numbers of the inputs that are constants.
    pub constants: Vec<u32>,
}

/// A scalar that each run of a program is given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Given {
    /// Index of the packet.
    pub packet: u32,
    /// Which of its scalars.
    pub scalar: u32,
    /// Index of the argument.
    pub argument: u32,
}

/// A place in a buffer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Place {
    /// The buffer.
    pub buffer: Handle,
    /// Byte that offsets count from.
    pub offset: u64,
}

/// A bound slot that got another buffer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rebind {
    /// The program.
    pub program: Handle,
    /// The slot's number, from 0.
    pub slot: u64,
    /// What it holds from now on.
    pub place: Place,
}

/// A run of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// The program.
    pub program: Handle,
    /// The stream.
    pub stream: Handle,
    /// What it was given.
    pub inputs: Vec<Place>,
    /// Bits of the arguments.
    pub arguments: Vec<u64>,
    /// The buffers that it made.
    pub outputs: Vec<Handle>,
    /// Where the whole run comes from; `None` where the packets say that.
    pub tag: Option<Tag>,
}

/// What a copy to the host brought.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Number of the copy.
    pub number: u64,
    /// Hash of the bytes, rows without gaps.
    pub hash: u64,
}
