//! Draws against the generator's published words and the distributions' moments.

use super::Key;
use crate::hal::DType;
use crate::{Context, Mode, Tensor};

fn contexts() -> [Context; 2] {
    [Mode::Eager, Mode::Graph].map(|mode| {
        let cx = Context::new("cpu").unwrap();
        cx.set_mode(mode);
        cx
    })
}

fn values(tensor: &Tensor) -> Vec<f64> {
    tensor.cast(DType::F64).to_vec::<f64>().unwrap()
}

fn message(tensor: Tensor) -> String {
    tensor
        .ok()
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default()
}

#[test]
fn words_are_those_of_the_published_test() {
    for cx in contexts() {
        // Known answers of Random123: philox4x32-10 with counter and key 0.
        let words = Key::new(0, &cx).bits([2, 2]).to_vec::<u32>().unwrap();
        assert_eq!(words, [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        let uniform = Key::new(0, &cx).uniform([2], DType::F32).to_vec::<f32>().unwrap();
        assert_eq!(
            uniform,
            [0x6627e8, 0xe169c5].map(|bits: u32| bits as f32 / 16_777_216.0)
        );
        let double = Key::new(0, &cx).uniform([1], DType::F64).item::<f64>().unwrap();
        assert_eq!(
            double,
            (0xe169_c58d_6627_e8d5_u64 >> 11) as f64 / (1_u64 << 53) as f64
        );
    }
}

/// Mean, variance, skewness and kurtosis.
fn moments(values: &[f64]) -> [f64; 4] {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let central = |power| values.iter().map(|x| (x - mean).powi(power)).sum::<f64>() / count;
    let variance = central(2);
    [
        mean,
        variance,
        central(3) / variance.powf(1.5),
        central(4) / variance.powi(2),
    ]
}

#[test]
fn distributions_have_their_moments() {
    let cx = Context::new("cpu").unwrap();
    let count = 200_000;
    for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
        let key = Key::new(11, &cx);
        let normal = values(&key.normal([count], dtype));
        assert!(normal.iter().all(|x| x.abs() < 9.0));
        for (got, (wanted, tolerance)) in
            moments(&normal)
                .into_iter()
                .zip([(0.0, 0.01), (1.0, 0.02), (0.0, 0.03), (3.0, 0.06)])
        {
            assert!(
                (got - wanted).abs() < tolerance,
                "normal {dtype}: {got}, not {wanted}"
            );
        }
        let uniform = values(&key.uniform([count], dtype));
        assert!(uniform.iter().all(|x| (0.0..1.0).contains(x)), "{dtype}");
        let [mean, variance, skew, kurtosis] = moments(&uniform);
        // Narrow dtypes round down, by half a step on average.
        let step = if dtype == DType::BF16 { 0.002 } else { 0.0003 };
        assert!(
            (mean + step / 2.0 - 0.5).abs() < 0.004 && (variance - 1.0 / 12.0).abs() < 0.002,
            "{dtype} {mean} {variance}"
        );
        assert!(skew.abs() < 0.02 && (kurtosis - 1.8).abs() < 0.02, "{dtype}");
    }
    let key = Key::new(3, &cx);
    let share = moments(&values(&key.bernoulli(0.3, [count])))[0];
    assert!((share - 0.3).abs() < 0.005, "{share}");
    assert_eq!(moments(&values(&key.bernoulli(1.0, [1000])))[0], 1.0);
    assert_eq!(moments(&values(&key.bernoulli(0.0, [1000])))[0], 0.0);
    let faces = values(&key.randint(-2, 4, [count]));
    for face in -2..4 {
        let share = faces.iter().filter(|&&x| x == f64::from(face)).count() as f64 / count as f64;
        assert!((share - 1.0 / 6.0).abs() < 0.005, "{face}: {share}");
    }
    let wide = key.randint(i64::MIN, i64::MAX, [100]).to_vec::<i64>().unwrap();
    assert!(wide.iter().any(|&x| x < i64::MIN / 2) && wide.iter().any(|&x| x > i64::MAX / 2));
}

#[test]
fn keys_give_the_same_numbers_again_and_others_for_others() {
    for cx in contexts() {
        let order = Key::new(5, &cx).permutation(1000).to_vec::<i64>().unwrap();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1000).collect::<Vec<i64>>());
        assert_ne!(order, sorted);
        assert_eq!(order, Key::new(5, &cx).permutation(1000).to_vec::<i64>().unwrap());
        let derived = |number| {
            Key::new(5, &cx)
                .fold_in(number)
                .bits([8])
                .to_vec::<u32>()
                .unwrap()
        };
        assert_eq!(derived(1), derived(1));
        assert_ne!(derived(1), derived(2));
        let given = Tensor::scalar(5_u64, &cx);
        assert_eq!(
            order,
            Key::from_tensor(&given)
                .permutation(1000)
                .to_vec::<i64>()
                .unwrap()
        );
        cx.set_seed(1);
        let first = values(&Tensor::randn([4], DType::F32, &cx));
        let second = values(&Tensor::randn([4], DType::F32, &cx));
        cx.set_seed(1);
        assert_eq!(first, values(&Tensor::randn([4], DType::F32, &cx)));
        assert_ne!(first, second);
    }
}

#[test]
fn dropout_keeps_the_mean() {
    for cx in contexts() {
        let x = Tensor::ones([100, 1000], DType::F32, &cx);
        let key = Key::new(1, &cx);
        let dropped = values(&x.dropout(0.2, &key));
        assert!(dropped.iter().all(|&x| x == 0.0 || x == 1.25));
        let mean = dropped.iter().sum::<f64>() / 1e5;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        let slope = crate::grad::grad(|x: &Tensor| x.dropout(0.2, &key).sum()).call(&x);
        assert_eq!(values(&slope), dropped);
        assert_eq!(values(&x.dropout(1.0, &key).sum()), [0.0]);
    }
}

#[test]
fn what_cannot_be_drawn_is_refused() {
    let cx = Context::new("cpu").unwrap();
    let key = Key::new(0, &cx);
    assert!(message(key.uniform([2], DType::I32)).starts_with("uniform: i32 is no float"));
    assert!(message(key.bernoulli(1.5, [2])).starts_with("bernoulli: probability 1.5"));
    assert!(message(key.randint(3, 3, [2])).starts_with("randint: integers from 3 to 3"));
    assert!(
        message(Key::from_tensor(&Tensor::scalar(1_i64, &cx)).bits([1])).starts_with("key: a key of i64")
    );
    let traced = crate::jit(|x: &Tensor| x + Tensor::rand([2], DType::F32, x.context().unwrap()));
    assert!(
        message(traced.call(&Tensor::zeros([2], DType::F32, &cx))).starts_with("rand: a traced function")
    );
    let keyed = crate::jit(|number: &Tensor| Key::from_tensor(number).uniform([2], DType::F32));
    let draw = |number: u64| values(&keyed.call(&Tensor::scalar(number, &cx)));
    assert_ne!(draw(1), draw(2));
    assert_eq!(draw(2), values(&Key::new(2, &cx).uniform([2], DType::F32)));
}
