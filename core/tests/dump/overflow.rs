//! Calls that overflow.

use super::reader::{Manifest, table};
use super::{bytes, cx, dumped, options};
use std::path::PathBuf;
use thalweg::observe::{DumpOptions, OpDebugMode};
use thalweg::{Context, DType, Tensor, jit};

fn overflow_options(folder: &std::path::Path, mode: OpDebugMode) -> DumpOptions {
    let mut options = options(folder);
    (options.e2e_enable, options.async_enable) = (false, true);
    options.op_debug_mode = mode;
    options
}

/// Folders with a manifest.
fn whole(root: &std::path::Path) -> Vec<PathBuf> {
    let files = super::reader::files(root);
    let manifests = files.keys().filter_map(|name| name.strip_suffix("manifest.json"));
    manifests.map(|name| root.join(name)).collect()
}

/// The rows of all `overflow.csv`: op, line and dtype.
fn rows(root: &std::path::Path) -> Vec<(String, String, String)> {
    let tables = whole(root).into_iter().map(|folder| folder.join("overflow.csv"));
    let rows = tables.filter(|path| path.exists()).flat_map(|path| table(&path));
    rows.map(|row| (row["op"].clone(), row["line"].clone(), row["dtype"].clone()))
        .collect()
}

fn halves(cx: &Context, numbers: &[f32]) -> Tensor {
    Tensor::from_slice(numbers, numbers.len(), cx).cast(DType::F16)
}

#[test]
fn an_overflow_is_named_with_op_and_line() {
    let cx = cx();
    let x = halves(&cx, &[300.0, 2.0]);
    let line = line!() + 1;
    let compute = |x: &Tensor| (x * x + 1.0).sqrt();
    let (compiled, plain) = (jit(compute), bytes(&compute(&x)));
    for compile in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let options = overflow_options(folder.path(), OpDebugMode::Both);
        dumped(&cx, &options, || {
            let result = if compile { compiled.call(&x) } else { compute(&x) };
            assert_eq!(bytes(&result), plain);
        });
        // What is infinite before is no overflow of the calls behind it.
        let at = format!("{}:{line}", file!());
        assert_eq!(rows(folder.path()), [("mul".to_owned(), at, "f16".to_owned())]);
        let place = whole(folder.path())
            .into_iter()
            .find(|place| place.join("overflow.csv").exists())
            .unwrap();
        let manifest = Manifest::read(&place);
        let ios: Vec<&str> = manifest
            .values()
            .iter()
            .map(|value| value["io"].as_str().unwrap())
            .collect();
        assert_eq!(ios, ["input", "output"]);
        assert_eq!(manifest.elements(&manifest.values()[0]), bytes(&x));
        assert_eq!(manifest.elements(&manifest.values()[1]), bytes(&(&x * &x)));
        assert_eq!(manifest.values()[1]["overflows"], true);
    }
}

#[test]
fn the_largest_number_is_an_overflow_and_a_clean_run_has_none() {
    let cx = cx();
    let of = |mode: OpDebugMode, run: &dyn Fn()| {
        let folder = tempfile::tempdir().unwrap();
        dumped(&cx, &overflow_options(folder.path(), mode), run);
        rows(folder.path())
            .into_iter()
            .map(|(op, ..)| op)
            .collect::<Vec<_>>()
    };
    let run = |numbers: &'static [f32]| {
        let cx = cx.clone();
        move || drop((halves(&cx, numbers) * 2.0).sum().item::<f32>())
    };
    assert!(of(OpDebugMode::Both, &run(&[1.0, 2.0])).is_empty());
    assert_eq!(of(OpDebugMode::Both, &run(&[32752.0, 0.0])), ["mul", "sum"]);
    // Each number is finite, and so is neither sum.
    let sums = run(&[20000.0, 20000.0]);
    assert_eq!(of(OpDebugMode::Reductions, &sums), ["sum"]);
    assert!(of(OpDebugMode::Ops, &sums).is_empty());
    let masked = || {
        let x = Tensor::from_slice(&[1.0_f32, 2.0], 2, &cx);
        x.gt(1.5)
            .where_cond(&x, f32::NEG_INFINITY)
            .to_vec::<f32>()
            .unwrap();
    };
    assert!(
        of(OpDebugMode::Both, &masked).is_empty(),
        "an infinite constant is no overflow"
    );
}
