//! The program table.

use super::memory::{give_back, obtain};
use super::objects::{Buffer, Instance, Kernel, Owner, full, stale};
use super::stream::mark;
use super::{arg, array, enter, optional, put, writable};
use crate::backend::{Backend, Device, Region, Tag};
use crate::ir::{Level, Role};
use crate::kit::checks::{self, Extents, Footprint, Signature, Slot, overlaps, reach};
use crate::kit::program::{Node, Operand, Program as Body, Step, Touch, dependencies};
use crate::status::{Error, Result, Status};
use crate::tables::{
    self, Context, Packet, PacketKind, ProgramArgs, ProgramInput, ProgramRunArgs, ProgramScalar, ProgramTable,
};
use smallvec::SmallVec;
use std::mem::MaybeUninit;
use std::sync::Arc;

pub(super) const fn table<B: Backend>() -> ProgramTable {
    ProgramTable {
        create: create::<B>,
        run: run::<B>,
        destroy: destroy::<B>,
    }
}

/// Checked work and what a run of it must be given.
pub(super) struct Program<D: Device> {
    pub(super) owner: Owner<D>,
    body: Arc<Body<D>>,
    inputs: Box<[Input]>,
    // Bytes of outputs, then of scratch buffers.
    made: Box<[u64]>,
    outputs: usize,
    // Largest bits of each argument.
    most: Box<[u64]>,
}

/// What the packets reach of an input, in bytes from its origin.
#[derive(Clone, Copy, Default)]
struct Input {
    before: u64,
    after: u64,
    // Of the origin; 0 where nothing is reached.
    alignment: u64,
}

impl Input {
    fn widen(&mut self, start: i128, end: i128, size: u64) -> Result<()> {
        let bytes = |at: i128| {
            u64::try_from(at.max(0))
                .map_err(|_| Error::out_of_bounds("a program reaches more than 2^64 bytes"))
        };
        self.before = self.before.max(bytes(-start)?);
        self.after = self.after.max(bytes(end)?);
        self.alignment = self.alignment.max(size);
        Ok(())
    }

    #[inline(always)]
    fn fits(&self, offset: u64, bytes: u64) -> bool {
        offset <= bytes
            && offset >= self.before
            && bytes - offset >= self.after
            // Sizes are powers of two.
            && offset & self.alignment.saturating_sub(1) == 0
    }
}

/// A program while its packets are checked.
struct Draft<'a, B: Backend> {
    instance: &'a Instance<B>,
    owner: Owner<B::Device>,
    inputs: Vec<Input>,
    made: Vec<u64>,
    most: Vec<u64>,
    // What each node touches of what the runs make.
    touches: Vec<Vec<Touch>>,
}

impl<B: Backend> Draft<'_, B> {
    /// The number of a slot from where a packet names a buffer.
    fn slot(&self, handle: u64) -> Result<usize> {
        let count = self.inputs.len() + self.made.len();
        match usize::try_from(handle) {
            Ok(number) if (1..=count).contains(&number) => Ok(number - 1),
            _ => Err(Error::invalid_argument(format!(
                "slot {handle} of a program of {count} slots, which are named from 1 on"
            ))),
        }
    }

    /// # Safety
    /// The pointers of the packet are null or valid.
    unsafe fn step(&mut self, packet: &Packet, given: &[&ProgramScalar]) -> Result<Option<Step<B::Device>>> {
        // SAFETY: the caller vouches for the pointers.
        unsafe {
            if packet.kind == PacketKind::Launch as u32 {
                self.launch(arg(packet.launch)?, given).map(Some)
            } else if !given.is_empty() {
                Err(Error::invalid_argument("only launches have scalars"))
            } else if packet.kind == PacketKind::Fill as u32 {
                self.fill(arg(packet.fill)?)
            } else {
                Err(Error::invalid_argument(format!(
                    "a packet of kind {}; a program has launches and fills",
                    packet.kind
                )))
            }
        }
    }

    fn fill(&mut self, fill: &tables::Fill) -> Result<Option<Step<B::Device>>> {
        let pattern = checks::pattern(fill)?;
        let slot = self.slot(fill.buffer)?;
        let Some(&bytes) = slot
            .checked_sub(self.inputs.len())
            .and_then(|made| self.made.get(made))
        else {
            return Err(Error::invalid_argument("fill: a program writes no input"));
        };
        if fill.offset.checked_add(fill.bytes).is_none_or(|end| end > bytes) {
            return Err(Error::out_of_bounds(format!(
                "fill: {} bytes at {} of a buffer of {bytes} bytes",
                fill.bytes, fill.offset
            )));
        }
        if fill.bytes == 0 {
            return Ok(None);
        }
        self.touches.push(vec![Touch {
            slot,
            start: fill.offset,
            end: fill.offset + fill.bytes,
            written: true,
        }]);
        Ok(Some(Step::Fill {
            slot,
            offset: fill.offset,
            bytes: fill.bytes,
            pattern,
            pattern_bytes: fill.pattern_bytes,
        }))
    }

    /// # Safety
    /// The pointers of the launch are null or valid.
    unsafe fn launch(
        &mut self,
        launch: &tables::Launch,
        given: &[&ProgramScalar],
    ) -> Result<Step<B::Device>> {
        let kernel: &Kernel<B::Device> = self.instance.kernel(launch.kernel)?;
        let signature = &*kernel.signature;
        let name = signature.name.as_str();
        if !kernel.owner.is(self.owner) {
            return Err(Error::invalid_handle(format!(
                "{name}: the kernel was compiled for another device"
            )));
        }
        // SAFETY: the caller vouches for the arrays.
        let (all, bindings, scalars) = unsafe {
            (
                array(launch.extents, launch.extent_count)?,
                array(launch.bindings, launch.binding_count)?,
                array(launch.scalars, launch.scalar_count)?,
            )
        };
        let extents = Extents::new(all, signature)?;
        if bindings.len() != signature.slots.len() || scalars.len() != signature.scalars.len() {
            return Err(Error::invalid_argument(format!(
                "{name}: {} bindings and {} scalars, the kernel takes {} and {}",
                bindings.len(),
                scalars.len(),
                signature.slots.len(),
                signature.scalars.len()
            )));
        }
        let mut scalars: Box<[u64]> = scalars.into();
        let given = given
            .iter()
            .map(|place| self.scalar(signature, &mut scalars, place))
            .collect::<Result<_>>()?;
        checks::scalars(signature, &scalars)?;
        // SAFETY: the caller vouches for the strides.
        let operands = unsafe { self.operands(signature, &extents, bindings)? };
        Ok(Step::Launch {
            kernel: Arc::clone(&kernel.kernel),
            extents: all.into(),
            operands,
            scalars,
            given,
        })
    }

    fn scalar(
        &mut self,
        signature: &Signature,
        scalars: &mut [u64],
        place: &ProgramScalar,
    ) -> Result<(usize, usize)> {
        let (scalar, argument) = (place.scalar as usize, place.argument as usize);
        match (signature.scalars.get(scalar), self.most.get_mut(argument)) {
            (Some(&dtype), Some(most)) => {
                *most = (*most).min(checks::most_bits(dtype));
                scalars[scalar] = 0;
                Ok((scalar, argument))
            }
            _ => Err(Error::invalid_argument(format!(
                "{}: scalar {scalar} is argument {argument}; there are {} scalars and {} arguments",
                signature.name,
                scalars.len(),
                self.most.len()
            ))),
        }
    }

    /// # Safety
    /// The strides of the bindings are null or valid.
    unsafe fn operands(
        &mut self,
        signature: &Signature,
        extents: &Extents<'_>,
        bindings: &[tables::Binding],
    ) -> Result<Box<[Operand]>> {
        let name = signature.name.as_str();
        let (mut operands, mut places, mut spans) = (Vec::new(), Vec::new(), Vec::new());
        let mut touches = Vec::new();
        for (index, (binding, slot)) in bindings.iter().zip(&signature.slots).enumerate() {
            let number = self.slot(binding.buffer)?;
            // SAFETY: the caller vouches for the strides.
            let strides = unsafe { strides(binding, slot, signature)? };
            let place = Footprint {
                base: number,
                offset: binding.offset,
                bytes: 0,
                strides,
                gather_stride: binding.gather_stride,
                gather_extent: binding.gather_extent,
            };
            let reached = reach(name, index, slot, extents, &place)?;
            let input = number < self.inputs.len();
            if input && slot.role == Role::Out {
                return Err(Error::invalid_argument(format!(
                    "{name}: parameter {index} is an input of the program, which writes none"
                )));
            }
            spans.push(match reached {
                Some((start, end)) if input => {
                    self.inputs[number].widen(start, end, slot.dtype.size() as u64)?;
                    // Nothing that is written lies in an input.
                    None
                }
                Some((start, end)) => {
                    let bytes = self.made[number - self.inputs.len()];
                    if start < 0 || end > i128::from(bytes) {
                        return Err(Error::out_of_bounds(format!(
                            "{name}: parameter {index} reaches bytes {start}..{end} of a buffer of {bytes} bytes"
                        )));
                    }
                    let (start, end) = (start as u64, end as u64);
                    touches.push(Touch {
                        slot: number,
                        start,
                        end,
                        written: slot.role == Role::Out,
                    });
                    Some((start, end))
                }
                None => None,
            });
            operands.push(Operand {
                slot: number,
                offset: binding.offset,
                strides: strides.into(),
                gather_stride: binding.gather_stride,
                gather_extent: binding.gather_extent,
            });
            places.push(place);
        }
        overlaps(name, &signature.slots, extents, &places, &spans)?;
        self.touches.push(touches);
        Ok(operands.into())
    }
}

/// # Safety
/// The strides are null or one for each axis of the parameter's level.
unsafe fn strides<'a>(binding: &tables::Binding, slot: &Slot, signature: &Signature) -> Result<&'a [i64]> {
    if binding.strides.is_null() {
        return Ok(&[]);
    }
    let axes = match slot.level {
        Level::Row => signature.outer,
        Level::Element => signature.outer + signature.inner,
    };
    // SAFETY: the caller vouches for them.
    unsafe { array(binding.strides, axes) }
}

unsafe extern "C" fn create<B: Backend>(context: Context, args: *const ProgramArgs, out: *mut u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let args = arg(args)?;
            writable(out)?;
            let open = instance.device(args.device)?;
            let packets = array(args.packets, args.packet_count)?;
            let scalars = array(args.scalars, args.scalar_count)?;
            let outputs = array(args.outputs, args.output_count)?;
            let scratch = array(args.scratch, args.scratch_count)?;
            // What is counted here is held in memory: a wrong number must not end the process.
            const MOST: usize = 1 << 24;
            if args.input_count.max(args.argument_count) > MOST {
                return Err(Error::invalid_argument(format!(
                    "{} inputs and {} arguments; a program has at most {MOST}",
                    args.input_count, args.argument_count
                )));
            }
            if let Some(wrong) = scalars
                .iter()
                .find(|place| place.packet as usize >= packets.len())
            {
                return Err(Error::invalid_argument(format!(
                    "a scalar of packet {} of {}",
                    wrong.packet,
                    packets.len()
                )));
            }
            let mut draft = Draft {
                instance,
                owner: Owner::new(open),
                inputs: vec![Input::default(); args.input_count],
                made: [outputs, scratch].concat(),
                most: vec![u64::MAX; args.argument_count],
                touches: Vec::with_capacity(packets.len()),
            };
            let mut given: Vec<Vec<&ProgramScalar>> = vec![Vec::new(); packets.len()];
            scalars
                .iter()
                .for_each(|place| given[place.packet as usize].push(place));
            let mut steps = Vec::with_capacity(packets.len());
            for (index, (packet, given)) in packets.iter().zip(&given).enumerate() {
                let within =
                    |error: Error| Error::new(error.status, format!("packet {index}: {}", error.message));
                let tag = Tag::new(optional(packet.tag).map_err(within)?).to_owned();
                if let Some(step) = draft.step(packet, given).map_err(within)? {
                    steps.push((step, tag));
                }
            }
            let node = |((step, tag), dependencies)| Node {
                step,
                tag,
                dependencies,
            };
            let nodes: Box<[_]> = steps
                .into_iter()
                .zip(dependencies(&draft.touches))
                .map(node)
                .collect();
            let program = Program {
                owner: draft.owner,
                body: Arc::new(Body {
                    nodes,
                    plan: std::sync::OnceLock::new(),
                }),
                inputs: draft.inputs.into(),
                made: draft.made.into(),
                outputs: outputs.len(),
                most: draft.most.into(),
            };
            put(
                out,
                instance.programs.insert(program).ok_or_else(|| full("program"))?,
            )
        })
    }
}

#[cold]
fn wrong_run<D: Device>(program: &Program<D>, args: &ProgramRunArgs) -> Error {
    Error::invalid_argument(format!(
        "{} inputs, {} arguments and {} outputs; the program has {}, {} and {}",
        args.input_count,
        args.argument_count,
        args.output_count,
        program.inputs.len(),
        program.most.len(),
        program.outputs
    ))
}

#[cold]
fn misplaced<D: Device>(
    program: &Program<D>,
    index: usize,
    input: &ProgramInput,
    buffer: &Buffer<D>,
) -> Error {
    if !buffer.owner.is(program.owner) {
        return Error::invalid_handle(format!("input {index} lies on another device"));
    }
    let Input {
        before,
        after,
        alignment,
    } = program.inputs[index];
    Error::out_of_bounds(format!(
        "input {index} starts at byte {} of a buffer of {} bytes; the program reaches {before} bytes before and {after} \
         behind, from a multiple of {}",
        input.offset,
        buffer.bytes(),
        alignment.max(1)
    ))
}

/// Slots of a run that needs no allocation of its own.
const INLINE: usize = 8;

unsafe extern "C" fn run<B: Backend>(context: Context, args: *const ProgramRunArgs) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let args = arg(args)?;
            let (program, stream) = (instance.program(args.program)?, instance.stream(args.stream)?);
            if !program.owner.is(stream.owner) {
                return Err(Error::invalid_handle(
                    "program and stream belong to different devices",
                ));
            }
            let inputs = array(args.inputs, args.input_count)?;
            let arguments = array(args.arguments, args.argument_count)?;
            let tag = optional(args.tag)?;
            if inputs.len() != program.inputs.len()
                || arguments.len() != program.most.len()
                || args.output_count != program.outputs
            {
                return Err(wrong_run(program, args));
            }
            if args.output_count > 0 {
                writable(args.outputs)?;
            }
            if let Some(at) = arguments
                .iter()
                .zip(&program.most)
                .position(|(bits, most)| bits > most)
            {
                return Err(Error::invalid_argument(format!(
                    "argument {at} has the bits {:#x}, at most {:#x} are possible",
                    arguments[at], program.most[at]
                )));
            }
            let (made_at, count) = (inputs.len(), inputs.len() + program.made.len());
            // Slots and handles that need no allocation.
            let mut few = [const { MaybeUninit::<Region<'_, B::Device>>::uninit() }; INLINE];
            let mut many = Vec::new();
            let slots = if count <= INLINE {
                &mut few[..count]
            } else {
                many.resize_with(count, MaybeUninit::uninit);
                &mut many[..]
            };
            for (index, ((input, reach), slot)) in
                inputs.iter().zip(&program.inputs).zip(&mut *slots).enumerate()
            {
                let buffer = instance.buffer(input.buffer)?;
                if !buffer.owner.is(program.owner) || !reach.fits(input.offset, buffer.bytes()) {
                    return Err(misplaced(program, index, input, buffer));
                }
                slot.write(buffer.region(input.offset));
            }
            let mut made = SmallVec::<[u64; 4]>::new();
            for (&bytes, slot) in program.made.iter().zip(&mut slots[made_at..]) {
                let taken = obtain(instance, program.owner, bytes, stream.id, || {
                    own_tag(program, tag)
                });
                match taken.and_then(|handle| Ok((handle, instance.buffer(handle)?))) {
                    Ok((handle, buffer)) => {
                        made.push(handle);
                        slot.write(buffer.region(0));
                    }
                    Err(error) => {
                        if error.status == Status::OutOfMemory && !args.missing.is_null() {
                            args.missing.write(bytes);
                        }
                        return abandon(instance, &made, error);
                    }
                }
            }
            // The loops ran over as many slots as there are, and wrote each.
            let slots = std::slice::from_raw_parts(slots.as_ptr().cast::<Region<'_, B::Device>>(), count);
            let raw = tag.map(|tag| Tag::new(Some(tag)));
            let device = &program.owner.get().device;
            let submitted = device.run_program(&stream.stream, &program.body, slots, arguments, raw);
            // What was submitted before a failure uses its buffers all the same.
            let used = inputs
                .iter()
                .map(|input| input.buffer)
                .chain(made.iter().copied());
            mark(stream, used.filter_map(|handle| instance.buffers.get(handle)));
            if let Err(error) = submitted {
                return abandon(instance, &made, error);
            }
            let (outputs, scratch) = made.split_at(program.outputs);
            for &scratch in scratch {
                give_back(instance, scratch)?;
            }
            for (index, &handle) in outputs.iter().enumerate() {
                args.outputs.add(index).write(handle);
            }
            Ok(())
        })
    }
}

/// Who asks for memory, for errors: the run, or the first node.
#[cold]
fn own_tag<D: Device>(program: &Program<D>, tag: Option<&tables::Tag>) -> Option<tables::Tag> {
    match tag {
        Some(tag) => Some(*tag),
        None => program.body.nodes.first().map(|node| node.tag.raw()),
    }
}

/// Gives the buffers of a run that failed back.
#[cold]
fn abandon<B: Backend>(instance: &Instance<B>, made: &[u64], error: Error) -> Result<()> {
    for &handle in made {
        // They were made by this run; nobody else frees them.
        let _ = give_back(instance, handle);
    }
    Err(error)
}

unsafe extern "C" fn destroy<B: Backend>(context: Context, program: u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            instance
                .programs
                .remove(program)
                .map(drop)
                .ok_or_else(|| stale("program", program))
        })
    }
}
