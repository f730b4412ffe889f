//! `thalweg diff`.

use crate::Outcome;
use crate::args::Diff;
use crate::text::line;
use std::io::Write;

pub(crate) fn run(args: &Diff, out: &mut dyn Write) -> Outcome {
    let diff = thalweg_observe::diff(&args.a, &args.b)?;
    for text in diff.to_string().lines() {
        writeln!(out, "{}", line(text))?;
    }
    Ok(diff.is_equal())
}
