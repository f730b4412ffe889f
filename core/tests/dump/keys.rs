//! The effect of every key.

use super::reader::{Manifest, files};
use super::{bytes, cx, dumped, input, network, options};
use std::path::Path;
use thalweg::observe::{self, DumpMode, DumpOptions, Figure, InputOutput, SavedData, recording::SpanKind};
use thalweg::{DumpError, Error, jit};

/// Names of the values that a network dumps.
fn names(change: impl FnOnce(&mut DumpOptions)) -> Vec<String> {
    let (cx, folder) = (cx(), tempfile::tempdir().unwrap());
    let mut options = options(folder.path());
    change(&mut options);
    let x = input(&cx);
    dumped(&cx, &options, || drop(network(&x).to_vec::<f32>().unwrap()));
    let place = folder.path().join("Net/device_0/iteration_0");
    if !place.exists() {
        return Vec::new();
    }
    let manifest = Manifest::read(&place);
    let short = |name: &str| name.rsplit('/').next().unwrap().to_owned();
    let name = |value: &serde_json::Value| {
        format!(
            "{} {}",
            short(value["name"].as_str().unwrap()),
            value["io"].as_str().unwrap()
        )
    };
    manifest.values().iter().map(name).collect()
}

#[test]
fn kernels_are_names_parts_of_ops_and_expressions() {
    let of = |kernels: &[&str]| {
        names(|options| {
            options.dump_mode = DumpMode::Kernels;
            options.input_output = InputOutput::Outputs;
            options.kernels = kernels.iter().map(|&kernel| kernel.to_owned()).collect();
        })
    };
    assert_eq!(of(&["Default/head/add-op4"]), ["add-op4 output"]);
    assert_eq!(of(&["MAX"]), ["softmax-op5 output"]);
    assert_eq!(
        of(&["name-regex(Default/.+op[23])", "sum"]),
        ["matmul-op2 output", "relu-op3 output", "sum-op6 output"]
    );
    let all = names(|options| options.kernels = vec!["no effect".to_owned()]);
    assert!(all.len() > 5, "{all:?}");
}

#[test]
fn an_entry_without_a_call_is_an_error_after_the_first_iteration() {
    let (cx, folder) = (cx(), tempfile::tempdir().unwrap());
    let mut options = options(folder.path());
    options.dump_mode = DumpMode::Kernels;
    options.kernels = vec!["relu".to_owned(), "Default/head/sotfmax-op5".to_owned()];
    let x = input(&cx);
    let dump = cx.dump(&options).unwrap();
    observe::restart_calls();
    for _ in 0..2 {
        network(&x).to_vec::<f32>().unwrap();
        dump.step();
    }
    let error = dump.finish().unwrap_err();
    assert!(
        matches!(&error, Error::Dump(DumpError::Kernels { iteration: 0, .. })),
        "{error:?}"
    );
    assert_eq!(
        error.to_string(),
        "dump: kernels is Default/head/sotfmax-op5; no call of iteration 0 is like it; near it are Default/head/softmax-op5, \
         Default/head/matmul-op2, Default/head/sum-op6"
    );
    // What was found is there.
    for iteration in 0..2 {
        let place = folder.path().join(format!("Net/device_0/iteration_{iteration}"));
        assert_eq!(
            Manifest::read(&place).of("Default/head/relu-op3", "output").len(),
            1
        );
    }
}

#[test]
fn inputs_and_outputs() {
    let io = |input_output: InputOutput| names(|options| options.input_output = input_output);
    let (both, inputs, outputs) = (
        io(InputOutput::Both),
        io(InputOutput::Inputs),
        io(InputOutput::Outputs),
    );
    assert_eq!(both.len(), inputs.len() + outputs.len());
    assert!(inputs.iter().all(|name| name.ends_with("input")));
    assert_eq!(
        outputs,
        [
            "matmul-op2 output",
            "relu-op3 output",
            "add-op4 output",
            "softmax-op5 output",
            "sum-op6 output"
        ]
    );
}

#[test]
fn devices_that_are_not_listed_write_nothing() {
    assert!(names(|options| options.support_device = vec![1, 2]).is_empty());
    assert!(!names(|options| options.support_device = vec![0]).is_empty());
}

#[test]
fn iterations_are_steps_from_0() {
    let (cx, folder) = (cx(), tempfile::tempdir().unwrap());
    let mut options = options(folder.path());
    options.iteration = "0|2-3|5".parse().unwrap();
    options.net_name = "steps".to_owned();
    let x = input(&cx);
    let compiled = jit(network);
    let dump = cx.dump(&options).unwrap();
    for step in 1..=7 {
        let _step = observe::span(SpanKind::Step, "", step);
        compiled.call(&(&x * step as f32)).to_vec::<f32>().unwrap();
        // With the next iteration, the one before is whole.
        let whole = folder
            .path()
            .join("steps/device_0/iteration_0/manifest.json")
            .exists();
        assert_eq!(whole, step > 1);
    }
    dump.finish().unwrap();
    let folders: Vec<u64> = (0..10)
        .filter(|iteration| {
            folder
                .path()
                .join(format!("steps/device_0/iteration_{iteration}"))
                .exists()
        })
        .collect();
    assert_eq!(folders, [0, 2, 3, 5]);
    for iteration in folders {
        let manifest = Manifest::read(
            &folder
                .path()
                .join(format!("steps/device_0/iteration_{iteration}")),
        );
        assert_eq!(manifest.json["step"], iteration + 1);
        let x = &x * (iteration + 1) as f32;
        assert_eq!(
            manifest.elements(manifest.of("Default/head/sum-op6", "output")[0]),
            bytes(&network(&x))
        );
    }
}

#[test]
fn figures_are_those_that_are_listed() {
    let (cx, folder) = (cx(), tempfile::tempdir().unwrap());
    let mut options = options(folder.path());
    options.saved_data = SavedData::Full;
    options.statistic_category = vec![Figure::Count, Figure::L2];
    let x = input(&cx);
    dumped(&cx, &options, || drop(network(&x).to_vec::<f32>().unwrap()));
    let place = folder.path().join("Net/device_0/iteration_0");
    let value = Manifest::read(&place).values()[0].clone();
    let keys: Vec<&String> = value["statistics"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["count", "l2"]);
    assert!(value["file"].is_string());
    let table = std::fs::read_to_string(place.join("statistic.csv")).unwrap();
    assert_eq!(
        table.lines().next(),
        Some("op,name,io,slot,bytes,dtype,shape,l2,count")
    );
}

#[test]
fn a_thread_of_its_own_writes_the_same_values() {
    let cx = cx();
    let x = input(&cx);
    let compiled = jit(network);
    let mut found = Vec::new();
    for by_thread in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let mut options = options(folder.path());
        options.net_name = "LeNet".to_owned();
        (options.e2e_enable, options.async_enable) = (!by_thread, by_thread);
        dumped(&cx, &options, || {
            let result = compiled.call(&x);
            assert_eq!(bytes(&result), bytes(&network(&x)));
        });
        found.push(sums(folder.path()));
        if by_thread {
            for name in files(folder.path()).keys().filter(|name| name.ends_with(".npy")) {
                let parts: Vec<&str> = name.split('/').collect();
                let graph = parts[1].strip_prefix("LeNet_graph_").unwrap();
                assert_eq!((parts[0], parts[2], parts[3]), ("0", graph, "0"));
                let fields: Vec<&str> = parts[4].split('.').collect();
                assert_eq!(fields.len(), 7, "{name}");
                assert!(
                    fields[1].starts_with(&format!("Default_head_{}-op", fields[0])),
                    "{name}"
                );
                assert!(fields[2].parse::<u64>().is_ok() && fields[3].parse::<u64>().unwrap() > 1 << 50);
            }
        }
    }
    assert_eq!(found[0], found[1]);
}

/// Name, direction, number and sum of all values.
fn sums(root: &Path) -> Vec<String> {
    let mut sums = Vec::new();
    for name in files(root).keys().filter(|name| name.ends_with("manifest.json")) {
        let manifest = Manifest::read(root.join(name).parent().unwrap());
        for value in manifest.values() {
            manifest.elements(value);
            sums.push(format!(
                "{} {} {} {}",
                value["name"], value["io"], value["slot"], value["sha256"]
            ));
        }
    }
    sums.sort();
    sums
}
