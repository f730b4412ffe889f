//! Weights that are kept, and the loss around them.

use super::{context, data, model, train};
use std::fs;
use thalweg::Mode;
use thalweg_nn::callback::SummaryCollector;
use thalweg_nn::summary::{SummaryOptions, landscape};

/// Options with these keys of `collect_landscape`.
fn collector(folder: &std::path::Path, keys: &str) -> SummaryCollector {
    let path = folder.display();
    let text = format!(
        r#"{{"summary_dir": "{path}", "collect_specified_data": {{"collect_landscape": {{{keys}}}}}}}"#
    );
    SummaryCollector::with(SummaryOptions::from_json(&text).unwrap())
}

#[test]
fn the_loss_around_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let plain = train(Mode::Graph, 3, ()).unwrap();
    let cx = context(Mode::Graph);
    let mut model = model(&cx);
    let keys = r#""landscape_size": 5, "num_samples": 40, "intervals": [[1, 10, 20, 30], [5, 6, 7]]"#;
    model.train(3, &data(), collector(folder.path(), keys)).unwrap();
    assert_eq!(super::bits(&model), plain);
    let trained = model.eval(&data()).unwrap()["loss"];
    let landscapes = landscape(folder.path(), &model, &data()).unwrap();
    assert_eq!(super::bits(&model), plain);
    let names: Vec<&str> = landscapes
        .iter()
        .map(|landscape| landscape.name.as_str())
        .collect();
    assert_eq!(names, ["step 1-30", "step 5-7", "result"]);
    for landscape in &landscapes {
        assert_eq!(
            (landscape.x.len(), landscape.y.len(), landscape.loss.len()),
            (5, 5, 25)
        );
        assert!(landscape.loss.iter().all(|loss| loss.is_finite()));
    }
    // The middle of the last one is the trained network.
    let result = &landscapes[2];
    assert_eq!((result.x[2], result.y[2]), (0.0, 0.0));
    assert!(
        (result.loss[12] - trained).abs() < 1e-6,
        "{} {trained}",
        result.loss[12]
    );
    assert!(result.loss[0] > result.loss[12]);
    let way: Vec<u64> = landscapes[0].path.iter().map(|(at, _)| *at).collect();
    assert_eq!(way, [1, 10, 20, 30]);
    let text = fs::read_to_string(folder.path().join("landscape.json")).unwrap();
    assert!(text.contains("\"name\": \"step 1-30\""));
}

#[test]
fn what_is_kept_is_what_is_asked_for() {
    let kept = |keys: &str| {
        let folder = tempfile::tempdir().unwrap();
        train(Mode::Graph, 3, collector(folder.path(), keys)).unwrap();
        let mut names: Vec<String> = fs::read_dir(folder.path().join("ckpt_dir"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".safetensors"))
            .collect();
        names.sort();
        names
    };
    assert_eq!(kept("").len(), 10);
    let epochs = |numbers: &[u64]| -> Vec<String> {
        numbers
            .iter()
            .map(|number| format!("epoch_{number:08}.safetensors"))
            .collect()
    };
    assert_eq!(kept(r#""unit": "epoch""#), epochs(&[1, 2, 3]));
    assert_eq!(
        kept(r#""unit": "epoch", "create_landscape": {"train": false}"#),
        epochs(&[3])
    );
    let numbers = kept(r#""intervals": [[2, 4, 8]], "create_landscape": {"result": false}"#);
    assert_eq!(
        numbers,
        [2, 4, 8].map(|number| format!("step_{number:08}.safetensors"))
    );
}

#[test]
fn what_is_missing_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |epochs, keys: &str| {
        let message = train(Mode::Graph, epochs, collector(folder.path(), keys))
            .unwrap_err()
            .to_string();
        assert_eq!(message.lines().count(), 1, "{message}");
        message
    };
    let message = refused(1, r#""intervals": [[1, 2, 11]]"#);
    assert_eq!(message, "summary: intervals is 11; the training has 10 steps");
    let message = refused(2, r#""unit": "epoch""#);
    assert_eq!(
        message,
        "summary: intervals is none; the training has 2 epochs, and a landscape needs 3"
    );
    let cx = context(Mode::Graph);
    let model = model(&cx);
    let none = landscape(folder.path(), &model, &data()).unwrap_err().to_string();
    assert!(none.ends_with("train with `collect_landscape` first"), "{none}");
    fs::create_dir_all(folder.path().join("ckpt_dir")).unwrap();
    fs::write(folder.path().join("ckpt_dir/train_metadata.json"), "{}").unwrap();
    let none = landscape(folder.path(), &model, &data()).unwrap_err().to_string();
    assert!(none.ends_with("it is no metadata of weights"), "{none}");
}
