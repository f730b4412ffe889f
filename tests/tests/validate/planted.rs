//! Errors of programs, each planted alone on a device of its own.

use crate::work::{self, EMPTY, at, copy, fill, fill_as, tag};
use crate::{Found, alone, expect, subject, wrong};
use std::ptr::{null, null_mut};
use thalweg_conformance::Subject;
use thalweg_conformance::kit::Stop;
use thalweg_conformance::rig::{Device, NOBODY};
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, Role};
use thalweg_hal::tables::{
    Binding, Fill, Launch, Packet, PacketKind, ProgramArgs, ProgramInput, ProgramRunArgs,
};

/// A code, whose fault it is, what the report says, and the error.
type Plant = (
    &'static str,
    &'static str,
    &'static [&'static str],
    fn(&Subject) -> Found,
);

const PLANTS: &[Plant] = &[
    (
        "TW-LIFETIME-001",
        "program",
        &["free: 0x7ffffffefffffff0 is no buffer"],
        unknown,
    ),
    (
        "TW-LIFETIME-002",
        "program",
        &["use at src/b.rs:2", "made by zeros at src/a.rs:1", "has ended"],
        stale,
    ),
    (
        "TW-LIFETIME-003",
        "program",
        &["free: the buffer", "made by zeros at src/a.rs:1"],
        twice,
    ),
    (
        "TW-LIFETIME-004",
        "program",
        &["use at src/b.rs:2", "another device"],
        foreign,
    ),
    (
        "TW-LIFETIME-006",
        "core",
        &["counted at src/c.rs:3", "made by zeros at src/a.rs:1"],
        bound_freed,
    ),
    (
        "TW-BOUNDS-001",
        "program",
        &["use at src/b.rs:2", "32 bytes at 48 of a buffer of 64 bytes"],
        outside,
    ),
    (
        "TW-BOUNDS-001",
        "program",
        &[
            "relu at src/d.rs:4",
            "reaches bytes 0..128 of a buffer of 64 bytes",
        ],
        outside_launch,
    ),
    (
        "TW-BOUNDS-001",
        "core",
        &["counted at src/c.rs:3", "64 bytes"],
        outside_program,
    ),
    (
        "TW-BOUNDS-002",
        "program",
        &["use at src/b.rs:2", "2^63"],
        overflow,
    ),
    (
        "TW-BOUNDS-002",
        "program",
        &["relu at src/d.rs:4", "2^63"],
        overflow_launch,
    ),
    (
        "TW-BOUNDS-003",
        "program",
        &["use at src/b.rs:2", "overlap"],
        overlap,
    ),
    (
        "TW-BOUNDS-003",
        "program",
        &["relu at src/d.rs:4", "overlaps parameter"],
        overlap_launch,
    ),
    ("TW-CONTRACT-001", "program", &["submit", "null"], pointer),
    (
        "TW-CONTRACT-002",
        "program",
        &["use at src/b.rs:2", "reserved field is 1"],
        reserved,
    ),
    (
        "TW-CONTRACT-003",
        "program",
        &["use at src/b.rs:2", "packet kind 9"],
        unknown_code,
    ),
    (
        "TW-CONTRACT-004",
        "program",
        &["relu at src/d.rs:4", "1 bindings"],
        mismatch,
    ),
    (
        "TW-CONTRACT-004",
        "core",
        &["counted at src/c.rs:3", "0 inputs"],
        mismatched_run,
    ),
];

pub(crate) fn codes() -> impl Iterator<Item = &'static str> {
    PLANTS.iter().map(|plant| plant.0)
}

pub(crate) fn all(backend: &str) {
    let _alone = alone(None);
    let Some(subject) = subject(backend, &["validate"], &[]) else {
        return;
    };
    for (code, fault, parts, plant) in PLANTS {
        match plant(&subject) {
            Ok(error) => expect(&error.message, code, fault, parts),
            Err(Stop::Unsupported(_)) if backend == "plain_c" => {}
            Err(stop) => panic!("{code}: {stop:?}"),
        }
    }
}

const MADE: work::Site = ("zeros", "src/a.rs", 1);
const USED: work::Site = ("use", "src/b.rs", 2);
const COUNTED: work::Site = ("counted", "src/c.rs", 3);
const RELU: work::Site = ("relu", "src/d.rs", 4);

/// A device, a stream and a buffer of 64 bytes.
fn open(subject: &Subject) -> Result<(Device, u64, u64), Stop> {
    let device = Device::open(subject)?;
    let (stream, buffer) = (device.stream()?, work::alloc(&device, 64, MADE)?);
    Ok((device, stream, buffer))
}

fn unknown(subject: &Subject) -> Found {
    wrong(open(subject)?.0.free(NOBODY))
}

fn stale(subject: &Subject) -> Found {
    let (device, stream, buffer) = open(subject)?;
    device.free(buffer)?;
    wrong(fill(&device, stream, (buffer, 0, 64), USED))
}

fn twice(subject: &Subject) -> Found {
    let (device, _, buffer) = open(subject)?;
    device.free(buffer)?;
    wrong(device.free(buffer))
}

fn foreign(subject: &Subject) -> Found {
    let (_first, _, buffer) = open(subject)?;
    let (second, stream, _) = open(subject)?;
    wrong(fill(&second, stream, (buffer, 0, 64), USED))
}

fn outside(subject: &Subject) -> Found {
    let (device, stream, buffer) = open(subject)?;
    wrong(fill(&device, stream, (buffer, 48, 32), USED))
}

fn overflow(subject: &Subject) -> Found {
    let (device, stream, buffer) = open(subject)?;
    let other = work::alloc(&device, 64, MADE)?;
    let mut places = (at(buffer, 0), at(other, 0));
    (places.0.pitch, places.1.pitch) = (u64::MAX / 2, u64::MAX / 2);
    wrong(copy(&device, stream, places, (8, 4), USED))
}

fn overlap(subject: &Subject) -> Found {
    let (device, stream, buffer) = open(subject)?;
    wrong(copy(
        &device,
        stream,
        (at(buffer, 8), at(buffer, 0)),
        (16, 1),
        USED,
    ))
}

fn pointer(subject: &Subject) -> Found {
    let (device, stream, _) = open(subject)?;
    let raw = device.raw();
    // SAFETY: the null pointer is for the layer to refuse.
    wrong(raw.status(unsafe { (raw.tables.stream.submit)(raw.context, stream, null(), 2) }))
}

fn reserved(subject: &Subject) -> Found {
    let (device, stream, buffer) = open(subject)?;
    let fill = Fill {
        buffer,
        offset: 0,
        bytes: 8,
        pattern: 1,
        pattern_bytes: 1,
        reserved: 1,
    };
    wrong(fill_as(&device, stream, &fill, USED))
}

fn unknown_code(subject: &Subject) -> Found {
    let (device, stream, _) = open(subject)?;
    let tag = tag(USED);
    let packet = Packet {
        kind: 9,
        tag: &raw const tag,
        ..EMPTY
    };
    wrong(device.submit(stream, &[packet]))
}

/// `out = in`, on f32.
fn relu() -> Kernel {
    let mut kernel = Kernel::new("relu", 1, 0);
    let input = kernel.param(DType::F32, Role::In, Level::Row, Access::Contiguous);
    let output = kernel.param(DType::F32, Role::Out, Level::Row, Access::Contiguous);
    let value = kernel.load(input);
    kernel.store(output, value);
    kernel
}

fn bound(buffer: u64, offset: u64) -> Binding {
    Binding {
        buffer,
        offset,
        strides: null(),
        gather_stride: 0,
        gather_extent: 0,
    }
}

fn launch(device: &Device, stream: u64, extents: &[u64], bindings: &[Binding]) -> Found {
    let (kernel, tag, raw) = (device.compile(&relu())?, tag(RELU), device.raw());
    let launch = Launch {
        kernel,
        extents: extents.as_ptr(),
        extent_count: extents.len(),
        bindings: bindings.as_ptr(),
        binding_count: bindings.len(),
        scalars: null(),
        scalar_count: 0,
    };
    // SAFETY: the arguments live through the call.
    wrong(raw.status(unsafe {
        (raw.tables.stream.launch)(raw.context, stream, &raw const launch, &raw const tag)
    }))
}

fn outside_launch(subject: &Subject) -> Found {
    let (device, stream, buffer) = open(subject)?;
    let other = work::alloc(&device, 256, MADE)?;
    launch(&device, stream, &[32], &[bound(other, 0), bound(buffer, 0)])
}

fn overflow_launch(subject: &Subject) -> Found {
    let (device, stream, buffer) = open(subject)?;
    launch(
        &device,
        stream,
        &[u64::MAX],
        &[bound(buffer, 0), bound(buffer, 0)],
    )
}

fn overlap_launch(subject: &Subject) -> Found {
    let (device, stream, buffer) = open(subject)?;
    launch(&device, stream, &[8], &[bound(buffer, 0), bound(buffer, 16)])
}

fn mismatch(subject: &Subject) -> Found {
    let (device, stream, buffer) = open(subject)?;
    launch(&device, stream, &[8], &[bound(buffer, 0)])
}

/// A program that fills 64 bytes of its only slot: an output, or a bound one that holds a buffer.
fn program(device: &Device, held: Option<ProgramInput>) -> Result<u64, Stop> {
    let raw = device.raw();
    let table = raw
        .tables
        .program
        .ok_or_else(|| Stop::Unsupported("no programs".into()))?;
    let fill = Fill {
        buffer: 1,
        offset: 0,
        bytes: 64,
        pattern: 1,
        pattern_bytes: 1,
        reserved: 0,
    };
    let tag = tag(COUNTED);
    let packet = Packet {
        kind: PacketKind::Fill as u32,
        tag: &raw const tag,
        fill: &raw const fill,
        ..EMPTY
    };
    let outputs = [64_u64];
    let args = ProgramArgs {
        device: device.handle(),
        packets: &raw const packet,
        packet_count: 1,
        dependencies: null(),
        dependency_count: 0,
        input_count: 0,
        outputs: outputs.as_ptr(),
        output_count: usize::from(held.is_none()),
        scratch: null(),
        scratch_count: 0,
        bound: held.as_ref().map_or(null(), std::ptr::from_ref),
        bound_count: usize::from(held.is_some()),
        scalars: null(),
        scalar_count: 0,
        argument_count: 0,
        constants: null(),
        constant_count: 0,
    };
    // SAFETY: the arguments live through the call, the out pointer is writable.
    Ok(raw.out(0, |out| unsafe {
        (table.create)(raw.context, &raw const args, out)
    })?)
}

/// Runs a program with `outputs` outputs.
pub(crate) fn run(
    device: &Device,
    program: u64,
    stream: u64,
    outputs: &mut [u64],
) -> thalweg_hal::Result<()> {
    let raw = device.raw();
    let args = ProgramRunArgs {
        program,
        stream,
        inputs: null(),
        input_count: 0,
        arguments: null(),
        argument_count: 0,
        outputs: outputs.as_mut_ptr(),
        output_count: outputs.len(),
        tag: null(),
        missing: null_mut(),
    };
    // SAFETY: the arguments live through the call; a program was made, so there is the table.
    raw.status(unsafe { (raw.tables.program.unwrap().run)(raw.context, &raw const args) })
}

/// A program that makes one output.
pub(crate) fn maker(device: &Device) -> Result<u64, Stop> {
    program(device, None)
}

/// A program that writes a buffer of 64 bytes.
pub(crate) fn writer(device: &Device, buffer: u64) -> Result<u64, Stop> {
    program(device, Some(ProgramInput { buffer, offset: 0 }))
}

fn bound_freed(subject: &Subject) -> Found {
    let (device, stream, buffer) = open(subject)?;
    let program = writer(&device, buffer)?;
    device.free(buffer)?;
    wrong(run(&device, program, stream, &mut []))
}

fn outside_program(subject: &Subject) -> Found {
    let (device, _, buffer) = open(subject)?;
    match program(&device, Some(ProgramInput { buffer, offset: 8 })) {
        Err(Stop::Failed(text)) => {
            // The kit's error has the text of the call.
            let text = text.trim_start_matches("unexpected error: ").to_owned();
            Ok(thalweg_hal::Error::out_of_bounds(text))
        }
        Err(stop) => Err(stop),
        Ok(_) => Err(Stop::Failed("the program was made".into())),
    }
}

fn mismatched_run(subject: &Subject) -> Found {
    let (device, stream, _) = open(subject)?;
    let program = maker(&device)?;
    wrong(run(&device, program, stream, &mut []))
}
