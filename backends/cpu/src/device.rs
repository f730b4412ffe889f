//! The host's processor as a device.

use crate::counters::Counters;
use crate::isa::{ISA, Isa, narrow};
use crate::kernel::CpuKernel;
use crate::memory::Chunk;
use crate::profile::{Recorded, Silent};
use crate::stream::{CpuStream, Threads};
use parking_lot::Mutex;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;
use thalweg_hal::backend::{Backend, Device, Properties, Region, Source, Tag, Work};
use thalweg_hal::kit::event::Event;
use thalweg_hal::kit::host_device::memory_info;
use thalweg_hal::kit::pages::Account;
use thalweg_hal::kit::profile::{Counter, Recorder, Submission};
use thalweg_hal::kit::program::{Form, Node, Program};
use thalweg_hal::kit::queue::Queue;
use thalweg_hal::settings::{Setting, Values, Way};
use thalweg_hal::tables::{Capability, KernelPart, Kind, MemoryInfo, PropertyKey};
use thalweg_hal::{Error, Host, Result};

const CODEGEN: Setting = Setting {
    key: "cpu.codegen",
    variable: "THALWEG_CPU_CODEGEN",
    way: Way::Config,
    values: Values::OneOf(&["on", "off"]),
    default: "on",
    about: "Whether maps and rows of f32, f16 and bf16, and matrix products, run as machine code that is made at run time. With `off`, and where the system \
            refuses memory that may be executed, they run as loops of the compiler with the same bits. It is read when the device is \
            opened.",
    read_by: "backend cpu",
};

const AMX_BF16: Setting = Setting {
    key: "cpu.amx_bf16",
    variable: "THALWEG_CPU_AMX_BF16",
    way: Way::Config,
    values: Values::OneOf(&["auto", "off", "on"]),
    default: "auto",
    about: "Whether matrix products of bf16 run by AMX, which is faster and sums in another order: results differ in the last bits from \
            those of processors without it. `auto` is wherever there is AMX and `cpu.isa` is `best`. With `off`, or `auto` and a named \
            instruction set, bits are the same on every machine. `on` is an error where the processor or the system has no AMX, or \
            `cpu.isa` is lower than `avx512`. It is read when the device is opened.",
    read_by: "backend cpu",
};

/// Whether products of bf16 use AMX where it is there. An instruction set that is named stands for its bits.
fn wants_amx(host: Host) -> Result<bool> {
    Ok(match AMX_BF16.word(host)?.as_str() {
        "auto" => ISA.word(host)? == ISA.default,
        word => word == "on",
    })
}

/// The CPU backend: one device, the cores that this process may use.
pub struct CpuBackend {
    host: Host,
}

impl Backend for CpuBackend {
    type Device = CpuDevice;
    const NAME: &'static str = "cpu";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");

    fn start(host: Host) -> Result<CpuBackend> {
        Ok(CpuBackend { host })
    }

    fn device_count(&self) -> Result<u32> {
        Ok(1)
    }

    fn properties(&self, _ordinal: u32) -> Result<Properties> {
        let isa = Isa::chosen(self.host)?;
        // Of lanes of four bytes alone: AMX and lanes of two copy the operand, which is fastest with the channels first.
        let reads_bytes = isa.sums_bytes() && !isa.sums_squares() && CODEGEN.is_on(self.host)?;
        Ok(Properties {
            name: model_name(),
            arch: arch(isa, wants_amx(self.host)?),
            id: String::new(),
            kind: Kind::Cpu,
            compute_units: cores(),
            total_memory: memory_info()?.total,
            capabilities: [
                Capability::F64,
                Capability::F16,
                Capability::BF16,
                Capability::F8,
                Capability::Map,
                Capability::Import,
                Capability::UnifiedMemory,
                Capability::Timing,
                Capability::Priority,
                Capability::Deterministic,
                Capability::ChannelsLast,
                Capability::PartsOfBatches,
            ]
            .into_iter()
            .chain(reads_bytes.then_some(Capability::ChannelsLastBytes))
            .collect(),
            priorities: (-1, 1),
        })
    }

    fn open(&self, _ordinal: u32) -> Result<CpuDevice> {
        let isa = Isa::chosen(self.host)?;
        if AMX_BF16.is_on(self.host)? && !isa.sums_squares() {
            return Err(Error::unsupported(format!(
                "{} is on, but with `cpu.isa` {} this processor and system have no AMX: set it to off",
                AMX_BF16.key,
                isa.name()
            )));
        }
        Ok(CpuDevice {
            host: self.host,
            isa,
            amx_bf16: wants_amx(self.host)?,
            account: Account::new(memory_info()?.total),
            codegen: CODEGEN.is_on(self.host)?,
            recorder: Recorder::new(),
            counters: Mutex::new(None),
        })
    }
}

fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

fn model_name() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(
        || std::env::consts::ARCH.to_owned(),
        |(_, name)| name.trim().to_owned(),
    )
}

/// The instruction set in use, and those for narrow types that are there: `x86_64 avx512, has avx512_bf16 avx512_vnni`. AMX for bf16 is said
/// to be in use where products ask for it and it is there; only then does the process ask the system.
fn arch(isa: Isa, amx_bf16: bool) -> String {
    let narrow = narrow();
    let in_use = amx_bf16 && isa == Isa::Avx512 && narrow.contains(&"amx");
    let amx = if in_use { " amx_bf16" } else { "" };
    let used = format!("{} {}{amx}", std::env::consts::ARCH, isa.name());
    match narrow.is_empty() {
        true => used,
        false => format!("{used}, has {}", narrow.join(" ")),
    }
}

/// Bytes of the data or unified cache of `level` of the first core.
fn cache(level: u32) -> Option<u64> {
    (0..8).find_map(|index| {
        let read = |name: &str| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{name}");
            std::fs::read_to_string(path)
                .ok()
                .map(|text| text.trim().to_owned())
        };
        if read("level")?.parse() != Ok(level) || read("type")? == "Instruction" {
            return None;
        }
        let size = read("size")?;
        match size.strip_suffix('K') {
            Some(kilobytes) => kilobytes.parse::<u64>().ok().map(|n| n << 10),
            None => size.parse().ok(),
        }
    })
}

/// The processor.
pub struct CpuDevice {
    host: Host,
    isa: Isa,
    // Whether kernels become machine code.
    codegen: bool,
    // Whether products of bf16 use AMX where the system gives its registers.
    amx_bf16: bool,
    account: Arc<Account>,
    recorder: Arc<Recorder>,
    // Since somebody asked for them in the profile that runs.
    counters: Mutex<Option<Counters>>,
}

impl CpuDevice {
    fn probe<'a>(&'a self, submission: &'a Submission) -> Recorded<'a> {
        Recorded {
            recorder: &self.recorder,
            submission,
        }
    }
}

impl Device for CpuDevice {
    type Chunk = Chunk;
    type Stream = CpuStream;
    type Event = Event;
    type Kernel = CpuKernel;

    fn query(&self, key: PropertyKey) -> Option<u64> {
        match key {
            PropertyKey::L1Cache => cache(1),
            PropertyKey::L2Cache => cache(2),
            PropertyKey::L3Cache => cache(3),
            PropertyKey::VectorBits => Some(self.isa.bits()),
            PropertyKey::Threads => Some(self.host.max_threads() as u64),
            _ => None,
        }
    }

    fn reserve(&self, bytes: u64) -> Result<Chunk> {
        Chunk::map(bytes, &self.account)
    }

    unsafe fn import(&self, ptr: *mut u8, _bytes: u64) -> Result<Chunk> {
        NonNull::new(ptr)
            .map(Chunk::import)
            .ok_or_else(|| Error::invalid_argument("imported memory is null"))
    }

    fn map(&self, chunk: &Chunk) -> Result<*mut u8> {
        Ok(chunk.base())
    }

    fn memory_info(&self) -> Result<MemoryInfo> {
        memory_info()
    }

    fn create_stream(&self, priority: i32) -> Result<CpuStream> {
        Ok(CpuStream {
            queue: Queue::new("thalweg-stream"),
            threads: Threads {
                host: self.host,
                priority,
            },
        })
    }

    #[inline]
    unsafe fn submit(&self, stream: &CpuStream, work: &Work<'_, Self>, tag: Tag<'_>) -> Result<()> {
        // SAFETY: the caller vouches for the memory.
        unsafe { stream.submit(work, tag, &Silent) }
    }

    fn is_idle(&self, stream: &CpuStream) -> Result<bool> {
        Ok(stream.queue.is_idle())
    }

    fn synchronize(&self, stream: &CpuStream) -> Result<()> {
        stream.queue.synchronize()
    }

    #[inline]
    fn position(&self, stream: &CpuStream) -> u64 {
        stream.queue.position()
    }

    #[inline]
    fn passed(&self, stream: &CpuStream, position: u64) -> bool {
        stream.queue.passed(position)
    }

    #[inline]
    fn pending(&self, stream: &CpuStream) -> Option<u64> {
        stream.queue.pending()
    }

    fn create_event(&self, timing: bool) -> Result<Event> {
        Ok(Event::new(timing))
    }

    fn record(&self, event: &Event, stream: &CpuStream) -> Result<()> {
        event.record(&stream.queue)
    }

    fn wait_event(&self, stream: &CpuStream, event: &Event) -> Result<()> {
        event.hold_up(&stream.queue)
    }

    fn query_event(&self, event: &Event) -> Result<bool> {
        Ok(event.query())
    }

    fn wait_for_event(&self, event: &Event, timeout: Option<Duration>) -> Result<()> {
        event.wait(timeout)
    }

    fn elapsed(&self, start: &Event, end: &Event) -> Result<i64> {
        start.elapsed(end)
    }

    fn supports(&self, source: &Source<'_>) -> Result<()> {
        CpuKernel::supports(source)
    }

    fn compile(&self, source: &Source<'_>, options: &str) -> Result<CpuKernel> {
        match options.lines().find(|line| !line.trim().is_empty()) {
            None => CpuKernel::compile(source, self.isa, (self.codegen, self.amx_bf16)),
            Some("optimise=off") => Err(Error::unsupported(
                "kernels run loops that were compiled with the CPU backend, or its own code; nothing optimises them later",
            )),
            Some(option) => Err(Error::invalid_argument(format!(
                "the CPU backend knows no compile option `{option}`"
            ))),
        }
    }

    fn inspect(&self, kernel: &CpuKernel, _: usize, part: KernelPart) -> Result<Vec<u8>> {
        match part {
            KernelPart::Facts => Ok(kernel.facts(self.isa).into_bytes()),
            part => Err(Error::unsupported(format!(
                "kernels run loops that were compiled with the CPU backend, or its own code; there is no {} of one",
                part.name()
            ))),
        }
    }

    fn forms(&self, nodes: &[Node<Self>], constant: &dyn Fn(usize) -> bool) -> Vec<Form> {
        crate::step::forms(nodes, constant)
    }

    #[inline]
    unsafe fn run_program(
        &self,
        stream: &CpuStream,
        program: &Arc<Program<Self>>,
        slots: &[Region<'_, Self>],
        arguments: &[u64],
        tag: Option<Tag<'_>>,
    ) -> Result<()> {
        // SAFETY: the caller vouches for the memory.
        unsafe { stream.submit_program(program, slots, arguments, tag, &Silent) }
    }

    fn profiler(&self) -> Option<&Arc<Recorder>> {
        Some(&self.recorder)
    }

    unsafe fn submit_profiled(
        &self,
        stream: &CpuStream,
        work: &Work<'_, Self>,
        tag: Tag<'_>,
        submission: &Submission,
    ) -> Result<()> {
        // SAFETY: the caller vouches for the memory.
        unsafe { stream.submit(work, tag, &self.probe(submission)) }
    }

    unsafe fn run_program_profiled(
        &self,
        stream: &CpuStream,
        program: &Arc<Program<Self>>,
        slots: &[Region<'_, Self>],
        arguments: &[u64],
        tag: Option<Tag<'_>>,
        submission: &Submission,
    ) -> Result<()> {
        // SAFETY: the caller vouches for the memory.
        unsafe { stream.submit_program(program, slots, arguments, tag, &self.probe(submission)) }
    }

    fn wait_event_profiled(&self, stream: &CpuStream, event: &Event, submission: &Submission) -> Result<()> {
        event.hold_up_profiled(&stream.queue, &self.recorder, submission)
    }

    fn profile_stopped(&self) {
        *self.counters.lock() = None;
    }

    fn counters(&self) -> Result<Vec<Counter>> {
        let mut counters = self.counters.lock();
        // Counters take a file for each event and thread, so a profile that nobody asks for them opens none.
        match &mut *counters {
            Some(counters) => counters.read(),
            none => none.insert(Counters::start()?).read(),
        }
    }
}
