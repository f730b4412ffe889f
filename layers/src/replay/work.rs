//! Work of a replay: packets and programs.

use super::Player;
use super::memory::{Buffer, Submitted};
use super::raw::{Buffers, Names, Raw, input, tag};
use super::session::{Compiled, Made, known};
use crate::captured::{Contents, Copy, Handle, Program, Run, Submission};
use std::collections::HashMap;
use std::ffi::c_void;
use thalweg_hal::tables::{ProgramArgs, ProgramDependency, ProgramInput, ProgramRunArgs, ProgramScalar};
use thalweg_hal::{Error, Result};

/// Most inputs and arguments of a program.
const MOST: u64 = 1 << 24;

/// Names for packets of a program, whose buffers are slots.
struct Slots<'a> {
    kernels: &'a HashMap<Handle, Compiled>,
}

impl Buffers for Slots<'_> {
    fn buffer(&self, slot: Handle) -> Result<u64> {
        Ok(slot)
    }
}

impl Names for Slots<'_> {
    fn kernel(&self, handle: Handle) -> Result<(u64, &[usize])> {
        let kernel = known(self.kernels, "kernel", handle)?;
        Ok((kernel.handle, &kernel.axes))
    }

    fn from(&mut self, _: &Contents, _: &Copy) -> Result<*mut c_void> {
        Err(no_host())
    }

    fn to(&mut self, _: u64, _: &Copy) -> Result<*mut c_void> {
        Err(no_host())
    }
}

fn no_host() -> Error {
    Error::invalid_argument("a program of the capture copies host memory, which none can")
}

impl Player {
    pub(super) fn submit(&mut self, at: u32, submission: &Submission) -> Result<()> {
        let Some(session) = self.sessions.get(at as usize) else {
            return Err(Error::invalid_argument(format!(
                "the capture has no backend {at}"
            )));
        };
        let mut names = Submitted {
            backend: at,
            stream: submission.stream,
            buffers: &session.buffers,
            kernels: &session.kernels,
            dtypes: &self.dtypes,
            held: Vec::new(),
        };
        let (stream, _) = session.stream(submission.stream)?;
        let raw = Raw::new(&submission.packets, &mut names)?;
        let packets = raw.packets();
        // SAFETY: what the packets point to lives through the call, and host memory until the stream was waited for.
        let code = unsafe {
            (session.next.stream.submit)(session.next.api.context, stream, packets.as_ptr(), packets.len())
        };
        let held = names.held;
        session.checked("submit", code)?;
        self.held.extend(held);
        Ok(())
    }

    pub(super) fn create_program(&mut self, at: u32, program: &Program) -> Result<()> {
        if program.inputs.max(program.arguments) > MOST {
            return Err(Error::invalid_argument(format!(
                "a program of the capture takes {} inputs and {} arguments, more than any does",
                program.inputs, program.arguments
            )));
        }
        let session = self.session(at)?;
        let mut slots = Slots {
            kernels: &session.kernels,
        };
        let raw = Raw::new(&program.packets, &mut slots)?;
        let dependencies: Vec<_> = (program.dependencies.iter())
            .map(|&(packet, earlier)| ProgramDependency { packet, earlier })
            .collect();
        let bound = program.bound.iter().map(|place| input(place, &session.buffers));
        let bound: Vec<ProgramInput> = bound.collect::<Result<_>>()?;
        let scalars: Vec<_> = (program.given.iter())
            .map(|given| ProgramScalar {
                packet: given.packet,
                scalar: given.scalar,
                argument: given.argument,
                reserved: 0,
            })
            .collect();
        let args = ProgramArgs {
            device: session.device(program.device)?.handle,
            packets: raw.packets().as_ptr(),
            packet_count: raw.packets().len(),
            dependencies: dependencies.as_ptr(),
            dependency_count: dependencies.len(),
            input_count: program.inputs as usize,
            outputs: program.outputs.as_ptr(),
            output_count: program.outputs.len(),
            scratch: program.scratch.as_ptr(),
            scratch_count: program.scratch.len(),
            bound: bound.as_ptr(),
            bound_count: bound.len(),
            scalars: scalars.as_ptr(),
            scalar_count: scalars.len(),
            argument_count: program.arguments as usize,
            constants: program.constants.as_ptr(),
            constant_count: program.constants.len(),
        };
        let mut handle = 0;
        let table = session.program_table()?;
        // SAFETY: all that the arguments point to lives through the call; `handle` is writable.
        let code = unsafe { (table.create)(session.next.api.context, &raw const args, &raw mut handle) };
        session.checked("create program", code)?;
        let made = Made {
            handle,
            device: program.device,
            outputs: program.outputs.len(),
        };
        session.programs.insert(program.program, made);
        Ok(())
    }

    pub(super) fn run(&mut self, at: u32, run: &Run) -> Result<()> {
        let session = self.session(at)?;
        let program = known(&session.programs, "program", run.program)?;
        if run.outputs.len() != program.outputs {
            return Err(Error::invalid_argument(format!(
                "a run of the capture makes {} outputs, its program {}",
                run.outputs.len(),
                program.outputs
            )));
        }
        let inputs = run.inputs.iter().map(|place| input(place, &session.buffers));
        let inputs: Vec<ProgramInput> = inputs.collect::<Result<_>>()?;
        let mut made = vec![0; run.outputs.len()];
        let raw_tag = run.tag.as_ref().map(tag);
        let args = ProgramRunArgs {
            program: program.handle,
            stream: session.stream(run.stream)?.0,
            inputs: inputs.as_ptr(),
            input_count: inputs.len(),
            arguments: run.arguments.as_ptr(),
            argument_count: run.arguments.len(),
            outputs: made.as_mut_ptr(),
            output_count: made.len(),
            tag: raw_tag.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
            missing: std::ptr::null_mut(),
        };
        let table = session.program_table()?;
        // SAFETY: all that the arguments point to lives through the call, and the out pointers are writable.
        let code = unsafe { (table.run)(session.next.api.context, &raw const args) };
        session.checked("run", code)?;
        let device = program.device;
        for (&output, &handle) in run.outputs.iter().zip(&made) {
            session.buffers.insert(output, Buffer { handle, device });
        }
        Ok(())
    }
}
