//! `thalweg.h`, the tables of `hal-api` as C, and `tables/layout.rs`, their structs as text.
//!
//! The Rust sources are parsed as text. Most enums of the contract come from `macro_rules` rows, which a generator that
//! looks for items does not see, and the comments name Rust paths, which mean nothing in C.

mod items;
mod layout;
mod names;
mod render;

use crate::Result;
use std::fs;
use std::path::Path;

const HEADER: &str = "hal-api/include/thalweg.h";
const LAYOUT: &str = "hal-api/src/tables/layout.rs";

/// Files of `hal-api/src` whose items cross the ABI, in the order of the header, with what stands before the names of
/// their constants.
const SOURCES: [(&str, &str); 17] = [
    ("tables/mod.rs", ""),
    ("status.rs", ""),
    ("dtype.rs", ""),
    ("tables/host.rs", ""),
    ("tables/core.rs", ""),
    ("tables/device.rs", ""),
    ("tables/memory.rs", ""),
    ("tables/stream.rs", ""),
    ("tables/event.rs", ""),
    ("ir/mod.rs", ""),
    ("ir/op.rs", ""),
    ("ir/encode.rs", ""),
    ("library/desc.rs", "LIBRARY_"),
    ("tables/kernel.rs", ""),
    ("tables/program.rs", ""),
    ("tables/profile.rs", ""),
    ("manifest.rs", "MANIFEST_"),
];

/// Writes the header and the layout, or compares them with the committed ones.
pub(crate) fn run(root: &Path, check: bool) -> Result<()> {
    for (file, text) in generate(root)? {
        let path = root.join(file);
        if check {
            compare(
                file,
                &fs::read_to_string(&path).map_err(|error| format!("{file}: {error}"))?,
                &text,
            )?;
        } else {
            fs::create_dir_all(path.parent().unwrap_or(root))?;
            fs::write(&path, text)?;
            println!("wrote {file}");
        }
    }
    Ok(())
}

fn compare(file: &str, committed: &str, text: &str) -> Result<()> {
    let mut lines = committed.lines().zip(text.lines()).enumerate();
    match lines.find(|(_, (old, new))| old != new) {
        Some((line, (old, new))) => Err(format!(
            "{file}:{} is stale; run `cargo xtask header`\n  committed: {old}\n  generated: {new}",
            line + 1
        )
        .into()),
        None if committed != text => Err(format!("{file} is stale; run `cargo xtask header`").into()),
        None => Ok(()),
    }
}

fn generate(root: &Path) -> Result<[(&'static str, String); 2]> {
    let mut sections = Vec::new();
    for (file, prefix) in SOURCES {
        let text = fs::read_to_string(root.join("hal-api/src").join(file))?;
        sections.push(items::read(&text, prefix).map_err(|error| format!("hal-api/src/{file}: {error}"))?);
    }
    let files = SOURCES.map(|(file, _)| file);
    let (structs, layout) = layout::source(&files, &sections)?;
    Ok([
        (HEADER, render::header(&mut sections, &structs)?),
        (LAYOUT, layout),
    ])
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_committed_header_is_up_to_date() {
        super::run(&crate::root(), true).unwrap();
    }
}
