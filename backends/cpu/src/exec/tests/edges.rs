//! Windows of images whose channels lie last, with padding around them and without.

use super::harness::{Rng, check};
use super::oracle::{Buffer, Case};
use super::padded::go_by_lines;
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, Node, NodeId, ReduceOp, Role, ScalarOp};

/// Windows of images: outer axes are samples, rows, columns and channels.
#[derive(Clone, Copy)]
struct Pool {
    samples: u64,
    side: u64,
    channels: u64,
    size: u64,
    step: u64,
    /// Elements around; without any, the input is read by strides alone.
    around: u64,
    /// Channels between neighbours in memory.
    gap: u64,
}

const POOL: Pool = Pool {
    samples: 2,
    side: 11,
    channels: 40,
    size: 3,
    step: 2,
    around: 1,
    gap: 40,
};

fn number(k: &mut Kernel, value: i64) -> NodeId {
    k.push(Node::Const {
        dtype: DType::I64,
        bits: value as u64,
    })
}

impl Pool {
    fn out(&self) -> u64 {
        (self.side + 2 * self.around - self.size) / self.step + 1
    }

    /// What is reduced: elements with padding around them, or those of a strided parameter.
    fn value(&self, k: &mut Kernel, x: u32, padding: f32) -> NodeId {
        if self.around == 0 {
            return k.load(x);
        }
        let (mut inside, mut place) = (None, None);
        for axis in 0..2 {
            let [outer, inner] = [1 + axis, 4 + axis].map(|axis| k.push(Node::Index { axis }));
            let [step, before] = [self.step as i64, -(self.around as i64)].map(|value| number(k, value));
            let outer = k.op(ScalarOp::Mul, &[outer, step]);
            let sum = k.op(ScalarOp::Add, &[outer, inner]);
            let at = k.op(ScalarOp::Add, &[sum, before]);
            let stride = k.scalar(DType::I64);
            let along = k.op(ScalarOp::Mul, &[at, stride]);
            place = Some(place.map_or(along, |place| k.op(ScalarOp::Add, &[place, along])));
            let (zero, end) = (number(k, 0), k.scalar(DType::I64));
            for bound in [k.op(ScalarOp::Le, &[zero, at]), k.op(ScalarOp::Lt, &[at, end])] {
                inside = Some(inside.map_or(bound, |inside| k.op(ScalarOp::And, &[inside, bound])));
            }
        }
        let (inside, place) = (inside.unwrap(), place.unwrap());
        let outside = number(k, -1);
        let index = k.op(ScalarOp::Select, &[inside, place, outside]);
        let value = k.push(Node::LoadAt { param: x, index });
        if padding.to_bits() == 0 {
            return value;
        }
        let padding = k.const_f32(padding);
        k.op(ScalarOp::Select, &[inside, value, padding])
    }

    fn kernel(&self, op: ReduceOp, padding: f32) -> Kernel {
        let mut k = Kernel::new("pool", 4, 2);
        let level = if self.around == 0 {
            Level::Element
        } else {
            Level::Row
        };
        let x = k.param(DType::F32, Role::In, level, Access::Strided);
        let value = self.value(&mut k, x, padding);
        let result = k.reduce(op, value);
        let (dtype, factor) = match op {
            ReduceOp::ArgMax => (DType::I64, None),
            _ => (DType::F32, Some(k.const_f32(0.25))),
        };
        let result = factor.map_or(result, |factor| k.op(ScalarOp::Mul, &[result, factor]));
        let y = k.param(dtype, Role::Out, Level::Row, Access::Contiguous);
        k.store(y, result);
        k
    }

    fn case(&self, op: ReduceOp, padding: f32, rng: &mut Rng) -> Case {
        let kernel = self.kernel(op, padding);
        let [row, image] = [self.side * self.gap, self.side * self.side * self.gap];
        let out = self.out();
        let dtype = kernel.params[1].dtype;
        let outputs = self.samples * out * out * self.channels;
        let mut values = |elements: u64, dtype: DType| -> Vec<u8> {
            (0..elements)
                .flat_map(|_| rng.value(dtype).to_le_bytes()[..dtype.size()].to_vec())
                .collect()
        };
        let strides = match self.around {
            0 => vec![image, row * self.step, self.gap * self.step, 1, row, self.gap],
            _ => vec![image, 0, 0, 1],
        };
        let buffers = vec![
            Buffer {
                bytes: values(self.samples * image, DType::F32),
                origin: 0,
                strides: strides.into_iter().map(|stride| stride as i64).collect(),
                gather_stride: 1,
                gather_extent: (self.side - 1) * (row + self.gap) + 1,
            },
            Buffer {
                bytes: values(outputs, dtype),
                origin: 0,
                strides: vec![],
                gather_stride: 1,
                gather_extent: 0,
            },
        ];
        let scalars = match self.around {
            0 => vec![],
            _ => vec![row, self.side, self.gap, self.side],
        };
        Case {
            buffers,
            kernel,
            extents: vec![self.samples, out, out, self.channels, self.size, self.size],
            scalars,
            in_place: vec![],
        }
    }
}

fn pools() -> Vec<Pool> {
    let of = |change: fn(&mut Pool)| {
        let mut pool = POOL;
        change(&mut pool);
        pool
    };
    vec![
        POOL,
        of(|p| p.around = 0),
        of(|p| (p.around, p.step) = (0, 1)),
        of(|p| (p.around, p.size) = (0, 2)),
        of(|p| (p.channels, p.gap) = (64, 64)),
        of(|p| (p.channels, p.gap) = (83, 100)),
        of(|p| (p.channels, p.gap) = (9, 9)),
        // Too few for lines.
        of(|p| (p.channels, p.gap) = (3, 3)),
        // Lines that are cut, and blocks that begin within one.
        of(|p| (p.side, p.channels, p.gap) = (5, 1500, 1500)),
        // More places than sums have lanes.
        of(|p| (p.size, p.around, p.step) = (5, 2, 1)),
        of(|p| (p.size, p.around, p.step) = (4, 2, 3)),
        // More places than a chunk has.
        of(|p| (p.side, p.size, p.around, p.step) = (20, 17, 8, 3)),
        of(|p| (p.samples, p.side) = (0, 5)),
        of(|p| (p.samples, p.side) = (1, 1)),
    ]
}

#[test]
fn every_geometry() {
    let mut rng = Rng(51);
    for pool in pools() {
        for op in [ReduceOp::Max, ReduceOp::Min, ReduceOp::Sum, ReduceOp::ArgMax] {
            for padding in [0.0, -0.0, f32::NEG_INFINITY, f32::NAN, 1.5] {
                if pool.around > 0 || padding.to_bits() == 0 {
                    check(&pool.case(op, padding, &mut rng));
                }
            }
        }
    }
}

/// Zeros of both signs and values that are no numbers, in each place of a window.
#[test]
fn special_values() {
    let mut rng = Rng(52);
    let values = [
        0.0,
        -0.0,
        f32::NAN,
        -f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        1e-40,
        -1e-40,
    ];
    for op in [ReduceOp::Max, ReduceOp::Min, ReduceOp::Sum] {
        for few in [2, 4, 8] {
            let mut case = POOL.case(op, f32::NEG_INFINITY, &mut rng);
            for (at, value) in case.buffers[0].bytes.chunks_exact_mut(4).enumerate() {
                let pick = at.wrapping_mul(2_654_435_761) >> 7;
                value.copy_from_slice(&values[pick % few].to_le_bytes());
            }
            check(&case);
        }
    }
}

/// Lines are read where they lie; what bounds promise beyond the launch is not.
#[test]
fn which_launches_go_by_lines() {
    let few = Pool {
        channels: 3,
        gap: 3,
        ..POOL
    };
    for (pool, by_lines) in [(POOL, true), (few, false)] {
        let case = pool.case(ReduceOp::Max, f32::NEG_INFINITY, &mut Rng(53));
        assert_eq!(go_by_lines(&case), by_lines, "{} channels", pool.channels);
    }
}
