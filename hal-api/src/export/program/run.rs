//! A run of a program: from handles to slots, one call of the backend, and what becomes of the memory that it made.

use super::super::memory::{count as count_bytes, give_back, obtain, withdraw};
use super::super::objects::{Instance, Stream};
use super::super::profile::{note_buffers, submission};
use super::super::stream::{mark, pending};
use super::super::{arg, array, enter_profiled, optional, writable};
use super::forms::Held;
use super::{Program, misplaced};
use crate::backend::{Backend, Device, Region, Tag};
use crate::status::{Error, Result, Status};
use crate::tables::{self, Context, ProfileKind, ProgramInput, ProgramRunArgs};
use std::mem::MaybeUninit;
use std::slice;

/// Slots of a run that needs no allocation of its own.
const INLINE: usize = 8;

/// Room for a value of each slot.
struct Room<T> {
    few: [MaybeUninit<T>; INLINE],
    many: Vec<MaybeUninit<T>>,
}

impl<T> Room<T> {
    #[inline(always)]
    const fn new() -> Room<T> {
        Room {
            few: [const { MaybeUninit::uninit() }; INLINE],
            many: Vec::new(),
        }
    }

    #[inline(always)]
    fn take(&mut self, count: usize) -> &mut [MaybeUninit<T>] {
        if count > INLINE {
            self.many.resize_with(count, MaybeUninit::uninit);
            return &mut self.many;
        }
        &mut self.few[..count]
    }
}

/// The inputs and arguments of a run, as many as the program takes.
///
/// # Safety
/// The pointers of the arguments are null or valid.
#[inline(always)]
unsafe fn given<'a, D: Device>(
    program: &Program<D>,
    stream: &Stream<D>,
    args: &'a ProgramRunArgs,
) -> Result<(&'a [ProgramInput], &'a [u64])> {
    if !program.owner.is(stream.owner) {
        return Err(Error::invalid_handle(
            "program and stream belong to different devices",
        ));
    }
    // SAFETY: the caller vouches for the pointers.
    let (inputs, arguments) = unsafe {
        (
            array(args.inputs, args.input_count)?,
            array(args.arguments, args.argument_count)?,
        )
    };
    if inputs.len() != program.inputs.len()
        || arguments.len() != program.most.len()
        || args.output_count != program.outputs
    {
        return Err(wrong_counts(program, args));
    }
    if args.output_count > 0 {
        writable(args.outputs)?;
    }
    for (at, (bits, most)) in arguments.iter().zip(&program.most).enumerate() {
        if bits > most {
            return Err(Error::invalid_argument(format!(
                "argument {at} has the bits {bits:#x}, at most {most:#x} are possible"
            )));
        }
    }
    Ok((inputs, arguments))
}

#[cold]
fn wrong_counts<D: Device>(program: &Program<D>, args: &ProgramRunArgs) -> Error {
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

/// Fills the slots of what a program holds from run to run: bound slots, then forms of constants. Most programs hold nothing.
#[inline(never)]
fn place_held<'a, B: Backend>(
    instance: &'a Instance<B>,
    program: &Program<B::Device>,
    inputs: &[ProgramInput],
    (bound, forms): (&[ProgramInput], &[Held]),
    slots: &mut [MaybeUninit<Region<'a, B::Device>>],
) -> Result<()> {
    let bound_places = bound.iter().map(|input| (input.buffer, input.offset));
    let form_places = forms.iter().map(|held| (held.buffer, 0));
    for ((buffer, offset), slot) in bound_places.chain(form_places).zip(slots) {
        slot.write(instance.buffer(buffer)?.region(offset));
    }
    (program.bound).check_run(instance, bound, inputs, &program.inputs)
}

pub(super) unsafe extern "C" fn run<B: Backend>(context: Context, args: *const ProgramRunArgs) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter_profiled::<B>(
            context,
            move |instance| run_in::<B, false>(instance, arg(args)?),
            move |instance| run_in::<B, true>(instance, arg(args)?),
        )
    }
}

/// # Safety
/// The pointers of the arguments are null or valid.
#[inline(always)]
unsafe fn run_in<B: Backend, const PROFILED: bool>(
    instance: &Instance<B>,
    args: &ProgramRunArgs,
) -> Result<()> {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        let (program, stream) = (instance.program(args.program)?, instance.stream(args.stream)?);
        let (inputs, arguments) = given(program, stream, args)?;
        let tag = optional(args.tag)?;
        let forms = match program.constants.is_empty() {
            true => &[],
            false => program.constants(instance, inputs)?,
        };
        // No lock is held while the backend runs.
        let bound = program.bound.held();
        let bound = bound.as_deref().unwrap_or(&[]);
        let (made_at, held_at) = (inputs.len(), inputs.len() + program.made.len());
        let count = held_at + bound.len() + forms.len();
        let (mut regions, mut handles) = (Room::new(), Room::<u64>::new());
        let (slots, handles) = (regions.take(count), handles.take(program.made.len()));
        for (index, input) in inputs.iter().enumerate() {
            let buffer = instance.buffer(input.buffer)?;
            let fits = program.inputs[index].fits(input.offset, buffer.bytes());
            if !fits || !buffer.owner.is(program.owner) {
                return Err(misplaced(program, index, input, buffer));
            }
            slots[index].write(buffer.region(input.offset));
        }
        if held_at < count {
            place_held(instance, program, inputs, (bound, forms), &mut slots[held_at..])?;
        }
        let mut uncounted = 0;
        for (index, &bytes) in program.made.iter().enumerate() {
            let taken = obtain(instance, program.owner, bytes, stream.id, || {
                own_tag(program, tag)
            });
            match taken {
                Ok((handle, buffer, more)) => {
                    uncounted += more;
                    handles[index].write(handle);
                    slots[made_at + index].write(buffer.region(0));
                }
                Err(error) => {
                    if error.status == Status::OutOfMemory && !args.missing.is_null() {
                        args.missing.write(bytes);
                    }
                    withdraw(
                        instance,
                        program.owner.get(),
                        written(&handles[..index]),
                        uncounted,
                    );
                    return Err(error);
                }
            }
        }
        count_bytes(program.owner.get(), uncounted);
        let (slots, made) = (written(slots), written(handles));
        let device = &program.owner.get().device;
        let own = tag.map(|tag| Tag::new(Some(tag)));
        let submission = match PROFILED {
            true => submission(stream, args.stream),
            false => None,
        };
        let submitted = match &submission {
            None => device.run_program(&stream.stream, &program.body, slots, arguments, own),
            Some(submission) => {
                let body = &program.body;
                device.run_program_profiled(&stream.stream, body, slots, arguments, own, submission)
            }
        };
        let note = |kind: ProfileKind, moment: Option<u64>| {
            let handles = made.iter().copied();
            note_buffers(
                instance,
                program.owner.get(),
                kind,
                (args.stream, moment),
                handles,
            );
        };
        if PROFILED {
            // Behind the work, whose record then does not hold the time that this takes.
            note(ProfileKind::Alloc, submission.map(|submission| submission.queued));
        }
        // What was submitted before a failure uses its buffers all the same.
        if let Some(position) = pending(stream) {
            let given = inputs.iter().chain(bound).map(|input| input.buffer);
            let held = forms.iter().map(|held| held.buffer);
            let used = given.chain(made.iter().copied()).chain(held);
            mark(
                stream,
                position,
                used.filter_map(|handle| instance.buffers.get(handle)),
            );
        }
        if let Err(error) = submitted {
            if PROFILED {
                note(ProfileKind::Free, None);
            }
            withdraw(instance, program.owner.get(), made, 0);
            return Err(error);
        }
        let (outputs, scratch) = made.split_at(program.outputs);
        for &scratch in scratch {
            give_back::<B, PROFILED>(instance, scratch, args.stream)?;
        }
        for (index, &handle) in outputs.iter().enumerate() {
            args.outputs.add(index).write(handle);
        }
        Ok(())
    }
}

/// The values of slots, all of which were written.
///
/// # Safety
/// They were.
#[inline(always)]
unsafe fn written<T>(slots: &[MaybeUninit<T>]) -> &[T] {
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(slots.as_ptr().cast(), slots.len()) }
}

/// Who asks for memory, for errors: the run, or the first node.
#[cold]
fn own_tag<D: Device>(program: &Program<D>, tag: Option<&tables::Tag>) -> Option<tables::Tag> {
    match tag {
        Some(tag) => Some(*tag),
        None => program.body.nodes.first().map(|node| node.tag.raw()),
    }
}
