//! What `thalweg devices` says where OpenCL is missing in one way or another.
#![allow(clippy::unwrap_used, reason = "a test")]

mod place;

use place::{Place, mode};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The OpenCL plugin of this build, in the place's folder.
fn installed() -> Place {
    let place = Place::new();
    let file = place::plugins::built("thalweg_opencl");
    place.write("plugins/libthalweg_opencl.so", std::fs::read(file).unwrap());
    place
}

/// The rows about OpenCL under these settings, and how long the command took when it knew the file already.
fn rows(place: &Place, settings: &[(&str, &str)]) -> (Vec<String>, Duration) {
    let plugins = place.plugins();
    let run = || {
        let start = Instant::now();
        let mut command = place.command(&["devices", "--backend-path", &plugins]);
        command.envs(settings.iter().copied());
        (place.finish(&mut command), start.elapsed())
    };
    run();
    let (run, time) = run();
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{}", run.out);
    let rows = run.out.lines().filter(|line| line.starts_with("opencl"));
    (rows.map(str::to_owned).collect(), time)
}

#[track_caller]
fn one_row(place: &Place, settings: &[(&str, &str)], expected: &[&str]) {
    let (rows, time) = rows(place, settings);
    let [row] = &rows[..] else {
        panic!("not one row: {rows:#?}");
    };
    for part in expected {
        assert!(row.contains(part), "{row}");
    }
    // Twenty times what it takes, as other tests run beside this one. The crate `ocl` tries for ten seconds.
    assert!(time < Duration::from_secs(1), "{time:?}");
}

/// A library built from a file of `tests/plugins/opencl`.
fn library(place: &Place, source: &str, to: &str) -> PathBuf {
    let file = place.path(to);
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/plugins/opencl")
        .join(source);
    let run = Command::new("cc")
        .args([
            "-std=c11",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-shared",
            "-fPIC",
            "-fvisibility=hidden",
            "-o",
        ])
        .args([&file, &source])
        .output()
        .unwrap_or_else(|error| panic!("this test needs the compiler `cc`: {error}"));
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    file
}

/// Whether this machine has an OpenCL loader, without which there is no vendor to be asked.
fn has_loader() -> bool {
    // SAFETY: the system's library.
    let found = unsafe { libloading::Library::new("libOpenCL.so.1") }.is_ok();
    if !found {
        place::plugins::skip::skip("opencl", "there is no libOpenCL.so.1");
    }
    found
}

#[test]
fn no_loader() {
    let place = installed();
    one_row(
        &place,
        &[("THALWEG_OPENCL_LIBRARY", "/nowhere/libOpenCL.so.1")],
        &["opencl  not available: /nowhere/libOpenCL.so.1 was not found; install an OpenCL loader"],
    );
}

#[test]
fn a_loader_that_is_none() {
    let place = installed();
    let empty = place.write("empty.c", "int nothing;\n");
    let file = place.path("libempty.so");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&file, &empty])
        .status()
        .unwrap();
    assert!(built.success());
    one_row(
        &place,
        &[("THALWEG_OPENCL_LIBRARY", file.to_str().unwrap())],
        &["not available: the OpenCL loader has no clGetPlatformIDs; version 1.2 or later is needed"],
    );
}

#[test]
fn a_loader_without_a_vendor() {
    if !has_loader() {
        return;
    }
    let place = installed();
    std::fs::create_dir(place.path("vendors")).unwrap();
    one_row(
        &place,
        &[("OCL_ICD_VENDORS", place.path("vendors").to_str().unwrap())],
        &["not available: the OpenCL loader knows no driver; install the one of your device"],
    );
}

/// The loader with the fake vendor alone.
fn with_vendor(devices: &str, expected: &[&str]) {
    if !has_loader() {
        return;
    }
    let place = installed();
    let vendor = library(&place, "vendor.c", "libvendor.so");
    std::fs::create_dir(place.path("vendors")).unwrap();
    mode(&place.path("vendors"), 0o755);
    place.write("vendors/fake.icd", format!("{}\n", vendor.display()));
    let vendors = place.path("vendors");
    one_row(
        &place,
        &[
            ("OCL_ICD_VENDORS", vendors.to_str().unwrap()),
            ("FAKE_DEVICES", devices),
        ],
        expected,
    );
}

#[test]
fn a_vendor_without_a_device() {
    with_vendor(
        "0",
        &["not available: no OpenCL device: Fake platform has no device"],
    );
}

#[test]
fn a_device_without_a_compiler() {
    with_vendor(
        "1",
        &[
            "opencl:0",
            "Fake device on Fake platform: its driver has no compiler for OpenCL C",
        ],
    );
}
