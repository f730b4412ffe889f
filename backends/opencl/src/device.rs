//! A device: a context, and what hangs on it.

use crate::api::{Api, Context};
use crate::clock::{DeviceClock, Reading};
use crate::config::Config;
use crate::copy::{self, Rows};
use crate::event::ClEvent;
use crate::kernel::ClKernel;
use crate::launch;
use crate::memory::Chunk;
use crate::peer::Port;
use crate::platform::{self, DeviceInfo};
use crate::profile::{Origin, Packet};
use crate::program::{Builder, Driver};
use crate::run::Launches;
use crate::stream::{ClStream, Flight};
use parking_lot::Mutex;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use thalweg_cstyle::programs::optimises;
use thalweg_cstyle::{Dialect, Once, Routine, Target};
use thalweg_hal::backend::{Device, Region, Source, Tag, Work};
use thalweg_hal::kit::host_device;
use thalweg_hal::kit::pages::Account;
use thalweg_hal::kit::profile::{Command, Recorder, Submission};
use thalweg_hal::kit::program::Program;
use thalweg_hal::tables::{KernelPart, Kind, LogLevel, MemoryInfo, NoticeKind, PropertyKey};
use thalweg_hal::{Error, Host, Result, Status};

/// An open device.
pub(crate) struct OpenClDevice {
    // What uses the context stands before it.
    rows: Once<Rows>,
    pub(crate) builder: Arc<Builder>,
    /// Of programs that the compiler does not optimise.
    plain_builder: Arc<Builder>,
    pub(crate) port: Arc<Port>,
    pub(crate) context: Arc<Context>,
    pub(crate) api: &'static Api,
    pub(crate) info: DeviceInfo,
    pub(crate) target: Target,
    pub(crate) config: Config,
    pub(crate) host: Host,
    // Indices among the candidates, of matrix products and of convolutions.
    pub(crate) tiles: [OnceLock<usize>; 2],
    account: Arc<Account>,
    recorder: Arc<Recorder>,
    // Of the streams that live.
    flights: Mutex<Vec<Weak<Flight>>>,
    lost: OnceLock<String>,
}

impl OpenClDevice {
    /// Opens a device.
    pub(crate) fn open(
        api: &'static Api,
        info: &DeviceInfo,
        host: Host,
        context: Arc<Context>,
    ) -> Result<OpenClDevice> {
        let config = Config::read(host, info)?;
        let target = Target {
            dialect: Dialect::OpenClC,
            fp64: info.fp64,
            cpu: info.kind == Kind::Cpu,
            max_group_size: info.max_group,
            argument_bytes: info.argument_bytes,
        };
        if !info.rounds_division {
            let message = format!(
                "{} rounds f32 division and square roots within 2.5 ulp, not correctly",
                info.name
            );
            host.log(LogLevel::Warn, "opencl", &message);
        }
        let builder = |optimise: bool| {
            let cache = config.cache.clone();
            Driver::builder((api, info), host, &context, &target, cache, optimise)
        };
        Ok(OpenClDevice {
            rows: Once::default(),
            builder: Arc::new(builder(true)?),
            plain_builder: Arc::new(builder(false)?),
            port: Port::new(api, &context, info.id)?,
            context,
            api,
            info: info.clone(),
            target,
            config,
            account: Account::new(info.memory),
            recorder: Recorder::new(),
            flights: Mutex::default(),
            host,
            tiles: Default::default(),
            lost: OnceLock::new(),
        })
    }

    /// The kernels that copy rows, built when first needed.
    pub(crate) fn rows(&self) -> Result<&Rows> {
        self.rows.get(|| Rows::new(self))
    }

    /// Queues work.
    ///
    /// # Safety
    /// As [`Device::submit`].
    pub(crate) unsafe fn queue_work(
        &self,
        stream: &ClStream,
        work: &Work<'_, Self>,
        origin: Origin<'_>,
    ) -> Result<()> {
        // SAFETY: the caller vouches for the memory.
        unsafe {
            match work {
                Work::Launch(launch) => launch::submit(self, stream, launch, origin),
                Work::Copy(copy) => copy::copy(self, stream, copy, origin),
                Work::Fill(fill) => copy::fill(self, stream, fill, origin),
                Work::Callback(callback) => {
                    let callback = *callback;
                    stream.host_work(origin, move || callback.call())
                }
            }
        }
    }

    /// Remembers when an error means that the device is gone.
    fn watch<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && error.status == Status::DeviceLost
            && self.lost.set(error.message.clone()).is_ok()
        {
            self.host.notify(
                NoticeKind::DeviceLost,
                0,
                &format!("{}: {}", self.info.name, error.message),
            );
        }
        result
    }

    /// Tells the recorder what the device's clock shows now.
    fn read_clock(&self) -> Result<()> {
        let reading = match self.config.timer && self.info.opencl_version() >= (2, 1) {
            true => Reading::Timer,
            false => Reading::Marker,
        };
        let clock = DeviceClock {
            api: self.api,
            device: self.info.id,
            queue: self.port.raw_queue(),
            reading,
        };
        let (device, host) = (clock.moment())
            .ok_or_else(|| Error::unsupported("not measured: the driver does not tell its clock"))?;
        self.recorder.add_moment(device, host);
        Ok(())
    }

    fn routine(&self, source: &Source<'_>) -> Result<(String, Routine)> {
        match source {
            Source::Kernel(kernel, _) if self.config.interpret => {
                Ok((kernel.name.clone(), Routine::interpreted(kernel, &self.target)?))
            }
            Source::Kernel(kernel, _) => Ok((kernel.name.clone(), Routine::new(kernel, &self.target)?)),
            Source::Library(op) if self.config.interpret => Err(Error::unsupported(format!(
                "with opencl.kernels=interpreted there is no {}; lower it",
                op.name()
            ))),
            Source::Library(op) => {
                let config = self.tiles(op)?;
                Ok((op.name().into(), Routine::library(op, config, &self.target)?))
            }
        }
    }
}

impl Device for OpenClDevice {
    type Chunk = Chunk;
    type Stream = ClStream;
    type Event = ClEvent;
    type Kernel = ClKernel;

    fn status(&self) -> Result<()> {
        match self.lost.get() {
            Some(why) => Err(Error::new(Status::DeviceLost, why.clone())),
            None => Ok(()),
        }
    }

    fn query(&self, key: PropertyKey) -> Option<u64> {
        match key {
            PropertyKey::L3Cache => Some(self.info.cache).filter(|&bytes| bytes > 0),
            PropertyKey::Threads => Some(u64::from(self.info.compute_units)),
            _ => None,
        }
    }

    fn reserve(&self, bytes: u64) -> Result<Chunk> {
        if bytes > self.info.max_buffer {
            return Err(Error::out_of_memory(format!(
                "{bytes} B in one piece, the device gives at most {} B",
                self.info.max_buffer
            )));
        }
        self.watch(if self.config.shared {
            Chunk::shared(&self.context, bytes, &self.account)
        } else {
            Chunk::of_driver(&self.context, self.port.transfer(), bytes, &self.account)
        })
    }

    unsafe fn import(&self, ptr: *mut u8, bytes: u64) -> Result<Chunk> {
        let ptr = NonNull::new(ptr).ok_or_else(|| Error::invalid_argument("imported memory is null"))?;
        if !self.config.shared {
            return Err(Error::unsupported(
                "this device does not use host memory in place; copy it",
            ));
        }
        // SAFETY: the caller vouches for the memory.
        self.watch(unsafe { Chunk::import(&self.context, ptr, bytes) })
    }

    fn map(&self, chunk: &Chunk) -> Result<*mut u8> {
        chunk
            .host()
            .ok_or_else(|| Error::unsupported("this device's memory cannot be mapped; copy it"))
    }

    fn memory_info(&self) -> Result<MemoryInfo> {
        let total = self.info.memory;
        if self.info.unified {
            let free = host_device::memory_info()?.free.min(total);
            return Ok(MemoryInfo { free, total });
        }
        if self.info.tells_free {
            let kibibytes = platform::number(
                self.api,
                self.info.id,
                crate::api::codes::DEVICE_GLOBAL_FREE_MEMORY_AMD,
            );
            let free = (kibibytes & 0xffff_ffff) * 1024;
            return Ok(MemoryInfo { free, total });
        }
        Err(Error::unsupported(
            "this device's driver does not tell how much memory is free",
        ))
    }

    fn create_stream(&self, priority: i32) -> Result<ClStream> {
        let stream = self.watch(ClStream::new(self.api, &self.context, self.info.id, priority))?;
        let mut flights = self.flights.lock();
        flights.retain(|flight| flight.strong_count() > 0);
        flights.push(Arc::downgrade(&stream.flight));
        Ok(stream)
    }

    unsafe fn submit(&self, stream: &ClStream, work: &Work<'_, Self>, tag: Tag<'_>) -> Result<()> {
        // SAFETY: the caller vouches for the memory.
        self.watch(unsafe { self.queue_work(stream, work, tag.into()) })
    }

    fn is_idle(&self, stream: &ClStream) -> Result<bool> {
        Ok(stream.is_idle())
    }

    fn synchronize(&self, stream: &ClStream) -> Result<()> {
        self.watch(stream.synchronize())
    }

    fn position(&self, stream: &ClStream) -> u64 {
        stream.position()
    }

    fn passed(&self, stream: &ClStream, position: u64) -> bool {
        stream.passed(position)
    }

    fn known_passed(&self, stream: &ClStream, position: u64) -> bool {
        stream.known_passed(position)
    }

    fn create_event(&self, timing: bool) -> Result<ClEvent> {
        Ok(ClEvent::new(timing))
    }

    fn record(&self, event: &ClEvent, stream: &ClStream) -> Result<()> {
        self.watch(event.record(stream))
    }

    fn wait_event(&self, stream: &ClStream, event: &ClEvent) -> Result<()> {
        self.watch(event.hold_up(stream))
    }

    fn query_event(&self, event: &ClEvent) -> Result<bool> {
        Ok(event.query())
    }

    fn wait_for_event(&self, event: &ClEvent, timeout: Option<Duration>) -> Result<()> {
        event.wait(timeout)
    }

    fn elapsed(&self, start: &ClEvent, end: &ClEvent) -> Result<i64> {
        start.elapsed(end)
    }

    fn supports(&self, source: &Source<'_>) -> Result<()> {
        self.routine(source).map(drop)
    }

    fn compile(&self, source: &Source<'_>, options: &str) -> Result<ClKernel> {
        let (name, routine) = self.routine(source)?;
        let builder = match optimises("OpenCL", options)? {
            true => &self.builder,
            false => &self.plain_builder,
        };
        Ok(ClKernel::new(&name, routine, builder))
    }

    fn programs(&self, kernel: &ClKernel) -> usize {
        kernel.programs()
    }

    fn inspect(&self, kernel: &ClKernel, program: usize, part: KernelPart) -> Result<Vec<u8>> {
        kernel.inspect(program, part)
    }

    unsafe fn run_program(
        &self,
        stream: &ClStream,
        program: &Arc<Program<Self>>,
        slots: &[Region<'_, Self>],
        arguments: &[u64],
        tag: Option<Tag<'_>>,
    ) -> Result<()> {
        let launches = launches(program)?;
        // SAFETY: the caller vouches for the memory.
        self.watch(unsafe { launches.run((self, stream), program, slots, arguments, tag, None) })
    }

    fn profiler(&self) -> Option<&Arc<Recorder>> {
        Some(&self.recorder)
    }

    unsafe fn submit_profiled(
        &self,
        stream: &ClStream,
        work: &Work<'_, Self>,
        tag: Tag<'_>,
        submission: &Submission,
    ) -> Result<()> {
        let packet = Packet::new(&self.recorder, *submission, Command::of(work));
        // SAFETY: the caller vouches for the memory.
        self.watch(unsafe { self.queue_work(stream, work, packet.origin(tag)) })
    }

    unsafe fn run_program_profiled(
        &self,
        stream: &ClStream,
        program: &Arc<Program<Self>>,
        slots: &[Region<'_, Self>],
        arguments: &[u64],
        tag: Option<Tag<'_>>,
        submission: &Submission,
    ) -> Result<()> {
        let (launches, profile) = (launches(program)?, Some((&self.recorder, submission)));
        // SAFETY: the caller vouches for the memory.
        self.watch(unsafe { launches.run((self, stream), program, slots, arguments, tag, profile) })
    }

    fn wait_event_profiled(&self, stream: &ClStream, event: &ClEvent, submission: &Submission) -> Result<()> {
        let packet = Packet::new(&self.recorder, *submission, Command::WAIT);
        self.watch(event.hold_up_profiled(stream, packet.origin(Tag::NONE)))
    }

    fn profile_started(&self, _: u64) -> Result<()> {
        self.read_clock()
    }

    fn profile_collect(&self) -> Result<()> {
        let flights: Vec<_> = self.flights.lock().iter().filter_map(Weak::upgrade).collect();
        flights.iter().for_each(|flight| flight.collect_all());
        // After the commands: then none of them is later than the clock is known.
        self.read_clock()
    }
}

/// What is kept of a program's launches.
fn launches(program: &Program<OpenClDevice>) -> Result<&Launches> {
    let plan = (program.plan).get_or_init(|| Box::new(Launches::new(program.nodes.len())));
    (plan.downcast_ref()).ok_or_else(|| Error::internal("a program's plan is another backend's"))
}
