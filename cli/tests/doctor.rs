//! `thalweg doctor` as a user calls it.
#![allow(clippy::unwrap_used, reason = "a test")]

mod place;

use place::Place;

/// The lines from the one that holds `start` to the next that is indented no more than it.
fn block(text: &str, start: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut lines = text.lines().skip_while(|line| !line.contains(start));
    let first = lines
        .next()
        .unwrap_or_else(|| panic!("no line holds {start:?}:\n{text}"));
    let inner = lines.take_while(|line| indent(line) > indent(first));
    std::iter::once(first)
        .chain(inner)
        .map(|line| format!("{}\n", line.trim_start()))
        .collect()
}

#[test]
fn the_machine_the_folders_and_each_candidates_way() {
    let place = Place::new();
    place.write("plugins/libthalweg_acme.so", "no plugin\n");
    place.plain_c();
    let mut command = place.command(&["doctor"]);
    let list = format!("{}:relative", place.plugins());
    let run = place.finish(
        command
            .env("THALWEG_BACKEND_PATH", list)
            .env("THALWEG_THREADS", "two")
            .env("THALWEG_NUM_THREADS", "4")
            .env("THALWEG_OPENCL_CASHE", "off"),
    );
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{}", run.out);
    for part in [
        "machine\n  processor ",
        "\n  features ",
        "\n  memory ",
        "\n  huge pages ",
        "\nenvironment\n",
    ] {
        assert!(run.out.contains(part), "{part:?} is missing: {}", run.out);
    }
    assert!(
        run.out.contains("two (ignored: not a positive number; "),
        "{}",
        run.out
    );
    for note in [
        "4 (not read: no setting has this name; did you mean THALWEG_THREADS?)",
        "off (not read: no setting has this name; did you mean THALWEG_OPENCL_CACHE?)",
    ] {
        assert!(run.out.contains(note), "{note:?} is missing: {}", run.out);
    }
    assert!(
        run.out
            .contains("to be remembered in DIR/cache/thalweg/probed.json"),
        "{}",
        run.out
    );

    let squeezed = run
        .out
        .split(' ')
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    let folders = [
        "DIR/plugins THALWEG_BACKEND_PATH 2 backend files\n",
        " relative THALWEG_BACKEND_PATH refused: a relative backend folder depends on where the program is started",
        " DIR/bin/backends beside the program missing\n",
        " DIR/lib/thalweg/backends installation missing\n",
    ];
    for folder in folders {
        assert!(squeezed.contains(folder), "{folder:?} is missing: {}", run.out);
    }
    let text = "DIR/plugins/libthalweg_acme.so";
    assert_eq!(
        block(&run.out, text),
        format!(
            "acme  {text}\n\
             file      ok      10 bytes, others may not write it\n\
             ELF       FAILED  not a shared library: the file does not start as an ELF file\n\
             hint: `file {text}` says what it is; remove it or put the plugin in its place\n"
        )
    );
    let plain = block(&run.out, "DIR/plugins/libthalweg_plainc.so");
    let steps: Vec<_> = plain
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
        .collect();
    let all = [
        "file", "ELF", "manifest", "layout", "lock", "trial", "dlopen", "start", "devices",
    ]
    .map(|step| format!("{step} ok"));
    assert_eq!(steps[..9], all, "{plain}");
    assert_eq!(steps[9], "plainc:0 usable");
    assert!(
        block(&run.out, "cpu  embedded").contains("\ncpu:0     usable  "),
        "{}",
        run.out
    );
    assert!(
        run.out
            .ends_with("2 devices can be used: plainc:0, cpu:0\n1 candidate cannot: acme\n"),
        "{}",
        run.out
    );
}

#[test]
fn a_trial_that_failed_is_remembered_and_tried_again() {
    let place = Place::new();
    // The note and the entry of a good plugin, a constructor that is none.
    let code = "__attribute__((constructor)) static void start(void) { __builtin_trap(); }\n";
    place.plain_c_with("plugins/libthalweg_bad.so", code, &[]);
    let args = ["--backend-path", &place.plugins()];
    let first = place.run(&[&["devices"], args.as_slice()].concat()).out;
    assert!(
        first.contains("refused: it crashes while it is loaded (signal "),
        "{first}"
    );
    assert!(!first.contains("seen in an earlier run"), "{first}");
    let second = place.run(&[&["devices"], args.as_slice()].concat()).out;
    assert!(
        second.contains("(seen in an earlier run; `thalweg doctor` tries again)"),
        "{second}"
    );
    let doctor = place.run(&[&["doctor"], args.as_slice()].concat()).out;
    let way = block(&doctor, "DIR/plugins/libthalweg_bad.so");
    assert!(
        way.contains("trial     FAILED  it crashes while it is loaded") && !way.contains("earlier"),
        "{way}"
    );
    assert!(way.contains("hint: see where it happens: `gdb "), "{way}");
}

#[test]
fn a_backend_that_takes_the_process_down_is_named() {
    let place = Place::new();
    let crash = "-Dthalweg_backend=unused_backend";
    // Well behaved on trial, whose program is another.
    let code = "#undef thalweg_backend\n#include <string.h>\n#include <unistd.h>\n\
                int thalweg_backend(unsigned version, const void *host, void *out) {\n\
                    char program[256] = {0};\n\
                    if (readlink(\"/proc/self/exe\", program, 255) > 0 && strstr(program, \"/thalweg\")) __builtin_trap();\n\
                    return unused_backend(version, host, out);\n\
                }\n";
    place.plain_c_with("plugins/libthalweg_plainc.so", code, &[crash]);
    for command in ["devices", "doctor"] {
        let run = place.run(&[command, "--backend-path", &place.plugins()]);
        let text = "error: DIR/plugins/libthalweg_plainc.so takes the process down with SIGILL at the step `start`; \
                    remove it and tell its author\n";
        assert_eq!((run.code, run.err.as_str()), (Some(1), text), "{}", run.out);
    }
}
