//! What `thalweg devices` says where CUDA is missing in one way or another, and where it is there: the same files each time.
//! The CUDA that is there is a stand-in without a GPU.
#![allow(clippy::unwrap_used, reason = "a test")]

mod place;

use place::{Place, plugins};
use std::path::PathBuf;
use std::sync::LazyLock;

/// The CUDA plugin of this build, in the place's folder.
fn installed() -> Place {
    let place = Place::new();
    let file = place::plugins::built("thalweg_cuda");
    place.write("plugins/libthalweg_cuda.so", std::fs::read(file).unwrap());
    place
}

/// The stand-in, built once for the tests of one process.
fn standin() -> &'static str {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| plugins::cuda_standin("cuda_cli", &[]));
    FOLDER.to_str().unwrap()
}

/// The rows about CUDA under these settings.
fn rows(place: &Place, settings: &[(&str, &str)]) -> Vec<String> {
    let plugins = place.plugins();
    let mut command = place.command(&["devices", "--backend-path", &plugins]);
    command.envs(settings.iter().copied());
    let run = place.finish(&mut command);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{}", run.out);
    // The CPU is there whatever CUDA says.
    assert!(run.out.contains("cpu:0"), "{}", run.out);
    let rows = run.out.lines().filter(|line| line.starts_with("cuda"));
    rows.map(str::to_owned).collect()
}

#[track_caller]
fn one_row(settings: &[(&str, &str)], expected: &[&str]) {
    let rows = rows(&installed(), settings);
    let [row] = &rows[..] else {
        panic!("not one row: {rows:#?}");
    };
    for part in expected {
        assert!(row.contains(part), "`{part}` is not in: {row}");
    }
}

#[test]
fn with_and_without_cuda() {
    let place = installed();
    let nowhere = place.path("cache");
    let without = rows(&place, &[("THALWEG_CUDA_LIBRARIES", nowhere.to_str().unwrap())]);
    let [row] = &without[..] else {
        panic!("not one row: {without:#?}");
    };
    let expected = "not available: libcuda.so.1 was not found in DIR/cache (is an NVIDIA driver installed?)";
    assert!(row.contains(expected), "{row}");
    let with = rows(
        &place,
        &[("THALWEG_CUDA_LIBRARIES", standin()), ("STANDIN_DEVICES", "2")],
    );
    assert_eq!(with.len(), 2, "{with:#?}");
    for (ordinal, row) in with.iter().enumerate() {
        assert!(
            row.starts_with(&format!(
                "cuda:{ordinal}  stand-in (no GPU), 4 compute units, sm_90"
            )),
            "{row}"
        );
    }
}

/// Without a word about where: what this machine says, whether it has CUDA or not.
#[test]
fn as_this_machine_is() {
    let rows = rows(&installed(), &[]);
    let Some(row) = rows.first() else {
        panic!("no row");
    };
    assert!(
        row.starts_with("cuda:0") || row.contains("not available: "),
        "{row}"
    );
}

#[test]
fn an_old_driver() {
    one_row(
        &[("THALWEG_CUDA_LIBRARIES", standin()), ("STANDIN_DRIVER", "11080")],
        &[
            "not available: the NVIDIA driver speaks CUDA 11.8, and 12.0 or later is needed; update the driver",
        ],
    );
}

#[test]
fn no_device() {
    one_row(
        &[("THALWEG_CUDA_LIBRARIES", standin()), ("STANDIN_DEVICES", "0")],
        &["not available: cuInit returned CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected"],
    );
}

#[test]
fn an_old_device() {
    one_row(
        &[
            ("THALWEG_CUDA_LIBRARIES", standin()),
            ("STANDIN_DEVICES", "1"),
            ("STANDIN_SM", "75"),
        ],
        &[
            "cuda:0",
            "stand-in (no GPU) (compute capability 7.5): compute capability 8.0 or later is needed",
        ],
    );
}

#[test]
fn a_driver_without_a_function() {
    let folder = plugins::cuda_standin("cuda_without", &["-DcuGraphLaunch=cuGraphLaunch_gone"]);
    one_row(
        &[("THALWEG_CUDA_LIBRARIES", folder.to_str().unwrap())],
        &["not available: libcuda.so.1 has no cuGraphLaunch; CUDA 12.0 or later is needed, update it"],
    );
}

/// A driver of CUDA 12 takes no code of a later compiler.
#[test]
fn no_compiler_for_the_driver() {
    one_row(
        &[
            ("THALWEG_CUDA_LIBRARIES", standin()),
            ("STANDIN_DEVICES", "1"),
            ("STANDIN_DRIVER", "12040"),
        ],
        &["cuda:0", "libnvrtc.so.12 was not found", "install NVRTC"],
    );
}
