//! Tensors: what an op and a compiled function cost, and the energy of many numbers.

use crate::cases::{Case, Limit};
use crate::networks::hal_error;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg::hal::{Runtime, Stream};
use thalweg::loader::{LoaderOptions, Registry};
use thalweg::{Context, DType, Jit, Result, Tensor, jit};

/// Numbers whose energy is computed.
const NUMBERS: usize = 100_000_000;
/// Numbers of a chunk.
const CHUNK: usize = 1_000_000;

fn number(value: f32, cx: &Context) -> Tensor {
    Tensor::from_slice(&[value], 1, cx)
}

fn cost(tensor: Tensor) -> thalweg::hal::Result<()> {
    std::hint::black_box(tensor);
    Ok(())
}

/// A small call that is measured.
pub type Call = Box<dyn FnMut() -> thalweg::hal::Result<()>>;

/// `a + b` on tensors of one element: the op, its result and the end of that.
///
/// # Errors
/// Those of the op.
pub fn eager(cx: &Context) -> Result<Call> {
    let (a, b) = (number(1.0, cx), number(2.0, cx));
    assert_eq!((&a + &b).item::<f32>()?, 3.0);
    Ok(Box::new(move || cost(&a + &b)))
}

/// A call of a compiled function of one op on one element, with its result and the end of that.
///
/// # Errors
/// Those of the op.
pub fn call(cx: &Context) -> Result<Call> {
    let x = number(1.0, cx);
    let double = jit(|x: &Tensor| x + x);
    assert_eq!(double.call(&x).item::<f32>()?, 2.0);
    Ok(Box::new(move || cost(double.call(&x))))
}

/// Kernels of [`small_kernels`].
pub const KERNELS: usize = 20;

/// How the kernels of [`small_kernels`] depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each reads the result of the one before.
    Chain,
    /// None reads a result.
    Apart,
}

/// [`KERNELS`] small kernels, none of which joins its neighbours, and the wait for their end. They are the ops of one compiled
/// function, or called one by one.
///
/// # Errors
/// Those of the ops.
pub fn small_kernels(cx: &Context, order: Order, compiled: bool) -> Result<Call> {
    // Rows and columns in turns: each is read whole before the next begins.
    let centred = |x: &Tensor, at: usize| x - x.mean_keepdims([at as i32 % 2]);
    let run = move |inputs: &Vec<Tensor>| match order {
        Order::Chain => vec![(0..KERNELS).fold(inputs[0].clone(), |x, at| centred(&x, at))],
        Order::Apart => inputs.iter().map(|x| centred(x, 1)).collect(),
    };
    let inputs = match order {
        Order::Chain => 1,
        Order::Apart => KERNELS,
    };
    let inputs: Vec<Tensor> = (0..inputs)
        .map(|_| Tensor::ones([8, 16], DType::F32, cx))
        .collect();
    let function = compiled.then(|| jit(run));
    let call = move || match &function {
        Some(function) => function.call(&inputs),
        None => run(&inputs),
    };
    for result in call() {
        assert!(result.to_vec::<f32>()?.iter().all(|&x| x == 0.0));
    }
    let device = cx.device().clone();
    Ok(Box::new(move || {
        std::hint::black_box(call());
        device.synchronize()
    }))
}

/// `a + 1.5` on a tensor of one element: the op, its result and the end of that.
///
/// # Errors
/// Those of the op.
pub fn eager_number(cx: &Context) -> Result<Call> {
    let a = number(1.0, cx);
    assert_eq!((&a + 1.5).item::<f32>()?, 2.5);
    Ok(Box::new(move || cost(&a + 1.5)))
}

/// Nodes of the graph that [`Network`] is.
pub const NODES: usize = 500;

/// Layers of a transformer's feed-forward part, as many as make [`NODES`] nodes, on small tensors.
pub struct Network {
    parameters: (Tensor, Vec<Tensor>),
    layers: usize,
    /// Nodes of the graph.
    pub nodes: usize,
}

type Traced = Jit<Box<dyn Fn(&(Tensor, Vec<Tensor>)) -> Tensor>, ((Tensor, Vec<Tensor>),)>;

impl Network {
    /// A network on a device that has compiled nothing yet.
    ///
    /// # Errors
    /// None that a CPU has.
    pub fn new(target: &str) -> Result<Network> {
        let runtime = Runtime::new(Registry::new(LoaderOptions::default()));
        let cx = Context::on(runtime.device(target)?);
        let weights = [[16, 64], [1, 64], [64, 16], [1, 16]];
        let weights = weights.map(|shape| Tensor::ones(shape, DType::F32, &cx)).to_vec();
        let mut network = Network {
            parameters: (Tensor::ones([8, 16], DType::F32, &cx), weights),
            layers: 0,
            nodes: 0,
        };
        while network.nodes < NODES {
            network.layers += 1;
            network.nodes = network.function().graph(&network.parameters)?.nodes().len();
        }
        Ok(network)
    }

    /// Layers that differ in nothing that a compiler could share: each scales by another number.
    fn function(&self) -> Traced {
        let layers = self.layers;
        jit(Box::new(move |(x, weights): &(Tensor, Vec<Tensor>)| {
            let mut x = x.clone();
            for layer in 0..layers {
                let hidden = (x.layer_norm(16, None, None, 1e-5).matmul(&weights[0]) + &weights[1]).gelu();
                x += (hidden.matmul(&weights[2]) + &weights[3]).softmax(-1) * (layer + 2) as f64;
            }
            x
        }))
    }

    /// From the call of a function to its result, where nothing was traced, lowered or compiled before.
    ///
    /// # Errors
    /// Those of the ops.
    pub fn compile(&self) -> Result<Duration> {
        let function = self.function();
        let start = Instant::now();
        let result = function.call(&self.parameters);
        let last = result.to_vec::<f32>()?;
        let time = start.elapsed();
        assert!(last.iter().all(|x| x.is_finite()));
        Ok(time)
    }
}

/// What compiling a graph of [`NODES`] nodes takes, in milliseconds, and what it takes when its kernels are known.
///
/// # Errors
/// Those of the ops.
pub fn compile(target: &str) -> Result<(f64, f64)> {
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        let network = Network::new(target)?;
        cold.push(network.compile()?.as_secs_f64() * 1e3);
        warm.push(network.compile()?.as_secs_f64() * 1e3);
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    Ok((median(&mut cold), median(&mut warm)))
}

/// Names of the cases of [`energies`].
pub const ENERGIES: [&str; 5] = [
    "energy_jit",
    "energy_chunked",
    "energy_chunked_streams",
    "energy_copied",
    "energy_copied_streams",
];

/// A part of an array in host memory.
struct Part(Arc<[f32]>, usize);

impl AsRef<[f32]> for Part {
    fn as_ref(&self) -> &[f32] {
        &self.0[self.1 * CHUNK..][..CHUNK]
    }
}

/// Energies by compiled functions: of numbers on the device; of chunks of host memory that the CPU reads in place; of chunks that
/// are copied from host memory. Chunks come in a plain loop, and in one that changes between two streams.
///
/// # Errors
/// Those of the ops.
pub fn energies(cx: &Context) -> Result<Vec<Case>> {
    let limit = || Limit::Bytes(4.0 * NUMBERS as f64);
    let data: Arc<[f32]> = (0..NUMBERS).map(|i| (i % 1000) as f32 * 1e-3).collect();
    let expected: f64 = data.iter().map(|&x| 0.5 * (f64::from(x) - 1.0).powi(2)).sum();
    let right = move |sum: f64| {
        assert!(
            ((sum - expected) / expected).abs() < 1e-4,
            "the energy is {sum}, expected {expected}"
        );
    };
    let energy = |x: &Tensor| ((x - 1.0) * (x - 1.0) * 0.5).sum();
    let resident = {
        let (compiled, x) = (jit(energy), Tensor::from_slice(&data, NUMBERS, cx));
        let run = move || {
            right(f64::from(compiled.call(&x).item::<f32>().map_err(hal_error)?));
            Ok(())
        };
        Case {
            name: ENERGIES[0].into(),
            limit: limit(),
            run: Box::new(run),
        }
    };
    let mut cases = vec![resident];
    let loops = [(0, false), (2, false), (0, true), (2, true)];
    for (name, (lanes, copied)) in ENERGIES[1..].iter().copied().zip(loops) {
        let (compiled, data, cx) = (jit(energy), Arc::clone(&data), cx.clone());
        let streams: Vec<Stream> = (0..lanes)
            .map(|_| Stream::new(cx.device()))
            .collect::<thalweg::hal::Result<_>>()?;
        let run = move || {
            let mut total = Tensor::zeros((), DType::F32, &cx);
            for (index, chunk) in data.chunks_exact(CHUNK).enumerate() {
                let _on = streams.get(index % lanes.max(1)).map(Stream::enter);
                let chunk = match copied {
                    true => Tensor::from_slice(chunk, CHUNK, &cx),
                    false => Tensor::from_owner(Part(Arc::clone(&data), index), CHUNK, &cx),
                };
                total = &total + &compiled.call(&chunk);
            }
            right(f64::from(total.item::<f32>().map_err(hal_error)?));
            Ok(())
        };
        cases.push(Case {
            name: name.into(),
            limit: limit(),
            run: Box::new(run),
        });
    }
    Ok(cases)
}
