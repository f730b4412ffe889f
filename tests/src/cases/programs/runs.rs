//! Runs that are under way at once, each with what it was given.

use super::{Programs, add, plain, scale};
use crate::cases::programs::job;
use crate::check_eq;
use crate::kit::Check;
use crate::rig::device::{fill, fill_packet, launch_packet};
use crate::rig::run::Job;
use crate::rig::values::{from_bytes, to_bytes};
use crate::rig::{Device, Gate, Subject};
use std::ptr::null;
use thalweg_hal::DType;
use thalweg_hal::tables::{Packet, ProgramScalar};

/// Runs of one program that are queued behind a gate, with other inputs, outputs and scalars each. Some packets wait for
/// others, because they read what those wrote or write what those read; some wait for none.
pub(super) fn under_way(subject: &Subject) -> Check {
    const COUNT: u64 = 600;
    const RUNS: u64 = 12;
    let device = Device::open(subject)?;
    let programs = Programs::new(&device)?;
    let (scaled, sum) = (
        Job {
            scalars: vec![3],
            ..job(scale(), COUNT)
        },
        job(add(), COUNT),
    );
    let (scale, add) = (device.compile(&scaled.kernel)?, device.compile(&sum.kernel)?);
    // Slots: 1 input, 2 and 3 outputs, 4 to 7 scratch.
    let multiply = [[1, 4], [1, 5], [6, 4], [4, 7]].map(|slots| scaled.bindings(&slots));
    let adding = [[4, 5, 6], [7, 5, 2]].map(|slots| sum.bindings(&slots));
    let multiply = multiply.each_ref().map(|bindings| scaled.launch(scale, bindings));
    let adding = adding.each_ref().map(|bindings| sum.launch(add, bindings));
    let pairs = fill(3, 0, 4 * COUNT, 0x0000_0002_0000_0001, 8);
    let nines = fill(5, 0, 4 * COUNT, 9, 4);
    let packets: [Packet; 8] = [
        // 4 = x * argument 0; 5 = x * argument 1; 6 = 4 + 5
        launch_packet(&multiply[0], null()),
        launch_packet(&multiply[1], null()),
        launch_packet(&adding[0], null()),
        fill_packet(&pairs, null()),
        // 4 = 6 * 3, over what was read; 5 = 9, likewise; 7 = 4 * argument 2; output = 7 + 5
        launch_packet(&multiply[2], null()),
        fill_packet(&nines, null()),
        launch_packet(&multiply[3], null()),
        launch_packet(&adding[1], null()),
    ];
    let given = [(0, 0), (1, 1), (6, 2)].map(|(packet, argument)| ProgramScalar {
        packet,
        scalar: 0,
        argument,
        reserved: 0,
    });
    let bytes = 4 * COUNT;
    let program = programs.create(&packets, (1, &[bytes, bytes], &[bytes; 4], 3), &given)?;
    let streams = [device.stream()?, device.stream()?];
    let inputs = (0..3)
        .map(|round| {
            let values: Vec<u64> = (0..COUNT).map(|i| i + 1000 * round).collect();
            device.upload(&to_bytes(DType::I32, &values))
        })
        .collect::<Result<Vec<_>, _>>()?;
    for _ in 0..3 {
        let gates = [Gate::new(&device, streams[0])?, Gate::new(&device, streams[1])?];
        let mut made = Vec::new();
        for run in 0..RUNS {
            let arguments = [run + 1, 2 * run + 3, run % 2 + 1];
            let (input, stream) = (inputs[run as usize % 3], streams[run as usize / 2 % 2]);
            let outputs = plain(programs.run((program, stream), &[(input, 0)], &arguments, 2))?;
            made.push((run, stream, outputs));
        }
        gates.iter().for_each(Gate::open);
        for (run, stream, outputs) in made {
            let found = from_bytes(DType::I32, &device.download(stream, outputs[0], bytes)?);
            let factor = (3 * run + 4) * 3 * (run % 2 + 1);
            let expected: Vec<u64> = (0..COUNT).map(|i| (i + 1000 * (run % 3)) * factor + 9).collect();
            check_eq!(found, expected, "run {run}");
            let pairs = from_bytes(DType::I32, &device.download(stream, outputs[1], bytes)?);
            let expected: Vec<u64> = (0..COUNT).map(|i| i % 2 + 1).collect();
            check_eq!(pairs, expected, "filled in run {run}");
            outputs.iter().try_for_each(|&handle| device.free(handle))?;
        }
    }
    inputs.iter().try_for_each(|&input| device.free(input))?;
    Ok(programs.destroy(program)?)
}
