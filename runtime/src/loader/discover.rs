//! Where plugins are looked for.

use super::layers::LAYERS;
use super::trust::{self, Strictness, TrustError};
use serde::Serialize;
use std::collections::HashSet;
use std::env::{self, consts};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thalweg_hal::settings::{Setting, Values, Way};

/// A list of folders that is searched after the explicit ones.
pub const BACKEND_PATH: Setting = Setting {
    key: "backend_path",
    variable: "THALWEG_BACKEND_PATH",
    way: Way::Variable,
    values: Values::Range("absolute folders with `:` between them"),
    default: "none",
    about: "Folders that are searched for plugins, after those that the program names. A program with raised privileges \
            ignores it. In code: `LoaderOptions::folders`.",
    read_by: "the loader",
};

/// The variable of [`BACKEND_PATH`].
pub const PATH_VARIABLE: &str = BACKEND_PATH.variable;

/// By which rule a folder is searched; the order is the order of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Named by the program.
    Option,
    /// Named by [`PATH_VARIABLE`].
    Environment,
    /// `backends/` beside the executable.
    BesideExecutable,
    /// `../lib/thalweg/backends` from the executable.
    Library,
    /// The build folder that the executable lies in.
    Development,
    /// [`user_folder`].
    User,
}

impl Origin {
    /// Whether somebody asked for this very folder, so that its absence is worth a word.
    fn named(self) -> bool {
        matches!(self, Origin::Option | Origin::Environment)
    }

    /// Whether embedded backends come before the files there: they were built with the program, these may be older.
    pub(super) fn after_embedded(self) -> bool {
        matches!(self, Origin::Development | Origin::User)
    }

    /// How strictly permissions are judged there.
    pub(super) fn strictness(self) -> Strictness {
        if self == Origin::Development {
            Strictness::GroupMayWrite
        } else {
            Strictness::Strict
        }
    }
}

/// What the search depends on besides the options.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The value of [`PATH_VARIABLE`].
    pub variable: Option<OsString>,
    /// The value of [`LAYERS`].
    pub layers: Option<String>,
    /// The path of the running program.
    pub executable: Option<PathBuf>,
    /// The folder of this user's plugins.
    pub user: Option<PathBuf>,
    /// Whether the program has more rights than whoever started it; the environment is then ignored.
    pub privileged: bool,
}

impl Surroundings {
    /// Those of this process.
    pub fn of_process() -> Surroundings {
        Surroundings {
            variable: BACKEND_PATH.from_env_os(),
            layers: LAYERS.from_env(),
            executable: env::current_exe().ok(),
            user: user_folder(),
            privileged: privileged(),
        }
    }
}

/// Where plugins lie that a user has installed for all of their programs: `thalweg/backends` in `XDG_DATA_HOME`, which is
/// `~/.local/share` unless it is set. `None` where the environment is not to be trusted or names no folder.
pub fn user_folder() -> Option<PathBuf> {
    if privileged() {
        return None;
    }
    let absolute = |name: &str| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let base = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")))?;
    Some(base.join("thalweg/backends"))
}

/// Whether the system started this program with raised privileges.
pub fn privileged() -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: getauxval reads a value that the kernel handed to the process.
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    #[cfg(not(target_os = "linux"))]
    // SAFETY: these take nothing and cannot fail.
    let secure = unsafe { libc::geteuid() != libc::getuid() || libc::getegid() != libc::getgid() };
    secure
}

/// A folder that is trusted and searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Its canonical path.
    pub path: PathBuf,
    /// Why it is searched.
    pub origin: Origin,
}

/// A file with the name of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The target that the file name speaks of.
    pub name: String,
    /// The path as found; links not followed.
    pub path: PathBuf,
    /// The folder it was found in.
    pub folder: Folder,
}

impl Found {
    /// How strictly the file's permissions are judged.
    pub fn strictness(&self) -> Strictness {
        self.folder.origin.strictness()
    }

    /// The name of the layer that the file name speaks of, `None` for that of a backend.
    pub fn layer(&self) -> Option<&str> {
        layer_of(&self.name)
    }
}

/// A place where plugins may lie, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The rule that names it.
    pub origin: Origin,
    /// The path; a canonical one where the folder is searched.
    pub path: PathBuf,
    /// What became of it.
    #[serde(flatten)]
    pub fate: Fate,
}

/// What became of a [`Place`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "fate", rename_all = "snake_case")]
pub enum Fate {
    /// It is searched.
    Searched,
    /// It was named before.
    Again,
    /// There is no such folder, and nobody asked for it.
    Missing,
    /// It is not to be trusted, or is not what was asked for.
    Refused {
        /// Why.
        reason: String,
    },
}

/// Every place where plugins may lie, in the order of the search.
pub fn places(explicit: &[PathBuf], development: bool, around: &Surroundings) -> Vec<Place> {
    let mut wanted: Vec<(Origin, PathBuf)> = explicit.iter().map(|p| (Origin::Option, p.clone())).collect();
    if let Some(list) = around.variable.as_ref().filter(|_| !around.privileged) {
        let named = env::split_paths(list).filter(|p| !p.as_os_str().is_empty());
        wanted.extend(named.map(|p| (Origin::Environment, p)));
    }
    if let Some(beside) = around.executable.as_deref().and_then(Path::parent) {
        wanted.push((Origin::BesideExecutable, beside.join("backends")));
        let above = beside.parent().unwrap_or(beside);
        wanted.push((Origin::Library, above.join("lib/thalweg/backends")));
        if development && !around.privileged {
            wanted.extend(
                build_folders(beside)
                    .into_iter()
                    .map(|p| (Origin::Development, p)),
            );
        }
    }
    if let Some(user) = around.user.as_ref().filter(|_| !around.privileged) {
        wanted.push((Origin::User, user.clone()));
    }
    let searched = |places: &[Place], path: &Path| {
        places
            .iter()
            .any(|place| place.path == path && place.fate == Fate::Searched)
    };
    let mut places = Vec::new();
    for (origin, path) in wanted {
        let (path, fate) = match judge_folder(&path, origin) {
            Ok(path) if searched(&places, &path) => (path, Fate::Again),
            Ok(path) => (path, Fate::Searched),
            Err(Some(reason)) => (path, Fate::Refused { reason }),
            Err(None) => (path, Fate::Missing),
        };
        places.push(Place { origin, path, fate });
    }
    places
}

fn judge_folder(path: &Path, origin: Origin) -> Result<PathBuf, Option<String>> {
    if !path.is_absolute() {
        return Err(Some(
            "a relative backend folder depends on where the program is started; name it absolutely".into(),
        ));
    }
    if !origin.named() && !path.exists() {
        return Err(None);
    }
    trust::folder(path, origin.strictness()).map_err(|error| Some(error.to_string()))
}

/// By which rule a plugin that is named by its path is judged.
pub(super) fn origin_of_file(folder: &Path) -> Origin {
    if build_folders(folder).is_empty() {
        Origin::Option
    } else {
        Origin::Development
    }
}

/// The build folder above `beside`, when cargo made one.
fn build_folders(beside: &Path) -> Vec<PathBuf> {
    let inner = beside
        .file_name()
        .is_some_and(|name| name == "deps" || name == "examples");
    let profile = if inner {
        beside.parent().unwrap_or(beside)
    } else {
        beside
    };
    if !profile.join(".fingerprint").is_dir() {
        return Vec::new();
    }
    let mut folders = vec![profile.to_path_buf()];
    if inner {
        folders.push(beside.to_path_buf());
    }
    folders
}

/// The plugin files of the places that are searched, each file once, in the order of the search. A place that cannot be
/// read becomes a refused one.
pub fn files(places: &mut [Place]) -> Vec<Found> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for place in places.iter_mut().filter(|place| place.fate == Fate::Searched) {
        let entries = match fs::read_dir(&place.path) {
            Ok(entries) => entries,
            Err(error) => {
                let reason = TrustError::Unreadable {
                    path: place.path.clone(),
                    error: error.to_string(),
                }
                .to_string();
                place.fate = Fate::Refused { reason };
                continue;
            }
        };
        let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        for file in names {
            let text = file.to_string_lossy();
            let Some(name) = target_of(&text) else { continue };
            let path = place.path.join(&file);
            // Cargo's build folder holds the same file twice.
            if fs::metadata(&path).is_ok_and(|meta| !seen.insert((meta.dev(), meta.ino()))) {
                continue;
            }
            found.push(Found {
                name: name.into(),
                path,
                folder: Folder {
                    path: place.path.clone(),
                    origin: place.origin,
                },
            });
        }
    }
    found
}

/// The file name of the plugin for `target`.
pub fn file_name(target: &str) -> String {
    format!("{}thalweg_{target}{}", consts::DLL_PREFIX, consts::DLL_SUFFIX)
}

/// The name of the layer, where the target of a file name speaks of one: `layer_NAME`.
pub fn layer_of(target: &str) -> Option<&str> {
    target.strip_prefix("layer_").filter(|name| !name.is_empty())
}

/// The target that a plugin's file name speaks of, `None` for any other file.
pub fn target_of(file: &str) -> Option<&str> {
    let name = file
        .strip_prefix(consts::DLL_PREFIX)?
        .strip_prefix("thalweg_")?
        .strip_suffix(consts::DLL_SUFFIX)?;
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn around(dir: &Path, exe: &str, variable: Option<&str>) -> Surroundings {
        Surroundings {
            variable: variable.map(Into::into),
            layers: None,
            executable: Some(dir.join(exe)),
            user: Some(dir.join("user")),
            privileged: false,
        }
    }

    #[test]
    fn folders_come_in_order_and_once() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let made = [
            "a",
            "b",
            "bin/backends",
            "lib/thalweg/backends",
            "bin/.fingerprint",
            "user",
        ];
        for dir in made {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        let list = env::join_paths([root.join("b"), root.join("a")]).unwrap();
        let around = around(&root, "bin/tool", list.to_str());
        let found = places(&[root.join("a")], true, &around);
        let searched = found.iter().filter(|place| place.fate == Fate::Searched);
        let rows: Vec<_> = searched.map(|place| (place.origin, place.path.clone())).collect();
        assert_eq!(
            rows,
            [
                (Origin::Option, root.join("a")),
                (Origin::Environment, root.join("b")),
                (Origin::BesideExecutable, root.join("bin/backends")),
                (Origin::Library, root.join("lib/thalweg/backends")),
                (Origin::Development, root.join("bin")),
                (Origin::User, root.join("user")),
            ]
        );
        let fates: Vec<_> = places(&[root.join("a"), root.join("none")], true, &around)
            .into_iter()
            .map(|place| place.fate)
            .collect();
        let missing = TrustError::Unreadable {
            path: root.join("none"),
            error: "No such file or directory (os error 2)".into(),
        };
        let refused = Fate::Refused {
            reason: missing.to_string(),
        };
        let searched = Fate::Searched;
        let all = [
            &searched,
            &refused,
            &searched,
            &Fate::Again,
            &searched,
            &searched,
            &searched,
            &searched,
        ];
        assert_eq!(fates.iter().collect::<Vec<_>>(), all);
        let found = places(
            &[],
            true,
            &Surroundings {
                privileged: true,
                ..around
            },
        );
        assert!(
            found
                .iter()
                .all(|f| !matches!(f.origin, Origin::Environment | Origin::Development | Origin::User))
        );
    }

    #[test]
    fn relative_missing_and_open_folders_are_rows() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let open = root.join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        let wanted = [PathBuf::from("backends"), root.join("none"), open.clone()];
        let found = places(&wanted, false, &around(&root, "bin/tool", Some(":.")));
        let reasons: Vec<_> = (found.iter())
            .filter_map(|place| match &place.fate {
                Fate::Refused { reason } => Some(reason.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(
            found.len() - reasons.len(),
            3,
            "the folders beside the executable and the user's are missing"
        );
        assert_eq!(
            reasons,
            [
                "a relative backend folder depends on where the program is started; name it absolutely"
                    .into(),
                format!(
                    "cannot read {}: No such file or directory (os error 2)",
                    root.join("none").display()
                ),
                format!(
                    "{0} can be written by others (mode 0777); run `chmod go-w {0}`",
                    open.display()
                ),
                "a relative backend folder depends on where the program is started; name it absolutely"
                    .into(),
            ]
        );
    }

    #[test]
    fn the_build_folder_is_known_by_cargos_marks() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        for dir in ["debug/.fingerprint", "debug/deps", "plain/deps"] {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        assert_eq!(
            build_folders(&root.join("debug/deps")),
            [root.join("debug"), root.join("debug/deps")]
        );
        assert_eq!(build_folders(&root.join("debug")), [root.join("debug")]);
        assert!(build_folders(&root.join("plain/deps")).is_empty());
    }

    #[test]
    fn files_are_sorted_and_listed_once() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        for dir in ["a", "b"] {
            fs::create_dir(root.join(dir)).unwrap();
        }
        for name in ["b", "a"] {
            fs::write(root.join("a").join(file_name(name)), name).unwrap();
        }
        fs::write(root.join("a/libother.so"), "").unwrap();
        fs::hard_link(
            root.join("a").join(file_name("a")),
            root.join("b").join(file_name("a")),
        )
        .unwrap();
        let place = |dir| Place {
            path: root.join(dir),
            origin: Origin::Option,
            fate: Fate::Searched,
        };
        let mut places = [place("a"), place("none"), place("b")];
        let found = files(&mut places);
        let names: Vec<_> = found.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(matches!(&places[1].fate, Fate::Refused { reason } if reason.starts_with("cannot read ")));
        assert_eq!(places[2].fate, Fate::Searched);
        assert_eq!(
            (
                target_of(&file_name("x")),
                target_of("libthalweg_.so"),
                target_of("x.so")
            ),
            (Some("x"), None, None)
        );
    }
}
