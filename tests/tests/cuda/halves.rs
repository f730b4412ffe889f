//! f16 and bf16 two in a word, against the definition: an op on f32, rounded.

use super::device;
use half::{bf16, f16};
use thalweg::hal::{Buffer, Kernel, Launch, Stream, ir};

/// What the ops give for every value beside each of `others`, and for random pairs.
#[track_caller]
fn agrees(dtype: &str, infinity: u16, digits: u32, value: fn(u16) -> f32, rounded: fn(f32) -> u16) {
    let text = format!(
        "kernel halves_{dtype} outer=1 inner=0
p0 in {dtype} row contiguous
p1 in {dtype} row contiguous
p2 out {dtype} row contiguous
p3 out {dtype} row contiguous
p4 out {dtype} row contiguous
p5 out {dtype} row contiguous
p6 out {dtype} row contiguous
p7 out {dtype} row contiguous
p8 out {dtype} row contiguous
p9 out {dtype} row contiguous
p10 out {dtype} row contiguous
s0 {dtype}
n0 = load p0
n1 = load p1
n2 = add n0 n1
n3 = sub n0 n1
n4 = mul n0 n1
n5 = max n0 n1
n6 = min n0 n1
n7 = neg n0
n8 = abs n1
n9 = lt n0 n1
n10 = select n9 n2 n7
n11 = scalar s0
n12 = mul n4 n11
n13 = div n0 n1
n14 = add n13 n12
n15 = floor n14
n16 = sub n15 n11
n17 = store p2 n2
n18 = store p3 n3
n19 = store p4 n4
n20 = store p5 n5
n21 = store p6 n6
n22 = store p7 n8
n23 = store p8 n10
n24 = store p9 n14
n25 = store p10 n16
"
    );
    let one = 1 << digits;
    let edges = [
        0,
        1,
        one - 1,
        one + 1,
        infinity / 2 - 3,
        infinity - 1,
        infinity,
        0x7fff,
    ];
    let others = edges.map(|bits| [bits, bits | 0x8000]).concat();
    let mut pairs: Vec<(u16, u16)> = (0..=u16::MAX)
        .flat_map(|a| others.iter().map(move |&b| (a, b)))
        .collect();
    let mut state = 1_u64;
    pairs.extend((0..300_003).map(|_| {
        // Knuth's MMIX generator; the upper bits are random enough.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((state >> 48) as u16, (state >> 32) as u16)
    }));
    let (a, b): (Vec<u16>, Vec<u16>) = pairs.iter().copied().unzip();
    let (scale, count) = (rounded(-1.5), a.len() as u64);

    let device = device(0);
    let stream = Stream::new(&device).unwrap();
    let kernel = Kernel::compile(&device, &ir::Kernel::parse(&text).unwrap()).unwrap();
    let inputs = [&a, &b].map(|values| Buffer::from_slice(&stream, values).unwrap());
    let outputs: Vec<Buffer> = (0..9).map(|_| device.alloc(2 * count).unwrap()).collect();
    let buffers: Vec<_> = inputs.iter().chain(&outputs).map(Buffer::arg).collect();
    let scalars = [scale.into()];
    stream
        .launch(&Launch::new(&kernel, &[count], &buffers).scalars(&scalars))
        .unwrap();
    let found: Vec<Vec<u16>> = outputs.iter().map(|out| out.download(&stream).unwrap()).collect();

    let greater = |a: f32, b: f32| a > b || (a == b && b.is_sign_negative());
    for (i, &(x, y)) in pairs.iter().enumerate() {
        let (a, b) = (value(x), value(y));
        let of = |wide: f32| value(rounded(wide));
        let either = |first: bool| if a.is_nan() || first && !b.is_nan() { a } else { b };
        let (sum, quotient) = (of(a + b), of(a / b));
        let last = of(quotient + of(of(a * b) * -1.5));
        let expected = [
            sum,
            of(a - b),
            of(a * b),
            either(greater(a, b)),
            either(!greater(a, b)),
            b.abs(),
            if a < b { sum } else { -a },
            last,
            of(last.floor() + 1.5),
        ];
        for (op, (found, expected)) in found.iter().zip(expected).enumerate() {
            let same = found[i] == rounded(expected) || (expected.is_nan() && value(found[i]).is_nan());
            assert!(
                same,
                "{dtype} {op} of {a:e} and {b:e}: {:e}, not {expected:e}",
                value(found[i])
            );
        }
    }
}

#[test]
fn pairs_of_f16() {
    let value = |bits| f16::from_bits(bits).to_f32();
    agrees("f16", 0x7c00, 10, value, |wide| f16::from_f32(wide).to_bits());
}

#[test]
fn pairs_of_bf16() {
    let value = |bits| bf16::from_bits(bits).to_f32();
    agrees("bf16", 0x7f80, 7, value, |wide| bf16::from_f32(wide).to_bits());
}
