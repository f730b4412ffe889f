//! Stored cases.

use crate::values::Array;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use thalweg::DType;

/// An op's inputs, attributes and what comes out.
#[derive(Debug, Default)]
pub(crate) struct Case {
    /// Its first line.
    pub(crate) header: String,
    /// The op.
    pub(crate) name: String,
    /// Its attributes.
    pub(crate) attributes: Attributes,
    pub(crate) inputs: Vec<Array>,
    pub(crate) outputs: Vec<Array>,
    pub(crate) gradients: Vec<Array>,
}

/// A file of stored values.
pub(crate) fn data(file: &str) -> PathBuf {
    // A program that is packed brings its data along.
    let data = std::env::var_os("THALWEG_TEST_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("data"),
        PathBuf::from,
    );
    data.join(format!("ops/cases/{file}.txt"))
}

impl Case {
    /// All cases of a file.
    pub(crate) fn read(file: &str) -> Vec<Case> {
        let path = data(file);
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut cases: Vec<Case> = Vec::new();
        for line in text.lines() {
            let (kind, rest) = line.split_once(' ').unwrap();
            if kind == "case" {
                let mut words = rest.split(' ');
                cases.push(Case {
                    header: rest.to_owned(),
                    name: words.next().unwrap().to_owned(),
                    attributes: Attributes::new(words),
                    ..Case::default()
                });
                continue;
            }
            let case = cases.last_mut().unwrap();
            let array = Array::parse(rest);
            match kind {
                "in" => case.inputs.push(array),
                "out" => case.outputs.push(array),
                "grad" => case.gradients.push(array),
                _ => panic!("{line}"),
            }
        }
        cases
    }

    /// Whether it is run with floats of `dtype`; one without floats is run once.
    pub(crate) fn is_for(&self, dtype: DType) -> bool {
        let only = self.attributes.text("@only");
        let floats = self.inputs.iter().any(Array::is_float);
        match only {
            Some(only) => only.split(',').any(|name| name == dtype.name()),
            None => floats || dtype == DType::F32,
        }
    }

    /// The inputs whose gradients are stored.
    pub(crate) fn sources(&self) -> Vec<usize> {
        let floats = (0..self.inputs.len()).filter(|&at| self.inputs[at].is_float());
        match self.attributes.list::<usize>("@wrt") {
            Some(some) => floats.filter(|at| some.contains(at)).collect(),
            None => floats.collect(),
        }
    }
}

/// `key=value` pairs.
#[derive(Debug, Default)]
pub(crate) struct Attributes(HashMap<String, String>);

impl Attributes {
    fn new<'a>(words: impl Iterator<Item = &'a str>) -> Attributes {
        let pair = |word: &'a str| word.split_once('=').unwrap();
        Attributes(
            words
                .map(pair)
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
        )
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// The value of `key`.
    pub(crate) fn get<T: FromStr>(&self, key: &str) -> Option<T> {
        let text = self.text(key)?;
        Some(text.parse().unwrap_or_else(|_| panic!("{key}={text}")))
    }

    /// The value of `key`, which must be there.
    pub(crate) fn need<T: FromStr>(&self, key: &str) -> T {
        self.get(key).unwrap_or_else(|| panic!("no {key} in {self:?}"))
    }

    /// Whether `key` is there and true.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.get(key).unwrap_or(false)
    }

    /// The numbers of `key`.
    pub(crate) fn list<T: FromStr>(&self, key: &str) -> Option<Vec<T>> {
        let text = self.text(key)?;
        let parse = |item: &str| item.parse().unwrap_or_else(|_| panic!("{key}={text}"));
        Some(
            text.split(',')
                .filter(|item| !item.is_empty())
                .map(parse)
                .collect(),
        )
    }
}
