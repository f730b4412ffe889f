//! `thalweg plugins list` and `thalweg plugins path`.

use crate::Outcome;
use crate::args::Search;
use crate::doctor;
use crate::text::{columns, count, line};
use std::io::Write;
use thalweg::loader::discover::{self, Found, Place, Surroundings};
use thalweg::loader::judge;
use thalweg::loader::lock::Lock;

fn places(search: &Search) -> std::io::Result<Vec<Place>> {
    let options = search.options()?;
    Ok(discover::places(
        &options.folders,
        options.development,
        &Surroundings::of_process(),
    ))
}

pub(super) fn path(search: &Search, out: &mut dyn Write) -> Outcome {
    doctor::folders(&places(search)?, out)?;
    if let Some(folder) = discover::user_folder() {
        let folder = line(&folder.display().to_string());
        writeln!(out, "`thalweg plugins install` puts plugins into {folder}")?;
    }
    Ok(true)
}

pub(super) fn list(search: &Search, out: &mut dyn Write) -> Outcome {
    let mut places = places(search)?;
    let files = discover::files(&mut places);
    let rows: Vec<([String; 4], bool)> = files.iter().map(row).collect();
    let good = rows.iter().filter(|(_, good)| *good).count();
    let cells: Vec<[String; 4]> = rows.into_iter().map(|(row, _)| row).collect();
    for row in columns(&cells) {
        writeln!(out, "{row}")?;
    }
    match files.len() {
        0 => writeln!(
            out,
            "no plugin file was found; `thalweg plugins path` lists the folders"
        )?,
        all if good == all => writeln!(out, "{}", count(all, "plugin file"))?,
        all => writeln!(out, "{}, {} refused", count(all, "plugin file"), all - good)?,
    }
    Ok(good == files.len())
}

fn row(found: &Found) -> ([String; 4], bool) {
    let path = line(&found.path.display().to_string());
    let lock = Lock::of_folder(&found.folder.path);
    let judged = lock
        .map_err(Into::into)
        .and_then(|lock| judge::judge(found, lock.as_ref()));
    match judged {
        Ok(judged) => {
            let locked = if judged.locked { "locked" } else { "not locked" };
            let manifest = judged.manifest;
            (
                [line(&manifest.name), line(&manifest.version), path, locked.into()],
                true,
            )
        }
        Err(error) => (
            [
                line(&found.name),
                "-".into(),
                path,
                line(&format!("refused: {error}")),
            ],
            false,
        ),
    }
}
