//! How cases would run on machines with up to 128 cores: the pieces into which the backend cuts them for so many threads are timed on
//! one core, and a model of the pool deals them out: `cargo run --release -p thalweg-benches --bin many_cores [FILTER…]`.
#![expect(clippy::print_stdout, reason = "the table is what the program is for")]

mod model;

use clap::Parser;
use model::{Crew, Machine, Region};
use std::cell::Cell;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};
use thalweg::Context;
use thalweg::hal;
use thalweg::parallel::{self, ForkJoin};
use thalweg_benches::cases::{Case, Limit, kernels, products};
use thalweg_benches::{convolutions, indexed, networks};

/// Numbers of cores.
const CORES: [usize; 5] = [1, 8, 32, 64, 128];

/// Simulates cases on many cores.
#[derive(Parser)]
#[command(name = "many_cores")]
struct Options {
    /// Cores of a NUMA node.
    #[arg(long, default_value_t = 32)]
    node: usize,
    /// What a node reads from its own memory, GB/s. A server of 2023 with twelve channels has four nodes of 115.
    #[arg(long, default_value_t = 115.0)]
    bandwidth: f64,
    /// Takes cases that have one of these texts in their name.
    filters: Vec<String>,
}

/// Runs regions on the calling thread and notes how long each piece took.
struct Noting {
    threads: AtomicUsize,
    on: AtomicBool,
    regions: Mutex<Vec<Region>>,
}

static NOTING: Noting = Noting {
    threads: AtomicUsize::new(1),
    on: AtomicBool::new(false),
    regions: Mutex::new(Vec::new()),
};

struct Lent;

thread_local! {
    /// Whether this thread is in a piece: a region inside belongs to it.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

impl ForkJoin for Lent {
    fn threads(&self) -> usize {
        NOTING.threads.load(Ordering::Relaxed)
    }

    fn run(&self, count: usize, _priority: i32, body: &(dyn Fn(usize) + Sync)) {
        if !NOTING.on.load(Ordering::Relaxed) || INSIDE.replace(true) {
            return (0..count).for_each(body);
        }
        let mut region = Region::with_capacity(count);
        let mut before = Instant::now();
        for piece in 0..count {
            body(piece);
            let now = Instant::now();
            region.push(u32::try_from((now - before).as_nanos()).unwrap_or(u32::MAX));
            before = now;
        }
        INSIDE.set(false);
        if let Ok(mut regions) = NOTING.regions.lock() {
            regions.push(region);
        }
    }
}

/// One run of a case: all of it, and its regions.
struct Run {
    whole: Duration,
    regions: Vec<Region>,
}

impl Run {
    /// The fastest of a few runs, cut for `threads` threads.
    fn of(case: &mut Case, threads: usize) -> thalweg::Result<Run> {
        NOTING.threads.store(threads, Ordering::Relaxed);
        (case.run)()?;
        let mut best: Option<Run> = None;
        let began = Instant::now();
        let mut runs = 0;
        while runs < 3 || (began.elapsed() < Duration::from_millis(100) && runs < 50) {
            NOTING.on.store(true, Ordering::Relaxed);
            let start = Instant::now();
            let done = (case.run)();
            let whole = start.elapsed();
            NOTING.on.store(false, Ordering::Relaxed);
            done?;
            let regions = NOTING
                .regions
                .lock()
                .map(|mut regions| std::mem::take(&mut *regions));
            let regions = regions.unwrap_or_default();
            if best.as_ref().is_none_or(|best| whole < best.whole) {
                best = Some(Run { whole, regions });
            }
            runs += 1;
        }
        Ok(best.unwrap_or(Run {
            whole: Duration::ZERO,
            regions: Vec::new(),
        }))
    }

    /// Nanoseconds outside of regions, which one core spends.
    fn alone(&self) -> f64 {
        let pieces: f64 = self.regions.iter().flatten().map(|&piece| f64::from(piece)).sum();
        (self.whole.as_nanos() as f64 - pieces).max(0.0)
    }

    fn on(&self, machine: &Machine, crew: Crew, threads: usize) -> f64 {
        let regions = self.regions.iter();
        self.alone()
            + regions
                .map(|pieces| machine.region(crew, threads, pieces))
                .sum::<f64>()
    }
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
    let [wake, sleep] = woken();
    let machine = Machine {
        wake,
        sleep,
        // Between two cores that share a cache; between sockets it is a few times that.
        hand_off: 200.0,
        lock: 100.0,
        piece: 40.0,
        node: options.node,
    };
    println!("a wake-up costs its caller {wake:.0} ns, and the thread runs {sleep:.0} ns later");
    if parallel::lend(Lent).is_err() {
        return Err("a pool was lent before".into());
    }
    let device = hal::device("cpu")?;
    let cx = Context::on(device.clone());
    let wanted =
        |name: &str| options.filters.is_empty() || options.filters.iter().any(|f| name.contains(f.as_str()));
    let mut all = kernels(&device, wanted)?;
    all.extend(products(&device, wanted)?);
    all.extend(convolutions::cases(&device, wanted)?);
    all.extend(indexed::cases(&cx, wanted)?);
    all.extend(networks::cases(&cx, wanted)?);
    println!(
        "speed-up over one core: threads awake / woken by the caller / woken in a tree; * = bound by memory"
    );
    print!("{:<28}{:>10}{:>9}", "case", "1 core, ms", "pieces");
    for cores in &CORES[1..] {
        print!("{:>24}", format!("{cores} cores"));
    }
    println!("{:>12}", "by node");
    for case in &mut all {
        row(case, &machine, options)?;
    }
    Ok(())
}

fn row(case: &mut Case, machine: &Machine, options: &Options) -> thalweg::Result<()> {
    let one = Run::of(case, 1)?.whole.as_nanos() as f64;
    let mut line = String::new();
    let mut last = 0.0;
    let mut pieces = 0;
    for cores in &CORES[1..] {
        let run = Run::of(case, *cores)?;
        pieces = run.regions.iter().map(Vec::len).max().unwrap_or(0);
        // Memory of all nodes, where pieces run beside their data.
        let nodes = cores.div_ceil(options.node) as f64;
        let floor = match case.limit {
            Limit::Bytes(bytes) | Limit::FlopsOrBytes(_, bytes) => bytes / (options.bandwidth * nodes),
            Limit::Flops(_) | Limit::Dots(_) | Limit::HalfDots(_) | Limit::HalfSquares(_) => 0.0,
        };
        let times =
            [Crew::Awake, Crew::WokenByCaller, Crew::WokenInTree].map(|crew| run.on(machine, crew, *cores));
        let bound = if times[0] < floor { "*" } else { "" };
        let [awake, caller, tree] = times.map(|time| one / time.max(floor));
        line += &format!("{:>24}", format!("{awake:.1} / {caller:.1} / {tree:.1}{bound}"));
        last = one / run.on(machine, Crew::AwakeByNode, *cores).max(floor);
    }
    println!(
        "{:<28}{:>10.3}{pieces:>9}{line}{last:>12.1}",
        case.name,
        one * 1e-6
    );
    Ok(())
}

/// What it costs to wake a thread, and how much later it runs, in nanoseconds: medians.
fn woken() -> [f64; 2] {
    struct Bed {
        state: Mutex<(u32, Option<Instant>)>,
        wake: Condvar,
    }
    const ROUNDS: u32 = 101;
    let bed = Bed {
        state: Mutex::new((0, None)),
        wake: Condvar::new(),
    };
    let (mut costs, mut delays) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                let Ok(state) = bed.state.lock() else { return };
                let Ok(mut state) = bed.wake.wait_while(state, |state| state.0 < round) else {
                    return;
                };
                state.1 = Some(Instant::now());
            }
        });
        for round in 1..=ROUNDS {
            std::thread::sleep(Duration::from_millis(1));
            if let Ok(mut state) = bed.state.lock() {
                state.0 = round;
            }
            let before = Instant::now();
            bed.wake.notify_one();
            let after = Instant::now();
            let ran = loop {
                std::thread::sleep(Duration::from_micros(300));
                let Ok(mut state) = bed.state.lock() else { return };
                if let Some(ran) = state.1.take() {
                    break ran;
                }
            };
            costs.push((after - before).as_nanos() as f64);
            delays.push(ran.saturating_duration_since(before).as_nanos() as f64);
        }
    });
    [costs, delays].map(|mut all| {
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(0.0)
    })
}
