//! Files about kernels, on every backend that runs them: each level has its files, the lines are those of the calls, and no level
//! changes a bit. This test runs itself as such a program.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "plugins/context.rs"]
mod context;
mod plugins;

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use thalweg::hal::ir::Kernel;
use thalweg::host::set_config;
use thalweg::{Context, Runtime, SessionOptions, Tensor, jit};

/// The backend that the program runs on.
const ASKED: &str = "KERNEL_META_TARGET";
/// The line of the call of `exp`.
const EXP: u32 = line!() + 4;

/// A map and a sum in one kernel, a product with an epilogue, and a gather.
fn formula(x: &Tensor, index: &Tensor) -> [Tensor; 3] {
    let y = x.exp();
    let sum = (&y * 0.5).sum_axes([1]);
    let product = x.matmul(&x.t()) + 1.0;
    [sum, product, y.index_select(0, index)]
}

fn context(target: &str) -> Option<Context> {
    if target == "cuda" {
        let folder = plugins::cuda_standin("kernel_meta", &[]);
        let cache = folder.join("cache");
        set_config("cuda.libraries", folder.to_str());
        set_config("cuda.cache", cache.to_str());
    }
    context::context(target, target != "cpu")
}

/// The program: it says its bits, and what becomes of an index that is outside.
#[test]
#[ignore = "other tests run it"]
fn program() {
    let Ok(target) = std::env::var(ASKED) else { return };
    Runtime::init(SessionOptions::from_env().unwrap()).unwrap();
    let Some(cx) = context(&target) else {
        eprintln!("skipped");
        return;
    };
    let values: Vec<f32> = (0..35).map(|at| at as f32 * 0.37 - 5.9).collect();
    let x = Tensor::from_slice(&values, [5, 7], &cx);
    let index = |last: i64| Tensor::from_slice(&[4, 0, last], [3], &cx);
    let compiled = jit(|x: &Tensor, index: &Tensor| formula(x, index)).named("formula");
    let mut bits = Vec::new();
    for results in [formula(&x, &index(1)), compiled.call((&x, &index(1)))] {
        for result in results {
            bits.extend(result.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits));
        }
    }
    eprintln!("bits: {bits:?}");
    let [_, _, rows] = compiled.call((&x, &index(8)));
    match rows.to_vec::<f32>() {
        Ok(_) => eprintln!("index: read as 0"),
        Err(error) => eprintln!("index: {error}"),
    }
}

fn run(target: &str, level: u8, folder: &Path) -> Option<(String, String)> {
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["program", "--exact", "--ignored", "--nocapture"])
        .env(ASKED, target)
        .env("THALWEG_OP_DEBUG_LEVEL", level.to_string())
        .env("THALWEG_SAVE_GRAPHS", "2")
        .env("THALWEG_SAVE_GRAPHS_PATH", "graphs")
        .current_dir(folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    let line = |start: &str| {
        said.lines()
            .find_map(|line| line.strip_prefix(start))
            .map(str::to_owned)
    };
    if said.contains("skipped") {
        return None;
    }
    Some((line("bits: ").unwrap(), line("index: ").unwrap()))
}

/// The files of a folder by name; none where there is no folder.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let Ok(entries) = fs::read_dir(folder) else {
        return BTreeMap::new();
    };
    let read = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.unwrap();
        (
            entry.file_name().into_string().unwrap(),
            fs::read(entry.path()).unwrap(),
        )
    };
    entries.map(read).collect()
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

/// What the names of files end in.
fn endings(files: &BTreeMap<String, Vec<u8>>) -> BTreeSet<&str> {
    let ending = |name: &'_ String| -> &'static str {
        ["_loc.json", "_compute.json", ".json", ".bin", ".cl", ".cu"]
            .into_iter()
            .find(|ending| name.ends_with(ending))
            .unwrap_or_else(|| panic!("{name}"))
    };
    files.keys().map(ending).collect()
}

/// Each file that another one names is there, or the reason why it is not.
fn files_are_named(files: &BTreeMap<String, Vec<u8>>, level: u8) {
    let about = files
        .iter()
        .filter(|(name, _)| !name.ends_with("_loc.json") && !name.ends_with("_compute.json"));
    for (name, bytes) in about.filter(|(name, _)| name.ends_with(".json")) {
        let about = json(bytes);
        assert_eq!(about["op_debug_level"], level, "{name}");
        assert!(!about["parameters"].as_array().unwrap().is_empty(), "{name}");
        assert!(
            !about["launches"][0]["calls"].as_array().unwrap().is_empty(),
            "{name}: {about}"
        );
        assert!(about["facts"]["form"].is_string(), "{name}");
        for part in ["source", "lines", "binary", "compute"] {
            match (about[part]["file"].as_str(), about[part]["none"].as_str()) {
                (Some(file), None) => assert!(!files[file].is_empty(), "{file}"),
                (None, Some(why)) => assert!(!why.is_empty(), "{name}"),
                other => panic!("{name}: {part} is {other:?}"),
            }
        }
    }
}

/// Lines of sources: those of `exp` hold its function, and name the line above.
fn lines_are_right(files: &BTreeMap<String, Vec<u8>>) {
    let mut found = 0;
    for (name, bytes) in files.iter().filter(|(name, _)| name.ends_with("_loc.json")) {
        let lines = json(bytes);
        let source = String::from_utf8(files[lines["source"].as_str().unwrap()].clone()).unwrap();
        let source: Vec<&str> = source.lines().collect();
        for line in lines["lines"].as_array().unwrap() {
            let text = source[line["line"].as_u64().unwrap() as usize - 1];
            let calls = line["calls"].as_array().unwrap();
            assert!(!calls.is_empty(), "{name}: {line}");
            if text.contains("exp_") || text.contains("exp(") {
                let exp = calls.iter().find(|call| call["op"] == "exp");
                let at = exp.unwrap_or_else(|| panic!("{name}: {text}: {line}"))["line"]
                    .as_str()
                    .unwrap();
                assert!(at.ends_with(&format!("kernel_meta.rs:{EXP}")), "{at}");
                found += 1;
            }
        }
    }
    assert!(found >= 2, "{found} lines of exp");
}

/// All levels of a backend; `source` is what files with sources end in, where it has any.
fn levels(target: &str, source: Option<&'static str>) {
    let mut plain = None;
    for level in 0..=4_u8 {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kernel-meta-{target}-{level}"));
        // There may be none of an earlier run.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let Some((bits, index)) = run(target, level, &folder) else {
            plugins::skip::skip(target, "there is no such device");
            return;
        };
        let plain = plain.get_or_insert_with(|| bits.clone());
        assert_eq!(&bits, plain, "bits of level {level}");
        if level == 2 {
            assert!(
                index.starts_with("index_select: index 8 at [2] is outside of -5..5, axis 0"),
                "{index}"
            );
        } else {
            assert_eq!(index, "read as 0");
        }
        let written = files(&folder.join("kernel_meta"));
        let wanted: &[&str] = match (level, source) {
            (0, _) => &[],
            (4, None) => &[".json", "_compute.json"],
            (_, None) => &[".json"],
            (3, Some(_)) => &[".json", ".bin"],
            (4, Some(source)) => &[".json", ".bin", "_compute.json", source],
            (_, Some(source)) => &[".json", ".bin", "_loc.json", source],
        };
        assert_eq!(
            endings(&written),
            wanted.iter().copied().collect(),
            "level {level}"
        );
        files_are_named(&written, level);
        if level == 1 || level == 2 {
            match source {
                Some(_) => lines_are_right(&written),
                None => assert!(written.keys().all(|name| !name.ends_with("_loc.json"))),
            }
        }
        if level == 2 {
            let option = |about: &Value| about["facts"]["options"].as_str().unwrap_or("").to_owned();
            for (name, bytes) in written
                .iter()
                .filter(|(name, _)| name.ends_with("_unoptimised.json"))
            {
                let about = json(bytes);
                let plain =
                    option(&about).contains("-cl-opt-disable") || option(&about).contains("--device-debug");
                let library = about["facts"]["form"] == "cuBLASLt";
                let refused = about["optimised"]["because"].is_string();
                assert!(
                    plain || library || (source.is_none() && refused),
                    "{name}: {about}"
                );
            }
        }
        for (name, bytes) in written.iter().filter(|(name, _)| name.ends_with("_compute.json")) {
            let compute = json(bytes);
            let kernel = Kernel::parse(compute["ir"].as_str().unwrap()).unwrap();
            assert_eq!(
                compute["nodes"].as_array().unwrap().len(),
                kernel.nodes.len(),
                "{name}"
            );
        }
        let graphs = files(&folder.join("graphs"));
        let sources = graphs.keys().filter(|name| name.contains("_formula_source_"));
        assert_eq!(sources.count() > 0, source.is_some(), "{:?}", graphs.keys());
    }
}

#[test]
fn cpu() {
    levels("cpu", None);
}

#[test]
fn reference() {
    levels("reference", None);
}

#[test]
fn opencl() {
    levels("opencl", Some(".cl"));
}

#[test]
fn cuda_on_a_stand_in() {
    levels("cuda", Some(".cu"));
}
