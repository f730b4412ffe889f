//! What a session dumps: values until its end, calls that overflow, calls that fail.

use super::{apart_with, numbers};
use std::path::Path;
use thalweg::observe::{self, InputOutput, OpDebugMode, recording::SpanKind};
use thalweg::{Context, Runtime, SessionOptions, Tensor, jit};

/// The names of all files below a folder that end like this, with their contents.
fn ending(folder: &Path, end: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(ending(&path, end));
        } else if path.to_str().unwrap().ends_with(end) {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            found.push((path.to_str().unwrap().to_owned(), text));
        }
    }
    found.sort();
    found
}

fn step(number: u64, run: impl FnOnce()) {
    let _step = observe::span(SpanKind::Step, "", number);
    observe::restart_calls();
    run();
}

#[test]
fn a_session_dumps_until_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let variables = [
        ("THALWEG_ENABLE_DUMP", "true"),
        ("THALWEG_DUMP_PATH", "values"),
        ("THALWEG_DUMP_STEP", "0|2"),
        ("THALWEG_DUMP_MODE", "all"),
    ];
    std::fs::create_dir(folder.path().join("values")).unwrap();
    if !apart_with("dumps::a_session_dumps_until_its_end", &variables, folder.path()) {
        return;
    }
    let code = SessionOptions::default()
        .enable_dump(true)
        .dump_path("values".to_owned())
        .dump_step("0|2".parse().unwrap())
        .dump_mode(InputOutput::Both);
    let toml = "enable_dump = true\ndump_path = \"values\"\ndump_step = \"0|2\"\ndump_mode = \"all\"";
    assert_eq!(SessionOptions::from_toml(toml).unwrap(), code);
    assert_eq!(SessionOptions::from_env().unwrap(), code);
    Runtime::init(code.clone()).unwrap();
    let cx = Context::new("cpu").unwrap();
    let error = Runtime::init(SessionOptions::default()).unwrap_err().to_string();
    assert!(
        error.starts_with("enable_dump is false, but the process has true"),
        "{error}"
    );
    let compiled = jit(|x: &Tensor| x.exp());
    for number in 1..=4 {
        step(number, || {
            drop(compiled.call(&numbers(&cx)).to_vec::<f32>().unwrap())
        });
    }
    Runtime::shutdown().unwrap();
    // Before the process ends.
    let manifests = ending(Path::new("values"), "manifest.json");
    let of = |at: usize| -> serde_json::Value { serde_json::from_str(&manifests[at].1).unwrap() };
    assert_eq!(manifests.len(), 2, "{manifests:?}");
    assert_eq!(
        (of(0)["iteration"].as_u64(), of(1)["iteration"].as_u64()),
        (Some(0), Some(2))
    );
    for (at, (path, _)) in manifests.iter().enumerate() {
        let manifest = of(at);
        let values = manifest["values"].as_array().unwrap();
        let slots: Vec<&str> = values.iter().map(|value| value["io"].as_str().unwrap()).collect();
        assert_eq!(slots, ["input", "output"]);
        for value in values {
            assert_eq!(value["name"], "Default/exp-op1");
            let file = Path::new(path).with_file_name(value["file"].as_str().unwrap());
            assert!(file.is_file(), "{file:?}");
        }
    }
}

#[test]
fn the_end_writes_the_dump_of_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("values");
    let config = folder.path().join("dump.json");
    let text = format!(
        "{{\"common_dump_settings\": {{\"path\": {path:?}}}, \"e2e_dump_settings\": {{\"enable\": true}}}}"
    );
    std::fs::write(&config, text).unwrap();
    let variables = [("THALWEG_DUMP_CONFIG", config.to_str().unwrap())];
    if !apart_with(
        "dumps::the_end_writes_the_dump_of_the_environment",
        &variables,
        folder.path(),
    ) {
        return;
    }
    let other = SessionOptions::default()
        .enable_dump(true)
        .dump_path(".".to_owned());
    let error = Runtime::init(other).unwrap_err().to_string();
    assert_eq!(
        error,
        "enable_dump is true; THALWEG_DUMP_CONFIG asks for a dump too, and a process has one; unset it"
    );
    Runtime::init(SessionOptions::default()).unwrap();
    let cx = Context::new("cpu").unwrap();
    numbers(&cx).exp().to_vec::<f32>().unwrap();
    assert_eq!(ending(Path::new("values"), "manifest.json").len(), 0);
    Runtime::shutdown().unwrap();
    let manifests = ending(Path::new("values"), "manifest.json");
    assert_eq!(manifests.len(), 1);
    let manifest: serde_json::Value = serde_json::from_str(&manifests[0].1).unwrap();
    assert_eq!(manifest["values"].as_array().unwrap().len(), 2);
}

#[test]
fn a_session_dumps_calls_that_overflow_alone() {
    for (mode, wanted) in [
        ("aicore_overflow", "mul"),
        ("atomic_overflow", "sum"),
        ("all", "mul sum"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let test = "dumps::a_session_dumps_calls_that_overflow_alone";
        if !apart_with(test, &[("THALWEG_TEST_MODE", mode)], folder.path()) {
            let manifests = ending(folder.path(), "manifest.json");
            let mut ops: Vec<String> = Vec::new();
            for (_, text) in &manifests {
                let manifest: serde_json::Value = serde_json::from_str(text).unwrap();
                let values = manifest["values"].as_array().unwrap();
                let overflows = values.iter().filter(|value| value["overflows"] == true);
                ops.extend(overflows.map(|value| value["op"].as_str().unwrap().to_owned()));
            }
            ops.sort();
            assert_eq!(ops.join(" "), wanted, "{mode}");
            continue;
        }
        let mode = match std::env::var("THALWEG_TEST_MODE").unwrap().as_str() {
            "aicore_overflow" => OpDebugMode::Ops,
            "atomic_overflow" => OpDebugMode::Reductions,
            _ => OpDebugMode::Both,
        };
        let options = SessionOptions::default()
            .enable_dump_debug(true)
            .dump_path(".".to_owned());
        Runtime::init(options.dump_debug_mode(mode)).unwrap();
        let cx = Context::new("cpu").unwrap();
        let x = Tensor::from_slice(&[3e38_f32, 3e38, 1.0], 3, &cx);
        x.sum().to_vec::<f32>().unwrap();
        (&x * 2.0).to_vec::<f32>().unwrap();
        x.sqrt().to_vec::<f32>().unwrap();
        Runtime::shutdown().unwrap();
        return;
    }
}

#[test]
fn contexts_dump_failed_calls_where_the_session_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let test = "dumps::contexts_dump_failed_calls_where_the_session_says_so";
    let variables = [("THALWEG_LAYERS", "fault"), ("THALWEG_LAYER_FAULT", "submit@4")];
    if !apart_with(test, &variables, folder.path()) {
        let manifests = ending(folder.path(), "manifest.json");
        assert_eq!(manifests.len(), 1, "{manifests:?}");
        assert!(manifests[0].1.contains("Default/exp-op1"), "{}", manifests[0].1);
        return;
    }
    Runtime::init(SessionOptions::default().enable_exception_dump(true)).unwrap();
    let built = Context::builder().device_target("cpu");
    let off = built.clone().enable_exception_dump(false).build().unwrap();
    assert!(!off.dumps_exceptions() && built.build().unwrap().dumps_exceptions());
    let cx = Context::new("cpu").unwrap();
    let x = numbers(&cx);
    let fails = |_| {
        observe::restart_calls();
        x.exp().to_vec::<f32>().is_err()
    };
    assert!((0..5).any(fails));
}
