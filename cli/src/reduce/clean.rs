//! Drops what no work of a capture uses.

use std::collections::HashSet;
use thalweg_layers::captured::{Alloc, Call, End, File, Handle, Import, Launch, Work};

/// Names of objects that work uses, by backend.
#[derive(Default)]
struct Used {
    buffers: HashSet<(u32, Handle)>,
    streams: HashSet<(u32, Handle)>,
    kernels: HashSet<(u32, Handle)>,
    programs: HashSet<(u32, Handle)>,
}

/// The buffers of a packet of a stream, the one that a copy or a fill writes first.
pub(super) fn buffers_of(work: &Work) -> Vec<Handle> {
    let of = |end: &End| match end {
        End::Buffer(part) => Some(part.buffer),
        End::From(_) | End::To(_) => None,
    };
    match work {
        Work::Launch(launch) => launch.bindings.iter().map(|binding| binding.buffer).collect(),
        Work::Copy(copy) => of(&copy.dst).into_iter().chain(of(&copy.src)).collect(),
        Work::Fill(fill) => vec![fill.buffer],
    }
}

fn kernel_of(work: &Work) -> Option<Handle> {
    match work {
        Work::Launch(Launch { kernel, .. }) => Some(*kernel),
        Work::Copy(_) | Work::Fill(_) => None,
    }
}

impl Used {
    fn of(file: &File) -> Used {
        let mut used = Used::default();
        for record in &file.records {
            if let Call::Run(run) = &record.call {
                used.programs.insert((record.backend, run.program));
            }
        }
        for record in &file.records {
            let key = |handle: Handle| (record.backend, handle);
            if let Call::Submit(submission) = &record.call {
                used.streams.insert(key(submission.stream));
                for packet in &submission.packets {
                    used.buffers.extend(buffers_of(&packet.work).into_iter().map(key));
                    used.kernels.extend(kernel_of(&packet.work).map(key));
                }
            } else if let Call::CreateProgram(program) = &record.call
                && used.programs.contains(&key(program.program))
            {
                let kernels = program
                    .packets
                    .iter()
                    .filter_map(|packet| kernel_of(&packet.work));
                used.kernels.extend(kernels.map(key));
                used.buffers
                    .extend(program.bound.iter().map(|place| key(place.buffer)));
            } else if let Call::Rebind(rebind) = &record.call
                && used.programs.contains(&key(rebind.program))
            {
                used.buffers.insert(key(rebind.place.buffer));
            } else if let Call::Run(run) = &record.call {
                used.streams.insert(key(run.stream));
                used.buffers
                    .extend(run.inputs.iter().map(|place| key(place.buffer)));
            }
        }
        used
    }
}

/// The capture without objects that no packet and no run uses.
pub(super) fn clean(mut file: File) -> File {
    let used = Used::of(&file);
    // A run makes its outputs. They are freed, and a buffer that was made by a run that is gone is made by nobody.
    let mut made: HashSet<(u32, Handle)> = HashSet::new();
    let mut outputs: HashSet<(u32, Handle)> = HashSet::new();
    let mut recorded: HashSet<(u32, Handle)> = HashSet::new();
    for record in &file.records {
        let key = |handle: Handle| (record.backend, handle);
        if let Call::Alloc(Alloc { buffer, .. }) | Call::Import(Import { buffer, .. }) = &record.call {
            made.insert(key(*buffer));
        } else if let Call::Run(run) = &record.call {
            outputs.extend(run.outputs.iter().map(|&output| key(output)));
        } else if let Call::RecordEvent(mark) = &record.call
            && used.streams.contains(&key(mark.stream))
        {
            recorded.insert(key(mark.event));
        }
    }
    file.records.retain_mut(|record| {
        let backend = record.backend;
        let key = |handle: &Handle| (backend, *handle);
        match &mut record.call {
            Call::Alloc(alloc) => {
                if !used.streams.contains(&key(&alloc.stream)) {
                    alloc.stream = 0;
                }
                used.buffers.contains(&key(&alloc.buffer))
            }
            Call::Import(import) => used.buffers.contains(&key(&import.buffer)),
            Call::Map(buffer) | Call::Free(buffer) => {
                let key = key(buffer);
                outputs.contains(&key) || (made.contains(&key) && used.buffers.contains(&key))
            }
            Call::CreateStream(stream) => used.streams.contains(&key(&stream.stream)),
            Call::DestroyStream(stream) | Call::SynchronizeStream(stream) => {
                used.streams.contains(&key(stream))
            }
            Call::CreateEvent(event) => recorded.contains(&key(&event.event)),
            Call::DestroyEvent(event) | Call::AwaitEvent(event) => recorded.contains(&key(event)),
            Call::RecordEvent(mark) | Call::WaitEvent(mark) => {
                recorded.contains(&key(&mark.event)) && used.streams.contains(&key(&mark.stream))
            }
            Call::Compile(kernel) => used.kernels.contains(&key(&kernel.kernel)),
            Call::Release(kernel) => used.kernels.contains(&key(kernel)),
            Call::CreateProgram(program) => used.programs.contains(&key(&program.program)),
            Call::Rebind(rebind) => used.programs.contains(&key(&rebind.program)),
            Call::DestroyProgram(program) => used.programs.contains(&key(program)),
            Call::Start(_)
            | Call::Backend(_)
            | Call::Open(_)
            | Call::Close(_)
            | Call::SynchronizeDevice(_)
            | Call::Submit(_)
            | Call::Run(_)
            | Call::Result(_) => true,
        }
    });
    file
}
