//! Programs: work whose memory is named by slots, checked once and run in one call.

use super::device::Device;
use super::error::{Error, Result};
use super::kernel::Kernel;
use super::memory::{Buffer, alloc_error};
use super::stream::Stream;
use super::tag::Tag;
use std::fmt;
use thalweg_hal::Status;
use thalweg_hal::tables::{
    self, PacketKind, ProgramArgs, ProgramInput, ProgramRunArgs, ProgramScalar, ProgramTable,
};

/// One buffer argument of a launch in a program.
#[derive(Debug)]
pub struct Operand<'a> {
    /// Number of the slot: inputs come first, then outputs, then scratch buffers.
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

/// A piece of a program's work.
#[derive(Debug)]
pub enum Step<'a> {
    /// A run of a kernel.
    Launch {
        /// What runs.
        kernel: &'a Kernel,
        /// Extents of the kernel's axes.
        extents: &'a [u64],
        /// One for each parameter.
        operands: Vec<Operand<'a>>,
        /// One for each scalar of the kernel.
        scalars: Vec<Scalar>,
        /// Where it comes from.
        tag: Tag<'a>,
    },
    /// Bytes that repeat a pattern.
    Fill {
        /// What is written, as in [`Operand::slot`].
        slot: u32,
        /// The first byte that is written, a multiple of the pattern's size.
        offset: u64,
        /// How many bytes are written, a multiple of the pattern's size.
        bytes: u64,
        /// The pattern's bits, zero-extended.
        pattern: u64,
        /// The pattern's size: 1, 2, 4 or 8.
        pattern_bytes: u32,
        /// Where it comes from.
        tag: Tag<'a>,
    },
}

/// How many slots and arguments a program has; sizes in bytes.
#[derive(Clone, Copy, Debug)]
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
}

/// Work over slots. A run makes the buffers of outputs and scratch and submits everything in one call of the backend.
///
/// ```
/// use thalweg_runtime::hal::{self, Program, ProgramSlots, ProgramStep, Tag};
/// let device = hal::device("cpu")?;
/// let stream = device.default_stream()?;
/// let ones = ProgramStep::Fill {
///     slot: 0,
///     offset: 0,
///     bytes: 16,
///     pattern: 1.0_f32.to_bits().into(),
///     pattern_bytes: 4,
///     tag: Tag::new("ones"),
/// };
/// let slots = ProgramSlots { inputs: 0, outputs: &[16], scratch: &[], arguments: 0, constants: &[] };
/// // `None` on a backend that has no programs.
/// if let Some(program) = Program::new(&device, &slots, &[ones])? {
///     let mut made = Vec::new();
///     // SAFETY: `device` lives longer than the buffers.
///     unsafe { program.run(&stream, &[], &[], (&Tag::new("ones"), false), |buffer| made.push(buffer))? };
///     assert_eq!(made[0].download::<f32>(&stream)?, [1.0; 4]);
/// }
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

/// Packets in the ABI form and what they point to, which is not touched once they are built.
#[derive(Default)]
struct Raw {
    bindings: Vec<tables::Binding>,
    scalars: Vec<u64>,
    tags: Vec<tables::Tag>,
    launches: Vec<tables::Launch>,
    fills: Vec<tables::Fill>,
    given: Vec<ProgramScalar>,
}

impl Raw {
    fn add(&mut self, device: &Device, packet: usize, step: &Step<'_>) -> Result<()> {
        match step {
            Step::Launch {
                kernel,
                extents,
                operands,
                scalars,
                tag,
            } => {
                self.tags.push(tag.raw());
                for (index, (operand, &axes)) in operands.iter().zip(kernel.axes()).enumerate() {
                    let strides = match operand.strides {
                        None => std::ptr::null(),
                        Some(strides) if strides.len() == usize::from(axes) => strides.as_ptr(),
                        Some(strides) => {
                            let given = strides.len();
                            let text =
                                format!("parameter {index} has {given} strides, its level has {axes} axes");
                            return Err(device.refuse(Status::InvalidArgument, text, tag));
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
                    self.scalars.push(match *scalar {
                        Scalar::Bits(bits) => bits,
                        Scalar::Argument(argument) => {
                            self.given.push(ProgramScalar {
                                packet: packet as u32,
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
                    binding_count: operands.len(),
                    scalars: std::ptr::null(),
                    scalar_count: scalars.len(),
                });
            }
            &Step::Fill {
                slot,
                offset,
                bytes,
                pattern,
                pattern_bytes,
                ref tag,
            } => {
                self.tags.push(tag.raw());
                self.fills.push(tables::Fill {
                    buffer: u64::from(slot) + 1,
                    offset,
                    bytes,
                    pattern,
                    pattern_bytes,
                    reserved: 0,
                });
            }
        }
        Ok(())
    }

    fn packets(&mut self, steps: &[Step<'_>]) -> Vec<tables::Packet> {
        let (mut bindings, mut scalars) = (self.bindings.as_ptr(), self.scalars.as_ptr());
        for launch in &mut self.launches {
            (launch.bindings, launch.scalars) = (bindings, scalars);
            bindings = bindings.wrapping_add(launch.binding_count);
            scalars = scalars.wrapping_add(launch.scalar_count);
        }
        let (mut launches, mut fills) = (self.launches.iter(), self.fills.iter());
        let pointer = |work: Option<&tables::Launch>| work.map_or(std::ptr::null(), std::ptr::from_ref);
        (steps.iter().zip(&self.tags))
            .map(|(step, tag)| {
                let (kind, launch, fill) = match step {
                    Step::Launch { .. } => (PacketKind::Launch, pointer(launches.next()), std::ptr::null()),
                    Step::Fill { .. } => {
                        let fill = fills.next().map_or(std::ptr::null(), std::ptr::from_ref);
                        (PacketKind::Fill, std::ptr::null(), fill)
                    }
                };
                tables::Packet {
                    kind: kind as u32,
                    reserved: 0,
                    tag,
                    launch,
                    copy: std::ptr::null(),
                    fill,
                }
            })
            .collect()
    }
}

impl Program {
    /// Checks the steps and keeps them; `None` on a backend that has no programs.
    ///
    /// # Errors
    /// As [`Stream::submit`], with the index of the step.
    pub fn new(device: &Device, slots: &Slots<'_>, steps: &[Step<'_>]) -> Result<Option<Program>> {
        let Some(table) = device.tables().program else {
            return Ok(None);
        };
        let tag = Tag::new("create program");
        let mut raw = Raw::default();
        for (index, step) in steps.iter().enumerate() {
            raw.add(device, index, step)?;
        }
        let packets = raw.packets(steps);
        let args = ProgramArgs {
            device: device.handle(),
            packets: packets.as_ptr(),
            packet_count: packets.len(),
            input_count: slots.inputs,
            outputs: slots.outputs.as_ptr(),
            output_count: slots.outputs.len(),
            scratch: slots.scratch.as_ptr(),
            scratch_count: slots.scratch.len(),
            scalars: raw.given.as_ptr(),
            scalar_count: raw.given.len(),
            argument_count: slots.arguments,
            constants: slots.constants.as_ptr(),
            constant_count: slots.constants.len(),
        };
        let mut handle = 0;
        // SAFETY: all that the packets point to lives through the call; `handle` is writable.
        let code = unsafe { (table.create)(device.context(), &raw const args, &raw mut handle) };
        device.check(code, &tag)?;
        Ok(Some(Program {
            handle,
            outputs: slots.outputs.into(),
            device: device.clone(),
            table,
        }))
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
