//! Writes the CUDA sources of many kernels into a folder, for a compiler to judge: `corpus FOLDER`.
//!
//! Sources of the same helpers are batched, the helpers once, then each program in a namespace of its own. `options.txt` holds the compiler's
//! options, one a line.
#![allow(clippy::print_stdout, reason = "a command prints")]

#[path = "../tests/corpus/mod.rs"]
mod corpus;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use thalweg_cstyle::Target;

const END_OF_HELPERS: &str = "/* end of helpers */\n";
const PER_FILE: usize = 60;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: corpus FOLDER")?;
    let programs = corpus::programs(&Target::CUDA)?;
    let mut seen = HashSet::new();
    // By their helpers, which differ in whether f64, Philox and matrix instructions are among them.
    let mut all: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for program in &programs {
        let (own, body) = program
            .text
            .split_once(END_OF_HELPERS)
            .ok_or("a source without helpers")?;
        if seen.insert(body) {
            all.entry(own).or_default().push(body);
        }
    }
    std::fs::create_dir_all(&folder)?;
    let batches =
        (all.iter()).flat_map(|(&helpers, bodies)| bodies.chunks(PER_FILE).map(move |part| (helpers, part)));
    let mut files = 0;
    for (i, (helpers, part)) in batches.enumerate() {
        files += 1;
        let mut text = helpers.to_owned();
        for (j, body) in part.iter().enumerate() {
            text.push_str(&format!("namespace program_{j} {{\n{}}}\n", renamed(body, j)));
        }
        std::fs::write(Path::new(&folder).join(format!("{i:03}.cu")), text)?;
    }
    let options = Target::CUDA.options().join("\n");
    std::fs::write(Path::new(&folder).join("options.txt"), options)?;
    println!("{} programs in {files} files", seen.len());
    Ok(())
}

/// Gives the entries of a program a number.
fn renamed(body: &str, number: usize) -> String {
    let mut text = String::with_capacity(body.len());
    for line in body.lines() {
        match line.split_once('(').filter(|_| line.starts_with("TL_KERNEL")) {
            Some((entry, arguments)) => {
                // `__launch_bounds__(N)` stands before the name.
                let (before, rest) = arguments.split_once(')').unwrap_or(("", arguments));
                match rest.split_once('(') {
                    Some((name, rest)) if entry.ends_with("__launch_bounds__") => {
                        text.push_str(&format!("{entry}({before}){name}_{number}({rest}"));
                    }
                    _ => text.push_str(&format!("{entry}_{number}({arguments}")),
                }
            }
            None => text.push_str(line),
        }
        text.push('\n');
    }
    text
}
