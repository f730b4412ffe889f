//! Every op against stored values of PyTorch (`tests/data/ops`), eagerly, recorded and compiled, with gradients.
#![allow(clippy::unwrap_used, reason = "a test")]

mod case;
mod dispatch;
mod f8;
mod images;
mod isa;
mod judge;
#[path = "../plugins/mod.rs"]
mod plugins;
mod precision;
#[path = "../reports/mod.rs"]
mod reports;
mod values;

use case::Case;
use judge::{Subject, judge};
use std::sync::Mutex;
use thalweg::hal::{DeviceOptions, Runtime, Status};
use thalweg::loader::{LoaderOptions, Registry};
use thalweg::ops::NamedOp;
use thalweg::{Context, DType, Device, Mode};

const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

/// Runs the cases of a file and reports all that fail.
#[track_caller]
fn run(file: &str, subject: &Subject) {
    let cases = Case::read(file);
    let mut failures = Vec::new();
    let mut judged = 0;
    for (at, case) in cases.iter().enumerate() {
        for dtype in FLOATS.into_iter().filter(|&dtype| case.is_for(dtype)) {
            if !(subject.takes)(at, dtype) {
                continue;
            }
            judged += 1;
            if let Err(failure) = judge(case, dtype, subject) {
                failures.push(format!(
                    "case {at} of {file}.txt, {dtype}: {}\n    {failure}",
                    case.header
                ));
            }
        }
    }
    assert!(judged > 0, "no cases in {file}");
    assert!(
        failures.is_empty(),
        "{} of {judged} fail\n{}",
        failures.len(),
        failures.join("\n")
    );
}

fn on_cpu(file: &str) {
    let subject = Subject {
        eager: Context::new("cpu").unwrap(),
        recorded: Context::new("cpu").unwrap(),
        gradients: true,
        takes: |_, _| true,
        nans: true,
    };
    subject.recorded.set_mode(Mode::Graph);
    run(file, &subject);
}

/// A part of the cases on a backend under the layer `validate`, which finds nothing.
fn on_validated(file: &str, device: Option<Device>, gradients: bool, takes: fn(usize, DType) -> bool) {
    let Some(device) = device else { return };
    let subject = Subject {
        eager: Context::on(device.clone()),
        recorded: Context::on(device),
        gradients,
        takes,
        nans: true,
    };
    subject.recorded.set_mode(Mode::Graph);
    run(file, &subject);
    drop(subject);
    let logged = reports::take();
    assert!(logged.is_empty(), "{logged:?}");
}

/// The options of a loader whose backends are under the layer, and whose reports are collected.
fn validated() -> LoaderOptions {
    reports::collect();
    LoaderOptions {
        layers: vec!["validate".into()],
        use_environment: false,
        ..LoaderOptions::default()
    }
}

fn on_validated_cpu(file: &str) {
    let device = Runtime::new(Registry::new(validated())).device("cpu").unwrap();
    on_validated(file, Some(device), true, |at, dtype| {
        at % 4 == 1 && dtype == DType::F32
    });
}

fn on_validated_reference(file: &str) {
    let folder = plugins::built("thalweg_reference").parent().unwrap().to_owned();
    let options = LoaderOptions {
        folders: vec![folder],
        ..validated()
    };
    let device = Runtime::new(Registry::new(options)).device("reference").unwrap();
    on_validated(file, Some(device), false, |at, dtype| {
        at % 8 == 1 && dtype == DType::F32
    });
}

fn on_validated_opencl(file: &str) {
    let device = opencl_device("interpreted", validated());
    on_validated(file, device, true, |at, dtype| at % 8 == 1 && dtype == DType::F32);
}

fn reference() -> Context {
    plugins::built("thalweg_reference");
    Context::new("reference").unwrap()
}

/// The interpreter is slow: it runs without gradients.
fn on_reference(file: &str) {
    let subject = Subject {
        eager: reference(),
        recorded: reference(),
        gradients: false,
        takes: |_, _| true,
        nans: true,
    };
    subject.recorded.set_mode(Mode::Graph);
    run(file, &subject);
}

/// Every case, with one program of the device that interprets all kernels: a program for each would take PoCL more than an hour.
fn on_opencl(file: &str) {
    opencl(file, "interpreted", |_, _| true);
}

/// A sample of the cases with a program for each kernel, and library ops.
fn on_opencl_compiled(file: &str) {
    opencl(file, "compiled", |at, dtype| at % 16 == 3 && dtype == DType::F32);
}

/// The first OpenCL device, if there is one.
fn opencl_device(kernels: &str, options: LoaderOptions) -> Option<Device> {
    let folder = plugins::built("thalweg_opencl").parent().unwrap().to_owned();
    let options = LoaderOptions {
        folders: vec![folder],
        ..options
    };
    let runtime = Runtime::new(Registry::new(options));
    let opened = {
        // Settings are the process's, and read when a device is opened.
        static SETTINGS: Mutex<()> = Mutex::new(());
        let _alone = SETTINGS.lock();
        thalweg::host::set_config("opencl.kernels", Some(kernels));
        thalweg::host::set_config("opencl.tune", Some("off"));
        runtime.backend("opencl").unwrap().open(&DeviceOptions::new(0))
    };
    match opened {
        Ok(device) => Some(device),
        Err(error) if error.status() == Status::Unavailable => {
            plugins::skip::skip("opencl", error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn opencl(file: &str, kernels: &str, takes: fn(usize, DType) -> bool) {
    let Some(device) = opencl_device(kernels, LoaderOptions::default()) else {
        return;
    };
    let subject = Subject {
        eager: Context::on(device.clone()),
        recorded: Context::on(device),
        gradients: true,
        takes,
        nans: true,
    };
    subject.recorded.set_mode(Mode::Graph);
    run(file, &subject);
}

/// A context on the target that `THALWEG_TEST_TARGET` names, or else on the first CUDA device, if there is one.
fn chosen() -> Option<Context> {
    if let Ok(target) = std::env::var("THALWEG_TEST_TARGET") {
        return Some(Context::new(&target).unwrap());
    }
    plugins::built("thalweg_cuda");
    match Context::new("cuda") {
        Ok(cx) => Some(cx),
        Err(error)
            if error.status() == Some(Status::Unavailable)
                || matches!(
                    error,
                    thalweg::Error::Runtime(
                        thalweg::runtime::Error::NoSuchTarget { .. }
                            | thalweg::runtime::Error::NoSuchDevice { count: 0, .. }
                    )
                ) =>
        {
            plugins::skip::skip("cuda", error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn on_chosen(file: &str) {
    let Some(eager) = chosen() else { return };
    let recorded = Context::on(eager.device().clone());
    let subject = Subject {
        eager,
        recorded,
        gradients: true,
        takes: |_, _| true,
        nans: false,
    };
    subject.recorded.set_mode(Mode::Graph);
    run(file, &subject);
}

macro_rules! files {
    ($($name:ident)*) => {
        mod opencl { $(#[test] fn $name() { super::on_opencl(stringify!($name)); })* }
        mod opencl_compiled { $(#[test] fn $name() { super::on_opencl_compiled(stringify!($name)); })* }
        mod cpu { $(#[test] fn $name() { super::on_cpu(stringify!($name)); })* }
        mod validated { $(#[test] fn $name() { super::on_validated_cpu(stringify!($name)); })* }
        mod validated_reference { $(#[test] fn $name() { super::on_validated_reference(stringify!($name)); })* }
        mod validated_opencl { $(#[test] fn $name() { super::on_validated_opencl(stringify!($name)); })* }
        mod chosen { $(#[test] fn $name() { super::on_chosen(stringify!($name)); })* }
        mod isas { $(#[test] fn $name() { crate::isa::on_each(stringify!($name)); })* }
        mod reference { $(#[test] fn $name() { super::on_reference(stringify!($name)); })* }
    };
}

/// An op in the table of names has values of PyTorch.
#[test]
fn every_op_of_the_registry_has_a_stored_case() {
    let stored: Vec<Case> = ["unary", "binary"]
        .iter()
        .flat_map(|file| Case::read(file))
        .collect();
    let lacks = |op: &&NamedOp| stored.iter().all(|case| case.name != op.name());
    let lacking: Vec<&str> = NamedOp::all().filter(lacks).map(NamedOp::name).collect();
    assert!(lacking.is_empty(), "no stored case: {lacking:?}");
}

files! { attention binary convolution indexed linalg loss norm pool quantized reduction shape unary }
