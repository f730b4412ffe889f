//! The examples run and print what they promise.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The build folder of this test.
fn build() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().to_owned()
}

fn run(name: &str, backends: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(build().join("examples").join(name));
    let output = command
        .args(arguments)
        .env("THALWEG_BACKEND_PATH", backends)
        .output()
        .unwrap();
    let texts = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success(), "{name}: {}{}", texts[0], texts[1]);
    output
}

/// What an example prints on the embedded backend.
fn text(name: &str, arguments: &[&str]) -> String {
    let nothing = tempfile::tempdir().unwrap();
    String::from_utf8(run(name, nothing.path(), arguments).stdout).unwrap()
}

/// The number behind `before`.
#[track_caller]
fn number(text: &str, before: &str) -> f64 {
    let rest = text
        .split_once(before)
        .unwrap_or_else(|| panic!("{before:?} is not in\n{text}"))
        .1;
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_custom_layer_learns() {
    let text = text("custom_layer", &["cpu"]);
    for part in ["down  f32 [2, 16]", "up    f32 [16, 2]", "bias  f32 [16]"] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let (before, after) = (number(&text, "loss before "), number(&text, "loss after "));
    assert!(before > 1e-2 && after < before / 100.0, "{text}");
}

#[test]
fn a_custom_callback_stops_in_time() {
    let text = text("custom_callback", &["cpu"]);
    assert!(number(&text, "at a loss of ") < 0.002, "{text}");
    assert!(
        (1.0..500.0).contains(&number(&text, "stopped in epoch ")),
        "{text}"
    );
}

#[test]
fn fine_tuning_starts_from_a_file() {
    let text = text("fine_tune", &["cpu"]);
    assert!(
        text.contains("not in the file: head.weight, head.bias\n"),
        "{text}"
    );
    // A head alone, on what tells digits apart: far better than chance, which is a half.
    assert!(number(&text, "accuracy before ") < 0.7, "{text}");
    assert!(number(&text, "accuracy after ") > 0.85, "{text}");
}

/// A few steps of the training program: the same checkpoint, byte by byte, and the same report.
#[test]
fn the_embedded_backend_and_the_plugin_train_to_the_same_bits() {
    let place = tempfile::tempdir().unwrap();
    let plugins = place.path().join("backends");
    fs::create_dir(&plugins).unwrap();
    let library = build().join("libthalweg_cpu.so");
    assert!(
        library.exists(),
        "{} is missing; `cargo xtask plugins` builds it",
        library.display()
    );
    fs::copy(&library, plugins.join("libthalweg_cpu.so")).unwrap();
    let trained = |name: &str, backends: &Path| {
        let out = place.path().join(name);
        let options = [
            "--device-target",
            "cpu",
            "--epochs",
            "1",
            "--steps",
            "12",
            "--out",
            out.to_str().unwrap(),
        ];
        let output = run("digits", backends, &options);
        // Nothing of a progress bar where there is no terminal.
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        let text = String::from_utf8(output.stdout).unwrap();
        (fs::read(out.join("lenet5.safetensors")).unwrap(), text)
    };
    let (embedded, report) = trained("embedded", &place.path().join("none"));
    let (plugin, other) = trained("plugin", &plugins);
    assert!(embedded == plugin, "the checkpoints differ");
    assert!(
        report.contains("backend: embedded") && other.contains("backends/libthalweg_cpu.so\n"),
        "{report}{other}"
    );
    let accuracy = number(&report, "test accuracy ");
    assert!(accuracy > 20.0, "{report}");
    assert_eq!(accuracy, number(&other, "test accuracy "));
    for part in ["Memory summary", "reloaded after step 12: ", "█", "this is a "] {
        assert!(report.contains(part), "{part:?} is not in\n{report}");
    }
}
