//! What a device does, as figures that other libraries can be measured for too: `device --target cuda [--small] [--only GROUP]`.
//! One line of JSON a case: name, value, unit. Larger is better for rates, smaller for times.
#![expect(clippy::print_stdout, reason = "the lines are what the program is for")]

use serde_json::json;
use std::time::{Duration, Instant};
use thalweg::hal::{self, Buffer, Copy, DeviceOptions, Place, Runtime, Stream};
use thalweg::host::set_config;
use thalweg::loader::{LoaderOptions, Registry};
use thalweg::ops::{AttentionOptions, ConvOptions};
use thalweg::{Context, DType, Result, Tensor, jit};
use thalweg_benches::networks;
use thalweg_benches::overhead::{self, CALLS, Round};
use thalweg_benches::tensors::{self, Call};

const BUDGET: Duration = Duration::from_millis(500);

/// Sizes of the cases.
struct Sizes {
    products: &'static [usize],
    elements: usize,
    rows: usize,
    bytes: usize,
    /// Heads and positions of an attention.
    attention: [usize; 2],
    /// Samples, channels and side of images that a convolution of 3 × 3 keeps.
    images: &'static [[usize; 3]],
    networks: &'static [&'static str],
}

const LARGE: Sizes = Sizes {
    products: &[4096, 8192],
    elements: 100_000_000,
    rows: 65_536,
    bytes: 512 << 20,
    attention: [32, 4096],
    images: &[[32, 64, 56], [32, 256, 14]],
    networks: &["mlp_step_b128", "lenet5_step_b64", "resnet18_b8", "encoder6_b8"],
};
const SMALL: Sizes = Sizes {
    products: &[256],
    elements: 1_000_000,
    rows: 512,
    bytes: 8 << 20,
    attention: [2, 256],
    images: &[[1, 8, 8]],
    networks: &["mlp_step_b128"],
};

fn say(case: &str, value: f64, unit: &str) {
    println!("{}", json!({ "case": case, "value": value, "unit": unit }));
}

/// A case that fails is a line that says why; the others go on.
fn attempt(case: &str, run: impl FnOnce() -> Result<()>) {
    if let Err(error) = run() {
        let text = error.to_string();
        println!(
            "{}",
            json!({ "case": case, "error": text.lines().next().unwrap_or("") })
        );
    }
}

/// Seconds of a run, the least of several; each ends with the device idle.
fn seconds(cx: &Context, mut run: impl FnMut() -> Result<()>) -> Result<f64> {
    let (mut best, start) = (f64::MAX, Instant::now());
    for round in 0.. {
        let begin = Instant::now();
        run()?;
        cx.device().synchronize()?;
        // The first ones compile and fill caches.
        if round >= 2 {
            best = best.min(begin.elapsed().as_secs_f64());
        }
        if round >= 6 && start.elapsed() > BUDGET {
            break;
        }
    }
    Ok(best)
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let after = |word: &str| {
        words
            .iter()
            .position(|w| w == word)
            .and_then(|at| words.get(at + 1))
    };
    let target = after("--target").map_or("cpu", String::as_str);
    let small = words.iter().any(|word| word == "--small");
    let sizes = if small { SMALL } else { LARGE };
    let only = after("--only").cloned();
    let attempt = |group: &str, run: &dyn Fn() -> Result<()>| {
        if only.as_deref().is_none_or(|only| only == group) {
            attempt(group, run);
        }
    };
    let cx = Context::on(hal::device(target)?);
    attempt("overheads", &|| overheads(&cx));
    attempt("copies", &|| copies(&cx, sizes.bytes));
    attempt("kernels", &|| kernels(&cx, &sizes));
    attempt("attentions", &|| attentions(&cx, sizes.attention));
    attempt("convolutions", &|| convolutions(&cx, sizes.images));
    attempt("products", &|| products(&cx, sizes.products, ""));
    attempt("networks", &|| networks(&cx, sizes.networks));
    attempt("products in tf32", &|| {
        // Read when a device is opened, so it takes a device of its own.
        set_config("cuda.tf32", Some("on"));
        let runtime = Runtime::new(Registry::new(LoaderOptions::default()));
        let (backend, ordinal) = target.split_once(':').unwrap_or((target, "0"));
        let options = DeviceOptions::new(ordinal.parse().unwrap_or(0));
        let cx = Context::on(runtime.backend(backend)?.open(&options)?);
        if backend != "cuda" {
            return Ok(());
        }
        products(&cx, sizes.products, " tf32")
    });
    set_config("cuda.tf32", None);
    if !small {
        attempt("energy", &|| energy(&cx));
    }
    Ok(())
}

fn overheads(cx: &Context) -> Result<()> {
    let device = cx.device();
    let median = |call: Call| Round::Median.nanoseconds(CALLS, call);
    say(
        "launch of an empty kernel",
        Round::Median.nanoseconds(CALLS, overhead::launch(device)?)?,
        "ns",
    );
    say("eager a + b, one element", median(tensors::eager(cx)?)?, "ns");
    say("jit x + x, one element", median(tensors::call(cx)?)?, "ns");
    say(
        "graph, a kernel of it",
        overhead::node(device, Round::Median)?,
        "ns",
    );
    let alloc = Round::Median.nanoseconds(CALLS, overhead::alloc(device, 512)?)?;
    say("alloc and free, 512 B", alloc, "ns");
    Ok(())
}

fn copies(cx: &Context, bytes: usize) -> Result<()> {
    let device = cx.device();
    let stream = Stream::new(device)?;
    let (a, b) = (device.alloc(bytes as u64)?, device.alloc(bytes as u64)?);
    let rate = |time: f64| bytes as f64 / time / 1e9;
    let copy = |to: Place<'_>, from: Place<'_>| {
        seconds(cx, || Ok(stream.copy(&Copy::new(to, from, bytes as u64))?))
    };
    let time = copy(Place::buffer(&b, 0), Place::buffer(&a, 0))?;
    say("copy on the device, read and write", 2.0 * rate(time), "GB/s");
    let mut host = vec![1_u8; bytes];
    // SAFETY: `host` outlives each copy, after which the device is idle.
    let (time, back) = unsafe {
        let ptr = host.as_mut_ptr();
        (
            copy(Place::buffer(&a, 0), Place::host(ptr))?,
            copy(Place::host(ptr), Place::buffer(&a, 0))?,
        )
    };
    say("copy to the device, pageable", rate(time), "GB/s");
    say("copy from the device, pageable", rate(back), "GB/s");
    if device.capability(hal::Capability::Import) {
        let pinned = Buffer::import_vec(device, host)?;
        let time = copy(Place::buffer(&a, 0), Place::buffer(&pinned, 0))?;
        say("copy to the device, pinned", rate(time), "GB/s");
        let time = copy(Place::buffer(&pinned, 0), Place::buffer(&a, 0))?;
        say("copy from the device, pinned", rate(time), "GB/s");
    }
    Ok(())
}

fn kernels(cx: &Context, sizes: &Sizes) -> Result<()> {
    let n = sizes.elements;
    let [a, b, c] = [0, 1, 2].map(|_| Tensor::rand(n, DType::F32, cx));
    let map = jit(|(a, b, c): &(Tensor, Tensor, Tensor)| (a * b + c).relu());
    let all = (a, b, c);
    let time = seconds(cx, || map.call(&all).ok().map(drop))?;
    say("map relu(a * b + c)", 16.0 * n as f64 / time / 1e9, "GB/s");
    let gelu = jit(|x: &Tensor| (x * 0.5 + 1.0).gelu_tanh());
    for dtype in [DType::F16, DType::BF16] {
        let x = all.0.cast(dtype);
        let time = seconds(cx, || gelu.call(&x).ok().map(drop))?;
        say(
            &format!("map gelu(x / 2 + 1) {dtype}"),
            4.0 * n as f64 / time / 1e9,
            "GB/s",
        );
    }
    let sum = jit(|x: &Tensor| x.sum());
    let time = seconds(cx, || sum.call(&all.0).ok().map(drop))?;
    say("sum of all", 4.0 * n as f64 / time / 1e9, "GB/s");
    let (rows, columns) = (sizes.rows, 1024);
    let x = Tensor::randn([rows, columns], DType::F32, cx);
    let softmax = jit(|x: &Tensor| x.softmax(-1));
    let time = seconds(cx, || softmax.call(&x).ok().map(drop))?;
    let bytes = 8.0 * (rows * columns) as f64;
    say("softmax of rows of 1024", bytes / time / 1e9, "GB/s");
    let norm = jit(|x: &Tensor| {
        let centred = x - x.mean_keepdims([1]);
        &centred / (centred.square().mean_keepdims([1]) + 1e-5).sqrt()
    });
    let time = seconds(cx, || norm.call(&x).ok().map(drop))?;
    say("layer norm of rows of 1024", bytes / time / 1e9, "GB/s");
    Ok(())
}

fn attentions(cx: &Context, [heads, positions]: [usize; 2]) -> Result<()> {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let [q, k, v] = [0, 1, 2].map(|_| Tensor::randn([heads, positions, 64], DType::F32, cx).cast(dtype));
        for (name, causal) in [("", false), (" causal", true)] {
            let attend = || {
                let options = AttentionOptions::new().causal(causal);
                q.scaled_dot_product_attention(&k, &v, options).ok().map(drop)
            };
            let time = seconds(cx, attend)?;
            // Of a causal one, half of the products are wanted.
            let seen = (positions * positions) as f64 * if causal { 0.5 } else { 1.0 };
            let rate = 4.0 * 64.0 * heads as f64 * seen / time / 1e12;
            say(&format!("attention {positions}{name} {dtype}"), rate, "TFLOP/s");
        }
    }
    Ok(())
}

fn convolutions(cx: &Context, images: &[[usize; 3]]) -> Result<()> {
    for &[samples, channels, side] in images {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let [x, w] = [[samples, channels, side, side], [channels, channels, 3, 3]]
                .map(|shape| Tensor::randn(shape, DType::F32, cx).cast(dtype));
            let options = ConvOptions::new().padding(1);
            let time = seconds(cx, || x.conv2d(&w, None, options).ok().map(drop))?;
            let products = (samples * side * side * channels * channels * 9) as f64;
            let name = format!("convolution {samples}x{channels}x{side} {dtype}");
            say(&name, 2.0 * products / time / 1e12, "TFLOP/s");
        }
    }
    Ok(())
}

/// Training steps and inference of whole networks in f32.
fn networks(cx: &Context, names: &[&str]) -> Result<()> {
    for mut case in networks::cases(cx, |name| names.contains(&name))? {
        let time = seconds(cx, || Ok((case.run)()?))?;
        say(&case.name, 1e3 * time, "ms");
    }
    Ok(())
}

fn products(cx: &Context, sizes: &[usize], mode: &str) -> Result<()> {
    let dtypes: &[DType] = if mode.is_empty() {
        &[DType::F32, DType::F16, DType::BF16, DType::F8E4M3]
    } else {
        &[DType::F32]
    };
    for &n in sizes {
        for &dtype in dtypes {
            let [a, b] = [0, 1].map(|_| Tensor::randn([n, n], DType::F32, cx).cast(dtype));
            // The form that libraries have products of 8 bits in.
            let b = if dtype.is_storage() { b.transpose(0, 1) } else { b };
            let time = seconds(cx, || a.matmul(&b).ok().map(drop))?;
            let name = if mode.is_empty() {
                format!(" {dtype}")
            } else {
                mode.to_owned()
            };
            let rate = 2.0 * (n as f64).powi(3) / time / 1e12;
            say(&format!("matmul {n}{name}"), rate, "TFLOP/s");
        }
    }
    Ok(())
}

/// Energies of 1e8 numbers in chunks from host memory, in a plain loop and on two streams.
fn energy(cx: &Context) -> Result<()> {
    for mut case in tensors::energies(cx)? {
        let time = seconds(cx, || Ok((case.run)()?))?;
        say(&case.name, 4e8 / time / 1e9, "GB/s");
    }
    Ok(())
}
