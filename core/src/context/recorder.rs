//! How the flight recorder is asked for: by a file in JSON, or by the environment.

use crate::error::Result;
use crate::options::by_name::{Key, WrongOption, option_keys, parsed, set_all, store, wrong};
use crate::record::environment;
use crate::record::flight::error::FlightError;
use crate::record::flight::{self, Mode, Options};
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use thalweg_hal::settings::{Setting, Values, Way};

pub(super) const ENV_CONFIG_PATH: Setting = Setting {
    key: "env_config_path",
    variable: "THALWEG_ENV_CONFIG_PATH",
    way: Way::Option,
    values: Values::Range("a file in JSON"),
    default: "none",
    about: "A file with options of the flight recorder: `{\"rdr\": {\"enable\": true, \"path\": \"/out\", \"mode\": 1}}`. The first \
            context of a process decides.",
    read_by: "the first context",
};

const ENABLE: Setting = Setting {
    key: "rdr_enable",
    variable: "THALWEG_RDR_ENABLE",
    way: Way::Variable,
    values: Values::OneOf(&["0", "1"]),
    default: "0",
    about: "Whether the flight recorder keeps the last launches, changes of memory and graphs. `MS_RDR_ENABLE` is the same.",
    read_by: "the first context",
};

const PATH: Setting = Setting {
    key: "rdr_path",
    variable: "THALWEG_RDR_PATH",
    way: Way::Variable,
    values: Values::Range("an absolute path"),
    default: "the working directory",
    about: "The folder of its files, which lie in `rank_0/rdr` there. `MS_RDR_PATH` is the same.",
    read_by: "the first context",
};

const MODE: Setting = Setting {
    key: "rdr_mode",
    variable: "THALWEG_RDR_MODE",
    way: Way::Variable,
    values: Values::OneOf(&["1", "2"]),
    default: "1",
    about: "When it writes what people read. 1: on errors; 2: at the end of the program too. `MS_RDR_MODE` is the same.",
    read_by: "the first context",
};

/// What a file or the environment says; `None` for what it does not say.
#[derive(Debug, Default, PartialEq)]
struct Asked {
    enable: Option<bool>,
    path: Option<PathBuf>,
    mode: Option<Mode>,
}

const ROOT: &[Key<Asked>] = option_keys! {
    "rdr", "none", "an object with enable, path and mode", "The flight recorder.":
        |to, value| set_all(KEYS, to, value).map(Some);
};

const KEYS: &[Key<Asked>] = option_keys! {
    "rdr.enable", "false", "true or false", "Whether it records.":
        |to, value| store(&mut to.enable, value.as_bool().map(Some));
    "rdr.path", "the working directory", ABSOLUTE, "The folder of its files.":
        |to, value| store(&mut to.path, value.as_str().and_then(absolute).map(Some));
    "rdr.mode", "1", "1 or 2", "When it writes what people read.":
        |to, value| store(&mut to.mode, value.as_u64().and_then(mode).map(Some));
};

const ABSOLUTE: &str = "an absolute path";

fn absolute(path: impl AsRef<Path>) -> Option<PathBuf> {
    let path = path.as_ref();
    path.is_absolute().then(|| path.to_owned())
}

fn mode(number: u64) -> Option<Mode> {
    match number {
        1 => Some(Mode::Errors),
        2 => Some(Mode::End),
        _ => None,
    }
}

fn refused(WrongOption { key, value, allowed }: WrongOption) -> FlightError {
    FlightError::Value { key, value, allowed }
}

impl Asked {
    fn of_text(text: &str) -> Result<Asked, FlightError> {
        let mut asked = Asked::default();
        let value: Value = parsed(ENV_CONFIG_PATH.key, text).map_err(refused)?;
        set_all(ROOT, &mut asked, &value).map_err(refused)?;
        Ok(asked)
    }

    fn of_file(path: &Path) -> Result<Asked, FlightError> {
        let text = std::fs::read_to_string(path).map_err(|error| FlightError::Read {
            path: path.to_owned(),
            why: error.to_string(),
        })?;
        Asked::of_text(&text)
    }

    /// What the variables say, which `read` gives: ours, or else those of other programs.
    fn of_variables(read: &dyn Fn(&str) -> Option<OsString>) -> Result<Asked, FlightError> {
        fn value<T>(
            setting: Setting,
            allowed: &str,
            read: &dyn Fn(&str) -> Option<OsString>,
            of: impl Fn(&str) -> Option<T>,
        ) -> Result<Option<T>, FlightError> {
            let other = setting.variable.replacen("THALWEG", "MS", 1);
            let names = [setting.variable, other.as_str()];
            let Some((name, value)) = names.into_iter().find_map(|name| Some((name, read(name)?))) else {
                return Ok(None);
            };
            let text = value.to_string_lossy();
            match value.to_str().and_then(of) {
                Some(value) => Ok(Some(value)),
                None => Err(refused(wrong(
                    name,
                    format!("{text:?}"),
                    &format!("it takes {allowed}"),
                ))),
            }
        }
        let switch = |text: &str| match text {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        };
        Ok(Asked {
            enable: value(ENABLE, "0 or 1", read, switch)?,
            path: value(PATH, ABSOLUTE, read, |text| absolute(text))?,
            mode: value(MODE, "1 or 2", read, |text| mode(text.parse().ok()?))?,
        })
    }

    /// What `self` says, and `other` where it says nothing.
    fn or(self, other: Asked) -> Asked {
        Asked {
            enable: self.enable.or(other.enable),
            path: self.path.or(other.path),
            mode: self.mode.or(other.mode),
        }
    }
}

/// Whether a text is a configuration of the flight recorder.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check_config(text: &str) -> Result<(), FlightError> {
    Asked::of_text(text).map(|_| ())
}

/// Begins what the variables ask for, or else the file, which the environment names where the code does not.
///
/// # Errors
/// A file that cannot be read; a key or a value that does not exist; a folder that cannot be written; other options than the first
/// context had.
pub(super) fn begin(file: Option<&Path>) -> Result<()> {
    let named = ENV_CONFIG_PATH.from_env_os().map(PathBuf::from);
    let of_file = file.or(named.as_deref()).map(Asked::of_file).transpose()?;
    let asked = Asked::of_variables(&|name| std::env::var_os(name))?.or(of_file.unwrap_or_default());
    if asked.enable != Some(true) {
        return Ok(());
    }
    let path = match asked.path {
        Some(path) => path,
        None => std::env::current_dir().map_err(|error| FlightError::Folder {
            path: ".".into(),
            error: error.into(),
        })?,
    };
    flight::start(Options {
        path,
        rank: environment::rank()?,
        mode: asked.mode.unwrap_or_default(),
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Result<Asked, String> {
        let read = |name: &str| {
            pairs
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| value.into())
        };
        Asked::of_variables(&read).map_err(|error| error.to_string())
    }

    #[test]
    fn keys_are_in_a_file() {
        let all = Asked::of_text(r#"{"rdr": {"enable": true, "path": "/out", "mode": 2}}"#).unwrap();
        assert_eq!(
            all,
            Asked {
                enable: Some(true),
                path: Some("/out".into()),
                mode: Some(Mode::End)
            }
        );
        assert_eq!(Asked::of_text("{}").unwrap(), Asked::default());
        for (text, wanted) in [
            (r#"{"rdr": {"enable": 1}}"#, "enable is 1; it takes true or false"),
            (
                r#"{"rdr": {"path": "out"}}"#,
                "path is \"out\"; it takes an absolute path",
            ),
            (
                r#"{"rdr": {"path": ""}}"#,
                "path is \"\"; it takes an absolute path",
            ),
            (r#"{"rdr": {"mode": 0}}"#, "mode is 0; it takes 1 or 2"),
            (
                r#"{"rdr": {"enabel": true}}"#,
                "enabel is true; there is no such key; near it are enable",
            ),
            (
                r#"{"rdx": {}}"#,
                "rdx is {}; there is no such key; near it are rdr",
            ),
            (r#"{"rdr": 1}"#, "the options is 1; they are an object in JSON"),
            ("[", "env_config_path is [; they are JSON: "),
        ] {
            let error = Asked::of_text(text).unwrap_err().to_string();
            assert!(error.starts_with(wanted) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn variables_win_over_a_file_and_ours_over_others() {
        let other = of(&[
            ("MS_RDR_ENABLE", "1"),
            ("MS_RDR_PATH", "/a"),
            ("MS_RDR_MODE", "2"),
        ])
        .unwrap();
        assert_eq!(
            other,
            Asked {
                enable: Some(true),
                path: Some("/a".into()),
                mode: Some(Mode::End)
            }
        );
        let both = of(&[("MS_RDR_ENABLE", "1"), ("THALWEG_RDR_ENABLE", "0")]).unwrap();
        assert_eq!(both.enable, Some(false));
        let joined = both.or(other);
        assert_eq!((joined.enable, joined.path), (Some(false), Some("/a".into())));
        for (name, value, wanted) in [
            (
                "MS_RDR_ENABLE",
                "yes",
                "MS_RDR_ENABLE is \"yes\"; it takes 0 or 1",
            ),
            (
                "THALWEG_RDR_PATH",
                "out",
                "THALWEG_RDR_PATH is \"out\"; it takes an absolute path",
            ),
            ("MS_RDR_MODE", "3", "MS_RDR_MODE is \"3\"; it takes 1 or 2"),
        ] {
            assert_eq!(of(&[(name, value)]).unwrap_err(), wanted);
        }
    }
}
