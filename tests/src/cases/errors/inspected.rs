//! What a backend shows of a kernel that ran.

use super::kernels::{sample, table};
use super::refused;
use crate::kit::{Case, Check, Stop};
use crate::rig::run::{Argument, Job};
use crate::rig::{Device, Subject};
use crate::{check, check_eq, fail};
use std::ptr::null;
use thalweg_hal::tables::{CompileArgs, InspectArgs, KernelPart, Source};
use thalweg_hal::{DType, Result, Status, Str, ir};

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("errors", name, run);
    vec![
        case("kernel_inspection", inspection),
        case("kernel_unoptimised", unoptimised),
    ]
}

/// The sample over 10 elements.
fn job() -> Job {
    let numbers: Vec<u64> = (0..10_u16).map(|x| u64::from(f32::from(x).to_bits())).collect();
    Job {
        kernel: sample(),
        extents: vec![10],
        arguments: vec![
            Argument::of(DType::F32, &numbers).strided(DType::F32, 0, &[1]),
            Argument::room(DType::F32, 10),
        ],
        scalars: vec![u64::from(1.5_f32.to_bits())],
    }
}

/// How many bytes a part has, the first of which go to `buffer`, and how many programs there are.
fn part(device: &Device, args: &mut InspectArgs, buffer: &mut [u8]) -> Result<Result<(usize, usize)>, Stop> {
    let (raw, table) = (device.raw(), table(device)?);
    let (mut len, mut programs) = (0, 0);
    args.buffer = buffer.as_mut_ptr();
    args.capacity = buffer.len();
    args.len = &raw mut len;
    args.programs = &raw mut programs;
    // SAFETY: the arguments live through the call, and the buffer has the capacity that is passed.
    let answer = raw.status(unsafe { (table.inspect)(raw.context, args) });
    Ok(answer.map(|()| (len, programs)))
}

fn asked(kernel: u64, program: u32, part: KernelPart) -> InspectArgs {
    InspectArgs {
        kernel,
        program,
        part: part as u32,
        buffer: std::ptr::null_mut(),
        capacity: 0,
        len: std::ptr::null_mut(),
        programs: std::ptr::null_mut(),
    }
}

/// A whole part; `None` where the backend says why there is none.
fn whole(device: &Device, kernel: u64, program: u32, of: KernelPart) -> Result<Option<Vec<u8>>, Stop> {
    let (mut args, name) = (asked(kernel, program, of), of.name());
    let len = match part(device, &mut args, &mut [])? {
        Ok((len, _)) => len,
        Err(error) if error.status == Status::Unsupported && !error.message.trim().is_empty() => {
            return Ok(None);
        }
        Err(error) => fail!("the {name}: {error} ({})", error.status),
    };
    let mut bytes = vec![0xa5_u8; len + 8];
    let (again, _) = part(device, &mut args, &mut bytes[..len])??;
    check_eq!(again, len, "length of the {name}, asked again");
    check_eq!(bytes[len..], [0xa5; 8], "bytes beyond the {name}");
    bytes.truncate(len);
    Ok(Some(bytes))
}

fn text(device: &Device, kernel: u64, program: u32, of: KernelPart) -> Result<Option<String>, Stop> {
    let bytes = whole(device, kernel, program, of)?;
    let text = bytes.map(String::from_utf8).transpose();
    text.map_err(|error| Stop::Failed(format!("the {} is no UTF-8: {error}", of.name())))
}

fn inspection(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    table(&device)?;
    let (kernel, job) = (device.compile(&sample())?, job());
    job.compare(&job.run_compiled(&device, kernel)?, &job.expected()?, 0)?;
    let (_, programs) = part(&device, &mut asked(kernel, 0, KernelPart::Facts), &mut [])??;
    check!(programs > 0, "a kernel that ran has no program");
    for program in 0..programs as u32 {
        let facts = text(&device, kernel, program, KernelPart::Facts)?.unwrap_or_default();
        let wrong = facts
            .lines()
            .find(|line| line.split_once('=').is_none_or(|(key, _)| key.is_empty()));
        check!(wrong.is_none(), "a fact is no key=value: {wrong:?}");
        whole(&device, kernel, program, KernelPart::Binary)?;
        text(&device, kernel, program, KernelPart::Log)?;
        let source = text(&device, kernel, program, KernelPart::Source)?;
        let Some(lines) = text(&device, kernel, program, KernelPart::Lines)? else {
            continue;
        };
        let (count, nodes) = (source.unwrap_or_default().lines().count(), sample().nodes.len());
        let mut stored = false;
        for line in lines.lines() {
            let Some((at, node)) = line.split_once(' ') else {
                fail!("{line:?} is no line and node");
            };
            let (Ok(at), Ok(node)) = (at.parse::<usize>(), node.parse::<usize>()) else {
                fail!("{line:?} is no line and node");
            };
            check!(
                (1..=count).contains(&at),
                "line {at} of a source of {count} lines"
            );
            check!(node < nodes, "node {node} of {nodes}");
            stored |= node + 1 == nodes;
        }
        check!(lines.is_empty() || stored, "no line stores the result");
    }
    for of in KernelPart::ALL.map(|(of, _)| of) {
        let beyond = whole(&device, kernel, u32::MAX, of)?;
        check_eq!(beyond, Some(Vec::new()), "the {} of no program", of.name());
    }
    for code in [0, KernelPart::ALL.len() as u32 + 1, u32::MAX] {
        let mut args = asked(kernel, 0, KernelPart::Facts);
        args.part = code;
        let error = part(&device, &mut args, &mut [])?;
        let refused = error
            .as_ref()
            .is_err_and(|error| error.status == Status::InvalidArgument);
        check!(refused, "part {code}: {error:?}");
    }
    let (raw, table) = (device.raw(), table(&device)?);
    let args = asked(kernel, 0, KernelPart::Facts);
    // SAFETY: null where a place is written must be refused.
    let code = unsafe { (table.inspect)(raw.context, &raw const args) };
    refused(raw, code, &[Status::InvalidArgument], "places that are null")?;
    // SAFETY: as above.
    let code = unsafe { (table.inspect)(raw.context, null()) };
    refused(raw, code, &[Status::InvalidArgument], "arguments that are null")
}

/// A kernel that is not optimised computes the same; a backend that cannot compile so says why.
fn unoptimised(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (raw, table, job) = (device.raw(), table(&device)?, job());
    let owned = ir::encode(&sample());
    let desc = owned.desc();
    let args = CompileArgs {
        device: device.handle(),
        source: Source {
            kernel: &raw const desc,
            library: null(),
        },
        options: Str::new("optimise=off"),
    };
    // SAFETY: the arguments live through the call, the out pointer is writable.
    match raw.out(0, |out| unsafe {
        (table.compile)(raw.context, &raw const args, out)
    }) {
        Ok(kernel) => job.compare(&job.run_compiled(&device, kernel)?, &job.expected()?, 0),
        Err(error) if error.status == Status::Unsupported && !error.message.trim().is_empty() => Ok(()),
        Err(error) => fail!("optimise=off: {error} ({})", error.status),
    }
}
