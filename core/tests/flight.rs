//! What the flight recorder leaves of programs that fail, end and are killed. This test runs itself as such a program.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "flight/killed.rs"]
mod killed;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use thalweg::graph::Graph;
use thalweg::observe::flight::{Flight, FlightError, find};
use thalweg::{Context, DType, Error, Tensor, jit};

/// What the program below is asked for.
const ASKED: &str = "FLYING_PROGRAM";
/// The ops of a round, in their order; launch `n` is the op `n % 3`.
const OPS: [&str; 3] = ["exp", "tanh", "neg"];
/// Launches of a program that ends.
const LAUNCHES: usize = 6000;

/// No file of this process grows beyond 600 bytes, which is an error of the call.
fn limit() {
    let limit = libc::rlimit {
        rlim_cur: 600,
        rlim_max: 600,
    };
    // SAFETY: both calls take plain values.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
    }
}

fn op(x: &Tensor, number: usize) -> Tensor {
    match OPS[number % 3] {
        "exp" => x.exp(),
        "tanh" => x.tanh(),
        _ => -x,
    }
}

/// The program: it says what it did, so that tests need not trust the recorder.
#[test]
#[ignore = "other tests run it"]
fn program() {
    let Ok(asked) = std::env::var(ASKED) else { return };
    // The harness has begun a line.
    println!();
    if asked == "full" {
        limit();
    }
    if asked == "logs" {
        assert!(thalweg::init().unwrap());
    }
    let cx = match Context::new("cpu") {
        Ok(cx) => cx,
        Err(error) => {
            assert!(matches!(error, Error::Flight(_)), "{error:?}");
            println!("refused: {error}");
            return;
        }
    };
    let x = Tensor::from_slice(&[0.1_f32, -0.3], 2, &cx);
    if asked == "filled" {
        limit();
    }
    match asked.as_str() {
        // The fault was in the upload.
        "fail" | "later" if x.shape().is_err() => println!("failed: None"),
        "fail" => {
            let failed = (0..LAUNCHES).find(|&number| op(&x, number).shape().is_err());
            println!("failed: {:?}", failed);
        }
        "later" => {
            let failed = (0..LAUNCHES).find(|&number| op(&x, number).to_vec::<f32>().is_err());
            println!("failed: {:?}", failed);
        }
        "status" => {
            drop(op(&x, 0));
            std::process::exit(3);
        }
        "panic" => {
            drop(op(&x, 0));
            panic!("asked for");
        }
        "graphs" => {
            for size in 1..=70 {
                let x = Tensor::ones([size], DType::F32, &cx);
                jit(|x: &Tensor| (x * 2.0).sum())
                    .named("twice")
                    .call(&x)
                    .item::<f32>()
                    .unwrap();
            }
        }
        "memory" => {
            let large = Tensor::ones([1 << 19], DType::F32, &cx);
            drop(large);
        }
        "late" => {
            let again = Context::builder()
                .device_target("cpu")
                .env_config_path("/nowhere/config.json");
            println!("late: {}", again.build().unwrap_err());
        }
        "fork" => {
            drop(op(&x, 0));
            // SAFETY: no other thread is inside a call; the child ends at once.
            let child = unsafe { libc::fork() };
            if child == 0 {
                (1..100).for_each(|number| drop(op(&x, number)));
                std::process::exit(1);
            }
            let mut status = 0;
            // SAFETY: the child is this process's own; `status` lives through the call.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            drop(op(&x, 1));
            std::process::exit(2);
        }
        "logs" => {
            println!("ready");
            for number in 0..usize::MAX {
                tracing::warn!("line {number}\nof the program");
                drop(op(&x, number));
            }
        }
        "for ever" => {
            println!("ready");
            for number in 0..usize::MAX {
                drop(op(&x, number));
            }
        }
        _ => {
            let last = (0..LAUNCHES).fold(x.clone(), |_, number| op(&x, number));
            println!("bits: {:?}", last.to_vec::<f32>().unwrap().map_bits());
        }
    }
}

trait Bits {
    fn map_bits(self) -> Vec<u32>;
}

impl Bits for Vec<f32> {
    fn map_bits(self) -> Vec<u32> {
        self.into_iter().map(f32::to_bits).collect()
    }
}

fn command(asked: &str, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "program",
            "--exact",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(ASKED, asked)
        .envs(variables.iter().copied())
        .stdout(Stdio::piped());
    command
}

/// Runs the program into a folder; what it said.
fn run(asked: &str, folder: &Path, variables: &[(&str, &str)]) -> String {
    let on = [
        ("THALWEG_RDR_ENABLE", "1"),
        ("THALWEG_RDR_PATH", folder.to_str().unwrap()),
    ];
    let Output { stdout, .. } = command(asked, &[&on, variables].concat()).output().unwrap();
    String::from_utf8(stdout).unwrap()
}

fn said<'a>(text: &'a str, start: &str) -> &'a str {
    text.lines()
        .find_map(|line| line.strip_prefix(start))
        .unwrap_or_else(|| panic!("no {start} in {text}"))
}

fn flights(folder: &Path) -> Vec<PathBuf> {
    find(folder).unwrap_or_default()
}

fn only(folder: &Path) -> Flight {
    let found = find(folder).unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    Flight::read(&found[0]).unwrap()
}

/// The ops of a table in its order.
fn ops(flight: &Flight) -> Vec<String> {
    let table = fs::read_to_string(flight.folder.join("order.csv")).unwrap();
    let mut lines = table.lines();
    assert_eq!(
        lines.next(),
        Some("launch,time_ns,device,stream,function,kernels,op,name,line")
    );
    lines
        .map(|line| line.split(',').nth(6).unwrap().to_owned())
        .collect()
}

#[test]
fn the_last_launch_is_the_op_that_failed() {
    for (asked, kind) in [("fail", "submit"), ("later", "later")] {
        for number in [1, 2, 3, 17, 5001] {
            let folder = tempfile::tempdir().unwrap();
            let fault = format!("{kind}@{number}");
            let variables = [
                ("THALWEG_LAYERS", "fault"),
                ("THALWEG_LAYER_FAULT", fault.as_str()),
            ];
            let text = run(asked, folder.path(), &variables);
            let failed: usize = match said(&text, "failed: ").strip_prefix("Some(") {
                Some(number) => number.trim_end_matches(')').parse().unwrap(),
                // Something else of the program was made to fail, or nothing.
                None => continue,
            };
            let flight = only(folder.path());
            let ops = ops(&flight);
            assert_eq!(
                ops.last().map(String::as_str),
                Some(OPS[failed % 3]),
                "{fault}: {ops:?}"
            );
            assert_eq!(flight.launched as usize, failed + 1);
            let last = flight.launches.last().unwrap();
            assert!(last.line.starts_with("core/tests/flight.rs:"), "{last:?}");
            assert_eq!(
                (last.device.as_str(), last.kernels.as_str()),
                ("cpu:0", OPS[failed % 3])
            );
            // What fails later may be the copy of the result.
            let named = [OPS[failed % 3], if asked == "later" { "download" } else { "" }];
            let of =
                |name: &&str| !name.is_empty() && flight.errors.contains(&format!("{name}: made to fail"));
            assert!(flight.errors.contains(&fault) && named.iter().any(of), "{flight}");
            assert_eq!(flight.launches.len(), (failed + 1).min(4096));
        }
    }
}

#[test]
fn a_fault_comes_to_the_recorder_in_every_kind() {
    for (asked, fault) in [("fail", "submit@17"), ("later", "later@17")] {
        let folder = tempfile::tempdir().unwrap();
        let variables = [("THALWEG_LAYERS", "fault"), ("THALWEG_LAYER_FAULT", fault)];
        let text = run(asked, folder.path(), &variables);
        assert!(said(&text, "failed: ").starts_with("Some("), "{fault}: {text}");
        assert!(only(folder.path()).errors.contains(fault), "{fault}");
    }
}

#[test]
fn a_program_that_ends_well_leaves_what_its_mode_says() {
    let plain = command("run", &[]).output().unwrap();
    let plain = String::from_utf8(plain.stdout).unwrap();
    for (mode, files) in [("1", 0), ("2", 1)] {
        let folder = tempfile::tempdir().unwrap();
        let text = run("run", folder.path(), &[("MS_RDR_MODE", mode), ("RANK_ID", "3")]);
        assert_eq!(said(&text, "bits: "), said(&plain, "bits: "));
        let found = flights(folder.path());
        assert_eq!(found.len(), files, "mode {mode}");
        for folder_of_flight in found {
            assert!(folder_of_flight.starts_with(folder.path().join("rank_3/rdr")));
            let mode = fs::metadata(&folder_of_flight).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
            let flight = Flight::read(&folder_of_flight).unwrap();
            assert_eq!(
                (flight.status, flight.torn, flight.launched),
                (Some(0), 0, LAUNCHES as u64)
            );
            let ops = ops(&flight);
            assert_eq!(ops.len(), 4096);
            let first = LAUNCHES - 4096;
            assert!(ops.iter().enumerate().all(|(at, op)| op == OPS[(first + at) % 3]));
            assert!(flight.launches.iter().all(|launch| launch.time.is_some()));
            assert!(flight.launches.is_sorted_by_key(|launch| launch.time));
        }
    }
}

#[test]
fn a_status_and_a_panic_are_errors() {
    for (asked, status) in [("status", 3), ("panic", 101)] {
        let folder = tempfile::tempdir().unwrap();
        run(asked, folder.path(), &[]);
        let flight = only(folder.path());
        assert_eq!(
            (flight.status, ops(&flight)),
            (Some(status), vec!["exp".to_owned()]),
            "{asked}"
        );
    }
}

#[test]
fn the_last_graphs_and_large_buffers_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    run("graphs", folder.path(), &[("THALWEG_RDR_MODE", "2")]);
    let flight = only(folder.path());
    let names: Vec<_> = flight
        .graphs
        .iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap())
        .collect();
    assert_eq!(
        (names.len(), names[0], names[63]),
        (64, "graph_6.ir", "graph_69.ir")
    );
    for (path, size) in flight.graphs.iter().zip(7..) {
        let text = fs::read_to_string(path).unwrap();
        let graph = Graph::parse(&text).unwrap();
        assert_eq!(graph.shape(graph.inputs()[0])[..], [size]);
        assert!(text.contains("# step 0: "), "{text}");
    }
    assert_eq!(flight.launches.last().unwrap().function, "twice");
    let folder = tempfile::tempdir().unwrap();
    run("memory", folder.path(), &[("THALWEG_RDR_MODE", "2")]);
    let flight = only(folder.path());
    let seen: Vec<_> = flight
        .memory
        .iter()
        .map(|event| (event.made, event.bytes, event.op.as_str()))
        .collect();
    assert_eq!(seen, [(true, 1 << 21, "ones"), (false, 1 << 21, "ones")]);
    assert_eq!(flight.memory[0].buffer, flight.memory[1].buffer);
    let table = fs::read_to_string(flight.folder.join("memory.csv")).unwrap();
    assert_eq!(table.lines().count(), 3);
}

#[test]
fn a_child_of_a_fork_is_no_part_of_the_flight() {
    let folder = tempfile::tempdir().unwrap();
    run("fork", folder.path(), &[]);
    let flight = only(folder.path());
    assert_eq!(
        (flight.status, ops(&flight)),
        (Some(2), vec!["exp".to_owned(), "tanh".to_owned()])
    );
}

#[test]
fn what_is_wrong_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let file = path("file", "");
    let good = path(
        "good.json",
        &format!(
            "{{\"rdr\": {{\"enable\": true, \"path\": {:?}, \"mode\": 2}}}}",
            folder.path()
        ),
    );
    let wrong = path("wrong.json", r#"{"rdr": {"enabel": true}}"#);
    for (variables, wanted) in [
        (
            &[("MS_RDR_ENABLE", "2")][..],
            "MS_RDR_ENABLE is \"2\"; it takes 0 or 1",
        ),
        (
            &[("THALWEG_RDR_PATH", "out")],
            "THALWEG_RDR_PATH is \"out\"; it takes an absolute path",
        ),
        (
            &[("THALWEG_ENV_CONFIG_PATH", "/nowhere/x.json")],
            "flight recorder: /nowhere/x.json: ",
        ),
        (
            &[("THALWEG_ENV_CONFIG_PATH", &wrong)],
            "enabel is true; there is no such key; near it are enable",
        ),
        (
            &[("MS_RDR_ENABLE", "1"), ("MS_RDR_PATH", &file)],
            "flight recorder: ",
        ),
    ] {
        let text = String::from_utf8(command("run", variables).output().unwrap().stdout).unwrap();
        let refused: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("refused: "))
            .collect();
        assert!(
            matches!(refused[..], [line] if line.starts_with(wanted)),
            "{wanted}: {text}"
        );
    }
    assert!(flights(folder.path()).is_empty());
    let of_file = [("THALWEG_ENV_CONFIG_PATH", good.as_str())];
    let text = String::from_utf8(command("late", &of_file).output().unwrap().stdout).unwrap();
    assert!(said(&text, "late: ").starts_with("flight recorder: /nowhere/config.json: "));
    assert_eq!(only(folder.path()).status, Some(0));
    let error = Flight::read(folder.path()).unwrap_err();
    assert!(matches!(error, FlightError::Read { .. }), "{error}");
    assert!(matches!(
        find(&folder.path().join("nothing")),
        Err(FlightError::None { .. })
    ));
}

#[test]
fn a_disk_that_is_full_is_an_error_at_the_start_and_costs_files_later() {
    let plain = String::from_utf8(command("run", &[]).output().unwrap().stdout).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let refused = run("full", folder.path(), &[]);
    let refused = said(&refused, "refused: ");
    assert!(
        refused.starts_with("flight recorder: ") && refused.contains("ring.tw: "),
        "{refused}"
    );
    let folder = tempfile::tempdir().unwrap();
    let text = run("filled", folder.path(), &[("THALWEG_RDR_MODE", "2")]);
    assert_eq!(said(&text, "bits: "), said(&plain, "bits: "));
    // The ring has its place; names and tables have none.
    let flight = only(folder.path());
    assert_eq!(
        (flight.launched, flight.status, flight.launches.len()),
        (LAUNCHES as u64, Some(0), 4096)
    );
}
