use super::*;

/// The message of options that are refused: one line.
fn refused(text: &str) -> String {
    let message = SummaryOptions::from_json(text).unwrap_err().to_string();
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.starts_with("summary: "), "{message}");
    message
}

fn options(text: &str) -> SummaryOptions {
    SummaryOptions::from_json(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn defaults() {
    let none = options("{}");
    assert_eq!(none, SummaryOptions::default());
    assert_eq!(none.summary_dir, "output/summary/rank_{r}");
    assert_eq!(
        (none.collect_freq, none.collect_tensor_freq, none.max_file_size),
        (10, None, None)
    );
    assert!(none.collects(|data| data.collect_metric) && none.export_options.is_none());
    let nulls = r#"{"collect_tensor_freq": null, "collect_specified_data": null, "custom_lineage_data": null,
        "max_file_size": null, "export_options": null}"#;
    assert_eq!(options(nulls), none);
    let inner = r#"{"collect_specified_data": {"histogram_regular": null, "collect_landscape": null}}"#;
    assert_eq!(options(inner), none);
    let landscape = options(r#"{"collect_specified_data": {"collect_landscape": {}}}"#);
    let landscape = landscape.collect_specified_data.collect_landscape.unwrap();
    assert_eq!(
        (landscape.landscape_size, landscape.num_samples, landscape.unit),
        (40, 128, Unit::Step)
    );
    assert!(
        landscape.create_landscape.train
            && landscape.create_landscape.result
            && landscape.intervals.is_empty()
    );
}

/// Each key with a value that changes something, wrapped as deep as it lies.
#[test]
fn every_key_is_set_and_refuses_what_it_does_not_take() {
    let good = [
        ("summary_dir", r#""out""#),
        ("collect_freq", "2"),
        ("collect_tensor_freq", "3"),
        ("collect_specified_data", r#"{"collect_metric": false}"#),
        ("keep_default_action", "false"),
        ("custom_lineage_data", r#"{"a": "text", "b": 2, "c": 0.5}"#),
        ("max_file_size", "1000"),
        ("export_options", r#"{"tensor_format": "npy"}"#),
        ("collect_specified_data.collect_metric", "false"),
        ("collect_specified_data.collect_graph", "false"),
        ("collect_specified_data.collect_train_lineage", "false"),
        ("collect_specified_data.collect_eval_lineage", "false"),
        ("collect_specified_data.collect_input_data", "false"),
        ("collect_specified_data.collect_dataset_graph", "false"),
        ("collect_specified_data.histogram_regular", r#""conv.*""#),
        ("collect_specified_data.collect_landscape", "{}"),
        ("collect_landscape.landscape_size", "256"),
        ("collect_landscape.unit", r#""epoch""#),
        ("collect_landscape.create_landscape", r#"{"result": false}"#),
        ("collect_landscape.num_samples", "1"),
        ("collect_landscape.intervals", "[[1, 2, 3], [4, 6, 9, 10]]"),
        ("export_options.tensor_format", r#""npy""#),
    ];
    let keys: Vec<OptionKey> = SummaryOptions::keys().collect();
    assert_eq!(
        good.map(|(name, _)| name).to_vec(),
        keys.iter().map(|key| key.name).collect::<Vec<_>>()
    );
    let wrapped = |name: &str, value: &str| match name.split_once('.') {
        None => format!("{{{name:?}: {value}}}"),
        Some(("collect_landscape", key)) => {
            format!(r#"{{"collect_specified_data": {{"collect_landscape": {{{key:?}: {value}}}}}}}"#)
        }
        Some((outer, key)) => format!("{{{outer:?}: {{{key:?}: {value}}}}}"),
    };
    let unset = |name: &str| match name.starts_with("collect_landscape.") {
        true => options(&wrapped("collect_specified_data.collect_landscape", "{}")),
        false => SummaryOptions::default(),
    };
    for ((name, value), key) in good.iter().zip(&keys) {
        assert_ne!(options(&wrapped(name, value)), unset(name), "{name}");
        let short = name.rsplit('.').next().unwrap();
        let wrong = refused(&wrapped(name, "[3.5]"));
        let line = format!("summary: {short} is [3.5]; it takes {}", key.allowed);
        assert_eq!(wrong, line);
        let misspelt = format!("{short}s");
        let wrong = refused(&wrapped(&name.replace(short, &misspelt), value));
        assert!(
            wrong.contains("there is no such key; near it are") && wrong.contains(short),
            "{wrong}"
        );
    }
}

#[test]
fn bounds_and_combinations() {
    let landscape = |text: &str| format!(r#"{{"collect_specified_data": {{"collect_landscape": {text}}}}}"#);
    let cases = [
        (
            r#"{"collect_freq": 0}"#.to_owned(),
            "collect_freq is 0; it takes a whole number from 1",
        ),
        (r#"{"collect_freq": -1}"#.to_owned(), "collect_freq is -1"),
        (r#"{"collect_freq": 2.5}"#.to_owned(), "collect_freq is 2.5"),
        (r#"{"collect_freq": "10"}"#.to_owned(), "collect_freq is \"10\""),
        (
            r#"{"collect_tensor_freq": 0}"#.to_owned(),
            "collect_tensor_freq is 0",
        ),
        (r#"{"max_file_size": 0}"#.to_owned(), "max_file_size is 0"),
        (
            r#"{"summary_dir": ""}"#.to_owned(),
            "summary_dir is \"\"; it takes a path",
        ),
        (
            r#"{"custom_lineage_data": {"a": [1]}}"#.to_owned(),
            "custom_lineage_data is {\"a\":[1]}",
        ),
        (
            r#"{"custom_lineage_data": {"": 1}}"#.to_owned(),
            "names have a letter",
        ),
        (
            r#"{"export_options": {"tensor_format": "npz"}}"#.to_owned(),
            "tensor_format is \"npz\"; it takes \"npy\"",
        ),
        (r#"{"export_options": {}}"#.to_owned(), "export_options is {}"),
        (
            landscape(r#"{"landscape_size": 2}"#),
            "landscape_size is 2; it takes a whole number from 3 to 256",
        ),
        (landscape(r#"{"landscape_size": 257}"#), "landscape_size is 257"),
        (landscape(r#"{"num_samples": 0}"#), "num_samples is 0"),
        (
            landscape(r#"{"unit": "Step"}"#),
            "unit is \"Step\"; it takes \"step\" or \"epoch\"",
        ),
        (
            landscape(r#"{"intervals": [[1, 2]]}"#),
            "intervals is [1, 2]; each has at least 3",
        ),
        (
            landscape(r#"{"intervals": [[1, 3, 2]]}"#),
            "intervals is [1, 3, 2]",
        ),
        (
            landscape(r#"{"intervals": [[0, 1, 2]]}"#),
            "intervals is [0, 1, 2]",
        ),
        (landscape(r#"{"intervals": [1, 2, 3]}"#), "intervals is [1,2,3]"),
        (
            landscape(r#"{"create_landscape": {"train": false, "result": false}}"#),
            "one of train and result is true",
        ),
        ("[]".to_owned(), "they are an object"),
        ("{".to_owned(), "they are JSON"),
    ];
    for (text, words) in cases {
        let message = refused(&text);
        assert!(message.contains(words), "{text}: {message}");
    }
    for size in [3, 256] {
        options(&landscape(&format!(r#"{{"landscape_size": {size}}}"#)));
    }
}

/// The page lists what the rows say.
#[test]
fn the_page_has_every_key() {
    let page = include_str!("../../../../docs/seeing-what-happened.md");
    for OptionKey {
        name,
        default,
        allowed,
        effect,
    } in SummaryOptions::keys()
    {
        let row = format!("| `{name}` | `{default}` | {allowed} | {effect} |");
        assert!(page.contains(&row), "docs/seeing-what-happened.md lacks: {row}");
    }
}
