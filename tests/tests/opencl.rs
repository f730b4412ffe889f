//! The acceptance rows on the OpenCL backend, whole, and what only a device with queues of its own shows.
#![allow(clippy::unwrap_used, reason = "a test")]

mod plugins;

use thalweg::hal::{
    Backend, Buffer, Capability, Copy, Device, DeviceOptions, Event, Kernel, Launch, Place, Runtime, Status,
    Stream, ir,
};
use thalweg::loader::{LoaderOptions, Registry};
use thalweg_conformance::acceptance::{self, Failure, Outcome};

const OPENCL: &str = "opencl";

/// A runtime of its own; none where the machine has no OpenCL device.
fn runtime() -> Option<Runtime> {
    let folder = plugins::built("thalweg_opencl").parent().unwrap().to_owned();
    let options = LoaderOptions {
        folders: vec![folder],
        ..LoaderOptions::default()
    };
    let runtime = Runtime::new(Registry::new(options));
    match runtime.backend(OPENCL).unwrap().device_count() {
        Ok(_) => Some(runtime),
        Err(error) if error.status() == Status::Unavailable => {
            eprintln!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A row on the OpenCL backend.
#[track_caller]
fn on_opencl(row: impl Fn(&Backend) -> Outcome) {
    let Some(runtime) = runtime() else { return };
    met(runtime
        .backend(OPENCL)
        .map_err(Failure::from)
        .and_then(|opencl| row(&opencl)));
}

#[track_caller]
fn met(outcome: Outcome) {
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

fn device(runtime: &Runtime) -> Device {
    runtime
        .backend(OPENCL)
        .unwrap()
        .open(&DeviceOptions::new(0))
        .unwrap()
}

#[test]
fn a1_allocated_and_peak() {
    on_opencl(acceptance::a1);
}

#[test]
fn a2_a3_figures_and_summary() {
    on_opencl(acceptance::a2_and_a3);
}

#[test]
fn a5_is_initialized() {
    if let Some(runtime) = runtime() {
        met(acceptance::a5(&runtime, OPENCL));
    }
}

#[test]
fn a6_wrong_questions() {
    if let Some(runtime) = runtime() {
        met(acceptance::a6(&runtime, OPENCL));
    }
}

#[test]
fn a9_energy_of_ones() {
    on_opencl(|opencl| acceptance::a9(opencl, 100));
}

#[test]
fn a11_energy_of_the_sequence() {
    on_opencl(|opencl| acceptance::a11(opencl, 100));
}

#[test]
fn a12_out_of_memory_and_on() {
    on_opencl(|opencl| acceptance::a12(opencl, 100));
}

#[test]
fn a18_stream_scopes() {
    on_opencl(acceptance::a18);
}

#[test]
fn a20_events_10000_times() {
    on_opencl(|opencl| acceptance::a20(opencl, 10_000));
}

/// While one stream copies eight times 128 MiB, another begins and ends a copy of its own, by the device's clock.
#[test]
fn two_streams_overlap() {
    const LONG: u64 = 128 << 20;
    const SHORT: u64 = 1 << 20;
    let Some(runtime) = runtime() else { return };
    let device = device(&runtime);
    let cores = std::thread::available_parallelism().unwrap().get();
    if cores < 2 || !device.capability(Capability::Timing) {
        eprintln!("SKIPPED: one core cannot do two things at once");
        return;
    }
    let pair = |bytes| [device.alloc(bytes).unwrap(), device.alloc(bytes).unwrap()];
    let (long, short) = (pair(LONG), pair(SHORT));
    let copy = |pair: &[Buffer; 2], bytes, stream: &Stream| {
        let (to, from) = (Place::buffer(&pair[0], 0), Place::buffer(&pair[1], 0));
        stream.copy(&Copy::new(to, from, bytes)).unwrap();
    };
    let streams = [Stream::new(&device).unwrap(), Stream::new(&device).unwrap()];
    for buffer in long.iter().chain(&short) {
        buffer.fill(&streams[0], 1_u32).unwrap();
    }
    device.synchronize().unwrap();
    let timed = || Event::with_timing(&device).unwrap();
    let (begin, end, inner_begin, inner_end) = (timed(), timed(), timed(), timed());
    begin.record(&streams[0]).unwrap();
    for _ in 0..8 {
        copy(&long, LONG, &streams[0]);
    }
    end.record(&streams[0]).unwrap();
    inner_begin.record(&streams[1]).unwrap();
    copy(&short, SHORT, &streams[1]);
    inner_end.record(&streams[1]).unwrap();
    device.synchronize().unwrap();
    let (before, after) = (
        begin.elapsed_ns(&inner_begin).unwrap(),
        inner_end.elapsed_ns(&end).unwrap(),
    );
    eprintln!("the short copy began {before} ns after the long ones and ended {after} ns before them");
    assert!(before > 0 && after > 0, "{before} ns, {after} ns");
}

/// A buffer of the OpenCL device and one of the CPU's, with the host's memory between them where they do not share it.
#[test]
fn beside_the_cpu_in_one_process() {
    let Some(runtime) = runtime() else { return };
    let (opencl, cpu) = (
        device(&runtime),
        runtime
            .backend("cpu")
            .unwrap()
            .open(&DeviceOptions::new(0))
            .unwrap(),
    );
    let data: Vec<f32> = (0..50_000_u16).map(f32::from).collect();
    let text = "kernel double outer=1 inner=0\np0 in f32 row contiguous\np1 out f32 row contiguous\n\
                n0 = load p0\nn1 = add n0 n0\nn2 = store p1 n1\n";
    let kernel = ir::Kernel::parse(text).unwrap();
    let double = |device: &Device, data: &[f32]| {
        let stream = device.default_stream().unwrap();
        let x = Buffer::from_slice(&stream, data).unwrap();
        let y = device.alloc(x.size()).unwrap();
        let kernel = Kernel::compile(device, &kernel).unwrap();
        stream
            .launch(&Launch::new(&kernel, &[data.len() as u64], &[x.arg(), y.arg()]))
            .unwrap();
        (y, stream)
    };
    let (here, on_opencl) = double(&opencl, &data);
    let (there, on_cpu) = double(&cpu, &here.download(&on_opencl).unwrap());
    let found: Vec<f32> = there.download(&on_cpu).unwrap();
    assert!(found.iter().zip(&data).all(|(found, x)| *found == 4.0 * x));
    // Without a copy: the CPU's memory as a buffer of the OpenCL device.
    if opencl.capability(Capability::Import) {
        let memory = there.map().unwrap();
        // SAFETY: the CPU's buffer outlives the import, and the CPU does nothing with it meanwhile.
        let shared = unsafe {
            Buffer::import(
                &opencl,
                memory.as_ptr().cast(),
                there.size(),
                None,
                std::ptr::null_mut(),
            )
        }
        .unwrap();
        let seen: Vec<f32> = shared.download(&on_opencl).unwrap();
        assert_eq!(seen, found);
    }
}
