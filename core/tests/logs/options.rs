//! Variables and options, and subscribers of programs.

use super::{apart, lines, one_of_each, text};
use thalweg::SessionError;

/// The first line of what a wrong variable gives.
fn refusal(variables: &[(&str, &str)], test: &str) -> Option<String> {
    match apart(test, variables) {
        Some(output) => Some(text(&output.stderr)),
        None => {
            let error = thalweg::init().unwrap_err();
            assert!(
                matches!(error, thalweg::Error::Session(SessionError::Option { .. })),
                "{error:?}"
            );
            eprintln!("{error}");
            None
        }
    }
}

#[test]
fn each_variable_refuses_what_it_does_not_take() {
    let cases: [(&[(&str, &str)], &str); 15] = [
        (
            &[("GLOG_v", "5")],
            "GLOG_v is 5; it takes a whole number from 0 to 4",
        ),
        (
            &[("THALWEG_LOG_LEVEL", "info")],
            "THALWEG_LOG_LEVEL is info; it takes a whole number from 0 to 4",
        ),
        (
            &[("GLOG_v", "")],
            "GLOG_v is ; it takes a whole number from 0 to 4",
        ),
        (
            &[("GLOG_v", "-1")],
            "GLOG_v is -1; it takes a whole number from 0 to 4",
        ),
        (
            &[("GLOG_logtostderr", "true")],
            "GLOG_logtostderr is true; it takes 1 or 0",
        ),
        (
            &[("GLOG_logtostderr", "0")],
            "log_to_stderr is 0; files need log_dir: THALWEG_LOG_DIR, GLOG_log_dir or LogOptions::dir",
        ),
        (&[("GLOG_log_dir", "")], "GLOG_log_dir is ; it takes a folder"),
        (
            &[("MS_SUBMODULE_LOG_v", "LOADER:0")],
            "MS_SUBMODULE_LOG_v is \"LOADER:0\"; it takes a text such as {LOADER:0,GRAPH:1}, levels from 0 to 4",
        ),
        (
            &[("THALWEG_LOG_MODULES", "{LOADRE:0}")],
            "LOADRE is 0; there is no such module of the log; near it are LOADER",
        ),
        (
            &[("THALWEG_LOG_MAX_SIZE", "0")],
            "THALWEG_LOG_MAX_SIZE is 0; it takes bytes from 1, or a size such as 50 MiB",
        ),
        (
            &[("THALWEG_LOG_MAX_SIZE", "50 mib")],
            "THALWEG_LOG_MAX_SIZE is 50 mib; it takes bytes from 1, or a size such as 50 MiB",
        ),
        (
            &[("THALWEG_LOG_FILES", "0")],
            "THALWEG_LOG_FILES is 0; it takes a whole number from 1",
        ),
        (
            &[("THALWEG_LOG_FILES", "many")],
            "THALWEG_LOG_FILES is many; it takes a whole number from 1",
        ),
        (
            &[
                ("RANK_ID", "one"),
                ("GLOG_logtostderr", "0"),
                ("GLOG_log_dir", "/tmp"),
            ],
            "RANK_ID is one; it takes a whole number from 0 to 4294967295",
        ),
        (
            &[("GLOG_v", "1\n2")],
            "GLOG_v is 1 2; it takes a whole number from 0 to 4",
        ),
    ];
    for (variables, wanted) in cases {
        match refusal(variables, "options::each_variable_refuses_what_it_does_not_take") {
            Some(said) => assert_eq!(said.trim_end(), wanted),
            None => return,
        }
    }
}

/// Hears of events as a program's own subscriber does.
struct Own;

impl tracing::Subscriber for Own {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        eprintln!("heard");
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn a_subscriber_of_the_program_stays() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let variables = [("GLOG_logtostderr", "0"), ("GLOG_log_dir", dir)];
    let Some(output) = apart("options::a_subscriber_of_the_program_stays", &variables) else {
        tracing::subscriber::set_global_default(Own).unwrap();
        assert!(!thalweg::init().unwrap());
        assert!(!thalweg::init().unwrap());
        return tracing::warn!("a warning");
    };
    assert_eq!(text(&output.stderr), "heard\n");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn a_second_call_changes_nothing() {
    let Some(output) = apart("options::a_second_call_changes_nothing", &[("GLOG_v", "2")]) else {
        use thalweg::log::{Level, LogOptions};
        assert!(thalweg::init().unwrap());
        assert!(thalweg::init().unwrap());
        assert!(LogOptions::default().install().unwrap());
        for (late, wanted) in [
            (
                LogOptions::default().level(Level::Info),
                "log_level is 1, but the process has 2",
            ),
            (
                LogOptions::default().module("HAL", Level::Info),
                "log_modules is {HAL:1}, but the process has {}",
            ),
            (
                LogOptions::default().to_stderr(false),
                "log_to_stderr is 0, but the process has 1",
            ),
            (
                LogOptions::default().dir("/x"),
                "log_dir is /x, but the process has none",
            ),
            (
                LogOptions::default().max_size("1 MiB"),
                "log_max_size is 1 MiB, but the process has 52428800 B",
            ),
            (
                LogOptions::default().files(2),
                "log_files is 2, but the process has 30",
            ),
        ] {
            let error = late.install().unwrap_err();
            assert!(
                matches!(error, thalweg::Error::Session(SessionError::Late { .. })),
                "{error:?}"
            );
            assert_eq!(
                error.to_string(),
                format!("{wanted}; set it once, before the first context")
            );
        }
        return one_of_each();
    };
    assert_eq!(lines(&text(&output.stderr)).len(), 4);
}
