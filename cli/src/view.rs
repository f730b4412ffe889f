//! `thalweg view`.

use crate::Outcome;
use crate::args::View;
use crate::text::{bytes, line};
use std::fs;
use std::io::Write;
use std::path::Path;
use thalweg_observe::page::{Data, Server, Source};
use thalweg_observe::{Error, Terminal};

pub(crate) fn run(args: &View, out: &mut dyn Write) -> Outcome {
    let source = Source::new(&args.from)?;
    if args.text {
        return text(args, out);
    }
    if let Some(file) = &args.export {
        return export(&source.read(), file, out);
    }
    let server = Server::bind(source, &args.host, args.port)?;
    for error in server.read().errors() {
        eprintln!("{}", line(error));
    }
    writeln!(out, "{} shows {}; Ctrl-C ends it", server.url(), shown(args))?;
    if server.is_public() {
        writeln!(out, "other machines that reach this one can read it too")?;
    }
    out.flush()?;
    server.run()
}

fn shown(args: &View) -> String {
    let names = args.from.iter().map(|path| line(&path.display().to_string()));
    names.collect::<Vec<_>>().join(", ")
}

/// Writes the page as one file. There must be something to show.
fn export(data: &Data, file: &Path, out: &mut dyn Write) -> Outcome {
    let mut errors = data.errors().iter();
    if data.runs() == 0 {
        return Err(errors.next().cloned().unwrap_or_default().into());
    }
    errors.for_each(|error| eprintln!("{}", line(error)));
    let page = data.to_html();
    fs::write(file, &page).map_err(|source| Error::Write {
        path: file.to_owned(),
        source,
    })?;
    let (name, size) = (line(&file.display().to_string()), bytes(page.len() as u64));
    writeln!(out, "wrote {name} ({size}); open it in any browser")?;
    Ok(true)
}

/// Each run in the terminal, one behind the other.
fn text(args: &View, out: &mut dyn Write) -> Outcome {
    for (at, folder) in args.from.iter().enumerate() {
        if args.from.len() > 1 {
            let space = if at == 0 { "" } else { "\n" };
            writeln!(out, "{space}== {}", line(&folder.display().to_string()))?;
        }
        write!(out, "{}", Terminal::read(folder)?)?;
    }
    Ok(true)
}
