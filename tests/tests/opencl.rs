//! The acceptance rows on the OpenCL backend, whole, and what only a device with queues of its own shows.
#![allow(clippy::unwrap_used, reason = "a test")]

mod plugins;
mod reports;

use thalweg::hal::{
    Backend, Buffer, Capability, Copy, Device, DeviceOptions, Event, Kernel, Launch, Place, ProfileFlag,
    ProfileKinds, Runtime, Status, Stream, ir,
};
use thalweg::host::set_config;
use thalweg::loader::{LoaderOptions, Registry};
use thalweg::{Context, DType, Tensor, jit};
use thalweg_conformance::acceptance::{self, Failure, Outcome};
use thalweg_hal::clock::now;

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
            plugins::skip::skip("opencl", error);
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
fn a7_a8_loops_and_their_gradients() {
    if let Some(runtime) = runtime() {
        met(acceptance::a7_and_a8(&device(&runtime)));
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
fn a14_convolution() {
    if let Some(runtime) = runtime() {
        met(acceptance::a14(&device(&runtime)));
    }
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
        plugins::skip::skip("machine", "one core cannot do two things at once");
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

/// Uploads overlap with energies on two streams: by turns in one run, the better of each.
#[test]
fn two_streams_are_not_slower() {
    // So many that what else the machine does leaves some rounds of each alone.
    const ROUNDS: usize = 28;
    let Some(runtime) = runtime() else { return };
    let opencl = runtime.backend(OPENCL).unwrap();
    let [plain, streams] = acceptance::plain_and_two_streams(&opencl, 50, ROUNDS).unwrap();
    eprintln!("plain {plain:?}, two streams {streams:?}");
    // A twentieth for the clock and for what else the machine does.
    assert!(
        streams <= plain + plain / 20,
        "plain {plain:?}, two streams {streams:?}"
    );
}

/// Random tensors of every distribution that takes no transcendental functions: the CPU's bits.
#[test]
fn random_bits_are_those_of_the_cpu() {
    let Some(runtime) = runtime() else { return };
    let cpu = runtime
        .backend("cpu")
        .unwrap()
        .open(&DeviceOptions::new(0))
        .unwrap();
    let drawn = |device: &Device| {
        let cx = Context::on(device.clone());
        cx.set_seed(7);
        let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        let mut streams = vec![bits(
            Tensor::rand([1000], DType::F32, &cx).to_vec::<f32>().unwrap(),
        )];
        streams.push(bits(
            Tensor::rand([7, 11], DType::F32, &cx).to_vec::<f32>().unwrap(),
        ));
        let integers = Tensor::randint(-5, 1000, [777], &cx).to_vec::<i64>().unwrap();
        streams.push(integers.into_iter().map(|value| value as u32).collect());
        let order = Tensor::randperm(100, &cx).to_vec::<i64>().unwrap();
        streams.push(order.into_iter().map(|value| value as u32).collect());
        streams
    };
    let (here, there) = (drawn(&device(&runtime)), drawn(&cpu));
    assert_eq!(here, there);
    // Normal numbers go through a logarithm and a cosine.
    let normal = |device: &Device| {
        let cx = Context::on(device.clone());
        cx.set_seed(7);
        Tensor::randn([1000], DType::F32, &cx).to_vec::<f32>().unwrap()
    };
    for (here, there) in normal(&device(&runtime)).into_iter().zip(normal(&cpu)) {
        assert!(
            (here - there).abs() <= 4.0 * f32::EPSILON * there.abs().max(1.0),
            "{here} {there}"
        );
    }
}

/// Sorts in scratch memory and without, several in one program, on two streams at once: the CPU's bits.
#[test]
fn sorts_are_those_of_the_cpu() {
    let Some(runtime) = runtime() else { return };
    let cpu = Context::on(runtime.device("cpu").unwrap());
    let here = device(&runtime);
    let cx = Context::on(here.clone());
    let inputs = |cx: &Context| {
        // Few values, so that equal ones have an order to keep; among them both zeros, and NaN.
        let value = |i: usize| match i * 37 % 101 {
            0 => -0.0,
            1 => f32::NAN,
            k => (k / 2) as f32 - 1.0,
        };
        let values: Vec<f32> = (0..30_000).map(value).collect();
        Tensor::from_slice(&values, [30_000], cx)
    };
    let orders = |x: &Tensor| {
        let (rising, places) = x.sort_with_indices(0, false);
        let (falling, others) = x.reshape([300, 100]).sort_with_indices(0, true);
        vec![
            rising,
            falling,
            x.sort(0, true),
            places,
            others,
            (x * 2.0).argsort(0, true),
        ]
    };
    let bits = |outputs: &[Tensor]| -> (Vec<Vec<u32>>, Vec<Vec<i64>>) {
        let values = |x: &Tensor| x.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect();
        (
            outputs[..3].iter().map(values).collect(),
            outputs[3..].iter().map(|x| x.to_vec().unwrap()).collect(),
        )
    };
    let expected = bits(&orders(&inputs(&cpu)));
    let x = inputs(&cx);
    assert_eq!(bits(&orders(&x)), expected, "one by one");
    let run = jit(orders);
    let streams = [Stream::new(&here).unwrap(), Stream::new(&here).unwrap()];
    let mut made = Vec::new();
    for round in 0..8 {
        let _on = streams[round % 2].enter();
        made.push(run.call(&x));
    }
    for outputs in &made {
        assert_eq!(bits(outputs), expected);
    }
}

/// PoCL offers as many devices as it is asked for, but only a process of its own can ask. (Not of its kind `basic`, which locks
/// itself up when a user event completes.)
#[test]
fn several_devices_at_once() {
    const ASKED: &str = "THALWEG_TEST_SEVERAL_DEVICES";
    if std::env::var_os(ASKED).is_some() {
        return several_devices();
    }
    if runtime().is_none() {
        return;
    }
    let run = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "several_devices_at_once", "--nocapture"])
        .envs([(ASKED, "1"), ("POCL_DEVICES", "pthread pthread pthread")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    eprint!("{said}");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
}

/// Tensors wander through every OpenCL device and the CPU, buffers between neighbours, and all devices work at the same time.
fn several_devices() {
    let Some(runtime) = runtime() else { return };
    let opencl = runtime.backend(OPENCL).unwrap();
    let count = opencl.device_count().unwrap();
    if count < 2 {
        plugins::skip::skip("machine", "this OpenCL driver offers one device");
        return;
    }
    let mut devices: Vec<Device> = (0..count)
        .map(|ordinal| opencl.open(&DeviceOptions::new(ordinal)).unwrap())
        .collect();
    devices.push(
        runtime
            .backend("cpu")
            .unwrap()
            .open(&DeviceOptions::new(0))
            .unwrap(),
    );
    let data: Vec<f32> = (0..100_000_u32).map(|i| (i % 1009) as f32).collect();
    let contexts: Vec<Context> = devices.iter().cloned().map(Context::on).collect();
    let mut x = Tensor::from_slice(&data, data.len(), &contexts[0]);
    let mut turns = 0;
    for cx in contexts.iter().chain(contexts.iter().rev()).chain(&contexts) {
        x = x.to(cx) + 1.0;
        turns += 1;
    }
    let found = x.to_vec::<f32>().unwrap();
    assert!(
        found
            .iter()
            .zip(&data)
            .all(|(found, x)| *found == x + turns as f32)
    );
    // From buffer to buffer, on the stream of either end.
    for (here, there) in devices[..count as usize]
        .iter()
        .zip(devices[1..count as usize].iter())
    {
        let (near, far) = (Stream::new(here).unwrap(), Stream::new(there).unwrap());
        let from = Buffer::from_slice(&near, &data).unwrap();
        let to = there.alloc(from.size()).unwrap();
        for (round, stream) in [&far, &near].into_iter().enumerate() {
            to.fill(&far, 0_u32).unwrap();
            far.synchronize().unwrap();
            near.synchronize().unwrap();
            let copy = Copy::new(Place::buffer(&to, 0), Place::buffer(&from, 0), from.size());
            stream.copy(&copy).unwrap();
            stream.synchronize().unwrap();
            assert_eq!(to.download::<f32>(&far).unwrap(), data, "round {round}");
        }
    }
    std::thread::scope(|threads| {
        for (index, cx) in contexts.iter().enumerate() {
            threads.spawn(move || {
                let x = Tensor::full([300, 300], index as f32, cx);
                for _ in 0..20 {
                    let product = x.matmul(&x).to_vec::<f32>().unwrap();
                    let expected = 300.0 * (index * index) as f32;
                    assert!(product.iter().all(|&x| x == expected), "device {index}");
                }
            });
        }
    });
    eprintln!("{count} OpenCL devices and the CPU");
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

/// Records by both ways in which the device's clock is read.
#[test]
fn times_are_the_hosts() {
    for clock in ["timer", "markers"] {
        set_config("opencl.clock", Some(clock));
        let Some(runtime) = runtime() else { return };
        let device = device(&runtime);
        let stream = Stream::new(&device).unwrap();
        let buffer = device.alloc(8 << 20).unwrap();
        buffer.fill(&stream, 0_u32).unwrap();
        stream.synchronize().unwrap();
        let profile = device.profile_start(ProfileKinds::WORK, 1000).unwrap();
        let (mut records, mut moments) = (Vec::new(), Vec::new());
        for round in 0..30 {
            let before = now();
            buffer.fill(&stream, round).unwrap();
            stream.synchronize().unwrap();
            moments.push((before, now()));
            if round % 10 == 5 {
                profile.drain(&mut records).unwrap();
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        profile.drain(&mut records).unwrap();
        records.sort_by_key(|record| record.start_ns);
        assert_eq!(records.len(), moments.len(), "{clock}");
        for (record, (before, after)) in records.iter().zip(moments) {
            // Markers tell when they were queued, to some microseconds.
            const APART: u64 = 200_000;
            assert_eq!(record.flags, ProfileFlag::Exact.bit());
            assert!(
                before < record.start_ns + APART,
                "{clock}: {record:?}, after {before}"
            );
            assert!(
                record.end_ns < after + APART,
                "{clock}: {record:?}, before {after}"
            );
            assert!(record.end_ns - record.start_ns > 10_000, "{clock}: {record:?}");
        }
    }
    set_config("opencl.clock", None);
}

/// A program that calls what is not declared is built a second time, which a warning says.
#[test]
fn programs_bring_their_declarations() {
    reports::collect();
    set_config("opencl.cache", Some("off"));
    if let Some(runtime) = runtime() {
        let cx = Context::on(device(&runtime));
        for dtype in [DType::F32, DType::F64, DType::BF16] {
            let x = Tensor::rand([32, 32], DType::F32, &cx).cast(dtype);
            let y = &x.exp().matmul(&x).softmax(1) + x.tanh().cumsum(0);
            let indices = y.argsort(0, false);
            assert_eq!(indices.to_vec::<i64>().unwrap().len(), 1024, "{dtype}");
        }
        assert_eq!(reports::take(), []);
    }
    set_config("opencl.cache", None);
}
