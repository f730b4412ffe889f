//! Windows, with padding around their input and without.

use super::harness::{Rng, check, compare, run_by};
use super::oracle::{Buffer, Case};
use crate::exec::padded::Padded;
use crate::exec::reads::without_padding;
use crate::isa::Isa;
use crate::parallel::Serial;
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, Node, NodeId, ReduceOp, Role, ScalarOp};

/// Whether the windows of a case are read where they lie; what they give is checked.
pub(super) fn go_by_lines(case: &Case) -> bool {
    let info = case.kernel.verify().expect("a kernel");
    let padded = Padded::of(&case.kernel, &info, Isa::detect()).expect("windows of what is padded");
    let mut done = false;
    let found = run_by(case, |args| {
        // SAFETY: buffers cover every element that their strides reach.
        done = unsafe { padded.run_lines(&case.kernel, args, &Serial) };
    });
    if done {
        compare(case, &case.expected(), &found, "by lines");
    }
    done
}

/// Windows over the last axes of planes.
#[derive(Clone)]
pub(super) struct Pool {
    pub(super) planes: u64,
    pub(super) input: Vec<i64>,
    pub(super) size: Vec<u64>,
    pub(super) step: i64,
    pub(super) dilation: i64,
    pub(super) low: Vec<i64>,
    /// Windows beyond those that padding alone allows.
    pub(super) out: Vec<u64>,
    /// Elements between neighbours of the input.
    pub(super) gap: i64,
}

pub(super) fn pool() -> Pool {
    Pool {
        planes: 3,
        input: vec![9, 41],
        size: vec![3, 3],
        step: 2,
        dilation: 1,
        low: vec![1, 1],
        out: vec![5, 21],
        gap: 1,
    }
}

fn i64_node(k: &mut Kernel, value: i64) -> NodeId {
    k.push(Node::Const {
        dtype: DType::I64,
        bits: value as u64,
    })
}

impl Pool {
    fn axes(&self) -> usize {
        self.input.len()
    }

    /// Elements from one place along an axis to the next.
    fn stride(&self, axis: usize) -> i64 {
        self.input[axis + 1..].iter().product()
    }

    /// What the launch of [`Pool::kernel`] gives: the extent of each axis, and the stride of each but the last.
    pub(super) fn scalars(&self) -> Vec<u64> {
        let of = |axis| match axis + 1 < self.axes() {
            true => vec![self.stride(axis), self.input[axis]],
            false => vec![self.input[axis]],
        };
        (0..self.axes()).flat_map(of).map(|of| of as u64).collect()
    }

    /// The reduction, as graphs are lowered; `places` stores an index besides.
    pub(super) fn kernel(&self, op: ReduceOp, dtype: DType, padding: u64, places: bool) -> Kernel {
        let axes = self.axes();
        let mut k = Kernel::new("pool", 1 + axes as u32, axes as u32);
        let x = k.param(dtype, Role::In, Level::Row, Access::Strided);
        let (mut inside, mut place) = (None, None);
        for axis in 0..axes {
            let outer = k.push(Node::Index {
                axis: 1 + axis as u32,
            });
            let inner = k.push(Node::Index {
                axis: (1 + axes + axis) as u32,
            });
            let [step, dilation, low] =
                [self.step, self.dilation, -self.low[axis]].map(|v| i64_node(&mut k, v));
            let outer = k.op(ScalarOp::Mul, &[outer, step]);
            let inner = k.op(ScalarOp::Mul, &[inner, dilation]);
            let sum = k.op(ScalarOp::Add, &[outer, inner]);
            let at = k.op(ScalarOp::Add, &[sum, low]);
            let mut along = at;
            if axis + 1 < axes {
                let stride = k.scalar(DType::I64);
                along = k.op(ScalarOp::Mul, &[at, stride]);
            }
            let (zero, end) = (i64_node(&mut k, 0), k.scalar(DType::I64));
            for bound in [k.op(ScalarOp::Le, &[zero, at]), k.op(ScalarOp::Lt, &[at, end])] {
                inside = Some(inside.map_or(bound, |inside| k.op(ScalarOp::And, &[inside, bound])));
            }
            place = Some(place.map_or(along, |place| k.op(ScalarOp::Add, &[place, along])));
        }
        let (Some(inside), Some(place)) = (inside, place) else {
            return k;
        };
        let outside = i64_node(&mut k, -1);
        let index = k.op(ScalarOp::Select, &[inside, place, outside]);
        let mut value = k.push(Node::LoadAt { param: x, index });
        if padding != 0 {
            let padding = k.push(Node::Const { dtype, bits: padding });
            value = k.op(ScalarOp::Select, &[inside, value, padding]);
        }
        let result = k.reduce(op, value);
        let output = match op {
            ReduceOp::ArgMax | ReduceOp::ArgMin => DType::I64,
            _ => dtype,
        };
        let y = k.param(output, Role::Out, Level::Row, Access::Contiguous);
        k.store(y, result);
        if places {
            let line = k.push(Node::Index { axis: 1 });
            let z = k.param(DType::I64, Role::Out, Level::Row, Access::Contiguous);
            k.store(z, line);
        }
        k
    }

    fn check(&self, kernel: Kernel, rng: &mut Rng) {
        self.check_with(kernel, self.scalars(), rng);
    }

    fn check_with(&self, kernel: Kernel, scalars: Vec<u64>, rng: &mut Rng) {
        let info = kernel.verify().expect("a kernel");
        assert!(without_padding(&kernel, &info).is_some(), "{}", kernel.to_text());
        check(&self.case(kernel, scalars, rng));
    }

    pub(super) fn case(&self, kernel: Kernel, scalars: Vec<u64>, rng: &mut Rng) -> Case {
        let extents = [&[self.planes][..], &self.out, &self.size].concat();
        let plane: i64 = self.input.iter().product();
        let points = self.planes * self.out.iter().product::<u64>();
        let buffer = |param: usize| {
            let dtype = kernel.params[param].dtype;
            let elements = match kernel.params[param].role {
                Role::In => self.planes as i64 * plane * self.gap,
                Role::Out => points as i64,
            };
            (elements, dtype)
        };
        let buffers = (0..kernel.params.len()).map(|p| {
            let (elements, dtype) = buffer(p);
            let values = (0..elements).flat_map(|_| rng.value(dtype).to_le_bytes()[..dtype.size()].to_vec());
            let bytes = values.collect();
            let mut strides = vec![0; self.axes() + 1];
            strides[0] = plane * self.gap;
            Buffer {
                bytes,
                origin: 0,
                strides: if p == 0 { strides } else { vec![] },
                gather_stride: self.gap,
                gather_extent: plane as u64,
            }
        });
        Case {
            buffers: buffers.collect(),
            kernel: kernel.clone(),
            extents,
            scalars,
            in_place: vec![],
        }
    }
}

#[test]
fn every_reduction_and_dtype() {
    let mut rng = Rng(31);
    let least = u64::from(f32::NEG_INFINITY.to_bits());
    for op in [ReduceOp::Max, ReduceOp::Min, ReduceOp::Sum, ReduceOp::ArgMax] {
        for (dtype, padding) in [
            (DType::F32, least),
            (DType::F32, 0),
            (DType::U8, 0),
            (DType::U8, 7),
            (DType::I8, 0x80),
            (DType::F16, 0xfc00),
            (DType::I64, 1 << 63),
        ] {
            if op.takes(dtype) {
                pool().check(pool().kernel(op, dtype, padding, false), &mut rng);
            }
        }
    }
}

/// Pieces of one axis and of two, lines shorter than a vector, windows that overlap and that do not, elements that stand apart.
#[test]
fn every_geometry() {
    let mut rng = Rng(32);
    let least = u64::from(f32::NEG_INFINITY.to_bits());
    let wide = Pool {
        planes: 2,
        input: vec![90, 700],
        out: vec![45, 350],
        ..pool()
    };
    let small = Pool {
        input: vec![5, 6],
        out: vec![3, 3],
        ..pool()
    };
    for pool in [
        wide,
        small,
        Pool { planes: 40, ..pool() },
        Pool { gap: 3, ..pool() },
        Pool {
            step: 1,
            out: vec![9, 41],
            ..pool()
        },
        Pool {
            step: 3,
            out: vec![3, 14],
            ..pool()
        },
        Pool {
            dilation: 2,
            low: vec![2, 2],
            ..pool()
        },
        Pool {
            size: vec![2, 2],
            low: vec![0, 0],
            out: vec![4, 20],
            ..pool()
        },
        // Ceil mode reaches beyond the padding.
        Pool {
            size: vec![2, 4],
            out: vec![6, 22],
            ..pool()
        },
        Pool {
            size: vec![6, 6],
            low: vec![3, 3],
            ..pool()
        },
    ] {
        for op in [ReduceOp::Max, ReduceOp::Sum] {
            let padding = if op == ReduceOp::Max { least } else { 0 };
            pool.check(pool.kernel(op, DType::F32, padding, false), &mut rng);
        }
    }
}

/// An index that a kernel asks for is that of the launch, not of a piece.
#[test]
fn indices_beside_a_padded_input() {
    let mut rng = Rng(33);
    let pool = Pool {
        input: vec![300, 300],
        out: vec![150, 150],
        ..pool()
    };
    pool.check(pool.kernel(ReduceOp::Max, DType::F32, 0, true), &mut rng);
}

/// Bounds that promise more elements than the launch has read none of those beyond, and strides may be any number.
#[test]
fn scalars_of_any_value() {
    let mut rng = Rng(34);
    let any = [0, 1, -1, 7, 40, 9 * 41, 1 << 31, i64::MAX, i64::MIN];
    for at in 0..pool().scalars().len() {
        for value in any {
            let mut scalars = pool().scalars();
            scalars[at] = value as u64;
            let kernel = pool().kernel(ReduceOp::Max, DType::F32, 0, false);
            pool().check_with(kernel, scalars, &mut rng);
        }
    }
}

#[test]
fn one_axis_and_three() {
    let mut rng = Rng(35);
    let line = Pool {
        input: vec![90],
        size: vec![3],
        low: vec![1],
        out: vec![45],
        ..pool()
    };
    // Padding on one side, windows of which some see nothing else.
    let wide = Pool {
        planes: 2,
        input: vec![70_000],
        low: vec![5],
        out: vec![35_004],
        ..line.clone()
    };
    let volume = Pool {
        input: vec![5, 9, 40],
        size: vec![3, 2, 3],
        low: vec![1, 1, 1],
        out: vec![3, 5, 20],
        ..pool()
    };
    let deep = Pool {
        planes: 1,
        input: vec![40, 33, 70],
        size: vec![3, 3, 3],
        low: vec![1, 1, 1],
        out: vec![20, 17, 35],
        ..pool()
    };
    let one = Pool {
        input: vec![1, 1, 1],
        size: vec![3, 3, 3],
        low: vec![1, 1, 1],
        out: vec![1, 1, 1],
        ..pool()
    };
    let least = u64::from(f32::NEG_INFINITY.to_bits());
    for pool in [line, wide, volume, deep, one] {
        for op in [ReduceOp::Max, ReduceOp::Sum, ReduceOp::ArgMax] {
            let padding = if op == ReduceOp::Sum { 0 } else { least };
            pool.check(pool.kernel(op, DType::F32, padding, false), &mut rng);
        }
    }
}

/// Inputs are padded before they are read, unless bounds promise more than there is.
#[test]
fn which_launches_are_padded_first() {
    let large = Pool {
        input: vec![300, 300],
        out: vec![150, 150],
        ..pool()
    };
    let mut beyond = pool().scalars();
    beyond[2] = 1 << 31;
    for (pool, scalars, padded_first) in [
        (pool(), pool().scalars(), true),
        (large.clone(), large.scalars(), true),
        (pool(), beyond, false),
    ] {
        let kernel = pool.kernel(ReduceOp::Max, DType::F32, 0, false);
        let case = pool.case(kernel, scalars, &mut Rng(37));
        let info = case.kernel.verify().expect("a kernel");
        let padded = Padded::of(&case.kernel, &info, Isa::detect()).expect("windows of what is padded");
        let mut done = false;
        let found = run_by(&case, |args| {
            // SAFETY: buffers cover every element that their strides reach.
            done = unsafe { padded.run(&case.kernel, args, &Serial) };
        });
        assert_eq!(done, padded_first, "{:?}", case.scalars);
        if done {
            compare(&case, &case.expected(), &found, "padded");
        }
    }
}

#[test]
fn no_planes() {
    let none = Pool { planes: 0, ..pool() };
    none.check(none.kernel(ReduceOp::Max, DType::F32, 0, false), &mut Rng(36));
}
