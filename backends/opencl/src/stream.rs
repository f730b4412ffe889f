//! Streams: in-order queues of the device, with the host's work between its commands.

use crate::api::{Api, CommandQueue, Context, DeviceId, Event, Mem, RawEvent, RawQueue, check, codes, error};
use crate::profile::{Origin, Pending};
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_hal::backend::{OwnedTag, Tag};
use thalweg_hal::kit::queue::{Job, Queue};
use thalweg_hal::{Error, Result, Status};

/// A command that was queued and is not known to have ended.
struct Command {
    event: Event,
    tag: OwnedTag,
    // While a profile runs.
    pending: Option<Box<Pending>>,
}

#[derive(Default)]
struct State {
    commands: VecDeque<Command>,
    error: Option<Error>,
}

/// The commands of a stream that are under way, and its first error.
#[derive(Default)]
pub(crate) struct Flight {
    state: Mutex<State>,
    submitted: AtomicU64,
    finished: AtomicU64,
}

impl Flight {
    fn add(&self, event: Event, tag: OwnedTag, pending: Option<Box<Pending>>) {
        let mut state = self.state.lock();
        state.commands.push_back(Command { event, tag, pending });
        self.submitted.fetch_add(1, Ordering::AcqRel);
        // Two out for each one in: a stream that is never asked does not grow for ever.
        self.collect(&mut state, 2);
    }

    /// Takes out at most `limit` commands that have ended, from the first on.
    fn collect(&self, state: &mut State, limit: usize) {
        for _ in 0..limit {
            let Some(status) = state.commands.front().map(|command| command.event.status()) else {
                return;
            };
            if status > codes::COMPLETE {
                return;
            }
            if let Some(command) = state.commands.pop_front() {
                if status < codes::COMPLETE {
                    fail(state, &command.tag, &failure(status));
                } else if let Some(pending) = command.pending {
                    pending.finish(&command.event);
                }
            }
            self.finished.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Takes out what has ended, and records it.
    pub(crate) fn collect_all(&self) {
        self.collect(&mut self.state.lock(), usize::MAX);
    }

    fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Acquire)
    }

    fn known_passed(&self, position: u64) -> bool {
        self.finished.load(Ordering::Acquire) >= position
    }

    fn passed(&self, position: u64) -> bool {
        self.known_passed(position) || {
            self.collect_all();
            self.known_passed(position)
        }
    }

    /// Waits for the first `position` commands one by one.
    fn wait(&self, position: u64) {
        while !self.passed(position) {
            let front = self
                .state
                .lock()
                .commands
                .front()
                .map(|command| command.event.clone());
            if let Some(event) = front {
                event.wait();
            }
        }
    }
}

fn fail(state: &mut State, tag: &OwnedTag, error: &Error) {
    if state.error.is_none() {
        state.error = Some(Error::new(error.status, format!("{tag}: {}", error.message)));
    }
}

/// The error of a command that ended with `status`.
fn failure(status: i32) -> Error {
    match status {
        codes::EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST => {
            Error::launch_failed("work that it waited for has failed")
        }
        // What a command lacks while it runs is seldom memory of a buffer; the driver does not say.
        _ => Error::new(
            match error("", status).status {
                Status::DeviceLost => Status::DeviceLost,
                _ => Status::LaunchFailed,
            },
            error("the command", status).message,
        ),
    }
}

/// Scratch memory of a stream: its commands use it one after the other.
#[derive(Default)]
pub(crate) struct Scratch(Option<(Mem, u64)>);

impl Scratch {
    /// At least `bytes` bytes. What queued work still uses of the old memory, the driver keeps.
    pub(crate) fn get(&mut self, context: &Context, bytes: u64) -> Result<&Mem> {
        if self.0.as_ref().is_none_or(|(_, size)| *size < bytes) {
            self.0 = None;
            let size = bytes.next_power_of_two().max(1 << 16);
            // SAFETY: no host memory is involved.
            let mem = unsafe { context.buffer(codes::MEM_READ_WRITE, size as usize, std::ptr::null_mut())? };
            self.0 = Some((mem, size));
        }
        match &self.0 {
            Some((mem, _)) => Ok(mem),
            None => Err(Error::internal("scratch memory that was made is not there")),
        }
    }
}

/// A stream.
pub(crate) struct ClStream {
    // Before the queue: its work waits for commands of the queue.
    worker: Queue,
    pub(crate) flight: Arc<Flight>,
    // Held while commands that belong together are queued.
    order: Mutex<Scratch>,
    queue: CommandQueue,
    context: Arc<Context>,
    api: &'static Api,
}

/// The right to queue commands that belong together.
pub(crate) struct Order<'a> {
    stream: &'a ClStream,
    /// Scratch memory.
    pub(crate) scratch: MutexGuard<'a, Scratch>,
}

/// Completes a user event when dropped, so that what waits for it goes on whatever happens.
struct Complete(Event);

impl Drop for Complete {
    fn drop(&mut self) {
        self.0.complete();
    }
}

/// Creates an in-order queue that measures time.
pub(crate) fn create_queue(
    api: &'static Api,
    context: &Context,
    device: DeviceId,
    priority: i32,
) -> Result<CommandQueue> {
    let mut code = 0;
    let level = match priority {
        ..0 => codes::QUEUE_PRIORITY_LOW_KHR,
        0 => codes::QUEUE_PRIORITY_MED_KHR,
        1.. => codes::QUEUE_PRIORITY_HIGH_KHR,
    };
    let ranked = [
        codes::QUEUE_PROPERTIES,
        codes::QUEUE_PROFILING_ENABLE,
        codes::QUEUE_PRIORITY_KHR,
        level,
        0,
    ];
    let plain = [codes::QUEUE_PROPERTIES, codes::QUEUE_PROFILING_ENABLE, 0];
    // SAFETY: the lists end with a zero.
    unsafe {
        match api.create_queue_with {
            Some(create) => {
                let list: &[u64] = if priority == 0 { &plain } else { &ranked };
                let raw = create(context.raw(), device, list.as_ptr(), &raw mut code);
                CommandQueue::own(api, "clCreateCommandQueueWithProperties", raw, code)
            }
            None => {
                let raw = (api.create_queue)(
                    context.raw(),
                    device,
                    codes::QUEUE_PROFILING_ENABLE,
                    &raw mut code,
                );
                CommandQueue::own(api, "clCreateCommandQueue", raw, code)
            }
        }
    }
}

impl ClStream {
    /// A stream of `device`.
    pub(crate) fn new(
        api: &'static Api,
        context: &Arc<Context>,
        device: DeviceId,
        priority: i32,
    ) -> Result<ClStream> {
        Ok(ClStream {
            worker: Queue::new("thalweg-opencl"),
            flight: Arc::default(),
            order: Mutex::default(),
            queue: create_queue(api, context, device, priority)?,
            context: Arc::clone(context),
            api,
        })
    }

    /// Takes the right to queue commands; whoever else wants to waits for as long as that takes.
    pub(crate) fn order(&self) -> Order<'_> {
        Order {
            stream: self,
            scratch: self.order.lock(),
        }
    }

    /// Queues a command by itself.
    pub(crate) fn submit(
        &self,
        origin: Origin<'_>,
        call: &str,
        enqueue: impl FnOnce(RawQueue, *mut RawEvent) -> i32,
    ) -> Result<()> {
        let order = self.order();
        order.submit(origin, call, enqueue)?;
        order.flush()
    }

    /// Calls `run` on the host when the work so far is done; later work waits for it.
    pub(crate) fn host_work(
        &self,
        origin: Origin<'_>,
        run: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let order = self.order();
        let before = order.marker()?;
        let gate = Complete(self.context.user_event()?);
        order.wait_for(&gate.0, origin.tag, None)?;
        order.flush()?;
        let (flight, tag) = (Arc::clone(&self.flight), origin.tag.to_owned());
        let pending = origin.next();
        let describe = tag.clone();
        self.worker.push(Job {
            run: Box::new(move || {
                before.wait();
                // The error of earlier work is the earlier one.
                flight.collect_all();
                let done = match pending {
                    None => run(),
                    Some(pending) => pending.run(run),
                };
                if let Err(error) = done {
                    fail(&mut flight.state.lock(), &tag, &error);
                }
                drop(gate);
                Ok(())
            }),
            describe: Box::new(move || describe.to_string()),
        })
    }

    /// Marks the end of the work so far.
    pub(crate) fn mark(&self) -> Result<Event> {
        let order = self.order();
        let event = order.marker()?;
        order.flush()?;
        Ok(event)
    }

    /// Makes later work wait for an event of the same device.
    pub(crate) fn wait_for(&self, event: &Event) -> Result<()> {
        let order = self.order();
        order.wait_for(event, Tag::NONE, None)?;
        order.flush()
    }

    /// As [`ClStream::wait_for`], and records how long the stream waits.
    pub(crate) fn wait_for_profiled(&self, event: &Event, pending: Option<Box<Pending>>) -> Result<()> {
        let order = self.order();
        let pending = match pending {
            Some(pending) => Some(pending.after(order.marker()?)),
            None => None,
        };
        order.wait_for(event, Tag::NONE, pending)?;
        order.flush()
    }

    /// See [`Device::position`](thalweg_hal::backend::Device::position).
    #[inline]
    pub(crate) fn position(&self) -> u64 {
        self.flight.submitted()
    }

    /// See [`Device::passed`](thalweg_hal::backend::Device::passed).
    #[inline]
    pub(crate) fn passed(&self, position: u64) -> bool {
        self.flight.passed(position)
    }

    /// See [`Device::known_passed`](thalweg_hal::backend::Device::known_passed).
    #[inline]
    pub(crate) fn known_passed(&self, position: u64) -> bool {
        self.flight.known_passed(position)
    }

    /// Whether all work is done.
    pub(crate) fn is_idle(&self) -> bool {
        self.passed(self.position())
    }

    /// Waits for all work and returns the first error, once.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let target = self.position();
        // A panic of the host's work; other errors of it lie with those of the device.
        let panicked = self.worker.synchronize();
        // SAFETY: plain call.
        check("clFinish", unsafe { (self.api.finish)(self.queue.raw()) })?;
        self.flight.wait(target);
        match self.flight.state.lock().error.take() {
            Some(error) => Err(error),
            None => panicked,
        }
    }
}

impl Drop for ClStream {
    fn drop(&mut self) {
        // Whoever wanted the error has synchronised before.
        let _ = self.synchronize();
    }
}

impl Order<'_> {
    /// Queues a command; how it ends is the stream's.
    pub(crate) fn submit(
        &self,
        origin: Origin<'_>,
        call: &str,
        enqueue: impl FnOnce(RawQueue, *mut RawEvent) -> i32,
    ) -> Result<()> {
        let event = self.enqueue(call, enqueue)?;
        (self.stream.flight).add(event, origin.tag.to_owned(), origin.next());
        Ok(())
    }

    /// Hands queued commands to the device.
    pub(crate) fn flush(&self) -> Result<()> {
        // SAFETY: plain call.
        check("clFlush", unsafe {
            (self.stream.api.flush)(self.stream.queue.raw())
        })
    }

    fn enqueue(&self, call: &str, enqueue: impl FnOnce(RawQueue, *mut RawEvent) -> i32) -> Result<Event> {
        let mut event = RawEvent(std::ptr::null_mut());
        let code = enqueue(self.stream.queue.raw(), &raw mut event);
        // SAFETY: with a code of success the command's event is ours.
        unsafe { Event::own(self.stream.api, call, event, code) }
    }

    fn marker(&self) -> Result<Event> {
        self.enqueue("clEnqueueMarkerWithWaitList", |queue, event| {
            // SAFETY: an empty list stands for all that was queued before.
            unsafe { (self.stream.api.marker)(queue, 0, std::ptr::null(), event) }
        })
    }

    fn wait_for(&self, event: &Event, tag: Tag<'_>, pending: Option<Box<Pending>>) -> Result<()> {
        let list = event.raw();
        let barrier = self.enqueue("clEnqueueBarrierWithWaitList", |queue, out| {
            // SAFETY: one event is passed.
            unsafe { (self.stream.api.barrier)(queue, 1, &raw const list, out) }
        })?;
        self.stream.flight.add(barrier, tag.to_owned(), pending);
        Ok(())
    }
}
