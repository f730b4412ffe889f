//! Plugins and places that are made to do harm, not broken by accident.

use super::tried::tried;
use super::{Place, compile, mapped};
use std::ffi::{CString, OsStr};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use thalweg_runtime::hal::Backend;
use thalweg_runtime::loader::{LoadError, LoaderOptions, Registry};

/// Runs the rest of a test in a process of its own, whose limits and handlers are nobody else's; `true` there.
fn apart(test: &str) -> bool {
    const CHILD: &str = "THALWEG_TEST_APART";
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("attacks::{test}"), "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{}: {said}", run.status);
    false
}

fn limit(resource: libc::__rlimit_resource_t, number: u64) {
    let limit = libc::rlimit {
        rlim_cur: number,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: `limit` lives through the call.
    unsafe {
        let mut now = limit;
        libc::getrlimit(resource, &raw mut now);
        now.rlim_cur = number;
        assert_eq!(libc::setrlimit(resource, &raw const now), 0);
    }
}

fn row_of(defines: &[&str]) -> String {
    let place = Place::new();
    place.build("bad", defines);
    place.rows().swap_remove(0)
}

#[test]
fn words_of_the_systems_loader_deceive_nobody() {
    let row = row_of(&[
        "START=fputs(\"error while loading shared libraries: libx.so: cannot open\\n\", stderr); abort()",
    ]);
    assert_eq!(
        row,
        "bad  refused: it crashes while it is loaded (signal 6, SIGABRT): error while loading shared libraries: libx.so: \
         cannot open; rebuild it or remove it"
    );
    let row = row_of(&["START=fputs(\"symbol lookup error: no\\n\", stderr); _exit(127)"]);
    assert!(
        row.contains("it ends the process while it is loaded (exit code 127): symbol"),
        "{row}"
    );
}

#[test]
fn harm_after_the_load_is_seen_in_the_trial() {
    let cases = [
        ("ENTRY=abort()", "it crashes while it starts (signal 6, SIGABRT)"),
        (
            "ENTRY=_exit(0)",
            "it ends the process while it starts (exit code 0)",
        ),
        (
            "ENTRY=exit(0)",
            "it ends the process while it starts (exit code 0)",
        ),
        ("ENTRY=for (;;) pause()", "it is not started within 0.8 s"),
        (
            "DEVICES=abort()",
            "it crashes while it lists its devices (signal 6, SIGABRT)",
        ),
        (
            "DEVICES=*(volatile int *)1 = 1; return 0",
            "it crashes while it lists its devices (signal 11, SIGSEGV)",
        ),
        (
            "PROPERTIES=abort()",
            "it crashes while it lists its devices (signal 6, SIGABRT)",
        ),
        ("OFFSET=(1L << 46)", "its core table lies outside of its memory"),
        ("OFFSET=0 - (long)core", "it has no core table"),
        (
            "END=abort()",
            "it crashes while its destructors run (signal 6, SIGABRT)",
        ),
        (
            "END=_exit(3)",
            "it ends the process while its destructors run (exit code 3)",
        ),
        (
            "END=for (;;) pause()",
            "it is not done with its destructors within 4.8 s",
        ),
        (
            "START=atexit(abort)",
            "it crashes while its destructors run (signal 6, SIGABRT)",
        ),
    ];
    for (define, part) in cases {
        let row = row_of(&[define]);
        assert!(
            row.starts_with("bad  refused: ") && row.contains(part),
            "{define}: {row}"
        );
    }
    tried(cases.len());
}

/// One bit anywhere in the file: code, relocations, symbols, data. What the trial cannot see is loaded, and the process lives to its
/// end, where it runs the destructors of what was loaded.
#[test]
fn a_flipped_bit() {
    const FLIPS: usize = 320;
    if !apart("a_flipped_bit") {
        return;
    }
    let place = Place::new();
    let good = fs::read(place.build("bad", &[])).unwrap();
    let (mut seed, mut refused) = (7_u64, 0);
    for _ in 0..FLIPS {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let bit = (seed >> 20) as usize % (good.len() * 8);
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        place.write("bad", &bytes);
        // A flip may change the name.
        let row = place.rows().swap_remove(0);
        let kept_out = row.contains("  refused: ") || row.contains("  not available: ");
        assert!(kept_out || row.contains("  loaded: "), "bit {bit}: {row}");
        refused += usize::from(kept_out);
    }
    assert!(refused > FLIPS / 20, "{refused} refused");
    tried(FLIPS);
}

#[test]
fn numbers_that_no_machine_has_are_not_believed() {
    let place = Place::new();
    place.build("many", &["DEVICES=*out = 4000000000u; return 0"]);
    place.build(
        "upside",
        &["PROPERTIES=((int *)out)[72] = 5, ((int *)out)[73] = -5, ((long *)out)[35] = 3"],
    );
    let rows = place.rows();
    assert_eq!(
        rows[0],
        "many  not available: it says that it has 4000000000 devices; at most 4096 are believed"
    );
    let registry = place.registry();
    let backend = Backend::of(registry.get("upside").unwrap()).unwrap();
    let properties = backend.device_properties(0).unwrap();
    assert_eq!((properties.priorities, properties.alignment), (-5..=5, 1));
}

#[test]
fn a_trial_that_cannot_run_refuses() {
    if !apart("a_trial_that_cannot_run_refuses") {
        return;
    }
    let place = Place::new();
    place.build("good", &[]);
    let open = fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    // Enough for the file and its copy, and not for a process.
    limit(libc::RLIMIT_NOFILE, open + 3);
    let row = place.rows().swap_remove(0);
    let refused = row.starts_with("good  refused: it cannot be tried in a child process first: ")
        || row.starts_with("good  refused: cannot make a sealed copy");
    assert!(refused, "{row}");
    limit(libc::RLIMIT_NOFILE, 256);
    assert_eq!(place.rows(), ["good  loaded: 0.1"]);
}

#[test]
fn children_that_the_system_takes_away_are_tried_all_the_same() {
    if !apart("children_that_the_system_takes_away_are_tried_all_the_same") {
        return;
    }
    let place = Place::new();
    place.build("bad", &["START=abort()"]);
    place.build("ends", &["END=abort()"]);
    place.build("good", &[]);
    // SAFETY: this process is the test's own.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    assert_eq!(
        place.rows(),
        [
            "bad  refused: it ends the process while it is loaded (code unknown); rebuild it or remove it",
            "ends  refused: it ends the process while its destructors run (code unknown); rebuild it or remove it",
            "good  loaded: 0.1"
        ]
    );
}

#[test]
fn a_file_larger_than_the_process_may_write_is_an_error() {
    if !apart("a_file_larger_than_the_process_may_write_is_an_error") {
        return;
    }
    let place = Place::new();
    let path = place.build("good", &[]);
    let len = fs::metadata(path).unwrap().len();
    limit(libc::RLIMIT_FSIZE, len - 1);
    let row = place.rows().swap_remove(0);
    let want = format!(
        "good  refused: cannot make a sealed copy of the file: it has {len} bytes, and the process may write files of {} bytes \
         (ulimit -f)",
        len - 1
    );
    assert_eq!(row, want);
}

#[test]
fn names_that_the_systems_loader_expands_are_names() {
    for folder in ["$LIB", "$ORIGIN", "a b${PLATFORM}"] {
        let place = Place::new();
        let folder = place.root.join(folder);
        fs::create_dir(&folder).unwrap();
        // What `$LIB` stands for must not be what is loaded.
        for other in ["lib/x86_64-linux-gnu", "lib64", "lib"] {
            let other = place.root.join(other);
            fs::create_dir_all(&other).unwrap();
            compile(&other.join("libthalweg_good.so"), "good", &["START=abort()"], &[]);
        }
        compile(&folder.join("libthalweg_good.so"), "good", &[], &[]);
        let options = LoaderOptions {
            folders: vec![folder],
            ..place.options()
        };
        let registry = Registry::with(options, &[], &Default::default());
        assert_eq!(registry.get("good").unwrap().name(), "good");
    }
}

#[test]
fn names_without_utf8_are_names() {
    let place = Place::new();
    let good = place.build("good", &[]);
    let odd = OsStr::from_bytes(b"libthalweg_\xff.so").to_os_string();
    fs::rename(good, place.plugins().join(odd)).unwrap();
    assert_eq!(place.rows(), ["good  loaded: 0.1"]);
}

#[test]
fn what_is_no_file_is_not_waited_for() {
    type Make = fn(&Path);
    let pipe: Make = |path| {
        let path = CString::new(path.as_os_str().to_os_string().into_vec()).unwrap();
        // SAFETY: the path ends in zero.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    };
    let endless: Make = |path| symlink("/dev/zero", path).unwrap();
    let dead: Make = |path| symlink("nowhere", path).unwrap();
    let begun = Instant::now();
    for (make, part) in [
        (pipe, "is not a file"),
        (endless, "is not a file"),
        (dead, "No such file"),
    ] {
        let place = Place::new();
        place.build("good", &[]);
        make(&place.plugins().join("thalweg-plugins.lock"));
        let row = place.rows().swap_remove(0);
        assert!(row.starts_with("good  refused: ") && row.contains(part), "{row}");
        let place = Place::new();
        make(&place.file("good"));
        let row = place.rows().swap_remove(0);
        assert!(row.starts_with("good  refused: ") && row.contains(part), "{row}");
    }
    // Holes of three gigabytes.
    let place = Place::new();
    place.write("hole", b"");
    fs::File::options()
        .write(true)
        .open(place.file("hole"))
        .unwrap()
        .set_len(3 << 30)
        .unwrap();
    let row = place.rows().swap_remove(0);
    assert!(row.contains("does not start as an ELF file"), "{row}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn what_a_constructor_changes_is_put_back() {
    if !apart("what_a_constructor_changes_is_put_back") {
        return;
    }
    let place = Place::new();
    let start = "START=chdir(\"/\"); umask(0); alarm(1); signal(SIGSEGV, SIG_IGN); signal(SIGTERM, (void (*)(int))_exit); \
                 struct rlimit l; getrlimit(RLIMIT_NOFILE, &l); l.rlim_cur = 3; setrlimit(RLIMIT_NOFILE, &l)";
    place.build("changes", &[start]);
    let fast = place.file("fast");
    compile(&fast, "fast", &[], &["-ffast-math"]);
    let folder = std::env::current_dir().unwrap();
    let tiny = || std::hint::black_box(f32::MIN_POSITIVE) / 2.0;
    let handler = |signal| {
        // SAFETY: an action is plain data, and lives through the call.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut action);
            action.sa_sigaction
        }
    };
    let before = (handler(libc::SIGSEGV), handler(libc::SIGTERM));
    assert_eq!(place.rows(), ["changes  loaded: 0.1", "fast  loaded: 0.1"]);
    assert!(tiny() > 0.0, "subnormal numbers are flushed to zero");
    assert_eq!((handler(libc::SIGSEGV), handler(libc::SIGTERM)), before);
    assert_eq!(std::env::current_dir().unwrap(), folder);
    // SAFETY: these ask, and change what is this process's own.
    unsafe {
        assert_eq!(libc::alarm(0), 0);
        assert_ne!(libc::umask(0o022), 0);
    }
    fs::read_dir("/proc/self/fd").unwrap();
}

#[test]
fn a_plugin_is_loaded_from_the_copy_that_was_tried() {
    let place = Place::new();
    let path = place.build("good", &[]);
    let registry = place.registry();
    registry.get("good").unwrap();
    let maps = mapped();
    assert!(maps.contains("/memfd:libthalweg_good.so") && !maps.contains(path.to_str().unwrap()));
    // And one that needs a library beside it says that this is not searched.
    let place = Place::new();
    let beside = place.plugins().join("libbeside.so");
    compile(&beside, "x", &["NO_NOTE", "NO_ENTRY"], &[]);
    let folder = format!("-L{}", place.plugins().display());
    let arguments = [
        &*folder,
        "-Wl,--no-as-needed",
        "-l:libbeside.so",
        "-Wl,-rpath,$ORIGIN",
    ];
    compile(&place.file("needs"), "needs", &[], &arguments);
    let error = Registry::load_file(&place.file("needs"), &place.options()).unwrap_err();
    let missing = LoadError::MissingLibrary {
        library: "libbeside.so".into(),
        beside: true,
    };
    assert_eq!(error, missing);
}
