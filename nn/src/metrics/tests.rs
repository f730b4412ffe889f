//! Figures of small batches.

use super::*;
use thalweg::Context;

/// Values of scikit-learn 1.5 for the same predictions.
#[test]
fn figures_of_a_small_batch() {
    let cx = Context::new("cpu").unwrap();
    let predicted = [0, 2, 1, 0, 0, 1, 2, 2];
    let target = [0_i64, 1, 2, 0, 1, 1, 2, 2];
    let mut rows = vec![0.0_f32; 24];
    predicted
        .iter()
        .enumerate()
        .for_each(|(at, &class)| rows[at * 3 + class] = 1.0);
    let output = Tensor::from_slice(&rows, [8, 3], &cx);
    let target = Tensor::from_slice(&target, 8, &cx);
    let check = |mut metric: Box<dyn Metric>, wanted: f64| {
        assert!(
            matches!(metric.eval(), Err(MetricError::NoValue(_))),
            "{}",
            metric.name()
        );
        metric.update(&output, &target, Some(0.5)).unwrap();
        let got = metric.eval().unwrap();
        assert!((got - wanted).abs() < 1e-12, "{} {got}", metric.name());
        metric.clear();
        assert!(metric.eval().is_err());
    };
    check(Box::<Accuracy>::default(), 0.625);
    // Equal scores rank by class: of rows with one 1, class 0 comes second unless it is first.
    check(Box::new(Accuracy::top(2)), 0.75);
    check(Box::new(Accuracy::top(3)), 1.0);
    check(
        Box::new(ClassScores::precision(3)),
        (2.0 / 3.0 + 0.5 + 2.0 / 3.0) / 3.0,
    );
    check(
        Box::new(ClassScores::recall(3)),
        (1.0 + 1.0 / 3.0 + 2.0 / 3.0) / 3.0,
    );
    check(Box::new(ClassScores::f1(3)), (0.8 + 0.4 + 2.0 / 3.0) / 3.0);
    check(Box::<MeanLoss>::default(), 0.5);
    check(Box::<Perplexity>::default(), 0.5_f64.exp());
    let mut matrix = ClassScores::recall(3);
    matrix.update(&output, &target, None).unwrap();
    assert_eq!(matrix.matrix().to_string(), " 2 0 0\n 1 1 1\n 0 1 2\n");
}

#[test]
fn errors_and_ranks_of_numbers() {
    let cx = Context::new("cpu").unwrap();
    let output = Tensor::from_slice(&[0.1_f32, 0.4, 0.35, 0.8], 4, &cx);
    let target = Tensor::from_slice(&[0.0_f32, 0.0, 1.0, 1.0], 4, &cx);
    let mut auc = RocAuc::default();
    auc.update(&output, &target, None).unwrap();
    assert_eq!(auc.eval().unwrap(), 0.75);
    for (mut metric, wanted) in [(Deviation::mae(), 0.3375), (Deviation::mse(), 0.158_125)] {
        metric.update(&output, &target, None).unwrap();
        assert!((metric.eval().unwrap() - wanted).abs() < 1e-6);
        let wide = Tensor::from_slice(&[0.0_f32; 4], [2, 2], &cx);
        assert!(matches!(
            metric.update(&wide, &target, None),
            Err(MetricError::Shapes { .. })
        ));
    }
}
