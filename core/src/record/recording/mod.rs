//! Recordings: what ran and when, as one file that every view derives from.
//!
//! A file is eight bytes of magic and then frames: the length of the payload (4 bytes), the CRC-32 of it (4 bytes, as in zip files),
//! the payload. Numbers are little-endian. A payload is a row of [`Record`]s, each whole. Texts, places, threads, devices, streams
//! and programs come before what refers to them. Ops, runs and spans come when they ended. A file that was cut is good up to its last
//! whole frame: [`Reader`] stops there and says so.
//!
//! Inside a payload integers are LEB128, signed ones in zigzag form, and times are differences to the time before them in the same
//! frame. A command of a program takes about nine bytes.
//!
//! Times are nanoseconds of the monotonic clock of the process ([`thalweg_hal::clock`]). [`Start`] says which wall-clock time belongs
//! to one of them.

mod codec;
mod decode;
mod encode;
#[cfg(test)]
mod tests;

pub use super::frames::Cut;
pub use decode::Reader;
pub use encode::{Frame, Writer};

/// Number of an interned text; 0 is the empty text.
pub type TextId = u32;
/// Number of a [`Place`]; 0 is none.
pub type PlaceId = u32;

/// The first bytes of a file. The last one is the version of the format.
pub const MAGIC: [u8; 8] = *b"THALWEG\x01";

/// [`Command::node`] of a command that stands for all of its run, on a device that does not measure each.
pub const WHOLE: u32 = u32::MAX;

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// Which process; the first record.
    Start(Start),
    /// A text and its number.
    Text {
        /// Its number.
        id: TextId,
        /// The text.
        text: String,
    },
    /// A thread of the process.
    Thread {
        /// Its number in this file.
        id: u32,
        /// Its name.
        name: TextId,
    },
    /// A device.
    Device(Device),
    /// A stream of a device.
    Stream {
        /// Its number in this file.
        id: u32,
        /// Its device.
        device: u32,
        /// Its name; empty for the default stream.
        name: TextId,
    },
    /// Where work comes from.
    Place(Place),
    /// A program that a device keeps.
    Program(Program),
    /// A call of an op on the host.
    Op(Op),
    /// Work that was given to a device in one call.
    Run(Run),
    /// A piece of work on a device.
    Command(Command),
    /// Memory that was taken or given back.
    Memory(Memory),
    /// A stretch of time on a thread.
    Span(Span),
    /// A point in time.
    Mark {
        /// On which thread.
        thread: u32,
        /// When.
        time: u64,
        /// What.
        name: TextId,
    },
    /// A figure that changes in time.
    Counter {
        /// When.
        time: u64,
        /// Of what.
        name: TextId,
        /// Its value from now on.
        value: f64,
    },
    /// An error.
    Failure {
        /// On which thread.
        thread: u32,
        /// When.
        time: u64,
        /// What a user reads.
        text: TextId,
    },
    /// Events that a full buffer did not take.
    Lost {
        /// Whose: a thread's or a device's name.
        source: TextId,
        /// How many since the last record of the same source.
        count: u64,
    },
    /// The recording ended as it should; the last record.
    End {
        /// When.
        time: u64,
    },
}

/// Which process a recording is of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Start {
    /// Monotonic time of the start.
    pub time: u64,
    /// The same moment in nanoseconds since 1970.
    pub unix: u64,
    /// Process.
    pub pid: u32,
    /// Rank among the processes of a distributed run.
    pub rank: u32,
    /// The program's file name.
    pub program: String,
    /// Version of the library.
    pub version: String,
    /// Settings of the recording as `key=value` lines.
    pub settings: String,
}

/// A device of a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Device {
    /// Its number in this file.
    pub id: u32,
    /// `cpu:0`.
    pub target: TextId,
    /// Its name for people.
    pub name: TextId,
    /// Why its commands have no times of their own; empty where they have.
    pub unmeasured: TextId,
}

/// Where work comes from: an op, where the user called it, in which part of the network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Place {
    /// Its number in this file, from 1.
    pub id: PlaceId,
    /// The op that the user called.
    pub op: TextId,
    /// `Default/conv1`, `Gradients/Default/conv1`; empty outside of any.
    pub scope: TextId,
    /// The user's file.
    pub file: TextId,
    /// The user's line, from 1; 0 if unknown.
    pub line: u32,
}

/// What a command of a program does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CommandKind {
    /// A kernel.
    #[default]
    Launch,
    /// A copy.
    Copy,
    /// A fill.
    Fill,
    /// A wait for another stream.
    Wait,
    /// A function of the host.
    Callback,
}

/// A program that a device keeps: an op, a recorded or a traced function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// Its number in this file, from 1.
    pub id: u32,
    /// Its device.
    pub device: u32,
    /// The traced function's name, or the op's.
    pub name: TextId,
    /// Its nodes in order.
    pub nodes: Vec<Node>,
}

/// A node of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// What it does.
    pub kind: CommandKind,
    /// Name of the kernel: `matmul`, `map exp+mul`; empty for copies and fills.
    pub kernel: TextId,
    /// Shapes and dtypes, for people.
    pub shape: TextId,
    /// Estimated arithmetic operations of a run.
    pub flops: u64,
    /// Estimated bytes that a run reads and writes.
    pub bytes: u64,
    /// The ops that are fused in it, with their calls; where there are several, the node's time is split by cost.
    pub parts: Vec<Part>,
}

/// An op in a node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Part {
    /// Where it comes from.
    pub place: PlaceId,
    /// Number of the user's call in its trace or step.
    pub call: u32,
    /// Its share of the node's estimated cost, in any unit.
    pub cost: u32,
}

/// A call of an op on the host.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Op {
    /// On which thread.
    pub thread: u32,
    /// When it began.
    pub start: u64,
    /// When it returned.
    pub end: u64,
    /// Which op.
    pub place: PlaceId,
    /// Number of the call in its step.
    pub call: u32,
    /// Shapes and dtypes of its operands, for people.
    pub operands: TextId,
}

/// Work that was given to a device in one call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Run {
    /// What its commands and its memory carry; never 0.
    pub correlation: u64,
    /// On which thread.
    pub thread: u32,
    /// The stream.
    pub stream: u32,
    /// When the call began.
    pub start: u64,
    /// When it returned.
    pub end: u64,
    /// The program; 0 for a single copy, fill or allocation.
    pub program: u32,
    /// Which op; 0 where the nodes' own parts say that.
    pub place: PlaceId,
    /// Number of the call in its step.
    pub call: u32,
}

/// A piece of work on a device. It may come before the run that it belongs to, which is written when its call has returned.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Command {
    /// The [`Run`] that it belongs to; 0 if that is not known.
    pub correlation: u64,
    /// Node of the program; 0 for a run without one, [`WHOLE`] for all nodes at once.
    pub node: u32,
    /// The nth command of the node, where a backend needs several.
    pub nth: u32,
    /// What it did.
    pub kind: CommandKind,
    /// The stream.
    pub stream: u32,
    /// Row on which it ran, where a stream's work runs side by side: the thread of a CPU.
    pub row: u32,
    /// When it was queued; 0 if that is not known.
    pub queued: u64,
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// Bytes of a copy or fill.
    pub bytes: u64,
    /// Whether its times are its own. Others are those of events before and behind it.
    pub exact: bool,
}

/// What happened to memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemoryKind {
    /// A buffer was taken from the pool.
    #[default]
    Alloc,
    /// A buffer went back to the pool.
    Free,
    /// The pool took memory from the device.
    Reserve,
    /// The pool gave memory back to the device.
    Release,
}

/// Memory that was taken or given back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// When.
    pub time: u64,
    /// On which device.
    pub device: u32,
    /// What happened.
    pub kind: MemoryKind,
    /// The buffer or the chunk.
    pub buffer: u64,
    /// How many bytes.
    pub bytes: u64,
    /// The [`Run`] that asked for it; 0 if that is not known.
    pub correlation: u64,
}

/// What a stretch of time is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SpanKind {
    /// The user's.
    #[default]
    Range,
    /// A part of a network runs on the host.
    Scope,
    /// A pass over the data; its number counts from 1.
    Epoch,
    /// A step of training; its number counts from 1.
    Step,
    /// The training waits for data.
    Data,
    /// The network and its loss are computed.
    Forward,
    /// The gradients are computed.
    Backward,
    /// The parameters are changed.
    Update,
    /// The network is evaluated.
    Evaluation,
    /// A callback of the user runs.
    Callback,
    /// A checkpoint is written.
    Checkpoint,
    /// A function is traced.
    Trace,
    /// A graph is rewritten.
    Rewrite,
    /// A graph becomes kernels.
    Lower,
    /// Kernels are compiled.
    Compile,
    /// The host waits for a device.
    Wait,
}

/// A stretch of time on a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Span {
    /// On which thread.
    pub thread: u32,
    /// What it is.
    pub kind: SpanKind,
    /// Its name; may be empty.
    pub name: TextId,
    /// Its number; 0 for none.
    pub number: u64,
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
}
