//! What a step leaves behind: nothing where it fails, and what optimizers keep where a network is changed.

use super::{context, loader, model, samples, weights};
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::{DType, Mode, Tensor};
use thalweg_nn::data::{Column, Dataset, Loader};
use thalweg_nn::optim::Sgd;
use thalweg_nn::{BoxedLayer, Dense, Model, Sequential, Tanh, Trained, loss};

#[test]
fn a_step_that_fails_tells_its_error_and_changes_nothing() {
    for mode in [Mode::Eager, Mode::Graph] {
        let cx = context(mode);
        let ones = |shape: [usize; 2]| Tensor::ones(shape, DType::F32, &cx);
        let (mut hurt, mut whole) = (model(&cx), None);
        for round in 0..3 {
            let before = weights(&hurt);
            // As many columns as no layer takes, and as many targets as there are no outputs.
            for (x, y) in [(ones([10, 4]), ones([10, 1])), (ones([10, 3]), ones([7, 1]))] {
                let error = hurt.train_step(&x, &y).unwrap_err().to_string();
                assert!(error.contains("10"), "{error}");
            }
            assert_eq!((hurt.steps(), weights(&hurt)), (round, before));
            hurt.train_step(&ones([10, 3]), &ones([10, 1])).unwrap();
        }
        cx.set_seed(3);
        let undisturbed = whole.insert(model(&cx));
        for _ in 0..3 {
            undisturbed.train_step(&ones([10, 3]), &ones([10, 1])).unwrap();
        }
        assert_eq!(weights(undisturbed), weights(&hurt), "{mode:?}");
    }
}

#[test]
fn a_bad_batch_ends_training_without_callbacks() {
    static BATCH: AtomicUsize = AtomicUsize::new(0);
    let cx = context(Mode::Graph);
    let data = samples().map(|mut batch| {
        if BATCH.fetch_add(1, Ordering::SeqCst) == 2
            && let Column::F32(x) = &mut batch.x.data
        {
            x.truncate(10);
            batch.x.shape = vec![10, 1];
        }
        Ok(batch)
    });
    let mut model = model(&cx);
    let error = model.train(5, &Loader::new(data, 10), ()).unwrap_err();
    assert!(error.to_string().contains("[10, 1]"), "{error}");
    assert_eq!(model.steps(), 2);
    for (name, tensor) in model.named() {
        assert!(tensor.isfinite().all().item::<bool>().unwrap(), "{name}");
    }
    model.train(1, &loader(), ()).unwrap();
}

/// Slots of another shape belong to no parameter of the network that there is, and those of the same go on.
#[test]
fn a_layer_of_another_shape_starts_with_its_own_slots() {
    for mode in [Mode::Eager, Mode::Graph] {
        let cx = context(mode);
        let dense = |inputs, outputs| Dense::new(inputs, outputs, &cx).unwrap();
        let net = Sequential::new().then(dense(3, 4)).then(Tanh).then(dense(4, 1));
        let rule = Sgd::new(0.05).momentum(0.9);
        let mut changed = Model::new(net, loss::mse, rule, &cx);
        changed.train(2, &loader(), ()).unwrap();
        let wider = (BoxedLayer::new(dense(4, 2)), BoxedLayer::new(dense(2, 1)));
        changed.change(|net| {
            net.layers[2] = wider.0;
            net.layers.push(wider.1);
        });
        let mut fresh = Model::new(changed.net().clone(), loss::mse, rule, &cx);
        let x = Tensor::ones([5, 3], DType::F32, &cx);
        for model in [&mut changed, &mut fresh] {
            model.train_step(&x, &x.sum_axes(1).reshape([5, 1])).unwrap();
        }
        for ((name, found), (_, wanted)) in changed.named().into_iter().zip(fresh.named()) {
            let same = found.to_vec::<f32>().unwrap() == wanted.to_vec::<f32>().unwrap();
            assert_eq!(same, !name.starts_with("layers.0"), "{name}");
        }
    }
}
