//! What lists refuse.

use super::Lists;
use crate::cases::programs::{Programs, increment, job, refuse};
use crate::check_eq;
use crate::kit::{Case, Check};
use crate::rig::device::{at, copy, copy_packet, fill, fill_packet, launch_packet};
use crate::rig::values::from_bytes;
use crate::rig::{Device, Subject};
use std::ptr::null;
use thalweg_hal::tables::{Packet, ProgramArgs, ProgramInput};
use thalweg_hal::{DType, Status};

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("programs", name, run);
    vec![
        case("rebind_refused", rebind_refused),
        case("bound_twice", bound_twice),
        case("freed_buffer", freed_buffer),
        case("bad_nodes", bad_nodes),
        case("foreign_stream", foreign_stream),
        case("bound_stale", stale),
    ]
}

fn rebind_refused(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let lists = Lists::new(&device)?;
    let (stream, a, b) = (
        device.stream()?,
        device.upload(&[3; 40])?,
        device.upload(&[0; 40])?,
    );
    let work = job(increment(), 10);
    let kernel = device.compile(&work.kernel)?;
    let bindings = work.bindings(&[a, b]);
    let launch = work.launch(kernel, &bindings);
    let list = lists.create(&[(launch_packet(&launch, null()), &[])])?;
    let (other, short) = (Device::open(subject)?, device.alloc(36)?);
    let (foreign, large, gone) = (other.alloc(40)?, device.alloc(120)?, device.alloc(40)?);
    device.free(gone)?;
    let (invalid, bounds) = (Status::InvalidArgument, Status::OutOfBounds);
    for (slot, buffer, offset, status, what) in [
        (2, large, 0, invalid, "a slot that is not there"),
        (u64::MAX, large, 0, invalid, "slot u64::MAX"),
        (0, short, 0, bounds, "a buffer that is too small"),
        (0, large, 84, bounds, "an offset with too little behind it"),
        (0, large, 2, bounds, "an offset between elements"),
        (0, large, u64::MAX, bounds, "offset u64::MAX"),
        (0, foreign, 0, Status::InvalidHandle, "another device's buffer"),
        (0, gone, 0, Status::InvalidHandle, "a buffer that was freed"),
        (0, b, 0, Status::Overlap, "the buffer that the list writes"),
        (
            1,
            a,
            0,
            Status::Overlap,
            "for the one it writes the buffer that it reads",
        ),
    ] {
        refuse(
            lists.0.rebind(list.program, slot, buffer, offset),
            &[status],
            what,
        )?;
    }
    // None of these has changed anything.
    lists.launch(&list, stream)?;
    let found = from_bytes(DType::I32, &device.download(stream, b, 40)?);
    check_eq!(
        found,
        vec![0x0303_0304; 10],
        "a launch after changes that were refused"
    );
    // Parts of one buffer that share no byte.
    lists.0.rebind(list.program, 0, large, 0)?;
    lists.0.rebind(list.program, 1, large, 80)?;
    let clash = lists.0.rebind(list.program, 1, large, 36);
    refuse(clash, &[Status::Overlap], "parts that share an element")?;
    device.fill(stream, &fill(large, 0, 120, 5, 4))?;
    lists.launch(&list, stream)?;
    let found = from_bytes(DType::I32, &device.download(stream, large, 120)?);
    let expected: Vec<u64> = [5; 20].into_iter().chain([6; 10]).collect();
    check_eq!(found, expected, "parts of one buffer");
    let none = lists.0.create(&[], (1, &[8], &[8], 0), &[])?;
    let result = lists.0.rebind(none, 0, a, 0);
    refuse(result, &[invalid], "an input of a program without bound slots")?;
    Ok(lists.destroy(&list)?)
}

/// Two slots over the same bytes, one of which is written.
fn bound_twice(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let programs = Programs::new(&device)?;
    let work = job(increment(), 10);
    let (kernel, bindings) = (device.compile(&work.kernel)?, work.bindings(&[1, 2]));
    let launch = work.launch(kernel, &bindings);
    let packets = [launch_packet(&launch, null())];
    let buffer = device.alloc(120)?;
    let create = |first: u64, second: u64| {
        let bound = [first, second].map(|offset| ProgramInput { buffer, offset });
        let args = ProgramArgs {
            bound: bound.as_ptr(),
            bound_count: 2,
            ..programs.args(&packets)
        };
        programs.create_of(&args)
    };
    for (first, second) in [(0, 0), (0, 36), (44, 8)] {
        refuse(
            create(first, second).map(drop),
            &[Status::Overlap],
            "bytes of two slots",
        )?;
    }
    for (first, second) in [(0, 40), (80, 0)] {
        programs.destroy(create(first, second)?)?;
    }
    // A slot that no packet reaches shares nothing.
    let filled = fill(1, 0, 120, 3, 1);
    let packets = [fill_packet(&filled, null())];
    let bound = [0, 8].map(|offset| ProgramInput { buffer, offset });
    let args = ProgramArgs {
        bound: bound.as_ptr(),
        bound_count: 2,
        ..programs.args(&packets)
    };
    Ok(programs.destroy(programs.create_of(&args)?)?)
}

fn freed_buffer(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let lists = Lists::new(&device)?;
    let (stream, a, b) = (
        device.stream()?,
        device.upload(&[1; 64])?,
        device.upload(&[2; 64])?,
    );
    let (first, second) = (fill(a, 0, 64, 7, 1), copy(at(b, 0), at(a, 0), 64));
    let list = lists.create(&[
        (fill_packet(&first, null()), &[]),
        (copy_packet(&second, null()), &[0]),
    ])?;
    device.free(a)?;
    let stale = &[Status::InvalidHandle];
    refuse(
        lists.launch(&list, stream),
        stale,
        "a launch whose buffer was freed",
    )?;
    // Another buffer in the same place is not the one that the graph was built with.
    let _again = device.alloc(64)?;
    refuse(
        lists.launch(&list, stream),
        stale,
        "a launch whose buffer was freed and whose memory is in use again",
    )?;
    check_eq!(
        device.download(stream, b, 64)?,
        vec![2; 64],
        "the other buffer after launches that were refused"
    );
    Ok(())
}

fn bad_nodes(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let lists = Lists::new(&device)?;
    let other = Device::open(subject)?;
    let (buffer, foreign) = (device.alloc(8)?, other.alloc(8)?);
    let (good, long, far) = (
        fill(buffer, 0, 8, 1, 1),
        fill(buffer, 0, 9, 1, 1),
        fill(foreign, 0, 8, 1, 1),
    );
    let unknown = Packet {
        kind: 77,
        ..fill_packet(&good, null())
    };
    let refuse = |packet: Packet, status: Status, what: &str| {
        let result = lists.create(&[(fill_packet(&good, null()), &[]), (packet, &[0])]);
        refuse(result.map(drop), &[status], what)
    };
    refuse(
        fill_packet(&long, null()),
        Status::OutOfBounds,
        "a node beyond its buffer",
    )?;
    refuse(
        fill_packet(&far, null()),
        Status::InvalidHandle,
        "a node on another device",
    )?;
    refuse(unknown, Status::InvalidArgument, "a node of an unknown kind")?;
    let empty = Packet {
        fill: null(),
        ..fill_packet(&good, null())
    };
    refuse(empty, Status::InvalidArgument, "a node that holds nothing")
}

fn foreign_stream(subject: &Subject) -> Check {
    let (device, other) = (Device::open(subject)?, Device::open(subject)?);
    let lists = Lists::new(&device)?;
    let (buffer, stream) = (device.alloc(8)?, other.stream()?);
    let work = fill(buffer, 0, 8, 1, 1);
    let list = lists.create(&[(fill_packet(&work, null()), &[])])?;
    refuse(
        lists.launch(&list, stream),
        &[Status::InvalidHandle],
        "a launch on a foreign stream",
    )
}

fn stale(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let lists = Lists::new(&device)?;
    let (stream, buffer) = (device.stream()?, device.alloc(8)?);
    let work = fill(buffer, 0, 8, 1, 1);
    let list = lists.create(&[(fill_packet(&work, null()), &[])])?;
    lists.destroy(&list)?;
    let gone = &[Status::InvalidHandle];
    refuse(
        lists.launch(&list, stream),
        gone,
        "a launch of a list that was destroyed",
    )?;
    refuse(
        lists.0.rebind(list.program, 0, buffer, 0),
        gone,
        "a change of a list that was destroyed",
    )?;
    refuse(lists.destroy(&list), gone, "a second destroy")
}
