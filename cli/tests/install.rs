//! `thalweg plugins install`, `remove`, `list` and `path`.
#![allow(clippy::unwrap_used, reason = "a test")]

mod place;

use place::{Place, Run, mode};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The program for a user whose home is the place.
fn run(place: &Place, args: &[&str]) -> Run {
    place.finish(place.command(args).env("HOME", place.path("")))
}

/// The one line that a refusal says; nothing may have been changed.
fn refused(place: &Place, args: &[&str]) -> String {
    let run = run(place, args);
    assert_eq!(
        (run.code, run.out.as_str(), run.err.lines().count()),
        (Some(1), "", 1),
        "{run:?}"
    );
    assert!(run.err.ends_with("; nothing was installed\n"), "{}", run.err);
    run.err
}

/// An archive as `cargo xtask dist` makes it: a folder with the plugin in plain C, its sum, and a text.
fn archive(place: &Place) -> String {
    let plugin = place.plain_c();
    let set = place.path("set");
    fs::create_dir_all(&set).unwrap();
    mode(&set, 0o755);
    fs::rename(plugin, set.join("libthalweg_plainc.so")).unwrap();
    place.write("set/LICENSE-MIT", "as you like");
    assert_eq!(place.run(&["plugins", "lock", "../set"]).code, Some(0));
    pack(place)
}

fn pack(place: &Place) -> String {
    let file = place.path("plugins.tar.gz");
    let packed = Command::new("tar")
        .args(["--format=ustar", "-czf"])
        .arg(&file)
        .arg("-C")
        .arg(place.path(""))
        .arg("set")
        .status();
    assert!(packed.unwrap().success());
    mode(&file, 0o644);
    file.display().to_string()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

const HOME: &str = ".local/share/thalweg/backends";

#[test]
fn an_archive_is_installed_found_listed_and_removed() {
    let place = Place::new();
    let file = archive(&place);
    let output = run(&place, &["plugins", "install", &file]);
    assert_eq!(
        (output.code, output.out.as_str(), output.err.as_str()),
        (
            Some(0),
            "installed into DIR/.local/share/thalweg/backends\n  plainc  1.0.0  libthalweg_plainc.so\n\
             all of your programs find them; `thalweg devices` lists the devices\n",
            ""
        )
    );
    let home = place.path(HOME);
    assert_eq!(names(&home), ["libthalweg_plainc.so", "thalweg-plugins.lock"]);
    let devices = run(&place, &["devices"]);
    assert!(devices.out.contains("\nplainc:0  "), "{}", devices.out);

    let again = run(&place, &["plugins", "install", &file]);
    assert!(again.out.contains("  replaces 1.0.0\n"), "{again:?}");
    let list = run(&place, &["plugins", "list"]);
    let row =
        "plainc  1.0.0  DIR/.local/share/thalweg/backends/libthalweg_plainc.so  locked\n1 plugin file\n";
    assert_eq!((list.out.as_str(), list.code), (row, Some(0)));

    let missing = run(&place, &["plugins", "remove", "cuda"]);
    assert_eq!(
        missing.err,
        "error: DIR/.local/share/thalweg/backends has no libthalweg_cuda.so; `thalweg plugins list` shows what there is\n"
    );
    let removed = run(&place, &["plugins", "remove", "plainc"]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    assert_eq!(fs::read(home.join("thalweg-plugins.lock")).unwrap(), b"");
    let list = run(&place, &["plugins", "list"]);
    assert!(list.out.starts_with("no plugin file was found"), "{}", list.out);
}

#[test]
fn the_folders_are_printed_in_their_order() {
    let place = Place::new();
    let output = run(&place, &["plugins", "path", "--backend-path", &place.plugins()]);
    let squeezed: Vec<String> = output
        .out
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        squeezed,
        [
            "DIR/plugins --backend-path 0 backend files",
            "DIR/bin/backends beside the program missing",
            "DIR/lib/thalweg/backends installation missing",
            "DIR/.local/share/thalweg/backends this user's missing",
            "`thalweg plugins install` puts plugins into DIR/.local/share/thalweg/backends",
        ]
    );
    // Without a home there is no folder of the user.
    let bare = place.run(&["plugins", "path"]);
    assert!(!bare.out.contains("this user's"), "{}", bare.out);
    let error = place.run(&["plugins", "install", "."]).err;
    assert!(error.contains("HOME is not set; name one with --to"), "{error}");
}

#[test]
fn folders_and_single_files_are_installed_too() {
    let place = Place::new();
    let plugin = place.plain_c();
    let to = place.path("opt/backends").display().to_string();
    let output = run(&place, &["plugins", "install", &place.plugins(), "--to", &to]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.out.contains("THALWEG_BACKEND_PATH"), "{}", output.out);
    let devices = run(&place, &["devices", "--backend-path", &to]);
    assert!(devices.out.contains("\nplainc:0  "), "{}", devices.out);

    // A plugin that lay in the folder before keeps being loaded.
    let home = place.path(HOME);
    fs::create_dir_all(&home).unwrap();
    for folder in [".local", ".local/share", ".local/share/thalweg", HOME] {
        mode(&place.path(folder), 0o755);
    }
    fs::copy(&plugin, home.join("libthalweg_other.so")).unwrap();
    let output = run(&place, &["plugins", "install", &plugin.display().to_string()]);
    assert!(
        output
            .out
            .contains("libthalweg_other.so was there before and is locked as it is"),
        "{output:?}"
    );
    assert_eq!(
        run(&place, &["plugins", "verify", &home.display().to_string()]).code,
        Some(0)
    );
}

#[test]
fn refusals_are_one_line_and_leave_nothing() {
    let place = Place::new();
    let file = archive(&place);
    let install = |args: &[&str]| {
        let error = refused(&place, &[&["plugins", "install"], args].concat());
        assert!(!place.path(".local").exists(), "{error}");
        error
    };
    let good = fs::read(&file).unwrap();
    place.write("plugins.tar.gz", &good[..good.len() / 2]);
    assert!(install(&[&file]).contains("truncated; copy it again"));
    place.write("plugins.tar.gz", &good);

    let sum = "0".repeat(64);
    assert!(install(&[&file, "--sha256", &sum]).contains(&format!("not {sum}")));
    mode(Path::new(&file), 0o666);
    assert!(install(&[&file]).contains("can be written by others (mode 0666)"));
    mode(Path::new(&file), 0o644);
    assert!(install(&["none.tar.gz"]).contains("cannot read DIR/plugins/none.tar.gz"));
    place.write("plugins/notes.txt", "notes");
    assert!(install(&["notes.txt"]).contains("is neither an archive (.tar.gz) nor a plugin"));
    assert!(install(&["."]).contains("holds no plugin (libthalweg_NAME.so)"));
    let into = install(&[&file, "--to", "notes.txt"]);
    assert!(into.contains("DIR/plugins/notes.txt"), "{into}");

    // One bad plugin keeps the good one out.
    let plugin = fs::read(place.path("set/libthalweg_plainc.so")).unwrap();
    place.write("set/libthalweg_bad.so", plugin);
    assert!(install(&[&pack(&place)]).contains("libthalweg_bad.so is not listed in thalweg-plugins.lock"));
    place.write("set/libthalweg_bad.so", "no plugin");
    place.run(&["plugins", "lock", "../set"]);
    let error = install(&[&pack(&place)]);
    assert!(
        error.starts_with("error: libthalweg_bad.so: not a shared library"),
        "{error}"
    );
    fs::remove_file(place.path("set/libthalweg_bad.so")).unwrap();
    assert!(install(&[&pack(&place)]).contains("lacks libthalweg_bad.so, which its"));
    place.run(&["plugins", "lock", "../set"]);
    let mut plugin = fs::read(place.path("set/libthalweg_plainc.so")).unwrap();
    plugin.push(0);
    place.write("set/libthalweg_plainc.so", plugin);
    assert!(install(&[&pack(&place)]).contains("has changed since it was locked"));
    let set = place.path("set").display().to_string();
    assert!(install(&[&set]).contains("has changed since it was locked"));
    fs::remove_file(place.path("set/thalweg-plugins.lock")).unwrap();
    assert!(install(&[&pack(&place)]).contains("holds no thalweg-plugins.lock with the sums"));
    mode(&place.path("set/libthalweg_plainc.so"), 0o666);
    assert!(install(&[&set]).contains("can be written by others"));
}

#[test]
fn a_folder_that_others_may_write_is_no_place_for_plugins() {
    let place = Place::new();
    let file = archive(&place);
    let open = place.path("open");
    fs::create_dir(&open).unwrap();
    mode(&open, 0o777);
    let to = open.display().to_string();
    let error = refused(&place, &["plugins", "install", &file, "--to", &to]);
    assert!(
        error.contains("DIR/open can be written by others (mode 0777)"),
        "{error}"
    );
    assert!(names(&open).is_empty());
    // A lock that cannot be read is not written over.
    mode(&open, 0o755);
    place.write("open/thalweg-plugins.lock", "nonsense");
    let error = refused(&place, &["plugins", "install", &file, "--to", &to]);
    assert!(
        error.contains("line 1 of DIR/open/thalweg-plugins.lock"),
        "{error}"
    );
    assert_eq!(names(&open), ["thalweg-plugins.lock"]);
}
