//! Convolutions of one tap against the chain of multiply-adds that each of their sums is.

use super::{Threads, ways};
use crate::exec::{Arg, Args};
use crate::isa::Isa;
use crate::library::conv::{ConvKernel, Direction};
use crate::parallel::{Parallel, Serial};
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, Role, ScalarOp};
use thalweg_hal::library::{Conv, LibraryOp};

/// Samples, groups, rows and channels of a group, and places along the axes there are.
struct Case {
    sizes: [usize; 4],
    places: &'static [usize],
    /// Whether channels are neighbours, in place of places.
    last: bool,
    direction: Direction,
    /// Elements of a line that are there but not used.
    gap: usize,
}

/// `max(sum + residual * scale of the row, 0)`.
fn epilogue(rank: u32) -> Kernel {
    let mut kernel = Kernel::new("epilogue", rank, 0);
    let mut param = |role, access| kernel.param(DType::F32, role, Level::Row, access);
    let sum = param(Role::In, Access::Contiguous);
    let further = [Access::Contiguous, Access::Strided].map(|access| param(Role::In, access));
    let out = param(Role::Out, Access::Contiguous);
    let [sum, residual, scale] = [sum, further[0], further[1]].map(|param| kernel.load(param));
    let zero = kernel.const_f32(0.0);
    let scaled = kernel.op(ScalarOp::Mul, &[residual, scale]);
    let added = kernel.op(ScalarOp::Add, &[sum, scaled]);
    let value = kernel.op(ScalarOp::Max, &[added, zero]);
    kernel.store(out, value);
    kernel
}

/// Strides of samples, groups, channels and places.
fn strides(groups: usize, channels: usize, places: &[usize], gap: usize, last: bool) -> Vec<i64> {
    let all = groups * channels;
    let mut of_places = vec![if last { all } else { 1 }];
    for (i, &count) in places.iter().enumerate().skip(1).rev() {
        let gap = if i == places.len() - 1 { gap } else { 0 };
        of_places.insert(0, of_places[0] * (count + gap));
    }
    let plane = of_places[0] * places[0] + usize::from(places.len() == 1) * gap * of_places[0];
    let mut strides = match last {
        true => vec![plane, channels, 1],
        false => vec![all * plane, channels * plane, plane],
    };
    strides.extend(of_places);
    strides.into_iter().map(|stride| stride as i64).collect()
}

fn number(seed: usize, i: usize) -> f32 {
    ((i * 37 + seed * 101) as f32).sin()
}

fn numbers(seed: usize, count: usize) -> Vec<f32> {
    (0..count).map(|i| number(seed, i)).collect()
}

fn index(mut at: usize, extents: &[usize]) -> Vec<i64> {
    let mut index = vec![0; extents.len()];
    for (axis, &extent) in extents.iter().enumerate().rev() {
        (index[axis], at) = ((at % extent) as i64, at / extent);
    }
    index
}

fn dot(a: &[i64], b: &[i64]) -> usize {
    a.iter().zip(b).map(|(a, b)| a * b).sum::<i64>() as usize
}

impl Case {
    fn kernel(
        &self,
        (isa, codegen): (Isa, bool),
        [x, w, sums]: [DType; 3],
        with_epilogue: bool,
    ) -> ConvKernel {
        let of_axes = std::array::from_fn(|axis| i64::from(axis < self.places.len()));
        let op = Conv {
            spatial: self.places.len() as u32,
            stride: of_axes,
            dilation: of_axes,
            padding: [0; 3],
            operands: [x, w],
            accumulate: sums,
            output: sums,
            fast: false,
            epilogue: with_epilogue.then(|| epilogue(3 + self.places.len() as u32)),
        };
        let library = match self.direction {
            Direction::Forward => LibraryOp::Conv(op.clone()),
            _ => LibraryOp::ConvGradInput(op.clone()),
        };
        ConvKernel::compile(&library, &op, self.direction, (isa, codegen)).unwrap()
    }

    /// How a launch lies.
    fn laid(&self) -> Laid {
        let ([samples, groups, rows, channels], places) = (self.sizes, self.places);
        let of_x = strides(groups, channels, places, self.gap, self.last);
        let of_y = strides(groups, rows, places, self.gap, self.last);
        // Weights are [rows, channels] forward and [channels, rows] backward.
        let of_w = match self.direction {
            Direction::Forward => [rows * channels, channels, 1],
            _ => [rows * channels, 1, rows],
        }
        .map(|stride| stride as i64);
        let room =
            |strides: &[i64], all: usize| samples * (strides[0] as usize).max(all * strides[3] as usize);
        let lens = [
            room(&of_x, groups * channels),
            groups * rows * channels,
            room(&of_y, groups * rows),
        ];
        let outer: Vec<usize> = [samples, groups, rows]
            .into_iter()
            .chain(places.iter().copied())
            .collect();
        let extents = (outer.iter().copied())
            .chain([channels])
            .chain(places.iter().map(|_| 1))
            .map(|extent| extent as u64)
            .collect();
        let zeros = vec![0; places.len()];
        let mut scalars: Vec<u64> = places.iter().map(|&count| count as u64).collect();
        scalars.extend(of_x[3..].iter().map(|&stride| stride as u64));
        Laid {
            first: [&of_x[..2], &[0], &zeros, &of_x[2..3], &zeros].concat(),
            second: [&[0], &of_w[..2], &zeros, &of_w[2..], &zeros].concat(),
            by_row: [&[0, rows as i64, 1], &zeros[..]].concat(),
            reach: 1 + dot(&of_x[3..], &index(places.iter().product::<usize>() - 1, places)) as u64,
            of_x,
            of_w,
            of_y,
            outer,
            extents,
            scalars,
            lens,
        }
    }

    /// Compares every element of the result; whether the launch was a product.
    fn check(&self, way: (Isa, bool), parallel: &dyn Parallel, with_epilogue: bool) -> bool {
        let [_, groups, rows, channels] = self.sizes;
        let laid = self.laid();
        let (mut x, mut w) = (numbers(1, laid.lens[0]), numbers(2, laid.lens[1]));
        let mut residual = numbers(3, laid.outer.iter().product());
        let mut scale = numbers(4, groups * rows);
        let mut y = vec![f32::NAN; laid.lens[2]];
        let further = [arg(&mut residual, &[]), arg(&mut scale, &laid.by_row)];
        let further = if with_epilogue { &further[..] } else { &[] };
        let is_product = laid.run(
            &self.kernel(way, [DType::F32; 3], with_epilogue),
            (&mut x, &mut w, &mut y),
            further,
            parallel,
        );
        for (at, residual) in residual.iter().enumerate() {
            let index = index(at, &laid.outer);
            let (group, row) = (index[1] as usize, index[2] as usize);
            let terms = (0..channels).map(|channel| laid.term(&index, channel));
            let mut expected = terms.fold(0.0_f32, |sum, (of_x, of_w)| w[of_w].mul_add(x[of_x], sum));
            if with_epilogue {
                expected = (expected + residual * scale[group * rows + row]).max(0.0);
            }
            let found = y[dot(&laid.of_y, &index)];
            assert_eq!(
                found.to_bits(),
                expected.to_bits(),
                "{way:?} {:?} {index:?}",
                self.sizes
            );
        }
        is_product
    }

    /// The same of bytes, which are signed or not.
    fn check_bytes(&self, way: (Isa, bool), dtypes: [DType; 2]) -> bool {
        let laid = self.laid();
        let bytes = |seed: usize, len: usize| -> Vec<u8> {
            (0..len)
                .map(|i| (i.wrapping_mul(2_654_435_761) >> seed) as u8)
                .collect()
        };
        let (mut x, mut w) = (bytes(11, laid.lens[0]), bytes(13, laid.lens[1]));
        let mut y = vec![i32::MIN; laid.lens[2]];
        let [of_x, of_w] = dtypes;
        let kernel = self.kernel(way, [of_x, of_w, DType::I32], false);
        let is_product = laid.run(&kernel, (&mut x, &mut w, &mut y), &[], &Threads(2));
        let wide = |dtype: DType, byte: u8| match dtype {
            DType::I8 => i32::from(byte as i8),
            _ => i32::from(byte),
        };
        for at in 0..laid.outer.iter().product() {
            let index = index(at, &laid.outer);
            let terms = (0..self.sizes[3]).map(|channel| laid.term(&index, channel));
            let expected: i32 = terms.map(|(a, b)| wide(of_x, x[a]) * wide(of_w, w[b])).sum();
            let found = y[dot(&laid.of_y, &index)];
            assert_eq!(found, expected, "{way:?} {dtypes:?} {:?} {index:?}", self.sizes);
        }
        is_product
    }
}

fn arg<'a, T>(data: &mut [T], strides: &'a [i64]) -> Arg<'a> {
    Arg {
        ptr: data.as_mut_ptr().cast(),
        strides,
        gather_stride: 0,
        gather_extent: 0,
    }
}

struct Laid {
    /// Of the operands, as the launch has them, and of what a row has.
    first: Vec<i64>,
    second: Vec<i64>,
    by_row: Vec<i64>,
    /// Elements of a gather.
    reach: u64,
    of_x: Vec<i64>,
    of_w: [i64; 3],
    of_y: Vec<i64>,
    /// Extents of the result, and of the launch.
    outer: Vec<usize>,
    extents: Vec<u64>,
    scalars: Vec<u64>,
    /// Elements of x, w and the result.
    lens: [usize; 3],
}

impl Laid {
    /// Runs the kernel; whether it was a product.
    fn run<T, Y>(
        &self,
        kernel: &ConvKernel,
        (x, w, y): (&mut [T], &mut [T], &mut [Y]),
        further: &[Arg<'_>],
        parallel: &dyn Parallel,
    ) -> bool {
        let gathered = Arg {
            gather_stride: 1,
            gather_extent: self.reach,
            ..arg(x, &self.first)
        };
        let mut args = vec![gathered, arg(w, &self.second)];
        args.extend(further.iter().copied());
        args.push(arg(y, &self.of_y));
        let args = Args {
            extents: &self.extents,
            args: &args,
            scalars: &self.scalars,
        };
        // SAFETY: the slices have the elements that extents and strides reach.
        unsafe { kernel.run(&args, std::ptr::null(), parallel) };
        kernel
            .launch(&args)
            .is_some_and(|launch| kernel.product(&launch).is_some())
    }

    /// Where x and w have a term of an element of the result.
    fn term(&self, index: &[i64], channel: usize) -> (usize, usize) {
        let from = [&index[..2], &[channel as i64], &index[3..]].concat();
        (
            dot(&self.of_x, &from),
            dot(&self.of_w, &[index[1], index[2], channel as i64]),
        )
    }
}

#[test]
fn one_tap_is_a_product_with_the_same_chains() {
    let case = |sizes, places, direction| Case {
        sizes,
        places,
        last: false,
        direction,
        gap: 0,
    };
    let cases = [
        case([3, 1, 37, 19], &[12, 13], Direction::Forward),
        case([2, 1, 33, 40], &[9, 15], Direction::GradInput),
        case([1, 3, 16, 9], &[200], Direction::Forward),
        case([1, 1, 2, 512], &[3, 5, 11], Direction::Forward),
        case([1, 2, 15, 1], &[2, 8, 9], Direction::GradInput),
        case([1, 1, 400, 3], &[7, 160], Direction::Forward),
    ];
    for way in ways() {
        for case in &cases {
            for with_epilogue in [false, true] {
                assert!(case.check(way, &Serial, with_epilogue));
                assert!(case.check(way, &Threads(3), with_epilogue));
            }
        }
    }
}

/// Neighbours that are channels, lines with gaps, longer chains, few places, one row, and both samples and groups.
#[test]
fn others_have_the_same_chains() {
    let case = |sizes, places| Case {
        sizes,
        places,
        last: false,
        direction: Direction::Forward,
        gap: 0,
    };
    let cases = [
        Case {
            last: true,
            ..case([2, 1, 32, 40], &[12, 12])
        },
        Case {
            last: true,
            ..case([1, 1, 40, 3], &[50, 50])
        },
        Case {
            last: true,
            ..case([3, 1, 32, 9], &[27, 26])
        },
        Case {
            last: true,
            direction: Direction::GradInput,
            ..case([1, 2, 130, 5], &[13, 14, 12])
        },
        Case {
            gap: 3,
            ..case([2, 1, 32, 40], &[12, 12])
        },
        Case {
            last: true,
            gap: 3,
            ..case([1, 1, 32, 3], &[50, 50])
        },
        case([1, 1, 20, 513], &[150]),
        case([2, 1, 20, 24], &[11, 11]),
        case([2, 1, 1, 24], &[12, 12]),
        case([2, 2, 20, 24], &[12, 12]),
    ];
    for way in ways() {
        for case in &cases {
            assert!(!case.check(way, &Threads(3), true));
        }
    }
}

#[test]
fn bytes_are_products_too() {
    let case = |sizes, places, last| Case {
        sizes,
        places,
        last,
        direction: Direction::Forward,
        gap: 0,
    };
    let cases = [
        case([2, 1, 37, 19], &[12, 13], false),
        case([1, 2, 16, 70], &[131], false),
        case([3, 1, 32, 13], &[27, 26], true),
    ];
    for way in ways() {
        for case in &cases {
            for dtypes in [
                [DType::U8, DType::I8],
                [DType::I8; 2],
                [DType::U8; 2],
                [DType::I8, DType::U8],
            ] {
                assert_eq!(case.check_bytes(way, dtypes), !case.last);
            }
        }
    }
}
