//! The program table.

mod bound;
mod draft;
mod forms;
mod run;

use super::objects::{Buffer, Instance, Owner, full, stale};
use super::profile::kernel_of;
use super::{arg, array, enter, optional, put, writable};
use crate::backend::{Backend, Device, Tag};
use crate::kit::packet::Reach;
use crate::kit::program::{Node, Program as Body, dependencies};
use crate::status::{Error, Result};
use crate::tables::{
    Context, ProgramArgs, ProgramDependency, ProgramInput, ProgramRebindArgs, ProgramScalar, ProgramTable,
};
use bound::Bound;
use draft::Draft;
pub(super) use forms::Forms;
use forms::Held;
use std::sync::{Arc, OnceLock};

pub(super) const fn table<B: Backend>() -> ProgramTable {
    ProgramTable {
        create: create::<B>,
        rebind: rebind::<B>,
        run: run::run::<B>,
        destroy: destroy::<B>,
    }
}

/// Checked work and what a run of it must be given.
pub(super) struct Program<D: Device> {
    pub(super) owner: Owner<D>,
    body: Arc<Body<D>>,
    inputs: Box<[Reach]>,
    // Bytes of outputs, then of scratch buffers.
    made: Box<[u64]>,
    outputs: usize,
    bound: Bound,
    // Largest bits of each argument.
    most: Box<[u64]>,
    constants: Box<[u32]>,
    // Where the constants lie, and the forms of them; set by the first run.
    places: OnceLock<Box<[(u64, u64)]>>,
    held: OnceLock<Box<[Held]>>,
}

unsafe extern "C" fn create<B: Backend>(context: Context, args: *const ProgramArgs, out: *mut u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let args = arg(args)?;
            writable(out)?;
            let program = build(instance, args)?;
            put(
                out,
                instance.programs.insert(program).ok_or_else(|| full("program"))?,
            )
        })
    }
}

/// Refuses numbers that lead nowhere.
fn check_numbers(args: &ProgramArgs, scalars: &[ProgramScalar], constants: &[u32]) -> Result<()> {
    // What is counted here is held in memory: a wrong number must not end the process.
    const MOST: usize = 1 << 24;
    if args.input_count.max(args.argument_count) > MOST {
        return Err(Error::invalid_argument(format!(
            "{} inputs and {} arguments; a program has at most {MOST}",
            args.input_count, args.argument_count
        )));
    }
    if let Some(wrong) = (scalars.iter()).find(|place| place.packet as usize >= args.packet_count) {
        return Err(Error::invalid_argument(format!(
            "a scalar of packet {} of {}",
            wrong.packet, args.packet_count
        )));
    }
    if let Some(wrong) = (constants.iter()).find(|&&number| number as usize >= args.input_count) {
        return Err(Error::invalid_argument(format!(
            "constant input {wrong} of {} inputs",
            args.input_count
        )));
    }
    Ok(())
}

/// # Safety
/// The pointers of the arguments are null or valid.
unsafe fn build<B: Backend>(instance: &Instance<B>, args: &ProgramArgs) -> Result<Program<B::Device>> {
    let open = instance.device(args.device)?;
    // SAFETY: the caller vouches for the pointers.
    let (packets, given, scalars, outputs, scratch, bound, constants) = unsafe {
        (
            array(args.packets, args.packet_count)?,
            array(args.dependencies, args.dependency_count)?,
            array(args.scalars, args.scalar_count)?,
            array(args.outputs, args.output_count)?,
            array(args.scratch, args.scratch_count)?,
            array(args.bound, args.bound_count)?,
            array(args.constants, args.constant_count)?,
        )
    };
    check_numbers(args, scalars, constants)?;
    let mut draft = Draft {
        instance,
        owner: Owner::new(open),
        inputs: vec![Reach::default(); args.input_count],
        made: [outputs, scratch].concat(),
        bound: vec![Reach::default(); bound.len()],
        most: vec![u64::MAX; args.argument_count],
        touches: Vec::with_capacity(packets.len()),
    };
    let mut of_packet: Vec<Vec<&ProgramScalar>> = vec![Vec::new(); packets.len()];
    scalars
        .iter()
        .for_each(|place| of_packet[place.packet as usize].push(place));
    let mut steps = Vec::with_capacity(packets.len());
    // Of each packet the number of its node, unless there is nothing to do.
    let mut numbers = Vec::with_capacity(packets.len());
    for (index, (packet, scalars)) in packets.iter().zip(&of_packet).enumerate() {
        let within = |error: Error| Error::new(error.status, format!("packet {index}: {}", error.message));
        // SAFETY: the caller vouches for the pointers.
        let (tag, step) = unsafe {
            let tag = Tag::new(optional(packet.tag).map_err(within)?).to_owned();
            (tag, draft.step(packet, scalars).map_err(within)?)
        };
        numbers.push(step.is_some().then_some(steps.len() as u32));
        // SAFETY: the packet was checked.
        let kernel = unsafe { kernel_of(packet) };
        steps.extend(step.map(|step| (step, tag, index as u32, kernel)));
    }
    let mut waits = dependencies(&draft.touches);
    add_given(&mut waits, &numbers, given)?;
    let node = |((step, tag, packet, kernel), dependencies)| Node {
        step,
        tag,
        dependencies,
        packet,
        kernel,
    };
    let nodes: Box<[_]> = steps.into_iter().zip(waits).map(node).collect();
    let forms = match constants {
        [] => Vec::new(),
        _ => {
            let mut constant = vec![false; args.input_count];
            constants
                .iter()
                .for_each(|&number| constant[number as usize] = true);
            open.device
                .forms(&nodes, &|number| constant.get(number) == Some(&true))
        }
    };
    let first = args.input_count + draft.made.len();
    let bound = Bound::new(instance, draft.owner, first, draft.bound, bound)?;
    Ok(Program {
        owner: draft.owner,
        body: Arc::new(Body {
            nodes,
            forms: forms.into(),
            forms_at: first + bound.count(),
            made: OnceLock::new(),
            plan: OnceLock::new(),
        }),
        inputs: draft.inputs.into(),
        made: draft.made.into(),
        outputs: outputs.len(),
        bound,
        most: draft.most.into(),
        constants: constants.into(),
        places: OnceLock::new(),
        held: OnceLock::new(),
    })
}

/// Adds the dependencies that are given between packets to those of the nodes.
fn add_given(waits: &mut [Box<[u32]>], numbers: &[Option<u32>], given: &[ProgramDependency]) -> Result<()> {
    if given.is_empty() {
        return Ok(());
    }
    let mut after: Vec<Vec<u32>> = vec![Vec::new(); numbers.len()];
    for one in given {
        let Some(own) = after.get_mut(one.packet as usize) else {
            return Err(Error::invalid_argument(format!(
                "a dependency of packet {} of {}",
                one.packet,
                numbers.len()
            )));
        };
        if one.earlier >= one.packet {
            return Err(Error::invalid_argument(format!(
                "packet {} waits for packet {}, which does not come before it",
                one.packet, one.earlier
            )));
        }
        own.push(one.earlier);
    }
    // The nodes after which each packet is done: where it does nothing, those that it waits for.
    let mut ends: Vec<Vec<u32>> = Vec::with_capacity(numbers.len());
    for (packet, node) in after.iter().zip(numbers) {
        let mut own: Vec<u32> = (packet.iter())
            .flat_map(|&earlier| &ends[earlier as usize])
            .copied()
            .collect();
        if let Some(node) = node {
            let place = &mut waits[*node as usize];
            own.extend_from_slice(place);
            own.sort_unstable();
            own.dedup();
            *place = std::mem::replace(&mut own, vec![*node]).into();
        }
        ends.push(own);
    }
    Ok(())
}

unsafe extern "C" fn rebind<B: Backend>(context: Context, args: *const ProgramRebindArgs) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let args = arg(args)?;
            let program = instance.program(args.program)?;
            (program.bound).rebind(instance, program.owner, args.slot, args.input)
        })
    }
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
    program.inputs[index].misses(&format!("input {index}"), input.offset, buffer.bytes())
}

unsafe extern "C" fn destroy<B: Backend>(context: Context, program: u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let program = (instance.programs.remove(program)).ok_or_else(|| stale("program", program))?;
            program.let_go(instance);
            Ok(())
        })
    }
}
