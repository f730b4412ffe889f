//! Graphs that are saved: how much of them, and the folder of their files.

use crate::error::{Result, SaveGraphsError};
use crate::record::{environment, switch};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use thalweg_hal::kit::file;
use thalweg_hal::settings::{Setting, Values, Way};

pub(super) const SAVE_GRAPHS: Setting = Setting {
    key: "save_graphs",
    variable: "THALWEG_SAVE_GRAPHS",
    way: Way::Option,
    values: Values::OneOf(&["0", "1", "2", "3", "false", "true"]),
    default: "0",
    about: "Which stages of compiled graphs are written to files. 1: traced, rewritten and the program; 2 or `true`: its kernels \
            and their sources too; 3: every pass too, and `.dot`. `MS_DEV_SAVE_GRAPHS` is the same.",
    read_by: "every context",
};

pub(super) const SAVE_GRAPHS_PATH: Setting = Setting {
    key: "save_graphs_path",
    variable: "THALWEG_SAVE_GRAPHS_PATH",
    way: Way::Option,
    values: Values::Range("a folder; `{r}` is the rank"),
    default: ".",
    about: "The folder of these files. It is made with the mode 0700. `MS_DEV_SAVE_GRAPHS_PATH` is the same.",
    read_by: "every context",
};

pub(super) const SORT_MODE: Setting = Setting {
    key: "save_graphs_sort_mode",
    variable: "THALWEG_SAVE_GRAPHS_SORT_MODE",
    way: Way::Variable,
    values: Values::OneOf(&["0", "1"]),
    default: "0",
    about: "The order of nodes in these files. 0: as results need them; 1: as the calls came. \
            `MS_DEV_SAVE_GRAPHS_SORT_MODE` is the same.",
    read_by: "every context",
};

/// What `save_graphs` takes.
const LEVELS: &str = "it takes 0 to 3, true or false";

/// How much of compiled graphs is saved: a level from 0 to 3, or a truth value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SaveGraphs {
    /// `true` is level 2.
    Switch(bool),
    /// 0 for nothing, 1, 2 or 3.
    Level(i64),
}

impl From<bool> for SaveGraphs {
    fn from(on: bool) -> SaveGraphs {
        SaveGraphs::Switch(on)
    }
}

impl From<i64> for SaveGraphs {
    fn from(level: i64) -> SaveGraphs {
        SaveGraphs::Level(level)
    }
}

/// What is saved; each level has what those before it have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// The traced graph, the rewritten one, the program.
    Stages,
    /// Kernels.
    Kernels,
    /// Every pass, and the language of Graphviz.
    Passes,
}

impl SaveGraphs {
    /// The value of the variable `key`.
    pub(super) fn of_text(key: &str, text: &str) -> Result<SaveGraphs, SaveGraphsError> {
        match text {
            "true" => Ok(SaveGraphs::Switch(true)),
            "false" => Ok(SaveGraphs::Switch(false)),
            "0" | "1" | "2" | "3" => Ok(SaveGraphs::Level(i64::from(text.as_bytes()[0] - b'0'))),
            text => Err(wrong(key, text, LEVELS)),
        }
    }

    fn level(self) -> Result<Option<Level>, SaveGraphsError> {
        match self {
            SaveGraphs::Switch(false) | SaveGraphs::Level(0) => Ok(None),
            SaveGraphs::Level(1) => Ok(Some(Level::Stages)),
            SaveGraphs::Switch(true) | SaveGraphs::Level(2) => Ok(Some(Level::Kernels)),
            SaveGraphs::Level(3) => Ok(Some(Level::Passes)),
            SaveGraphs::Level(level) => Err(wrong(SAVE_GRAPHS.key, &level.to_string(), LEVELS)),
        }
    }
}

fn wrong(key: &str, value: &str, allowed: &'static str) -> SaveGraphsError {
    let (key, value) = (key.to_owned(), format!("{value:?}"));
    SaveGraphsError::Value { key, value, allowed }
}

/// The value that the environment has for a setting, and the name of the variable: ours, that of other programs, or that of other
/// programs as it is misspelt in places.
fn variable(setting: &Setting) -> Option<(String, OsString)> {
    let other = setting.variable.replacen("THALWEG", "MS_DEV", 1);
    let misspelt = other.replace("GRAPHS", "GRAPTHS");
    let read = |name: &str| Some((name.to_owned(), std::env::var_os(name)?));
    let found = read(setting.variable).or_else(|| read(&other));
    found.or_else(|| {
        let found = read(&misspelt)?;
        tracing::warn!("{misspelt} is heeded; its name is {other}");
        Some(found)
    })
}

/// Where the graphs of a context go.
#[derive(Clone, Debug)]
pub(crate) struct Saves {
    level: Level,
    /// Whether nodes are sorted as the calls came.
    by_calls: bool,
    folder: Arc<Folder>,
}

/// A folder that contexts write to.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    next: AtomicUsize,
    broken: AtomicBool,
}

/// The folders of this process: contexts that share one number its files together.
static FOLDERS: Mutex<BTreeMap<PathBuf, Arc<Folder>>> = Mutex::new(BTreeMap::new());

impl Saves {
    /// What the code asks for, or else the environment; `None` for nothing.
    ///
    /// # Errors
    /// Values that the settings do not take; a folder that cannot be made or written.
    pub(super) fn asked(which: Option<&SaveGraphs>, path: Option<&Path>) -> Result<Option<Saves>> {
        let level = match which {
            Some(which) => which.level()?,
            None => match variable(&SAVE_GRAPHS) {
                Some((name, value)) => SaveGraphs::of_text(&name, &value.to_string_lossy())?.level()?,
                None => None,
            },
        };
        let (key, path) = match path {
            Some(path) => (SAVE_GRAPHS_PATH.key.to_owned(), path.to_owned()),
            None => variable(&SAVE_GRAPHS_PATH).map_or_else(
                || (SAVE_GRAPHS_PATH.key.to_owned(), SAVE_GRAPHS_PATH.default.into()),
                |(name, value)| (name, value.into()),
            ),
        };
        if path.as_os_str().is_empty() {
            return Err(wrong(&key, "", "it takes a folder, such as `graphs`").into());
        }
        let by_calls = match variable(&SORT_MODE) {
            None => false,
            Some((name, value)) => match value.to_str() {
                Some("0") => false,
                Some("1") => true,
                Some(_) | None => {
                    return Err(wrong(&name, &value.to_string_lossy(), "it takes 0 or 1").into());
                }
            },
        };
        let Some(level) = level else { return Ok(None) };
        let folder = Folder::open(environment::path_of_rank(&path)?)?;
        switch::name_graphs();
        Ok(Some(Saves {
            level,
            by_calls,
            folder,
        }))
    }

    pub(crate) fn level(&self) -> Level {
        self.level
    }

    /// Whether nodes are sorted as the calls came.
    pub(crate) fn by_calls(&self) -> bool {
        self.by_calls
    }

    /// Writes the next file, `{number}_{name}.{extension}` for each of the texts, whole or not at all. One that cannot be written is told
    /// once, and ends saving into this folder.
    pub(crate) fn write(&self, name: &str, files: &[(&str, &str)]) {
        let number = self.folder.next.fetch_add(1, Ordering::Relaxed);
        for (extension, text) in files {
            if self.folder.broken.load(Ordering::Relaxed) {
                return;
            }
            let path = self.folder.path.join(format!("{number:02}_{name}.{extension}"));
            if let Err(error) = written(&path, text)
                && !self.folder.broken.swap(true, Ordering::Relaxed)
            {
                let error = Arc::new(error);
                tracing::warn!("{}", SaveGraphsError::Write { path, error });
            }
        }
    }
}

fn written(path: &Path, text: &str) -> io::Result<()> {
    file::replace(path, |file: &mut File| {
        file.write_all(text.as_bytes())?;
        file.set_permissions(Permissions::from_mode(0o400))
    })
}

impl Folder {
    /// The folder of a path, which is made and can be written.
    fn open(path: PathBuf) -> Result<Arc<Folder>, SaveGraphsError> {
        let failed = |error: io::Error| SaveGraphsError::Folder {
            path: path.clone(),
            error: Arc::new(error),
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(failed)?;
        let path = fs::canonicalize(&path).map_err(failed)?;
        let probe = path.join(format!(".thalweg.{}", std::process::id()));
        File::create(&probe).map_err(failed)?;
        // Another thread may have been faster.
        let _ = fs::remove_file(&probe);
        let mut folders = FOLDERS.lock();
        let folder = folders.entry(path).or_insert_with_key(|path| {
            Arc::new(Folder {
                path: path.clone(),
                next: AtomicUsize::new(0),
                broken: AtomicBool::new(false),
            })
        });
        Ok(Arc::clone(folder))
    }
}
