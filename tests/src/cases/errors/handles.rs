//! Handles that were never given out, are stale, or belong elsewhere.

use super::{HANDLES, refused};
use crate::kit::{Case, Check};
use crate::rig::device::{at, copy, copy_packet, fill, fill_packet};
use crate::rig::{Device, Subject};
use std::ptr::null;
use thalweg_hal::tables::{
    AllocArgs, CallbackArgs, CompileArgs, ElapsedArgs, EventArgs, EventStreamArgs, EventWaitArgs,
    InspectArgs, KernelPart, Launch, MemoryInfo, MemoryStatistics, ProgramArgs, ProgramInput,
    ProgramRebindArgs, ProgramRunArgs, Source, StreamArgs, WaitEventArgs,
};
use thalweg_hal::{Status, Str};

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("errors", name, run);
    vec![
        case("handles_device", device_handles),
        case("handles_buffer", buffer_handles),
        case("handles_stream", stream_handles),
        case("handles_event", event_handles),
        case("handles_kernel", kernel_handles),
        case("handles_program", program_handles),
    ]
}

const STALE: &[Status] = &[Status::InvalidHandle];
// Where a source or options are looked at first.
const REFUSED: &[Status] = &[
    Status::InvalidHandle,
    Status::InvalidArgument,
    Status::Unsupported,
];

unsafe extern "C" fn never(_: *mut std::ffi::c_void) -> i32 {
    0
}

fn device_handles(subject: &Subject) -> Check {
    let gone = Device::open(subject)?.handle();
    let (raw, c, t) = (subject.raw(), subject.raw().context, subject.raw().tables);
    let (mut out, mut len) = (0, 0);
    let (mut figures, mut info) = (MemoryStatistics::default(), MemoryInfo::default());
    for device in HANDLES.into_iter().chain([gone]) {
        let alloc = AllocArgs {
            device,
            bytes: 1,
            stream: 0,
            tag: null(),
        };
        let stream = StreamArgs {
            device,
            priority: 0,
            reserved: 0,
        };
        let event = EventArgs {
            device,
            timing: 0,
            reserved: 0,
        };
        // SAFETY: every pointer is valid.
        unsafe {
            refused(raw, (t.device.close)(c, device), STALE, "close")?;
            refused(
                raw,
                (t.device.synchronize)(c, device),
                STALE,
                "device synchronize",
            )?;
            refused(raw, (t.device.status)(c, device), STALE, "device status")?;
            refused(
                raw,
                (t.device.query)(c, device, 5, &raw mut out),
                STALE,
                "device query",
            )?;
            refused(
                raw,
                (t.memory.alloc)(c, &raw const alloc, &raw mut out),
                STALE,
                "alloc",
            )?;
            refused(raw, (t.memory.trim)(c, device, &raw mut out), STALE, "trim")?;
            refused(
                raw,
                (t.memory.statistics)(c, device, &raw mut figures),
                STALE,
                "statistics",
            )?;
            refused(
                raw,
                (t.memory.ranges)(c, device, std::ptr::null_mut(), 0, &raw mut len),
                STALE,
                "ranges",
            )?;
            refused(raw, (t.memory.reset_peaks)(c, device), STALE, "reset_peaks")?;
            refused(raw, (t.memory.set_limit)(c, device, 0), STALE, "set_limit")?;
            refused(
                raw,
                (t.memory.info)(c, device, &raw mut info),
                STALE,
                "memory info",
            )?;
            refused(
                raw,
                (t.stream.create)(c, &raw const stream, &raw mut out),
                STALE,
                "stream create",
            )?;
            refused(
                raw,
                (t.event.create)(c, &raw const event, &raw mut out),
                STALE,
                "event create",
            )?;
        }
    }
    crate::check_eq!(out, 0, "what refused calls wrote");
    Ok(())
}

fn buffer_handles(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (raw, c, t) = (device.raw(), device.raw().context, device.raw().tables);
    let (stream, good, gone) = (device.stream()?, device.alloc(64)?, device.alloc(64)?);
    device.free(gone)?;
    let mut address = std::ptr::null_mut();
    let mut out = 0;
    for buffer in HANDLES.into_iter().chain([gone]) {
        // SAFETY: every pointer is valid.
        unsafe {
            refused(raw, (t.memory.free)(c, buffer), STALE, "free")?;
            refused(raw, (t.memory.size)(c, buffer, &raw mut out), STALE, "size")?;
            let map = &[Status::InvalidHandle, Status::Unsupported];
            refused(raw, (t.memory.map)(c, buffer, &raw mut address), map, "map")?;
        }
        let fill = fill(buffer, 0, 8, 0, 1);
        let copies = [
            copy(at(buffer, 0), at(good, 0), 8),
            copy(at(good, 0), at(buffer, 0), 8),
            copy(at(buffer, 0), at(buffer, 32), 8),
        ];
        let packets = copies.iter().map(|copy| copy_packet(copy, null()));
        for packet in packets.chain([fill_packet(&fill, null())]) {
            // SAFETY: the packet lives through the call.
            let code = unsafe { (t.stream.submit)(c, stream, &raw const packet, 1) };
            // A place with the handle 0 is host memory, and null there.
            let allowed = if buffer == 0 { &REFUSED[..2] } else { STALE };
            refused(raw, code, allowed, "a packet with a buffer that is not there")?;
        }
    }
    Ok(())
}

fn stream_handles(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (raw, c, t) = (device.raw(), device.raw().context, device.raw().tables);
    let (event, buffer, gone) = (device.event(false)?, device.alloc(8)?, device.stream()?);
    device.destroy_stream(gone)?;
    let work = fill(buffer, 0, 8, 0, 1);
    let packet = fill_packet(&work, null());
    let mut out = 0;
    for stream in HANDLES.into_iter().chain([gone]) {
        let wait = WaitEventArgs { stream, event };
        let record = EventStreamArgs { event, stream };
        let callback = CallbackArgs {
            stream,
            function: Some(never),
            data: std::ptr::null_mut(),
        };
        // SAFETY: every pointer is valid.
        unsafe {
            refused(raw, (t.stream.destroy)(c, stream), STALE, "destroy")?;
            refused(
                raw,
                (t.stream.submit)(c, stream, &raw const packet, 1),
                STALE,
                "submit",
            )?;
            refused(raw, (t.stream.query)(c, stream, &raw mut out), STALE, "query")?;
            refused(
                raw,
                (t.stream.wait_event)(c, &raw const wait),
                STALE,
                "wait_event",
            )?;
            refused(
                raw,
                (t.stream.callback)(c, &raw const callback),
                STALE,
                "callback",
            )?;
            refused(raw, (t.stream.synchronize)(c, stream), STALE, "synchronize")?;
            refused(raw, (t.event.record)(c, &raw const record), STALE, "record")?;
        }
        if stream != 0 {
            let status = device.alloc_for(8, stream, "").map_err(|error| error.status);
            crate::check_eq!(
                status,
                Err(Status::InvalidHandle),
                "alloc for a stream that is not there"
            );
        }
    }
    Ok(())
}

fn event_handles(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (raw, c, t) = (device.raw(), device.raw().context, device.raw().tables);
    let (stream, good, gone) = (device.stream()?, device.event(true)?, device.event(true)?);
    device.destroy_event(gone)?;
    let (mut done, mut elapsed) = (0, 0);
    for event in HANDLES.into_iter().chain([gone]) {
        let record = EventStreamArgs { event, stream };
        let wait_event = WaitEventArgs { stream, event };
        let wait = EventWaitArgs {
            event,
            timeout_ns: u64::MAX,
        };
        let (start, end) = (
            ElapsedArgs {
                start: event,
                end: good,
            },
            ElapsedArgs {
                start: good,
                end: event,
            },
        );
        // SAFETY: every pointer is valid.
        unsafe {
            refused(raw, (t.event.destroy)(c, event), STALE, "destroy")?;
            refused(raw, (t.event.record)(c, &raw const record), STALE, "record")?;
            refused(raw, (t.event.query)(c, event, &raw mut done), STALE, "query")?;
            refused(raw, (t.event.wait)(c, &raw const wait), STALE, "wait")?;
            refused(
                raw,
                (t.stream.wait_event)(c, &raw const wait_event),
                STALE,
                "wait_event",
            )?;
            refused(
                raw,
                (t.event.elapsed)(c, &raw const start, &raw mut elapsed),
                STALE,
                "elapsed, start",
            )?;
            refused(
                raw,
                (t.event.elapsed)(c, &raw const end, &raw mut elapsed),
                STALE,
                "elapsed, end",
            )?;
        }
    }
    let timing = EventArgs {
        device: device.handle(),
        timing: 2,
        reserved: 0,
    };
    let mut out = 0;
    // SAFETY: every pointer is valid.
    let code = unsafe { (t.event.create)(c, &raw const timing, &raw mut out) };
    refused(raw, code, &[Status::InvalidArgument], "an event with timing 2")
}

fn kernel_handles(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (raw, c, t) = (device.raw(), device.raw().context, device.raw().tables);
    let stream = device.stream()?;
    let source = Source {
        kernel: null(),
        library: null(),
    };
    let mut out = 0;
    let mut len = 0_usize;
    for handle in HANDLES {
        let launch = Launch {
            kernel: handle,
            extents: null(),
            extent_count: 0,
            bindings: null(),
            binding_count: 0,
            scalars: null(),
            scalar_count: 0,
        };
        let compile = CompileArgs {
            device: handle,
            source,
            options: Str::EMPTY,
        };
        // SAFETY: every pointer is valid.
        unsafe {
            let code = (t.stream.launch)(c, stream, &raw const launch, null());
            refused(raw, code, &[Status::InvalidHandle, Status::Unsupported], "launch")?;
            let Some(k) = t.kernel else { continue };
            refused(raw, (k.supports)(c, &raw const compile), REFUSED, "supports")?;
            refused(
                raw,
                (k.compile)(c, &raw const compile, &raw mut out),
                REFUSED,
                "compile",
            )?;
            refused(raw, (k.release)(c, handle), STALE, "release")?;
            let mut programs = 0;
            let inspect = InspectArgs {
                kernel: handle,
                program: 0,
                part: KernelPart::Facts as u32,
                buffer: std::ptr::null_mut(),
                capacity: 0,
                len: &raw mut len,
                programs: &raw mut programs,
            };
            refused(raw, (k.inspect)(c, &raw const inspect), STALE, "inspect")?;
        }
    }
    Ok(())
}

fn program_handles(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (raw, c, t) = (device.raw(), device.raw().context, device.raw().tables);
    let (stream, buffer) = (device.stream()?, device.alloc(8)?);
    let mut out = 0;
    let Some(p) = t.program else {
        return Err(crate::kit::Stop::Unsupported(
            "the backend has no table of programs".into(),
        ));
    };
    for program in HANDLES {
        let create = ProgramArgs {
            device: program,
            packets: null(),
            packet_count: 0,
            dependencies: null(),
            dependency_count: 0,
            input_count: 0,
            outputs: null(),
            output_count: 0,
            scratch: null(),
            scratch_count: 0,
            bound: null(),
            bound_count: 0,
            scalars: null(),
            scalar_count: 0,
            argument_count: 0,
            constants: null(),
            constant_count: 0,
        };
        let rebind = ProgramRebindArgs {
            program,
            slot: 0,
            input: ProgramInput { buffer, offset: 0 },
        };
        let run = ProgramRunArgs {
            program,
            stream,
            inputs: null(),
            input_count: 0,
            arguments: null(),
            argument_count: 0,
            outputs: std::ptr::null_mut(),
            output_count: 0,
            tag: null(),
            missing: std::ptr::null_mut(),
        };
        // SAFETY: every pointer is valid.
        unsafe {
            refused(
                raw,
                (p.create)(c, &raw const create, &raw mut out),
                STALE,
                "create",
            )?;
            refused(raw, (p.rebind)(c, &raw const rebind), STALE, "rebind")?;
            refused(raw, (p.run)(c, &raw const run), STALE, "run")?;
            refused(raw, (p.destroy)(c, program), STALE, "destroy")?;
        }
    }
    Ok(())
}
