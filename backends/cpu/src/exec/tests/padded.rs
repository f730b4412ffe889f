//! Windows, with padding around their input and without.

use super::harness::{Rng, check};
use super::oracle::{Buffer, Case};
use crate::exec::reads::without_padding;
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, Node, NodeId, ReduceOp, Role, ScalarOp};

/// Windows over the two last axes of planes.
#[derive(Clone, Copy)]
struct Pool {
    planes: u64,
    input: [i64; 2],
    size: [u64; 2],
    step: i64,
    dilation: i64,
    low: [i64; 2],
    /// Windows beyond those that padding alone allows.
    out: [u64; 2],
    /// Elements between neighbours of the input.
    gap: i64,
}

const POOL: Pool = Pool {
    planes: 3,
    input: [9, 41],
    size: [3, 3],
    step: 2,
    dilation: 1,
    low: [1, 1],
    out: [5, 21],
    gap: 1,
};

fn i64_node(k: &mut Kernel, value: i64) -> NodeId {
    k.push(Node::Const {
        dtype: DType::I64,
        bits: value as u64,
    })
}

impl Pool {
    /// The reduction, as graphs are lowered; `places` stores an index besides.
    fn kernel(&self, op: ReduceOp, dtype: DType, padding: u64, places: bool) -> Kernel {
        let mut k = Kernel::new("pool", 3, 2);
        let x = k.param(dtype, Role::In, Level::Row, Access::Strided);
        let (mut inside, mut place) = (None, None);
        for axis in 0..2 {
            let outer = k.push(Node::Index { axis: 1 + axis });
            let inner = k.push(Node::Index { axis: 3 + axis });
            let axis = axis as usize;
            let [step, dilation, low] =
                [self.step, self.dilation, -self.low[axis]].map(|v| i64_node(&mut k, v));
            let outer = k.op(ScalarOp::Mul, &[outer, step]);
            let inner = k.op(ScalarOp::Mul, &[inner, dilation]);
            let sum = k.op(ScalarOp::Add, &[outer, inner]);
            let at = k.op(ScalarOp::Add, &[sum, low]);
            let (zero, end) = (i64_node(&mut k, 0), i64_node(&mut k, self.input[axis]));
            for bound in [k.op(ScalarOp::Le, &[zero, at]), k.op(ScalarOp::Lt, &[at, end])] {
                inside = Some(inside.map_or(bound, |inside| k.op(ScalarOp::And, &[inside, bound])));
            }
            let stride = i64_node(&mut k, if axis == 0 { self.input[1] } else { 1 });
            let along = k.op(ScalarOp::Mul, &[at, stride]);
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
        let info = kernel.verify().expect("a kernel");
        assert!(without_padding(&kernel, &info).is_some(), "{}", kernel.to_text());
        let extents = [self.planes, self.out[0], self.out[1], self.size[0], self.size[1]];
        let plane = self.input[0] * self.input[1];
        let points = self.planes * self.out[0] * self.out[1];
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
            Buffer {
                bytes,
                origin: 0,
                strides: if p == 0 {
                    vec![plane * self.gap, 0, 0]
                } else {
                    vec![]
                },
                gather_stride: self.gap,
                gather_extent: plane as u64,
            }
        });
        check(&Case {
            buffers: buffers.collect(),
            kernel: kernel.clone(),
            extents: extents.to_vec(),
            scalars: vec![],
            in_place: vec![],
        });
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
                POOL.check(POOL.kernel(op, dtype, padding, false), &mut rng);
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
        input: [90, 700],
        out: [45, 350],
        ..POOL
    };
    let small = Pool {
        input: [5, 6],
        out: [3, 3],
        ..POOL
    };
    for pool in [
        wide,
        small,
        Pool { planes: 40, ..POOL },
        Pool { gap: 3, ..POOL },
        Pool {
            step: 1,
            out: [9, 41],
            ..POOL
        },
        Pool {
            step: 3,
            out: [3, 14],
            ..POOL
        },
        Pool {
            dilation: 2,
            low: [2, 2],
            ..POOL
        },
        Pool {
            size: [2, 2],
            low: [0, 0],
            out: [4, 20],
            ..POOL
        },
        // Ceil mode reaches beyond the padding.
        Pool {
            size: [2, 4],
            out: [6, 22],
            ..POOL
        },
        Pool {
            size: [6, 6],
            low: [3, 3],
            ..POOL
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
        input: [300, 300],
        out: [150, 150],
        ..POOL
    };
    pool.check(pool.kernel(ReduceOp::Max, DType::F32, 0, true), &mut rng);
}

/// Bounds that promise more elements than the launch has read none of those beyond.
#[test]
fn elements_beyond_the_extent_of_a_gather() {
    let mut rng = Rng(34);
    let claims = Pool {
        input: [12, 41],
        ..POOL
    };
    POOL.check(claims.kernel(ReduceOp::Max, DType::F32, 0, false), &mut rng);
}
