//! What users may set: one row for each thing, from which the code reads and the page `docs/settings.md` is made.
//!
//! A row stands beside the code that reads it, as a `const`. `cargo xtask settings` finds all of them.
//!
//! ```
//! use thalweg_hal::settings::{Setting, Values, Way};
//! const BLOCKING: Setting = Setting {
//!     key: "acme.blocking",
//!     variable: "THALWEG_ACME_BLOCKING",
//!     way: Way::Config,
//!     values: Values::OneOf(&["on", "off"]),
//!     default: "off",
//!     about: "Every submission waits for its end.",
//!     read_by: "backend acme",
//! };
//! # fn read(host: thalweg_hal::Host) -> thalweg_hal::Result<bool> {
//! let blocking = BLOCKING.is_on(host)?; // `off` unless set; any other word is an error
//! # Ok(blocking) }
//! ```

use crate::host::Host;
use crate::status::{Error, Result};
use std::ffi::OsString;

/// Something that users may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name in code and in files; settings of a backend start with the backend's name and a dot.
    pub key: &'static str,
    /// The environment variable: `THALWEG_` and the key in upper case, with `_` for a dot.
    pub variable: &'static str,
    /// How it is set besides the variable.
    pub way: Way,
    /// What it takes.
    pub values: Values,
    /// What holds when nothing is set: one of the values, or a description where that depends on the machine.
    pub default: &'static str,
    /// What it does, in whole sentences.
    pub about: &'static str,
    /// Who reads it.
    pub read_by: &'static str,
}

/// How a setting is set besides its environment variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A method of a context's builder by the name of the key, and the key in a TOML file.
    Option,
    /// A method of the options of a session by the name of the key, and the key in a TOML file.
    Session,
    /// The host's configuration under the key, which wins over the variable.
    Config,
    /// Not at all.
    Variable,
}

/// What a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Values of this type and range.
    Range(&'static str),
}

impl Setting {
    /// The variable's value; `None` where it is not set or is no text.
    pub fn from_env(&self) -> Option<String> {
        std::env::var(self.variable).ok()
    }

    /// The variable's value as the system has it.
    pub fn from_env_os(&self) -> Option<OsString> {
        std::env::var_os(self.variable)
    }

    /// What the host's configuration says, the variable included.
    pub fn of(&self, host: Host) -> Option<String> {
        host.config(self.key)
    }

    /// The word that is set, or the default.
    ///
    /// # Errors
    /// A word that the setting does not take.
    pub fn word(&self, host: Host) -> Result<String> {
        let value = self.of(host).unwrap_or_else(|| self.default.to_owned());
        match self.values {
            Values::OneOf(words) if !words.contains(&value.as_str()) => {
                let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
                Err(Error::invalid_argument(format!(
                    "{} is `{value}`; it takes {}",
                    self.key,
                    words.join(" or ")
                )))
            }
            _ => Ok(value),
        }
    }

    /// Whether the word that is set, or the default, is `on`.
    ///
    /// # Errors
    /// As [`Setting::word`].
    pub fn is_on(&self, host: Host) -> Result<bool> {
        self.word(host).map(|word| word == "on")
    }
}
