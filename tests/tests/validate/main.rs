//! The layer `validate` finds planted errors of programs and lies of plugins, on every backend.
#![allow(clippy::unwrap_used, reason = "a test")]

mod content;
mod lies;
mod order;
mod planted;
#[path = "../plugins/mod.rs"]
mod plugins;
#[path = "../reports/mod.rs"]
mod reports;
mod work;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use thalweg::hal::Status;
use thalweg::host::set_config;
use thalweg::loader::{LoaderOptions, Registry};
use thalweg_conformance::Subject;
use thalweg_conformance::kit::Stop;
use thalweg_conformance::rig::Device;
use thalweg_hal::Error;

/// What a planted error comes to: the error that the layer makes of it.
type Found = Result<Error, Stop>;

/// Options of the layer are the process's, and read when a device is opened: a test has them to itself.
fn alone(words: Option<&str>) -> MutexGuard<'static, ()> {
    static OPTIONS: Mutex<()> = Mutex::new(());
    let guard = OPTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    reports::collect();
    reports::take();
    set_config("layer.validate", words);
    guard
}

/// The loader's options with layers and a folder of files, and nothing of this machine.
fn options(layers: &[&str], folders: Vec<PathBuf>) -> LoaderOptions {
    LoaderOptions {
        folders,
        layers: layers.iter().copied().map(String::from).collect(),
        use_environment: false,
        use_executable: false,
        development: false,
        cache: None,
        ..LoaderOptions::default()
    }
}

/// A backend under layers, whose files lie in folders; `None` where this machine has no device for it.
fn subject(backend: &str, layers: &[&str], folders: &[PathBuf]) -> Option<Subject> {
    let options = options(layers, folders.to_vec());
    let file = match backend {
        "cpu" => return Some(Subject::of(Registry::new(options).get("cpu").unwrap()).unwrap()),
        "plain_c" => plugins::plain_c("validate"),
        "reference" => plugins::built("thalweg_reference"),
        "opencl" => {
            set_config("opencl.kernels", Some("interpreted"));
            set_config("opencl.memory", Some("device"));
            plugins::built("thalweg_opencl")
        }
        "cuda" => {
            let folder = plugins::cuda_standin("cuda_validate", &[]);
            set_config("cuda.libraries", folder.to_str());
            set_config("cuda.cache", folder.join("cache").to_str());
            plugins::built("thalweg_cuda")
        }
        other => panic!("there is no backend {other}"),
    };
    let subject =
        Subject::load(&file, &options).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    match subject.raw().device_count() {
        Ok(_) => Some(subject),
        Err(error) if error.status == Status::Unavailable => {
            plugins::skip::skip(backend, error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Whether an error has a code and names whose fault it is.
#[track_caller]
fn expect(found: &str, code: &str, fault: &str, parts: &[&str]) {
    assert!(
        found.starts_with(&format!("{code} ({fault}): ")),
        "{code}, {fault}: {found}"
    );
    for part in parts {
        assert!(found.contains(part), "`{part}` of {code}: {found}");
    }
    assert!(!found.contains('\n'), "{found}");
}

/// The error of a call that must fail.
fn wrong<T>(result: thalweg_hal::Result<T>) -> Found {
    match result {
        Err(error) => Ok(error),
        Ok(_) => Err(Stop::Failed("the call succeeded".into())),
    }
}

macro_rules! backends {
    ($($name:ident),*) => { $(
        mod $name {
            #[test]
            fn planted_errors_are_found() {
                crate::planted::all(stringify!($name));
            }

            #[test]
            fn races_are_found_and_ordered_work_is_left_alone() {
                crate::order::all(stringify!($name));
            }

            #[test]
            fn contents_of_memory_are_looked_at() {
                crate::content::all(stringify!($name));
            }

            #[test]
            fn lies_of_the_plugin_are_found() {
                crate::lies::all(stringify!($name));
            }
        }
    )* };
}

backends!(cpu, reference, plain_c, opencl, cuda);

#[test]
fn what_is_left_at_close_is_logged_with_its_maker() {
    let _alone = alone(None);
    let subject = subject("cpu", &["validate"], &[]).unwrap();
    let device = Device::open(&subject).ok().unwrap();
    work::alloc(&device, 64, ("zeros", "src/left.rs", 5)).unwrap();
    let kept = device.alloc(64).unwrap();
    device.free(kept).unwrap();
    device.stream().unwrap();
    device.event(false).unwrap();
    device.event(false).unwrap();
    drop(device);
    let lines: Vec<String> = reports::take().into_iter().map(|(_, line)| line).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    expect(
        &lines[0],
        "TW-LIFETIME-005",
        "program",
        &["a buffer (made by zeros at src/left.rs:5)"],
    );
    expect(&lines[1], "TW-LIFETIME-005", "program", &["2 events are left"]);
}

#[test]
fn with_warn_calls_go_on_and_each_report_is_logged_once() {
    let _alone = alone(Some("races,warn"));
    let subject = subject("cpu", &["validate"], &[]).unwrap();
    let device = Device::open(&subject).ok().unwrap();
    let (one, two) = (device.stream().unwrap(), device.stream().unwrap());
    let buffer = device.alloc(64).unwrap();
    for _ in 0..3 {
        work::fill(&device, one, (buffer, 0, 64), ("ones", "src/a.rs", 1)).unwrap();
        work::fill(&device, two, (buffer, 0, 64), ("twos", "src/b.rs", 2)).unwrap();
        device.synchronize().unwrap();
    }
    // The backend itself refuses what a group that was not asked for would.
    let error = device.free(7).unwrap_err();
    assert!(!error.message.starts_with("TW-"), "{error}");
    let lines: Vec<String> = reports::take().into_iter().map(|(_, line)| line).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    expect(
        &lines[0],
        "TW-ORDER-003",
        "program",
        &["twos at src/b.rs:2", "ones at src/a.rs:1"],
    );
    set_config("layer.validate", Some("speed"));
    let error = Device::open(&subject).err().unwrap();
    assert!(
        format!("{error:?}").contains("there is no check `speed`"),
        "{error:?}"
    );
}

/// The errors that programs make in tests of this file, and the lies: together they have every code of the page.
#[test]
fn every_code_of_the_page_is_planted() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/validate.md");
    let page = std::fs::read_to_string(page).unwrap();
    let planted = planted::codes()
        .chain(order::codes())
        .chain(lies::codes())
        .chain(content::CODES);
    let planted: Vec<&str> = planted.chain(["TW-LIFETIME-005"]).collect();
    for code in page.lines().filter_map(|line| line.strip_prefix("### ")) {
        assert!(planted.contains(&code), "{code} is not planted");
    }
}
