//! `thalweg plugins`.

mod archive;
mod install;
mod list;
mod stage;

use crate::Outcome;
use crate::args::{PluginTask, Plugins};
use crate::text::{count, line};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use thalweg::loader::lock::{self, LOCK_FILE, Lock, LockError};
use thalweg::loader::trust::{self, Strictness};

pub(crate) fn run(args: &Plugins, out: &mut dyn Write) -> Outcome {
    match &args.task {
        PluginTask::Install { from, to, sha256 } => install::run(from, to.as_deref(), sha256.as_deref(), out),
        PluginTask::Remove { targets, from } => install::remove(targets, from.as_deref(), out),
        PluginTask::List(search) => list::list(search, out),
        PluginTask::Path(search) => list::path(search, out),
        PluginTask::Lock { paths } => lock(paths, out),
        PluginTask::Verify { paths } => verify(paths, out),
    }
}

fn lock(paths: &[PathBuf], out: &mut dyn Write) -> Outcome {
    let mut any = false;
    for file in lock::lock(paths)? {
        let folder = file.parent().unwrap_or(Path::new("/"));
        let lock = Lock::of_folder(folder)?.unwrap_or_default();
        let files: Vec<&str> = lock.files().collect();
        any |= !files.is_empty();
        let number = count(files.len(), "plugin");
        writeln!(out, "{} allows {number}", line(&file.display().to_string()))?;
        for file in files {
            writeln!(out, "  {}", line(file))?;
        }
        if let Err(error) = trust::folder(folder, Strictness::Strict) {
            writeln!(
                out,
                "  note: nothing loads from there: {}",
                line(&error.to_string())
            )?;
        }
    }
    if !any {
        writeln!(
            out,
            "no plugin was found; a folder with an empty {LOCK_FILE} loads nothing"
        )?;
    }
    Ok(any)
}

fn verify(paths: &[PathBuf], out: &mut dyn Write) -> Outcome {
    // All files of a folder for `None`.
    let mut folders: BTreeMap<PathBuf, Option<Vec<String>>> = BTreeMap::new();
    for path in paths {
        if path.is_dir() {
            folders.insert(std::path::absolute(path)?, None);
            continue;
        }
        let path = std::path::absolute(path)?;
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(LockError::NotAPlugin { path }.into());
        };
        if let Some(names) = folders
            .entry(folder.to_path_buf())
            .or_insert_with(|| Some(Vec::new()))
        {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    let (mut good, mut bad) = (0, 0);
    for (folder, names) in folders {
        let verified = lock::verify(&folder).map_err(|error| explain(error, &folder))?;
        let asked = |name: &String| names.as_ref().is_none_or(|names| names.contains(name));
        let unknown = |name: &&String| verified.iter().all(|(file, _)| file != *name);
        if let Some(name) = names.iter().flatten().find(unknown) {
            let path = folder.join(name);
            return Err(format!("{} is neither a plugin nor listed in {LOCK_FILE}", path.display()).into());
        }
        for (name, result) in verified.into_iter().filter(|(name, _)| asked(name)) {
            let path = folder.join(&name);
            let text = match &result {
                Ok(()) => "as locked".into(),
                Err(error) => error.to_string(),
            };
            *(if result.is_ok() { &mut good } else { &mut bad }) += 1;
            writeln!(out, "{}: {}", line(&path.display().to_string()), line(&text))?;
        }
    }
    let total = count(good + bad, "plugin");
    match bad {
        0 => writeln!(out, "{total} as locked")?,
        bad => writeln!(out, "{bad} of {total} not as locked")?,
    }
    Ok(bad == 0)
}

/// A folder without a lock file is the usual reason, and has a remedy of its own.
fn explain(error: LockError, folder: &Path) -> Box<dyn std::error::Error> {
    if folder.join(LOCK_FILE).exists() {
        return error.into();
    }
    let folder = folder.display();
    format!("{folder} has no {LOCK_FILE}; `thalweg plugins lock {folder}` writes one").into()
}
