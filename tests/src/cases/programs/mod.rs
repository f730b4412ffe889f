//! Programs: packets over slots, run again and again with the memory that each run is given and makes; slots that hold buffers from
//! run to run; dependencies that bytes ask for and that are given.

mod bound;
mod refused;
mod runs;
mod slots;

use crate::check;
use crate::kit::{Case, Check, Stop};
use crate::rig::device::{launch_packet, tag};
use crate::rig::run::{Argument, Job};
use crate::rig::{Device, Subject};
use std::ptr::null;
use thalweg_hal::ir::{Access, Kernel, Level, Node, Role, ScalarOp};
use thalweg_hal::tables::{
    Packet, ProgramArgs, ProgramInput, ProgramRebindArgs, ProgramRunArgs, ProgramScalar, ProgramTable,
};
use thalweg_hal::{DType, Result, Status};

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("programs", name, run);
    let mut all = vec![
        case("of_a_chain", slots::chain),
        case("of_branches", slots::branches),
        case("with_scalars", slots::scalars),
        case("inputs_have_origins", slots::origins),
        case("with_constants", slots::constants),
        case("with_an_operand_of_many", slots::operand_of_many),
        case("makes_what_is_the_callers", slots::memory),
        case("in_stream_order", slots::in_stream_order),
        case("runs_under_way", runs::under_way),
        case("on_many_threads", slots::many_threads),
        case("refused", refused::packets),
        case("runs_refused", refused::runs),
        case("constants_stay_where_they_are", refused::moved_constants),
        case("without_memory", refused::without_memory),
        case("without_its_second_output", refused::peak_without_memory),
        case("stale", refused::stale),
        case("copies_between_slots", slots::copies),
        case("given_dependencies", slots::dependencies),
        case("dependencies_refused", refused::dependencies),
    ];
    all.extend(bound::cases());
    all
}

/// Program calls of a device.
pub(super) struct Programs<'a> {
    device: &'a Device,
    table: &'static ProgramTable,
}

/// Inputs, bytes of outputs, bytes of scratch buffers, arguments.
pub(super) type Shape<'a> = (usize, &'a [u64], &'a [u64], usize);

impl<'a> Programs<'a> {
    pub(super) fn new(device: &'a Device) -> Result<Programs<'a>, Stop> {
        let table = device.raw().tables.program;
        let table = table.ok_or_else(|| Stop::Unsupported("the backend has no table of programs".into()))?;
        Ok(Programs { device, table })
    }

    pub(super) fn create(
        &self,
        packets: &[Packet],
        shape: Shape<'_>,
        scalars: &[ProgramScalar],
    ) -> Result<u64> {
        self.create_with(packets, shape, scalars, &[])
    }

    fn create_with(
        &self,
        packets: &[Packet],
        (inputs, outputs, scratch, arguments): Shape<'_>,
        scalars: &[ProgramScalar],
        constants: &[u32],
    ) -> Result<u64> {
        let args = ProgramArgs {
            input_count: inputs,
            outputs: outputs.as_ptr(),
            output_count: outputs.len(),
            scratch: scratch.as_ptr(),
            scratch_count: scratch.len(),
            scalars: scalars.as_ptr(),
            scalar_count: scalars.len(),
            argument_count: arguments,
            constants: constants.as_ptr(),
            constant_count: constants.len(),
            ..self.args(packets)
        };
        self.create_of(&args)
    }

    /// Arguments for a program of packets without slots.
    fn args(&self, packets: &[Packet]) -> ProgramArgs {
        ProgramArgs {
            device: self.device.handle(),
            packets: packets.as_ptr(),
            packet_count: packets.len(),
            dependencies: null(),
            dependency_count: 0,
            input_count: 0,
            outputs: null(),
            output_count: 0,
            scratch: null(),
            scratch_count: 0,
            bound: null(),
            bound_count: 0,
            scalars: null(),
            scalar_count: 0,
            argument_count: 0,
            constants: null(),
            constant_count: 0,
        }
    }

    fn create_of(&self, args: &ProgramArgs) -> Result<u64> {
        let raw = self.device.raw();
        // SAFETY: the arguments live through the call, the out pointer is writable.
        raw.out(0, |out| unsafe { (self.table.create)(raw.context, args, out) })
    }

    fn rebind(&self, program: u64, slot: u64, buffer: u64, offset: u64) -> Result<()> {
        let args = ProgramRebindArgs {
            program,
            slot,
            input: ProgramInput { buffer, offset },
        };
        let raw = self.device.raw();
        // SAFETY: the arguments live through the call; the case keeps the memory alive.
        raw.status(unsafe { (self.table.rebind)(raw.context, &raw const args) })
    }

    /// Handles of the outputs, or the error and the bytes that were missing.
    pub(super) fn run(
        &self,
        (program, stream): (u64, u64),
        inputs: &[(u64, u64)],
        arguments: &[u64],
        outputs: usize,
    ) -> Result<Vec<u64>, (thalweg_hal::Error, u64)> {
        let inputs: Vec<ProgramInput> = (inputs.iter())
            .map(|&(buffer, offset)| ProgramInput { buffer, offset })
            .collect();
        let (mut handles, mut missing, tag) = (vec![0; outputs], 0, tag("the program"));
        let args = ProgramRunArgs {
            program,
            stream,
            inputs: inputs.as_ptr(),
            input_count: inputs.len(),
            arguments: arguments.as_ptr(),
            argument_count: arguments.len(),
            outputs: handles.as_mut_ptr(),
            output_count: handles.len(),
            tag: &raw const tag,
            missing: &raw mut missing,
        };
        let raw = self.device.raw();
        // SAFETY: the arguments live through the call, the out pointers are writable; the case keeps the memory alive.
        match raw.status(unsafe { (self.table.run)(raw.context, &raw const args) }) {
            Ok(()) => Ok(handles),
            Err(error) => Err((error, missing)),
        }
    }

    pub(super) fn destroy(&self, program: u64) -> Result<()> {
        let raw = self.device.raw();
        // SAFETY: plain call.
        raw.status(unsafe { (self.table.destroy)(raw.context, program) })
    }
}

pub(super) fn plain<T>(result: Result<T, (thalweg_hal::Error, u64)>) -> Result<T> {
    result.map_err(|(error, _)| error)
}

/// `out = x * factor` on i32, where `factor` is a scalar.
fn scale() -> Kernel {
    let mut kernel = Kernel::new("scale", 1, 0);
    let x = kernel.param(DType::I32, Role::In, Level::Row, Access::Contiguous);
    let out = kernel.param(DType::I32, Role::Out, Level::Row, Access::Contiguous);
    let (x, factor) = (kernel.load(x), kernel.scalar(DType::I32));
    let product = kernel.op(ScalarOp::Mul, &[x, factor]);
    kernel.store(out, product);
    kernel
}

/// The program `out = input + nodes` on `count` i32, through two scratch buffers; slots are named from 1 on.
pub(super) fn counter(programs: &Programs<'_>, count: u64, nodes: u64) -> Result<u64, Stop> {
    let work = job(increment(), count);
    let kernel = programs.device.compile(&work.kernel)?;
    let place = |at: u64| match at {
        0 => 1,
        at if at == nodes => 2,
        at => 3 + at % 2,
    };
    let bindings: Vec<_> = (0..nodes)
        .map(|at| work.bindings(&[place(at), place(at + 1)]))
        .collect();
    let launches: Vec<_> = bindings
        .iter()
        .map(|bindings| work.launch(kernel, bindings))
        .collect();
    let packets: Vec<Packet> = launches
        .iter()
        .map(|launch| launch_packet(launch, null()))
        .collect();
    let bytes = 4 * count;
    Ok(programs.create(&packets, (1, &[bytes], &[bytes, bytes], 0), &[])?)
}

/// `out = a + b` on i32.
pub(super) fn add() -> Kernel {
    let mut kernel = Kernel::new("add", 1, 0);
    let a = kernel.param(DType::I32, Role::In, Level::Row, Access::Contiguous);
    let b = kernel.param(DType::I32, Role::In, Level::Row, Access::Contiguous);
    let out = kernel.param(DType::I32, Role::Out, Level::Row, Access::Contiguous);
    let (a, b) = (kernel.load(a), kernel.load(b));
    let sum = kernel.op(ScalarOp::Add, &[a, b]);
    kernel.store(out, sum);
    kernel
}

pub(super) fn job(kernel: Kernel, count: u64) -> Job {
    let arguments = vec![Argument::default(); kernel.params.len()];
    Job {
        kernel,
        extents: vec![count],
        arguments,
        scalars: Vec::new(),
    }
}

/// `x = x + 1` in place, on i32.
pub(super) fn increment() -> Kernel {
    let mut kernel = Kernel::new("increment", 1, 0);
    let input = kernel.param(DType::I32, Role::In, Level::Row, Access::Contiguous);
    let output = kernel.param(DType::I32, Role::Out, Level::Row, Access::Contiguous);
    let value = kernel.load(input);
    let one = kernel.push(Node::Const {
        dtype: DType::I32,
        bits: 1,
    });
    let sum = kernel.op(ScalarOp::Add, &[value, one]);
    kernel.store(output, sum);
    kernel
}

fn refuse(result: Result<()>, expected: &[Status], what: &str) -> Check {
    match result {
        Ok(()) => crate::fail!("{what} is accepted"),
        Err(error) => {
            check!(
                expected.contains(&error.status),
                "{what}: {} ({error})",
                error.status
            );
            check!(!error.message.is_empty(), "{what}: no text");
        }
    }
    Ok(())
}
