//! Many threads at once.

use crate::kit::{Case, Check, Stop};
use crate::rig::device::{at, copy, fill};
use crate::rig::run::{Argument, Job};
use crate::rig::values::{Random, from_bytes};
use crate::rig::{Device, Subject, callback};
use crate::{check, check_eq};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use thalweg_hal::ir::{Access, Kernel, Level, ReduceOp, Role};
use thalweg_hal::{DType, Status};

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("concurrency", name, run);
    vec![
        case("streams_of_their_own", own_streams),
        case("one_stream_shared", shared_stream),
        case("alloc_and_free", alloc_and_free),
        case("handles_come_and_go", churn),
        case("launches", launches),
        case("events_between_threads", events),
        case("stale_handles_meanwhile", stale_meanwhile),
        case("devices_open_and_close", devices),
        case("synchronize_from_many", synchronize_from_many),
    ]
}

const THREADS: u64 = 8;

/// Runs `work` on many threads; the first failure.
fn threads(work: impl Fn(u64) -> Check + Sync) -> Check {
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let work = &work;
                scope.spawn(move || work(thread))
            })
            .collect();
        let panicked = || Err(Stop::Failed("a thread panicked".into()));
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|_| panicked()))
    })
}

fn own_streams(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    threads(|thread| {
        let (stream, a, b) = (device.stream()?, device.alloc(4096)?, device.alloc(4096)?);
        for round in 0..200_u64 {
            let value = (thread * 31 + round) & 0xff;
            device.fill(stream, &fill(a, 0, 4096, value, 1))?;
            device.copy(stream, &copy(at(b, 0), at(a, 0), 4096))?;
            let found = device.download(stream, b, 4096)?;
            check!(
                found.iter().all(|&b| u64::from(b) == value),
                "thread {thread}, round {round}: other bytes"
            );
        }
        device.free(a)?;
        device.free(b)?;
        Ok(device.destroy_stream(stream)?)
    })
}

fn shared_stream(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (stream, buffer) = (device.stream()?, device.alloc(THREADS * 8)?);
    device.fill_byte(stream, buffer, THREADS * 8, 0)?;
    threads(|thread| {
        for round in 1..=300_u64 {
            device.fill(stream, &fill(buffer, thread * 8, 8, round, 8))?;
            if round % 60 == 0 {
                device.join(stream)?;
            }
        }
        Ok(())
    })?;
    let found = from_bytes(DType::U64, &device.download(stream, buffer, THREADS * 8)?);
    check_eq!(
        found,
        vec![300; THREADS as usize],
        "the last value of each thread"
    );
    Ok(())
}

fn alloc_and_free(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    threads(|thread| {
        let stream = device.stream()?;
        let mut random = Random::new(thread);
        let mut live: Vec<(u64, u64, u8)> = Vec::new();
        for step in 0..400_u64 {
            let bytes = 1 + random.below(9000);
            let value = (thread * 40 + step) as u8;
            let target = if step % 2 == 0 { stream } else { 0 };
            let buffer = device.alloc_for(bytes, target, "")?;
            device.fill_byte(stream, buffer, bytes, value)?;
            live.push((buffer, bytes, value));
            if live.len() > 8 {
                let (buffer, bytes, value) = live.swap_remove(random.below(8) as usize);
                if step % 5 == 0 {
                    let found = device.download(stream, buffer, bytes)?;
                    check!(
                        found.iter().all(|&b| b == value),
                        "a buffer holds what another thread wrote"
                    );
                }
                // Without waiting for the fill.
                device.free(buffer)?;
            }
        }
        for (buffer, bytes, value) in live {
            let found = device.download(stream, buffer, bytes)?;
            check!(
                found.iter().all(|&b| b == value),
                "a buffer holds what another thread wrote"
            );
            device.free(buffer)?;
        }
        Ok(())
    })?;
    device.synchronize()?;
    let figures = device.statistics()?;
    check_eq!(
        (figures.live, figures.allocated),
        (0, 0),
        "live and allocated after all was freed"
    );
    check_eq!(figures.allocations, THREADS * 400, "allocations");
    check_eq!(figures.idle, figures.reserved, "idle after all was freed");
    Ok(())
}

fn churn(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    threads(|_| {
        for _ in 0..60 {
            let (stream, event, buffer) = (device.stream()?, device.event(false)?, device.alloc(64)?);
            device.fill_byte(stream, buffer, 64, 1)?;
            device.record(event, stream)?;
            device.wait(event, u64::MAX)?;
            device.destroy_event(event)?;
            device.destroy_stream(stream)?;
            device.free(buffer)?;
        }
        Ok(())
    })
}

fn sum() -> Kernel {
    let mut kernel = Kernel::new("sum", 0, 1);
    let input = kernel.param(DType::I32, Role::In, Level::Element, Access::Contiguous);
    let output = kernel.param(DType::I32, Role::Out, Level::Row, Access::Contiguous);
    let value = kernel.load(input);
    let total = kernel.reduce(ReduceOp::Sum, value);
    kernel.store(output, total);
    kernel
}

fn launches(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let kernel = device.compile(&sum())?;
    threads(|thread| {
        for round in 1..=20 {
            let count = (round * 137 * (thread + 1)) as usize % 3000 + 1;
            let values: Vec<u64> = (0..count as u64).map(|i| i + thread).collect();
            let job = Job {
                kernel: sum(),
                extents: vec![count as u64],
                arguments: vec![Argument::of(DType::I32, &values), Argument::room(DType::I32, 1)],
                scalars: Vec::new(),
            };
            // Now and then a kernel of its own.
            let found = if round % 4 == 0 {
                job.run(&device)?
            } else {
                job.run_compiled(&device, kernel)?
            };
            let expected = values.iter().sum::<u64>();
            check_eq!(
                from_bytes(DType::I32, &found[1]),
                vec![expected],
                "the sum of {count} numbers"
            );
        }
        Ok(())
    })
}

/// Each thread waits on its stream for the event of the one before it.
fn events(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let cell = device.alloc(8)?;
    let mut chain = Vec::new();
    for _ in 0..THREADS {
        chain.push((device.stream()?, device.event(false)?));
    }
    device.fill_byte(chain[0].0, cell, 8, 0)?;
    device.join(chain[0].0)?;
    for round in 0..20_u64 {
        for (i, &(stream, event)) in (0..).zip(&chain) {
            if i > 0 {
                device.wait_event(stream, chain[i as usize - 1].1)?;
            }
            device.fill(stream, &fill(cell, i, 1, round + i, 1))?;
            device.record(event, stream)?;
        }
        let last = chain[chain.len() - 1];
        threads(|thread| {
            let (stream, event) = chain[thread as usize];
            device.wait(event, u64::MAX)?;
            device.join(stream)?;
            check!(device.is_reached(event)?, "an event is not reached after wait");
            Ok(())
        })?;
        let found = device.download(last.0, cell, 8)?;
        let expected: Vec<u8> = (0..8).map(|i| (round + i) as u8).collect();
        check_eq!(found, expected, "the cell in round {round}");
    }
    Ok(())
}

/// Bad calls on some threads do not disturb good ones on others, and each thread reads its own error.
fn stale_meanwhile(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let gone = device.alloc(16)?;
    device.free(gone)?;
    threads(|thread| {
        let (stream, buffer) = (device.stream()?, device.alloc(16)?);
        for round in 0..300 {
            if thread % 2 == 0 {
                let error = device.size(gone).err();
                let status = error.as_ref().map(|error| error.status);
                check_eq!(
                    status,
                    Some(Status::InvalidHandle),
                    "size of a freed buffer in round {round}"
                );
                let error = device.fill_byte(stream, buffer, 17, 0).err();
                let text = error
                    .map(|error| (error.status, error.message))
                    .unwrap_or((Status::Ok, String::new()));
                check_eq!(
                    text.0,
                    Status::OutOfBounds,
                    "a fill beyond the buffer in round {round}"
                );
                check!(!text.1.is_empty(), "an error without a text in round {round}");
            } else {
                device.fill_byte(stream, buffer, 16, round as u8)?;
                check_eq!(
                    device.download(stream, buffer, 16)?,
                    vec![round as u8; 16],
                    "a good call in round {round}"
                );
            }
        }
        Ok(())
    })
}

fn devices(subject: &Subject) -> Check {
    threads(|thread| {
        for round in 0..8 {
            let device = Device::open(subject)?;
            let (stream, buffer) = (device.stream()?, device.alloc(1000)?);
            device.fill_byte(stream, buffer, 1000, thread as u8)?;
            let found = device.download(stream, buffer, 1000)?;
            check!(
                found.iter().all(|&b| u64::from(b) == thread),
                "round {round}: other bytes"
            );
        }
        Ok(())
    })
}

fn synchronize_from_many(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let stream = device.stream()?;
    let done = Arc::new(AtomicU32::new(0));
    for _ in 0..200 {
        let done = Arc::clone(&done);
        callback(&device, stream, move || {
            done.fetch_add(1, Ordering::SeqCst);
            std::thread::yield_now();
            0
        })?;
    }
    threads(|_| {
        device.join(stream)?;
        check_eq!(
            done.load(Ordering::SeqCst),
            200,
            "callbacks that ran before synchronize returned"
        );
        Ok(())
    })
}
