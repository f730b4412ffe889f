//! Programs: as graphs of the driver, node by node where there is no graph of them, and with faults.

use super::{device, says, standin, works};
use std::ffi::{CStr, c_char};
use std::time::{Duration, Instant};
use thalweg::hal::{Status, Stream};
use thalweg::{Context, DType, Tensor, jit};

const OUT_OF_MEMORY: u32 = 2;
const ECC_UNCORRECTABLE: u32 = 214;
const ILLEGAL_ADDRESS: u32 = 700;
pub(super) const LAUNCH_OUT_OF_RESOURCES: u32 = 701;

/// What the stand-in counts for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    kernels: i32,
    pub(super) graphs: i32,
    pub(super) instantiated: i32,
    changed: i32,
}

fn library() -> libloading::Library {
    // SAFETY: the stand-in, which this process has loaded.
    unsafe { libloading::Library::new(standin().join("libcuda.so.1")).unwrap() }
}

pub(super) fn counts(device: i32) -> Counts {
    let library = library();
    // SAFETY: the function has this type.
    let count = unsafe { library.get::<unsafe extern "C" fn(i32, i32) -> i32>(b"standin_count") }.unwrap();
    // SAFETY: as above.
    let count = |what| unsafe { count(device, what) };
    Counts {
        kernels: count(0),
        graphs: count(1),
        instantiated: count(2),
        changed: count(3),
    }
}

/// Lets the next `times` calls of a function on a device return a code; `kernel` is one that runs.
pub(super) fn let_fail(device: i32, call: &CStr, code: u32, times: i32) {
    let library = library();
    // SAFETY: the function has this type, and the text lives through the call.
    unsafe {
        let fault = library.get::<unsafe extern "C" fn(i32, *const c_char, u32, i32)>(b"standin_fault");
        fault.unwrap()(device, call.as_ptr(), code, times);
    }
}

/// Branches of products, of reductions in several passes with scratch memory, of maps and of fills, and what waits for them.
pub(super) fn branches(x: &Tensor, long: &Tensor) -> Vec<Tensor> {
    let cx = x.context().unwrap();
    let products: Vec<Tensor> = (1..4_u8).map(|k| (x * f32::from(k)).matmul(x)).collect();
    let sums: Vec<Tensor> = (1..4_u8).map(|k| (long + f32::from(k)).square().sum()).collect();
    let ones = Tensor::full([50], 1.5_f64, cx);
    let mut outputs = vec![
        &products[0] + &products[1].matmul(&products[2]),
        &sums[0] * &sums[1],
        ones,
    ];
    outputs.extend(products);
    outputs.extend(sums);
    outputs
}

/// Whole numbers, small enough that no order of sums rounds.
fn inputs(round: usize, cx: &Context) -> (Tensor, Tensor) {
    let values = |count: usize| -> Vec<f32> {
        let value = |i: usize| ((i * 37 + round * 11) % 101 % 5) as f32 - 2.0;
        (0..count).map(value).collect()
    };
    (
        Tensor::from_slice(&values(24 * 24), [24, 24], cx),
        Tensor::from_slice(&values(20_000), [20_000], cx),
    )
}

fn bits(outputs: &[Tensor]) -> Vec<Vec<u64>> {
    let bits = |output: &Tensor| -> Vec<u64> {
        let wide = output.cast(DType::F64).to_vec::<f64>().unwrap();
        wide.iter().map(|x| x.to_bits()).collect()
    };
    outputs.iter().map(bits).collect()
}

/// One graph a run, which changes where memory does and not at all in the long run, with the values of the ops one by one.
#[test]
fn a_program_is_one_graph() {
    let cx = Context::on(device(6));
    let run = jit(branches);
    let (x, long) = inputs(0, &cx);
    let expected = bits(&branches(&x, &long));
    let before = counts(6);
    assert_eq!(before.graphs, 0, "single ops");
    const RUNS: i32 = 60;
    let mut changed = 0;
    for round in 1..=RUNS {
        drop(run.call((&x, &long)));
        let now = counts(6);
        assert_eq!((now.graphs, now.kernels), (round, before.kernels));
        assert!(now.instantiated <= 4, "{now:?}");
        // The pool hands the same buffers out in turns.
        assert!(round < RUNS - 10 || now.changed == changed, "{now:?}");
        changed = now.changed;
    }
    for _ in 0..3 {
        assert_eq!(bits(&run.call((&x, &long))), expected);
    }
    assert_eq!(counts(6).graphs, RUNS + 3);
}

/// Runs with other memory, all under way at once, on two streams; products and sums take their addresses and scratch memory
/// from each.
#[test]
fn runs_under_way_keep_what_they_were_given() {
    let device = device(7);
    let cx = Context::on(device.clone());
    let streams = [Stream::new(&device).unwrap(), Stream::new(&device).unwrap()];
    let run = jit(branches);
    let given: Vec<_> = (0..4).map(|round| inputs(round, &cx)).collect();
    let expected: Vec<_> = given.iter().map(|(x, long)| bits(&branches(x, long))).collect();
    let mut made = Vec::new();
    for round in 0..40 {
        let _on = streams[round % 2].enter();
        let (x, long) = &given[round / 2 % 4];
        made.push((round / 2 % 4, run.call((x, long))));
    }
    let now = counts(7);
    assert_eq!(now.graphs, 40);
    assert!(now.changed > 0 && now.instantiated <= 4, "{now:?}");
    for (which, outputs) in &made {
        assert_eq!(bits(outputs), expected[*which], "inputs {which}");
    }
    device.status().unwrap();
}

/// Sorts that go through scratch memory, and one that does not.
fn orders(x: &Tensor, long: &Tensor) -> Vec<Tensor> {
    let (long, mut outputs) = (&long.narrow(0, 100, 4500), Vec::new());
    for k in 1..4_u8 {
        let (values, places) = (long * f32::from(k)).sort_with_indices(0, k == 2);
        outputs.extend([values, places]);
    }
    outputs.extend([
        long.cast(DType::I64).argsort(0, true),
        x.sort_with_indices(0, false).1,
    ]);
    outputs
}

/// Side by side in one graph, each with scratch memory that no other touches, on two streams and with changing memory, sorts give
/// what they give on the CPU, one by one or not.
#[test]
fn sorts_side_by_side() {
    let device = device(12);
    let cx = Context::on(device.clone());
    let cpu = Context::on(super::runtime().device("cpu").unwrap());
    let streams = [Stream::new(&device).unwrap(), Stream::new(&device).unwrap()];
    let expected: Vec<_> = (0..3)
        .map(|round| {
            let (x, long) = inputs(round, &cpu);
            bits(&orders(&x, &long))
        })
        .collect();
    let given: Vec<_> = (0..3).map(|round| inputs(round, &cx)).collect();
    for ((x, long), expected) in given.iter().zip(&expected) {
        assert_eq!(bits(&orders(x, long)), *expected, "one by one");
    }
    let run = jit(orders);
    let mut made = Vec::new();
    for round in 0..8 {
        let _on = streams[round % 2].enter();
        let (x, long) = &given[round / 2 % 3];
        made.push((round / 2 % 3, run.call((x, long))));
    }
    let now = counts(12);
    assert_eq!(now.graphs, 8);
    assert!(now.changed > 0, "{now:?}");
    for (which, outputs) in &made {
        assert_eq!(bits(outputs), expected[*which], "inputs {which}");
    }
    device.status().unwrap();
}

/// Without memory for a graph the nodes go one by one, and later runs are graphs again.
#[test]
fn a_graph_that_cannot_be_made() {
    let cx = Context::on(device(8));
    let (x, long) = inputs(1, &cx);
    let expected = bits(&branches(&x, &long));
    for (call, code) in [
        (c"cuGraphInstantiate", OUT_OF_MEMORY),
        (c"cuGraphLaunch", OUT_OF_MEMORY),
        (c"cuStreamBeginCapture", LAUNCH_OUT_OF_RESOURCES),
    ] {
        let run = jit(branches);
        let before = counts(8);
        let_fail(8, call, code, 1);
        let outputs = run.call((&x, &long));
        let now = counts(8);
        assert_eq!(now.graphs, before.graphs, "{call:?}");
        assert!(now.kernels > before.kernels, "{call:?}");
        assert_eq!(bits(&outputs), expected, "{call:?}");
        for _ in 0..70 {
            run.call((&x, &long));
        }
        assert!(counts(8).graphs > before.graphs, "{call:?}");
        assert_eq!(bits(&run.call((&x, &long))), expected, "{call:?}");
    }
    // A change that the driver refuses costs a new graph.
    let run = jit(branches);
    let first = run.call((&x, &long));
    let before = counts(8);
    let_fail(8, c"cuGraphExecKernelNodeSetParams", 1, 1);
    let second = run.call((&x, &long));
    let now = counts(8);
    assert_eq!(
        (now.graphs, now.instantiated),
        (before.graphs + 1, before.instantiated + 1)
    );
    assert_eq!((bits(&first), bits(&second)), (expected.clone(), expected));
}

/// What neither a graph nor its nodes can do is an error of the run.
#[test]
fn a_program_that_is_refused() {
    let cx = Context::on(device(9));
    let (x, long) = inputs(2, &cx);
    let expected = bits(&branches(&x, &long));
    let run = jit(branches);
    // Once while what follows a product is captured, once for a node alone.
    let_fail(9, c"cuLaunchKernel", LAUNCH_OUT_OF_RESOURCES, 2);
    let error = run.call((&x, &long))[0].to_vec::<f32>().unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("cuLaunchKernel returned CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)"),
        "{text}"
    );
    assert_eq!(bits(&run.call((&x, &long))), expected);
}

/// A node that faults while it runs: the error names the program's ops, and the device is lost from then on.
#[test]
fn a_node_that_faults() {
    for (ordinal, code, status, name) in [
        (
            10,
            ILLEGAL_ADDRESS,
            Status::LaunchFailed,
            "CUDA_ERROR_ILLEGAL_ADDRESS (700)",
        ),
        (
            11,
            ECC_UNCORRECTABLE,
            Status::DeviceLost,
            "CUDA_ERROR_ECC_UNCORRECTABLE (214)",
        ),
    ] {
        let device = device(ordinal);
        let cx = Context::on(device.clone());
        let (x, long) = inputs(2, &cx);
        bits(&branches(&x, &long));
        let stream = cx.stream().unwrap();
        stream.synchronize().unwrap();
        let run = jit(branches);
        let_fail(ordinal as i32, c"kernel", code, 1);
        let outputs = run.call((&x, &long));
        let start = Instant::now();
        let error = loop {
            match stream.synchronize() {
                Err(error) => break error,
                Ok(()) => assert!(start.elapsed() < Duration::from_secs(10), "no error"),
            }
        };
        says(&error, status, &["matmul", name]);
        says(
            &device.status().unwrap_err(),
            Status::DeviceLost,
            &["start the process anew"],
        );
        let later = run.call((&x, &long))[0].to_vec::<f32>().unwrap_err().to_string();
        assert!(later.contains("start the process anew"), "{later}");
        drop((outputs, stream, run, x, long, cx, device));
        works(&super::device(0));
    }
}
