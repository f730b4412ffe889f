//! Options as texts.

use super::*;

#[test]
fn options_come_from_toml_and_from_variables() {
    let toml = "device_target = \"cpu\"\nmode = \"graph\"\nmemory_limit = \"1 GiB\"\nseed = 7";
    let wanted = ContextBuilder::new()
        .device_target("cpu")
        .mode(Mode::Graph)
        .memory_limit("1 GiB")
        .seed(7);
    assert_eq!(ContextBuilder::from_toml(toml).unwrap(), wanted);
    let variables = |name: &str| {
        let value = match name {
            "THALWEG_DEVICE_TARGET" => "cpu",
            "THALWEG_MODE" => "graph",
            "THALWEG_MEMORY_LIMIT" => "1 GiB",
            "THALWEG_SEED" => "7",
            _ => return None,
        };
        Some(value.to_owned())
    };
    assert_eq!(ContextBuilder::from_variables(&variables).unwrap(), wanted);
    let error = ContextBuilder::from_toml("device_targte = \"cpu\"")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("device_targte") && error.contains("device_target"),
        "{error}"
    );
    let forms = ContextBuilder::from_toml("device_id = 0x1_0\nseed = 1_000\nmemory_limit = 0b11").unwrap();
    assert_eq!(
        forms,
        ContextBuilder::default().device_id(16).seed(1000).memory_limit(3)
    );
    let error = ContextBuilder::from_toml("seed = 1.5").unwrap_err().to_string();
    assert!(error.contains("options: seed is 1.5; it takes"), "{error}");
    let error = ContextBuilder::from_variables(&|_| Some("x".into()))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("THALWEG_DEVICE_ID is \"x\", not a whole number"),
        "{error}"
    );
    let former = |name: &str| (name == "THALWEG_NUM_THREADS").then(|| "4".to_owned());
    let error = ContextBuilder::from_variables(&former).unwrap_err().to_string();
    assert!(
        error.contains("THALWEG_NUM_THREADS is not read") && error.contains("set THALWEG_THREADS"),
        "{error}"
    );
}

#[test]
fn a_device_that_is_not_there_is_an_error() {
    let build = |target: &str| {
        ContextBuilder::new()
            .device_target(target)
            .build()
            .unwrap_err()
            .to_string()
    };
    assert!(build("TPU").starts_with("there is no target \"TPU\""));
    assert!(build("cpu:7").starts_with("cpu has no device 7"));
    let twice = ContextBuilder::new().device_target("cpu:0").device_id(1).build();
    assert!(
        twice
            .unwrap_err()
            .to_string()
            .starts_with("device_target cpu:0 and device_id 1")
    );
    let cx = ContextBuilder::new()
        .device_target("cpu")
        .device_id(0)
        .seed(3)
        .build()
        .unwrap();
    assert_eq!(cx.device().target(), "cpu:0");
}
