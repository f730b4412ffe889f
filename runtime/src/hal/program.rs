//! Programs: work whose memory is named by slots, checked once and run in one call.

use super::device::Device;
use super::error::{Error, Result};
use super::kernel::Kernel;
use super::memory::{Buffer, alloc_error};
use super::stream::Stream;
use super::tag::Tag;
use std::fmt;
use std::marker::PhantomData;
use thalweg_hal::Status;
use thalweg_hal::tables::{
    self, PacketKind, ProgramArgs, ProgramDependency, ProgramInput, ProgramRebindArgs, ProgramRunArgs,
    ProgramScalar, ProgramTable,
};

/// One buffer argument of a launch in a program.
#[derive(Debug)]
pub struct Operand<'a> {
    /// Number of the slot: inputs come first, then outputs, then scratch buffers, then bound slots.
    pub slot: u32,
    /// Byte of the slot where the element at index 0 lies.
    pub offset: u64,
    /// Elements per axis of the parameter's level, for a strided parameter.
    pub strides: Option<&'a [i64]>,
    /// Elements from one gather index to the next, and how many there are.
    pub gather: (i64, u64),
}

/// A scalar of a launch in a program.
#[derive(Clone, Copy, Debug)]
pub enum Scalar {
    /// Always these bits.
    Bits(u64),
    /// Argument `i` of the run.
    Argument(u32),
}

/// How many slots and arguments a program has; sizes in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slots<'a> {
    /// Buffers that each run is given.
    pub inputs: usize,
    /// Sizes of the buffers that each run makes and hands over.
    pub outputs: &'a [u64],
    /// Sizes of the buffers that live for a run alone.
    pub scratch: &'a [u64],
    /// Scalars that each run is given.
    pub arguments: usize,
    /// Numbers of the inputs that are the same memory with the same bytes in every run.
    pub constants: &'a [u32],
    /// What the bound slots hold, until [`Program::rebind`]. They come behind the scratch buffers, and packets may write them.
    pub bound: &'a [&'a Buffer],
}

/// Work over slots. A run makes the buffers of outputs and scratch and submits everything in one call of the backend.
///
/// ```
/// use thalweg_runtime::hal::{self, ProgramBuilder, ProgramSlots, Tag};
/// let device = hal::device("cpu")?;
/// let stream = device.default_stream()?;
/// let mut packets = ProgramBuilder::new(&device);
/// packets.fill(0, (0, 16), (1.0_f32.to_bits().into(), 4), Tag::new("ones"));
/// let program = packets.finish(&ProgramSlots { outputs: &[16], ..ProgramSlots::default() })?;
/// let mut made = Vec::new();
/// // SAFETY: `device` lives longer than the buffers.
/// unsafe { program.run(&stream, &[], &[], (&Tag::new("ones"), false), |buffer| made.push(buffer))? };
/// assert_eq!(made[0].download::<f32>(&stream)?, [1.0; 4]);
/// # Ok::<(), thalweg_runtime::Error>(())
/// ```
pub struct Program {
    handle: u64,
    outputs: Box<[u64]>,
    device: Device,
    table: &'static ProgramTable,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({:#x} on {})", self.handle, self.device.target())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: plain call of a table; the handle is this value's own.
        let code = unsafe { (self.table.destroy)(self.device.context(), self.handle) };
        if code != 0 {
            tracing::error!("{}", self.device.error(code, &Tag::new("destroy program")));
        }
    }
}

/// What a program is made of, in the ABI form.
#[derive(Default)]
pub(super) struct Lists<'a> {
    pub(super) packets: &'a [tables::Packet],
    pub(super) dependencies: &'a [ProgramDependency],
    pub(super) bound: &'a [ProgramInput],
    pub(super) given: &'a [ProgramScalar],
}

/// A program while its packets are listed.
pub struct Builder<'a> {
    device: &'a Device,
    kinds: Vec<PacketKind>,
    bindings: Vec<tables::Binding>,
    scalars: Vec<u64>,
    tags: Vec<tables::Tag>,
    launches: Vec<tables::Launch>,
    fills: Vec<tables::Fill>,
    given: Vec<ProgramScalar>,
    // What the pointers lead to.
    _borrowed: PhantomData<&'a [u64]>,
}

impl fmt::Debug for Builder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Builder({} packets on {})",
            self.kinds.len(),
            self.device.target()
        )
    }
}

impl<'a> Builder<'a> {
    /// A program without packets.
    pub fn new(device: &'a Device) -> Builder<'a> {
        Builder {
            device,
            kinds: Vec::new(),
            bindings: Vec::new(),
            scalars: Vec::new(),
            tags: Vec::new(),
            launches: Vec::new(),
            fills: Vec::new(),
            given: Vec::new(),
            _borrowed: PhantomData,
        }
    }

    /// Adds a launch.
    ///
    /// # Errors
    /// Strides of another number than the parameter's level has axes.
    pub fn launch(
        &mut self,
        kernel: &'a Kernel,
        extents: &'a [u64],
        operands: impl Iterator<Item = Operand<'a>>,
        scalars: impl Iterator<Item = Scalar>,
        tag: Tag<'a>,
    ) -> Result<()> {
        let (first_binding, first_scalar) = (self.bindings.len(), self.scalars.len());
        for (index, operand) in operands.enumerate() {
            let strides = match (operand.strides, kernel.axes().get(index)) {
                (None, _) => std::ptr::null(),
                (Some(strides), Some(&axes)) if strides.len() == usize::from(axes) => strides.as_ptr(),
                (Some(strides), axes) => {
                    let (given, axes) = (strides.len(), axes.copied().unwrap_or(0));
                    let text = format!("parameter {index} has {given} strides, its level has {axes} axes");
                    return Err(self.device.refuse(Status::InvalidArgument, text, &tag));
                }
            };
            self.bindings.push(tables::Binding {
                buffer: u64::from(operand.slot) + 1,
                offset: operand.offset,
                strides,
                gather_stride: operand.gather.0,
                gather_extent: operand.gather.1,
            });
        }
        for (index, scalar) in (0..).zip(scalars) {
            self.scalars.push(match scalar {
                Scalar::Bits(bits) => bits,
                Scalar::Argument(argument) => {
                    self.given.push(ProgramScalar {
                        packet: self.kinds.len() as u32,
                        scalar: index,
                        argument,
                        reserved: 0,
                    });
                    0
                }
            });
        }
        // The arrays are pointed to when all are complete.
        self.launches.push(tables::Launch {
            kernel: kernel.handle(),
            extents: extents.as_ptr(),
            extent_count: extents.len(),
            bindings: std::ptr::null(),
            binding_count: self.bindings.len() - first_binding,
            scalars: std::ptr::null(),
            scalar_count: self.scalars.len() - first_scalar,
        });
        self.add(PacketKind::Launch, tag);
        Ok(())
    }

    /// Adds a fill of `bytes` bytes of a slot, from `offset` on, with a pattern of so many bytes.
    pub fn fill(
        &mut self,
        slot: u32,
        (offset, bytes): (u64, u64),
        (pattern, pattern_bytes): (u64, u32),
        tag: Tag<'a>,
    ) {
        self.fills.push(tables::Fill {
            buffer: u64::from(slot) + 1,
            offset,
            bytes,
            pattern,
            pattern_bytes,
            reserved: 0,
        });
        self.add(PacketKind::Fill, tag);
    }

    fn add(&mut self, kind: PacketKind, tag: Tag<'a>) {
        self.kinds.push(kind);
        self.tags.push(tag.raw());
    }

    /// The program of these packets.
    ///
    /// # Errors
    /// As [`Stream::submit`], with the index of the packet; [`Status::Unsupported`] on a backend without programs.
    pub fn finish(mut self, slots: &Slots<'_>) -> Result<Program> {
        let (mut bindings, mut scalars) = (self.bindings.as_ptr(), self.scalars.as_ptr());
        for launch in &mut self.launches {
            (launch.bindings, launch.scalars) = (bindings, scalars);
            bindings = bindings.wrapping_add(launch.binding_count);
            scalars = scalars.wrapping_add(launch.scalar_count);
        }
        let (mut launches, mut fills) = (self.launches.iter(), self.fills.iter());
        let packets: Vec<tables::Packet> = (self.kinds.iter().zip(&self.tags))
            .map(|(&kind, tag)| {
                let (mut launch, mut fill) = (None, None);
                match kind {
                    PacketKind::Launch => launch = launches.next(),
                    PacketKind::Fill => fill = fills.next(),
                    PacketKind::Copy => {}
                }
                tables::Packet {
                    kind: kind as u32,
                    reserved: 0,
                    tag,
                    launch: launch.map_or(std::ptr::null(), std::ptr::from_ref),
                    copy: std::ptr::null(),
                    fill: fill.map_or(std::ptr::null(), std::ptr::from_ref),
                }
            })
            .collect();
        let bound: Vec<ProgramInput> = (slots.bound.iter())
            .map(|buffer| ProgramInput {
                buffer: buffer.handle(),
                offset: 0,
            })
            .collect();
        let lists = Lists {
            packets: &packets,
            bound: &bound,
            given: &self.given,
            ..Lists::default()
        };
        // SAFETY: all that the packets point to lives as long as the builder.
        unsafe { Program::create(self.device, slots, &lists, &Tag::new("create program")) }
    }
}

impl Program {
    /// Checks packets and keeps them.
    ///
    /// # Errors
    /// Those of [`Builder::finish`].
    ///
    /// # Safety
    /// What the packets point to lives through the call.
    #[track_caller]
    pub(super) unsafe fn create(
        device: &Device,
        slots: &Slots<'_>,
        lists: &Lists<'_>,
        tag: &Tag<'_>,
    ) -> Result<Program> {
        let Some(table) = device.tables().program else {
            let text = "this backend has no programs, which run every list of work; the kit of thalweg-hal gives them to \
                        a backend in Rust, one in C fills the table `program`";
            return Err(device.refuse(Status::Unsupported, text, tag));
        };
        let args = ProgramArgs {
            device: device.handle(),
            packets: lists.packets.as_ptr(),
            packet_count: lists.packets.len(),
            dependencies: lists.dependencies.as_ptr(),
            dependency_count: lists.dependencies.len(),
            input_count: slots.inputs,
            outputs: slots.outputs.as_ptr(),
            output_count: slots.outputs.len(),
            scratch: slots.scratch.as_ptr(),
            scratch_count: slots.scratch.len(),
            bound: lists.bound.as_ptr(),
            bound_count: lists.bound.len(),
            scalars: lists.given.as_ptr(),
            scalar_count: lists.given.len(),
            argument_count: slots.arguments,
            constants: slots.constants.as_ptr(),
            constant_count: slots.constants.len(),
        };
        let mut handle = 0;
        // SAFETY: the caller vouches for what the packets point to; `handle` is writable.
        let code = unsafe { (table.create)(device.context(), &raw const args, &raw mut handle) };
        device.check(code, tag)?;
        Ok(Program {
            handle,
            outputs: slots.outputs.into(),
            device: device.clone(),
            table,
        })
    }

    /// Its handle in the tables.
    pub(super) fn handle(&self) -> u64 {
        self.handle
    }

    /// Has a bound slot hold `buffer` from byte `offset` on in later runs. When it fails, nothing changes.
    ///
    /// # Errors
    /// [`Status::InvalidArgument`] for a slot that is not bound; [`Status::OutOfBounds`] for a buffer that is too small;
    /// [`Status::Overlap`] where another bound slot holds bytes of it and one of both is written; [`Status::InvalidHandle`] where
    /// it lies on another device.
    pub fn rebind(&self, slot: usize, buffer: &Buffer, offset: u64, tag: &Tag<'_>) -> Result<()> {
        let args = ProgramRebindArgs {
            program: self.handle,
            slot: slot as u64,
            input: ProgramInput {
                buffer: buffer.handle(),
                offset,
            },
        };
        // SAFETY: the arguments live through the call.
        let code = unsafe { (self.table.rebind)(self.device.context(), &raw const args) };
        self.device.check(code, tag)
    }

    /// An input of a run: a buffer and the byte that offsets count from. The buffer lives through the run.
    ///
    /// # Errors
    /// [`Status::InvalidHandle`] where it lies on another device.
    #[inline]
    pub fn input(&self, buffer: &Buffer, offset: u64, tag: &Tag<'_>) -> Result<ProgramInput> {
        if *buffer.device() != self.device {
            return Err(self.foreign(buffer, tag));
        }
        Ok(ProgramInput {
            buffer: buffer.handle(),
            offset,
        })
    }

    #[cold]
    fn foreign(&self, buffer: &Buffer, tag: &Tag<'_>) -> Error {
        let text = format!("an input lies on another device, {}", buffer.device().target());
        self.device.refuse(Status::InvalidHandle, text, tag)
    }

    /// Runs it for `inputs`, which live through the call, and hands each output to `made`. All work carries `tag`; where
    /// `own` is set, each step its own instead, and `tag` stands in errors of the call alone.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; as [`Stream::launch`].
    ///
    /// # Safety
    /// Who is handed an output keeps the program's device open until after it is dropped.
    #[inline]
    pub unsafe fn run(
        &self,
        stream: &Stream,
        inputs: &[ProgramInput],
        arguments: &[u64],
        (tag, own): (&Tag<'_>, bool),
        mut made: impl FnMut(Buffer),
    ) -> Result<()> {
        if *stream.device() != self.device {
            let text = format!("the stream lies on another device, {}", stream.device().target());
            return Err(self.device.refuse(Status::InvalidHandle, text, tag));
        }
        let raw_tag = tag.raw();
        // Most programs have few outputs.
        let (mut few, mut many, mut missing) = ([0; 4], Vec::new(), 0);
        let count = self.outputs.len();
        let handles = if count <= few.len() {
            &mut few[..count]
        } else {
            many.resize(count, 0);
            &mut many[..]
        };
        let args = ProgramRunArgs {
            program: self.handle,
            stream: stream.handle(),
            inputs: inputs.as_ptr(),
            input_count: inputs.len(),
            arguments: arguments.as_ptr(),
            argument_count: arguments.len(),
            outputs: handles.as_mut_ptr(),
            output_count: handles.len(),
            tag: if own { std::ptr::null() } else { &raw const raw_tag },
            missing: &raw mut missing,
        };
        // SAFETY: all that the arguments point to lives through the call, and the out pointers are writable.
        let code = unsafe { (self.table.run)(self.device.context(), &raw const args) };
        if code != 0 {
            return Err(alloc_error(&self.device, code, missing, tag));
        }
        for (&mut handle, &bytes) in handles.iter_mut().zip(&self.outputs) {
            // SAFETY: the backend made the buffer for this run, nobody else has its handle; the caller vouches for the device.
            made(unsafe { Buffer::tied(&self.device, handle, bytes) });
        }
        Ok(())
    }
}
