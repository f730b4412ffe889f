//! The examples run and print what they promise.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::PathBuf;
use std::process::Command;
use thalweg::hal::{Buffer, Runtime, Stream};
use thalweg::loader::{LoaderOptions, Registry};

/// Where cargo puts the examples of this build.
fn folder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().join("examples")
}

fn output(name: &str, arguments: &[&str]) -> String {
    let output = Command::new(folder().join(name))
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {text}{errors}");
    text
}

#[test]
fn hello_computes_and_explains() {
    let text = output("hello", &["cpu"]);
    // By hand: 1 + 0 + 1 and 4 + 9 + 16, their sum halved, and 0 + 1 + 8 + 27 + 64 + 125.
    for part in [
        "on cpu:0, ",
        "sum to [ 2. 29.]",
        "energy: 15.5",
        "the cubes sum to 225",
        "matmul: inner sizes differ",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn energy_is_that_of_numpy_on_one_stream_and_on_two() {
    let text = output("energy", &["cpu"]);
    // The sum of 0.5 (x - 1)² over numpy.random.RandomState(0).rand(100_000_000), rounded to f32, in f64.
    let totals: Vec<f64> = text
        .lines()
        .filter_map(|line| line.split_once("U = ")?.1.split_whitespace().next()?.parse().ok())
        .collect();
    assert_eq!(totals.len(), 2, "{text}");
    assert_eq!(totals[0], totals[1], "{text}");
    assert!((totals[0] / 16_668_921.903_168 - 1.0).abs() < 1e-6, "{text}");
}

/// The plugin of the example is found, judged and loaded from its folder, and keeps what is put on it.
#[test]
fn a_backend_on_one_page_is_a_plugin() {
    let place = tempfile::tempdir().unwrap();
    let file = "libthalweg_shelf.so";
    std::fs::copy(folder().join(file), place.path().join(file)).unwrap();
    let options = LoaderOptions {
        folders: vec![place.path().to_owned()],
        use_environment: false,
        use_executable: false,
        development: false,
        cache: None,
        ..LoaderOptions::default()
    };
    let runtime = Runtime::new(Registry::new(options));
    let device = runtime.device("shelf").unwrap();
    assert_eq!(device.properties().name, "a shelf");
    let stream = Stream::new(&device).unwrap();
    let numbers: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let buffer = Buffer::from_slice(&stream, &numbers).unwrap();
    assert_eq!(buffer.download::<f32>(&stream).unwrap(), numbers);
    buffer.fill(&stream, 2.5_f32).unwrap();
    assert_eq!(buffer.download::<f32>(&stream).unwrap(), [2.5; 1000]);
}
