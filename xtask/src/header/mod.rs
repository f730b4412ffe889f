//! `thalweg.h`: the tables of `hal-api` as C.
//!
//! The Rust sources are parsed as text. Most enums of the contract come from `macro_rules` rows, which a generator that
//! looks for items does not see, and the comments name Rust paths, which mean nothing in C.

mod items;
mod names;
mod render;

use crate::Result;
use std::fs;
use std::path::Path;

const HEADER: &str = "hal-api/include/thalweg.h";

/// Files of `hal-api/src` whose items cross the ABI, in the order of the header, with what stands before the names of
/// their constants.
const SOURCES: [(&str, &str); 16] = [
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
    ("manifest.rs", "MANIFEST_"),
];

/// Writes the header, or compares it with the committed one.
pub(crate) fn run(root: &Path, check: bool) -> Result<()> {
    let text = generate(root)?;
    let path = root.join(HEADER);
    if !check {
        fs::create_dir_all(path.parent().unwrap_or(root))?;
        fs::write(&path, text)?;
        println!("wrote {HEADER}");
        return Ok(());
    }
    let committed = fs::read_to_string(&path).map_err(|error| format!("{HEADER}: {error}"))?;
    let differs = |(_, (old, new)): &(usize, (&str, &str))| old != new;
    let lines = committed.lines().zip(text.lines()).enumerate();
    match { lines }.find(differs) {
        Some((line, (old, new))) => Err(format!(
            "{HEADER}:{} is stale; run `cargo xtask header`\n  committed: {old}\n  generated: {new}",
            line + 1
        )
        .into()),
        None if committed != text => Err(format!("{HEADER} is stale; run `cargo xtask header`").into()),
        None => Ok(()),
    }
}

fn generate(root: &Path) -> Result<String> {
    let mut sections = Vec::new();
    for (file, prefix) in SOURCES {
        let text = fs::read_to_string(root.join("hal-api/src").join(file))?;
        sections.push(items::read(&text, prefix).map_err(|error| format!("hal-api/src/{file}: {error}"))?);
    }
    render::header(&mut sections)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_committed_header_is_up_to_date() {
        super::run(&crate::root(), true).unwrap();
    }
}
