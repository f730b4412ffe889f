//! `thalweg plugins install` and `thalweg plugins remove`.
//!
//! Plugins are first copied into a folder of their own inside the place where they go, and judged there, with the owner and the
//! folders above that they will have. Then each is moved to its place and locked; when that fails, what was there before is put back.

use super::archive;
use super::stage::{Alone, Made, Stage, plugins_in};
use crate::Outcome;
use crate::text::{columns, line};
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use thalweg::loader::discover::{self, Folder, Found, Origin, file_name, target_of};
use thalweg::loader::lock::{self, LOCK_FILE, Lock};
use thalweg::loader::trust::{self, Strictness};
use thalweg::loader::{LoadError, judge};

pub(super) type Result<T> = std::result::Result<T, Box<dyn Error>>;

pub(super) fn run(from: &Path, to: Option<&Path>, sum: Option<&str>, out: &mut dyn Write) -> Outcome {
    let nothing = |error: Box<dyn Error>| format!("{error}; nothing was installed");
    let installed = install(from, to, sum).map_err(nothing)?;
    let Installed { place, rows, besides } = installed;
    writeln!(out, "installed into {}", line(&place.display().to_string()))?;
    for row in columns(&rows) {
        writeln!(out, "  {row}")?;
    }
    for file in besides {
        writeln!(out, "  {} was there before and is locked as it is", line(&file))?;
    }
    match to {
        None => writeln!(
            out,
            "all of your programs find them; `thalweg devices` lists the devices"
        )?,
        Some(_) => writeln!(
            out,
            "programs search there when {} names it, or where `thalweg plugins path` lists it",
            discover::PATH_VARIABLE
        )?,
    }
    Ok(true)
}

/// What an installation did.
struct Installed {
    place: PathBuf,
    /// Target, version, file, and what it replaces.
    rows: Vec<[String; 4]>,
    /// Plugins that were there without a lock and are locked now.
    besides: Vec<String>,
}

fn install(from: &Path, to: Option<&Path>, sum: Option<&str>) -> Result<Installed> {
    let place = place(to)?;
    let source = Source::of(&std::path::absolute(from)?, sum)?;
    let mut made = Made::folders(&place)?;
    let place = trust::folder(&place, Strictness::Strict)?;
    // A lock that cannot be read is found before anything is changed.
    let was_locked = Lock::of_folder(&place)?.is_some();
    let here = plugins_in(&place)?;
    let stage = Stage::new(&place)?;
    source.copy(&stage.folder)?;
    let plugins = source.judged(&stage.folder)?;
    let rows = plugins.iter().map(|plugin| plugin.row(&place)).collect();
    let files: Vec<&str> = plugins.iter().map(|plugin| plugin.file.as_str()).collect();
    stage.commit(&place, &files, was_locked)?;
    made.keep();
    let besides = |file: &String| !was_locked && !files.contains(&file.as_str());
    Ok(Installed {
        rows,
        besides: here.into_iter().filter(besides).collect(),
        place,
    })
}

pub(super) fn remove(targets: &[String], from: Option<&Path>, out: &mut dyn Write) -> Outcome {
    let place = place(from)?;
    let files: Vec<String> = targets.iter().map(|target| file_name(target)).collect();
    if let Some(file) = (files.iter()).find(|file| file.contains('/') || !place.join(file).is_file()) {
        let place = place.display();
        return Err(format!("{place} has no {file}; `thalweg plugins list` shows what there is").into());
    }
    let _alone = Alone::in_folder(&place)?;
    for file in &files {
        let path = place.join(file);
        fs::remove_file(&path).map_err(|error| format!("cannot remove {}: {error}", path.display()))?;
        lock::forget(&place, file)?;
        writeln!(out, "removed {}", line(&path.display().to_string()))?;
    }
    Ok(true)
}

/// Whether a file of an archive or a folder is installed: plugins and their sums.
pub(super) fn is_wanted(name: &str) -> bool {
    name == LOCK_FILE || target_of(name).is_some()
}

fn place(asked: Option<&Path>) -> Result<PathBuf> {
    match asked {
        Some(path) => Ok(std::path::absolute(path)?),
        None => discover::user_folder().ok_or_else(|| {
            "you have no folder for plugins, since HOME is not set; name one with --to".into()
        }),
    }
}

/// Where the plugins come from.
enum Source {
    Archive(PathBuf),
    Folder(PathBuf),
    Plugin(PathBuf),
}

impl Source {
    fn of(from: &Path, sum: Option<&str>) -> Result<Source> {
        if from.is_dir() {
            return match sum {
                Some(_) => Err("--sha256 is the sum of a file, and this is a folder".into()),
                None => Ok(Source::Folder(from.to_owned())),
            };
        }
        // A file that others may write is not what its owner put there.
        let path = trust::file(from, Strictness::GroupMayWrite)?;
        let unreadable = |error: io::Error| format!("cannot read {}: {error}", from.display());
        let mut file = File::open(path).map_err(unreadable)?;
        if let Some(sum) = sum {
            let mut bytes = Vec::new();
            (&mut file)
                .take(archive::MAX_BYTES)
                .read_to_end(&mut bytes)
                .map_err(unreadable)?;
            let found = lock::sha256(&bytes);
            if !sum.trim().eq_ignore_ascii_case(&found) {
                return Err(format!("{} has the sha256 {found}, not {}", from.display(), sum.trim()).into());
            }
            file.rewind().map_err(unreadable)?;
        }
        let mut start = Vec::new();
        file.take(2).read_to_end(&mut start).map_err(unreadable)?;
        let name = from.file_name().and_then(|name| name.to_str());
        if start == [0x1f, 0x8b] {
            return Ok(Source::Archive(from.to_owned()));
        }
        if name.and_then(target_of).is_some() {
            return Ok(Source::Plugin(from.to_owned()));
        }
        let (from, plugin) = (from.display(), file_name("NAME"));
        Err(format!("{from} is neither an archive (.tar.gz) nor a plugin ({plugin})").into())
    }

    /// Copies plugins and their sums into `stage`.
    fn copy(&self, stage: &Path) -> Result<()> {
        match self {
            Source::Archive(path) => {
                archive::unpack(File::open(path)?, stage)
                    .map_err(|error| format!("{}: {error}", path.display()))?;
            }
            Source::Folder(folder) => {
                for name in plugins_in(folder)? {
                    copy(folder, &name, stage)?;
                }
                copy_sums(folder, stage)?;
            }
            Source::Plugin(path) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let folder = path.parent().unwrap_or(Path::new("/"));
                copy(folder, &name, stage)?;
                copy_sums(folder, stage)?;
            }
        }
        for name in plugins_in(stage)? {
            fs::set_permissions(stage.join(name), fs::Permissions::from_mode(0o644))?;
        }
        Ok(())
    }

    /// Judges all plugins in `stage` as the loader does, with the sums that came with them. An archive must have sums.
    fn judged(&self, stage: &Path) -> Result<Vec<Plugin>> {
        let sums = Lock::of_folder(stage)?;
        let files = plugins_in(stage)?;
        let (Source::Archive(path) | Source::Folder(path) | Source::Plugin(path)) = self;
        let path = path.display();
        if files.is_empty() {
            return Err(format!("{path} holds no plugin ({})", file_name("NAME")).into());
        }
        match (&sums, self) {
            (None, Source::Archive(_)) => {
                return Err(format!("{path} holds no {LOCK_FILE} with the sums of its plugins").into());
            }
            (Some(sums), Source::Archive(_) | Source::Folder(_)) => {
                let absent = |name: &&str| files.iter().all(|file| file != name);
                if let Some(name) = sums.files().find(absent) {
                    return Err(
                        format!("{path} lacks {name}, which its {LOCK_FILE} lists; copy it again").into(),
                    );
                }
            }
            (_, Source::Plugin(_)) | (None, Source::Folder(_)) => {}
        }
        let judge = |file: &String| {
            read(stage, file, sums.as_ref()).map_err(|error| match error.to_string() {
                text if text.contains(file.as_str()) => text.into(),
                text => format!("{file}: {text}").into(),
            })
        };
        files.iter().map(judge).collect()
    }
}

/// Copies a file that others cannot write: they could until it is judged.
fn copy(folder: &Path, name: &str, stage: &Path) -> Result<()> {
    let from = trust::file(&folder.join(name), Strictness::Strict)?;
    let failed = |error: io::Error| format!("cannot copy {}: {error}", from.display());
    let mut to = File::create_new(stage.join(name)).map_err(failed)?;
    io::copy(&mut File::open(&from).map_err(failed)?, &mut to).map_err(failed)?;
    to.sync_all().map_err(failed)?;
    Ok(())
}

fn copy_sums(folder: &Path, stage: &Path) -> Result<()> {
    if folder.join(LOCK_FILE).exists() {
        copy(folder, LOCK_FILE, stage)?;
    }
    Ok(())
}

/// A plugin that may be loaded.
struct Plugin {
    file: String,
    name: String,
    version: String,
}

impl Plugin {
    fn row(&self, place: &Path) -> [String; 4] {
        let replaces = if place.join(&self.file).exists() {
            read(place, &self.file, None).map_or_else(
                |_| "replaces another".into(),
                |old| format!("replaces {}", old.version),
            )
        } else {
            String::new()
        };
        [&self.name, &self.version, &self.file, &replaces].map(|cell| line(cell))
    }
}

fn read(folder: &Path, file: &str, sums: Option<&Lock>) -> std::result::Result<Plugin, LoadError> {
    let found = Found {
        name: file.to_owned(),
        path: folder.join(file),
        folder: Folder {
            path: folder.to_owned(),
            origin: Origin::Option,
        },
    };
    let manifest = judge::judge(&found, sums)?.manifest;
    Ok(Plugin {
        file: file.to_owned(),
        name: manifest.name,
        version: manifest.version,
    })
}
