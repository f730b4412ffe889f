//! Compiled graphs serve networks that compute the same, and no others.

use super::context;
use thalweg::{Context, Mode, Tensor, jit};
use thalweg_nn::optim::Sgd;
use thalweg_nn::{
    AvgPool2d, BoxedLayer, Dense, Flatten, Layer, MaxPool2d, Model, Module, Relu, Sequential, Softmax, Tanh,
    loss,
};

/// What one compiled function gives for all networks is what each computes by itself.
fn compare<N: Layer + thalweg::Tree>(nets: &[N], x: &Tensor) {
    let forward = jit(|net: &N, x: &Tensor| net.forward(x));
    for _ in 0..2 {
        for net in nets {
            let (found, wanted) = (forward.call((net, x)), net.forward(x));
            assert_eq!(found.shape().unwrap(), wanted.shape().unwrap());
            assert_eq!(found.to_vec::<f32>().unwrap(), wanted.to_vec::<f32>().unwrap());
        }
    }
    assert_eq!(forward.cache_len(), nets.len());
}

fn input(cx: &Context) -> Tensor {
    let values: Vec<f32> = (0..16).map(|i| (i * 7 % 16) as f32 / 4.0 - 2.0).collect();
    Tensor::from_slice(&values, [1, 1, 4, 4], cx)
}

#[test]
fn layers_of_different_types_with_equal_parts_are_told_apart() {
    let cx = context(Mode::Eager);
    let nets = [
        Sequential::new().then(Relu),
        Sequential::new().then(Tanh),
        Sequential::new().then(Softmax),
        Sequential::new().then(Flatten),
        Sequential::new().then(MaxPool2d::new(2)),
        Sequential::new().then(AvgPool2d::new(2)),
        Sequential::new().then(Relu).then(Tanh),
        Sequential::new().then(Tanh).then(Relu),
        Sequential::new().then(Sequential::new().then(Tanh)).then(Relu),
    ];
    compare(&nets, &input(&cx));
}

#[test]
fn a_layer_that_is_replaced_in_a_model_counts_at_once() {
    let mut results = Vec::new();
    for mode in [Mode::Eager, Mode::Graph] {
        let cx = context(mode);
        let x = input(&cx);
        let net = Sequential::new()
            .then(thalweg_nn::Dense::new(4, 4, &cx).unwrap())
            .then(Relu);
        let mut model = Model::new(net, loss::mse, Sgd::new(0.1), &cx);
        let mut found = Vec::new();
        for layer in [
            BoxedLayer::new(Relu),
            BoxedLayer::new(Tanh),
            BoxedLayer::new(Relu),
        ] {
            model.change(|net| net.layers[1] = layer);
            let (loss, _) = model.train_step(&x, &x).unwrap();
            found.push(loss.item::<f32>().unwrap());
            found.extend(model.predict(&x).to_vec::<f32>().unwrap());
            found.extend(model.net().layers[1].forward(&x).to_vec::<f32>().unwrap());
        }
        results.push(found);
    }
    assert_eq!(results[0], results[1]);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Side {
    Above,
    Below,
}

/// A layer with a setting of its own type, and a name that does not matter.
#[derive(Clone, Module)]
struct Half {
    #[module(setting)]
    side: Side,
    #[module(skip)]
    #[allow(dead_code, reason = "it stands for what a forward pass does not read")]
    name: &'static str,
}

impl Layer for Half {
    fn forward(&self, x: &Tensor) -> Tensor {
        match self.side {
            Side::Above => x.maximum(0.0),
            Side::Below => x.minimum(0.0),
        }
    }
}

#[test]
fn settings_of_own_types_are_told_apart_and_skipped_fields_are_not() {
    let cx = context(Mode::Eager);
    let half = |side, name| Half { side, name };
    compare(
        &[half(Side::Above, "first"), half(Side::Below, "first")],
        &input(&cx),
    );
    let forward = jit(|net: &Half, x: &Tensor| net.forward(x));
    for name in ["first", "second"] {
        forward.call((&half(Side::Above, name), &input(&cx)));
    }
    assert_eq!(forward.cache_len(), 1);
}

#[test]
fn an_op_in_a_chain_has_the_line_that_its_layer_was_added_at() -> thalweg_nn::Result<()> {
    let cx = Context::new("cpu")?;
    let inner = Sequential::new().then(Relu).then(Dense::new(4, 2, &cx)?);
    let added = line!() - 1;
    let net = Sequential::new().then(Relu).then(inner);
    let wrong = Tensor::ones([1, 3], thalweg::DType::F32, &cx);
    let here = format!("{}:{added}", file!());
    let eager = net.forward(&wrong).to_vec::<f32>().unwrap_err().to_string();
    assert!(eager.contains(&here), "{eager}");
    let traced = thalweg::jit(|x: &Tensor| net.forward(x)).call(&wrong);
    let traced = traced.to_vec::<f32>().unwrap_err().to_string();
    assert!(traced.contains(&here), "{traced}");
    // Behind the chain lines are the user's own again.
    let right = Tensor::ones([1, 4], thalweg::DType::F32, &cx);
    let own = net.forward(&right).matmul(&wrong).to_vec::<f32>();
    let here = format!("{}:{}", file!(), line!() - 1);
    let own = own.unwrap_err().to_string();
    assert!(own.contains(&here), "{own}");
    Ok(())
}
