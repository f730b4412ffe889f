use super::*;

fn options(text: &str) -> ProfileOptions {
    ProfileOptions::from_json(text).unwrap()
}

/// The message of options that are refused: one line.
fn refused(text: &str) -> String {
    let message = ProfileOptions::from_json(text).unwrap_err().to_string();
    assert_eq!(message.lines().count(), 1, "{message}");
    message
}

#[test]
fn defaults() {
    let none = options("{}");
    assert_eq!(none, ProfileOptions::default());
    assert!(none.builder().unwrap().is_none());
    assert_eq!(
        (
            none.profile_start_step,
            none.profile_stop_step,
            none.init_start_profile
        ),
        (1, 10, true)
    );
    assert!(options(r#"{"profile": true}"#).builder().unwrap().is_some());
}

#[test]
fn every_key_is_set_and_refuses_what_it_does_not_take() {
    let good = [
        ("profile", "true"),
        ("output_path", r#""out""#),
        ("profile_start_step", "2"),
        ("profile_stop_step", "3"),
        ("init_start_profile", "false"),
        ("profile_communication", "true"),
        ("profile_memory", "true"),
        (
            "schedule",
            r#"{"wait": 1, "warmup": 1, "active": 2, "repeat": 3, "skip_first": 4}"#,
        ),
        ("enable_profiling", "true"),
        ("profiling_options", "{}"),
    ];
    assert_eq!(
        good.map(|(key, _)| key).to_vec(),
        KEYS.iter().map(|key| key.facts.name).collect::<Vec<_>>()
    );
    for ((name, value), key) in good.iter().zip(KEYS) {
        let mut set = ProfileOptions::default();
        let object = parsed("", &format!("{{{name:?}: {value}}}")).unwrap();
        set_all(KEYS, &mut set, &object).unwrap();
        assert_ne!(set, ProfileOptions::default(), "{name}");
        let wrong = refused(&format!("{{{name:?}: [3.5]}}"));
        assert!(wrong.contains("[3.5]"), "{wrong}");
        if !["schedule", "profiling_options"].contains(name) {
            assert!(
                wrong.contains(name) && wrong.ends_with(key.facts.allowed),
                "{wrong}"
            );
        }
    }
    for key in PROFILING {
        let name = key.facts.name.strip_prefix("profiling_options.").unwrap();
        let wrong = refused(&format!(
            r#"{{"enable_profiling": true, "profiling_options": {{{name:?}: 7}}}}"#
        ));
        assert!(
            wrong.contains(&format!("{name} is 7; it takes {}", key.facts.allowed)),
            "{wrong}"
        );
    }
}

#[test]
fn bounds_and_combinations() {
    let cases = [
        (
            r#"{"profile_start_step": 0}"#,
            "profile_start_step is 0; it takes a whole number from 1",
        ),
        (r#"{"profile_start_step": 11}"#, "stop_step is 10"),
        (r#"{"profile_stop_step": -1}"#, "profile_stop_step is -1"),
        (
            r#"{"schedule": {"active": 0}}"#,
            "active is 0; it takes a whole number from 1",
        ),
        (r#"{"schedule": {"aktive": 1}}"#, "near it are active"),
        (r#"{"schedule": {}, "profile_stop_step": 3}"#, "go without it"),
        (
            r#"{"profile": true, "enable_profiling": true}"#,
            "give one of them",
        ),
        (r#"{"profiling_options": {}}"#, "they need enable_profiling"),
        (
            r#"{"enable_profiling": true, "profiling_options": "{"}"#,
            "they are JSON",
        ),
        ("[]", "they are an object"),
        ("{", "they are JSON"),
        (r#"{"profile_stop_steps": 3}"#, "near it are profile_stop_step"),
        (r#"{"color": 3}"#, "there are enable_profiling"),
    ];
    for (text, words) in cases {
        let message = refused(text);
        assert!(message.contains(words), "{text}: {message}");
    }
    let inner = |text: &str| format!(r#"{{"enable_profiling": true, "profiling_options": {{{text}}}}}"#);
    for (text, words) in [
        (r#""result_path": "/nowhere/at/all""#, "a folder that exists"),
        (r#""op_trace": "on", "task_trace": "on""#, "it goes alone"),
        (r#""fp_point": "conv1""#, "it needs training_trace"),
        (r#""ai_core_metrics": "Memory""#, "it needs task_trace"),
        (r#""ai_core_metrics": "Speed""#, "PipeUtilization, "),
        (r#""training_trace": "On""#, "\"on\" or \"off\""),
    ] {
        let message = refused(&inner(text));
        assert!(message.contains(words), "{text}: {message}");
    }
    let points = options(&inner(r#""training_trace": "on", "fp_point": "conv3""#));
    let message = points.check_points(&["conv1", "conv2"]).unwrap_err().to_string();
    assert!(
        message.contains("fp_point is conv3") && message.contains("near it are conv1, conv2"),
        "{message}"
    );
    assert!(points.check_points(&["conv3"]).is_ok());
    let metrics = options(&inner(
        r#""task_trace": "on", "fp_point": "conv1", "ai_core_metrics": "Memory""#,
    ));
    let asked = metrics.profiling_options.unwrap().ai_core_metrics;
    assert_eq!(asked, Some(Metric::Memory));
}

#[test]
fn traces_say_what_is_recorded() {
    let bits = |text: &str| {
        let text = format!(r#"{{"enable_profiling": true, "profiling_options": {{{text}}}}}"#);
        options(&text).profiling_options.unwrap().bits()
    };
    assert_eq!(bits(""), (true, true));
    assert_eq!(bits(r#""training_trace": "on""#), (false, false));
    assert_eq!(bits(r#""task_trace": "on""#), (true, false));
    assert_eq!(bits(r#""aicpu_trace": "on""#), (false, true));
    assert_eq!(bits(r#""op_trace": "on""#), (true, true));
    // As a text too.
    let text = r#"{"enable_profiling": true, "profiling_options": "{\"task_trace\": \"on\"}"}"#;
    assert!(options(text).profiling_options.unwrap().task_trace);
}

#[test]
fn near_names() {
    let names = || ["conv1", "conv2", "fc1"].into_iter();
    assert_eq!(near("conv3", names()), "near it are conv1, conv2");
    assert_eq!(near("pool", names()), "there are conv1, conv2, fc1");
    assert_eq!(distance("kitten", "sitting"), 3);
    assert_eq!(distance("", "ab"), 2);
}

/// The page lists what the rows say.
#[test]
fn the_page_has_every_key() {
    let page = include_str!("../../../../docs/seeing-what-runs.md");
    for ProfileKey {
        name,
        default,
        allowed,
        effect,
    } in ProfileOptions::keys()
    {
        let row = format!("| `{name}` | `{default}` | {allowed} | {effect} |");
        assert!(page.contains(&row), "docs/seeing-what-runs.md lacks: {row}");
    }
}
