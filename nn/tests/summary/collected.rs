//! What is collected at which steps, key by key.

use super::{context, data, events, model, scalars, steps, train, values};
use std::fs;
use thalweg::{Mode, Tensor};
use thalweg_nn::callback::{LossMonitor, SummaryCollector};
use thalweg_nn::metrics::Deviation;
use thalweg_nn::summary::{Custom, SummaryOptions};
use thalweg_summary::{Content, Data, Reader, files};

/// 600 steps: 20 records of tensors, 61 of the others. 20 steps: 3 and 3. No step twice, and no bit changes.
#[test]
fn counts_of_records_are_exact() {
    for (mode, epochs, tensors, others) in [
        (Mode::Graph, 60, 20, 61),
        (Mode::Graph, 2, 3, 3),
        (Mode::Eager, 2, 3, 3),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let plain = train(mode, epochs, ()).unwrap();
        assert_eq!(
            train(mode, epochs, SummaryCollector::to(folder.path())).unwrap(),
            plain
        );
        let values = values(folder.path());
        assert_eq!(steps(&values, "hidden").len(), tensors);
        let names = [
            "loss/auto",
            "largest",
            "spread",
            "picture",
            "first.weight/auto",
            "first.bias/auto",
            "second.weight/auto",
            "second.bias/auto",
        ];
        for name in names {
            let steps = steps(&values, name);
            assert_eq!(steps.len(), others, "{name}");
            assert!(
                steps.windows(2).all(|pair| pair[0] < pair[1]),
                "{name}: {steps:?}"
            );
        }
        let wanted: Vec<i64> = std::iter::once(1)
            .chain((1..=epochs as i64).map(|epoch| epoch * 10))
            .collect();
        assert_eq!(steps(&values, "loss/auto"), wanted);
        let graphs = events(folder.path())
            .into_iter()
            .filter(|event| matches!(event.content, Content::Graph(_)))
            .count();
        assert_eq!(graphs, 1);
    }
}

/// The loss of a step is what another callback reads.
#[test]
fn frequencies_and_values() {
    let folder = tempfile::tempdir().unwrap();
    let mut losses = LossMonitor::every(1);
    let collector = SummaryCollector::to(folder.path())
        .collect_freq(4)
        .collect_tensor_freq(6);
    train(Mode::Graph, 2, (collector, &mut losses)).unwrap();
    let values = values(folder.path());
    assert_eq!(steps(&values, "loss/auto"), [1, 4, 8, 12, 16, 20]);
    assert_eq!(steps(&values, "largest"), [1, 4, 8, 12, 16, 20]);
    assert_eq!(steps(&values, "hidden"), [1, 6, 12, 18]);
    let wanted: Vec<f32> = [1, 4, 8, 12, 16, 20]
        .map(|step| losses.losses()[step - 1].1 as f32)
        .to_vec();
    assert_eq!(scalars(&values, "loss/auto"), wanted);
}

#[test]
fn what_is_said_is_collected() {
    let collected = |text: &str| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display();
        let options = SummaryOptions::from_json(&format!(r#"{{"summary_dir": "{path}", {text}}}"#)).unwrap();
        let cx = context(Mode::Graph);
        let mut model = model(&cx).metric(Deviation::mse()).validate(data());
        model.train(1, &data(), SummaryCollector::with(options)).unwrap();
        let mut found: Vec<String> = values(folder.path()).into_keys().collect();
        let noted = ["hidden", "largest", "picture", "spread"];
        assert!(
            noted.iter().all(|name| found.iter().any(|tag| tag == name)),
            "{found:?}"
        );
        found.retain(|tag| !noted.contains(&tag.as_str()));
        if events(folder.path())
            .iter()
            .any(|event| matches!(event.content, Content::Graph(_)))
        {
            found.push("graph".to_owned());
        }
        let lineage = fs::read_to_string(folder.path().join("lineage.json")).unwrap_or_default();
        for part in ["train", "eval", "dataset_graph", "custom"] {
            if lineage.contains(&format!("\"{part}\": ")) {
                found.push(format!("lineage {part}"));
            }
        }
        found
    };
    let all = collected(r#""keep_default_action": true"#);
    let wanted = [
        "_hparams_/session_end_info",
        "_hparams_/session_start_info",
        "eval/loss",
        "eval/mse",
        "first.bias/auto",
        "first.weight/auto",
        "loss/auto",
        "second.bias/auto",
        "second.weight/auto",
        "graph",
        "lineage train",
        "lineage eval",
        "lineage dataset_graph",
    ];
    assert_eq!(all, wanted);
    let parts = [
        ("collect_metric", vec!["loss/auto"]),
        ("collect_graph", vec!["graph"]),
        (
            "collect_train_lineage",
            vec![
                "_hparams_/session_end_info",
                "_hparams_/session_start_info",
                "lineage train",
            ],
        ),
        (
            "collect_eval_lineage",
            vec!["eval/loss", "eval/mse", "lineage eval"],
        ),
        ("collect_dataset_graph", vec!["lineage dataset_graph"]),
        ("collect_input_data", vec![]),
    ];
    for (key, parts) in parts {
        let without = collected(&format!(r#""collect_specified_data": {{"{key}": false}}"#));
        let rest: Vec<&str> = wanted.into_iter().filter(|tag| !parts.contains(tag)).collect();
        assert_eq!(without, rest, "{key}");
        let alone = collected(&format!(
            r#""keep_default_action": false, "collect_specified_data": {{"{key}": true}}"#
        ));
        assert_eq!(alone, parts, "{key}");
    }
    let regular = |expression: &str| {
        collected(&format!(
            r#""keep_default_action": false, "collect_specified_data": {{"histogram_regular": "{expression}"}}"#
        ))
    };
    assert_eq!(
        regular("first|.*bias"),
        ["first.bias/auto", "first.weight/auto", "second.bias/auto"]
    );
    assert_eq!(regular("second.w"), ["second.weight/auto"]);
    let custom = collected(r#""keep_default_action": false, "custom_lineage_data": {"author": "me"}"#);
    assert_eq!(
        custom,
        [
            "_hparams_/session_end_info",
            "_hparams_/session_start_info",
            "lineage custom"
        ]
    );
}

#[test]
fn where_a_model_comes_from() {
    let folder = tempfile::tempdir().unwrap();
    let collector = SummaryCollector::to(folder.path())
        .custom("layers", Custom::Int(2))
        .custom("author", Custom::Text("me".into()))
        .custom("decay", Custom::Float(0.5));
    train(Mode::Graph, 1, collector).unwrap();
    let text = fs::read_to_string(folder.path().join("lineage.json")).unwrap();
    for line in [
        r#""optimizer": "optim::adaptive::Adam""#,
        r#""loss": "loss::mse""#,
        r#""learning_rate": 0.05"#,
        r#""batch_size": 4"#,
        r#""samples": 40"#,
        r#""parameters": 13"#,
        r#""device": "cpu:0""#,
        r#""steps_done": 10"#,
        r#""ended": true"#,
        r#""seed": 1"#,
        r#""layers": 2"#,
        r#""author": "me""#,
        r#""decay": 0.5"#,
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    let events = events(folder.path());
    let plugin = |event: &thalweg_summary::Event| match &event.content {
        Content::Values(values) => values.iter().any(|value| value.plugin.is_some()),
        Content::Version(_) | Content::Graph(_) | Content::Other => false,
    };
    assert_eq!(events.iter().filter(|event| plugin(event)).count(), 2);
}

#[test]
fn images_of_the_data_and_tensors_as_files_of_numpy() {
    use thalweg_nn::data::{Column, Loader, Rows, Samples};
    use thalweg_nn::{Flatten, Model, Sequential, loss, optim::Sgd};
    let folder = tempfile::tempdir().unwrap();
    let cx = context(Mode::Graph);
    let pixels: Vec<f32> = (0..6 * 3 * 4 * 5).map(|at| at as f32 / 360.0).collect();
    let samples = Samples::new(
        Rows::new(pixels, &[3, 4, 5]).unwrap(),
        Rows::new(vec![0.0_f32; 6], &[1]).unwrap(),
    );
    let net = Sequential::new()
        .then(Flatten)
        .then(thalweg_nn::Dense::new(60, 1, &cx).unwrap());
    let mut model = Model::new(net, loss::mse, Sgd::new(0.1), &cx);
    let collector = SummaryCollector::to(folder.path());
    model
        .train(1, &Loader::new(samples.unwrap(), 6), collector)
        .unwrap();
    let values = values(folder.path());
    let Data::Image(image) = &values["input_data/auto"][0].1 else {
        panic!()
    };
    assert_eq!((image.width, image.height, image.channels), (20, 8, 3));

    let folder = tempfile::tempdir().unwrap();
    train(Mode::Graph, 1, SummaryCollector::to(folder.path()).export_npy()).unwrap();
    let exported: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("export_"))
        .collect();
    let values = super::values(folder.path());
    for (step, data) in &values["hidden"] {
        let Data::Tensor(array) = data else { panic!() };
        let file = exported[0].join(format!("tensor/hidden_{step}.npy"));
        let read: Tensor = thalweg::interchange::npy::read(file, &cx).unwrap();
        assert_eq!(Column::of(&read).unwrap().to_le_bytes(), array.bytes);
        assert_eq!(array.shape, [4, 3]);
    }
}

#[test]
fn files_rotate_and_a_folder_takes_a_second_training() {
    let folder = tempfile::tempdir().unwrap();
    train(
        Mode::Graph,
        4,
        SummaryCollector::to(folder.path()).max_file_size(4000),
    )
    .unwrap();
    let first = files(folder.path()).unwrap();
    assert!(first.len() > 2, "{first:?}");
    for file in &first[1..] {
        // The graph is longer, and has a file of its own.
        let records = Reader::open(file).unwrap().count();
        assert!(fs::metadata(file).unwrap().len() <= 4000 || records == 2);
    }
    let values = super::values(folder.path());
    assert_eq!(steps(&values, "loss/auto"), [1, 10, 20, 30, 40]);
    train(Mode::Graph, 1, SummaryCollector::to(folder.path())).unwrap();
    let both = files(folder.path()).unwrap();
    assert_eq!(both[..first.len()], first[..]);
    assert!(both.len() > first.len());
}
