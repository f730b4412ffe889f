//! The length of files.

use crate::{Result, files};
use std::fs;
use std::path::Path;

const GOAL: usize = 200;
const LIMIT: usize = 500;
const KINDS: [&str; 10] = ["rs", "c", "py", "sh", "cl", "cu", "gpu", "js", "mjs", "css"];

/// Prints the files over the goal and refuses those over the limit.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut long = Vec::new();
    let mut total = 0;
    for file in files(root)? {
        if file
            .extension()
            .and_then(|kind| kind.to_str())
            .is_some_and(|kind| KINDS.contains(&kind))
        {
            let count = fs::read_to_string(root.join(&file))?.lines().count();
            total += count;
            if count > GOAL {
                long.push((count, file));
            }
        }
    }
    long.sort();
    for (count, file) in &long {
        println!("{count:5} {}", file.display());
    }
    println!("{total} lines; {} files have more than {GOAL}", long.len());
    let over: Vec<_> = long.iter().filter(|(count, _)| *count > LIMIT).collect();
    if over.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = over.iter().map(|(_, file)| file.display().to_string()).collect();
    Err(format!("over the limit of {LIMIT} lines: {}", names.join(", ")).into())
}
