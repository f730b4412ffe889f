//! Floats of eight bits, which are for storage: casts against stored values of `ml_dtypes`, moves, products, and what is refused.

use super::opencl_device;
use half::{bf16, f16};
use thalweg::ops::{ConvOptions, PadMode};
use thalweg::{Context, DType, Element, F8E4M3, F8E5M2, Mode, Tensor, fori_loop, grad, jit};

const F8: [DType; 2] = [DType::F8E4M3, DType::F8E5M2];

/// One context that computes at once and one that records.
type Contexts = [Context; 2];

fn contexts(made: impl Fn() -> Context) -> Contexts {
    let [eager, recorded] = [made(), made()];
    recorded.set_mode(Mode::Graph);
    [eager, recorded]
}

fn on_opencl(test: fn(&Contexts)) {
    if let Some(device) = opencl_device("interpreted", thalweg::loader::LoaderOptions::default()) {
        test(&contexts(|| Context::on(device.clone())));
    }
}

macro_rules! tests {
    ($($name:ident)*) => {
        mod cpu { $(#[test] fn $name() { super::$name(&super::contexts(|| thalweg::Context::new("cpu").unwrap())); })* }
        mod reference { $(#[test] fn $name() { super::$name(&super::contexts(crate::reference)); })* }
        mod opencl { $(#[test] fn $name() { super::on_opencl(super::$name); })* }
        mod chosen { $(
            #[test]
            fn $name() {
                let Some(cx) = crate::chosen() else { return };
                super::$name(&super::contexts(|| thalweg::Context::on(cx.device().clone())));
            }
        )* }
    };
}

tests! { casts_round_as_stored casts_back moves comparisons products gradients arithmetic_is_refused }

fn tensor(codes: &[u8], shape: &[usize], dtype: DType, cx: &Context) -> Tensor {
    fn made<T: Element>(codes: &[u8], shape: &[usize], cx: &Context) -> Tensor {
        let data: Vec<T> = codes.iter().map(|&code| T::from_bits(code.into())).collect();
        Tensor::from_slice(&data, shape, cx)
    }
    match dtype {
        DType::F8E4M3 => made::<F8E4M3>(codes, shape, cx),
        DType::F8E5M2 => made::<F8E5M2>(codes, shape, cx),
        _ => made::<u8>(codes, shape, cx),
    }
}

/// The bits of each element.
fn bits(x: &Tensor) -> Vec<u64> {
    crate::values::read(x).unwrap().1
}

fn is_nan(code: u64, dtype: DType) -> bool {
    match dtype {
        DType::F8E4M3 => F8E4M3::from_bits(code as u8).is_nan(),
        _ => F8E5M2::from_bits(code as u8).is_nan(),
    }
}

/// A line of the stored values: its words behind the dtype.
fn stored(kind: &str, dtype: DType) -> Vec<String> {
    let text = std::fs::read_to_string(crate::case::data("f8")).unwrap();
    let start = format!("{kind} {dtype} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&start)).unwrap();
    line.split(' ').map(str::to_owned).collect()
}

/// The value of every code, as `ml_dtypes` has it.
fn values(dtype: DType) -> Vec<f32> {
    let bits = |word: String| f32::from_bits(u32::from_str_radix(&word, 16).unwrap());
    stored("value", dtype).into_iter().map(bits).collect()
}

/// The tensor cast: at once or recorded, as `cx` does it, and compiled.
fn cast(x: &Tensor, dtype: DType) -> Vec<u64> {
    let found = bits(&x.cast(dtype));
    assert_eq!(bits(&jit(|x: &Tensor| x.cast(dtype)).call(x)), found);
    found
}

fn casts_round_as_stored(contexts: &Contexts) {
    fn check<T: Element>(kind: &str, read: impl Fn(&str) -> T, contexts: &Contexts) {
        for dtype in F8 {
            let (mut from, mut to) = (Vec::new(), Vec::new());
            for word in stored(kind, dtype) {
                let (value, code) = word.split_once(':').unwrap();
                from.push(read(value));
                to.push(u64::from_str_radix(code, 16).unwrap());
            }
            for cx in contexts {
                let found = cast(&Tensor::from_slice(&from, [from.len()], cx), dtype);
                for ((&value, &found), &code) in from.iter().zip(&found).zip(&to) {
                    let same = found == code || is_nan(found, dtype) && is_nan(code, dtype);
                    assert!(
                        same,
                        "{kind} {value:?} as {dtype} is {found:#x}, stored {code:#x}"
                    );
                }
            }
        }
    }
    check(
        "f32",
        |word| f32::from_bits(u32::from_str_radix(word, 16).unwrap()),
        contexts,
    );
    check(
        "f64",
        |word| f64::from_bits(u64::from_str_radix(word, 16).unwrap()),
        contexts,
    );
    check("i64", |word| word.parse::<i64>().unwrap(), contexts);
}

/// Every code in every other dtype.
fn casts_back(contexts: &Contexts) {
    fn check<T: Element>(from: DType, cx: &Context, wanted: impl Fn(f32) -> T) {
        let codes: Vec<u8> = (0..=255).collect();
        let found = cast(&tensor(&codes, &[256], from, cx), T::DTYPE);
        for ((code, value), found) in codes.iter().zip(values(from)).zip(found) {
            let (found, wanted) = (T::from_bits(found), wanted(value));
            let same = found.bits() == wanted.bits() || found.to_f64().is_nan() && wanted.to_f64().is_nan();
            assert!(
                same,
                "{from} {code:#x} as {} is {found:?}, not {wanted:?}",
                T::DTYPE
            );
        }
    }
    for (cx, from) in contexts.iter().flat_map(|cx| F8.map(|from| (cx, from))) {
        check(from, cx, |x| x);
        check(from, cx, f64::from);
        check(from, cx, f16::from_f32);
        check(from, cx, bf16::from_f32);
        check(from, cx, F8E4M3::from_f32);
        check(from, cx, F8E5M2::from_f32);
        check(from, cx, |x| x as i64);
        check(from, cx, |x| x as i32);
        check(from, cx, |x| x as i16);
        check(from, cx, |x| x as i8);
        check(from, cx, |x| x as u64);
        check(from, cx, |x| x as u32);
        check(from, cx, |x| x as u16);
        check(from, cx, |x| x as u8);
        check(from, cx, |x| x != 0.0);
    }
}

/// What moves elements moves their bits.
fn moves(contexts: &Contexts) {
    type Move = fn(&Tensor, &Tensor, &Context) -> Tensor;
    let all: [(&str, Move); 22] = [
        ("transpose", |x, _, _| x.t()),
        ("contiguous", |x, _, _| x.t().contiguous()),
        ("reshape", |x, _, _| x.t().reshape([3, 8])),
        ("narrow", |x, _, _| x.narrow(1, 1, 3)),
        ("flip", |x, _, _| x.flip(1)),
        ("roll", |x, _, _| x.roll(2, 0)),
        ("expand", |x, _, _| x.unsqueeze(0).expand([3, 4, 6])),
        ("tile", |x, _, _| x.tile(&[2, 3])),
        ("repeat", |x, _, _| x.repeat_interleave(2, 1)),
        ("concat", |x, y, _| Tensor::concat(&[x, y, x], 1)),
        ("stack", |x, y, _| Tensor::stack(&[x, y], 1)),
        ("zeros", |x, _, _| {
            x.pad(&[(1, 0), (0, 2)], PadMode::Constant(0.into()))
        }),
        ("mirrored", |x, _, _| x.pad(&[(1, 2), (0, 2)], PadMode::Reflect)),
        ("wrapped", |x, _, _| x.pad(&[(1, 2), (0, 2)], PadMode::Circular)),
        ("select", |x, _, cx| {
            x.index_select(0, &Tensor::from_slice(&[2_i64, 0, 3, 2], [4], cx))
        }),
        ("gather", |x, _, cx| {
            x.gather(1, &Tensor::from_slice(&[1_i64, 0, 3, 5, 1, 3, 0, 0], [4, 2], cx))
        }),
        ("scatter", |x, y, cx| {
            let index = Tensor::from_slice(&[1_i64, 0, 3, 5, 1, 3, 0, 2], [4, 2], cx);
            x.scatter(1, &index, y.narrow(1, 0, 2).contiguous())
        }),
        ("copy", |x, y, cx| {
            let index = Tensor::from_slice(&[3_i64, 1], [2], cx);
            x.index_copy(0, &index, &y.narrow(0, 0, 2))
        }),
        ("where", |x, y, cx| {
            let even: Vec<bool> = (0..24).map(|i| i % 3 == 0).collect();
            Tensor::from_slice(&even, [4, 6], cx).where_cond(x, y)
        }),
        ("fill", |x, _, cx| {
            let even: Vec<bool> = (0..24).map(|i| i % 2 == 0).collect();
            x.masked_fill(&Tensor::from_slice(&even, [4, 6], cx), 0)
        }),
        ("triangle", |x, _, _| x.tril(0)),
        ("diagonal", |x, _, _| x.diagonal(1, 0, 1)),
    ];
    // NaNs and infinities among them; each code is only moved.
    let first: Vec<u8> = (0..24).map(|i| i * 11).collect();
    let second: Vec<u8> = (0..24).map(|i| 255 - i * 5).collect();
    for (cx, dtype) in contexts.iter().flat_map(|cx| F8.map(|dtype| (cx, dtype))) {
        for (name, run) in all {
            let of = |dtype: DType| [&first, &second].map(|codes| tensor(codes, &[4, 6], dtype, cx));
            let ([x, y], [a, b]) = (of(dtype), of(DType::U8));
            let (found, wanted) = (run(&x, &y, cx), run(&a, &b, cx));
            assert_eq!(
                (found.dtype().unwrap(), found.shape().unwrap()),
                (dtype, wanted.shape().unwrap()),
                "{name}"
            );
            let (found, wanted) = (bits(&found), bits(&wanted));
            assert_eq!(found, wanted, "{name} of {dtype}");
            let compiled = jit(|x: &Tensor| run(x, &y, cx)).call(&x);
            assert_eq!(bits(&compiled), wanted, "{name} of {dtype}, compiled");
        }
    }
}

fn comparisons(contexts: &Contexts) {
    let codes: Vec<u8> = (0..=255).collect();
    let other: Vec<u8> = (0..=255_u8).map(|i| i.wrapping_mul(37) ^ 0x80).collect();
    for (cx, dtype) in contexts.iter().flat_map(|cx| F8.map(|dtype| (cx, dtype))) {
        let (x, y) = (
            tensor(&codes, &[256], dtype, cx),
            tensor(&other, &[256], dtype, cx),
        );
        let wide = |x: &Tensor| x.cast(DType::F32);
        let truth = |x: Tensor| x.to_vec::<bool>().unwrap();
        assert_eq!(truth(x.eq(&y)), truth(wide(&x).eq(wide(&y))));
        assert_eq!(truth(x.ne(&x)), truth(wide(&x).ne(wide(&x))));
        assert_eq!(truth(x.lt(&y)), truth(wide(&x).lt(wide(&y))));
        assert_eq!(truth(x.ge(0.3)), truth(wide(&x).ge(0.3)));
        assert_eq!(truth(x.isnan()), truth(wide(&x).isnan()));
        assert_eq!(truth(x.isinf()), truth(wide(&x).isinf()));
        assert_eq!(truth(x.isfinite()), truth(wide(&x).isfinite()));
        assert_eq!(truth(x.signbit()), truth(wide(&x).signbit()));
        // With a wider float, in that.
        assert_eq!(truth(x.le(wide(&y))), truth(wide(&x).le(wide(&y))));
    }
}

/// Small integers, whose sums are exact in f32.
fn whole(shape: &[usize], seed: usize, dtype: DType, cx: &Context) -> Tensor {
    let count: usize = shape.iter().product();
    let data: Vec<f32> = (0..count)
        .map(|i| ((i * 7 + seed) * (i + 3) % 17) as f32 - 8.0)
        .collect();
    Tensor::from_slice(&data, shape, cx).cast(dtype)
}

fn products(contexts: &Contexts) {
    for (cx, dtype) in contexts.iter().flat_map(|cx| F8.map(|dtype| (cx, dtype))) {
        let check = |found: &Tensor, wanted: &Tensor, what: &str| {
            assert_eq!(found.dtype().unwrap(), DType::F32, "{dtype}, {what}");
            assert_eq!(found.shape().unwrap(), wanted.shape().unwrap(), "{dtype}, {what}");
            let wanted = wanted.cast(DType::F32).to_vec::<f32>().unwrap();
            assert_eq!(found.to_vec::<f32>().unwrap(), wanted, "{dtype}, {what}");
        };
        let wide = |x: &Tensor| x.cast(DType::F64);
        for (m, n, k) in [
            (1, 1, 1),
            (5, 7, 30),
            (1, 40, 33),
            (33, 1, 16),
            (20, 33, 65),
            (2, 3, 0),
        ] {
            let (x, w) = (whole(&[m, k], 1, dtype, cx), whole(&[k, n], 2, dtype, cx));
            check(&x.matmul(&w), &wide(&x).matmul(&wide(&w)), "matmul");
            let t = whole(&[n, k], 3, dtype, cx);
            check(
                &x.matmul(&t.t()),
                &wide(&x).matmul(&wide(&t).t()),
                "by a transposed weight",
            );
            let compiled = jit(|x: &Tensor| x.matmul(&w)).call(&x);
            check(&compiled, &wide(&x).matmul(&wide(&w)), "compiled");
        }
        let (x, w) = (
            whole(&[2, 3, 4, 9], 1, dtype, cx),
            whole(&[3, 9, 5], 2, dtype, cx),
        );
        check(&x.matmul(&w), &wide(&x).matmul(&wide(&w)), "a batch");
        let (x, w) = (whole(&[6, 9], 1, dtype, cx), whole(&[5, 9], 2, dtype, cx));
        let bias = whole(&[5], 3, DType::F32, cx);
        check(
            &x.linear(&w, &bias),
            &wide(&x).linear(&wide(&w), &wide(&bias)),
            "linear",
        );
        let narrow = jit(|x: &Tensor| x.linear(&w, None).cast(DType::BF16)).call(&x);
        assert_eq!(
            narrow.to_vec::<bf16>().unwrap(),
            x.linear(&w, None).cast(DType::BF16).to_vec::<bf16>().unwrap()
        );
        let (v, u) = (whole(&[30], 1, dtype, cx), whole(&[30], 4, dtype, cx));
        check(&v.dot(&u), &wide(&v).dot(&wide(&u)), "dot");
        check(
            &x.tensordot(&w, 1, 1),
            &wide(&x).tensordot(&wide(&w), 1, 1),
            "tensordot",
        );
        let einsum = |x: &Tensor, w: &Tensor| Tensor::einsum("ij,kj->ki", &[x, w]);
        check(&einsum(&x, &w), &einsum(&wide(&x), &wide(&w)), "einsum");
        // A wider operand decides, and the two formats meet in f32.
        let other = F8[usize::from(dtype == F8[0])];
        check(
            &x.matmul(&w.t().cast(other)),
            &wide(&x).matmul(&wide(&w).t()),
            "the two formats",
        );
        check(
            &x.matmul(&w.t().cast(DType::F32)),
            &wide(&x).matmul(&wide(&w).t()),
            "with f32",
        );
        assert_eq!(x.matmul(&w.t().cast(DType::F16)).dtype().unwrap(), DType::F16);
    }
}

/// A gradient has the dtype of what it belongs to, and is summed in f32 on the way.
fn gradients(contexts: &Contexts) {
    for (cx, dtype) in contexts.iter().flat_map(|cx| F8.map(|dtype| (cx, dtype))) {
        let x = whole(&[3, 4], 1, DType::F32, cx);
        let back = |x: &Tensor| x.cast(DType::F32);
        let twice = grad(|x: &Tensor| {
            let low = x.cast(dtype);
            (back(&low) * 2.0 + back(&low.t()).t() * 4.0).sum()
        });
        assert_eq!(twice.call(&x).to_vec::<f32>().unwrap(), [6.0; 12]);
        let index = Tensor::from_slice(&[1_i64, 1, 0], [3], cx);
        let taken = grad(|x: &Tensor| back(&x.cast(dtype).index_select(0, &index)).sum());
        assert_eq!(
            taken.call(&x).to_vec::<f32>().unwrap(),
            [1., 1., 1., 1., 2., 2., 2., 2., 0., 0., 0., 0.]
        );
        let spread = grad(|x: &Tensor| back(&x.cast(dtype).expand([5, 3, 4])).sum());
        assert_eq!(spread.call(&x).to_vec::<f32>().unwrap(), [5.0; 12]);
        // A recorded loop adds up the slopes of what it captures.
        let turns = |x: &Tensor| {
            let low = x.cast(dtype);
            fori_loop(0..40, x * 0.0, |_, y| y * 0.5 + back(&low)).sum()
        };
        let looped = jit(|x: &Tensor| grad(turns).call(x));
        let steps: f32 = (0..40).map(|i| 0.5_f32.powi(i)).sum();
        for slope in looped.call(&x).to_vec::<f32>().unwrap() {
            assert!((slope - steps).abs() < 0.3, "{dtype}: {slope} for {steps}");
        }
        let w = whole(&[4, 2], 5, dtype, cx);
        let product = grad(|x: &Tensor| x.cast(dtype).matmul(&w).sum());
        let wanted = grad(|x: &Tensor| x.matmul(&back(&w)).sum());
        let wanted = wanted.call(&x).cast(dtype).cast(DType::F32);
        assert_eq!(
            product.call(&x).to_vec::<f32>().unwrap(),
            wanted.to_vec::<f32>().unwrap()
        );
    }
}

fn arithmetic_is_refused(contexts: &Contexts) {
    type Run = fn(&Tensor) -> Tensor;
    let all: [(&str, Run); 27] = [
        ("add", |x| x + x),
        ("number", |x| x * 2.0),
        ("integer", |x| x - 1),
        ("integers", |x| x + x.cast(DType::I32)),
        ("div", |x| x / 2),
        ("neg", |x| -x),
        ("exp", Tensor::exp),
        ("sqrt", Tensor::sqrt),
        ("relu", Tensor::relu),
        ("gelu", Tensor::gelu),
        ("pow", |x| x.pow(2)),
        ("maximum", |x| x.maximum(0)),
        ("clamp", |x| x.clamp(0, 1)),
        ("sum", Tensor::sum),
        ("mean", Tensor::mean),
        ("max", Tensor::max),
        ("argmax", Tensor::argmax),
        ("var", |x| x.var(1)),
        ("softmax", |x| x.softmax(1)),
        ("cumsum", |x| x.cumsum(0)),
        ("cummax", |x| x.cummax(0)),
        ("sort", |x| x.sort(0, false)),
        ("sort_with_indices", |x| x.sort_with_indices(0, false).0),
        ("argsort", |x| x.argsort(0, false)),
        ("topk", |x| x.topk(1, 0, true).0),
        ("scatter_add", |x| {
            x.scatter_add(0, &x.cast(DType::I64).ne(x).cast(DType::I64), x)
        }),
        ("conv1d", |x| {
            x.unsqueeze(0)
                .conv1d(&x.unsqueeze(0), None, ConvOptions::default())
        }),
    ];
    for (cx, dtype) in contexts.iter().flat_map(|cx| F8.map(|dtype| (cx, dtype))) {
        let x = Tensor::ones([2, 3], dtype, cx);
        for (name, run) in all {
            let error = crate::values::read(&run(&x)).unwrap_err().to_string();
            let named = error.contains(dtype.name()) && error.contains("cast it to f32 or bf16 first");
            assert!(named, "{name} of {dtype}: {error}");
        }
        for random in [Tensor::rand([2], dtype, cx), Tensor::randn([2], dtype, cx)] {
            let error = crate::values::read(&random).unwrap_err().to_string();
            assert!(error.contains(dtype.name()) && error.contains("cast"), "{error}");
        }
        // Zeros and ones are constants.
        assert_eq!(bits(&Tensor::zeros([2], dtype, cx)), [0; 2]);
        assert_eq!(
            Tensor::ones([2], dtype, cx)
                .cast(DType::I8)
                .to_vec::<i8>()
                .unwrap(),
            [1; 2]
        );
    }
}
