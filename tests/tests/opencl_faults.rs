//! Faults of an OpenCL driver: `tests/plugins/opencl/faults.c` stands between the backend and the machine's loader.
#![allow(clippy::unwrap_used, reason = "a test")]

mod plugins;

use std::sync::OnceLock;
use thalweg::hal::{Buffer, Device, DeviceOptions, Error, Kernel, Launch, Runtime, Status, Stream, Tag, ir};
use thalweg::host::set_config;
use thalweg::loader::{LoaderOptions, Registry};

/// A device behind the library with faults; none where the machine has no OpenCL device.
fn device() -> Option<Device> {
    static FAULTS: OnceLock<std::path::PathBuf> = OnceLock::new();
    let folder = plugins::built("thalweg_opencl").parent().unwrap().to_owned();
    let registry = |file: &std::path::Path| {
        let options = LoaderOptions {
            folders: vec![file.to_owned()],
            ..LoaderOptions::default()
        };
        Runtime::new(Registry::new(options)).backend("opencl").unwrap()
    };
    // Without a loader on this machine there is nothing to link with.
    if let Err(error) = registry(&folder).device_count() {
        assert_eq!(error.status(), Status::Unavailable, "{error}");
        plugins::skip::skip("opencl", error);
        return None;
    }
    let library = FAULTS.get_or_init(plugins::opencl_faults);
    set_config("opencl.library", library.to_str());
    set_config("opencl.cache", Some("off"));
    Some(registry(&folder).open(&DeviceOptions::new(0)).unwrap())
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

#[test]
fn a_kernel_that_does_not_build() {
    let Some(device) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    let (x, y) = (
        Buffer::from_slice(&stream, &[1.0_f32; 8]).unwrap(),
        device.alloc(32).unwrap(),
    );
    let bad = double(&device, "fault_build");
    for _ in 0..2 {
        let error = run(&stream, &bad, "double", &x, &y).unwrap_err();
        assert_eq!(error.status(), Status::CompileFailed);
        let text = error.to_string();
        for part in [
            "fault_build",
            "does not build",
            "not_declared",
            "in line 1 of its source",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(text.lines().next().unwrap().contains("double"), "{text}");
    }
    // The stream and the device are as good as before.
    run(&stream, &double(&device, "good"), "double", &x, &y).unwrap();
    assert_eq!(y.download::<f32>(&stream).unwrap(), [2.0; 8]);
}

#[test]
fn a_command_that_fails_on_the_device() {
    let Some(device) = device() else { return };
    let (stream, other) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let (x, y) = (
        Buffer::from_slice(&stream, &[1.0_f32; 8]).unwrap(),
        device.alloc(32).unwrap(),
    );
    let (good, bad) = (double(&device, "good"), double(&device, "fault_launch"));
    run(&stream, &good, "before", &x, &y).unwrap();
    run(&stream, &bad, "energy", &x, &y).unwrap();
    run(&stream, &bad, "later", &x, &y).unwrap();
    other.synchronize().unwrap();
    let error = stream.synchronize().unwrap_err();
    assert_eq!(error.status(), Status::LaunchFailed);
    let text = error.to_string();
    assert!(
        text.contains("energy") && text.contains("CL_OUT_OF_RESOURCES"),
        "{text}"
    );
    assert!(!text.contains("later"), "{text}");
    // It is reported once, and work goes on.
    stream.synchronize().unwrap();
    run(&stream, &good, "after", &x, &y).unwrap();
    assert_eq!(y.download::<f32>(&stream).unwrap(), [2.0; 8]);
}

#[test]
fn memory_of_the_device_runs_out() {
    let Some(device) = device() else { return };
    let total = device.mem_get_info().unwrap().total;
    let error = device.alloc(2 * total).unwrap_err();
    assert_eq!(error.status(), Status::OutOfMemory);
    assert!(error.to_string().contains(&(2 * total).to_string()), "{error}");
    // By and by, in pieces that fit: memory that nobody touches costs the machine nothing.
    let piece = 1 << 30;
    let mut held = Vec::new();
    let error = loop {
        match device.alloc(piece) {
            Ok(buffer) => held.push(buffer),
            Err(error) => break error,
        }
        assert!(held.len() as u64 <= total / piece + 1, "more than there is");
    };
    assert_eq!(error.status(), Status::OutOfMemory);
    assert_eq!(device.memory_stats().unwrap().out_of_memory, 2);
    drop(held);
    device.alloc(piece).unwrap();
}

#[test]
fn a_queue_that_is_gone() {
    let Some(device) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    let (x, y) = (
        Buffer::from_slice(&stream, &[1.0_f32; 8]).unwrap(),
        device.alloc(32).unwrap(),
    );
    device.status().unwrap();
    // From this launch on the driver answers that there is no such queue.
    run(&stream, &double(&device, "fault_lost"), "double", &x, &y).unwrap();
    let error = stream.synchronize().unwrap_err();
    assert_eq!(error.status(), Status::DeviceLost, "{error}");
    assert!(error.to_string().contains("CL_INVALID_COMMAND_QUEUE"), "{error}");
    assert_eq!(device.status().unwrap_err().status(), Status::DeviceLost);
    // Letting go of it all ends.
    drop((stream, x, y, device));
}
