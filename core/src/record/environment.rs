//! Recordings that the environment asks for, and the rank of the process.

use super::error::ProfileError;
use super::session::{self, Options, Session};
use super::switch;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Once;
use thalweg_hal::settings::{Setting, Values, Way};

/// The folder of the program's profile.
pub(crate) const PROFILE: Setting = Setting {
    key: "profile",
    variable: "THALWEG_PROFILE",
    way: Way::Variable,
    values: Values::Range("a folder"),
    default: "none",
    about: "The program is profiled from its first context to its end, with everything on, into this folder. In code: \
            `observe::Profile`.",
    read_by: "the first context",
};

/// The rank of the process.
pub(crate) const RANK: Setting = Setting {
    key: "rank",
    variable: "THALWEG_RANK",
    way: Way::Variable,
    values: Values::Range("a whole number from 0"),
    default: "that of `RANK_ID`, or 0",
    about: "The rank of this process among those of a distributed run. Its files lie in a folder of its own, `rank_0`.",
    read_by: "profiles, the log",
};

/// The name of the rank in programs for other libraries.
const RANK_ID: &str = "RANK_ID";

/// The rank that the environment names, or 0.
pub(crate) fn rank() -> Result<u32, ProfileError> {
    let variables = [
        (RANK.variable, RANK.from_env()),
        (RANK_ID, std::env::var(RANK_ID).ok()),
    ];
    for (variable, value) in variables {
        if let Some(value) = value {
            return rank_of(variable, value);
        }
    }
    Ok(0)
}

fn rank_of(variable: &'static str, value: String) -> Result<u32, ProfileError> {
    match value.trim().parse() {
        Ok(rank) => Ok(rank),
        Err(_) => Err(ProfileError::Rank { variable, value }),
    }
}

/// The folder of a rank.
pub(crate) fn folder_of_rank(folder: &Path, rank: u32) -> PathBuf {
    match folder.to_str() {
        Some(text) if text.contains(RANK_IN_PATH) => text.replace(RANK_IN_PATH, &rank.to_string()).into(),
        Some(_) | None => folder.join(format!("rank_{rank}")),
    }
}

/// A path with the rank of the process where it says so.
pub(crate) fn path_of_rank(path: &Path) -> Result<PathBuf, ProfileError> {
    match path.to_str() {
        Some(text) if text.contains(RANK_IN_PATH) => {
            Ok(text.replace(RANK_IN_PATH, &rank()?.to_string()).into())
        }
        Some(_) | None => Ok(path.to_owned()),
    }
}

/// Where the rank stands in a path that says so.
const RANK_IN_PATH: &str = "{r}";

/// The session that lasts as long as the process.
static LASTING: Mutex<Option<Session>> = Mutex::new(None);

static ONCE: Once = Once::new();

/// Whether a context was made.
pub(crate) fn has_begun() -> bool {
    ONCE.is_completed()
}

/// Begins the session that the environment asks for. Later calls do nothing.
pub(crate) fn begin() {
    ONCE.call_once(|| {
        let Some(folder) = PROFILE.from_env_os().filter(|folder| !folder.is_empty()) else {
            return;
        };
        let settings = format!("{}={}\n", PROFILE.variable, Path::new(&folder).display());
        if let Err(error) = begin_lasting(Path::new(&folder), switch::ALL, settings) {
            tracing::error!("{error}; {} is not heeded", PROFILE.variable);
        }
    });
}

/// Begins a recording that ends with the process, unless [`end`] is called before.
pub(crate) fn begin_lasting(folder: &Path, bits: u32, settings: String) -> Result<(), ProfileError> {
    let rank = rank()?;
    let session = session::start(&Options {
        bits,
        folder: Some(folder_of_rank(folder, rank)),
        rank,
        settings,
    })?;
    *LASTING.lock() = Some(session);
    end_at_exit();
    Ok(())
}

/// Ends the recording that lasts as long as the process, if there is one.
pub(crate) fn end() -> Result<(), ProfileError> {
    let session = LASTING.lock().take();
    match session {
        Some(session) => session.stop().map(|_| ()),
        None => Ok(()),
    }
}

fn end_at_exit() {
    // SAFETY: the function stays as long as the process, and does not unwind.
    unsafe { libc::atexit(at_exit) };
}

/// A device takes part in the recording that runs. What is to happen at the exit happens in reverse order: the recording ends before
/// the device's driver does, which has asked for its end earlier.
pub(crate) fn attached() {
    if LASTING.lock().is_some() {
        end_at_exit();
    }
}

extern "C" fn at_exit() {
    // A panic must not leave a function of C.
    let _ = std::panic::catch_unwind(|| {
        let session = LASTING.lock().take();
        if let Some(session) = session {
            session.stop_at_exit();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_a_number() {
        assert_eq!(rank_of(RANK.variable, " 3 ".into()).unwrap(), 3);
        for wrong in ["-1", "", "one", "4294967296"] {
            let error = rank_of(RANK_ID, wrong.into()).unwrap_err().to_string();
            assert!(error.starts_with("profile: RANK_ID is"), "{error}");
        }
        assert_eq!(folder_of_rank(Path::new("out"), 3), Path::new("out/rank_3"));
        assert_eq!(folder_of_rank(Path::new("a_{r}/b"), 3), Path::new("a_3/b"));
    }
}
