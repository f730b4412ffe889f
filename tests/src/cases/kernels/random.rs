//! Random kernels against the definition, to the last bit: ops that IEEE 754 leaves open and sums of floats are left out.

use super::{need, tolerance};
use crate::kit::{Case, Check, Stop};
use crate::rig::run::{Argument, Job};
use crate::rig::values::{Random, random};
use crate::rig::{Device, Subject};
use thalweg_hal::DType;
use thalweg_hal::ir::arbitrary::{RandomKernel, random_kernel};
use thalweg_hal::ir::{Access, Kernel, Level, Node, NodeId, Param, ReduceOp, Role, ScalarOp};

/// Kernels of one case.
const PER_CASE: u64 = 25;
/// Cases of each flavour.
const CASES: u64 = 8;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, options, lie) in flavours() {
        for part in 0..CASES {
            let options = options.clone();
            let name = format!("random.{name}.{part}");
            cases.push(Case::new("kernels", name, move |subject| {
                run(subject, &options, lie, part * PER_CASE..(part + 1) * PER_CASE)
            }));
        }
    }
    cases
}

/// How the arguments lie in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lie {
    /// Anyhow, and mostly short.
    Anyhow,
    /// From the start of a buffer, one element after the other, in rows that are long and whole packs of 16 bytes.
    InPacks,
}

fn flavours() -> [(&'static str, RandomKernel, Lie); 4] {
    let extremes = vec![ReduceOp::Max, ReduceOp::Min, ReduceOp::ArgMax, ReduceOp::ArgMin];
    let exact: Vec<ScalarOp> = (ScalarOp::ALL.iter().copied())
        .filter(|&op| tolerance(op, DType::F32) == 0)
        .collect();
    let all = RandomKernel {
        ops: exact,
        reduces: extremes,
        ..RandomKernel::default()
    };
    [
        (
            "integers",
            RandomKernel {
                dtypes: DType::ALL.into_iter().filter(|dtype| !dtype.is_float()).collect(),
                reduces: ReduceOp::ALL.to_vec(),
                ..all.clone()
            },
            Lie::Anyhow,
        ),
        (
            "common",
            RandomKernel {
                dtypes: vec![DType::F32, DType::I32, DType::I64, DType::Bool],
                ..all.clone()
            },
            Lie::Anyhow,
        ),
        (
            "packs",
            RandomKernel {
                dtypes: vec![DType::F16, DType::BF16, DType::F32, DType::U8, DType::Bool],
                max_outer: 2,
                max_inner: 1,
                ..all.clone()
            },
            Lie::InPacks,
        ),
        ("every_dtype", all, Lie::Anyhow),
    ]
}

fn run(subject: &Subject, options: &RandomKernel, lie: Lie, seeds: std::ops::Range<u64>) -> Check {
    let device = Device::open(subject)?;
    need(&device, &options.dtypes)?;
    for seed in seeds {
        let mut source = Random::new(seed);
        let job = random_job(&mut source, options, lie);
        if let Err(Stop::Failed(why)) = differ(&device, &job) {
            let smaller = shrink(&device, job);
            let why = match differ(&device, &smaller) {
                Err(Stop::Failed(why)) => why,
                _ => why,
            };
            return Err(smaller.explain(Stop::Failed(why), &format!("random kernel, seed {seed}")));
        }
    }
    Ok(())
}

/// Whether the device gives what the definition does; what it does not take counts as the same.
fn differ(device: &Device, job: &Job) -> Check {
    match job.run(device) {
        Ok(found) => job.compare(&found, &job.expected()?, 0),
        Err(Stop::Unsupported(_)) => Ok(()),
        Err(stop) => Err(stop),
    }
}

/// A random kernel with arguments that fit it.
fn random_job(source: &mut Random, options: &RandomKernel, lie: Lie) -> Job {
    let mut kernel = random_kernel(&mut || source.bits(), options);
    let axes = (kernel.outer + kernel.inner) as usize;
    let mut extents: Vec<u64> = (0..axes)
        .map(|_| match source.below(12) {
            0 => 0,
            1..=3 => 1,
            _ => 2 + source.below(5),
        })
        .collect();
    // One axis may be long.
    if let Some(last) = extents.last_mut()
        && source.below(3) == 0
    {
        *last = 1 + source.below(2500);
    }
    if lie == Lie::InPacks {
        let strided = |param: &&mut Param| param.access == Access::Strided;
        for param in kernel.params.iter_mut().filter(strided) {
            param.access = Access::Contiguous;
        }
        if let Some(last) = extents.last_mut() {
            *last = 16 * (5 + source.below(30));
        }
        // What follows the last pack of a space of one axis.
        if let [only] = &mut extents[..] {
            *only += source.below(16);
        }
    }
    let gathers = |index: usize| {
        let of = |node: &Node| matches!(*node, Node::LoadAt { param, .. } if param as usize == index);
        kernel.nodes.iter().any(of)
    };
    let arguments = (kernel.params.iter().enumerate())
        .map(|(index, param)| {
            let axes = match param.level {
                Level::Row => &extents[..kernel.outer as usize],
                Level::Element => &extents[..],
            };
            argument(
                source,
                param.dtype,
                param.role,
                param.access,
                axes,
                gathers(index),
                lie,
            )
        })
        .collect();
    let scalars = kernel
        .scalars
        .iter()
        .map(|&dtype| random(dtype, source))
        .collect();
    Job {
        kernel,
        extents,
        arguments,
        scalars,
    }
}

fn argument(
    source: &mut Random,
    dtype: DType,
    role: Role,
    access: Access,
    axes: &[u64],
    gathers: bool,
    lie: Lie,
) -> Argument {
    let (mut low, mut high) = (0_i64, 0_i64);
    let mut reach = |stride: i64, extent: u64| {
        let last = stride * (extent.max(1) as i64 - 1);
        (low, high) = (low + last.min(0), high + last.max(0));
    };
    let mut strides = vec![0; axes.len()];
    match access {
        Access::Broadcast => {}
        Access::Contiguous => reach(1, axes.iter().product()),
        Access::Strided => {
            // The axes in random order, each stepping over all before it, some backwards; inputs may stand still.
            let mut order: Vec<usize> = (0..axes.len()).collect();
            for at in (1..order.len()).rev() {
                order.swap(at, source.below(at as u64 + 1) as usize);
            }
            let mut step = 1 + source.below(2) as i64;
            for axis in order {
                let still = role == Role::In && source.below(5) == 0;
                let sign = if source.below(3) == 0 { -1 } else { 1 };
                strides[axis] = if still { 0 } else { step * sign };
                reach(strides[axis], axes[axis]);
                step *= axes[axis].max(1) as i64 + source.below(2) as i64;
            }
        }
    }
    let mut argument = Argument::default();
    if gathers {
        let extent = source.below(20);
        let stride = source.below(7) as i64 - 3;
        reach(stride, extent);
        argument = argument.gathered(stride, extent);
    }
    let spare = match lie {
        Lie::Anyhow => source.below(4),
        Lie::InPacks => 0,
    };
    let count = (high - low) as u64 + 1 + 2 * spare;
    argument.bytes = match role {
        Role::In => {
            let values: Vec<u64> = (0..count).map(|_| random(dtype, source)).collect();
            crate::rig::values::to_bytes(dtype, &values)
        }
        Role::Out => vec![crate::rig::run::POISON; count as usize * dtype.size()],
    };
    argument.strided(dtype, (spare as i64 - low) as u64, &strides)
}

/// A job that differs like `job` with a smaller kernel and smaller extents, where one is found quickly.
fn shrink(device: &Device, job: Job) -> Job {
    let differs =
        |job: &Job| job.kernel.verify().is_ok() && matches!(differ(device, job), Err(Stop::Failed(_)));
    let mut best = job;
    for axis in 0..best.extents.len() {
        // Memory stays as it is and is large enough for less.
        for extent in [1, 2, 3, 17, 129] {
            let mut smaller = best.clone();
            smaller.extents[axis] = extent;
            if extent < best.extents[axis] && differs(&smaller) {
                best = smaller;
                break;
            }
        }
    }
    for param in 0..best.kernel.params.len() {
        let smaller = without_output(&best, param);
        if differs(&smaller) {
            best = smaller;
        }
    }
    let mut smaller = best.clone();
    smaller.kernel = best.kernel.without_unused();
    if differs(&smaller) { smaller } else { best }
}

/// The output becomes an input that nobody reads.
fn without_output(job: &Job, index: usize) -> Job {
    let mut smaller = job.clone();
    let param = &mut smaller.kernel.params[index];
    param.role = Role::In;
    smaller
        .kernel
        .nodes
        .retain(|node| !matches!(*node, Node::Store { param, .. } if param as usize == index));
    smaller.kernel = match renumbered(&job.kernel, &smaller.kernel, index) {
        Some(kernel) => kernel,
        None => return job.clone(),
    };
    smaller
}

/// `after` is `before` without the store to `param`; its nodes get their new numbers.
fn renumbered(before: &Kernel, after: &Kernel, param: usize) -> Option<Kernel> {
    let gone = (before.nodes.iter())
        .position(|node| matches!(*node, Node::Store { param: p, .. } if p as usize == param))?;
    let mut kernel = after.clone();
    for node in &mut kernel.nodes {
        *node = node.map_args(|id| if id.index() > gone { NodeId(id.0 - 1) } else { id });
    }
    Some(kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_well_formed() {
        for (_, options, lie) in flavours() {
            for seed in 0..200 {
                let job = random_job(&mut Random::new(seed), &options, lie);
                job.kernel.verify().unwrap();
                assert_eq!(job.arguments.len(), job.kernel.params.len());
                let smaller = job.kernel.without_unused();
                smaller.verify().unwrap();
                let outputs = job.kernel.params.iter().filter(|p| p.role == Role::Out).count();
                for index in 0..job.kernel.params.len() {
                    let smaller = without_output(&job, index);
                    if outputs > 1 || job.kernel.params[index].role == Role::In {
                        smaller.kernel.verify().unwrap();
                    }
                }
            }
        }
    }
}
