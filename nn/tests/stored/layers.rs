//! Outputs and gradients of layers: PyTorch's in f64, ours in f32.

use super::{close, part, stored};
use thalweg::ops::{AttentionOptions, ConvOptions, ConvTransposeOptions};
use thalweg::{Context, DType, Mode, Result, Tensor, Tree, jit, value_and_grad};
use thalweg_nn::*;

/// Relative to outputs and gradients above 1: a few hundred rounding errors of f32.
const TOLERANCE: f64 = 2e-5;

#[derive(Clone, Copy, Debug)]
enum Way {
    Eager,
    Recorded,
    Compiled,
}

/// The weight of element i in the sum whose gradient is taken.
fn cotangent(like: &Tensor) -> Tensor {
    let (shape, cx) = (like.shape().unwrap(), like.context().unwrap());
    let weights = (0..shape.elements()).map(|i| ((i * 7 % 11) as f32 - 5.0) / 8.0);
    Tensor::from_vec(weights.collect(), shape, cx)
}

fn check<M: Module + Tree>(
    name: &str,
    make: impl Fn(&Context) -> Result<M>,
    forward: impl Fn(&M, &[Tensor]) -> Tensor,
) {
    for way in [Way::Eager, Way::Recorded, Way::Compiled] {
        let cx = Context::new("cpu").unwrap();
        let file = stored("layers", &cx);
        if matches!(way, Way::Recorded) {
            cx.set_mode(Mode::Graph);
        }
        let mut net = make(&cx).unwrap();
        let mut params = part(&file, &format!("{name}/param/"));
        let missing = params.fill(&mut net).unwrap();
        let is_state = |path: &String| path.contains("running") || path.ends_with("dropout.key");
        assert!(missing.iter().all(is_state), "{name}: {missing:?}");
        assert!(params.tensors.is_empty(), "{name}: {:?}", params.tensors.keys());
        part(&file, &format!("{name}/before/")).fill(&mut net).unwrap();
        net.set_training(!name.ends_with("eval"));

        let inputs: Vec<Tensor> = part(&file, &format!("{name}/in/"))
            .tensors
            .into_values()
            .collect();
        let is_float = |x: &&Tensor| x.dtype().unwrap() == DType::F32;
        let floats: Vec<Tensor> = inputs.iter().filter(is_float).cloned().collect();
        let wanted = part(&file, &format!("{name}/state/"));
        let weights = cotangent(&file.tensors[&format!("{name}/out")]);
        let loss = |(values, floats): &(Vec<Tensor>, Vec<Tensor>)| {
            let net = module::with_trainable(&net, values);
            let given = if floats.is_empty() { &inputs } else { floats };
            let output = forward(&net, given);
            let states = module::named(&net)
                .into_iter()
                .filter(|(path, _)| wanted.tensors.contains_key(path));
            let states: Vec<Tensor> = states.map(|(_, state)| state).collect();
            ((&output * &weights).sum(), (output, states))
        };
        let given = (module::trainable(&net), floats);
        let with_gradients = value_and_grad(loss);
        let ((_, (output, states)), (grads, input_grads)) = match way {
            Way::Eager | Way::Recorded => with_gradients.call(&given),
            Way::Compiled => {
                jit(|given: &(Vec<Tensor>, Vec<Tensor>)| with_gradients.call(given)).call(&given)
            }
        };
        let close = |what: &str, found: &Tensor, wanted: &Tensor| {
            close(&format!("{name}, {way:?}: {what}"), found, wanted, TOLERANCE);
        };
        close("output", &output, &file.tensors[&format!("{name}/out")]);
        for ((path, _), grad) in module::trainable_named(&net).iter().zip(&grads) {
            close(path, grad, &file.tensors[&format!("{name}/grad/{path}")]);
        }
        for (at, grad) in input_grads.iter().enumerate() {
            close(
                "input's gradient",
                grad,
                &file.tensors[&format!("{name}/grad_in/{at}")],
            );
        }
        // Both are in the order of names.
        assert_eq!(states.len(), wanted.tensors.len(), "{name}");
        for (state, (path, wanted)) in states.iter().zip(&wanted.tensors) {
            close(path, state, wanted);
        }
    }
}

macro_rules! cases {
    ($($name:ident: |$cx:ident| $make:expr $(, |$net:ident, $x:ident| $forward:expr)?;)*) => { $(
        #[test]
        fn $name() {
            check(stringify!($name), |$cx| $make, cases!(@forward $(|$net, $x| $forward)?));
        }
    )* };
    (@forward) => { |net, x| net.forward(&x[0]) };
    (@forward |$net:ident, $x:ident| $forward:expr) => { |$net, $x| $forward };
}

fn conv() -> ConvOptions {
    ConvOptions::new()
}

fn transposed() -> ConvTransposeOptions {
    ConvTransposeOptions::new()
}

cases! {
    dense: |cx| Dense::new(5, 3, cx);
    embedding: |cx| Embedding::new(6, 4, cx);
    embedding_padding: |cx| Embedding::new(6, 4, cx).map(|layer| Embedding { padding: Some(2), ..layer });
    conv1d: |cx| Conv1d::new(4, 6, [3], conv().stride(2).padding(1).groups(2), cx);
    conv2d: |cx| Conv2d::new(3, 4, [3, 2], conv().stride([2, 1]).padding(1), cx);
    conv2d_dilated: |cx| Conv2d::new(2, 4, [3, 3], conv().padding(2).dilation(2).groups(2), cx);
    conv3d: |cx| Conv3d::new(2, 3, [2, 3, 2], conv().padding(1), cx);
    conv_transpose1d: |cx| ConvTranspose1d::new(4, 2, [3], transposed().stride(2).padding(1).output_padding(1), cx);
    conv_transpose2d: |cx| ConvTranspose2d::new(4, 6, [3, 3], transposed().stride(2).groups(2), cx);
    conv_transpose3d: |cx| ConvTranspose3d::new(2, 3, [2, 2, 2], transposed().stride(2).padding(1), cx);
    batch_norm: |cx| BatchNorm::new(3, cx);
    batch_norm_eval: |cx| BatchNorm::new(3, cx);
    layer_norm: |cx| LayerNorm::new(&[3, 4], cx);
    group_norm: |cx| GroupNorm::new(2, 6, cx);
    rms_norm: |cx| RmsNorm::new(6, cx);
    instance_norm: |_cx| Ok(InstanceNorm::default());
    prelu: |cx| Prelu::new(3, cx);
    lstm: |cx| Lstm::new(3, 4, cx);
    gru: |cx| Gru::new(3, 4, cx);
    attention: |cx| MultiHeadAttention::new(8, 2, cx), |net, x| net.attend(&x[0], &x[1], AttentionOptions::new());
    attention_causal: |cx| MultiHeadAttention::new(8, 2, cx), |net, x| {
        net.attend(&x[0], &x[0], AttentionOptions::new().causal(true))
    };
    encoder: |cx| TransformerEncoderLayer::new(8, 2, 12, cx);
    encoder_pre_norm: |cx| TransformerEncoderLayer::new(8, 2, 12, cx).map(|mut layer| {
        layer.pre_norm = true;
        layer
    });
    decoder: |cx| TransformerDecoderLayer::new(8, 2, 12, cx), |net, x| {
        net.decode(&x[0], &x[1], AttentionOptions::new())
    };
    decoder_pre_norm: |cx| TransformerDecoderLayer::new(8, 2, 12, cx).map(|mut layer| {
        layer.pre_norm = true;
        layer
    }), |net, x| net.decode(&x[0], &x[1], AttentionOptions::new());
    max_pool1d: |_cx| Ok(MaxPool1d::new(2));
    max_pool2d: |_cx| Ok(MaxPool2d::new(2));
    max_pool3d: |_cx| Ok(MaxPool3d::new(2));
    avg_pool1d: |_cx| Ok(AvgPool1d::new(2));
    avg_pool2d: |_cx| Ok(AvgPool2d::new(2));
    avg_pool3d: |_cx| Ok(AvgPool3d::new(2));
    relu6: |_cx| Ok(Relu6);
    gelu: |_cx| Ok(Gelu);
    silu: |_cx| Ok(Silu);
    mish: |_cx| Ok(Mish);
    selu: |_cx| Ok(Selu);
    softplus: |_cx| Ok(Softplus);
    hardsigmoid: |_cx| Ok(Hardsigmoid);
    hardswish: |_cx| Ok(Hardswish);
    elu: |_cx| Ok(Elu { alpha: 0.7 });
    leaky_relu: |_cx| Ok(LeakyRelu { slope: 0.2 });
    log_softmax: |_cx| Ok(LogSoftmax);
}

#[test]
fn inputs_without_positions_are_refused() {
    let cx = Context::new("cpu").unwrap();
    for shape in [&[2, 3][..], &[1, 2, 5, 3]] {
        let x = Tensor::zeros(shape, DType::F32, &cx);
        for output in [
            Lstm::new(3, 4, &cx).unwrap().forward(&x),
            Gru::new(3, 4, &cx).unwrap().forward(&x),
        ] {
            let error = output.to_vec::<f32>().unwrap_err().to_string();
            assert!(error.starts_with("permute: "), "{error}");
        }
    }
}
