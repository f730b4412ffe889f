//! Matrix products by the stand-in's cuBLASLt, with what is fused to them. The stand-in's algorithms sum in different orders, so a
//! product that another one computes has other bits.

mod biases;

use super::{UNCHECKED, alone, device, says, standin};
use thalweg::hal::library::{LibraryOp, Matmul};
use thalweg::hal::{Arg, Buffer, Device, Graph, Kernel, Launch, Node, Status, Stream, ir};
use thalweg::host::set_config;
use thalweg::{Context, DType, Tensor, jit};

/// Products that this thread has queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    all: i32,
    with_bias: i32,
    tf32: i32,
    refused: i32,
}

impl std::ops::Sub for Counts {
    type Output = Counts;

    fn sub(self, before: Counts) -> Counts {
        Counts {
            all: self.all - before.all,
            with_bias: self.with_bias - before.with_bias,
            tf32: self.tf32 - before.tf32,
            refused: self.refused - before.refused,
        }
    }
}

fn counts() -> Counts {
    // SAFETY: the stand-in, which this process has loaded; the function has this type.
    unsafe {
        let library = libloading::Library::new(standin().join("libcublasLt.so.13")).unwrap();
        let count = library
            .get::<unsafe extern "C" fn(i32) -> i32>(b"standin_lt_count")
            .unwrap();
        Counts {
            all: count(0),
            with_bias: count(1),
            tf32: count(2),
            refused: count(3),
        }
    }
}

fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let number = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(number).collect()
}

fn tensor<const R: usize>(shape: [usize; R], seed: u64, dtype: DType, cx: &Context) -> Tensor {
    Tensor::from_slice(&numbers(shape.iter().product(), seed), shape, cx).cast(dtype)
}

fn bits(y: &Tensor) -> Vec<u64> {
    let wide = y.cast(DType::F64).to_vec::<f64>().unwrap();
    wide.iter().map(|x| x.to_bits()).collect()
}

/// Compiled and op by op the same bits; the library adds the bias in `with_bias` of the compiled products.
#[track_caller]
fn same(name: &str, x: &Tensor, with_bias: i32, f: impl Fn(&Tensor) -> Tensor) {
    let before = counts();
    let expected = bits(&f(x));
    let between = counts();
    let eager = between - before;
    assert!(eager.all > 0 && eager.with_bias == 0, "{name}, {eager:?}");
    let found = bits(&jit(&f).call(x));
    let now = counts() - between;
    assert!((1..=eager.all).contains(&now.all), "{name}, {now:?}");
    assert_eq!(now.with_bias, with_bias, "{name}");
    assert!(found == expected, "{name}");
}

/// Whatever is fused to a product, its sums are those that it has on its own.
#[test]
fn a_product_is_the_same_bits_whatever_follows_it() {
    let cx = Context::on(device(0));
    for dtype in [DType::F32, DType::F64, DType::F16] {
        // The stand-in's algorithm takes a bias whose length is a multiple of 4.
        for n in [60, 62] {
            let library = i32::from(dtype != DType::F16 && n == 60);
            let x = tensor([40, 300], 1, dtype, &cx);
            let (w, b) = (tensor([300, n], 2, dtype, &cx), tensor([n], 3, dtype, &cx));
            let other = tensor([40, n], 4, dtype, &cx);
            let name = |what: &str| format!("{dtype}, {n} columns, {what}");
            let product = |x: &Tensor| x.matmul(&w);
            let linear = |x: &Tensor| product(x) + &b;
            same(&name("linear"), &x, library, linear);
            same(&name("bias first"), &x, library, |x| &b + product(x));
            same(&name("residual"), &x, 0, |x| product(x) + &other);
            same(&name("dense"), &x, 0, |x| linear(x).relu());
            // Elsewhere than on its own.
            same(&name("alone between gaps"), &x, 0, |x| {
                Tensor::concat(&[other.clone(), product(x)], 1)
            });
            if library == 0 || dtype != DType::F32 {
                continue;
            }
            let turned = tensor([n, 40], 5, dtype, &cx);
            same(&name("turned residual"), &x, 0, |x| product(x) + turned.t());
            same(&name("column"), &x, 0, |x| product(x) + other.narrow(1, 0, 1));
            same(&name("one number"), &x, 0, |x| product(x) + b.narrow(0, 3, 1));
            // A bias at an odd place, every other one of a vector, and a vector backwards.
            let long = tensor([2 * n + 1], 6, dtype, &cx);
            same(&name("odd"), &x, 0, |x| product(x) + long.narrow(0, 1, n));
            let other_ones = long
                .narrow(0, 0, 2 * n)
                .reshape([n, 2])
                .narrow(1, 0, 1)
                .reshape([n]);
            same(&name("every other one"), &x, 0, |x| product(x) + &other_ones);
            same(&name("backwards"), &x, 0, |x| product(x) + b.flip(0));
            same(&name("gated"), &x, 0, |x| linear(x).sigmoid() * product(x));
            same(&name("difference"), &x, 0, |x| product(x) - &b);
            same(&name("between gaps"), &x, 0, |x| {
                Tensor::concat(&[other.clone(), linear(x)], 1)
            });
            same(&name("turned"), &x, 0, |x| linear(x).t() * 2.0);
        }
    }
}

#[test]
fn products_of_batches_and_of_vectors() {
    let cx = Context::on(device(0));
    for dtype in [DType::F32, DType::F64] {
        let x = tensor([3, 2, 20, 100], 1, dtype, &cx);
        let w = tensor([3, 2, 100, 32], 2, dtype, &cx);
        let b = tensor([3, 2, 1, 32], 3, dtype, &cx);
        let product = |x: &Tensor| x.matmul(&w);
        let name = |what: &str| format!("{dtype}, {what}");
        same(&name("one bias"), &x, 1, |x| {
            product(x) + b.narrow(0, 0, 1).narrow(1, 0, 1)
        });
        same(&name("a bias each"), &x, 0, |x| product(x) + &b);
        same(&name("a bias in every second"), &x, 0, |x| {
            product(x) + b.narrow(1, 1, 1)
        });
        let one = x
            .narrow(0, 1, 1)
            .narrow(1, 1, 1)
            .narrow(2, 3, 1)
            .reshape([1, 100]);
        let (matrix, row) = (
            w.narrow(0, 0, 1).narrow(1, 0, 1).reshape([100, 32]),
            b.narrow(0, 2, 1).narrow(1, 1, 1).reshape([1, 32]),
        );
        // What is added to one row is a bias of it.
        same(&name("one row"), &one, 1, |x| x.matmul(&matrix) + &row);
        let square = tensor([64, 64], 4, dtype, &cx);
        same(&name("turned operands"), &square, 1, |x| {
            x.t().matmul(&x.t()) + square.narrow(0, 8, 1)
        });
        // An operand whose elements the library cannot reach: a kernel of our own, op by op and compiled.
        let every_other = square.reshape([64, 32, 2]).narrow(2, 0, 1).reshape([64, 32]);
        let f = |x: &Tensor| every_other.matmul(&x.narrow(0, 0, 32)) + square.narrow(0, 8, 1);
        let (before, expected) = (counts(), bits(&f(&square)));
        assert_eq!(bits(&jit(f).call(&square)), expected, "{dtype}, our own");
        assert!((counts() - before).all <= 2, "{dtype}, our own");
    }
}

/// Without the function that tells which algorithms take a bias, none is asked to.
#[test]
fn a_library_that_checks_nothing_adds_nothing() {
    if std::env::var_os(UNCHECKED).is_none() {
        return alone("products::a_library_that_checks_nothing_adds_nothing", UNCHECKED);
    }
    let (cx, dtype) = (Context::on(device(0)), DType::F32);
    let x = tensor([40, 300], 1, dtype, &cx);
    let (w, b) = (tensor([300, 60], 2, dtype, &cx), tensor([60], 3, dtype, &cx));
    same("linear", &x, 0, |x| x.matmul(&w) + &b);
}

#[test]
fn tf32_is_the_library_s_with_a_bias_too() {
    standin();
    set_config("cuda.tf32", Some("on"));
    let cx = Context::on(device(0));
    set_config("cuda.tf32", None);
    let x = tensor([40, 300], 1, DType::F32, &cx);
    let (w, b) = (
        tensor([300, 60], 2, DType::F32, &cx),
        tensor([60], 3, DType::F32, &cx),
    );
    let before = counts();
    same("linear", &x, 1, |x| x.matmul(&w) + &b);
    assert_eq!((counts() - before).tf32, 2);
}

/// `sum + x` over a batch of one.
fn adding(dtype: DType) -> LibraryOp {
    let epilogue = format!(
        "kernel add outer=3 inner=0\np0 in {dtype} row strided\np1 in {dtype} row strided\n\
         p2 out {dtype} row strided\nn0 = load p0\nn1 = load p1\nn2 = add n1 n0\nn3 = store p2 n2\n"
    );
    LibraryOp::Matmul(Matmul {
        batch: 1,
        operands: [dtype; 2],
        accumulate: dtype,
        output: dtype,
        epilogue: Some(ir::Kernel::parse(&epilogue).unwrap()),
    })
}

const EXTENTS: [u64; 4] = [1, 24, 32, 200];
/// Of the operands, of a bias, and of what lies as the output does.
const STRIDES: [[i64; 4]; 2] = [[0, 200, 0, 1], [0, 0, 1, 32]];
const BIAS: [i64; 3] = [0, 0, 1];
const WHOLE: [i64; 3] = [768, 32, 1];

struct Job {
    device: Device,
    stream: Stream,
    kernel: Kernel,
    a: Buffer,
    b: Buffer,
}

impl Job {
    fn new(ordinal: u32) -> Job {
        let device = device(ordinal);
        let stream = Stream::new(&device).unwrap();
        Job {
            kernel: Kernel::compile(&device, &adding(DType::F32)).unwrap(),
            a: Buffer::from_slice(&stream, &numbers(24 * 200, 1)).unwrap(),
            b: Buffer::from_slice(&stream, &numbers(200 * 32, 2)).unwrap(),
            device,
            stream,
        }
    }

    fn args<'a>(&'a self, x: (&'a Buffer, &'a [i64]), out: (&'a Buffer, &'a [i64])) -> [Arg<'a>; 4] {
        [
            self.a.arg().strides(&STRIDES[0]),
            self.b.arg().strides(&STRIDES[1]),
            x.0.arg().strides(x.1),
            out.0.arg().strides(out.1),
        ]
    }

    /// What the product alone gives, with `x` added.
    fn expected(&self, x: impl Fn(usize) -> f32) -> Vec<f32> {
        let LibraryOp::Matmul(op) = adding(DType::F32) else {
            unreachable!("it is a product")
        };
        let alone = LibraryOp::Matmul(Matmul { epilogue: None, ..op });
        let kernel = Kernel::compile(&self.device, &alone).unwrap();
        let out = self.device.alloc(24 * 32 * 4).unwrap();
        let [a, b, _, out_arg] = self.args((&out, &WHOLE), (&out, &WHOLE));
        self.stream
            .launch(&Launch::new(&kernel, &EXTENTS, &[a, b, out_arg]))
            .unwrap();
        let sums = out.download::<f32>(&self.stream).unwrap();
        sums.iter().enumerate().map(|(at, sum)| sum + x(at)).collect()
    }
}

/// An output in the memory of what is added, and one whose rows have gaps: the product lies elsewhere first.
#[test]
fn outputs_that_cannot_hold_the_product_first() {
    let job = Job::new(0);
    let x = numbers(24 * 32, 3);
    let expected = job.expected(|at| x[at]);
    let out = Buffer::from_slice(&job.stream, &x).unwrap();
    let args = job.args((&out, &WHOLE), (&out, &WHOLE));
    let before = counts();
    job.stream
        .launch(&Launch::new(&job.kernel, &EXTENTS, &args))
        .unwrap();
    assert_eq!((counts() - before).all, 1);
    assert!(out.download::<f32>(&job.stream).unwrap() == expected, "in place");

    let x = Buffer::from_slice(&job.stream, &x).unwrap();
    let wide = job.device.alloc(24 * 40 * 4).unwrap();
    let gaps = job.args((&x, &WHOLE), (&wide, &[960, 40, 1]));
    job.stream
        .launch(&Launch::new(&job.kernel, &EXTENTS, &gaps))
        .unwrap();
    let found = wide.download::<f32>(&job.stream).unwrap();
    let rows = found.chunks(40).flat_map(|row| &row[..32]);
    assert!(rows.eq(&expected), "with gaps");

    let turned = job.device.alloc(24 * 32 * 4).unwrap();
    let args = job.args((&x, &WHOLE), (&turned, &[768, 1, 24]));
    job.stream
        .launch(&Launch::new(&job.kernel, &EXTENTS, &args))
        .unwrap();
    let found = turned.download::<f32>(&job.stream).unwrap();
    let rows = (0..24 * 32).map(|at| found[at / 32 + at % 32 * 24]);
    assert!(rows.eq(expected), "turned");
}

/// A product of a graph takes another bias, and the same with a map that reads scratch memory.
#[test]
fn a_product_of_a_graph_changes() {
    let job = Job::new(0);
    let (bias, whole) = (numbers(32, 4), numbers(24 * 32, 5));
    let (with_bias, with_whole) = (job.expected(|at| bias[at % 32]), job.expected(|at| whole[at]));
    let [bias, other] = [(); 2].map(|()| Buffer::from_slice(&job.stream, &bias).unwrap());
    let [x, y] = [(); 2].map(|()| Buffer::from_slice(&job.stream, &whole).unwrap());
    let outs = [(); 4].map(|()| job.device.alloc(24 * 32 * 4).unwrap());
    let of_bias = [0, 1].map(|at| job.args((&bias, &BIAS), (&outs[at], &WHOLE)));
    let of_whole = [2, 3].map(|at| job.args((&x, &WHOLE), (&outs[at], &WHOLE)));
    let nodes: Vec<Node<'_>> = (of_bias.iter().chain(&of_whole))
        .map(|args| Node::new(Launch::new(&job.kernel, &EXTENTS, args), &[]))
        .collect();
    let before = counts();
    let mut graph = Graph::new(&job.device, &nodes).unwrap();
    for round in 0..4 {
        for out in &outs {
            out.fill(&job.stream, 0_u8).unwrap();
        }
        graph.launch(&job.stream).unwrap();
        for (at, out) in outs.iter().enumerate() {
            let expected = if at < 2 { &with_bias } else { &with_whole };
            assert!(
                out.download::<f32>(&job.stream).unwrap() == *expected,
                "{round}, node {at}"
            );
        }
        let (old, new) = if round % 2 == 0 {
            ((&bias, &x), (&other, &y))
        } else {
            ((&other, &y), (&bias, &x))
        };
        graph.rebind(old.0, new.0, 0).unwrap();
        graph.rebind(old.1, new.1, 0).unwrap();
    }
    assert!((counts() - before).with_bias >= 2);
}

/// Programs that are one graph, with memory that moves from run to run.
#[test]
fn products_of_a_program() {
    let cx = Context::on(device(0));
    let dtype = DType::F32;
    let (w, b) = (tensor([48, 48], 1, dtype, &cx), tensor([48], 2, dtype, &cx));
    let layers = |x: &Tensor| {
        let branches: Vec<Tensor> = (1..4_u8).map(|k| (x * f32::from(k)).matmul(&w) + &b).collect();
        let last = (&branches[0] * &branches[1]).matmul(&w) + x;
        branches.into_iter().chain([last]).collect::<Vec<_>>()
    };
    let bits = |outputs: &[Tensor]| outputs.iter().map(bits).collect::<Vec<_>>();
    let run = jit(layers);
    let inputs: Vec<Tensor> = (0..3)
        .map(|seed| tensor([48, 48], 10 + seed, dtype, &cx))
        .collect();
    let expected: Vec<_> = inputs.iter().map(|x| bits(&layers(x))).collect();
    let before = counts();
    let mut made = Vec::new();
    for round in 0..20 {
        made.push((round % 3, run.call(&inputs[round % 3])));
    }
    let now = counts() - before;
    assert!(now.with_bias >= 3 && now.all > now.with_bias, "{now:?}");
    for (which, found) in made {
        assert!(bits(&found) == expected[which], "inputs {which}");
    }
}

#[test]
fn what_the_library_does_not_add_stays_apart() {
    let device = device(0);
    let LibraryOp::Matmul(op) = adding(DType::F32) else {
        unreachable!("it is a product")
    };
    Kernel::supports(&device, &LibraryOp::Matmul(op.clone())).unwrap();
    let epilogue = "kernel mul outer=3 inner=0\np0 in f32 row strided\np1 in f32 row strided\np2 out f32 row strided\n\
                    n0 = load p0\nn1 = load p1\nn2 = mul n1 n0\nn3 = store p2 n2\n";
    let other = LibraryOp::Matmul(Matmul {
        epilogue: Some(ir::Kernel::parse(epilogue).unwrap()),
        ..op
    });
    let error = Kernel::supports(&device, &other).unwrap_err();
    says(&error, Status::Unsupported, &["without its epilogue"]);
    let error = Kernel::compile(&device, &other).unwrap_err();
    says(&error, Status::Unsupported, &["without its epilogue"]);
}

/// Floats of eight bits go to the library in the only form that it takes, and to a kernel of our own in any other, with the same
/// values: these sums are exact.
#[test]
fn eight_bits_go_to_the_library_where_it_takes_them() {
    let cx = Context::on(device(0));
    let whole = |shape: [usize; 2], seed: u64, dtype: DType| {
        (tensor(shape, seed, DType::F32, &cx) * 8.0).round().cast(dtype)
    };
    let values = |y: &Tensor| y.cast(DType::F32).to_vec::<f32>().unwrap();
    let check = |x: &Tensor, w: &Tensor, by_library: bool, what: &str| {
        let before = counts().all;
        let found = x.matmul(w);
        assert_eq!(found.dtype().unwrap(), DType::F32, "{what}");
        let found = values(&found);
        assert_eq!(counts().all > before, by_library, "{what}");
        let compiled = jit(|x: &Tensor| x.matmul(w)).call(x);
        assert_eq!(values(&compiled), found, "{what}");
        let before = counts().all;
        let wide = x.cast(DType::F64).matmul(&w.cast(DType::F64));
        assert_eq!(values(&wide), found, "{what}");
        assert!(counts().all > before, "{what}");
    };
    let (four, five) = (DType::F8E4M3, DType::F8E5M2);
    let (x, w) = (whole([32, 64], 1, four), whole([48, 64], 2, four));
    check(&x, &w.t(), true, "a transposed weight");
    check(&x, &w.t().contiguous(), false, "a weight in rows");
    check(
        &x.t().contiguous().t(),
        &w.t(),
        false,
        "the first operand transposed",
    );
    check(&x.narrow(0, 0, 24), &w.t(), false, "24 rows");
    check(&x, &w.narrow(0, 0, 40).t(), false, "40 columns");
    check(
        &x.narrow(1, 0, 48),
        &w.narrow(1, 16, 48).t(),
        true,
        "parts of rows, at multiples of 16",
    );
    check(
        &x.narrow(1, 8, 32),
        &w.narrow(1, 0, 32).t(),
        false,
        "a part of rows at 8",
    );
    let (x, w) = (x.cast(five), w.cast(five));
    check(&x, &w.t(), false, "f8e5m2");
}
