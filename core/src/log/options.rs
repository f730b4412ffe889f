//! What is logged and where to.

use super::level::Level;
use super::logger::{self, Logger};
use super::module::{self, Filter};
use super::settings::{DIR, FILES, LEVEL, MAX_SIZE, MODULES, Row, TO_STDERR};
use crate::context::Size;
use crate::error::{Result, SessionError};
use crate::options::by_name::{WrongOption, wrong};
use crate::record::environment;
use crate::record::error::ProfileError;
use parking_lot::Mutex;
use std::ffi::OsString;
use std::path::PathBuf;

/// What is logged and where to. [`LogOptions::install`] makes it the log of the process.
///
/// ```
/// use thalweg::log::{Level, LogOptions};
/// let options = LogOptions::default().level(Level::Info).module("LOADER", Level::Debug);
/// assert!(options.install()?);
/// let late = LogOptions::default().install().unwrap_err();
/// assert!(late.to_string().starts_with("log_level is 2, but the process has 1"));
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    level: Level,
    modules: Vec<(String, Level)>,
    to_stderr: bool,
    dir: Option<PathBuf>,
    max_size: Size,
    files: usize,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            level: Level::Warning,
            modules: Vec::new(),
            to_stderr: true,
            dir: None,
            max_size: Size::Bytes(50 << 20),
            files: 30,
        }
    }
}

crate::options! { LogOptions {
    /// The least level of lines; [`Level::Warning`] unless set.
    level: Level,
    /// Whether lines go to the screen, which they do unless this is false. Then they go to files, in [`LogOptions::dir`].
    to_stderr: bool,
    /// Longest file: bytes, or a text such as `50 MiB`, which it is unless set. A longer line has a file of its own.
    max_size: impl Into<Size>,
    /// Most files of a level that the process keeps; 30 unless set.
    files: usize,
} }

/// The options of the process, once its log is there.
static INSTALLED: Mutex<Option<LogOptions>> = Mutex::new(None);

impl LogOptions {
    /// The least level of a module, by its name in lines, in place of [`LogOptions::level`].
    #[must_use]
    pub fn module(mut self, name: impl Into<String>, level: Level) -> LogOptions {
        self.modules.push((name.into(), level));
        self
    }

    /// The folder of files. They lie in `rank_0/logs` inside of it, with the rank of the process; `{r}` stands for the rank where
    /// the path has it.
    #[must_use]
    pub fn dir(mut self, folder: impl Into<PathBuf>) -> LogOptions {
        self.dir = Some(folder.into());
        self
    }

    /// The options of the environment: `THALWEG_LOG_LEVEL` and its kin, or the names of other frameworks where they are not set.
    ///
    /// # Errors
    /// A variable with a value that it does not take.
    pub fn from_env() -> Result<LogOptions> {
        LogOptions::from_variables(|name| std::env::var_os(name))
    }

    pub(super) fn from_variables(value: impl Fn(&str) -> Option<OsString>) -> Result<LogOptions> {
        let os = |row: Row| {
            let own = value(row.setting.variable).map(|text| (row.setting.variable, text));
            own.or_else(|| row.alias.and_then(|name| Some((name, value(name)?))))
        };
        let text = |row: Row| os(row).map(|(name, text)| (name, text.to_string_lossy().into_owned()));
        let mut options = LogOptions::default();
        if let Some((name, text)) = text(LEVEL) {
            let level = Level::of_number(&text);
            options.level =
                level.ok_or_else(|| refused(name, &text, "it takes a whole number from 0 to 4"))?;
        }
        if let Some((name, text)) = text(MODULES) {
            options.modules = module::parse(name, &text).map_err(SessionError::from)?;
        }
        if let Some((name, text)) = text(TO_STDERR) {
            options.to_stderr = match text.trim() {
                "1" => true,
                "0" => false,
                _ => return Err(refused(name, &text, "it takes 1 or 0").into()),
            };
        }
        if let Some((name, folder)) = os(DIR) {
            if folder.is_empty() {
                return Err(refused(name, "", "it takes a folder").into());
            }
            options.dir = Some(folder.into());
        }
        if let Some((name, text)) = text(MAX_SIZE) {
            let size = Size::Text(text.clone());
            size.bytes()
                .filter(|bytes| *bytes > 0)
                .ok_or_else(|| refused(name, &text, SIZES))?;
            options.max_size = size;
        }
        if let Some((name, text)) = text(FILES) {
            let files = text.trim().parse().ok().filter(|files| *files > 0);
            options.files = files.ok_or_else(|| refused(name, &text, FROM_1))?;
        }
        Ok(options)
    }

    /// Makes this the log of the process, unless the program has a subscriber of [`tracing`] for all threads: then that stays.
    /// Whether lines go to this log. A later call with the same options does nothing.
    ///
    /// # Errors
    /// A value that is not allowed, by itself or beside another; other options than the log of the process has. Files that cannot be
    /// written are none: one line says so, and lines go to the screen.
    pub fn install(self) -> Result<bool> {
        let mut installed = INSTALLED.lock();
        if let Some(old) = &*installed {
            return match old.differs(&self) {
                None => Ok(true),
                Some(late) => Err(late.into()),
            };
        }
        let filter = Filter::new(self.level, &self.modules).map_err(SessionError::from)?;
        let size = self.max_size.bytes().filter(|bytes| *bytes > 0);
        let size = size.ok_or_else(|| refused("log_max_size", &self.max_size, SIZES))?;
        if self.files == 0 {
            return Err(refused("log_files", 0, FROM_1).into());
        }
        let folder = match (self.to_stderr, &self.dir) {
            (true, _) => None,
            (false, Some(folder)) => Some(folder_of_rank(folder)?),
            (false, None) => return Err(refused("log_to_stderr", 0, NEEDS_DIR).into()),
        };
        let logger = Logger::new(filter, folder.map(|folder| (folder, size, self.files)));
        let ours = logger::install(logger);
        if ours {
            *installed = Some(self);
        }
        Ok(ours)
    }

    /// The first option that differs in `other`.
    fn differs(&self, other: &LogOptions) -> Option<SessionError> {
        let (mine, others) = (self.texts(), other.texts());
        let mut pairs = mine.into_iter().zip(others);
        let ((key, set), (_, value)) = pairs.find(|(mine, other)| mine != other)?;
        Some(SessionError::Late { key, value, set })
    }

    /// The options by their keys, as the variables say them.
    fn texts(&self) -> [(&'static str, String); 6] {
        let modules: Vec<String> = self
            .modules
            .iter()
            .map(|(name, level)| format!("{name}:{}", *level as u8))
            .collect();
        let dir = self
            .dir
            .as_ref()
            .map_or("none".into(), |dir| dir.display().to_string());
        [
            (LEVEL.setting.key, (self.level as u8).to_string()),
            (MODULES.setting.key, format!("{{{}}}", modules.join(","))),
            (TO_STDERR.setting.key, u8::from(self.to_stderr).to_string()),
            (DIR.setting.key, dir),
            (MAX_SIZE.setting.key, self.max_size.to_string()),
            (FILES.setting.key, self.files.to_string()),
        ]
    }
}

const SIZES: &str = "it takes bytes from 1, or a size such as 50 MiB";
const FROM_1: &str = "it takes a whole number from 1";
const NEEDS_DIR: &str = "files need log_dir: THALWEG_LOG_DIR, GLOG_log_dir or LogOptions::dir";

/// Where the files of this process lie.
fn folder_of_rank(folder: &std::path::Path) -> Result<PathBuf, SessionError> {
    let rank = environment::rank().map_err(|error| match error {
        ProfileError::Rank { variable, value } => {
            refused(variable, value, "it takes a whole number from 0 to 4294967295")
        }
        other => refused("rank", "unknown", &other.to_string()),
    })?;
    // What the program does later with its working directory moves no file.
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    Ok(environment::folder_of_rank(&folder, rank).join("logs"))
}

fn refused(key: &str, value: impl ToString, allowed: &str) -> SessionError {
    wrong(key, value, allowed).into()
}

impl From<WrongOption> for SessionError {
    fn from(WrongOption { key, value, allowed }: WrongOption) -> SessionError {
        SessionError::Option { key, value, allowed }
    }
}
