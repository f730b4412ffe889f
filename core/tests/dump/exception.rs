//! Calls that fail: what they were given is in files. The layer `fault` makes them fail, in programs that this test runs.

use super::reader::{Manifest, files};
use super::{bytes, cx, dumped, input, network, options};
use std::path::{Path, PathBuf};
use std::process::Command;
use thalweg::context::ContextBuilder;
use thalweg::jit;

const ASKED: &str = "FAILING_PROGRAM";

/// The program: a network, op by op or compiled, until it fails.
#[test]
#[ignore = "other tests run it"]
fn failing() {
    let Ok(asked) = std::env::var(ASKED) else { return };
    let cx = ContextBuilder::from_env()
        .unwrap()
        .device_target("cpu")
        .build()
        .unwrap();
    let x = input(&cx);
    let compiled = jit(network);
    for _ in 0..5 {
        thalweg::observe::restart_calls();
        let result = if asked == "compiled" {
            compiled.call(&x)
        } else {
            network(&x)
        };
        if let Err(error) = result.to_vec::<f32>() {
            println!("failed: {error}");
            return;
        }
    }
    println!("bits: {:?}", bytes(&network(&x)));
}

/// Runs the program with a fault in a folder, and what it says.
fn run(asked: &str, fault: &str, on: bool, folder: &Path) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["exception::failing", "--exact", "--ignored", "--nocapture"])
        .current_dir(folder)
        .env(ASKED, asked)
        .env("THALWEG_LAYERS", "fault")
        .env("THALWEG_LAYER_FAULT", fault)
        .env("THALWEG_ENABLE_EXCEPTION_DUMP", on.to_string())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let start = text
        .find("failed: ")
        .or(text.find("bits: "))
        .unwrap_or_else(|| panic!("{text}"));
    text[start..].lines().next().unwrap().to_owned()
}

/// The folders that a program left.
fn left(folder: &Path) -> Vec<PathBuf> {
    let names = files(folder);
    let manifests = names.keys().filter_map(|name| name.strip_suffix("manifest.json"));
    manifests.map(|name| folder.join(name)).collect()
}

#[test]
fn inputs_of_a_call_that_fails_are_in_files() {
    let cx = cx();
    let x = input(&cx);
    let folder = tempfile::tempdir().unwrap();
    dumped(&cx, &options(folder.path()), || {
        drop(network(&x).to_vec::<f32>().unwrap())
    });
    let plain = Manifest::read(&folder.path().join("Net/device_0/iteration_0"));
    for asked in ["eager", "compiled"] {
        for kind in ["submit", "later"] {
            let mut inputs = 0;
            for at in [3, 4, 5, 7] {
                let folder = tempfile::tempdir().unwrap();
                let told = run(asked, &format!("{kind}@{at}"), true, folder.path());
                let Some(place) = left(folder.path()).pop() else {
                    continue;
                };
                let manifest = Manifest::read(&place);
                let error = manifest.json["error"].as_str().unwrap();
                assert!(error.contains("made to fail by the layer fault"), "{error}");
                assert_eq!(told, format!("failed: {error}"));
                assert_eq!(manifest.json["device_lost"], false);
                for value in manifest.values() {
                    if value["io"] == "output" {
                        assert!(value["unspecified"] == true && value["file"].is_null());
                        continue;
                    }
                    let name = value["name"].as_str().unwrap();
                    let slot = value["slot"].as_u64().unwrap() as usize;
                    let wanted = plain.of(name, "input")[slot];
                    assert_eq!(manifest.elements(value), plain.elements(wanted), "{name}");
                    inputs += 1;
                }
            }
            assert!(inputs > 0, "no call was dumped for {asked} {kind}");
        }
    }
}

#[test]
fn a_lost_device_is_said_to_be_lost() {
    let folder = tempfile::tempdir().unwrap();
    let told = run("eager", "lost@4", true, folder.path());
    assert!(told.starts_with("failed: "), "{told}");
    let places = left(folder.path());
    let manifest = Manifest::read(&places[0]);
    assert_eq!(manifest.json["device_lost"], true);
    assert!(manifest.values().iter().all(|value| value["file"].is_null()));
}

#[test]
fn off_nothing_is_written_and_on_no_bit_changes() {
    let folder = tempfile::tempdir().unwrap();
    assert!(run("eager", "submit@4", false, folder.path()).starts_with("failed: "));
    assert!(left(folder.path()).is_empty());
    let plain = bytes(&network(&input(&cx())));
    for asked in ["eager", "compiled"] {
        let told = run(asked, "submit@100000", true, folder.path());
        assert_eq!(told, format!("bits: {plain:?}"));
    }
    assert!(left(folder.path()).is_empty());
}
