use super::*;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

fn library(dir: &Path, name: &str, source: &str, extra: &[&str]) -> PathBuf {
    let (code, library) = (dir.join(format!("{name}.c")), dir.join(format!("{name}.so")));
    std::fs::write(&code, source).unwrap();
    let done = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&code)
        .args(extra)
        .status()
        .unwrap();
    assert!(done.success());
    library
}

fn constructor(dir: &Path, name: &str, body: &str) -> PathBuf {
    let source = format!(
        "#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
         __attribute__((constructor)) static void start(void) {{ {body} }}\n"
    );
    library(dir, name, &source, &[])
}

fn run(path: &Path) -> ProbeOutcome {
    probe(path, Duration::from_secs(4)).unwrap()
}

#[test]
fn constructors_end_in_the_child() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    assert_eq!(run(&constructor(dir, "good", "")), ProbeOutcome::Ok);
    let chosen =
        "static char to[9]; volatile size_t n = strlen(getenv(\"PATH\")) % 9; memcpy(to, \"12345678\", n);";
    assert_eq!(
        run(&constructor(dir, "chosen_by_processor", chosen)),
        ProbeOutcome::Ok
    );
    assert_eq!(
        run(&constructor(dir, "crash", "*(volatile int *)0 = 1;")),
        ProbeOutcome::Signal {
            during: During::Load,
            number: libc::SIGSEGV,
            said: String::new()
        }
    );
    assert_eq!(
        run(&constructor(
            dir,
            "abort",
            "fprintf(stderr, \"first\\nlast words\\n\"); abort();"
        ))
        .to_string(),
        "it crashes while it is loaded (signal 6, SIGABRT): last words"
    );
    assert_eq!(
        run(&constructor(dir, "exit", "_exit(0);")).to_string(),
        "it ends the process while it is loaded (exit code 0)"
    );
    assert_eq!(
        run(&constructor(dir, "exit3", "exit(3);")),
        ProbeOutcome::Exited {
            during: During::Load,
            code: Some(3),
            said: String::new()
        }
    );
    let lie = "fputs(\"error while loading shared libraries: libx.so: no\\n\", stderr); abort();";
    assert_eq!(
        run(&constructor(dir, "lie", lie)).to_string(),
        "it crashes while it is loaded (signal 6, SIGABRT): error while loading shared libraries: libx.so: no"
    );
    assert_eq!(
        run(&constructor(
            dir,
            "input",
            "char c; if (read(0, &c, 1) > 0) abort(); puts(\"hello\");"
        )),
        ProbeOutcome::Ok
    );
    let said = run(&constructor(
        dir,
        "flood",
        "for (int i = 0; i < 100000; i++) fputs(\"0123456789\", stderr);",
    ));
    assert_eq!(said, ProbeOutcome::Ok);
}

#[test]
fn a_hang_ends_at_the_limit_with_all_it_started() {
    let temp = tempfile::tempdir().unwrap();
    let mark = temp.path().join("alive");
    let body = format!(
        "if (fork() == 0) {{ sleep(2); FILE *f = fopen(\"{}\", \"w\"); if (f) fclose(f); }} for (;;) pause();",
        mark.display()
    );
    let hang = constructor(temp.path(), "hang", &body);
    let start = Instant::now();
    let outcome = probe(&hang, Duration::from_millis(400)).unwrap();
    assert_eq!(outcome.to_string(), "it is not loaded within 0.4 s");
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    std::thread::sleep(Duration::from_millis(2200).saturating_sub(start.elapsed()));
    assert!(!mark.exists());
}

#[test]
fn what_leaves_its_group_ends_with_the_trial() {
    let temp = tempfile::tempdir().unwrap();
    let mark = temp.path().join("alive");
    let body = format!(
        "if (fork() == 0) {{ setsid(); setpgid(0, 0); if (fork() == 0) {{ setsid(); sleep(1); \
         FILE *f = fopen(\"{}\", \"w\"); if (f) fclose(f); }} for (;;) pause(); }}",
        mark.display()
    );
    assert_eq!(run(&constructor(temp.path(), "daemon", &body)), ProbeOutcome::Ok);
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!mark.exists());
}

#[test]
fn the_loaders_text_comes_back() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    library(dir, "libgone", "int gone(void) { return 1; }", &[]);
    let needy = library(
        dir,
        "needy",
        "int gone(void); int f(void) { return gone(); }",
        &[&format!("-L{}", dir.display()), "-l:libgone.so"],
    );
    std::fs::remove_file(dir.join("libgone.so")).unwrap();
    let ProbeOutcome::LoadError { text } = run(&needy) else {
        panic!("it loaded")
    };
    assert_eq!(
        text,
        "libgone.so: cannot open shared object file: No such file or directory"
    );
}

#[test]
fn threads_that_allocate_and_load_do_not_matter() {
    let temp = tempfile::tempdir().unwrap();
    let good = constructor(temp.path(), "good", "free(malloc(100000));");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::black_box(vec![0u8; 70_000]);
                    // SAFETY: opens and closes a library of the system.
                    unsafe { libc::dlclose(libc::dlopen(c"libm.so.6".as_ptr(), libc::RTLD_NOW)) };
                }
            });
        }
        let outcomes: Vec<_> = (0..50).map(|_| run(&good)).collect();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(outcomes.iter().all(|o| *o == ProbeOutcome::Ok), "{outcomes:?}");
    });
}

#[test]
fn odd_names_and_sealed_copies_are_loaded() {
    let temp = tempfile::tempdir().unwrap();
    let crash = constructor(temp.path(), "a b:$ORIGIN", "raise(SIGILL);");
    assert!(matches!(
        run(&crash),
        ProbeOutcome::Signal {
            number: libc::SIGILL,
            ..
        }
    ));
    let sealed = crate::loader::sealed::Sealed::new(c"copy", &std::fs::read(&crash).unwrap()).unwrap();
    assert!(matches!(
        run(&path_of_descriptor(sealed.fd())),
        ProbeOutcome::Signal {
            number: libc::SIGILL,
            ..
        }
    ));
}
