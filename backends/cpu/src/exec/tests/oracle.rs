//! What a launch of this crate gives: the definition, with the crate's own functions and its fixed order of sums.

use crate::loops::FUNCTIONS;
use crate::math;
use thalweg_hal::DType;
use thalweg_hal::interpreter::scalar::{Reduction, eval};
use thalweg_hal::interpreter::{Arithmetic, Bytes, Place, Run, run};
use thalweg_hal::ir::{Kernel, ReduceOp, ScalarOp};
use thalweg_hal::narrow::{float_bits, float_value};

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

/// The definition, but for what IEEE 754 leaves open: approximations of functions, and the order of sums and products.
struct Own;

impl Arithmetic for Own {
    fn op(&self, op: ScalarOp, dtype: DType, args: [u64; 3]) -> u64 {
        let [x, y, _] = args.map(|bits| float_value(dtype, bits));
        if let Some((_, single, double)) = FUNCTIONS.iter().find(|row| row.0 == op) {
            return match dtype {
                DType::F64 => double(x).to_bits(),
                _ => float_bits(dtype, single(x as f32).into()),
            };
        }
        let own = match op {
            ScalarOp::Pow if dtype == DType::F64 && !math::pow64_is_slow(x, y) => {
                return math::pow64(x, y).to_bits();
            }
            ScalarOp::Pow if dtype != DType::F64 => math::pow32(x as f32, y as f32),
            ScalarOp::Atan2 if dtype != DType::F64 => math::atan2_32(x as f32, y as f32),
            _ => return eval(op, dtype, args),
        };
        float_bits(dtype, own.into())
    }

    /// Sums and products in the order that `loops::reduce` documents.
    fn reduce(&self, op: ReduceOp, dtype: DType, values: &[u64]) -> u64 {
        let step = match op {
            ReduceOp::Sum => ScalarOp::Add,
            ReduceOp::Prod => ScalarOp::Mul,
            ReduceOp::Max | ReduceOp::Min | ReduceOp::ArgMax | ReduceOp::ArgMin => {
                return Reduction::of(op, dtype, values);
            }
        };
        let combine = |a: u64, b: u64| eval(step, dtype, [a, b, b]);
        let start = Reduction::of(op, dtype, &[]);
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
}

impl Case {
    /// The bytes of every buffer after the launch.
    pub(super) fn expected(&self) -> Vec<Vec<u8>> {
        let places: Vec<Place<'_>> = (self.buffers.iter())
            .map(|buffer| Place {
                strides: &buffer.strides,
                gather_stride: buffer.gather_stride,
                gather_extent: buffer.gather_extent,
            })
            .collect();
        let launch = Run {
            kernel: &self.kernel,
            info: &self.kernel.verify().expect("well formed"),
            extents: &self.extents,
            places: &places,
            scalars: &self.scalars,
        };
        let mut memory = Bytes {
            buffers: self.buffers.iter().map(|buffer| buffer.bytes.clone()).collect(),
            origins: (self.buffers.iter().enumerate())
                .map(|(at, buffer)| (at, buffer.origin))
                .collect(),
        };
        run(&launch, &mut memory, &Own);
        memory.buffers
    }
}
