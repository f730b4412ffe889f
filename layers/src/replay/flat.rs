//! A capture without programs: each run as allocations and packets, each packet on its own.

use crate::captured::{
    Alloc, Binding, Call, Copy, End, File, Fill, Handle, Launch, Packet, Part, Place, Program, Record, Run,
    Submission, Work,
};
use std::collections::HashMap;
use thalweg_hal::{Error, Result};

/// Programs that were made, with what their bound slots hold.
struct Programs {
    known: HashMap<(u32, Handle), Program>,
    /// The next handle of a scratch buffer. Handles of backends count from below.
    next: Handle,
}

/// The same work without programs. Each submission has one packet, outputs and scratch buffers are allocated, and kernels are kept
/// until the end.
///
/// # Errors
/// A run of a program that is not there, or that does not fit it.
pub fn flatten(file: &File) -> Result<File> {
    let mut programs = Programs {
        known: HashMap::new(),
        next: Handle::MAX,
    };
    let mut records = Vec::with_capacity(file.records.len());
    for record in &file.records {
        let mut push = |call: Call| {
            records.push(Record {
                backend: record.backend,
                call,
            });
        };
        let key = |program: Handle| (record.backend, program);
        match &record.call {
            Call::CreateProgram(program) => {
                programs.known.insert(key(program.program), program.clone());
            }
            Call::Rebind(args) => {
                let program = programs.find(record.backend, args.program)?;
                let first = program.inputs + (program.outputs.len() + program.scratch.len()) as u64;
                let at = args.slot.checked_sub(first).map(|at| at as usize);
                match at.and_then(|at| program.bound.get_mut(at)) {
                    Some(bound) => *bound = args.place.clone(),
                    None => return Err(wrong(args.program, "has no such bound slot")),
                }
            }
            Call::DestroyProgram(program) => drop(programs.known.remove(&key(*program))),
            // A program may run when its kernels were released.
            Call::Release(_) => {}
            Call::Run(run) => programs.unroll(record.backend, run)?.into_iter().for_each(push),
            Call::Submit(submission) => {
                for packet in &submission.packets {
                    push(single(submission.stream, packet.clone()));
                }
            }
            Call::Start(_)
            | Call::Backend(_)
            | Call::Open(_)
            | Call::Close(_)
            | Call::Alloc(_)
            | Call::Import(_)
            | Call::Map(_)
            | Call::Free(_)
            | Call::CreateStream(_)
            | Call::DestroyStream(_)
            | Call::CreateEvent(_)
            | Call::DestroyEvent(_)
            | Call::RecordEvent(_)
            | Call::WaitEvent(_)
            | Call::AwaitEvent(_)
            | Call::SynchronizeStream(_)
            | Call::SynchronizeDevice(_)
            | Call::Compile(_)
            | Call::Result(_) => push(record.call.clone()),
        }
    }
    Ok(File {
        start: file.start.clone(),
        records,
        cut: file.cut,
    })
}

fn single(stream: Handle, packet: Packet) -> Call {
    Call::Submit(Submission {
        stream,
        packets: vec![packet],
    })
}

fn wrong(program: Handle, what: &str) -> Error {
    Error::invalid_argument(format!("the capture's program {program:#x} {what}"))
}

impl Programs {
    fn find(&mut self, backend: u32, program: Handle) -> Result<&mut Program> {
        let found = self.known.get_mut(&(backend, program));
        found.ok_or_else(|| wrong(program, "is not in the file"))
    }

    /// A run as calls.
    fn unroll(&mut self, backend: u32, run: &Run) -> Result<Vec<Call>> {
        let mut next = self.next;
        let program = self.find(backend, run.program)?;
        let fits = run.inputs.len() as u64 == program.inputs
            && run.outputs.len() == program.outputs.len()
            && run.arguments.len() as u64 == program.arguments;
        if !fits {
            return Err(wrong(
                run.program,
                "has other numbers of inputs, outputs or arguments",
            ));
        }
        let mut scratch = Vec::with_capacity(program.scratch.len());
        for _ in &program.scratch {
            scratch.push(next);
            next -= 1;
        }
        let made: Vec<Handle> = run.outputs.iter().chain(&scratch).copied().collect();
        let sizes = program.outputs.iter().chain(&program.scratch);
        let mut calls: Vec<Call> = (made.iter().zip(sizes))
            .map(|(&buffer, &bytes)| {
                Call::Alloc(Alloc {
                    buffer,
                    device: program.device,
                    bytes,
                    stream: run.stream,
                })
            })
            .collect();
        let whole = |&buffer: &Handle| Place { buffer, offset: 0 };
        let slots: Vec<Place> = (run.inputs.iter().cloned())
            .chain(made.iter().map(whole))
            .chain(program.bound.iter().cloned())
            .collect();
        let mut packets = program.packets.clone();
        for given in &program.given {
            let packet = packets.get_mut(given.packet as usize);
            let to = packet.and_then(|packet| packet.scalar_mut(given.scalar as usize));
            let argument = run.arguments.get(given.argument as usize);
            let (to, bits) = to
                .zip(argument)
                .ok_or_else(|| wrong(run.program, "gives a scalar that is not there"))?;
            *to = *bits;
        }
        for packet in packets {
            let packet = Packet {
                tag: run.tag.clone().unwrap_or(packet.tag),
                work: placed(packet.work, &slots).ok_or_else(|| wrong(run.program, "names no such slot"))?,
            };
            calls.push(single(run.stream, packet));
        }
        calls.extend(scratch.into_iter().map(Call::Free));
        self.next = next;
        Ok(calls)
    }
}

/// Work over slots as work over buffers.
fn placed(work: Work, slots: &[Place]) -> Option<Work> {
    let find = |slot: Handle, offset: u64| {
        let place = slots.get(usize::try_from(slot.checked_sub(1)?).ok()?)?;
        Some((place.buffer, place.offset.checked_add(offset)?))
    };
    let end = |end: End| {
        Some(match end {
            End::Buffer(part) => {
                let (buffer, offset) = find(part.buffer, part.offset)?;
                End::Buffer(Part {
                    buffer,
                    offset,
                    ..part
                })
            }
            host => host,
        })
    };
    Some(match work {
        Work::Launch(launch) => {
            let binding = |binding: Binding| {
                let (buffer, offset) = find(binding.buffer, binding.offset)?;
                Some(Binding {
                    buffer,
                    offset,
                    ..binding
                })
            };
            Work::Launch(Launch {
                bindings: launch.bindings.into_iter().map(binding).collect::<Option<_>>()?,
                ..launch
            })
        }
        Work::Copy(copy) => Work::Copy(Copy {
            dst: end(copy.dst)?,
            src: end(copy.src)?,
            ..copy
        }),
        Work::Fill(fill) => {
            let (buffer, offset) = find(fill.buffer, fill.offset)?;
            Work::Fill(Fill {
                buffer,
                offset,
                ..fill
            })
        }
    })
}
