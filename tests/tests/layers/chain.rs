//! Which layers there are, in which order, and what becomes of what cannot be used.

use crate::plugins;
use crate::{options, runtime};
use std::path::{Path, PathBuf};
use thalweg::hal::{Runtime, Status, Stream};
use thalweg::host::set_config;
use thalweg::loader::{LoadError, LoaderOptions, Registry};
use thalweg::{Context, Tensor};

/// The layer in plain C, as the layer `name`.
fn quota(folder: &str, name: &str, defines: &[&str]) -> PathBuf {
    plugins::layer_c(folder, name, defines)
}

fn under(layers: &[&str], file: &Path) -> Registry {
    Registry::new(options(layers, vec![file.parent().unwrap().to_owned()]))
}

#[test]
fn a_layer_in_c_stands_over_a_backend_in_rust_and_one_in_c() {
    set_config("layer.quota", Some("4096"));
    let file = quota("layer_quota", "quota", &[]);
    let registry = under(&["quota"], &file);
    let backend = registry.get("cpu").unwrap();
    assert_eq!(backend.layers(), ["quota"]);
    let runtime = Runtime::new(registry);
    let cx = Context::on(runtime.device("cpu").unwrap());
    // It knows neither kernels nor programs, and both pass through.
    let small = Tensor::from_vec(vec![1.0_f32, 2.0], [2], &cx);
    assert_eq!((&small + &small).to_vec::<f32>().unwrap(), [2.0, 4.0]);
    let error = runtime.device("cpu").unwrap().alloc(5000).unwrap_err();
    assert_eq!(error.status(), Status::OutOfMemory);
    assert!(
        error.to_string().contains("the layer quota allows 4096"),
        "{error}"
    );
    // The backend's own errors keep their texts.
    let error = Stream::with_priority(&runtime.device("cpu").unwrap(), 99).unwrap_err();
    assert!(error.to_string().contains("99"), "{error}");

    let plain = plugins::plain_c("layer_plain_c");
    let options = options(&["quota"], vec![file.parent().unwrap().to_owned()]);
    let backend = Registry::load_file(&plain, &options).unwrap();
    assert_eq!(
        (backend.name(), backend.layers()),
        ("plainc", &["quota".to_owned()][..])
    );
}

#[test]
fn the_first_named_is_nearest_to_the_program() {
    set_config("layer.outer", Some("2048"));
    set_config("layer.inner", Some("1024"));
    quota("layer_chain", "outer", &["NAME=\"outer\""]);
    let file = quota("layer_chain", "inner", &["NAME=\"inner\""]);
    for (order, nearest) in [(["outer", "inner"], "outer"), (["inner", "outer"], "inner")] {
        let runtime = Runtime::new(under(&order, &file));
        assert_eq!(runtime.registry().layers(), order);
        let device = runtime.device("cpu").unwrap();
        assert!(device.alloc(1000).is_ok());
        let error = device.alloc(5000).unwrap_err().to_string();
        assert!(error.contains(&format!("the layer {nearest} allows")), "{error}");
        let error = device.alloc(1500).unwrap_err().to_string();
        assert!(error.contains("the layer inner allows 1024"), "{error}");
    }
}

#[test]
fn what_is_no_layer_is_an_error_that_says_what_there_is() {
    let runtime = runtime(&["fualt"]);
    for target in ["cpu", "auto"] {
        let error = runtime.device(target).unwrap_err().to_string();
        assert!(
            error.starts_with("there is no layer \"fualt\"; there are: capture, fault"),
            "{error}"
        );
    }
    let rows = runtime.registry().candidates();
    let text = rows[0].outcome.to_string();
    assert!(text.starts_with("refused: there is no layer \"fualt\""), "{text}");
    let error = crate::runtime(&["fault", "fault"])
        .device("cpu")
        .unwrap_err()
        .to_string();
    assert_eq!(error, "the layer fault is asked for twice; name it once");
}

#[test]
fn files_of_layers_are_judged_and_are_no_backends() {
    let file = quota("layer_judged", "quota", &[]);
    let folder = file.parent().unwrap();
    let alone = |layers: &[&str]| Registry::new(options(layers, vec![folder.to_owned()]));
    // It is no candidate for a backend.
    assert!(
        alone(&[])
            .targets()
            .iter()
            .all(|target| !target.contains("quota"))
    );
    let error = Registry::load_file(&file, &options(&[], Vec::new())).unwrap_err();
    assert_eq!(error, LoadError::IsLayer("quota".into()));
    // A backend by the name of a layer, another name inside, no number for the quota.
    std::fs::copy(
        plugins::plain_c("layer_plain_c"),
        folder.join("libthalweg_layer_plain.so"),
    )
    .unwrap();
    std::fs::copy(&file, folder.join("libthalweg_layer_other.so")).unwrap();
    set_config("layer.quota", Some("many"));
    for (layer, text) in [
        (
            "plain",
            "layer plain: its file has the name of a layer, its manifest says kind=cpu",
        ),
        (
            "other",
            "layer other: its manifest says \"quota\", its tables say \"other\"",
        ),
        ("quota", "layer quota: layer.quota is no number of bytes"),
    ] {
        let error = alone(&[layer]).get("cpu").unwrap_err().to_string();
        assert_eq!(error, text);
    }
    // A lock that does not list it.
    std::fs::write(folder.join("thalweg-plugins.lock"), "").unwrap();
    let error = alone(&["quota"]).get("cpu").unwrap_err().to_string();
    assert!(
        error.starts_with("layer quota: ") && error.contains("thalweg-plugins.lock"),
        "{error}"
    );
}

#[test]
fn options_of_layers_are_checked_when_a_backend_is_loaded() {
    set_config("layer.fault", Some("alok@1"));
    let error = runtime(&["fault"]).device("cpu").unwrap_err().to_string();
    assert!(
        error.starts_with("layer fault: there is no fault `alok`"),
        "{error}"
    );
    set_config("layer.fault", None);
    assert!(runtime(&["fault"]).device("cpu").is_ok());
}

#[test]
fn the_environment_names_layers_unless_the_program_does() {
    use thalweg::loader::discover::Surroundings;
    let around = Surroundings {
        layers: Some("fault, ".into()),
        ..Surroundings::default()
    };
    let layers = |options: LoaderOptions, around: &Surroundings| {
        Registry::with(options, &[], around).layers().to_vec()
    };
    let read = LoaderOptions {
        use_environment: true,
        ..options(&[], Vec::new())
    };
    assert_eq!(layers(read.clone(), &around), ["fault"]);
    assert!(layers(options(&[], Vec::new()), &around).is_empty());
    let raised = Surroundings {
        privileged: true,
        ..around.clone()
    };
    assert!(layers(read, &raised).is_empty());
    assert_eq!(layers(options(&["own"], Vec::new()), &around), ["own"]);
}
