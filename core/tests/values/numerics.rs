//! The first op that makes a NaN or an infinity.

use thalweg::random::Mt19937;
use thalweg::{
    Context, DType, Mode, NumericsError, Tensor, checkpoint, fori_loop, jit, scan, value_and_grad,
};

fn cx() -> Context {
    let cx = Context::new("cpu").unwrap();
    cx.check_numerics(true);
    cx
}

fn birth<T: std::fmt::Debug>(result: thalweg::Result<T>) -> NumericsError {
    let error = result.unwrap_err();
    error.numerics().unwrap_or_else(|| panic!("{error}")).clone()
}

/// The element `at` of a random matrix is made the wrong one for layer `bad` of a chain. The chain has 10 layers.
fn chain(x: &Tensor, poison: &Tensor, bad: usize) -> (Tensor, u32) {
    let mut x = x.clone();
    let mut line = 0;
    for layer in 0..10 {
        let _scope = thalweg::observe::scope(&format!("layer{layer}"));
        x = x.matmul(&x.t()).tanh() + 2.0;
        if layer == bad {
            line = line!() + 1;
            x = (x * poison).log();
        }
        x = x.softmax(1);
    }
    (x.sum(), line)
}

#[test]
fn a_hundred_planted_nans_are_found_with_op_line_and_element() {
    let mut dice = Mt19937::new(3);
    let mut below = |end: usize| dice.next_u32() as usize % end;
    let cx = cx();
    let compiled: Vec<_> = (0..10)
        .map(|bad| jit(move |x: &Tensor, poison: &Tensor| chain(x, poison, bad).0))
        .collect();
    for case in 0..100 {
        let (bad, row, column) = (below(10), below(6), below(6));
        let data: Vec<f32> = (0..36).map(|_| below(1000) as f32 / 1000.0).collect();
        let x = Tensor::from_slice(&data, [6, 6], &cx);
        let mut poison = vec![1.0_f32; 36];
        poison[row * 6 + column] = -1.0;
        let poison = Tensor::from_slice(&poison, [6, 6], &cx);
        let clean = Tensor::ones([6, 6], DType::F32, &cx);
        let (result, line) = match case % 3 {
            0 => {
                let (_, line) = chain(&x, &clean, bad);
                compiled[bad].call((&x, &clean)).item::<f32>().unwrap();
                (compiled[bad].call((&x, &poison)).item::<f32>(), line)
            }
            way => {
                cx.set_mode([Mode::Eager, Mode::Graph][way - 1]);
                let (sum, line) = chain(&x, &poison, bad);
                let result = sum.item::<f32>();
                cx.set_mode(Mode::Eager);
                (result, line)
            }
        };
        let error = birth(result);
        assert_eq!(
            (error.op.as_str(), error.index.as_slice()),
            ("log", [row, column].as_slice()),
            "{error}"
        );
        assert_eq!(error.location.map(|at| at.line()), Some(line), "{error}");
        assert_eq!(error.scope, format!("Default/layer{bad}"));
        assert!(error.value.is_nan() && error.nan == 1 && error.infinite == 0);
        assert_eq!(error.inputs.len(), 1);
        let (min, max) = error.inputs[0].bounds.unwrap();
        let element = error.inputs[0].element.unwrap();
        assert!(
            min == element && element < -1.0 && max > 1.0 && error.inputs[0].nan == 0,
            "{error}"
        );
    }
}

#[test]
fn clean_runs_and_values_from_outside_are_no_errors() {
    let cx = cx();
    let x = Tensor::from_slice(&[1.0_f32, f32::NAN, f32::INFINITY, -2.0], 4, &cx);
    let step = jit(|x: &Tensor| (x.exp() + 1.0).tanh() * 2.0);
    for _ in 0..4 {
        let values = step.call(&x).to_vec::<f32>().unwrap();
        assert!(values[1].is_nan() && values[2] == 2.0, "{values:?}");
    }
    assert!((&x + 1.0).to_vec::<f32>().unwrap()[1].is_nan());
    // Constants that are infinite on purpose.
    let mask = Tensor::from_slice(&[true, false, true], 3, &cx);
    let scores = Tensor::from_slice(&[1.0_f32, 2.0, 3.0], 3, &cx);
    let masked = |scores: &Tensor, mask: &Tensor| mask.where_cond(scores, f32::NEG_INFINITY).softmax(0);
    let wanted = masked(&scores, &mask).to_vec::<f32>().unwrap();
    let compiled = jit(masked);
    for _ in 0..3 {
        assert_eq!(compiled.call((&scores, &mask)).to_vec::<f32>().unwrap(), wanted);
    }
    // Without the check nothing is an error.
    cx.check_numerics(false);
    assert!(
        Tensor::scalar(-1.0_f32, &cx)
            .log()
            .item::<f32>()
            .unwrap()
            .is_nan()
    );
}

/// What comes from outside hides no later birth.
#[test]
fn a_nan_beside_infinities_from_outside_is_found() {
    let cx = cx();
    let bias = Tensor::from_slice(&[0.0_f32, f32::NEG_INFINITY, 0.0], 3, &cx);
    let step = jit(|x: &Tensor, bias: &Tensor| (x.log() + bias).softmax(0));
    let good = Tensor::from_slice(&[1.0_f32, 2.0, 3.0], 3, &cx);
    for _ in 0..4 {
        step.call((&good, &bias)).to_vec::<f32>().unwrap();
    }
    let bad = Tensor::from_slice(&[1.0_f32, 2.0, -3.0], 3, &cx);
    let error = birth(step.call((&bad, &bias)).to_vec::<f32>());
    assert_eq!(
        (error.op.as_str(), error.index.as_slice()),
        ("log", [2].as_slice())
    );
}

#[test]
fn f16_overflows_have_a_birthplace() {
    let cx = cx();
    let x = Tensor::from_slice(&[100.0_f32, 300.0], 2, &cx).cast(DType::F16);
    let squares = |x: &Tensor| x.square().sum();
    for result in [squares(&x), jit(squares).call(&x)] {
        let error = birth(result.to_scalar());
        assert_eq!(
            (error.op.as_str(), error.index.as_slice(), error.value),
            ("square", [1].as_slice(), f64::INFINITY)
        );
        assert_eq!(error.inputs[0].element, Some(300.0));
        assert_eq!(error.dtype, DType::F16);
    }
}

#[test]
fn gradients_loops_and_checkpoints_have_birthplaces() {
    let cx = cx();
    let x = Tensor::from_slice(&[1.0_f32, 0.0, 4.0], 3, &cx);
    // Finite forward: the slope of a square root at 0 is infinite.
    let loss = |x: &Tensor| x.sqrt().sum();
    for (_, gradient) in [value_and_grad(loss).call(&x), jit(value_and_grad(loss)).call(&x)] {
        let error = birth(gradient.to_vec::<f32>());
        assert_eq!(
            (error.op.as_str(), error.scope.as_str()),
            ("sqrt", "Gradients/Default"),
            "{error}"
        );
        assert_eq!(error.index, [1]);
    }
    // In the body of a loop or of a checkpoint too.
    let line = line!() + 1;
    let root = |x: &Tensor| x.sqrt();
    let (rows, start) = (
        Tensor::zeros([12, 3], DType::F32, &cx),
        Tensor::zeros([3], DType::F32, &cx),
    );
    let inside = jit(value_and_grad(move |x: &Tensor| checkpoint(root).call(x).sum()));
    let turns = jit(value_and_grad(move |rows: &Tensor, start: &Tensor| {
        scan(|sum: Tensor, x: Tensor| (sum + root(&x), ()), start.clone(), rows)
            .0
            .sum()
    }));
    for gradient in [inside.call(&x).1, turns.call((&rows, &start)).1] {
        let error = birth(gradient.to_vec::<f32>());
        assert_eq!(
            (error.op.as_str(), error.scope.as_str()),
            ("sqrt", "Gradients/Default"),
            "{error}"
        );
        assert_eq!(error.location.map(|at| at.line()), Some(line), "{error}");
    }
    let grows = |x: &Tensor| fori_loop(0..40, x.clone(), |_, x| x.square() + 1.0).sum();
    for result in [grows(&x), jit(grows).call(&x)] {
        let error = birth(result.item::<f32>());
        assert_eq!(error.op, "square", "{error}");
        assert!(error.value.is_infinite());
    }
    let deep = |x: &Tensor| checkpoint(|x: &Tensor| (x - 2.0).log()).call(x).sum();
    for (value, _) in [value_and_grad(deep).call(&x), jit(value_and_grad(deep)).call(&x)] {
        let error = birth(value.item::<f32>());
        assert_eq!(
            (error.op.as_str(), error.index.as_slice()),
            ("log", [0].as_slice()),
            "{error}"
        );
    }
}

#[test]
fn the_message_is_enough_to_find_the_line() {
    let cx = cx();
    let x = Tensor::from_slice(&[1.0_f32, -0.5], 2, &cx);
    let line = line!() + 1;
    let text = x.log().sum().item::<f32>().unwrap_err().to_string();
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("log: makes NaN at [1] of f32[2] out of finite numbers")
    );
    let wanted = format!("  at {}:{line}, device cpu:0", file!());
    assert_eq!(lines.next(), Some(wanted.as_str()));
    assert!(
        text.contains("input 0, f32[2]: -0.5 there, min -0.5, max 1.0, mean 0.25"),
        "{text}"
    );
}

#[test]
fn options_switch_it_on() {
    let cx = Context::builder()
        .device_target("cpu")
        .check_numerics(true)
        .build()
        .unwrap();
    assert!(cx.checks_numerics());
    birth(Tensor::scalar(-1.0_f32, &cx).sqrt().item::<f32>());
    let options = thalweg::context::ContextBuilder::from_toml("check_numerics = true").unwrap();
    assert!(options.build().unwrap().checks_numerics());
}
