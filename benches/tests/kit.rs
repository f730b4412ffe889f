//! The script of the kit that checks a machine, with the programs of this build: without a GPU, and over the stand-in for the CUDA
//! libraries, behind which there is none either. Programs that would take minutes are scripts here, which check what they
//! are handed.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../../tests/tests/plugins/mod.rs"]
mod plugins;

use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const ACCEPTANCE: &str = r#"#!/bin/sh
[ "$THALWEG_TEST_TARGET $1" = "cuda:0 --test-threads=1" ] && echo "test result: ok. 1 passed"
"#;
const OPS: &str = r#"#!/bin/sh
[ -f "$THALWEG_TEST_DATA/ops/cases/one" ] && [ "$1 ${2%%=*}" = "chosen:: --test-threads" ] && echo "test result: ok. 2 passed"
"#;
const DIGITS: &str = r#"#!/bin/sh
[ "$1 $2 $3 $4" = "--device-target cuda:0 --epochs 1" ] && echo "test accuracy 0.98" && echo "saved"
"#;

/// A kit in a folder of its own, laid out as `cargo xtask gpu-kit` does it.
fn kit(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let kit = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&kit);
    fs::create_dir_all(kit.join("bin/backends")).unwrap();
    fs::create_dir_all(kit.join("data/ops/cases")).unwrap();
    fs::write(kit.join("data/ops/cases/one"), "").unwrap();
    let cuda = plugins::built("thalweg_cuda");
    let thalweg = cuda.with_file_name("thalweg");
    assert!(
        thalweg.exists(),
        "{} is missing; `cargo xtask plugins` builds it",
        thalweg.display()
    );
    let copies = [
        (root.join("xtask/gpu-kit/run.sh"), "run.sh"),
        (root.join("xtask/gpu-kit/compare.py"), "compare.py"),
        (root.join("benches/peers/networks.py"), "networks.py"),
        (env!("CARGO_BIN_EXE_check").into(), "bin/check"),
        (env!("CARGO_BIN_EXE_device").into(), "bin/device"),
        (thalweg, "bin/thalweg"),
        (cuda, "bin/backends/libthalweg_cuda.so"),
        (
            plugins::built("thalweg_reference"),
            "bin/backends/libthalweg_reference.so",
        ),
    ];
    for (from, to) in copies {
        fs::copy(from, kit.join(to)).unwrap();
    }
    for (to, script) in [("acceptance", ACCEPTANCE), ("ops", OPS), ("digits", DIGITS)] {
        fs::write(kit.join("bin").join(to), script).unwrap();
    }
    for file in fs::read_dir(kit.join("bin")).unwrap() {
        // Plugins are not loaded from places that others may write.
        fs::set_permissions(file.unwrap().path(), fs::Permissions::from_mode(0o755)).unwrap();
    }
    kit
}

/// Runs the script from another folder, and returns its exit code, what it wrote, and its results.
fn run(kit: &Path, arguments: &[&str], libraries: &Path) -> (Option<i32>, String, Value) {
    let output = Command::new("sh")
        .arg(kit.join("run.sh"))
        .args(arguments)
        .current_dir("/")
        .env("THALWEG_CUDA_LIBRARIES", libraries)
        .env("THALWEG_CUDA_CACHE", kit.join("cache"))
        .env("STANDIN_DEVICES", "1")
        .env_remove("THALWEG_BACKEND_PATH")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr);
    let results = fs::read(kit.join("results.json")).unwrap_or_else(|error| panic!("{error}: {text}"));
    (
        output.status.code(),
        text,
        serde_json::from_slice(&results).unwrap(),
    )
}

#[test]
fn without_a_gpu() {
    let kit = kit("kit_without");
    let (code, text, results) = run(&kit, &["--small"], &kit);
    assert_eq!(code, Some(3), "{text}");
    let [line] = text.lines().collect::<Vec<_>>()[..] else {
        panic!("not one line: {text}");
    };
    assert!(
        line.starts_with("no CUDA device: libcuda.so.1 was not found"),
        "{line}"
    );
    assert_eq!(results["target"], "none");
    assert_eq!(results["steps"][0]["outcome"], "skipped");
    assert_eq!(results["steps"][0]["detail"], line);
    assert!(
        fs::read_to_string(kit.join("results.txt"))
            .unwrap()
            .contains(line)
    );
}

#[test]
fn over_the_stand_in() {
    let kit = kit("kit_over_the_stand_in");
    let standin = plugins::cuda_standin("cuda_kit", &[]);
    let (code, text, results) = run(&kit, &["--small"], &standin);
    let steps = results["steps"].as_array().unwrap();
    let outcome = |name: &str| {
        let step = steps.iter().find(|step| step["name"] == name);
        step.unwrap_or_else(|| panic!("no `{name}` in {text}"))["outcome"].clone()
    };
    for name in [
        "conformance of cuda:0",
        "acceptance rows on cuda:0",
        "op tests on cuda:0",
        "training of LeNet-5 on cuda:0",
        "figures of cuda:0",
    ] {
        assert_eq!(outcome(name), "passed", "{text}");
    }
    // There is no GPU for it, if it is there at all.
    assert_eq!(outcome("figures of PyTorch"), "skipped", "{text}");
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(results["target"], "cuda:0");
    let figures = results["figures"].as_array().unwrap();
    let product = figures
        .iter()
        .find(|row| row["case"] == "matmul 256 f32")
        .unwrap();
    assert!(product["thalweg"].as_f64().unwrap() > 0.0, "{product}");
    let copied = (figures.iter())
        .find(|row| row["case"] == "map relu(a * b + c)")
        .unwrap();
    assert!(copied["asked"]["met"].is_boolean(), "{copied}");
    let table = fs::read_to_string(kit.join("results.txt")).unwrap();
    assert!(text.contains(&table), "{text}");
    assert!(table.starts_with("thalweg on cuda:0\n"), "{table}");
    assert!(table.contains("test accuracy 0.98"), "{table}");

    // A step that fails is told by the exit code, and the others go on.
    fs::write(kit.join("bin/ops"), "#!/bin/sh\necho broken\nexit 7\n").unwrap();
    fs::write(
        kit.join("bin/device"),
        "#!/bin/sh\necho '{\"case\": \"one\", \"value\": 2, \"unit\": \"GB/s\"}'\n",
    )
    .unwrap();
    let (code, text, results) = run(&kit, &["--small"], &standin);
    assert_eq!(code, Some(1), "{text}");
    let failed = |step: &&Value| step["outcome"] == "failed";
    let failed: Vec<&Value> = results["steps"]
        .as_array()
        .unwrap()
        .iter()
        .filter(failed)
        .collect();
    let [step] = failed[..] else {
        panic!("{text}");
    };
    assert_eq!(step["name"], "op tests on cuda:0");
    assert!(step["detail"].as_str().unwrap().contains("7; see "), "{step}");
    assert_eq!(results["figures"][0]["thalweg"], 2.0);
}
