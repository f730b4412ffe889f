//! Rows with reductions whose elements stand apart in memory, as channels of images do.

use super::coded::{REDUCTIONS, has_code, is_coded};
use super::harness::{Rng, check, random_case};
use super::oracle::{Buffer, Case};
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, ReduceOp, Role, ScalarOp};

/// x of images over its reduction, with a gain for each element of a row.
fn distances(op: ReduceOp, dtype: DType) -> Kernel {
    let mut k = Kernel::new("apart", 2, 1);
    let x = k.param(dtype, Role::In, Level::Element, Access::Strided);
    let gain = k.param(DType::F32, Role::In, Level::Element, Access::Strided);
    let y = k.param(dtype, Role::Out, Level::Element, Access::Strided);
    let first = k.param(DType::F32, Role::Out, Level::Row, Access::Strided);
    let (x, gain) = (k.load(x), k.load(gain));
    let x = if dtype == DType::F32 {
        x
    } else {
        k.cast(DType::F32, x)
    };
    let r = k.reduce(op, x);
    let d = k.op(ScalarOp::Sub, &[x, r]);
    let square = k.op(ScalarOp::Mul, &[d, d]);
    let s = k.reduce(ReduceOp::Max, square);
    let q = k.op(ScalarOp::Div, &[d, s]);
    let q = k.op(ScalarOp::Mul, &[q, gain]);
    let q = if dtype == DType::F32 { q } else { k.cast(dtype, q) };
    k.store(first, r);
    k.store(y, q);
    k
}

/// Gives a parameter of a case memory with such strides.
fn place(case: &mut Case, p: usize, strides: [i64; 3], rng: &mut Rng) {
    let param = case.kernel.params[p];
    let reach = |(&stride, &extent): (&i64, &u64)| stride * (extent as i64 - 1);
    let elements = 1 + strides.iter().zip(&case.extents).map(reach).sum::<i64>();
    let size = param.dtype.size();
    let values = (0..elements).flat_map(|_| rng.value(param.dtype).to_le_bytes()[..size].to_vec());
    case.buffers[p] = Buffer {
        bytes: values.collect(),
        origin: 0,
        strides: strides.to_vec(),
        gather_stride: 0,
        gather_extent: 0,
    };
}

/// Channels first to channels last, to channels first, and in place.
#[test]
fn rows_of_channels() {
    let mut rng = Rng(41);
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for op in REDUCTIONS {
            for (images, places, channels) in
                [(1, 40, 25), (2, 33, 40), (1, 64, 300), (3, 4, 65), (2, 600, 33)]
            {
                let apart = [(places * channels) as i64, 1, places as i64];
                let together = [(places * channels) as i64, channels as i64, 1];
                for (read, written) in [(apart, together), (together, apart), (apart, apart)] {
                    let kernel = distances(op, dtype);
                    assert_eq!(is_coded(&kernel), has_code(), "{op} of {dtype}");
                    let mut case = random_case(kernel, vec![images, places, channels], &mut rng);
                    case.in_place.clear();
                    place(&mut case, 0, read, &mut rng);
                    place(&mut case, 1, [0, 0, 1], &mut rng);
                    place(&mut case, 2, written, &mut rng);
                    check(&case);
                    if read == written {
                        case.buffers[0] = case.buffers[2].clone();
                        case.in_place = vec![(2, 0)];
                        check(&case);
                    }
                }
            }
        }
    }
}
