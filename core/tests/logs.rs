//! The log, in processes of their own: lines, levels, files, and what is wrong.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use thalweg::hal::Status;
use thalweg::{Context, SessionError, Tensor, host::host_api};
use thalweg_hal::Host;
use thalweg_hal::tables::LogLevel;

const CHILD: &str = "THALWEG_TEST_LOG";
const VARIABLES: [&str; 12] = [
    "THALWEG_LOG_LEVEL",
    "THALWEG_LOG_MODULES",
    "THALWEG_LOG_TO_STDERR",
    "THALWEG_LOG_DIR",
    "THALWEG_LOG_MAX_SIZE",
    "THALWEG_LOG_FILES",
    "GLOG_v",
    "MS_SUBMODULE_LOG_v",
    "GLOG_logtostderr",
    "GLOG_log_dir",
    "THALWEG_RANK",
    "RANK_ID",
];

/// Runs the rest of a test in a process with these variables; `None` there.
fn apart(test: &str, variables: &[(&str, &str)]) -> Option<Output> {
    if std::env::var_os(CHILD).is_some() {
        return None;
    }
    let mut run = Command::new(std::env::current_exe().unwrap());
    run.args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1");
    for name in VARIABLES {
        run.env_remove(name);
    }
    let output = run
        .env("USER", "ann")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let (out, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}: {out}{said}", output.status);
    Some(output)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The parts of a line.
#[derive(Debug, PartialEq)]
struct Line {
    level: String,
    module: String,
    thread: u64,
    place: String,
    text: String,
}

/// Takes a line apart; each part must have its exact form.
fn parse(line: &str) -> Line {
    let parts = || {
        let (level, rest) = line.strip_prefix('[')?.split_once("] ")?;
        let (module, rest) = rest.split_once('(')?;
        let (ids, rest) = rest.split_once("):")?;
        let [process, thread, program] = ids.split(',').collect::<Vec<_>>()[..] else {
            return None;
        };
        let (time, rest) = rest.split_once(" [")?;
        let (place, text) = rest.split_once("] ")?;
        let form: String = time
            .chars()
            .map(|c| if c.is_ascii_digit() { '0' } else { c })
            .collect();
        let (file, number) = place.rsplit_once(':')?;
        let good = form == "0000-00-00-00:00:00.000.000"
            && process.parse::<u32>().is_ok()
            && program.starts_with("logs-")
            && !file.is_empty()
            && number.parse::<u32>().is_ok();
        good.then(|| Line {
            level: level.into(),
            module: module.into(),
            thread: thread.parse().unwrap(),
            place: place.into(),
            text: text.into(),
        })
    };
    parts().unwrap_or_else(|| panic!("no line of the log: {line:?}"))
}

fn lines(text: &str) -> Vec<Line> {
    text.lines().map(parse).collect()
}

/// The files of the log in a folder by level, the oldest first; their names must have the exact form.
fn files(folder: &Path) -> BTreeMap<String, Vec<PathBuf>> {
    let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let (head, rest) = name.split_once(".ann.log.").unwrap();
        let [level, time, process] = rest.split('.').collect::<Vec<_>>()[..] else {
            panic!("{name}")
        };
        let form: String = time
            .chars()
            .map(|c| if c.is_ascii_digit() { '0' } else { c })
            .collect();
        assert!(head.starts_with("thalweg.") && head.len() > 8, "{name}");
        assert_eq!(form, "00000000-000000-000000", "{name}");
        process.parse::<u32>().unwrap();
        found.entry(level.to_owned()).or_default().push(path);
    }
    found.values_mut().for_each(|paths| paths.sort());
    found
}

/// A line of each level of this program.
fn one_of_each() {
    tracing::trace!("a trace");
    tracing::debug!("a debug");
    tracing::info!("an info");
    tracing::warn!("a warning");
    tracing::error!("an error");
    tracing::error!(critical = false, "another error");
    tracing::error!(critical = true, "the end");
}

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
fn lines_have_their_form() {
    let Some(output) = apart("lines_have_their_form", &[("GLOG_v", "0")]) else {
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
    let source: Vec<_> = include_str!("logs.rs").lines().collect();
    for (at, needle) in [
        (0, "\"a debug\""),
        (7, "\"of a backend\""),
        (8, "\"of a plugin\""),
        (9, "\"elsewhere\""),
    ] {
        let number = source.iter().position(|line| line.contains(needle)).unwrap() + 1;
        assert_eq!(lines[at].place, format!("core/tests/logs.rs:{number}"));
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
        let Some(output) = apart("levels_say_which_lines_there_are", variables) else {
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
    let Some(output) = apart("levels_of_modules_hold_for_backends", &variables) else {
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
fn files_have_the_lines_of_their_level_and_above() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let variables = [
        ("GLOG_logtostderr", "0"),
        ("GLOG_log_dir", dir),
        ("GLOG_v", "1"),
        ("RANK_ID", "3"),
    ];
    let Some(output) = apart("files_have_the_lines_of_their_level_and_above", &variables) else {
        assert!(thalweg::init().unwrap());
        return one_of_each();
    };
    assert_eq!(text(&output.stderr), "");
    let files = files(&folder.path().join("rank_3/logs"));
    let counts: Vec<_> = files
        .iter()
        .map(|(level, files)| {
            let [file] = &files[..] else { panic!("{files:?}") };
            (
                level.as_str(),
                lines(&std::fs::read_to_string(file).unwrap()).len(),
            )
        })
        .collect();
    assert_eq!(
        counts,
        [("CRITICAL", 1), ("ERROR", 3), ("INFO", 5), ("WARNING", 4)]
    );
}

#[test]
fn the_screen_goes_before_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    for to_screen in [&[][..], &[("GLOG_logtostderr", "1")]] {
        let variables = [&[("THALWEG_LOG_DIR", dir)], to_screen].concat();
        let Some(output) = apart("the_screen_goes_before_a_folder", &variables) else {
            assert!(thalweg::init().unwrap());
            return one_of_each();
        };
        assert_eq!(lines(&text(&output.stderr)).len(), 4);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    }
}

#[test]
fn files_are_followed_by_the_next_and_the_oldest_go() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let variables = [
        ("THALWEG_LOG_TO_STDERR", "0"),
        ("THALWEG_LOG_DIR", dir),
        ("THALWEG_LOG_MAX_SIZE", "1 kB"),
        ("THALWEG_LOG_FILES", "3"),
        ("THALWEG_LOG_LEVEL", "2"),
    ];
    let Some(output) = apart("files_are_followed_by_the_next_and_the_oldest_go", &variables) else {
        assert!(thalweg::init().unwrap());
        (0..100).for_each(|number| tracing::warn!("{number}"));
        tracing::error!("{}", "long ".repeat(400));
        return tracing::error!("last");
    };
    assert_eq!(text(&output.stderr), "");
    let files = files(&folder.path().join("rank_0/logs"));
    assert_eq!(files.keys().collect::<Vec<_>>(), ["ERROR", "WARNING"]);
    let of_level = |level: &str| -> Vec<Vec<Line>> {
        let read = |path: &PathBuf| lines(&std::fs::read_to_string(path).unwrap());
        files[level].iter().map(read).collect()
    };
    let warnings = of_level("WARNING");
    assert_eq!(warnings.len(), 3);
    // The long line has a file of its own, though it is longer than one may be.
    assert_eq!(warnings.iter().map(Vec::len).collect::<Vec<_>>()[1..], [1, 1]);
    let numbers: Vec<u32> = warnings[0]
        .iter()
        .map(|line| line.text.parse().unwrap())
        .collect();
    assert_eq!(numbers.last(), Some(&99));
    assert!(
        numbers.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{numbers:?}"
    );
    assert!(std::fs::metadata(&files["WARNING"][0]).unwrap().len() <= 1000);
    assert_eq!(of_level("ERROR").iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn threads_write_whole_lines() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let variables = [
        ("THALWEG_LOG_TO_STDERR", "0"),
        ("THALWEG_LOG_DIR", dir),
        ("THALWEG_LOG_MAX_SIZE", "10 kB"),
    ];
    if apart("threads_write_whole_lines", &variables).is_none() {
        assert!(thalweg::init().unwrap());
        std::thread::scope(|scope| {
            for thread in 0..8 {
                scope.spawn(move || (0..200).for_each(|number| tracing::warn!("{thread} {number}")));
            }
        });
        return;
    }
    let mut texts: Vec<String> = Vec::new();
    for file in &files(&folder.path().join("rank_0/logs"))["WARNING"] {
        let read = std::fs::read_to_string(file).unwrap();
        assert!(read.len() <= 10_000);
        texts.extend(lines(&read).into_iter().map(|line| line.text));
    }
    let mut wanted: Vec<String> = (0..8)
        .flat_map(|thread| (0..200).map(move |number| format!("{thread} {number}")))
        .collect();
    texts.sort();
    wanted.sort();
    assert_eq!(texts, wanted);
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
        match refusal(variables, "each_variable_refuses_what_it_does_not_take") {
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
    let Some(output) = apart("a_subscriber_of_the_program_stays", &variables) else {
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
    let Some(output) = apart("a_second_call_changes_nothing", &[("GLOG_v", "2")]) else {
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

/// The bits of some arithmetic.
fn bits() -> Vec<u32> {
    let cx = Context::new("cpu").unwrap();
    let x = Tensor::from_slice(&[0.1_f32, 0.7, 1.9], 3, &cx);
    let values = (x.exp() / 3.0).to_vec::<f32>().unwrap();
    values.into_iter().map(f32::to_bits).collect()
}

/// Whether the lines are one error of the log that names `path`, and then four others.
fn fell_back(said: &str, path: &str, why: &str) {
    let said = lines(said);
    let errors: Vec<_> = said.iter().filter(|line| line.module == "OBSERVE").collect();
    let [error] = errors[..] else { panic!("{said:?}") };
    assert_eq!(error.level, "ERROR");
    assert!(error.text.starts_with(&format!("logs: {path}")), "{error:?}");
    assert!(
        error.text.contains(why) && error.text.ends_with("; lines go to the screen from here on"),
        "{error:?}"
    );
    assert_eq!(
        said.iter().filter(|line| line.module == "PROGRAM").count(),
        4,
        "{said:?}"
    );
}

#[test]
fn a_folder_that_cannot_be_written_costs_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    for dir in [file.to_str().unwrap(), "/proc/nothing"] {
        let variables = [("GLOG_logtostderr", "0"), ("GLOG_log_dir", dir)];
        let Some(output) = apart("a_folder_that_cannot_be_written_costs_one_line", &variables) else {
            let before = bits();
            assert!(thalweg::init().unwrap());
            one_of_each();
            return assert_eq!(bits(), before);
        };
        fell_back(&text(&output.stderr), dir, "(os error ");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn a_folder_that_goes_later_costs_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("logs").to_str().unwrap().to_owned();
    let variables = [
        ("GLOG_logtostderr", "0"),
        ("GLOG_log_dir", dir.as_str()),
        ("THALWEG_LOG_MAX_SIZE", "1"),
    ];
    let Some(output) = apart("a_folder_that_goes_later_costs_one_line", &variables) else {
        assert!(thalweg::init().unwrap());
        let before = bits();
        tracing::warn!("into a file");
        let dir = std::env::var("GLOG_log_dir").unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        std::fs::write(dir, "another's").unwrap();
        one_of_each();
        return assert_eq!(bits(), before);
    };
    fell_back(&text(&output.stderr), &dir, "Not a directory");
}

#[test]
fn a_full_disk_costs_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let variables = [("GLOG_logtostderr", "0"), ("GLOG_log_dir", dir)];
    let Some(output) = apart("a_full_disk_costs_one_line", &variables) else {
        let before = bits();
        assert!(thalweg::init().unwrap());
        (0..8).for_each(|number| tracing::warn!("{number}"));
        // The system refuses to make files longer than this, as a full disk does.
        let limit = libc::rlimit {
            rlim_cur: 1200,
            rlim_max: 1200,
        };
        // SAFETY: the signal is ignored, and the limit lives through the call.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
        }
        (8..32).for_each(|number| tracing::warn!("{number}"));
        return assert_eq!(bits(), before);
    };
    let screen = lines(&text(&output.stderr));
    assert!(screen[0].text.contains("File too large"), "{screen:?}");
    assert!(screen[1..].iter().all(|line| line.module == "PROGRAM"));
    // No line is lost, but that which the disk took in part is on the screen as a whole.
    let numbers: Vec<u32> = screen[1..]
        .iter()
        .map(|line| line.text.parse().unwrap())
        .collect();
    let file = std::fs::read_to_string(&files(&folder.path().join("rank_0/logs"))["WARNING"][0]).unwrap();
    let whole = file.lines().count() - usize::from(!file.ends_with('\n'));
    assert_eq!(numbers, (whole as u32..32).collect::<Vec<_>>());
}

#[test]
fn a_lost_device_is_critical() {
    let variables = [
        ("GLOG_v", "4"),
        ("THALWEG_LAYERS", "fault"),
        ("THALWEG_LAYER_FAULT", "lost@1"),
    ];
    let Some(output) = apart("a_lost_device_is_critical", &variables) else {
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
    let Some(output) = apart("compiling_is_told_by_modules", &variables) else {
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
