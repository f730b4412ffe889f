//! `thalweg devices` as a user calls it.
#![allow(clippy::unwrap_used, reason = "a test")]

mod place;

use place::{Place, mode};
use serde_json::Value;

/// The text with every number as `N`, every run of spaces as one, and without what differs from machine to machine.
fn masked(text: &str, json: &Value) -> String {
    let device = &json["devices"][0];
    let [name, arch] = ["name", "arch"].map(|key| device[key].as_str().unwrap());
    let mut masked = String::new();
    for c in text
        .replace(name, "NAME")
        .replace(arch, "ARCH")
        .replace("1 core,", "1 cores,")
        .chars()
    {
        match c {
            '0'..='9' if masked.ends_with('N') => {}
            '0'..='9' => masked.push('N'),
            ' ' if masked.ends_with(' ') => {}
            c => masked.push(c),
        }
    }
    masked
}

fn json(place: &Place, args: &[&str]) -> Value {
    let run = place.run(&[&["devices", "--json"], args].concat());
    serde_json::from_str(&run.out).unwrap()
}

#[test]
fn with_nothing_installed_there_is_the_cpu_and_a_reason_for_each_other() {
    let place = Place::new();
    let (run, json) = (place.run(&["devices"]), json(&place, &[]));
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    assert_eq!(
        masked(&run.out, &json),
        "\
target device memory backend
cpu:N NAME, N cores, ARCH N.N GiB, N.N free embedded N.N.N
cuda not available: no libthalweg_cuda.so in any backend folder
opencl not available: no libthalweg_opencl.so in any backend folder
"
    );
    // The columns stand under their heads.
    let lines: Vec<&str> = run.out.lines().collect();
    for head in ["device", "memory", "backend"] {
        let at = lines[0].find(head).unwrap();
        assert_eq!(lines[1].as_bytes()[at - 1], b' ');
        assert_ne!(lines[1].as_bytes()[at], b' ');
    }
}

#[test]
fn the_json_form_keeps_its_fields() {
    let place = Place::new();
    place.write("plugins/libthalweg_acme.so", "no plugin\n");
    let json = json(&place, &["--backend-path", &place.plugins()]);
    let keys = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(keys(&json), "abi devices schema thalweg unusable");
    assert_eq!(
        (json["schema"].as_u64(), json["abi"].as_str()),
        (Some(1), Some("2.1"))
    );
    let device = &json["devices"][0];
    assert_eq!(
        keys(device),
        "arch backend capabilities compute_units id kind memory_free memory_total name ordinal target"
    );
    assert_eq!(
        (&device["target"], &device["ordinal"], &device["kind"]),
        (&"cpu:0".into(), &0.into(), &"cpu".into())
    );
    assert!(device["memory_total"].as_u64() >= device["memory_free"].as_u64());
    assert!(
        device["capabilities"]
            .as_array()
            .unwrap()
            .contains(&"unified_memory".into())
    );
    assert_eq!(
        keys(&device["backend"]),
        "driver embedded layers name path version"
    );
    assert_eq!(
        (&device["backend"]["embedded"], &device["backend"]["path"]),
        (&true.into(), &Value::Null)
    );
    let rows = json["unusable"].as_array().unwrap();
    assert_eq!(
        rows.iter()
            .map(|row| row["target"].as_str().unwrap())
            .collect::<Vec<_>>(),
        ["acme", "cuda", "opencl"]
    );
    assert_eq!(keys(&rows[0]), "outcome path reason target");
    assert_eq!(rows[0]["outcome"], "refused");
    assert!(
        rows[0]["path"]
            .as_str()
            .unwrap()
            .ends_with("/plugins/libthalweg_acme.so")
    );
    assert_eq!(
        (&rows[1]["outcome"], &rows[1]["path"]),
        (&"not_available".into(), &Value::Null)
    );
}

#[test]
fn a_text_file_is_a_row_with_its_path() {
    let place = Place::new();
    place.write("plugins/libthalweg_acme.so", "no plugin\n");
    let run = place.run(&["devices", "--backend-path", &place.plugins()]);
    assert_eq!(run.code, Some(0));
    let expected = "\
acme    refused: not a shared library: the file does not start as an ELF file
        DIR/plugins/libthalweg_acme.so
";
    assert!(run.out.contains(expected), "{}", run.out);
    assert!(
        run.out
            .ends_with("`thalweg doctor` says more about what cannot be used\n"),
        "{}",
        run.out
    );
}

#[test]
fn a_folder_that_others_may_write_is_refused() {
    let place = Place::new();
    place.plain_c();
    mode(&place.path("plugins"), 0o777);
    let run = place.finish(
        place
            .command(&["devices"])
            .env("THALWEG_BACKEND_PATH", place.path("plugins")),
    );
    let expected =
        "folder  refused: DIR/plugins can be written by others (mode 0777); run `chmod go-w DIR/plugins`\n";
    assert!(run.out.contains(expected), "{}", run.out);
    assert!(!run.out.contains("plainc"), "{}", run.out);
}

#[test]
fn a_plugin_in_plain_c_has_a_device() {
    let place = Place::new();
    place.plain_c();
    let args = ["--backend-path", "."];
    let json = json(&place, &args);
    let device = &json["devices"][0];
    assert_eq!(
        (&device["target"], &device["backend"]["embedded"]),
        (&"plainc:0".into(), &false.into())
    );
    let run = place.run(&[&["devices"], args.as_slice()].concat());
    let row = run
        .out
        .lines()
        .find(|line| line.starts_with("plainc:0  "))
        .unwrap();
    assert!(row.ends_with("  libthalweg_plainc.so 1.0.0"), "{row}");
}

#[test]
fn a_name_cannot_steer_the_terminal() {
    let place = Place::new();
    place.write("plugins/libthalweg_a\x1b[31mb.so", "no plugin\n");
    let run = place.run(&["devices", "--backend-path", &place.plugins()]);
    assert!(run.out.contains("a\\u{1b}[31mb"), "{}", run.out);
    assert!(!run.out.contains('\x1b'));
}

#[test]
fn a_named_folder_that_is_missing_is_a_row() {
    let place = Place::new();
    let run = place.run(&["devices", "--backend-path", "none"]);
    assert_eq!(run.code, Some(0));
    assert!(
        run.out
            .contains("folder  refused: cannot read DIR/plugins/none: No such file"),
        "{}",
        run.out
    );
}

#[test]
fn verbose_prints_what_the_loader_does() {
    let place = Place::new();
    place.write("plugins/libthalweg_acme.so", "no plugin\n");
    let args = ["devices", "-v", "--backend-path", &place.plugins()];
    let run = place.run(&args);
    assert!(
        run.err.contains("path=DIR/plugins/libthalweg_acme.so"),
        "{}",
        run.err
    );
    assert!(run.err.lines().all(|line| !line.contains('\x1b')));
    assert_eq!(place.run(&[args[0], args[2], args[3]]).err, "");
}

#[test]
fn the_chain_of_layers_stands_before_the_backend() {
    let place = Place::new();
    let run = place.finish(place.command(&["devices"]).env("THALWEG_LAYERS", "fault"));
    assert!(run.out.contains("fault > embedded "), "{}", run.out);
    let run = place.finish(place.command(&["devices"]).env("THALWEG_LAYERS", "fualt"));
    assert_eq!(run.code, Some(1));
    assert!(
        run.out
            .contains("refused: there is no layer \"fualt\"; there are: capture, fault"),
        "{}",
        run.out
    );
}
