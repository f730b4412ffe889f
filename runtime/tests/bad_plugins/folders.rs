//! Several plugins, several folders, lock files, and what is remembered.

use super::{Place, compile, mapped};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use thalweg_hal::tables::{KernelTable, ProgramTable, StreamTable};
use thalweg_runtime::Error;
use thalweg_runtime::loader::discover::{PATH_VARIABLE, Surroundings, file_name};
use thalweg_runtime::loader::{LoaderOptions, Registry, lock};

#[test]
fn world_writable_folder_is_one_row() {
    let place = Place::new();
    place.build("good", &[]);
    fs::set_permissions(place.plugins(), fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(
        place.rows(),
        ["-  refused: DIR/plugins can be written by others (mode 0777); run `chmod go-w DIR/plugins`"]
    );
    fs::set_permissions(place.plugins(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(place.file("good"), fs::Permissions::from_mode(0o666)).unwrap();
    let file = "DIR/plugins/libthalweg_good.so";
    assert_eq!(
        place.rows(),
        [format!(
            "good  refused: {file} can be written by others (mode 0666); run `chmod go-w {file}`"
        )]
    );
}

#[test]
fn two_good_plugins_load_side_by_side() {
    let place = Place::new();
    place.build("first", &[]);
    place.build("second", &["DEVICES=*out = 2; return 0"]);
    let registry = place.registry();
    let (first, second) = (registry.get("first").unwrap(), registry.get("second").unwrap());
    assert_eq!((first.name(), first.device_count().unwrap()), ("first", 1));
    assert_eq!((second.name(), second.device_count().unwrap()), ("second", 2));
    assert_eq!(
        place.texts(&registry.candidates()),
        ["first  loaded: 0.1", "second  loaded: 0.1"]
    );
}

#[test]
fn a_table_that_an_older_plugin_lacks_reads_as_absent() {
    let place = Place::new();
    place.build("older", &[]);
    let registry = place.registry();
    let backend = registry.get("older").unwrap();
    assert!(backend.table::<StreamTable>().is_some());
    assert!(backend.table::<KernelTable>().is_none() && backend.table::<ProgramTable>().is_none());
    place.build("bare", &["TABLES=4"]);
    assert_eq!(
        place.rows(),
        [
            "bare  refused: it has no event table, which every backend must have",
            "older  loaded: 0.1"
        ]
    );
}

#[test]
fn a_bad_plugin_leaves_the_place_to_a_good_one_of_the_same_name() {
    let place = Place::new();
    place.build("acme", &["START=abort()"]);
    let later = place.root.join("later");
    fs::create_dir(&later).unwrap();
    compile(&later.join(file_name("acme")), "acme", &[], &[]);
    let options = LoaderOptions {
        folders: vec![place.plugins(), later],
        ..place.options()
    };
    let registry = Registry::with(options, &[], &Surroundings::default());
    assert!(
        registry
            .get("acme")
            .unwrap()
            .path()
            .unwrap()
            .starts_with(place.root.join("later"))
    );
    assert_eq!(
        place.texts(&registry.candidates()),
        [
            "acme  refused: it crashes while it is loaded (signal 6, SIGABRT); rebuild it or remove it",
            "acme  loaded: 0.1",
        ]
    );
}

#[test]
fn the_first_folder_wins_and_the_second_is_not_loaded() {
    let place = Place::new();
    place.build("acme", &[]);
    let later = place.root.join("later");
    fs::create_dir(&later).unwrap();
    let mark = place.root.join("ran");
    let start = format!("START=close(creat(\"{}\",0644))", mark.display());
    compile(
        &later.join(file_name("acme")),
        "acme",
        &["_GNU_SOURCE", "CREAT", &start],
        &["-include", "fcntl.h"],
    );
    let variable = Some(later.clone().into_os_string());
    let around = Surroundings {
        variable,
        ..Surroundings::default()
    };
    let registry = Registry::with(place.options(), &[], &around);
    assert_eq!(
        place.texts(&registry.candidates()),
        [
            "acme  loaded: 0.1",
            "acme  not used: DIR/plugins/libthalweg_acme.so comes first"
        ]
    );
    assert!(!mark.exists(), "{PATH_VARIABLE} came second");
    let only = LoaderOptions {
        folders: vec![later],
        ..place.options()
    };
    assert!(
        Registry::with(only, &[], &Surroundings::default())
            .get("acme")
            .is_ok()
            && mark.exists()
    );
}

#[test]
fn nothing_is_loaded_before_it_is_asked_for() {
    let place = Place::new();
    place.build("wanted", &[]);
    place.build("other", &["START=abort()"]);
    let registry = place.registry();
    assert_eq!(registry.targets(), ["other", "wanted"]);
    assert!(registry.get("wanted").is_ok());
    let loaded = mapped();
    assert!(loaded.contains("/memfd:libthalweg_wanted.so"));
    assert!(!loaded.contains("/memfd:libthalweg_other.so"));
    assert!(
        !fs::read_to_string(place.root.join("probed.json"))
            .unwrap()
            .contains("signal")
    );
}

#[test]
fn what_cannot_be_had_is_an_error_that_says_why() {
    let place = Place::new();
    place.build("good", &[]);
    place.write("bad", b"");
    let registry = place.registry();
    assert_eq!(
        registry.get("TPU").unwrap_err().to_string(),
        "there is no target \"TPU\"; found: good"
    );
    assert_eq!(
        registry.get("cuda").unwrap_err().to_string(),
        "there is no target \"cuda\" (no libthalweg_cuda.so in any backend folder); found: good"
    );
    let error = registry.get("bad").unwrap_err();
    assert!(
        matches!(&error, Error::Load { target, path, .. } if target == "bad" && *path == place.file("bad"))
    );
    let path = place.file("bad");
    assert_eq!(
        error.to_string(),
        format!("bad cannot be used: the file is empty ({})", path.display())
    );
    let rows = registry.candidates();
    let absent: Vec<_> = rows
        .iter()
        .filter(|row| row.path.is_none())
        .map(|row| format!("{}  {}", row.target, row.outcome))
        .collect();
    assert_eq!(
        absent,
        ["cpu", "cuda", "opencl"]
            .map(|t| format!("{t}  not available: no libthalweg_{t}.so in any backend folder"))
    );
}

#[test]
fn outcomes_are_remembered_until_another_try_is_asked_for() {
    let place = Place::new();
    let path = place.build("bad", &["START=raise(SIGILL)"]);
    let crash = "bad  refused: it crashes while it is loaded (signal 4, SIGILL); rebuild it or remove it";
    assert_eq!(place.rows(), [crash]);
    let again = format!("{crash} (seen in an earlier run; `thalweg doctor` tries again)");
    assert_eq!(place.rows(), [again]);
    let options = LoaderOptions {
        retry: true,
        ..place.options()
    };
    let registry = Registry::with(options, &[], &Surroundings::default());
    assert_eq!(place.texts(&registry.candidates()), [crash]);
    compile(&path, "bad", &[], &[]);
    assert_eq!(place.rows(), ["bad  loaded: 0.1"]);
}

#[test]
fn a_lock_file_lets_only_the_locked_content_in() {
    let place = Place::new();
    let path = place.build("locked", &[]);
    lock::lock(&[place.plugins()]).unwrap();
    place.build("other", &[]);
    let registry = place.registry();
    assert!(registry.get("locked").is_ok());
    let maps = mapped();
    assert!(maps.contains("/memfd:libthalweg_") && !maps.contains(path.to_str().unwrap()));
    assert_eq!(
        place.texts(&registry.candidates())[1],
        "other  refused: libthalweg_other.so is not listed in thalweg-plugins.lock; add it with \
         `thalweg plugins lock` when you trust it"
    );
    compile(&path, "locked", &["DEVICES=*out = 3; return 0"], &[]);
    let row = place.rows().swap_remove(0);
    assert!(
        row.starts_with("locked  refused: libthalweg_locked.so has changed since it was locked (sha256 "),
        "{row}"
    );
    let lock_file = place.plugins().join(lock::LOCK_FILE);
    fs::set_permissions(&lock_file, fs::Permissions::from_mode(0o666)).unwrap();
    let rows = place.rows();
    assert!(
        rows.iter()
            .all(|row| row.contains("thalweg-plugins.lock can be written by others")),
        "{rows:?}"
    );
    fs::set_permissions(&lock_file, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(&lock_file, "nonsense").unwrap();
    let rows = place.rows();
    assert!(
        rows.iter()
            .all(|row| row.contains("line 1 of DIR/plugins/thalweg-plugins.lock is not")),
        "{rows:?}"
    );
}

#[test]
fn one_file_can_be_loaded_from_anywhere() {
    let place = Place::new();
    let elsewhere: PathBuf = place.root.join("any name.so");
    compile(&elsewhere, "acme", &[], &[]);
    assert_eq!(
        Registry::load_file(&elsewhere, &place.options()).unwrap().name(),
        "acme"
    );
    let error = Registry::load_file(&place.root.join("none.so"), &place.options()).unwrap_err();
    assert!(error.to_string().contains("No such file"), "{error}");
}
