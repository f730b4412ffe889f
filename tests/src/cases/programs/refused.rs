//! What programs and their runs refuse.

use super::{Programs, counter, increment, job, plain, refuse, scale};
use crate::kit::Check;
use crate::rig::device::{copy_packet, fill, fill_packet, launch_packet};
use crate::rig::run::Job;
use crate::rig::{Device, Subject};
use crate::{check, check_eq};
use std::ptr::null;
use thalweg_hal::Status;
use thalweg_hal::tables::{Copy, Packet, Place, ProgramArgs, ProgramDependency, ProgramScalar};

pub(super) fn packets(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let programs = Programs::new(&device)?;
    let work = job(increment(), 10);
    let kernel = device.compile(&work.kernel)?;
    let slots = |from: u64, to: u64| work.bindings(&[from, to]);
    let create = |bindings: &[thalweg_hal::tables::Binding], scratch: &[u64]| {
        let launch = work.launch(kernel, bindings);
        let packets = [launch_packet(&launch, null())];
        programs.create(&packets, (1, &[40], scratch, 0), &[]).map(drop)
    };
    let invalid = &[Status::InvalidArgument];
    refuse(
        create(&slots(1, 1), &[]),
        invalid,
        "a launch that writes an input",
    )?;
    refuse(create(&slots(0, 2), &[]), invalid, "slot 0")?;
    refuse(create(&slots(3, 2), &[]), invalid, "a slot that is not there")?;
    refuse(create(&slots(u64::MAX, 2), &[]), invalid, "slot 2^64 - 1")?;
    refuse(
        create(&slots(3, 2), &[36]),
        &[Status::OutOfBounds],
        "a scratch buffer that is too short",
    )?;
    let mut shifted = slots(3, 3);
    shifted[1].offset = 4;
    refuse(
        create(&shifted, &[44]),
        &[Status::Overlap],
        "an output that meets its input halfway",
    )?;
    let filled = fill(1, 0, 4, 0, 4);
    refuse(
        programs
            .create(&[fill_packet(&filled, null())], (1, &[], &[], 0), &[])
            .map(drop),
        invalid,
        "a fill of an input",
    )?;
    let place = |buffer| Place {
        buffer,
        host: std::ptr::null_mut(),
        offset: 0,
        pitch: 0,
    };
    let copied = Copy {
        dst: place(2),
        src: place(1),
        width: 4,
        rows: 1,
    };
    let mut byte = 0_u8;
    let host = Place {
        buffer: 0,
        host: std::ptr::from_mut(&mut byte).cast(),
        ..place(0)
    };
    let wide = Copy { width: 5, ..copied };
    let into = Copy {
        dst: place(1),
        src: place(2),
        ..copied
    };
    let same = Copy {
        src: place(2),
        ..copied
    };
    let (up, down) = (Copy { src: host, ..copied }, Copy { dst: host, ..copied });
    for (copied, status, what) in [
        (wide, Status::OutOfBounds, "a copy beyond an output"),
        (into, Status::InvalidArgument, "a copy to an input"),
        (same, Status::Overlap, "a copy to itself"),
        (up, Status::InvalidArgument, "a copy from host memory"),
        (down, Status::InvalidArgument, "a copy to host memory"),
    ] {
        let made = programs.create(&[copy_packet(&copied, null())], (1, &[4], &[], 0), &[]);
        refuse(made.map(drop), &[status], what)?;
    }
    let bindings = slots(1, 2);
    let launch = work.launch(kernel, &bindings);
    for (packet, what) in [
        (0, "a scalar that the kernel lacks"),
        (1, "a scalar of no packet"),
    ] {
        let given = [ProgramScalar {
            packet,
            scalar: 0,
            argument: 0,
            reserved: 0,
        }];
        let made = programs.create(&[launch_packet(&launch, null())], (1, &[40], &[], 1), &given);
        refuse(made.map(drop), invalid, what)?;
    }
    let made = programs.create_with(&[launch_packet(&launch, null())], (1, &[40], &[], 0), &[], &[1]);
    refuse(made.map(drop), invalid, "a constant input that is not there")?;
    Ok(())
}

pub(super) fn moved_constants(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let programs = Programs::new(&device)?;
    let stream = device.stream()?;
    let work = job(increment(), 10);
    let (kernel, bindings) = (device.compile(&work.kernel)?, work.bindings(&[1, 2]));
    let launch = work.launch(kernel, &bindings);
    let program = programs.create_with(&[launch_packet(&launch, null())], (1, &[40], &[], 0), &[], &[0])?;
    let (short, one, other) = (device.alloc(36)?, device.upload(&[0; 44])?, device.alloc(44)?);
    let run = |input| {
        let made = plain(programs.run((program, stream), &[input], &[], 1))?;
        device.free(made[0])
    };
    // A run that is refused is not the first one.
    refuse(
        run((short, 0)),
        &[Status::OutOfBounds],
        "a constant that is too short",
    )?;
    run((one, 0))?;
    let invalid = &[Status::InvalidArgument];
    refuse(run((other, 0)), invalid, "a constant in another buffer")?;
    refuse(run((one, 4)), invalid, "a constant at another place")?;
    run((one, 0))?;
    Ok(programs.destroy(program)?)
}

pub(super) fn runs(subject: &Subject) -> Check {
    let (device, other) = (Device::open(subject)?, Device::open(subject)?);
    let programs = Programs::new(&device)?;
    let stream = device.stream()?;
    let program = counter(&programs, 10, 2)?;
    let (input, short, foreign) = (device.alloc(40)?, device.alloc(36)?, other.alloc(40)?);
    let before = device.statistics()?.live;
    let run = |stream, inputs: &[(u64, u64)], arguments: &[u64], outputs| {
        plain(programs.run((program, stream), inputs, arguments, outputs)).map(drop)
    };
    let invalid = &[Status::InvalidArgument];
    refuse(run(stream, &[], &[], 1), invalid, "no input")?;
    refuse(run(stream, &[(input, 0); 2], &[], 1), invalid, "two inputs")?;
    refuse(run(stream, &[(input, 0)], &[1], 1), invalid, "an argument")?;
    refuse(run(stream, &[(input, 0)], &[], 2), invalid, "two outputs")?;
    refuse(
        run(stream, &[(short, 0)], &[], 1),
        &[Status::OutOfBounds],
        "an input that is too short",
    )?;
    let handle = &[Status::InvalidHandle];
    refuse(
        run(stream, &[(foreign, 0)], &[], 1),
        handle,
        "another device's buffer",
    )?;
    refuse(
        run(other.stream()?, &[(input, 0)], &[], 1),
        handle,
        "another device's stream",
    )?;
    device.free(short)?;
    refuse(
        run(stream, &[(short, 0)], &[], 1),
        handle,
        "a buffer that was freed",
    )?;
    check_eq!(device.statistics()?.live, before - 1, "buffers after all");
    let work = Job {
        scalars: vec![0],
        ..job(scale(), 1)
    };
    let kernel = device.compile(&work.kernel)?;
    let bindings = work.bindings(&[1, 2]);
    let launch = work.launch(kernel, &bindings);
    let given = [ProgramScalar {
        packet: 0,
        scalar: 0,
        argument: 0,
        reserved: 0,
    }];
    let scaled = programs.create(&[launch_packet(&launch, null())], (1, &[4], &[], 1), &given)?;
    let wide = plain(programs.run((scaled, stream), &[(input, 0)], &[1 << 32], 1));
    refuse(wide.map(drop), invalid, "33 bits for an i32")?;
    programs.destroy(scaled)?;
    Ok(programs.destroy(program)?)
}

pub(super) fn without_memory(subject: &Subject) -> Check {
    let device = Device::limited(subject, 1 << 20, 1 << 20)?;
    let programs = Programs::new(&device)?;
    let stream = device.stream()?;
    let input = device.alloc(4)?;
    let work = job(increment(), 1);
    let kernel = device.compile(&work.kernel)?;
    let bindings = work.bindings(&[1, 2]);
    let launch = work.launch(kernel, &bindings);
    let packets = [launch_packet(&launch, null())];
    let large = 2 << 20;
    let program = programs.create(&packets, (1, &[4], &[large], 0), &[])?;
    let before = device.statistics()?;
    match programs.run((program, stream), &[(input, 0)], &[], 1) {
        Ok(_) => crate::fail!("{large} bytes were made of 1 MiB"),
        Err((error, missing)) => {
            check_eq!(error.status, Status::OutOfMemory, "the class");
            check_eq!(missing, large, "the bytes that are missing");
            check!(
                error.message.starts_with("the program: "),
                "the op is not named: {error}"
            );
        }
    }
    check_eq!(device.statistics()?.live, before.live, "buffers after all");
    programs.destroy(program)?;
    let program = programs.create(&packets, (1, &[4], &[], 0), &[])?;
    let made = plain(programs.run((program, stream), &[(input, 0)], &[], 1))?;
    device.free(made[0])?;
    Ok(programs.destroy(program)?)
}

/// What was made before memory ran out leaves no mark on the peak, whether it came from the pool or from what was freed before.
pub(super) fn peak_without_memory(subject: &Subject) -> Check {
    let device = Device::limited(subject, 4 << 20, 4 << 20)?;
    let programs = Programs::new(&device)?;
    let stream = device.stream()?;
    let input = device.alloc(4)?;
    let work = job(increment(), 1);
    let kernel = device.compile(&work.kernel)?;
    let bindings = work.bindings(&[1, 2]);
    let launch = work.launch(kernel, &bindings);
    let packets = [launch_packet(&launch, null())];
    let raw = device.raw();
    for made in [4, 16 << 10, 1 << 20, 3 << 20] {
        // A range that was freed, for small ones to find.
        let freed = device.alloc(made)?;
        device.free(freed)?;
        // SAFETY: plain call.
        raw.status(unsafe { (raw.tables.memory.reset_peaks)(raw.context, device.handle()) })?;
        let before = device.statistics()?;
        for outputs in [&[made, 8 << 20] as &[u64], &[made, 512, 8 << 20], &[made]] {
            let scratch: &[u64] = if outputs.len() == 1 { &[8 << 20] } else { &[] };
            let program = programs.create(&packets, (1, outputs, scratch, 0), &[])?;
            let run = programs.run((program, stream), &[(input, 0)], &[], outputs.len());
            let status = run.map(drop).map_err(|(error, _)| error.status);
            check_eq!(status, Err(Status::OutOfMemory), "8 MiB of 4 MiB");
            programs.destroy(program)?;
            let after = device.statistics()?;
            check_eq!(
                (after.allocated, after.live, after.max_allocated),
                (before.allocated, before.live, before.max_allocated),
                "allocated, live and the peak after {made} bytes were made and 8 MiB were not"
            );
        }
        check_eq!(before.max_allocated, before.allocated, "the peak after a reset");
        // One that is there in the end counts.
        let held = device.alloc(made)?;
        let after = device.statistics()?;
        check_eq!(
            after.max_allocated,
            after.allocated,
            "the peak with {made} bytes more"
        );
        device.free(held)?;
    }
    Ok(())
}

pub(super) fn stale(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let programs = Programs::new(&device)?;
    let (stream, input) = (device.stream()?, device.upload(&[0; 4])?);
    let program = counter(&programs, 1, 1)?;
    programs.destroy(program)?;
    let handle = &[Status::InvalidHandle];
    let run = plain(programs.run((program, stream), &[(input, 0)], &[], 1));
    refuse(run.map(drop), handle, "a run of a program that is gone")?;
    refuse(programs.destroy(program), handle, "a second end")?;
    refuse(programs.destroy(0), handle, "the end of program 0")
}

pub(super) fn dependencies(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let programs = Programs::new(&device)?;
    let filled = fill(1, 0, 4, 0, 4);
    let packets = [fill_packet(&filled, null()); 2];
    let outputs = [4_u64];
    let create = |dependencies: *const ProgramDependency, dependency_count| {
        let args = ProgramArgs {
            outputs: outputs.as_ptr(),
            output_count: 1,
            dependencies,
            dependency_count,
            ..programs.args(&packets)
        };
        programs.create_of(&args).map(drop)
    };
    let invalid = &[Status::InvalidArgument];
    for (packet, earlier, what) in [
        (0, 0, "a packet that waits for itself"),
        (0, 1, "a packet that waits for a later one"),
        (1, 7, "a packet that waits for one that is not there"),
        (1, u32::MAX, "a packet that waits for u32::MAX"),
        (2, 0, "a dependency of a packet that is not there"),
    ] {
        let given = ProgramDependency { packet, earlier };
        refuse(create(&raw const given, 1), invalid, what)?;
    }
    refuse(create(null(), 3), invalid, "null dependencies")?;
    let args = ProgramArgs {
        packet_count: 2,
        ..programs.args(&[] as &[Packet])
    };
    let nothing = ProgramArgs {
        packets: null(),
        ..args
    };
    refuse(programs.create_of(&nothing).map(drop), invalid, "null packets")
}
