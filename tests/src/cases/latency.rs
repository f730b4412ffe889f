//! What the small operations cost. Measured, not judged.

use crate::kit::{Latency, Stop};
use crate::rig::device::{fill, launch_packet};
use crate::rig::run::Job;
use crate::rig::{Device, Subject};
use std::hint::black_box;
use std::ptr::null;
use std::time::Instant;
use thalweg_hal::Error;
use thalweg_hal::ir::Kernel;
use thalweg_hal::tables::{ProgramArgs, ProgramRunArgs};

/// Median over some runs of the nanoseconds that one of `count` calls takes.
fn median(runs: usize, count: u32, mut call: impl FnMut() -> Result<(), Error>) -> Result<f64, Stop> {
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs {
        let start = Instant::now();
        for _ in 0..count {
            call()?;
        }
        times.push(start.elapsed().as_nanos() as f64 / f64::from(count));
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// Measures what the subject offers.
pub(crate) fn measure(subject: &Subject) -> Latency {
    let ok = |result: Result<f64, Stop>| result.ok();
    Latency {
        launch: ok(launch(subject)),
        program: ok(program(subject)),
        handoff: ok(handoff(subject)),
        allocation: ok(allocation(subject)),
    }
}

fn empty() -> Job {
    Job {
        kernel: Kernel::new("empty", 1, 0),
        extents: vec![1],
        arguments: Vec::new(),
        scalars: Vec::new(),
    }
}

fn launch(subject: &Subject) -> Result<f64, Stop> {
    let device = Device::open(subject)?;
    let (stream, job) = (device.stream()?, empty());
    let kernel = device.compile(&job.kernel)?;
    let launch = job.launch(kernel, &[]);
    let raw = device.raw();
    let mut times = Vec::new();
    for _ in 0..51 {
        device.join(stream)?;
        let start = Instant::now();
        for _ in 0..64 {
            // SAFETY: the launch and its arrays live.
            let code = unsafe {
                (raw.tables.stream.launch)(
                    raw.context,
                    stream,
                    black_box(&raw const launch),
                    std::ptr::null(),
                )
            };
            raw.status(code)?;
        }
        times.push(start.elapsed().as_nanos() as f64 / 64.0);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn program(subject: &Subject) -> Result<f64, Stop> {
    const NODES: usize = 256;
    let device = Device::open(subject)?;
    let (stream, job) = (device.stream()?, empty());
    let kernel = device.compile(&job.kernel)?;
    let launch = job.launch(kernel, &[]);
    let raw = device.raw();
    let table = raw
        .tables
        .program
        .ok_or_else(|| Stop::Unsupported("no table of programs".into()))?;
    let packets = vec![launch_packet(&launch, null()); NODES];
    let args = ProgramArgs {
        device: device.handle(),
        packets: packets.as_ptr(),
        packet_count: NODES,
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
    };
    // SAFETY: the arguments live through the call, the out pointer is writable.
    let program = raw.out(0, |out| unsafe {
        (table.create)(raw.context, &raw const args, out)
    })?;
    let args = ProgramRunArgs {
        program,
        stream,
        inputs: null(),
        input_count: 0,
        arguments: null(),
        argument_count: 0,
        outputs: std::ptr::null_mut(),
        output_count: 0,
        tag: null(),
        missing: std::ptr::null_mut(),
    };
    let per_run = median(51, 16, || {
        // SAFETY: the arguments live through the call.
        raw.status(unsafe { (table.run)(raw.context, &raw const args) })?;
        device.join(stream)
    })?;
    Ok(per_run / NODES as f64)
}

/// A token goes to and fro between two streams: two hand-offs a round, each with a small fill.
fn handoff(subject: &Subject) -> Result<f64, Stop> {
    const ROUNDS: u32 = 200;
    let device = Device::open(subject)?;
    let (first, second, buffer) = (device.stream()?, device.stream()?, device.alloc(8)?);
    let (there, back) = (device.event(false)?, device.event(false)?);
    let work = fill(buffer, 0, 8, 1, 8);
    let mut times = Vec::new();
    for _ in 0..31 {
        // All rounds are submitted behind a gate, so that both streams have work and stay awake.
        let gate = crate::rig::Gate::new(&device, first)?;
        let (begin, end) = (device.event(true)?, device.event(true)?);
        device.record(begin, first)?;
        for _ in 0..ROUNDS {
            device.fill(first, &work)?;
            device.record(there, first)?;
            device.wait_event(second, there)?;
            device.fill(second, &work)?;
            device.record(back, second)?;
            device.wait_event(first, back)?;
        }
        device.record(end, first)?;
        gate.open();
        device.join(first)?;
        let args = thalweg_hal::tables::ElapsedArgs { start: begin, end };
        let raw = device.raw();
        // SAFETY: the arguments live through the call, the out pointer is writable.
        let elapsed = raw.out(0_i64, |out| unsafe {
            (raw.tables.event.elapsed)(raw.context, &raw const args, out)
        })?;
        times.push(elapsed as f64 / f64::from(2 * ROUNDS));
        device.destroy_event(begin)?;
        device.destroy_event(end)?;
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn allocation(subject: &Subject) -> Result<f64, Stop> {
    let device = Device::open(subject)?;
    let first = device.alloc(4096)?;
    let time = median(51, 256, || {
        let buffer = black_box(device.alloc(black_box(4096))?);
        device.free(buffer)
    })?;
    device.free(first)?;
    Ok(time)
}
