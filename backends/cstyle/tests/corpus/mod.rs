//! Kernels of every kind, planned for launches that ask for every variant.

#[cfg(test)]
mod dialects;
#[cfg(test)]
pub(crate) mod golden;

use std::collections::HashSet;
use thalweg_cstyle::{Launch, MatmulConfig, Place, Routine, Source, Target};
use thalweg_hal::ir::arbitrary::{RandomKernel, random_kernel};
use thalweg_hal::ir::{Access, Kernel, Level, Node, NodeId, ReduceOp, Returns, Role, ScalarOp};
use thalweg_hal::library::{Attention, Conv, LibraryOp, Matmul, Sort};
use thalweg_hal::{DType, Result};

/// Random kernels in the corpus.
const RANDOM: u64 = 60;

/// Every program of the corpus: of kernels with one way to lie in memory the plain variant, of the others all that the
/// launches ask for, matrix products and convolutions in each configuration, sorts and attention.
pub(crate) fn programs(target: &Target) -> Result<Vec<Source>> {
    let mut programs = Vec::new();
    for kernel in scalars() {
        let routine = Routine::new(&kernel, target)?;
        let plan = with_launch(&kernel, &[4096], Fill::Plain, |launch| routine.plan(launch))?;
        programs.push(routine.render(&plan.variant)?);
    }
    for kernel in reductions().into_iter().chain(random()) {
        let routine = Routine::new(&kernel, target)?;
        let mut variants = HashSet::new();
        for extents in extents(&kernel) {
            for fill in [Fill::Plain, Fill::Shifted, Fill::InPlace, Fill::Huge] {
                let plan = with_launch(&kernel, &extents, fill, |launch| routine.plan(launch))?;
                if variants.insert(plan.variant.clone()) {
                    programs.push(routine.render(&plan.variant)?);
                }
            }
        }
    }
    for config in MatmulConfig::candidates(target) {
        for (dtype, accumulate, output) in PRODUCTS {
            let op = Matmul {
                batch: 1,
                operands: [dtype; 2],
                accumulate,
                output,
                epilogue: None,
            };
            let routine = Routine::matmul(&op, config, target)?;
            for extents in [[3, 100, 200, 300], [3, 2000, 1000, 304]] {
                for way in [Way::Rows, Way::Turned, Way::Gaps, Way::Far] {
                    let plan = with_matrices(extents, way, |launch| routine.plan(launch))?;
                    programs.push(routine.render(&plan.variant)?);
                }
            }
        }
    }
    for config in MatmulConfig::candidates(target) {
        for (dtype, accumulate, output) in PRODUCTS {
            for (op, extents) in convolutions(dtype, accumulate, output) {
                let routine = Routine::library(&op, config, target)?;
                let kernel = op.definition()?;
                let plan = with_convolution(&kernel, &extents, |launch| routine.plan(launch))?;
                programs.push(routine.render(&plan.variant)?);
            }
        }
    }
    for dtype in DType::ALL {
        for descending in [false, true] {
            programs.extend(sorts(dtype, descending, target)?);
        }
    }
    for (dtype, _, _) in PRODUCTS.into_iter().filter(|(dtype, ..)| dtype.is_float()) {
        for (causal, mask) in [(false, None), (true, Some(false)), (false, Some(true))] {
            programs.extend(attentions(&attention(dtype, causal, mask), target)?);
        }
    }
    // Dtypes that a configuration does not take have the program of another.
    let mut seen = HashSet::new();
    programs.retain(|program| seen.insert(program.text.clone()));
    Ok(programs)
}

/// An attention with two batch axes, and a mask that is bool or added.
pub(crate) fn attention(dtype: DType, causal: bool, added: Option<bool>) -> Attention {
    let accumulate = if dtype == DType::F64 { dtype } else { DType::F32 };
    Attention {
        batch: 2,
        causal,
        mask: added.map(|added| if added { accumulate } else { DType::Bool }),
        dtype,
        accumulate,
    }
}

/// An attention of few queries and of many, with narrow heads and wide ones.
fn attentions(op: &Attention, target: &Target) -> Result<Vec<Source>> {
    let config = MatmulConfig::candidates(target)[0];
    let routine = Routine::library(&LibraryOp::Attention(op.clone()), config, target)?;
    let mut sources = Vec::new();
    for queries in [1, 1000] {
        for width in [32, 64, 128] {
            for step in [1, 1 << 33] {
                let extents = [2, 3, queries, width, 1000, width];
                let plan = with_attention(op, &extents, step, |launch| routine.plan(launch))?;
                sources.push(routine.render(&plan.variant)?);
            }
        }
    }
    Ok(sources)
}

/// Calls `with` with a launch of an attention: every operand row-major, its last axis in steps of `step`.
pub(crate) fn with_attention<T>(
    op: &Attention,
    extents: &[u64],
    step: i64,
    with: impl FnOnce(&Launch<'_>) -> T,
) -> T {
    let batch = op.batch as usize;
    // Of the query, the column of values, the key and the depth, rows and columns of each operand.
    let mut axes = vec![[0, 3], [2, 3], [2, 1]];
    axes.extend(op.mask.map(|_| [0, 2]));
    axes.push([0, 1]);
    let last = axes.len() - 1;
    let strides: Vec<Vec<i64>> = (axes.iter().enumerate())
        .map(|(p, axes)| {
            let mut own = vec![0; if p == last { batch + 2 } else { extents.len() }];
            let mut step = step;
            for axis in (0..batch).chain(axes.map(|axis| batch + axis)).rev() {
                own[axis] = step;
                step *= extents[axis].max(1) as i64;
            }
            own
        })
        .collect();
    let strides: Vec<&[i64]> = strides.iter().map(Vec::as_slice).collect();
    with_strides(extents, &strides, with)
}

/// A sort of short rows and of long ones, with indices of 32 and of 64 bits.
fn sorts(dtype: DType, descending: bool, target: &Target) -> Result<Vec<Source>> {
    let op = Sort {
        batch: 2,
        descending,
        indices: true,
        part: false,
        dtype,
    };
    let form = parameters(&op);
    let routine = Routine::library(&LibraryOp::Sort(op), MatmulConfig::candidates(target)[0], target)?;
    let mut sources = Vec::new();
    for extents in [[3, 5, 100], [1, 2, 5000]] {
        for fill in [Fill::Shifted, Fill::Huge] {
            let plan = with_launch(&form, &extents, fill, |launch| routine.plan(launch))?;
            sources.push(routine.render(&plan.variant)?);
        }
    }
    Ok(sources)
}

/// A kernel with the parameters of a sort, which lie in memory as those of its launches.
pub(crate) fn parameters(op: &Sort) -> Kernel {
    let mut kernel = Kernel::new("sort", op.batch + 1, 0);
    for (dtype, role) in [
        (op.dtype, Role::In),
        (op.dtype, Role::Out),
        (DType::I64, Role::Out),
    ] {
        kernel.param(dtype, role, Level::Row, Access::Strided);
    }
    kernel
}

/// A convolution, its gradients, and launches of them.
fn convolutions(dtype: DType, accumulate: DType, output: DType) -> [(LibraryOp, Vec<u64>); 10] {
    let op = Conv {
        spatial: 2,
        stride: [2, 1, 0],
        dilation: [1, 2, 0],
        padding: [1, 0, 0],
        operands: [dtype; 2],
        accumulate,
        output,
        fast: false,
        epilogue: None,
    };
    let [input, weight] = [LibraryOp::ConvGradInput, LibraryOp::ConvGradWeight];
    [
        (LibraryOp::Conv(op.clone()), vec![2, 3, 8, 14, 14, 4, 3, 3]),
        (LibraryOp::Conv(op.clone()), vec![20, 3, 1000, 14, 14, 8, 3, 3]),
        // More taps than have bits.
        (LibraryOp::Conv(op.clone()), vec![20, 3, 1000, 14, 14, 8, 7, 7]),
        // Offsets of 64 bits.
        (LibraryOp::Conv(op.clone()), vec![6000, 3, 1000, 14, 14, 8, 7, 7]),
        (input(op.clone()), vec![6000, 3, 1000, 28, 28, 8, 7, 7]),
        (input(op.clone()), vec![2, 3, 4, 28, 28, 8, 3, 3]),
        (input(op.clone()), vec![20, 3, 1000, 28, 28, 8, 3, 3]),
        (input(op.clone()), vec![20, 3, 1000, 28, 28, 8, 7, 7]),
        (weight(op.clone()), vec![3, 8, 4, 3, 3, 60, 14, 14]),
        (weight(op), vec![3, 1000, 1000, 3, 3, 60, 14, 14]),
    ]
}

/// Calls `with` with a launch of a convolution's definition: everything row-major, the first operand 64 × 64 in space.
pub(crate) fn with_convolution<T>(
    kernel: &Kernel,
    extents: &[u64],
    with: impl FnOnce(&Launch<'_>) -> T,
) -> T {
    const SIDE: i64 = 64;
    let outer = kernel.outer as usize;
    let r = outer - 3;
    // Axes of samples, channels, groups and rows.
    let [n, c, g, rows] = if kernel.name == "conv_grad_weight" {
        [outer, 2, 0, 1]
    } else {
        [0, outer, 1, 2]
    };
    let gathered = |axis: usize| match axis {
        axis if axis == n => 100 * SIDE * SIDE,
        axis if axis == g => 10 * SIDE * SIDE,
        axis if axis == c => SIDE * SIDE,
        _ => 0,
    };
    // The other operand lies along the groups, the rows and the inner axes.
    let other = |axis: usize| axis >= outer || axis == rows || axis == g;
    let mut strides: Vec<Vec<i64>> = vec![(0..extents.len()).map(gathered).collect()];
    for (lies, axes) in [
        (&other as &dyn Fn(usize) -> bool, extents.len()),
        (&|_| true, outer),
    ] {
        let mut step = 1;
        let mut own = vec![0; axes];
        for axis in (0..axes).rev().filter(|&axis| lies(axis)) {
            own[axis] = step;
            step *= extents[axis] as i64;
        }
        strides.push(own);
    }
    let places: Vec<Place<'_>> = (strides.iter().enumerate())
        .map(|(index, strides)| Place {
            buffer: index as u64,
            offset: 0,
            strides,
            gather_stride: 1,
            gather_extent: SIDE.pow(r as u32) as u64,
        })
        .collect();
    let scalars: Vec<u64> = std::iter::repeat_n(SIDE as u64, r)
        .chain((0..r).map(|i| SIDE.pow((r - 1 - i) as u32) as u64))
        .collect();
    with(&Launch {
        extents,
        places: &places,
        scalars: &scalars,
    })
}

/// Operands, accumulator and output of matrix products.
const PRODUCTS: [(DType, DType, DType); 6] = [
    (DType::F32, DType::F32, DType::F32),
    (DType::F64, DType::F64, DType::F64),
    (DType::F16, DType::F32, DType::F16),
    (DType::BF16, DType::F32, DType::BF16),
    (DType::I8, DType::I32, DType::I32),
    (DType::U16, DType::U64, DType::U64),
];

/// Calls `with` with a launch whose parameters lie in buffers of their own.
pub(crate) fn with_strides<T>(extents: &[u64], strides: &[&[i64]], with: impl FnOnce(&Launch<'_>) -> T) -> T {
    let places: Vec<Place<'_>> = (strides.iter().enumerate())
        .map(|(index, strides)| Place {
            buffer: index as u64,
            offset: 0,
            strides,
            gather_stride: 1,
            gather_extent: 1 << 20,
        })
        .collect();
    with(&Launch {
        extents,
        places: &places,
        scalars: &[0],
    })
}

/// How the operands of a matrix product lie.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Row by row.
    Rows,
    /// Column by column.
    Turned,
    /// Rows that begin at odd places.
    Gaps,
    /// As `Turned`, in steps that need 64 bits.
    Far,
}

/// Calls `with` with a launch of a matrix product with a batch axis.
fn with_matrices<T>([batch, m, n, k]: [u64; 4], way: Way, with: impl FnOnce(&Launch<'_>) -> T) -> T {
    let lies = |rows: u64, columns: u64| {
        let [row, column] = match way {
            Way::Rows => [columns, 1],
            Way::Turned => [1, rows],
            Way::Gaps => [columns + 1, 1],
            Way::Far => [1 << 32, rows << 32],
        };
        [(row * rows).max(column * columns), row, column].map(|stride| stride as i64)
    };
    let ([a, i, l], [b, d, j], [c, r, s]) = (lies(m, k), lies(k, n), lies(m, n));
    let strides = [&[a, i, 0, l][..], &[b, 0, j, d], &[c, r, s]];
    with_strides(&[batch, m, n, k], &strides, with)
}

/// How the arguments of a launch lie.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    /// Row-major strides.
    Plain,
    /// Strides that merge nowhere, and offsets that are not aligned.
    Shifted,
    /// All parameters in one buffer.
    InPlace,
    /// Strides that need 64 bits.
    Huge,
}

/// Calls `with` with a launch over `extents`.
pub(crate) fn with_launch<T>(
    kernel: &Kernel,
    extents: &[u64],
    fill: Fill,
    with: impl FnOnce(&Launch<'_>) -> T,
) -> T {
    let strides: Vec<Vec<i64>> = (kernel.params.iter())
        .map(|param| {
            let axes = match param.level {
                Level::Row => kernel.outer as usize,
                Level::Element => extents.len(),
            };
            let mut step = if fill == Fill::Huge { 1 << 33 } else { 1 };
            let mut strides = vec![0; axes];
            for axis in (0..axes).rev() {
                strides[axis] = step;
                step *= extents[axis].max(1) as i64 + i64::from(fill == Fill::Shifted);
            }
            if fill == Fill::Shifted {
                strides.reverse();
            }
            strides
        })
        .collect();
    let places: Vec<Place<'_>> = (kernel.params.iter().zip(&strides).enumerate())
        .map(|(index, (param, strides))| Place {
            buffer: if fill == Fill::InPlace { 0 } else { index as u64 },
            offset: if fill == Fill::Shifted {
                param.dtype.size() as u64
            } else {
                0
            },
            strides,
            gather_stride: 1,
            gather_extent: 7,
        })
        .collect();
    with(&Launch {
        extents,
        places: &places,
        scalars: &vec![0; kernel.scalars.len()],
    })
}

/// Extents that lead to every form: short rows, long rows, few very long rows, odd ones.
fn extents(kernel: &Kernel) -> Vec<Vec<u64>> {
    let outer = kernel.outer as usize;
    let rank = outer + kernel.inner as usize;
    let of = |row: u64, element: u64| {
        let mut extents = vec![2; rank];
        if outer > 0 {
            extents[outer - 1] = row;
        }
        if rank > outer {
            extents[rank - 1] = element;
        }
        extents
    };
    vec![of(4096, 8), of(300, 4096), of(2, 1 << 20), of(4097, 33)]
}

/// Every scalar op on every dtype, in a row and through a gather, and every cast.
fn scalars() -> Vec<Kernel> {
    let mut kernels = Vec::new();
    for &op in ScalarOp::ALL {
        for dtype in DType::ALL.into_iter().filter(|&dtype| op.accepts().takes(dtype)) {
            for access in [Access::Contiguous, Access::Strided] {
                kernels.push(scalar(op, dtype, access));
            }
        }
    }
    kernels.extend(DType::ALL.into_iter().map(casts));
    kernels
}

/// Every reduction of every dtype.
fn reductions() -> Vec<Kernel> {
    let all = ReduceOp::ALL
        .iter()
        .flat_map(|&op| DType::ALL.map(|dtype| (op, dtype)));
    all.filter(|(op, dtype)| op.takes(*dtype))
        .map(|(op, dtype)| reduction(op, dtype))
        .collect()
}

fn random() -> Vec<Kernel> {
    let of = |seed: u64| {
        // SplitMix64: Steele et al., OOPSLA 2014.
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        random_kernel(&mut next, &RandomKernel::default())
    };
    (0..RANDOM).map(of).collect()
}

/// The first argument of the op comes through a gather when the access is strided.
fn scalar(op: ScalarOp, dtype: DType, access: Access) -> Kernel {
    let mut kernel = Kernel::new(format!("{op}.{dtype}"), 1, 0);
    let mut values: Vec<NodeId> = Vec::new();
    for position in 0..op.arity() {
        let of = if op == ScalarOp::Select && position == 0 {
            DType::Bool
        } else {
            dtype
        };
        let param = kernel.param(of, Role::In, Level::Row, access);
        values.push(if position == 0 && access == Access::Strided {
            let index = kernel.push(Node::Index { axis: 0 });
            kernel.push(Node::LoadAt { param, index })
        } else {
            kernel.load(param)
        });
    }
    let result = kernel.op(op, &values);
    let returned = match op.returns() {
        Returns::Same => dtype,
        Returns::Bool => DType::Bool,
        Returns::Index => DType::I64,
    };
    let out = kernel.param(returned, Role::Out, Level::Row, access);
    kernel.store(out, result);
    kernel
}

/// From one dtype to all.
fn casts(from: DType) -> Kernel {
    let mut kernel = Kernel::new(format!("casts.{from}"), 1, 0);
    let input = kernel.param(from, Role::In, Level::Row, Access::Contiguous);
    let value = kernel.load(input);
    for to in DType::ALL {
        let out = kernel.param(to, Role::Out, Level::Row, Access::Contiguous);
        let result = kernel.cast(to, value);
        kernel.store(out, result);
    }
    kernel
}

fn reduction(op: ReduceOp, dtype: DType) -> Kernel {
    let mut kernel = Kernel::new(format!("{op}.{dtype}"), 1, 1);
    let input = kernel.param(dtype, Role::In, Level::Element, Access::Contiguous);
    let value = kernel.load(input);
    let result = kernel.reduce(op, value);
    let returned = if op.returns() == Returns::Index {
        DType::I64
    } else {
        dtype
    };
    let out = kernel.param(returned, Role::Out, Level::Row, Access::Contiguous);
    kernel.store(out, result);
    kernel
}
