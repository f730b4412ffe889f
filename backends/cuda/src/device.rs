//! A device: its primary context, and what hangs on it.

use crate::activity;
use crate::api::codes::{PEER_ENABLED, SUCCESS};
use crate::api::{Cupti, Driver, Lt, Nvrtc, Search};
use crate::config::Config;
use crate::context::Context;
use crate::copy;
use crate::event::CuEvent;
use crate::graph::ProgramGraph;
use crate::kernel::CudaKernel;
use crate::launch::{self, Ready};
use crate::library::{Handle, Product};
use crate::memory::Chunk;
use crate::platform::DeviceInfo;
use crate::program::Builder;
use crate::stream::CuStream;
use crate::times::Times;
use parking_lot::Mutex;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use thalweg_cstyle::programs::optimises;
use thalweg_cstyle::{MatmulConfig, Routine, Target};
use thalweg_hal::backend::{Copy, Device, Place, Region, Source, Tag, Work};
use thalweg_hal::ir::{Access, Kernel, Level, Role};
use thalweg_hal::kit::cache::Cache;
use thalweg_hal::kit::profile::{Command, Counter, Recorder, Submission};
use thalweg_hal::kit::program::Program;
use thalweg_hal::library::{LibraryOp, Matmul};
use thalweg_hal::tables::{KernelPart, LogLevel, MemoryInfo, PropertyKey};
use thalweg_hal::{DType, Error, Host, Result};

/// The map that copies a product's results.
fn copy_of(op: &Matmul) -> Kernel {
    let mut kernel = Kernel::new("copy_product", op.batch + 2, 0);
    let [from, to] =
        [Role::In, Role::Out].map(|role| kernel.param(op.output, role, Level::Row, Access::Strided));
    let value = kernel.load(from);
    kernel.store(to, value);
    kernel
}

/// An open device.
pub(crate) struct CudaDevice {
    // What uses the context stands before it.
    products: Option<Arc<Handle>>,
    builder: Arc<Builder>,
    /// Of programs that the compiler does not optimise.
    plain_builder: Arc<Builder>,
    times: Times,
    pub(crate) context: Arc<Context>,
    pub(crate) info: DeviceInfo,
    pub(crate) host: Host,
    config: Config,
    // The driver's numbers for the lowest and the highest priority.
    priorities: (i32, i32),
    // Devices whose memory this one was asked to reach.
    peers: Mutex<Vec<i32>>,
    filler: OnceLock<Result<Arc<CudaKernel>>>,
}

impl CudaDevice {
    /// Opens a device.
    pub(crate) fn open(
        (driver, version): (&'static Driver, i32),
        nvrtc: &'static Nvrtc,
        search: &Search,
        info: &DeviceInfo,
        host: Host,
    ) -> Result<CudaDevice> {
        let config = Config::read(host)?;
        let arch = nvrtc.arch(info.sm)?;
        let context = Context::new(driver, info.device, &info.name, host)?;
        context.enter()?;
        let mut priorities = (0, 0);
        // SAFETY: plain call.
        let code = unsafe { (driver.priorities)(&raw mut priorities.0, &raw mut priorities.1) };
        context.check("cuCtxGetStreamPriorityRange", code)?;
        let identity = [
            env!("CARGO_PKG_VERSION"),
            &format!("{arch:?}"),
            &format!("driver {version}"),
            &format!("NVRTC {}", nvrtc.version_text()),
        ]
        .join("\n");
        let builder = |more: Option<&'static str>| {
            let cache = Cache::new(config.cache.clone(), identity.clone());
            let options = Target::CUDA.options().iter().copied().chain(more).collect();
            Arc::new(Builder::new(
                &context,
                nvrtc,
                (&info.name, arch),
                cache,
                options,
                host,
            ))
        };
        let builders = (builder(None), builder(Some(Target::CUDA.unoptimised())));
        let products = if config.cublaslt {
            let handle =
                Lt::open(search, version).and_then(|lt| Handle::new(lt, &context, config.tf32, info.sm));
            let missing = |error: &Error| host.log(LogLevel::Info, "cuda", &format!("no cuBLASLt: {error}"));
            handle.inspect_err(missing).ok().map(Arc::new)
        } else {
            None
        };
        let (search, wanted) = (search.clone(), config.cupti);
        let open_cupti = move || match wanted {
            true => Cupti::open(&search, version),
            false => Err(Error::unavailable("`cuda.cupti` is off")),
        };
        Ok(CudaDevice {
            products,
            builder: builders.0,
            plain_builder: builders.1,
            times: Times::new(&context, host, open_cupti),
            context,
            info: info.clone(),
            host,
            config,
            priorities,
            peers: Mutex::new(Vec::new()),
            filler: OnceLock::new(),
        })
    }

    /// Lets this device reach the memory of another where both can; copies go another way where they cannot.
    fn reach(&self, other: &CudaDevice) -> Result<()> {
        let mut peers = self.peers.lock();
        if peers.contains(&other.info.device) {
            return Ok(());
        }
        self.context.enter()?;
        let (api, mut can) = (self.context.api, 0);
        // SAFETY: plain calls.
        let code = unsafe { (api.can_access_peer)(&raw mut can, self.info.device, other.info.device) };
        self.context.check("cuDeviceCanAccessPeer", code)?;
        let mut how = "through the host";
        if can != 0 {
            // SAFETY: as above.
            let code = unsafe { (api.enable_peer)(other.context.raw, 0) };
            if code != SUCCESS && code != PEER_ENABLED {
                self.context.check("cuCtxEnablePeerAccess", code)?;
            }
            how = "directly";
        }
        let message = format!("{} copies to and from {} {how}", self.info.name, other.info.name);
        self.host.log(LogLevel::Debug, "cuda", &message);
        peers.push(other.info.device);
        Ok(())
    }

    fn reach_ends(&self, copy: &Copy<'_, Self>) -> Result<()> {
        if let (Place::Device(to, _), Place::Device(from, _)) = (&copy.dst.0, &copy.src.0)
            && !Arc::ptr_eq(&to.context, &from.context)
        {
            to.reach(from)?;
            from.reach(to)?;
        }
        Ok(())
    }

    /// The kernel that fills memory with one value of eight bytes, which no node of the driver's graphs does.
    pub(crate) fn filler(&self) -> Result<&Arc<CudaKernel>> {
        let compile = || {
            let mut kernel = Kernel::new("fill_8_bytes", 1, 0);
            let out = kernel.param(DType::U64, Role::Out, Level::Row, Access::Contiguous);
            let value = kernel.scalar(DType::U64);
            kernel.store(out, value);
            let info = (kernel.verify())
                .map_err(|error| Error::internal(format!("the kernel of fills is wrong: {error}")))?;
            self.compile(&Source::Kernel(&kernel, &info), "").map(Arc::new)
        };
        self.filler.get_or_init(compile).as_ref().map_err(Clone::clone)
    }

    fn routine(&self, source: &Source<'_>) -> Result<(String, Routine)> {
        match source {
            Source::Kernel(kernel, _) => Ok((kernel.name.clone(), Routine::new(kernel, &Target::CUDA)?)),
            Source::Library(op) => {
                if let (LibraryOp::Matmul(op), Some(handle)) = (op, &self.products) {
                    let alone = Matmul {
                        epilogue: None,
                        ..op.clone()
                    };
                    // Our kernel would sum in another order than the library does without the epilogue, and is slower.
                    if Product::new(handle, op).is_none() && Product::new(handle, &alone).is_some() {
                        return Err(Error::unsupported(
                            "cuBLASLt computes this matmul without its epilogue; run that on its own",
                        ));
                    }
                }
                let tiles = MatmulConfig::candidates(&Target::CUDA);
                let tiles = tiles
                    .first()
                    .ok_or_else(|| Error::internal("no tile of a matrix product fits the device"))?;
                Ok((op.name().into(), Routine::library(op, *tiles, &Target::CUDA)?))
            }
        }
    }

    /// # Safety
    /// As [`Device::submit`].
    unsafe fn queue(&self, stream: &CuStream, work: &Work<'_, Self>, tag: Tag<'_>) -> Result<()> {
        // SAFETY: the caller vouches for the memory.
        unsafe {
            match work {
                Work::Launch(launch) => {
                    let ready = Ready::new(launch)?;
                    let mut order = stream.order()?;
                    let queued = match ready {
                        Ready::Kernel(prepared) => launch::queue(&prepared, &mut order),
                        Ready::Product(call) => {
                            let scratch = match call.scratch_bytes() {
                                0 => 0,
                                bytes => order.scratch(bytes)?,
                            };
                            call.queue(order.raw(), scratch)
                        }
                        Ready::Nothing => return Ok(()),
                    };
                    // A part may be queued where the whole is refused.
                    order.done(tag, None);
                    queued
                }
                Work::Copy(copy) => {
                    self.reach_ends(copy)?;
                    copy::copy(self, stream, copy, tag)
                }
                Work::Fill(fill) => copy::fill(stream, fill, tag),
                Work::Callback(callback) => {
                    let callback = *callback;
                    stream.host_work(tag, move || callback.call())
                }
            }
        }
    }
}

impl Device for CudaDevice {
    type Chunk = Chunk;
    type Stream = CuStream;
    type Event = CuEvent;
    type Kernel = CudaKernel;

    fn status(&self) -> Result<()> {
        self.context.alive()
    }

    fn query(&self, key: PropertyKey) -> Option<u64> {
        match key {
            PropertyKey::L1Cache => Some(self.info.l1),
            PropertyKey::L3Cache => Some(self.info.l2),
            PropertyKey::Threads => Some(u64::from(self.info.multiprocessors) * u64::from(self.info.threads)),
            _ => None,
        }
        .filter(|&number| number > 0)
    }

    fn reserve(&self, bytes: u64) -> Result<Chunk> {
        Chunk::new(&self.context, bytes)
    }

    unsafe fn import(&self, ptr: *mut u8, bytes: u64) -> Result<Chunk> {
        let ptr = NonNull::new(ptr).ok_or_else(|| Error::invalid_argument("imported memory is null"))?;
        // SAFETY: the caller vouches for the memory.
        unsafe { Chunk::import(&self.context, ptr, bytes) }
    }

    fn memory_info(&self) -> Result<MemoryInfo> {
        self.context.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: plain call.
        let code = unsafe { (self.context.api.memory_info)(&raw mut free, &raw mut total) };
        self.context.check("cuMemGetInfo", code)?;
        Ok(MemoryInfo {
            free: free as u64,
            total: total as u64,
        })
    }

    fn create_stream(&self, priority: i32) -> Result<CuStream> {
        // The driver's numbers grow as priority falls.
        let (low, high) = self.priorities;
        CuStream::new(&self.context, (-priority).clamp(high, low))
    }

    unsafe fn submit(&self, stream: &CuStream, work: &Work<'_, Self>, tag: Tag<'_>) -> Result<()> {
        // SAFETY: the caller vouches for the memory.
        unsafe { self.queue(stream, work, tag)? };
        if self.config.blocking && !matches!(work, Work::Callback(_)) {
            return stream.wait();
        }
        Ok(())
    }

    fn is_idle(&self, stream: &CuStream) -> Result<bool> {
        Ok(stream.is_idle())
    }

    fn synchronize(&self, stream: &CuStream) -> Result<()> {
        stream.synchronize()
    }

    fn position(&self, stream: &CuStream) -> u64 {
        stream.position()
    }

    fn passed(&self, stream: &CuStream, position: u64) -> bool {
        stream.passed(position)
    }

    fn known_passed(&self, stream: &CuStream, position: u64) -> bool {
        stream.flight().is_passed(position)
    }

    fn create_event(&self, timing: bool) -> Result<CuEvent> {
        CuEvent::new(&self.context, timing)
    }

    fn record(&self, event: &CuEvent, stream: &CuStream) -> Result<()> {
        event.record(stream)
    }

    fn wait_event(&self, stream: &CuStream, event: &CuEvent) -> Result<()> {
        event.hold_up(stream)
    }

    fn query_event(&self, event: &CuEvent) -> Result<bool> {
        event.query()
    }

    fn wait_for_event(&self, event: &CuEvent, timeout: Option<Duration>) -> Result<()> {
        event.wait(timeout)
    }

    fn elapsed(&self, start: &CuEvent, end: &CuEvent) -> Result<i64> {
        start.elapsed(end)
    }

    fn supports(&self, source: &Source<'_>) -> Result<()> {
        self.routine(source).map(drop)
    }

    fn compile(&self, source: &Source<'_>, options: &str) -> Result<CudaKernel> {
        let builder = match optimises("CUDA", options)? {
            true => &self.builder,
            false => &self.plain_builder,
        };
        let (name, routine) = self.routine(source)?;
        let mut kernel = CudaKernel::new(&name, routine, builder);
        if let (Source::Library(LibraryOp::Matmul(op)), Some(handle)) = (source, &self.products) {
            kernel.product = Product::new(handle, op).map(Arc::new);
            if kernel.product.is_some() {
                let mut map = op.epilogue.clone().unwrap_or_else(|| copy_of(op));
                // The epilogue's first parameter is the sum, however it says that it is read.
                map.params[0].access = Access::Strided;
                let routine = Routine::new(&map, &Target::CUDA)?;
                kernel.after_product = Some(Arc::new(CudaKernel::new(&map.name, routine, builder)));
            }
        }
        Ok(kernel)
    }

    fn programs(&self, kernel: &CudaKernel) -> usize {
        kernel.programs()
    }

    fn inspect(&self, kernel: &CudaKernel, program: usize, part: KernelPart) -> Result<Vec<u8>> {
        kernel.inspect(program, part)
    }

    unsafe fn run_program(
        &self,
        stream: &CuStream,
        program: &Arc<Program<Self>>,
        slots: &[Region<'_, Self>],
        arguments: &[u64],
        tag: Option<Tag<'_>>,
    ) -> Result<()> {
        // Where every submission waits for its end, errors name their node.
        if !self.config.blocking && ProgramGraph::is_for(program) {
            let plan = (program.plan).get_or_init(|| Box::new(ProgramGraph::new(program)));
            if let Some(graph) = plan.downcast_ref::<ProgramGraph>()
                // SAFETY: the caller vouches for the memory.
                && unsafe { graph.launch(self, stream, program, slots, (arguments, None), tag)? }
            {
                return Ok(());
            }
        }
        // SAFETY: as above.
        unsafe { program.submit(self, stream, slots, arguments, tag) }
    }

    fn profiler(&self) -> Option<&Arc<Recorder>> {
        Some(self.times.recorder())
    }

    unsafe fn submit_profiled(
        &self,
        stream: &CuStream,
        work: &Work<'_, Self>,
        tag: Tag<'_>,
        submission: &Submission,
    ) -> Result<()> {
        let command = Command::of(work);
        if let Work::Callback(callback) = *work {
            let call = move || callback.call();
            return stream.host_work(tag, self.times.recorder().timed(*submission, command, call));
        }
        // SAFETY: the caller vouches for the memory.
        (self.times).measure(stream, submission, command, || unsafe {
            self.submit(stream, work, tag)
        })
    }

    fn wait_event_profiled(&self, stream: &CuStream, event: &CuEvent, submission: &Submission) -> Result<()> {
        let wait = || event.hold_up(stream);
        self.times.measure(stream, submission, Command::WAIT, wait)
    }

    unsafe fn run_program_profiled(
        &self,
        stream: &CuStream,
        program: &Arc<Program<Self>>,
        slots: &[Region<'_, Self>],
        arguments: &[u64],
        tag: Option<Tag<'_>>,
        submission: &Submission,
    ) -> Result<()> {
        // Events measure node by node.
        if self.times.is_traced() && !self.config.blocking && ProgramGraph::is_for(program) {
            let plan = (program.plan).get_or_init(|| Box::new(ProgramGraph::new(program)));
            let given = (arguments, Some((self.times.recorder(), submission)));
            if let Some(graph) = plan.downcast_ref::<ProgramGraph>()
                // SAFETY: the caller vouches for the memory.
                && unsafe { graph.launch(self, stream, program, slots, given, tag)? }
            {
                activity::await_end(stream);
                return Ok(());
            }
        }
        // SAFETY: as above.
        unsafe { program.submit_profiled(self, stream, slots, arguments, tag, submission) }
    }

    fn profile_started(&self, kinds: u64) -> Result<()> {
        self.times.start(kinds)
    }

    fn profile_stopped(&self) {
        self.times.stop();
    }

    fn profile_collect(&self) -> Result<()> {
        // What was recorded before can be drained all the same.
        if self.context.is_lost() {
            return Ok(());
        }
        self.times.read_clock()?;
        self.times.collect()
    }

    fn counters(&self) -> Result<Vec<Counter>> {
        let times = match self.times.why_not_traced() {
            None => String::new(),
            Some(why) => format!("; times of kernels include what the stream did around them: {why}"),
        };
        Err(Error::unsupported(format!(
            "no hardware counters of GPUs are read{times}"
        )))
    }
}
