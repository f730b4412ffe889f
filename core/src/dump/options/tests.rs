use super::*;
use crate::options::by_name::Key;
use proptest::prelude::*;
use serde_json::{Value, json};

/// The configuration with one key of a section.
fn with(section: &str, key: &str, value: &Value) -> String {
    let mut sections =
        json!({"common_dump_settings": {"path": "/d"}, "async_dump_settings": {"enable": true}});
    sections[section][key] = value.clone();
    sections.to_string()
}

/// The message of options that are refused: one line.
fn refused(text: &str) -> String {
    let message = DumpOptions::from_json(text).unwrap_err().to_string();
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.starts_with("dump: "), "{message}");
    message
}

#[test]
fn defaults() {
    let none = DumpOptions::from_json("{}").unwrap();
    assert_eq!(none, DumpOptions::default());
    assert!(!none.is_on());
    let text = r#"{"common_dump_settings": {"path": "/d"}, "e2e_dump_settings": {"enable": true}}"#;
    let options = DumpOptions::from_json(text).unwrap();
    assert_eq!(options, DumpOptions::to("/d"));
    assert_eq!(
        (options.dump_mode, options.input_output),
        (DumpMode::All, InputOutput::Both)
    );
    assert_eq!(
        (options.net_name.as_str(), &options.iteration),
        ("Net", &Iterations::ALL)
    );
    assert_eq!(options.support_device, [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(
        (options.saved_data, options.file_format),
        (SavedData::Tensor, FileFormat::Npy)
    );
    assert_eq!(options.statistic_category, Figure::ALL);
    assert_eq!((options.trans_flag, options.async_enable), (true, false));
    assert_eq!(options.op_debug_mode, OpDebugMode::Off);
}

#[test]
fn every_key_is_set_and_refuses_what_it_does_not_take() {
    let good = [
        ("dump_mode", json!(1), json!(2)),
        ("path", json!("/other"), json!("relative/path")),
        ("net_name", json!("LeNet"), json!("a/b")),
        ("iteration", json!("0|3-5"), json!(-1)),
        ("input_output", json!(2), json!(3)),
        ("kernels", json!(["conv"]), json!(["conv", 1])),
        ("support_device", json!([1]), json!([-1])),
        ("saved_data", json!("full"), json!("figures")),
        ("statistic_category", json!(["l2", "hash"]), json!(["avg"])),
        ("file_format", json!("bin"), json!("npz")),
        ("trans_flag", json!(false), json!("false")),
        ("op_debug_mode", json!(3), json!(4)),
    ];
    let tables: [(&str, &[Key<DumpOptions>]); 3] = [
        ("common_dump_settings", COMMON),
        ("e2e_dump_settings", E2E),
        ("async_dump_settings", ASYNC),
    ];
    let mut left: Vec<&str> = good.iter().map(|(key, ..)| *key).collect();
    for (section, keys) in tables {
        let short = |name: &'static str| name.rsplit('.').next().unwrap();
        for name in keys
            .iter()
            .map(|key| short(key.facts.name))
            .filter(|name| *name != "enable")
        {
            let (_, right, wrong) = good.iter().find(|(key, ..)| *key == name).unwrap();
            let before =
                DumpOptions::from_json(&with(section, "enabel", &json!(0)).replace(",\"enabel\":0", ""));
            let mut object = with(section, name, right);
            if name == "dump_mode" {
                object = object.replace("\"dump_mode\":1", "\"dump_mode\":1,\"kernels\":[\"x\"]");
            }
            let after = DumpOptions::from_json(&object).unwrap();
            assert_ne!(before.ok(), Some(after), "{name}");
            for wrong in [wrong, &json!([3.5]), &json!({}), &Value::Null] {
                let message = refused(&with(section, name, wrong));
                assert!(message.starts_with(&format!("dump: {name} is ")), "{message}");
            }
            let mut misspelt = name.to_owned();
            misspelt.insert(2, 'x');
            let message = refused(&with(section, &misspelt, right));
            assert!(
                message.contains(&format!("{misspelt} is "))
                    && message.contains(&format!("near it are {name}")),
                "{message}"
            );
            left.retain(|key| *key != name);
        }
        let message = refused(&with(section, "enalbe", &json!(true)));
        assert!(message.contains("there is no such key"), "{message}");
        let message = refused(&json!({ section: [] }).to_string());
        assert!(message.ends_with("it takes an object"), "{message}");
    }
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(
        DumpOptions::keys().count(),
        3 + COMMON.len() + E2E.len() + ASYNC.len()
    );
}

#[test]
fn the_number_0_is_all_and_the_text_is_not() {
    let iteration = |value: Value| {
        let text = with("common_dump_settings", "iteration", &value);
        DumpOptions::from_json(&text).unwrap().iteration
    };
    assert_eq!(iteration(json!(0)), Iterations::ALL);
    assert_eq!(iteration(json!("all")), Iterations::ALL);
    assert_eq!(iteration(json!("0")), Iterations::one(0));
    assert_eq!(iteration(json!(7)), Iterations::one(7));
    let message = refused(&with("common_dump_settings", "iteration", &json!("0|5-3")));
    assert!(message.contains(r#"its part 2, "5-3""#), "{message}");
}

#[test]
fn combinations_are_judged() {
    let on = |more: &str| {
        format!(
            r#"{{"common_dump_settings": {{"path": "/d"{more}}}, "e2e_dump_settings": {{"enable": true}}}}"#
        )
    };
    for (text, message) in [
        (
            on(r#", "dump_mode": 1"#),
            "dump: dump_mode is 1; it needs kernels, a list of names".to_owned(),
        ),
        (
            on(r#", "support_device": []"#),
            "dump: support_device is []; no device would be dumped; list one or more".into(),
        ),
        (
            on(r#", "kernels": ["name-regex((a)"]"#),
            "dump: kernels is name-regex((a); it is no regular expression: a group has no end".into(),
        ),
        (
            on(r#", "kernels": ["name-regex(a"]"#),
            "dump: kernels is name-regex(a; the expression ends with `)`".into(),
        ),
        (
            r#"{"e2e_dump_settings": {"enable": true}}"#.to_owned(),
            format!("dump: path is empty; {}", keys::PATH),
        ),
        (
            r#"{"async_dump_settings": {"op_debug_mode": 3}}"#.to_owned(),
            "dump: op_debug_mode is 3; it needs async_dump_settings.enable".into(),
        ),
    ] {
        assert_eq!(refused(&text), message);
    }
    for text in ["", "[]", "{", "7", "nonsense\nof two lines", "{\"\u{0}\": 1}"] {
        refused(text);
    }
    let both = r#"{"common_dump_settings": {"path": "/d"}, "e2e_dump_settings": {"enable": true},
        "async_dump_settings": {"enable": true, "op_debug_mode": 3}}"#;
    let both = DumpOptions::from_json(both).unwrap();
    assert!(!both.is_async() && both.is_on());
    assert_eq!(both.overflow(), OpDebugMode::Off);
}

proptest! {
    #[test]
    fn any_text_is_options_or_an_error_of_one_line(
        section in "common_dump_settings|e2e_dump_settings|async_dump_settings|\\PC*",
        key in "path|net_name|iteration|kernels|support_device|enable|op_debug_mode|.*",
        value in "0|true|\"[0-9|-]*\"|\\[\"name-regex\\(.*\\)\"\\]|\"/.*\"|\\PC*",
    ) {
        let whole = format!("{{{}: {{{}: {value}}}}}", json!(section), json!(key));
        for text in [whole, section, value] {
            match DumpOptions::from_json(&text) {
                Ok(options) => prop_assert!(options.check().is_ok()),
                Err(error) => prop_assert_eq!(error.to_string().lines().count(), 1, "{}", error),
            }
            if let Err(error) = text.parse::<Iterations>() {
                prop_assert_eq!(error.to_string().lines().count(), 1, "{}", error);
            }
        }
    }
}
