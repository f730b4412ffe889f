//! Products with a map of their sums.

use super::super::kernels::need;
use super::{Layout, Numbers, Place, dot, each, job, least, narrow_epsilon, slack, values};
use crate::check;
use crate::kit::{Check, Stop};
use crate::rig::run::Argument;
use crate::rig::values::{Random, float, from_bytes, integer, show};
use crate::rig::{Device, Subject};
use thalweg_hal::DType;
use thalweg_hal::ir::Kernel;
use thalweg_hal::library::{LibraryOp, Matmul};

/// A product that `max(sum + bias, s)` or, without `relu`, `sum + bias` in the operands' dtype makes of its sums; a bias per
/// column, a matrix that lies like the result, and one whose columns come first.
pub(super) fn applied(subject: &Subject, dtype: DType, relu: bool) -> Check {
    let device = Device::open(subject)?;
    need(&device, &[dtype])?;
    let accumulate = match dtype {
        DType::F16 | DType::F8E4M3 => DType::F32,
        DType::I8 => DType::I32,
        other => other,
    };
    let stored = if relu || !dtype.is_float() || dtype.is_storage() {
        accumulate
    } else {
        dtype
    };
    let mut text = format!(
        "kernel bias outer=3 inner=0
p0 in {accumulate} row contiguous
p1 in {stored} row strided
p2 out {stored} row strided
"
    );
    if relu {
        text.push_str(&format!("s0 {accumulate}\n"));
    }
    let mut nodes = vec!["load p0".to_owned(), "load p1".to_owned()];
    if stored != accumulate {
        nodes.push(format!("cast {accumulate} n1"));
    }
    nodes.push(format!("add n0 n{}", nodes.len() - 1));
    if relu {
        nodes.push("scalar s0".to_owned());
        nodes.push("max n2 n3".to_owned());
    }
    if stored != accumulate {
        nodes.push(format!("cast {stored} n{}", nodes.len() - 1));
    }
    nodes.push(format!("store p2 n{}", nodes.len() - 1));
    for (i, node) in nodes.iter().enumerate() {
        text.push_str(&format!("n{i} = {node}\n"));
    }
    let epilogue = Kernel::parse(&text).map_err(|error| Stop::Failed(error.to_string()))?;
    let op = Matmul {
        batch: 1,
        operands: [dtype; 2],
        accumulate,
        output: stored,
        epilogue: Some(epilogue),
    };
    let definition = LibraryOp::Matmul(op.clone()).definition()?;
    let kernel = device.compile_library(&LibraryOp::Matmul(op.clone()))?;
    let shapes = [
        (2, 19, 23, 31),
        (1, 1, 50, 40),
        (1, 64, 64, 64),
        (2, 30, 70, 90),
        (1, 20, 40, 600),
    ];
    for (shape, layout) in { shapes }
        .into_iter()
        .flat_map(|shape| [None, Some(Layout::Rows), Some(Layout::Columns)].map(|layout| (shape, layout)))
    {
        let (mut job, places) = job(&definition, &op, [Layout::Rows; 3], shape, 2);
        let (batch, m, n, k) = shape;
        let of_bias = match layout {
            None => Place {
                first: 0,
                strides: [0, 0, 1],
                len: n,
            },
            Some(layout) => Place::new(layout, batch, m, n, false),
        };
        let bias = values(stored, of_bias.len, &mut Random::new(6));
        let bias: Vec<u64> = match stored {
            DType::I32 => bias.into_iter().map(|bits| bits % 1000).collect(),
            _ => bias,
        };
        job.arguments.insert(
            2,
            Argument::of(stored, &bias).strided(stored, 0, &of_bias.strides),
        );
        job.scalars = if relu { vec![0] } else { Vec::new() };
        let found = job.run_compiled(&device, kernel)?;
        let read = |index: usize| Numbers::of(dtype, &from_bytes(dtype, &job.arguments[index].bytes));
        let (a, b, c) = (read(0), read(1), from_bytes(stored, &found[3]));
        for (i, row, column) in each(batch, m, n) {
            let (sum, size, whole) = dot(&a, &b, &places, [i, row, column], k);
            let found = c[places[2].at(i, row, column)];
            let bias = bias[of_bias.at(i, row, column)];
            let right = if dtype.is_float() {
                let sum = sum + float(stored, bias);
                let expected = if relu { sum.max(0.0) } else { sum };
                let rounding = narrow_epsilon(stored) * expected.abs() + least(stored);
                (float(stored, found) - expected).abs()
                    <= (size + 1.0) * slack(dtype, accumulate, k) + rounding
            } else {
                let sum = whole + integer(stored, bias);
                integer(stored, found) == if relu { sum.max(0) } else { sum }
            };
            check!(
                right,
                "{shape:?}, bias in {:?}: element [{i}, {row}, {column}] is {}",
                of_bias.strides,
                show(stored, found)
            );
        }
    }
    Ok(())
}
