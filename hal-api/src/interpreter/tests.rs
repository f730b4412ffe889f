use super::scalar::random_word;
use super::*;
use crate::ir::arbitrary::{RandomKernel, random_kernel};
use proptest::prelude::*;

/// One buffer of a test launch: a base pointer, strides, and the gather stride and extent.
type Arg<'a> = (*mut u8, &'a [i64], i64, u64);

/// Buffers that each test makes large enough for its extents and strides; several parameters may share one.
struct Pointers<'a>(&'a [Arg<'a>]);

impl Memory for Pointers<'_> {
    fn read(&self, param: usize, offset: i64, bytes: &mut [u8]) {
        // SAFETY: an element of a buffer of the test.
        unsafe {
            (self.0[param].0.wrapping_offset(offset as isize))
                .copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len());
        }
    }

    fn write(&mut self, param: usize, offset: i64, bytes: &[u8]) {
        // SAFETY: an element of a buffer of the test.
        unsafe {
            (self.0[param].0.wrapping_offset(offset as isize))
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }
}

fn launch(text: &str, extents: &[u64], args: &[Arg<'_>], scalars: &[u64]) {
    launch_kernel(&Kernel::parse(text).unwrap(), extents, args, scalars);
}

fn launch_kernel(kernel: &Kernel, extents: &[u64], args: &[Arg<'_>], scalars: &[u64]) {
    let places: Vec<Place<'_>> = args
        .iter()
        .map(|&(_, strides, gather_stride, gather_extent)| Place {
            strides,
            gather_stride,
            gather_extent,
        })
        .collect();
    let launch = Run {
        kernel,
        info: &kernel.verify().unwrap(),
        extents,
        places: &places,
        scalars,
    };
    run(&launch, &mut Pointers(args), &Definition);
}

fn at<T>(data: &mut [T]) -> *mut u8 {
    data.as_mut_ptr().cast()
}

#[test]
fn a_softmax_is_one_kernel() {
    let text = "kernel softmax outer=1 inner=1\np0 in f32 element contiguous\np1 out f32 element contiguous\n\
                n0 = load p0\nn1 = max n0\nn2 = sub n0 n1\nn3 = exp n2\nn4 = sum n3\nn5 = div n3 n4\nn6 = store p1 n5\n";
    let mut x = [0.0f32, 1.0, 2.0, 1000.0, 1000.0, 1000.0];
    let mut y = [0.0f32; 6];
    launch(
        text,
        &[2, 3],
        &[(at(&mut x), &[3, 1], 0, 0), (at(&mut y), &[3, 1], 0, 0)],
        &[],
    );
    let total = 1.0 + (-1.0f64).exp() + (-2.0f64).exp();
    for (found, expected) in y
        .iter()
        .zip([(-2.0f64).exp() / total, (-1.0f64).exp() / total, 1.0 / total])
    {
        assert!((f64::from(*found) - expected).abs() < 1e-7, "{y:?}");
    }
    assert_eq!(y[3..], [1.0 / 3.0; 3]);
}

#[test]
fn strides_may_be_negative_zero_or_swapped() {
    let text = "kernel copy outer=2 inner=0\np0 in i16 row strided\np1 in i16 row broadcast\np2 out i16 row strided\n\
                n0 = load p0\nn1 = load p1\nn2 = add n0 n1\nn3 = store p2 n2\n";
    let (mut x, mut one, mut y) = ([1i16, 2, 3, 4, 5, 6], [10i16], [0i16; 6]);
    let last = at(&mut x).wrapping_add(10);
    launch(
        text,
        &[2, 3],
        &[
            (last, &[-3, -1], 0, 0),
            (at(&mut one), &[0, 0], 0, 0),
            (at(&mut y), &[1, 2], 0, 0),
        ],
        &[],
    );
    assert_eq!(y, [16, 13, 15, 12, 14, 11]);
}

#[test]
fn gathers_outside_read_zero() {
    let text = "kernel take outer=1 inner=0\np0 in f64 row strided\np1 in i64 row contiguous\np2 out f64 row contiguous\n\
                n0 = load p1\nn1 = loadat p0 n0\nn2 = store p2 n1\n";
    let (mut x, mut y) = ([1.0f64, 2.0, 3.0, 4.0], [9.0f64; 6]);
    let mut index = [0i64, 1, 2, -1, i64::MIN, i64::MAX];
    let args: [Arg<'_>; 3] = [
        (at(&mut x), &[0], 2, 2),
        (at(&mut index), &[1], 0, 0),
        (at(&mut y), &[1], 0, 0),
    ];
    launch(text, &[6], &args, &[]);
    assert_eq!(y, [1.0, 3.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn loads_read_what_was_there_before_the_launch() {
    let text = "kernel reverse outer=1 inner=0\np0 in u8 row contiguous\np1 out u8 row contiguous\ns0 i64\n\
                n0 = scalar s0\nn1 = index 0\nn2 = const i64 -2\nn3 = mul n1 n2\nn4 = add n0 n3\nn5 = loadat p0 n4\n\
                n6 = store p1 n5\n";
    // Gathers count from the current element: `last - 2 i` from element i is element `last - i`, outside for i > last / 2.
    let mut x = [1u8, 2, 3, 4, 5];
    let x = at(&mut x);
    launch(text, &[5], &[(x, &[1], 1, 5), (x, &[1], 0, 0)], &[4]);
    // SAFETY: the array is alive.
    assert_eq!(unsafe { std::slice::from_raw_parts(x, 5) }, [5, 4, 3, 0, 0]);
}

#[test]
fn a_row_is_read_and_written_in_place() {
    let text = "kernel center outer=1 inner=1\np0 in i32 element contiguous\np1 out i32 element contiguous\n\
                n0 = load p0\nn1 = sum n0\nn2 = sub n0 n1\nn3 = store p1 n2\n";
    let mut x = [1i32, 2, 3, 4];
    let x = at(&mut x);
    launch(text, &[2, 2], &[(x, &[2, 1], 0, 0), (x, &[2, 1], 0, 0)], &[]);
    // SAFETY: the array is alive.
    let found = unsafe { std::slice::from_raw_parts(x.cast::<i32>(), 4) };
    assert_eq!(found, [-2, -1, -4, -3]);
}

#[test]
fn empty_spaces() {
    let text = "kernel both outer=1 inner=1\np0 in f32 element contiguous\np1 out f32 row contiguous\n\
                p2 out f32 element contiguous\nn0 = load p0\nn1 = sum n0\nn2 = store p1 n1\nn3 = store p2 n1\n";
    let (mut x, mut y, mut z) = ([5.0f32; 4], [7.0f32; 2], [8.0f32; 4]);
    let (x, y, z) = (at(&mut x), at(&mut y), at(&mut z));
    let args: [Arg<'_>; 3] = [(x, &[2, 1], 0, 0), (y, &[1], 0, 0), (z, &[2, 1], 0, 0)];
    // SAFETY: the arrays are alive.
    let read = |p: *mut u8, n| unsafe { std::slice::from_raw_parts(p.cast::<f32>(), n).to_vec() };
    launch(text, &[0, 2], &args, &[]);
    assert_eq!((read(y, 2), read(z, 4)), (vec![7.0; 2], vec![8.0; 4]));
    launch(text, &[2, 0], &args, &[]);
    assert_eq!((read(y, 2), read(z, 4)), (vec![0.0; 2], vec![8.0; 4]));
    launch(text, &[2, 2], &args, &[]);
    assert_eq!((read(y, 2), read(z, 4)), (vec![10.0; 2], vec![10.0; 4]));
}

#[test]
fn rank_zero_is_one_point_and_reduces_chain() {
    let text = "kernel variance outer=0 inner=2\np0 in f64 element strided\np1 out f64 row contiguous\ns0 f64\n\
                n0 = load p0\nn1 = sum n0\nn2 = scalar s0\nn3 = div n1 n2\nn4 = sub n0 n3\nn5 = mul n4 n4\nn6 = sum n5\n\
                n7 = div n6 n2\nn8 = store p1 n7\n";
    let (mut x, mut y) = ([1.0f64, 2.0, 3.0, 4.0], [0.0f64]);
    launch(
        text,
        &[2, 2],
        &[(at(&mut x), &[1, 2], 0, 0), (at(&mut y), &[], 0, 0)],
        &[4.0f64.to_bits()],
    );
    assert_eq!(y, [1.25]);
}

#[test]
fn random_words_follow_the_counter() {
    let text = "kernel bits outer=1 inner=0\np0 out u32 row contiguous\ns0 u64\nn0 = scalar s0\nn1 = index 0\n\
                n2 = cast u64 n1\nn3 = rand n0 n2\nn4 = store p0 n3\n";
    let mut y = [0u32; 9];
    launch(text, &[9], &[(at(&mut y), &[1], 0, 0)], &[0x0000_0002_0000_0001]);
    let words: Vec<u32> = (0..9).map(|i| random_word(0x0000_0002_0000_0001, i)).collect();
    assert_eq!(y[..], words);
}

fn splitmix(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Runs `kernel` on buffers filled from `seed`, the outer points from `first` on, and returns the buffers.
fn outputs(kernel: &Kernel, extents: &[u64], seed: u64, split: bool) -> Vec<Vec<u64>> {
    let mut next = splitmix(seed);
    let scalars: Vec<u64> = kernel
        .scalars
        .iter()
        .map(|d| next() & (u64::MAX >> (64 - 8 * d.size())))
        .collect();
    let scalars: Vec<u64> = scalars
        .iter()
        .zip(&kernel.scalars)
        .map(|(v, d)| if *d == DType::Bool { v & 1 } else { *v })
        .collect();
    let axes = |level| {
        if level == Level::Row {
            kernel.outer as usize
        } else {
            extents.len()
        }
    };
    let row_major = |n: usize| -> Vec<i64> {
        (0..n)
            .map(|a| extents[a + 1..n].iter().product::<u64>() as i64)
            .collect()
    };
    let strides: Vec<Vec<i64>> = kernel
        .params
        .iter()
        .map(|p| {
            if p.access == Access::Broadcast {
                vec![0; axes(p.level)]
            } else {
                row_major(axes(p.level))
            }
        })
        .collect();
    // Gathers reach up to 3 elements beyond the last point.
    let count = extents.iter().product::<u64>() as usize + 3;
    let mut memory: Vec<Vec<u64>> = kernel
        .params
        .iter()
        .map(|_| (0..count).map(|_| next()).collect())
        .collect();
    let pointers: Vec<*mut u8> = memory.iter_mut().map(|m| at(m)).collect();
    let run_from = |first: i64, extents: &[u64]| {
        let args: Vec<Arg<'_>> = kernel
            .params
            .iter()
            .zip(&pointers)
            .zip(&strides)
            .map(|((p, ptr), strides)| {
                let bytes = first * strides[0] * p.dtype.size() as i64;
                (ptr.wrapping_offset(bytes as isize), &strides[..], 1, 3)
            })
            .collect();
        launch_kernel(kernel, extents, &args, &scalars);
    };
    if split {
        let mut one = extents.to_vec();
        one[0] = 1;
        (0..extents[0] as i64).for_each(|first| run_from(first, &one));
    } else {
        run_from(0, extents);
    }
    memory
}

proptest! {
    #[test]
    fn a_launch_is_the_union_of_its_rows(seed: u64, extents in prop::array::uniform5(1u64..4)) {
        let kernel = random_kernel(&mut splitmix(seed), &RandomKernel::default());
        let uses_rows = |n: &Node| matches!(n, Node::Index { axis: 0 });
        if kernel.outer > 0 && !kernel.nodes.iter().any(uses_rows) {
            let extents = &extents[..(kernel.outer + kernel.inner) as usize];
            let whole = outputs(&kernel, extents, seed, false);
            prop_assert_eq!(whole, outputs(&kernel, extents, seed, true), "{}", kernel.to_text());
        }
    }
}
