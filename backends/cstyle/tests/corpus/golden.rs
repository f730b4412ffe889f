//! Comparison with golden files: sources of representative kernels, which a refactoring must not change.
//!
//! `NAME.cpu.cl` is OpenCL C for a processor. `NAME.gpu` is OpenCL C and CUDA C for GPUs: lines of both, and those of one after
//! `@opencl` or `@cuda`; where that is long, because they have little in common, `NAME.opencl.gpu` and `NAME.cuda.gpu` have one
//! each. Every character of every dialect is compared. `THALWEG_GOLDEN=write` writes the files.

use super::dialects::{apart, together};
use std::path::Path;
use thalweg_cstyle::{Dialect, Source, Target};

pub(crate) const OPENCL_GPU: Target = Target {
    dialect: Dialect::OpenClC,
    fp64: true,
    cpu: false,
    max_group_size: 1024,
    argument_bytes: 1024,
};
pub(crate) const OPENCL_CPU: Target = Target {
    cpu: true,
    ..OPENCL_GPU
};
pub(crate) const TARGETS: [Target; 3] = [OPENCL_CPU, OPENCL_GPU, Target::CUDA];

/// Lines that a file has at most.
const LONG: usize = 500;

/// Without the helpers, which are files of their own.
pub(crate) fn body(source: &Source) -> &str {
    source.text.split_once("/* end of helpers */\n").unwrap().1
}

/// Compares what `render` writes for every target with the files of `name` in the folder `golden` of a routine.
pub(crate) fn compare(folder: &str, name: &str, render: impl Fn(&Target) -> Source) {
    let sources = TARGETS.map(|target| render(&target));
    let [cpu, opencl, cuda] = sources.each_ref().map(body);
    let gpu = together(opencl, cuda);
    assert_eq!(apart(&gpu), [opencl, cuda], "{name}: marks lose something");
    let mut files = vec![(format!("{name}.cpu.cl"), cpu)];
    if gpu.lines().count() > LONG {
        files.extend([
            (format!("{name}.opencl.gpu"), opencl),
            (format!("{name}.cuda.gpu"), cuda),
        ]);
    } else {
        files.push((format!("{name}.gpu"), gpu.as_str()));
    }
    for (file, found) in files {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/{folder}/golden/{file}"));
        if std::env::var_os("THALWEG_GOLDEN").is_some_and(|value| value == "write") {
            std::fs::write(&path, found).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == expected,
            "{file} differs; if that is meant, run the test with THALWEG_GOLDEN=write\n{found}"
        );
    }
}

/// A difference between dialects is declared, whichever has it, and nothing of either is lost.
#[test]
fn dialects_stand_together() {
    let (opencl, cuda) = ("a\nb\nc\n}\n", "a\nx\ny\nc\nz\n}\n");
    let both = "a\n@opencl\nb\n@cuda\nx\ny\n@both\nc\n@cuda\nz\n@both\n}\n";
    assert_eq!(together(opencl, cuda), both);
    assert_eq!(apart(both), [opencl, cuda]);
    assert_eq!(together(opencl, opencl), opencl);
    for other in ["a\nb\nc\n", "a\nb\n}\n", "", "a\nb\nc \n}\n", "a\nb\nc\n}\n}\n"] {
        let text = together(opencl, other);
        assert!(text.contains('@'), "{text}");
        assert_eq!(apart(&text), [opencl, other]);
    }
}
