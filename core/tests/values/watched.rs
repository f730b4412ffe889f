//! Loops, branches, checkpoints, gradients, recorded and eager ops.

use super::{Seen, bits, taken, watch};
use thalweg::observe::{Phase, Port, Selector};
use thalweg::{
    Context, DType, Mode, Tensor, checkpoint, cond, fori_loop, jit, scan, value_and_grad, while_loop,
};

fn cx() -> Context {
    Context::new("cpu").unwrap()
}

fn vector(cx: &Context) -> Tensor {
    Tensor::from_slice(&[0.5_f32, -1.25, 2.0], 3, cx)
}

fn floats(seen: &Seen) -> Vec<f32> {
    seen.bits
        .iter()
        .map(|&bits| f32::from_bits(bits as u32))
        .collect()
}

#[test]
fn a_loop_delivers_each_turn_and_a_branch_the_one_that_is_taken() {
    let cx = cx();
    let x = vector(&cx);
    // More turns than are unrolled.
    for turns in [3, 20] {
        let (watching, seen) = watch(&cx, Selector::op("mul"));
        let doubled = jit(move |x: &Tensor| fori_loop(0..turns, x.clone(), |_, x| &x * 2.0));
        doubled.call(&x).to_vec::<f32>().unwrap();
        drop(watching);
        let seen = taken(&seen);
        let firsts: Vec<f32> = seen.iter().map(|seen| floats(seen)[0]).collect();
        let wanted: Vec<f32> = (1..=turns).map(|turn| 0.5 * 2_f32.powi(turn as i32)).collect();
        assert_eq!(firsts, wanted);
        assert!(
            seen.iter().all(|one| one.name == seen[0].name),
            "each turn has the same name"
        );
    }
    let (watching, seen) = watch(&cx, Selector::all());
    let branch = jit(|x: &Tensor| cond(&x.sum().gt(100.0), |x: &Tensor| x.exp(), |x: &Tensor| x.tanh(), x));
    branch.call(&x).to_vec::<f32>().unwrap();
    drop(watching);
    let ops: Vec<&str> = taken(&seen).iter().map(|seen| seen.op).collect();
    assert!(ops.contains(&"tanh") && !ops.contains(&"exp"), "{ops:?}");
    let (watching, seen) = watch(&cx, Selector::op("add"));
    let counted = jit(|x: &Tensor| while_loop(|x: &Tensor| x.sum().lt(10.0), |x: Tensor| x + 1.0, x.clone()));
    counted.call(&x).to_vec::<f32>().unwrap();
    drop(watching);
    let firsts: Vec<f32> = taken(&seen).iter().map(|seen| floats(seen)[0]).collect();
    assert_eq!(firsts, [1.5, 2.5, 3.5]);
}

#[test]
fn a_checkpoint_delivers_its_first_pass_and_all_gradients() {
    let cx = cx();
    let x = vector(&cx);
    let layer = |x: &Tensor| (x.exp() * x).tanh();
    let plain = jit(value_and_grad(move |x: &Tensor| layer(x).sum()));
    let again = jit(value_and_grad(move |x: &Tensor| checkpoint(layer).call(x).sum()));
    let names = |step: &dyn Fn() -> (Tensor, Tensor)| {
        let before = step();
        let (watching, seen) = watch(&cx, Selector::all());
        let after = step();
        assert_eq!(
            (bits(&before.0), bits(&before.1)),
            (bits(&after.0), bits(&after.1))
        );
        drop(watching);
        let mut seen: Vec<(String, Vec<u64>)> = taken(&seen)
            .into_iter()
            .map(|seen| (seen.name, seen.bits))
            .collect();
        seen.retain(|(name, _)| !name.starts_with("Gradients"));
        seen.sort();
        seen
    };
    let (one, other) = (names(&|| plain.call(&x)), names(&|| again.call(&x)));
    assert_eq!(one.len(), 4, "{one:?}");
    assert_eq!(one, other);
    let (watching, seen) = watch(&cx, Selector::phase(Phase::Gradient));
    let (_, gradient) = again.call(&x);
    drop(watching);
    let seen = taken(&seen);
    assert!(seen.iter().any(|seen| seen.bits == bits(&gradient)), "{seen:?}");
}

#[test]
fn eager_recorded_and_compiled_ops_have_the_same_names_and_values() {
    let cx = cx();
    let x = vector(&cx);
    let network = |x: &Tensor| {
        let _scope = thalweg::observe::scope("head");
        (x.exp() + 1.0).log().softmax(0)
    };
    let run = |compute: &dyn Fn() -> Tensor| {
        let (watching, seen) = watch(&cx, Selector::scope("Default/head"));
        thalweg::observe::restart_calls();
        compute().to_vec::<f32>().unwrap();
        drop(watching);
        taken(&seen)
    };
    let compiled = jit(network);
    let eager = run(&|| network(&x));
    let traced = run(&|| compiled.call(&x));
    cx.set_mode(Mode::Graph);
    let recorded = run(&|| network(&x));
    cx.set_mode(Mode::Eager);
    let names: Vec<&str> = eager.iter().map(|seen| seen.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "Default/head/exp-op1",
            "Default/head/add-op2",
            "Default/head/log-op3",
            "Default/head/softmax-op4"
        ]
    );
    assert_eq!(eager, traced);
    assert_eq!(eager, recorded);
}

#[test]
fn inputs_statistics_and_passes() {
    let cx = cx();
    let x = Tensor::from_slice(&[3.0_f32, f32::NAN, -4.0, 0.0, f32::INFINITY, 0.0], [2, 3], &cx);
    let twice = jit(|x: &Tensor| (x + x) * 0.5);
    let figures = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let sink = std::sync::Arc::clone(&figures);
    let selector = Selector::op("add").statistics().with_inputs();
    let watching = cx.watch(selector, move |value| {
        assert!(value.tensor().is_none());
        assert_eq!((value.dtype(), value.shape().to_vec()), (DType::F32, vec![2, 3]));
        sink.lock()
            .unwrap()
            .push((value.port(), value.statistics().unwrap()));
    });
    twice.call(&x).to_vec::<f32>().unwrap();
    drop(watching);
    let figures = figures.lock().unwrap();
    assert_eq!(
        figures.iter().map(|(port, _)| *port).collect::<Vec<_>>(),
        [Port::Input(0), Port::Output(0)]
    );
    for ((_, figures), scale) in figures.iter().zip([1.0, 2.0]) {
        assert_eq!(
            (figures.count, figures.nan, figures.infinite, figures.zeros),
            (6, 1, 1, 2)
        );
        assert_eq!(
            (figures.min, figures.max, figures.l2),
            (-4.0 * scale, 3.0 * scale, 5.0 * scale)
        );
        assert_eq!(figures.mean, -0.25 * scale);
    }
    // A watcher's own ops are not watched, and each sees figures of values too.
    let watching = cx.watch(Selector::all(), |value| {
        let tensor = value.tensor().unwrap();
        let twice = (tensor + tensor).to_vec::<f32>().unwrap();
        assert_eq!(value.statistics().unwrap().count as usize, twice.len());
    });
    twice.call(&x).to_vec::<f32>().unwrap();
    drop(watching);
}

#[test]
fn a_scan_and_its_gradient_keep_their_bits() {
    let cx = cx();
    let xs = Tensor::randn([12, 4], DType::F32, &cx);
    let start = Tensor::zeros([4], DType::F32, &cx);
    let step = jit(value_and_grad(|xs: &Tensor, start: &Tensor| {
        let (last, _) = scan(
            |sum: Tensor, x: Tensor| ((&sum + x).tanh(), sum),
            start.clone(),
            xs,
        );
        last.square().sum()
    }));
    let before = step.call((&xs, &start));
    let (watching, seen) = watch(&cx, Selector::all());
    let after = step.call((&xs, &start));
    drop(watching);
    assert_eq!(
        (bits(&before.0), bits(&before.1)),
        (bits(&after.0), bits(&after.1))
    );
    let seen = taken(&seen);
    let turns = |op: &str, prefix: &str| {
        seen.iter()
            .filter(|seen| seen.op == op && seen.name.starts_with(prefix))
            .count()
    };
    assert_eq!((turns("tanh", "Default"), turns("add", "Default")), (12, 12));
    assert!(turns("tanh", "Gradients") >= 12);
}

/// A value that is watched on another context is not delivered.
#[test]
fn contexts_are_watched_apart() {
    let (one, other) = (cx(), cx());
    let (watching, seen) = watch(&one, Selector::all());
    vector(&other).exp().to_vec::<f32>().unwrap();
    assert!(taken(&seen).is_empty());
    vector(&one).exp().to_vec::<f32>().unwrap();
    assert_eq!(taken(&seen).len(), 1);
    drop(watching);
    vector(&one).exp().to_vec::<f32>().unwrap();
    assert!(taken(&seen).is_empty());
}
