//! Work that fails after it was accepted: what it may have written is refused, by whoever reads it, until it is computed again.

use crate::faults::{bits, open, ramp, rest};
use crate::{options, plugins, runtime};
use std::sync::mpsc;
use thalweg::hal::{Backend, Device, Runtime, Status};
use thalweg::loader::Registry;
use thalweg::{Context, DType, Mode, Result, Tensor, cond, jit, scan};

/// The OpenCL backend under the layer; none where the machine has no OpenCL device.
fn opencl() -> Option<Backend> {
    let folder = plugins::built("thalweg_opencl").parent().unwrap().to_owned();
    let runtime = Runtime::new(Registry::new(options(&["fault"], vec![folder])));
    let opencl = runtime.backend("opencl").unwrap();
    match opencl.device_count() {
        Ok(_) => Some(opencl),
        Err(error) if error.status() == Status::Unavailable => {
            plugins::skip::skip("opencl", error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A device without faults, and a value on it that is known to be good.
fn ready(backend: &Backend) -> (Device, Context, Tensor) {
    let device = open(backend, "");
    let cx = Context::on(device.clone());
    let x = &ramp([6, 5], &cx) * 1.0;
    bits(&x).unwrap();
    (device, cx, x)
}

/// What is submitted next fails later, and nothing after it.
fn next_fails(backend: &Backend) {
    drop(open(backend, "later@1"));
}

fn refused<T>(result: Result<T>) {
    let Err(error) = result else {
        panic!("a value beside failed work was read")
    };
    assert_eq!(error.status(), Some(Status::LaunchFailed), "{error}");
    let first = error.to_string().lines().next().unwrap().to_owned();
    assert!(
        first.contains("mul: made to fail by the layer fault (later@1)"),
        "{first}"
    );
    assert!(
        first.contains("compute it again, or load a checkpoint"),
        "{first}"
    );
}

#[test]
fn a_value_beside_failed_work_is_refused_until_it_is_computed_again() {
    refused_until_it_is_computed_again(&runtime(&["fault"]).backend("cpu").unwrap());
}

#[test]
fn a_value_beside_failed_work_is_refused_until_it_is_computed_again_on_opencl() {
    if let Some(backend) = opencl() {
        refused_until_it_is_computed_again(&backend);
    }
}

fn refused_until_it_is_computed_again(backend: &Backend) {
    let (device, cx, x) = ready(backend);
    let clean = bits(&(&x * 2.0)).unwrap();
    let step = jit(|x: &Tensor| (x + 1.0).softmax(1));
    step.call(&x).ok().unwrap();
    let sums = jit(|x: &Tensor| {
        scan(
            |sum: Tensor, row: Tensor| (&sum + row.sum(), sum),
            Tensor::zeros(1, DType::F32, x.context().unwrap()),
            x,
        )
    });
    let branch = jit(|x: &Tensor| cond(&x.sum().gt(0.0), |x: &Tensor| x * 2.0, |x: &Tensor| x.clone(), x));
    let good = (bits(&sums.call(&x).1).unwrap(), bits(&branch.call(&x)).unwrap());
    bits(&x).unwrap();
    next_fails(backend);
    let y = &x * 2.0;
    let beside = &x + 1.0;
    // Somebody is told who asked for no value.
    let told = device.synchronize().unwrap_err().to_string();
    assert!(told.contains("(later@1)"), "{told}");
    device.synchronize().unwrap();
    for _ in 0..2 {
        refused(bits(&y));
        refused(bits(&beside));
        refused((&y + 1.0).ok());
        refused(bits(&y.transpose(0, 1)));
        refused(bits(&y.reshape([5, 6])));
        refused(y.sum().item::<f32>());
        refused(step.call(&y).ok());
        refused(sums.call(&y).1.ok());
        refused(branch.call(&y).ok());
        refused(y.to(&cx).to_vec::<f32>());
        if backend.name() == "cpu" {
            refused(thalweg::interchange::dlpack::export(&y).map(drop));
        }
    }
    cx.set_mode(Mode::Graph);
    refused(bits(&(&y - 3.0).sum()));
    cx.set_mode(Mode::Eager);
    // What was there before is good, and so is what comes after.
    assert_eq!(bits(&(&x * 2.0)).unwrap(), clean);
    assert_eq!(
        (bits(&sums.call(&x).1).unwrap(), bits(&branch.call(&x)).unwrap()),
        good
    );
    drop((x, y, beside, cx, step, sums, branch));
    device.synchronize().unwrap();
    assert_eq!(rest(&device), (0, 0, 0));
}

/// Nothing that was computed can be wrong by a copy that was refused.
#[test]
fn a_refused_read_takes_no_trust() {
    let runtime = runtime(&["fault"]);
    let backend = runtime.backend("cpu").unwrap();
    let (_device, _cx, x) = ready(&backend);
    let y = &x * 2.0;
    drop(open(&backend, "submit@1"));
    assert!(bits(&y).unwrap_err().to_string().contains("(submit@1)"));
    bits(&y).unwrap();
}

/// The stream that a value was computed on is well, and one that it read from is not.
#[test]
fn a_failure_goes_with_values_from_stream_to_stream() {
    goes_from_stream_to_stream(&runtime(&["fault"]).backend("cpu").unwrap());
}

#[test]
fn a_failure_goes_with_values_from_stream_to_stream_on_opencl() {
    if let Some(backend) = opencl() {
        goes_from_stream_to_stream(&backend);
    }
}

fn goes_from_stream_to_stream(backend: &Backend) {
    let (device, _cx, x) = ready(backend);
    let streams = [0; 3].map(|_| device.create_stream().unwrap());
    let alone = {
        let _on = streams[2].enter();
        &x + 2.0
    };
    let y = {
        let _on = streams[0].enter();
        next_fails(backend);
        &x * 2.0
    };
    let z = {
        let _on = streams[1].enter();
        &y + 1.0
    };
    let sum = &z + &x;
    refused_or_told(bits(&sum));
    for value in [&y, &z, &sum] {
        refused(bits(value));
    }
    bits(&alone).unwrap();
    bits(&(&alone + &x)).unwrap();
}

/// The first to wait is told in the backend's words.
fn refused_or_told<T>(result: Result<T>) {
    let error = result.err().unwrap().to_string();
    assert!(
        error.contains("mul: made to fail by the layer fault (later@1)"),
        "{error}"
    );
}

/// The stream ends before anybody waits, and its error goes to the log.
#[test]
fn a_stream_that_ended_badly_is_remembered() {
    let runtime = runtime(&["fault"]);
    let backend = runtime.backend("cpu").unwrap();
    let (device, _cx, x) = ready(&backend);
    let stream = device.create_stream().unwrap();
    let y = {
        let _on = stream.enter();
        next_fails(&backend);
        &x * 2.0
    };
    let z = &y + 1.0;
    // Another scope takes the place of the stream that this thread chose last.
    drop((y, stream));
    let other = device.create_stream().unwrap();
    {
        let _on = other.enter();
        drop(&x + 1.0);
    }
    refused(bits(&z));
    bits(&x).unwrap();
}

/// Threads that wait at once: the one that is not told reads no wrong value.
#[test]
fn the_error_that_one_thread_is_told_holds_for_all() {
    let runtime = runtime(&["fault"]);
    let backend = runtime.backend("cpu").unwrap();
    let (device, _cx, x) = ready(&backend);
    for _ in 0..200 {
        next_fails(&backend);
        let y = &x * 2.0;
        let (tell, told) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let (device, tell) = (&device, tell.clone());
                scope.spawn(move || tell.send(device.synchronize().is_err()).unwrap());
            }
            refused_or_told(bits(&y));
        });
        drop(tell);
        assert!(told.iter().filter(|failed| *failed).count() <= 1);
        refused(bits(&y));
    }
}
