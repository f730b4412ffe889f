//! Graphs in text: run on inputs that are drawn, on one device or on two.

use crate::Outcome;
use crate::args::Replay;
use crate::text::{columns, count, line};
use std::error::Error;
use std::io::Write;
use std::time::{Duration, Instant};
use thalweg::graph::{Graph, Type};
use thalweg::hal::Runtime;
use thalweg::loader::Registry;
use thalweg::{Context, DType, Tensor};
use thalweg_layers::replay::{difference, tolerance};

pub(super) fn run(args: &Replay, graph: &Graph, out: &mut dyn Write) -> Outcome {
    if args.check || args.compare.is_some() {
        return Err(
            "a graph in text has no results to compare with; compare two devices with --against".into(),
        );
    }
    writeln!(
        out,
        "{}: a graph of {}",
        line(&args.file.display().to_string()),
        count(graph.nodes().len(), "node")
    )?;
    if args.list {
        write!(out, "{}", graph.to_text())?;
        return Ok(true);
    }
    let runtime = Runtime::new(Registry::new(args.search.options()?));
    let context =
        |target: &str| -> Result<Context, Box<dyn Error>> { Ok(Context::on(runtime.device(target)?)) };
    // Inputs are made here, and results read here, so that no device has a part in either.
    let host = context("cpu")?;
    let inputs: Vec<Tensor> = (graph.inputs().iter().zip(1..))
        .map(|(&input, seed)| drawn(graph.node(input).ty, seed, &host))
        .collect();
    let device = context(args.target.as_deref().unwrap_or("cpu"))?;
    let Some(against) = &args.against else {
        return times(args, graph, &inputs, &device, out).map(|()| !args.differs);
    };
    let other = context(against)?;
    let mine = results(graph, &inputs, &device, &host)?;
    let theirs = results(graph, &inputs, &other, &host)?;
    let same = compare(args, graph, [&mine, &theirs], out)?;
    Ok(same != args.differs)
}

/// Floats from -1 to 1, whole numbers from 0 to 3, truth values; the same for the same seed.
fn drawn(ty: Type, seed: u64, host: &Context) -> Tensor {
    let mut state = seed;
    let mut next = || {
        // SplitMix64 (Steele, Lea, Flood, 2014).
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    };
    let elements = ty.shape.elements();
    let numbers = if ty.dtype.is_float() {
        let numbers = (0..elements).map(|_| (next() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0);
        Tensor::from_vec(numbers.collect(), ty.shape, host)
    } else {
        let end = if ty.dtype == DType::Bool { 2 } else { 4 };
        let numbers = (0..elements).map(|_| (next() % end) as i64);
        Tensor::from_vec(numbers.collect(), ty.shape, host)
    };
    numbers.cast(ty.dtype)
}

/// A result as bytes of f64, or of i64 where it is no float.
fn results(
    graph: &Graph,
    inputs: &[Tensor],
    device: &Context,
    host: &Context,
) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let inputs: Vec<Tensor> = inputs.iter().map(|input| input.to(device)).collect();
    let read = |tensor: Tensor| -> Result<Vec<u8>, Box<dyn Error>> {
        let dtype = tensor.dtype()?;
        let tensor = tensor.to(host);
        Ok(if dtype.is_float() {
            let numbers = tensor.cast(DType::F64).to_vec::<f64>()?;
            numbers.into_iter().flat_map(f64::to_le_bytes).collect()
        } else {
            let numbers = tensor.cast(DType::I64).to_vec::<i64>()?;
            numbers.into_iter().flat_map(i64::to_le_bytes).collect()
        })
    };
    graph.call(&inputs)?.into_iter().map(read).collect()
}

fn compare(args: &Replay, graph: &Graph, [mine, theirs]: [&Vec<Vec<u8>>; 2], out: &mut dyn Write) -> Outcome {
    let mut rows = vec![["result", "op", "type", "elements", "differ", "worst", ""].map(String::from)];
    let mut far = 0;
    for ((&output, mine), theirs) in graph.outputs().iter().zip(mine).zip(theirs) {
        let node = graph.node(output);
        let read = if node.ty.dtype.is_float() {
            DType::F64
        } else {
            DType::I64
        };
        let found =
            difference(Some(read), theirs, mine).ok_or("the devices give other numbers of elements")?;
        let most = args.tolerance.unwrap_or_else(|| tolerance(Some(node.ty.dtype)));
        let is_far = found.worst > most;
        far += usize::from(is_far);
        rows.push([
            format!("%{}", output.0),
            line(node.op.name()),
            node.ty.to_string(),
            found.elements.to_string(),
            found.differ.to_string(),
            format!("{:.1e}", found.worst),
            if is_far { "too far apart" } else { "" }.to_owned(),
        ]);
    }
    for row in columns(&rows) {
        writeln!(out, "{row}")?;
    }
    let all = count(graph.outputs().len(), "result");
    match far {
        0 => writeln!(out, "{all}, none is too far apart")?,
        far => writeln!(out, "{all}, {far} too far apart")?,
    }
    Ok(far == 0)
}

fn times(
    args: &Replay,
    graph: &Graph,
    inputs: &[Tensor],
    device: &Context,
    out: &mut dyn Write,
) -> Result<(), Box<dyn Error>> {
    let inputs: Vec<Tensor> = inputs.iter().map(|input| input.to(device)).collect();
    // An error is told here; the compiled function has none then.
    graph.call(&inputs)?;
    let run = thalweg::jit(|inputs: &Vec<Tensor>| graph.call(inputs).unwrap_or_default());
    let mut least = Duration::MAX;
    // The first run compiles.
    for _ in 0..=args.times.get() {
        let begun = Instant::now();
        for result in run.call(&inputs) {
            result.shape()?;
        }
        device.device().synchronize()?;
        least = least.min(begun.elapsed());
    }
    writeln!(out, "all work takes {:.3} ms", least.as_secs_f64() * 1e3)?;
    Ok(())
}
