//! The session of the process, in processes of their own: each option, its limits, and what is late.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "session/dumps.rs"]
mod dumps;
#[path = "session/modes.rs"]
mod modes;

use std::path::Path;
use std::process::Command;
use thalweg::context::{DebugLevel, ImplMode};
use thalweg::hal::Status;
use thalweg::session::GraphRunMode;
use thalweg::{
    Context, DType, Error, Mode, Precision, Runtime, SessionError, SessionOptions, Tensor, grad, hessian,
    jacobian, jit, value_and_grad, vjp,
};

const CHILD: &str = "THALWEG_TEST_SESSION";

/// Runs the rest of a test in a process of its own; `true` there.
fn apart(test: &str) -> bool {
    apart_with(test, &[], Path::new("."))
}

/// As [`apart`], with variables, in a folder.
fn apart_with(test: &str, variables: &[(&str, &str)], folder: &Path) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .envs(variables.iter().copied())
        .current_dir(folder)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        run.status.success(),
        "{}: {}{}",
        run.status,
        text(&run.stdout),
        text(&run.stderr)
    );
    false
}

fn numbers(cx: &Context) -> Tensor {
    Tensor::from_slice(&[1.0_f32, 2.0, 3.0], 3, cx)
}

/// Whether this is the error that the session has ended.
fn closed<T: std::fmt::Debug>(result: Result<T, Error>) {
    let error = result.unwrap_err();
    assert_eq!(error.status(), Some(Status::Unavailable), "{error}");
    assert!(
        error.to_string().starts_with("the session was shut down"),
        "{error}"
    );
}

#[test]
fn options_are_the_same_in_code_in_files_and_in_the_environment() {
    let variables = [
        ("THALWEG_PRECISION_MODE", "allow_mix_precision"),
        ("THALWEG_GRAPH_RUN_MODE", "0"),
        ("THALWEG_OP_DEBUG_LEVEL", "3"),
        ("THALWEG_OP_SELECT_IMPLMODE", "high_performance"),
        ("THALWEG_OPTYPELIST_FOR_IMPLMODE", "div, mul"),
        ("THALWEG_PROFILING_MODE", "true"),
        ("THALWEG_PROFILING_OPTIONS", "training_trace:task_trace"),
    ];
    let test = "options_are_the_same_in_code_in_files_and_in_the_environment";
    if !apart_with(test, &variables, Path::new(".")) {
        return;
    }
    let mut traces = thalweg::observe::ProfilingOptions::default();
    (traces.training_trace, traces.task_trace) = (true, true);
    let code = SessionOptions::default()
        .precision_mode(Precision::AllowMixPrecision)
        .graph_run_mode(GraphRunMode::Inference)
        .op_debug_level(DebugLevel::Binaries)
        .op_select_implmode(ImplMode::HighPerformance)
        .optypelist_for_implmode(vec!["div".to_owned(), "mul".to_owned()])
        .profiling_mode(true)
        .profiling_options(traces);
    let toml = "precision_mode = \"allow_mix_precision\"\ngraph_run_mode = 0\nop_debug_level = 3\n\
                op_select_implmode = \"high_performance\"\noptypelist_for_implmode = [\"div\", \"mul\"]\nprofiling_mode = true\n";
    let table = "[profiling_options]\ntraining_trace = \"on\"\ntask_trace = \"on\"\n";
    let json = r#"{"precision_mode": "allow_mix_precision", "graph_run_mode": 0, "profiling_mode": true,
        "op_debug_level": 3, "op_select_implmode": "high_performance", "optypelist_for_implmode": "div,mul",
        "profiling_options": "{\"training_trace\": \"on\", \"task_trace\": \"on\"}"}"#;
    assert_eq!(SessionOptions::from_env().unwrap(), code);
    assert_eq!(
        SessionOptions::from_toml(&format!("{toml}{table}")).unwrap(),
        code
    );
    assert_eq!(SessionOptions::from_json(json).unwrap(), code);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("session.toml"), format!("{toml}{table}")).unwrap();
    assert_eq!(
        SessionOptions::from_file(folder.path().join("session.toml")).unwrap(),
        code
    );
    assert_eq!(SessionOptions::from_toml("").unwrap(), SessionOptions::default());
    let keys: Vec<&str> = SessionOptions::keys().map(|setting| setting.key).collect();
    assert_eq!(
        keys,
        [
            "precision_mode",
            "graph_run_mode",
            "op_debug_level",
            "op_select_implmode",
            "optypelist_for_implmode",
            "profiling_mode",
            "profiling_options",
            "enable_dump",
            "dump_path",
            "dump_step",
            "dump_mode",
            "enable_dump_debug",
            "dump_debug_mode",
            "enable_exception_dump",
        ]
    );
}

#[test]
fn what_is_not_allowed_is_one_line() {
    let cases = [
        (
            "graph_mode = 0",
            "graph_mode is 0; there is no such key; near it are graph_run_mode",
        ),
        (
            "precision_mod = \"x\"",
            "precision_mod is \"x\"; there is no such key; near it are precision_mode",
        ),
        (
            "x = 1",
            "x is 1; there is no such key; there are dump_debug_mode, dump_mode, dump_path, dump_step, enable_dump, \
             enable_dump_debug, enable_exception_dump, graph_run_mode, op_debug_level, op_select_implmode, \
             optypelist_for_implmode, precision_mode, profiling_mode, profiling_options",
        ),
        ("graph_run_mode = 2", "graph_run_mode is 2; it takes 1 or 0"),
        ("graph_run_mode = -1", "graph_run_mode is -1; it takes 1 or 0"),
        ("graph_run_mode = true", "graph_run_mode is true; it takes 1 or 0"),
        (
            "op_debug_level = 5",
            "op_debug_level is 5; it takes 0 or 1 or 2 or 3 or 4",
        ),
        (
            "op_debug_level = \"2\"",
            "op_debug_level is \"2\"; it takes 0 or 1 or 2 or 3 or 4",
        ),
        (
            "op_select_implmode = \"fast\"",
            "op_select_implmode is \"fast\"; it takes high_performance or high_precision",
        ),
        (
            "optypelist_for_implmode = [\"div\"]",
            "optypelist_for_implmode is div; it needs op_select_implmode",
        ),
        (
            "op_select_implmode = \"high_precision\"\noptypelist_for_implmode = \"mul,exp\"",
            "optypelist_for_implmode is exp; it takes ops that have two forms: add, sub, mul, div, conv",
        ),
        (
            "op_select_implmode = \"high_precision\"\noptypelist_for_implmode = [1]",
            "optypelist_for_implmode is [1]; it takes names out of",
        ),
        (
            "profiling_mode = 1",
            "profiling_mode is 1; it takes true or false",
        ),
        (
            "precision_mode = \"fp8\"",
            "precision_mode is \"fp8\"; it takes must_keep_origin_dtype or force_fp32 or force_fp16 or \
             allow_fp32_to_fp16 or allow_fp32_to_bf16 or allow_mix_precision or allow_mix_precision_fp16 or \
             allow_mix_precision_bf16",
        ),
        (
            "profiling_options = \"op_trace\"",
            "profiling_options is given; they need profiling_mode",
        ),
        (
            "profiling_mode = true\nprofiling_options = \"task_trace:trace\"",
            "profiling_options is task_trace:trace; it takes training_trace, task_trace, aicpu_trace and op_trace with \
             `:` between them",
        ),
        (
            "profiling_mode = true\nprofiling_options = {task = \"on\"}",
            "task is \"on\"; there is no such key; there are",
        ),
        (
            "profiling_mode = true\nprofiling_options = {training_trace = \"on\", fp_point = \"conv1\"}",
            "fp_point is conv1; a session does not take it; give it to the profiler of a training",
        ),
        (
            "profiling_mode = true\nprofiling_options = \"op_trace:task_trace\"",
            "profile: op_trace is on; it goes alone; turn the other traces off",
        ),
        (
            "profiling_mode = true\nprofiling_options = {result_path = \"/no/such/folder\"}",
            "profile: result_path is /no/such/folder; it takes a folder that exists",
        ),
        (
            "enable_dump = true",
            "dump_path is empty; a dump needs a folder that exists",
        ),
        ("enable_dump = 1", "enable_dump is 1; it takes true or false"),
        (
            "dump_path = \"/tmp\"",
            "dump_path is /tmp; it needs enable_dump or enable_dump_debug",
        ),
        (
            "enable_dump = true\ndump_path = \"/no/such/folder\"",
            "dump_path is /no/such/folder; it takes a folder that exists and can be read and written: there is no such",
        ),
        (
            "dump_step = \"3\"",
            "dump_step is 3; it needs enable_dump or enable_dump_debug",
        ),
        (
            "enable_dump = true\ndump_path = \"/tmp\"\ndump_step = \"5-3\"",
            "dump_step is 5-3; its part 1, \"5-3\", is no range: its begin is not below its end",
        ),
        (
            "dump_step = -1",
            "dump_step is -1; it takes a number, or a list such as `0|3-5|10`",
        ),
        (
            "dump_mode = \"both\"",
            "dump_mode is \"both\"; it takes input or output or all",
        ),
        ("dump_mode = \"all\"", "dump_mode is all; it needs enable_dump"),
        (
            "dump_debug_mode = \"overflow\"",
            "dump_debug_mode is \"overflow\"; it takes aicore_overflow or atomic_overflow or all",
        ),
        (
            "enable_dump = true\ndump_path = \"/tmp\"\ndump_debug_mode = \"aicore_overflow\"",
            "dump_debug_mode is aicore_overflow; it needs enable_dump_debug",
        ),
        (
            "enable_dump = true\nenable_dump_debug = true\ndump_path = \"/tmp\"",
            "enable_dump_debug is true; it dumps calls that overflow alone, and enable_dump dumps all",
        ),
        (
            "enable_exception_dump = \"on\"",
            "enable_exception_dump is \"on\"; it takes true or false",
        ),
        (
            "graph_run_mode = ",
            "the options is graph_run_mode = ; they are TOML: ",
        ),
    ];
    for (toml, wanted) in cases {
        let error = SessionOptions::from_toml(toml).unwrap_err().to_string();
        assert!(error.starts_with(wanted) && !error.contains('\n'), "{error}");
    }
    for json in ["", "[]", "{", "1", "{\"a\": 1}"] {
        let error = SessionOptions::from_json(json).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
    }
    assert!(SessionOptions::from_file("/no/such/file").is_err());
}

#[test]
fn a_wrong_variable_is_named() {
    let variables = [("THALWEG_GRAPH_RUN_MODE", "off")];
    if apart_with("a_wrong_variable_is_named", &variables, Path::new(".")) {
        let error = SessionOptions::from_env().unwrap_err();
        assert!(matches!(error, Error::Session(SessionError::Option { .. })));
        assert_eq!(
            error.to_string(),
            "THALWEG_GRAPH_RUN_MODE is \"off\"; it takes 1 or 0"
        );
    }
}

#[test]
fn contexts_have_the_precision_of_the_session_unless_they_say_another() {
    if !apart("contexts_have_the_precision_of_the_session_unless_they_say_another") {
        return;
    }
    Runtime::init(SessionOptions::default().precision_mode(Precision::ForceFp16)).unwrap();
    let cx = Context::new("cpu").unwrap();
    let built = Context::builder().device_target("cpu");
    assert_eq!(cx.precision(), Precision::ForceFp16);
    assert_eq!(built.clone().build().unwrap().precision(), Precision::ForceFp16);
    let other = built
        .precision_mode(Precision::MustKeepOriginDtype)
        .build()
        .unwrap();
    assert_eq!(numbers(&cx).exp().dtype().unwrap(), DType::F16);
    assert_eq!(numbers(&other).exp().dtype().unwrap(), DType::F32);
}

#[test]
fn inference_takes_no_gradients() {
    if !apart("inference_takes_no_gradients") {
        return;
    }
    Runtime::init(SessionOptions::default().graph_run_mode(GraphRunMode::Inference)).unwrap();
    let cx = Context::new("cpu").unwrap();
    let x = numbers(&cx);
    let square = |x: &Tensor| (x * x).sum();
    let refused = |result: thalweg::Result<Vec<f32>>| {
        let error = result.unwrap_err().to_string();
        assert!(
            error.contains("the session has graph_run_mode 0, which takes no gradients"),
            "{error}"
        );
    };
    refused(grad(square).call(&x).to_vec());
    refused(value_and_grad(square).call(&x).1.to_vec());
    let (_, back) = vjp(|x: &Tensor| x * x, &x);
    refused(back.call(&x).to_vec());
    refused(jacobian(|x: &Tensor| x * x, &x).to_vec());
    refused(hessian(square, &x).to_vec());
    refused(jit(|x: &Tensor| grad(square).call(x)).call(&x).to_vec());
    refused(x.requires_grad().to_vec());
    let marked = x.requires_grad();
    assert!((&marked * &marked).sum().backward().is_err());
    assert_eq!(square(&x).item::<f32>().unwrap(), 14.0);
    assert_eq!(jit(square).call(&x).item::<f32>().unwrap(), 14.0);
}

#[test]
fn nothing_runs_after_the_end() {
    if !apart("nothing_runs_after_the_end") {
        return;
    }
    Runtime::init(SessionOptions::default()).unwrap();
    let cx = Context::new("cpu").unwrap();
    let recorded = Context::builder()
        .device_target("cpu")
        .mode(Mode::Graph)
        .build()
        .unwrap();
    let (x, y) = (numbers(&cx), numbers(&recorded));
    let compiled = jit(|x: &Tensor| (x * 2.0).exp().sum());
    let computed = x.exp();
    let wanted = computed.to_vec::<f32>().unwrap();
    let (before, late) = (compiled.call(&x), &y + 1.0);
    x.sin().to_vec::<f32>().unwrap();
    Runtime::shutdown().unwrap();
    Runtime::shutdown().unwrap();
    // What was computed can be read.
    assert_eq!(computed.to_vec::<f32>().unwrap(), wanted);
    assert!(before.item::<f32>().unwrap() > 0.0);
    closed(x.exp().to_vec::<f32>());
    closed(x.sin().to_vec::<f32>());
    closed((&x + &x).to_vec::<f32>());
    closed(compiled.call(&x).to_vec::<f32>());
    closed(late.to_vec::<f32>());
    closed((&y * 2.0).to_vec::<f32>());
    closed(grad(|x: &Tensor| (x * x).sum()).call(&x).to_vec::<f32>());
    closed(numbers(&cx).to_vec::<f32>());
    closed(Tensor::zeros([2], DType::F32, &cx).to_vec::<f32>());
    closed(Context::new("cpu"));
    closed(Context::auto());
    closed(Context::builder().device_target("cpu").build());
    closed(Runtime::init(SessionOptions::default()));
    std::thread::spawn(move || closed(x.exp().to_vec::<f32>()))
        .join()
        .unwrap();
}

#[test]
fn the_same_options_do_nothing_and_others_are_late() {
    if !apart("the_same_options_do_nothing_and_others_are_late") {
        return;
    }
    let options = SessionOptions::default().precision_mode(Precision::ForceFp32);
    Runtime::init(options.clone()).unwrap();
    Runtime::init(options.clone()).unwrap();
    let other = options.clone().graph_run_mode(GraphRunMode::Inference);
    let error = Runtime::init(other).unwrap_err();
    assert!(
        matches!(
            &error,
            Error::Session(SessionError::Late {
                key: "graph_run_mode",
                ..
            })
        ),
        "{error:?}"
    );
    assert_eq!(
        error.to_string(),
        "graph_run_mode is 0, but the process has 1; set it once, before the first context"
    );
    let cx = Context::new("cpu").unwrap();
    Runtime::init(options).unwrap();
    assert_eq!(
        grad(|x: &Tensor| (x * x).sum())
            .call(&numbers(&cx))
            .to_vec::<f32>()
            .unwrap(),
        [2.0, 4.0, 6.0]
    );
}

#[test]
fn options_after_the_first_context_are_late() {
    if !apart("options_after_the_first_context_are_late") {
        return;
    }
    let _cx = Context::new("cpu").unwrap();
    let error = Runtime::init(SessionOptions::default().precision_mode(Precision::ForceFp16)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "precision_mode is force_fp16, but the process has must_keep_origin_dtype; set it once, before the first context"
    );
    let error = Runtime::init(SessionOptions::default().profiling_mode(true)).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("profiling_mode is true, but the process has false"),
        "{error}"
    );
    Runtime::init(SessionOptions::default()).unwrap();
    assert_eq!(
        Context::new("cpu").unwrap().precision(),
        Precision::MustKeepOriginDtype
    );
}

#[test]
fn a_session_is_profiled_from_its_start_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let test = "a_session_is_profiled_from_its_start_to_its_end";
    if !apart_with(test, &[("THALWEG_RANK", "2")], folder.path()) {
        let file = folder.path().join("output/profile/rank_2/profiler/recording.tw");
        assert!(std::fs::metadata(file).unwrap().len() > 0);
        return;
    }
    let toml = "profiling_mode = true\nprofiling_options = \"op_trace\"";
    Runtime::init(SessionOptions::from_toml(toml).unwrap()).unwrap();
    let cx = Context::new("cpu").unwrap();
    numbers(&cx).exp().to_vec::<f32>().unwrap();
    Runtime::shutdown().unwrap();
    let bytes = std::fs::read("output/profile/rank_2/profiler/recording.tw").unwrap();
    let contains = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(contains("profiling_options={result_path: \"\", training_trace: off") && contains("exp"));
}

#[test]
fn a_profile_that_cannot_be_written_begins_no_session() {
    let folder = tempfile::tempdir().unwrap();
    if !apart_with(
        "a_profile_that_cannot_be_written_begins_no_session",
        &[],
        folder.path(),
    ) {
        return;
    }
    std::fs::write("output", "a file").unwrap();
    let error = Runtime::init(SessionOptions::default().profiling_mode(true)).unwrap_err();
    assert!(matches!(&error, Error::Profile(_)), "{error:?}");
    Runtime::init(SessionOptions::default()).unwrap();
    assert_eq!(
        numbers(&Context::new("cpu").unwrap())
            .sum()
            .item::<f32>()
            .unwrap(),
        6.0
    );
}

#[test]
fn the_end_tells_what_failed_before_it() {
    let variables = [("THALWEG_LAYERS", "fault"), ("THALWEG_LAYER_FAULT", "later@1")];
    if !apart_with("the_end_tells_what_failed_before_it", &variables, Path::new(".")) {
        return;
    }
    let cx = Context::new("cpu").unwrap();
    let _late = Tensor::ones([1 << 10], DType::F32, &cx).exp();
    assert!(Runtime::shutdown().is_err());
    closed(numbers(&cx).to_vec::<f32>());
    Runtime::shutdown().unwrap();
}
