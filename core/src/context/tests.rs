//! Each option does what it says.

use super::*;
use crate::error::Error;
use crate::grad::grad;
use crate::hal::DType;
use crate::jit::jit;
use crate::ops::{ConvOptions, Reduction};
use crate::tensor::Tensor;

fn with(mode: Precision) -> [Context; 2] {
    [Mode::Eager, Mode::Graph].map(|when| {
        let cx = ContextBuilder::new()
            .device_target("cpu")
            .precision_mode(mode)
            .mode(when);
        cx.build().unwrap()
    })
}

fn bits(tensor: &Tensor) -> Vec<u64> {
    let numbers = tensor.cast(DType::F64).to_vec::<f64>().unwrap();
    numbers.into_iter().map(f64::to_bits).collect()
}

/// A third in the dtype, and other numbers that narrow dtypes round.
fn numbers(dtype: DType, cx: &Context) -> Tensor {
    let data: Vec<f64> = (0..12).map(|n| f64::from(n) / 3.0 - 1.7).collect();
    Tensor::from_slice(&data, [3, 4], cx).cast(dtype)
}

#[test]
fn modes_have_the_names_of_the_field() {
    let names: Vec<&str> = Precision::ALL.iter().map(|mode| mode.name()).collect();
    let wanted = [
        "must_keep_origin_dtype",
        "force_fp32",
        "force_fp16",
        "allow_fp32_to_fp16",
        "allow_fp32_to_bf16",
        "allow_mix_precision",
        "allow_mix_precision_fp16",
        "allow_mix_precision_bf16",
    ];
    assert_eq!(names, wanted);
    for name in names {
        let toml = ContextBuilder::from_toml(&format!("precision_mode = {name:?}")).unwrap();
        let code = ContextBuilder::new().precision_mode(name.parse().unwrap());
        assert_eq!(toml, code, "{name}");
    }
    let error = "allow_fp8".parse::<Precision>().unwrap_err();
    assert!(
        error
            .message
            .starts_with("there is no precision mode \"allow_fp8\"")
    );
    assert!(ContextBuilder::from_toml("precision_mode = \"allow_fp8\"").is_err());
}

#[test]
fn each_mode_gives_each_class_its_dtype() {
    use DType::{BF16, F16, F32, F64};
    // Mode, operand; results of a matrix op, a full op and another op.
    let rows = [
        (Precision::MustKeepOriginDtype, F32, [F32, F32, F32]),
        (Precision::MustKeepOriginDtype, F16, [F16, F16, F16]),
        (Precision::ForceFp32, F16, [F32, F32, F32]),
        (Precision::ForceFp32, BF16, [F32, F32, F32]),
        (Precision::ForceFp16, F32, [F16, F16, F16]),
        (Precision::ForceFp16, BF16, [F16, F16, F16]),
        (Precision::AllowFp32ToFp16, F32, [F32, F32, F32]),
        (Precision::AllowFp32ToFp16, BF16, [BF16, BF16, BF16]),
        (Precision::AllowFp32ToBf16, F32, [F32, F32, F32]),
        (Precision::AllowMixPrecision, F32, [F16, F32, F32]),
        (Precision::AllowMixPrecisionFp16, F32, [F16, F32, F32]),
        (Precision::AllowMixPrecisionFp16, F16, [F16, F32, F16]),
        (Precision::AllowMixPrecisionBf16, F32, [BF16, F32, F32]),
        (Precision::AllowMixPrecisionBf16, F16, [BF16, F32, F16]),
        (Precision::ForceFp16, F64, [F64, F64, F64]),
        (Precision::AllowMixPrecision, F64, [F64, F64, F64]),
    ];
    for (mode, dtype, [matrix, full, other]) in rows {
        for cx in with(mode) {
            let x = numbers(dtype, &cx);
            let image = x.reshape([1, 3, 2, 2]);
            let kernel = Tensor::ones([2, 3, 1, 1], dtype, &cx);
            let bias = Tensor::ones(3, dtype, &cx);
            let matrices = [
                ("matmul", x.matmul(&x.t())),
                ("linear", x.linear(&x, &bias)),
                ("einsum", Tensor::einsum("ij,kj->ik", &[&x, &x])),
                ("conv2d", image.conv2d(&kernel, None, ConvOptions::new())),
                ("dot", x.flatten().dot(&x.flatten())),
                (
                    "attention",
                    x.scaled_dot_product_attention(&x, &x, Default::default()),
                ),
            ];
            let fulls = [
                ("softmax", x.softmax(1)),
                ("sum", x.sum()),
                ("mean", x.mean()),
                ("var", x.var(1)),
                ("norm", x.norm(2.0)),
                ("cumsum", x.cumsum(0)),
                ("exp", x.exp()),
                ("log", x.log()),
                ("pow", x.pow(2.5)),
                ("softplus", x.softplus()),
                ("layer_norm", x.layer_norm(4, None, None, 1e-5)),
                ("mse_loss", x.mse_loss(&x, Reduction::Mean)),
            ];
            let others = [
                ("add", &x + &x),
                ("mul", &x * 2.0),
                ("relu", x.relu()),
                ("tanh", x.tanh()),
                ("maximum", x.maximum(0.0)),
            ];
            let all = (matrices.iter().map(|op| (op, matrix)))
                .chain(fulls.iter().map(|op| (op, full)))
                .chain(others.iter().map(|op| (op, other)));
            for ((name, result), wanted) in all {
                assert_eq!(result.dtype().unwrap(), wanted, "{name} of {dtype} with {mode}");
            }
        }
    }
}

#[test]
fn modes_round_where_they_say_eagerly_and_in_graphs() {
    for (mode, low) in [
        (Precision::AllowFp32ToFp16, DType::F16),
        (Precision::AllowFp32ToBf16, DType::BF16),
    ] {
        let plain = Context::new("cpu").unwrap();
        let x = numbers(DType::F32, &plain);
        let narrow = x.cast(low);
        let wanted = bits(&narrow.matmul(&narrow.t()).cast(DType::F32));
        assert_ne!(wanted, bits(&x.matmul(&x.t())), "the rounding shows");
        for cx in with(mode) {
            let x = numbers(DType::F32, &cx);
            assert_eq!(bits(&x.matmul(&x.t())), wanted, "{mode}");
            assert_eq!(
                bits(&jit(|x: &Tensor| x.matmul(&x.t())).call(&x)),
                wanted,
                "{mode}"
            );
        }
    }
    for &mode in Precision::ALL {
        let f = |x: &Tensor| {
            (x.matmul(&x.t()).relu() * 0.3 + 0.1)
                .softmax(1)
                .sum_axes(0)
                .tanh()
        };
        let [eager, graph] = with(mode).map(|cx| {
            let x = numbers(DType::F32, &cx);
            let gradient = grad(|x: &Tensor| f(x).sum()).call(&x);
            assert_eq!(gradient.dtype().unwrap(), DType::F32, "{mode}");
            let compiled = jit(f).call(&x);
            assert_eq!(bits(&compiled), bits(&f(&x)), "{mode}");
            (bits(&f(&x)), bits(&gradient))
        });
        assert_eq!(eager, graph, "{mode}");
    }
}

#[test]
fn one_function_serves_contexts_of_several_modes() {
    let product = jit(|x: &Tensor| x.matmul(&x.t()));
    for (mode, dtype) in [
        (Precision::MustKeepOriginDtype, DType::F32),
        (Precision::AllowMixPrecision, DType::F16),
        (Precision::AllowMixPrecisionBf16, DType::BF16),
    ] {
        let [cx, _] = with(mode);
        let result = product.call(&numbers(DType::F32, &cx));
        assert_eq!(result.dtype().unwrap(), dtype, "{mode}");
    }
    assert_eq!(product.cache_len(), 3);
}

#[test]
fn fast_math_changes_graphs_alone() {
    let exact = Context::new("cpu").unwrap();
    let fast = ContextBuilder::new()
        .device_target("cpu")
        .fast_math(true)
        .build()
        .unwrap();
    assert!(fast.fast_math() && !exact.fast_math());
    let f = |x: &Tensor| (x / 3.0 * 0.7 * 1.3 + x) / 0.77;
    let data: Vec<f32> = (0..997).map(|n| n as f32 * 0.37 - 100.0).collect();
    let [exact, fast] = [exact, fast].map(|cx| {
        let x = Tensor::from_slice(&data, data.len(), &cx);
        (bits(&f(&x)), jit(f).call(&x))
    });
    assert_eq!(
        exact.0,
        bits(&exact.1),
        "without it, the bits are those of eager ops"
    );
    assert_eq!(exact.0, fast.0, "eager ops stay exact");
    assert_ne!(fast.0, bits(&fast.1), "graphs do not");
    let far = (&exact.1 - fast.1.to(exact.1.context().unwrap())).abs().max();
    let most = exact.1.abs().max();
    assert!(far.item::<f32>().unwrap() <= 4.0 * f32::EPSILON * most.item::<f32>().unwrap());
    // What is recorded and then read is a graph too.
    let recorded = ContextBuilder::new()
        .device_target("cpu")
        .fast_math(true)
        .mode(Mode::Graph);
    let x = Tensor::from_slice(&data, data.len(), &recorded.build().unwrap());
    assert_eq!(bits(&f(&x)), bits(&fast.1));
}

/// Bits of a compiled function in a context with these options.
fn compiled_bits(builder: ContextBuilder, f: fn(&Tensor) -> Tensor) -> Vec<u64> {
    let data: Vec<f32> = (0..997).map(|n| n as f32 * 0.37 - 100.0).collect();
    let cx = builder.device_target("cpu").build().unwrap();
    let x = Tensor::from_slice(&data, data.len(), &cx);
    let (recorded, compiled) = (jit(f).call(&x), bits(&jit(f).call(&x)));
    assert_eq!(bits(&recorded), compiled);
    compiled
}

/// 32 channels of the numbers times 32 of their first ones.
fn convolved(x: &Tensor) -> Tensor {
    let image = x
        .reshape([1, 1, 1, x.shape().unwrap()[0] as i64])
        .expand([1, 32, 5, -1]);
    let weights = x.narrow(0, 0, 9).reshape([1, 1, 3, 3]).expand([32, 32, -1, -1]);
    image.conv2d(&weights, None, ConvOptions::new().padding(1))
}

#[test]
fn convolutions_have_a_fast_form_in_graphs_alone() {
    let data: Vec<f32> = (0..997).map(|n| n as f32 * 0.37 - 100.0).collect();
    let fast = ContextBuilder::new().op_select_implmode(ImplMode::HighPerformance);
    let [exact, fast] = [ContextBuilder::new(), fast.optypelist_for_implmode(["conv"])].map(|builder| {
        let cx = builder.device_target("cpu").build().unwrap();
        let x = Tensor::from_slice(&data, data.len(), &cx);
        let compiled = jit(convolved).call(&x);
        (bits(&convolved(&x)), compiled)
    });
    assert_eq!(exact.0, bits(&exact.1), "exact unless asked for");
    assert_eq!(exact.0, fast.0, "eager ops stay exact");
    assert_ne!(fast.0, bits(&fast.1), "graphs do not");
    let far = (&exact.1 - fast.1.to(exact.1.context().unwrap())).abs().max();
    let most = exact.1.abs().max().item::<f32>().unwrap();
    assert!(far.item::<f32>().unwrap() <= 2e-5 * most);
}

#[test]
fn each_op_has_the_form_that_was_selected() {
    type Case = (&'static str, fn(&Tensor) -> Tensor);
    let cases: [Case; 5] = [
        ("conv", convolved),
        ("div", |x| x / 3.0),
        ("mul", |x| x * 0.7 * 1.3),
        ("add", |x| x + 0.1 + 0.7),
        ("sub", |x| x - 0.1 - 0.7),
    ];
    let fast = || ContextBuilder::new().op_select_implmode(ImplMode::HighPerformance);
    let precise = || ContextBuilder::new().op_select_implmode(ImplMode::HighPrecision);
    for (op, f) in cases {
        let others = || cases.iter().map(|case| case.0).filter(move |&other| other != op);
        let exact = compiled_bits(ContextBuilder::new(), f);
        let quick = compiled_bits(ContextBuilder::new().fast_math(true), f);
        assert_ne!(quick, exact, "{op}");
        assert_eq!(compiled_bits(fast(), f), quick, "{op}");
        assert_eq!(
            compiled_bits(fast().optypelist_for_implmode([op]), f),
            quick,
            "{op}"
        );
        assert_eq!(
            compiled_bits(fast().optypelist_for_implmode(others()), f),
            exact,
            "{op}"
        );
        assert_eq!(compiled_bits(precise(), f), exact, "{op}");
        let listed = precise().fast_math(true).optypelist_for_implmode([op]);
        assert_eq!(compiled_bits(listed, f), exact, "{op}");
        let listed = precise().fast_math(true).optypelist_for_implmode(others());
        assert_eq!(compiled_bits(listed, f), quick, "{op}");
    }
    // A product that stays exact is not rounded with a sum.
    let f: fn(&Tensor) -> Tensor = |x| x * x + x;
    let exact = compiled_bits(ContextBuilder::new(), f);
    assert_ne!(compiled_bits(fast(), f), exact);
    assert_eq!(compiled_bits(fast().optypelist_for_implmode(["add"]), f), exact);
    let both = fast().optypelist_for_implmode(["add", "mul"]);
    assert_eq!(compiled_bits(both, f), compiled_bits(fast(), f));
}

#[test]
fn modes_that_contradict_each_other_are_refused() {
    let refused = |builder: ContextBuilder| {
        let error = builder.device_target("cpu").build().unwrap_err();
        assert!(matches!(error, Error::Session(_)), "{error:?}");
        error.to_string()
    };
    let builder = ContextBuilder::new;
    assert_eq!(
        refused(builder().optypelist_for_implmode(["div"])),
        "optypelist_for_implmode is div; it needs op_select_implmode"
    );
    for (mode, fast) in [
        (ImplMode::HighPrecision, true),
        (ImplMode::HighPerformance, false),
    ] {
        assert_eq!(
            refused(builder().op_select_implmode(mode).fast_math(fast)),
            format!(
                "op_select_implmode is {mode}; fast_math is {fast}; give one of the two, or name ops in \
                 optypelist_for_implmode"
            )
        );
    }
    let toml =
        "op_select_implmode = \"high_precision\"\noptypelist_for_implmode = [\"mul\"]\nop_debug_level = 0";
    let code = builder()
        .op_select_implmode(ImplMode::HighPrecision)
        .optypelist_for_implmode(["mul"])
        .op_debug_level(DebugLevel::Off);
    assert_eq!(ContextBuilder::from_toml(toml).unwrap(), code);
    for bad in [
        "op_debug_level = 5",
        "op_debug_level = -1",
        "op_select_implmode = \"fast\"",
    ] {
        assert!(ContextBuilder::from_toml(bad).is_err(), "{bad}");
    }
}

#[test]
fn fast_math_joins_no_constants_beyond_the_dtype() {
    let cx = ContextBuilder::new()
        .device_target("cpu")
        .fast_math(true)
        .build()
        .unwrap();
    let values = [0.0_f32, 1e-30, -1e-30, 1.0];
    let x = Tensor::from_slice(&values, 4, &cx);
    type Case = (fn(&Tensor) -> Tensor, fn(f32) -> f32);
    let cases: [Case; 4] = [
        (|x| x * 1e30_f64 * 1e30_f64, |x| x * 1e30 * 1e30),
        (|x| x * 1e-30_f64 * 1e-30_f64, |x| x * 1e-30 * 1e-30),
        (
            |x| x * -3e38_f64 + 3e38_f64 + 3e38_f64,
            |x| x * -3e38 + 3e38 + 3e38,
        ),
        (|x| x - 3e38_f64 - 3e38_f64, |x| x - 3e38 - 3e38),
    ];
    for (at, (tensor, number)) in cases.into_iter().enumerate() {
        let got = jit(tensor).call(&x).to_vec::<f32>().unwrap();
        for (got, wanted) in got.into_iter().zip(values.map(number)) {
            let near = (got - wanted).abs() <= 4.0 * f32::EPSILON * wanted.abs();
            assert!(got == wanted || near, "case {at}: {got} for {wanted}");
        }
    }
    let half = x.cast(DType::F16);
    let got = jit(|x: &Tensor| x * 300.0 * 300.0).call(&half).cast(DType::F32);
    assert_eq!(got.to_vec::<f32>().unwrap()[0], 0.0);
}

#[test]
fn threads_are_what_the_backend_uses_and_set_once() {
    let threads = |n| ContextBuilder::new().device_target("cpu").threads(n).build();
    let cx = threads(1).unwrap();
    assert_eq!(crate::parallel::Pool::global().threads(), 1);
    let x = Tensor::ones([1 << 20], DType::F32, &cx);
    assert_eq!(x.sum().item::<f32>().unwrap(), 1_048_576.0);
    assert!(threads(1).is_ok());
    let error = threads(3).unwrap_err().to_string();
    assert!(
        error.starts_with("3 threads asked, an earlier context of this process set 1"),
        "{error}"
    );
    assert!(threads(0).unwrap_err().to_string().starts_with("0 threads"));
    let limit = cx.device().memory_stats().unwrap().limit;
    let both = ContextBuilder::new().device_target("cpu").memory_limit("1 MiB");
    assert!(both.clone().threads(3).build().is_err() && both.threads(0).build().is_err());
    assert_eq!(
        cx.device().memory_stats().unwrap().limit,
        limit,
        "nothing changes before all is checked"
    );
}

#[test]
fn streams_are_as_many_as_asked_and_compute() {
    let cx = ContextBuilder::new()
        .device_target("cpu")
        .streams(3)
        .build()
        .unwrap();
    assert_eq!(cx.streams().len(), 3);
    let handles: std::collections::HashSet<u64> = cx.streams().iter().map(|stream| stream.handle()).collect();
    assert_eq!(handles.len(), 3);
    let mut total = Tensor::scalar(0.0_f64, &cx);
    for (at, stream) in (1..100).zip(cx.streams().iter().cycle()) {
        let _on = stream.enter();
        total += Tensor::full(10, f64::from(at), &cx).sum();
    }
    assert_eq!(total.item::<f64>().unwrap(), 49_500.0);
    let many = ContextBuilder::new().device_target("cpu").streams(65).build();
    assert!(
        many.unwrap_err()
            .to_string()
            .starts_with("65 streams, at most 64")
    );
    assert!(Context::new("cpu").unwrap().streams().is_empty());
}

#[test]
fn determinism_is_about_seeds() {
    let build = |builder: ContextBuilder| builder.device_target("cpu").build().unwrap();
    let key = |builder: ContextBuilder| build(builder).next_key();
    let new = ContextBuilder::new;
    assert_eq!(key(new()), key(new().deterministic(true)));
    assert_ne!(key(new().deterministic(false)), key(new().deterministic(false)));
    assert_eq!(key(new().deterministic(false).seed(5)), key(new().seed(5)));
}

#[test]
fn the_memory_limit_is_the_pools() {
    let cx = ContextBuilder::new()
        .device_target("cpu")
        .memory_limit("1 GiB")
        .build()
        .unwrap();
    assert_eq!(cx.device().memory_stats().unwrap().limit, 1 << 30);
    let refused = Tensor::zeros([1 << 29], DType::F32, &cx).ok().unwrap_err();
    assert_eq!(refused.status(), Some(thalweg_hal::Status::OutOfMemory));
    let cx = ContextBuilder::new()
        .device_target("cpu")
        .memory_limit(0)
        .build()
        .unwrap();
    assert_eq!(cx.device().memory_stats().unwrap().limit, 0);
}

#[test]
fn options_of_environment_and_file_are_all_there() {
    let toml =
        "deterministic = false\nstreams = 2\nthreads = 4\nprecision_mode = \"force_fp32\"\nfast_math = true";
    let code = ContextBuilder::new()
        .deterministic(false)
        .streams(2)
        .threads(4)
        .precision_mode(Precision::ForceFp32)
        .fast_math(true);
    assert_eq!(ContextBuilder::from_toml(toml).unwrap(), code);
    for bad in [
        "streams = -1",
        "threads = \"four\"",
        "fast_math = 1",
        "fastmath = true",
        "deterministic = \"yes\"",
    ] {
        assert!(ContextBuilder::from_toml(bad).is_err(), "{bad}");
    }
}
