//! A new user's walk through `docs/guide`: the marked shell blocks are run, and what they print is compared with the page.
//!
//! A comment before a block marks it: `<!-- run -->` for a shell block, `<!-- file: PATH -->` for a block that is written to a file,
//! `<!-- output -->` for lines that the block before must print, in this order. The blocks of a page share a folder and a shell.

use crate::process::capture;
use crate::{Result, files, plugins, target};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What the script prints before the output of each block.
const MARK: &str = "\u{1e}block";

/// A marked block.
#[derive(Debug, PartialEq)]
enum Block {
    Run(String),
    File(String, String),
    Output(Vec<String>),
}

/// Runs every page that has a marked block.
pub(crate) fn run(root: &Path, build: bool) -> Result<()> {
    // The walk uses the command and the plugins of this build.
    if build {
        plugins::build(root)?;
    }
    let (mut pages, mut blocks) = (0, 0);
    for file in files(root)? {
        if !file.starts_with("docs/guide") || file.extension().is_none_or(|kind| kind != "md") {
            continue;
        }
        let found = parse(&fs::read_to_string(root.join(&file))?);
        if found.iter().any(|block| matches!(block, Block::Run(_))) {
            let name = file
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            walk(root, &name, &found).map_err(|error| format!("{}: {error}", file.display()))?;
            pages += 1;
            blocks += found
                .iter()
                .filter(|block| matches!(block, Block::Run(_)))
                .count();
        }
    }
    println!("{blocks} blocks of {pages} pages ran");
    Ok(())
}

fn walk(root: &Path, name: &str, blocks: &[Block]) -> Result<()> {
    let build = target(root);
    let place = build.join("guide");
    let folder = place.join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    // `cargo new` adds a package to the workspace around it, which is not to be the project's.
    fs::write(folder.join("Cargo.toml"), "[workspace]\nresolver = \"3\"\n")?;
    let mut script = String::from("set -euo pipefail\n");
    for block in blocks {
        match block {
            Block::Run(text) => writeln!(script, "printf '{MARK}\\n'\n{text}")?,
            Block::File(path, text) => {
                writeln!(
                    script,
                    "mkdir -p \"$(dirname {path})\"\ncat > {path} <<'END OF FILE'\n{text}\nEND OF FILE"
                )?;
            }
            Block::Output(_) => {}
        }
    }
    let commands = plugins::profile(root, false);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(commands.clone()).chain(std::env::split_paths(&path));
    let mut shell = Command::new("bash");
    shell
        .args(["-c", &script])
        .current_dir(&folder)
        .env("CLONE", root)
        .env("PLUGINS", &commands)
        .env("PATH", std::env::join_paths(paths)?)
        // One build folder for all pages, of programs that are not part of the workspace.
        .env("CARGO_TARGET_DIR", place.join("build"))
        .env_remove("THALWEG_BACKEND_PATH");
    let output = capture(&mut shell)?;
    compare(blocks, &output)
}

/// Whether every block printed what the page says.
fn compare(blocks: &[Block], output: &str) -> Result<()> {
    let mut outputs = output.split(MARK).skip(1);
    let mut last = "";
    for block in blocks {
        match block {
            Block::Run(_) => last = outputs.next().ok_or("a block did not run")?,
            Block::Output(lines) => {
                let mut rest = last;
                for line in lines {
                    let at = rest.find(line.as_str()).ok_or_else(|| {
                        format!("the page promises {line:?}, which is not in this order in:\n{last}")
                    })?;
                    rest = &rest[at + line.len()..];
                }
            }
            Block::File(..) => {}
        }
    }
    Ok(())
}

/// The marked blocks of a page.
fn parse(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let (mut mark, mut lines) = (None, text.lines());
    while let Some(line) = lines.next() {
        let comment = line
            .strip_prefix("<!-- ")
            .and_then(|rest| rest.strip_suffix(" -->"));
        if let Some(comment) = comment {
            mark = Some(comment);
        } else if line.starts_with("```") {
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            match mark.take() {
                Some("run") => blocks.push(Block::Run(body.join("\n"))),
                Some("output") => blocks.push(Block::Output(
                    body.iter().map(|line| line.trim().to_owned()).collect(),
                )),
                Some(other) => {
                    if let Some(path) = other.strip_prefix("file: ") {
                        blocks.push(Block::File(path.to_owned(), body.join("\n")));
                    }
                }
                None => {}
            }
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_blocks_are_found_and_compared() {
        let page = "<!-- file: a/b.txt -->\n```text\nhello\n```\n\n```sh\nfalse\n```\n<!-- run -->\n```sh\ncat a/b.txt\n```\n\n<!-- output -->\n```text\nhe\n lo\n```\n";
        let blocks = parse(page);
        assert_eq!(
            blocks,
            [
                Block::File("a/b.txt".into(), "hello".into()),
                Block::Run("cat a/b.txt".into()),
                Block::Output(vec!["he".into(), "lo".into()]),
            ]
        );
        compare(&blocks, &format!("{MARK}\nhello\n")).unwrap();
        assert!(compare(&blocks, &format!("{MARK}\nlo he\n")).is_err());
        assert!(compare(&blocks, "").is_err());
    }
}
