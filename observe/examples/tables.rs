//! Prints the table of a profile, and writes its files: `tables DIR`.
#![allow(clippy::print_stdout, reason = "an example")]

use std::path::Path;
use thalweg_observe::{Report, Sort, derive, find};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: tables DIR")?;
    let folder = Path::new(&folder);
    let summary = derive(&find::recordings(folder)?, Some(folder))?;
    print!("{}", Report::new(&summary, Sort::Device, 20));
    Ok(())
}
