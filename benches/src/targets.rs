//! Every target of the project on this machine, in one run, each beside its limit: `cargo run --release -p thalweg-benches --bin
//! targets [--target cpu] [--json FILE] [--least] [FILTER…]`.
#![expect(clippy::print_stdout, reason = "the table is what the program is for")]

use clap::Parser;
use serde_json::json;
use std::cell::RefCell;
use std::process::ExitCode;
use std::time::Duration;
use thalweg::Context;
use thalweg::hal::{self, Device};
use thalweg::host::set_config;
use thalweg::parallel::Pool;
use thalweg_benches::cases::{Case, Limit, kernels, products};
use thalweg_benches::limits::{FAR, Memory, dots, flops, half_dots, half_squares, reading};
use thalweg_benches::overhead::{self, CALLS, Round};
use thalweg_benches::tensors::Order;
use thalweg_benches::{
    checks, convolutions, functions, indexed, layers, least, median, networks, pools, recorded, tensors,
    watched,
};

const BUDGET: Duration = Duration::from_millis(400);

/// What is measured beside the cases.
const OTHERS: [&str; 12] = [
    "overhead",
    "profile",
    "recorded",
    "checks",
    "validate",
    "capture",
    "eager add_1",
    "eager",
    "compile",
    "jit",
    "kernels",
    "in_place",
];

/// Measures every target of the project on this machine, each beside its limit.
#[derive(Parser)]
#[command(name = "targets")]
struct Options {
    /// Where to run: cpu, opencl:0, cuda:1, or a plugin's name.
    #[arg(long, default_value = "cpu")]
    target: String,
    /// Writes the figures to this file too.
    #[arg(long, value_name = "FILE")]
    json: Option<String>,
    /// Takes the least time of a row rather than the median: for machines that others use.
    #[arg(long)]
    least: bool,
    /// Measures what has one of these texts in its name; all where there is none.
    filters: Vec<String>,
}

/// The names of all that can be measured, as the makers of cases ask for them.
fn names(device: &Device, cx: &Context) -> thalweg::Result<Vec<String>> {
    let names = RefCell::new(OTHERS.map(str::to_owned).to_vec());
    let note = |name: &str| {
        names.borrow_mut().push(name.to_owned());
        false
    };
    kernels(device, note)?;
    products(device, note)?;
    convolutions::cases(device, note)?;
    functions::cases(cx, note)?;
    indexed::cases(cx, note)?;
    pools::cases(cx, note)?;
    networks::cases(cx, note)?;
    names.borrow_mut().extend(tensors::ENERGIES.map(str::to_owned));
    Ok(names.into_inner())
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let device = hal::device(&options.target)?;
    let cx = Context::on(device.clone());
    let names = names(&device, &cx)?;
    let fits_none = |filter: &&String| !names.iter().any(|name| name.contains(filter.as_str()));
    if let Some(filter) = options.filters.iter().find(fits_none) {
        return Err(format!(
            "no case has {filter:?} in its name; there are {}",
            names.join(", ")
        )
        .into());
    }
    measure_all(options, &device, &cx)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn measure_all(options: &Options, device: &Device, cx: &Context) -> Result<(), Box<dyn std::error::Error>> {
    let wanted =
        |name: &str| options.filters.is_empty() || options.filters.iter().any(|f| name.contains(f.as_str()));
    let mut rows = Vec::new();
    let round = if options.least {
        Round::Least
    } else {
        Round::Median
    };
    if wanted("overhead") {
        overheads(device, round)?;
        watching(cx, round)?;
    }
    if wanted("profile") {
        profile(device, round)?;
    }
    if wanted("recorded") {
        recorded_times(device)?;
    }
    if wanted("checks") {
        checked(cx)?;
    }
    if wanted("validate") {
        layer("validate", &options.target, device)?;
    }
    if wanted("capture") {
        captured(&options.target, device)?;
    }
    if wanted("eager add_1") {
        for threads in [1, cores()] {
            Pool::global().set_threads(threads);
            let ns = round.nanoseconds(CALLS, tensors::eager(cx)?)?;
            println!(
                "{:<44}{ns:>10.1}",
                format!("eager: a + b, one element, threads {threads}")
            );
            rows.push(json!({ "case": "add_1", "threads": threads, "ms": ns * 1e-6 }));
        }
    }
    if wanted("eager") {
        println!(
            "{:<44}{:>10.1}",
            "eager: a + 1.5, one element",
            round.nanoseconds(CALLS, tensors::eager_number(cx)?)?
        );
    }
    if wanted("compile") {
        let (cold, warm) = tensors::compile(&options.target)?;
        let name = format!("compile: {} nodes, ms; kernels known", tensors::NODES);
        println!("{name:<44}{cold:>10.2}{warm:>10.2}");
    }
    if wanted("jit") {
        println!(
            "{:<44}{:>10.1}",
            "jit: call of x + x, one element",
            round.nanoseconds(CALLS, tensors::call(cx)?)?
        );
    }
    if wanted("kernels") {
        small_kernels(cx, round)?;
    }
    let far = Memory::new(device, FAR)?;
    println!(
        "\n{:<22}{:>8}{:>12}{:>12}  limit",
        "case", "threads", "ms", "% of limit"
    );
    let mut cases = kernels(device, wanted)?;
    cases.extend(products(device, wanted)?);
    cases.extend(convolutions::cases(device, wanted)?);
    cases.extend(functions::cases(cx, wanted)?);
    cases.extend(indexed::cases(cx, wanted)?);
    cases.extend(pools::cases(cx, wanted)?);
    cases.extend(networks::cases(cx, wanted)?);
    if tensors::ENERGIES.into_iter().any(wanted) {
        cases.extend(tensors::energies(cx)?);
    }
    for mut case in cases.into_iter().filter(|case| wanted(&case.name)) {
        for threads in [1, cores()] {
            let row = measure(&mut case, threads, &far, options.least)?;
            rows.push(row);
        }
    }
    if wanted("in_place") {
        for threads in [1, cores()] {
            in_place(device, threads)?;
        }
    }
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(&rows)?;
        std::fs::write(path, text).map_err(|error| format!("{path} was not written: {error}"))?;
    }
    Ok(())
}

/// Small kernels and their end, compiled and eager, in microseconds.
fn small_kernels(cx: &Context, round: Round) -> thalweg::Result<()> {
    let name = format!("{} small kernels and their end, us", tensors::KERNELS);
    println!("{name:<44}{:>10}{:>10}", "compiled", "eager");
    for (name, order) in [
        ("each after the last", Order::Chain),
        ("side by side", Order::Apart),
    ] {
        let us = |compiled| -> thalweg::Result<f64> {
            let call = tensors::small_kernels(cx, order, compiled)?;
            Ok(round.nanoseconds(200, call)? / 1e3)
        };
        println!("{name:<44}{:>10.1}{:>10.1}", us(true)?, us(false)?);
    }
    Ok(())
}

/// What a recording adds to an op: "with a profile on", a row for each kind of record.
fn watching(cx: &Context, round: Round) -> thalweg::Result<()> {
    println!("{:<44}{:>10}", "with a profile on", "ns");
    let costs = watched::costs(cx, round)?;
    let rows = [
        ("a + b, one element, without", costs.without),
        ("what a record of an op adds", costs.op),
        ("what a record of a run adds", costs.run),
        ("what a kernel event adds", costs.kernel),
        ("what everything adds, by record", costs.record()),
    ];
    for (name, ns) in rows {
        println!("{name:<44}{ns:>10.1}");
    }
    Ok(())
}

fn profile(device: &Device, round: Round) -> thalweg::Result<()> {
    println!(
        "{:<44}{:>10}{:>10}{:>10}",
        "profile, ns", "without", "with", "a record"
    );
    let costs = overhead::recorded(device, round)?;
    let show = |name: &str, [without, with]: [f64; 2], records: f64| {
        let each = (with - without) / records;
        println!("{name:<44}{without:>10.1}{with:>10.1}{each:>10.1}");
    };
    show("launch of an empty kernel", costs.launch, 1.0);
    show("one kernel of a prebuilt graph", costs.node, 1.0);
    show("alloc and free, 512 B", costs.alloc, 2.0);
    println!("{:<64}{:>10.1}", "draining a record", costs.drain);
    Ok(())
}

/// The times of kernels in a profile, beside those of a clock around the calls.
fn recorded_times(device: &Device) -> thalweg::Result<()> {
    let name = "kernels in a profile, ms";
    println!("{name:<44}{:>10}{:>10}{:>10}", "called", "recorded", "times");
    let mut cases = kernels(device, |_| true)?;
    cases.extend(products(device, |name| {
        matches!(name, "matmul_256" | "matmul_512" | "matmul_1024")
    })?);
    for case in &mut cases {
        let times = recorded::times(device, case)?;
        let (called, recorded) = (times.called, times.recorded);
        println!(
            "{:<44}{called:>10.4}{recorded:>10.4}{:>10.3}",
            times.name, times.ratio
        );
    }
    Ok(())
}

/// What checks of values and indices add to a compiled step.
fn checked(cx: &Context) -> thalweg::Result<()> {
    println!(
        "{:<44}{:>10}{:>10}{:>10}",
        "checks, ms of a step", "without", "with", "times"
    );
    for threads in [1, cores()] {
        Pool::global().set_threads(threads);
        for cost in checks::costs(cx)? {
            let ([without, with], times) = (cost.least, cost.times);
            let name = format!("{}, {}, threads {threads}", cost.network, cost.check);
            println!("{name:<44}{without:>10.3}{with:>10.3}{times:>10.4}");
        }
    }
    Ok(())
}

/// The layer that captures, without contents.
fn captured(target: &str, device: &Device) -> thalweg::Result<()> {
    let path = std::env::temp_dir().join(format!("thalweg-targets.{}.capture", std::process::id()));
    let options = format!("contents=hash,path={}", path.display());
    set_config("layer.capture", Some(&options));
    let measured = layer("capture", target, device);
    if let Ok(data) = std::fs::metadata(&path) {
        println!("{:<44}{:>10}", "bytes of the capture", data.len());
    }
    // There is none where the layer was refused.
    let _ = std::fs::remove_file(path);
    measured
}

fn layer(name: &str, target: &str, device: &Device) -> thalweg::Result<()> {
    println!(
        "{:<44}{:>10}{:>10}{:>10}",
        format!("layer {name}, ns"),
        "without",
        "with",
        "times"
    );
    let costs = layers::costs(name, target, device)?;
    for (name, [without, with]) in [
        ("launch of an empty kernel", costs.launch),
        ("launch of a + b, one element", costs.add),
        ("one kernel of a prebuilt graph", costs.graph),
        ("alloc and free, 512 B", costs.alloc),
        ("compiled step of LeNet-5, 64 images", costs.step),
    ] {
        println!("{name:<44}{without:>10.1}{with:>10.1}{:>10.2}", with / without);
    }
    Ok(())
}

fn overheads(device: &Device, round: Round) -> thalweg::Result<()> {
    println!("{:<44}{:>10}", "overhead", "ns");
    let show = |name: &str, ns: f64| println!("{name:<44}{ns:>10.1}");
    let small = |name: &str, call: tensors::Call| -> thalweg::Result<()> {
        show(name, round.nanoseconds(CALLS, call)?);
        Ok(())
    };
    small(
        "launch of an empty kernel, idle stream",
        Box::new(overhead::launch(device)?),
    )?;
    small(
        "launch of a + b, one element",
        Box::new(overhead::launch_add(device)?),
    )?;
    small(
        "a + b, one element, with alloc and drop",
        Box::new(overhead::eager_add(device)?),
    )?;
    show("one kernel of a prebuilt graph", overhead::node(device, round)?);
    small("alloc and free, 512 B", Box::new(overhead::alloc(device, 512)?))?;
    small(
        "alloc and free, 4 MB",
        Box::new(overhead::alloc(device, 4_000_000)?),
    )?;
    show("hand-off between warm streams", overhead::hand_off(device)?);
    let [new, known] = overhead::first_use(device)?;
    show("first launch of a kernel never seen before", new);
    show("the same on a device that is opened again", known);
    small(
        "for comparison: malloc and free, 64 B",
        Box::new(|| {
            std::hint::black_box(Box::new([0_u8; 64]));
            Ok(())
        }),
    )?;
    let lock = std::sync::atomic::AtomicU64::new(0);
    small(
        "for comparison: one atomic addition",
        Box::new(move || {
            lock.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(())
        }),
    )
}

fn measure(
    case: &mut Case,
    threads: usize,
    far: &Memory,
    smallest: bool,
) -> thalweg::Result<serde_json::Value> {
    // The limit is probed right before and right after the case; the better probe counts.
    let probe = || match case.limit {
        Limit::Bytes(bytes) => reading(far, bytes, threads),
        Limit::Flops(operations) => operations / flops(threads),
        Limit::FlopsOrBytes(operations, bytes) => {
            (operations / flops(threads)).max(reading(far, bytes, threads))
        }
        Limit::Dots(operations) => operations / dots(threads),
        Limit::HalfDots(operations) => operations / half_dots(threads),
        Limit::HalfSquares(operations) => operations / half_squares(threads),
    };
    let before = probe();
    Pool::global().set_threads(threads);
    let mut failed = None;
    let run = || {
        if let Err(error) = (case.run)() {
            failed.get_or_insert(error);
        }
    };
    let time = if smallest {
        least(BUDGET, run)
    } else {
        median(BUDGET, run)
    };
    if let Some(error) = failed {
        return Err(error.into());
    }
    let limit = before.min(probe());
    let (ms, share) = (time.as_secs_f64() * 1e3, limit / time.as_secs_f64() * 100.0);
    println!(
        "{:<22}{threads:>8}{ms:>12.4}{share:>12.1}  {:.4} ms",
        case.name,
        limit * 1e3
    );
    Ok(json!({ "case": case.name, "threads": threads, "ms": ms, "share": share, "limit_ms": limit * 1e3 }))
}

/// `a += b` by a plain loop over memory that no cache holds, as the time that 1e7 elements take: what `add_1e7` is compared with.
fn in_place(device: &Device, threads: usize) -> thalweg::Result<()> {
    let (a, b) = (Memory::new(device, FAR)?, Memory::new(device, FAR)?);
    let time = median(BUDGET, || a.add(&b, threads));
    let ms = time.as_secs_f64() * 1e3 * 4e7 / FAR as f64;
    println!("{:<22}{threads:>8}{ms:>12.4}", "in_place_add_1e7");
    Ok(())
}
