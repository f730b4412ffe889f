"""Figures of metrics."""

import numpy
from sklearn import metrics as m

from store import save


def metrics():
    draw = numpy.random.default_rng(3)
    count, classes = 40, 5
    # Class 4 never is a target, so that a class with predictions alone is met.
    target = draw.integers(0, 4, count)
    scores = draw.normal(size=(count, classes)) + 1.5 * numpy.eye(classes)[target]
    predicted, labels = scores.argmax(1), range(classes)
    average = {"average": "macro", "zero_division": 0}
    scores_of = {
        "precision": m.precision_score, "recall": m.recall_score, "f1": m.f1_score,
        "f_0.5": lambda *given, **how: m.fbeta_score(*given, beta=0.5, **how), "f_2": lambda *given, **how: m.fbeta_score(*given, beta=2.0, **how),
    }
    averages = {
        f"{name}_{kind}": score(target, predicted, average=kind, zero_division=0)
        for name, score in scores_of.items() for kind in ("micro", "weighted")
    }
    averages |= {
        f"{name}_each": score(target, predicted, labels=labels, average=None, zero_division=0) for name, score in scores_of.items()
    }
    log = scores - numpy.log(numpy.exp(scores).sum(1, keepdims=True))
    losses = -log[numpy.arange(count), target]
    truth, chance = draw.integers(0, 2, count), draw.integers(0, 12, count) / 12
    false, true, thresholds = m.roc_curve(truth, chance, drop_intermediate=False)
    x, y = draw.normal(size=(count, 3)), draw.normal(size=(count, 3))
    save("metrics", {
        "scores": scores, "target": target, "truth": truth.astype("float64"), "chance": chance, "x": x, "y": y, "losses": losses,
        "accuracy": m.accuracy_score(target, predicted), "top_2": m.top_k_accuracy_score(target, scores, k=2, labels=labels),
        "top_3": m.top_k_accuracy_score(target, scores, k=3, labels=labels),
        "precision": m.precision_score(target, predicted, **average), "recall": m.recall_score(target, predicted, **average),
        "f1": m.f1_score(target, predicted, **average), "f_0.5": m.fbeta_score(target, predicted, beta=0.5, **average),
        "f_2": m.fbeta_score(target, predicted, beta=2.0, **average),
        "confusion": m.confusion_matrix(target, predicted, labels=labels).astype("int64"),
        "auc": m.roc_auc_score(truth, chance), "roc": numpy.stack([thresholds, false, true], 1),
        "mae": m.mean_absolute_error(x.ravel(), y.ravel()), "mse": m.mean_squared_error(x.ravel(), y.ravel()),
        "loss": losses.mean(), "perplexity": numpy.exp(losses.mean()),
    } | averages)
