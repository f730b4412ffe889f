//! A device that computes one op wrongly: the comparison of two dumps names that op, whichever it is.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg::hal::Runtime;
use thalweg::loader::discover::Surroundings;
use thalweg::loader::{Embedded, LoaderOptions, Registry};
use thalweg::observe::{self, DumpOptions, Figure, SavedData};
use thalweg::{Context, Tensor, jit};
use thalweg_hal::backend::{Backend, Device, Launch, Properties, Source, Tag, Work};
use thalweg_hal::interpreter::{self, Arithmetic};
use thalweg_hal::ir::{Info, Kernel, ScalarOp};
use thalweg_hal::kit::host_memory;
use thalweg_hal::kit::queue::Queue;
use thalweg_hal::tables::{Capability, Kind};
use thalweg_hal::{DType, Error, Host, Result};

type Unary = fn(&Tensor) -> Tensor;

/// The ops of the network in their order, each once, with their names.
const OPS: [(ScalarOp, &str, Unary); 9] = [
    (ScalarOp::Sin, "sin", |x| x.sin()),
    (ScalarOp::Exp, "exp", |x| x.exp()),
    (ScalarOp::Sqrt, "sqrt", |x| x.sqrt()),
    (ScalarOp::Log, "log", |x| x.log()),
    (ScalarOp::Cos, "cos", |x| x.cos()),
    (ScalarOp::Tanh, "tanh", |x| x.tanh()),
    (ScalarOp::Neg, "neg", |x| -x),
    (ScalarOp::Expm1, "expm1", |x| x.expm1()),
    (ScalarOp::Abs, "abs", |x| x.abs()),
];

/// Which op is wrong, as its place in [`OPS`] and 1, and which bit of its results is another one: `op << 8 | bit`; 0 for none.
static PLANTED: AtomicU64 = AtomicU64::new(0);

/// The arithmetic of the IR, but for what is planted.
struct Wrong;

impl Arithmetic for Wrong {
    fn op(&self, op: ScalarOp, dtype: DType, args: [u64; 3]) -> u64 {
        let right = interpreter::Definition.op(op, dtype, args);
        let planted = PLANTED.load(Ordering::Relaxed);
        let is = |at: u64| OPS[at as usize - 1].0 == op;
        match planted >> 8 {
            0 => right,
            at if is(at) => right ^ 1 << (planted & 0xff),
            _ => right,
        }
    }
}

struct Planted;
struct PlantedDevice;

impl Backend for Planted {
    type Device = PlantedDevice;
    const NAME: &'static str = "planted";
    const VERSION: &'static str = "1.0.0";

    fn start(_: Host) -> Result<Planted> {
        Ok(Planted)
    }

    fn device_count(&self) -> Result<u32> {
        Ok(1)
    }

    fn properties(&self, _: u32) -> Result<Properties> {
        Ok(Properties {
            capabilities: vec![
                Capability::Map,
                Capability::UnifiedMemory,
                Capability::Deterministic,
            ],
            ..Properties::of_host("an interpreter with a fault", Kind::Cpu)
        })
    }

    fn open(&self, _: u32) -> Result<PlantedDevice> {
        Ok(PlantedDevice)
    }
}

impl Device for PlantedDevice {
    type Kernel = (Kernel, Info);

    thalweg_hal::host_memory!();
    thalweg_hal::queue_streams!();

    unsafe fn submit(&self, stream: &Queue, work: &Work<'_, Self>, tag: Tag<'_>) -> Result<()> {
        // SAFETY: the caller's contract, which is that of the launch, too.
        unsafe { host_memory::submit(stream, work, tag, launch) }
    }

    fn supports(&self, source: &Source<'_>) -> Result<()> {
        match source {
            Source::Kernel(..) => Ok(()),
            Source::Library(_) => Err(no_library()),
        }
    }

    fn compile(&self, source: &Source<'_>, _: &str) -> Result<(Kernel, Info)> {
        match *source {
            Source::Kernel(kernel, info) => Ok((kernel.clone(), info.clone())),
            Source::Library(_) => Err(no_library()),
        }
    }
}

fn no_library() -> Error {
    Error::unsupported("there are no library ops; compile the op's definition")
}

/// # Safety
/// As [`Device::submit`].
unsafe fn launch(launch: &Launch<'_, PlantedDevice>) -> Result<()> {
    let (kernel, info) = &**launch.kernel;
    // SAFETY: the caller's contract.
    unsafe { interpreter::launch(launch, (kernel, info), &Wrong) };
    Ok(())
}

fn network(x: &Tensor) -> Tensor {
    OPS.iter().fold(x.clone(), |x, (_, _, op)| op(&x)).sum()
}

/// Dumps what the network computes: elements, or hashes alone.
fn dumped(cx: &Context, folder: &Path, hashes: bool, compiled: bool) {
    let mut options = DumpOptions::to(folder.to_str().unwrap());
    if hashes {
        options.saved_data = SavedData::Statistic;
        options.statistic_category = vec![Figure::Hash];
    }
    let x = Tensor::from_slice(&[0.25_f32, 0.5, 0.75, 1.0, 1.25, 0.125], [2, 3], cx);
    let dump = cx.dump(&options).unwrap();
    observe::restart_calls();
    let result = match compiled {
        true => jit(network).call(&x),
        false => network(&x),
    };
    result.to_vec::<f32>().unwrap();
    dump.finish().unwrap();
}

#[test]
fn a_wrong_op_is_named_each_time() {
    let registry = Registry::with(
        LoaderOptions::default(),
        &[Embedded::of::<Planted>()],
        &Surroundings::default(),
    );
    let cx = Context::on(Runtime::new(registry).device("planted").unwrap());
    let folder = tempfile::tempdir().unwrap();
    let right = |hashes: bool, compiled: bool| folder.path().join(format!("right_{hashes}_{compiled}"));
    for (hashes, compiled) in [(false, false), (false, true), (true, false), (true, true)] {
        dumped(&cx, &right(hashes, compiled), hashes, compiled);
    }
    let mut random = 7_u64;
    for round in 0..100 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let (op, bit) = ((random >> 33) as usize % OPS.len(), random >> 40 & 31);
        let (hashes, compiled) = (round % 4 >= 2, round % 2 == 1);
        let wrong = folder.path().join(format!("wrong_{round}"));
        PLANTED.store((op as u64 + 1) << 8 | bit, Ordering::Relaxed);
        dumped(&cx, &wrong, hashes, compiled);
        PLANTED.store(0, Ordering::Relaxed);
        let found = thalweg_observe::diff(&right(hashes, compiled), &wrong).unwrap();
        let first = &found.differences[0];
        let wanted = format!("Default/{}-op{}", OPS[op].1, op + 1);
        assert_eq!(
            (first.name.as_str(), first.port.as_str(), found.exact),
            (wanted.as_str(), "output 0", true),
            "round {round}, bit {bit}: {found}"
        );
        assert!(
            first
                .line
                .as_deref()
                .is_some_and(|line| line.contains("planted.rs:")),
            "{found}"
        );
        // The report marks it.
        let page = found.to_html(["right", "wrong"]);
        assert!(
            page.contains(&format!("first difference: {wanted}, output 0</text>")),
            "{wanted}"
        );
        assert!(!page.contains("<script") && !page.contains("http:") && !page.contains("https:"));
    }
    // Without a fault, a run repeats its bits.
    let again = folder.path().join("again");
    dumped(&cx, &again, true, true);
    let found = thalweg_observe::diff(&right(true, true), &again).unwrap();
    assert!(found.is_equal() && found.compared > OPS.len(), "{found}");
    assert!(found.to_html(["one", "other"]).contains("All values are equal"));
}
