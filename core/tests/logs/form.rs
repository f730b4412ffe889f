//! Lines, their levels and modules.

use super::{apart, lines, one_of_each, text};
use thalweg::hal::Status;
use thalweg::host::host_api;
use thalweg::{Context, Tensor};
use thalweg_hal::Host;
use thalweg_hal::tables::LogLevel;

#[test]
fn lines_have_their_form() {
    let Some(output) = apart("form::lines_have_their_form", &[("GLOG_v", "0")]) else {
        assert!(thalweg::init().unwrap());
        one_of_each();
        tracing::warn!(target: "thalweg_runtime::loader::registry", path = "a b", count = 3, "two\nlines \u{1b}[31m");
        // SAFETY: the table lives for ever.
        let host = unsafe { Host::new(host_api()) }.unwrap();
        host.log(LogLevel::Warn, "cuda", "of a backend");
        host.log(LogLevel::Error, "acme", "of a plugin");
        std::thread::spawn(|| tracing::info!("elsewhere")).join().unwrap();
        return;
    };
    let lines = lines(&text(&output.stderr));
    let seen: Vec<_> = (lines.iter())
        .map(|line| (line.level.as_str(), line.module.as_str(), line.text.as_str()))
        .collect();
    let wanted = [
        ("DEBUG", "PROGRAM", "a debug"),
        ("INFO", "PROGRAM", "an info"),
        ("WARNING", "PROGRAM", "a warning"),
        ("ERROR", "PROGRAM", "an error"),
        ("ERROR", "PROGRAM", "another error"),
        ("CRITICAL", "PROGRAM", "the end"),
        ("WARNING", "LOADER", "two\\nlines \\u{1b}[31m path=a b count=3"),
        ("WARNING", "CUDA", "of a backend"),
        ("ERROR", "BACKEND", "acme: of a plugin"),
        ("INFO", "PROGRAM", "elsewhere"),
    ];
    assert_eq!(seen, wanted);
    // Backends' lines have their own place.
    let source: Vec<_> = include_str!("form.rs").lines().collect();
    for (at, needle) in [
        (7, "\"of a backend\""),
        (8, "\"of a plugin\""),
        (9, "\"elsewhere\""),
    ] {
        let number = source.iter().position(|line| line.contains(needle)).unwrap() + 1;
        assert_eq!(lines[at].place, format!("core/tests/logs/form.rs:{number}"));
    }
    assert_eq!(lines[0].thread, lines[8].thread);
    assert_ne!(lines[0].thread, lines[9].thread);
}

#[test]
fn levels_say_which_lines_there_are() {
    let cases = [
        (&[][..], 4),
        (&[("GLOG_v", "0")], 6),
        (&[("GLOG_v", "1")], 5),
        (&[("GLOG_v", "2")], 4),
        (&[("GLOG_v", "3")], 3),
        (&[("GLOG_v", "4")], 1),
        (&[("THALWEG_LOG_LEVEL", "4"), ("GLOG_v", "0")], 1),
        (&[("MS_SUBMODULE_LOG_v", "{PROGRAM:0}")], 6),
        (&[("THALWEG_LOG_MODULES", "{PROGRAM:4}"), ("GLOG_v", "0")], 1),
        (&[("THALWEG_LOG_MODULES", "{LOADER:0}")], 4),
        (
            &[
                ("THALWEG_LOG_MODULES", "{PROGRAM:3}"),
                ("MS_SUBMODULE_LOG_v", "{PROGRAM:0}"),
            ],
            3,
        ),
    ];
    for (variables, count) in cases {
        let Some(output) = apart("form::levels_say_which_lines_there_are", variables) else {
            assert!(thalweg::init().unwrap());
            return one_of_each();
        };
        let said = lines(&text(&output.stderr));
        assert_eq!(said.len(), count, "{variables:?}: {said:?}");
    }
}

#[test]
fn levels_of_modules_hold_for_backends() {
    let variables = [("MS_SUBMODULE_LOG_v", "{ CUDA:0, DEVICE:1, BACKEND:4 }")];
    let Some(output) = apart("form::levels_of_modules_hold_for_backends", &variables) else {
        assert!(thalweg::init().unwrap());
        // SAFETY: the table lives for ever.
        let host = unsafe { Host::new(host_api()) }.unwrap();
        for backend in ["cuda", "opencl", "acme"] {
            host.log(LogLevel::Debug, backend, "debug");
            host.log(LogLevel::Error, backend, "error");
        }
        tracing::info!(target: "thalweg_runtime::hal::runtime", "info");
        tracing::info!(target: "thalweg_runtime::loader", "info");
        return;
    };
    let said = lines(&text(&output.stderr));
    let seen: Vec<_> = said
        .iter()
        .map(|line| (line.module.as_str(), line.text.as_str()))
        .collect();
    assert_eq!(
        seen,
        [
            ("CUDA", "debug"),
            ("CUDA", "error"),
            ("OPENCL", "error"),
            ("HAL", "info")
        ]
    );
}

#[test]
fn a_lost_device_is_critical() {
    let variables = [
        ("GLOG_v", "4"),
        ("THALWEG_LAYERS", "fault"),
        ("THALWEG_LAYER_FAULT", "lost@1"),
    ];
    let Some(output) = apart("form::a_lost_device_is_critical", &variables) else {
        assert!(thalweg::init().unwrap());
        let cx = Context::new("cpu").unwrap();
        let error = Tensor::ones([3], thalweg::DType::F32, &cx)
            .exp()
            .to_vec::<f32>()
            .unwrap_err();
        return assert_eq!(error.status(), Some(Status::DeviceLost));
    };
    let said = lines(&text(&output.stderr));
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(
        (said[0].level.as_str(), said[0].module.as_str()),
        ("CRITICAL", "RUNTIME")
    );
}

#[test]
fn compiling_is_told_by_modules() {
    let variables = [("MS_SUBMODULE_LOG_v", "{GRAPH:0,LOWER:0,EXEC:0}")];
    let Some(output) = apart("form::compiling_is_told_by_modules", &variables) else {
        assert!(thalweg::init().unwrap());
        let cx = Context::new("cpu").unwrap();
        let x = Tensor::from_slice(&[1.0_f32, 2.0], 2, &cx);
        thalweg::jit(|x: &Tensor| (x * 2.0).exp())
            .call(&x)
            .to_vec::<f32>()
            .unwrap();
        return;
    };
    let said = lines(&text(&output.stderr));
    let of = |module: &str| {
        said.iter()
            .find(|line| line.module == module)
            .map(|line| line.text.as_str())
    };
    assert!(
        of("GRAPH").is_some_and(|text| text.starts_with("graph rewritten nodes=")),
        "{said:?}"
    );
    assert!(
        of("LOWER").is_some_and(|text| text.ends_with("steps=1")),
        "{said:?}"
    );
    assert!(
        of("EXEC").is_some_and(|text| text.starts_with("kernel compiled kernel=")),
        "{said:?}"
    );
    assert!(said.iter().all(|line| line.level == "DEBUG"), "{said:?}");
}
