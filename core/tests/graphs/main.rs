//! Graphs that the environment or a context saves. This test runs itself as such a program.
#![allow(clippy::unwrap_used, reason = "a test")]

mod dot;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use thalweg::graph::Graph;
use thalweg::hal::ir::Kernel;
use thalweg::{Context, DType, Error, Mode, Tensor, fori_loop, jit, observe, value_and_grad};

/// What the program below is asked for.
const ASKED: &str = "SAVING_PROGRAM";
const SHAPE: [usize; 2] = [3, 4];

fn input(cx: &Context) -> Tensor {
    let values: Vec<f32> = (0..12).map(|at| at as f32 * 0.37 - 1.9).collect();
    Tensor::from_slice(&values, SHAPE, cx)
}

/// Kernels, a library op, a value that two steps use, a gradient.
fn loss(x: &Tensor) -> Tensor {
    let _part = observe::scope("a # part\nof two lines");
    let y = x.exp() + 1.0;
    let product = y.matmul(&y.permute([1, 0]));
    (product.softmax(1) * product.sin()).sum() + y.sum()
}

fn bits(tensors: &[Tensor]) -> Vec<u32> {
    let values = tensors.iter().flat_map(|tensor| tensor.to_vec::<f32>().unwrap());
    values.map(f32::to_bits).collect()
}

/// What the program computes: traced with a gradient, traced with a loop, recorded.
fn computed(cx: &Context) -> Vec<u32> {
    let x = input(cx);
    let (value, slope) = jit(|x: &Tensor| value_and_grad(loss).call(x))
        .named("step")
        .call(&x);
    let turns = jit(|x: &Tensor| fori_loop(0..20, x.clone(), |_, x| x * 0.5 + 1.0).sum()).named("a::turns");
    cx.set_mode(Mode::Graph);
    let recorded = (&x * 3.0).tanh().sum_axes(0);
    bits(&[value, slope, turns.call(&x), recorded])
}

/// Writes what the library warns of to standard error.
struct Warnings;

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Message;
        impl tracing::field::Visit for Message {
            fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                eprintln!("warned: {value:?}");
            }
        }
        event.record(&mut Message);
    }
}

/// The program: it says its bits, or the error of its context.
#[test]
#[ignore = "other tests run it"]
fn program() {
    let Ok(asked) = std::env::var(ASKED) else { return };
    tracing::subscriber::set_global_default(Warnings).unwrap();
    let cx = match Context::new("cpu") {
        Ok(cx) => cx,
        Err(error) => {
            assert!(matches!(error, Error::SaveGraphs(_)), "{error:?}");
            eprintln!("refused: {error}");
            return;
        }
    };
    if asked == "full" {
        let limit = libc::rlimit {
            rlim_cur: 600,
            rlim_max: 600,
        };
        // SAFETY: both calls take plain values; the signal of the limit is to be an error of the call instead.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
        }
    }
    eprintln!("bits: {:?}", computed(&cx));
}

fn run(asked: &str, variables: &[(&str, &str)], folder: &Path) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    for (name, _) in std::env::vars().filter(|(name, _)| name.contains("SAVE_GRA")) {
        command.env_remove(name);
    }
    let Output { status, stderr, .. } = command
        .args(["program", "--exact", "--ignored", "--nocapture"])
        .env(ASKED, asked)
        .envs(variables.iter().copied())
        .current_dir(folder)
        .output()
        .unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert!(status.success(), "{said}");
    said
}

fn line<'a>(said: &'a str, start: &str) -> Option<&'a str> {
    said.lines().find_map(|line| line.strip_prefix(start))
}

/// The files of a folder by name.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let read = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        (name, fs::read_to_string(entry.path()).unwrap())
    };
    fs::read_dir(folder).unwrap().map(read).collect()
}

/// The names of files without their numbers.
fn stages(files: &BTreeMap<String, String>) -> BTreeSet<&str> {
    files.keys().map(|name| name.split_once('_').unwrap().1).collect()
}

/// A program that saves nothing.
fn plain() -> String {
    let folder = tempfile::tempdir().unwrap();
    let said = run("run", &[], folder.path());
    assert!(files(folder.path()).is_empty());
    line(&said, "bits: ").unwrap().to_owned()
}

#[test]
fn lines_are_those_of_the_program() {
    let folder = tempfile::tempdir().unwrap();
    run("run", &[("THALWEG_SAVE_GRAPHS", "3")], folder.path());
    let files = files(folder.path());
    let mut of_constants = 0;
    for (name, text) in files.iter().filter(|(name, _)| !name.ends_with(".kernel")) {
        for line in text.lines().filter(|line| line.contains(".rs:")) {
            let before = line.split(".rs:").next().unwrap();
            assert!(before.ends_with("core/tests/graphs/main"), "{name}: {line}");
        }
        of_constants += text.lines().filter(|line| line.contains(" = full ")).count();
    }
    assert!(of_constants > 0);
}

#[test]
fn two_processes_write_the_same_files_and_compute_the_same_bits() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let plain = plain();
    for folder in [&one, &other] {
        let path = folder.path().join("not/there");
        let variables = [
            ("THALWEG_SAVE_GRAPHS", "3"),
            ("THALWEG_SAVE_GRAPHS_PATH", path.to_str().unwrap()),
        ];
        let said = run("run", &variables, folder.path());
        assert_eq!(line(&said, "bits: "), Some(plain.as_str()));
        assert_eq!(line(&said, "warned: "), None);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        for entry in fs::read_dir(&path).unwrap() {
            let mode = entry.unwrap().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o400);
        }
    }
    let all = |folder: &tempfile::TempDir| files(&folder.path().join("not/there"));
    let (one, other) = (all(&one), all(&other));
    assert!(one == other, "the files differ");
    let stages = stages(&one);
    for wanted in [
        "step_traced.ir",
        "step_traced.dot",
        "step_pass1_pruned.ir",
        "step_pass2_shared.ir",
        "step_rewritten.ir",
        "step_program.ir",
        "a.turns_traced.ir",
        "a.turns_rewritten.ir",
        "a.turns.part_program.ir",
        "recorded_traced.ir",
        "recorded_program.dot",
    ] {
        assert!(stages.contains(wanted), "no {wanted} in {stages:?}");
    }
    assert!(stages.iter().any(|name| name.starts_with("step_kernel_")));
    // Its first stage is the first file.
    assert!(one.keys().next().unwrap().starts_with("00_step_traced"));
}

/// The graph in each file of a function computes what the function does; each kernel is one; each picture is in the language.
#[test]
fn every_file_can_be_read_and_says_what_is_computed() {
    let folder = tempfile::tempdir().unwrap();
    run("run", &[("MS_DEV_SAVE_GRAPHS", "3")], folder.path());
    let cx = Context::new("cpu").unwrap();
    let x = input(&cx);
    let step = jit(|x: &Tensor| value_and_grad(loss).call(x));
    let (value, slope) = step.call(&x);
    let wanted = bits(&[value, slope]);
    let (mut computed, mut kernels, mut dots) = (0, 0, 0);
    for (name, text) in files(folder.path()) {
        match name.rsplit_once('.').unwrap().1 {
            "ir" => {
                let graph = Graph::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
                if name.contains("_step_") && !graph.outputs().is_empty() && !name.contains("pass2") {
                    assert_eq!(
                        bits(&graph.call(std::slice::from_ref(&x)).unwrap()),
                        wanted,
                        "{name}"
                    );
                    computed += 1;
                }
                if name.contains("_step_traced") {
                    assert_eq!(graph.to_text(), step.graph(&x).unwrap().to_text());
                    assert!(
                        text.contains("Gradients/Default/") && text.contains("core/tests/graphs/main.rs:"),
                        "{text}"
                    );
                    assert!(
                        text.contains("softmax-op") && text.contains("a # part\u{fffd}of two lines"),
                        "{text}"
                    );
                }
                if name.contains("_step_program") {
                    assert!(
                        text.contains("# step 0: ") && text.contains("# local 0: "),
                        "{text}"
                    );
                    let steps: Vec<usize> = text
                        .lines()
                        .filter_map(|line| line.strip_prefix("# step ")?.split(':').next()?.parse().ok())
                        .collect();
                    assert_eq!(steps, (0..steps.len()).collect::<Vec<_>>(), "{text}");
                }
            }
            "kernel" => {
                let kernel = Kernel::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
                kernel.verify().unwrap();
                kernels += 1;
            }
            "dot" => {
                dot::check(&text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
                dots += 1;
            }
            other => panic!("a file of the kind {other}: {name}"),
        }
    }
    assert!(
        computed >= 4 && kernels >= 3 && dots >= 10,
        "{computed} {kernels} {dots}"
    );
}

#[test]
fn each_level_has_its_files() {
    let of = |level: &str| {
        let folder = tempfile::tempdir().unwrap();
        run("run", &[("THALWEG_SAVE_GRAPHS", level)], folder.path());
        files(folder.path())
    };
    let kinds = |level: &str| -> BTreeSet<String> {
        let kind = |name: &str| {
            let stage = ["traced", "rewritten", "program", "kernel", "pass"];
            let stage = stage
                .iter()
                .find(|stage| name.contains(&format!("_{stage}")))
                .unwrap();
            format!("{stage}.{}", name.rsplit_once('.').unwrap().1)
        };
        of(level).keys().map(|name| kind(name)).collect()
    };
    let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
    let one = ["traced.ir", "rewritten.ir", "program.ir"];
    let two = [&one[..], &["kernel.kernel"]].concat();
    let three = [
        &two[..],
        &[
            "pass.ir",
            "pass.dot",
            "traced.dot",
            "rewritten.dot",
            "program.dot",
        ],
    ]
    .concat();
    assert_eq!(kinds("1"), set(&one));
    assert_eq!(kinds("2"), set(&two));
    assert_eq!(kinds("3"), set(&three));
    assert_eq!(of("true"), of("2"));
    assert!(of("0").is_empty() && of("false").is_empty());
}

#[test]
fn names_of_other_programs_are_heeded_and_a_misspelt_one_warns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("{r}");
    let path = path.to_str().unwrap();
    let other = [
        ("MS_DEV_SAVE_GRAPHS", "1"),
        ("MS_DEV_SAVE_GRAPHS_PATH", path),
        ("RANK_ID", "2"),
    ];
    let said = run("run", &other, folder.path());
    assert_eq!(line(&said, "warned: "), None);
    let default = files(&folder.path().join("2"));
    assert!(!default.is_empty());
    let misspelt = [
        ("MS_DEV_SAVE_GRAPTHS", "1"),
        ("MS_DEV_SAVE_GRAPTHS_PATH", path),
        ("MS_DEV_SAVE_GRAPTHS_SORT_MODE", "1"),
        ("RANK_ID", "3"),
    ];
    let said = run("run", &misspelt, folder.path());
    for name in ["", "_PATH", "_SORT_MODE"] {
        let wanted =
            format!("warned: MS_DEV_SAVE_GRAPTHS{name} is heeded; its name is MS_DEV_SAVE_GRAPHS{name}");
        assert!(said.contains(&wanted), "{said}");
    }
    let sorted = files(&folder.path().join("3"));
    let calls = |files: &BTreeMap<String, String>| -> Vec<u32> {
        let text = &files["00_step_traced.ir"];
        let forward = text.lines().filter(|line| !line.contains("Gradients/"));
        let number = |line: &str| line.split_once("-op")?.1.split(['.', ' ']).next()?.parse().ok();
        forward.filter_map(number).collect()
    };
    let (first, second) = (calls(&default), calls(&sorted));
    assert!(!first.is_sorted() && second.is_sorted(), "{first:?} {second:?}");
    // Our names win.
    let both = [("THALWEG_SAVE_GRAPHS", "0"), ("MS_DEV_SAVE_GRAPHS", "3")];
    run("run", &both, &folder.path().join("2"));
    assert_eq!(files(&folder.path().join("2")), default);
}

#[test]
fn a_wrong_value_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let file = file.to_str().unwrap();
    let below = format!("{file}/below");
    for (variables, wanted) in [
        (
            &[("THALWEG_SAVE_GRAPHS", "4")][..],
            "THALWEG_SAVE_GRAPHS is \"4\"; it takes 0 to 3, true or false",
        ),
        (
            &[("MS_DEV_SAVE_GRAPHS", "")],
            "MS_DEV_SAVE_GRAPHS is \"\"; it takes 0 to 3",
        ),
        (
            &[("THALWEG_SAVE_GRAPHS_PATH", "")],
            "THALWEG_SAVE_GRAPHS_PATH is \"\"; it takes a folder",
        ),
        (
            &[("THALWEG_SAVE_GRAPHS_SORT_MODE", "2")],
            "THALWEG_SAVE_GRAPHS_SORT_MODE is \"2\"; it takes 0 or 1",
        ),
        (
            &[("THALWEG_SAVE_GRAPHS", "1"), ("THALWEG_SAVE_GRAPHS_PATH", file)],
            "save_graphs_path: ",
        ),
        (
            &[("THALWEG_SAVE_GRAPHS", "1"), ("THALWEG_SAVE_GRAPHS_PATH", &below)],
            "save_graphs_path: ",
        ),
    ] {
        let said = run("run", variables, folder.path());
        let refused: Vec<&str> = said
            .lines()
            .filter_map(|line| line.strip_prefix("refused: "))
            .collect();
        assert!(
            matches!(refused[..], [line] if line.starts_with(wanted)),
            "{wanted}: {said}"
        );
    }
    let build = |toml: &str| {
        Context::builder().device_target("cpu").build().and_then(|_| {
            thalweg::context::ContextBuilder::from_toml(toml)?
                .device_target("cpu")
                .build()
        })
    };
    let error = build("save_graphs = 5").unwrap_err();
    assert_eq!(
        error.to_string(),
        "save_graphs is \"5\"; it takes 0 to 3, true or false"
    );
    let error = build("save_graphs = \"all\"").unwrap_err().to_string();
    assert!(
        error.contains("save_graphs takes 0 to 3, true or false"),
        "{error}"
    );
    let error = build("save_graphs = 1\nsave_graphs_path = \"\"")
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("save_graphs_path is \"\"; it takes a folder"),
        "{error}"
    );
}

#[test]
fn a_folder_that_breaks_costs_the_files_alone() {
    let folder = tempfile::tempdir().unwrap();
    let said = run("full", &[("THALWEG_SAVE_GRAPHS", "3")], folder.path());
    assert_eq!(line(&said, "bits: "), Some(plain().as_str()));
    let warned: Vec<&str> = said
        .lines()
        .filter_map(|line| line.strip_prefix("warned: "))
        .collect();
    assert!(
        matches!(warned[..], [line] if line.starts_with("save_graphs: ") && line.ends_with("no more graphs are saved, and the program goes on")),
        "{said}"
    );
    // What was written before is whole, and nothing is there in part.
    for (name, text) in files(folder.path()) {
        assert!(name.ends_with(".dot") || Graph::parse(&text).is_ok(), "{name}");
    }
}

#[test]
fn a_context_asks_for_itself_alone() {
    let folder = tempfile::tempdir().unwrap();
    let builder = || {
        Context::builder()
            .device_target("cpu")
            .save_graphs_path(folder.path())
    };
    let x = |cx: &Context| Tensor::ones([2], DType::F32, cx);
    let (off, on) = (
        builder().save_graphs(false).build().unwrap(),
        builder().save_graphs(1).build().unwrap(),
    );
    let twice = || jit(|x: &Tensor| x * 2.0).named("twice");
    twice().call(&x(&off));
    assert!(files(folder.path()).is_empty());
    twice().call(&x(&on));
    assert_eq!(files(folder.path()).len(), 3);
    // Another context of the folder goes on with its numbers.
    let second = builder().save_graphs(1).build().unwrap();
    twice().call(&(x(&second)));
    assert!(files(folder.path()).contains_key("03_twice_traced.ir"));
}
