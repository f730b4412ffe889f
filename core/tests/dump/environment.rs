//! Programs that the environment dumps, and dumps that cannot be written. This test runs itself as such a program.

use super::reader::{Manifest, files};
use super::{bytes, cx, input, network, options};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use thalweg::observe::{self, recording::SpanKind};
use thalweg::{Context, DumpError, Error, Tensor};

/// What the program below is asked for.
const ASKED: &str = "DUMPED_PROGRAM";

/// The program: it prints the bits that it computes.
#[test]
#[ignore = "other tests run it"]
fn program() {
    let Ok(asked) = std::env::var(ASKED) else { return };
    let cx = match Context::new("cpu") {
        Ok(cx) => cx,
        Err(error) => {
            println!("refused: {error}");
            return;
        }
    };
    if asked == "small files" {
        let limit = libc::rlimit {
            rlim_cur: 4096,
            rlim_max: 4096,
        };
        // SAFETY: the limit is one; a signal that is ignored needs no handler.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            libc::setrlimit(libc::RLIMIT_FSIZE, &limit);
        }
    }
    let turns = if asked == "long" { u64::MAX } else { 3 };
    for step in 1..=turns {
        let _step = observe::span(SpanKind::Step, "", step);
        observe::restart_calls();
        let x = &input(&cx) * step as f32;
        let wide = Tensor::ones([64, 64], thalweg::DType::F32, &cx) * step as f32;
        println!("bits: {:?} {:?}", bytes(&network(&x)), bytes(&wide.sum()));
    }
    println!("done");
}

fn command(asked: &str, variables: &[(&str, &Path)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["environment::program", "--exact", "--ignored", "--nocapture"])
        .env(ASKED, asked)
        .envs(variables.iter().copied());
    command
}

/// What a program prints of its bits, and whether it ended well.
fn run(asked: &str, variables: &[(&str, &Path)]) -> (Vec<String>, bool) {
    let Output { status, stdout, .. } = command(asked, variables).output().unwrap();
    let text = String::from_utf8(stdout).unwrap();
    let is_told = |line: &&str| {
        ["bits: ", "refused: ", "done"]
            .iter()
            .any(|start| line.contains(start))
    };
    (
        text.lines().filter(is_told).map(str::to_owned).collect(),
        status.success(),
    )
}

fn config(folder: &Path, path: &Path, more: &str) -> PathBuf {
    let config = folder.join("config.json");
    let path = serde_json::json!(path);
    let text = format!(
        r#"{{"common_dump_settings": {{"path": {path}{more}}}, "e2e_dump_settings": {{"enable": true}}}}"#
    );
    std::fs::write(&config, text).unwrap();
    config
}

#[test]
fn both_variables_dump_a_program_to_its_end() {
    let (plain, well) = run("some", &[]);
    assert!(well && plain.len() == 4, "{plain:?}");
    for variable in ["THALWEG_DUMP_CONFIG", "MINDSPORE_DUMP_CONFIG"] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("dump");
        let config = config(folder.path(), &root, r#", "saved_data": "full""#);
        assert_eq!(
            run("some", &[(variable, &config)]),
            (plain.clone(), true),
            "{variable}"
        );
        for iteration in 0..3 {
            let manifest = Manifest::read(&root.join(format!("Net/device_0/iteration_{iteration}")));
            let x = &input(&cx()) * (iteration + 1) as f32;
            let result = manifest
                .values()
                .iter()
                .rfind(|value| value["scope"] == "Default/head")
                .unwrap();
            assert_eq!(manifest.elements(result), bytes(&network(&x)));
        }
    }
}

#[test]
fn a_wrong_configuration_is_refused_before_a_device_opens() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.json");
    for (content, message) in [
        (
            &br#"{"common_dump_settings": {"pth": 1}}"#[..],
            "refused: dump: pth is 1; there is no such key; near it are path",
        ),
        (
            &br#"{"common_dump_settings": {"iteration": "5-3"}}"#[..],
            r#"refused: dump: iteration is 5-3; its part 1, "5-3", is no range"#,
        ),
        (&b"{\xff}"[..], "refused: dump: THALWEG_DUMP_CONFIG names "),
        (
            &b"{"[..],
            "refused: dump: the configuration is {; they are JSON: ",
        ),
    ] {
        std::fs::write(&file, content).unwrap();
        let (told, _) = run("some", &[("THALWEG_DUMP_CONFIG", &file)]);
        assert!(told.len() == 1 && told[0].contains(message), "{told:?}");
    }
    let (told, _) = run(
        "some",
        &[("THALWEG_DUMP_CONFIG", Path::new("/nowhere/config.json"))],
    );
    assert!(
        told[0].contains("refused: dump: THALWEG_DUMP_CONFIG names /nowhere/config.json: "),
        "{told:?}"
    );
    // Nothing is dumped where both are off.
    std::fs::write(&file, r#"{"common_dump_settings": {"path": "/nowhere"}}"#).unwrap();
    assert_eq!(run("some", &[("THALWEG_DUMP_CONFIG", &file)]), run("some", &[]));
}

#[test]
fn files_that_cannot_be_written_change_no_bit() {
    let (plain, _) = run("some", &[]);
    let folder = tempfile::tempdir().unwrap();
    let taken = folder.path().join("taken");
    std::fs::write(&taken, "a file").unwrap();
    for path in [taken.clone(), taken.join("inner"), PathBuf::from("/proc/nobody")] {
        let config = config(folder.path(), &path, "");
        assert_eq!(
            run("some", &[("THALWEG_DUMP_CONFIG", &config)]),
            (plain.clone(), true)
        );
    }
    // No file may be larger than 4 KiB, and a value is.
    let root = folder.path().join("dump");
    let config = config(folder.path(), &root, "");
    assert_eq!(
        run("small files", &[("THALWEG_DUMP_CONFIG", &config)]),
        (plain, true)
    );
    assert!(files(&root).keys().all(|name| !name.ends_with("manifest.json")));
}

#[test]
fn the_guard_tells_what_could_not_be_written() {
    let (cx, folder) = (cx(), tempfile::tempdir().unwrap());
    let x = input(&cx);
    let plain = bytes(&network(&x));
    let taken = folder.path().join("taken");
    std::fs::write(&taken, "a file").unwrap();
    let error = cx.dump(&options(&taken)).unwrap_err();
    assert!(
        matches!(&error, Error::Dump(DumpError::Folder { .. })),
        "{error:?}"
    );
    assert_eq!(error.to_string().lines().count(), 1);
    for by_thread in [false, true] {
        let root = folder.path().join(format!("dump_{by_thread}"));
        let mut options = options(&root);
        (options.e2e_enable, options.async_enable) = (!by_thread, by_thread);
        let dump = cx.dump(&options).unwrap();
        // A folder of the device's name that is a file.
        let place = if by_thread {
            root.join("0")
        } else {
            root.join("Net/device_0")
        };
        std::fs::write(place, "").unwrap();
        assert_eq!(bytes(&network(&x)), plain);
        let error = dump.finish().unwrap_err();
        assert!(
            matches!(&error, Error::Dump(DumpError::Write { .. })),
            "{error:?}"
        );
        assert!(
            error
                .to_string()
                .ends_with("the dump ends here, and the program goes on without it")
        );
        assert!(files(&root).keys().all(|name| !name.ends_with("manifest.json")));
    }
}

#[test]
fn a_killed_program_leaves_whole_manifests() {
    let mut whole = 0;
    for delay in 1..=12 {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("dump");
        let config = config(folder.path(), &root, r#", "saved_data": "full""#);
        let mut child: Child = command("long", &[("THALWEG_DUMP_CONFIG", &config)])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(delay * 37));
        child.kill().unwrap();
        child.wait().unwrap();
        if !root.exists() {
            continue;
        }
        for name in files(&root).keys().filter(|name| name.ends_with("manifest.json")) {
            let place = root.join(name);
            let manifest = Manifest::read(place.parent().unwrap());
            assert!(!manifest.values().is_empty());
            for value in manifest.values().iter().take(3) {
                manifest.elements(value);
            }
            let listed = manifest
                .values()
                .iter()
                .filter_map(|value| value["file"].as_str());
            assert!(
                listed
                    .map(|file| manifest.folder.join(file))
                    .all(|file| file.exists())
            );
            assert!(manifest.folder.join("statistic.csv").exists());
            whole += 1;
        }
    }
    assert!(whole > 0, "no iteration was written before a kill");
}
