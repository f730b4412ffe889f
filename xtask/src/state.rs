//! Global state: every `static` that changes and every `thread_local!`, each listed with its reason.

use crate::source::{production, words};
use crate::{Result, files};
use std::fs;
use std::path::Path;

/// Where production code lies; beside `tests` folders in it.
const SOURCES: [&str; 8] = [
    "hal-api/src/",
    "layers/src/",
    "runtime/src/",
    "core/src/",
    "nn/",
    "summary/src/",
    "backends/",
    "cli/src/",
];

/// The list: rows of file, name, kind and what it is for.
const LIST: &str = "docs/global-state.md";

/// What a static may be for, as the list says it.
const KINDS: [&str; 5] = ["process", "counter", "once", "scope", "scratch"];

/// Checks that the list is what the code has.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut found = Vec::new();
    for file in files(root)? {
        let name = file.display().to_string();
        let inside = SOURCES.iter().any(|folder| name.starts_with(folder));
        let tests = file
            .iter()
            .any(|part| part == "tests" || part == "tests.rs" || part == "testing.rs");
        if inside && !tests && name.contains("src/") && name.ends_with(".rs") {
            let source = fs::read_to_string(root.join(&file))?;
            found.extend(
                changing(&source)
                    .into_iter()
                    .map(|(item, line)| (name.clone(), item, line)),
            );
        }
    }
    let list = fs::read_to_string(root.join(LIST))?;
    let listed = listed(&list)?;
    let wrong = differences(&found, &listed);
    if !wrong.is_empty() {
        return Err(wrong.join("\n").into());
    }
    let counts = KINDS.map(|kind| {
        let count = listed.iter().filter(|row| row.kind == kind).count();
        format!("{count} {kind}")
    });
    println!("global state: {}", counts.join(", "));
    Ok(())
}

/// A row of the list.
#[derive(Debug, PartialEq, Eq)]
struct Row<'a> {
    file: &'a str,
    name: &'a str,
    kind: &'a str,
}

/// The rows of the list.
fn listed(list: &str) -> Result<Vec<Row<'_>>> {
    let mut rows = Vec::new();
    for line in list.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        match cells[..] {
            [file, name, kind, reason] if KINDS.contains(&kind) && !reason.is_empty() => rows.push(Row {
                file: file.trim_matches('`'),
                name: name.trim_matches('`'),
                kind,
            }),
            _ => {
                return Err(format!(
                    "{LIST}: `{line}` has no file, name, kind ({}) and reason",
                    KINDS.join(", ")
                )
                .into());
            }
        }
    }
    Ok(rows)
}

/// Statics (file, name, line) that are not listed, and rows that no static has.
fn differences(found: &[(String, String, usize)], listed: &[Row<'_>]) -> Vec<String> {
    let new = (found.iter())
        .filter(|(file, name, _)| !listed.iter().any(|row| row.file == file && row.name == name))
        .map(|(file, name, line)| {
            format!(
                "{file}:{line}: {name} is global state; do without it, or list it in {LIST} with its reason"
            )
        });
    let gone = (listed.iter())
        .filter(|row| {
            !found
                .iter()
                .any(|(file, name, _)| row.file == file && row.name == name)
        })
        .map(|row| format!("{} has no {} any more; take it from {LIST}", row.file, row.name));
    new.chain(gone).collect()
}

/// Types that change behind a shared reference.
const CELLS: [&str; 12] = [
    "Cell",
    "RefCell",
    "OnceCell",
    "LazyCell",
    "UnsafeCell",
    "Mutex",
    "RwLock",
    "OnceLock",
    "LazyLock",
    "Once",
    "ThreadLocal",
    "Places",
];

/// The statics of a source that change or belong to a thread, with their lines.
fn changing(source: &str) -> Vec<(String, usize)> {
    let all = words(source);
    let (words, _) = production(&all);
    let mut found = Vec::new();
    let mut in_threads = 0;
    for (at, word) in words.iter().enumerate() {
        if word.text == "thread_local" && words.get(at + 2).is_some_and(|next| next.text == "{") {
            in_threads = crate::source::closed(&words, at + 2);
        }
        // `&'static T` has no name behind it: lifetimes are no words.
        if word.text != "static" {
            continue;
        }
        let mutable = words.get(at + 1).is_some_and(|next| next.text == "mut");
        let Some(name) = words.get(at + 1 + usize::from(mutable)) else {
            continue;
        };
        let ty = words[at..]
            .iter()
            .take_while(|word| word.text != "=" && word.text != ";");
        let cell = ty
            .into_iter()
            .any(|word| CELLS.contains(&word.text) || word.text.starts_with("Atomic"));
        if mutable || cell || at < in_threads {
            found.push((name.text.to_owned(), name.line));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{changing, differences, listed};

    #[test]
    fn what_is_not_listed_and_what_is_gone_are_named() {
        let list = "# Title\n| file | static | kind | what |\n|---|---|---|---|\n\
                    | `a/src/b.rs` | `OLD` | counter | ids |\n| `a/src/b.rs` | `KEPT` | once | a table |\n";
        let rows = listed(list).unwrap_or_default();
        let found = [("KEPT", 3), ("NEW", 7)].map(|(name, line)| ("a/src/b.rs".into(), name.into(), line));
        assert_eq!(
            differences(&found, &rows),
            [
                "a/src/b.rs:7: NEW is global state; do without it, or list it in docs/global-state.md with its reason",
                "a/src/b.rs has no OLD any more; take it from docs/global-state.md"
            ]
        );
        assert!(listed("| `a.rs` | `X` | whim | no reason |").is_err());
        assert!(listed("| `a.rs` | `X` | once |  |").is_err());
    }

    #[test]
    fn what_changes_is_found_and_constants_are_not() {
        let source = "static A: &'static str = \"static B: Cell<u8>\";\nstatic C: [AtomicU8; 2] = x();\n\
                      fn f() { static D: std::sync::OnceLock<u8> = y(); }\nthread_local! { static E: u8 = 1; }\n\
                      pub(crate) static mut F: u8 = 0; static G: u64 = 3; // static H: Mutex<u8>\n\
                      #[cfg(test)] mod tests { static I: Mutex<u8> = z(); }";
        let found = changing(source);
        let found: Vec<(&str, usize)> = found.iter().map(|(name, line)| (name.as_str(), *line)).collect();
        assert_eq!(found, [("C", 2), ("D", 3), ("E", 4), ("F", 5)]);
    }
}
