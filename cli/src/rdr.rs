//! `thalweg rdr`.

use crate::Outcome;
use crate::args::Rdr;
use crate::text::line;
use std::io::Write;
use thalweg::observe::flight::{Flight, find};

pub(crate) fn run(args: &Rdr, out: &mut dyn Write) -> Outcome {
    for (at, folder) in find(&args.from)?.iter().enumerate() {
        let flight = Flight::read(folder)?;
        flight.write()?;
        if at > 0 {
            writeln!(out)?;
        }
        for text in flight.to_string().lines() {
            writeln!(out, "{}", line(text))?;
        }
    }
    Ok(true)
}
