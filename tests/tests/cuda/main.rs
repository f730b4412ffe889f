//! The CUDA backend over a stand-in for its libraries (`tests/plugins/cuda`; no GPU is behind it): acceptance rows, faults,
//! copies of every way, and what is left when all is closed.
#![allow(clippy::unwrap_used, reason = "a test")]

mod activity;
mod copies;
mod halves;
mod matrix;
#[path = "../plugins/mod.rs"]
mod plugins;
mod products;
mod profile;
mod programs;

use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use thalweg::hal::{
    Backend, Buffer, Device, DeviceOptions, Error, Event, Graph, Kernel, Launch, Node, ProfileKinds, Runtime,
    Status, Stream, Tag, ir,
};
use thalweg::host::set_config;
use thalweg::loader::{LoaderOptions, Registry};
use thalweg_conformance::acceptance::{self, Failure, Outcome};

/// Set for a process whose cuBLASLt does not tell which algorithms take a bias.
const UNCHECKED: &str = "THALWEG_TEST_UNCHECKED";

/// The folder of the stand-in, which the backend is told of.
fn standin() -> &'static Path {
    static FOLDER: OnceLock<std::path::PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| match std::env::var_os(UNCHECKED) {
        None => plugins::cuda_standin("cuda_standin", &[]),
        Some(_) => plugins::cuda_standin("cuda_unchecked", &["-DSTANDIN_WITHOUT_CHECK"]),
    });
    let cache = folder.join("cache");
    set_config("cuda.libraries", folder.to_str());
    set_config("cuda.cache", cache.to_str());
    folder
}

fn runtime() -> Runtime {
    standin();
    let options = LoaderOptions {
        folders: vec![plugins::built("thalweg_cuda").parent().unwrap().to_owned()],
        ..LoaderOptions::default()
    };
    Runtime::new(Registry::new(options))
}

fn cuda() -> Backend {
    runtime().backend("cuda").unwrap()
}

/// A device of the stand-in; a test that breaks one takes a number of its own.
fn device(ordinal: u32) -> Device {
    cuda().open(&DeviceOptions::new(ordinal)).unwrap()
}

#[track_caller]
fn met(outcome: Outcome) {
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// A row on the CUDA backend.
#[track_caller]
fn on_cuda(row: impl Fn(&Backend) -> Outcome) {
    met(runtime()
        .backend("cuda")
        .map_err(Failure::from)
        .and_then(|cuda| row(&cuda)));
}

#[test]
fn a1_allocated_and_peak() {
    on_cuda(acceptance::a1);
}

#[test]
fn a2_a3_figures_and_summary() {
    on_cuda(acceptance::a2_and_a3);
}

#[test]
fn a5_is_initialized() {
    met(acceptance::a5(&runtime(), "cuda"));
}

#[test]
fn a6_wrong_questions() {
    met(acceptance::a6(&runtime(), "cuda"));
}

#[test]
fn a12_out_of_memory_and_on() {
    on_cuda(|cuda| acceptance::a12(cuda, 4));
}

#[test]
fn a18_stream_scopes() {
    on_cuda(acceptance::a18);
}

#[test]
fn a20_events_1000_times() {
    on_cuda(|cuda| acceptance::a20(cuda, 1000));
}

/// `y = x + x`; faults are asked for by name.
fn double(device: &Device, name: &str) -> Kernel {
    let text = format!(
        "kernel {name} outer=1 inner=0\np0 in f32 row contiguous\np1 out f32 row contiguous\n\
         n0 = load p0\nn1 = add n0 n0\nn2 = store p1 n1\n"
    );
    Kernel::compile(device, &ir::Kernel::parse(&text).unwrap()).unwrap()
}

fn run(stream: &Stream, kernel: &Kernel, tag: &str, x: &Buffer, y: &Buffer) -> Result<(), Error> {
    stream.launch(&Launch::new(kernel, &[x.size() / 4], &[x.arg(), y.arg()]).tag(Tag::new(tag)))
}

/// Eight ones, and room for as many.
fn operands(device: &Device, stream: &Stream) -> (Buffer, Buffer) {
    (
        Buffer::from_slice(stream, &[1.0_f32; 8]).unwrap(),
        device.alloc(32).unwrap(),
    )
}

#[track_caller]
fn says(error: &Error, status: Status, parts: &[&str]) {
    assert_eq!(error.status(), status, "{error}");
    for part in parts {
        assert!(error.to_string().contains(part), "`{part}` is not in: {error}");
    }
}

/// Work on a device that nothing is wrong with.
fn works(device: &Device) {
    let stream = Stream::new(device).unwrap();
    let (x, y) = operands(device, &stream);
    run(&stream, &double(device, "good"), "double", &x, &y).unwrap();
    assert_eq!(y.download::<f32>(&stream).unwrap(), [2.0; 8]);
}

#[test]
fn a_device_says_that_it_is_none() {
    let cuda = cuda();
    let properties = cuda.device_properties(0).unwrap();
    assert_eq!(properties.name, "stand-in (no GPU)");
    assert_eq!(properties.arch, "sm_90");
    assert_eq!(
        properties.id,
        "0000:a0:00.0 GPU-01010101-0101-0101-0101-010101010101"
    );
    works(&device(0));
}

#[test]
fn a_kernel_that_does_not_build() {
    let device = device(0);
    let stream = Stream::new(&device).unwrap();
    let (x, y) = operands(&device, &stream);
    let bad = double(&device, "fault_build");
    for _ in 0..2 {
        let error = run(&stream, &bad, "double", &x, &y).unwrap_err();
        let parts = [
            "fault_build",
            "does not build",
            "not_declared",
            "in line 1 of its source",
            "double",
        ];
        says(&error, Status::CompileFailed, &parts);
    }
    works(&device);
}

#[test]
fn a_launch_that_is_refused() {
    let device = device(0);
    let stream = Stream::new(&device).unwrap();
    let (x, y) = operands(&device, &stream);
    let error = run(&stream, &double(&device, "fault_resources"), "energy", &x, &y).unwrap_err();
    let parts = [
        "energy",
        "cuLaunchKernel returned CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)",
    ];
    says(&error, Status::LaunchFailed, &parts);
    stream.synchronize().unwrap();
    run(&stream, &double(&device, "good"), "after", &x, &y).unwrap();
    assert_eq!(y.download::<f32>(&stream).unwrap(), [2.0; 8]);
    device.status().unwrap();
}

#[test]
fn a_kernel_that_faults() {
    let device = device(1);
    let (stream, other) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let (x, y) = operands(&device, &stream);
    let (good, bad) = (double(&device, "good"), double(&device, "fault_address"));
    run(&stream, &good, "before", &x, &y).unwrap();
    stream.synchronize().unwrap();
    run(&stream, &bad, "energy", &x, &y).unwrap();
    let error = stream.synchronize().unwrap_err();
    // Reported once as what it is, by the stream it happened on, with the op that the user wrote.
    says(
        &error,
        Status::LaunchFailed,
        &[
            "energy",
            "CUDA_ERROR_ILLEGAL_ADDRESS (700)",
            "illegal memory access",
        ],
    );
    assert!(!error.to_string().contains("before"), "{error}");
    // From then on the device is lost, for every stream and every call.
    for error in [
        stream.synchronize().unwrap_err(),
        other.synchronize().unwrap_err(),
        device.status().unwrap_err(),
        run(&stream, &good, "after", &x, &y).unwrap_err(),
        device.alloc(1 << 31).unwrap_err(),
    ] {
        says(
            &error,
            Status::DeviceLost,
            &["stand-in (no GPU) does not work since", "(700)"],
        );
    }
    // Letting go of it all ends, and another device works.
    drop((stream, other, x, y, good, bad, device));
    works(&self::device(0));
}

/// Nothing goes on after a fault: whoever waits for work to be done is told so, with or without a limit.
#[test]
fn waiting_for_what_faulted_ends() {
    let device = device(5);
    let stream = Stream::new(&device).unwrap();
    let (x, y) = operands(&device, &stream);
    let bad = double(&device, "fault_address");
    stream.synchronize().unwrap();
    let event = Event::new(&device).unwrap();
    // Nothing reaches the device before all is submitted, so that no call finds the fault but those that wait.
    let (release, gate) = std::sync::mpsc::channel::<()>();
    stream
        .callback(move || {
            let _ = gate.recv();
        })
        .unwrap();
    run(&stream, &bad, "energy", &x, &y).unwrap();
    event.record(&stream).unwrap();
    release.send(()).unwrap();
    let start = Instant::now();
    while !stream.query().unwrap() {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "the stream is never idle"
        );
    }
    let error = event.wait_timeout(Duration::from_secs(20)).unwrap_err();
    assert_ne!(error.status(), Status::Timeout, "{error}");
    says(&error, error.status(), &["(700)"]);
    // Its memory is nobody's any more, and letting go of it waits for nothing.
    drop((stream, x, y, bad, event, device));
    works(&self::device(0));
}

#[test]
fn a_fault_among_several_names_them() {
    let device = device(3);
    let stream = Stream::new(&device).unwrap();
    let (x, y) = operands(&device, &stream);
    let (good, bad) = (double(&device, "good"), double(&device, "fault_address"));
    stream.synchronize().unwrap();
    // Nothing after it may reach the device before all is submitted.
    let (release, gate) = std::sync::mpsc::channel::<()>();
    stream
        .callback(move || {
            let _ = gate.recv();
        })
        .unwrap();
    run(&stream, &bad, "energy", &x, &y).unwrap();
    run(&stream, &good, "later", &x, &y).unwrap();
    release.send(()).unwrap();
    let error = stream.synchronize().unwrap_err();
    says(
        &error,
        Status::LaunchFailed,
        &["submissions after it", "cuda.blocking", "(700)"],
    );
}

#[test]
fn a_device_that_breaks() {
    let device = device(2);
    let stream = Stream::new(&device).unwrap();
    let (x, y) = operands(&device, &stream);
    device.status().unwrap();
    stream.synchronize().unwrap();
    run(&stream, &double(&device, "fault_ecc"), "double", &x, &y).unwrap();
    let error = stream.synchronize().unwrap_err();
    says(
        &error,
        Status::DeviceLost,
        &["double", "CUDA_ERROR_ECC_UNCORRECTABLE (214)"],
    );
    says(
        &device.status().unwrap_err(),
        Status::DeviceLost,
        &["start the process anew"],
    );
    drop((stream, x, y, device));
    works(&self::device(0));
}

#[test]
fn memory_of_the_device_runs_out() {
    let device = device(0);
    let total = device.mem_get_info().unwrap().total;
    let error = device.alloc(2 * total).unwrap_err();
    says(&error, Status::OutOfMemory, &[&(2 * total).to_string()]);
    let piece = 1 << 30;
    let mut held = Vec::new();
    let error = loop {
        match device.alloc(piece) {
            Ok(buffer) => held.push(buffer),
            Err(error) => break error,
        }
        assert!(held.len() as u64 <= total / piece + 1, "more than there is");
    };
    says(&error, Status::OutOfMemory, &["CUDA_ERROR_OUT_OF_MEMORY (2)"]);
    assert_eq!(device.memory_stats().unwrap().out_of_memory, 2);
    drop(held);
    device.alloc(piece).unwrap();
    drop(device);
    works(&self::device(0));
}

/// Runs one test in a process of its own, in which `variable` is set.
#[track_caller]
fn alone(test: &str, variable: &str) {
    let run = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(variable, "1")
        .output()
        .unwrap();
    eprint!("{}", String::from_utf8_lossy(&run.stderr));
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && text.contains("1 passed"), "{text}");
}

/// What the driver holds for us, by kind, as the stand-in counts it: in a process of its own, since tests beside this one hold
/// theirs.
#[test]
fn nothing_is_left_when_all_is_closed() {
    const ALONE: &str = "THALWEG_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return nothing_is_left();
    }
    alone("nothing_is_left_when_all_is_closed", ALONE);
}

fn nothing_is_left() {
    {
        let device = device(0);
        let stream = Stream::new(&device).unwrap();
        let (x, y) = operands(&device, &stream);
        let kernel = double(&device, "good");
        let arguments = [x.arg(), y.arg()];
        let launch = Launch::new(&kernel, &[8], &arguments);
        // As many nodes as make it a graph of the driver.
        let graph = Graph::new(&device, &[Node::new(launch, &[]); 4]).unwrap();
        graph.launch(&stream).unwrap();
        stream.callback(|| ()).unwrap();
        let profile = device.profile_start(ProfileKinds::ALL, 100).unwrap();
        graph.launch(&stream).unwrap();
        assert_eq!(profile.drain(&mut Vec::new()).unwrap(), 0);
        let (begin, end) = (Event::with_timing(&device).unwrap(), Event::new(&device).unwrap());
        begin.record(&stream).unwrap();
        end.record(&stream).unwrap();
        assert!(run(&stream, &double(&device, "fault_resources"), "refused", &x, &y).is_err());
        assert_eq!(y.download::<f32>(&stream).unwrap(), [2.0; 8]);
    }
    // SAFETY: the stand-in, which this process has loaded; the function has this type.
    let counts: Vec<i32> = unsafe {
        let library = libloading::Library::new(standin().join("libcuda.so.1")).unwrap();
        let live = library
            .get::<unsafe extern "C" fn(i32) -> i32>(b"standin_live")
            .unwrap();
        (0..9).map(|kind| live(kind)).collect()
    };
    // Memory, pinned and registered memory, streams, events, modules, graphs, executables, contexts.
    assert_eq!(counts, [0; 9]);
}
