//! Smaller packets: fewer streams and waits, other contents, smaller extents.

use super::clean::clean;
use super::trial::Trial;
use std::collections::HashMap;
use std::error::Error;
use thalweg_layers::captured::{Call, Contents, File, Handle, Launch, Packet, Work, hash};

/// Tries a change; the capture with it, or without where the command does not hold.
fn tried(file: File, trial: &mut Trial<'_>, change: impl FnOnce(&mut File)) -> Result<File, Box<dyn Error>> {
    let mut changed = file.clone();
    change(&mut changed);
    let changed = clean(changed);
    Ok(if changed != file && trial.holds(&changed)? {
        changed
    } else {
        file
    })
}

/// All work on one stream, without waits, and without frees.
pub(super) fn order(file: File, trial: &mut Trial<'_>) -> Result<File, Box<dyn Error>> {
    let file = tried(file, trial, one_stream)?;
    let file = tried(file, trial, |file| {
        file.records.retain(|record| {
            !matches!(
                record.call,
                Call::SynchronizeStream(_) | Call::SynchronizeDevice(_) | Call::AwaitEvent(_)
            )
        });
    })?;
    tried(file, trial, |file| {
        file.records
            .retain(|record| !matches!(record.call, Call::Free(_) | Call::Map(_) | Call::Close(_)));
    })
}

/// The first stream of each device in the place of all others.
fn one_stream(file: &mut File) {
    let mut first: HashMap<(u32, Handle), Handle> = HashMap::new();
    let mut other: HashMap<(u32, Handle), Handle> = HashMap::new();
    for record in &file.records {
        if let Call::CreateStream(stream) = &record.call {
            let kept = *first
                .entry((record.backend, stream.device))
                .or_insert(stream.stream);
            other.insert((record.backend, stream.stream), kept);
        }
    }
    for record in &mut file.records {
        let to = |stream: &mut Handle| {
            if let Some(&kept) = other.get(&(record.backend, *stream)) {
                *stream = kept;
            }
        };
        if let Some(stream) = record.call.stream_mut() {
            to(stream);
        }
    }
    let kept: Vec<Handle> = first.values().copied().collect();
    file.records.retain(|record| {
        let gone = matches!(
            record.call,
            Call::RecordEvent(_)
                | Call::WaitEvent(_)
                | Call::AwaitEvent(_)
                | Call::CreateEvent(_)
                | Call::DestroyEvent(_)
                | Call::DestroyStream(_)
        );
        let other = matches!(&record.call, Call::CreateStream(stream) if !kept.contains(&stream.stream));
        !gone && !other
    });
}

/// Stand-in values in the place of bytes, all at once or one by one.
pub(super) fn contents(file: File, trial: &mut Trial<'_>) -> Result<File, Box<dyn Error>> {
    fn replace(contents: &mut Contents) {
        if let Contents::Data(data) = contents {
            let hash = hash(data);
            *contents = Contents::Seed {
                hash,
                seed: hash.max(1),
            };
        }
    }
    let mut file = tried(file, trial, |file| file.contents_mut().for_each(replace))?;
    let count = file.contents().count();
    for at in 0..count {
        file = tried(file, trial, |file| {
            if let Some(contents) = file.contents_mut().nth(at) {
                replace(contents);
            }
        })?;
    }
    Ok(file)
}

/// The launches of a capture.
fn launches(file: &mut File) -> impl Iterator<Item = &mut Launch> {
    let packets = file.records.iter_mut().flat_map(|record| match &mut record.call {
        Call::CreateProgram(program) => &mut program.packets[..],
        other => other.packets_mut(),
    });
    packets.filter_map(|packet: &mut Packet| match &mut packet.work {
        Work::Launch(launch) => Some(launch),
        Work::Copy(_) | Work::Fill(_) => None,
    })
}

/// Each extent as small as is found by bisection.
pub(super) fn extents(mut file: File, trial: &mut Trial<'_>) -> Result<File, Box<dyn Error>> {
    let all: Vec<Vec<u64>> = launches(&mut file).map(|launch| launch.extents.clone()).collect();
    for (at, extents) in all.iter().enumerate() {
        for (axis, &extent) in extents.iter().enumerate() {
            let (mut low, mut high) = (0, extent);
            while high - low > 1 && !trial.is_over() {
                // 1 is good enough for most.
                let middle = if low == 0 && high == extent {
                    1
                } else {
                    low + (high - low) / 2
                };
                let smaller = tried(file.clone(), trial, |file| {
                    if let Some(launch) = launches(file).nth(at) {
                        launch.extents[axis] = middle;
                    }
                })?;
                if smaller == file {
                    low = middle;
                } else {
                    (file, high) = (smaller, middle);
                }
            }
        }
    }
    Ok(file)
}
