//! The kit over every backend that can run here, a test for each group.
#![allow(clippy::unwrap_used, reason = "a test")]

mod plugins;
mod reports;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use thalweg::hal::{Runtime, Status};
use thalweg::host::set_config;
use thalweg::loader::{LoaderOptions, Registry};
use thalweg_conformance::kit::{Ignore, matches};
use thalweg_conformance::{Ignores, Kit, Outcome, Subject, cases};

/// What each test runs.
const GROUPS: [(&str, &str); 32] = [
    ("core", "core/*"),
    ("memory", "memory/*"),
    ("streams", "streams/*"),
    ("events", "events/*"),
    ("errors", "errors/*"),
    ("scalars", "kernels/scalar.*"),
    ("casts", "kernels/c*"),
    ("arguments", "kernels/scalar_argument.*"),
    ("reductions", "kernels/reduce.*"),
    ("rows", "kernels/rows.*"),
    ("forms", "kernels/form.* kernels/windows.*"),
    ("random", "kernels/rand*"),
    ("library", "library/*"),
    // Parts of it, for a device whose kernels take long to compile.
    ("products", "library/matmul.f32.*"),
    ("biases", "library/matmul.*.bias"),
    ("windows", "library/conv*.f32.epilogue"),
    ("scans", "library/scan.sum.f32"),
    ("scatters", "library/scatter.sum.f32"),
    // Every op, with a dtype of each kind and every way that its arguments lie in memory.
    (
        "some_scalars",
        "kernels/scalar.*.f32.contiguous kernels/scalar.*.i32.strided kernels/scalar.*.bf16.broadcast \
         kernels/scalar.*.u8.gather kernels/scalar.*.bool.contiguous",
    ),
    // To and from the widest and narrow floats and f32.
    (
        "some_casts",
        "kernels/cast.f64.* kernels/cast.*.f32 kernels/cast.f32.* kernels/cast.*.f16 kernels/cast.*.f8e4m3 kernels/cast.f8e5m2.* \
         kernels/constant.*",
    ),
    (
        "some_reductions",
        "kernels/reduce.*.f32.rows kernels/reduce.*.i64.columns kernels/reduce.*.f16.large kernels/reduce.*.u8.nothing \
         kernels/reduce.sum.f32.same_bits_every_time",
    ),
    ("some_random", "kernels/rand.* kernels/random.*.0"),
    (
        "some_products",
        "library/matmul.f16* library/matmul.f8* library/matmul.i8* library/matmul.u8_i8* \
         library/matmul.same_bits_every_time",
    ),
    // What tensor cores take.
    (
        "half_products",
        "library/matmul.f16.f32* library/matmul.bf16* library/conv*.f16.* library/conv*.bf16.*",
    ),
    ("some_scans", "library/scan.max.i64 library/scan.prod.f16"),
    (
        "some_scatters",
        "library/scatter.max.i64 library/scatter.prod.f16",
    ),
    // Every width of elements, floats and others, and every way that a row is sorted.
    (
        "some_sorts",
        "library/sort.f32 library/sort.f32.rows library/sort.f32.line.special library/sort.f64.long library/sort.f16 \
         library/sort.bf16.long library/sort.i64 library/sort.bool library/sort.u8.long library/sort.f32.lengths.values \
         library/sort.f32.rows.values library/sort.f32.line.* library/sort.f64.values library/sort.f64.long.values \
         library/sort.f16.long.values library/sort.bf16.values library/sort.i64.long.values library/sort.u32.long.values \
         library/sort.i32.values library/sort.u64.values library/sort.bool.values library/sort.i8.long.values library/sort.f32.part \
         library/sort.f32.rows.part library/sort.f64.long.part library/sort.f16.part.values library/sort.bf16.long.part \
         library/sort.i64.part library/sort.u8.long.part library/sort.bool.part library/sort.i32.long.part.values",
    ),
    // Every dtype, every mask, and tiles of every width.
    (
        "some_attention",
        "library/attention.f16 library/attention.f64.masks library/attention.bf16.masks library/attention.f32.wide \
         library/attention.f32.shared library/attention.f32.hidden library/attention.f32.empty library/attention.f16.wide \
         library/attention.bf16.long library/attention.f16.empty library/attention.f16.scales library/attention.bf16.hidden \
         library/attention.f16.nan library/attention.bf16.infinite library/attention.f32.infinite library/attention.f16.scattered \
         library/attention.*.spread",
    ),
    ("programs", "programs/*"),
    ("profile", "profile/*"),
    ("concurrency", "concurrency/*"),
    ("acceptance", "acceptance/*"),
];

fn load(file: &Path) -> Subject {
    let options = LoaderOptions {
        cache: None,
        ..LoaderOptions::default()
    };
    load_as(file, &options)
}

fn load_as(file: &Path, options: &LoaderOptions) -> Subject {
    Subject::load(file, options).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// A plugin under the layer `validate`.
fn load_validated(file: &Path) -> Subject {
    load_as(file, &validated())
}

/// What is loaded under the layer `validate`, whose reports are collected.
fn validated() -> LoaderOptions {
    reports::collect();
    LoaderOptions {
        layers: vec!["validate".into()],
        cache: None,
        ..LoaderOptions::default()
    }
}

fn embedded_validated() -> Subject {
    let options = LoaderOptions {
        use_environment: false,
        use_executable: false,
        development: false,
        ..validated()
    };
    Subject::of(Registry::new(options).get("cpu").unwrap()).unwrap()
}

/// Cases that do on purpose what the layer refuses.
const RACES: &[(&str, &str)] = &[(
    "streams/blocked_callback_does_not_block_the_caller",
    "it reads what waits to be written, to see that it waits",
)];

/// Runs the cases of a group under the layer `validate`: they pass, because it refuses what the contract refuses, and it logs nothing
/// but objects that cases leave to the close of their device.
fn judge_validated(subject: impl Into<Option<Subject>>, group: &str, unsupported: &[&str]) {
    judge_but(subject, group, unsupported, RACES);
    let logged: Vec<String> = (reports::take().into_iter())
        .map(|(_, line)| line)
        .filter(|line| !line.starts_with("TW-LIFETIME-005"))
        .collect();
    assert!(logged.is_empty(), "{}", logged.join("\n"));
}

/// The embedded CPU at an instruction set, if this machine has it.
fn cpu_at(isa: &str) -> Option<Subject> {
    set_config("cpu.isa", Some(isa));
    let opened = Runtime::new(Registry::new(LoaderOptions::default())).device("cpu");
    match opened {
        Ok(_) => Some(Subject::embedded("cpu").unwrap()),
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("this processor lacks"), "{text}");
            plugins::skip::skip("machine", text);
            None
        }
    }
}

/// The backend in plain C, built once for the tests of one process.
fn plain() -> &'static Path {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| plugins::plain_c("conformance"))
}

fn reference() -> Subject {
    load(&plugins::built("thalweg_reference"))
}

/// The OpenCL backend with memory of the driver and with one program that interprets kernels, which takes no time to compile;
/// `cargo xtask ci` runs the kit with its defaults. None where the machine has no OpenCL device.
fn opencl() -> Option<Subject> {
    opencl_file().map(|file| load(&file))
}

fn opencl_file() -> Option<PathBuf> {
    let file = plugins::built("thalweg_opencl");
    let options = LoaderOptions {
        folders: vec![file.parent().unwrap().to_owned()],
        ..LoaderOptions::default()
    };
    let backend = Runtime::new(Registry::new(options)).backend("opencl").unwrap();
    if let Err(error) = backend.device_count() {
        assert_eq!(error.status(), Status::Unavailable, "{error}");
        plugins::skip::skip("opencl", error);
        return None;
    }
    set_config("opencl.kernels", Some("interpreted"));
    set_config("opencl.memory", Some("device"));
    Some(file)
}

/// The CUDA backend over a stand-in for its libraries; no GPU is behind it. Kernels are CUDA C that the host's compiler
/// has compiled.
fn cuda_standin() -> Subject {
    load(&cuda_file())
}

fn cuda_file() -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| plugins::cuda_standin("cuda_conformance", &[]));
    let cache = folder.join("cache");
    set_config("cuda.libraries", folder.to_str());
    set_config("cuda.cache", cache.to_str());
    plugins::built("thalweg_cuda")
}

/// The same with matrix products by kernels of our own, which take epilogues, and profiles by events.
fn cuda_alone() -> Subject {
    set_config("cuda.cublaslt", Some("off"));
    set_config("cuda.cupti", Some("off"));
    cuda_standin()
}

/// Runs the cases of a group. What a backend may say it does not support is listed, so that one that stops offering
/// something does not pass unnoticed.
fn judge(subject: impl Into<Option<Subject>>, group: &str, unsupported: &[&str]) {
    judge_but(subject, group, unsupported, &[]);
}

/// As [`judge`], without some cases.
fn judge_but(
    subject: impl Into<Option<Subject>>,
    group: &str,
    unsupported: &[&str],
    without: &[(&str, &str)],
) {
    let Some(subject) = subject.into() else { return };
    let (_, pattern) = GROUPS.iter().find(|(name, _)| *name == group).unwrap();
    let mut ignores = Ignores::known(&subject.target());
    let without = without.iter().map(|&(case, reason)| Ignore {
        case: case.into(),
        reason: reason.into(),
    });
    ignores.list.extend(without);
    let kit = Kit::new().only(pattern).ignores(ignores).measure(false);
    let report = kit.run(&Arc::new(subject), |_| {});
    assert!(report.is_conformant(), "{report}");
    for row in &report.rows {
        if let Outcome::Unsupported(reason) = &row.outcome {
            let known = unsupported.iter().any(|part| reason.contains(part));
            assert!(
                known,
                "{}/{} is no longer supported: {reason}",
                row.group, row.name
            );
        }
    }
}

macro_rules! backends {
    ($($backend:ident = $subject:expr, $unsupported:expr, [$($group:ident),*];)*) => { $(
        mod $backend {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[test]
                fn $group() {
                    judge($subject, stringify!($group), &$unsupported);
                }
            )*
        }
    )* };
    (validated $($backend:ident = $subject:expr, $unsupported:expr, [$($group:ident),*];)*) => { $(
        mod $backend {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[test]
                fn $group() {
                    judge_validated($subject, stringify!($group), &$unsupported);
                }
            )*
        }
    )* };
}

backends! { validated
    cpu_validated = embedded_validated(), ["lower it", "no hardware counters"],
        [core, memory, streams, events, errors, rows, forms, some_products, programs, profile, concurrency, acceptance];
    reference_validated = load_validated(&plugins::built("thalweg_reference")),
        ["priority: there is one only", "no library ops", "no hardware counters"],
        [memory, streams, events, errors, forms, programs, profile, concurrency];
    plain_c_validated = load_validated(plain()),
        ["every instance has the same context", "import: capability", "priority: there is one only", "no table of"],
        [memory, streams, events, errors, concurrency];
    opencl_validated = opencl_file().map(|file| load_validated(&file)),
        ["capability", "priority", "lower it", "no hardware counters"],
        [memory, streams, events, errors, forms, programs, profile, concurrency];
    cuda_validated = load_validated(&cuda_file()),
        ["map: capability", "lower it", "without its epilogue", "no hardware counters"],
        [memory, streams, events, errors, programs, profile, concurrency];
}

backends! {
    cpu_embedded = Subject::embedded("cpu").unwrap(), ["lower it", "no hardware counters"],
        [core, memory, streams, events, errors, scalars, casts, arguments, reductions, rows, forms, random, library, programs,
        profile, concurrency, acceptance];
    cpu_baseline = cpu_at("baseline"), ["lower it", "no hardware counters"],
        [rows, forms, arguments, some_scalars, some_casts, some_reductions, some_random,
        some_products, products, biases, windows, some_scans, some_scatters, some_sorts, some_attention];
    cpu_avx2 = cpu_at("avx2"), ["lower it", "no hardware counters"],
        [rows, forms, arguments, some_scalars, some_casts, some_reductions, some_random,
        some_products, products, biases, windows, some_scans, some_scatters, some_sorts, some_attention];
    // The same kernels as above; `cargo xtask ci` runs the whole kit over the file.
    cpu_plugin = load(&plugins::built("thalweg_cpu")), ["lower it", "no hardware counters"],
        [core, memory, streams, events, errors, forms, programs, profile, concurrency];
    reference_plugin = reference(),
        ["priority: there is one only", "no library ops", "no hardware counters"],
        [core, memory, streams, events, errors, scalars, casts, arguments, reductions, rows, forms, random, library, programs,
        profile, concurrency, acceptance];
    cuda_on_a_stand_in = cuda_standin(),
        ["map: capability", "lower it", "ask for them", "without its epilogue", "no hardware counters"],
        [core, memory, streams, events, errors, rows, forms, arguments,
        some_scalars, some_casts, some_reductions, some_random, some_products, some_scans, some_scatters, some_sorts,
        some_attention, products, half_products, biases,
        windows, scans, scatters, programs, profile, concurrency, acceptance];
    cuda_without_cublaslt = cuda_alone(), ["map: capability", "lower it", "no hardware counters"],
        [some_products, products, half_products, biases, profile];
    plain_c = load(plain()),
        ["every instance has the same context", "import: capability", "priority: there is one only", "no table of"],
        [core, memory, streams, events, errors, profile, concurrency, acceptance];
}

backends! {
    opencl_interpreted = opencl(), ["capability", "priority", "lower it", "no hardware counters"],
        [memory, streams, events, errors, scalars, casts, arguments, reductions, rows, forms, random, programs, profile, concurrency];
}

#[test]
fn every_pattern_has_cases() {
    let paths: Vec<String> = cases().iter().map(thalweg_conformance::Case::path).collect();
    for (group, patterns) in GROUPS {
        for pattern in patterns.split_whitespace() {
            let found = paths.iter().any(|path| matches(pattern, path));
            assert!(found, "{pattern} of {group}");
        }
    }
}

#[test]
fn every_case_is_in_a_group() {
    for case in cases() {
        let path = case.path();
        assert!(
            (GROUPS.iter())
                .flat_map(|(_, patterns)| patterns.split_whitespace())
                .any(|pattern| matches(pattern, &path)),
            "{path}"
        );
    }
}
