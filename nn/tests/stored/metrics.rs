//! Metrics against scikit-learn's, in two batches.

use super::{numbers, stored};
use thalweg::{Context, Tensor};
use thalweg_nn::metrics::{
    Accuracy, Average, ClassScores, ConfusionMatrix, Deviation, MeanLoss, Metric, MetricError, Perplexity,
    RocAuc,
};

/// Two batches of different sizes.
fn halves(tensor: &Tensor) -> [Tensor; 2] {
    let count = tensor.shape().unwrap()[0];
    [tensor.narrow(0, 0, 13), tensor.narrow(0, 13, count - 13)]
}

#[test]
fn figures_are_those_of_scikit_learn() {
    let cx = Context::new("cpu").unwrap();
    let file = stored("metrics", &cx);
    let given = |name: &str| &file.tensors[name];
    let classes: [Box<dyn Metric>; 16] = [
        Box::new(Accuracy::new()),
        Box::new(Accuracy::top(2)),
        Box::new(Accuracy::top(3)),
        Box::new(ClassScores::precision(5)),
        Box::new(ClassScores::recall(5)),
        Box::new(ClassScores::f1(5)),
        Box::new(ClassScores::f_beta(5, 0.5)),
        Box::new(ClassScores::f_beta(5, 2.0)),
        Box::new(ClassScores::precision(5).average(Average::Micro)),
        Box::new(ClassScores::recall(5).average(Average::Weighted)),
        Box::new(ClassScores::f1(5).average(Average::Micro)),
        Box::new(
            ClassScores::f1(5)
                .average(Average::Micro)
                .average(Average::Weighted),
        ),
        Box::new(ClassScores::precision(5).average(Average::Weighted)),
        Box::new(ClassScores::f_beta(5, 2.0).average(Average::Weighted)),
        Box::new(MeanLoss::default()),
        Box::new(Perplexity::default()),
    ];
    let numeric: [Box<dyn Metric>; 2] = [Box::new(Deviation::mae()), Box::new(Deviation::mse())];
    let ranked: [Box<dyn Metric>; 1] = [Box::new(RocAuc::default())];
    let all = (classes.into_iter().map(|metric| (metric, "scores", "target")))
        .chain(numeric.into_iter().map(|metric| (metric, "x", "y")))
        .chain(ranked.into_iter().map(|metric| (metric, "chance", "truth")));
    for (mut metric, output, target) in all {
        let name = metric.name().to_owned();
        // What was gathered before is forgotten.
        metric
            .update(
                &given(output).narrow(0, 0, 9),
                &given(target).narrow(0, 0, 9),
                Some(9.0),
            )
            .unwrap();
        metric.clear();
        assert!(matches!(metric.eval(), Err(MetricError::NoValue(_))), "{name}");
        let batches = halves(given(output)).into_iter().zip(halves(given(target)));
        for ((output, target), losses) in batches.zip(halves(given("losses"))) {
            let losses = numbers(&losses);
            let loss = losses.iter().sum::<f64>() / losses.len() as f64;
            metric.update(&output, &target, Some(loss)).unwrap();
        }
        let (found, wanted) = (metric.eval().unwrap(), numbers(given(&name))[0]);
        assert!((found - wanted).abs() < 1e-12, "{name}: {found}, {wanted}");
    }

    let (mut matrix, mut ranks) = (ConfusionMatrix::new(5), RocAuc::default());
    matrix.update(given("scores"), given("target")).unwrap();
    let counts: Vec<f64> = matrix
        .eval()
        .unwrap()
        .concat()
        .into_iter()
        .map(|count| count as f64)
        .collect();
    assert_eq!(counts, numbers(given("confusion")));
    ranks.update(given("chance"), given("truth"), None).unwrap();
    let points = ranks.curve().unwrap().into_iter();
    let points: Vec<f64> = points
        .flat_map(|point| [point.threshold, point.false_positives, point.true_positives])
        .collect();
    assert_eq!(points, numbers(given("roc")));
}

/// Each class's figure, with a class that never is a target, and one beyond those that occur at all.
#[test]
fn figures_of_each_class_are_those_of_scikit_learn() {
    let cx = Context::new("cpu").unwrap();
    let file = stored("metrics", &cx);
    for mut metric in [
        ClassScores::precision(5),
        ClassScores::recall(5).average(Average::Micro),
        ClassScores::f1(5).each_class(),
        ClassScores::f_beta(5, 0.5),
    ] {
        assert!(matches!(metric.per_class(), Err(MetricError::NoValue(_))));
        metric
            .update(&file.tensors["scores"], &file.tensors["target"], None)
            .unwrap();
        let name = metric.name().trim_end_matches("_micro").to_owned();
        let (found, wanted) = (
            metric.per_class().unwrap(),
            numbers(&file.tensors[&format!("{name}_each")]),
        );
        assert_eq!(found.len(), wanted.len());
        for (class, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
            assert!(
                (found - wanted).abs() < 1e-12,
                "{name} of {class}: {found}, {wanted}"
            );
        }
        let listed = metric.figures().unwrap();
        if name != "f1" {
            assert_eq!(listed, [(metric.name().to_owned(), metric.eval().unwrap())]);
            continue;
        }
        assert_eq!(listed.len(), 6);
        for (class, (name, figure)) in listed[1..].iter().enumerate() {
            assert_eq!(
                (name.as_str(), *figure),
                (format!("f1_{class}").as_str(), found[class])
            );
        }
    }
}

/// The usual three samples: MindSpore's figures of each class.
#[test]
fn figures_of_each_class_of_the_usual_samples() {
    let cx = Context::new("cpu").unwrap();
    let scores = Tensor::from_slice(&[0.2_f32, 0.5, 0.3, 0.1, 0.9, 0.6], [3, 2], &cx);
    let target = Tensor::from_slice(&[1_i64, 0, 1], 3, &cx);
    for (mut metric, wanted) in [
        (ClassScores::precision(2), [0.5, 1.0]),
        (ClassScores::recall(2), [1.0, 0.5]),
        (ClassScores::f1(2), [2.0 / 3.0, 2.0 / 3.0]),
    ] {
        metric.update(&scores, &target, None).unwrap();
        assert_eq!(metric.per_class().unwrap(), wanted, "{}", metric.name());
    }
}

#[test]
fn targets_of_one_kind_have_no_characteristic() {
    let cx = Context::new("cpu").unwrap();
    let (scores, ones) = (
        Tensor::from_slice(&[0.1_f32, 0.9], 2, &cx),
        Tensor::from_slice(&[1.0_f32, 1.0], 2, &cx),
    );
    let mut ranks = RocAuc::default();
    ranks.update(&scores, &ones, None).unwrap();
    let error = ranks.eval().unwrap_err().to_string();
    assert_eq!(error, "auc: 2 targets are 1 and 0 are 0; it takes both");
}

/// Scores with places behind the classes, as a language model has them.
#[test]
fn classes_may_have_places() {
    let cx = Context::new("cpu").unwrap();
    let scores = Tensor::from_slice(&[9.0_f32, 1.0, 2.0, 3.0, 5.0, 4.0], [1, 2, 3], &cx);
    let mut accuracy = Accuracy::new();
    accuracy
        .update(&scores, &Tensor::from_slice(&[0_i64, 1, 0], [1, 3], &cx), None)
        .unwrap();
    assert_eq!(accuracy.eval().unwrap(), 2.0 / 3.0);
}

/// Two of three rows have their target's score on top; there is nothing before the first batch.
#[test]
fn accuracy_of_the_acceptance_case() {
    let cx = Context::new("cpu").unwrap();
    let scores = Tensor::from_slice(&[0.2_f32, 0.5, 0.3, 0.1, 0.9, 0.6], [3, 2], &cx);
    let target = Tensor::from_slice(&[1_i64, 0, 1], 3, &cx);
    let mut accuracy = Accuracy::new();
    let early = accuracy.eval().unwrap_err().to_string();
    assert_eq!(
        early,
        "accuracy: there is nothing to evaluate; call `update` first"
    );
    accuracy.update(&scores, &target, None).unwrap();
    assert_eq!(accuracy.eval().unwrap(), 2.0 / 3.0);
}

#[test]
fn outputs_that_do_not_fit_are_refused() {
    let cx = Context::new("cpu").unwrap();
    let (wide, flat) = (
        Tensor::from_slice(&[0.0_f32; 4], [2, 2], &cx),
        Tensor::from_slice(&[0.0_f32; 4], 4, &cx),
    );
    let metrics: [Box<dyn Metric>; 4] = [
        Box::new(Accuracy::new()),
        Box::new(ClassScores::f1(2)),
        Box::new(Deviation::mse()),
        Box::new(RocAuc::default()),
    ];
    for mut metric in metrics {
        let error = metric.update(&wide, &flat, None).unwrap_err();
        assert!(matches!(error, MetricError::Shapes { .. }), "{error}");
        assert!(
            error.to_string().ends_with(": outputs [2, 2] and targets [4]"),
            "{error}"
        );
    }
}

/// A network that has diverged is right about nothing, and no figure of it beats one of a network that has not.
#[test]
fn scores_that_are_nan_are_wrong() {
    let cx = Context::new("cpu").unwrap();
    let scores = |row: [f32; 3]| Tensor::from_slice(&[row, row, row].concat(), [3, 3], &cx);
    let target = Tensor::from_slice(&[0_i64, 1, 2], 3, &cx);
    let nan = f32::NAN;
    for (row, k, wanted) in [
        ([nan; 3], 1, 0.0),
        // The target's own score, or one beside it, is NaN.
        ([nan, 2.0, 1.0], 1, 0.0),
        ([nan, 2.0, 1.0], 2, 1.0 / 3.0),
        ([2.0, nan, nan], 2, 0.0),
        ([2.0, 1.0, 0.0], 1, 1.0 / 3.0),
    ] {
        let mut accuracy = Accuracy::top(k);
        accuracy.update(&scores(row), &target, None).unwrap();
        assert_eq!(accuracy.eval().unwrap(), wanted, "{row:?}, {k}");
    }
    for mut figure in [
        ClassScores::precision(3),
        ClassScores::recall(3),
        ClassScores::f1(3),
    ] {
        figure.update(&scores([nan, 2.0, 1.0]), &target, None).unwrap();
        assert_eq!(figure.eval().unwrap(), 0.0);
        assert_eq!(figure.matrix().eval().unwrap(), [[0; 3]; 3]);
    }
    // In this order of scores and targets, a sort that has NaN on top would tell an area of 1.
    let (chance, truth) = (
        Tensor::from_slice(&[nan, nan, nan], 3, &cx),
        Tensor::from_slice(&[1.0_f32, 1.0, 0.0], 3, &cx),
    );
    let mut ranks = RocAuc::default();
    ranks.update(&chance, &truth, None).unwrap();
    assert!(ranks.eval().unwrap().is_nan());
    let error = ranks.curve().unwrap_err().to_string();
    assert!(error.starts_with("auc: 3 scores are NaN"), "{error}");
}

#[test]
fn targets_that_are_no_class_are_left_out() {
    let cx = Context::new("cpu").unwrap();
    let scores = Tensor::from_slice(&[0.2_f32, 0.5, 0.3, 0.1, 0.9, 0.6, 0.0, 1.0], [4, 2], &cx);
    let target = Tensor::from_slice(&[1_i64, -100, 1, 2], 4, &cx);
    let (mut accuracy, mut recall) = (Accuracy::new(), ClassScores::recall(2));
    accuracy.update(&scores, &target, None).unwrap();
    recall.update(&scores, &target, None).unwrap();
    assert_eq!((accuracy.eval().unwrap(), recall.eval().unwrap()), (0.5, 0.25));
}
