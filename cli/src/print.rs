//! `thalweg print`.

use crate::Outcome;
use crate::args::Print;
use crate::text::line;
use std::io::Write;
use thalweg::observe::{PrintFile, PrintItem};

pub(crate) fn run(args: &Print, out: &mut dyn Write) -> Outcome {
    let mut file = PrintFile::open(&args.file)?;
    for printout in file.by_ref() {
        for item in printout.items {
            match &item {
                // It came from a program: it may hold what terminals obey.
                PrintItem::Text(text) => text
                    .split('\n')
                    .try_for_each(|text| writeln!(out, "{}", line(text)))?,
                tensor => writeln!(out, "{tensor}")?,
            }
        }
    }
    match file.cut() {
        None => Ok(true),
        Some(cut) => {
            out.flush()?;
            eprintln!("{}: {cut}", line(&args.file.display().to_string()));
            Ok(false)
        }
    }
}
