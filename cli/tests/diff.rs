//! `thalweg diff` over dumps of two runs.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::Path;
use std::process::Command;
use thalweg::observe::{self, DumpOptions};
use thalweg::{Context, Tensor};

fn dumped(folder: &Path, first: f32) {
    let cx = Context::new("cpu").unwrap();
    let dump = cx.dump(&DumpOptions::to(folder.to_str().unwrap())).unwrap();
    observe::restart_calls();
    let _part = observe::scope("<b>head");
    let x = Tensor::from_slice(&[2.0_f32, 0.5], 2, &cx) + 1.0;
    // The first run and the second one scale by other numbers.
    let scaled = x.sqrt() * first;
    scaled.exp().sum().to_vec::<f32>().unwrap();
    dump.finish().unwrap();
}

fn diff(arguments: &[&str], folder: &Path) -> (bool, String, String) {
    let run = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .arg("diff")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (run.status.success(), text(run.stdout), text(run.stderr))
}

#[test]
fn a_report_shows_the_error_along_the_network() {
    let folder = tempfile::tempdir().unwrap();
    for (name, first) in [("a", 1.5), ("b", 1.5), ("c", 1.625)] {
        dumped(&folder.path().join(name), first);
    }
    let (equal, out, err) = diff(&["a", "b", "--html", "equal.html"], folder.path());
    assert!(equal && err.is_empty(), "{out}{err}");
    assert!(out.contains("wrote equal.html ("), "{out}");
    let page = fs::read_to_string(folder.path().join("equal.html")).unwrap();
    assert!(page.contains("All values are equal") && !page.contains("class=\"mark\""));
    let (equal, out, _) = diff(&["a", "c", "--html", "report.html"], folder.path());
    assert!(
        !equal && out.contains("first difference in Default/<b>head/mul-op4"),
        "{out}"
    );
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert!(
        page.contains("first difference: Default/&lt;b&gt;head/mul-op4, "),
        "{page}"
    );
    assert!(!page.contains("<b>") && !page.contains("<script") && !page.contains("src="));
    // A point of the chart for each value, and a row for each that differs.
    let values = page.matches("<circle ").count();
    let differing = page.matches("<tr class=\"differs").count();
    assert_eq!(page.matches("<circle class=\"bad\"").count(), differing);
    assert!(values > differing && differing >= 3, "{values} {differing}");
    let (_, _, err) = diff(&["a", "c", "--html", "no/such/folder.html"], folder.path());
    assert!(
        err.contains("no/such/folder.html") && err.lines().count() == 1,
        "{err}"
    );
}
