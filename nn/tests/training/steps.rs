//! What a step leaves behind: nothing where it fails, and what optimizers keep where a network is changed.

use super::{context, loader, model, samples, weights};
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::{DType, Mode, Tensor};
use thalweg_nn::data::{Column, Dataset, Loader};
use thalweg_nn::optim::{Adam, Clip, LossScale, Sgd};
use thalweg_nn::{BoxedLayer, Dense, Model, Module, Sequential, Tanh, Trained, loss};

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
        let rule = Adam::new(0.05);
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

/// Statistics of a batch that overflows, and the key that it dropped with, are not kept: nothing but the scale changes.
#[test]
fn a_step_that_is_left_out_changes_nothing_but_the_scale() {
    for mode in [Mode::Eager, Mode::Graph] {
        let cx = context(mode);
        let folder = tempfile::tempdir().unwrap();
        let saved = |model: &Model<super::Net>, name: &str| {
            let path = folder.path().join(name);
            model.save(&path).unwrap();
            let mut tensors = thalweg_nn::checkpoint::load(&path, &cx).unwrap().tensors;
            tensors.remove("run/position");
            let scale = tensors.remove("optimizer/loss_scale").unwrap();
            let bytes = |(name, tensor)| (name, Column::of(&tensor).unwrap().to_le_bytes());
            let rest: Vec<_> = tensors.into_iter().map(bytes).collect();
            (rest, scale.to_vec::<f32>().unwrap())
        };
        let mut model = model(&cx).loss_scale(LossScale::dynamic().start(256.0));
        model.train(1, &loader(), ()).unwrap();
        let before = saved(&model, "before");
        let huge = Tensor::full([10, 3], f32::MAX, &cx);
        model
            .train_step(&huge, &Tensor::zeros([10, 1], DType::F32, &cx))
            .unwrap();
        let after = saved(&model, "after");
        assert_eq!(before.0, after.0, "{mode:?}");
        assert_eq!((before.1, after.1), (vec![256.0, 4.0], vec![128.0, 0.0]));
    }
}

/// Limits, scales and groups that a trained model is given leave what its optimizers keep.
#[test]
fn rules_that_come_later_keep_what_was_kept() {
    for mode in [Mode::Eager, Mode::Graph] {
        let trained = || {
            let cx = context(mode);
            let mut model = Model::new(super::net(&cx), loss::mse, Adam::new(0.02), &cx);
            model.train(2, &loader(), ()).unwrap();
            model
        };
        let next = |mut model: Model<super::Net>| {
            model.train(3, &loader(), ()).unwrap();
            weights(&model)
        };
        let wanted = next(trained());
        assert_eq!(next(trained().clip(Clip::Value(1e9))), wanted, "{mode:?}");
        assert_eq!(
            next(trained().loss_scale(LossScale::fixed(1.0))),
            wanted,
            "{mode:?}"
        );
        assert_eq!(
            next(trained().group(|_| false, Sgd::new(9.0))),
            wanted,
            "{mode:?}"
        );
        // Of the picked ones the old optimizer's slots are no business of the new one.
        let mut grouped = trained().group(|path| path.starts_with("second"), Adam::new(0.02));
        let (before, key) = (weights(&grouped), grouped.net().clone());
        let mut fresh = Model::new(key, loss::mse, Adam::new(0.02), grouped.context());
        let mut whole = trained();
        assert_eq!(weights(&whole), before);
        let x = Tensor::ones([5, 3], DType::F32, grouped.context());
        for model in [&mut grouped, &mut fresh, &mut whole] {
            model.train_step(&x, &x.sum_axes(1).reshape([5, 1])).unwrap();
        }
        let all = weights(&whole).into_iter().zip(weights(&fresh));
        for ((name, found), (whole, fresh)) in weights(&grouped).into_iter().zip(all) {
            let wanted = if name.starts_with("second") {
                fresh.1
            } else {
                whole.1
            };
            assert_eq!(found, wanted, "{name}, {mode:?}");
        }
    }
}

/// A network of which nothing is trained runs, and its file can be loaded.
#[test]
fn a_network_may_be_frozen_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    for mode in [Mode::Eager, Mode::Graph] {
        let cx = context(mode);
        let path = folder.path().join("frozen.safetensors");
        let mut model = model(&cx).loss_scale(LossScale::dynamic());
        model.change(|net| net.set_trainable(false, |_| true));
        let before = model.net().first.weight.to_vec::<f32>().unwrap();
        model.train(1, &loader(), ()).unwrap();
        assert_eq!(model.net().first.weight.to_vec::<f32>().unwrap(), before);
        model.save(&path).unwrap();
        model.load(&path).unwrap();
        model.change(|net| net.set_trainable(true, |_| true));
        model.train(2, &loader(), ()).unwrap();
        assert_ne!(model.net().first.weight.to_vec::<f32>().unwrap(), before);
    }
}
