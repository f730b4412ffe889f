//! The calls that are captured. Each goes on as it came, and is written when it has succeeded.

use super::packets::{self, Packets};
use super::{Capture, text};
use crate::captured::{
    Alloc, Call, Device, Event, Import, Kernel, Mark, Packet, Rebind, Run, Source, Stream, Submission, Work,
};
use crate::forward::{self, Tables};
use crate::layer::{Layer, Place, below, enter};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::Arc;
use thalweg_hal::ir::Level;
use thalweg_hal::kit::args::{arg, array};
use thalweg_hal::tables::{
    self, AllocArgs, CompileArgs, Context, DeviceOptions, DeviceProperties, DeviceTable, EventArgs,
    EventStreamArgs, EventTable, EventWaitArgs, ImportArgs, KernelTable, Launch, LogLevel, MemoryTable,
    ProgramArgs, ProgramRebindArgs, ProgramRunArgs, ProgramTable, StreamArgs, StreamTable, Tag,
    WaitEventArgs,
};
use thalweg_hal::{Error, Result};

pub(super) const TABLES: Tables = Tables {
    device: DeviceTable {
        open,
        close,
        synchronize: synchronize_device,
        ..forward::device::table::<Capture>()
    },
    memory: MemoryTable {
        alloc,
        free,
        import,
        map,
        ..forward::memory::table::<Capture>()
    },
    stream: StreamTable {
        create: create_stream,
        destroy: destroy_stream,
        launch,
        submit,
        wait_event,
        synchronize,
        ..forward::stream::table::<Capture>()
    },
    event: EventTable {
        create: create_event,
        destroy: destroy_event,
        record,
        wait,
        ..forward::event::table::<Capture>()
    },
    kernel: KernelTable {
        compile,
        release,
        ..forward::kernel::table::<Capture>()
    },
    program: ProgramTable {
        create: create_program,
        rebind,
        run,
        destroy: destroy_program,
    },
    ..Tables::forward::<Capture>()
};

type Here = &'static Place<Capture>;

fn absent() -> Error {
    Error::unsupported("the table is not there below the layer")
}

/// Calls of one handle, which is all that is written of them.
macro_rules! by_handle {
    ($($name:ident = $table:ident: $type:ident.$function:ident as $call:ident;)*) => {
        $(unsafe extern "C" fn $name(context: Context, handle: u64) -> i32 {
            enter(context, |place: Here| {
                let table: Option<&'static $type> = place.next.$table.into();
                let table = table.ok_or_else(absent)?;
                // SAFETY: the arguments are handed on as they came.
                below(unsafe { (table.$function)(context, handle) })?;
                place.layer.note(|| Call::$call(handle));
                Ok(())
            })
        })*
    };
}

by_handle! {
    close = device: DeviceTable.close as Close;
    synchronize_device = device: DeviceTable.synchronize as SynchronizeDevice;
    free = memory: MemoryTable.free as Free;
    destroy_stream = stream: StreamTable.destroy as DestroyStream;
    synchronize = stream: StreamTable.synchronize as SynchronizeStream;
    destroy_event = event: EventTable.destroy as DestroyEvent;
    destroy_program = program: ProgramTable.destroy as DestroyProgram;
}

/// Writes a call whose arguments could be read, which the backend took. Others are missing in the capture, and the call is good.
fn written(place: Here, call: Result<Call>) {
    match call {
        Ok(call) => place.layer.note(|| call),
        Err(error) => {
            let text = format!("a call is missing in the capture: {error}");
            (place.layer.host).log(LogLevel::Error, <Capture as Layer>::NAME, &text);
        }
    }
}

unsafe extern "C" fn open(context: Context, options: *const DeviceOptions, out: *mut u64) -> i32 {
    enter(context, |place: Here| {
        place.layer.begin()?;
        // SAFETY: the arguments are handed on as they came; what is below has read and written them when it succeeds, and zeros
        // are properties.
        unsafe {
            below((place.next.device.open)(context, options, out))?;
            let mut properties = MaybeUninit::<DeviceProperties>::zeroed();
            let code = (place.next.device.properties)(context, (*options).ordinal, properties.as_mut_ptr());
            let name = match code {
                0 => text(&properties.assume_init().name),
                _ => String::new(),
            };
            place.layer.note(|| {
                Call::Open(Device {
                    device: *out,
                    ordinal: (*options).ordinal,
                    name,
                    memory_limit: (*options).memory_limit,
                    block_size: (*options).block_size,
                })
            });
        }
        Ok(())
    })
}

unsafe extern "C" fn alloc(context: Context, args: *const AllocArgs, out: *mut u64) -> i32 {
    enter(context, |place: Here| {
        // SAFETY: the arguments are handed on as they came; what is below has read and written them when it succeeds.
        unsafe {
            below((place.next.memory.alloc)(context, args, out))?;
            place.layer.note(|| {
                Call::Alloc(Alloc {
                    buffer: *out,
                    device: (*args).device,
                    bytes: (*args).bytes,
                    stream: (*args).stream,
                })
            });
        }
        Ok(())
    })
}

unsafe extern "C" fn import(context: Context, args: *const ImportArgs, out: *mut u64) -> i32 {
    enter(context, |place: Here| {
        // SAFETY: as above; the memory is the buffer's from now on, which nothing uses before this call returns.
        unsafe {
            below((place.next.memory.import)(context, args, out))?;
            place.layer.note(|| {
                Call::Import(Import {
                    buffer: *out,
                    device: (*args).device,
                    bytes: (*args).bytes,
                    contents: Packets::new(&place.layer).import((*args).ptr, (*args).bytes),
                })
            });
        }
        Ok(())
    })
}

unsafe extern "C" fn map(context: Context, buffer: u64, out: *mut *mut c_void) -> i32 {
    enter(context, |place: Here| {
        // SAFETY: the arguments are handed on as they came.
        below(unsafe { (place.next.memory.map)(context, buffer, out) })?;
        place.layer.note(|| Call::Map(buffer));
        Ok(())
    })
}

unsafe extern "C" fn create_stream(context: Context, args: *const StreamArgs, out: *mut u64) -> i32 {
    enter(context, |place: Here| {
        // SAFETY: the arguments are handed on as they came; what is below has read and written them when it succeeds.
        unsafe {
            below((place.next.stream.create)(context, args, out))?;
            place.layer.note(|| {
                Call::CreateStream(Stream {
                    stream: *out,
                    device: (*args).device,
                    priority: (*args).priority,
                })
            });
        }
        Ok(())
    })
}

unsafe extern "C" fn launch(context: Context, stream: u64, launch: *const Launch, tag: *const Tag) -> i32 {
    enter(context, |place: Here| {
        // SAFETY: as above.
        unsafe {
            below((place.next.stream.launch)(context, stream, launch, tag))?;
            let read = || {
                let packet = Packet {
                    tag: packets::tag(tag)?.unwrap_or_default(),
                    work: Work::Launch(Packets::new(&place.layer).launch(arg(launch)?)?),
                };
                Ok(Call::Submit(Submission {
                    stream,
                    packets: vec![packet],
                }))
            };
            written(place, read());
        }
        Ok(())
    })
}

unsafe extern "C" fn submit(
    context: Context,
    stream: u64,
    packets: *const tables::Packet,
    count: usize,
) -> i32 {
    enter(context, |place: Here| {
        // SAFETY: the contract of the tables; the arguments are handed on as they came. Host memory that is copied is the caller's
        // to change as soon as the stream has passed the copy, so it is read before.
        unsafe {
            let mut read = Packets::new(&place.layer);
            let list = array(packets, count).and_then(|packets| read.list(packets));
            below((place.next.stream.submit)(context, stream, packets, count))?;
            let call = list.map(|packets| Call::Submit(Submission { stream, packets }));
            written(place, call);
            for awaited in read.awaited {
                awaited.watch(place, stream);
            }
        }
        Ok(())
    })
}

unsafe extern "C" fn wait_event(context: Context, args: *const WaitEventArgs) -> i32 {
    enter(context, |place: Here| {
        // SAFETY: the arguments are handed on as they came; what is below has read them when it succeeds.
        unsafe {
            below((place.next.stream.wait_event)(context, args))?;
            place.layer.note(|| {
                Call::WaitEvent(Mark {
                    event: (*args).event,
                    stream: (*args).stream,
                })
            });
        }
        Ok(())
    })
}

unsafe extern "C" fn create_event(context: Context, args: *const EventArgs, out: *mut u64) -> i32 {
    enter(context, |place: Here| {
        // SAFETY: the arguments are handed on as they came; what is below has read and written them when it succeeds.
        unsafe {
            below((place.next.event.create)(context, args, out))?;
            place.layer.note(|| {
                Call::CreateEvent(Event {
                    event: *out,
                    device: (*args).device,
                    timing: (*args).timing,
                })
            });
        }
        Ok(())
    })
}

unsafe extern "C" fn record(context: Context, args: *const EventStreamArgs) -> i32 {
    enter(context, |place: Here| {
        // SAFETY: the arguments are handed on as they came; what is below has read them when it succeeds.
        unsafe {
            below((place.next.event.record)(context, args))?;
            place.layer.note(|| {
                Call::RecordEvent(Mark {
                    event: (*args).event,
                    stream: (*args).stream,
                })
            });
        }
        Ok(())
    })
}

unsafe extern "C" fn wait(context: Context, args: *const EventWaitArgs) -> i32 {
    enter(context, |place: Here| {
        // SAFETY: the arguments are handed on as they came; what is below has read them when it succeeds.
        unsafe {
            below((place.next.event.wait)(context, args))?;
            place.layer.note(|| Call::AwaitEvent((*args).event));
        }
        Ok(())
    })
}

/// Writes a kernel, and notes how many strides its parameters have.
///
/// # Safety
/// The pointers of the arguments are null or valid, `out` was written.
unsafe fn made(place: Here, args: &CompileArgs, out: *const u64) {
    let read = || {
        // SAFETY: the caller vouches for the pointers.
        let (source, options, kernel) =
            unsafe { (Source::of(&args.source)?, args.options.get()?, out.read()) };
        let signature = source.decoded().and_then(|decoded| decoded.signature())?;
        let (outer, inner) = (signature.outer, signature.inner);
        let axes = signature.slots.iter().map(|slot| match slot.level {
            Level::Row => outer,
            Level::Element => outer + inner,
        });
        let axes: Arc<[usize]> = axes.collect();
        place.layer.kernels.lock().insert(kernel, axes);
        Ok(Call::Compile(Kernel {
            kernel,
            device: args.device,
            source,
            options: options.to_owned(),
        }))
    };
    written(place, read());
}

unsafe extern "C" fn compile(context: Context, args: *const CompileArgs, out: *mut u64) -> i32 {
    enter(context, |place: Here| {
        let table = place.next.kernel.ok_or_else(absent)?;
        // SAFETY: the arguments are handed on as they came; what is below has read and written them when it succeeds.
        unsafe {
            below((table.compile)(context, args, out))?;
            made(place, &*args, out);
        }
        Ok(())
    })
}

unsafe extern "C" fn release(context: Context, kernel: u64) -> i32 {
    enter(context, |place: Here| {
        let table = place.next.kernel.ok_or_else(absent)?;
        // SAFETY: the arguments are handed on as they came.
        below(unsafe { (table.release)(context, kernel) })?;
        place.layer.kernels.lock().remove(&kernel);
        place.layer.note(|| Call::Release(kernel));
        Ok(())
    })
}

unsafe extern "C" fn create_program(context: Context, args: *const ProgramArgs, out: *mut u64) -> i32 {
    enter(context, |place: Here| {
        let table = place.next.program.ok_or_else(absent)?;
        // SAFETY: the arguments are handed on as they came; what is below has read and written them when it succeeds.
        unsafe {
            below((table.create)(context, args, out))?;
            let mut read = Packets::new(&place.layer);
            written(
                place,
                packets::program(&mut read, &*args, *out).map(Call::CreateProgram),
            );
        }
        Ok(())
    })
}

unsafe extern "C" fn rebind(context: Context, args: *const ProgramRebindArgs) -> i32 {
    enter(context, |place: Here| {
        let table = place.next.program.ok_or_else(absent)?;
        // SAFETY: the arguments are handed on as they came; what is below has read them when it succeeds.
        unsafe {
            below((table.rebind)(context, args))?;
            place.layer.note(|| {
                Call::Rebind(Rebind {
                    program: (*args).program,
                    slot: (*args).slot,
                    place: packets::place(&(*args).input),
                })
            });
        }
        Ok(())
    })
}

unsafe extern "C" fn run(context: Context, args: *const ProgramRunArgs) -> i32 {
    enter(context, |place: Here| {
        let table = place.next.program.ok_or_else(absent)?;
        // SAFETY: the arguments are handed on as they came; what is below has read and written them when it succeeds.
        unsafe {
            below((table.run)(context, args))?;
            let args = &*args;
            let read = || {
                Ok(Call::Run(Run {
                    program: args.program,
                    stream: args.stream,
                    inputs: packets::places(args.inputs, args.input_count)?,
                    arguments: array(args.arguments, args.argument_count)?.to_vec(),
                    outputs: array(args.outputs.cast_const(), args.output_count)?.to_vec(),
                    tag: packets::tag(args.tag)?,
                }))
            };
            written(place, read());
        }
        Ok(())
    })
}
