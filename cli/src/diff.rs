//! `thalweg diff`.

use crate::Outcome;
use crate::args::Diff;
use crate::text::{bytes, line};
use std::fs;
use std::io::Write;
use thalweg_observe::Error;

pub(crate) fn run(args: &Diff, out: &mut dyn Write) -> Outcome {
    let diff = thalweg_observe::diff(&args.a, &args.b)?;
    for text in diff.to_string().lines() {
        writeln!(out, "{}", line(text))?;
    }
    if let Some(file) = &args.html {
        let [a, b] = [&args.a, &args.b].map(|path| path.display().to_string());
        let page = diff.to_html([&a, &b]);
        fs::write(file, &page).map_err(|source| Error::Write {
            path: file.clone(),
            source,
        })?;
        let (name, size) = (line(&file.display().to_string()), bytes(page.len() as u64));
        writeln!(out, "wrote {name} ({size}); open it in any browser")?;
    }
    Ok(diff.is_equal())
}
