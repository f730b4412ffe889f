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

/// A result is a reduction's when its numbers are combinations of many, however the call comes to them.
#[test]
fn classes_are_told_apart_by_results() {
    let cx = cx();
    let of = |mode: OpDebugMode, run: &dyn Fn() -> Tensor| {
        let folder = tempfile::tempdir().unwrap();
        dumped(&cx, &overflow_options(folder.path(), mode), || {
            drop(bytes(&run()))
        });
        rows(folder.path())
            .into_iter()
            .map(|(op, ..)| op)
            .collect::<Vec<_>>()
    };
    // The logarithm of a product that f32 cannot hold; a norm of 0; sums and a scatter that f16 cannot hold.
    let x = Tensor::from_slice(&[3e38_f32, -3e38, 0.0, 1.0], [2, 2], &cx);
    let zeros = Tensor::zeros([2, 3], DType::F32, &cx);
    let one_wide = Tensor::zeros([3, 1], DType::F32, &cx);
    let large = halves(&cx, &[40000.0, 40000.0]);
    let index = Tensor::from_slice(&[0_i64, 0], 2, &cx);
    type Case<'a> = (&'a str, OpDebugMode, &'a Tensor, &'a dyn Fn(&Tensor) -> Tensor);
    let (ops, reductions) = (OpDebugMode::Ops, OpDebugMode::Reductions);
    let cases: [Case<'_>; 8] = [
        ("log_softmax", ops, &x, &|x| x.log_softmax(-1)),
        ("normalize", ops, &zeros, &|x| x.normalize(2.0, -1, 0.0)),
        ("normalize", ops, &one_wide, &|x| x.normalize(2.0, -1, 0.0)),
        ("mul", ops, &large, &|x| x * 2.0),
        ("sum", reductions, &large, &|x| x.sum()),
        ("cumsum", reductions, &large, &|x| x.cumsum(0)),
        ("var", reductions, &x, &|x| x.var(1)),
        ("scatter_add", reductions, &large, &|x| {
            x.scatter_add(0, &index, &large)
        }),
    ];
    for (op, class, x, function) in cases {
        let compiled = jit(|x: &Tensor| function(x));
        let other = if class == ops { reductions } else { ops };
        let runs: [&dyn Fn() -> Tensor; 2] = [&|| function(x), &|| compiled.call(x)];
        for run in runs {
            assert_eq!(
                (of(class, run), of(other, run)),
                (vec![op.to_owned()], vec![]),
                "{op}"
            );
        }
    }
}
