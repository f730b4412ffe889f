//! What is in the files.

use super::reader::{Manifest, files, table};
use super::{bytes, cx, dumped, input, network, options};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use thalweg::observe::{self, FileFormat, SavedData};
use thalweg::ops::{ConvOptions, PoolOptions};
use thalweg::{Context, DType, F8E4M3, Mode, Tensor, fori_loop, jit};

/// Dumps what a network computes, op by op, recorded and compiled; checks that files and results are the same, and that the results of
/// the call `last` are those of the network.
fn in_every_mode(
    cx: &Context,
    x: &Tensor,
    last: &str,
    network: impl Fn(&Tensor) -> Tensor + Clone + Send + Sync + 'static,
) -> BTreeMap<String, Vec<u8>> {
    let plain = bytes(&network(x));
    let compiled = jit(network.clone());
    let mut found = Vec::new();
    for way in ["eager", "recorded", "compiled"] {
        let folder = tempfile::tempdir().unwrap();
        let mut options = options(folder.path());
        options.saved_data = SavedData::Full;
        dumped(cx, &options, || {
            cx.set_mode(if way == "recorded" {
                Mode::Graph
            } else {
                Mode::Eager
            });
            let result = if way == "compiled" {
                compiled.call(x)
            } else {
                network(x)
            };
            assert_eq!(bytes(&result), plain);
            cx.set_mode(Mode::Eager);
        });
        found.push(files(folder.path()));
        let manifest = Manifest::read(&folder.path().join("Net/device_0/iteration_0"));
        let results = manifest.of(last, "output");
        assert_eq!(manifest.elements(results[0]), plain, "{way}");
    }
    let first = found.remove(0);
    for other in &found {
        assert_eq!(first.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
        for (name, content) in &first {
            assert_eq!(
                String::from_utf8_lossy(content),
                String::from_utf8_lossy(&other[name]),
                "{name}"
            );
        }
    }
    first
}

#[test]
fn eager_recorded_and_compiled_code_writes_the_same_files() {
    let cx = cx();
    let found = in_every_mode(&cx, &input(&cx), "Default/head/sum-op6", network);
    let names: Vec<&str> = found
        .keys()
        .map(|name| name.rsplit('/').next().unwrap())
        .collect();
    for name in [
        "Default--head--matmul-op2_input_0_shape_2_3_Float32_DefaultFormat.npy",
        "Default--head--matmul-op2_output_0_shape_2_2_Float32_DefaultFormat.npy",
        "Default--head--softmax-op5_output_0_shape_2_2_Float32_DefaultFormat.npy",
        "execution_order.csv",
        "manifest.json",
        "statistic.csv",
    ] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
}

/// Compiled convolutions keep channels last in memory; files do not.
#[test]
fn images_are_written_in_their_own_order() {
    let cx = cx();
    let numbers = |shape: [usize; 4]| {
        let number = |at: usize| (at * 37 % 101) as f32 / 50.0 - 1.0;
        let numbers: Vec<f32> = (0..shape.iter().product()).map(number).collect();
        Tensor::from_slice(&numbers, shape, &cx)
    };
    let (first, second) = (numbers([32, 3, 3, 3]), numbers([48, 32, 1, 1]));
    let network = move |x: &Tensor| {
        let made = x.conv2d(&first, None, ConvOptions::new().padding(1)).tanh();
        let pooled = made.max_pool2d(PoolOptions::new(2));
        let made = pooled.conv2d(&second, None, ConvOptions::new()).relu();
        made.global_avg_pool()
    };
    let x = numbers([2, 3, 7, 5]);
    let found = in_every_mode(&cx, &x, "Default/global_avg_pool-op6", network);
    let is_pool = |name: &&String| name.contains("max_pool2d-op3_output_0_shape_2_32_3_2_Float32");
    assert_eq!(found.keys().filter(is_pool).count(), 1, "{:?}", found.keys());
}

#[test]
fn a_manifest_says_what_a_value_is() {
    let (cx, folder) = (cx(), tempfile::tempdir().unwrap());
    let x = input(&cx);
    let line = line!() + 1;
    let compute = || x.exp().to_vec::<f32>().unwrap();
    dumped(&cx, &options(folder.path()), || drop(compute()));
    let manifest = Manifest::read(&folder.path().join("Net/device_0/iteration_0"));
    let (device, step) = (&manifest.json["device"], &manifest.json["step"]);
    assert_eq!((device.as_str(), step.as_u64()), (Some("cpu:0"), Some(1)));
    assert_eq!(
        (&manifest.json["net"], &manifest.json["iteration"]),
        (&"Net".into(), &0.into())
    );
    let value = manifest.of("Default/exp-op1", "output")[0];
    let text = |key: &str| value[key].as_str().unwrap();
    assert_eq!(
        (text("op"), text("scope"), text("phase")),
        ("exp", "Default", "forward")
    );
    assert_eq!(
        (text("dtype"), &value["shape"]),
        ("f32", &serde_json::json!([2, 3]))
    );
    assert_eq!(text("line"), format!("{}:{line}", file!()));
    assert_eq!(manifest.elements(value), bytes(&x.exp()));
    assert_eq!(
        manifest.elements(manifest.of("Default/exp-op1", "input")[0]),
        bytes(&x)
    );
    let order = table(&manifest.folder.join("execution_order.csv"));
    assert_eq!((order.len(), order[0]["name"].as_str()), (1, "Default/exp-op1"));
    for folder in ["Net", "Net/device_0", "Net/device_0/iteration_0"].map(|inner| folder.path().join(inner)) {
        let mode = std::fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{}", folder.display());
    }
}

#[test]
fn every_dtype_and_shape_has_a_file() {
    let cx = cx();
    for format in [FileFormat::Npy, FileFormat::Bin] {
        let folder = tempfile::tempdir().unwrap();
        let mut options = options(folder.path());
        options.file_format = format;
        let mut wanted = Vec::new();
        dumped(&cx, &options, || {
            for dtype in DType::ALL {
                for shape in [&[][..], &[0], &[3], &[2, 0], &[1, 2, 3]] {
                    let ones = Tensor::ones(shape, DType::F32, &cx);
                    let _scope = observe::scope(&format!("{dtype}_{}", shape.len()));
                    wanted.push((dtype, bytes(&ones.cast(dtype))));
                }
            }
        });
        let manifest = Manifest::read(&folder.path().join("Net/device_0/iteration_0"));
        let is_cast = |value: &&serde_json::Value| value["op"] == "cast" && value["io"] == "output";
        let mut casts = manifest.values().iter().filter(is_cast);
        for (dtype, elements) in wanted.iter().filter(|(dtype, _)| *dtype != DType::F32) {
            let value = casts.next().unwrap();
            assert_eq!(value["dtype"], dtype.to_string());
            assert_eq!(&manifest.elements(value), elements, "{dtype}");
            let bin = format == FileFormat::Bin || dtype.facts().numpy.is_none();
            assert_eq!(value["file"].as_str().unwrap().ends_with(".bin"), bin);
        }
        assert!(casts.next().is_none());
    }
    let one = F8E4M3::ONE.to_bits();
    assert_eq!(
        bytes(&Tensor::ones(1, DType::F32, &cx).cast(DType::F8E4M3)),
        [one]
    );
}

#[test]
fn statistics_are_those_of_the_elements() {
    let (cx, folder) = (cx(), tempfile::tempdir().unwrap());
    let x = Tensor::from_slice(&[3.0_f32, f32::NAN, -4.0, 0.0, f32::INFINITY, 0.0], [2, 3], &cx);
    let mut options = options(folder.path());
    options.saved_data = SavedData::Statistic;
    dumped(&cx, &options, || drop((&x + 0.0).to_vec::<f32>().unwrap()));
    let manifest = Manifest::read(&folder.path().join("Net/device_0/iteration_0"));
    let value = manifest.of("Default/add-op1", "output")[0];
    assert!(value["file"].is_null() && value["sha256"].is_null());
    let (mean, l2) = (-1.0 / 4.0, 5.0);
    let figures = &value["statistics"];
    for (name, wanted) in [("min", -4.0), ("max", 3.0), ("mean", mean), ("l2", l2)] {
        assert_eq!(figures[name].as_f64(), Some(wanted), "{name}");
    }
    for (name, wanted) in [("nan", 1), ("inf", 1), ("zeros", 2), ("count", 6)] {
        assert_eq!(figures[name].as_u64(), Some(wanted), "{name}");
    }
    let rows = table(&manifest.folder.join("statistic.csv"));
    let row = rows.iter().find(|row| row["io"] == "output").unwrap();
    assert_eq!(
        (row["name"].as_str(), row["shape"].as_str()),
        ("Default/add-op1", "2x3")
    );
    assert_eq!((row["mean"].as_str(), row["hash"].len()), ("-0.25", 64));
    // The sum of the elements alone is that of a file that has nothing else.
    let other = tempfile::tempdir().unwrap();
    let mut bin = super::options(other.path());
    bin.file_format = FileFormat::Bin;
    dumped(&cx, &bin, || drop((&x + 0.0).to_vec::<f32>().unwrap()));
    let bin = Manifest::read(&other.path().join("Net/device_0/iteration_0"));
    assert_eq!(bin.of("Default/add-op1", "output")[0]["sha256"], figures["hash"]);
}

#[test]
fn turns_of_a_loop_and_long_names_have_their_own_files() {
    let (cx, folder) = (cx(), tempfile::tempdir().unwrap());
    let x = input(&cx);
    let doubled = jit(|x: &Tensor| {
        let _scope = observe::scope(&"deep.".repeat(60));
        fori_loop(0..20, x.clone(), |_, x| &x * 2.0)
    });
    let mut options = options(folder.path());
    options.input_output = observe::InputOutput::Outputs;
    dumped(&cx, &options, || drop(doubled.call(&x).to_vec::<f32>().unwrap()));
    let manifest = Manifest::read(&folder.path().join("Net/device_0/iteration_0"));
    let turns: Vec<_> = manifest
        .values()
        .iter()
        .filter(|value| value["op"] == "mul")
        .collect();
    assert_eq!(turns.len(), 20);
    let mut wanted = x;
    for turn in turns {
        wanted = &wanted * 2.0;
        assert_eq!(manifest.elements(turn), bytes(&wanted));
        assert!(turn["file"].as_str().unwrap().len() <= 200);
    }
    let names = files(&manifest.folder);
    assert_eq!(names.len(), 20 + 2, "{:?}", names.keys());
}
