//! The modules of a crate as a line of floors: each knows those below it alone.

use crate::source::{Word, closed, production, words};
use crate::{Result, files};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A crate's sources, and its modules from the lowest floor to the highest.
struct Line {
    sources: &'static str,
    floors: &'static [&'static str],
}

const LINES: [Line; 1] = [Line {
    sources: "core/src",
    floors: &[
        "record",      // what is recorded while a program runs
        "error",       // errors, and the tag of the op that the user called
        "types",       // elements, scalars, shapes, layouts
        "options",     // the macro of builders, options by name
        "dump",        // files of values
        "graph",       // primitive ops and their types
        "lower",       // from graphs to kernels
        "engine",      // what is kept for a device
        "context",     // a device and how ops run on it
        "value",       // tensors as data, recorded ops, histories
        "exec",        // running programs
        "tensor",      // from a call to a value; tensors and host memory
        "tree",        // trees of tensors
        "grad",        // rules and the way back
        "control",     // loops, branches, checkpoints
        "composite",   // ops that are written with others
        "ops",         // every op of users
        "random",      // random numbers
        "jit",         // traced functions
        "observe",     // recordings of what ran
        "log",         // lines of what happens
        "session",     // what holds for the whole process
        "interchange", // files and other libraries
    ],
}];

/// A use of a module by another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    from: String,
    to: String,
    file: PathBuf,
    line: usize,
}

/// Checks the modules of every crate that is a line.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut wrong = Vec::new();
    let files = files(root)?;
    for line in &LINES {
        let mut sources = Vec::new();
        for file in &files {
            if let Ok(inner) = file.strip_prefix(line.sources)
                && inner.extension().is_some_and(|kind| kind == "rs")
            {
                sources.push((inner.to_path_buf(), fs::read_to_string(root.join(file))?));
            }
        }
        let edges = edges(&sources)?;
        let pairs: BTreeSet<(&str, &str)> = (edges.iter())
            .map(|edge| (edge.from.as_str(), edge.to.as_str()))
            .collect();
        println!(
            "{}: {} floors, {} edges between them, {} modules in cycles",
            line.sources,
            line.floors.len(),
            pairs.len(),
            in_cycles(&pairs).len()
        );
        wrong.extend(judge(line, &sources, &edges));
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n").into())
    }
}

/// What is wrong with the edges of a crate.
fn judge(line: &Line, sources: &[(PathBuf, String)], edges: &[Edge]) -> Vec<String> {
    let floor = |name: &str| line.floors.iter().position(|floor| *floor == name);
    let mut wrong = Vec::new();
    let modules: BTreeSet<String> = (sources.iter())
        .filter_map(|(file, _)| module_of(file).into_iter().next())
        .collect();
    for module in &modules {
        if floor(module).is_none() {
            wrong.push(format!(
                "{}: the module {module} has no floor; give it one in xtask/src/floors.rs",
                line.sources
            ));
        }
    }
    for name in line.floors {
        if !modules.contains(*name) {
            wrong.push(format!("{}: there is no module {name}", line.sources));
        }
    }
    for edge in edges {
        let place = format!("{}/{}:{}", line.sources, edge.file.display(), edge.line);
        match (floor(&edge.from), floor(&edge.to)) {
            (Some(from), Some(to)) if to > from => wrong.push(format!(
                "{place}: {} uses {}, which lies above it; move what it needs down, or pass it in",
                edge.from, edge.to
            )),
            (Some(_), None) => wrong.push(format!(
                "{place}: `crate::{}` is no module and no re-export",
                edge.to
            )),
            _ => {}
        }
    }
    wrong
}

/// The path of the module in a file, from the crate's root.
fn module_of(file: &Path) -> Vec<String> {
    let mut path: Vec<String> = (file.with_extension("").iter())
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    if path.last().is_some_and(|last| last == "mod" || last == "lib") {
        path.pop();
    }
    path
}

/// The uses between the top modules of a crate, without those of tests.
fn edges(sources: &[(PathBuf, String)]) -> Result<Vec<Edge>> {
    let root = sources.iter().find(|(file, _)| file == Path::new("lib.rs"));
    let (_, root) = root.ok_or("a crate has no lib.rs")?;
    let exported = exported(&production(&words(root)).0);
    let mut parsed = Vec::new();
    let mut tests: Vec<Vec<String>> = Vec::new();
    for (file, source) in sources {
        let path = module_of(file);
        let (words, modules) = production(&words(source));
        tests.extend(
            modules
                .iter()
                .map(|name| [&path[..], &[(*name).to_owned()]].concat()),
        );
        parsed.push((file, path, words));
    }
    let mut edges = Vec::new();
    for (file, path, words) in &parsed {
        let Some(from) = path.first() else { continue };
        if tests.iter().any(|test| path.starts_with(test)) {
            continue;
        }
        for (name, line) in named(words, path.len()) {
            let to = match exported.get(name) {
                // Another crate's.
                Some(module) if module.starts_with("thalweg_") || *module == "std" => continue,
                Some(module) => module,
                None => name,
            };
            // A module whose name is re-exported is meant itself.
            if to != from {
                edges.push(Edge {
                    from: from.clone(),
                    to: to.to_owned(),
                    file: file.to_path_buf(),
                    line,
                });
            }
        }
    }
    edges.sort();
    edges.dedup();
    Ok(edges)
}

/// What the root re-exports by name, and of which module or crate it is.
fn exported<'a>(words: &[Word<'a>]) -> BTreeMap<&'a str, &'a str> {
    let mut names = BTreeMap::new();
    for at in 0..words.len() {
        if words[at].text != "use" {
            continue;
        }
        let end = (at..words.len())
            .find(|&end| words[end].text == ";")
            .unwrap_or(words.len());
        let tree = &words[at + 1..end];
        let Some(module) = tree.first() else { continue };
        for (place, word) in tree.iter().enumerate() {
            let ends = tree
                .get(place + 1)
                .is_none_or(|next| next.text == "," || next.text == "}");
            if ends && word.text.starts_with(|c: char| c.is_alphabetic() || c == '_') {
                let name = match word.text {
                    "self" => module.text,
                    name => name,
                };
                names.insert(name, module.text);
            }
        }
    }
    names
}

/// The names under the crate's root that a file of a module at `depth` names, by `crate::` or by `super::`.
fn named<'a>(words: &[Word<'a>], depth: usize) -> Vec<(&'a str, usize)> {
    let mut found = Vec::new();
    // Of the modules that begin in this file, where each ends.
    let mut inner: Vec<usize> = Vec::new();
    let mut at = 0;
    while at < words.len() {
        inner.retain(|&end| at < end);
        let text = |at: usize| words.get(at).map(|word| word.text);
        if text(at) == Some("mod") && text(at + 2) == Some("{") {
            inner.push(closed(words, at + 2));
            at += 3;
            continue;
        }
        let mut up = 0;
        let mut behind = at;
        while text(behind) == Some("super") && text(behind + 1) == Some("::") {
            (up, behind) = (up + 1, behind + 2);
        }
        if text(at) == Some("crate") && text(at + 1) == Some("::") {
            (up, behind) = (depth + inner.len(), at + 2);
        }
        if up == 0 || up < depth + inner.len() {
            at = behind.max(at + 1);
            continue;
        }
        if text(behind) == Some("{") {
            let end = closed(words, behind);
            let mut next = true;
            let mut place = behind + 1;
            while place + 1 < end {
                match words[place].text {
                    "," => next = true,
                    "{" => {
                        place = closed(words, place);
                        continue;
                    }
                    name if next => {
                        found.push((name, words[place].line));
                        next = false;
                    }
                    _ => {}
                }
                place += 1;
            }
            at = end;
        } else {
            if let Some(word) = words.get(behind) {
                found.push((word.text, word.line));
            }
            at = behind + 1;
        }
    }
    found
}

/// The modules from which a way leads back to themselves.
fn in_cycles<'a>(edges: &BTreeSet<(&'a str, &'a str)>) -> BTreeSet<&'a str> {
    let nodes: BTreeSet<&str> = edges.iter().flat_map(|&(from, to)| [from, to]).collect();
    let returns = |start: &&str| {
        let (mut seen, mut rest) = (BTreeSet::new(), vec![*start]);
        while let Some(node) = rest.pop() {
            for &(_, to) in edges.iter().filter(|(from, _)| *from == node) {
                if to == *start {
                    return true;
                }
                if seen.insert(to) {
                    rest.push(to);
                }
            }
        }
        false
    };
    nodes.into_iter().filter(returns).collect()
}

#[cfg(test)]
mod tests {
    use super::{Line, edges, in_cycles, judge};
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    const LINE: Line = Line {
        sources: "x/src",
        floors: &["low", "middle", "high"],
    };

    /// What is wrong with a crate of three modules, where `low` has this source and a submodule `low::part` that one.
    fn judged(low: &str, part: &str) -> Vec<String> {
        let root = "pub mod low; pub mod middle; mod high; pub use high::{Tall, Big as Large}; pub use thalweg_hal::ir;";
        let sources = [
            ("lib.rs", root),
            ("low.rs", low),
            ("low/part.rs", part),
            ("middle/mod.rs", "use crate::low::Thing; use super::low;"),
            ("high.rs", "use crate::{low::{self, Thing}, middle};"),
            ("high/tests.rs", ""),
        ];
        let sources = sources.map(|(file, source)| (PathBuf::from(file), source.to_owned()));
        judge(&LINE, &sources, &edges(&sources).unwrap_or_default())
    }

    #[test]
    fn a_line_is_right() {
        let sound = "mod part; #[cfg(test)] mod tests { use crate::high::Tall; } // crate::high\nuse crate::ir; use part::X;";
        assert_eq!(
            judged(sound, "use super::Thing; use super::super::low::Y;"),
            [""; 0]
        );
    }

    #[test]
    fn every_spelling_of_a_way_up_is_found() {
        let above = |to: &str, place: &str| {
            [format!(
                "x/src/{place}: low uses {to}, which lies above it; move what it needs down, or pass it in"
            )]
        };
        for (low, to) in [
            ("use crate::high::Tall;", "high"),
            ("use crate::middle;", "middle"),
            ("use crate::{low::Thing, middle::{A, B}};", "middle"),
            ("fn f() -> crate::high::Tall {}", "high"),
            ("use super::middle::A;", "middle"),
            ("mod inner { use super::super::middle::A; }", "middle"),
            ("use crate::Tall;", "high"),
            ("type A = crate::Large;", "high"),
        ] {
            assert_eq!(judged(low, ""), above(to, "low.rs:1"), "{low}");
        }
        assert_eq!(
            judged("", "\nuse super::super::high;"),
            above("high", "low/part.rs:2")
        );
    }

    #[test]
    fn what_has_no_floor_is_named() {
        assert_eq!(
            judged("use crate::nobody::A;", ""),
            ["x/src/low.rs:1: `crate::nobody` is no module and no re-export"]
        );
    }

    #[test]
    fn cycles_are_counted_by_modules() {
        let edges = |pairs: &[(&'static str, &'static str)]| pairs.iter().copied().collect::<BTreeSet<_>>();
        assert_eq!(in_cycles(&edges(&[("a", "b"), ("b", "c"), ("a", "c")])).len(), 0);
        let knot = edges(&[("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"), ("c", "e")]);
        assert_eq!(in_cycles(&knot).into_iter().collect::<Vec<_>>(), ["a", "b", "c"]);
    }
}
