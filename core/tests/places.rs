//! Where ops were called that were given as values: the standard library calls them, and its lines say nothing.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use thalweg::observe::recording::{Place, Reader, Record};
use thalweg::observe::{self, DumpOptions, Profile};
use thalweg::{Context, Tensor, jit};

/// The line of `abs` below.
const LINE: u32 = line!() + 7;

/// Three ops: two as values, and one that is called at a line.
fn body(x: &Tensor) -> Tensor {
    let _scope = observe::scope("part");
    let y = [x].into_iter().map(Tensor::relu).next().unwrap();
    let (y, function): (_, &dyn Fn(&Tensor) -> Tensor) = (y, &Tensor::exp);
    function(&y).abs()
}

/// Op, scope, file and line of all places of a recording.
fn places(file: &Path) -> BTreeSet<(String, String, String, u32)> {
    let file = std::io::BufReader::new(std::fs::File::open(file).unwrap());
    let (mut texts, mut places) = (BTreeMap::from([(0, String::new())]), Vec::<Place>::new());
    for record in Reader::new(file).unwrap() {
        match record {
            Record::Text { id, text } => drop(texts.insert(id, text.to_string())),
            Record::Place(place) => places.push(place),
            _ => {}
        }
    }
    let text = |id: u32| texts[&id].clone();
    (places.iter())
        .map(|place| (text(place.op), text(place.scope), text(place.file), place.line))
        .collect()
}

#[test]
fn ops_that_were_given_as_values_have_a_scope_and_no_line() {
    let cx = Context::new("cpu").unwrap();
    let x = Tensor::from_slice(&[1.0_f32, -2.0], 2, &cx);
    let compiled = jit(body);
    for run in [&body, &|x: &Tensor| compiled.call(x)] as [&dyn Fn(&Tensor) -> Tensor; 2] {
        let folder = tempfile::tempdir().unwrap();
        let profile = Profile::to(folder.path()).start(&cx).unwrap();
        run(&x).to_vec::<f32>().unwrap();
        profile.finish().unwrap();
        let found: BTreeSet<_> = places(&folder.path().join("rank_0/recording.tw"))
            .into_iter()
            .filter(|(op, ..)| ["relu", "exp", "abs"].contains(&op.as_str()))
            .collect();
        let wanted = [("abs", file!(), LINE), ("exp", "", 0), ("relu", "", 0)];
        let wanted = wanted.map(|(op, file, line)| (op.into(), "Default/part".into(), file.into(), line));
        assert_eq!(found, BTreeSet::from(wanted));

        let folder = tempfile::tempdir().unwrap();
        let dump = cx
            .dump(&DumpOptions::to(folder.path().to_str().unwrap()))
            .unwrap();
        run(&x).to_vec::<f32>().unwrap();
        dump.finish().unwrap();
        let texts = files(folder.path());
        let manifest = texts
            .iter()
            .find(|(name, _)| name.ends_with("manifest.json"))
            .unwrap();
        let line = format!("{}:{LINE}", file!());
        assert!(
            manifest.1.contains(&line) && !manifest.1.contains("/rustc/"),
            "{}",
            manifest.1
        );
    }
}

/// Name and text of all files that are texts.
fn files(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            found.push((path.display().to_string(), text));
        }
    }
    found
}

#[test]
fn errors_show_no_line_of_the_standard_library() {
    let cx = Context::new("cpu").unwrap();
    let wide = Tensor::from_slice(&[1.0_f32, 2.0], [1, 2], &cx);
    let product: &dyn Fn(&Tensor, &Tensor) -> Tensor = &Tensor::matmul;
    let error = product(&wide, &wide).to_vec::<f32>().unwrap_err().to_string();
    assert!(
        error.starts_with("matmul: ") && !error.contains("\n  at "),
        "{error}"
    );
    let line = line!() + 1;
    let error = wide.matmul(&wide).to_vec::<f32>().unwrap_err().to_string();
    assert!(error.contains(&format!("\n  at {}:{line}", file!())), "{error}");
}
