//! Where a bias is the library's, where it is a map's, and what a launch leaves that is refused half-way.

use super::super::programs::{LAUNCH_OUT_OF_RESOURCES, let_fail};
use super::*;
use std::ffi::CStr;

/// What the stand-in for cuBLASLt is told to refuse of biases.
const ATTRIBUTES: i32 = 1;
const QUEUED: i32 = 2;

/// Calls a function of the stand-in for cuBLASLt.
fn tell(function: &CStr, value: i32) {
    // SAFETY: the stand-in, which this process has loaded; the function has this type.
    unsafe {
        let library = libloading::Library::new(standin().join("libcublasLt.so.13")).unwrap();
        let function = library.get::<unsafe extern "C" fn(i32)>(function.to_bytes());
        function.unwrap()(value);
    }
}

impl Job {
    fn launch(&self, x: (&Buffer, &[i64]), out: &Buffer) -> Result<(), thalweg::hal::Error> {
        let args = self.args(x, (out, &WHOLE));
        self.stream.launch(&Launch::new(&self.kernel, &EXTENTS, &args))
    }
}

/// A plan that is known is asked for a bias when another device's context is current, or none is.
#[test]
fn a_bias_is_asked_for_where_the_product_is() {
    let other = Job::new(14);
    let values = (numbers(32, 4), numbers(24 * 32, 5));
    for in_a_thread in [false, true] {
        let job = Job::new(13);
        let expected = job.expected(|at| values.0[at % 32]);
        let bias = Buffer::from_slice(&job.stream, &values.0).unwrap();
        let whole = Buffer::from_slice(&job.stream, &values.1).unwrap();
        let out = job.device.alloc(24 * 32 * 4).unwrap();
        job.launch((&whole, &WHOLE), &out).unwrap();
        Buffer::from_slice(&other.stream, &values.0).unwrap();
        let launch = || {
            let before = counts();
            job.launch((&bias, &BIAS), &out).unwrap();
            counts() - before
        };
        let counts = if in_a_thread {
            std::thread::scope(|scope| scope.spawn(launch).join().unwrap())
        } else {
            launch()
        };
        assert_eq!(
            (counts.all, counts.with_bias),
            (1, 1),
            "in a thread: {in_a_thread}"
        );
        assert!(out.download::<f32>(&job.stream).unwrap() == expected);
    }
}

/// What the library says of one bias holds for those at other places.
#[test]
fn biases_at_other_places() {
    let job = Job::new(0);
    let values = numbers(64, 4);
    let all = Buffer::from_slice(&job.stream, &values).unwrap();
    let out = job.device.alloc(24 * 32 * 4).unwrap();
    for first in [0, 4, 16, 1] {
        let mut args = job.args((&all, &BIAS), (&out, &WHOLE));
        args[2] = all.arg().offset(first * 4).strides(&BIAS);
        let before = counts();
        job.stream
            .launch(&Launch::new(&job.kernel, &EXTENTS, &args))
            .unwrap();
        let now = counts() - before;
        assert_eq!((now.all, now.with_bias), (1, i32::from(first != 1)), "{first}");
        let expected = job.expected(|at| values[first as usize + at % 32]);
        assert!(out.download::<f32>(&job.stream).unwrap() == expected, "{first}");
    }
}

/// Operands at odd places: the stand-in's algorithm sums in pieces, and adds a bias to the first of them.
#[test]
fn an_algorithm_in_pieces_adds_no_bias() {
    let cx = Context::on(device(0));
    for dtype in [DType::F32, DType::F64] {
        let x = tensor([40, 300], 1, dtype, &cx);
        let long = tensor([300 * 60 + 1], 2, dtype, &cx);
        let b = tensor([60], 3, dtype, &cx);
        for (first, with_bias) in [(0, 1), (1, 0)] {
            let w = long.narrow(0, first, 300 * 60).reshape([300, 60]);
            same(&format!("{dtype} at {first}"), &x, with_bias, |x| {
                x.matmul(&w) + &b
            });
        }
    }
}

/// An algorithm that was said to take a bias, and is refused with it: the map follows from then on.
#[test]
fn a_bias_that_is_refused_after_all() {
    let cx = Context::on(device(0));
    let x = tensor([40, 300], 1, DType::F32, &cx);
    let (w, b) = (
        tensor([300, 60], 2, DType::F32, &cx),
        tensor([60], 3, DType::F32, &cx),
    );
    let before = counts();
    tell(c"standin_lt_refuse", QUEUED);
    for _ in 0..2 {
        same("linear", &x, 0, |x| x.matmul(&w) + &b);
    }
    tell(c"standin_lt_refuse", 0);
    assert_eq!((counts() - before).refused, 1);

    let job = Job::new(0);
    let values = numbers(32, 4);
    let expected = job.expected(|at| values[at % 32]);
    let bias = Buffer::from_slice(&job.stream, &values).unwrap();
    let out = job.device.alloc(24 * 32 * 4).unwrap();
    for (refuse, with_bias, refused) in [(0, 1, 0), (QUEUED, 0, 1), (QUEUED, 0, 0), (0, 0, 0)] {
        let before = counts();
        tell(c"standin_lt_refuse", refuse);
        job.launch((&bias, &BIAS), &out).unwrap();
        tell(c"standin_lt_refuse", 0);
        let now = counts() - before;
        assert_eq!((now.all, now.with_bias, now.refused), (1, with_bias, refused));
        assert!(out.download::<f32>(&job.stream).unwrap() == expected);
    }
}

/// A library that does not know what it is asked for says so, and a map follows: at once, or from the first launch that it is told.
#[test]
fn attributes_that_are_refused() {
    let values = numbers(32, 4);
    for known in [false, true] {
        let job = Job::new(0);
        let expected = job.expected(|at| values[at % 32]);
        let bias = Buffer::from_slice(&job.stream, &values).unwrap();
        let out = job.device.alloc(24 * 32 * 4).unwrap();
        if known {
            job.launch((&bias, &BIAS), &out).unwrap();
        }
        let before = counts();
        tell(c"standin_lt_refuse", ATTRIBUTES);
        let launched = job.launch((&bias, &BIAS), &out);
        tell(c"standin_lt_refuse", 0);
        launched.unwrap();
        job.launch((&bias, &BIAS), &out).unwrap();
        let now = counts() - before;
        assert_eq!((now.all, now.with_bias, now.refused), (2, 0, 0), "known: {known}");
        assert!(out.download::<f32>(&job.stream).unwrap() == expected);
    }
}

/// A refusal while a graph is made, or one of its nodes changed, which ends the capture.
#[test]
fn a_bias_that_is_refused_in_a_graph() {
    let values = numbers(32, 4);
    for refused_at in 0..3 {
        let job = Job::new(0);
        let with_bias = job.expected(|at| values[at % 32]);
        let [bias, other] = [(); 2].map(|()| Buffer::from_slice(&job.stream, &values).unwrap());
        let outs = [(); 4].map(|()| job.device.alloc(24 * 32 * 4).unwrap());
        let args = outs.each_ref().map(|out| job.args((&bias, &BIAS), (out, &WHOLE)));
        let nodes: Vec<Node<'_>> = (args.iter())
            .map(|args| Node::new(Launch::new(&job.kernel, &EXTENTS, args), &[]))
            .collect();
        let before = counts();
        let mut graph = Graph::new(&job.device, &nodes).unwrap();
        let mut held = [&bias, &other];
        for round in 0..4 {
            if round > 0 {
                graph.rebind(held[0], held[1], 0).unwrap();
                held.swap(0, 1);
            }
            tell(c"standin_lt_refuse", if round >= refused_at { QUEUED } else { 0 });
            graph.launch(&job.stream).unwrap();
            tell(c"standin_lt_refuse", 0);
            for out in &outs {
                let found = out.download::<f32>(&job.stream).unwrap();
                assert!(found == with_bias, "refused at {refused_at}, round {round}");
            }
        }
        let now = counts() - before;
        assert_eq!(
            (now.refused > 0, now.with_bias > 0),
            (true, refused_at > 0),
            "{now:?}"
        );
    }
}

/// Programs that are one graph, whose library begins to refuse biases between runs.
#[test]
fn a_bias_that_is_refused_in_a_program() {
    for refused_at in [0, 3] {
        let cx = Context::on(device(0));
        let weights: Vec<Tensor> = (0..4)
            .map(|seed| tensor([48, 48], seed, DType::F32, &cx))
            .collect();
        let b = tensor([48], 9, DType::F32, &cx);
        let layers = |x: &Tensor| weights.iter().fold(x.clone(), |x, w| (x * 0.25).matmul(w) + &b);
        let run = jit(layers);
        let before = counts();
        for round in 0..12 {
            let x = tensor([48, 48], 10 + round, DType::F32, &cx);
            let expected = bits(&layers(&x));
            tell(c"standin_lt_refuse", if round >= refused_at { QUEUED } else { 0 });
            let found = bits(&run.call(&x));
            tell(c"standin_lt_refuse", 0);
            assert!(found == expected, "round {round}, refused at {refused_at}");
        }
        let now = counts() - before;
        assert!((1..5).contains(&now.refused), "{now:?}");
        assert_eq!(now.with_bias > 0, refused_at > 0, "{now:?}");
    }
}

/// An epilogue that says that its first parameter is one element: the sum is what it gets instead.
#[test]
fn the_sum_is_whole_whatever_the_epilogue_says() {
    let LibraryOp::Matmul(op) = adding(DType::F32) else {
        unreachable!("it is a product")
    };
    let mut epilogue = op.epilogue.clone().unwrap();
    epilogue.params[0].access = ir::Access::Broadcast;
    let op = LibraryOp::Matmul(Matmul {
        epilogue: Some(epilogue),
        ..op
    });
    let mut job = Job::new(0);
    let values = numbers(24 * 32, 5);
    let expected = job.expected(|at| values[at]);
    job.kernel = Kernel::compile(&job.device, &op).unwrap();
    let x = Buffer::from_slice(&job.stream, &values).unwrap();
    let out = job.device.alloc(24 * 32 * 4).unwrap();
    let before = counts();
    job.launch((&x, &WHOLE), &out).unwrap();
    assert_eq!((counts() - before).all, 1);
    assert!(out.download::<f32>(&job.stream).unwrap() == expected);
}

/// A product whose map is refused is under way all the same.
#[test]
fn a_stream_is_busy_with_half_of_a_launch() {
    let job = Job::new(13);
    let x = Buffer::from_slice(&job.stream, &numbers(24 * 32, 5)).unwrap();
    let out = job.device.alloc(24 * 32 * 4).unwrap();
    job.stream.synchronize().unwrap();
    assert!(job.stream.query().unwrap());
    tell(c"standin_lt_hold", 1);
    let_fail(13, c"cuLaunchKernel", LAUNCH_OUT_OF_RESOURCES, 1);
    let error = job.launch((&x, &WHOLE), &out).unwrap_err();
    let idle = job.stream.query();
    tell(c"standin_lt_hold", 0);
    says(&error, Status::LaunchFailed, &["cuLaunchKernel"]);
    assert!(!idle.unwrap());
    job.stream.synchronize().unwrap();
    assert!(job.stream.query().unwrap());
}

/// No elements, and extents whose product no number holds.
#[test]
fn empty_products_of_any_extent() {
    let job = Job::new(0);
    let bias = Buffer::from_slice(&job.stream, &numbers(32, 4)).unwrap();
    let out = job.device.alloc(64).unwrap();
    let args = job.args((&bias, &BIAS), (&out, &WHOLE));
    let before = counts();
    for extents in [[0, 1 << 33, 1 << 33, 200], [1 << 33, 1 << 33, 0, 1 << 33]] {
        job.stream
            .launch(&Launch::new(&job.kernel, &extents, &args))
            .unwrap();
    }
    job.stream.synchronize().unwrap();
    assert_eq!((counts() - before).all, 0);
}

/// Scratch memory of a large output with gaps is not twice the output.
#[test]
fn large_scratch_memory_is_not_doubled() {
    const SIDE: u64 = 4160;
    let device = device(15);
    let stream = Stream::new(&device).unwrap();
    let LibraryOp::Matmul(op) = adding(DType::F32) else {
        unreachable!("it is a product")
    };
    let kernel = Kernel::compile(&device, &LibraryOp::Matmul(Matmul { epilogue: None, ..op })).unwrap();
    let values: Vec<f32> = (0..SIDE).map(|i| (i % 7) as f32).collect();
    let x = Buffer::from_slice(&stream, &values).unwrap();
    let out = device.alloc(SIDE * (SIDE + 1) * 4).unwrap();
    let args = [
        x.arg().strides(&[0, 1, 0, 1]),
        x.arg().strides(&[0, 0, 1, 1]),
        out.arg().strides(&[0, SIDE as i64 + 1, 1]),
    ];
    let before = device.mem_get_info().unwrap().free;
    stream
        .launch(&Launch::new(&kernel, &[1, SIDE, SIDE, 1], &args))
        .unwrap();
    let taken = before - device.mem_get_info().unwrap().free;
    assert!((66 << 20..=70 << 20).contains(&taken), "{taken}");
    let found = out.download::<f32>(&stream).unwrap();
    for (i, row) in found.chunks(SIDE as usize + 1).enumerate().step_by(97) {
        for (j, value) in row[..SIDE as usize].iter().enumerate() {
            assert_eq!(*value, values[i] * values[j], "{i}, {j}");
        }
    }
}
