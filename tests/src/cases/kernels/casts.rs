//! Every cast, and constants and scalar arguments of every dtype.

use super::{need, seed};
use crate::kit::{Case, Check};
use crate::rig::run::{Argument, Job};
use crate::rig::values::{Random, edges, from_bytes, from_float, is_close, random, show};
use crate::rig::{Device, Subject};
use crate::{check, fail};
use thalweg_hal::DType;
use thalweg_hal::interpreter::scalar::cast;
use thalweg_hal::ir::{Access, Kernel, Level, Node, Role};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for from in DType::ALL {
        for to in DType::ALL {
            let name = format!("cast.{from}.{to}");
            let seed = seed(&name);
            cases.push(Case::new("kernels", name, move |subject| {
                run(subject, from, to, seed)
            }));
        }
        cases.push(Case::new("kernels", format!("constant.{from}"), move |subject| {
            constant(subject, from)
        }));
        cases.push(Case::new(
            "kernels",
            format!("scalar_argument.{from}"),
            move |subject| argument(subject, from),
        ));
    }
    cases
}

fn values(from: DType, seed: u64) -> Vec<u64> {
    let mut source = Random::new(seed);
    let mut values = edges(from);
    if from.is_float() {
        // Around the limits of every integer dtype, and halfway between neighbours of narrower floats.
        for power in [7, 8, 10, 11, 15, 16, 23, 24, 31, 32, 52, 53, 62, 63, 64] {
            let limit = 2f64.powi(power);
            for value in [
                limit - 1.0,
                limit - 0.5,
                limit,
                limit + 0.5,
                limit + 1.0,
                limit * 1.000_488_281_25,
            ] {
                values.extend([from_float(from, value), from_float(from, -value)]);
            }
        }
        for value in [
            65504.0, 65519.0, 65520.0, 5.9e-8, 2.9e-8, 6.1e-5, 1e-40, 1e-45, 3.4e38, 3.5e38, 448.0, 464.0,
            464.001, 480.0, 57344.0, 61439.0, 61440.0, 1.0625, 1.125, 9.8e-4, 1.95e-3, 7.6e-6, 1.5e-5,
        ] {
            values.extend([from_float(from, value), from_float(from, -value)]);
        }
    }
    values.extend((0..600).map(|_| random(from, &mut source)));
    values.extend(
        (0..200)
            .map(|_| source.bits() & crate::rig::values::mask(from))
            .filter(|_| from != DType::Bool),
    );
    values
}

fn run(subject: &Subject, from: DType, to: DType, seed: u64) -> Check {
    let device = Device::open(subject)?;
    need(&device, &[from, to])?;
    let mut kernel = Kernel::new("cast", 1, 0);
    let input = kernel.param(from, Role::In, Level::Row, Access::Contiguous);
    let output = kernel.param(to, Role::Out, Level::Row, Access::Contiguous);
    let value = kernel.load(input);
    let result = kernel.cast(to, value);
    kernel.store(output, result);
    let values = values(from, seed);
    let job = Job {
        kernel,
        extents: vec![values.len() as u64],
        arguments: vec![Argument::of(from, &values), Argument::room(to, values.len())],
        scalars: Vec::new(),
    };
    let found = job.run(&device)?;
    for (found, value) in from_bytes(to, &found[1]).into_iter().zip(values) {
        let expected = cast(from, to, value);
        if !is_close(to, found, expected, 0) {
            fail!(
                "{from} {} as {to} is {}, expected {}",
                show(from, value),
                show(to, found),
                show(to, expected)
            );
        }
    }
    Ok(())
}

/// `out = value` for each edge of the dtype, through `load`.
fn constant(subject: &Subject, dtype: DType) -> Check {
    let device = Device::open(subject)?;
    need(&device, &[dtype])?;
    let mut kernel = Kernel::new("constants", 1, 0);
    let edges: Vec<u64> = edges(dtype).into_iter().take(60).collect();
    for &bits in &edges {
        let output = kernel.param(dtype, Role::Out, Level::Row, Access::Contiguous);
        let value = kernel.push(Node::Const { dtype, bits });
        kernel.store(output, value);
    }
    let job = Job {
        extents: vec![5],
        arguments: vec![Argument::room(dtype, 5); edges.len()],
        scalars: Vec::new(),
        kernel,
    };
    let found = job.run(&device)?;
    for (memory, &expected) in found.iter().zip(&edges) {
        for value in from_bytes(dtype, memory) {
            check!(
                is_close(dtype, value, expected, 0),
                "the constant {} arrives as {}",
                show(dtype, expected),
                show(dtype, value)
            );
        }
    }
    Ok(())
}

fn argument(subject: &Subject, dtype: DType) -> Check {
    let device = Device::open(subject)?;
    need(&device, &[dtype])?;
    let mut kernel = Kernel::new("scalars", 1, 0);
    let edges: Vec<u64> = edges(dtype).into_iter().take(60).collect();
    for _ in &edges {
        let output = kernel.param(dtype, Role::Out, Level::Row, Access::Contiguous);
        let value = kernel.scalar(dtype);
        kernel.store(output, value);
    }
    let job = Job {
        extents: vec![5],
        arguments: vec![Argument::room(dtype, 5); edges.len()],
        scalars: edges.clone(),
        kernel,
    };
    let found = job.run(&device)?;
    for (memory, &expected) in found.iter().zip(&edges) {
        for value in from_bytes(dtype, memory) {
            check!(
                is_close(dtype, value, expected, 0),
                "the scalar {} arrives as {}",
                show(dtype, expected),
                show(dtype, value)
            );
        }
    }
    Ok(())
}
