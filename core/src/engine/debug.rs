//! How much is written about kernels, once for a process.

use crate::error::{KernelMetaError, Result, SessionError};
use crate::record::switch;
use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use thalweg_hal::settings::{Setting, Values, Way};

pub(crate) const OP_DEBUG_LEVEL: Setting = Setting {
    key: "op_debug_level",
    variable: "THALWEG_OP_DEBUG_LEVEL",
    way: Way::Option,
    values: Values::OneOf(&["0", "1", "2", "3", "4"]),
    default: "0",
    about: "What is written to `kernel_meta/` in the working directory about each kernel that runs. 1: source, its lines, binary, facts; \
            2: the same of kernels that are not optimised, and indices are checked; 3: binary and facts; 4: these, source and IR. \
            It is the process's, and no level changes a bit.",
    read_by: "`ContextBuilder`, `SessionOptions`",
};

/// The folder of what is written.
pub(crate) const FOLDER: &str = "kernel_meta";

/// What is written about each kernel that runs, to the folder `kernel_meta` in the working directory. No level changes a bit of what is
/// computed.
///
/// ```
/// use thalweg::context::DebugLevel;
/// assert_eq!(DebugLevel::try_from(2)?, DebugLevel::Checked);
/// let error = DebugLevel::try_from(5).unwrap_err();
/// assert_eq!(error.to_string(), "op_debug_level is 5; it takes 0 to 4");
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum DebugLevel {
    /// 0: nothing.
    #[default]
    Off = 0,
    /// 1: the source that the backend wrote, which of its lines belong to which calls, the binary, and facts.
    Sources = 1,
    /// 2: the same, of kernels that the device's compiler does not optimise. An index that its axis does not have is an error:
    /// [`Context::check_indices`](crate::Context::check_indices).
    Checked = 2,
    /// 3: the binary and facts.
    Binaries = 3,
    /// 4: the binary, facts, the source and the kernel in the IR.
    Everything = 4,
}

impl TryFrom<i64> for DebugLevel {
    type Error = SessionError;

    fn try_from(level: i64) -> Result<DebugLevel, SessionError> {
        Ok(match level {
            0 => DebugLevel::Off,
            1 => DebugLevel::Sources,
            2 => DebugLevel::Checked,
            3 => DebugLevel::Binaries,
            4 => DebugLevel::Everything,
            level => {
                return Err(SessionError::Option {
                    key: OP_DEBUG_LEVEL.key.to_owned(),
                    value: level.to_string(),
                    allowed: "it takes 0 to 4".to_owned(),
                });
            }
        })
    }
}

impl fmt::Display for DebugLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", *self as u8)
    }
}

impl DebugLevel {
    /// Whether sources are written.
    pub(super) fn has_source(self) -> bool {
        !matches!(self, DebugLevel::Off | DebugLevel::Binaries)
    }

    /// Whether lines of sources are.
    pub(super) fn has_lines(self) -> bool {
        matches!(self, DebugLevel::Sources | DebugLevel::Checked)
    }

    /// Whether the IR is.
    pub(super) fn has_compute(self) -> bool {
        self == DebugLevel::Everything
    }

    /// Whether kernels are optimised.
    pub(super) fn optimises(self) -> bool {
        self != DebugLevel::Checked
    }
}

/// What the process has.
#[derive(Debug)]
struct Chosen {
    level: DebugLevel,
    folder: PathBuf,
}

/// What the first context or the session chose.
static CHOSEN: OnceLock<Chosen> = OnceLock::new();

/// Chooses the level, unless that was done; the one that holds. Nothing that was asked for is no level, or the one before.
///
/// # Errors
/// Another level than the process has; a folder that cannot be written.
pub(crate) fn choose(asked: Option<DebugLevel>) -> Result<DebugLevel> {
    let chosen = match CHOSEN.get() {
        Some(chosen) => chosen,
        None => {
            let level = asked.unwrap_or_default();
            let folder = match level {
                DebugLevel::Off => PathBuf::new(),
                _ => made(Path::new(FOLDER))?,
            };
            CHOSEN.get_or_init(|| Chosen { level, folder })
        }
    };
    match asked {
        Some(asked) if asked != chosen.level => Err(SessionError::Late {
            key: OP_DEBUG_LEVEL.key,
            value: asked.to_string(),
            set: chosen.level.to_string(),
        }
        .into()),
        _ => {
            if chosen.level != DebugLevel::Off {
                switch::name_graphs();
            }
            Ok(chosen.level)
        }
    }
}

/// The level and its folder; `None` where nothing is written.
pub(super) fn chosen() -> Option<(DebugLevel, &'static Path)> {
    let chosen = CHOSEN.get()?;
    (chosen.level != DebugLevel::Off).then_some((chosen.level, &chosen.folder))
}

/// The folder, which is made and can be written.
fn made(folder: &Path) -> Result<PathBuf, KernelMetaError> {
    let failed = |error: io::Error| KernelMetaError {
        path: folder.to_owned(),
        error: Arc::new(error),
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(failed)?;
    let folder = fs::canonicalize(folder).map_err(failed)?;
    let probe = folder.join(format!(".thalweg.{}", std::process::id()));
    File::create(&probe).map_err(failed)?;
    // Another thread may have been faster.
    let _ = fs::remove_file(&probe);
    Ok(folder)
}
