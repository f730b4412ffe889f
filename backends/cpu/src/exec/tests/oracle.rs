//! What a kernel means, point by point, with the crate's fixed order of sums.

use crate::loops::FUNCTIONS;
use half::{bf16, f16};
use thalweg_hal::ir::{Access, Kernel, Level, Node, ReduceOp, ScalarOp};
use thalweg_hal::{DType, narrow};

/// One buffer: its bytes, the byte of the element at index 0, and strides in elements.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    pub(super) bytes: Vec<u8>,
    pub(super) origin: usize,
    pub(super) strides: Vec<i64>,
    pub(super) gather_stride: i64,
    pub(super) gather_extent: u64,
}

pub(super) struct Case {
    pub(super) kernel: Kernel,
    pub(super) extents: Vec<u64>,
    pub(super) buffers: Vec<Buffer>,
    pub(super) scalars: Vec<u64>,
    /// Outputs that stand in the memory of an input.
    pub(super) in_place: Vec<(usize, usize)>,
}

pub(super) fn points(extents: &[u64]) -> Vec<Vec<u64>> {
    let mut all = vec![Vec::new()];
    for &extent in extents {
        all = all
            .iter()
            .flat_map(|p| (0..extent).map(move |i| [&p[..], &[i]].concat()))
            .collect();
    }
    all
}

/// A bit pattern of a dtype as a number.
pub(super) fn real(dtype: DType, bits: u64) -> f64 {
    match dtype {
        DType::F64 => f64::from_bits(bits),
        DType::F32 => f32::from_bits(bits as u32).into(),
        DType::F16 => f16::from_bits(bits as u16).into(),
        DType::BF16 => bf16::from_bits(bits as u16).into(),
        DType::F8E4M3 | DType::F8E5M2 => narrow::float_value(dtype, bits),
        _ => whole(dtype, bits) as f64,
    }
}

pub(super) fn whole(dtype: DType, bits: u64) -> i128 {
    match dtype {
        DType::I64 => (bits as i64).into(),
        DType::I32 => (bits as i32).into(),
        DType::I16 => (bits as i16).into(),
        DType::I8 => (bits as i8).into(),
        _ => bits.into(),
    }
}

fn mask(dtype: DType) -> u64 {
    u64::MAX >> (64 - 8 * dtype.size())
}

fn wrap(dtype: DType, x: i128) -> u64 {
    x as u64 & mask(dtype)
}

/// A float op computes in f32 or f64 and rounds to the dtype.
fn float(dtype: DType, x: f64, y: impl Fn(f32) -> f32, z: impl Fn(f64) -> f64) -> u64 {
    match dtype {
        DType::F64 => z(x).to_bits(),
        DType::F32 => y(x as f32).to_bits().into(),
        DType::F16 => f16::from_f32(y(x as f32)).to_bits().into(),
        _ => bf16::from_f32(y(x as f32)).to_bits().into(),
    }
}

fn rounded(dtype: DType, x: f64) -> u64 {
    match dtype {
        DType::F64 => x.to_bits(),
        DType::F32 => (x as f32).to_bits().into(),
        DType::F16 => narrow::f16_from_f64(x).to_bits().into(),
        DType::BF16 => narrow::bf16_from_f64(x).to_bits().into(),
        _ => narrow::float_bits(dtype, x),
    }
}

fn greater(dtype: DType, a: u64, b: u64) -> bool {
    if dtype.is_float() {
        let (x, y) = (real(dtype, a), real(dtype, b));
        if x.is_nan() || y.is_nan() {
            x.is_nan() && !y.is_nan()
        } else {
            x.total_cmp(&y).is_gt()
        }
    } else {
        whole(dtype, a) > whole(dtype, b)
    }
}

fn less(dtype: DType, a: u64, b: u64) -> bool {
    if dtype.is_float() && (real(dtype, a).is_nan() || real(dtype, b).is_nan()) {
        greater(dtype, a, b)
    } else {
        greater(dtype, b, a)
    }
}

fn is_nan(dtype: DType, bits: u64) -> bool {
    dtype.is_float() && real(dtype, bits).is_nan()
}

pub(super) fn eval(op: ScalarOp, d: DType, [a, b, c]: [u64; 3]) -> u64 {
    use crate::math;
    let (x, y, z) = (real(d, a), real(d, b), real(d, c));
    let (i, j) = (whole(d, a), whole(d, b));
    let bits = 8 * d.size() as u64;
    let y32 = y as f32;
    let flag = u64::from;
    match op {
        ScalarOp::Neg if d.is_float() => a ^ 1 << (bits - 1),
        ScalarOp::Neg => wrap(d, -i),
        ScalarOp::Abs if d.is_float() => a & !(1 << (bits - 1)),
        ScalarOp::Abs => wrap(d, i.abs()),
        ScalarOp::Sign if d.is_float() => {
            if x.is_nan() || x == 0.0 {
                a
            } else {
                rounded(d, x.signum())
            }
        }
        ScalarOp::Sign => wrap(d, i.signum()),
        ScalarOp::Not if d == DType::Bool => a ^ 1,
        ScalarOp::Not => !a & mask(d),
        ScalarOp::Floor => float(d, x, f32::floor, f64::floor),
        ScalarOp::Ceil => float(d, x, f32::ceil, f64::ceil),
        ScalarOp::Trunc => float(d, x, f32::trunc, f64::trunc),
        ScalarOp::Round => float(d, x, f32::round_ties_even, f64::round_ties_even),
        ScalarOp::Sqrt => float(d, x, f32::sqrt, f64::sqrt),
        ScalarOp::Add if d.is_float() => float(d, x, |x| x + y32, |x| x + y),
        ScalarOp::Sub if d.is_float() => float(d, x, |x| x - y32, |x| x - y),
        ScalarOp::Mul if d.is_float() => float(d, x, |x| x * y32, |x| x * y),
        ScalarOp::Div if d.is_float() => float(d, x, |x| x / y32, |x| x / y),
        ScalarOp::Rem if d.is_float() => float(d, x, |x| x % y32, |x| x % y),
        ScalarOp::Add => wrap(d, i + j),
        ScalarOp::Sub => wrap(d, i - j),
        ScalarOp::Mul => wrap(d, i.wrapping_mul(j)),
        ScalarOp::Div => {
            if j == 0 {
                0
            } else {
                wrap(d, i / j)
            }
        }
        ScalarOp::Rem => {
            if j == 0 {
                0
            } else {
                wrap(d, i % j)
            }
        }
        ScalarOp::Pow => float(d, x, |x| math::pow32(x, y32), |x| libm::pow(x, y)),
        ScalarOp::Atan2 => float(d, x, |x| math::atan2_32(x, y32), |x| libm::atan2(x, y)),
        ScalarOp::Max => {
            if is_nan(d, a) || !is_nan(d, b) && greater(d, a, b) {
                a
            } else {
                b
            }
        }
        ScalarOp::Min => {
            if is_nan(d, a) || !is_nan(d, b) && less(d, a, b) {
                a
            } else {
                b
            }
        }
        ScalarOp::And => a & b,
        ScalarOp::Or => a | b,
        ScalarOp::Xor => a ^ b,
        ScalarOp::Shl => {
            if b >= bits {
                0
            } else {
                wrap(d, i << b)
            }
        }
        ScalarOp::Shr => wrap(d, i >> b.min(bits - 1 + u64::from(i >= 0))),
        ScalarOp::Eq => flag(if d.is_float() { x == y } else { i == j }),
        ScalarOp::Ne => flag(if d.is_float() { x != y } else { i != j }),
        ScalarOp::Lt => flag(if d.is_float() { x < y } else { i < j }),
        ScalarOp::Le => flag(if d.is_float() { x <= y } else { i <= j }),
        ScalarOp::Fma => float(d, x, |x| x.mul_add(y32, z as f32), |x| x.mul_add(y, z)),
        ScalarOp::Select => {
            if a != 0 {
                b
            } else {
                c
            }
        }
        // Their errors are measured beside them.
        function => {
            let (_, single, double) = FUNCTIONS.iter().find(|row| row.0 == function).unwrap();
            float(d, x, single, double)
        }
    }
}

pub(super) fn cast(from: DType, to: DType, bits: u64) -> u64 {
    let (x, i) = (real(from, bits), whole(from, bits));
    if from.is_float() {
        return match to {
            DType::Bool => u64::from(x != 0.0),
            DType::I64 => x as i64 as u64,
            DType::I32 => u64::from(x as i32 as u32),
            DType::I16 => u64::from(x as i16 as u16),
            DType::I8 => u64::from(x as i8 as u8),
            DType::U64 => x as u64,
            DType::U32 => u64::from(x as u32),
            DType::U16 => u64::from(x as u16),
            DType::U8 => u64::from(x as u8),
            _ => rounded(to, x),
        };
    }
    match to {
        DType::Bool => u64::from(i != 0),
        DType::F64 => (i as f64).to_bits(),
        DType::F32 => u64::from((i as f32).to_bits()),
        DType::F16 => match u64::try_from(i) {
            Ok(u) => narrow::f16_from_u64(u).to_bits().into(),
            Err(_) => narrow::f16_from_i64(i as i64).to_bits().into(),
        },
        DType::BF16 => match u64::try_from(i) {
            Ok(u) => narrow::bf16_from_u64(u).to_bits().into(),
            Err(_) => narrow::bf16_from_i64(i as i64).to_bits().into(),
        },
        DType::F8E4M3 | DType::F8E5M2 => rounded(to, i as f64),
        _ => wrap(to, i),
    }
}

pub(super) fn philox(key: u64, counter: u64) -> u32 {
    let block = counter / 4;
    let mut c = [block as u32, (block >> 32) as u32, 0, 0];
    let mut k = [key as u32, (key >> 32) as u32];
    for _ in 0..10 {
        let (p, q) = (u64::from(c[0]) * 0xd251_1f53, u64::from(c[2]) * 0xcd9e_8d57);
        c = [
            (q >> 32) as u32 ^ c[1] ^ k[0],
            q as u32,
            (p >> 32) as u32 ^ c[3] ^ k[1],
            p as u32,
        ];
        k = [k[0].wrapping_add(0x9e37_79b9), k[1].wrapping_add(0xbb67_ae85)];
    }
    c[(counter % 4) as usize]
}

/// A reduction of all values of a row, in the order that `loops::reduce` documents.
pub(super) fn reduce(op: ReduceOp, d: DType, values: &[u64]) -> u64 {
    let combine = |a: u64, b: u64| {
        let op = if op == ReduceOp::Sum {
            ScalarOp::Add
        } else {
            ScalarOp::Mul
        };
        eval(op, d, [a, b, b])
    };
    match op {
        ReduceOp::Sum | ReduceOp::Prod => {
            let start = if op == ReduceOp::Sum {
                0
            } else {
                cast(DType::I64, d, 1)
            };
            let mut level: Vec<u64> = values
                .chunks(65536)
                .map(|segment| {
                    let mut totals = [start; 16];
                    for chunk in segment.chunks(256) {
                        let mut lanes = [start; 16];
                        for (j, &x) in chunk.iter().enumerate() {
                            lanes[j % 16] = combine(lanes[j % 16], x);
                        }
                        for l in 0..16 {
                            totals[l] = combine(totals[l], lanes[l]);
                        }
                    }
                    for half in [8, 4, 2, 1] {
                        for l in 0..half {
                            totals[l] = combine(totals[l], totals[l + half]);
                        }
                    }
                    totals[0]
                })
                .collect();
            while level.len() > 1 {
                level = level
                    .chunks(2)
                    .map(|p| if let [a, b] = *p { combine(a, b) } else { p[0] })
                    .collect();
            }
            level.first().copied().unwrap_or(start)
        }
        ReduceOp::Max | ReduceOp::Min | ReduceOp::ArgMax | ReduceOp::ArgMin => {
            let most = matches!(op, ReduceOp::Max | ReduceOp::ArgMax);
            let better = |a, b| if most { greater(d, a, b) } else { less(d, a, b) };
            let mut best: Option<usize> = None;
            for (j, &x) in values.iter().enumerate() {
                if best.is_none_or(|b| better(x, values[b])) {
                    best = Some(j);
                }
            }
            if op.returns() == thalweg_hal::ir::Returns::Index {
                return best.map_or(u64::MAX, |b| b as u64);
            }
            let worst = match (d, most) {
                (DType::Bool, _) => u64::from(!most),
                _ if d.is_float() => rounded(d, if most { f64::NEG_INFINITY } else { f64::INFINITY }),
                _ => {
                    let low = |s: i128| wrap(d, s);
                    let signed = matches!(d, DType::I64 | DType::I32 | DType::I16 | DType::I8);
                    let top = 1i128 << (8 * d.size() - usize::from(signed));
                    if most {
                        low(if signed { -top } else { 0 })
                    } else {
                        low(top - 1)
                    }
                }
            };
            best.map_or(worst, |b| values[b])
        }
    }
}

impl Case {
    /// Byte of an element, `gather` gather strides further on.
    fn byte(&self, param: usize, point: &[u64], gather: i64) -> usize {
        let buffer = &self.buffers[param];
        let axes = match self.kernel.params[param].level {
            Level::Row => self.kernel.outer as usize,
            Level::Element => point.len(),
        };
        let mut offset = gather * buffer.gather_stride;
        match self.kernel.params[param].access {
            Access::Broadcast => {}
            Access::Contiguous => {
                let at = (0..axes).fold(0, |sum, a| sum * self.extents[a] + point[a]);
                offset += at as i64;
            }
            Access::Strided => {
                offset += (0..axes)
                    .map(|a| buffer.strides[a] * point[a] as i64)
                    .sum::<i64>();
            }
        }
        (buffer.origin as i64 + offset * self.kernel.params[param].dtype.size() as i64) as usize
    }

    fn read(&self, param: usize, byte: usize) -> u64 {
        let size = self.kernel.params[param].dtype.size();
        let mut bits = [0; 8];
        bits[..size].copy_from_slice(&self.buffers[param].bytes[byte..byte + size]);
        u64::from_le_bytes(bits)
    }

    /// The bytes of every buffer after the launch.
    pub(super) fn expected(&self) -> Vec<Vec<u8>> {
        let info = self.kernel.verify().expect("well formed");
        let outer = self.kernel.outer as usize;
        let mut after: Vec<Vec<u8>> = self.buffers.iter().map(|b| b.bytes.clone()).collect();
        let inner = points(&self.extents[outer..]);
        for row in points(&self.extents[..outer]) {
            let all: Vec<Vec<u64>> = inner.iter().map(|p| [&row[..], p].concat()).collect();
            // Values of each node at every inner point; row-level ones have a single entry.
            let mut values: Vec<Vec<u64>> = Vec::new();
            for (i, node) in self.kernel.nodes.iter().enumerate() {
                let row_level = info.levels[i] == Level::Row;
                let places = if row_level {
                    std::slice::from_ref(&row)
                } else {
                    &all[..]
                };
                let dtype = |id: thalweg_hal::ir::NodeId| info.dtypes[id.index()].expect("a value");
                let computed = places.iter().enumerate().map(|(k, point)| {
                    let get = |id: thalweg_hal::ir::NodeId| {
                        let v: &Vec<u64> = &values[id.index()];
                        if info.levels[id.index()] == Level::Row {
                            v[0]
                        } else {
                            v[k]
                        }
                    };
                    match *node {
                        Node::Const { bits, .. } => bits,
                        Node::Scalar { index } => {
                            self.scalars[index as usize] & mask(self.kernel.scalars[index as usize])
                        }
                        Node::Load { param } => {
                            self.read(param as usize, self.byte(param as usize, point, 0))
                        }
                        Node::LoadAt { param, index } => {
                            let at = get(index) as i64;
                            let inside = at >= 0 && (at as u64) < self.buffers[param as usize].gather_extent;
                            if inside {
                                self.read(param as usize, self.byte(param as usize, point, at))
                            } else {
                                0
                            }
                        }
                        Node::Index { axis } => point[axis as usize],
                        Node::Op { op, args } => eval(op, dtype(args[op.arity() - 1]), args.map(get)),
                        Node::Cast { dtype: to, arg } => cast(dtype(arg), to, get(arg)),
                        Node::Rand { key, counter } => philox(get(key), get(counter)).into(),
                        Node::Reduce { op, arg } => {
                            let v = &values[arg.index()];
                            reduce(op, dtype(arg), v)
                        }
                        Node::Store { param, value } => {
                            let byte = self.byte(param as usize, point, 0);
                            let size = self.kernel.params[param as usize].dtype.size();
                            after[param as usize][byte..byte + size]
                                .copy_from_slice(&get(value).to_le_bytes()[..size]);
                            0
                        }
                    }
                });
                let computed: Vec<u64> = computed.collect();
                values.push(computed);
            }
        }
        after
    }
}
