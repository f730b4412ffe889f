//! The language of the documents: short sentences, links that lead somewhere, and a map that fits on a few screens.

use crate::{Result, files};
use std::fs;
use std::path::{Path, PathBuf};

/// Most words of a sentence.
const WORDS: usize = 35;
/// Most lines of ARCHITECTURE.md.
const MAP: usize = 160;
/// Shortest stretch without a full stop that counts as a sentence, whatever stands in it.
const STRETCH: usize = 180;

/// Checks the documents that users and contributors read.
pub(crate) fn run(root: &Path) -> Result<()> {
    let (mut wrong, mut sentences) = (Vec::new(), 0);
    let documents: Vec<PathBuf> = files(root)?
        .into_iter()
        .filter(|file| is_document(file))
        .collect();
    for file in &documents {
        let text = fs::read_to_string(root.join(file))?;
        let text = without_blocks(&text);
        let pieces = sentences_of(&text);
        sentences += pieces.len();
        for piece in pieces.iter().map(String::as_str).chain(stretches(&text)) {
            let words = piece.split_whitespace().count();
            if words > WORDS {
                let start: String = piece.chars().take(70).collect();
                wrong.push(format!(
                    "{}: a sentence of {words} words: {start}…",
                    file.display()
                ));
            }
        }
        for link in links(&text) {
            let target = link.split('#').next().unwrap_or("");
            let folder = file.parent().unwrap_or(Path::new(""));
            if !target.is_empty() && !root.join(folder).join(target).exists() {
                wrong.push(format!("{}: the link {link} leads nowhere", file.display()));
            }
        }
    }
    let lines = fs::read_to_string(root.join("ARCHITECTURE.md"))?.lines().count();
    if lines > MAP {
        wrong.push(format!(
            "ARCHITECTURE.md has {lines} lines, at most {MAP}; what is no map is a decision or a page in docs"
        ));
    }
    if wrong.is_empty() {
        println!("{} documents, {sentences} sentences", documents.len());
        return Ok(());
    }
    wrong.dedup();
    Err(wrong.join("\n").into())
}

fn is_document(file: &Path) -> bool {
    let named = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "cli/README.md",
    ];
    let page = file.starts_with("docs") && file.extension().is_some_and(|kind| kind == "md");
    page || named.iter().any(|name| file == Path::new(name))
}

/// The text without blocks of code, each of which ends a sentence.
fn without_blocks(text: &str) -> String {
    let (mut out, mut inside) = (String::new(), false);
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
            out.push('\n');
        } else if !inside {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// The sentences: they end at a full stop before a space, at a cell of a table, and where a paragraph, a heading or an item of a
/// list does.
fn sentences_of(text: &str) -> Vec<String> {
    let (mut all, mut sentence) = (Vec::new(), String::new());
    let mut end = |sentence: &mut String| {
        if !sentence.trim().is_empty() {
            all.push(std::mem::take(sentence));
        }
        sentence.clear();
    };
    for line in text.lines() {
        let start = line.trim_start();
        let number = start.trim_start_matches(|c: char| c.is_ascii_digit());
        let item = start.starts_with(['#', '|']) || start.starts_with("- ") || number.starts_with(". ");
        if item || start.is_empty() {
            end(&mut sentence);
        }
        for word in start.split_whitespace() {
            if word == "|" {
                end(&mut sentence);
                continue;
            }
            sentence.push_str(word);
            sentence.push(' ');
            let bare = word.trim_end_matches(['*', '_', ')', '"', '`']);
            // The number of an item ends nothing.
            if bare.ends_with(['.', '!', '?'])
                && !bare.trim_end_matches('.').bytes().all(|b| b.is_ascii_digit())
            {
                end(&mut sentence);
            }
        }
    }
    end(&mut sentence);
    all
}

/// What stands between two full stops of any kind, from the first capital on, where it is long: lists without stops are sentences too.
fn stretches(text: &str) -> impl Iterator<Item = &str> {
    text.split(['.', '!', '?', '|']).filter_map(|piece| {
        let from = piece.find(|c: char| c.is_ascii_uppercase())?;
        (piece.len() - from > STRETCH).then(|| &piece[from..])
    })
}

/// The relative links of a text.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')').map(|(link, _)| link))
        .filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_blocks_and_links() {
        let text = "# Title\n\nOne two. Three\nfour!\n\n```rust\nlet x = 1. + 2.;\n```\n\n- item\n- [a](b.md#c) and [d](https://e)\n\n| f | g h. I |\n";
        let bare = without_blocks(text);
        let found: Vec<_> = sentences_of(&bare)
            .iter()
            .map(|text| text.trim().to_owned())
            .collect();
        assert_eq!(
            found,
            [
                "# Title",
                "One two.",
                "Three four!",
                "- item",
                "- [a](b.md#c) and [d](https://e)",
                "f",
                "g h.",
                "I"
            ]
        );
        assert_eq!(links(&bare).collect::<Vec<_>>(), ["b.md#c"]);
        let long = format!("And {}", "word ".repeat(40));
        assert_eq!(stretches(&long).count(), 1);
        assert_eq!(sentences_of(&long)[0].split_whitespace().count(), 41);
        assert_eq!(stretches("A short one. Another").count(), 0);
        assert!(
            is_document(Path::new("docs/guide/streams.md"))
                && !is_document(Path::new("backends/cpu/GEMM.md"))
        );
    }
}
